//! The data of an estimator: the workloads it may be asked about, those it can learn from, and their measured cells.
//!
//! Workloads are numbered: first the [`Setting`]'s subjects in their order, then all others in the catalog. Measured
//! rates are stored in flat arrays as logarithms, NaN where nothing is known. The catalog an estimator was made from is shared by
//! all its forks and never written; observations go into a small catalog of the fork's own, through the same filter.
//!
//! Only *measured* cells count as evidence here. Whether something fits in memory is never learned: it follows from the features and the
//! kind, or from a measured 0.

use crate::catalog::{Catalog, Cell, Key, MEASUREMENT_ERROR, Measurement};
use crate::features::{Psi, distance2, psi};
use crate::table::Setting;
use arles_core::estimate::{Observation, Source};
use arles_core::{Kind, Library, Workload, WorkloadId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A workload with a number.
#[derive(Clone, Debug)]
pub(crate) struct KnownWorkload {
    pub(crate) name: String,
    pub(crate) features: Option<Workload>,
    pub(crate) psi: Option<Psi>,
}

/// What does not change while an estimator lives.
struct Fixed {
    kinds: Vec<Kind>,
    workloads: Vec<KnownWorkload>,
    /// How many of the workloads can be asked about: the first ones.
    subjects: usize,
    catalog: Catalog,
    /// The kinds with room for everything, for the model: what fits is decided here.
    without_memory_limit: Vec<Kind>,
    /// For each workload, those nearest by Ψ with their squared distance, nearest first.
    neighbours: Vec<Vec<(usize, f64)>>,
}

/// So many neighbours of a workload are kept; all others are too far to say anything.
const MOST_NEIGHBOURS: usize = 64;

/// Measured cells in flat arrays, and where they came from.
#[derive(Clone)]
pub(crate) struct Evidence {
    fixed: Arc<Fixed>,
    /// What this fork has seen since it was made.
    recent: Catalog,
    /// ln rate alone on one GPU by (kind, workload).
    alone: Vec<f64>,
    /// Its standard error, and the power drawn where that was measured, the same way.
    alone_standard_error: Vec<f64>,
    alone_watts: Vec<f64>,
    /// ln rate of one workload beside another by (kind, workload, other); −∞ where they are known not to fit.
    beside: Arc<Vec<f32>>,
    /// Pairs measured, by workload on either side.
    measured_pairs: Vec<u32>,
    /// Gang sizes above 1 that were measured, by (workload, kind).
    gangs: BTreeMap<(usize, usize), Vec<u32>>,
}

/// A measurement as the evidence took it in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellIndex {
    pub(crate) workload: usize,
    pub(crate) partner: Option<usize>,
    pub(crate) kind: usize,
    pub(crate) gang: u32,
}

impl Evidence {
    /// Parameters everything and spreads the catalog's measured cells out.
    pub(crate) fn new(setting: &Setting<'_>) -> Self {
        Self::from(setting, Source::Measured)
    }

    /// The same with cells of a source or better.
    pub(crate) fn from(setting: &Setting<'_>, least: Source) -> Self {
        let catalog = setting.catalog;
        let mut workloads: Vec<KnownWorkload> = Vec::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut add = |name: &str, features: Option<&Workload>| {
            numbers.entry(name.to_owned()).or_insert(workloads.len());
            let library = || Library::builtin().workload(name).ok();
            let features = features.or_else(|| catalog.features(name)).or_else(library).cloned();
            let psi = features.as_ref().map(psi);
            workloads.push(KnownWorkload { name: name.to_owned(), features, psi });
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
        let kinds = setting.kinds.to_vec();
        let (n, k) = (workloads.len(), kinds.len());
        let without_memory_limit =
            kinds.iter().map(|k| Kind { memory_gib: f64::INFINITY, max_jobs: 2, ..k.clone() }).collect();
        let neighbours = neighbours(&workloads);
        let fixed = Fixed {
            kinds,
            workloads,
            subjects: setting.workloads.len(),
            catalog: catalog.clone(),
            without_memory_limit,
            neighbours,
        };
        let mut evidence = Self {
            fixed: Arc::new(fixed),
            recent: Catalog::default(),
            alone: vec![f64::NAN; n * k],
            alone_standard_error: vec![f64::NAN; n * k],
            alone_watts: vec![f64::NAN; n * k],
            beside: Arc::new(vec![f32::NAN; n * n * k]),
            measured_pairs: vec![0; n],
            gangs: BTreeMap::new(),
        };
        let kind_of: BTreeMap<&str, usize> =
            setting.kinds.iter().enumerate().map(|(a, k)| (k.name.as_str(), a)).collect();
        for (key, cell) in catalog.cells().filter(|(_, cell)| cell.source >= least) {
            let Some(&kind) = kind_of.get(key.kind.as_str()) else { continue };
            let Some(&workload) = numbers.get(&key.workload) else { continue };
            let partner = key.partner.as_ref().map(|p| numbers.get(p));
            if let Some(partner) = partner.map_or(Some(None), |p| p.map(|&p| Some(p))) {
                evidence.set(&CellIndex { workload, partner, kind, gang: key.gang }, cell);
            }
        }
        evidence
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.fixed.kinds
    }

    pub(crate) fn workloads(&self) -> &[KnownWorkload] {
        &self.fixed.workloads
    }

    /// A kind with room for everything, for the model.
    pub(crate) fn without_memory_limit(&self, kind: usize) -> &Kind {
        &self.fixed.without_memory_limit[kind]
    }

    /// The nearest other workloads by Ψ with their squared distance, nearest first.
    pub(crate) fn neighbours(&self, workload: usize) -> &[(usize, f64)] {
        &self.fixed.neighbours[workload]
    }

    /// How many workloads can be asked about: the first ones.
    pub(crate) fn subjects(&self) -> usize {
        self.fixed.subjects
    }

    /// ln of the measured rate alone on one GPU; NaN where it was not measured, −∞ where it does not fit.
    pub(crate) fn alone(&self, workload: usize, kind: usize) -> f64 {
        self.alone[kind * self.workloads().len() + workload]
    }

    /// Standard error of that rate; NaN where it was not measured.
    pub(crate) fn alone_standard_error(&self, workload: usize, kind: usize) -> f64 {
        self.alone_standard_error[kind * self.workloads().len() + workload]
    }

    /// Power measured alone on one GPU; NaN where it was not.
    pub(crate) fn alone_watts(&self, workload: usize, kind: usize) -> f64 {
        self.alone_watts[kind * self.workloads().len() + workload]
    }

    /// ln of the measured rate of `workload` beside `other`, the same way.
    pub(crate) fn beside(&self, workload: usize, other: usize, kind: usize) -> f64 {
        let n = self.workloads().len();
        f64::from(self.beside[(kind * n + workload) * n + other])
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

    /// Takes an observation in by the catalog's filter. `None` if it is about nothing known here, or makes no sense.
    pub(crate) fn observe(&mut self, o: &Observation) -> Option<CellIndex> {
        let (workload, kind) = (o.ask.workload.index(), o.kind.index());
        let partner = o.ask.partner.map(WorkloadId::index);
        let known = workload < self.subjects() && partner.is_none_or(|p| p < self.subjects());
        // A spread gang says little about one that is not.
        if !known || kind >= self.kinds().len() || (o.spread && o.ask.gang > 1) {
            return None;
        }
        let seen = CellIndex { workload, partner, kind, gang: o.ask.gang };
        let key = self.key(&seen);
        if self.recent.get(&key).is_none()
            && let Some(&cell) = self.fixed.catalog.get(&key)
        {
            self.recent.put(key.clone(), cell).ok()?;
        }
        let watts = Some(o.watts).filter(|w| w.is_finite() && *w > 0.0);
        let measurement = Measurement { rate: o.rate, watts, at: o.at, error: MEASUREMENT_ERROR };
        let cell = self.recent.measure(key, &measurement).ok()?;
        self.set(&seen, &cell);
        Some(seen)
    }

    fn set(&mut self, seen: &CellIndex, cell: &Cell) {
        let (n, rate) = (self.workloads().len(), cell.rate);
        match seen.partner {
            Some(other) => {
                let at = (seen.kind * n + seen.workload) * n + other;
                if self.beside[at].is_nan() && rate > 0.0 {
                    self.measured_pairs[seen.workload] += 1;
                    self.measured_pairs[other] += 1;
                }
                Arc::make_mut(&mut self.beside)[at] = rate.ln() as f32;
            }
            None if seen.gang == 1 => {
                let at = seen.kind * n + seen.workload;
                self.alone[at] = rate.ln();
                self.alone_standard_error[at] = cell.standard_error;
                self.alone_watts[at] = cell.watts.unwrap_or(f64::NAN);
            }
            None => {
                let gangs = self.gangs.entry((seen.workload, seen.kind)).or_default();
                if rate > 0.0 && !gangs.contains(&seen.gang) {
                    gangs.push(seen.gang);
                    gangs.sort_unstable();
                }
            }
        }
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
        let need = |t: usize| self.workloads()[t].features.as_ref().map_or(0.0, |w| w.memory_gib);
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

fn neighbours(workloads: &[KnownWorkload]) -> Vec<Vec<(usize, f64)>> {
    let neighbours = |i: usize| {
        let Some(own) = &workloads[i].psi else { return Vec::new() };
        let others = workloads.iter().enumerate().filter(|(k, _)| *k != i);
        let mut all: Vec<(usize, f64)> =
            others.filter_map(|(k, t)| Some((k, distance2(own, t.psi.as_ref()?)))).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        all.truncate(MOST_NEIGHBOURS);
        all
    };
    (0..workloads.len()).map(neighbours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
