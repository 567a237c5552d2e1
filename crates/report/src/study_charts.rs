//! Charts of experiments: bars with intervals, and lines of one policy each; other forms have files of their own.

use super::axis::{Axis, Measure};
use super::svg::{Drawing, Figure, Panel, WIDTH, px, text_width};
use super::{heat_map, stacked_bar_chart, text, theme, trend_chart};
use crate::finding::{Plot, Series, Style};
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
        Plot::Trends { .. } => trend_chart::figure(plot, colour),
        Plot::StackedBars { .. } => stacked_bar_chart::figure(plot),
        Plot::HeatMaps { .. } => heat_map::figure(plot),
    }
}

fn bars(plot: &Plot, colour: &dyn Fn(&str) -> usize) -> Figure {
    let Plot::Bars { name, title, caption, unit, style, base, bars } = plot else { unreachable!("asked for bars") };
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
            Some(half) => format!("{} ± {}", style.format(*value), style.format(*half).trim_start_matches('+')),
            None => style.format(*value),
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
        drawing.text("halo", (after + 6.0, top + 18.0), &style.format(*value));
    }
    let zero = panel.x.at(*base);
    drawing.line("axis", (zero, 6.0), (zero, bottom));
    Figure::new(name, title, caption.clone(), (WIDTH, bottom + FOOT), drawing)
}

/// The names of the lines in their colours; returns where the plot may begin.
pub(super) fn legend(drawing: &mut Drawing, lines: &[Series], colour: &dyn Fn(&str) -> usize) -> f64 {
    let key = |line: &Series| (format!("fill {}", theme::policy(colour(&line.name))), line.name.clone());
    drawing.legend((14.0, 4.0), WIDTH - 14.0, &lines.iter().map(key).collect::<Vec<_>>()) + 28.0
}

fn lines(plot: &Plot, colour: &dyn Fn(&str) -> usize) -> Figure {
    let Plot::Lines { name, title, caption, x_label, y_label, log, lines } = plot else {
        unreachable!("asked for lines")
    };
    let mut drawing = Drawing::default();
    let top = legend(&mut drawing, lines, colour);
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
    panel.frame(&mut drawing, x_label);
    drawing.text("dim", (14.0, top - 12.0), y_label);
    if !log && panel.y.low < 0.0 {
        drawing.line("axis", (panel.x.from, panel.y.at(0.0)), (panel.x.to, panel.y.at(0.0)));
    }
    for line in lines {
        let class = theme::policy(colour(&line.name));
        polyline(&mut drawing, &panel, line, &class, &|point| tip(line, point, *log));
    }
    Figure::new(name, title, caption.clone(), (WIDTH, bottom + FOOT), drawing)
}

/// What a dot of a line says.
fn tip(line: &Series, (x, y, half): (f64, f64, Option<f64>), log: bool) -> String {
    let say = |v: f64| if log { Measure::Computing.format(v) } else { Style::Change(2).format(v) };
    let at = if log { Measure::Plain.format(x) } else { Style::Change(0).format(x) };
    let half = half.map_or(String::new(), |half| format!(" ± {}", Style::Percent(2).format(half)));
    format!("{}, {at}: {}{half}", line.name, say(y))
}

/// A line through points, each with a dot that says what `tip` makes of it.
pub(super) fn polyline(
    drawing: &mut Drawing,
    panel: &Panel,
    line: &Series,
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
