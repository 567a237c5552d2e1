//! Views: the book as one caller may see it, in the types of the API.
//!
//! A tenant's token sees its own jobs, shares, energy and events, and of the cluster what is busy but not by whom. Everybody else
//! sees everything. Every rule of that kind is in this module and nowhere else.
//!
//! The book is locked for one answer at a time and never while history is read.

mod cluster;
mod end;
mod energy;
mod fairness;
mod jobs;
mod judgement;
mod log;
mod query;
mod rates;
mod series;

pub(crate) use cluster::node_state;
pub use query::{EnergyBy, JobsQuery, LogQuery, Page};

use crate::Refusal;
use crate::access::Caller;
use crate::read::book::{Book, Told};
use crate::service::Shared;
use crate::service::catalog::CATALOG_FILE;
use crate::service::clock;
use crate::service::state_machine::{Recovered, StateMachine};
use crate::store::entry::{JournalHeader, fingerprint};
use crate::store::{Store, StoreError};
use arles_api as api;
use arles_core::TenantId;
use arles_core::allocate::POLICIES;
use arles_learn::Catalog;
use arles_learn::catalog::disk::Disk;
use std::path::Path;
use std::sync::Arc;

/// Entries of a page if nobody says how many.
const PAGE: u32 = 100;
/// Most that one may ask for.
const MOST: u32 = 1000;

/// A journal that is read without its daemon.
pub struct Archive {
    /// Fingerprint of the scheduler and of what tells requests apart.
    state: u64,
    book: Book,
    header: Arc<JournalHeader>,
    store: Store,
    /// What was measured, where the catalog is beside the journal.
    catalog: Catalog,
}

impl Archive {
    /// Reads a journal: a state folder, its database, or a copy made by `arles backup`. A daemon may be writing it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path, remark: &mut dyn FnMut(String)) -> Result<Self, StoreError> {
        let (store, header) = read(path)?;
        let recovered = StateMachine::recover(&store, &header, remark)?;
        Ok(Self::of(store, header, recovered))
    }

    /// Reads a journal from its very first entry, whatever snapshots there are; it must have kept them all. Says how many entries there
    /// were, and how many led to other decisions than when they were written.
    ///
    /// # Errors
    /// When it cannot be read, or the first entries are gone.
    pub fn retrace(path: &Path) -> Result<(Self, u64, u64), StoreError> {
        let (store, header) = read(path)?;
        let recovered = StateMachine::retrace(&store, &header)?;
        let (replayed, differing) = (recovered.replayed, recovered.differing);
        Ok((Self::of(store, header, recovered), replayed, differing))
    }

    fn of(store: Store, header: Arc<JournalHeader>, recovered: Recovered) -> Self {
        let mut book = recovered.book;
        let told = Arc::new(Told::by(&recovered.machine.scheduler));
        let counts = book.counted(&told);
        drop(book.tell(told, counts));
        let catalog = Disk::read(&store.path().with_file_name(CATALOG_FILE)).unwrap_or_default();
        Self { state: fingerprint(&recovered.machine), book, header, store, catalog }
    }

    /// A fingerprint of everything that was restored: scheduler, keys and book, as it is once all history is written.
    #[must_use]
    pub fn fingerprint(&self) -> (u64, u64) {
        let mut book = self.book.clone();
        let rows = book.rows_to_write();
        book.rows_written(&rows);
        (self.state, fingerprint(&book))
    }

    /// What this caller may see of it.
    #[must_use]
    pub fn view<'a>(&'a self, who: &'a Caller) -> View<'a> {
        View { source: Source::Archive(self), who }
    }
}

fn read(path: &Path) -> Result<(Store, Arc<JournalHeader>), StoreError> {
    let store = Store::read(path)?;
    let header = store.header()?.map(Arc::new).ok_or_else(|| {
        StoreError::Refused(format!("the journal {} is empty: no daemon has used it yet", path.display()))
    })?;
    Ok((store, header))
}

enum Source<'a> {
    Live(&'a Shared),
    Archive(&'a Archive),
}

/// The book as one caller may see it.
pub struct View<'a> {
    source: Source<'a>,
    who: &'a Caller,
}

impl<'a> View<'a> {
    pub(crate) fn new(shared: &'a Shared, who: &'a Caller) -> Self {
        Self { source: Source::Live(shared), who }
    }

    /// Where figures of energy come from; a journal that is read without its daemon does not say.
    fn energy_source(&self) -> String {
        match self.source {
            Source::Live(shared) => shared.options.energy_source.clone(),
            Source::Archive(_) => String::new(),
        }
    }

    fn book<T>(&self, read: impl FnOnce(&Book) -> T) -> T {
        match self.source {
            Source::Live(shared) => read(&shared.book()),
            Source::Archive(archive) => read(&archive.book),
        }
    }

    /// What was measured.
    fn catalog<T>(&self, read: impl FnOnce(&Catalog) -> T) -> T {
        match self.source {
            Source::Live(shared) => read(&shared.catalog.read()),
            Source::Archive(archive) => read(&archive.catalog),
        }
    }

    fn header(&self) -> &'a JournalHeader {
        match self.source {
            Source::Live(shared) => &shared.header,
            Source::Archive(archive) => &archive.header,
        }
    }

    fn history<T>(&self, read: impl FnOnce(&Store) -> Result<T, StoreError>) -> Result<T, Refusal> {
        match self.source {
            Source::Live(shared) => shared.history(read),
            Source::Archive(archive) => read(&archive.store).map_err(|e| {
                Refusal::unavailable(
                    "history",
                    e.to_string(),
                    "check the file, or restore a copy made by 'arles backup'",
                )
            }),
        }
    }

    fn now(&self) -> arles_core::Time {
        match self.source {
            Source::Live(shared) => shared.clock.now(),
            Source::Archive(archive) => archive.book.now,
        }
    }

    /// The server, and who is asking.
    #[must_use]
    pub fn server(&self) -> api::Server {
        let (engine, estimator, speed) = match self.source {
            Source::Live(shared) => (shared.engine_name.as_str(), shared.estimator_name.as_str(), shared.clock.speed()),
            Source::Archive(_) => ("none", "none", 1.0),
        };
        let header = self.header();
        self.book(|book| api::Server {
            version: env!("CARGO_PKG_VERSION").into(),
            engine: engine.into(),
            speed,
            now: self.now().seconds(),
            round: book.round.0,
            round_seconds: header.settings.round_seconds,
            policy: book.policy.clone(),
            estimator: estimator.into(),
            gpus: book.cluster().present_gpus() as u32,
            live_jobs: self.visible_tenants(book).map(|(_, line)| line.live.iter().sum::<u64>()).sum(),
            scope: self.who.scope.name().into(),
            tenant: self.who.tenant.clone(),
            last_event: book.last_event,
            watts: book.all_watts,
        })
    }

    /// The tenants that the caller may see, with their numbers.
    fn visible_tenants<'b>(
        &self,
        book: &'b Book,
    ) -> impl Iterator<Item = (usize, &'b crate::read::book::TenantTotals)> {
        book.tenants.iter().enumerate().filter(|(_, line)| self.who.sees(&line.name))
    }

    /// Workloads that jobs can run.
    #[must_use]
    pub fn workloads(&self) -> api::Workloads {
        self.book(|book| {
            let own = self.own_tenant(book);
            // A tenant that is not known any more has used nothing.
            let names = book.workloads.visible(own.map(|own| own.unwrap_or(TenantId(u32::MAX))));
            api::Workloads { workloads: names.map(str::to_owned).collect() }
        })
    }

    /// The number of the caller's tenant; the outer `None` for whoever is of none.
    #[allow(clippy::option_option, reason = "no tenant, and a tenant that is not known, are two things")]
    fn own_tenant(&self, book: &Book) -> Option<Option<TenantId>> {
        let own = self.who.tenant.as_ref()?;
        let at = book.tenants.iter().position(|line| line.name == *own);
        Some(at.map(|at| TenantId(at as u32)))
    }

    /// Every policy that this build has, and which one is in force.
    #[must_use]
    pub fn policies(&self) -> api::Policies {
        let current = self.book(|book| book.policy.clone());
        let policy = |entry: &arles_core::allocate::PolicyEntry| api::Policy {
            name: entry.name.into(),
            summary: entry.summary.into(),
            promises: entry.promises.iter().map(|promise| promise.name().into()).collect(),
            current: entry.name == current,
        };
        api::Policies { policies: POLICIES.iter().map(policy).collect() }
    }

    /// Events after a number; see [`Desk::events`](crate::service::desk::Desk::events).
    pub(crate) fn events(&self, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)> {
        self.book(|book| {
            let mut last = after;
            let mut seen = Vec::new();
            for event in book.events_after(after)? {
                last = event.id;
                // What is about nobody's job is about the cluster: policies and nodes are everybody's, rounds and tenants are not told to one.
                let visible = match (&event.tenant, &self.who.tenant) {
                    (Some(tenant), Some(own)) => tenant == own,
                    (None, Some(_)) => matches!(event.what.as_str(), "policy" | "node" | "round"),
                    (_, None) => true,
                };
                if visible {
                    seen.push(event.clone());
                    if seen.len() == most {
                        break;
                    }
                }
            }
            Some((seen, last))
        })
    }
}

/// The size of a page.
fn limit(page: &Page) -> Result<usize, Refusal> {
    match page.limit.unwrap_or(PAGE) {
        limit @ 1..=MOST => Ok(limit as usize),
        limit => Err(Refusal::bad_request("limit", format!("limit is {limit}"), format!("expected 1 to {MOST}"))),
    }
}

/// A cursor is the number of the last entry of the page before.
fn cursor(text: Option<&str>) -> Result<Option<u64>, Refusal> {
    let parse = |text: &str| {
        text.parse().map_err(|_| {
            Refusal::unprocessable(
                "cursor",
                format!("'{}' is not a cursor", text.escape_debug()),
                "use 'next' of the previous page, or leave it out",
            )
        })
    };
    text.map(parse).transpose()
}

/// A window of time; from the beginning until now if nobody says otherwise.
fn window(from: Option<f64>, to: Option<f64>) -> Result<(arles_core::Time, arles_core::Time), Refusal> {
    let moment = |name: &'static str, value: f64| {
        if (0.0..=1e11).contains(&value) {
            return Ok(arles_core::Time::from_seconds(value));
        }
        Err(Refusal::unprocessable(
            name,
            format!("{name} is {value}"),
            format!("expected seconds since 1970, such as {:.0}", clock::wall().seconds()),
        ))
    };
    let from = from.map(|value| moment("from", value)).transpose()?.unwrap_or_default();
    let to = to.map(|value| moment("to", value)).transpose()?.unwrap_or(arles_core::Time(u64::MAX / 4));
    if to <= from {
        return Err(Refusal::unprocessable("window", "the window ends before it starts", "use a later 'to'"));
    }
    Ok((from, to))
}

fn energy_of(charge: &arles_core::meter::Charge) -> api::Energy {
    api::Energy {
        active_joules: charge.active_joules,
        idle_joules: charge.idle_joules,
        restart_joules: Some(charge.restart_joules),
    }
}
