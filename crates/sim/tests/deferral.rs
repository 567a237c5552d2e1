//! Jobs with a deadline wait for cheaper hours, and never miss the deadline for it.

use arles_core::allocate::find_policy;
use arles_core::{Cluster, Library, PriceBand, Prices, Tenant, Time};
use arles_report::record::RunRecord;
use arles_sim::rng::Rng;
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::{Length, Trace, TraceJob};
use std::sync::Arc;

const HOUR: f64 = 3600.0;

fn prices(hours: &[f64]) -> Prices {
    let band = |(i, per_kwh): (usize, &f64)| PriceBand {
        from: Time::from_seconds(i as f64 * HOUR),
        per_kwh: *per_kwh,
        kg_per_kwh: per_kwh / 2.0,
    };
    Prices::new(hours.iter().enumerate().map(band).collect()).expect("in order")
}

fn job(id: u64, tenant: u32, arrival_seconds: f64, hours: f64, before_seconds: Option<f64>) -> TraceJob {
    TraceJob {
        id,
        tenant,
        workload: 0,
        gang: 1,
        arrival_seconds,
        length: Length::Duration(hours * HOUR),
        floor: None,
        weight: 1.0,
        restart_seconds: None,
        before_seconds,
        largest_gang: None,
        kinds: Vec::new(),
    }
}

fn run(policy: &str, gpus: u32, tenants: usize, jobs: Vec<TraceJob>, prices: Prices) -> RunRecord {
    let kind = Library::builtin().kind("v100").expect("in the library").clone();
    let cluster = Cluster::uniform(vec![kind], &[gpus], 4).expect("a cluster");
    let tenants = (0..tenants).map(|i| Tenant { name: format!("t{i}"), weight: 1.0 }).collect();
    let trace = Trace { tenants, workloads: vec!["resnet50-b64".into()], kinds: Vec::new(), jobs };
    let options = Options { round_seconds: 360.0, prices, ..Options::default() };
    let scenario = Scenario::new(cluster, Arc::new(trace), None, options).expect("it fits");
    scenario.run(find_policy(policy).expect("in the table"), RunHooks::default(), &mut |_| {}).expect("no journal")
}

fn end(run: &RunRecord, id: u64) -> f64 {
    run.jobs.iter().find(|job| job.id == id).and_then(|job| job.end_seconds).expect("it ended")
}

fn start(run: &RunRecord, id: u64) -> f64 {
    run.jobs.iter().find(|job| job.id == id).and_then(|job| job.start_seconds).expect("it started")
}

#[test]
fn a_job_waits_for_the_cheap_hours_and_the_account_says_so() {
    // Dear until six, cheap until twelve, dear again. Two hours of work, to be done by twelve.
    let hours: Vec<f64> = (0..24).map(|h| if (6..12).contains(&h) { 0.1 } else { 0.4 }).collect();
    let jobs = || vec![job(1, 0, 0.0, 2.0, Some(14.0 * HOUR)), job(2, 0, 0.0, 2.0, None)];
    let waited = run("oef-coop", 4, 1, jobs(), prices(&hours));
    assert!((6.0 * HOUR..7.0 * HOUR).contains(&start(&waited, 1)), "{}", start(&waited, 1));
    assert!(start(&waited, 2) < HOUR, "who has no deadline does not wait");
    assert!(end(&waited, 1) <= 14.0 * HOUR);
    assert_eq!(waited.summary.deadlines_missed_ratio, Some(0.0));
    let (cost, kg) = (waited.summary.cost.expect("priced"), waited.summary.carbon_kg.expect("priced"));
    assert!((kg - cost / 2.0).abs() < 1e-9 * cost, "kilograms are half of the money here");
    // Without prices nobody waits, and there is no account.
    let at_once = run("oef-coop", 4, 1, jobs(), Prices::default());
    assert!(start(&at_once, 1) < HOUR && at_once.summary.cost.is_none());
    // A policy that promises no share gives nobody reason to wait.
    assert!(start(&run("fifo", 4, 1, jobs(), prices(&hours)), 1) < HOUR);
}

#[test]
fn the_account_is_energy_times_price_hour_by_hour() {
    // One job for exactly three hours on a cluster of one GPU: an hour at each price, unused GPUs draw nothing else.
    let run = run("oef-coop", 1, 1, vec![job(1, 0, 0.0, 3.0, None)], prices(&[1.0, 2.0, 6.0]));
    let (kwh, cost) = (run.summary.energy_kwh, run.summary.cost.expect("priced"));
    assert!((cost - kwh * 3.0).abs() < 0.02 * cost, "{kwh} kWh cost {cost}");
}

#[test]
fn no_deadline_is_missed_for_a_cheaper_hour() {
    let (mut deferred, mut kept) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let tenants = 1 + rng.below(3) as usize;
        let gpus = 4 * (1 + rng.below(2) as u32);
        let hours: Vec<f64> = (0..96).map(|_| rng.uniform_in(0.02, 0.5)).collect();
        let mut jobs: Vec<TraceJob> = Vec::new();
        for id in 0..24 {
            let (arrival, length) = (rng.uniform_in(0.0, 12.0) * HOUR, rng.uniform_in(0.3, 3.0));
            let slack = rng.uniform_in(6.0, 40.0);
            let before = rng.chance(0.5).then_some(arrival + (length + slack) * HOUR);
            jobs.push(job(id, rng.below(tenants as u64) as u32, arrival, length, before));
        }
        jobs.sort_by(|a, b| a.arrival_seconds.total_cmp(&b.arrival_seconds));
        let policy = ["oef-coop", "ceei", "fair-energy", "fair-power", "max-min-fairness"][seed as usize % 5];
        let (waited, at_once) = (
            run(policy, gpus, tenants, jobs.clone(), prices(&hours)),
            run(policy, gpus, tenants, jobs.clone(), Prices::default()),
        );
        for job in jobs.iter().filter(|job| job.before_seconds.is_some()) {
            let before = job.before_seconds.expect("filtered");
            deferred += u32::from(start(&waited, job.id) > start(&at_once, job.id) + HOUR);
            // Whoever would have been in time without waiting is in time with it.
            if end(&at_once, job.id) <= before {
                kept += 1;
                assert!(
                    end(&waited, job.id) <= before,
                    "seed {seed}, {policy}: job {} ended at {:.2} h, due at {:.2} h, {:.2} h without waiting",
                    job.id,
                    end(&waited, job.id) / HOUR,
                    before / HOUR,
                    end(&at_once, job.id) / HOUR
                );
            }
        }
    }
    println!("{kept} deadlines kept, {deferred} jobs waited");
    assert!(kept > 300 && deferred > 50, "{kept} kept, {deferred} waited: too few to show anything");
}
