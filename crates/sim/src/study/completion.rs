//! Completion times on a trace, and whether everybody got what the policy granted.
//!
//! Over a whole run a tenant was *granted* ∫ Σ gangs·GPUs of the allocation in force, and *held* the GPU time that its gangs
//! had. Whole gangs, jobs that end within a round and GPUs that nobody was due make the two differ. A tenant is *owed*
//! at a moment if the allocation in force grants it anything; how long it then held nothing at a stretch is its wait.

use super::{Finding, Judgement, Plan, Plot, Sheet, Spread, Style, Value, pool};
use crate::drive::Witness;
use crate::record::Summary;
use crate::world::World;
use arles_core::Time;
use arles_core::allocate::{Allocation, Members, Problem};

/// How long tenants waited while they were owed something.
struct Waits {
    owed: Vec<bool>,
    since: Vec<Option<Time>>,
    longest_seconds: f64,
}

impl Waits {
    fn new(tenants: usize) -> Self {
        Self { owed: vec![false; tenants], since: vec![None; tenants], longest_seconds: 0.0 }
    }
}

impl Witness for Waits {
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

/// One run.
struct Outcome {
    summary: Summary,
    /// The least that a tenant held of what it was granted.
    least_held: f64,
    longest_wait_seconds: f64,
}

/// Tenants with less than this part of the mean grant would drown the others in rounding.
const NEGLIGIBLE: f64 = 0.1;

fn least_held(summary: &Summary) -> f64 {
    let granted: f64 = summary.tenants.iter().map(|t| t.granted_gpu_seconds).sum();
    let least = NEGLIGIBLE * granted / summary.tenants.len().max(1) as f64;
    let held = summary.tenants.iter().filter(|t| t.granted_gpu_seconds > least);
    held.map(|t| t.gpu_seconds / t.granted_gpu_seconds).fold(f64::INFINITY, f64::min)
}

pub(super) fn run(plan: &Plan<'_>) -> Finding {
    let traces = plan.scenarios;
    let (jobs, tenants) = traces.first().map_or((0, 0), |s| (s.trace().jobs.len(), s.trace().tenants.len()));
    let mut finding = Finding::by(format!(
        "{} GPUs, {}; {jobs} jobs of {tenants} tenants, {} of such traces, the same for every policy. Completion time runs from arrival to \
         end.",
        plan.ground.machines(),
        plan.ground.title,
        traces.len()
    ));
    let items: Vec<(usize, usize)> =
        (0..plan.policies.len()).flat_map(|p| (0..traces.len()).map(move |t| (p, t))).collect();
    let results = pool::each(plan, &items, |&(p, t)| {
        let mut waits = Waits::new(traces[t].trace().tenants.len());
        let record = traces[t].run_before(plan.policies[p], None, &mut |_| {}, Some(&mut waits));
        let summary = record.map_err(|error| error.to_string())?.summary;
        Ok(Outcome { least_held: least_held(&summary), longest_wait_seconds: waits.longest_seconds, summary })
    });
    tell(plan, &results, &mut finding);
    finding
}

fn tell(plan: &Plan<'_>, results: &[Result<Outcome, String>], finding: &mut Finding) {
    let columns = [
        ("policy", "policy"),
        ("mean JCT\nh", "mean_jct_hours"),
        ("median\nh", "median_jct_hours"),
        ("p99\nh", "p99_jct_hours"),
        ("least held\nof granted", "least_held_ratio"),
        ("longest\nwait h", "longest_wait_hours"),
        ("mixed\ngangs", "mixed_gangs"),
    ];
    let mut sheet = Sheet::new("completion", "Completion times, and what tenants got of their grants", &columns);
    let mut bars = Vec::new();
    for (entry, rows) in plan.policies.iter().zip(results.chunks(plan.scenarios.len().max(1))) {
        for why in rows.iter().filter_map(|row| row.as_ref().err()) {
            finding.trouble(format!("{}: {why}", entry.name));
        }
        let runs: Vec<&Outcome> = rows.iter().filter_map(|row| row.as_ref().ok()).collect();
        let over = |of: fn(&Outcome) -> f64| Spread::of(&runs.iter().map(|run| of(run)).collect::<Vec<f64>>());
        let hours = |of: fn(&Outcome) -> f64| {
            let spread = over(of);
            let scaled = Spread { mean: spread.mean / 3600.0, half_width: spread.half_width.map(|half| half / 3600.0) };
            Value::spread(scaled, Style::Plain(2))
        };
        let wait = runs.iter().map(|run| run.longest_wait_seconds).fold(0.0, f64::max) / 3600.0;
        let mixed: u64 = runs.iter().map(|run| run.summary.mixed_gangs).sum();
        let held = runs.iter().map(|run| run.least_held).fold(f64::INFINITY, f64::min);
        let mean = hours(|run| run.summary.mean_jct_seconds);
        if let Some(value) = mean.exact() {
            bars.push((entry.name.to_owned(), value, mean.half_width()));
        }
        sheet.row(vec![
            entry.name.into(),
            mean,
            hours(|run| run.summary.p50_jct_seconds),
            hours(|run| run.summary.p99_jct_seconds),
            Value::number(held, Style::Percent(0)),
            Value::number(wait, Style::Plain(2)),
            Value::Count(mixed),
        ]);
        if entry.name.starts_with("oef-") {
            let judgement = Judgement::of(held >= 0.95);
            let measured =
                format!("the worst tenant of {} runs held {} of its grant", runs.len(), Style::Percent(1).say(held));
            let stated = "long-run GPU time equals the ideal share";
            finding.verdict(format!("{}: GPU time on a trace", entry.name), stated, measured, judgement);
            let measured = format!("{mixed} mixed gangs; nobody who was owed waited longer than {wait:.2} h");
            finding.verdict(format!("{}: mixed gangs", entry.name), "none", measured, Judgement::of(mixed == 0));
        }
    }
    finding.sheets.push(sheet.note(
        "Least held of granted: the worst tenant's GPU time over what the policy granted it, in any run, among tenants with at least a tenth \
         of the mean grant; a job that ends within a round leaves the rest of its grant unused. Longest wait: the longest that any \
         tenant with a grant held no GPU at all. Both are against the policy's own grants.",
    ));
    finding.plots.push(Plot::Bars {
        name: "completion",
        title: "Mean completion time".to_owned(),
        reading: "From arrival to end, mean over the jobs of a trace; the line across the end is the 95 % interval over traces.".to_owned(),
        unit: "hours",
        style: Style::Plain(2),
        base: 0.0,
        bars,
    });
}
