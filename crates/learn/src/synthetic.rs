//! A synthetic catalog for training before anything was measured: the library's workloads, run through the performance model.
//!
//! A model that is always right would teach an estimator nothing about errors. So the model is fed with perturbed features:
//! every family has its own factors on host time, arithmetic, traffic and kernels, and every workload smaller ones. The catalog
//! describes workloads by their unperturbed features, so what an estimator learns from it is how errors of the model are shared by
//! similar workloads. Cells are [`Source::Initial`]; any measurement outranks them.

use crate::catalog::{Catalog, Cell, Key};
use crate::rng::Rng;
use arles_core::estimate::Source;
use arles_core::{Kind, Library, Spread, Time, Workload, model};

/// At most so many workloads: whole families, drawn by the seed.
const MOST: usize = 24;
/// Spread (ln) of a family's factors, and of a workload's own.
const FAMILY_SPREAD: f64 = 0.5;
const OWN_SPREAD: f64 = 0.1;
/// Standard error of such a cell.
const STANDARD_ERROR: f64 = 0.5;

/// The catalog of a world that is like the model's. The same seed, the same world.
#[must_use]
pub fn catalog(kinds: &[Kind], library: &Library, seed: u64) -> Catalog {
    let chosen = chosen(library, seed);
    let real: Vec<Workload> = chosen.iter().map(|w| really(w, seed)).collect();
    let mut catalog = Catalog::default();
    let mut put = |workload: &Workload, partner: Option<&Workload>, kind: &Kind, rate: f64, watts: f64| {
        let partner = partner.map(|p| p.name.clone());
        let key = Key { workload: workload.name.clone(), partner, kind: kind.name.clone(), gang: 1 };
        let (source, at) = (Source::Initial, Time::ZERO);
        // A model's rate is a positive number, so nothing is refused.
        let _ = catalog
            .put(key, Cell { rate, watts: Some(watts), source, observations: 0, at, standard_error: STANDARD_ERROR });
    };
    for kind in kinds {
        for one in &real {
            if let Some(alone) = model::alone(one, kind, 1, Spread::Packed) {
                put(one, None, kind, alone.rate, alone.watts);
            }
            for two in &real {
                if let Some(together) = model::beside(one, two, kind) {
                    put(one, Some(two), kind, together.own, together.watts);
                }
            }
        }
    }
    for workload in chosen {
        catalog.describe(workload.clone());
    }
    catalog
}

fn chosen(library: &Library, seed: u64) -> Vec<&Workload> {
    let mut families: Vec<&str> = library.workloads().iter().map(|w| w.family.as_str()).collect();
    families.dedup();
    Rng::new(seed, "prior").shuffle(&mut families);
    let members = |family: &&str| {
        let family = (*family).to_owned();
        library.workloads().iter().filter(move |w| w.family == family)
    };
    families.iter().flat_map(members).take(MOST).collect()
}

/// The workload as it really is.
fn really(w: &Workload, seed: u64) -> Workload {
    let (mut family, mut own) = (Rng::new(seed, &w.family), Rng::new(seed, &w.name));
    // The sum of three uniforms is normal enough.
    let normal = |draw: &mut Rng| 2.0 * (draw.uniform() + draw.uniform() + draw.uniform() - 1.5);
    let mut factor = || (FAMILY_SPREAD * normal(&mut family) + OWN_SPREAD * normal(&mut own)).exp();
    Workload {
        host_seconds: w.host_seconds * factor(),
        flops_per_step: w.flops_per_step * factor(),
        bytes_per_step: w.bytes_per_step * factor(),
        kernels_per_step: w.kernels_per_step * factor(),
        ..w.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_world_and_another_is_not() {
        let library = Library::builtin();
        let kinds = [library.kind("v100").unwrap().clone()];
        let world = |seed| catalog(&kinds, library, seed);
        assert_eq!(world(1), world(1));
        assert!(world(1) != world(2));
        assert!(world(1).len() > 100);
        assert!(world(1).cells().all(|(_, cell)| cell.source == Source::Initial && cell.rate > 0.0));
    }
}
