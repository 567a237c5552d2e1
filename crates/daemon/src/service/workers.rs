//! Solver and estimator, each on a thread of its own: the loop never waits for a program to be solved or a network to be evaluated.

use super::catalog::{CatalogKeeper, CellObservation};
use super::threads::{self, Thread};
use super::{Message, Shared};
use crate::store::entry::NewWorkload;
use arles_core::allocate::{PolicyEntry, Problem};
use arles_core::drive::{Refiner, Solver};
use arles_core::estimate::{Estimator, Observation, RateQuery, RateRow};
use arles_core::{Cluster, Input};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// A problem, and the policy that solves it.
pub(crate) struct SolveRequest {
    pub(crate) problem: Arc<Problem>,
    pub(crate) policy: &'static PolicyEntry,
}

/// Runs the policy in force. It may keep what it needs from one answer to the next.
pub(super) fn start_solver(shared: Arc<Shared>) -> Sender<SolveRequest> {
    let (sender, inbox) = mpsc::channel::<SolveRequest>();
    let watched = Arc::clone(&shared);
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
    threads::spawn(&watched, Thread::Solver, run);
    sender
}

/// What the estimator worker does.
pub(crate) enum EstimatorTask {
    /// Rows that the scheduler asked for.
    Estimate(Vec<RateQuery>),
    /// The measurements of an entry, and those of them that have a cell in the catalog.
    Observe {
        /// Number of the entry.
        seq: u64,
        seen: Vec<Observation>,
        cells: Vec<CellObservation>,
    },
    /// Write the catalog now, and say so.
    WriteCatalog(Sender<()>),
    /// A workload that there is from now on, with the next number.
    Workload(NewWorkload),
    /// The cluster as it is from now on; it may have more kinds.
    Cluster(Arc<Cluster>),
    /// A row for a dry run; the scheduler is not told.
    Preview(RateQuery, Sender<RateRow>),
}

/// Runs the estimator and keeps the catalog: whatever is measured goes to both. The estimator was made from the catalog; rows that the
/// scheduler was told before, by another estimator or before a kill, are told anew where they differ.
pub(super) fn start_estimator(
    estimator: Box<dyn Estimator>,
    mut catalog: CatalogKeeper,
    shared: Arc<Shared>,
) -> Sender<EstimatorTask> {
    let (sender, inbox) = mpsc::channel::<EstimatorTask>();
    let watched = Arc::clone(&shared);
    let run = move || {
        let (mut refiner, mut kinds) = restore_refiner(estimator, &shared);
        loop {
            let first = match inbox.recv_timeout(if refiner.is_stale() { Duration::ZERO } else { catalog.pause() }) {
                Ok(task) => Some(task),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return catalog.write_or_remark(),
            };
            let mut queries = BTreeSet::new();
            for task in first.into_iter().chain(std::iter::from_fn(|| inbox.try_recv().ok())) {
                match task {
                    EstimatorTask::Estimate(more) => queries.extend(more),
                    EstimatorTask::Observe { seq, seen, cells } => {
                        seen.iter().filter(|seen| seen.rate > 0.0).for_each(|seen| refiner.observe(seen));
                        catalog.observe(seq, cells);
                    }
                    EstimatorTask::WriteCatalog(reply) => {
                        catalog.write_or_remark();
                        let _ = reply.send(());
                    }
                    EstimatorTask::Workload(workload) => {
                        refiner.add_workload(&workload.name, &workload.profile);
                        catalog.describe(&workload.name, &workload.profile);
                    }
                    EstimatorTask::Cluster(cluster) => {
                        cluster.kinds().iter().skip(kinds).for_each(|kind| refiner.add_kind(kind));
                        kinds = kinds.max(cluster.kinds().len());
                    }
                    EstimatorTask::Preview(query, reply) => drop(reply.send(refiner.peek(&query))),
                }
            }
            catalog.write_if_due();
            let mut rows: Vec<RateRow> = queries.iter().map(|query| refiner.answer(query)).collect();
            rows.extend(refiner.refresh());
            if !rows.is_empty() && shared.send(Message::Inputs(vec![Input::Estimated(rows)])).is_err() {
                return;
            }
        }
    };
    threads::spawn(&watched, Thread::Estimator, run);
    sender
}

/// The estimator with the kinds and workloads that came since the journal began, and the rows that the scheduler has, which may not be what
/// it says now; and how many kinds it knows.
fn restore_refiner(mut estimator: Box<dyn Estimator>, shared: &Shared) -> (Refiner, usize) {
    let book = shared.book();
    let kinds = book.cluster().kinds();
    kinds.iter().skip(shared.header.cluster.kinds().len()).for_each(|kind| estimator.add_kind(kind));
    book.workloads.added().for_each(|workload| estimator.add_workload(&workload.name, &workload.profile));
    let told: Vec<RateQuery> = book.estimates.keys().copied().collect();
    let mut refiner = Refiner::resume(estimator, book.estimates.clone());
    refiner.mark_stale(told);
    (refiner, kinds.len())
}
