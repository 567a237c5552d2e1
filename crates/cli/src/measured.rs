//! From a table of measured rates to a catalog: names become the library's, what did not fit stays as 0.

use arles_core::estimate::Source;
use arles_core::{Kind, Library, Time};
use arles_learn::catalog::{Cell, MEASUREMENT_ERROR};
use arles_learn::{Catalog, Key};
use arles_sim::rates::RateTable;

/// What a table says, as estimators want it.
pub(crate) struct Measured {
    pub(crate) catalog: Catalog,
    /// Its kinds, in the order of the table.
    pub(crate) kinds: Vec<Kind>,
    /// Cells of spread gangs, which a catalog has no place for.
    pub(crate) left_out: usize,
}

/// Reads a whole table as measured once, at the beginning of time. Workloads that the library does not know keep their name
/// and have no features.
pub(crate) fn from_table(table: &RateTable) -> anyhow::Result<Measured> {
    let library = Library::builtin();
    let kinds: Vec<Kind> = table.kinds().iter().map(|name| library.kind(name).cloned()).collect::<Result<_, _>>()?;
    let mut catalog = Catalog::default();
    let mut names = Vec::with_capacity(table.workloads().len());
    for name in table.workloads() {
        let known = library.workload(name);
        if let Ok(workload) = known {
            catalog.describe(workload.clone());
        }
        names.push(known.map_or(name.as_str(), |w| w.name.as_str()));
    }
    let mut left_out = 0;
    for cell in table.cells() {
        if cell.spread {
            left_out += 1;
            continue;
        }
        let key = Key {
            workload: names[cell.workload as usize].to_owned(),
            partner: cell.partner.map(|(partner, _)| names[partner as usize].to_owned()),
            kind: kinds[usize::from(cell.kind)].name.clone(),
            gang: cell.gang,
        };
        let (rate, at, doubt) = (cell.rate, Time::ZERO, MEASUREMENT_ERROR);
        catalog.put(key, Cell { rate, watts: None, source: Source::Measured, observations: 1, at, doubt })?;
    }
    Ok(Measured { catalog, kinds, left_out })
}
