//! A scenario: a trace on a virtual cluster, checked and ready to be run under any policy.
//!
//! [`Scenario::new`] refuses what cannot run anywhere, [`Scenario::run`] lets time pass (`run.rs`).

mod run;

use crate::measure::EstimatorSetup;
use crate::trace::{Floor, Length, Trace, TraceJob};
use crate::truth::{Deviation, Truth, TruthError};
use crate::world::{World, WorldOptions};
use arles_core::allocate::{Allocation, EPSILON, PolicyEntry, Problem};
use arles_core::{
    Cluster, JobId, JobSpec, KindId, Library, NodeId, Prices, TenantId, Time, Work, Workload, WorkloadId,
};
use arles_report::record::RunRecord;
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
    /// The part of its fair speed that everybody may be asked to give up so that less is drawn.
    pub epsilon: f64,
    /// Past use of tenants counts half after this time, if at all.
    pub half_life_seconds: Option<f64>,
    /// Whether GPUs of a job that ends go to the next job of its class at once.
    pub refill: bool,
    /// What all GPUs together may draw, from when on.
    pub power_budget: Vec<BudgetEvent>,
    /// Electricity by the hour; empty where nobody counts it.
    pub prices: Prices,
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
            epsilon: EPSILON,
            half_life_seconds: None,
            refill: false,
            power_budget: Vec::new(),
            prices: Prices::default(),
            keep_details: true,
            drop_unfit: false,
            deviation: Deviation::default(),
        }
    }
}

/// A node goes or comes back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeEvent {
    /// Seconds after the start of the run.
    pub at_seconds: f64,
    /// By its place in the cluster.
    pub node: NodeId,
    /// Whether it is up from then on.
    pub up: bool,
}

/// Another power budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BudgetEvent {
    /// Seconds after the start of the run.
    pub at_seconds: f64,
    /// The most that all GPUs together may draw from then on; none for no limit.
    pub watts: Option<f64>,
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

/// Looks on while a run goes on. It sees everything and changes nothing but when the run ends.
pub trait RunObserver {
    /// The policy has answered; its grants are in force from now on.
    fn allocated(&mut self, _now: Time, _problem: &Problem, _answer: &Allocation) {}

    /// A round has been decided and its orders are done. `false` ends the run here.
    fn decided(&mut self, now: Time, world: &World) -> bool;
}

/// What takes part in a run beside the scheduler and the world.
#[derive(Default)]
pub struct RunHooks<'a> {
    /// Gets every input.
    pub journal: Option<&'a mut dyn Write>,
    /// Looks on.
    pub observer: Option<&'a mut dyn RunObserver>,
    /// Estimates rates and powers, and learns; an oracle if there is none.
    pub estimator: Option<EstimatorSetup>,
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

    /// The jobs, as they were read or generated.
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

    /// GPU seconds that all jobs take at best: each alone on the kind that is fastest for it, whole gangs. Of a job that ends by the clock, the part of its
    /// time that its promised rate is of its best.
    #[must_use]
    pub fn least_gpu_seconds(&self) -> f64 {
        let of = |i: usize| {
            let (job, spec) = (&self.trace.jobs[i], self.submission(i)?);
            let row = self.truth.alone(WorkloadId(job.workload), job.gang);
            let best = row.iter().flatten().map(|cells| cells[0].rate).fold(0.0, f64::max);
            let seconds = match spec.work {
                Work::Steps(steps) => steps / best,
                Work::Period(seconds) => seconds * (spec.floor.unwrap_or(0.0) / best).min(1.0),
                Work::Open(seconds) => seconds.unwrap_or(0.0),
            };
            Some(f64::from(job.gang) * seconds).filter(|seconds| seconds.is_finite())
        };
        (0..self.trace.jobs.len()).filter_map(of).sum()
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
            largest_gang: job.largest_gang,
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
            before: job.before_seconds.map(Time::from_seconds),
            ..JobSpec::default()
        })
    }

    /// Runs the trace under a policy. `progress` is told now and then how many jobs are over.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn run<'a>(
        &'a self,
        policy: &'static PolicyEntry,
        hooks: RunHooks<'a>,
        progress: &mut dyn FnMut(u64),
    ) -> std::io::Result<RunRecord> {
        run::run(self, policy, hooks, progress)
    }
}
