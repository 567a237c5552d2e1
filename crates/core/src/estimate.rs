//! Estimates: how fast, and how power-hungry, a workload is on every kind, alone or beside a partner.
//!
//! An estimator runs *off* the scheduler's loop, like the solver: the scheduler asks for a row when it meets
//! a workload it knows nothing of, the driver answers with an input, and better rows may arrive at any time.
//! So the loop never waits for a network, and a journal of inputs replays without one.

use crate::{JobId, Kind, KindId, Profile, Spread, Time, WorkloadId};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// What is asked: one workload at one gang size, on all kinds at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RateQuery {
    /// Whose rate.
    pub workload: WorkloadId,
    /// GPUs held at once.
    pub gang: u32,
    /// The other job on the same GPUs, if any.
    pub partner: Option<WorkloadId>,
}

/// Where a number comes from; later ones outrank earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The submitter said so.
    Stated,
    /// Estimated before anything was measured.
    Initial,
    /// Corrected by measurements of other cells.
    Refined,
    /// Measured in this very cell.
    Measured,
}

/// A rate and a power on one kind.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// Steps per second of the whole gang on as few nodes as possible.
    /// Of a workload that reports no steps it is in a unit of its own: only ratios between kinds and gangs mean anything.
    pub rate: f64,
    /// The same when the gang spans more nodes than it needs to.
    pub spread_rate: f64,
    /// The same when it spans more racks than it needs to; 0 where nobody said, and then it is as on many nodes of one rack.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub racks_rate: f64,
    /// The partner's rate beside this workload; 0 when alone.
    pub partner_rate: f64,
    /// Power of one GPU of the gang, idle power included.
    pub watts: f64,
    /// Relative standard error of the rate; 0 for certainty.
    #[serde(rename = "doubt")]
    pub standard_error: f64,
    /// Where it comes from.
    pub source: Source,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(rate: &f64) -> bool {
    *rate == 0.0
}

impl Estimate {
    /// Steps per second of the whole gang at a level of spread.
    #[must_use]
    pub fn rate_at(&self, spread: Spread) -> f64 {
        match spread {
            Spread::Packed => self.rate,
            Spread::Racks if self.racks_rate > 0.0 => self.racks_rate,
            Spread::Nodes | Spread::Racks => self.spread_rate,
        }
    }
}

/// The answer to an [`RateQuery`]: one estimate for every kind, `None` where the workload does not fit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateRow {
    /// What was asked.
    pub ask: RateQuery,
    /// By kind.
    pub cells: Vec<Option<Estimate>>,
}

/// One measurement of a running gang.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Observation {
    /// What ran, how large and beside whom.
    pub ask: RateQuery,
    /// The kind of all GPUs of the gang.
    pub kind: KindId,
    /// How far apart the gang was, beyond what it needed.
    pub spread: Spread,
    /// Measured steps per second of the whole gang.
    pub rate: f64,
    /// Measured power of one GPU; 0 where nobody measured it.
    pub watts: f64,
    /// End of the measurement.
    pub at: Time,
    /// The job that ran, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
}

/// Says what was never measured, and learns from what was.
pub trait Estimator: Send {
    /// The best present knowledge of a row.
    fn estimate(&self, ask: &RateQuery) -> RateRow;
    /// Takes a measurement in; returns the rows whose estimates changed.
    fn observe(&mut self, observation: &Observation) -> Vec<RateQuery>;
    /// The cluster has another kind from now on: rows have one more cell, at their end.
    fn add_kind(&mut self, kind: &Kind);
    /// There is another workload from now on, with the next number. A name that was measured before is known by it.
    fn add_workload(&mut self, name: &str, profile: &Profile);
    /// Another that knows the same and goes its own way from here.
    fn fork(&self) -> Box<dyn Estimator>;
}

/// The rows a scheduler has been told, by what was asked. Written down as a list of rows.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(from = "Vec<RateRow>")]
pub struct Estimates {
    rows: BTreeMap<RateQuery, RateRow>,
}

impl Serialize for Estimates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.values())
    }
}

impl From<Vec<RateRow>> for Estimates {
    fn from(rows: Vec<RateRow>) -> Self {
        let mut estimates = Self::default();
        for row in rows {
            estimates.put(row);
        }
        estimates
    }
}

impl Estimates {
    /// Takes a row in; `true` if it differs from what was known. Cells that are not positive numbers count as
    /// "does not fit", and a standard error that is none as one as large as the rate: an estimator may be wrong, but it may not poison an
    /// allocation.
    pub fn put(&mut self, mut row: RateRow) -> bool {
        for cell in &mut row.cells {
            let usable = |e: &Estimate| e.rate.is_finite() && e.rate > 0.0 && e.watts.is_finite() && e.watts >= 0.0;
            if let Some(e) = cell {
                if !usable(e) {
                    *cell = None;
                    continue;
                }
                if !(e.spread_rate > 0.0 && e.spread_rate <= e.rate) {
                    e.spread_rate = e.rate;
                }
                if !(e.racks_rate > 0.0 && e.racks_rate <= e.spread_rate) {
                    e.racks_rate = 0.0;
                }
                if !e.partner_rate.is_finite() {
                    e.partner_rate = 0.0;
                }
                if !e.standard_error.is_finite() {
                    e.standard_error = 1.0;
                }
            }
        }
        match self.rows.get(&row.ask) {
            Some(known) if *known == row => false,
            _ => {
                self.rows.insert(row.ask, row);
                true
            }
        }
    }

    /// Everything that was ever answered.
    pub fn asks(&self) -> impl Iterator<Item = RateQuery> + '_ {
        self.rows.keys().copied()
    }

    /// What is known of a row.
    #[must_use]
    pub fn row(&self, ask: &RateQuery) -> Option<&RateRow> {
        self.rows.get(ask)
    }

    /// The rates of `workload` and `partner` together on one GPU of `kind`, if both fit.
    #[must_use]
    pub fn together(&self, workload: WorkloadId, partner: WorkloadId, kind: KindId) -> Option<(f64, f64)> {
        let (a, b) = if workload <= partner { (workload, partner) } else { (partner, workload) };
        let row = self.rows.get(&RateQuery { workload: a, gang: 1, partner: Some(b) })?;
        let cell = (*row.cells.get(kind.index())?)?;
        let (own, other) = (cell.rate, cell.partner_rate);
        (own > 0.0 && other > 0.0).then_some(if workload == a { (own, other) } else { (other, own) })
    }

    /// Workloads with a solo row of gang 1: those that may become partners.
    pub fn single_workloads(&self) -> impl Iterator<Item = WorkloadId> + '_ {
        self.rows.keys().filter(|ask| ask.gang == 1 && ask.partner.is_none()).map(|ask| ask.workload)
    }
}
