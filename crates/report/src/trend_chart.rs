//! Lines over a number of things or over time.

use super::axis::{Axis, Measure};
use super::study_charts::{legend, polyline};
use super::svg::{Curve, Drawing, Figure, Panel, WIDTH};
use super::{text, theme};
use crate::finding::{Plot, Series};

const RIGHT: f64 = 22.0;
const LEFT: f64 = 62.0;
const FOOT: f64 = 42.0;
/// One line that leaves the page must not flatten the others; beyond these it runs along the edge.
const HIGHEST: f64 = 1.0;
const LOWEST: f64 = -0.5;

/// The chart of [`Plot::Trends`]; `colour` knows the place of a line among all that the page tells of.
pub(super) fn figure(plot: &Plot, colour: &dyn Fn(&str) -> usize) -> Figure {
    let Plot::Trends { name, title, caption, x_label, y_label, time, lines } = plot else {
        unreachable!("asked for trends")
    };
    let mut drawing = Drawing::default();
    let top = legend(&mut drawing, lines, colour);
    let bottom = top + 220.0;
    let points = || lines.iter().flat_map(|line| &line.points).filter(|p| p.0.is_finite() && p.1.is_finite());
    let (low, high) = points().fold((0.0f64, 0.0f64), |(low, high), p| (low.min(p.1), high.max(p.1)));
    let cut = high > HIGHEST || low < LOWEST;
    let y = Axis::between((low.max(LOWEST), high.min(HIGHEST)), Measure::Ratio, (bottom, top), 34.0);
    let last = points().map(|p| p.0).fold(0.0, f64::max);
    let sides = (LEFT, WIDTH - RIGHT);
    let x = if *time { Axis::clock(last, sides, 48.0) } else { counted(lines, last, sides) };
    let panel = Panel { x, y };
    panel.frame(&mut drawing, x_label);
    drawing.text("dim", (14.0, top - 12.0), y_label);
    if panel.y.low < 0.0 {
        drawing.line("axis", (panel.x.from, panel.y.at(0.0)), (panel.x.to, panel.y.at(0.0)));
    }
    if *time {
        let curves: Vec<Curve> = lines.iter().map(|line| curve(line, colour)).collect();
        panel.curves(&mut drawing, &curves);
    } else {
        for line in lines {
            let class = theme::policy(colour(&line.name));
            polyline(&mut drawing, &panel, line, &class, &|point| tip(line, point));
        }
    }
    let beyond = if cut { " Values outside the chart are drawn at its edge." } else { "" };
    Figure::new(name, title, format!("{caption}{beyond}"), (WIDTH, bottom + FOOT), drawing)
}

/// An axis with a tick wherever a line has a point.
fn counted(lines: &[Series], last: f64, sides: (f64, f64)) -> Axis {
    let mut axis = Axis::upto(last, Measure::Count, sides, 48.0);
    let mut marks: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.0).collect();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    if marks.len() <= 12 {
        axis.ticks = marks.into_iter().map(|mark| (mark, text::brief(mark))).collect();
    }
    axis
}

fn curve(line: &Series, colour: &dyn Fn(&str) -> usize) -> Curve {
    let points: Vec<(f64, f64)> = line.points.iter().map(|p| (p.0, p.1)).filter(|p| p.1.is_finite()).collect();
    let end = points.last().map_or(f64::NAN, |p| p.1);
    Curve {
        class: theme::policy(colour(&line.name)),
        name: line.name.clone(),
        tip: format!("{}: {} at the end", line.name, text::percent(end)),
        points,
    }
}

/// What a dot of a line says.
fn tip(line: &Series, (x, y, half): (f64, f64, Option<f64>)) -> String {
    let half = half.map_or(String::new(), |half| format!(" ± {}", text::percent(half)));
    format!("{}, {}: {}{half}", line.name, text::brief(x), text::percent(y))
}
