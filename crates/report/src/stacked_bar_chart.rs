//! Bars made of parts: how much of everything, and how much in all.

use super::axis::{Axis, Measure};
use super::svg::{Drawing, Figure, Panel, WIDTH, text_width};
use super::text;
use crate::finding::{Part, Plot};

const ROW: f64 = 27.0;
const LEFT: f64 = 62.0;
/// Room at the right for the sum.
const RIGHT: f64 = 64.0;
const FOOT: f64 = 42.0;

/// Class of a part's marks.
fn class(part: Part) -> &'static str {
    match part {
        Part::Active => "active",
        Part::Restarts => "lost",
        Part::Idle => "idle",
        Part::Unused => "unused",
    }
}

/// The chart of [`Plot::StackedBars`].
pub(super) fn figure(plot: &Plot) -> Figure {
    let Plot::StackedBars { name, title, caption, unit, parts, bars } = plot else { unreachable!("asked for stacks") };
    let widest = bars.iter().map(|(name, _)| text_width(&text::shorten(name, 26))).fold(0.0, f64::max);
    let left = (widest + 16.0).max(LEFT);
    let mut drawing = Drawing::default();
    let keys: Vec<(String, String)> =
        parts.iter().map(|part| (class(*part).to_owned(), part.label().to_owned())).collect();
    let top = drawing.legend((14.0, 4.0), WIDTH - 14.0, &keys) + 6.0;
    let bottom = top + ROW * bars.len() as f64;
    let sum = |amounts: &[f64]| amounts.iter().filter(|a| a.is_finite()).sum::<f64>();
    let high = bars.iter().map(|(_, amounts)| sum(amounts)).fold(0.0, f64::max);
    let panel =
        Panel { x: Axis::upto(high, Measure::Plain, (left, WIDTH - RIGHT), 56.0), y: Axis::bare((bottom, top)) };
    panel.frame(&mut drawing, unit);
    for (i, (name, amounts)) in bars.iter().enumerate() {
        let (top, all) = (top + ROW * i as f64, sum(amounts));
        drawing.text("end", (left - 8.0, top + 18.0), &text::shorten(name, 26));
        let mut until = 0.0;
        for (part, amount) in parts.iter().zip(amounts).filter(|(_, amount)| amount.is_finite()) {
            let (from, to) = (panel.x.at(until), panel.x.at(until + amount));
            until += amount;
            let said = text::figures(*amount);
            let tip = format!("{name}, {}: {said} {unit} ({})", part.label(), text::percent(amount / all));
            drawing.rect(class(*part), [from, top + 5.0, to - from, 18.0], &tip);
            // Numbers inside bars are set a twelfth smaller.
            if to - from > text_width(&said) * 11.0 / 12.0 + 4.0 {
                let ink = if matches!(part, Part::Idle | Part::Unused) { "on-idle mid" } else { "inside mid" };
                drawing.text(ink, ((from + to) / 2.0, top + 18.0), &said);
            }
        }
        drawing.text("strong halo", (panel.x.at(until) + 8.0, top + 18.0), &text::figures(all));
    }
    Figure::new(name, title, caption.clone(), (WIDTH, bottom + FOOT), drawing)
}
