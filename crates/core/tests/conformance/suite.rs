//! Which promise is checked on which problem, and how often it could have been broken.

use crate::draws::{any_problem, one_job_each, plain_problem, scarce, with_floors, with_holders, with_pairs};
use crate::promises::{self, Checked};
use crate::reference;
use arles_core::allocate::{Allocation, Grouping, PolicyEntry, Problem, Promise};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

/// By policy and promise: how often it was checked where it could have been broken.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) checks: BTreeMap<(&'static str, Promise), u32>,
    /// Of floors: where all could be kept, and where not.
    pub(crate) floors: BTreeMap<&'static str, [u32; 2]>,
}

type Done = Result<(), TestCaseError>;

fn answer(entry: &PolicyEntry, problem: &Problem) -> Result<Allocation, TestCaseError> {
    (entry.make)().allocate(problem).map_err(|e| TestCaseError::fail(format!("{}: {e}", entry.name)))
}

impl Tally {
    fn check(&mut self, promise: Promise, entry: &PolicyEntry, problem: &Problem, answer: &Allocation) -> Done {
        let checked = promises::check(promise, entry, problem, answer)?;
        *self.checks.entry((entry.name, promise)).or_default() += u32::from(checked == Checked::Really);
        Ok(())
    }

    /// Checks some promises of a policy on one problem.
    fn check_all(&mut self, promises: &[Promise], entry: &PolicyEntry, problem: &Problem) -> Done {
        let declared = || promises.iter().filter(|promise| entry.promises(**promise));
        if declared().next().is_none() {
            return Ok(());
        }
        let answer = answer(entry, problem)?;
        declared().try_for_each(|&promise| self.check(promise, entry, problem, &answer))
    }
}

/// Promises about any problem, of the policies that see jobs one by one, or two on a GPU, or not.
pub(crate) fn conforms(
    policies: &[PolicyEntry],
    single: bool,
    pairs: bool,
    problem: &Problem,
    tally: &mut Tally,
) -> Done {
    let presented = |entry: &&PolicyEntry| entry.pairs == pairs && (entry.grouping == Grouping::Single) == single;
    let everywhere = [Promise::ScaleFree, Promise::WorkConserving, Promise::MaxMin, Promise::Whole];
    let problem = if pairs { with_pairs(problem.clone()) } else { problem.clone() };
    for entry in policies.iter().filter(presented) {
        tally.check_all(&everywhere, entry, &problem)?;
        let first = answer(entry, &problem)?;
        prop_assert_eq!(answer(entry, &problem)?, first, "{} is not deterministic", entry.name);
        let held = with_holders(problem.clone());
        tally.check_all(&[Promise::NonPreemptive], entry, &held)?;
        if entry.promises(Promise::FloorsKept) {
            for scarce in [true, false] {
                let problem = with_floors(problem.clone(), scarce);
                tally.check_all(&[Promise::FloorsKept, Promise::ScaleFree], entry, &problem)?;
                if let Some(least) = reference::least_shortfall(entry, &problem) {
                    tally.floors.entry(entry.name).or_default()[usize::from(least > 1e-3)] += 1;
                }
            }
        }
    }
    Ok(())
}

/// Promises that are theorems about plain problems, of the policies that may put two on a GPU, or of all.
pub(crate) fn theorems_hold(policies: &[PolicyEntry], pairs: bool, problem: &Problem, tally: &mut Tally) -> Done {
    let theorems: Vec<Promise> = Promise::ALL.into_iter().filter(|&promise| promises::is_theorem(promise)).collect();
    for entry in policies.iter().filter(|entry| entry.pairs || !pairs) {
        // Who ranks whole jobs is compared with every ranking there is.
        let small = entry.promises(Promise::Whole) && entry.promises(Promise::Optimal);
        let problem = if small { one_job_each(problem.clone()) } else { problem.clone() };
        let problem = if pairs { with_pairs(problem) } else { problem };
        tally.check_all(&theorems, entry, &problem)?;
    }
    Ok(())
}

/// Runs the whole suite on some problems, always the same.
pub(crate) fn run(policies: &[PolicyEntry], problems: u32, tally: &mut Tally) -> Done {
    let mut runner = TestRunner::deterministic();
    for round in 0..problems {
        let (single, classes, plain) = (any_problem(true), any_problem(false), plain_problem());
        let single = single.new_tree(&mut runner).expect("a problem").current();
        let classes = classes.new_tree(&mut runner).expect("a problem").current();
        let plain = plain.new_tree(&mut runner).expect("a problem").current();
        conforms(policies, true, false, &single, tally)?;
        conforms(policies, false, false, &classes, tally)?;
        theorems_hold(policies, false, &plain, tally)?;
        // A hundred times slower.
        if round % 3 == 0 {
            for problem in [single.clone(), scarce(single)] {
                conforms(policies, true, true, &problem, tally)?;
            }
            conforms(policies, false, true, &classes, tally)?;
            theorems_hold(policies, true, &plain, tally)?;
        }
    }
    Ok(())
}
