//! The truth of a virtual world: how fast, and at what power, everything really runs.
//!
//! Either the embedded performance model, or a measured table, with power from the kinds' specifications where the table has none; or, so that nobody
//! is right by construction, a world that [deviates](Deviation) from them. The scheduler never sees it; it sees estimates, and an
//! [`Oracle`] is the estimator that is always right.

mod deviation;

use crate::rates::RateTable;
use arles_core::estimate::{Estimate, Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{Fingerprint, Kind, KindId, Library, Mode, Profile, Spread, Workload, WorkloadId, model};
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

/// Paces of one workload at one gang size, by kind: at every level of spread; `None` where it does not fit.
pub type PaceRow = Arc<[Option<[Pace; Spread::ALL.len()]>]>;

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

#[derive(Clone, Debug)]
struct Entry {
    /// The library's name, or the given one where it has none.
    name: String,
    /// Features, where the library has them.
    workload: Option<Workload>,
    /// Row of the table, where there is a table.
    row: u32,
}

#[derive(Clone, Debug)]
struct Measured {
    table: Arc<RateTable>,
    /// For each kind of the cluster.
    columns: Vec<Column>,
}

/// Where a table says what holds of a kind.
#[derive(Clone, Copy, Debug)]
struct Column {
    at: u16,
    /// Whether it is of the kind as sold, where the kind in question is a mode that nobody measured.
    as_sold: bool,
}

impl Column {
    /// The part of a rate of this column that holds of `kind`, and the draw there; `watts` is what it would be without a limit.
    fn limited(self, kind: &Kind, watts: Option<f64>) -> (f64, f64) {
        let (speed, watts) = model::limited(kind, watts.unwrap_or_else(|| default_watts(kind)));
        (if self.as_sold { speed } else { 1.0 }, watts)
    }

    /// Rate and draw on `kind` of what runs alone at `rate` in this column and, if that was measured, draws `watts` there; what is measured of a mode
    /// itself needs no limit, and may be above it.
    fn limited_alone(self, kind: &Kind, rate: f64, watts: Option<f64>, modelled: Option<f64>) -> (f64, f64) {
        match watts.filter(|_| !self.as_sold) {
            Some(watts) => (rate, watts),
            None => {
                let (speed, watts) = self.limited(kind, watts.or(modelled));
                (rate * speed, watts)
            }
        }
    }

    /// That of a kind that the table lacks: nothing is said to fit there.
    const NONE: Self = Self { at: u16::MAX, as_sold: false };
}

/// The same kind without a power limit.
fn as_sold(kind: &Kind) -> Kind {
    Kind { power_limit: None, ..kind.clone() }
}

/// How everything really runs, for one cluster's kinds and one trace's workloads.
#[derive(Debug)]
pub struct Truth {
    kinds: Vec<Kind>,
    /// By the number that everybody else knows them by.
    entries: Vec<Entry>,
    /// What programs are played by; numbered from [`FIRST_ROLE`] on, for the world alone.
    roles: Vec<Entry>,
    measured: Option<Measured>,
    deviation: Deviation,
    rows: Mutex<BTreeMap<(WorkloadId, u32), PaceRow>>,
}

/// Workloads of the scheduler have smaller numbers: it counts its own from 0.
const FIRST_ROLE: u32 = 1 << 31;

/// Part of the power range that a job uses when nothing is known of it.
const UNKNOWN_ACTIVITY: f64 = 0.7;

/// The smallest kinds of the library have a little more.
const SMALL_GIB: f64 = 7.0;

impl Truth {
    /// The truth about `workloads` (by name, in order of their ids) on `kinds`: from `table` if there is one,
    /// else from the performance model.
    ///
    /// # Errors
    /// When a workload or kind is in neither, with the nearest names.
    pub fn new(kinds: &[Kind], workloads: &[String], table: Option<RateTable>) -> Result<Self, TruthError> {
        let entries = workloads.iter().map(|name| entry(name, table.as_ref())).collect::<Result<_, _>>()?;
        let measured = match table {
            None => None,
            Some(table) => Some(Measured { columns: columns(kinds, &table)?, table: Arc::new(table) }),
        };
        let (deviation, roles) = (Deviation::default(), Vec::new());
        Ok(Self { kinds: kinds.to_vec(), entries, roles, measured, deviation, rows: Mutex::default() })
    }

    /// The same workloads on other kinds: what a cluster that has grown needs. Kinds that stay keep their numbers to the last bit.
    ///
    /// # Errors
    /// When there is a table and one of the kinds is not in it.
    pub fn with_kinds(&self, kinds: &[Kind]) -> Result<Self, TruthError> {
        let measured = match &self.measured {
            None => None,
            Some(m) => Some(Measured { columns: columns(kinds, &m.table)?, table: Arc::clone(&m.table) }),
        };
        Ok(Self { kinds: kinds.to_vec(), measured, ..self.clone() })
    }

    /// Takes in a workload that the scheduler has from now on, under the next number. One that has no truth of its own is as fast as
    /// one that its name decides.
    pub fn add_workload(&mut self, name: &str, profile: &Profile) {
        let table = self.measured.as_ref().map(|m| &*m.table);
        let told = [profile.like.as_deref(), Some(name)].into_iter().flatten().find_map(|name| entry(name, table).ok());
        let entry = told.or_else(|| entry(&self.some_workload(Fingerprint::of(name.as_bytes()))?, table).ok());
        self.entries.push(entry.unwrap_or_else(|| Entry { name: name.to_owned(), workload: None, row: u32::MAX }));
    }

    /// The number under which a program that runs like the workload of this name is played.
    ///
    /// # Errors
    /// When there is no such workload, with the nearest names.
    pub fn role(&mut self, name: &str) -> Result<WorkloadId, TruthError> {
        let entry = entry(name, self.measured.as_ref().map(|m| &*m.table))?;
        let known = self.roles.iter().position(|role| role.name == entry.name);
        let place = known.unwrap_or_else(|| {
            self.roles.push(entry);
            self.roles.len() - 1
        });
        Ok(WorkloadId(FIRST_ROLE + place as u32))
    }

    /// The name of a workload that a number decides: one that trains and fits into the memory of every kind of the library, so that
    /// nothing is known of a program's needs and it runs nevertheless. `None` only where a table is empty.
    #[must_use]
    pub fn some_workload(&self, number: u64) -> Option<String> {
        let small = |w: &&Workload| w.mode == Mode::Training && w.memory_gib <= SMALL_GIB;
        let of_library = || Library::builtin().workloads().iter().filter(small).map(|w| w.name.clone()).collect();
        let names: Vec<String> = self.measured.as_ref().map_or_else(of_library, |m| m.table.workloads().to_vec());
        names.get((number % names.len().max(1) as u64) as usize).cloned()
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
            let cell = |j: usize| {
                let [packed, nodes, racks] = Spread::ALL.map(|spread| self.pace(workload, gang, j, spread));
                Some([packed?, nodes?, racks?])
            };
            (0..self.kinds.len()).map(cell).collect()
        }))
    }

    fn pace(&self, workload: WorkloadId, gang: u32, j: usize, spread: Spread) -> Option<Pace> {
        let (entry, kind) = (self.entry(workload), &self.kinds[j]);
        // What a limit does to a measured rate depends on the draw without it.
        let modelled_on = if self.measured.is_some() { &as_sold(kind) } else { kind };
        let modelled = entry.workload.as_ref().and_then(|w| model::alone(w, modelled_on, gang, spread));
        let off = &self.deviation;
        let (rate, watts) = match &self.measured {
            None => modelled.map(|p| (off.rate(p.rate, &entry.name, kind), p.watts))?,
            Some(m) => {
                let mut rate = m.table.solo(entry.row, m.columns[j].at, gang, spread.apart())?;
                // No table tells racks apart; what they cost on top is the model's.
                if let (Spread::Racks, Some(racks), Some(w)) = (spread, modelled, &entry.workload) {
                    rate *= model::alone(w, kind, gang, Spread::Nodes).map_or(1.0, |nodes| racks.rate / nodes.rate);
                }
                m.columns[j].limited_alone(
                    kind,
                    rate,
                    m.table.watts(entry.row, m.columns[j].at, gang),
                    modelled.map(|p| p.watts),
                )
            }
        };
        Some(Pace { rate, watts: off.watts(watts, &entry.name, "", kind) })
    }

    /// How two workloads run on one GPU of a kind, if they fit.
    #[must_use]
    pub fn together(&self, first: WorkloadId, second: WorkloadId, kind: KindId) -> Option<PairPace> {
        let (a, b) = (self.entry(first), self.entry(second));
        let spec = &self.kinds[kind.index()];
        let modelled = match (&a.workload, &b.workload) {
            (Some(w), Some(partner)) if self.measured.is_some() => model::beside(w, partner, &as_sold(spec)),
            (Some(w), Some(partner)) => model::beside(w, partner, spec),
            _ => None,
        };
        let (first_rate, second_rate, watts) = match &self.measured {
            None => {
                let t = modelled?;
                (self.beside(t.own, a, b, spec)?, self.beside(t.partner, b, a, spec)?, t.watts)
            }
            Some(m) => {
                let column = m.columns[kind.index()];
                let (first_rate, second_rate) = m.table.pair(a.row, b.row, column.at)?;
                let (speed, watts) = column.limited(spec, modelled.map(|t| t.watts));
                (first_rate * speed, second_rate * speed, watts)
            }
        };
        let watts = self.deviation.watts(watts, &a.name, &b.name, spec);
        (first_rate > 0.0 && second_rate > 0.0).then_some(PairPace { first_rate, second_rate, watts })
    }

    /// The rate of `entry` beside a partner, where the model says `rate`.
    fn beside(&self, rate: f64, entry: &Entry, partner: &Entry, kind: &Kind) -> Option<f64> {
        let workload = entry.workload.as_ref()?;
        // What fits beside another fits alone.
        let alone = || model::alone(workload, kind, 1, Spread::Packed).map_or(rate, |p| p.rate);
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

    /// Whether this truth is about a workload of the scheduler.
    #[must_use]
    pub fn knows(&self, workload: WorkloadId) -> bool {
        workload.index() < self.entries.len()
    }

    fn entry(&self, workload: WorkloadId) -> &Entry {
        match workload.0.checked_sub(FIRST_ROLE) {
            Some(role) => &self.roles[role as usize],
            None => &self.entries[workload.index()],
        }
    }

    /// What a workload is made of, where the library knows it.
    #[must_use]
    pub fn features(&self, workload: WorkloadId) -> Option<&Workload> {
        self.entry(workload).workload.as_ref()
    }

    /// The memory a workload needs, where the library knows it.
    #[must_use]
    pub fn memory_gib(&self, workload: WorkloadId) -> Option<f64> {
        self.entry(workload).workload.as_ref().map(|w| w.memory_gib)
    }
}

/// A copy finds out anew what it is asked for: kinds and workloads may be added to it.
impl Clone for Truth {
    fn clone(&self) -> Self {
        Self {
            kinds: self.kinds.clone(),
            entries: self.entries.clone(),
            roles: self.roles.clone(),
            measured: self.measured.clone(),
            deviation: self.deviation,
            rows: Mutex::default(),
        }
    }
}

fn entry(name: &str, table: Option<&RateTable>) -> Result<Entry, TruthError> {
    let known = Library::builtin().workload(name);
    let row = match table {
        Some(table) => table.find_workload(name).ok_or_else(|| missing_workload(name, table))?,
        None => 0,
    };
    if table.is_none()
        && let Err(unknown) = &known
    {
        return Err(TruthError(unknown.to_string()));
    }
    let workload = known.ok().cloned();
    let name = workload.as_ref().map_or(name, |workload| &workload.name).to_owned();
    Ok(Entry { name, workload, row })
}

/// The table's columns for kinds.
fn columns(kinds: &[Kind], table: &RateTable) -> Result<Vec<Column>, TruthError> {
    kinds.iter().map(|kind| find_column(table, kind).ok_or_else(|| missing_kind(kind, table))).collect()
}

fn default_watts(kind: &Kind) -> f64 {
    kind.idle_watts + UNKNOWN_ACTIVITY * (kind.max_watts - kind.idle_watts)
}

/// The table's column for a kind: by its name or any alias; for a mode that is not in the table that of the kind as sold.
fn find_column(table: &RateTable, kind: &Kind) -> Option<Column> {
    let own = std::iter::once(&kind.name).chain(&kind.aliases).find_map(|name| table.find_kind(name));
    own.map(|at| Column { at, as_sold: false }).or_else(|| {
        let sold = Library::builtin().kind(kind.sold_as()).ok().filter(|_| kind.is_mode());
        let names = sold.into_iter().flat_map(|sold| std::iter::once(&sold.name).chain(&sold.aliases));
        let at = names.map(String::as_str).chain([kind.sold_as()]).find_map(|name| table.find_kind(name))?;
        Some(Column { at, as_sold: true })
    })
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
        let exact = |rate, [spread_rate, racks_rate]: [f64; 2], partner_rate, watts| Estimate {
            rate,
            spread_rate,
            racks_rate,
            partner_rate,
            watts,
            standard_error: 0.0,
            source: Source::Measured,
        };
        if ![Some(ask.workload), ask.partner].into_iter().flatten().all(|workload| self.0.knows(workload)) {
            return RateRow { ask: *ask, cells: vec![None; self.0.kinds.len()] };
        }
        let cells = match ask.partner {
            None => {
                let row = self.0.alone(ask.workload, ask.gang);
                let apart = |n: Pace, r: Pace| [n.rate, if ask.gang > 1 { r.rate } else { 0.0 }];
                row.iter().map(|cell| cell.map(|[p, n, r]| exact(p.rate, apart(n, r), 0.0, p.watts))).collect()
            }
            Some(partner) => (0..self.0.kinds.len())
                .map(|j| {
                    let pair = self.0.together(ask.workload, partner, KindId(j as u16))?;
                    Some(exact(pair.first_rate, [pair.first_rate, 0.0], pair.second_rate, pair.watts))
                })
                .collect(),
        };
        RateRow { ask: *ask, cells }
    }

    fn observe(&mut self, _: &Observation) -> Vec<RateQuery> {
        Vec::new()
    }

    /// A kind that a measured table lacks has no truth: nothing is said to fit there.
    fn add_kind(&mut self, kind: &Kind) {
        let truth = Arc::make_mut(&mut self.0);
        truth.kinds.push(kind.clone());
        if let Some(m) = &mut truth.measured {
            m.columns.push(find_column(&m.table, kind).unwrap_or(Column::NONE));
        }
        truth.rows = Mutex::default();
    }

    fn add_workload(&mut self, name: &str, profile: &Profile) {
        Arc::make_mut(&mut self.0).add_workload(name, profile);
    }

    fn fork(&self) -> Box<dyn Estimator> {
        Box::new(Self(Arc::clone(&self.0)))
    }
}

#[cfg(test)]
mod tests;
