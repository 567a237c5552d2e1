//! Charts with lines: completion times, and the cluster over time.

use super::axis::{Axis, Measure};
use super::downsample::{Bucket, buckets};
use super::svg::{Curve, Drawing, Figure, Panel, WIDTH, step_path, text_width};
use super::{completion_seconds, text, theme};
use crate::record::{LearningSample, RunRecord, Sample};

const LEFT: f64 = 62.0;
const RIGHT: f64 = 22.0;
/// Legends begin further left than plots: six policies fit in one row.
const LEGEND_LEFT: f64 = 14.0;
/// Room under a plot for its ticks and the name of its axis.
const FOOT: f64 = 42.0;

/// Legend entries of the policies.
pub(super) fn policy_keys(runs: &[RunRecord]) -> Vec<(String, String)> {
    let key = |(i, run): (usize, &RunRecord)| (format!("fill {}", theme::policy(i)), run.summary.policy.clone());
    runs.iter().enumerate().map(key).collect()
}

/// The moment until which charts over time are drawn, the same for every policy so that they compare.
pub(super) fn horizon(runs: &[RunRecord]) -> f64 {
    let sampled = runs.iter().filter_map(|r| r.timeline.last()).map(|s| s.at_seconds);
    let drawn = runs.iter().flat_map(|r| &r.gantt).map(|s| s.until_seconds);
    sampled.chain(drawn).filter(|t| t.is_finite()).fold(0.0, f64::max)
}

/// Part of the trace's jobs that completed within a time, one line per policy.
pub(super) fn completion(runs: &[RunRecord]) -> Figure {
    let times: Vec<Vec<f64>> = runs.iter().map(sorted_completions).collect();
    let low = times.iter().filter_map(|t| t.first()).copied().fold(f64::INFINITY, f64::min);
    let high = times.iter().filter_map(|t| t.last()).copied().fold(0.0, f64::max);
    let mut drawing = Drawing::default();
    let top = drawing.legend((LEGEND_LEFT, 4.0), WIDTH - LEGEND_LEFT, &policy_keys(runs)) + 12.0;
    let bottom = top + 250.0;
    let x_label = (LEFT, WIDTH - RIGHT);
    let x =
        if high > 0.0 { Axis::log_time(low, high, x_label, 42.0) } else { Axis::log_time(1.0, 86400.0, x_label, 42.0) };
    let panel = Panel { x, y: Axis::whole((bottom, top), 30.0) };
    panel.frame(&mut drawing, "completion time (log scale)");
    if high == 0.0 {
        drawing.text("dim mid", ((x_label.0 + x_label.1) / 2.0, (top + bottom) / 2.0 - 16.0), "No job completed.");
    }
    let curve = |(i, run): (usize, &RunRecord)| {
        let (all, times, summary) = (run.jobs.len() as f64, &times[i], &run.summary);
        let rise = times.iter().enumerate().map(|(n, t)| (*t, (n + 1) as f64 / all));
        let start = times.first().map(|t| (*t, 0.0));
        let tip = format!(
            "{}: half within {}, 99 % within {}",
            summary.policy,
            text::duration(summary.p50_jct_seconds),
            text::duration(summary.p99_jct_seconds)
        );
        Curve {
            class: theme::policy(i),
            name: summary.policy.clone(),
            tip,
            points: start.into_iter().chain(rise).collect(),
        }
    };
    panel.curves(&mut drawing, &runs.iter().enumerate().map(curve).collect::<Vec<_>>());
    let caption =
        "Share of all jobs that completed within the time on the x axis, counted from submission. Further left is \
            better; a curve that ends below 100 % left jobs unfinished."
            .to_owned();
    Figure::new("completion-time", "Completion time of jobs", caption, (WIDTH, bottom + FOOT), drawing)
}

/// Completion times in order. A second is the least that the log axis shows.
fn sorted_completions(run: &RunRecord) -> Vec<f64> {
    let mut times: Vec<f64> = run.jobs.iter().filter_map(completion_seconds).map(|t| t.max(1.0)).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Jobs that wait, over time, one line per policy.
pub(super) fn queue(runs: &[RunRecord]) -> Option<Figure> {
    let caption = "Submitted jobs that hold no GPU. Peaks are kept when a curve is thinned. Lower is better; a curve that ends \
        early finished early.";
    let what = Overlay { name: "queue-length", title: "Jobs waiting over time", caption, measure: Measure::Count };
    overlay(runs, &what, |run, _| run.timeline.iter().map(|s| (s.at_seconds, f64::from(s.waiting))).collect())
}

/// Power of the cluster over time, one line per policy.
pub(super) fn power(runs: &[RunRecord]) -> Option<Figure> {
    let caption = "Power of all GPUs, idle ones included, averaged over 1/100 of the time shown. The area under a curve is its \
        energy.";
    let what = Overlay { name: "power", title: "Power over time", caption, measure: Measure::Watts };
    overlay(runs, &what, |run, end| averaged(&run.timeline, end, |s| s.watts))
}

/// Errors of what an estimator told over time, alone and in pairs, one line per policy; none where everybody knew the truth.
pub(super) fn errors(runs: &[RunRecord]) -> [Option<Figure>; 2] {
    let caption =
        "Mean relative error of all rates given to the scheduler so far, measured or estimated. Lower is better.";
    let chart = |name, title, error: fn(&LearningSample) -> Option<f64>| {
        let what = Overlay { name, title, caption, measure: Measure::Ratio };
        overlay(runs, &what, |run, _| run.learning.iter().filter_map(|s| Some((s.at_seconds, error(s)?))).collect())
    };
    [
        chart("error-alone", "Error of estimated single-job rates", |s| s.solo_error_ratio),
        chart("error-in-pairs", "Error of estimated rates of jobs sharing a GPU", |s| s.pair_error_ratio),
    ]
}

/// Means over a 100th of the horizon, up to the last sample.
fn averaged(samples: &[Sample], end: f64, value: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let points: Vec<_> = samples.iter().map(|s| (s.at_seconds, value(s))).filter(|p| p.1.is_finite()).collect();
    let last = points.last().map_or(0.0, |p| p.0);
    let number = (100.0 * last / end).ceil().max(1.0) as usize;
    let means = buckets(&points, last, number);
    let close = means.last().map(|b| (last, b.mean));
    means.iter().map(|b| (b.from, b.mean)).chain(close).collect()
}

/// A chart of one line per policy over time.
struct Overlay {
    name: &'static str,
    title: &'static str,
    caption: &'static str,
    measure: Measure,
}

fn overlay(runs: &[RunRecord], what: &Overlay, series: impl Fn(&RunRecord, f64) -> Vec<(f64, f64)>) -> Option<Figure> {
    let end = horizon(runs);
    let series: Vec<Vec<(f64, f64)>> = runs.iter().map(|r| series(r, end)).collect();
    if series.iter().all(Vec::is_empty) {
        return None;
    }
    let mut drawing = Drawing::default();
    let top = drawing.legend((LEGEND_LEFT, 4.0), WIDTH - LEGEND_LEFT, &policy_keys(runs)) + 12.0;
    let bottom = top + 190.0;
    let high = series.iter().flatten().map(|p| p.1).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let panel = Panel {
        x: Axis::clock(end, (LEFT, WIDTH - RIGHT), 48.0),
        y: Axis::upto(high, what.measure, (bottom, top), 32.0),
    };
    panel.frame(&mut drawing, "time since the start of the trace");
    let curves = runs.iter().zip(series).enumerate().map(|(i, (run, points))| {
        let name = run.summary.policy.clone();
        let peak = points.iter().map(|p| p.1).fold(f64::NAN, f64::max);
        let tip = format!("{name}: at most {}", what.measure.format(peak));
        Curve { class: theme::policy(i), tip, name, points }
    });
    panel.curves(&mut drawing, &curves.collect::<Vec<_>>());
    Some(Figure::new(what.name, what.title, what.caption.to_owned(), (WIDTH, bottom + FOOT), drawing))
}

/// Part of each kind's GPUs in use over time: a panel per policy, in it a lane per kind, so that nothing overlaps.
pub(super) fn utilisation(runs: &[RunRecord]) -> Option<Figure> {
    if runs.iter().all(|r| r.timeline.is_empty()) {
        return None;
    }
    let kinds = || runs.iter().flat_map(|r| &r.kinds);
    let lanes = runs.iter().map(|r| r.kinds.len()).max().unwrap_or(0);
    let left = kinds().map(|k| text_width(&text::shorten(&k.name, 14))).fold(30.0, f64::max) + 12.0;
    let columns = runs.len().min(2);
    let lane = match (lanes, columns) {
        (0..=4, 1) => 54.0,
        (0..=4, _) => 34.0,
        _ => 22.0,
    };
    let (room, row) = ((WIDTH + 10.0) / columns as f64, 30.0 + lane * lanes as f64 + 22.0);
    let end = horizon(runs);
    let mut drawing = Drawing::default();
    for (i, run) in runs.iter().enumerate() {
        let from = (i % columns) as f64 * room + left;
        let x = Axis::clock(end, (from, (i % columns + 1) as f64 * room - 56.0), 44.0);
        let top = (i / columns) as f64 * row + 2.0;
        drawing.text("strong", (from, top + 14.0), &text::shorten(&run.summary.policy, 26));
        drawing.text("dim", (x.to + 5.0, top + 14.0), &text::percent(run.summary.utilisation_ratio));
        for k in 0..run.kinds.len() {
            let top = top + 22.0 + lane * k as f64;
            let panel = Panel { x: x.clone(), y: Axis::bare((top + lane - 4.0, top)) };
            utilisation_lane(&mut drawing, &panel, run, k);
        }
        let bottom = top + 18.0 + lane * run.kinds.len() as f64;
        Panel { x, y: Axis::bare((bottom, bottom)) }.frame(&mut drawing, "");
    }
    let caption = "One panel per policy, one lane per kind, from 0 to 100 % of its GPUs. Line: share of the GPUs that hold a job, \
        averaged over 1/120 of the time shown; shaded: minimum and maximum. Numbers: mean until the last job ends."
        .to_owned();
    let height = runs.len().div_ceil(columns) as f64 * row;
    Some(Figure::new("utilisation", "Utilisation by kind over time", caption, (WIDTH, height), drawing))
}

fn utilisation_lane(drawing: &mut Drawing, panel: &Panel, run: &RunRecord, k: usize) {
    let (kind, hue) = (&run.kinds[k], theme::hue(k));
    let (left, right, bottom, top) = (panel.x.from, panel.x.to, panel.y.from, panel.y.to);
    let base = (top + bottom) / 2.0 + 4.0;
    drawing.rect("track", [left, top, right - left, bottom - top], "");
    drawing.text("end", (left - 6.0, base), &text::shorten(&kind.name, 14));
    drawing.text("dim", (right + 5.0, base), &text::percent(kind.utilisation_ratio));
    let last = run.timeline.last().map_or(0.0, |s| s.at_seconds);
    let number = (120.0 * last / panel.x.high).ceil().max(1.0) as usize;
    let busy = |s: &Sample| s.busy.get(k).map(|b| (s.at_seconds, f64::from(*b) / f64::from(kind.gpus.max(1))));
    let stretches = buckets(&run.timeline.iter().filter_map(busy).collect::<Vec<_>>(), last, number);
    let outline = |edge: fn(&Bucket) -> f64| {
        let close = stretches.last().map(|b| (last, edge(b)));
        stretches.iter().map(|b| (b.from, edge(b))).chain(close).collect::<Vec<_>>()
    };
    let pixels = |edge| panel.pixels(&outline(edge));
    if !stretches.is_empty() {
        drawing.path(&format!("area {hue}"), &band_path(&pixels(|b| b.low), &pixels(|_| 0.0)), "", "");
        drawing.path(&format!("band {hue}"), &band_path(&pixels(|b| b.high), &pixels(|b| b.low)), "", "");
    }
    let tip = format!("{} ({} GPUs): {} on average", kind.name, kind.gpus, text::percent(kind.utilisation_ratio));
    panel.curves(drawing, &[Curve { class: hue, name: kind.name.clone(), tip, points: outline(|b| b.mean) }]);
}

/// The area between two step curves over the same stretches.
fn band_path(high: &[(f64, f64)], low: &[(f64, f64)]) -> String {
    // Backwards, a step goes down before it goes across: shift every height to the point on its right.
    let heights = low.iter().rev().skip(1).map(|p| p.1);
    let back: Vec<_> = low.iter().rev().map(|p| p.0).zip(low.last().map(|p| p.1).into_iter().chain(heights)).collect();
    format!("{}{}Z", step_path(high), step_path(&back).replacen('M', "L", 1))
}
