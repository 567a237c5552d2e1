//! Energy to completion, broken promises and completion times of every candidate, at several loads.
//!
//! Energies are compared seed by seed, E/E₀ − 1 with E₀ the baseline's on the same trace, so that a trace with much work does
//! not drown the others. The *distance to the oracle* is the same with E₀ of the policy under test told the truth: what is
//! lost by not knowing. *After a tenth* counts only what is drawn after the first tenth of the time in which jobs arrive, when
//! most cells have been met once; a run that fell behind until then still pays for it there.
//!
//! Where unused GPUs are on, energy holds the idle power of every GPU until the last end; where they are off, only of those
//! in use.

use super::{GoghSetup, LEARNED, ORACLE, Runs, UNUSED_GPUS, allocation};
use arles_report::MeanInterval;
use arles_report::finding::{Finding, Judgement, Part, Plot, Sheet, Style, Value};
use arles_report::record::Summary;

/// What is said to be saved, and what counts as reached.
const STATED_SAVING: f64 = 0.193;
const LEAST_SAVING: f64 = 0.19;
/// How near to the oracle is near, from the first tenth on.
const NEAR: f64 = 0.05;
/// Broken promises that count as no more: a thousandth of the time.
const SLACK: f64 = 1e-3;

/// The conventional strategies.
pub(super) const BASELINES: [&str; 2] = ["fifo", "max-min-fairness"];

/// Names of sheets and charts, by load.
const NAMES: [[&str; 6]; 3] = [
    ["low-off", "low-on", "low-distance", "low-parts", "energy-low-off", "energy-low-on"],
    ["middle-off", "middle-on", "middle-distance", "middle-parts", "energy-middle-off", "energy-middle-on"],
    ["high-off", "high-on", "high-distance", "high-parts", "energy-high-off", "energy-high-on"],
];

/// Tells of energy, promises and times.
#[must_use]
pub fn energy(setup: &GoghSetup<'_>, runs: &Runs) -> Finding {
    let tested = setup.tested;
    let mut finding = Finding::by(format!(
        "{} Energy is that of all GPUs until the last job ends, with unused GPUs switched off and left on. All policies \
            except {tested} are given true rates; {tested} also runs with estimates, which start from measurements of \
            other workloads and are updated by what runs.{}",
        setup.describe(),
        others(setup)
    ));
    runs.warnings(setup).for_each(|warn| finding.warn(warn));
    for load in 0..setup.loads.len().min(NAMES.len()) {
        for unused in 0..UNUSED_GPUS.len() {
            finding.sheets.push(totals(setup, runs, load, unused));
            finding.plots.push(stacks(setup, runs, load, unused));
        }
        finding.sheets.extend(distances(setup, runs, load));
        finding.sheets.push(parts(setup, runs, load));
        finding.sheets.push(allocation::sheet(setup, runs, load));
        allocation::verdicts(setup, runs, load, &mut finding);
        for unused in 0..UNUSED_GPUS.len() {
            verdicts(setup, runs, (load, unused), &mut finding);
        }
    }
    finding
}

/// Where estimators other than the one under test run; nothing where it is alone.
fn others(setup: &GoghSetup<'_>) -> String {
    if setup.learners().count() < 2 {
        return String::new();
    }
    format!(
        " '{LEARNED} P1' is {LEARNED} without corrections: a measurement changes the estimate of no other cell. Estimators other \
            than {LEARNED} run at {} with unused GPUs {} only.",
        setup.loads.get(setup.middle()).map_or("no load", |load| load.title.as_str()),
        UNUSED_GPUS[0]
    )
}

/// E/E₀ − 1 over the seeds.
fn change(runs: &Runs, place: (usize, usize), own: usize, base: usize) -> MeanInterval {
    MeanInterval::of(
        &runs.beside(place, (own, base), |own, base| own.summary.energy_kwh / base.summary.energy_kwh - 1.0),
    )
}

fn mean(runs: &Runs, (load, unused): (usize, usize), own: usize, of: Amount) -> f64 {
    MeanInterval::of(&runs.each(load, unused, own, |outcome| of(&outcome.summary))).mean
}

/// A change against a candidate; nothing where it is itself, or one of them is not there.
fn against(runs: &Runs, place: (usize, usize), own: usize, base: Option<usize>) -> Value {
    let change = base.filter(|base| *base != own).map(|base| change(runs, place, own, base));
    change.filter(|change| change.mean.is_finite()).map_or(Value::Empty, |c| Value::spread(c, Style::Change(1)))
}

fn totals(setup: &GoghSetup<'_>, runs: &Runs, load: usize, unused: usize) -> Sheet {
    let columns = [
        ("run", "run"),
        ("energy\nkWh", "energy_kwh"),
        ("against\nfifo", "against_fifo"),
        ("against\nmax-min", "against_max_min_fairness"),
        ("promises\nbroken", "sla_violation_ratio"),
        ("JCT\nh", "mean_jct_hours"),
        ("moves", "migrations"),
    ];
    let title = format!("{}, unused GPUs {}", capital(&setup.loads[load].title), UNUSED_GPUS[unused]);
    let mut sheet = Sheet::new(NAMES[load][unused], title, &columns);
    let [fifo, max_min] = BASELINES.map(|name| setup.rival(name));
    let place = (load, unused);
    for c in setup.there(load, unused) {
        let number = |of: Amount, style| Value::number(mean(runs, place, c, of), style);
        sheet.row(vec![
            setup.name(c).into(),
            number(|s| s.energy_kwh, Style::Plain(1)),
            against(runs, place, c, fifo),
            against(runs, place, c, max_min),
            number(|s| s.sla_violation_ratio, Style::Percent(1)),
            number(|s| s.mean_jct_seconds / 3600.0, Style::Plain(2)),
            number(|s| s.migrations as f64, Style::Plain(0)),
        ]);
    }
    sheet.note(
        "Against: relative change in energy, paired by seed. Promises broken: time below a promised rate over the time \
            in which it was due. Moves: starts of a job on other GPUs than before.",
    )
}

fn distances(setup: &GoghSetup<'_>, runs: &Runs, load: usize) -> Option<Sheet> {
    let oracle = setup.tested(ORACLE)?;
    let columns = [
        ("run", "run"),
        ("unused off,\nin all", "off"),
        ("after\na tenth", "off_after_a_tenth"),
        ("unused on,\nin all", "on"),
        ("after\na tenth", "on_after_a_tenth"),
    ];
    let title = format!("Distance to {} with true rates, {}", setup.tested, setup.loads[load].title);
    let mut sheet = Sheet::new(NAMES[load][2], title, &columns);
    for c in setup.there(load, 0).filter(|c| *c != oracle) {
        let mut cells: Vec<Value> = vec![setup.name(c).into()];
        for unused in 0..UNUSED_GPUS.len() {
            cells.push(against(runs, (load, unused), c, Some(oracle)));
            let late = late_distance(runs, (load, unused), c, oracle);
            cells.push(if late.mean.is_nan() { Value::Empty } else { Value::spread(late, Style::Change(1)) });
        }
        sheet.row(cells);
    }
    Some(sheet.note(
        "Energy relative to the run with true rates, minus one: in total, and for the energy drawn after the first \
        tenth of the arrival period.",
    ))
}

/// The distance from the first tenth on.
fn late_distance(runs: &Runs, place: (usize, usize), own: usize, oracle: usize) -> MeanInterval {
    let ratios =
        runs.beside(place, (own, oracle), |own, base| own.energy_after_a_tenth() / base.energy_after_a_tenth() - 1.0);
    MeanInterval::of(&ratios)
}

/// A number of a summary.
type Amount = fn(&Summary) -> f64;

/// Parts of the energy in the order of the bars: they add up to all of it.
const PARTS: [(Part, Amount); 4] = [
    (Part::Active, |s| s.energy_active_kwh - s.energy_restart_kwh),
    (Part::Restarts, |s| s.energy_restart_kwh),
    (Part::Idle, |s| s.energy_idle_kwh - s.energy_unused_kwh),
    (Part::Unused, |s| s.energy_unused_kwh),
];

fn parts(setup: &GoghSetup<'_>, runs: &Runs, load: usize) -> Sheet {
    let columns = [
        ("run", "run"),
        ("computing\nkWh", "active_kwh"),
        ("restarts\nkWh", "restart_kwh"),
        ("idle, used\nkWh", "idle_used_kwh"),
        ("unused\nkWh", "unused_kwh"),
        ("GPUs\nin use", "utilisation_ratio"),
        ("last end\nh", "makespan_hours"),
    ];
    let title = format!("Where the energy goes, {}, unused GPUs on", setup.loads[load].title);
    let mut sheet = Sheet::new(NAMES[load][3], title, &columns);
    for c in setup.there(load, 1) {
        let mut cells: Vec<Value> = vec![setup.name(c).into()];
        cells.extend(PARTS.map(|(_, of)| Value::number(mean(runs, (load, 1), c, of), Style::Plain(1))));
        let in_use = mean(runs, (load, 1), c, |s| s.utilisation_ratio);
        cells.push(Value::number(in_use, Style::Percent(0)));
        let hours = mean(runs, (load, 1), c, |s| s.makespan_seconds / 3600.0);
        cells.push(Value::number(hours, Style::Plain(1)));
        sheet.row(cells);
    }
    sheet
}

fn stacks(setup: &GoghSetup<'_>, runs: &Runs, load: usize, unused: usize) -> Plot {
    // Where unused GPUs are off they draw nothing, and need no colour.
    let parts = &PARTS[..if unused == 0 { 3 } else { 4 }];
    let bars = setup
        .there(load, unused)
        .map(|c| (setup.name(c), parts.iter().map(|(_, of)| mean(runs, (load, unused), c, *of)).collect()));
    Plot::StackedBars {
        name: NAMES[load][4 + unused],
        title: format!("Energy, {}, unused GPUs {}", setup.loads[load].title, UNUSED_GPUS[unused]),
        caption:
            "Energy until the last job ends, mean over the traces. Shorter is better if no more promises are broken."
                .to_owned(),
        unit: "kWh",
        parts: parts.iter().map(|(part, _)| *part).collect(),
        bars: bars.collect(),
    }
}

fn verdicts(setup: &GoghSetup<'_>, runs: &Runs, place: (usize, usize), finding: &mut Finding) {
    let Some(own) = setup.learner() else { return };
    let title = format!("{}, unused GPUs {}", setup.loads[place.0].title, UNUSED_GPUS[place.1]);
    let oracle = setup.tested(ORACLE);
    let broken = |c: usize| mean(runs, place, c, |s| s.sla_violation_ratio);
    let percent = |ratio: f64| Style::Percent(1).format(ratio);
    for name in BASELINES {
        let Some(base) = setup.rival(name) else { continue };
        let saved = change(runs, place, own, base);
        if saved.mean.is_nan() {
            continue;
        }
        let known = oracle.map_or(String::new(), |oracle| {
            format!(" (with true rates {})", Style::Change(1).format(change(runs, place, oracle, base).mean))
        });
        let (mine, theirs) = (broken(own), broken(base));
        finding.verdict(
            format!("{}, against {name}, {title}", setup.name(own)),
            format!("−{} energy, no more promises broken", percent(STATED_SAVING)),
            format!(
                "{}{known}; promises broken {}, by {name} {}",
                Value::spread(saved, Style::Change(1)),
                percent(mine),
                percent(theirs)
            ),
            Judgement::of(saved.mean <= -LEAST_SAVING && mine <= theirs + SLACK),
        );
    }
    if let Some(oracle) = oracle {
        let late = late_distance(runs, place, own, oracle);
        if late.mean.is_finite() {
            finding.verdict(
                format!("{}, from a tenth of the trace on, {title}", setup.name(own)),
                format!("within {} of the run with true rates (our target)", Style::Percent(0).format(NEAR)),
                Value::spread(late, Style::Change(1)).to_string(),
                Judgement::of(late.mean <= NEAR),
            );
        }
    }
}

/// With a capital letter at the beginning.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
