//! The book: everything that readers may want to know, brought up to date after every entry.
//!
//! It follows from the journal as the scheduler does: the same entries, with what the scheduler answered, make the same book. It
//! decides nothing. Jobs are in it while they are live, and a moment longer until their last meter is read and their row of
//! history is written; what is older is in the store.
//!
//! Energy: engines' counters only grow, but may begin anew with another boot. What is added to the accounts is always the
//! difference from the last reading of the same boot, so restarts lose nothing and count nothing twice.

mod accounts;
mod cards;
mod catalog_names;
mod clock;
mod cluster;
mod decision;
mod events;
mod progress;
mod record;
mod runs;
mod series;
mod shared;
#[cfg(test)]
mod tests;
mod told;
mod workloads;

use crate::service::state_machine::{Effects, JobUpdate};
use crate::store::HistoryRow;
use crate::store::entry::{Entry, JournalHeader};
use arles_api::{self as api, JobState};
use arles_core::estimate::{Estimate, RateQuery, RateRow as Rates};
use arles_core::scheduler::{Event, NodeStatus, Order, TenantUse};
use arles_core::{
    Cluster, GpuId, Input, JobId, KindId, Output, Prices, Round, Scheduler, SharedMap, Spread, Tenant, Time,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map};
use std::sync::Arc;

pub(crate) use accounts::{OldCell, OwnCell, Sighting, Totals};
pub(crate) use cards::{Cards, Looks};
pub(crate) use decision::{AuditPeriod, Decision, Holding, TenantShare, shares};
pub(crate) use progress::Said;
pub(crate) use record::{HeldGpus, Record};
pub(crate) use runs::Runs;
pub(crate) use series::{Bucket, RESOLUTIONS, Series};
pub(crate) use told::{Telling, Told};
pub(crate) use workloads::Workloads;

/// Starts, stops and moves that are kept.
const CHANGES: usize = 400;

/// Orders, notes or jobs of an entry that are taken in before readers may look.
const AT_ONCE: usize = 128;

/// Reason code of a job that no scheduling round has looked at yet.
pub(crate) const NEXT_ROUND: &str = "next-round";

/// Numbers of one tenant.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TenantTotals {
    pub(crate) name: String,
    pub(crate) weight: f64,
    /// Live jobs by [`JobState`], in its order.
    pub(crate) live: [u64; 4],
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    /// GPUs held now; half of one that is shared.
    pub(crate) gpus: f64,
}

/// Jobs by number. Shared with copies until one of them changes it, so that a copy of a large book is cheap.
pub(crate) type Jobs = SharedMap<Arc<Record>>;

/// A job's record, to be changed.
///
/// A record whose last meter is read is closed and as good as gone: it leaves the book when its row of history reaches the disk, and
/// what the book says must not depend on when that is.
pub(crate) fn edit<'a>(jobs: &'a mut Jobs, job: &JobId) -> Option<&'a mut Record> {
    jobs.get_mut(job).filter(|record| !record.metered).map(Arc::make_mut)
}

/// How many of each tenant wait for which reason.
pub(crate) type Reasons = BTreeMap<(u32, &'static str), u64>;

/// One less of a tenant waits for this reason. What nobody waits for is not in the list.
fn uncount(reasons: &mut Reasons, tenant: u32, code: &'static str) {
    if let btree_map::Entry::Occupied(mut count) = reasons.entry((tenant, code)) {
        *count.get_mut() = count.get().saturating_sub(1);
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// Key of a measured cell.
pub(crate) type CellKey = (RateQuery, KindId, Spread);

/// Everything that readers may want to know; the module's head says how it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Book {
    /// As the scheduler has it, which is where a restart takes it from.
    #[serde(skip)]
    pub(crate) cluster: Option<Arc<Cluster>>,
    #[serde(default)]
    pub(crate) workloads: Arc<Workloads>,
    /// How long open jobs ran.
    #[serde(default)]
    pub(crate) runs: Runs,
    pub(crate) now: Time,
    pub(crate) round: Round,
    pub(crate) policy: String,
    pub(crate) tenants: Vec<TenantTotals>,
    /// Quotas and use, by tenant, as the scheduler has them.
    #[serde(skip)]
    pub(crate) tenant_uses: Vec<TenantUse>,
    #[serde(with = "shared::pairs")]
    pub(crate) jobs: Jobs,
    /// Live jobs that wait, oldest first.
    #[serde(with = "shared::numbers")]
    pub(crate) waiting: SharedMap<()>,
    /// The same by tenant: who asks for its own never goes through those of others.
    #[serde(skip)]
    pub(crate) waiting_of: BTreeMap<u32, SharedMap<()>>,
    /// Over, and not yet metered or written.
    pub(crate) closing: BTreeSet<JobId>,
    /// Up to two jobs on each GPU; 0 is nobody.
    pub(crate) seats: Vec<[u64; 2]>,
    pub(crate) watts: Vec<f32>,
    /// Of all GPUs together.
    #[serde(skip)]
    pub(crate) all_watts: f64,
    #[serde(skip)]
    pub(crate) nodes: Vec<NodeStatus>,
    /// Why jobs wait, as of the last round, and how many of each tenant for which reason.
    #[serde(skip)]
    telling: Telling,
    #[serde(skip)]
    pub(crate) reasons: Reasons,
    #[serde(with = "pairs")]
    pub(crate) estimates: BTreeMap<RateQuery, Rates>,
    /// Cells that were measured; what was measured is in the catalog.
    #[serde(default, with = "pairs")]
    pub(crate) sightings: BTreeMap<CellKey, Sighting>,
    /// What was measured on the runs of each tenant.
    #[serde(default, with = "pairs")]
    pub(crate) own_measured: BTreeMap<(CellKey, u32), OwnCell>,
    /// How fast cards are by their kind.
    #[serde(default)]
    pub(crate) cards: Arc<Cards>,
    /// What a snapshot from before there was a catalog has of measurements. The catalog takes it in at the start, and it is not written again.
    #[serde(default, rename = "measured", skip_serializing, deserialize_with = "pairs::deserialize")]
    pub(crate) old_measured: BTreeMap<CellKey, OldCell>,
    pub(crate) totals: Totals,
    /// What electricity costs, as far as anybody said.
    #[serde(default, skip_serializing_if = "Prices::is_empty")]
    pub(crate) prices: Prices,
    pub(crate) decision: Option<Decision>,
    pub(crate) failure: Option<String>,
    pub(crate) period: AuditPeriod,
    /// GPUs held, by tenant.
    #[serde(default)]
    pub(crate) holding: Vec<Holding>,
    /// What the cluster did lately.
    #[serde(default)]
    pub(crate) series: Series,
    pub(crate) changes: VecDeque<api::Change>,
    /// Rows of history that are not yet written.
    pub(crate) rows: Vec<HistoryRow>,
    pub(crate) last_event: u64,
    #[serde(skip)]
    pub(crate) events: VecDeque<api::Event>,
    pub(crate) counts: Counts,
}

/// How often things happened.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) submitted: u64,
    pub(crate) starts: u64,
    pub(crate) stops: u64,
    pub(crate) requeued: u64,
    pub(crate) refused: u64,
    pub(crate) measurements: u64,
    pub(crate) no_allocation: u64,
    pub(crate) nodes_lost: u64,
    /// Sum of |estimated / measured − 1| over measurements, estimates as they stood then.
    pub(crate) error_sum: f64,
    pub(crate) errors: u64,
}

impl Book {
    /// An empty book.
    #[must_use]
    pub(crate) fn new(header: &Arc<JournalHeader>) -> Self {
        let line = |tenant: &Tenant| TenantTotals {
            name: tenant.name.clone(),
            weight: tenant.weight,
            ..TenantTotals::default()
        };
        let gpus = header.cluster.gpus();
        let kinds = header.cluster.kinds().len();
        let mut workloads = Workloads::default();
        workloads.attach(header);
        Self {
            cluster: Some(Arc::new(header.cluster.clone())),
            workloads: Arc::new(workloads),
            runs: Runs::default(),
            now: header.begun,
            round: Round(0),
            policy: header.policy.clone(),
            tenants: header.tenants.iter().map(line).collect(),
            tenant_uses: Vec::new(),
            jobs: Jobs::default(),
            waiting: SharedMap::default(),
            waiting_of: BTreeMap::new(),
            closing: BTreeSet::new(),
            seats: vec![[0; 2]; gpus],
            watts: vec![0.0; gpus],
            all_watts: 0.0,
            nodes: Vec::new(),
            telling: Telling::default(),
            reasons: BTreeMap::new(),
            estimates: BTreeMap::new(),
            sightings: BTreeMap::new(),
            own_measured: BTreeMap::new(),
            cards: Arc::default(),
            old_measured: BTreeMap::new(),
            totals: Totals::new(kinds, header.begun),
            prices: Prices::default(),
            decision: None,
            failure: None,
            period: AuditPeriod::default(),
            holding: Vec::new(),
            series: Series::default(),
            changes: VecDeque::new(),
            rows: Vec::new(),
            last_event: 0,
            events: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Takes in an entry and what the scheduler made of it.
    pub(crate) fn record(&mut self, at: Time, entry: &Entry, effects: &Effects) {
        let mut part = 0;
        while self.record_part(at, entry, effects, part) {
            part += 1;
        }
    }

    /// A part of that, in order; whether another follows. A decision about ten thousand gangs takes long, and readers may look in between: all of it is on
    /// disk, and every line that they see is true.
    pub(crate) fn record_part(&mut self, at: Time, entry: &Entry, effects: &Effects, part: usize) -> bool {
        let (outputs, jobs) = (effects.outputs.chunks(AT_ONCE), effects.changed_jobs.chunks(AT_ONCE));
        let (first_of_jobs, parts) = (outputs.len(), outputs.len() + jobs.len());
        if part == 0 {
            self.take_in(at, entry, effects);
        }
        if let Some(outputs) = outputs.clone().nth(part) {
            outputs.iter().for_each(|output| self.note_output(at, output));
        } else if let Some(jobs) = part.checked_sub(first_of_jobs).and_then(|part| jobs.clone().nth(part)) {
            jobs.iter().for_each(|update| self.update_job(at, update));
        }
        if part + 1 < parts {
            return true;
        }
        self.finish(at, entry, effects);
        false
    }

    fn take_in(&mut self, at: Time, entry: &Entry, effects: &Effects) {
        if let Entry::Input(Input::ClockSet) = entry {
            self.set_clock(at);
        }
        self.now = self.now.max(at);
        match entry {
            Entry::Submit(submission) => self.add_job(at, submission, effects.spec.as_ref()),
            Entry::Workload(workload) => Arc::make_mut(&mut self.workloads).add(workload),
            Entry::Input(input) => self.input(at, input, effects),
            Entry::Meters(meters) => self.metered(at, meters),
            Entry::Dismissed(job, meter) => {
                meter.iter().for_each(|meter| self.last_meter(meter));
                self.close_record(*job);
            }
            Entry::RollCall(meters) => meters.iter().for_each(|meter| self.last_meter(meter)),
            Entry::Measured(observations) => observations.iter().for_each(|seen| self.measured(seen)),
            Entry::Progress(reports) => self.progressed(reports),
            Entry::Resumed(resumed) => self.note_resumed(at, resumed),
        }
    }

    fn note_output(&mut self, at: Time, output: &Output) {
        match output {
            Output::Order(order) => self.count_order(at, order),
            Output::Note(event) => self.note_event(at, event),
            Output::Cluster(cluster) => self.cluster_changed(at, cluster),
            Output::Solve(_) | Output::Estimate(_) => {}
        }
    }

    fn finish(&mut self, at: Time, entry: &Entry, effects: &Effects) {
        if let Some(nodes) = &effects.nodes {
            self.note_nodes(at, nodes);
        }
        if let Some(uses) = &effects.tenant_uses {
            self.tenant_uses.clone_from(uses);
        }
        // Last, so that what is counted follows from this entry alone and not from when a daemon was restarted.
        if matches!(entry, Entry::Input(Input::Tick)) {
            self.sample(at);
        }
    }

    /// What an entry of a journal names must be there: nobody looks again.
    ///
    /// # Errors
    /// Half a sentence about what is not.
    pub(crate) fn check_entry(&self, entry: &Entry) -> Result<(), String> {
        let Entry::Submit(submission) = entry else { return Ok(()) };
        let (spec, tenants) = (&submission.spec, self.tenants.len());
        if spec.tenant.index() >= tenants {
            return Err(format!("job {} is of tenant {}, and there are {tenants}", spec.id.0, spec.tenant.0));
        }
        if spec.workload.index() >= self.workloads.len() {
            return Err(format!(
                "job {} runs workload {}, and there are {}",
                spec.id.0,
                spec.workload.0,
                self.workloads.len()
            ));
        }
        Ok(())
    }

    fn input(&mut self, at: Time, input: &Input, effects: &Effects) {
        match input {
            Input::Tick => {
                self.round = effects.round;
                self.close_period(at, false);
            }
            Input::Reported(report) => {
                if let (Some(code), Some(record)) = (report.exit_code, edit(&mut self.jobs, &report.job))
                    && record.last_fence == report.fence.0
                {
                    record.exit_code = Some(code);
                }
            }
            Input::Estimated(rows) => {
                for row in rows {
                    self.estimates.insert(row.ask, row.clone());
                }
            }
            Input::Prices(prices) => self.prices = prices.clone(),
            Input::Allocated(_, answer) => match (answer, &effects.answered) {
                (Ok(allocation), Some(problem)) => {
                    self.failure = None;
                    self.decided(at, problem, allocation);
                }
                (Err(error), Some(_)) => self.failure = Some(error.to_string()),
                (_, None) => {}
            },
            _ => {}
        }
    }

    fn count_order(&mut self, at: Time, order: &Order) {
        match order {
            Order::Start(start) => {
                let Some(record) = edit(&mut self.jobs, &start.job) else { return };
                if record.last_fence < start.fence.0 {
                    record.last_fence = start.fence.0;
                    record.steady_since = at;
                    record.starts += 1;
                    self.counts.starts += 1;
                    let to = self.place_in_words(start.kind, start.gpus.len());
                    self.push_change(start.job, "start", None, Some(to));
                } else if let Some(held) = record.held.as_ref().filter(|held| held.kind != start.kind) {
                    let (from, gpus) = (held.kind, start.gpus.len());
                    let [from, to] = [from, start.kind].map(|kind| self.place_in_words(kind, gpus));
                    self.push_change(start.job, "limit", Some(from), Some(to));
                    self.disturb(at, start.job);
                }
            }
            Order::Stop { job, fence } => {
                let Some(record) = edit(&mut self.jobs, job) else { return };
                if record.last_stop < fence.0 {
                    record.last_stop = fence.0;
                    let from = record.held.as_ref().map(|held| (held.kind, held.gpus.len()));
                    self.counts.stops += 1;
                    let from = from.map(|(kind, gpus)| self.place_in_words(kind, gpus));
                    self.push_change(*job, "stop", from, None);
                }
            }
        }
    }

    fn place_in_words(&self, kind: KindId, gpus: usize) -> String {
        format!("{gpus} × {}", self.cluster().kind(kind).name)
    }

    /// Remembers a change; a stop and a start of the same job one after the other are one move.
    fn push_change(&mut self, job: JobId, what: &str, from: Option<String>, to: Option<String>) {
        let Some(record) = edit(&mut self.jobs, &job) else { return };
        let tenant = self.tenants[record.spec.tenant.index()].name.clone();
        let stopped = |change: &&mut api::Change| change.job == job.0 && change.what == "stop";
        if what == "start"
            && let Some(earlier) = self.changes.iter_mut().take(64).find(stopped)
        {
            earlier.what = "move".into();
            earlier.to = to;
            return;
        }
        self.changes.push_front(api::Change { job: job.0, tenant, what: what.into(), from, to });
        self.changes.truncate(CHANGES);
    }

    fn note_power(&mut self, at: Time, event: &Event) {
        match event {
            Event::PowerBudgetSet { watts, rack } => {
                let said = match (watts, rack) {
                    (Some(watts), None) => format!("all GPUs together may draw {watts} W"),
                    (Some(watts), Some(rack)) => format!("the GPUs of {rack} together may draw {watts} W"),
                    (None, None) => "there is no power budget".to_owned(),
                    (None, Some(rack)) => format!("there is no power budget for {rack}"),
                };
                self.push_event(at, "power-budget", None, said);
            }
            Event::PricesSet { bands } => {
                let said = match bands {
                    0 => "prices of electricity are not known any more".to_owned(),
                    n => format!("electricity has {n} prices from now on"),
                };
                self.push_event(at, "prices", None, said);
            }
            Event::OverBudget { watts, budget, why } => {
                let text = format!("GPUs draw {watts:.0} W and may draw {budget:.0} W: {why}");
                self.push_event(at, "trouble", None, text);
            }
            _ => {}
        }
    }

    fn note_event(&mut self, at: Time, event: &Event) {
        match event {
            Event::Completed { job } => self.end_job(at, *job, JobState::Completed, None),
            Event::GaveUp { job, why } => self.end_job(at, *job, JobState::Failed, Some(why.clone())),
            Event::Rejected { job, why } => self.end_job(at, *job, JobState::Failed, Some(why.clone())),
            Event::Cancelled { job } => self.end_job(at, *job, JobState::Cancelled, None),
            Event::Requeued { job, why } => {
                self.counts.requeued += 1;
                self.push_event(at, "requeued", Some(*job), format!("job {} was requeued: {why}", job.0));
            }
            Event::NodeLost { node } => {
                self.counts.nodes_lost += 1;
                let name = self.cluster().node(*node).name.clone();
                self.push_event(
                    at,
                    "node",
                    None,
                    format!("{name} did not answer within its lease; its jobs are requeued"),
                );
            }
            Event::NoAllocation { round, why } => {
                self.counts.no_allocation += 1;
                self.failure = Some(why.clone());
                self.push_event(
                    at,
                    "trouble",
                    None,
                    format!("no allocation in {round}: {why}; the previous one stays in force"),
                );
            }
            Event::BadPlan { round, why } => {
                self.push_event(
                    at,
                    "trouble",
                    None,
                    format!("the placement of {round} was invalid and was discarded: {why}"),
                );
            }
            Event::PolicySwitched { from, to } => {
                self.policy.clone_from(to);
                self.push_event(at, "policy", None, format!("policy switched from {from} to {to}"));
            }
            Event::TenantSet { name, weight } => {
                match self.tenants.iter_mut().find(|line| line.name == *name) {
                    Some(line) => line.weight = *weight,
                    None => {
                        let line = TenantTotals { name: name.clone(), weight: *weight, ..TenantTotals::default() };
                        self.tenants.push(line);
                    }
                }
                self.push_event(at, "tenant", None, format!("tenant {name} now has weight {weight}"));
            }
            Event::QuotaSet { name, quota } => {
                self.push_event(at, "tenant", None, format!("tenant {name} now has a quota of {}", quota.words()));
            }
            Event::PowerBudgetSet { .. } | Event::PricesSet { .. } | Event::OverBudget { .. } => {
                self.note_power(at, event);
            }
            Event::TenantRemoved { name } => self.push_event(at, "tenant", None, format!("tenant {name} was removed")),
            Event::ClusterChanged { node, what } => self.push_event(at, "node", None, format!("{node} {what}")),
            Event::Resized { job, from, to } => self.note_size(at, *job, *from, *to),
            Event::Held { job } => self.note_hold(at, *job, true),
            Event::Released { job } => self.note_hold(at, *job, false),
            Event::Refused { why } => self.push_event(at, "trouble", None, why.clone()),
        }
    }

    /// Adds up what GPUs draw.
    pub(crate) fn add_up_watts(&mut self) {
        self.all_watts = self.watts.iter().map(|watts| f64::from(*watts)).sum();
    }

    /// Whether a tenant was removed.
    pub(crate) fn has_left(&self, tenant: usize) -> bool {
        self.tenant_uses.get(tenant).is_some_and(|used| used.removed)
    }

    /// Tenants that were not removed, with their numbers.
    pub(crate) fn present_tenants(&self) -> impl Iterator<Item = (usize, &TenantTotals)> {
        self.tenants.iter().enumerate().filter(|(i, _)| !self.has_left(*i))
    }

    fn note_nodes(&mut self, at: Time, nodes: &[NodeStatus]) {
        for i in 0..nodes.len().min(self.nodes.len()) {
            if self.nodes[i].up != nodes[i].up && !self.cluster().nodes()[i].removed {
                let name = self.cluster().nodes()[i].name.clone();
                let text = if nodes[i].up { "is up" } else { "is down" };
                self.push_event(at, "node", None, format!("{name} {text}"));
            }
        }
        self.nodes = nodes.to_vec();
    }

    /// Keeps of what was submitted one copy, the scheduler's: after a start, both were read apart.
    pub(crate) fn share_specs(&mut self, scheduler: &Scheduler) {
        for record in self.jobs.values_mut() {
            if let Some(spec) = scheduler.spec(record.spec.id).filter(|spec| **spec == record.spec) {
                Arc::make_mut(record).spec = Arc::clone(spec);
            }
        }
    }

    /// Counts the reasons of all who wait, as far as they are known, and who waits of each tenant.
    pub(crate) fn count_reasons(&mut self) {
        let mut counts = Reasons::new();
        self.waiting_of.clear();
        for record in self.waiting.iter().filter_map(|(job, ())| self.jobs.get(job)) {
            self.waiting_of.entry(record.spec.tenant.0).or_default().insert(record.spec.id, ());
            *counts.entry((record.spec.tenant.0, self.reason_code_of(record))).or_default() += 1;
        }
        self.reasons = counts;
    }

    /// Jobs that ended and whose last meter is not read.
    pub(crate) fn not_removed(&self) -> impl Iterator<Item = JobId> + '_ {
        let open = |job: &JobId| self.jobs.get(job).is_some_and(|record| !record.metered);
        self.closing.iter().copied().filter(open)
    }

    /// A copy for a snapshot: without what a snapshot does not hold.
    pub(crate) fn copy(&mut self) -> Self {
        let events = std::mem::take(&mut self.events);
        let copy = self.clone();
        self.events = events;
        copy
    }

    /// Rows that are to be written with the next commit.
    pub(crate) fn rows_to_write(&mut self) -> Vec<HistoryRow> {
        std::mem::take(&mut self.rows)
    }

    /// Those rows are on disk: jobs that are over and metered need not be here any more.
    pub(crate) fn rows_written(&mut self, rows: &[HistoryRow]) {
        for row in rows {
            if let HistoryRow::Past { id, .. } = row
                && self.closing.contains(id)
                && self.jobs.get(id).is_some_and(|record| record.metered)
            {
                self.closing.remove(id);
                self.jobs.remove(id);
            }
        }
    }

    /// The scheduler's current estimate for a cell.
    pub(crate) fn estimate(&self, ask: &RateQuery, kind: KindId) -> Option<Estimate> {
        *self.estimates.get(ask)?.cells.get(kind.index())?
    }

    fn update_job(&mut self, at: Time, update: &JobUpdate) {
        let job = update.job;
        let reason = self.jobs.get(&job).map_or(NEXT_ROUND, |record| self.reason_code_of(record));
        let tables = self.telling.tables();
        let Some(record) = edit(&mut self.jobs, &job) else { return };
        if record.state.over() {
            return;
        }
        let (was, tenant) = (record.state, record.spec.tenant.index());
        let before = record.held.take();
        record.follow(at, update);
        if was != JobState::Waiting {
            record.waits_since = tables;
        }
        let (state, after) = (record.state, record.held.clone());
        if before.as_ref().map(|held| &held.gpus) != after.as_ref().map(|held| &held.gpus) {
            if let Some(held) = &before {
                self.vacate(at, job, tenant, &held.gpus);
            }
            if let Some(held) = &after {
                self.occupy(at, job, tenant, &held.gpus);
            }
            self.disturb(at, job);
        }
        if was != state {
            self.disturb(at, job);
            self.recount(job, tenant, was, state, reason);
            match state {
                JobState::Running => {
                    self.push_event(at, "started", Some(job), format!("job {} started", job.0));
                }
                JobState::Waiting => {
                    self.push_event(at, "stopped", Some(job), format!("job {} stopped and is waiting again", job.0));
                }
                _ => {}
            }
        }
    }

    fn recount(&mut self, job: JobId, tenant: usize, was: JobState, state: JobState, reason: &'static str) {
        let line = &mut self.tenants[tenant];
        line.live[was as usize] -= 1;
        if !state.over() {
            line.live[state as usize] += 1;
        }
        if (was == JobState::Waiting) != (state == JobState::Waiting) {
            self.telling.note(job);
        }
        if was == JobState::Waiting {
            self.waits_no_more(job, tenant as u32);
            uncount(&mut self.reasons, tenant as u32, reason);
        }
        if state == JobState::Waiting {
            self.waits(job, tenant as u32);
            *self.reasons.entry((tenant as u32, NEXT_ROUND)).or_default() += 1;
        }
    }

    /// A job is one of those that wait.
    fn waits(&mut self, job: JobId, tenant: u32) {
        self.waiting.insert(job, ());
        self.waiting_of.entry(tenant).or_default().insert(job, ());
    }

    fn waits_no_more(&mut self, job: JobId, tenant: u32) {
        self.waiting.remove(&job);
        if let Some(own) = self.waiting_of.get_mut(&tenant) {
            own.remove(&job);
        }
    }

    fn occupy(&mut self, at: Time, job: JobId, tenant: usize, gpus: &[u32]) {
        for &gpu in gpus {
            let seats = &mut self.seats[gpu as usize];
            let Some(free) = seats.iter().position(|&s| s == 0) else { continue };
            seats[free] = job.0;
            let other = seats[1 - free];
            self.share_out(at, gpu, tenant, other, -1.0);
        }
    }

    fn vacate(&mut self, at: Time, job: JobId, tenant: usize, gpus: &[u32]) {
        for &gpu in gpus {
            let seats = &mut self.seats[gpu as usize];
            let Some(own) = seats.iter().position(|&s| s == job.0) else { continue };
            seats[own] = 0;
            let other = seats[1 - own];
            if let Some(partner) = edit(&mut self.jobs, &JobId(other)) {
                partner.steady_since = at;
            }
            self.share_out(at, gpu, tenant, other, 1.0);
        }
    }

    /// Somebody came to (−1) or left (1) a GPU on which `other` may sit: a shared GPU is half each one's.
    fn share_out(&mut self, at: Time, gpu: u32, tenant: usize, other: u64, sign: f64) {
        let kind = self.cluster().kind_of(GpuId(gpu));
        let partner = self.jobs.get(&JobId(other)).map(|record| record.spec.tenant.index());
        let own = if partner.is_some() { 0.5 } else { 1.0 };
        for (tenant, gpus) in partner.map(|partner| (partner, sign * 0.5)).into_iter().chain([(tenant, -sign * own)]) {
            self.tenants[tenant].gpus += gpus;
            self.hold(at, tenant, kind, gpus);
        }
    }
}

/// Maps with keys that JSON cannot have, as lists of pairs.
mod pairs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_seq(map.iter())
    }

    pub(super) fn deserialize<'de, K, V, D>(input: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(input)?.into_iter().collect())
    }
}
