//! One run: scheduler and world with a bad link between them, in bad company.
//!
//! The daemon's part is played as a real daemon would: inputs go to the journal and then to the scheduler, what comes
//! out goes onto the link. A node's lease is counted by the node: it begins with the last survey answer that the
//! node *knows* to have arrived (the next question says so), since an answer that was lost renews nothing the
//! scheduler could know of; and it is counted from when the question was sent, as the scheduler counts it: a question may
//! be under way for longer than the scheduler waits beyond a lease.

use super::advisers::{FaultyEstimator, FaultySolver};
use super::checks::{Checks, Step};
use super::counts::{Fault, FaultCounts};
use super::link::{Channel, LATEST_SECONDS, Link};
use super::plan::{Plan, PlannedFault, ROUND_SECONDS, feasible};
use crate::journal::{Journal, digest};
use crate::rng::Rng;
use crate::world::{Length, World};
use arles_core::allocate::{POLICIES, PolicyEntry, Problem};
use arles_core::drive::{self, Site, Solution};
use arles_core::engine::OrderReply;
use arles_core::estimate::{RateQuery, RateRow};
use arles_core::scheduler::{Fence, GangReport, Order, Survey, Verdict};
use arles_core::{Cluster, ClusterChange, Fingerprint, GpuId, Input, JobId, JobSpec, NodeId, Scheduler, Time, Work};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// The daemon's clock at the beginning; large enough to be set back.
const CLOCK_AT_START: i64 = 100_000_000_000;

/// Something that happens at its time.
#[derive(Clone, Debug)]
pub(super) enum SimEvent {
    /// The daemon begins a round.
    Tick,
    /// The daemon asks what is there.
    RateQuery,
    /// The question reaches the nodes.
    Question {
        asked: Time,
        sent: Time,
    },
    /// The answer to a question that was sent at this moment of the world reaches the daemon.
    Survey(Survey, Time),
    /// An order reaches the world.
    Order(Order),
    /// Anything else reaches the daemon.
    Input(Input),
    /// A node looks whether its lease still holds.
    Lease(NodeId),
    PlannedFault(PlannedFault),
    /// An operator hears of something that happened to a GPU, and says so.
    Heard(ClusterChange),
    /// The daemon is back, and tells the engine what the cluster is.
    Restarted,
}

/// What happened, as lines, and a hash of them. Lines are kept only if somebody wants to read them.
#[derive(Default)]
pub(super) struct Log {
    pub(super) lines: Option<Vec<String>>,
    pub(super) hash: Fingerprint,
}

impl Log {
    fn line(&mut self, now: Time, what: fmt::Arguments<'_>) {
        let line = format!("{now} {what}");
        self.hash.update(line.as_bytes());
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }
}

/// One run of a plan.
pub(super) struct Run<'p> {
    plan: &'p Plan,
    pub(super) scheduler: Scheduler,
    pub(super) world: World,
    link: Link,
    solver: FaultySolver,
    estimator: FaultyEstimator,
    rng: Rng,
    pub(super) checks: Checks<'p>,
    pub(super) counts: FaultCounts,
    pub(super) log: Log,
    pub(super) now: Time,
    queue: BTreeMap<(Time, u64), SimEvent>,
    sent: u64,
    ticks: u64,
    arrivals: u64,
    /// The daemon's clock less the world's, in microseconds.
    skew: i64,
    journal: Vec<(Time, Input, u64)>,
    /// Decides what operators do.
    pub(super) change_rng: Rng,
    /// The state before the last change, and how long the journal was then.
    snapshot: Option<(usize, String)>,
    text: Journal<&'p mut Vec<u8>>,
    pub(super) down_until: Time,
    /// Nodes that cannot be reached.
    pub(super) cut: Vec<bool>,
    dead_are_silent: bool,
    /// For each node, when it gave the last answer that arrived, and the last of these that it knows of.
    arrived: Vec<Time>,
    contact: Vec<Time>,
    /// Nodes of every gang that was ever ordered.
    places: BTreeMap<Fence, Vec<NodeId>>,
}

impl<'p> Run<'p> {
    pub(super) fn new(plan: &'p Plan, seed: u64, verbose: bool, text: &'p mut Vec<u8>) -> Self {
        let root = Rng::new(seed);
        let nodes = plan.cluster.nodes().len();
        let text = Journal::begin(text, plan.policy.name, &plan.cluster, &plan.tenants, plan.settings)
            .expect("memory can be written");
        let mut rng = root.fork("run");
        let mut run = Self {
            plan,
            scheduler: fresh(plan),
            world: World::new(plan.cluster.clone(), plan.truth.clone(), plan.world_options),
            link: Link::new(root.fork("link"), plan.link_faults),
            solver: FaultySolver::new(root.fork("solver")),
            estimator: FaultyEstimator::new(&plan.truth, root.fork("guesser")),
            dead_are_silent: rng.chance(0.5),
            rng,
            checks: Checks::new(plan),
            counts: FaultCounts::default(),
            log: Log { lines: verbose.then(Vec::new), hash: Fingerprint::default() },
            now: Time::ZERO,
            queue: BTreeMap::new(),
            sent: 0,
            ticks: 0,
            arrivals: plan.jobs.len() as u64,
            skew: CLOCK_AT_START,
            journal: Vec::new(),
            change_rng: root.fork("operators"),
            snapshot: None,
            text,
            down_until: Time::ZERO,
            cut: vec![false; nodes],
            arrived: vec![Time::ZERO; nodes],
            contact: vec![Time::ZERO; nodes],
            places: BTreeMap::new(),
        };
        run.prepare();
        run
    }

    fn prepare(&mut self) {
        for _ in 0..self.plan.bursts {
            self.counts.count(Fault::Burst);
        }
        for spec in &self.plan.jobs {
            self.count_job(spec);
            self.world.admit(spec.clone());
            self.at(spec.arrived, SimEvent::Input(Input::Submit(spec.clone())));
        }
        for &(time, planned) in &self.plan.planned_faults {
            self.at(time, SimEvent::PlannedFault(planned));
        }
        self.at(Time::ZERO, SimEvent::RateQuery);
        self.at(Time::from_seconds(5.0), SimEvent::Tick);
    }

    /// Counts what is unusual about a job.
    fn count_job(&mut self, spec: &JobSpec) {
        let first = spec.array.is_some_and(|task| task.array == spec.id);
        let kinds = [
            (matches!(spec.work, Work::Open(_)), Fault::OpenJob),
            (spec.program.is_some(), Fault::ProgramJob),
            (!spec.needs.none(), Fault::JobWithNeeds),
            (spec.time_limit_seconds.is_some(), Fault::JobWithTimeLimit),
            (!spec.after.is_empty(), Fault::JobAfterOthers),
            (first, Fault::ArrayOfJobs),
        ];
        kinds.into_iter().filter(|(is, _)| *is).for_each(|(_, fault)| self.counts.count(fault));
    }

    pub(super) fn at(&mut self, time: Time, what: SimEvent) {
        self.sent += 1;
        self.queue.insert((time, self.sent), what);
    }

    /// Sends a message; copies of it will happen as the link decides.
    fn send(&mut self, channel: Channel, what: &SimEvent) {
        for delay in self.link.send(channel, &mut self.counts) {
            self.at(self.now.after(delay), what.clone());
        }
    }

    /// What the daemon's clock shows.
    pub(super) fn clock(&self) -> Time {
        Time(self.now.0.saturating_add_signed(self.skew))
    }

    /// Lets time pass until all is done, a rule is broken or the bound is reached.
    pub(super) fn complete(&mut self) {
        let mut bound = None;
        while self.checks.found.is_none() && !self.is_done() {
            let planned = self.queue.first_key_value().map(|((time, _), _)| *time).expect("there is always a tick");
            let next = self.world.next_event().map_or(planned, |t| t.min(planned)).max(self.now);
            // Not before: which kinds there are in the end decides how long all must take.
            if self.link.quiet {
                let bound = *bound.get_or_insert_with(|| self.plan.quiet_at.after(self.patience_seconds()));
                if next > bound {
                    return self.give_up(bound);
                }
            }
            self.checks.pass(next, &self.world);
            self.now = next;
            while let Some(report) = self.world.advance(next) {
                self.report(report);
            }
            if planned <= next {
                let (_, happening) = self.queue.pop_first().expect("looked at above");
                self.happen(happening);
            }
            self.checks.look(self.now, &mut self.world);
        }
        if self.checks.found.is_none() {
            self.checks.audit(self.now, &mut self.world);
            self.checks.ask(self.now, &self.scheduler);
        }
    }

    /// Faults are over, whoever can run is done, and the GPUs are empty.
    fn is_done(&self) -> bool {
        self.link.quiet
            && self.arrivals == 0
            && self.world.holders().next().is_none()
            && !self.checks.live().any(|spec| self.can_end(spec))
    }

    /// Whether a live job, and all that it waits for, can run.
    fn can_end(&self, spec: &JobSpec) -> bool {
        !feasible(spec, &self.world).is_empty()
            && self.checks.open_dependencies(spec.id).all(|earlier| self.can_end(earlier))
    }

    /// Time within which all must be done once faults have stopped: everybody after everybody else, four times
    /// over, and some rounds each for orders, pauses and turns.
    fn patience_seconds(&self) -> f64 {
        let alone = |spec: &JobSpec| {
            let row = self.world.truth().alone(spec.workload, spec.gang);
            let rates = feasible(spec, &self.world).into_iter().filter_map(|k| row[k.index()].map(|p| p[1].rate));
            let length = self.world.life(spec.id).expect("jobs are kept to the end").length();
            match (length, rates.min_by(f64::total_cmp)) {
                (_, None) => 0.0,
                (Length::Steps(steps), Some(rate)) => steps / rate,
                (Length::Seconds(seconds), Some(_)) => seconds,
            }
        };
        let each = |spec: &JobSpec| 4.0 * alone(spec) + spec.restart_seconds + 10.0 * ROUND_SECONDS;
        60.0 * ROUND_SECONDS + self.plan.jobs.iter().map(each).sum::<f64>()
    }

    fn give_up(&mut self, bound: Time) {
        let left: Vec<String> = self
            .checks
            .live()
            .filter(|spec| self.can_end(spec))
            .map(|spec| format!("{} {}", spec.id, self.scheduler.explain(spec.id)))
            .collect();
        let running: Vec<JobId> = self.world.holders().collect();
        let what = format!(
            "not done {} after faults stopped; on GPUs: {running:?}; left: {}",
            bound.since(self.plan.quiet_at),
            left.join(", ")
        );
        self.checks.violated(bound, what);
    }

    fn happen(&mut self, happening: SimEvent) {
        match happening {
            SimEvent::Tick => {
                self.at(self.now.after(ROUND_SECONDS), SimEvent::Tick);
                self.tell(Input::Tick);
                self.ticks += 1;
                if self.ticks.is_multiple_of(self.plan.ask_rounds) {
                    self.checks.ask(self.now, &self.scheduler);
                }
            }
            SimEvent::RateQuery => {
                self.at(self.now.after(ROUND_SECONDS), SimEvent::RateQuery);
                if self.now >= self.down_until {
                    let asked = self.scheduler.now();
                    let sent = self.now;
                    self.send(Channel::Question, &SimEvent::Question { asked, sent });
                }
            }
            SimEvent::Question { asked, sent } => self.question(asked, sent),
            SimEvent::Survey(survey, sent) => {
                if self.now >= self.down_until {
                    for seen in &survey.nodes {
                        let arrived = &mut self.arrived[seen.node.index()];
                        *arrived = (*arrived).max(sent);
                    }
                }
                self.tell(Input::Surveyed(survey));
            }
            SimEvent::Order(order) => self.carry(&order),
            SimEvent::Input(input) => self.tell(input),
            SimEvent::Lease(node) => self.look_at_lease(node),
            SimEvent::PlannedFault(planned) => self.suffer(planned),
            SimEvent::Heard(change) => {
                if self.now < self.down_until {
                    self.at(self.down_until, SimEvent::Heard(change));
                } else if !self.link.quiet {
                    self.tell(Input::Cluster(change));
                }
            }
            SimEvent::Restarted => {
                let cluster = Arc::new(self.scheduler.cluster().clone());
                self.cluster_changed(&cluster);
            }
        }
    }

    /// The nodes are asked what they run, and learn which of their answers arrived.
    fn question(&mut self, asked: Time, sent: Time) {
        let partial = !self.link.quiet && self.rng.chance(0.1);
        let mut answers: Vec<bool> = self.cut.iter().map(|cut| !cut).collect();
        for n in 0..answers.len() {
            let node = NodeId(n as u32);
            if answers[n] {
                self.contact[n] = self.arrived[n];
                self.at(self.contact[n].after(self.plan.settings.lease_seconds).max(self.now), SimEvent::Lease(node));
            }
            let silent = self.dead_are_silent || self.world.cluster().node(node).removed;
            answers[n] &= self.world.is_up(node) || !silent;
            answers[n] &= !(partial && self.rng.chance(0.5));
        }
        if partial {
            self.counts.count(Fault::SurveyPartial);
        }
        let mut survey = self.world.survey(self.now, |node| answers[node.index()]);
        self.checks.surveyed(&survey);
        survey.at = asked;
        self.send(Channel::Survey, &SimEvent::Survey(survey, sent));
    }

    /// A node that has not been heard for as long as the lease ends what it runs.
    fn look_at_lease(&mut self, node: NodeId) {
        let expired = self.contact[node.index()].after(self.plan.settings.lease_seconds) <= self.now;
        let mine = |job: &JobId| self.world.held(*job).is_some_and(|(fence, _)| self.places[&fence].contains(&node));
        if expired && self.world.holders().any(|job| mine(&job)) {
            self.counts.count(Fault::LeaseExpired);
            self.log.line(self.now, format_args!("{node} ends its gangs: its lease has expired"));
            self.world.cut_off(self.now, node);
        }
    }

    /// An order arrives.
    fn carry(&mut self, order: &Order) {
        let fence = match order {
            Order::Start(start) => {
                let mut nodes: Vec<NodeId> = start.gpus.iter().map(|&g| self.world.cluster().node_of(g)).collect();
                nodes.dedup();
                self.places.insert(start.fence, nodes);
                start.fence
            }
            Order::Stop { fence, .. } => *fence,
        };
        let nodes = self.places.get(&fence).cloned().unwrap_or_default();
        let lease = self.plan.settings.lease_seconds;
        let expired = |n: &NodeId| self.contact[n.index()].after(lease) <= self.now;
        let starts = matches!(order, Order::Start(_));
        if nodes.iter().any(|n| self.cut[n.index()] || (starts && expired(n))) {
            return self.log.line(self.now, format_args!("cannot be reached: {order:?}"));
        }
        self.checks.carried(order);
        let told = self.world.apply(self.now, order);
        self.log.line(self.now, format_args!("{order:?} -> {told:?}"));
        match told {
            Ok(Some(report)) => {
                self.checks.reported(&report);
                self.send(Channel::Answer, &SimEvent::Input(Input::Reported(report)));
            }
            Ok(None) => {
                if let Order::Stop { job, fence } = order
                    && self.world.held(*job).is_some_and(|(held, _)| held == *fence)
                {
                    self.checks.saves(*job);
                }
            }
            Err(why) => self.send(Channel::Answer, &SimEvent::Input(Input::Refused(order.clone(), why))),
        }
    }

    /// Something happened to a gang by itself.
    pub(super) fn report(&mut self, report: GangReport) {
        self.log.line(self.now, format_args!("{report:?}"));
        self.checks.reported(&report);
        if !self.places[&report.fence].iter().any(|n| self.cut[n.index()]) {
            self.send(Channel::Report, &SimEvent::Input(Input::Reported(report)));
        }
    }

    /// The daemon gets an input: into the journal, into the scheduler, and out with what follows.
    pub(super) fn tell(&mut self, mut input: Input) {
        if self.now < self.down_until {
            // People try again; everything else is lost.
            if matches!(input, Input::Submit(_) | Input::Cancel(_) | Input::Cluster(_) | Input::Release(_)) {
                self.at(self.down_until, SimEvent::Input(input));
            }
            return;
        }
        if let Input::Submit(spec) = &mut input {
            if self.checks.is_over(spec.id) {
                return;
            }
            self.submitted(spec);
        }
        let clock = self.clock();
        let changes = matches!(input, Input::Cluster(_) | Input::Hold(_) | Input::Release(_));
        if changes {
            let text = serde_json::to_string(&self.scheduler).expect("plain data");
            self.snapshot = Some((self.journal.len(), text));
        }
        let outputs = self.scheduler.step(clock, &input);
        self.log.line(self.now, format_args!("{input:?} -> {outputs:?}"));
        self.text.record(clock, &input, &outputs).expect("memory can be written");
        let step = Step { input: &input, outputs: &outputs, clock, own_time: self.scheduler.now() };
        self.checks.stepped(self.now, &step, &self.world);
        self.journal.push((clock, input, digest(&outputs)));
        if !self.link.quiet && changes && self.change_rng.chance(self.plan.kill_in_change) {
            self.counts.count(Fault::KilledInChange);
            return self.kill();
        }
        if !self.link.quiet && self.rng.chance(self.plan.kill) {
            return self.kill();
        }
        drive::act(&outputs, self.scheduler.policy(), self, &mut VecDeque::new());
        // Whoever comes late may run at once.
        if self.link.quiet
            && let Some((_, Input::Submit(JobSpec { id, held: true, .. }), _)) = self.journal.last()
        {
            self.at(self.now, SimEvent::Input(Input::Release(*id)));
        }
    }

    /// Stamps a submission; somebody may submit it once more.
    fn submitted(&mut self, spec: &mut JobSpec) {
        if self.scheduler.explain(spec.id) != Verdict::Unknown {
            return;
        }
        self.arrivals -= 1;
        if !self.link.quiet && self.rng.chance(0.15) {
            self.counts.count(Fault::SubmitRepeated);
            let later = self.now.after(self.rng.exponential(120.0));
            self.at(later, SimEvent::Input(Input::Submit(spec.clone())));
        }
        spec.arrived = self.clock();
    }

    /// The daemon dies after the journal was written and before anything was done; it comes back from the journal.
    fn kill(&mut self) {
        self.counts.count(Fault::DaemonKilled);
        self.down_until = self.now.after(self.rng.exponential(LATEST_SECONDS / 2.0));
        self.log.line(self.now, format_args!("the daemon is killed until {}", self.down_until));
        if self.plan.json {
            self.counts.count(Fault::ReplayedFromJson);
        }
        self.at(self.down_until, SimEvent::Restarted);
        let written = serde_json::to_string(&self.scheduler).expect("plain data");
        let replayed = self.plan.replays.then(|| self.replayed(0, fresh(self.plan)));
        if replayed.as_ref().is_some_and(|replayed| serde_json::to_string(replayed).expect("plain data") != written) {
            self.checks.violated(self.now, "a snapshot differs from what the journal says".into());
        }
        if let Some((from, text)) = self.snapshot.take() {
            self.counts.count(Fault::RestoredFromSnapshot);
            let restored = serde_json::from_str(&text).expect("what was written can be read");
            let restored = self.replayed(from, restored);
            if serde_json::to_string(&restored).expect("plain data") != written {
                self.checks.violated(self.now, "a snapshot and the journal after it say another thing".into());
            }
            self.snapshot = Some((from, text));
        }
        // From its journal, or from its snapshot.
        self.scheduler = match replayed {
            Some(replayed) if !self.plan.json => replayed,
            _ => serde_json::from_str(&written).expect("what was written can be read"),
        };
    }

    /// A scheduler, told everything that is in the journal from an entry on.
    fn replayed(&mut self, from: usize, mut scheduler: Scheduler) -> Scheduler {
        for (i, (time, input, expected)) in self.journal.iter().enumerate().skip(from) {
            let input = if self.plan.json {
                let text = serde_json::to_string(input).expect("inputs are plain data");
                serde_json::from_str(&text).expect("what was written can be read")
            } else {
                input.clone()
            };
            if digest(&scheduler.step(*time, input)) != *expected {
                self.checks.violated(self.now, format!("replay of input {i} of the journal gives other outputs"));
                break;
            }
        }
        scheduler
    }

    fn suffer(&mut self, planned: PlannedFault) {
        if self.link.quiet {
            return;
        }
        self.log.line(self.now, format_args!("{planned:?}"));
        let planned = self.of_successor(planned);
        match planned {
            PlannedFault::Die(node) if self.world.is_up(node) => {
                self.counts.count(Fault::NodeDied);
                self.world.fail_node(self.now, node);
            }
            PlannedFault::Return(node) if !self.world.is_up(node) => {
                self.counts.count(Fault::NodeReturned);
                self.world.restore_node(self.now, node);
            }
            PlannedFault::CutOff(node) => self.reach(node, false),
            PlannedFault::Reach(node) => self.reach(node, true),
            PlannedFault::Die(_) | PlannedFault::Return(_) => {}
            PlannedFault::Slow(health) => {
                if let Some(job) = self.some_holder() {
                    self.counts.count(Fault::GpuSlowed);
                    self.world.set_health(self.now, job, health);
                }
            }
            PlannedFault::Crash => {
                if let Some(job) = self.some_holder()
                    && let Some(report) = self.world.crash(self.now, job, "it was made to")
                {
                    self.counts.count(Fault::JobCrashed);
                    self.report(report);
                }
            }
            PlannedFault::Cancel(id) => self.cancel(JobId(id)),
            PlannedFault::Switch(policy) => self.switch(&POLICIES[policy]),
            PlannedFault::Jump(seconds) => {
                self.counts.count(if seconds > 0.0 { Fault::ClockForward } else { Fault::ClockBack });
                self.skew += (seconds * 1e6) as i64;
            }
            PlannedFault::Operate(operation) => self.operate(operation),
            PlannedFault::Quiet => self.quiet(),
        }
    }

    /// What was planned for a node that has left happens to the one that has its name now, if there is one.
    fn of_successor(&self, planned: PlannedFault) -> PlannedFault {
        let now = |node: NodeId| self.world.cluster().find(&self.plan.cluster.node(node).name).unwrap_or(node);
        match planned {
            PlannedFault::Die(node) => PlannedFault::Die(now(node)),
            PlannedFault::Return(node) => PlannedFault::Return(now(node)),
            PlannedFault::CutOff(node) => PlannedFault::CutOff(now(node)),
            // Whoever was cut off when it left must be found, too.
            PlannedFault::Reach(node) if !self.cut[node.index()] => PlannedFault::Reach(now(node)),
            other => other,
        }
    }

    fn reach(&mut self, node: NodeId, reached: bool) {
        if self.cut[node.index()] == reached {
            self.counts.count(if reached { Fault::NodeReached } else { Fault::NodeCutOff });
            self.cut[node.index()] = !reached;
            // A node that has left hears of it now.
            if reached && self.world.cluster().node(node).removed {
                let cluster = Arc::new(self.world.cluster().clone());
                self.cluster_changed(&cluster);
            }
        }
    }

    fn some_holder(&mut self) -> Option<JobId> {
        let holders: Vec<JobId> = self.world.holders().collect();
        holders.get(self.rng.below(holders.len() as u64) as usize).copied()
    }

    fn cancel(&mut self, job: JobId) {
        self.counts.count(match self.scheduler.explain(job) {
            Verdict::Unknown => Fault::CancelUnknown,
            Verdict::Waits(_) => Fault::CancelWaiting,
            Verdict::Starts => Fault::CancelStarting,
            Verdict::Runs { .. } => Fault::CancelRunning,
            Verdict::Stops => Fault::CancelStopping,
        });
        self.tell(Input::Cancel(job));
    }

    /// Somebody wants another policy; whoever finds the daemon away does not ask again.
    fn switch(&mut self, policy: &'static PolicyEntry) {
        if self.now >= self.down_until {
            self.counts.count(Fault::PolicySwitched);
            self.checks.may_pair(policy.pairs);
            self.tell(Input::Policy(policy.name.into()));
        }
    }

    /// Everything is well again and stays so.
    fn quiet(&mut self) {
        for n in 0..self.cut.len() {
            self.reach(NodeId(n as u32), true);
            self.world.restore_node(self.now, NodeId(n as u32));
        }
        let holders: Vec<JobId> = self.world.holders().collect();
        for job in holders {
            self.world.set_health(self.now, job, 1.0);
        }
        for gpu in (0..self.world.cluster().gpus() as u32).map(GpuId) {
            self.world.return_gpu(self.now, gpu);
        }
        self.link.quiet = true;
        for input in self.checks.undoing() {
            self.tell(input);
        }
    }
}

/// Everything goes onto the link, and what comes of it arrives when the link lets it.
impl Site for Run<'_> {
    fn solve(&mut self, problem: &Arc<Problem>, policy: &'static PolicyEntry) -> Option<Solution> {
        match self.solver.solve(problem, policy, self.link.quiet, &mut self.counts) {
            Ok(answers) => {
                for (round, answer) in answers {
                    self.send(Channel::Solver, &SimEvent::Input(Input::Allocated(round, answer)));
                }
            }
            Err(what) => self.checks.violated(self.now, what),
        }
        None
    }

    fn estimate(&mut self, query: &RateQuery) -> Option<RateRow> {
        let row = self.estimator.estimate(query, self.link.quiet, &mut self.counts);
        self.send(Channel::Estimator, &SimEvent::Input(Input::Estimated(vec![row])));
        if self.rng.chance(0.3) {
            let truth = self.estimator.estimate(query, true, &mut self.counts);
            let later = self.now.after(self.rng.exponential(1200.0));
            self.at(later, SimEvent::Input(Input::Estimated(vec![truth])));
        }
        None
    }

    fn apply(&mut self, order: &Order) -> OrderReply {
        self.send(Channel::Order, &SimEvent::Order(order.clone()));
        OrderReply::Pending
    }

    /// At once, except for nodes out of reach: orders that were given before may still be on their way.
    fn cluster_changed(&mut self, cluster: &Arc<Cluster>) {
        for kind in &cluster.kinds()[self.world.cluster().kinds().len()..] {
            self.estimator.add_kind(kind);
        }
        let nodes = cluster.nodes().len();
        self.cut.resize(nodes, false);
        self.arrived.resize(nodes, self.now);
        self.contact.resize(nodes, self.now);
        let cut = &self.cut;
        match self.world.follow(self.now, cluster, |node| !cut[node.index()]) {
            Ok(told) => told.into_iter().for_each(|report| self.report(report)),
            Err(why) => self.checks.violated(self.now, why),
        }
    }

    /// The checkers notice by themselves.
    fn job_over(&mut self, _: JobId, _: bool) {}
}

fn fresh(plan: &Plan) -> Scheduler {
    Scheduler::new(plan.cluster.clone(), plan.tenants.clone(), plan.policy, plan.settings)
}
