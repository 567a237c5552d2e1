//! Energy to completion, broken promises and completion times of every contender, at several loads.
//!
//! Energies are compared seed by seed, E/E₀ − 1 with E₀ the baseline's on the same trace, so that a trace with much work does
//! not drown the others. The *distance to the oracle* is the same with E₀ of the policy under test told the truth: what is
//! lost by not knowing. *After a tenth* counts only what is drawn after the first tenth of the time in which jobs arrive, when
//! most cells have been met once; a run that fell behind until then still pays for it there.
//!
//! Where unused GPUs are on, energy holds the idle power of every GPU until the last end; where they are off, only of those
//! in use.

use super::{Field, LEARNED, ORACLE, Runs, WORLD_OPTIONS};
use arles_report::Spread;
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
const BASELINES: [&str; 2] = ["fifo", "max-min-fairness"];

/// Names of sheets and charts, by load.
const NAMES: [[&str; 6]; 3] = [
    ["low-off", "low-on", "low-distance", "low-parts", "energy-low-off", "energy-low-on"],
    ["middle-off", "middle-on", "middle-distance", "middle-parts", "energy-middle-off", "energy-middle-on"],
    ["high-off", "high-on", "high-distance", "high-parts", "energy-high-off", "energy-high-on"],
];

/// Tells of energy, promises and times.
#[must_use]
pub fn energy(field: &Field<'_>, runs: &Runs) -> Finding {
    let tested = field.tested;
    let mut finding = Finding::by(format!(
        "{} Energy is that of all GPUs until the last end, with unused GPUs switched off and left on. Everybody but {tested} is told true rates; \
         {tested} also has to do with estimates, which begin with measurements of other workloads and learn from what runs. '{LEARNED} P1' is {LEARNED} without \
         corrections: what was measured says nothing about other cells. Estimators other than {LEARNED} run at {} with unused \
         GPUs {} only.",
        field.words(),
        field.loads.get(field.middle()).map_or("no load", |load| load.title.as_str()),
        WORLD_OPTIONS[0]
    ));
    runs.troubles(field).for_each(|trouble| finding.trouble(trouble));
    for load in 0..field.loads.len().min(NAMES.len()) {
        for habit in 0..WORLD_OPTIONS.len() {
            finding.sheets.push(totals(field, runs, load, habit));
            finding.plots.push(stacks(field, runs, load, habit));
        }
        finding.sheets.extend(distances(field, runs, load));
        finding.sheets.push(parts(field, runs, load));
        for habit in 0..WORLD_OPTIONS.len() {
            verdicts(field, runs, (load, habit), &mut finding);
        }
    }
    finding
}

/// E/E₀ − 1 over the seeds.
fn change(runs: &Runs, place: (usize, usize), own: usize, base: usize) -> Spread {
    Spread::of(&runs.beside(place, (own, base), |own, base| own.summary.energy_kwh / base.summary.energy_kwh - 1.0))
}

fn mean(runs: &Runs, (load, habit): (usize, usize), own: usize, of: Amount) -> f64 {
    Spread::of(&runs.each(load, habit, own, |outcome| of(&outcome.summary))).mean
}

/// A change against a contender; nothing where it is itself, or one of them is not there.
fn against(runs: &Runs, place: (usize, usize), own: usize, base: Option<usize>) -> Value {
    let change = base.filter(|base| *base != own).map(|base| change(runs, place, own, base));
    change.filter(|change| change.mean.is_finite()).map_or(Value::Nothing, |c| Value::spread(c, Style::Change(1)))
}

fn totals(field: &Field<'_>, runs: &Runs, load: usize, habit: usize) -> Sheet {
    let columns = [
        ("run", "run"),
        ("energy\nkWh", "energy_kwh"),
        ("against\nfifo", "against_fifo"),
        ("against\nmax-min", "against_max_min_fairness"),
        ("promises\nbroken", "sla_violation_ratio"),
        ("JCT\nh", "mean_jct_hours"),
        ("moves", "migrations"),
    ];
    let title = format!("{}, unused GPUs {}", capital(&field.loads[load].title), WORLD_OPTIONS[habit]);
    let mut sheet = Sheet::new(NAMES[load][habit], title, &columns);
    let [fifo, max_min] = BASELINES.map(|name| field.rival(name));
    let place = (load, habit);
    for c in field.there(load, habit) {
        let number = |of: Amount, style| Value::number(mean(runs, place, c, of), style);
        sheet.row(vec![
            field.name(c).into(),
            number(|s| s.energy_kwh, Style::Plain(1)),
            against(runs, place, c, fifo),
            against(runs, place, c, max_min),
            number(|s| s.sla_violation_ratio, Style::Percent(1)),
            number(|s| s.mean_jct_seconds / 3600.0, Style::Plain(2)),
            number(|s| s.migrations as f64, Style::Plain(0)),
        ]);
    }
    sheet.note(
        "Against: change in energy, seed by seed. Promises broken: time below a promised rate over the time that it was due. Moves: starts of a job \
         on other GPUs than it last had.",
    )
}

fn distances(field: &Field<'_>, runs: &Runs, load: usize) -> Option<Sheet> {
    let oracle = field.tested(ORACLE)?;
    let columns = [
        ("run", "run"),
        ("unused off,\nin all", "off"),
        ("after\na tenth", "off_after_a_tenth"),
        ("unused on,\nin all", "on"),
        ("after\na tenth", "on_after_a_tenth"),
    ];
    let title = format!("Distance to {} with true rates, {}", field.tested, field.loads[load].title);
    let mut sheet = Sheet::new(NAMES[load][2], title, &columns);
    for c in field.there(load, 0).filter(|c| *c != oracle) {
        let mut cells: Vec<Value> = vec![field.name(c).into()];
        for habit in 0..WORLD_OPTIONS.len() {
            cells.push(against(runs, (load, habit), c, Some(oracle)));
            let late = late_distance(runs, (load, habit), c, oracle);
            cells.push(if late.mean.is_nan() { Value::Nothing } else { Value::spread(late, Style::Change(1)) });
        }
        sheet.row(cells);
    }
    Some(sheet.note("Energy over that of the oracle's run, less one: in all, and of what is drawn after the first tenth of the time in which jobs arrive."))
}

/// The distance from the first tenth on.
fn late_distance(runs: &Runs, place: (usize, usize), own: usize, oracle: usize) -> Spread {
    let ratios =
        runs.beside(place, (own, oracle), |own, base| own.energy_after_a_tenth() / base.energy_after_a_tenth() - 1.0);
    Spread::of(&ratios)
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

fn parts(field: &Field<'_>, runs: &Runs, load: usize) -> Sheet {
    let columns = [
        ("run", "run"),
        ("computing\nkWh", "active_kwh"),
        ("restarts\nkWh", "restart_kwh"),
        ("idle, used\nkWh", "idle_used_kwh"),
        ("unused\nkWh", "unused_kwh"),
        ("GPUs\nin use", "utilisation_ratio"),
        ("last end\nh", "makespan_hours"),
    ];
    let title = format!("Where the energy goes, {}, unused GPUs on", field.loads[load].title);
    let mut sheet = Sheet::new(NAMES[load][3], title, &columns);
    for c in field.there(load, 1) {
        let mut cells: Vec<Value> = vec![field.name(c).into()];
        cells.extend(PARTS.map(|(_, of)| Value::number(mean(runs, (load, 1), c, of), Style::Plain(1))));
        let in_use = mean(runs, (load, 1), c, |s| s.utilisation_ratio);
        cells.push(Value::number(in_use, Style::Percent(0)));
        let hours = mean(runs, (load, 1), c, |s| s.makespan_seconds / 3600.0);
        cells.push(Value::number(hours, Style::Plain(1)));
        sheet.row(cells);
    }
    sheet
}

fn stacks(field: &Field<'_>, runs: &Runs, load: usize, habit: usize) -> Plot {
    // Where unused GPUs are off they draw nothing, and need no colour.
    let parts = &PARTS[..if habit == 0 { 3 } else { 4 }];
    let bars = field
        .there(load, habit)
        .map(|c| (field.name(c), parts.iter().map(|(_, of)| mean(runs, (load, habit), c, *of)).collect()));
    Plot::Stacks {
        name: NAMES[load][4 + habit],
        title: format!("Energy, {}, unused GPUs {}", field.loads[load].title, WORLD_OPTIONS[habit]),
        reading: "Mean over the traces of the energy until the last end. Shorter is better, where no more promises are broken.".to_owned(),
        unit: "kWh",
        parts: parts.iter().map(|(part, _)| *part).collect(),
        bars: bars.collect(),
    }
}

fn verdicts(field: &Field<'_>, runs: &Runs, place: (usize, usize), finding: &mut Finding) {
    let Some(own) = field.tested(LEARNED) else { return };
    let title = format!("{}, unused GPUs {}", field.loads[place.0].title, WORLD_OPTIONS[place.1]);
    let oracle = field.tested(ORACLE);
    let broken = |c: usize| mean(runs, place, c, |s| s.sla_violation_ratio);
    let percent = |ratio: f64| Style::Percent(1).say(ratio);
    for name in BASELINES {
        let Some(base) = field.rival(name) else { continue };
        let saved = change(runs, place, own, base);
        if saved.mean.is_nan() {
            continue;
        }
        let known = oracle.map_or(String::new(), |oracle| {
            format!(" (with true rates {})", Style::Change(1).say(change(runs, place, oracle, base).mean))
        });
        let (mine, theirs) = (broken(own), broken(base));
        finding.verdict(
            format!("{}, against {name}, {title}", field.name(own)),
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
                format!("{}, from a tenth of the trace on, {title}", field.name(own)),
                format!("within {} of true rates (our aim)", Style::Percent(0).say(NEAR)),
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
