//! Who envies whom, as a map.
//!
//! Colours are those of all heat maps, by the logarithm of the ratio: the dark half is no envy, the light half is envy, and where one
//! turns into the other is exactly 1. Envy is framed too, so that nobody has to trust in shades.

use super::heat_map::{LEAN, STEPS, WIDE};
use super::svg::{Drawing, Figure, text_width};
use super::text;
use crate::audit::AuditRecord;

const RIGHT: f64 = 12.0;
const MOST_CELL: f64 = 52.0;
/// A number needs so much room.
const NUMBER: f64 = 30.0;
const LETTERS: usize = 24;
/// An envy this near to 1 is a matter of digits.
const INDIFFERENT: f64 = 1e-5;
/// What the edges of the colours are, as ratios.
const EDGES: [f64; 9] = [0.57, 0.66, 0.76, 0.87, 1.0, 1.15, 1.32, 1.52, 1.74];

fn step(ratio: f64) -> usize {
    let ratio = if (ratio - 1.0).abs() <= INDIFFERENT { 1.0 - INDIFFERENT } else { ratio };
    EDGES.iter().filter(|edge| ratio >= **edge).count()
}

/// The map; `None` where there is no matrix.
pub(super) fn figure(audit: &AuditRecord) -> Option<Figure> {
    if audit.envy.len() < 2 {
        return None;
    }
    let names: Vec<String> = audit.parties.iter().map(|party| text::shorten(&party.name, LETTERS)).collect();
    let widest = names.iter().map(|name| text_width(name)).fold(0.0, f64::max);
    let n = names.len() as f64;
    let left = widest + 14.0;
    let over = widest * LEAN.to_radians().cos();
    let cell = ((WIDE - left - RIGHT - over) / n).min(MOST_CELL);
    let top = 16.0 + widest * LEAN.to_radians().sin();
    let bottom = top + cell * n;
    let mut drawing = Drawing::default();
    for (i, name) in names.iter().enumerate() {
        let middle = cell * (i as f64 + 0.5);
        drawing.text("end", (left - 8.0, top + middle + 4.0), name);
        drawing.leaning((left + middle + 3.0, top - 6.0), -LEAN, name);
    }
    for (i, row) in audit.envy.iter().enumerate() {
        for (j, ratio) in row.iter().enumerate().take(names.len()) {
            let corner = (left + cell * j as f64, top + cell * i as f64);
            one(&mut drawing, corner, cell, *ratio, (&names[i], &names[j]), i == j);
        }
    }
    legend(&mut drawing, (left, bottom + 18.0));
    let width = (left + cell * n + over + RIGHT).max(left + 30.0 * STEPS as f64 + 320.0).min(WIDE);
    let caption = "Value of the column's GPUs to the row, scaled to its claim, over the value of its own. Light and framed: the row would rather be the column.";
    Some(Figure::new("envy", "Who envies whom", caption.to_owned(), (width, bottom + 60.0), drawing))
}

fn one(drawing: &mut Drawing, (x, y): (f64, f64), cell: f64, ratio: Option<f64>, who: (&str, &str), own: bool) {
    let place = [x + 0.5, y + 0.5, cell - 1.0, cell - 1.0];
    if own {
        return drawing.rect("track", place, who.0);
    }
    let Some(ratio) = ratio.filter(|ratio| !ratio.is_nan()) else {
        return drawing.rect("track", place, &format!("{} and {}: not known", who.0, who.1));
    };
    let step = step(ratio);
    let said = if ratio.is_finite() { format!("{ratio:.2}") } else { "∞".to_owned() };
    let verb = if step >= STEPS / 2 { "envies" } else { "does not envy" };
    drawing.rect(&format!("m{step}"), place, &format!("{} {verb} {}: {said}", who.0, who.1));
    if step >= STEPS / 2 {
        let (right, bottom) = (x + cell - 1.5, y + cell - 1.5);
        let (left, top) = (x + 1.5, y + 1.5);
        for (from, to) in [
            ((left, top), (right, top)),
            ((right, top), (right, bottom)),
            ((right, bottom), (left, bottom)),
            ((left, bottom), (left, top)),
        ] {
            drawing.line("owed", from, to);
        }
    }
    if cell >= NUMBER {
        let ink = if step < STEPS / 2 { "on-dark mid" } else { "on-light mid" };
        drawing.text(ink, (x + cell / 2.0, y + cell / 2.0 + 4.0), &said);
    }
}

/// The scale: a row of all colours with their edges.
fn legend(drawing: &mut Drawing, (left, top): (f64, f64)) {
    const WIDTH: f64 = 30.0;
    for i in 0..STEPS {
        drawing.rect(&format!("m{i}"), [left + WIDTH * i as f64, top, WIDTH, 12.0], "");
    }
    for (i, edge) in EDGES.iter().enumerate().filter(|(i, _)| i % 2 == 0) {
        drawing.text("dim mid", (left + WIDTH * (i + 1) as f64, top + 27.0), &text::brief(*edge));
    }
    drawing.text("dim", (left + WIDTH * STEPS as f64 + 14.0, top + 11.0), "above 1 the row envies the column");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_begins_where_envy_does() {
        let check = |ratio: f64, want: usize| assert_eq!(step(ratio), want, "{ratio}");
        check(0.0, 0);
        check(0.9, 4);
        check(1.0, 4);
        check(1.0 + 1e-6, 4);
        check(1.001, 5);
        check(1.8, 9);
        check(f64::INFINITY, 9);
    }
}
