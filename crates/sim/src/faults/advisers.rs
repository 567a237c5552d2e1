//! A solver and an estimator that cannot be trusted.
//!
//! They may fail, give old answers, starve somebody or be wrong tenfold. What they cannot do is break a rule:
//! an [`Allocation`] exists only through its checker, and this is where that is put to the test.

use super::counts::{Fault, FaultCounts};
use crate::rng::Rng;
use crate::truth::{Oracle, Truth};
use arles_core::allocate::{AllocateError, Allocation, Grant, Members, PolicyEntry, Problem, Proposal};
use arles_core::drive::{self, Solution};
use arles_core::estimate::{Estimator, RateQuery, RateRow, Source};
use arles_core::{Kind, KindId, Round};
use std::sync::Arc;

/// What a solver sends back.
pub(super) type Answer = (Round, Solution);

/// Solves with the policy, except when it does not.
pub(super) struct FaultySolver {
    honest: drive::Solver,
    rng: Rng,
    /// How likely each answer is wrong in some way.
    wrong: f64,
    last: Option<Answer>,
}

impl FaultySolver {
    pub(super) fn new(mut rng: Rng) -> Self {
        let wrong = 0.4 * rng.uniform();
        Self { honest: drive::Solver::default(), rng, wrong, last: None }
    }

    /// Answers a problem, perhaps with an old answer besides.
    ///
    /// # Errors
    /// When a proposal that breaks the rules was accepted: a violation.
    pub(super) fn solve(
        &mut self,
        problem: &Problem,
        policy: &'static PolicyEntry,
        quiet: bool,
        counts: &mut FaultCounts,
    ) -> Result<Vec<Answer>, String> {
        let honest = (problem.round, self.honest.solve(problem, policy));
        let last = self.last.replace(honest.clone());
        if quiet || !self.rng.chance(self.wrong) {
            return Ok(vec![honest]);
        }
        let give = |grants: Vec<Grant>| Allocation::check(problem, Proposal { grants, ..Proposal::default() });
        let (fault, answers) = match (self.rng.below(6), last, &honest.1) {
            (0, Some(old), _) => (Fault::SolverStale, vec![old, honest]),
            (1, Some((_, old)), _) => (Fault::SolverMislabelled, vec![(problem.round, old)]),
            (2, _, Ok(allocation)) if !problem.users.is_empty() => {
                let starved = self.rng.below(problem.users.len() as u64) as u32;
                let others = allocation.grants().iter().copied().filter(|g| match g.members {
                    Members::One(u) => u != starved,
                    Members::Two(u, v) => u != starved && v != starved,
                });
                (Fault::SolverStarves, vec![(problem.round, give(others.collect()))])
            }
            (3, ..) => (Fault::SolverGivesNothing, vec![(problem.round, give(Vec::new()))]),
            (4, ..) if !problem.users.is_empty() => {
                let user = self.rng.below(problem.users.len() as u64) as u32;
                let kind = KindId(self.rng.below(problem.kinds() as u64) as u16);
                let gangs = problem.capacity[kind.index()] + 1.0;
                let refused = give(vec![Grant { kind, members: Members::One(user), gangs }]);
                if refused.is_ok() {
                    return Err(format!("{gangs} gangs of user {user} on {kind} were accepted"));
                }
                (Fault::SolverBreaksRules, vec![(problem.round, refused)])
            }
            _ => {
                let status = "out of iterations".to_owned();
                (Fault::SolverExhausted, vec![(problem.round, Err(AllocateError::NoAnswer { status }))])
            }
        };
        counts.count(fault);
        Ok(answers)
    }
}

/// Estimates that may be wrong tenfold, in either direction, cell by cell.
pub(super) struct FaultyEstimator {
    oracle: Oracle,
    rng: Rng,
    wrong: f64,
}

impl FaultyEstimator {
    pub(super) fn new(truth: &Arc<Truth>, mut rng: Rng) -> Self {
        let wrong = 0.3 * rng.uniform();
        Self { oracle: Oracle(Arc::clone(truth)), rng, wrong }
    }

    pub(super) fn add_kind(&mut self, kind: &Kind) {
        self.oracle.add_kind(kind);
    }

    pub(super) fn estimate(&mut self, ask: &RateQuery, quiet: bool, counts: &mut FaultCounts) -> RateRow {
        let mut row = self.oracle.estimate(ask);
        for cell in row.cells.iter_mut().flatten() {
            if quiet || !self.rng.chance(self.wrong) {
                continue;
            }
            let (fault, factor) =
                if self.rng.chance(0.5) { (Fault::EstimateTooHigh, 10.0) } else { (Fault::EstimateTooLow, 0.1) };
            counts.count(fault);
            cell.rate *= factor;
            cell.spread_rate *= factor;
            cell.partner_rate /= factor;
            cell.source = Source::Initial;
        }
        row
    }
}
