//! Gavel's published measurements as cells.
//!
//! Names become the library's. Gangs that were spread over more nodes than they need are left out: a cell has no place for
//! them. Every pair is in the table twice, from either side; each side's rate is taken from its own entry, and from the other's
//! only where it has none. A rate of 0, on either side of a pair, says *does not fit*.

use anyhow::{Result, anyhow};
use arles_core::Time;
use arles_core::estimate::Source;
use arles_learn::catalog::MEASUREMENT_ERROR;
use arles_learn::catalog::csv::Names;
use arles_learn::{Cell, Key};
use arles_sim::rates::{self, RateTable};
use std::collections::BTreeMap;

/// Cells, and how many of spread gangs were left out.
pub(super) fn cells(text: &str, origin: &str, names: &Names<'_>, at: Time) -> Result<(Vec<(Key, Cell)>, usize)> {
    let table = RateTable::from_json(text, origin)?;
    let workloads: Vec<String> = table.workloads().iter().map(|name| names.workload(name)).collect();
    let kinds = table.kinds().iter().map(|name| Ok(names.kind(name)?.name.clone())).collect::<Result<Vec<_>, String>>();
    let kinds = kinds.map_err(|sentence| anyhow!("{origin}: {sentence}"))?;
    let key = |cell: &rates::Cell, workload: u32, partner: Option<u32>| Key {
        workload: workloads[workload as usize].clone(),
        partner: partner.map(|partner| workloads[partner as usize].clone()),
        kind: kinds[usize::from(cell.kind)].clone(),
        gang: cell.gang,
    };
    let (mut own, mut others, mut spread) = (BTreeMap::new(), BTreeMap::new(), 0);
    for cell in table.cells() {
        if cell.spread {
            spread += 1;
            continue;
        }
        let mut rate = cell.rate;
        if let Some((partner, beside)) = cell.partner {
            let fits = cell.rate > 0.0 && beside > 0.0;
            rate = if fits { cell.rate } else { 0.0 };
            others.insert(key(&cell, partner, Some(cell.workload)), if fits { beside } else { 0.0 });
        }
        let key = key(&cell, cell.workload, cell.partner.map(|(partner, _)| partner));
        if let Some(before) = own.insert(key.clone(), rate).filter(|before| *before != rate) {
            return Err(anyhow!(
                "{origin}: two names of this table both mean {key}, at {before} and {rate} steps/s; rename one of them"
            ));
        }
    }
    others.append(&mut own);
    let measured = |rate| Cell {
        rate,
        watts: None,
        source: Source::Measured,
        observations: 1,
        at,
        standard_error: MEASUREMENT_ERROR,
    };
    Ok((others.into_iter().map(|(key, rate)| (key, measured(rate))).collect(), spread))
}
