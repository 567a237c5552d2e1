//! Wrong profiles: policies decide by rates that are off, and tenants are valued by the true ones.
//!
//! Every rate of every tenant on every kind is off by its own factor, uniform in 1 ± e.

use super::instance::{Instance, Shares, envies, shortfalls, violations};
use super::throughput::{TENANTS, draw};
use super::{Plan, pool};
use arles_core::allocate::PolicyEntry;
use arles_report::MeanInterval;
use arles_report::finding::{Finding, Judgement, Plot, Sheet, Style, Value};
use arles_sim::rng::Rng;

const ERRORS: [f64; 3] = [0.0, 0.1, 0.2];

/// What came of one error.
#[derive(Clone, Copy)]
struct Outcome {
    /// Total true throughput over what true rates would have given.
    kept: f64,
    below: f64,
    worst_below: f64,
    envious: f64,
    worst_envy: f64,
}

fn value(instance: &Instance, x: &Shares, right: f64) -> Result<Outcome, String> {
    let audit = instance.audit(x)?;
    let (below, worst_below) = violations(&shortfalls(&audit));
    let (envious, worst_envy) = violations(&envies(&audit));
    let part = |count: usize| count as f64 / TENANTS as f64;
    Ok(Outcome { kept: instance.total(x) / right, below: part(below), worst_below, envious: part(envious), worst_envy })
}

fn perturbed(
    plan: &Plan<'_>,
    entry: &PolicyEntry,
    seed: u64,
    number: usize,
) -> Result<[Outcome; ERRORS.len()], String> {
    let (instance, _) = draw(plan.testbed, seed, number);
    let policy = (entry.make)();
    let right = instance.total(&instance.ask_honestly(policy.as_ref())?);
    let mut outcomes = Vec::with_capacity(ERRORS.len());
    for e in ERRORS {
        let mut rng = Rng::new(seed).fork("errors").fork(&format!("draw {number}"));
        let told: Vec<f64> = instance.w.iter().map(|w| w * rng.uniform_in(1.0 - e, 1.0 + e)).collect();
        outcomes.push(value(&instance, &instance.ask(policy.as_ref(), &told)?, right)?);
    }
    outcomes.try_into().map_err(|_| "an outcome is missing".to_owned())
}

pub(super) fn run(plan: &Plan<'_>) -> Finding {
    let draws = plan.effort(8, 60);
    let mut finding = Finding::by(format!(
        "The tenants of the throughput experiment ({}, {TENANTS} tenants, {draws} draws for each of {} seeds). Policies \
            see every rate multiplied by an independent factor uniform in 1 ± e; utilities use the true rates.",
        plan.testbed.title, plan.seeds
    ));
    let items: Vec<(usize, u64, usize)> = (0..plan.policies.len())
        .flat_map(|p| plan.seeds().flat_map(move |seed| (0..draws).map(move |i| (p, seed, i))))
        .collect();
    let results = pool::each(plan, &items, |&(p, seed, i)| perturbed(plan, plan.policies[p], seed, i));
    tell(plan, &results, draws, &mut finding);
    finding
}

/// What came of all errors of one draw.
type Row = Result<[Outcome; ERRORS.len()], String>;

fn tell(plan: &Plan<'_>, results: &[Row], draws: usize, finding: &mut Finding) {
    let columns = [
        ("policy", "policy"),
        ("error", "error"),
        ("throughput\nchange", "throughput_change"),
        ("below\nequal split", "below_equal_split"),
        ("worst", "worst_shortfall"),
        ("envious\ntenants", "envious"),
        ("worst", "worst_envy"),
    ];
    let mut sheet = Sheet::new("robustness", "Allocations from wrong rates, evaluated with true rates", &columns);
    let mut bars = Vec::new();
    for (p, entry) in plan.policies.iter().enumerate() {
        let rows = &results[p * plan.seeds as usize * draws..(p + 1) * plan.seeds as usize * draws];
        for why in rows.iter().filter_map(|row| row.as_ref().err()) {
            finding.warn(format!("{}: {why}", entry.name));
        }
        for (i, e) in ERRORS.iter().enumerate() {
            let over_seeds = |of: fn(&Outcome) -> f64| {
                let mean = |rows: &[Row]| {
                    MeanInterval::of(
                        &rows.iter().filter_map(|row| Some(of(&row.as_ref().ok()?[i]))).collect::<Vec<f64>>(),
                    )
                    .mean
                };
                MeanInterval::of(&rows.chunks(draws).map(mean).collect::<Vec<f64>>())
            };
            let most = |of: fn(&Outcome) -> f64| {
                let worst = rows.iter().filter_map(|row| Some(of(&row.as_ref().ok()?[i]))).fold(0.0, f64::max);
                if worst > 0.0 { Value::number(worst, Style::Percent(0)) } else { Value::Empty }
            };
            let change = over_seeds(|o| o.kept - 1.0);
            sheet.row(vec![
                entry.name.into(),
                format!("±{:.0} %", e * 100.0).into(),
                Value::spread(change, Style::Change(2)),
                Value::spread(over_seeds(|o| o.below), Style::Percent(0)),
                most(|o| o.worst_below),
                Value::spread(over_seeds(|o| o.envious), Style::Percent(0)),
                most(|o| o.worst_envy),
            ]);
            if *e > 0.0 {
                bars.push((format!("{} ±{:.0} %", entry.name, e * 100.0), change.mean, change.half_width));
            }
            if entry.name == "oef-coop" && *e > 0.0 {
                let said = Value::spread(change, Style::Change(2));
                finding.verdict(
                    format!("oef-coop: throughput at ±{:.0} %", e * 100.0),
                    "robust; no figure available",
                    format!(
                        "{said}; {} of tenants below an equal split",
                        Style::Percent(0).format(over_seeds(|o| o.below).mean)
                    ),
                    Judgement::Open,
                );
            }
        }
    }
    finding.sheets.push(sheet.note(
        "Worst: the largest shortfall below an equal split and the largest envy (relative gain from the envied bundle) \
            of any tenant in any draw. A policy that promises neither shows them at ±0 % as well.",
    ));
    finding.plots.push(chart(bars));
}

fn chart(bars: Vec<(String, f64, Option<f64>)>) -> Plot {
    Plot::Bars {
        name: "robustness",
        title: "Throughput lost to wrong profiles".to_owned(),
        caption:
            "True total throughput relative to the same policy with true rates. Left of 0: loss; right of 0: gain at \
            another tenant's expense."
                .to_owned(),
        unit: "change of Σ w·x",
        style: Style::Change(2),
        base: 0.0,
        bars,
    }
}
