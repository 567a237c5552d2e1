//! A scheduler written down and read back: what a daemon keeps beside its journal.
//!
//! A scheduler restored from a snapshot answers every later input as the one it was taken from would have. What follows
//! from the rest is not written (who sits where, the classes and their rates, which orders are open), so it cannot
//! contradict it. What is read is checked before anything is built on it: a snapshot that was damaged is refused, never
//! believed. All numbers in it are finite: whatever is not is refused or replaced on its way in.

use super::*;
use crate::allocate::find_policy;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// The format this code writes and reads.
const VERSION: u32 = 1;

/// Everything that does not follow from the rest.
#[derive(Serialize, Deserialize)]
struct Snapshot<'a> {
    arles_snapshot: u32,
    policy: Cow<'a, str>,
    cluster: Cow<'a, Cluster>,
    tenants: Cow<'a, [Tenant]>,
    /// Not in snapshots from before there were quotas.
    #[serde(default)]
    tenant_states: Cow<'a, [TenantState]>,
    #[serde(default)]
    month: Month,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    power_budget: Option<f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rack_budgets: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "no_prices")]
    prices: Cow<'a, Prices>,
    settings: Settings,
    now: Time,
    driver_clock: Time,
    set_back_micros: u64,
    round: Round,
    last_tick: Time,
    next_fence: u64,
    next_class: u32,
    next_joined: u64,
    patience: f64,
    nodes: Cow<'a, [NodeState]>,
    jobs: Cow<'a, Jobs>,
    estimates: Cow<'a, Estimates>,
    asked: Vec<(RateQuery, Round)>,
    strangers: Vec<(JobId, Fence, Cow<'a, [GpuId]>)>,
    /// Only GPUs that somebody awaits.
    awaiting: Vec<(GpuId, Cow<'a, [Slot]>)>,
    placer: Cow<'a, Placer>,
    changed: bool,
    outstanding: Option<Arc<Problem>>,
    placed: bool,
    skipped_rounds: u32,
    unanswered: bool,
}

/// For serde, which asks by reference.
fn no_prices(prices: &Prices) -> bool {
    prices.is_empty()
}

impl Serialize for Scheduler {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let awaited = self.awaiting.iter().zip(0..).filter(|(slots, _)| !slots.is_empty());
        let snapshot = Snapshot {
            arles_snapshot: VERSION,
            policy: self.policy.name.into(),
            cluster: Cow::Borrowed(&self.cluster),
            tenants: Cow::Borrowed(&self.tenants),
            tenant_states: Cow::Borrowed(&self.tenant_states),
            month: self.month,
            power_budget: self.power_budget,
            rack_budgets: self.rack_budgets.clone(),
            prices: Cow::Borrowed(&self.prices),
            settings: self.settings,
            now: self.now,
            driver_clock: self.driver_clock,
            set_back_micros: self.set_back_micros,
            round: self.round,
            last_tick: self.last_tick,
            next_fence: self.next_fence,
            next_class: self.next_class,
            next_joined: self.next_joined,
            patience: self.patience,
            nodes: Cow::Borrowed(&self.nodes),
            jobs: Cow::Borrowed(&self.jobs),
            estimates: Cow::Borrowed(&self.estimates),
            asked: self.asked.iter().map(|(&ask, &round)| (ask, round)).collect(),
            strangers: self.strangers.iter().map(|(&(job, fence), gpus)| (job, fence, gpus.into())).collect(),
            awaiting: awaited.map(|(slots, gpu)| (GpuId(gpu), slots.into())).collect(),
            placer: Cow::Borrowed(&self.placer),
            changed: self.changed,
            outstanding: self.outstanding.clone(),
            placed: self.placed,
            skipped_rounds: self.skipped_rounds,
            unanswered: self.unanswered,
        };
        snapshot.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Scheduler {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Snapshot::deserialize(deserializer)?.restore().map_err(D::Error::custom)
    }
}

/// No counter that only grows by one gets near this: what has was damaged.
const MOST_COUNTED: u64 = 1 << 60;
/// No plan stands for so many rounds.
const MOST_SKIPPED: u32 = 1 << 20;

impl Snapshot<'_> {
    /// Counters go on from here, and must have room to.
    fn check_counters(&self) -> Result<(), String> {
        let counters = [
            ("round", self.round.0),
            ("next fence", self.next_fence),
            ("next place in the queue", self.next_joined),
            ("clock", self.now.0),
            ("driver's clock", self.driver_clock.0),
        ];
        if let Some((name, value)) = counters.into_iter().find(|(_, value)| *value > MOST_COUNTED) {
            return Err(format!("the {name} of the snapshot is {value}; expected at most {MOST_COUNTED}"));
        }
        if self.skipped_rounds > MOST_SKIPPED || self.next_class == u32::MAX {
            return Err("the snapshot's counters of rounds and classes are at their ends".into());
        }
        if let Some((_, round)) = self.asked.iter().find(|(_, round)| *round > self.round) {
            return Err(format!("the snapshot has a question of {round}, and it is {}", self.round));
        }
        let seconds = self.settings.round_seconds;
        let mut budgets = self.power_budget.iter().chain(self.rack_budgets.values());
        if let Some(watts) = budgets.find(|watts| !(watts.is_finite() && **watts >= 0.0)) {
            return Err(format!("the power budget of the snapshot is {watts} W; expected 0 or more"));
        }
        self.prices.check().map_err(|why| format!("the snapshot's prices: {why}"))?;
        let epsilon = self.settings.epsilon;
        if !(0.0..1.0).contains(&epsilon) {
            return Err(format!("the snapshot's epsilon is {epsilon}; expected 0 or more, below 1"));
        }
        if let Some(seconds) =
            self.settings.half_life_seconds.filter(|seconds| !(seconds.is_finite() && *seconds > 0.0))
        {
            return Err(format!("the half-life of the snapshot is {seconds} s; expected more than 0"));
        }
        if !(seconds > 0.0 && self.patience.is_finite()) {
            return Err(format!("rounds of the snapshot are {seconds} s long; expected more than 0"));
        }
        Ok(())
    }

    /// The scheduler that was written down, or a sentence about what is wrong.
    fn restore(self) -> Result<Scheduler, String> {
        if self.arles_snapshot != VERSION {
            let found = self.arles_snapshot;
            return Err(format!("the snapshot has version {found}, this arles reads version {VERSION}"));
        }
        let policy = find_policy(&self.policy).ok_or_else(|| {
            format!("policy '{}' of the snapshot is not known to this arles; see 'arles policies'", self.policy)
        })?;
        self.cluster.check().map_err(|error| format!("the snapshot's cluster: {error}"))?;
        self.check_counters()?;
        let cluster = self.cluster.into_owned();
        let mut tenant_states = self.tenant_states.into_owned();
        if tenant_states.len() > self.tenants.len() {
            let (states, tenants) = (tenant_states.len(), self.tenants.len());
            return Err(format!("the snapshot has quotas of {states} tenants and {tenants} tenants; expected no more"));
        }
        tenant_states.resize(self.tenants.len(), TenantState::default());
        for state in &tenant_states {
            state.check()?;
        }
        let mut scheduler = Scheduler {
            now: self.now,
            driver_clock: self.driver_clock,
            set_back_micros: self.set_back_micros,
            round: self.round,
            last_tick: self.last_tick,
            next_fence: self.next_fence,
            next_class: self.next_class,
            next_joined: self.next_joined,
            patience: self.patience,
            nodes: self.nodes.into_owned(),
            jobs: self.jobs.into_owned().indexed()?,
            estimates: self.estimates.into_owned(),
            asked: self.asked.into_iter().collect(),
            placer: self.placer.into_owned(),
            changed: self.changed,
            outstanding: self.outstanding.map(checked).transpose()?,
            placed: self.placed,
            skipped_rounds: self.skipped_rounds,
            unanswered: self.unanswered,
            tenant_states,
            month: self.month,
            power_budget: self.power_budget,
            rack_budgets: self.rack_budgets,
            prices: self.prices.into_owned(),
            ..Scheduler::new(cluster, self.tenants.into_owned(), policy, self.settings)
        };
        if scheduler.nodes.len() != scheduler.cluster.nodes().len() {
            let (states, nodes) = (scheduler.nodes.len(), scheduler.cluster.nodes().len());
            return Err(format!("the snapshot has {states} states for {nodes} nodes; expected one for each"));
        }
        scheduler.check_states()?;
        scheduler.placer.check(scheduler.cluster.kinds().len())?;
        scheduler.settle()?;
        for (job, fence, gpus) in self.strangers {
            scheduler.known_gpus(job, &gpus)?;
            scheduler.strangers.insert((job, fence), gpus.into_owned());
        }
        for (gpu, slots) in self.awaiting {
            scheduler.queue_up(gpu, slots.into_owned())?;
        }
        Ok(scheduler)
    }
}

/// A question that is open, if it makes sense: answers are checked against it.
fn checked(problem: Arc<Problem>) -> Result<Arc<Problem>, String> {
    match problem.check() {
        Ok(()) => Ok(problem),
        Err(error) => Err(format!("the problem of the snapshot: {error}")),
    }
}

impl Scheduler {
    /// Checks every job and derives from them all who sits where, which orders are open, and the classes.
    fn settle(&mut self) -> Result<(), String> {
        for slot in self.jobs.by_submission() {
            let job = self.jobs.get(slot);
            let (id, class, joined) = (job.spec.id, job.class, job.joined);
            if let Some(why) = self.senseless(&job.spec) {
                return Err(why);
            }
            let (gang, ran) = (job.gang(), job.ran_seconds.unwrap_or(0.0));
            if !(job.spec.takes(gang as usize) && ran.is_finite() && ran >= 0.0) {
                return Err(format!(
                    "{id} of the snapshot holds {gang} GPUs and ran for {ran} s: not what it asks for"
                ));
            }
            // What is being stopped may be on GPUs of which some turned out to be of another kind.
            let stops = matches!(job.phase, Phase::Stopping(..));
            if let Some(gang) = job.phase.occupied() {
                self.check_gang(&job.spec, gang, stops)?;
            }
            if let Some(gang) = &job.target {
                self.check_gang(&job.spec, gang, false)?;
            }
            if joined >= self.next_joined || class.0 >= self.next_class {
                return Err(format!("{id} of the snapshot is newer than its counters"));
            }
            if let Some(gang) = job.phase.occupied() {
                if gang.gpus.iter().any(|&gpu| self.seats.on(gpu).count() >= 2) {
                    return Err(format!("{id} of the snapshot holds a GPU that two others hold already"));
                }
                self.seats.sit(slot, &gang.gpus);
                self.tenant_states[job.spec.tenant.index()].gpus += gang.gpus.len() as u32;
            }
            self.tenant_states[job.spec.tenant.index()].live += 1;
            let retuned = |gang: &Gang| gang.retuned.is_some();
            if matches!(job.phase, Phase::Starting(..) | Phase::Stopping(..)) || job.phase.held().is_some_and(retuned) {
                self.unconfirmed.insert(slot);
            }
            let key = ClassKey::of(&job.spec, job.gang(), self.policy.grouping);
            if *self.class_ids.entry(key.clone()).or_insert(class) != class {
                return Err(format!("{id} of the snapshot is in another class than jobs like it"));
            }
            if !self.classes.contains_key(&class) {
                let job = self.jobs.get(slot);
                let made = self.make_class(key.clone(), &job.spec, job.gang());
                self.classes.insert(class, made);
            }
            let class = self.classes.get_mut(&class).expect("just made");
            if class.key != key {
                return Err(format!("{id} of the snapshot is in a class of jobs unlike it"));
            }
            class.jobs.join(joined, slot, &self.jobs);
            self.enlist(slot);
        }
        self.line_up();
        Ok(())
    }

    /// What is known of nodes must be of GPUs that they have.
    fn check_states(&self) -> Result<(), String> {
        for (state, node) in self.nodes.iter().zip(self.cluster.nodes()) {
            if let Some(gpu) = state.lost_gpus.iter().find(|&&gpu| gpu >= node.gpus) {
                return Err(format!("node '{}' of the snapshot lost GPU {gpu}; it has {}", node.name, node.gpus));
            }
        }
        Ok(())
    }

    fn check_gang(&self, spec: &JobSpec, gang: &Gang, mixed: bool) -> Result<(), String> {
        self.known_gpus(spec.id, &gang.gpus)?;
        if gang.kind.index() >= self.cluster.kinds().len() {
            return Err(format!("{} of the snapshot is on {}, which is not there", spec.id, gang.kind));
        }
        let whole = spec.takes(gang.gpus.len());
        let one_kind =
            mixed || gang.gpus.iter().all(|&gpu| self.cluster.kind_of(gpu) == self.cluster.sold_as(gang.kind));
        match whole && one_kind && gang.fence.0 < self.next_fence {
            true => Ok(()),
            false => Err(format!("the gang of {} in the snapshot is not what the job asks for", spec.id)),
        }
    }

    fn known_gpus(&self, job: JobId, gpus: &[GpuId]) -> Result<(), String> {
        match gpus.iter().find(|gpu| gpu.index() >= self.cluster.gpus()) {
            Some(gpu) => Err(format!("{job} of the snapshot is on {gpu}; the cluster has {}", self.cluster.gpus())),
            None => Ok(()),
        }
    }

    /// Lets jobs wait for a GPU, in this order.
    fn queue_up(&mut self, gpu: GpuId, slots: Vec<Slot>) -> Result<(), String> {
        let awaits = |&slot: &Slot| {
            let target = self.jobs.try_get(slot).and_then(|job| job.target.as_ref());
            target.is_some_and(|target| target.gpus.contains(&gpu))
        };
        if !slots.iter().all(awaits) {
            return Err(format!("the snapshot has somebody wait for {gpu} whose place is not there"));
        }
        self.awaiting[gpu.index()] = slots;
        Ok(())
    }
}
