//! Every policy keeps what it promises, on thousands of random problems: ties, zeros, one user, one kind, more users than
//! GPUs, huge and tiny rates. Promises that are theorems about divisible, uncapped problems are checked on those. Every
//! promise of every policy is looked at where it could be broken, and a policy that breaks it is found out.

#[path = "conformance/attained.rs"]
mod attained;
#[path = "conformance/draws.rs"]
mod draws;
#[path = "conformance/fair.rs"]
mod fair;
#[path = "conformance/frugal.rs"]
mod frugal;
#[path = "conformance/liars.rs"]
mod liars;
#[path = "conformance/promises.rs"]
mod promises;
#[path = "conformance/reference.rs"]
mod reference;
#[path = "conformance/suite.rs"]
mod suite;

use arles_core::allocate::{
    AllocateError, Allocation, AtOnce, Grant, Members, POLICIES, Problem, Promise, Proposal, find_policy,
};
use arles_core::{KindId, Round};
use draws::{Draft, any_problem, build, plain_problem};
use proptest::prelude::*;
use suite::{Tally, conforms, theorems_hold};

fn draft(gang: u32, rates: &[f64]) -> Draft {
    let rates = rates.to_vec();
    Draft { gang, jobs: 1, weight: 1.0, attained_gpu_seconds: 0.0, steps_left: 1000.0, rates }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn policies_over_jobs_keep_their_promises(problem in any_problem(true)) {
        conforms(POLICIES, true, false, &problem, &mut Tally::default())?;
    }

    #[test]
    fn policies_over_classes_keep_their_promises(problem in any_problem(false)) {
        conforms(POLICIES, false, false, &problem, &mut Tally::default())?;
    }

    #[test]
    fn theorems_hold_where_they_are_about(problem in plain_problem()) {
        theorems_hold(POLICIES, false, &problem, &mut Tally::default())?;
    }

    #[test]
    fn a_proposal_that_oversells_is_refused(problem in any_problem(false), extra in 0.01..3.0f64) {
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

proptest! {
    // Programs with a column for every two users take a hundred times as long.
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn policies_that_pair_jobs_keep_their_promises(problem in any_problem(true)) {
        conforms(POLICIES, true, true, &problem, &mut Tally::default())?;
    }

    #[test]
    fn theorems_hold_with_two_to_a_gpu(problem in plain_problem()) {
        theorems_hold(POLICIES, true, &problem, &mut Tally::default())?;
    }

    #[test]
    fn policies_that_pair_classes_keep_their_promises(problem in any_problem(false)) {
        conforms(POLICIES, false, true, &problem, &mut Tally::default())?;
    }
}

/// The table promises nothing that was never put to the test.
#[test]
fn every_promise_is_checked_where_it_could_be_broken() {
    const PROBLEMS: u32 = 150;
    const LEAST: u32 = 25;
    let mut tally = Tally::default();
    suite::run(POLICIES, PROBLEMS, &mut tally).expect("every promise is kept");
    for entry in POLICIES {
        for &promise in entry.promises {
            let checks = tally.checks.get(&(entry.name, promise)).copied().unwrap_or(0);
            assert!(checks >= LEAST, "{} of {} was really checked {checks} times", promise.name(), entry.name);
        }
        if entry.promises(Promise::FloorsKept) {
            let [kept, broken] = tally.floors[entry.name];
            assert!(kept >= LEAST && broken >= LEAST, "{}: {kept} with floors to keep, {broken} without", entry.name);
        }
    }
}

#[test]
fn nonsense_is_refused_with_a_sentence() {
    let problem = build(&[4, 4], &[draft(1, &[1.0, 0.0]), draft(2, &[1.0, 1.0])], false);
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
    let check = |packing: &[AtOnce], expect: &str| {
        let proposal = Proposal { packings: vec![Vec::new(), packing.to_vec()], ..Proposal::default() };
        let error = Allocation::check(&problem, proposal).expect_err(expect);
        assert!(error.to_string().contains(expect), "'{error}' does not say '{expect}'");
    };
    check(&[AtOnce(0, KindId(9), 1)], "which is not in the problem");
    check(&[AtOnce(5, KindId(0), 1)], "does not fit");
    check(&[AtOnce(0, KindId(0), 2)], "gangs for its 1 jobs");
    check(&[AtOnce(0, KindId(0), 5)], "GPUs of kind-0 were granted where 4 are usable");
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
        let mut users = build(&[4, 4], &[draft(1, &[1.0, 2.0])], false).users;
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

/// A little more of one promise costs several GPUs of a kind that somebody else is very fast on: still promises come first.
#[test]
fn no_promise_is_sold() {
    let draft = |jobs: u32, rates: [f64; 5]| Draft { jobs, ..draft(1, &rates) };
    let same = [0.0, 0.0, 0.0, 0.0, 1.0];
    let drafts = [
        draft(2, same),
        draft(1, same),
        draft(7, same),
        draft(1, same),
        draft(1, same),
        draft(5, [6e8, 0.0, 1e-9, 0.0, 0.0]),
        draft(1, same),
        draft(1, same),
        draft(6, [3.0, 0.0, 0.0, 0.0, 9.5]),
        draft(1, same),
        draft(3, [1e-9, 0.0, 2.997, 4.47, 3.0]),
    ];
    let problem = draws::with_floors(build(&[8, 5, 4, 2, 9], &drafts, false), true);
    let entry = find_policy("min-cost").expect("in the table");
    let answer = (entry.make)().allocate(&problem).expect("an answer");
    let least = reference::least_shortfall(entry, &problem).expect("the reference is sure");
    let missing = promises::shortfall(&problem, &answer);
    assert!(least > 1e-3 && missing <= least + 1e-6, "{missing} promises are broken where {least} need be");
}
