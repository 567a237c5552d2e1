//! Those who answer the scheduler's questions, each on a thread of its own: the loop never waits for a program to be solved or a
//! network to be asked.

use super::{Message, Shared};
use arles_core::Input;
use arles_core::allocate::{Policy, PolicyEntry, Problem};
use arles_core::estimate::{Estimator, Observation, RateQuery, RateRow};
use std::collections::{BTreeMap, BTreeSet};
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
        let mut current: Option<(&'static str, Box<dyn Policy>)> = None;
        while let Ok(mut question) = inbox.recv() {
            // Only the newest question is open.
            while let Ok(newer) = inbox.try_recv() {
                question = newer;
            }
            let Question { problem, policy } = question;
            if current.as_ref().is_none_or(|(name, _)| *name != policy.name) {
                current = Some((policy.name, (policy.make)()));
            }
            let Some((_, solver)) = &current else { continue };
            let began = Instant::now();
            let answer = solver.allocate(&problem);
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
pub(super) fn start_estimator(mut estimator: Box<dyn Estimator>, shared: Arc<Shared>) -> Sender<EstimatorTask> {
    let (sender, inbox) = mpsc::channel::<EstimatorTask>();
    let run = move || {
        let mut told = recall(&mut *estimator, &shared);
        while let Ok(thought) = inbox.recv() {
            let mut asked = BTreeSet::new();
            let mut changed = BTreeSet::new();
            for thought in std::iter::once(thought).chain(std::iter::from_fn(|| inbox.try_recv().ok())) {
                match thought {
                    EstimatorTask::Asked(asks) => asked.extend(asks),
                    EstimatorTask::Seen(seen) => seen.iter().for_each(|o| changed.extend(estimator.observe(o))),
                    EstimatorTask::Wondered(ask, reply) => drop(reply.send(estimator.estimate(&ask))),
                }
            }
            let mut rows: Vec<RateRow> = asked.iter().map(|ask| estimator.estimate(ask)).collect();
            for ask in changed.difference(&asked).filter(|ask| told.contains_key(ask)) {
                let row = estimator.estimate(ask);
                if told[ask] != row {
                    rows.push(row);
                }
            }
            told.extend(rows.iter().map(|row| (row.ask, row.clone())));
            if !rows.is_empty() && shared.send(Message::Inputs(vec![Input::Estimated(rows)])).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("estimator".into()).spawn(run).expect("a thread can be started");
    sender
}

/// Tells an estimator what was measured before the start; returns what the scheduler was told.
fn recall(estimator: &mut dyn Estimator, shared: &Shared) -> BTreeMap<RateQuery, RateRow> {
    let book = shared.book();
    for (&(ask, kind, spread), cell) in &book.measured {
        let (rate, watts) = (cell.mean_rate, cell.mean_watts);
        estimator.observe(&Observation { ask, kind, spread, rate, watts, at: cell.at });
    }
    book.estimates.clone()
}
