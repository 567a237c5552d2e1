//! Solver and estimator, each on a thread of its own: the loop never waits for a program to be solved or a network to be evaluated.

use super::{Message, Shared};
use arles_core::Input;
use arles_core::allocate::{PolicyEntry, Problem};
use arles_core::drive::{Refiner, Solver};
use arles_core::estimate::{Estimator, Observation, RateQuery, RateRow};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Instant;

/// A problem, and the policy that solves it.
pub(crate) struct SolveRequest {
    pub(crate) problem: Arc<Problem>,
    pub(crate) policy: &'static PolicyEntry,
}

/// Runs the policy in force. It may keep what it needs from one answer to the next.
pub(super) fn start_solver(shared: Arc<Shared>) -> Sender<SolveRequest> {
    let (sender, inbox) = mpsc::channel::<SolveRequest>();
    let run = move || {
        let mut solver = Solver::default();
        while let Ok(mut request) = inbox.recv() {
            // Only the newest problem is open.
            while let Ok(newer) = inbox.try_recv() {
                request = newer;
            }
            let SolveRequest { problem, policy } = request;
            let began = Instant::now();
            let answer = solver.solve(&problem, policy);
            let took = began.elapsed();
            shared.gauges.solve.add(took);
            shared.gauges.last_solve_micros.set(took.as_micros() as u64);
            if shared.send(Message::Inputs(vec![Input::Allocated(problem.round, answer)])).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("solver".into()).spawn(run).expect("a thread can be started");
    sender
}

/// What the estimator worker does.
pub(crate) enum EstimatorTask {
    /// Rows that the scheduler asked for.
    Estimate(Vec<RateQuery>),
    /// Measurements.
    Observe(Vec<Observation>),
    /// A row for a dry run; the scheduler is not told.
    Preview(RateQuery, Sender<RateRow>),
}

/// Runs the estimator. It first observes again what was measured before the start.
pub(super) fn start_estimator(estimator: Box<dyn Estimator>, shared: Arc<Shared>) -> Sender<EstimatorTask> {
    let (sender, inbox) = mpsc::channel::<EstimatorTask>();
    let run = move || {
        let mut refiner = restore_refiner(estimator, &shared);
        while let Ok(task) = inbox.recv() {
            let mut queries = BTreeSet::new();
            for task in std::iter::once(task).chain(std::iter::from_fn(|| inbox.try_recv().ok())) {
                match task {
                    EstimatorTask::Estimate(more) => queries.extend(more),
                    EstimatorTask::Observe(seen) => seen.iter().for_each(|observation| refiner.observe(observation)),
                    EstimatorTask::Preview(query, reply) => drop(reply.send(refiner.peek(&query))),
                }
            }
            let mut rows: Vec<RateRow> = queries.iter().map(|query| refiner.answer(query)).collect();
            rows.extend(refiner.refresh());
            if !rows.is_empty() && shared.send(Message::Inputs(vec![Input::Estimated(rows)])).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("estimator".into()).spawn(run).expect("a thread can be started");
    sender
}

/// The estimator with everything that was measured before the start, and the rows that the scheduler has.
fn restore_refiner(mut estimator: Box<dyn Estimator>, shared: &Shared) -> Refiner {
    let book = shared.book();
    for (&(ask, kind, spread), cell) in &book.measured {
        let (rate, watts) = (cell.mean_rate, cell.mean_watts);
        estimator.observe(&Observation { ask, kind, spread, rate, watts, at: cell.at, job: None });
    }
    Refiner::resume(estimator, book.estimates.clone())
}
