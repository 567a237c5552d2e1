//! What can be seen of a scheduler from outside, job by job and node by node. Shows; never changes anything.

use super::*;

/// Where a job stands, in a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobPhase {
    /// It holds nothing.
    Waiting,
    /// Its gang was ordered to start.
    Starting,
    /// Its gang is known to run.
    Running,
    /// Its gang was ordered to stop, to move or to leave.
    Stopping,
}

/// GPUs that a job holds, or that are not free because of it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct HeldGpus<'a> {
    /// Which gang of the job.
    pub fence: Fence,
    /// A gang is on one kind.
    pub kind: KindId,
    /// As many as the job's gang has.
    pub gpus: &'a [GpuId],
    /// Whether it spans more nodes than it needs to.
    pub spread: Spread,
}

/// A live job at a glance.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct JobStatus<'a> {
    /// As submitted.
    pub spec: &'a JobSpec,
    /// Where it stands.
    pub phase: JobPhase,
    /// Its gang, unless it waits.
    pub gang: Option<HeldGpus<'a>>,
    /// Steps known to be safe.
    pub steps_done: f64,
    /// When it first ran.
    pub first_started: Option<Time>,
    /// Failures in a row.
    pub failures: u32,
    /// Seconds that its gangs have run in all.
    pub run_seconds: f64,
    /// The same in seconds on its fastest kind: what [`crate::Work::Open`] is measured in.
    pub served_seconds: f64,
    /// Whether it waits until somebody releases it.
    pub held: bool,
    /// What its program last ended with, if it ended and runs or waits again.
    pub exit_code: Option<i32>,
    /// Steps per second of its gang alone, as estimated; 0 while it does not run.
    pub rate: f64,
}

/// A node, as the scheduler believes it to be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Whether it can run anything, by the last survey that saw it. One that was silent beyond its lease cannot.
    pub up: bool,
    /// Whether it is up and was heard of lately, so that gangs are sent there unless it is drained.
    pub reachable: bool,
    /// Whether it has left for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// Set while it gets no new gangs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// GPUs that cannot be used, counted from 0 on the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_gpus: Vec<u32>,
}

impl Scheduler {
    /// A live job at a glance.
    #[must_use]
    pub fn job_status(&self, job: JobId) -> Option<JobStatus<'_>> {
        let job = self.jobs.get(self.jobs.slot(job)?);
        let phase = match job.phase {
            Phase::Waiting => JobPhase::Waiting,
            Phase::Starting(..) => JobPhase::Starting,
            Phase::Running(_) => JobPhase::Running,
            Phase::Stopping(..) => JobPhase::Stopping,
        };
        let class = &self.classes[&job.class];
        let rate = match &job.phase {
            Phase::Running(gang) => class.rate(gang.kind, gang.spread),
            _ => 0.0,
        };
        let (uncounted, speed) = match &job.phase {
            Phase::Running(gang) => (self.now.since(job.credited), gang.speed),
            _ => (0.0, 0.0),
        };
        Some(JobStatus {
            spec: &job.spec,
            phase,
            gang: job.phase.occupied().map(HeldGpus::of),
            steps_done: job.steps_done,
            first_started: job.first_started,
            failures: job.failures,
            run_seconds: job.run_seconds() + uncounted,
            served_seconds: job.served_seconds + uncounted * speed,
            held: job.held,
            exit_code: job.exit_code,
            rate,
        })
    }

    /// A live job as it was submitted, to be shared.
    #[must_use]
    pub fn spec(&self, job: JobId) -> Option<&Arc<JobSpec>> {
        Some(&self.jobs.get(self.jobs.slot(job)?).spec)
    }

    /// All nodes that there ever were, by id.
    pub fn node_statuses(&self) -> impl Iterator<Item = NodeStatus> + '_ {
        let sight = |(state, n): (&NodeState, u32)| NodeStatus {
            up: state.up,
            reachable: self.within_reach(NodeId(n)),
            removed: self.cluster.node(NodeId(n)).removed,
            drain: state.drain.clone(),
            lost_gpus: state.lost_gpus.iter().copied().collect(),
        };
        self.nodes.iter().zip(0..).map(sight)
    }
}

impl<'a> HeldGpus<'a> {
    fn of(gang: &'a Gang) -> Self {
        Self { fence: gang.fence, kind: gang.kind, gpus: &gang.gpus, spread: gang.spread }
    }
}
