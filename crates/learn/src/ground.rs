//! What every estimator stands on: the workloads it may be asked about, those it can learn from, and their measured cells.
//!
//! Workloads are numbered: first the [`Setting`]'s subjects in their order, then whatever else the catalog knows. Measured
//! rates lie in flat arrays as logarithms, NaN where nothing is known. The catalog an estimator was made from is shared by
//! all its forks and never written; what is observed goes into a small catalog of the fork's own, by the same filter.
//!
//! Only *measured* cells count as evidence here. Whether something fits in memory is never learned: the features and the
//! kind say it, and a measured 0.

use crate::catalog::{Catalog, Cell, Key, MEASUREMENT_ERROR, Measurement};
use crate::features::{Psi, distance2, psi};
use crate::table::Setting;
use arles_core::estimate::{Observation, Source};
use arles_core::{Kind, Library, Workload, WorkloadId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A workload with a number.
#[derive(Clone, Debug)]
pub(crate) struct Thing {
    pub(crate) name: String,
    pub(crate) features: Option<Workload>,
    pub(crate) psi: Option<Psi>,
}

/// What does not change while an estimator lives.
struct Fixed {
    kinds: Vec<Kind>,
    things: Vec<Thing>,
    /// How many of the things can be asked about: the first ones.
    subjects: usize,
    catalog: Catalog,
    /// The kinds with room for everything, for the model: what fits is decided here.
    roomy: Vec<Kind>,
    /// For each thing, those nearest by Ψ with their squared distance, nearest first.
    near: Vec<Vec<(usize, f64)>>,
}

/// So many neighbours of a thing are kept; all others are too far to say anything.
const NEAR: usize = 64;

/// Measured cells in flat arrays, and where they came from.
#[derive(Clone)]
pub(crate) struct Ground {
    fixed: Arc<Fixed>,
    /// What this fork has seen since it was made.
    recent: Catalog,
    /// ln rate alone on one GPU by (kind, thing).
    alone: Vec<f64>,
    /// Its standard error, and the power drawn where that was measured, the same way.
    alone_standard_error: Vec<f64>,
    alone_watts: Vec<f64>,
    /// ln rate of one thing beside another by (kind, thing, other); −∞ where they are known not to fit.
    beside: Arc<Vec<f32>>,
    /// Pairs measured, by thing on either side.
    met: Vec<u32>,
    /// Gang sizes above 1 that were measured, by (thing, kind).
    gangs: BTreeMap<(usize, usize), Vec<u32>>,
}

/// A measurement as the ground took it in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) thing: usize,
    pub(crate) partner: Option<usize>,
    pub(crate) kind: usize,
    pub(crate) gang: u32,
}

impl Ground {
    /// Numbers everything and spreads the catalog's measured cells out.
    pub(crate) fn new(setting: &Setting<'_>) -> Self {
        Self::from(setting, Source::Measured)
    }

    /// The same with cells of a source or better.
    pub(crate) fn from(setting: &Setting<'_>, least: Source) -> Self {
        let catalog = setting.catalog;
        let mut things: Vec<Thing> = Vec::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut add = |name: &str, features: Option<&Workload>| {
            numbers.entry(name.to_owned()).or_insert(things.len());
            let library = || Library::builtin().workload(name).ok();
            let features = features.or_else(|| catalog.features(name)).or_else(library).cloned();
            let psi = features.as_ref().map(psi);
            things.push(Thing { name: name.to_owned(), features, psi });
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
        let (n, k) = (things.len(), kinds.len());
        let roomy = kinds.iter().map(|k| Kind { memory_gib: f64::INFINITY, max_jobs: 2, ..k.clone() }).collect();
        let near = neighbours(&things);
        let fixed = Fixed { kinds, things, subjects: setting.workloads.len(), catalog: catalog.clone(), roomy, near };
        let mut ground = Self {
            fixed: Arc::new(fixed),
            recent: Catalog::default(),
            alone: vec![f64::NAN; n * k],
            alone_standard_error: vec![f64::NAN; n * k],
            alone_watts: vec![f64::NAN; n * k],
            beside: Arc::new(vec![f32::NAN; n * n * k]),
            met: vec![0; n],
            gangs: BTreeMap::new(),
        };
        let kind_of: BTreeMap<&str, usize> =
            setting.kinds.iter().enumerate().map(|(a, k)| (k.name.as_str(), a)).collect();
        for (key, cell) in catalog.cells().filter(|(_, cell)| cell.source >= least) {
            let Some(&kind) = kind_of.get(key.kind.as_str()) else { continue };
            let Some(&thing) = numbers.get(&key.workload) else { continue };
            let partner = key.partner.as_ref().map(|p| numbers.get(p));
            if let Some(partner) = partner.map_or(Some(None), |p| p.map(|&p| Some(p))) {
                ground.set(&Seen { thing, partner, kind, gang: key.gang }, cell);
            }
        }
        ground
    }

    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.fixed.kinds
    }

    pub(crate) fn things(&self) -> &[Thing] {
        &self.fixed.things
    }

    /// A kind with room for everything, for the model.
    pub(crate) fn roomy(&self, kind: usize) -> &Kind {
        &self.fixed.roomy[kind]
    }

    /// The nearest other things by Ψ with their squared distance, nearest first.
    pub(crate) fn near(&self, thing: usize) -> &[(usize, f64)] {
        &self.fixed.near[thing]
    }

    /// How many things can be asked about: the first ones.
    pub(crate) fn subjects(&self) -> usize {
        self.fixed.subjects
    }

    /// ln of the measured rate alone on one GPU; NaN where it was not measured, −∞ where it does not fit.
    pub(crate) fn alone(&self, thing: usize, kind: usize) -> f64 {
        self.alone[kind * self.things().len() + thing]
    }

    /// Standard error of that rate; NaN where it was not measured.
    pub(crate) fn alone_standard_error(&self, thing: usize, kind: usize) -> f64 {
        self.alone_standard_error[kind * self.things().len() + thing]
    }

    /// Power measured alone on one GPU; NaN where it was not.
    pub(crate) fn alone_watts(&self, thing: usize, kind: usize) -> f64 {
        self.alone_watts[kind * self.things().len() + thing]
    }

    /// ln of the measured rate of `thing` beside `other`, the same way.
    pub(crate) fn beside(&self, thing: usize, other: usize, kind: usize) -> f64 {
        let n = self.things().len();
        f64::from(self.beside[(kind * n + thing) * n + other])
    }

    /// ln of the measured rate of `thing` beside `other` over its measured rate alone; NaN unless both are known and fit.
    pub(crate) fn relative(&self, thing: usize, other: usize, kind: usize) -> f64 {
        let ln = self.beside(thing, other, kind) - self.alone(thing, kind);
        if ln.is_finite() { ln } else { f64::NAN }
    }

    /// Pairs measured with this thing on either side.
    pub(crate) fn met(&self, thing: usize) -> u32 {
        self.met[thing]
    }

    /// Gang sizes above 1 measured on a kind.
    pub(crate) fn gangs(&self, thing: usize, kind: usize) -> &[u32] {
        self.gangs.get(&(thing, kind)).map_or(&[], Vec::as_slice)
    }

    /// The catalog's cell, whatever its source.
    pub(crate) fn cell(&self, seen: &Seen) -> Option<Cell> {
        let key = self.key(seen);
        self.recent.get(&key).or_else(|| self.fixed.catalog.get(&key)).copied()
    }

    /// The measured cell, if there is one.
    pub(crate) fn measured(&self, seen: &Seen) -> Option<Cell> {
        let known = match (seen.partner, seen.gang) {
            (Some(other), _) => !self.beside(seen.thing, other, seen.kind).is_nan(),
            (None, 1) => !self.alone(seen.thing, seen.kind).is_nan(),
            (None, gang) => self.gangs(seen.thing, seen.kind).contains(&gang),
        };
        if known { self.cell(seen).filter(|cell| cell.source == Source::Measured) } else { None }
    }

    /// Takes an observation in by the catalog's filter. `None` if it is about nothing known here, or makes no sense.
    pub(crate) fn observe(&mut self, o: &Observation) -> Option<Seen> {
        let (thing, kind) = (o.ask.workload.index(), o.kind.index());
        let partner = o.ask.partner.map(WorkloadId::index);
        let known = thing < self.subjects() && partner.is_none_or(|p| p < self.subjects());
        // A spread gang says little about one that is not.
        if !known || kind >= self.kinds().len() || (o.spread && o.ask.gang > 1) {
            return None;
        }
        let seen = Seen { thing, partner, kind, gang: o.ask.gang };
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

    fn set(&mut self, seen: &Seen, cell: &Cell) {
        let (n, rate) = (self.things().len(), cell.rate);
        match seen.partner {
            Some(other) => {
                let at = (seen.kind * n + seen.thing) * n + other;
                if self.beside[at].is_nan() && rate > 0.0 {
                    self.met[seen.thing] += 1;
                    self.met[other] += 1;
                }
                Arc::make_mut(&mut self.beside)[at] = rate.ln() as f32;
            }
            None if seen.gang == 1 => {
                let at = seen.kind * n + seen.thing;
                self.alone[at] = rate.ln();
                self.alone_standard_error[at] = cell.standard_error;
                self.alone_watts[at] = cell.watts.unwrap_or(f64::NAN);
            }
            None => {
                let gangs = self.gangs.entry((seen.thing, seen.kind)).or_default();
                if rate > 0.0 && !gangs.contains(&seen.gang) {
                    gangs.push(seen.gang);
                    gangs.sort_unstable();
                }
            }
        }
    }

    fn key(&self, seen: &Seen) -> Key {
        let name = |thing: usize| self.things()[thing].name.clone();
        Key {
            workload: name(seen.thing),
            partner: seen.partner.map(name),
            kind: self.kinds()[seen.kind].name.clone(),
            gang: seen.gang,
        }
    }

    /// Whether `thing` fits on one GPU of a kind, with `other` beside it if there is one, as far as anybody can say.
    pub(crate) fn fits(&self, thing: usize, other: Option<usize>, kind: usize) -> bool {
        let spec = &self.kinds()[kind];
        let need = |t: usize| self.things()[t].features.as_ref().map_or(0.0, |w| w.memory_gib);
        let known = |ln: f64| if ln.is_nan() { None } else { Some(ln.is_finite()) };
        match other {
            None => known(self.alone(thing, kind)).unwrap_or(need(thing) <= spec.memory_gib),
            Some(other) => {
                let seen = known(self.beside(thing, other, kind)).or(known(self.beside(other, thing, kind)));
                spec.max_jobs >= 2 && seen.unwrap_or(need(thing) + need(other) <= spec.memory_gib)
            }
        }
    }
}

fn neighbours(things: &[Thing]) -> Vec<Vec<(usize, f64)>> {
    let near = |i: usize| {
        let Some(own) = &things[i].psi else { return Vec::new() };
        let others = things.iter().enumerate().filter(|(k, _)| *k != i);
        let mut all: Vec<(usize, f64)> =
            others.filter_map(|(k, t)| Some((k, distance2(own, t.psi.as_ref()?)))).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        all.truncate(NEAR);
        all
    };
    (0..things.len()).map(near).collect()
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
        let ground =
            Ground::new(&Setting { kinds: &kinds, workloads: &[], catalog: &catalog, seed: 1, progress: &|_| {} });
        let described: Vec<bool> = ground.things().iter().map(|t| t.psi.is_some()).collect();
        assert_eq!(described, [true, false]);
    }
}
