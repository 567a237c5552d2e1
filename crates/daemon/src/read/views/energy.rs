//! Energy accounts.

use super::{View, energy_of, window};
use crate::Refusal;
use crate::read::book::{Book, Totals};
use crate::read::views::{EnergyBy, JobsQuery, Page};
use arles_api as api;
use arles_core::Time;
use arles_core::meter::Charge;

impl View<'_> {
    /// Energy of a window by job, tenant or kind. Of jobs it is all they have used, whenever that was.
    ///
    /// # Errors
    /// When the window or the cursor is invalid.
    pub fn energy(
        &self,
        by: EnergyBy,
        from: Option<f64>,
        to: Option<f64>,
        page: &Page,
    ) -> Result<api::EnergyAccount, Refusal> {
        let (from, to) = window(from, to)?;
        let now = self.book(|book| book.totals.clone());
        let end = if to >= now.at { now } else { self.totals_at(to)?.unwrap_or(now) };
        let begin = if from <= end.begun { None } else { self.totals_at(from)?.filter(|earlier| earlier.at <= end.at) };
        let totals = begin.map_or_else(|| end.clone(), |earlier| end.since(&earlier));
        let (rows, next) = match by {
            EnergyBy::Job => self.energy_by_job(page)?,
            EnergyBy::Tenant => (self.book(|book| self.energy_by_tenant(book, &totals)), None),
            EnergyBy::Kind => (self.book(|book| self.energy_by_kind(book, &totals)), None),
        };
        let own = |charge: &Charge| charge.total();
        let total_joules = match &self.who.tenant {
            None => totals
                .kinds
                .iter()
                .map(|kind| kind.used.active_joules + kind.used.idle_joules + kind.unused_joules)
                .sum(),
            Some(_) => self.book(|book| {
                self.visible_tenants(book)
                    .filter_map(|(i, _)| totals.tenants.get(i))
                    .map(|(charge, _)| own(charge))
                    .sum()
            }),
        };
        let word = match by {
            EnergyBy::Job => "job",
            EnergyBy::Tenant => "tenant",
            EnergyBy::Kind => "kind",
        };
        let (from, to) = (totals.begun.seconds(), totals.at.seconds());
        let source = self.energy_source();
        Ok(api::EnergyAccount { by: word.into(), from, to, rows, total_joules, source, next })
    }

    fn totals_at(&self, at: Time) -> Result<Option<Totals>, Refusal> {
        Ok(self.history(|store| store.sample_at(at))?.map(|(_, totals)| totals))
    }

    fn energy_by_job(&self, page: &Page) -> Result<(Vec<api::EnergyRow>, Option<String>), Refusal> {
        let query = JobsQuery { cursor: page.cursor.clone(), limit: page.limit, ..JobsQuery::default() };
        let jobs = self.jobs(&query)?;
        let row = |job: api::Job| api::EnergyRow {
            name: job.id.to_string(),
            energy: job.energy,
            unused_joules: None,
            gpu_seconds: job.gpu_seconds,
            cost: None,
            carbon_kg: None,
        };
        Ok((jobs.jobs.into_iter().map(row).collect(), jobs.next))
    }

    fn energy_by_tenant(&self, book: &Book, totals: &Totals) -> Vec<api::EnergyRow> {
        let row = |(i, line): (usize, &crate::read::book::TenantTotals)| {
            let (charge, gpu_seconds) = totals.tenants.get(i).copied().unwrap_or((Charge::default(), 0.0));
            let paid = totals.tenants_paid.get(i);
            api::EnergyRow {
                name: line.name.clone(),
                energy: energy_of(&charge),
                unused_joules: None,
                gpu_seconds,
                cost: paid.map(|paid| paid.0),
                carbon_kg: paid.map(|paid| paid.1),
            }
        };
        self.visible_tenants(book).map(row).collect()
    }

    /// Kinds belong to nobody: a tenant sees none of them.
    fn energy_by_kind(&self, book: &Book, totals: &Totals) -> Vec<api::EnergyRow> {
        if self.who.tenant.is_some() {
            return Vec::new();
        }
        let paid = |j: usize| totals.kinds_paid.get(j);
        let row = |(j, (kind, meter)): (usize, (&arles_core::Kind, &arles_core::engine::KindMeter))| api::EnergyRow {
            name: kind.name.clone(),
            // What of the active part went into restarts is known by job, not by kind.
            energy: api::Energy {
                active_joules: meter.used.active_joules,
                idle_joules: meter.used.idle_joules,
                restart_joules: None,
            },
            unused_joules: (!kind.is_mode()).then_some(meter.unused_joules),
            gpu_seconds: meter.busy_gpu_seconds,
            cost: paid(j).map(|paid| paid.0),
            carbon_kg: paid(j).map(|paid| paid.1),
        };
        book.cluster().kinds().iter().zip(&totals.kinds).enumerate().map(row).collect()
    }
}
