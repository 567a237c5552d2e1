//! Those who answer the scheduler's questions, each on a thread of its own: the loop never waits for a program to be solved or a
//! network to be asked.

use super::{Message, Shared};
use arles_core::Input;
use arles_core::allocate::{PolicyEntry, Problem};
use arles_core::drive::{Refiner, Solver};
use arles_core::estimate::{Estimator, Observation, RateQuery, RateRow};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Instant;

/// A problem, and who is to solve it.
pub(crate) struct Question {
    pub(crate) problem: Arc<Problem>,
    pub(crate) policy: &'static PolicyEntry,
}

/// Runs the policy in force. It may keep what it needs from one answer to the next.
pub(super) fn start_solver(shared: Arc<Shared>) -> Sender<Question> {
    let (sender, inbox) = mpsc::channel::<Question>();
    let run = move || {
        let mut solver = Solver::default();
        while let Ok(mut question) = inbox.recv() {
            // Only the newest question is open.
            while let Ok(newer) = inbox.try_recv() {
                question = newer;
            }
            let Question { problem, policy } = question;
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

/// What the estimator has to think about.
pub(crate) enum EstimatorTask {
    /// Rows are asked for.
    Asked(Vec<RateQuery>),
    /// Something was measured.
    Seen(Vec<Observation>),
    /// Somebody wonders; the scheduler is not told.
    Wondered(RateQuery, Sender<RateRow>),
}

/// Asks the estimator. It first hears again what was measured before the start.
pub(super) fn start_estimator(estimator: Box<dyn Estimator>, shared: Arc<Shared>) -> Sender<EstimatorTask> {
    let (sender, inbox) = mpsc::channel::<EstimatorTask>();
    let run = move || {
        let mut refiner = recall(estimator, &shared);
        while let Ok(task) = inbox.recv() {
            let mut asked = BTreeSet::new();
            for task in std::iter::once(task).chain(std::iter::from_fn(|| inbox.try_recv().ok())) {
                match task {
                    EstimatorTask::Asked(queries) => asked.extend(queries),
                    EstimatorTask::Seen(seen) => seen.iter().for_each(|observation| refiner.observe(observation)),
                    EstimatorTask::Wondered(query, reply) => drop(reply.send(refiner.peek(&query))),
                }
            }
            let mut rows: Vec<RateRow> = asked.iter().map(|query| refiner.answer(query)).collect();
            rows.extend(refiner.refresh());
            if !rows.is_empty() && shared.send(Message::Inputs(vec![Input::Estimated(rows)])).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("estimator".into()).spawn(run).expect("a thread can be started");
    sender
}

/// An estimator that has heard what was measured before the start, and knows what the scheduler was told.
fn recall(mut estimator: Box<dyn Estimator>, shared: &Shared) -> Refiner {
    let book = shared.book();
    for (&(ask, kind, spread), cell) in &book.measured {
        let (rate, watts) = (cell.mean_rate, cell.mean_watts);
        estimator.observe(&Observation { ask, kind, spread, rate, watts, at: cell.at, job: None });
    }
    Refiner::resume(estimator, book.estimates.clone())
}
