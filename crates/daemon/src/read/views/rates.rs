//! Estimated and measured rates.

use super::{View, cursor, limit};
use crate::Refusal;
use crate::read::book::Book;
use crate::read::views::Page;
use arles_api as api;
use arles_core::estimate::{Estimate, RateQuery, Source};
use arles_core::{KindId, Spread};
use arles_learn::Catalog;

impl View<'_> {
    /// Estimated rate of a job on each kind, fastest first.
    pub(super) fn rates_of(&self, job: &api::Job) -> Vec<api::KindRate> {
        let mut rates = self.book(|book| {
            let record = book.jobs.get(&arles_core::JobId(job.id))?;
            let ask = RateQuery { workload: record.spec.workload, gang: record.spec.gang, partner: None };
            let row = book.estimates.get(&ask)?;
            let cells = row.cells.iter().enumerate().filter_map(|(j, cell)| Some((j, (*cell)?)));
            let rate = |(j, cell): (usize, Estimate)| api::KindRate {
                kind: book.cluster().kinds()[j].name.clone(),
                rate: cell.rate,
                watts: cell.watts,
                standard_error: cell.standard_error,
                source: source(cell.source).into(),
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
        let mut show = |book: &Book, catalog: &Catalog| {
            let own = self.own_workloads(book);
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
                    let first =
                        book.sightings.get(&(*ask, kind, Spread::Packed)).and_then(|sighting| sighting.first_estimate);
                    cells.push(api::EstimateCell {
                        workload: name(ask.workload).to_owned(),
                        gang: ask.gang,
                        partner: ask.partner.map(|partner| name(partner).to_owned()),
                        kind: book.cluster().kinds()[j].name.clone(),
                        rate: cell.rate,
                        watts: cell.watts,
                        standard_error: cell.standard_error,
                        source: source(cell.source).into(),
                        first_rate: first,
                        measured_rate: measured.map(|m| m.rate),
                        measured_watts: measured.and_then(|m| m.watts),
                        measurements: measured.map_or(0, |m| u64::from(m.observations)),
                    });
                }
            }
        };
        self.catalog(|catalog| self.book(|book| show(book, catalog)));
        let next = (cells.len() > limit).then(|| (skip + limit).to_string());
        cells.truncate(limit);
        Ok(api::Estimates { estimates: cells, next })
    }

    /// The workloads of the caller's own live jobs; `None` for whoever may see all.
    fn own_workloads(&self, book: &Book) -> Option<std::collections::BTreeSet<arles_core::WorkloadId>> {
        let own = self.who.tenant.as_ref()?;
        let mine = book.jobs.values().filter(|record| book.tenants[record.spec.tenant.index()].name == *own);
        Some(mine.map(|record| record.spec.workload).collect())
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Stated => "stated",
        Source::Initial => "initial",
        Source::Refined => "refined",
        Source::Measured => "measured",
    }
}
