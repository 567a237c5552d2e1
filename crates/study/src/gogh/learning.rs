//! Estimate errors, and the distance to the oracle in energy, as a run goes on.
//!
//! The error at a moment is the mean of |estimate/truth − 1| over everything that the scheduler was told until then, so it
//! counts cells that nothing ever ran in. The distance at a moment is E(t)/E₀(t) − 1, all energy until then over the oracle's.
//! Lines are means over the seeds, drawn as far as every seed has come.

use super::runs::Outcome;
use super::{GoghSetup, ORACLE, Runs, UNUSED_GPUS};
use arles_report::MeanInterval;
use arles_report::finding::{Finding, Plot, Series, Sheet, Style, Value};
use arles_report::record::LearningSample;

/// Points of a line.
const POINTS: usize = 120;
/// Ratios of energies mean little before this part of the trace.
const FIRST: f64 = 0.02;

/// Names of sheets, by load.
const NAMES: [&str; 3] = ["errors-low", "errors-middle", "errors-high"];

/// An error at a moment.
type Error = fn(&LearningSample) -> Option<f64>;

/// Tells of errors and distances over time.
#[must_use]
pub fn learning(setup: &GoghSetup<'_>, runs: &Runs) -> Finding {
    let mut finding = Finding::by(format!(
        "The runs of the energy experiment: {} Errors are means over all rates given to the scheduler, measured or \
            estimated. Charts show {}, unused GPUs {}.",
        setup.describe(),
        setup.loads.get(setup.middle()).map_or("no load", |load| load.title.as_str()),
        UNUSED_GPUS[0]
    ));
    runs.warnings(setup).for_each(|warn| finding.warn(warn));
    for load in 0..setup.loads.len().min(NAMES.len()) {
        finding.sheets.push(sheet(setup, runs, load));
    }
    if !setup.loads.is_empty() {
        charts(setup, runs, &mut finding);
    }
    finding
}

/// The value that holds at a moment.
fn held(samples: &[LearningSample], seconds: f64, of: Error) -> Option<f64> {
    let known = samples.partition_point(|sample| sample.at_seconds <= seconds);
    samples[..known].iter().rev().find_map(of)
}

fn sheet(setup: &GoghSetup<'_>, runs: &Runs, load: usize) -> Sheet {
    let columns = [
        ("run", "run"),
        ("alone,\nat first", "solo_first"),
        ("after\na tenth", "solo_tenth"),
        ("at the\nend", "solo_end"),
        ("in pairs,\nat first", "pair_first"),
        ("after\na tenth", "pair_tenth"),
        ("at the\nend", "pair_end"),
        ("measure-\nments", "observations"),
    ];
    let title = format!("Mean error of estimated rates, {}, unused GPUs {}", setup.loads[load].title, UNUSED_GPUS[0]);
    let mut sheet = Sheet::new(NAMES[load], title, &columns);
    for c in setup.learners().filter(|c| !runs.of(load, 0, *c).is_empty()) {
        let number = |of: &dyn Fn(&Outcome) -> Option<f64>, style| {
            let values = runs.each(load, 0, c, |outcome| of(outcome).unwrap_or(f64::NAN));
            let told: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
            if told.is_empty() { Value::Empty } else { Value::number(MeanInterval::of(&told).mean, style) }
        };
        let mut cells: Vec<Value> = vec![setup.name(c).into()];
        for error in [(|s| s.solo_error_ratio) as Error, |s| s.pair_error_ratio] {
            cells.push(number(&|o| o.learning.iter().find_map(error), Style::Percent(1)));
            cells.push(number(&|o| held(&o.learning, o.span_seconds / 10.0, error), Style::Percent(1)));
            cells.push(number(&|o| held(&o.learning, f64::INFINITY, error), Style::Percent(1)));
        }
        cells.push(number(&|o| Some(o.summary.observations as f64), Style::Plain(0)));
        sheet.row(cells);
    }
    sheet.note("At first: the first rates given to the scheduler, before any workload of the trace was measured.")
}

/// The means of a function of time over all seeds, as far as all have it.
fn course(
    runs: &Runs,
    load: usize,
    own: usize,
    of: &dyn Fn(usize, f64) -> Option<f64>,
) -> Vec<(f64, f64, Option<f64>)> {
    let spans = runs.each(load, 0, own, |outcome| outcome.span_seconds);
    let span = spans.iter().copied().fold(f64::INFINITY, f64::min);
    if !span.is_finite() {
        return Vec::new();
    }
    let moments = (0..=POINTS).map(|i| span * i as f64 / POINTS as f64);
    let mean = |t: f64| {
        let values: Option<Vec<f64>> = (0..spans.len()).map(|seed| of(seed, t)).collect();
        values.map(|values| (t, MeanInterval::of(&values).mean, None))
    };
    moments.filter_map(mean).collect()
}

fn charts(setup: &GoghSetup<'_>, runs: &Runs, finding: &mut Finding) {
    let load = setup.middle();
    let title = &setup.loads[load].title;
    let outcome = |c: usize, seed: usize| runs.of(load, 0, c).get(seed).and_then(|run| run.as_ref().ok());
    let errors = |error: Error| {
        let line = |c: usize| Series {
            name: setup.candidates[c].estimator.to_owned(),
            points: course(runs, load, c, &|seed, t| held(&outcome(c, seed)?.learning, t, error)),
        };
        setup.learners().map(line).filter(|line| !line.points.is_empty()).collect::<Vec<Series>>()
    };
    let chart = |name, what: &str, caption: &str, y_label, lines| Plot::Trends {
        name,
        title: format!("{what}, {title}"),
        caption: caption.to_owned(),
        x_label: "time since the first arrival",
        y_label,
        time: true,
        lines,
    };
    let caption = "Mean relative error of all rates given to the scheduler so far. It can rise when workloads arrive that have \
        not been measured.";
    let (alone, pairs) = (errors(|s| s.solo_error_ratio), errors(|s| s.pair_error_ratio));
    finding.plots.push(chart("error-alone", "Error of rates alone", caption, "mean error", alone));
    finding.plots.push(chart("error-in-pairs", "Error of rates in pairs", caption, "mean error", pairs));
    if let Some(oracle) = setup.tested(ORACLE) {
        let distance = |c: usize| Series {
            name: setup.candidates[c].estimator.to_owned(),
            points: course(runs, load, c, &|seed, t| {
                let (own, base) = (outcome(c, seed)?, outcome(oracle, seed)?);
                (t >= FIRST * own.span_seconds).then(|| own.energy_until(t) / base.energy_until(t) - 1.0)
            }),
        };
        let lines = setup.learners().map(distance).filter(|line| !line.points.is_empty()).collect();
        let caption = "Cumulative energy relative to the run with true rates, minus one. Below 0 a run has used less energy so far, \
            often because it has completed less work.";
        finding.plots.push(chart(
            "distance",
            "Distance to the oracle in energy",
            caption,
            "energy relative to the oracle, minus one",
            lines,
        ));
    }
}
