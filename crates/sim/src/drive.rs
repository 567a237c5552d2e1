//! The driver: brings trace, world, estimator, policy and scheduler together and lets time pass.
//!
//! Events happen in order of time; at one moment ends come before node events, these before arrivals, and
//! the round's tick comes last. Whatever the scheduler orders is done at once, and what the world tells is
//! told at once; `faults` has the driver in which none of this can be relied upon.

use crate::journal::Journal;
use crate::measure::{EstimatorSetup, Learner};
use crate::tally::Tally;
use crate::trace::{Floor, Length, Trace, TraceJob};
use crate::truth::{Deviation, Oracle, Truth, TruthError};
use crate::world::{World, WorldOptions};
use arles_core::allocate::{Allocation, Policy, PolicyEntry, Problem};
use arles_core::estimate::Estimator;
use arles_core::scheduler::{Event, Settings};
use arles_core::{
    Cluster, Input, JobId, JobSpec, KindId, Library, NodeId, Output, Scheduler, Tenant, TenantId, Time, Work, Workload,
    WorkloadId,
};
use arles_report::record::RunRecord;
use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

/// How a simulation is run.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Time between two decisions.
    pub round_seconds: f64,
    /// Restart cost of jobs that do not state their own.
    pub restart_seconds: f64,
    /// Saving state, and what is lost when there is no time for it.
    pub world_options: WorldOptions,
    /// Kind on which durations and fractional floors are measured; the fastest that fits if none.
    pub reference: Option<KindId>,
    /// Node failures and returns.
    pub script: Vec<NodeEvent>,
    /// Whether to keep a record of every job, the timeline and the Gantt chart.
    pub keep_details: bool,
    /// Leave out jobs that fit no kind, instead of refusing the trace.
    pub drop_unfit: bool,
    /// How far the world is from the performance model.
    pub deviation: Deviation,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            round_seconds: 60.0,
            restart_seconds: 0.0,
            world_options: WorldOptions::default(),
            reference: None,
            script: Vec::new(),
            keep_details: true,
            drop_unfit: false,
            deviation: Deviation::default(),
        }
    }
}

/// A node goes or comes back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeEvent {
    /// When.
    pub at_seconds: f64,
    /// Which.
    pub node: NodeId,
    /// Whether it is up from then on.
    pub up: bool,
}

/// Why a simulation cannot begin.
#[derive(Clone, PartialEq, Debug)]
pub enum SetupError {
    /// A name that the truth does not know.
    Truth(TruthError),
    /// A job that fits nowhere.
    Unfit {
        /// Id in the trace.
        job: u64,
        /// The whole sentence.
        why: String,
    },
    /// A kind that jobs are restricted to and that the library does not know.
    Kind(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(e) => e.fmt(f),
            Self::Unfit { why, .. } => f.write_str(why),
            Self::Kind(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for SetupError {}

/// Somebody who looks on while a run goes on. It sees everything and changes nothing, but for when the run ends.
pub trait RunObserver {
    /// The policy has answered; its grants are in force from now on.
    fn allocated(&mut self, _now: Time, _problem: &Problem, _answer: &Allocation) {}

    /// A round has been decided and its orders are done. `false` ends the run here.
    fn decided(&mut self, now: Time, world: &World) -> bool;
}

/// Who is there in a run beside the scheduler.
#[derive(Default)]
pub struct RunHooks<'a> {
    /// Gets every input.
    pub journal: Option<&'a mut dyn Write>,
    /// Looks on.
    pub witness: Option<&'a mut dyn RunObserver>,
    /// Says how fast everything is, and learns; an oracle if nobody else does.
    pub guess: Option<EstimatorSetup>,
}

/// A trace on a cluster, checked and ready to be run under any policy.
pub struct Scenario {
    cluster: Cluster,
    trace: Arc<Trace>,
    truth: Arc<Truth>,
    options: Options,
    /// For each kind named in the trace, its id in the cluster, if it is there.
    kinds: Vec<Option<KindId>>,
    unfit: Vec<bool>,
}

impl Scenario {
    /// Checks that every job of the trace can run somewhere.
    ///
    /// # Errors
    /// A sentence about the first thing that does not fit together.
    pub fn new(
        cluster: Cluster,
        trace: Arc<Trace>,
        rates: Option<crate::rates::RateTable>,
        options: Options,
    ) -> Result<Self, SetupError> {
        let truth = Truth::new(cluster.kinds(), &trace.workloads, rates)
            .and_then(|truth| truth.deviating(options.deviation))
            .map_err(SetupError::Truth)?;
        let mut kinds = Vec::with_capacity(trace.kinds.len());
        for name in &trace.kinds {
            let known = Library::builtin().kind(name).map_err(|e| SetupError::Kind(e.to_string()))?;
            let at = cluster.kinds().iter().position(|k| k.name == known.name);
            kinds.push(at.map(|j| KindId(j as u16)));
        }
        let mut scenario =
            Self { unfit: vec![false; trace.jobs.len()], cluster, trace, truth: Arc::new(truth), options, kinds };
        scenario.find_unfit()?;
        Ok(scenario)
    }

    /// The trace.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The machines.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The trace's workloads in order of their ids: the library's name and features, where it has them.
    pub fn workloads(&self) -> impl Iterator<Item = (&str, Option<&Workload>)> {
        let known = (0..).map(|i| self.truth.features(WorkloadId(i)));
        self.trace.workloads.iter().zip(known).map(|(name, w)| (w.map_or(name.as_str(), |w| w.name.as_str()), w))
    }

    /// How everything really runs.
    #[must_use]
    pub fn truth(&self) -> &Arc<Truth> {
        &self.truth
    }

    /// Jobs that were left out because they fit nowhere.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.unfit.iter().filter(|&&u| u).count()
    }

    fn find_unfit(&mut self) -> Result<(), SetupError> {
        let counts = self.cluster.counts();
        for (i, job) in self.trace.jobs.iter().enumerate() {
            let row = self.truth.alone(WorkloadId(job.workload), job.gang);
            let allowed = self.allowed(job);
            let may = |j: usize| job.kinds.is_empty() || allowed.contains(&KindId(j as u16));
            let fits = (0..counts.len()).any(|j| may(j) && counts[j] >= job.gang && row[j].is_some());
            if fits {
                continue;
            }
            if !self.options.drop_unfit {
                return Err(SetupError::Unfit { job: job.id, why: self.why_unfit(job, &counts) });
            }
            self.unfit[i] = true;
        }
        Ok(())
    }

    /// A sentence about jobs that were promised more than any kind here can do, if there are any.
    #[must_use]
    pub fn hopeless_promises(&self) -> Option<String> {
        let hopeless = |i: usize| {
            let job = &self.trace.jobs[i];
            let floor = self.submission(i)?.floor?;
            let row = self.truth.alone(WorkloadId(job.workload), job.gang);
            let allowed = self.allowed(job);
            let may = |j: &usize| job.kinds.is_empty() || allowed.contains(&KindId(*j as u16));
            let rates = (0..row.len()).filter(may).filter_map(|j| Some((j, row[j]?[0].rate)));
            let (j, most) = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
            (floor > most * (1.0 + 1e-9)).then_some((job, floor, most, j))
        };
        let mut found = (0..self.trace.jobs.len()).filter_map(hopeless);
        let (job, floor, most, j) = found.next()?;
        let (name, kind) = (&self.trace.workloads[job.workload as usize], &self.cluster.kinds()[j].name);
        let others = match found.count() {
            0 => String::new(),
            n => format!(" (and {n} more like it)"),
        };
        Some(format!(
            "job {} ({name}) was promised {floor:.4} steps/s and the fastest kind here, {kind}, does {most:.4}{others}: such promises \
             cannot be kept and count as broken; lower the floor or add a faster kind",
            job.id
        ))
    }

    fn why_unfit(&self, job: &TraceJob, counts: &[u32]) -> String {
        let name = &self.trace.workloads[job.workload as usize];
        let most = counts.iter().max().copied().unwrap_or(0);
        let memory = self.truth.memory_gib(WorkloadId(job.workload));
        let largest = self.cluster.kinds().iter().map(|k| k.memory_gib).fold(0.0, f64::max);
        let why = match memory {
            _ if !job.kinds.is_empty() => {
                let names: Vec<&str> = job.kinds.iter().map(|&k| self.trace.kinds[k as usize].as_str()).collect();
                format!("it may only use {}, of which none here takes a gang of {}", names.join(", "), job.gang)
            }
            _ if job.gang > most => format!("a gang of {} is more than the {most} GPUs of any kind here", job.gang),
            Some(gib) if gib > largest => {
                format!("it needs {gib:.1} GiB of GPU memory and the largest kind here has {largest:.0} GiB")
            }
            _ => format!("no kind here has a rate for a gang of {}", job.gang),
        };
        format!(
            "job {} ({name}) fits no kind of this cluster: {why}; add a kind that fits, or leave such jobs out with --drop-unfit",
            job.id
        )
    }

    fn allowed(&self, job: &TraceJob) -> Vec<KindId> {
        job.kinds.iter().filter_map(|&k| self.kinds[k as usize]).collect()
    }

    /// The trace's job as a submission; `None` if it was left out.
    fn submission(&self, index: usize) -> Option<JobSpec> {
        if self.unfit[index] {
            return None;
        }
        let job = &self.trace.jobs[index];
        let workload = WorkloadId(job.workload);
        let reference = || {
            let wanted = self.truth.reference_rate(workload, job.gang, self.options.reference);
            wanted.or_else(|| self.truth.reference_rate(workload, job.gang, None)).unwrap_or(1.0)
        };
        Some(JobSpec {
            id: JobId(job.id),
            tenant: TenantId(job.tenant),
            workload,
            gang: job.gang,
            work: match job.length {
                Length::Steps(steps) => Work::Steps(steps),
                Length::Duration(seconds) => Work::Steps(seconds * reference()),
                Length::Period(seconds) => Work::Period(seconds),
            },
            floor: job.floor.map(|floor| match floor {
                Floor::Rate(rate) => rate,
                Floor::Fraction(fraction) => fraction * reference(),
            }),
            weight: job.weight,
            restart_seconds: job.restart_seconds.unwrap_or(self.options.restart_seconds),
            kinds: self.allowed(job),
            arrived: Time::from_seconds(job.arrival_seconds),
        })
    }

    /// Runs the trace under a policy. `progress` is told now and then how many jobs are over; the journal, if
    /// any, gets every input.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn run<'a>(
        &'a self,
        policy: &'static PolicyEntry,
        journal: Option<&'a mut dyn Write>,
        progress: &mut dyn FnMut(u64),
    ) -> std::io::Result<RunRecord> {
        self.run_observed(policy, journal, progress, None)
    }

    /// The same before a witness.
    ///
    /// # Errors
    /// As [`Scenario::run`].
    pub fn run_observed<'a>(
        &'a self,
        policy: &'static PolicyEntry,
        journal: Option<&'a mut dyn Write>,
        progress: &mut dyn FnMut(u64),
        witness: Option<&'a mut dyn RunObserver>,
    ) -> std::io::Result<RunRecord> {
        self.run_hooked(policy, RunHooks { journal, witness, guess: None }, progress)
    }

    /// The same in whatever company.
    ///
    /// # Errors
    /// As [`Scenario::run`].
    pub fn run_hooked<'a>(
        &'a self,
        policy: &'static PolicyEntry,
        company: RunHooks<'a>,
        progress: &mut dyn FnMut(u64),
    ) -> std::io::Result<RunRecord> {
        let RunHooks { journal, witness, guess } = company;
        let settings = settings(&self.options);
        let tenants: &[Tenant] = &self.trace.tenants;
        let journal = match journal {
            Some(out) => Some(Journal::begin(out, policy.name, &self.cluster, tenants, settings)?),
            None => None,
        };
        let mut run = Run {
            scenario: self,
            scheduler: Scheduler::new(self.cluster.clone(), tenants.to_vec(), policy, settings),
            world: World::new(self.cluster.clone(), Arc::clone(&self.truth), self.options.world_options),
            tally: Tally::new(policy.name, &self.cluster, &self.trace, self.options.keep_details),
            oracle: Oracle(Arc::clone(&self.truth)),
            learner: guess.map(Learner::new),
            policy: (policy.make)(),
            journal,
            witness,
            now: Time::ZERO,
            queue: VecDeque::new(),
        };
        run.until_all_is_done(progress)?;
        let Run { world, tally, journal, now, learner, .. } = run;
        if let Some(journal) = journal {
            journal.finish()?;
        }
        let (name, observations) = learner.as_ref().map_or(("oracle", 0), |l| (l.name(), l.observations()));
        Ok(tally.finish(now, world, name, observations))
    }
}

/// Rounds between two surveys: nothing gets lost here, so a rare look is enough.
const ROUNDS_PER_SURVEY: u64 = 10;

fn settings(options: &Options) -> Settings {
    let mut settings = Settings::with_round(options.round_seconds);
    settings.survey_seconds = options.round_seconds * ROUNDS_PER_SURVEY as f64;
    settings.lease_seconds = 4.0 * settings.survey_seconds;
    settings.unused_off = options.world_options.unused_off;
    settings
}

struct Run<'a> {
    scenario: &'a Scenario,
    scheduler: Scheduler,
    world: World,
    tally: Tally,
    oracle: Oracle,
    learner: Option<Learner>,
    policy: Box<dyn Policy>,
    journal: Option<Journal<&'a mut dyn Write>>,
    witness: Option<&'a mut dyn RunObserver>,
    now: Time,
    /// Inputs that follow from outputs at the same moment.
    queue: VecDeque<Input>,
}

impl Run<'_> {
    fn until_all_is_done(&mut self, progress: &mut dyn FnMut(u64)) -> std::io::Result<()> {
        let round = Time::from_seconds(self.scenario.options.round_seconds).0.max(1);
        let mut arrivals = 0..self.scenario.trace.jobs.len();
        let mut script = self.scenario.options.script.clone();
        script.sort_by(|a, b| b.at_seconds.total_cmp(&a.at_seconds));
        let (mut next_tick, mut ticks) = (Time::ZERO, 0u64);
        self.look()?;
        loop {
            let arrival =
                arrivals.clone().next().map(|i| Time::from_seconds(self.scenario.trace.jobs[i].arrival_seconds));
            if self.scheduler.live_jobs() == 0 {
                // Nothing to decide until somebody comes: skip the empty rounds in between.
                let Some(arrival) = arrival else { break };
                self.tally.granted(self.now, None);
                next_tick = next_tick.max(Time(arrival.0.div_ceil(round) * round));
            }
            let node_event = script.last().map(|e| Time::from_seconds(e.at_seconds));
            let next = [self.world.next_event(), node_event, arrival].into_iter().flatten().min();
            self.now = next.map_or(next_tick, |t| t.min(next_tick)).max(self.now);
            while let Some(report) = self.world.advance(self.now) {
                self.tell(Input::Reported(report))?;
            }
            if self.play(&mut script) {
                self.look()?;
            }
            while let Some(i) = arrivals.clone().next()
                && Time::from_seconds(self.scenario.trace.jobs[i].arrival_seconds) <= self.now
            {
                arrivals.next();
                if let Some(spec) = self.scenario.submission(i) {
                    self.world.admit(spec.clone());
                    self.tell(Input::Submit(spec))?;
                }
            }
            if self.now >= next_tick {
                ticks += 1;
                if ticks.is_multiple_of(ROUNDS_PER_SURVEY) {
                    self.look()?;
                }
                self.learn()?;
                self.tell(Input::Tick)?;
                self.sample();
                progress(self.tally.over());
                if self.witness.as_mut().is_some_and(|witness| !witness.decided(self.now, &self.world)) {
                    break;
                }
                next_tick = Time(next_tick.0 + round);
            }
        }
        Ok(())
    }

    /// Lets nodes go and come that are due (the next event is the last of `script`); `true` if any did.
    fn play(&mut self, script: &mut Vec<NodeEvent>) -> bool {
        let mut any = false;
        while let Some(event) = script.pop_if(|e| Time::from_seconds(e.at_seconds) <= self.now) {
            any = true;
            match event.up {
                true => self.world.restore_node(self.now, event.node),
                false => self.world.fail_node(self.now, event.node),
            }
        }
        any
    }

    /// Measures what ran undisturbed in the latter half of the round that ends, and tells the scheduler what that changes.
    fn learn(&mut self) -> std::io::Result<()> {
        // Half a round is long enough, and leaves time for a restart before it.
        let half = Time::from_seconds(self.scenario.options.round_seconds / 2.0).0;
        let since = Time(self.now.0.saturating_sub(half));
        let Some(learner) = &mut self.learner else { return Ok(()) };
        let rows = learner.look(self.now, since, &self.world);
        if rows.is_empty() { Ok(()) } else { self.tell(Input::Estimated(rows)) }
    }

    fn sample(&mut self) {
        let truth = &self.scenario.truth;
        match &self.learner {
            Some(learner) => self.tally.sample(self.now, &self.world, Some(&|| learner.sample(self.now, truth))),
            None => self.tally.sample(self.now, &self.world, None),
        }
    }

    fn look(&mut self) -> std::io::Result<()> {
        let survey = self.world.survey(self.now, |_| true);
        self.tell(Input::Surveyed(survey))
    }

    /// Gives the scheduler an input and does what follows from it, until nothing more does.
    fn tell(&mut self, input: Input) -> std::io::Result<()> {
        self.queue.push_back(input);
        while let Some(input) = self.queue.pop_front() {
            let recorded = self.journal.is_some().then(|| input.clone());
            let outputs = self.scheduler.step(self.now, input);
            if let (Some(journal), Some(input)) = (&mut self.journal, recorded) {
                journal.record(self.now, &input, &outputs)?;
            }
            for output in outputs {
                self.follow(output);
            }
        }
        Ok(())
    }

    fn follow(&mut self, output: Output) {
        match output {
            Output::Solve(problem) => {
                let answer = self.policy.allocate(&problem);
                if let Ok(allocation) = &answer {
                    self.tally.granted(self.now, Some((&problem, allocation)));
                    if let Some(witness) = &mut self.witness {
                        witness.allocated(self.now, &problem, allocation);
                    }
                }
                self.queue.push_back(Input::Allocated(problem.round, answer));
            }
            Output::Estimate(ask) => {
                let row = match &mut self.learner {
                    Some(learner) => learner.answer(&ask),
                    None => self.oracle.estimate(&ask),
                };
                self.queue.push_back(Input::Estimated(vec![row]));
            }
            Output::Order(order) => {
                self.tally.before_order(self.now, &order, &self.world);
                match self.world.apply(self.now, &order) {
                    Ok(Some(report)) => self.queue.push_back(Input::Reported(report)),
                    Ok(None) => {}
                    Err(why) => self.queue.push_back(Input::Refused(order, why)),
                }
            }
            Output::Note(event) => self.note(&event),
        }
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Completed { job } => self.bury(*job, true),
            Event::GaveUp { job, .. } | Event::Cancelled { job } | Event::Rejected { job, .. } => {
                self.bury(*job, false);
            }
            Event::BadPlan { round, why } => panic!("the placer broke a rule in {round}: {why}"),
            Event::NoAllocation { .. } => self.tally.no_allocation(),
            Event::Requeued { .. }
            | Event::NodeLost { .. }
            | Event::PolicySwitched { .. }
            | Event::TenantSet { .. }
            | Event::Refused { .. } => {}
        }
    }

    fn bury(&mut self, job: JobId, completed: bool) {
        if let Some(life) = self.world.dismiss(job) {
            self.tally.over_with(self.now, &life, completed);
        }
    }
}
