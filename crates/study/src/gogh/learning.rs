//! Estimate errors, and the distance to the oracle in energy, as a run goes on.
//!
//! The error at a moment is the mean of |estimate/truth − 1| over everything that the scheduler was told until then, so it
//! counts cells that nothing ever ran in. The distance at a moment is E(t)/E₀(t) − 1, all energy until then over the oracle's.
//! Lines are means over the seeds, drawn as far as every seed has come.

use super::runs::Outcome;
use super::{Field, ORACLE, Runs, WORLD_OPTIONS};
use arles_report::Spread;
use arles_report::finding::{Finding, Line, Plot, Sheet, Style, Value};
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
pub fn learning(field: &Field<'_>, runs: &Runs) -> Finding {
    let mut finding = Finding::by(format!(
        "The runs of the energy experiment: {} Errors are means over all rates that the scheduler was told, measured or not. Charts are \
         of {}, unused GPUs {}.",
        field.words(),
        field.loads.get(field.middle()).map_or("no load", |load| load.title.as_str()),
        WORLD_OPTIONS[0]
    ));
    runs.troubles(field).for_each(|trouble| finding.trouble(trouble));
    for load in 0..field.loads.len().min(NAMES.len()) {
        finding.sheets.push(sheet(field, runs, load));
    }
    if !field.loads.is_empty() {
        charts(field, runs, &mut finding);
    }
    finding
}

/// The value that holds at a moment.
fn held(samples: &[LearningSample], seconds: f64, of: Error) -> Option<f64> {
    let known = samples.partition_point(|sample| sample.at_seconds <= seconds);
    samples[..known].iter().rev().find_map(of)
}

fn sheet(field: &Field<'_>, runs: &Runs, load: usize) -> Sheet {
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
    let title = format!("Mean error of estimated rates, {}, unused GPUs {}", field.loads[load].title, WORLD_OPTIONS[0]);
    let mut sheet = Sheet::new(NAMES[load], title, &columns);
    for c in field.learners().filter(|c| !runs.of(load, 0, *c).is_empty()) {
        let number = |of: &dyn Fn(&Outcome) -> Option<f64>, style| {
            let values = runs.each(load, 0, c, |outcome| of(outcome).unwrap_or(f64::NAN));
            let told: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
            if told.is_empty() { Value::Nothing } else { Value::number(Spread::of(&told).mean, style) }
        };
        let mut cells: Vec<Value> = vec![field.name(c).into()];
        for error in [(|s| s.solo_error_ratio) as Error, |s| s.pair_error_ratio] {
            cells.push(number(&|o| o.learning.iter().find_map(error), Style::Percent(1)));
            cells.push(number(&|o| held(&o.learning, o.span_seconds / 10.0, error), Style::Percent(1)));
            cells.push(number(&|o| held(&o.learning, f64::INFINITY, error), Style::Percent(1)));
        }
        cells.push(number(&|o| Some(o.summary.observations as f64), Style::Plain(0)));
        sheet.row(cells);
    }
    sheet.note(
        "At first: when the scheduler was first told anything, before any measurement of the workloads of the trace.",
    )
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
        values.map(|values| (t, Spread::of(&values).mean, None))
    };
    moments.filter_map(mean).collect()
}

fn charts(field: &Field<'_>, runs: &Runs, finding: &mut Finding) {
    let load = field.middle();
    let title = &field.loads[load].title;
    let outcome = |c: usize, seed: usize| runs.of(load, 0, c).get(seed).and_then(|run| run.as_ref().ok());
    let errors = |error: Error| {
        let line = |c: usize| Line {
            name: field.contenders[c].estimator.to_owned(),
            points: course(runs, load, c, &|seed, t| held(&outcome(c, seed)?.learning, t, error)),
        };
        field.learners().map(line).filter(|line| !line.points.is_empty()).collect::<Vec<Line>>()
    };
    let chart = |name, what: &str, reading: &str, up, lines| Plot::Courses {
        name,
        title: format!("{what}, {title}"),
        reading: reading.to_owned(),
        across: "time since the first arrival",
        up,
        time: true,
        lines,
    };
    let reading = "Height: mean error over all rates that the scheduler was told until then. It may rise when workloads arrive \
                   of which nothing is known yet.";
    finding.plots.push(chart(
        "error-alone",
        "Error of rates alone",
        reading,
        "mean error",
        errors(|s| s.solo_error_ratio),
    ));
    finding.plots.push(chart(
        "error-in-pairs",
        "Error of rates in pairs",
        reading,
        "mean error",
        errors(|s| s.pair_error_ratio),
    ));
    if let Some(oracle) = field.tested(ORACLE) {
        let distance = |c: usize| Line {
            name: field.contenders[c].estimator.to_owned(),
            points: course(runs, load, c, &|seed, t| {
                let (own, base) = (outcome(c, seed)?, outcome(oracle, seed)?);
                (t >= FIRST * own.span_seconds).then(|| own.energy_until(t) / base.energy_until(t) - 1.0)
            }),
        };
        let lines = field.learners().map(distance).filter(|line| !line.points.is_empty()).collect();
        let reading = "Height: energy until then over that of the run that knows every rate, less one. Below 0 a run has spent less so far, often \
                       because it is behind with its work.";
        finding.plots.push(chart(
            "distance",
            "Distance to the oracle in energy",
            reading,
            "energy over the oracle's, less one",
            lines,
        ));
    }
}
