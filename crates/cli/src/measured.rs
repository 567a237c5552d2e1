//! What was measured, from a table of rates or a catalog on disk. A table's names become the library's, what did not fit
//! stays as 0.

use arles_core::estimate::Source;
use arles_core::{Kind, Library, Time};
use arles_learn::catalog::disk::Disk;
use arles_learn::catalog::{Cell, MEASUREMENT_ERROR};
use arles_learn::cells::{self, CellTable};
use arles_learn::{Catalog, Key};
use arles_sim::rates::RateTable;
use std::path::Path;

/// What a table says, as estimators want it.
pub(crate) struct Measured {
    pub(crate) catalog: Catalog,
    /// Its kinds, in the order of the table.
    pub(crate) kinds: Vec<Kind>,
    /// Cells of spread gangs, which a catalog has no place for.
    pub(crate) left_out: usize,
}

/// What a file of rates or a catalog says; nothing at all without either.
pub(crate) fn from_files(rates: Option<&Path>, catalog: Option<&Path>) -> anyhow::Result<Measured> {
    match (rates, catalog) {
        (Some(path), _) => from_rates(path),
        (None, Some(path)) => Ok(from_catalog(Disk::read(path)?)),
        (None, None) => Ok(from_catalog(Catalog::default())),
    }
}

/// What a file of rates says: our table of cells, or Gavel's JSON.
pub(crate) fn from_rates(path: &Path) -> anyhow::Result<Measured> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    if text.is_empty() || !cells::looks_like(&text) {
        return from_table(&RateTable::from_file(path)?);
    }
    let CellTable { catalog, kinds, left_out } = cells::read(&text, &path.display().to_string(), Library::builtin())?;
    Ok(Measured { catalog, kinds, left_out })
}

/// The catalog, and those of its kinds that the library knows, in order of their names.
fn from_catalog(catalog: Catalog) -> Measured {
    let mut names: Vec<&str> = catalog.cells().map(|(key, _)| key.kind.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let kinds = names.iter().filter_map(|name| Library::builtin().any_kind(name).ok()).collect();
    Measured { catalog, kinds, left_out: 0 }
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
        let (rate, at, standard_error) = (cell.rate, Time::ZERO, MEASUREMENT_ERROR);
        catalog.put(key, Cell { rate, watts: None, source: Source::Measured, observations: 1, at, standard_error })?;
    }
    Ok(Measured { catalog, kinds, left_out })
}
