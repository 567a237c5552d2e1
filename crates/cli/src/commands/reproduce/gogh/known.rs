//! What estimators know before a trace begins: published workloads that no job runs, measured alone and in pairs.

use crate::setup::Setup;
use anyhow::Result;
use arles_core::estimate::Source;
use arles_core::{Kind, KindId, Library, Time, WorkloadId};
use arles_learn::catalog::{Cell, MEASUREMENT_ERROR};
use arles_learn::evaluate::without_host_time;
use arles_learn::{Catalog, Key, Subject};
use arles_sim::scenario::Scenario;

/// Gang sizes that were measured.
const GANGS: [u32; 4] = [1, 2, 4, 8];

/// What an estimator is made from.
pub(super) struct Known {
    pub(super) kinds: Vec<Kind>,
    /// Workloads of the trace, in order of their ids.
    pub(super) subjects: Vec<Subject>,
    pub(super) catalog: Catalog,
}

/// What is known before a scenario.
pub(super) fn known(setup: &Setup<'_>, scenario: &Scenario) -> Result<Known> {
    let library = Library::builtin();
    let subject = |(name, features): (&str, Option<&arles_core::Workload>)| Subject {
        name: name.to_owned(),
        features: features.map(|workload| without_host_time(workload, library)),
    };
    let subjects: Vec<Subject> = scenario.workloads().map(subject).collect();
    let runs = |name: &Name| subjects.iter().any(|subject| subject.name == name.library);
    let others = published(setup).into_iter().filter(|name| !runs(name));
    let mut catalog = measured(setup, &others.collect::<Vec<_>>())?;
    let described: Vec<_> = catalog.described().map(|workload| without_host_time(workload, library)).collect();
    described.into_iter().for_each(|workload| catalog.describe(workload));
    Ok(Known { kinds: scenario.cluster().kinds().to_vec(), subjects, catalog })
}

/// A workload as the table of rates calls it, and as the library does.
pub(super) struct Name {
    table: String,
    library: String,
}

/// Workloads whose rates were published: those of the table or, without one, those of the library that have the name of a
/// publication.
pub(super) fn published(setup: &Setup<'_>) -> Vec<Name> {
    let library = Library::builtin();
    let named = |table: &String| Name {
        library: library.workload(table).map_or(table.clone(), |workload| workload.name.clone()),
        table: table.clone(),
    };
    match setup.rates() {
        Some(table) => table.workloads().iter().map(named).collect(),
        None => library.workloads().iter().filter(|w| !w.aliases.is_empty()).map(|w| named(&w.name)).collect(),
    }
}

/// A catalog of these workloads on the kinds of the cluster, each cell measured once, without an error.
pub(super) fn measured(setup: &Setup<'_>, names: &[Name]) -> Result<Catalog> {
    let kinds = setup.cluster.kinds();
    let truth = setup.truth(&names.iter().map(|name| name.table.clone()).collect::<Vec<_>>())?;
    let mut catalog = Catalog::default();
    let mut put = |workload: usize, partner: Option<usize>, kind: usize, gang: u32, rate: f64, watts: f64| {
        let name = |i: usize| names[i].library.clone();
        let key = Key { workload: name(workload), partner: partner.map(name), kind: kinds[kind].name.clone(), gang };
        let (watts, source, at, standard_error) = (Some(watts), Source::Measured, Time::ZERO, MEASUREMENT_ERROR);
        catalog.put(key, Cell { rate, watts, source, observations: 1, at, standard_error })
    };
    let id = |i: usize| WorkloadId(i as u32);
    for w in 0..names.len() {
        for gang in GANGS {
            for (j, pace) in truth.alone(id(w), gang).iter().enumerate() {
                if let Some([packed, _, _]) = pace {
                    put(w, None, j, gang, packed.rate, packed.watts)?;
                }
            }
        }
        for p in 0..names.len() {
            for j in 0..kinds.len() {
                if let Some(pace) = truth.together(id(w), id(p), KindId(j as u16)) {
                    put(w, Some(p), j, 1, pace.first_rate, pace.watts)?;
                }
            }
        }
    }
    for workload in names.iter().filter_map(|name| Library::builtin().workload(&name.library).ok()) {
        catalog.describe(workload.clone());
    }
    Ok(catalog)
}
