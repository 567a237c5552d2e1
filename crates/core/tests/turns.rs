//! The placer over many rounds: whole gangs on one kind, nobody below its share in the long run, few moves.

mod common;

use arles_core::allocate::{Allocation, Grant, Members, Problem, Proposal, find_policy};
use arles_core::{Input, JobId, KindId, Output, Scheduler};
use common::{Perfect, cluster, job};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Case {
    counts: Vec<u32>,
    rates: Vec<Vec<f64>>,
    jobs: Vec<(u32, u32)>,
}

fn case(gangs: &'static [u32]) -> impl Strategy<Value = Case> {
    (1usize..4).prop_flat_map(move |kinds| {
        let counts = prop::collection::vec(1u32..4, kinds).prop_map(|c| c.iter().map(|n| n * 4).collect());
        let rates = prop::collection::vec(prop::collection::vec(0.2..5.0f64, kinds), 4);
        let gang = prop::sample::select(gangs);
        let jobs = prop::collection::vec((0u32..4, gang), 1..40);
        (counts, rates, jobs).prop_map(|(counts, rates, jobs)| Case { counts, rates, jobs })
    })
}

/// Submits the case's jobs and returns the engine with each job's allocated rate (its class's, evenly divided).
fn begin(case: &Case, policy: &str) -> (Perfect, BTreeMap<JobId, f64>) {
    let mut engine = Perfect::new(cluster(&case.counts, 4), policy, case.rates.clone());
    for (i, &(workload, gang)) in case.jobs.iter().enumerate() {
        engine.tell(Input::Submit(job(i as u64, workload, gang)));
    }
    (engine, owed(case, policy))
}

/// What the policy alone says each job is owed, in steps per second.
fn owed(case: &Case, policy: &str) -> BTreeMap<JobId, f64> {
    let mut probe = Perfect::new(cluster(&case.counts, 4), policy, case.rates.clone());
    for (i, &(workload, gang)) in case.jobs.iter().enumerate() {
        probe.tell(Input::Submit(job(i as u64, workload, gang)));
    }
    let outputs = probe.scheduler.step(probe.now, Input::Tick);
    let problem =
        outputs.iter().find_map(|o| if let Output::Solve(p) = o { Some(p) } else { None }).expect("a problem");
    let answer: Allocation = (find_policy(policy).expect("in the table").make)().allocate(problem).expect("an answer");
    let mut rates = vec![0.0; problem.users.len()];
    for grant in answer.grants() {
        let Members::One(u) = grant.members else { continue };
        rates[u as usize] += grant.gangs * problem.rates(u as usize)[grant.kind.index()];
    }
    let mut owed = BTreeMap::new();
    for (i, &(workload, gang)) in case.jobs.iter().enumerate() {
        let u = problem.users.iter().position(|u| u.workload.0 == workload && u.gang == gang).expect("its class");
        owed.insert(JobId(i as u64), rates[u] / f64::from(problem.users[u].jobs));
    }
    owed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// The engine of this test asserts on the way that gangs are whole, unmixed and not oversold.
    #[test]
    fn in_the_long_run_nobody_gets_less_than_its_share(case in case(&[1])) {
        nobody_below(&case, 0.95)?;
    }

    /// Shares of large gangs cannot always be had exactly: seven single jobs that never wait leave five of
    /// twelve GPUs, on which a gang of four and one of two cannot run together. But nobody starves: of
    /// 15,000 random cases one fell below 0.3 of the share, to 0.27.
    #[test]
    fn in_the_long_run_no_gang_starves(case in case(&[1, 1, 1, 1, 2, 4])) {
        nobody_below(&case, 0.25)?;
    }

    #[test]
    fn a_free_gpu_never_stands_beside_a_waiting_job_that_fits(case in case(&[1, 1, 2, 4])) {
        no_gpu_wasted(&case)?;
    }
}

fn nobody_below(case: &Case, part: f64) -> Result<(), TestCaseError> {
    let rounds = 600;
    let (mut engine, owed) = begin(case, "max-min-fairness");
    for _ in 0..rounds {
        engine.round();
    }
    prop_assert!(engine.notes.is_empty(), "{:?}", engine.notes);
    for (i, &(workload, gang)) in case.jobs.iter().enumerate() {
        let id = JobId(i as u64);
        let rate = |j: usize| case.rates[workload as usize][j] * f64::from(gang);
        let held = |j: usize| *engine.rounds_held.get(&(id, KindId(j as u16))).unwrap_or(&0) as f64;
        let got: f64 = (0..case.counts.len()).map(|j| rate(j) * held(j) / f64::from(rounds)).sum();
        let best = (0..case.counts.len()).map(rate).fold(0.0, f64::max);
        // A turn or two at the end of the run may still be owed.
        let least = part * owed[&id] - 20.0 * best / f64::from(rounds);
        prop_assert!(got >= least, "job {i} got {got} steps/s and is owed {}", owed[&id]);
    }
    Ok(())
}

fn no_gpu_wasted(case: &Case) -> Result<(), TestCaseError> {
    let (mut engine, _) = begin(case, "max-min-fairness");
    for _ in 0..20 {
        engine.round();
        let mut free = case.counts.clone();
        for gpus in engine.held.values() {
            free[engine.scheduler.cluster().kind_of(gpus[0]).index()] -= gpus.len() as u32;
        }
        let least = case.jobs.iter().enumerate().filter(|(i, _)| !engine.held.contains_key(&JobId(*i as u64)));
        for (i, (_, gang)) in least {
            prop_assert!(free.iter().all(|f| f < gang), "job {i} (gang {gang}) waits while {free:?} GPUs are free");
        }
    }
    Ok(())
}

#[test]
fn restarts_cost_a_twentieth_of_the_time_at_most() {
    let mut engine = Perfect::new(cluster(&[4], 4), "max-min-fairness", vec![vec![1.0]]);
    for i in 0..8 {
        let mut spec = job(i, 0, 1);
        spec.restart_seconds = 30.0;
        engine.tell(Input::Submit(spec));
    }
    let rounds = 1000;
    (0..rounds).for_each(|_| engine.round());
    let lost = (engine.starts - 8) as f64 * 30.0;
    let held = f64::from(rounds) * 60.0 * 4.0;
    assert!(engine.starts > 8 + 40, "alike jobs take turns");
    assert!(lost <= 0.05 * held, "{lost} of {held} GPU seconds went into restarts");
}

#[test]
fn two_jobs_share_a_gpu_when_that_gains() {
    // Each runs at 0.7 of its own rate beside the other: together 1.4 of one at a time.
    let mut engine = Perfect::new(cluster(&[1], 1), "fifo-packed", vec![vec![1.0]]);
    for i in 0..3 {
        engine.tell(Input::Submit(job(i, 0, 1)));
    }
    engine.round();
    assert_eq!(engine.held.len(), 2, "two share the only GPU");
    engine.round();
    assert_eq!(engine.starts, 2, "and stay there");
    engine.tell(Input::Cancel(JobId(0)));
    engine.round();
    assert_eq!(engine.held.keys().copied().collect::<Vec<_>>(), [JobId(1), JobId(2)], "the third takes the free half");
}

#[test]
fn a_spread_gang_comes_together_when_there_is_room() {
    let mut engine = Perfect::new(cluster(&[4], 2), "fifo", vec![vec![1.0]]);
    for i in 0..4 {
        engine.tell(Input::Submit(job(i, 0, 1)));
    }
    engine.round();
    // Leave one free GPU on each of the two nodes, and a gang of two takes both.
    let cluster = engine.scheduler.cluster().clone();
    let mut nodes_seen = Vec::new();
    for i in 0..4 {
        let node = cluster.node_of(engine.held[&JobId(i)][0]);
        if !nodes_seen.contains(&node) {
            nodes_seen.push(node);
            engine.tell(Input::Cancel(JobId(i)));
        }
    }
    engine.tell(Input::Submit(job(9, 0, 2)));
    engine.round();
    let nodes = |engine: &Perfect| {
        let mut nodes: Vec<_> = engine.held[&JobId(9)].iter().map(|&g| cluster.node_of(g)).collect();
        nodes.dedup();
        nodes.len()
    };
    engine.round();
    assert_eq!(nodes(&engine), 1, "a smaller gang made room, since restarts cost nothing here");
}

/// A journal replayed by another version may answer a round with shares of users and kinds that this problem does not have.
#[test]
fn shares_that_do_not_fit_the_problem_are_left_out() {
    let mut engine = Perfect::new(cluster(&[4], 4), "max-min-fairness", vec![vec![1.0]]);
    engine.tell(Input::Submit(job(0, 0, 1)));
    let outputs = engine.scheduler.step(engine.now, Input::Tick);
    let asked = outputs.iter().find_map(|o| if let Output::Solve(p) = o { Some(p) } else { None }).expect("a problem");
    let users = vec![asked.users[0].clone(); 9];
    let larger = Problem::new(asked.round, vec![4.0; 3], users, vec![1.0; 27]).expect("a problem");
    let grant = |user, kind, gangs| Grant { kind: KindId(kind), members: Members::One(user), gangs };
    let grants = vec![grant(0, 0, 0.5), grant(8, 0, 1.0), grant(0, 2, 0.5)];
    let answer = Allocation::check(&larger, Proposal { grants, ..Proposal::default() });
    engine.tell(Input::Allocated(asked.round, answer));
    (0..20).for_each(|_| engine.round());
    assert!(engine.notes.is_empty(), "{:?}", engine.notes);
    assert_eq!(engine.held.len(), 1, "the job runs on a GPU that nobody else wants");
    let shares = engine.scheduler.standing(JobId(0));
    assert_eq!(shares.len(), 1, "{shares:?}");
    assert_eq!((shares[0].kind, shares[0].gangs), (KindId(0), 0.5));
}

/// A snapshot may have been edited: a claim to half a GPU for a gang of two, under a policy that never shares GPUs.
#[test]
fn restored_claims_that_cannot_be_served_are_dropped() {
    let mut engine = Perfect::new(cluster(&[4], 4), "max-min-fairness", vec![vec![1.0]]);
    engine.tell(Input::Submit(job(0, 0, 2)));
    engine.tell(Input::Submit(job(1, 0, 4)));
    (0..5).for_each(|_| engine.round());
    let mut snapshot = serde_json::to_value(&engine.scheduler).expect("a snapshot");
    let claims = snapshot["placer"]["claims"].as_array_mut().expect("a list of claims");
    let mut odd = claims[0].clone();
    odd["second"] = odd["first"].clone();
    claims.insert(1, odd);
    let restored: Scheduler = serde_json::from_value(snapshot).expect("a scheduler");
    engine.scheduler = restored;
    (0..20).for_each(|_| engine.round());
    assert!(engine.notes.is_empty(), "{:?}", engine.notes);
    assert_eq!(engine.scheduler.standing(JobId(0)).len(), 1);
}
