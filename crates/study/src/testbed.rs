//! What an experiment stands on: a cluster, and how fast workloads run on its kinds.

use arles_core::{Cluster, Library, WorkloadId};
use arles_sim::rates::RateTable;
use arles_sim::truth::{Truth, TruthError};

/// A cluster and the speed-ups of workloads on it.
pub struct Testbed {
    /// What it is called in reports.
    pub title: String,
    /// Nodes, GPUs and their kinds.
    pub cluster: Cluster,
    /// Measured rates; without them the built-in model is the truth.
    pub rates: Option<RateTable>,
    /// Workloads that run on every kind with one GPU.
    pub workloads: Vec<String>,
    /// For each of them, the rate on one GPU of every kind over the rate on its slowest.
    pub speedups: Vec<Vec<f64>>,
    /// Whether these are the conditions of the published figures: Gavel's 26 workloads on 8 GPUs each of V100, P100, K80.
    pub published: bool,
}

/// Why there is no testbed to stand on.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum TestbedError {
    /// A name that the truth does not know.
    #[error(transparent)]
    Truth(#[from] TruthError),
    /// No workload runs on all kinds.
    #[error(
        "no workload runs on every kind of this cluster with one GPU; leave the kind with the least memory out of --cluster"
    )]
    NoCommonWorkload,
}

impl Testbed {
    /// The testbed of a cluster: all workloads of the table, or of the built-in library, that run on each of its kinds.
    ///
    /// # Errors
    /// When the table does not know a kind, or nothing runs everywhere.
    pub fn new(title: impl Into<String>, cluster: Cluster, rates: Option<RateTable>) -> Result<Self, TestbedError> {
        let names: Vec<String> = match &rates {
            Some(table) => table.workloads().to_vec(),
            None => Library::builtin().workloads().iter().map(|w| w.name.clone()).collect(),
        };
        let truth = Truth::new(cluster.kinds(), &names, rates.clone())?;
        let (mut workloads, mut speedups) = (Vec::new(), Vec::new());
        for (i, name) in names.into_iter().enumerate() {
            let row = truth.alone(WorkloadId(i as u32), 1);
            let rates: Option<Vec<f64>> = row.iter().map(|cell| cell.map(|pace| pace[0].rate)).collect();
            if let Some(rates) = rates {
                workloads.push(name);
                speedups.push(over_slowest(&rates));
            }
        }
        if workloads.is_empty() {
            return Err(TestbedError::NoCommonWorkload);
        }
        let kinds: Vec<&str> = cluster.kinds().iter().map(|kind| kind.name.as_str()).collect();
        let published = rates.is_some()
            && workloads.len() == 26
            && kinds == ["v100", "p100", "k80"]
            && cluster.counts() == [8, 8, 8];
        Ok(Self { title: title.into(), cluster, rates, workloads, speedups, published })
    }

    /// GPUs of each kind.
    pub(super) fn capacity(&self) -> Vec<f64> {
        self.cluster.counts().into_iter().map(f64::from).collect()
    }

    /// The kind that is the slowest for most workloads.
    pub(super) fn slowest(&self) -> usize {
        let count = |j: &usize| self.speedups.iter().filter(|w| w[*j] <= 1.0).count();
        (0..self.cluster.kinds().len()).rev().max_by_key(count).unwrap_or(0)
    }

    /// "8 v100, 8 p100 and 8 k80".
    pub(super) fn machines(&self) -> String {
        let parts: Vec<String> = self
            .cluster
            .kinds()
            .iter()
            .zip(self.cluster.counts())
            .map(|(kind, n)| format!("{n} {}", kind.name))
            .collect();
        match parts.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => parts.concat(),
        }
    }
}

/// Rates over the slowest of them.
pub(super) fn over_slowest(rates: &[f64]) -> Vec<f64> {
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    rates.iter().map(|rate| rate / slowest).collect()
}
