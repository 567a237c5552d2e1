//! Total throughput against an equal split, divisible and through the placer.
//!
//! ```text
//! ratio = Σ_l w_l·x_l / Σ_l w_l·m/n         w over the slowest kind of each tenant, x GPUs held on average
//! ```
//!
//! Where kinds have no common order, "the slowest kind" has two readings, and they give different figures: each tenant's own,
//! as the policies here take it, or one kind s for all (on Gavel's table the K80, which for five workloads is not the slowest).
//! The second reading values everybody by v_l = w_l/w_l^s. A program that makes utilities equal is then another program,
//! v_l·x_l = v_i·x_i, which is the first one with weights π_l = w_l^s; so it can be asked too.
//!
//! First as the policies divide, with fractions of GPUs; then by whole GPUs: the very scheduler runs 500 rounds of endless
//! jobs on a virtual cluster, and the GPU time that every tenant held of every kind takes the place of x.

use super::instance::{Instance, Shares, envies, shortfalls, violations};
use super::{Plan, Testbed, pool};
use arles_core::allocate::{Allocation, Members, PolicyEntry, Problem};
use arles_core::{Tenant, Time};
use arles_report::MeanInterval;
use arles_report::finding::{Finding, Judgement, Plot, Sheet, Style, Value};
use arles_sim::rng::Rng;
use arles_sim::scenario::{Options, RunHooks, RunObserver, Scenario};
use arles_sim::trace::{Length, Trace, TraceJob};
use arles_sim::world::World;
use std::sync::Arc;

pub(super) const TENANTS: usize = 20;
const ROUND_SECONDS: f64 = 60.0;

/// Mean and largest of 60 draws on Gavel's measured rates, 8 + 8 + 8 GPUs, 20 tenants.
const PUBLISHED: &[(&str, f64, f64)] = &[
    ("gandiva-fair", 1.16, 1.20),
    ("max-min-fairness", 1.24, 1.30),
    ("oef-noncoop", 0.97, 1.08),
    ("oef-coop", 1.25, 1.33),
    ("ceei", 1.24, 1.31),
    ("max-throughput", 2.16, 2.75),
];

/// Twenty tenants with one random workload each.
pub(super) fn draw(testbed: &Testbed, seed: u64, number: usize) -> (Instance, Vec<usize>) {
    let mut rng = Rng::new(seed).fork("tenants").fork(&format!("draw {number}"));
    let rows: Vec<usize> = (0..TENANTS).map(|_| rng.below(testbed.speedups.len() as u64) as usize).collect();
    let w = rows.iter().flat_map(|&row| testbed.speedups[row].iter().copied()).collect();
    (Instance { w, m: testbed.capacity(), pi: vec![1.0; TENANTS] }, rows)
}

/// What one policy made of one draw.
struct DividedResult {
    ratio: f64,
    /// The same with speed-ups over one kind for all.
    common: f64,
    /// Tenants below their equal split, and tenants that envy.
    below: usize,
    envious: usize,
}

pub(super) fn run(plan: &Plan<'_>) -> Finding {
    let draws = plan.effort(12, 60);
    let mut finding = Finding::by(format!(
        "{} GPUs; {TENANTS} tenants of equal weight, each with one random single-GPU workload out of {} ({}) and enough \
            jobs to fill the cluster; {draws} draws for each of {} seeds. Throughput is Σ w·x, with w relative to each \
            tenant's slowest kind, divided by that of an equal split.",
        plan.testbed.machines(),
        plan.testbed.workloads.len(),
        plan.testbed.title,
        plan.seeds
    ));
    divisible(plan, draws, &mut finding);
    placed(plan, &mut finding);
    finding
}

fn divisible(plan: &Plan<'_>, draws: usize, finding: &mut Finding) {
    let items: Vec<(u64, usize)> = plan.seeds().flat_map(|seed| (0..draws).map(move |i| (seed, i))).collect();
    let half = Plan { progress: &|part| (plan.progress)(part * 0.5), ..*plan };
    let results = pool::each(&half, &items, |&(seed, i)| {
        let (instance, _) = draw(plan.testbed, seed, i);
        let equal = instance.total(&instance.equal_split());
        let slowest = plan.testbed.slowest();
        let divided = |entry: &&'static PolicyEntry| {
            let x = instance.ask_honestly((entry.make)().as_ref())?;
            let audit = instance.audit(&x)?;
            let (below, envious) = (violations(&shortfalls(&audit)).0, violations(&envies(&audit)).0);
            let common = common_ratio(&instance, slowest, entry, &x)?;
            Ok(DividedResult { ratio: instance.total(&x) / equal, common, below, envious })
        };
        plan.policies.iter().map(divided).collect::<Vec<Result<DividedResult, String>>>()
    });
    let columns = [
        ("policy", "policy"),
        ("ratio, own\nslowest kind", "ratio"),
        ("largest", "largest_ratio"),
        ("ratio, one\nslowest kind", "common_ratio"),
        ("largest", "largest_common_ratio"),
        ("below\nequal", "below_equal_split"),
        ("envy", "envious"),
    ];
    let mut sheet = Sheet::new("divisible", "Divisible GPUs: throughput over that of an equal split", &columns);
    let (one, none) = (|| Value::number(1.0, Style::Plain(3)), || Value::number(0.0, Style::Percent(0)));
    sheet.row(vec!["equal split".into(), one(), Value::Empty, one(), Value::Empty, none(), none()]);
    let mut bars = vec![("equal split".to_owned(), 1.0, None)];
    for (p, entry) in plan.policies.iter().enumerate() {
        for why in results.iter().filter_map(|row| row[p].as_ref().err()) {
            finding.warn(format!("{}: {why}", entry.name));
        }
        // Over the seeds: the mean of each one's draws, and its largest.
        let seeds = |of: fn(&DividedResult) -> f64| {
            let by_seed = results.chunks(draws).map(|rows| {
                let values: Vec<f64> = rows.iter().filter_map(|row| row[p].as_ref().ok()).map(of).collect();
                (MeanInterval::of(&values).mean, values.iter().copied().fold(0.0, f64::max))
            });
            let (means, largest): (Vec<f64>, Vec<f64>) = by_seed.unzip();
            (MeanInterval::of(&means), MeanInterval::of(&largest).mean)
        };
        let (own, common) = (seeds(|d| d.ratio), seeds(|d| d.common));
        let tenants =
            |of: fn(&DividedResult) -> f64| Value::number(seeds(of).0.mean / TENANTS as f64, Style::Percent(0));
        sheet.row(vec![
            entry.name.into(),
            Value::spread(own.0, Style::Plain(3)),
            Value::number(own.1, Style::Plain(2)),
            Value::spread(common.0, Style::Plain(3)),
            Value::number(common.1, Style::Plain(2)),
            tenants(|d| d.below as f64),
            tenants(|d| d.envious as f64),
        ]);
        bars.push((entry.name.to_owned(), own.0.mean, own.0.half_width));
        published(plan.testbed, entry.name, own, common, finding);
    }
    finding.sheets.push(sheet.note(format!(
        "One slowest kind: speed-ups relative to the {} for every tenant; where utilities are equalised (oef-noncoop), \
            in that unit. Largest: maximum over {draws} draws, averaged over the seeds. Below equal, envy: tenants below \
            their equal split, and tenants that prefer another tenant's GPUs. ± is the half width of the 95 % confidence \
            interval over the seeds.",
        plan.testbed.cluster.kinds()[plan.testbed.slowest()].name
    )));
    finding.plots.push(chart(bars));
    against_rivals(plan, &results, draws, finding);
}

fn chart(bars: Vec<(String, f64, Option<f64>)>) -> Plot {
    Plot::Bars {
        name: "throughput",
        title: "Total throughput over that of an equal split".to_owned(),
        caption: "Bars start at 1, an equal split; error bars are 95 % confidence intervals over the seeds.".to_owned(),
        unit: "Σ w·x over that of an equal split",
        style: Style::Plain(2),
        base: 1.0,
        bars,
    }
}

/// Throughput over that of an equal split with speed-ups over one kind for all.
fn common_ratio(instance: &Instance, slowest: usize, entry: &PolicyEntry, x: &Shares) -> Result<f64, String> {
    let (n, k) = (instance.users(), instance.kinds());
    let unit: Vec<f64> = (0..n).map(|l| instance.w(l)[slowest]).collect();
    let w = instance.w.iter().enumerate().map(|(i, w)| w / unit[i / k]).collect();
    let valued = Instance { w, ..instance.clone() };
    let equal = valued.total(&valued.equal_split());
    if entry.name == "oef-noncoop" {
        let weighted = Instance { pi: unit, ..instance.clone() };
        return Ok(valued.total(&weighted.ask_honestly((entry.make)().as_ref())?) / equal);
    }
    Ok(valued.total(x) / equal)
}

/// The figures stated for Gavel's rates. They do not say which reading of "the slowest kind" they were made with; a figure
/// that one of the two gives is found.
fn published(
    testbed: &Testbed,
    name: &str,
    own: (MeanInterval, f64),
    common: (MeanInterval, f64),
    finding: &mut Finding,
) {
    let Some((_, mean, most)) = PUBLISHED.iter().find(|row| row.0 == name).filter(|_| testbed.published) else {
        return;
    };
    // A hundredth, and half of the last digit that is stated.
    let near = |ratio: f64| (ratio - mean).abs() <= 0.01 * mean + 0.005;
    let off = |ratio: f64| Style::Change(1).format(ratio / mean - 1.0);
    let said =
        |(ratio, largest): (MeanInterval, f64)| format!("{} ({largest:.2})", Value::spread(ratio, Style::Plain(3)));
    finding.verdict(
        format!("{name}: mean (largest) ratio"),
        format!("{mean:.2} ({most:.2})"),
        format!(
            "over each tenant's own slowest kind {}, {}; over the k80 {}, {}",
            said(own),
            off(own.0.mean),
            said(common),
            off(common.0.mean)
        ),
        Judgement::of(near(own.0.mean) || near(common.0.mean)),
    );
}

/// "Up to 32 % over the heterogeneity-aware schedulers of its time."
fn against_rivals(
    plan: &Plan<'_>,
    results: &[Vec<Result<DividedResult, String>>],
    draws: usize,
    finding: &mut Finding,
) {
    let at = |name: &str| plan.policies.iter().position(|entry| entry.name == name);
    let Some(own) = at("oef-coop") else { return };
    for rival in ["gandiva-fair", "max-min-fairness"] {
        let Some(other) = at(rival) else { continue };
        let gains: Vec<f64> = results
            .iter()
            .filter_map(|row| Some(row[own].as_ref().ok()?.ratio / row[other].as_ref().ok()?.ratio - 1.0))
            .collect();
        let largest = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = MeanInterval::of(&gains).mean;
        finding.verdict(
            format!("oef-coop over {rival}"),
            "up to 32 % more throughput",
            format!(
                "{} on average, at most {} in {} draws",
                Style::Change(1).format(mean),
                Style::Change(1).format(largest),
                draws * plan.seeds as usize
            ),
            Judgement::of(largest >= 0.30),
        );
    }
}

/// GPU time that every tenant held of every kind, and what it was granted.
struct Holdings {
    rounds: u64,
    most: u64,
    kinds: usize,
    gpu_rounds: Vec<f64>,
    /// GPUs by the last allocation; nothing changes here, so there is one.
    granted: Vec<f64>,
}

impl RunObserver for Holdings {
    fn allocated(&mut self, _: Time, problem: &Problem, answer: &Allocation) {
        self.granted.fill(0.0);
        for grant in answer.grants() {
            if let Members::One(u) = grant.members {
                let tenant = problem.users[u as usize].tenant.index();
                self.granted[tenant * self.kinds + grant.kind.index()] += grant.gangs;
            }
        }
    }

    /// With endless jobs and no cost of stopping, nothing changes between two decisions.
    fn decided(&mut self, _: Time, world: &World) -> bool {
        for job in world.holders() {
            let (Some(life), Some((_, gpus))) = (world.life(job), world.held(job)) else { continue };
            for &gpu in gpus {
                let kind = world.cluster().kind_of(gpu).index();
                self.gpu_rounds[life.spec.tenant.index() * self.kinds + kind] += 1.0;
            }
        }
        self.rounds += 1;
        self.rounds < self.most
    }
}

/// What whole GPUs made of a division.
struct PlacedResult {
    /// Σ w·x held over Σ w·x divided.
    total: f64,
    /// The worst tenant's utility, and GPU time, relative to what it was to have.
    worst_utility: f64,
    worst_time: f64,
}

fn realise(
    testbed: &Testbed,
    entry: &'static PolicyEntry,
    (seed, i): (u64, usize),
    rounds: u64,
) -> Result<PlacedResult, String> {
    let (instance, rows) = draw(testbed, seed, i);
    let scenario = endless(testbed, &rows)?;
    let k = instance.kinds();
    let mut held = Holdings {
        rounds: 0,
        most: rounds,
        kinds: k,
        gpu_rounds: vec![0.0; TENANTS * k],
        granted: vec![0.0; TENANTS * k],
    };
    scenario
        .run(entry, RunHooks { observer: Some(&mut held), ..RunHooks::default() }, &mut |_| {})
        .map_err(|error| error.to_string())?;
    let whole = Shares(held.gpu_rounds.iter().map(|n| n / held.rounds as f64).collect());
    let ideal = Shares(held.granted);
    // Tenants with next to nothing would drown the others in rounding.
    let fair = instance.m.iter().sum::<f64>() / TENANTS as f64;
    let gpus = |x: &Shares, l: usize| x.0[l * k..(l + 1) * k].iter().sum::<f64>();
    let counts = |l: &usize| gpus(&ideal, *l) > 0.1 * fair;
    let off = |of: &dyn Fn(&Shares, usize) -> f64| {
        (0..TENANTS).filter(counts).map(|l| (of(&whole, l) / of(&ideal, l) - 1.0).abs()).fold(0.0, f64::max)
    };
    Ok(PlacedResult {
        total: instance.total(&whole) / instance.total(&ideal),
        worst_utility: off(&|x, l| instance.worth(l, x, l)),
        worst_time: off(&gpus),
    })
}

/// Jobs that never end: for every tenant as many of its workload as there are GPUs.
fn endless(testbed: &Testbed, rows: &[usize]) -> Result<Scenario, String> {
    let gpus = testbed.cluster.gpus();
    let job = |(tenant, copy): (usize, usize)| TraceJob {
        id: (tenant * gpus + copy) as u64,
        tenant: tenant as u32,
        workload: tenant as u32,
        gang: 1,
        arrival_seconds: 0.0,
        length: Length::Duration(1e9),
        floor: None,
        weight: 1.0,
        restart_seconds: None,
        before_seconds: None,
        largest_gang: None,
        kinds: Vec::new(),
    };
    let trace = Trace {
        tenants: (0..rows.len()).map(|l| Tenant { name: format!("tenant-{:02}", l + 1), weight: 1.0 }).collect(),
        workloads: rows.iter().map(|&row| testbed.workloads[row].clone()).collect(),
        kinds: Vec::new(),
        jobs: (0..rows.len()).flat_map(|l| (0..gpus).map(move |copy| (l, copy))).map(job).collect(),
    };
    let options = Options { round_seconds: ROUND_SECONDS, keep_details: false, ..Options::default() };
    Scenario::new(testbed.cluster.clone(), Arc::new(trace), testbed.rates.clone(), options).map_err(|e| e.to_string())
}

fn placed(plan: &Plan<'_>, finding: &mut Finding) {
    let (rounds, draws) = (plan.effort(100, 500) as u64, plan.effort(1, 4));
    // On a real cluster these put two jobs on a GPU: another problem than the divisible one.
    let policies: Vec<&'static PolicyEntry> = plan.policies.iter().copied().filter(|entry| !entry.pairs).collect();
    let items: Vec<(usize, u64, usize)> = (0..policies.len())
        .flat_map(|p| plan.seeds().flat_map(move |seed| (0..draws).map(move |i| (p, seed, i))))
        .collect();
    let rest = Plan { progress: &|part| (plan.progress)(0.5 + part * 0.5), ..*plan };
    let results = pool::each(&rest, &items, |&(p, seed, i)| realise(plan.testbed, policies[p], (seed, i), rounds));
    let columns = [
        ("policy", "policy"),
        ("throughput realised\nover divisible", "realised_ratio"),
        ("worst run", "worst_ratio"),
        ("worst tenant's\nthroughput", "worst_tenant_throughput"),
        ("worst tenant's\nGPU time", "worst_tenant_gpu_time"),
    ];
    let mut sheet = Sheet::new("placed", format!("Whole GPUs, {rounds} rounds through the placer"), &columns);
    for (p, entry) in policies.iter().enumerate() {
        let rows = &results[p * plan.seeds as usize * draws..(p + 1) * plan.seeds as usize * draws];
        for why in rows.iter().filter_map(|row| row.as_ref().err()) {
            finding.warn(format!("{} through the placer: {why}", entry.name));
        }
        let done: Vec<&PlacedResult> = rows.iter().filter_map(|row| row.as_ref().ok()).collect();
        let totals: Vec<f64> = done.iter().map(|r| r.total).collect();
        let worst = totals.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |of: fn(&PlacedResult) -> f64| done.iter().map(|r| of(r)).fold(0.0, f64::max);
        sheet.row(vec![
            entry.name.into(),
            Value::spread(MeanInterval::of(&totals), Style::Percent(2)),
            Value::number(worst, Style::Percent(2)),
            Value::number(most(|r| r.worst_utility), Style::Percent(1)),
            Value::number(most(|r| r.worst_time), Style::Percent(1)),
        ]);
        if entry.name.starts_with("oef-") {
            finding.verdict(
                format!("{}: lost by whole GPUs", entry.name),
                "long-run GPU time equals the ideal share; we require a loss below 2 %",
                format!("worst of {} runs keeps {}", done.len(), Style::Percent(2).format(worst)),
                Judgement::of(worst >= 0.98),
            );
        }
    }
    finding.sheets.push(sheet.note(format!(
        "{} runs of each policy on the simulated cluster with endless jobs and free restarts. Worst tenant: the largest \
            relative deviation of any tenant in any run from its allocation, among tenants with at least a tenth of an \
            equal share of GPUs. Policies that place two jobs on one GPU are excluded.",
        plan.seeds as usize * draws
    )));
}
