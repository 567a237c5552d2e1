//! Quotas: never more GPUs at once than a tenant may hold, budgets that end and begin with months, tenants that leave.

use super::*;
use crate::quota::{Month, Quota};
use proptest::prelude::*;

fn gpus(most: u32) -> Quota {
    Quota { gpus: Some(most), ..Quota::default() }
}

impl Bench {
    fn limit(&mut self, tenant: &str, quota: Quota) -> Vec<Output> {
        self.tell(Input::Quota(tenant.into(), quota)).to_vec()
    }

    fn in_use(&self, tenant: u32) -> u32 {
        let of = |job: &JobId| self.scheduler.job_status(*job).filter(|status| status.spec.tenant == TenantId(tenant));
        self.scheduler.live().filter_map(|job| of(&job)?.gang.map(|gang| gang.gpus.len() as u32)).sum()
    }

    fn runs(&self) -> Vec<u64> {
        self.held().into_iter().map(|(job, ..)| job.0).collect()
    }

    fn why(&self, job: u64) -> String {
        match self.scheduler.explain(JobId(job)) {
            Verdict::Waits(reason) => format!("{}: {reason}", reason.code()),
            other => format!("{other:?}"),
        }
    }
}

#[test]
fn a_tenant_holds_no_more_gpus_than_it_may_and_its_jobs_say_so() {
    let mut bench = Bench::new(&[4, 4]);
    bench.limit("t", gpus(4));
    (1..=6).for_each(|id| drop(bench.take(job(id, 1))));
    bench.obedient_round();
    assert_eq!(bench.runs(), [1, 2, 3, 4], "in the order of submission, though 4 GPUs are free");
    assert_eq!(bench.why(5), "tenant-gpus: tenant t holds 4 of its 4 GPUs; this job needs 1");
    let fence = bench.held()[1].1;
    bench.report(2, fence, GangEvent::Finished);
    bench.obedient_round();
    assert_eq!(bench.runs(), [1, 3, 4, 5]);
    bench.limit("t", Quota::default());
    bench.obedient_round();
    assert_eq!(bench.runs(), [1, 3, 4, 5, 6], "without a quota all may run");
}

#[test]
fn a_large_gang_is_not_passed_over_for_ever_by_small_ones() {
    let mut bench = Bench::new(&[8]);
    bench.limit("t", gpus(4));
    for (id, gang) in [(1, 2), (2, 4), (3, 1), (4, 16)] {
        bench.take(job(id, gang));
    }
    bench.obedient_round();
    assert_eq!(bench.runs(), [1]);
    assert_eq!(bench.why(2), "tenant-gpus: tenant t holds 2 of its 4 GPUs; this job needs 4");
    assert_eq!(bench.why(3), "tenant-gpus: tenant t holds 2 of its 4 GPUs; the rest is kept for its earlier jobs");
    assert!(bench.why(4).starts_with("tenant-gang: needs 16 GPUs, and tenant t may hold 4 at once; resubmit"));
    let fence = bench.held()[0].1;
    bench.report(1, fence, GangEvent::Finished);
    bench.obedient_round();
    assert_eq!(bench.runs(), [2]);
}

#[test]
fn a_job_that_could_not_start_anyway_keeps_no_place() {
    let mut bench = Bench::new(&[4]);
    bench.limit("t", gpus(4));
    bench.tell(Input::Submit(JobSpec { workload: WorkloadId(7), ..job(1, 4) }));
    bench.take(job(2, 4));
    bench.obedient_round();
    assert_eq!(bench.runs(), [2], "nobody knows how fast job 1 is");
    assert!(bench.why(1).starts_with("no-estimate"), "{}", bench.why(1));
}

#[test]
fn a_lower_limit_stops_the_newest_with_a_checkpoint() {
    let mut bench = Bench::new(&[8]);
    (1..=6).for_each(|id| drop(bench.take(job(id, 1))));
    bench.obedient_round();
    assert_eq!(bench.runs().len(), 6);
    bench.limit("t", gpus(2));
    let ordered = bench.round();
    assert!(ordered.is_empty());
    assert_eq!(bench.in_use(0), 6, "they count until they are gone");
    bench.obey();
    assert_eq!(bench.runs(), [1, 2]);
}

#[test]
fn a_budget_ends_and_begins_anew_with_the_month() {
    let mut bench = Bench::new(&[2]);
    // The last hours of November 2026.
    bench.clock = Time(Month(683).begins().0 - 5 * 3_600_000_000);
    bench.survey(&[0], Vec::new());
    bench.limit("t", Quota { gpu_hours: Some(2.0), ..Quota::default() });
    (1..=2).for_each(|id| drop(bench.take(job(id, 1))));
    bench.obedient_round();
    assert_eq!(bench.runs(), [1, 2]);
    let mut rounds = 0;
    while !bench.runs().is_empty() {
        bench.obedient_round();
        rounds += 1;
        assert!(rounds < 200, "the budget never ends");
    }
    let used = bench.scheduler.tenant_use(TenantId(0)).unwrap().gpu_hours;
    assert!((2.0..2.1).contains(&used), "{used}: by what a round takes at most");
    assert_eq!(
        bench.why(1),
        format!("tenant-budget: tenant t has used {used:.1} of 2 GPU-hours this month; resets on 1 December")
    );
    bench.clock = Month(683).begins();
    bench.survey(&[0], Vec::new());
    bench.obedient_round();
    bench.obedient_round();
    assert_eq!(bench.runs(), [1, 2], "December has a budget of its own");
}

#[test]
fn energy_is_a_budget_too() {
    let mut bench = Bench::new(&[2]);
    bench.limit("t", Quota { kwh: Some(1.0), ..Quota::default() });
    bench.take(job(1, 1));
    bench.tell(Input::Energy(vec![(TenantId(0), 3.5e6), (TenantId(9), 1.0)]));
    bench.obedient_round();
    assert_eq!(bench.runs(), [1]);
    bench.tell(Input::Energy(vec![(TenantId(0), 3.7e6), (TenantId(0), f64::NAN)]));
    bench.obedient_round();
    assert!(bench.runs().is_empty());
    assert!(bench.why(1).starts_with("tenant-budget: tenant t has used 1.0 of 1 kWh this month"), "{}", bench.why(1));
}

#[test]
fn a_tenant_leaves_when_its_jobs_are_over_or_cancelled() {
    let mut bench = Bench::new(&[2]);
    bench.running(1, 1);
    bench.take(job(2, 1));
    let refused = |out: &[Output]| match out {
        [Output::Note(Event::Refused { why })] => why.clone(),
        other => panic!("{other:?}"),
    };
    let leave = |cancel| Input::RemoveTenant { name: "t".into(), cancel };
    assert_eq!(
        refused(bench.tell(leave(false))),
        "tenant 't' has 2 live jobs; wait for their end, or cancel them with --cancel"
    );
    let out = bench.tell(leave(true)).to_vec();
    assert!(out.contains(&Output::Note(Event::TenantRemoved { name: "t".into() })), "{out:?}");
    bench.obey();
    assert_eq!(bench.scheduler.live_jobs(), 0);
    let out = bench.tell(Input::Submit(job(3, 1))).to_vec();
    assert!(matches!(&out[0], Output::Note(Event::Rejected { why, .. }) if why.contains("was removed")), "{out:?}");
    assert!(refused(bench.tell(leave(true))).starts_with("there is no tenant 't'"));
    assert!(refused(&bench.limit("t", gpus(1))).starts_with("there is no tenant 't'"));
    bench.tell(Input::Tenant(Tenant { name: "u".into(), weight: 1.0 }));
    bench.tell(Input::Tenant(Tenant { name: "t".into(), weight: 2.0 }));
    let names: Vec<&str> = bench.scheduler.tenants().iter().map(|tenant| tenant.name.as_str()).collect();
    assert_eq!(names, ["t", "u"], "it has its old number again, and no other has it");
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Submit(u32, u32),
    Limit(u32, Option<u32>),
    Cancel(u64),
    Hold(u64),
    Release(u64),
    Finish(u64),
    Tick,
    /// Confirms open orders, or only the first few.
    Obey(usize),
    Weigh(u32),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0..2_u32, 1..5_u32).prop_map(|(tenant, gang)| Deed::Submit(tenant, gang)),
        2 => (0..2_u32, proptest::option::weighted(0.8, 0..9_u32)).prop_map(|(t, most)| Deed::Limit(t, most)),
        1 => (1..30_u64).prop_map(Deed::Cancel),
        1 => (1..30_u64).prop_map(Deed::Hold),
        1 => (1..30_u64).prop_map(Deed::Release),
        2 => (1..30_u64).prop_map(Deed::Finish),
        6 => Just(Deed::Tick),
        6 => (1..9_usize).prop_map(Deed::Obey),
        1 => (1..4_u32).prop_map(Deed::Weigh),
    ]
}

/// What every moment must look like, given what it was before and which orders were given.
fn check(bench: &Bench, before: [u32; 2], limits: [Option<u32>; 2], orders: &[Output]) {
    for tenant in 0..2 {
        let (now, started) = (bench.in_use(tenant as u32), starts(orders));
        let own = |start: &Start| {
            bench.scheduler.job_status(start.job).is_some_and(|status| status.spec.tenant.index() == tenant)
        };
        let most = limits[tenant].unwrap_or(u32::MAX);
        assert!(now <= most.max(before[tenant]), "tenant {tenant} holds {now} of {most}, before {}", before[tenant]);
        if started.iter().any(own) {
            assert!(now <= most, "tenant {tenant} was let start beyond its limit: {now} of {most}");
        }
    }
}

/// A round with every moment of it looked at.
fn checked_round(bench: &mut Bench, limits: [Option<u32>; 2]) {
    bench.wait(ROUND);
    let gang = |(job, fence, gpus)| ObservedGang { job, fence, gpus, steps_done: 0.0, state: GangState::Running };
    let gangs = bench.held().into_iter().map(gang).collect();
    let before = [bench.in_use(0), bench.in_use(1)];
    bench.survey(&[0, 1, 2], gangs);
    check(bench, before, limits, &bench.out);
    let before = [bench.in_use(0), bench.in_use(1)];
    bench.tell(Input::Tick);
    check(bench, before, limits, &bench.out);
    let solve = |o: &Output| if let Output::Solve(problem) = o { Some(Arc::clone(problem)) } else { None };
    if let Some(problem) = bench.out.iter().find_map(solve) {
        let before = [bench.in_use(0), bench.in_use(1)];
        let answer = (bench.scheduler.policy.make)().allocate(&problem);
        bench.tell(Input::Allocated(problem.round, answer));
        check(bench, before, limits, &bench.out);
    }
}

/// Some of the open orders are carried out, one after another.
fn obey_some(bench: &mut Bench, some: usize, limits: [Option<u32>; 2]) {
    let order = |output| if let Output::Order(order) = output { Some(order) } else { None };
    let orders: Vec<Order> = bench.scheduler.again().into_iter().filter_map(order).take(some).collect();
    for order in orders {
        let before = [bench.in_use(0), bench.in_use(1)];
        let event = match &order {
            Order::Start(_) => GangEvent::Started,
            Order::Stop { .. } => GangEvent::Stopped(0.0),
        };
        bench.report(order.job().0, order.fence(), event);
        check(bench, before, limits, &bench.out);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn at_every_instant_nobody_holds_more_than_it_may(deeds in proptest::collection::vec(deed(), 1..120)) {
        let mut bench = Bench::new(&[4, 4, 2]);
        bench.tell(Input::Tenant(Tenant { name: "u".into(), weight: 1.0 }));
        let (mut limits, mut next) = ([None, None], 1);
        for deed in deeds {
            let before = [bench.in_use(0), bench.in_use(1)];
            match deed {
                Deed::Submit(tenant, gang) => {
                    bench.take(JobSpec { tenant: TenantId(tenant), ..job(next, gang) });
                    next += 1;
                }
                Deed::Limit(tenant, most) => {
                    limits[tenant as usize] = most;
                    bench.limit(["t", "u"][tenant as usize], Quota { gpus: most, ..Quota::default() });
                }
                Deed::Cancel(id) => drop(bench.tell(Input::Cancel(JobId(id))).to_vec()),
                Deed::Hold(id) => drop(bench.tell(Input::Hold(JobId(id))).to_vec()),
                Deed::Release(id) => drop(bench.tell(Input::Release(JobId(id))).to_vec()),
                Deed::Weigh(weight) => {
                    bench.tell(Input::Tenant(Tenant { name: "u".into(), weight: f64::from(weight) }));
                }
                Deed::Finish(id) => {
                    if let Some((job, fence, _)) = bench.held().into_iter().find(|(job, ..)| job.0 == id) {
                        bench.report(job.0, fence, GangEvent::Finished);
                    }
                }
                Deed::Tick => {
                    checked_round(&mut bench, limits);
                    continue;
                }
                Deed::Obey(some) => {
                    obey_some(&mut bench, some, limits);
                    continue;
                }
            }
            check(&bench, before, limits, &bench.out);
            // What is written down and read back is the same, whatever follows from the rest being left out.
            let text = serde_json::to_string(&bench.scheduler).unwrap();
            let back: Scheduler = serde_json::from_str(&text).unwrap();
            assert_eq!(back.tenant_use(TenantId(0)), bench.scheduler.tenant_use(TenantId(0)));
            assert_eq!(serde_json::to_string(&back).unwrap(), text);
        }
        // Nothing is stuck: once all limits are gone and orders are obeyed, whoever fits runs.
        for tenant in ["t", "u"] {
            bench.limit(tenant, Quota::default());
        }
        (0..3).for_each(|_| drop(bench.obedient_round()));
        assert!(bench.scheduler.jobs.iter().all(|(_, job)| !job.waits_for_quota));
    }
}
