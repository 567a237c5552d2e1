//! The scheduler: a machine that turns inputs into orders.
//!
//! [`Scheduler::step`] is the only way in and out. It never blocks: programs are solved and estimates made
//! elsewhere, and their answers come back as inputs. It never acts: it says what should run and learns from
//! reports and surveys what does. All its state follows from the inputs, so a journal of them replays every
//! decision.
//!
//! Safety rests on three rules, each kept at one place:
//! - a GPU is given to a new gang only after the old one is *known* to be gone (`orders`);
//! - a gang is known by the fence of its start order, so late orders and late reports cannot touch a newer
//!   gang of the same job;
//! - a node that has not been seen for longer than the lease has stopped its gangs by itself, and only then
//!   are they given up (`survey`).

use crate::allocate::{AllocateError, Allocation, ClassId, FreeGpus, Grouping, PolicyEntry, Problem, Promise};
use crate::estimate::{Estimate, Estimates, RateQuery, RateRow};
use crate::host::{HostRoom, Shapes};
use crate::live::{
    AfterStop, Class, ClassKey, Classes, Gang, Job, Jobs, LineId, Lines, Pending, Phase, Roster, Seats, Slot,
};
use crate::place::{Placement, Placer, ROUNDS_PER_PLAN, Standing, View};
use crate::prices::Prices;
use crate::quota::{Month, Quota};
use crate::{Cluster, GpuId, JobId, JobSpec, KindId, NodeId, Round, Spread, Tenant, TenantId, Time, Work, WorkloadId};
use admission::Array;
use nodes::NodeState;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenancy::TenantState;

mod admission;
mod claims;
mod clock;
mod deferral;
mod elastic;
mod explain;
mod messages;
mod nodes;
mod orders;
mod power;
mod problem;
mod snapshot;
mod status;
mod survey;
mod switch;
mod tenancy;
#[cfg(test)]
mod tests;

pub use explain::{Displacement, Reason, Verdict};
pub use messages::{
    Event, Fence, GangEvent, GangReport, GangState, Input, ObservedGang, ObservedNode, Order, Output, Settings, Start,
    Survey,
};
pub use nodes::Drain;
pub use status::{HeldGpus, JobPhase, JobStatus, NodeStatus};
pub use tenancy::TenantUse;

/// After so many rounds without an answer a question is asked again.
const ROUNDS_UNTIL_ASKED_AGAIN: u64 = 5;

/// Queues that are not longer are looked at as a whole.
const LONG_QUEUE: usize = 1000;

/// What jobs of one line have in common.
fn line_key(spec: &JobSpec) -> ClassKey {
    ClassKey::of(spec, spec.gang, Grouping::Alike)
}

/// Decides what runs where. A clone knows the same and goes its own way from there.
#[derive(Clone)]
pub struct Scheduler {
    cluster: Cluster,
    tenants: Vec<Tenant>,
    policy: &'static PolicyEntry,
    settings: Settings,
    placer: Placer,

    /// Its own time: the driver's clock, less what that was set back.
    now: Time,
    driver_clock: Time,
    set_back_micros: u64,
    round: Round,
    last_tick: Time,
    next_fence: u64,
    /// Seconds of waiting for silent nodes; no single step adds more than a round, so that a clock that
    /// jumps forward cannot age every lease at once.
    patience: f64,

    jobs: Jobs,
    classes: Classes,
    class_ids: BTreeMap<ClassKey, ClassId>,
    next_class: u32,
    lines: Lines,
    next_joined: u64,
    seats: Seats,
    nodes: Vec<NodeState>,
    /// What nodes there are. Follows from the cluster.
    shapes: Shapes,
    estimates: Estimates,
    /// Rows that were asked for and not answered, and when.
    asked: BTreeMap<RateQuery, Round>,
    /// Gangs seen that should not be there, and the GPUs they block.
    strangers: BTreeMap<(JobId, Fence), Vec<GpuId>>,
    /// Jobs with an order that awaits confirmation.
    unconfirmed: BTreeSet<Slot>,
    /// For each GPU, the jobs that will start there once it is vacated.
    awaiting: Vec<Vec<Slot>>,
    /// Jobs that wait for this one to end.
    dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Arrays with a limit, by their first job.
    arrays: BTreeMap<JobId, Array>,
    /// Quotas and use, by tenant.
    tenant_states: Vec<TenantState>,
    /// The month that budgets are counted in.
    month: Month,
    /// The most that all GPUs together may draw.
    power_budget: Option<f64>,
    rack_budgets: BTreeMap<String, f64>,
    /// Electricity by the hour.
    prices: Prices,

    /// Whether the problem has changed since it was last solved.
    changed: bool,
    outstanding: Option<Arc<Problem>>,
    placed: bool,
    /// Rounds since the last plan was made.
    skipped_rounds: u32,
    /// Whether the policy is new and has not answered yet: there are no shares to place.
    unanswered: bool,
}

impl Scheduler {
    /// A scheduler of an empty queue on a cluster whose nodes nobody has seen yet.
    #[must_use]
    pub fn new(cluster: Cluster, tenants: Vec<Tenant>, policy: &'static PolicyEntry, settings: Settings) -> Self {
        Self {
            seats: Seats::new(cluster.gpus()),
            nodes: vec![NodeState::default(); cluster.nodes().len()],
            awaiting: vec![Vec::new(); cluster.gpus()],
            shapes: Shapes::of(&cluster),
            placer: Placer::default(),
            cluster,
            policy,
            settings: settings.finite(),
            now: Time::ZERO,
            driver_clock: Time::ZERO,
            set_back_micros: 0,
            round: Round(0),
            last_tick: Time::ZERO,
            next_fence: 1,
            patience: 0.0,
            jobs: Jobs::default(),
            classes: Classes::new(),
            class_ids: BTreeMap::new(),
            next_class: 0,
            lines: Lines::default(),
            next_joined: 0,
            estimates: Estimates::default(),
            asked: BTreeMap::new(),
            strangers: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            dependents: BTreeMap::new(),
            arrays: BTreeMap::new(),
            tenant_states: vec![TenantState::default(); tenants.len()],
            month: Month::default(),
            power_budget: None,
            rack_budgets: BTreeMap::new(),
            prices: Prices::default(),
            changed: false,
            outstanding: None,
            placed: true,
            skipped_rounds: 0,
            unanswered: false,
            tenants,
        }
    }

    /// Takes one input at time `now` of the driver's clock and returns what follows from it, in the order it must
    /// be done. A clock that is set back costs nothing: time goes on from where it was.
    pub fn step(&mut self, now: Time, input: impl Borrow<Input>) -> Vec<Output> {
        self.take(now, input.borrow())
    }

    fn take(&mut self, now: Time, input: &Input) -> Vec<Output> {
        if let Input::ClockSet = input {
            self.set_clock(now);
            return Vec::new();
        }
        self.set_back_micros = self.set_back_micros_at(now);
        self.driver_clock = now;
        let now = self.time_at(now);
        self.patience += now.since(self.now).min(self.settings.round_seconds);
        self.now = now;
        // A round's orders come at once.
        let likely = if matches!(input, Input::Tick | Input::Allocated(..)) { 32 } else { 4 };
        let mut out = Vec::with_capacity(likely);
        match input {
            Input::Submit(spec) => self.submit(spec.clone(), &mut out),
            Input::Cancel(job) => self.cancel(*job, &mut out),
            Input::Estimated(rows) => self.learn(rows),
            Input::Tick => self.tick(&mut out),
            Input::Allocated(round, answer) => self.allocated(*round, answer, &mut out),
            Input::Reported(report) => self.reported(report, &mut out),
            Input::Refused(order, why) => self.refused(order, why, &mut out),
            Input::Surveyed(survey) => self.surveyed(survey, &mut out),
            Input::Policy(name) => self.switch_policy(name, &mut out),
            Input::Tenant(tenant) => self.set_tenant(tenant, &mut out),
            Input::Quota(name, quota) => self.set_quota(name, *quota, &mut out),
            Input::RemoveTenant { name, cancel } => self.remove_tenant(name, *cancel, &mut out),
            Input::Energy(joules) => self.metered(joules),
            Input::PowerBudget(watts) => self.set_power_budget(*watts, &mut out),
            Input::RackBudget { rack, watts } => self.set_rack_budget(rack, *watts, &mut out),
            Input::Prices(prices) => self.set_prices(prices, &mut out),
            Input::Cluster(change) => self.change_cluster(change, &mut out),
            Input::Hold(job) => self.hold(*job, &mut out),
            Input::Release(job) => self.release(*job, &mut out),
            Input::Checkpointed(jobs) => self.checkpointed(jobs),
            // Above: it is the only one that time does not pass with.
            Input::ClockSet => {}
        }
        out
    }

    /// Jobs that are not over.
    #[must_use]
    pub fn live_jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Ids of jobs that are not over, in order.
    pub fn live(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.ids()
    }

    /// Ids of live jobs that hold nothing.
    pub fn waiting(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.iter().filter(|(_, job)| job.phase == Phase::Waiting).map(|(_, job)| job.spec.id)
    }

    /// What a live job's class is owed on each kind.
    #[must_use]
    pub fn standing(&self, job: JobId) -> Vec<Standing> {
        self.jobs.slot(job).map(|slot| self.placer.standing(self.jobs.get(slot).class)).unwrap_or_default()
    }

    /// The scheduler's own time as of the last input; it never goes back.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The same at a later time of the driver's clock. Whoever asks for a survey notes it ([`Survey::at`]).
    #[must_use]
    pub fn time_at(&self, now: Time) -> Time {
        Time(now.0.saturating_add(self.set_back_micros_at(now)))
    }

    fn set_back_micros_at(&self, now: Time) -> u64 {
        self.set_back_micros.saturating_add(self.driver_clock.0.saturating_sub(now.0))
    }

    /// The current decision's number.
    #[must_use]
    pub fn round(&self) -> Round {
        self.round
    }

    /// The question that the policy has not answered yet.
    #[must_use]
    pub fn open_problem(&self) -> Option<&Arc<Problem>> {
        self.outstanding.as_ref()
    }

    /// Who decides.
    #[must_use]
    pub fn policy(&self) -> &'static PolicyEntry {
        self.policy
    }

    /// Who is owed a share, by id.
    #[must_use]
    pub fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }

    /// Patience and pace.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The cluster it schedules.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn submit(&mut self, spec: JobSpec, out: &mut Vec<Output>) {
        if let Some(why) = self.refusal(&spec) {
            out.push(Output::Note(Event::Rejected { job: spec.id, why }));
            return;
        }
        for gang in spec.sizes() {
            self.ask(RateQuery { workload: spec.workload, gang, partner: None }, out);
        }
        if self.policy.pairs && spec.gang == 1 {
            let unanswered = self.asked.keys().filter(|ask| ask.gang == 1 && ask.partner.is_none());
            let others = self.estimates.single_workloads().chain(unanswered.map(|ask| ask.workload));
            for other in others.collect::<BTreeSet<WorkloadId>>() {
                let (a, b) = (spec.workload.min(other), spec.workload.max(other));
                self.ask(RateQuery { workload: a, gang: 1, partner: Some(b) }, out);
            }
        }
        let class = self.class_for(&spec, spec.gang);
        // A newcomer is neither ahead of those who waited, nor behind.
        let level = self.classes.get_mut(&class).expect("just made").jobs.level(&self.jobs);
        let joined = self.next_joined;
        self.next_joined += 1;
        let line = self.line_for(&spec);
        let slot = self.jobs.insert(Job {
            line,
            joined,
            class,
            phase: Phase::Waiting,
            size: spec.is_elastic().then_some(spec.gang),
            ran_seconds: spec.is_elastic().then_some(0.0),
            target: None,
            virtual_seconds: level,
            served_seconds: 0.0,
            attained_gpu_seconds: 0.0,
            credited: self.now,
            steps_done: 0.0,
            first_started: None,
            failures: 0,
            not_before: Time::ZERO,
            held: spec.held,
            waits_in_array: spec.array.is_some_and(|task| task.at_most > 0),
            waits_for_quota: self.tenant_states[spec.tenant.index()].quota.binds_scheduling(),
            unmet: 0,
            cheaper_at: None,
            exit_code: None,
            spec: Arc::new(spec),
        });
        self.classes.get_mut(&class).expect("just made").jobs.join(joined, slot, &self.jobs);
        self.tenant_state(slot).live += 1;
        self.enlist(slot);
        self.admit_tasks(slot);
        self.changed = true;
    }

    fn refusal(&self, spec: &JobSpec) -> Option<String> {
        if self.jobs.slot(spec.id).is_some() {
            return Some(format!("job {} is already there; give the new one another id", spec.id.0));
        }
        if self.tenant_states.get(spec.tenant.index()).is_some_and(|state| state.removed) {
            let name = &self.tenants[spec.tenant.index()].name;
            return Some(format!("job {} belongs to tenant '{name}', which was removed; name another", spec.id.0));
        }
        self.senseless(spec)
    }

    /// What makes a job that cannot be scheduled at all, whoever else is there.
    fn senseless(&self, spec: &JobSpec) -> Option<String> {
        let id = spec.id.0;
        let amount = |x: f64| x.is_finite() && x >= 0.0;
        let work = match spec.work {
            Work::Steps(work) | Work::Period(work) => work,
            Work::Open(expected) => expected.unwrap_or(0.0),
        };
        if spec.gang == 0 {
            return Some(format!("job {id} asks for a gang of 0 GPUs; ask for at least 1"));
        }
        if let Some(most) = spec.largest_gang.filter(|most| *most < spec.gang) {
            let least = spec.gang;
            return Some(format!(
                "job {id} asks for {least} to {most} GPUs; the second number must not be the smaller one"
            ));
        }
        if spec.tenant.index() >= self.tenants.len() {
            return Some(format!("job {id} belongs to an unknown tenant ({})", spec.tenant));
        }
        if !(spec.weight.is_finite() && spec.weight > 0.0) {
            return Some(format!("job {id} has weight {}; a weight is a positive number", spec.weight));
        }
        if !amount(work) {
            return Some(format!("job {id} has {work} to do; expected a number of steps or seconds"));
        }
        if !amount(spec.restart_seconds) {
            return Some(format!("job {id} restarts in {} seconds; expected 0 or more", spec.restart_seconds));
        }
        if let Some(floor) = spec.floor.filter(|floor| !amount(*floor)) {
            return Some(format!("job {id} is promised {floor} steps per second; expected 0 or more, or no promise"));
        }
        admission::senseless_limits(spec)
    }

    fn ask(&mut self, ask: RateQuery, out: &mut Vec<Output>) {
        if self.estimates.row(&ask).is_none() && !self.asked.contains_key(&ask) {
            self.asked.insert(ask, self.round);
            out.push(Output::Estimate(ask));
        }
    }

    fn class_for(&mut self, spec: &JobSpec, gang: u32) -> ClassId {
        let key = ClassKey::of(spec, gang, self.policy.grouping);
        if let Some(&id) = self.class_ids.get(&key) {
            return id;
        }
        let id = ClassId(self.next_class);
        self.next_class += 1;
        self.class_ids.insert(key.clone(), id);
        let class = self.make_class(key, spec, gang);
        self.classes.insert(id, class);
        id
    }

    /// The line of one more job; 0 where there are none.
    fn line_for(&mut self, spec: &JobSpec) -> LineId {
        if self.policy.first_come { self.lines.enter(line_key(spec)) } else { 0 }
    }

    /// Puts everybody in the line that the present policy has for it.
    fn line_up(&mut self) {
        self.lines = Lines::default();
        for slot in self.jobs.by_submission() {
            let spec = Arc::clone(&self.jobs.get(slot).spec);
            let line = self.line_for(&spec);
            self.jobs.get_mut(slot).line = line;
        }
    }

    /// Whether those at the fronts of their lines are all that a round has to look at of those who wait. Not worth it where few wait; and not so where
    /// there is more to fitting than GPUs.
    fn looks_at_fronts(&self) -> bool {
        self.policy.first_come
            && self.policy.free_gpus == FreeGpus::GivenAway
            && !self.jobs.any_elastic()
            && self.cluster.modes().is_empty()
            && self.jobs.in_lines() > LONG_QUEUE
            && !HostRoom::counted(&self.cluster)
    }

    /// A class for jobs like `spec` that are to hold `gang` GPUs, without any yet.
    fn make_class(&self, key: ClassKey, spec: &JobSpec, gang: u32) -> Class {
        let kinds = self.cluster.kinds().len();
        let mut class = Class {
            key,
            jobs: Roster::default(),
            gang,
            rates: vec![0.0; kinds],
            spread_rates: vec![[0.0; Spread::ALL.len()]; kinds],
            seen_rates: vec![0.0; kinds],
            fastest_first: (0..kinds as u16).map(KindId).collect(),
        };
        self.fill_rates(&mut class, spec);
        class
    }

    fn learn(&mut self, rows: &[RateRow]) {
        let mut news = false;
        for row in rows {
            // An answer from before the cluster had all its kinds: good enough to begin with, and the question stays open.
            let short = row.cells.len() < self.cluster.kinds().len();
            if short && self.estimates.row(&row.ask).is_some_and(|known| known.cells.len() > row.cells.len()) {
                continue;
            }
            if !short {
                self.asked.remove(&row.ask);
            }
            news |= self.estimates.put(row.clone());
        }
        if news {
            self.changed = true;
            self.fill_all_rates();
        }
    }

    fn fill_all_rates(&mut self) {
        let mut classes = std::mem::take(&mut self.classes);
        for class in classes.values_mut() {
            self.fill_rates(class, &self.jobs.get(class.jobs.first()).spec);
        }
        self.classes = classes;
    }

    /// Sets a class's rates from the estimates, 0 for kinds it may not use and for those that lack what it needs.
    fn fill_rates(&self, class: &mut Class, spec: &JobSpec) {
        for (j, kind) in self.cluster.kinds().iter().enumerate() {
            let cell = self.cell(spec, class.gang, KindId(j as u16));
            class.spread_rates[j] = Spread::ALL.map(|spread| cell.map_or(0.0, |c| c.rate_at(spread)));
            // A policy that does not know modes is never asked about them; a gang may still be in one, from before.
            let cell = cell.filter(|_| self.policy.modes || !kind.is_mode());
            class.rates[j] = cell.map_or(0.0, |c| c.rate);
            let blind = self.policy.ignores_speeds;
            class.seen_rates[j] = if blind { f64::from(u8::from(cell.is_some())) } else { class.rates[j] };
        }
        let seen = &class.seen_rates;
        class.fastest_first.sort_by(|a, b| seen[b.index()].total_cmp(&seen[a.index()]).then(a.cmp(b)));
    }

    /// What is known of a job's gang of this size on a kind; none where it may not go, or where the kind lacks what it needs.
    fn cell(&self, spec: &JobSpec, gang: u32, kind: KindId) -> Option<Estimate> {
        let base = self.cluster.sold_as(kind);
        let allowed = (spec.kinds.is_empty() || spec.kinds.contains(&kind) || spec.kinds.contains(&base))
            && self.cluster.kind(kind).memory_gib >= spec.needs.gpu_memory_gib
            && self.shapes.enough(base, gang, &spec.needs);
        let row = self.estimates.row(&RateQuery { workload: spec.workload, gang, partner: None });
        row.and_then(|row| row.cells.get(kind.index()).copied().flatten()).filter(|_| allowed)
    }

    fn tick(&mut self, out: &mut Vec<Output>) {
        self.round.0 += 1;
        let overtime = self.account();
        self.settle_accounts();
        self.turn_month();
        self.end_overtime(&overtime, out);
        self.last_tick = self.now;
        self.chase_orders(out);
        self.expire_leases(out);
        self.meet_deadlines(out);
        self.ask_again(out);
        self.defer();
        self.keep_quotas(out);
        self.weigh_history();
        let solver_is_late = self.outstanding.is_some();
        self.placed = false;
        if (self.changed || self.must_ask()) && !solver_is_late {
            self.choose_sizes(out);
            self.changed = false;
            let problem = Arc::new(self.problem());
            self.outstanding = Some(Arc::clone(&problem));
            out.push(Output::Solve(problem));
        } else if self.skipped_rounds + 1 < ROUNDS_PER_PLAN && self.undisturbed() {
            self.skipped_rounds += 1;
            self.placed = true;
        } else {
            // Nothing new, or the solver is not done: the last shares still hold.
            self.place(out);
        }
    }

    /// Whether the policy is asked although nothing has changed that it is told of. Where a policy leaves GPUs free the placer gives none
    /// away, so whoever waits (for a node that is back, or for its pause to end) waits for the policy.
    fn must_ask(&self) -> bool {
        (self.policy.every_round && self.jobs.len() > 0)
            || (self.policy.free_gpus == FreeGpus::Kept && self.jobs.any_queues())
    }

    /// Repeats questions that have been open for long: they, or their answers, may be lost. The solver gets the
    /// same problem again, so that an answer that is merely late still counts.
    fn ask_again(&mut self, out: &mut Vec<Output>) {
        let now = self.round.0;
        for (&ask, asked) in &mut self.asked {
            if now - asked.0 >= ROUNDS_UNTIL_ASKED_AGAIN {
                *asked = self.round;
                out.push(Output::Estimate(ask));
            }
        }
        if let Some(problem) = &self.outstanding
            && problem.round.0 < now
            && (now - problem.round.0).is_multiple_of(ROUNDS_UNTIL_ASKED_AGAIN)
        {
            out.push(Output::Solve(Arc::clone(problem)));
        }
    }

    /// Whether the last plan is carried out and stands as it was made.
    fn undisturbed(&self) -> bool {
        !self.changed && self.outstanding.is_none() && self.unconfirmed.is_empty() && self.strangers.is_empty()
    }

    /// Counts every running job's service until now; returns who has then run for longer than it may.
    fn account(&mut self) -> Vec<Slot> {
        let mut overtime = Vec::new();
        let counts = |job: &Job| matches!(job.phase, Phase::Running(_)) || job.is_overtime();
        let looked_at = self.jobs.holding_or_overtime().filter(|(_, job)| counts(job));
        for slot in looked_at.map(|(slot, _)| slot).collect::<Vec<_>>() {
            let mut job = self.jobs.get_mut(slot);
            self.tenant_states[job.spec.tenant.index()].used(job.credit(self.now));
            if job.is_overtime() {
                overtime.push(slot);
            }
        }
        overtime
    }

    fn allocated(&mut self, round: Round, answer: &Result<Allocation, AllocateError>, out: &mut Vec<Output>) {
        // An answer to a question that is no longer open is stale; drop it.
        let Some(problem) = self.outstanding.take_if(|p| p.round == round) else { return };
        // A journal may have been damaged and a driver may be wrong: nothing is placed that does not fit the open question.
        let answer = answer.clone().and_then(|allocation| allocation.check_again(&problem));
        match answer {
            Ok(allocation) => {
                self.unanswered = false;
                self.placer.set_shares(&problem, &allocation, self.policy.free_gpus);
            }
            Err(error) => {
                // The last shares stay in force, and the question is asked again next round.
                out.push(Output::Note(Event::NoAllocation { round, why: error.to_string() }));
                self.changed = true;
            }
        }
        if !self.placed {
            self.place(out);
        }
    }

    /// Whether a node is there, up, and has been heard of lately.
    fn within_reach(&self, node: NodeId) -> bool {
        let state = &self.nodes[node.index()];
        state.up
            && !self.cluster.node(node).removed
            && self.patience - state.seen_patience <= self.settings.silence_seconds()
    }

    /// GPUs that a plan may use, by GPU.
    fn usable(&self) -> Vec<bool> {
        let mut usable = vec![true; self.cluster.gpus()];
        for (n, node) in self.cluster.nodes().iter().enumerate() {
            let (state, range) = (&self.nodes[n], node.gpu_range());
            if !self.within_reach(NodeId(n as u32)) || state.drain.is_some() {
                usable[range.start as usize..range.end as usize].fill(false);
            }
            state.lost_gpus.iter().for_each(|&gpu| usable[(range.start + gpu) as usize] = false);
        }
        for &slot in &self.unconfirmed {
            if let Phase::Stopping(gang, ..) = &self.jobs.get(slot).phase {
                gang.gpus.iter().for_each(|g| usable[g.index()] = false);
            }
        }
        for gpu in self.strangers.values().flatten() {
            usable[gpu.index()] = false;
        }
        if usable.contains(&false) {
            // A gang that is partly out of reach is left as it is, so the rest of its GPUs is not free either.
            for gang in self.jobs.holding().filter_map(|(_, job)| job.phase.held()) {
                if gang.gpus.iter().any(|g| !usable[g.index()]) {
                    gang.gpus.iter().for_each(|g| usable[g.index()] = false);
                }
            }
        }
        usable
    }

    fn place(&mut self, out: &mut Vec<Output>) {
        if self.unanswered {
            return;
        }
        self.placed = true;
        let usable = self.usable();
        let mut placer = std::mem::take(&mut self.placer);
        let view = self.view(&usable);
        let drafted = placer.place(&view);
        let (plan, shed) = self.within_budget(drafted, &placer, &view, out);
        let placement = Placement::check(plan, &view);
        placer.refund_alone(shed.into_iter().map(|(slot, kind)| (self.jobs.get(slot).class, kind)));
        self.placer = placer;
        self.skipped_rounds = 0;
        match placement {
            Ok(placement) => self.carry_out(placement, &usable, out),
            // A wrong plan is a bug; what runs goes on running, and the note says what was wrong.
            Err(error) => out.push(Output::Note(Event::BadPlan { round: self.round, why: error.to_string() })),
        }
    }

    /// The live state, as the placer may see it.
    fn view<'a>(&'a self, usable: &'a [bool]) -> View<'a> {
        View {
            cluster: &self.cluster,
            now: self.now,
            round_seconds: self.settings.round_seconds,
            pairs: self.policy.pairs,
            free_gpus: self.policy.free_gpus,
            whole: self.policy.promises(Promise::Whole),
            fronts_only: self.looks_at_fronts(),
            skipped_rounds: self.skipped_rounds,
            jobs: &self.jobs,
            classes: &self.classes,
            seats: &self.seats,
            usable,
        }
    }

    /// A job is no longer one of its class.
    fn leave_class(&mut self, job: &Job) {
        let class = self.classes.get_mut(&job.class).expect("a job's class lives as long as its jobs");
        class.jobs.leave(job.joined);
        if class.jobs.is_empty() {
            let class = self.classes.remove(&job.class).expect("found above");
            self.class_ids.remove(&class.key);
        }
    }

    /// Forgets a job for good.
    fn bury(&mut self, slot: Slot) -> Job {
        self.unconfirmed.remove(&slot);
        self.drop_target(slot);
        let job = self.jobs.remove(slot);
        self.leave_class(&job);
        if job.line > 0 {
            self.lines.leave(&line_key(&job.spec));
        }
        self.strike_off(&job);
        let state = &mut self.tenant_states[job.spec.tenant.index()];
        state.live = state.live.saturating_sub(1);
        self.changed = true;
        job
    }
}
