//! Elastic jobs through scheduler, placer and simulator, beside the same jobs with one size for all.
//!
//! `cargo test --release -p arles-sim --test elastic -- --nocapture` prints the table of docs/fair-energy.md.

use arles_core::allocate::find_policy;
use arles_core::{Cluster, KindId, Library, Spread, model};
use arles_report::record::RunRecord;
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::generate::{Arrivals, GenerateOptions, Generator, Submitter};
use arles_sim::trace::{Length, Mix, Trace};
use std::sync::Arc;

/// Eight GPUs of each of three kinds.
fn cluster() -> Cluster {
    let kinds = ["v100", "p100", "k80"].map(|name| Library::builtin().kind(name).expect("built in").clone());
    let nodes = (0..6u32).map(|n| (format!("n{n}"), KindId((n / 2) as u16), 4));
    Cluster::new(kinds.to_vec(), nodes).expect("a sound cluster")
}

/// Jobs of three tenants that can use 1 to 4 GPUs, with the work that one takes on a P100.
fn trace(seed: u64, per_hour: f64, gang: u32, largest_gang: Option<u32>) -> Trace {
    let tenant = |name: &str, weight, demand| Submitter { name: name.into(), weight, demand };
    let options = GenerateOptions {
        jobs: 100,
        seed,
        arrivals: Arrivals::Poisson { per_hour },
        tenants: vec![tenant("a", 1.0, 1.0), tenant("b", 1.0, 3.0), tenant("c", 2.0, 2.0)],
        gangs: Mix::only(1),
        ..GenerateOptions::default()
    };
    let mut trace = Generator::new(options).expect("sound options").into_trace();
    let library = Library::builtin();
    let p100 = library.kind("p100").expect("built in");
    for job in &mut trace.jobs {
        let Length::Duration(seconds) = job.length else { panic!("all of them train") };
        let workload = library.workload(&trace.workloads[job.workload as usize]).expect("built in");
        let alone = model::alone(workload, p100, 1, Spread::Packed).expect("it fits");
        job.length = Length::Steps(seconds * alone.rate);
        (job.gang, job.largest_gang) = (gang, largest_gang);
    }
    trace
}

fn run(policy: &str, trace: Trace) -> RunRecord {
    let options = Options { round_seconds: 360.0, restart_seconds: 60.0, ..Options::default() };
    let scenario = Scenario::new(cluster(), Arc::new(trace), None, options).expect("it fits");
    let policy = find_policy(policy).expect("in the table");
    scenario.run(policy, RunHooks::default(), &mut |_| {}).expect("no journal")
}

#[test]
fn elastic_jobs_beside_one_size_for_all() {
    println!("policy            jobs/h  GPUs      mean JCT  worst tenant    energy  restarts a job");
    for per_hour in [4.0, 12.0] {
        for policy in ["oef-coop", "max-min-fairness", "gogh"] {
            for (name, gang, most) in [("1", 1, None), ("2", 2, None), ("4", 4, None), ("1-4", 1, Some(4))] {
                let (mut jct, mut worst, mut energy, mut restarts) = (0.0, 0.0, 0.0, 0.0);
                let seeds = [1, 2, 3];
                for seed in seeds {
                    let record = run(policy, trace(seed, per_hour, gang, most));
                    assert_eq!(record.summary.jobs_completed, 100, "{policy}, {name}: everybody ends");
                    jct += record.summary.mean_jct_seconds / 3600.0;
                    worst += (0..3).map(|tenant| mean_jct(&record, tenant)).fold(0.0, f64::max) / 3600.0;
                    energy += record.summary.energy_kwh;
                    restarts += record.jobs.iter().map(|job| f64::from(job.restarts)).sum::<f64>() / 100.0;
                }
                let n = seeds.len() as f64;
                println!(
                    "{policy:<17} {per_hour:>6}  {name:<6} {:>8.2} h  {:>10.2} h  {:>5.0} kWh  {:>8.2}",
                    jct / n,
                    worst / n,
                    energy / n,
                    restarts / n
                );
            }
        }
    }
}

fn mean_jct(record: &RunRecord, tenant: u32) -> f64 {
    let own: Vec<f64> = record
        .jobs
        .iter()
        .filter(|job| job.tenant == tenant)
        .filter_map(|job| Some(job.end_seconds? - job.arrival_seconds))
        .collect();
    own.iter().sum::<f64>() / own.len().max(1) as f64
}
