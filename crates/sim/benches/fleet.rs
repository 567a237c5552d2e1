//! What is lost when ten clusters are scheduled each by itself, beside one that has all their GPUs: the same jobs, the same policy.
//!
//! `cargo bench -p arles-sim --bench fleet [-- SIZES [JOBS_PER_GPU]]`, sizes as GPUs of one region (default 100,1000,10000).
//!
//! Regions differ in their mix of kinds and in how many jobs are submitted there; tenants differ in what they run. *At home*: every job runs where it was
//! submitted, and tenants weigh the same everywhere. *Brokered*: jobs are sent on, and tenants weighted, by `arles_core::fleet`, from rates and weights
//! alone. *One cluster*: all GPUs under one scheduler.

use arles_core::allocate::find_policy;
use arles_core::fleet::Fleet;
use arles_core::{Cluster, Kind, Library, Tenant, WorkloadId};
use arles_sim::rng::Rng;
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::{Length, Trace, TraceJob};
use arles_sim::truth::Truth;
use std::sync::Arc;
use std::time::Instant;

const REGIONS: usize = 10;
const KINDS: [&str; 3] = ["a100", "v100", "k80"];
/// Parts of a region's GPUs by kind; regions take turns.
const MIXES: [[f64; 3]; 5] = [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6], [0.3, 0.4, 0.3], [0.0, 0.2, 0.8], [0.5, 0.5, 0.0]];
/// What tenants run; those that gain little from new cards beside those that gain much.
const WORKLOADS: [&str; 6] =
    ["resnet50-b64", "transformer-b64", "lm-b20", "resnet18-b64", "recommendation-b2048", "lm-b80"];
/// Work that arrives, by what one market would do in the same time.
const LOAD: f64 = 0.85;
const POLICY: &str = "ceei";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let sizes = args.first().map_or("100,1000,10000", String::as_str);
    let jobs_per_gpu: f64 = args.get(1).map_or(4.0, |text| text.parse().expect("jobs for each GPU"));
    println!("{REGIONS} regions, {POLICY}, {jobs_per_gpu} jobs a GPU, load {LOAD}, seed 0");
    println!(
        "{:>10} {:<12} {:>9} {:>9} {:>9} {:>9} {:>12} {:>10}",
        "GPUs", "", "mean JCT", "p99 JCT", "span", "worst", "us per round", "weights in"
    );
    for size in sizes.split(',') {
        let gpus: u32 = size.parse().expect("GPUs of a region");
        measure(gpus, (f64::from(gpus) * jobs_per_gpu) as u64 * REGIONS as u64);
    }
}

/// One run, or ten beside each other.
#[derive(Default)]
struct Outcome {
    /// Completion times with their tenant.
    took: Vec<(u32, f64)>,
    span: f64,
    seconds: f64,
    rounds: u64,
}

fn measure(gpus: u32, jobs: u64) {
    let kinds: Vec<Kind> = KINDS.map(|k| Library::builtin().kind(k).expect("in the library").clone()).into();
    let counts: Vec<[u32; 3]> =
        (0..REGIONS).map(|r| MIXES[r % MIXES.len()].map(|part| (part * f64::from(gpus)) as u32)).collect();
    let names: Vec<String> = WORKLOADS.map(str::to_owned).into();
    let truth = Truth::new(&kinds, &names, None).expect("workloads of the library");
    let rate = |l: usize, j: usize| truth.alone(WorkloadId(l as u32), 1)[j].as_ref().map_or(0.0, |cell| cell[0].rate);
    let capacity: Vec<f64> = counts.iter().flatten().map(|&count| f64::from(count)).collect();
    let tenants = WORKLOADS.len();
    let rates = (0..tenants).flat_map(|l| (0..REGIONS).flat_map(move |_| (0..3).map(move |j| (l, j))));
    let rates: Vec<f64> = rates.map(|(l, j)| rate(l, j)).collect();
    let fleet = Fleet::new(KINDS.len(), capacity, rates, vec![1.0; tenants]).expect("a fleet");
    let begin = Instant::now();
    let mut weights = fleet.first_weights();
    for _ in 0..50 {
        weights = fleet.rebalance(&fleet.divide(&weights).expect("an answer").speeds);
    }
    let brokered = begin.elapsed().as_secs_f64();
    let (totals, _) = fleet.together().expect("an answer");
    let (trace, homes) = trace(&totals, f64::from(gpus) * REGIONS as f64, jobs);
    let sent = send(&trace, &weights);
    let all: Vec<u32> = (0..3).map(|j| counts.iter().map(|by_kind| by_kind[j]).sum()).collect();

    let one = run(&kinds, &all, Arc::new(trace.clone()));
    let home = regions(&kinds, &counts, &trace, &homes, |_, _| 1.0);
    let market = regions(&kinds, &counts, &trace, &sent, |l, r| weights[l * REGIONS + r].max(1e-6));
    for (name, outcome, weights_in) in
        [("at home", &home, None), ("brokered", &market, Some(brokered)), ("one cluster", &one, None)]
    {
        report(gpus * REGIONS as u32, name, outcome, &one, weights_in);
    }
}

/// Jobs of all tenants, and where each is submitted: half of them in two of the regions. `totals` is what one market would give each tenant: its
/// work arrives at [`LOAD`] of that, in jobs that take an hour on average on a GPU of the mean speed that it would have.
fn trace(totals: &[f64], gpus: f64, jobs: u64) -> (Trace, Vec<usize>) {
    let rng = Rng::new(0);
    let (mut whose, mut lengths, mut places) = (rng.fork("tenants"), rng.fork("lengths"), rng.fork("places"));
    let span_seconds = jobs as f64 * 3600.0 / (LOAD * gpus);
    let mut homes = Vec::new();
    let job = |id: u64| {
        let tenant = whose.below(totals.len() as u64) as u32;
        let mean_speed = totals[tenant as usize] * totals.len() as f64 / gpus;
        homes.push(if places.chance(0.5) { places.below(2) } else { places.below(REGIONS as u64) } as usize);
        TraceJob {
            id: id + 1,
            tenant,
            workload: tenant,
            gang: 1,
            arrival_seconds: span_seconds * id as f64 / jobs as f64,
            length: Length::Steps(3600.0 * mean_speed * lengths.log_normal(-0.5, 1.0)),
            floor: None,
            weight: 1.0,
            restart_seconds: None,
            kinds: Vec::new(),
            before_seconds: None,
            largest_gang: None,
        }
    };
    let jobs = (0..jobs).map(job).collect();
    let tenants = WORKLOADS.map(|name| Tenant { name: name.to_owned(), weight: 1.0 }).into();
    (Trace { tenants, workloads: WORKLOADS.map(str::to_owned).into(), kinds: Vec::new(), jobs }, homes)
}

/// Where the broker sends each job: to the region that has had least of its tenant's work for the tenant's weight there.
fn send(trace: &Trace, weights: &[f64]) -> Vec<usize> {
    let mut sent = vec![0.0; weights.len()];
    let to = |job: &TraceJob| {
        let of = job.tenant as usize * REGIONS;
        let Length::Steps(steps) = job.length else { unreachable!("made above") };
        let filled = |r: &usize| (sent[of + r] + steps) / weights[of + r];
        let region = (0..REGIONS).min_by(|a, b| filled(a).total_cmp(&filled(b))).expect("there are regions");
        sent[of + region] += steps;
        region
    };
    trace.jobs.iter().map(to).collect()
}

/// Every region by itself, with the jobs that are there and its own weights.
fn regions(
    kinds: &[Kind],
    counts: &[[u32; 3]],
    trace: &Trace,
    places: &[usize],
    weight: impl Fn(usize, usize) -> f64,
) -> Outcome {
    let mut all = Outcome::default();
    for (r, counts) in counts.iter().enumerate() {
        let here = trace.jobs.iter().zip(places).filter(|(_, place)| **place == r).map(|(job, _)| job.clone());
        let tenants = trace.tenants.iter().enumerate();
        let tenants = tenants.map(|(l, tenant)| Tenant { weight: weight(l, r), ..tenant.clone() }).collect();
        let part = Trace { tenants, jobs: here.collect(), ..trace.clone() };
        let outcome = run(kinds, counts, Arc::new(part));
        all.took.extend(outcome.took);
        all.span = all.span.max(outcome.span);
        all.seconds += outcome.seconds;
        all.rounds += outcome.rounds;
    }
    all
}

fn run(kinds: &[Kind], counts: &[u32], trace: Arc<Trace>) -> Outcome {
    let cluster = Cluster::uniform(kinds.to_vec(), counts, 4).expect("a cluster");
    let options = Options { round_seconds: 360.0, restart_seconds: 30.0, ..Options::default() };
    let scenario = Scenario::new(cluster, trace, None, options).expect("a scenario");
    let policy = find_policy(POLICY).expect("a policy");
    let begin = Instant::now();
    let run = scenario.run(policy, RunHooks::default(), &mut |_| {}).expect("no journal, no error");
    let seconds = begin.elapsed().as_secs_f64();
    let took = run.jobs.iter().filter_map(|job| Some((job.tenant, job.end_seconds? - job.arrival_seconds)));
    Outcome { took: took.collect(), span: run.summary.makespan_seconds, seconds, rounds: run.summary.rounds }
}

/// A line of the table. The worst tenant's mean completion time is by the one that it has in one cluster.
fn report(gpus: u32, name: &str, outcome: &Outcome, one: &Outcome, weights_in: Option<f64>) {
    let mut took: Vec<f64> = outcome.took.iter().map(|(_, seconds)| *seconds).collect();
    took.sort_by(f64::total_cmp);
    let mean = |of: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = of.fold((0.0, 0.0), |(sum, count), seconds| (sum + seconds, count + 1.0));
        sum / count
    };
    let of_tenant =
        |outcome: &Outcome, l: u32| mean(&mut outcome.took.iter().filter(|job| job.0 == l).map(|job| job.1));
    let worst = (0..WORKLOADS.len() as u32).map(|l| of_tenant(outcome, l) / of_tenant(one, l)).fold(0.0, f64::max);
    println!(
        "{gpus:>10} {name:<12} {:>8.2}h {:>8.1}h {:>8.1}h {worst:>8.2}x {:>12.0} {:>10}",
        mean(&mut took.iter().copied()) / 3600.0,
        took[(took.len() - 1) * 99 / 100] / 3600.0,
        outcome.span / 3600.0,
        outcome.seconds * 1e6 / outcome.rounds as f64,
        weights_in.map_or(String::new(), |seconds| format!("{:.1} ms", seconds * 1e3)),
    );
}
