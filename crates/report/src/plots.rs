//! Charts of experiments: bars with intervals, and lines of one policy each; other forms have files of their own.

use super::axis::{Axis, Measure};
use super::svg::{Drawing, Figure, Panel, WIDTH, px, text_width};
use super::{courses, maps, stacks, text, theme};
use crate::finding::{Line, Plot, Style};
use std::fmt::Write;

const RIGHT: f64 = 22.0;
const LEFT: f64 = 62.0;
const FOOT: f64 = 42.0;
const ROW: f64 = 27.0;

/// The chart of a finding; `colour` knows the place of a policy among all that the page tells of.
pub(super) fn figure(plot: &Plot, colour: &dyn Fn(&str) -> usize) -> Figure {
    match plot {
        Plot::Bars { .. } => bars(plot, colour),
        Plot::Lines { .. } => lines(plot, colour),
        Plot::Courses { .. } => courses::figure(plot, colour),
        Plot::Stacks { .. } => stacks::figure(plot),
        Plot::Maps { .. } => maps::figure(plot),
    }
}

fn bars(plot: &Plot, colour: &dyn Fn(&str) -> usize) -> Figure {
    let Plot::Bars { name, title, reading, unit, style, base, bars } = plot else { unreachable!("asked for bars") };
    let widest = bars.iter().map(|(name, ..)| text_width(&text::shorten(name, 26))).fold(0.0, f64::max);
    let left = (widest + 16.0).max(LEFT);
    let bottom = 6.0 + ROW * bars.len() as f64;
    let ends = bars.iter().filter(|bar| bar.1.is_finite()).map(|(_, value, half)| (*value, half.unwrap_or(0.0)));
    let low = ends.clone().map(|(v, h)| v - h).fold(*base, f64::min);
    let high = ends.map(|(v, h)| v + h).fold(*base, f64::max);
    let measure = if matches!(style, Style::Plain(_)) { Measure::Plain } else { Measure::Ratio };
    let panel =
        Panel { x: Axis::between((low, high), measure, (left, WIDTH - 96.0), 56.0), y: Axis::bare((bottom, 6.0)) };
    let mut drawing = Drawing::default();
    panel.frame(&mut drawing, unit);
    for (i, (name, value, half)) in bars.iter().enumerate() {
        let top = 6.0 + ROW * i as f64;
        let (zero, end) = (panel.x.at(*base), panel.x.at(*value));
        let said = match half {
            Some(half) => format!("{} ± {}", style.say(*value), style.say(*half).trim_start_matches('+')),
            None => style.say(*value),
        };
        drawing.text("end", (left - 8.0, top + 18.0), &text::shorten(name, 26));
        let place = [zero.min(end), top + 5.0, (end - zero).abs(), 17.0];
        drawing.rect(&format!("fill {}", theme::policy(colour(name))), place, &format!("{name}: {said}"));
        let mut after = zero.max(end);
        if let Some(half) = half {
            let (from, to, y) = (panel.x.at(value - half), panel.x.at(value + half), top + 13.5);
            drawing.line("owed", (from, y), (to, y));
            after = after.max(to);
        }
        drawing.text("halo", (after + 6.0, top + 18.0), &style.say(*value));
    }
    let zero = panel.x.at(*base);
    drawing.line("axis", (zero, 6.0), (zero, bottom));
    Figure::new(name, title, reading.clone(), (WIDTH, bottom + FOOT), drawing)
}

fn lines(plot: &Plot, colour: &dyn Fn(&str) -> usize) -> Figure {
    let Plot::Lines { name, title, reading, across, up, log, lines } = plot else { unreachable!("asked for lines") };
    let mut drawing = Drawing::default();
    let keys: Vec<(String, String)> =
        lines.iter().map(|line| (format!("fill {}", theme::policy(colour(&line.name))), line.name.clone())).collect();
    let top = drawing.legend((14.0, 4.0), WIDTH - 14.0, &keys) + 28.0;
    let bottom = top + 220.0;
    let points = || lines.iter().flat_map(|line| &line.points).filter(|p| p.0.is_finite() && p.1.is_finite());
    let range = |value: fn(&(f64, f64, Option<f64>)) -> f64| {
        points().map(value).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (sides, heights) = ((LEFT, WIDTH - RIGHT), (bottom, top));
    let panel = if *log {
        let x = Axis::decades(range(|p| p.0), Measure::Plain, sides);
        Panel { x, y: Axis::decades(range(|p| p.1), Measure::Computing, heights) }
    } else {
        let x = Axis::between(range(|p| p.0), Measure::Ratio, sides, 60.0);
        // One line that leaves the page must not flatten the others; beyond, it runs along the edge.
        let (low, high) = range(|p| p.1);
        Panel { x, y: Axis::between((low.max(-1.0), high.min(1.0)), Measure::Ratio, heights, 34.0) }
    };
    panel.frame(&mut drawing, across);
    drawing.text("dim", (14.0, top - 12.0), up);
    if !log && panel.y.low < 0.0 {
        drawing.line("axis", (panel.x.from, panel.y.at(0.0)), (panel.x.to, panel.y.at(0.0)));
    }
    for line in lines {
        let class = theme::policy(colour(&line.name));
        polyline(&mut drawing, &panel, line, &class, &|point| tip(line, point, *log));
    }
    Figure::new(name, title, reading.clone(), (WIDTH, bottom + FOOT), drawing)
}

/// What a dot of a line says.
fn tip(line: &Line, (x, y, half): (f64, f64, Option<f64>), log: bool) -> String {
    let say = |v: f64| if log { Measure::Computing.say(v) } else { Style::Change(2).say(v) };
    let at = if log { Measure::Plain.say(x) } else { Style::Change(0).say(x) };
    let half = half.map_or(String::new(), |half| format!(" ± {}", Style::Percent(2).say(half)));
    format!("{}, {at}: {}{half}", line.name, say(y))
}

/// A line through points, each with a dot that says what `tip` makes of it.
pub(super) fn polyline(
    drawing: &mut Drawing,
    panel: &Panel,
    line: &Line,
    class: &str,
    tip: &dyn Fn((f64, f64, Option<f64>)) -> String,
) {
    let points: Vec<_> = line.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()).collect();
    let mut d = String::new();
    for (i, (x, y, _)) in points.iter().enumerate() {
        let _ = write!(d, "{}{} {}", if i == 0 { "M" } else { "L" }, px(panel.x.at(*x)), px(panel.y.at(*y)));
    }
    drawing.path(&format!("line {class}"), &d, "", &line.name);
    for &point in points {
        let at = (panel.x.at(point.0), panel.y.at(point.1));
        drawing.dot(&format!("dot {class}"), at, 3.4, &tip(point));
    }
}
