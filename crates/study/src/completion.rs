//! Completion times on a trace, and whether everybody got what the policy granted.
//!
//! Over a whole run a tenant was *granted* ∫ Σ gangs·GPUs of the allocation in force, and *held* the GPU time that its gangs
//! had. Whole gangs, jobs that end within a round and GPUs that nobody was due make the two differ. A tenant is *owed*
//! at a moment if the allocation in force grants it anything; how long it then held nothing at a stretch is its wait.

use super::{Plan, pool};
use arles_core::Time;
use arles_core::allocate::{Allocation, Members, Problem};
use arles_report::MeanInterval;
use arles_report::finding::{Finding, Judgement, Plot, Sheet, Style, Value};
use arles_report::record::{Summary, TenantRecord};
use arles_sim::scenario::{RunHooks, RunObserver, Scenario};
use arles_sim::world::World;

/// How long tenants waited while they were owed something.
struct WaitTracker {
    owed: Vec<bool>,
    since: Vec<Option<Time>>,
    longest_seconds: f64,
}

impl WaitTracker {
    fn new(tenants: usize) -> Self {
        Self { owed: vec![false; tenants], since: vec![None; tenants], longest_seconds: 0.0 }
    }
}

impl RunObserver for WaitTracker {
    fn allocated(&mut self, _: Time, problem: &Problem, answer: &Allocation) {
        self.owed.fill(false);
        for grant in answer.grants().iter().filter(|grant| grant.gangs > 1e-6) {
            let users = match grant.members {
                Members::One(u) => [u, u],
                Members::Two(u, v) => [u, v],
            };
            users.into_iter().for_each(|u| self.owed[problem.users[u as usize].tenant.index()] = true);
        }
    }

    fn decided(&mut self, now: Time, world: &World) -> bool {
        let (mut present, mut holds) = (vec![false; self.owed.len()], vec![false; self.owed.len()]);
        for life in world.lives() {
            present[life.spec.tenant.index()] = true;
            holds[life.spec.tenant.index()] |= world.held(life.spec.id).is_some();
        }
        for (l, since) in self.since.iter_mut().enumerate() {
            if !self.owed[l] || !present[l] || holds[l] {
                *since = None;
                continue;
            }
            let from = *since.get_or_insert(now);
            self.longest_seconds = self.longest_seconds.max(now.since(from));
        }
        true
    }
}

/// The numbers kept of one run.
struct Outcome {
    summary: Summary,
    /// What all tenants together held of what they were granted, and the least that one did.
    all_held: f64,
    least_held: f64,
    longest_wait_seconds: f64,
}

/// Tenants with less than this part of the mean grant would drown the others in rounding.
const NEGLIGIBLE: f64 = 0.25;

fn held_of_granted(summary: &Summary) -> (f64, f64) {
    let sum = |of: fn(&TenantRecord) -> f64| summary.tenants.iter().map(of).sum::<f64>();
    let granted = sum(|t| t.granted_gpu_seconds);
    let least = NEGLIGIBLE * granted / summary.tenants.len().max(1) as f64;
    let held = summary.tenants.iter().filter(|t| t.granted_gpu_seconds > least);
    let worst = held.map(|t| t.gpu_seconds / t.granted_gpu_seconds).fold(f64::INFINITY, f64::min);
    (sum(|t| t.gpu_seconds) / granted, worst)
}

pub(super) fn run(plan: &Plan<'_>) -> Finding {
    let traces = plan.scenarios;
    let (jobs, tenants) = traces.first().map_or((0, 0), |s| (s.trace().jobs.len(), s.trace().tenants.len()));
    let dropped: usize = traces.iter().map(Scenario::dropped).sum();
    let left_out = match dropped {
        0 => String::new(),
        n => format!(" {n} jobs are excluded over all traces because no rate is known for their gang size."),
    };
    let number = if traces.len() == 1 { "one such trace".to_owned() } else { format!("{} such traces", traces.len()) };
    let mut finding = Finding::by(format!(
        "{} GPUs, {}; {jobs} jobs of {tenants} tenants, {number}, the same for every policy. Completion time is \
            measured from arrival to end.{left_out}",
        plan.testbed.machines(),
        plan.testbed.title,
    ));
    let items: Vec<(usize, usize)> =
        (0..plan.policies.len()).flat_map(|p| (0..traces.len()).map(move |t| (p, t))).collect();
    let results = pool::each(plan, &items, |&(p, t)| {
        let mut waits = WaitTracker::new(traces[t].trace().tenants.len());
        let record = traces[t].run(
            plan.policies[p],
            RunHooks { observer: Some(&mut waits), ..RunHooks::default() },
            &mut |_| {},
        );
        let summary = record.map_err(|error| error.to_string())?.summary;
        let (all_held, least_held) = held_of_granted(&summary);
        Ok(Outcome { all_held, least_held, longest_wait_seconds: waits.longest_seconds, summary })
    });
    tell(plan, &results, &mut finding);
    finding
}

/// The policy that completion times are compared with, where it takes part.
const BASELINE: &str = "max-min-fairness";

fn tell(plan: &Plan<'_>, results: &[Result<Outcome, String>], finding: &mut Finding) {
    let rows: Vec<&[Result<Outcome, String>]> = results.chunks(plan.scenarios.len().max(1)).collect();
    let baseline = plan.policies.iter().position(|entry| entry.name == BASELINE).unwrap_or(0);
    let times = [
        ("policy", "policy"),
        ("mean JCT\nh", "mean_jct_hours"),
        ("median\nh", "median_jct_hours"),
        ("p99\nh", "p99_jct_hours"),
        ("mean over\nbaseline", "mean_jct_ratio"),
    ];
    let grants = [
        ("policy", "policy"),
        ("held of granted,\nall tenants", "held_ratio"),
        ("worst\ntenant", "least_held_ratio"),
        ("longest wait\nwhile owed, h", "longest_wait_hours"),
        ("mixed\ngangs", "mixed_gangs"),
        ("unanswered\nrounds", "rounds_unanswered"),
    ];
    let mut completion = Sheet::new("completion", "Completion times", &times);
    let mut granted = Sheet::new("granted", "GPU time held relative to GPU time granted", &grants);
    let mut bars = Vec::new();
    for (p, (entry, own)) in plan.policies.iter().zip(&rows).enumerate() {
        for why in own.iter().filter_map(|row| row.as_ref().err()) {
            finding.warn(format!("{}: {why}", entry.name));
        }
        let runs: Vec<&Outcome> = own.iter().filter_map(|row| row.as_ref().ok()).collect();
        let ratios: Vec<f64> = own
            .iter()
            .zip(rows[baseline])
            .filter_map(|(own, base)| {
                Some(own.as_ref().ok()?.summary.mean_jct_seconds / base.as_ref().ok()?.summary.mean_jct_seconds)
            })
            .collect();
        let hours = |of: fn(&Summary) -> f64| {
            Value::spread(
                MeanInterval::of(&runs.iter().map(|run| of(&run.summary) / 3600.0).collect::<Vec<f64>>()),
                Style::Plain(2),
            )
        };
        let ratio = MeanInterval::of(&ratios);
        completion.row(vec![
            entry.name.into(),
            hours(|s| s.mean_jct_seconds),
            hours(|s| s.p50_jct_seconds),
            hours(|s| s.p99_jct_seconds),
            if p == baseline { Value::number(1.0, Style::Plain(3)) } else { Value::spread(ratio, Style::Plain(3)) },
        ]);
        bars.push((entry.name.to_owned(), ratio.mean, ratio.half_width.filter(|_| p != baseline)));
        let wait = runs.iter().map(|run| run.longest_wait_seconds).fold(0.0, f64::max) / 3600.0;
        let sum = |of: fn(&Summary) -> u64| runs.iter().map(|run| of(&run.summary)).sum::<u64>();
        let held = runs.iter().map(|run| run.least_held).fold(f64::INFINITY, f64::min);
        let all = MeanInterval::of(&runs.iter().map(|run| run.all_held).collect::<Vec<f64>>());
        granted.row(vec![
            entry.name.into(),
            Value::spread(all, Style::Percent(1)),
            Value::number(held, Style::Percent(1)),
            Value::number(wait, Style::Plain(2)),
            Value::Count(sum(|s| s.mixed_gangs)),
            Value::Count(sum(|s| s.rounds_unanswered)),
        ]);
        if entry.name.starts_with("oef-") {
            judge(finding, entry.name, (all.mean, held), (wait, sum(|s| s.mixed_gangs)));
        }
    }
    annotate(plan.policies[baseline].name, (completion, granted), bars, finding);
}

/// Puts the sheets and the chart into the finding, with how to read them.
fn annotate(
    name: &str,
    (completion, granted): (Sheet, Sheet),
    bars: Vec<(String, f64, Option<f64>)>,
    finding: &mut Finding,
) {
    finding.sheets.push(completion.note(format!(
        "± is the half width of the 95 % confidence interval over the traces. The last column is the mean of per-trace \
            ratios to {name}, which removes the variation common to a trace."
    )));
    finding.sheets.push(granted.note(
        "Held of granted: GPU time held over GPU time granted by the policy; the worst tenant of any run is taken among \
            tenants with at least a quarter of the mean grant. A job that ends within a round leaves the rest of its grant \
            unused, and a gang waits until enough GPUs of one kind are free, so finite jobs fall short of what endless \
            jobs get (see throughput). Longest wait: the longest time that a tenant with a grant held no GPU.",
    ));
    finding.plots.push(Plot::Bars {
        name: "completion",
        title: format!("Mean completion time over that of {name}"),
        caption:
            "Left of 1 is faster. Ratios are taken per trace; error bars are 95 % confidence intervals over the traces."
                .to_owned(),
        unit: "mean completion time, ratio",
        style: Style::Plain(2),
        base: 1.0,
        bars,
    });
}

fn judge(finding: &mut Finding, name: &str, (all, held): (f64, f64), (wait, mixed): (f64, u64)) {
    let percent = |part: f64| Style::Percent(1).format(part);
    let measured = format!("all tenants held {} of their grants, the worst one {}", percent(all), percent(held));
    let stated = "long-run GPU time equals the ideal share";
    finding.verdict(format!("{name}: GPU time on a trace"), stated, measured, Judgement::of(held >= 0.95));
    let measured = format!("{mixed} mixed gangs; the longest wait of a tenant with a grant was {wait:.2} h");
    finding.verdict(format!("{name}: mixed gangs"), "none", measured, Judgement::of(mixed == 0));
}
