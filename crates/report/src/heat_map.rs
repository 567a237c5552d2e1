//! Heat maps side by side, in one scale.
//!
//! The ten colours run from dark blue over grey to yellow: lightness rises all the way, so readers with any colour deficiency, and
//! a printer without colours, see the same order. They are the same on light and on dark paper, and where there is room the
//! number itself stands in its cell.

use super::svg::{Drawing, Figure, text_width};
use super::text;
use crate::finding::Plot;

/// Width of a chart that has the page to itself.
pub(super) const WIDE: f64 = 1180.0;
/// Colours of the scale, `m0` to `m9`.
pub(super) const STEPS: usize = 10;
const RIGHT: f64 = 12.0;
/// Between two maps.
const GAP: f64 = 24.0;
const MOST_CELL: f64 = 36.0;
/// A number needs so much room.
const NUMBER: f64 = 21.0;
const LETTERS: usize = 22;
/// Names over the columns lean by this angle, in degrees.
pub(super) const LEAN: f64 = 55.0;

fn step(value: f64) -> usize {
    ((value * STEPS as f64).floor().max(0.0) as usize).min(STEPS - 1)
}

/// The chart of [`Plot::HeatMaps`].
pub(super) fn figure(plot: &Plot) -> Figure {
    let Plot::HeatMaps { name, title, caption, scale, names, maps } = plot else { unreachable!("asked for maps") };
    let names: Vec<String> = names.iter().map(|name| text::shorten(name, LETTERS)).collect();
    let widest = names.iter().map(|name| text_width(name)).fold(0.0, f64::max);
    let (n, number) = (names.len().max(1) as f64, maps.len().max(1) as f64);
    let left = widest + 14.0;
    // The last name leans over the edge.
    let over = widest * LEAN.to_radians().cos();
    let room = (WIDE - left - RIGHT - over - GAP * (number - 1.0)) / number;
    let cell = (room / n).min(MOST_CELL);
    let top = 36.0 + widest * LEAN.to_radians().sin();
    let bottom = top + cell * n;
    let mut drawing = Drawing::default();
    for (i, name) in names.iter().enumerate() {
        drawing.text("end", (left - 8.0, top + cell * (i as f64 + 0.5) + 4.0), name);
    }
    for (m, (title, cells)) in maps.iter().enumerate() {
        let from = left + m as f64 * (cell * n + GAP);
        drawing.text("strong", (from, 14.0), title);
        for (j, name) in names.iter().enumerate() {
            drawing.leaning((from + cell * (j as f64 + 0.6), top - 6.0), -LEAN, name);
        }
        for (at, value) in cells.iter().enumerate().take(names.len() * names.len()) {
            let (i, j) = (at / names.len(), at % names.len());
            let corner = (from + cell * j as f64, top + cell * i as f64);
            one(&mut drawing, corner, cell, *value, &format!("{title}: {} beside {}", names[i], names[j]));
        }
    }
    legend(&mut drawing, (left, bottom + 16.0), scale);
    Figure::new(name, title, caption.clone(), (WIDE, bottom + 58.0), drawing)
}

fn one(drawing: &mut Drawing, (x, y): (f64, f64), cell: f64, value: Option<f64>, what: &str) {
    let place = [x + 0.5, y + 0.5, cell - 1.0, cell - 1.0];
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return drawing.rect("track", place, &format!("{what}: does not fit"));
    };
    let step = step(value);
    drawing.rect(&format!("m{step}"), place, &format!("{what}: {}", text::percent(value)));
    if cell >= NUMBER {
        let ink = if step < STEPS / 2 { "on-dark mid" } else { "on-light mid" };
        drawing.text(ink, (x + cell / 2.0, y + cell / 2.0 + 4.0), &format!("{:.0}", value * 100.0));
    }
}

/// The scale: a row of all colours with their limits.
fn legend(drawing: &mut Drawing, (left, top): (f64, f64), scale: &str) {
    const WIDTH: f64 = 30.0;
    for i in 0..STEPS {
        let x = left + WIDTH * i as f64;
        let (from, to) = (i as f64 / STEPS as f64, (i + 1) as f64 / STEPS as f64);
        drawing.rect(
            &format!("m{i}"),
            [x, top, WIDTH, 12.0],
            &format!("{} to {}", text::percent(from), text::percent(to)),
        );
    }
    for i in (0..=STEPS).step_by(2) {
        drawing.text("dim mid", (left + WIDTH * i as f64, top + 27.0), &format!("{} %", i * 100 / STEPS));
    }
    drawing.text("dim", (left + WIDTH * STEPS as f64 + 24.0, top + 11.0), scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_a_colour() {
        let check = |value: f64, want: usize| assert_eq!(step(value), want);
        check(-1.0, 0);
        check(0.05, 0);
        check(0.65, 6);
        check(1.0, 9);
        check(7.0, 9);
    }
}
