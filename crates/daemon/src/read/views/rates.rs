//! Estimated and measured rates.

use super::{View, cursor, limit};
use crate::Refusal;
use crate::read::book::{Book, OwnCell};
use crate::read::views::Page;
use crate::service::SharedEstimates;
use arles_api as api;
use arles_core::estimate::{Estimate, RateQuery, Source};
use arles_core::{KindId, Spread, WorkloadId};
use arles_learn::Catalog;
use std::collections::BTreeSet;

impl View<'_> {
    /// Estimated rate of a job on each kind, fastest first.
    pub(super) fn rates_of(&self, job: &api::Job) -> Vec<api::KindRate> {
        let mut rates = self.book(|book| {
            let record = book.jobs.get(&arles_core::JobId(job.id))?;
            let ask = RateQuery { workload: record.spec.workload, gang: record.gang(), partner: None };
            let row = book.estimates.get(&ask)?;
            let cells = row.cells.iter().enumerate().filter_map(|(j, cell)| Some((j, (*cell)?)));
            let rate = |(j, cell): (usize, Estimate)| {
                let may_tell = self.may_tell(book, &ask, KindId(j as u16), &cell);
                api::KindRate {
                    kind: book.cluster().kinds()[j].name.clone(),
                    rate: cell.rate,
                    watts: cell.watts,
                    standard_error: may_tell.then_some(cell.standard_error),
                    source: source(cell.source, may_tell).into(),
                }
            };
            Some(cells.map(rate).collect::<Vec<_>>())
        });
        if let Some(rates) = &mut rates {
            rates.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        }
        rates.unwrap_or_default()
    }

    /// Estimated rates beside measured ones. A tenant sees those of the workloads that it runs.
    ///
    /// # Errors
    /// When the query is invalid.
    pub fn estimates(&self, workload: Option<&str>, page: &Page) -> Result<api::Estimates, Refusal> {
        let (limit, skip) = (limit(page)?, cursor(page.cursor.as_deref())?.unwrap_or(0) as usize);
        let wanted = workload.map(super::jobs::known_workload);
        let mut cells = Vec::new();
        let mut seen = 0_usize;
        let own = self.own_workloads();
        let mut show = |book: &Book, catalog: &Catalog| {
            let name = |id: arles_core::WorkloadId| book.workloads.name(id);
            for (ask, row) in &book.estimates {
                let about =
                    |wanted: &str| name(ask.workload) == wanted || ask.partner.is_some_and(|p| name(p) == wanted);
                let visible = own.as_ref().is_none_or(|own| {
                    own.contains(&ask.workload) && ask.partner.is_none_or(|partner| own.contains(&partner))
                });
                if !visible || wanted.is_some_and(|wanted| !about(wanted)) {
                    continue;
                }
                for (j, cell) in row.cells.iter().enumerate() {
                    let Some(cell) = cell else { continue };
                    seen += 1;
                    if seen <= skip || cells.len() > limit {
                        continue;
                    }
                    let kind = KindId(j as u16);
                    let measured = book
                        .cell_key(ask, kind)
                        .and_then(|key| catalog.get(&key))
                        .filter(|cell| cell.source == Source::Measured);
                    let may_tell = self.may_tell(book, ask, kind, cell);
                    let own = self.limited_to(book).map(|tenant| own_cell(book, ask, kind, tenant));
                    let (measured_rate, measured_watts, measurements) = match own {
                        None => (
                            measured.map(|m| m.rate),
                            measured.and_then(|m| m.watts),
                            measured.map_or(0, |m| u64::from(m.observations)),
                        ),
                        Some(own) => {
                            (own.map(|m| m.rate), own.and_then(|m| m.watts), own.map_or(0, |m| u64::from(m.times)))
                        }
                    };
                    let first =
                        book.sightings.get(&(*ask, kind, Spread::Packed)).and_then(|sighting| sighting.first_estimate);
                    cells.push(api::EstimateCell {
                        workload: name(ask.workload).to_owned(),
                        gang: ask.gang,
                        partner: ask.partner.map(|partner| name(partner).to_owned()),
                        kind: book.cluster().kinds()[j].name.clone(),
                        rate: cell.rate,
                        watts: cell.watts,
                        standard_error: may_tell.then_some(cell.standard_error),
                        source: source(cell.source, may_tell).into(),
                        first_rate: first.filter(|_| measurements > 0),
                        measured_rate,
                        measured_watts,
                        measurements,
                    });
                }
            }
        };
        self.catalog(|catalog| self.book(|book| show(book, catalog)));
        let next = (cells.len() > limit).then(|| (skip + limit).to_string());
        cells.truncate(limit);
        Ok(api::Estimates { estimates: cells, next })
    }

    /// The tenant whose own measurements are all that the caller may see; `None` for whoever may see all.
    fn limited_to(&self, book: &Book) -> Option<u32> {
        let shared = match self.source {
            super::Source::Live(shared) => shared.options.estimates,
            super::Source::Archive(_) => SharedEstimates::Shared,
        };
        // A tenant that is not known any more has measured nothing.
        self.own_tenant(book).filter(|_| shared == SharedEstimates::Own).map(|own| own.map_or(u32::MAX, |own| own.0))
    }

    /// Whether the caller may know how sure an estimate is: that tells what was measured, and perhaps by whom.
    fn may_tell(&self, book: &Book, ask: &RateQuery, kind: KindId, cell: &Estimate) -> bool {
        let from_the_library = matches!(cell.source, Source::Stated | Source::Initial);
        self.limited_to(book).is_none_or(|own| from_the_library || own_cell(book, ask, kind, own).is_some())
    }

    /// The workloads of the caller's own live jobs; `None` for whoever may see all.
    fn own_workloads(&self) -> Option<BTreeSet<WorkloadId>> {
        let own = self.who.tenant.as_ref()?;
        let mut workloads = BTreeSet::new();
        self.each_live(None, true, |book, record| {
            if book.tenants[record.spec.tenant.index()].name == *own {
                workloads.insert(record.spec.workload);
            }
            true
        });
        Some(workloads)
    }
}

/// Where an estimate comes from. What others measured is an estimate like any other to whoever may not know of them.
fn source(source: Source, may_tell: bool) -> &'static str {
    match source {
        Source::Stated => "stated",
        Source::Initial => "initial",
        Source::Measured if may_tell => "measured",
        Source::Refined | Source::Measured => "refined",
    }
}

/// What was measured of a cell on a tenant's own runs, gangs close together before spread ones.
fn own_cell<'b>(book: &'b Book, ask: &RateQuery, kind: KindId, tenant: u32) -> Option<&'b OwnCell> {
    let of = |spread: Spread| book.own_measured.get(&((*ask, kind, spread), tenant));
    of(Spread::Packed).or_else(|| of(Spread::Nodes))
}
