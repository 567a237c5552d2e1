//! Kinds and workloads that come later.
//!
//! An addition that nobody measured changes no estimate of anybody else, to the bit. Cells of the catalog that could not be used before,
//! because their kind or partner had no number, are taken in now.

use super::{Evidence, Known, KnownWorkload, MOST_NEIGHBOURS, boundless, nearer, profiled};
use crate::features::distance2;
use crate::profile::{Completed, merged};
use arles_core::{Kind, Library, Profile, WorkloadId};
use std::sync::Arc;

impl Evidence {
    /// The cluster has another kind from now on; returns whether the catalog knows something about it.
    pub(crate) fn add_kind(&mut self, kind: &Kind) -> bool {
        let (n, kinds) = (self.workloads().len(), self.kinds.len());
        Arc::make_mut(&mut self.without_memory_limit).push(boundless(kind));
        Arc::make_mut(&mut self.kinds).push(kind.clone());
        let alone = Arc::make_mut(&mut self.alone);
        for cells in [&mut alone.ln, &mut alone.standard_error, &mut alone.watts] {
            *cells = wider(cells, kinds, n);
        }
        self.beside.add_kind(n);
        self.beside_column.add_kind(n);
        self.population.add_kind(kind);
        let fixed = Arc::clone(&self.fixed);
        let mut measured = false;
        for (key, cell) in fixed.catalog.cells().filter(|(key, _)| key.kind == kind.name) {
            self.take(key, cell);
            measured = true;
        }
        self.population.settle();
        measured
    }

    /// Another workload can be asked about from now on; returns its number here, and whether that is new.
    pub(crate) fn add_workload(&mut self, name: &str, profile: &Profile) -> (usize, bool) {
        let known = Arc::make_mut(&mut self.known);
        let id = WorkloadId(known.subjects.len() as u32);
        let described = described(name, profile, &self.fixed.catalog);
        if let Some(&number) = known.numbers.get(name) {
            known.subjects.push(number);
            known.ids[number].get_or_insert(id);
            // Nobody said what it is made of until now.
            if known.workloads[number].features.is_none() {
                let psi = described.psi.is_some();
                known.workloads[number] = Arc::new(described);
                known.neighbours[number] = Arc::new(known.nearest(number));
                if psi && known.listed[number] {
                    known.enter(number);
                }
            }
            return (number, false);
        }
        let number = known.workloads.len();
        known.numbers.insert(name.to_owned(), number);
        known.subjects.push(number);
        known.ids.push(Some(id));
        known.workloads.push(Arc::new(described));
        known.listed.push(false);
        let neighbours = known.nearest(number);
        if !neighbours.is_empty() {
            known.unlisted.push(number);
        }
        known.neighbours.push(Arc::new(neighbours));
        let alone = Arc::make_mut(&mut self.alone);
        for cells in [&mut alone.ln, &mut alone.standard_error, &mut alone.watts] {
            cells.extend(std::iter::repeat_n(f64::NAN, self.kinds.len()));
        }
        self.beside.add_workload();
        self.beside_column.add_workload();
        self.measured_pairs.push(0);
        let fixed = Arc::clone(&self.fixed);
        for key in fixed.beside_unknown.get(name).into_iter().flatten() {
            if let Some(cell) = fixed.catalog.get(key) {
                self.take(key, cell);
            }
        }
        (number, true)
    }

    /// Something was measured of a workload: from now on others may learn from it.
    pub(super) fn list(&mut self, workload: usize) {
        if !self.known.listed[workload] {
            let known = Arc::make_mut(&mut self.known);
            known.listed[workload] = true;
            known.unlisted.retain(|t| *t != workload);
            known.enter(workload);
        }
    }
}

impl Known {
    /// Puts a workload among the neighbours of all others that it is near enough to.
    fn enter(&mut self, workload: usize) {
        let Some(own) = self.workloads[workload].psi else { return };
        for t in (0..self.workloads.len()).filter(|&t| t != workload) {
            let Some(other) = &self.workloads[t].psi else { continue };
            let entry = (workload, distance2(other, &own));
            let list = &self.neighbours[t];
            let at = list.partition_point(|known| nearer(known, &entry).is_lt());
            if at < MOST_NEIGHBOURS {
                let list = Arc::make_mut(&mut self.neighbours[t]);
                list.insert(at, entry);
                list.truncate(MOST_NEIGHBOURS);
            }
        }
    }
}

/// A workload that was named later: as the catalog and the library describe it, else as its profile does.
fn described(name: &str, profile: &Profile, catalog: &crate::Catalog) -> KnownWorkload {
    let known = KnownWorkload::described(name, None, catalog);
    if known.features.is_some() && known.feature_error == 0.0 {
        return known;
    }
    let older = catalog.profile(name).cloned().unwrap_or_default();
    let profile = merged(profile, &older);
    let completed = Completed::from_profile(name, &profile, Library::builtin());
    let traits = catalog.traits(name).cloned().unwrap_or_default().or(profiled(&profile, &completed));
    KnownWorkload::new(name, completed, &traits)
}

/// Numbers by (workload, kind) with one kind more, NaN there.
fn wider(cells: &[f64], kinds: usize, workloads: usize) -> Vec<f64> {
    let mut wider = Vec::with_capacity(workloads * (kinds + 1));
    for t in 0..workloads {
        wider.extend_from_slice(&cells[t * kinds..(t + 1) * kinds]);
        wider.push(f64::NAN);
    }
    wider
}
