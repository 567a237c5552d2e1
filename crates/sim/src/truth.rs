//! The truth of a virtual world: how fast, and at what power, everything really runs.
//!
//! Either the embedded performance model, or a measured table with power from the kinds' specifications; or, so that nobody
//! is right by construction, a world that [deviates](Deviation) from them. The scheduler never sees it; it sees estimates, and an
//! [`Oracle`] is the estimator that is always right.

mod deviation;

use crate::rates::RateTable;
use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{Kind, KindId, Library, Profile, Workload, WorkloadId, model};
pub use deviation::Deviation;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// How something runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Steps per second of the whole gang.
    pub rate: f64,
    /// Draw of one GPU, idle power included.
    pub watts: f64,
}

/// Paces of one workload at one gang size, by kind: packed and spread; `None` where it does not fit.
pub type PaceRow = Arc<[Option<[Pace; 2]>]>;

/// How two jobs run on one GPU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PairPace {
    /// Steps per second of the first.
    pub first_rate: f64,
    /// Steps per second of the second.
    pub second_rate: f64,
    /// Draw of the GPU, idle power included.
    pub watts: f64,
}

/// A name that the truth cannot place.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TruthError(String);

#[derive(Debug)]
struct Entry {
    /// The library's name, or the given one where it has none.
    name: String,
    /// Features, where the library has them.
    workload: Option<Workload>,
    /// Row of the table, where there is a table.
    row: u32,
}

#[derive(Debug)]
struct Measured {
    table: RateTable,
    /// Column of the table for each kind of the cluster.
    columns: Vec<u16>,
}

/// How everything really runs, for one cluster's kinds and one trace's workloads.
#[derive(Debug)]
pub struct Truth {
    kinds: Vec<Kind>,
    entries: Vec<Entry>,
    measured: Option<Measured>,
    deviation: Deviation,
    rows: Mutex<BTreeMap<(WorkloadId, u32), PaceRow>>,
}

/// Part of the power range that a job uses when nothing is known of it.
const UNKNOWN_ACTIVITY: f64 = 0.7;

impl Truth {
    /// The truth about `workloads` (by name, in order of their ids) on `kinds`: from `table` if there is one,
    /// else from the performance model.
    ///
    /// # Errors
    /// When a workload or kind is in neither, with the nearest names.
    pub fn new(kinds: &[Kind], workloads: &[String], table: Option<RateTable>) -> Result<Self, TruthError> {
        let library = Library::builtin();
        let mut entries = Vec::with_capacity(workloads.len());
        for name in workloads {
            let known = library.workload(name);
            let row = match &table {
                Some(table) => table.find_workload(name).ok_or_else(|| missing_workload(name, table))?,
                None => 0,
            };
            if table.is_none()
                && let Err(unknown) = &known
            {
                return Err(TruthError(unknown.to_string()));
            }
            let workload = known.ok().cloned();
            let name = workload.as_ref().map_or(name, |workload| &workload.name).clone();
            entries.push(Entry { name, workload, row });
        }
        let measured = match table {
            None => None,
            Some(table) => {
                let column = |kind: &Kind| find_column(&table, kind).ok_or_else(|| missing_kind(kind, &table));
                let columns = kinds.iter().map(column).collect::<Result<_, _>>()?;
                Some(Measured { table, columns })
            }
        };
        let deviation = Deviation::default();
        Ok(Self { kinds: kinds.to_vec(), entries, measured, deviation, rows: Mutex::default() })
    }

    /// The same world, off by so much. Measured rates stay what they are; of those only watts, which nobody measured, deviate.
    ///
    /// # Errors
    /// When a deviation is negative, no number, or absurdly large.
    pub fn deviating(self, deviation: Deviation) -> Result<Self, TruthError> {
        match deviation.fault() {
            Some(sentence) => Err(TruthError(sentence)),
            None => Ok(Self { deviation, rows: Mutex::default(), ..self }),
        }
    }

    /// Paces of a workload alone.
    ///
    /// # Panics
    /// If another thread panicked while it looked.
    #[must_use]
    pub fn alone(&self, workload: WorkloadId, gang: u32) -> PaceRow {
        let mut rows = self.rows.lock().expect("no thread panics here");
        Arc::clone(rows.entry((workload, gang)).or_insert_with(|| {
            let cell = |j: usize| Some([self.pace(workload, gang, j, false)?, self.pace(workload, gang, j, true)?]);
            (0..self.kinds.len()).map(cell).collect()
        }))
    }

    fn pace(&self, workload: WorkloadId, gang: u32, j: usize, spread: bool) -> Option<Pace> {
        let (entry, kind) = (&self.entries[workload.index()], &self.kinds[j]);
        let modelled = entry.workload.as_ref().and_then(|w| model::alone(w, kind, gang, spread));
        let off = &self.deviation;
        let (rate, watts) = match &self.measured {
            None => modelled.map(|p| (off.rate(p.rate, &entry.name, kind), p.watts))?,
            Some(m) => {
                let rate = m.table.solo(entry.row, m.columns[j], gang, spread)?;
                (rate, modelled.map_or_else(|| default_watts(kind), |p| p.watts))
            }
        };
        Some(Pace { rate, watts: off.watts(watts, &entry.name, "", kind) })
    }

    /// How two workloads run on one GPU of a kind, if they fit.
    #[must_use]
    pub fn together(&self, first: WorkloadId, second: WorkloadId, kind: KindId) -> Option<PairPace> {
        let (a, b) = (&self.entries[first.index()], &self.entries[second.index()]);
        let spec = &self.kinds[kind.index()];
        let modelled = match (&a.workload, &b.workload) {
            (Some(w), Some(partner)) => model::beside(w, partner, spec),
            _ => None,
        };
        let (first_rate, second_rate, watts) = match &self.measured {
            None => {
                let t = modelled?;
                (self.beside(t.own, a, b, spec)?, self.beside(t.partner, b, a, spec)?, t.watts)
            }
            Some(m) => {
                let (first_rate, second_rate) = m.table.pair(a.row, b.row, m.columns[kind.index()])?;
                (first_rate, second_rate, modelled.map_or_else(|| default_watts(spec), |t| t.watts))
            }
        };
        let watts = self.deviation.watts(watts, &a.name, &b.name, spec);
        (first_rate > 0.0 && second_rate > 0.0).then_some(PairPace { first_rate, second_rate, watts })
    }

    /// The rate of `entry` beside a partner, where the model says `rate`.
    fn beside(&self, rate: f64, entry: &Entry, partner: &Entry, kind: &Kind) -> Option<f64> {
        let workload = entry.workload.as_ref()?;
        // What fits beside another fits alone.
        let alone = || model::alone(workload, kind, 1, false).map_or(rate, |p| p.rate);
        Some(self.deviation.beside(rate, alone, &entry.name, &partner.name, kind))
    }

    /// The fastest rate of a workload alone over the cluster's kinds (or on `reference`), if it fits any.
    #[must_use]
    pub fn reference_rate(&self, workload: WorkloadId, gang: u32, reference: Option<KindId>) -> Option<f64> {
        let row = self.alone(workload, gang);
        let rate = |j: usize| row[j].map(|p| p[0].rate);
        match reference {
            Some(kind) => rate(kind.index()),
            None => (0..row.len()).filter_map(rate).max_by(f64::total_cmp),
        }
    }

    /// Whether this truth is about a workload at all.
    #[must_use]
    pub fn knows(&self, workload: WorkloadId) -> bool {
        workload.index() < self.entries.len()
    }

    /// What a workload is made of, where the library knows it.
    #[must_use]
    pub fn features(&self, workload: WorkloadId) -> Option<&Workload> {
        self.entries[workload.index()].workload.as_ref()
    }

    /// The memory a workload needs, where the library knows it.
    #[must_use]
    pub fn memory_gib(&self, workload: WorkloadId) -> Option<f64> {
        self.entries[workload.index()].workload.as_ref().map(|w| w.memory_gib)
    }
}

fn default_watts(kind: &Kind) -> f64 {
    kind.idle_watts + UNKNOWN_ACTIVITY * (kind.max_watts - kind.idle_watts)
}

/// The table's column for a kind: by its name or any alias.
fn find_column(table: &RateTable, kind: &Kind) -> Option<u16> {
    std::iter::once(&kind.name).chain(&kind.aliases).find_map(|name| table.find_kind(name))
}

fn missing_workload(name: &str, table: &RateTable) -> TruthError {
    let known = table.workloads().len();
    TruthError(format!(
        "workload '{name}' is not among the {known} of the rate table; use a trace and a table that belong together, or leave --rates out to use the built-in model"
    ))
}

fn missing_kind(kind: &Kind, table: &RateTable) -> TruthError {
    TruthError(format!(
        "kind '{}' is not in the rate table, which has {}; change --cluster, or leave --rates out to use the built-in model",
        kind.name,
        table.kinds().join(", ")
    ))
}

/// The estimator that is always right: for simulation only.
pub struct Oracle(pub Arc<Truth>);

impl Estimator for Oracle {
    fn estimate(&self, ask: &RateQuery) -> RateRow {
        let exact = |rate, spread_rate, partner_rate, watts| Estimate {
            rate,
            spread_rate,
            partner_rate,
            watts,
            standard_error: 0.0,
            source: Source::Measured,
        };
        let cells = match ask.partner {
            None => {
                let row = self.0.alone(ask.workload, ask.gang);
                row.iter().map(|cell| cell.map(|[p, s]| exact(p.rate, s.rate, 0.0, p.watts))).collect()
            }
            Some(partner) => (0..self.0.kinds.len())
                .map(|j| {
                    let pair = self.0.together(ask.workload, partner, KindId(j as u16))?;
                    Some(exact(pair.first_rate, pair.first_rate, pair.second_rate, pair.watts))
                })
                .collect(),
        };
        RateRow { ask: *ask, cells }
    }

    fn observe(&mut self, _: &Observation) -> Vec<RateQuery> {
        Vec::new()
    }

    fn add_kind(&mut self, _: &Kind) {}

    fn add_workload(&mut self, _: &str, _: &Profile) {}

    fn fork(&self) -> Box<dyn Estimator> {
        Box::new(Self(Arc::clone(&self.0)))
    }
}

#[cfg(test)]
mod tests;
