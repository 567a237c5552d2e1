//! Every policy in the table keeps what it promises, on thousands of random problems: ties, zeros, one user,
//! one kind, more users than GPUs, huge and tiny rates.

use arles_core::allocate::{
    AllocateError, Allocation, ClassId, Grant, Members, POLICIES, PairRates, Problem, Promise, Proposal, User,
};
use arles_core::{JobId, KindId, Round, TenantId, Time, WorkloadId};
use arles_lp::{Budget, Clarabel, maxmin};
use proptest::prelude::*;

/// One user before it is put into a problem: (gang, jobs, weight, attained, rates by kind).
type Draft = (u32, u32, f64, f64, Vec<f64>);

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => Just(0.0),
        2 => (1u32..4).prop_map(f64::from),
        4 => 0.1..10.0f64,
        1 => 1e-9..1e-6f64,
        1 => 1e6..1e9f64,
    ]
}

fn draft(kinds: usize, single: bool) -> impl Strategy<Value = Draft> {
    let jobs = if single { 1u32..2 } else { 1u32..9 };
    let gang = prop_oneof![6 => Just(1u32), 1 => Just(2u32), 1 => Just(4u32), 1 => Just(8u32)];
    (gang, jobs, 0.5..4.0f64, 0.0..1e6f64, prop::collection::vec(rate(), kinds))
}

fn problem(single: bool) -> impl Strategy<Value = Problem> {
    (1usize..6).prop_flat_map(move |kinds| {
        let capacity = prop::collection::vec(prop_oneof![1 => Just(0u32), 5 => 1u32..40], kinds);
        (capacity, prop::collection::vec(draft(kinds, single), 1..24))
            .prop_map(move |(capacity, drafts)| build(&capacity, &drafts, single))
    })
}

fn build(capacity: &[u32], drafts: &[Draft], single: bool) -> Problem {
    let (mut users, mut all_rates) = (Vec::new(), Vec::new());
    for (i, (gang, jobs, weight, attained, rates)) in drafts.iter().enumerate() {
        // The scheduler leaves out users that fit nowhere.
        if rates.iter().all(|&r| r == 0.0) {
            continue;
        }
        users.push(User {
            class: ClassId(i as u32),
            tenant: TenantId((i % 3) as u32),
            tenant_weight: *weight,
            workload: WorkloadId((i % 5) as u32),
            gang: *gang,
            jobs: *jobs,
            job_weight: 1.0,
            floor: None,
            job: single.then_some(JobId(i as u64)),
            arrived: Time(i as u64 % 4),
            attained_gpu_seconds: *attained,
            steps_done: 0.0,
            steps_left: 1000.0,
            held: None,
        });
        all_rates.extend_from_slice(rates);
    }
    let capacity = capacity.iter().map(|&c| f64::from(c)).collect();
    Problem::new(Round(7), capacity, users, all_rates).expect("a sound problem")
}

/// Pair rates of between half and all of what each has alone.
fn with_pairs(problem: Problem) -> Problem {
    let mut pairs = Vec::new();
    for a in 0..5u32 {
        for b in a..5 {
            for kind in 0..problem.kinds() as u16 {
                let (a, b) = (WorkloadId(a), WorkloadId(b));
                pairs.push(PairRates { a, b, kind: KindId(kind), rate_a: 0.7, rate_b: 0.6 });
            }
        }
    }
    problem.with_pairs(pairs).expect("sound pairs")
}

fn served(problem: &Problem, grants: &[Grant]) -> (Vec<f64>, Vec<f64>) {
    let (mut gangs, mut free) = (vec![0.0; problem.users.len()], problem.capacity.clone());
    for grant in grants {
        let (first, second) = match grant.members {
            Members::One(u) => (u, None),
            Members::Two(u, v) => (u, Some(v)),
        };
        gangs[first as usize] += grant.gangs;
        if let Some(v) = second {
            gangs[v as usize] += grant.gangs;
        }
        free[grant.kind.index()] -= grant.gangs * f64::from(problem.users[first as usize].gang);
    }
    (gangs, free)
}

fn check_promise(promise: Promise, name: &str, problem: &Problem, answer: &Allocation) -> Result<(), TestCaseError> {
    let policy = arles_core::allocate::find_policy(name).expect("in the table");
    let (gangs, free) = served(problem, answer.grants());
    match promise {
        Promise::Whole => prop_assert!(answer.grants().iter().all(|g| g.gangs.fract() == 0.0), "{name}: a fraction"),
        Promise::WorkConserving => {
            for (u, user) in problem.users.iter().enumerate() {
                let idle = gangs[u] < f64::from(user.jobs);
                let room = (0..problem.kinds()).any(|j| problem.rates(u)[j] > 0.0 && free[j] >= f64::from(user.gang));
                prop_assert!(!(idle && room), "{name}: user {u} waits beside free GPUs");
            }
        }
        Promise::ScaleFree => {
            // A workload's unit changes in all of its rates, alone and beside others.
            let factor = |w: WorkloadId| [1.0, 4.0, 0.125][w.index() % 3];
            let mut scaled = problem.clone();
            for (row, user) in scaled.rates.chunks_exact_mut(problem.kinds()).zip(&problem.users) {
                row.iter_mut().for_each(|r| *r *= factor(user.workload));
            }
            for pair in &mut scaled.pairs {
                pair.rate_a *= factor(pair.a);
                pair.rate_b *= factor(pair.b);
            }
            let again = (policy.make)().allocate(&scaled).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let (gangs_again, _) = served(&scaled, again.grants());
            for (a, b) in gangs.iter().zip(&gangs_again) {
                prop_assert!((a - b).abs() <= 1e-5 * a.max(1.0), "{name}: {a} gangs became {b} when units changed");
            }
        }
        Promise::MaxMin => {
            let certificate = answer.certificate();
            prop_assert!(
                problem.users.is_empty() || certificate.is_none_or(|c| c.gap() <= 1e-6),
                "{name}: gap too large"
            );
            if let (Some(t), Some(reference)) = (answer.objective(), reference_level(problem)) {
                prop_assert!(
                    (t - reference).abs() <= 2e-6 * reference,
                    "{name}: level {t}, the general solver has {reference}"
                );
            }
        }
        Promise::SharingIncentive => {
            let Some(t) = answer.objective() else { return Ok(()) };
            let servable = |u: usize| (0..problem.kinds()).any(|j| usable_rate(problem, u, j) > 0.0);
            let priority = |u: &User| u.tenant_weight * u.job_weight;
            let users: Vec<&User> =
                problem.users.iter().enumerate().filter(|(u, _)| servable(*u)).map(|(_, u)| u).collect();
            let claims: f64 = users.iter().map(|u| f64::from(u.jobs) * priority(u)).sum();
            let least_cap = users.iter().map(|u| f64::from(u.gang) / priority(u)).fold(f64::INFINITY, f64::min);
            let equal = (problem.capacity.iter().sum::<f64>() / claims).min(least_cap);
            prop_assert!(t >= equal * (1.0 - 1e-6), "{name}: level {t} is below the equal split's {equal}");
        }
        // Promises that no policy of the table makes yet.
        _ => prop_assert!(false, "{name} promises {}, which nothing checks", promise.name()),
    }
    Ok(())
}

fn usable_rate(problem: &Problem, user: usize, kind: usize) -> f64 {
    let enough = problem.capacity[kind] >= f64::from(problem.users[user].gang);
    if enough { problem.rates(user)[kind] } else { 0.0 }
}

/// The max-min level by the general solver; `None` where it has no certified answer.
fn reference_level(problem: &Problem) -> Option<f64> {
    let (mut w, mut beta, mut caps) = (Vec::new(), Vec::new(), Vec::new());
    let gpus: f64 = problem.capacity.iter().sum();
    for (u, user) in problem.users.iter().enumerate() {
        let row: Vec<f64> = (0..problem.kinds()).map(|j| usable_rate(problem, u, j)).collect();
        let equal: f64 = row.iter().zip(&problem.capacity).map(|(r, m)| r * m).sum::<f64>() / gpus;
        if equal > 0.0 {
            // In units of its own equal split, so that the reference is not asked to add 1e9 and 1e-9.
            w.extend(row.iter().map(|r| r / equal));
            beta.push(f64::from(user.jobs) * user.job_weight * user.tenant_weight);
            caps.push(f64::from(user.jobs * user.gang));
        }
    }
    let question = maxmin::MaxMin { w: &w, beta: &beta, caps: &caps, capacity: &problem.capacity };
    let general = maxmin::General::new(&question).ok()?;
    let level = general.solve(&question, &Clarabel, Budget::default());
    (level.bound.gap() < 1e-6).then_some(level.t)
}

fn conforms(single: bool, problem: &Problem) -> Result<(), TestCaseError> {
    for entry in POLICIES {
        if (entry.grouping == arles_core::allocate::Grouping::Single) != single {
            continue;
        }
        let problem = if entry.pairs { with_pairs(problem.clone()) } else { problem.clone() };
        let answer =
            (entry.make)().allocate(&problem).map_err(|e| TestCaseError::fail(format!("{}: {e}", entry.name)))?;
        for &promise in entry.promises {
            check_promise(promise, entry.name, &problem, &answer)?;
        }
        let again = (entry.make)().allocate(&problem).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(again, answer, "{} is not deterministic", entry.name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn policies_over_jobs_keep_their_promises(problem in problem(true)) {
        conforms(true, &problem)?;
    }

    #[test]
    fn policies_over_classes_keep_their_promises(problem in problem(false)) {
        conforms(false, &problem)?;
    }

    #[test]
    fn a_proposal_that_oversells_is_refused(problem in problem(false), extra in 0.01..3.0f64) {
        prop_assume!(!problem.users.is_empty());
        let kind = (0..problem.kinds()).find(|&j| problem.rates(0)[j] > 0.0).expect("fits somewhere");
        let user = &problem.users[0];
        let too_many = problem.capacity[kind] / f64::from(user.gang) + extra;
        let grants = vec![Grant { kind: KindId(kind as u16), members: Members::One(0), gangs: too_many }];
        let answer = Allocation::check(&problem, Proposal { grants, ..Proposal::default() });
        let refused = matches!(answer, Err(AllocateError::OverCapacity { .. } | AllocateError::MoreThanJobs { .. }));
        prop_assert!(refused, "{:?}", answer);
    }
}

#[test]
fn nonsense_is_refused_with_a_sentence() {
    let problem = build(&[4, 4], &[(1, 1, 1.0, 0.0, vec![1.0, 0.0]), (2, 1, 1.0, 0.0, vec![1.0, 1.0])], false);
    let check = |kind: u16, members, gangs: f64, expect: &str| {
        let grants = vec![Grant { kind: KindId(kind), members, gangs }];
        let error = Allocation::check(&problem, Proposal { grants, ..Proposal::default() }).expect_err(expect);
        assert!(error.to_string().contains(expect), "'{error}' does not say '{expect}'");
    };
    check(0, Members::One(0), f64::NAN, "a share of NaN");
    check(0, Members::One(0), -1.0, "a share of -1");
    check(9, Members::One(0), 1.0, "which is not in the problem");
    check(1, Members::One(0), 1.0, "does not fit");
    check(0, Members::One(5), 1.0, "does not fit");
    check(0, Members::Two(0, 1), 1.0, "cannot share a GPU");
    check(0, Members::Two(0, 0), 1.0, "do not fit together");
    check(0, Members::One(1), 1.5, "gangs for its 1 jobs");
}

#[test]
fn no_users_is_no_problem() {
    for entry in POLICIES {
        let empty = Problem::new(Round(1), vec![4.0, 4.0], Vec::new(), Vec::new()).expect("a sound problem");
        let answer = (entry.make)().allocate(&empty).expect(entry.name);
        assert!(answer.grants().is_empty());
    }
}

#[test]
fn a_problem_that_makes_no_sense_is_refused_with_a_sentence() {
    let check = |capacity: [f64; 2], weight: f64, gang: u32, rates: &[f64], expect: &str| {
        let mut users = build(&[4, 4], &[(1, 1, 1.0, 0.0, vec![1.0, 2.0])], false).users;
        (users[0].job_weight, users[0].gang) = (weight, gang);
        let error = Problem::new(Round(1), capacity.to_vec(), users, rates.to_vec()).expect_err(expect);
        assert_eq!(error.to_string(), expect);
    };
    check([4.0, -1.0], 1.0, 1, &[1.0, 2.0], "kind 1 has -1 GPUs; expected 0 or more");
    check([4.0, 4.0], 1.0, 1, &[f64::NAN, 2.0], "user 0 has rate NaN on kind 0; expected 0 or more");
    check([4.0, 4.0], 1.0, 1, &[1.0], "there are 1 rates; expected 2, one for each user and kind");
    check([4.0, 4.0], 0.0, 1, &[1.0, 2.0], "user 0 has weight 0; expected more than 0");
    check([4.0, 4.0], 1.0, 0, &[1.0, 2.0], "user 0 has a gang of 0 GPUs; expected at least 1");
}
