//! The data of an estimator: the workloads it may be asked about, those it can learn from, and their measured cells.
//!
//! Workloads are numbered here in the order in which they became known: first the [`Setting`]'s subjects, then all others in the
//! catalog, then those that are added later. Whoever may be asked about has a [`WorkloadId`] besides, which counts subjects only:
//! [`Evidence::index`] and [`Evidence::id`] translate. So a workload that is added and that the catalog knows keeps its
//! number and everything measured of it, and nobody else's number changes.
//!
//! Measured rates are stored as logarithms, NaN where nothing is known: rates alone in flat arrays by (workload, kind), which
//! grow at their end, pairs in sparse rows (`pairs.rs`). The catalog an estimator was made from is shared by all its forks and
//! never written; observations go into a small catalog of the fork's own, through the same filter. All that is large is shared
//! between forks until one of them changes it.
//!
//! **Neighbours.** A workload that is added appears among the neighbours of others with the first measurement that names it: what nobody
//! measured says nothing, and it must not take the place of one that was.
//!
//! Only *measured* cells count as evidence here. Whether something fits in memory is never learned: it follows from the features and the
//! kind, or from a measured 0.

mod add;
mod pairs;
mod population;

use crate::catalog::{Catalog, Cell, Key};
use crate::features::{Psi, distance2, psi};
use crate::gang::GangScaling;
use crate::method::{GANG_STANDARD_ERROR, Prediction, modelled_scaling};
use crate::profile::Completed;
use crate::residual::UNKNOWN_RELATIVE_RATE;
use crate::table::Setting;
use crate::traits::{Marks, Point, Traits};
use arles_core::estimate::{Observation, Source};
use arles_core::{Kind, Library, Profile, Workload, WorkloadId};
pub(crate) use pairs::{PairRow, PairTable};
pub(crate) use population::median;
use population::{OwnRate, Population, boundless};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A workload with a number.
#[derive(Clone, Debug)]
pub(crate) struct KnownWorkload {
    pub(crate) name: String,
    pub(crate) features: Option<Workload>,
    pub(crate) psi: Option<Psi>,
    /// Device memory it needs on one GPU; 0 where nobody knows.
    pub(crate) memory_gib: f64,
    /// Standard error of ln rate that comes from features that were made up.
    pub(crate) feature_error: f64,
    /// All that is known of it, with holes.
    pub(crate) point: Point,
    /// What it is the same as.
    pub(crate) marks: Marks,
    /// What it was seen to draw alone, over the GPU's limit.
    pub(crate) power_ratio: Option<f64>,
}

/// What does not change while an estimator lives.
struct Fixed {
    catalog: Catalog,
    /// Cells of the catalog below this source are no evidence.
    least: Source,
    /// Cells beside partners that had no number at the beginning, by partner.
    beside_unknown: BTreeMap<String, Vec<Key>>,
}

/// Rates alone on one GPU, by (workload, kind).
#[derive(Clone)]
struct AloneCells {
    /// ln rate.
    ln: Vec<f64>,
    /// Its standard error, and the power drawn where that was measured.
    standard_error: Vec<f64>,
    watts: Vec<f64>,
}

/// Workloads by number and by name; numbers are never used for another.
#[derive(Clone)]
struct Known {
    workloads: Vec<Arc<KnownWorkload>>,
    numbers: BTreeMap<String, usize>,
    /// By [`WorkloadId`].
    subjects: Vec<usize>,
    ids: Vec<Option<WorkloadId>>,
    /// For each workload, those nearest by Ψ with their squared distance, nearest first.
    neighbours: Vec<Arc<Vec<(usize, f64)>>>,
    /// Whether it appears among the neighbours of others.
    listed: Vec<bool>,
    /// Those that do not, yet have neighbours.
    unlisted: Vec<usize>,
}

/// So many neighbours of a workload are kept; all others are too far to say anything.
const MOST_NEIGHBOURS: usize = 64;
/// Standard error of the rate alone of a workload that was only seen beside others.
const ONLY_BESIDE: f64 = 0.3;

/// Measured cells, and where they came from.
#[derive(Clone)]
pub(crate) struct Evidence {
    fixed: Arc<Fixed>,
    kinds: Arc<Vec<Kind>>,
    /// The kinds with room for everything, for the model: what fits is decided here.
    without_memory_limit: Arc<Vec<Kind>>,
    known: Arc<Known>,
    /// What this fork has seen since it was made.
    recent: Arc<Catalog>,
    alone: Arc<AloneCells>,
    /// ln rate of one workload beside another by (workload, kind, other), and by (other, kind, workload); −∞ where they are known not to
    /// fit.
    beside: PairTable,
    beside_column: PairTable,
    /// Pairs measured, by workload on either side.
    measured_pairs: Vec<u32>,
    /// Gang sizes above 1 that were measured, by (workload, kind).
    gangs: BTreeMap<(usize, usize), Vec<u32>>,
    population: Population,
    /// What gangs teach, worked out when it is asked for.
    scaling: Arc<OnceLock<GangScaling>>,
}

/// A measurement as the evidence took it in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellIndex {
    pub(crate) workload: usize,
    pub(crate) partner: Option<usize>,
    pub(crate) kind: usize,
    pub(crate) gang: u32,
}

impl KnownWorkload {
    fn new(name: &str, completed: Completed, traits: &Traits) -> Self {
        let Completed { features, memory_gib, standard_error } = completed;
        let psi = features.as_ref().map(psi);
        let (point, marks) = (traits.point(), traits.marks(name));
        let power_ratio = traits.power_ratio;
        let name = name.to_owned();
        Self { name, features, psi, memory_gib, feature_error: standard_error, point, marks, power_ratio }
    }

    /// As the catalog and the library describe it; whatever else is known of it, its profile says.
    fn described(name: &str, features: Option<&Workload>, catalog: &Catalog) -> Self {
        let library = Library::builtin();
        let features = features.or_else(|| catalog.features(name)).or_else(|| catalog.in_library(name, library));
        let profile = catalog.profile(name);
        let traits = catalog.traits(name).cloned().unwrap_or_default();
        let completed = match (features, profile) {
            (Some(features), _) => Completed::described(features.clone()),
            (None, Some(profile)) => Completed::from_profile(name, profile, library),
            (None, None) => traits.completed(name, library),
        };
        let said = match (features, profile) {
            (Some(features), _) => Traits::of_workload(features),
            (None, Some(profile)) => profiled(profile, &completed),
            (None, None) => Traits::default(),
        };
        Self::new(name, completed, &traits.or(said))
    }
}

/// What a profile says, and what it is like says where it says nothing. What was made up from a few traits is no trait.
fn profiled(profile: &Profile, completed: &Completed) -> Traits {
    let like = completed.features.as_ref().filter(|_| profile.like.is_some()).map(Traits::of_workload);
    Traits::of_profile(profile).or(like.unwrap_or_default())
}

impl Evidence {
    /// Numbers everything and spreads the catalog's measured cells out.
    pub(crate) fn new(setting: &Setting<'_>) -> Self {
        Self::from(setting, Source::Measured)
    }

    /// The same with cells of a source or better.
    pub(crate) fn from(setting: &Setting<'_>, least: Source) -> Self {
        let catalog = setting.catalog;
        let known = Known::new(setting);
        let kinds = setting.kinds.to_vec();
        let (n, k) = (known.workloads.len(), kinds.len());
        let mut beside_unknown: BTreeMap<String, Vec<Key>> = BTreeMap::new();
        for key in catalog.cells().map(|(key, _)| key) {
            if let Some(partner) = key.partner.as_ref().filter(|partner| !known.numbers.contains_key(*partner)) {
                beside_unknown.entry(partner.clone()).or_default().push(key.clone());
            }
        }
        let mut evidence = Self {
            fixed: Arc::new(Fixed { catalog: catalog.clone(), least, beside_unknown }),
            without_memory_limit: Arc::new(kinds.iter().map(boundless).collect()),
            population: Population::new(&kinds),
            kinds: Arc::new(kinds),
            known: Arc::new(known),
            recent: Arc::new(Catalog::default()),
            alone: Arc::new(AloneCells {
                ln: vec![f64::NAN; n * k],
                standard_error: vec![f64::NAN; n * k],
                watts: vec![f64::NAN; n * k],
            }),
            beside: PairTable::new(n, k),
            beside_column: PairTable::new(n, k),
            measured_pairs: vec![0; n],
            gangs: BTreeMap::new(),
            scaling: Arc::default(),
        };
        for (key, cell) in catalog.cells() {
            evidence.take(key, cell);
        }
        evidence.population.settle();
        evidence
    }

    /// Takes a cell of the catalog over if it counts as evidence and is about somebody known.
    fn take(&mut self, key: &Key, cell: &Cell) {
        let kind = self.kinds.iter().position(|kind| kind.name == key.kind);
        let number = |name: &String| self.known.numbers.get(name).copied();
        let (Some(workload), Some(kind)) = (number(&key.workload), kind) else { return };
        let partner = key.partner.as_ref().map(number);
        if cell.source >= self.fixed.least
            && let Some(partner) = partner.map_or(Some(None), |partner| partner.map(Some))
        {
            self.set(&CellIndex { workload, partner, kind, gang: key.gang }, cell);
        }
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    pub(crate) fn workloads(&self) -> &[Arc<KnownWorkload>] {
        &self.known.workloads
    }

    /// A kind with room for everything, for the model.
    pub(crate) fn without_memory_limit(&self, kind: usize) -> &Kind {
        &self.without_memory_limit[kind]
    }

    /// The nearest other workloads by Ψ with their squared distance, nearest first.
    pub(crate) fn neighbours(&self, workload: usize) -> &[(usize, f64)] {
        &self.known.neighbours[workload]
    }

    /// Whether a workload may appear among the neighbours of others.
    pub(crate) fn listed(&self, workload: usize) -> bool {
        self.known.listed[workload]
    }

    /// Who must hear of a measurement of `workload`, and can be asked about: its nearest, `most` of them, and those that
    /// have it among theirs without being listed themselves.
    pub(crate) fn hear_of(&self, workload: usize, most: usize) -> impl Iterator<Item = usize> + '_ {
        let near = self.neighbours(workload).iter().map(|&(k, _)| k);
        let near = near.filter(|k| self.known.ids[*k].is_some()).take(most);
        let has = move |k: &usize| self.neighbours(*k).iter().take(most).any(|&(t, _)| t == workload);
        near.chain(self.known.unlisted.iter().copied().filter(move |k| *k != workload && has(k)))
    }

    /// How many workloads can be asked about.
    pub(crate) fn subjects(&self) -> usize {
        self.known.subjects.len()
    }

    /// The number here of a workload that can be asked about.
    pub(crate) fn index(&self, id: WorkloadId) -> Option<usize> {
        self.known.subjects.get(id.index()).copied()
    }

    /// By what a workload is asked about, if it can be.
    pub(crate) fn id(&self, workload: usize) -> Option<WorkloadId> {
        self.known.ids[workload]
    }

    fn alone_at(&self, workload: usize, kind: usize) -> usize {
        workload * self.kinds.len() + kind
    }

    /// ln of the measured rate alone on one GPU; NaN where it was not measured, −∞ where it does not fit.
    pub(crate) fn alone(&self, workload: usize, kind: usize) -> f64 {
        self.alone.ln[self.alone_at(workload, kind)]
    }

    /// Standard error of that rate; NaN where it was not measured.
    pub(crate) fn alone_standard_error(&self, workload: usize, kind: usize) -> f64 {
        self.alone.standard_error[self.alone_at(workload, kind)]
    }

    /// Power measured alone on one GPU; NaN where it was not.
    pub(crate) fn alone_watts(&self, workload: usize, kind: usize) -> f64 {
        self.alone.watts[self.alone_at(workload, kind)]
    }

    /// ln of the measured rate of `workload` beside `other`, the same way.
    pub(crate) fn beside(&self, workload: usize, other: usize, kind: usize) -> f64 {
        f64::from(self.beside.get(workload, kind, other))
    }

    /// What was measured of a workload beside others, by the others: ln of its own rate.
    pub(crate) fn beside_row(&self, workload: usize, kind: usize) -> &PairRow {
        self.beside.row(workload, kind)
    }

    /// What was measured of others beside a workload, by the others: ln of their rate.
    pub(crate) fn beside_column(&self, workload: usize, kind: usize) -> &PairRow {
        self.beside_column.row(workload, kind)
    }

    /// All that were measured together with a workload, whoever's rate it was, in order.
    pub(crate) fn partners(&self, workload: usize, kind: usize) -> Vec<usize> {
        let rows = [self.beside_row(workload, kind), self.beside_column(workload, kind)];
        let mut partners: Vec<usize> = rows.iter().flat_map(|row| row.iter().map(|(other, _)| other)).collect();
        partners.sort_unstable();
        partners.dedup();
        partners
    }

    /// ln of the measured rate of `workload` beside `other` over its measured rate alone; NaN unless both are known and fit.
    pub(crate) fn relative(&self, workload: usize, other: usize, kind: usize) -> f64 {
        let ln = self.beside(workload, other, kind) - self.alone(workload, kind);
        if ln.is_finite() { ln } else { f64::NAN }
    }

    /// Pairs measured with this workload on either side.
    pub(crate) fn measured_pairs(&self, workload: usize) -> u32 {
        self.measured_pairs[workload]
    }

    /// Gang sizes above 1 measured on a kind.
    pub(crate) fn gangs(&self, workload: usize, kind: usize) -> &[u32] {
        self.gangs.get(&(workload, kind)).map_or(&[], Vec::as_slice)
    }

    /// Who was measured in a gang, and on which kind.
    pub(crate) fn with_gangs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.gangs.keys().copied()
    }

    /// How rates grow with gangs.
    pub(crate) fn scaling(&self) -> &GangScaling {
        self.scaling.get_or_init(|| GangScaling::new(self))
    }

    /// The catalog's cell, whatever its source.
    pub(crate) fn cell(&self, seen: &CellIndex) -> Option<Cell> {
        let key = self.key(seen);
        self.recent.get(&key).or_else(|| self.fixed.catalog.get(&key)).copied()
    }

    /// The measured cell, if there is one.
    pub(crate) fn measured(&self, seen: &CellIndex) -> Option<Cell> {
        let known = match (seen.partner, seen.gang) {
            (Some(other), _) => !self.beside(seen.workload, other, seen.kind).is_nan(),
            (None, 1) => !self.alone(seen.workload, seen.kind).is_nan(),
            (None, gang) => self.gangs(seen.workload, seen.kind).contains(&gang),
        };
        if known { self.cell(seen).filter(|cell| cell.source == Source::Measured) } else { None }
    }

    /// What the population says of a workload's rate alone on one GPU of a kind; what was measured of it shifts that.
    pub(crate) fn population_prediction(&self, workload: usize, kind: usize) -> Prediction {
        let own: Vec<OwnRate> = (0..self.kinds.len()).filter_map(|a| self.own_rate(workload, a)).collect();
        let (ln, standard_error) = self.population.predict(&own, kind);
        Prediction::new(ln, standard_error, !own.is_empty())
    }

    /// ln rate on a kind of the library's median workload, by the model.
    pub(crate) fn modelled_median(&self, kind: usize) -> f64 {
        self.population.modelled_median(kind)
    }

    /// ln of how much faster a kind is than another for a workload of which nothing is known.
    pub(crate) fn ratio(&self, from: usize, to: usize) -> f64 {
        self.population.ratio(from, to)
    }

    /// ln of a workload's rate alone on a kind, carried over from the first other kind on which it was measured.
    pub(crate) fn alone_elsewhere(&self, workload: usize, kind: usize) -> Option<f64> {
        let measured = |a: &usize| self.alone(workload, *a).is_finite();
        let from = (0..self.kinds.len()).find(measured)?;
        Some(self.alone(workload, from) + self.ratio(from, kind))
    }

    /// How many cells the population was made of.
    pub(crate) fn population_size(&self) -> usize {
        self.population.cells().round() as usize
    }

    /// Workloads without features that can be asked about.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = WorkloadId> + '_ {
        let ids = self.known.ids.iter().zip(&self.known.workloads);
        ids.filter(|(_, known)| known.features.is_none()).filter_map(|(id, _)| *id)
    }

    /// What is known of a workload's rate alone on a kind: measured so, else from a gang, else from beside partners.
    pub(crate) fn own_rate(&self, workload: usize, kind: usize) -> Option<OwnRate> {
        let alone = self.alone(workload, kind);
        if alone.is_finite() {
            let variance = self.alone_standard_error(workload, kind).powi(2);
            return Some(OwnRate { kind, ln: alone, variance });
        }
        let gang = self.gangs(workload, kind).first().copied();
        if let Some(gang) = gang
            && let Some(cell) = self.measured(&CellIndex { workload, partner: None, kind, gang })
        {
            let ln = cell.rate.ln() - modelled_scaling(self, workload, kind, gang);
            return Some(OwnRate { kind, ln, variance: cell.standard_error.hypot(GANG_STANDARD_ERROR).powi(2) });
        }
        let rates = self.beside_row(workload, kind).iter().map(|(_, ln)| f64::from(ln) - UNKNOWN_RELATIVE_RATE.ln());
        let (ln, _) = crate::residual::moments(rates)?;
        Some(OwnRate { kind, ln, variance: ONLY_BESIDE * ONLY_BESIDE })
    }

    /// Takes an observation in by the catalog's filter. `None` if it is about nothing known here, or makes no sense.
    pub(crate) fn observe(&mut self, o: &Observation) -> Option<CellIndex> {
        let workload = self.index(o.ask.workload)?;
        let partner = o.ask.partner.map(|partner| self.index(partner));
        let partner = partner.map_or(Some(None), |partner| partner.map(Some))?;
        let seen = CellIndex { workload, partner, kind: o.kind.index(), gang: o.ask.gang };
        let name = |id: WorkloadId| self.index(id).map(|t| self.workloads()[t].name.as_str());
        let key = Key::of(o, name, |kind| self.kinds.get(kind.index()).map(|kind| kind.name.as_str()))?;
        let recent = Arc::make_mut(&mut self.recent);
        if recent.get(&key).is_none()
            && let Some(&cell) = self.fixed.catalog.get(&key)
        {
            recent.put(key.clone(), cell).ok()?;
        }
        let cell = recent.observe(key, o)?;
        self.set(&seen, &cell);
        self.population.settle();
        Some(seen)
    }

    fn set(&mut self, seen: &CellIndex, cell: &Cell) {
        let (workload, kind, rate) = (seen.workload, seen.kind, cell.rate);
        if seen.gang > 1 || self.gangs.contains_key(&(workload, kind)) {
            self.scaling = Arc::default();
        }
        match seen.partner {
            Some(other) => {
                if self.beside.get(workload, kind, other).is_nan() && rate > 0.0 {
                    self.measured_pairs[workload] += 1;
                    self.measured_pairs[other] += 1;
                }
                self.beside.set(workload, kind, other, rate.ln() as f32);
                self.beside_column.set(other, kind, workload, rate.ln() as f32);
                self.list(other);
            }
            None if seen.gang == 1 => {
                let at = self.alone_at(workload, kind);
                let row = at - kind..at - kind + self.kinds.len();
                let before = self.alone.ln[row.clone()].to_vec();
                let alone = Arc::make_mut(&mut self.alone);
                alone.ln[at] = rate.ln();
                self.population.moved(&before, &alone.ln[row]);
                alone.standard_error[at] = cell.standard_error;
                alone.watts[at] = cell.watts.unwrap_or(f64::NAN);
            }
            None => {
                let gangs = self.gangs.entry((workload, kind)).or_default();
                if rate > 0.0 && !gangs.contains(&seen.gang) {
                    gangs.push(seen.gang);
                    gangs.sort_unstable();
                }
            }
        }
        self.list(workload);
    }

    fn key(&self, seen: &CellIndex) -> Key {
        let name = |workload: usize| self.workloads()[workload].name.clone();
        Key {
            workload: name(seen.workload),
            partner: seen.partner.map(name),
            kind: self.kinds()[seen.kind].name.clone(),
            gang: seen.gang,
        }
    }

    /// Whether `workload` fits on one GPU of a kind, with `other` beside it if there is one, as far as anybody can say.
    pub(crate) fn fits(&self, workload: usize, other: Option<usize>, kind: usize) -> bool {
        let spec = &self.kinds()[kind];
        let need = |t: usize| self.workloads()[t].memory_gib;
        let known = |ln: f64| if ln.is_nan() { None } else { Some(ln.is_finite()) };
        match other {
            None => known(self.alone(workload, kind)).unwrap_or(need(workload) <= spec.memory_gib),
            Some(other) => {
                let seen = known(self.beside(workload, other, kind)).or(known(self.beside(other, workload, kind)));
                spec.max_jobs >= 2 && seen.unwrap_or(need(workload) + need(other) <= spec.memory_gib)
            }
        }
    }
}

impl Known {
    /// The setting's subjects, then everybody else in its catalog.
    fn new(setting: &Setting<'_>) -> Self {
        let catalog = setting.catalog;
        let mut workloads: Vec<Arc<KnownWorkload>> = Vec::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut add = |name: &str, features: Option<&Workload>| {
            numbers.entry(name.to_owned()).or_insert(workloads.len());
            workloads.push(Arc::new(KnownWorkload::described(name, features, catalog)));
        };
        for subject in setting.workloads {
            add(&subject.name, subject.features.as_ref());
        }
        let asked: std::collections::BTreeSet<&str> = setting.workloads.iter().map(|s| s.name.as_str()).collect();
        let mut others: Vec<&str> = catalog.cells().map(|(key, _)| key.workload.as_str()).collect();
        others.dedup();
        others.retain(|name| !asked.contains(name));
        for name in others {
            add(name, None);
        }
        let (n, subjects) = (workloads.len(), setting.workloads.len());
        let mut known = Self {
            workloads,
            numbers,
            subjects: (0..subjects).collect(),
            ids: (0..n).map(|t| (t < subjects).then_some(WorkloadId(t as u32))).collect(),
            neighbours: Vec::new(),
            listed: vec![true; n],
            unlisted: Vec::new(),
        };
        known.neighbours = (0..n).map(|t| Arc::new(known.nearest(t))).collect();
        known
    }

    /// The listed workloads nearest to one.
    fn nearest(&self, workload: usize) -> Vec<(usize, f64)> {
        let Some(own) = &self.workloads[workload].psi else { return Vec::new() };
        let others = self.workloads.iter().enumerate().filter(|(k, _)| *k != workload && self.listed[*k]);
        let mut all: Vec<(usize, f64)> =
            others.filter_map(|(k, t)| Some((k, distance2(own, t.psi.as_ref()?)))).collect();
        if all.len() > MOST_NEIGHBOURS {
            all.select_nth_unstable_by(MOST_NEIGHBOURS, nearer);
            all.truncate(MOST_NEIGHBOURS);
        }
        all.sort_by(nearer);
        all
    }
}

fn nearer(a: &(usize, f64), b: &(usize, f64)) -> std::cmp::Ordering {
    a.1.total_cmp(&b.1).then(a.0.cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{MEASUREMENT_ERROR, Measurement};

    #[test]
    fn the_library_describes_what_nobody_else_did() {
        let mut catalog = Catalog::default();
        let measurement = Measurement { rate: 1.0, watts: None, at: arles_core::Time::ZERO, error: MEASUREMENT_ERROR };
        for name in ["lm-b20", "of-our-own"] {
            let key = Key { workload: name.into(), partner: None, kind: "v100".into(), gang: 1 };
            catalog.measure(key, &measurement).unwrap();
        }
        let kinds = [Library::builtin().kind("v100").unwrap().clone()];
        let evidence =
            Evidence::new(&Setting { kinds: &kinds, workloads: &[], catalog: &catalog, seed: 1, progress: &|_| {} });
        let described: Vec<bool> = evidence.workloads().iter().map(|t| t.psi.is_some()).collect();
        assert_eq!(described, [true, false]);
    }
}
