//! The last hours in one line: GPUs in use, jobs waiting, power and envy, each as a row of little columns.

use super::scene::PAST_SECONDS;
use crate::quantity::{percent, shown, span, watts};
use arles_api::{Series, SeriesPoint};

const COLUMNS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// A row of columns is never shorter than this; what does not fit is left out from the right.
const LEAST: usize = 6;
/// Nor longer: more columns than points say nothing.
const MOST: usize = 60;

/// A figure over time: its name, its value at a point, and how the last one reads.
struct Figure {
    name: &'static str,
    of: fn(&SeriesPoint) -> Option<f64>,
    read: fn(&SeriesPoint) -> String,
}

fn sum(list: &[f64]) -> f64 {
    list.iter().sum()
}

const FIGURES: [Figure; 4] = [
    Figure {
        name: "GPUs",
        of: |p| Some(sum(&p.busy) / sum(&p.usable).max(1e-9)),
        read: |p| format!("{} %", percent(sum(&p.busy) / sum(&p.usable).max(1e-9))),
    },
    Figure { name: "waiting", of: |p| Some(p.waiting), read: |p| shown(p.waiting, 2) },
    Figure { name: "power", of: |p| Some(p.watts), read: |p| watts(p.watts) },
    Figure {
        name: "envy",
        of: |p| p.worst_envy,
        read: |p| p.worst_envy.map_or("-".into(), |envy| format!("{envy:.2}")),
    },
];

/// The line, at most so wide.
pub(super) fn line(series: &Series, width: usize) -> String {
    let Some(last) = series.points.last() else { return String::new() };
    let head = format!(" {}:", span(PAST_SECONDS));
    let around = |figure: &Figure| 4 + figure.name.chars().count() + (figure.read)(last).chars().count();
    let room = width.saturating_sub(head.chars().count());
    // As many figures as have room for the shortest row of columns.
    let shown =
        (1..=FIGURES.len()).rev().find(|&n| FIGURES[..n].iter().map(|f| around(f) + LEAST).sum::<usize>() <= room);
    let Some(n) = shown else { return String::new() };
    let spare = room - FIGURES[..n].iter().map(around).sum::<usize>();
    let each = (spare / n).min(MOST);
    let mut line = head;
    for figure in &FIGURES[..n] {
        line += &format!("  {} {} {}", figure.name, columns(&series.points, figure.of, each), (figure.read)(last));
    }
    line
}

/// Values over time as columns from 0 to the largest; a blank where nothing is known.
fn columns(points: &[SeriesPoint], of: fn(&SeriesPoint) -> Option<f64>, width: usize) -> String {
    let most = points.iter().filter_map(of).fold(0.0, f64::max).max(1e-9);
    let (from, to) = (points[0].at, points[points.len() - 1].at);
    let place = |p: &SeriesPoint| (((p.at - from) / (to - from).max(1.0) * width as f64) as usize).min(width - 1);
    let mut sums = vec![(0.0, 0.0); width];
    for (at, value) in points.iter().filter_map(|p| Some((place(p), of(p)?))) {
        sums[at].0 += value;
        sums[at].1 += 1.0;
    }
    let column = |(sum, count): (f64, f64)| match count > 0.0 {
        true => COLUMNS[((sum / count / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
        false => ' ',
    };
    sums.into_iter().map(column).collect()
}
