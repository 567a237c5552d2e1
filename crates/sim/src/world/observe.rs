//! Looking at the world: surveys, totals, and the independent view that checkers use.

use super::*;
use arles_core::Spread;
use arles_core::estimate::RateQuery;

/// Exit code of a program that was killed by a signal it cannot catch.
const KILLED: i32 = 137;

/// A gang that runs and goes on running, and what its GPUs draw.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SteadyGang {
    /// The job that runs.
    pub job: JobId,
    /// What runs, how large and beside whom.
    pub ask: RateQuery,
    /// The kind that it runs on.
    pub kind: KindId,
    /// Whether it spans more nodes than it needs to.
    pub spread: Spread,
    /// Steps per second of the whole gang.
    pub rate: f64,
    /// Draw of one GPU, a partner's part included.
    pub watts: f64,
}

impl World {
    /// What is there now, on the nodes for which `answers` holds. Nodes that have left do not answer.
    pub fn survey(&mut self, now: Time, answers: impl Fn(NodeId) -> bool) -> Survey {
        let there: Vec<bool> = self.cluster.nodes().iter().map(|node| !node.removed).collect();
        let answers = |node: NodeId| there[node.index()] && answers(node);
        let all = (0..self.up.len() as u32).map(NodeId).filter(|&n| answers(n));
        let nodes: Vec<ObservedNode> = all.map(|node| ObservedNode { node, up: self.up[node.index()] }).collect();
        let holders: Vec<JobId> = self.seated.iter().copied().collect();
        let mut gangs = Vec::with_capacity(holders.len());
        for job in holders {
            self.settle(now, job);
            let sim_job = &self.jobs[&job];
            let gang = sim_job.gang.as_ref().expect("it is seated");
            if gang.gpus.iter().any(|&g| answers(self.cluster.node_of(g))) {
                let state = gang.ended.clone().unwrap_or(GangState::Running);
                let gpus = gang.gpus.clone();
                gangs.push(ObservedGang { job, fence: gang.fence, gpus, steps_done: gang.safe_steps, state });
            }
        }
        Survey { at: now, nodes, gangs }
    }

    /// Brings every account up to date and returns the idle energy nobody is charged for, by kind.
    pub fn close_books(&mut self, now: Time) {
        let holders: Vec<JobId> = self.seated.iter().copied().collect();
        for job in holders {
            self.settle(now, job);
        }
        for g in 0..self.on_gpu.len() {
            self.settle_unused(now, GpuId(g as u32));
        }
        self.check_counts();
    }

    /// Counts what a GPU that is on and that nobody holds has drawn until `now`.
    pub(super) fn settle_unused(&mut self, now: Time, gpu: GpuId) {
        if self.on_gpu[gpu.index()].iter().all(Option::is_none) && self.is_on(gpu) {
            let kind = self.cluster.kind_of(gpu);
            self.unused_joules[kind.index()] += now.since(self.idle_since[gpu.index()]) * self.unused_watts(kind);
            self.idle_since[gpu.index()] = now;
        }
    }

    /// Counts that are kept up to date order by order, taken anew from the seats.
    ///
    /// # Panics
    /// If they differ: the world has lost a seat or counted one twice.
    fn check_counts(&self) {
        let mut busy = vec![0; self.busy.len()];
        let mut seats = 0;
        for (g, jobs) in self.on_gpu.iter().enumerate() {
            let held = jobs.iter().flatten().count();
            busy[self.cluster.kind_of(GpuId(g as u32)).index()] += u32::from(held > 0);
            seats += held;
        }
        assert_eq!(busy, self.busy, "GPUs in use, by kind");
        let gangs =
            || self.seated_jobs().filter_map(|sim_job| sim_job.gang.as_ref()).filter(|gang| gang.ended.is_none());
        assert_eq!(gangs().count(), self.running as usize, "gangs that run");
        assert_eq!(gangs().map(|gang| gang.gpus.len()).sum::<usize>(), seats, "seats on GPUs");
    }

    /// A node goes down: its gangs are gone, with what they had not saved.
    pub fn fail_node(&mut self, now: Time, node: NodeId) {
        if !self.up[node.index()] {
            return;
        }
        self.cut_off(now, node);
        let idle_watts = self.unused_watts(self.cluster.node(node).kind);
        for gpu in self.working_gpus(node) {
            self.settle_unused(now, gpu);
            self.watts -= idle_watts;
        }
        self.up[node.index()] = false;
    }

    /// A node comes back, empty. One that has left does not.
    pub fn restore_node(&mut self, now: Time, node: NodeId) {
        if self.up[node.index()] || self.cluster.node(node).removed {
            return;
        }
        self.up[node.index()] = true;
        let idle_watts = self.unused_watts(self.cluster.node(node).kind);
        for gpu in self.working_gpus(node) {
            self.idle_since[gpu.index()] = now;
            self.watts += idle_watts;
        }
    }

    /// GPUs of a node that work when it is up.
    pub(super) fn working_gpus(&self, node: NodeId) -> Vec<GpuId> {
        self.cluster.node(node).gpu_range().map(GpuId).filter(|gpu| !self.lost[gpu.index()]).collect()
    }

    /// Ends every gang with a GPU on `node`; each falls back to its last checkpoint.
    pub fn cut_off(&mut self, now: Time, node: NodeId) {
        let range = self.cluster.node(node).gpu_range();
        let mut hit: Vec<JobId> = range.flat_map(|g| self.on_gpu[g as usize]).flatten().collect();
        hit.sort_unstable();
        hit.dedup();
        for job in hit {
            self.break_off(now, job);
        }
    }

    /// Ends a gang, which falls back to its last checkpoint.
    pub(super) fn break_off(&mut self, now: Time, job: JobId) {
        self.settle(now, job);
        let safe = self.jobs[&job].gang.as_ref().map_or(0.0, |g| g.safe_steps);
        self.release(now, job);
        self.jobs.get_mut(&job).expect("it was there").steps = safe;
    }

    /// A running gang breaks; returns what it would tell. A program that is killed ends with exit code 137.
    pub fn crash(&mut self, now: Time, job: JobId, why: &str) -> Option<GangReport> {
        let program = self.jobs.get(&job).is_some_and(|sim_job| sim_job.spec.program.is_some());
        self.fail(now, job, why, program.then_some(KILLED))
    }

    /// A running gang fails, and falls back to its last checkpoint.
    pub(super) fn fail(&mut self, now: Time, job: JobId, why: &str, exit_code: Option<i32>) -> Option<GangReport> {
        self.settle(now, job);
        let sim_job = self.jobs.get_mut(&job)?;
        let gang = sim_job.gang.as_ref().filter(|g| g.ended.is_none() && !g.stopping)?;
        let (fence, safe) = (gang.fence, gang.safe_steps);
        sim_job.steps = safe;
        self.end(now, job, GangState::Failed(why.to_owned()), exit_code);
        Some(GangReport { exit_code, ..GangReport::new(job, fence, GangEvent::Failed(safe, why.to_owned())) })
    }

    /// A gang's GPUs slow down (or recover, with 1).
    pub fn set_health(&mut self, now: Time, job: JobId, health: f64) {
        self.settle(now, job);
        if let Some(gang) = self.jobs.get_mut(&job).and_then(|l| l.gang.as_mut()).filter(|g| g.ended.is_none()) {
            gang.health = health;
            self.set_pace(now, job);
        }
    }

    /// Gangs that have run undisturbed since `since`, as whoever measures finds them. Of a spread gang it is not told
    /// apart how much the network costs: that is part of its rate.
    pub fn steady_gangs(&self, since: Time) -> impl Iterator<Item = SteadyGang> + '_ {
        self.seated_jobs().filter_map(move |sim_job| {
            let gang = sim_job.gang.as_ref().filter(|g| g.ended.is_none() && !g.stopping && g.paced <= since)?;
            let partner = gang.partner.and_then(|p| self.jobs.get(&p));
            let active = match partner.and_then(|p| p.gang.as_ref()) {
                // A partner that still restarts disturbs the measurement.
                Some(other) if other.paced > since => return None,
                Some(other) => gang.watts + other.watts,
                None => gang.watts / gang.gpus.len() as f64,
            };
            let ask = RateQuery {
                workload: sim_job.spec.workload,
                gang: gang.gpus.len() as u32,
                partner: partner.map(|p| p.spec.workload),
            };
            let watts = self.cluster.kind(gang.kind).idle_watts + active;
            Some(SteadyGang { job: sim_job.spec.id, ask, kind: gang.kind, spread: gang.spread, rate: gang.rate, watts })
        })
    }

    /// All energy drawn until `now`, without touching any account.
    #[must_use]
    pub fn joules_at(&self, now: Time) -> f64 {
        let used: f64 = self.used_joules.iter().map(|d| d.idle_joules + d.active_joules).sum();
        let unused: f64 = self.unused_joules.iter().sum();
        let idle = (0..self.on_gpu.len()).map(|g| {
            let gpu = GpuId(g as u32);
            let (kind, on) = (self.cluster.kind_of(gpu), self.is_on(gpu));
            let empty = self.on_gpu[g].iter().all(Option::is_none);
            if empty && on { now.since(self.idle_since[g]) * self.unused_watts(kind) } else { 0.0 }
        });
        let running = self.seated_jobs().filter_map(|sim_job| {
            let gang = sim_job.gang.as_ref().filter(|g| g.ended.is_none())?;
            // A shared GPU's idle power is counted with both halves.
            let gpus = gang.gpus.len() as f64 / if gang.partner.is_some() { 2.0 } else { 1.0 };
            let idle = self.cluster.kind(gang.kind).idle_watts * gpus * now.since(gang.settled);
            let moving = if gang.stopping { now } else { gang.productive_from.clamp(gang.settled, now) };
            let active = now.since(moving) + self.world_options.restart_activity * moving.since(gang.settled);
            Some(idle + gang.watts * active)
        });
        used + unused + idle.sum::<f64>() + running.sum::<f64>()
    }

    /// Orders since the last call that should never have come.
    pub fn take_incidents(&mut self) -> Vec<Incident> {
        std::mem::take(&mut self.incidents)
    }

    /// Jobs with a running gang, in order.
    pub fn holders(&self) -> impl Iterator<Item = JobId> + '_ {
        let runs = |l: &SimJob| l.gang.as_ref().is_some_and(|g| g.ended.is_none());
        self.seated_jobs().filter(move |l| runs(l)).map(|l| l.spec.id)
    }

    /// Jobs with a gang or the record of one, in order.
    fn seated_jobs(&self) -> impl Iterator<Item = &SimJob> {
        self.seated.iter().map(|id| &*self.jobs[id])
    }

    /// A job's gang and its GPUs, if it runs.
    #[must_use]
    pub fn held(&self, job: JobId) -> Option<(Fence, &[GpuId])> {
        let gang = self.jobs.get(&job)?.gang.as_ref().filter(|g| g.ended.is_none())?;
        Some((gang.fence, &gang.gpus))
    }

    /// A job that is not over.
    #[must_use]
    pub fn life(&self, job: JobId) -> Option<&SimJob> {
        self.jobs.get(&job).map(Box::as_ref)
    }

    /// All jobs that are not over.
    pub fn lives(&self) -> impl Iterator<Item = &SimJob> {
        self.jobs.values().map(Box::as_ref)
    }

    /// GPUs in use, by kind.
    #[must_use]
    pub fn busy(&self) -> &[u32] {
        &self.busy
    }

    /// Jobs that hold GPUs.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Jobs that are known and not dismissed.
    #[must_use]
    pub fn known(&self) -> usize {
        self.jobs.len()
    }

    /// Power of everything that is on.
    #[must_use]
    pub fn watts(&self) -> f64 {
        self.watts
    }

    /// Idle energy of unused GPUs, by kind, as of the last change.
    #[must_use]
    pub fn unused_joules(&self) -> &[f64] {
        &self.unused_joules
    }

    /// Energy of used GPUs, by kind, as of the last change.
    #[must_use]
    pub fn used_joules(&self) -> &[Draw] {
        &self.used_joules
    }

    /// Time that GPUs were in use, by kind, as of the last change.
    #[must_use]
    pub fn busy_gpu_seconds(&self) -> &[f64] {
        &self.busy_gpu_seconds
    }

    /// How everything runs here.
    #[must_use]
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// Which GPU is of which kind, on which node.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Whether a node is there and up.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        self.up[node.index()]
    }

    /// Whether a GPU draws power: it works, and its node is up.
    #[must_use]
    pub fn is_on(&self, gpu: GpuId) -> bool {
        self.up[self.cluster.node_of(gpu).index()] && !self.lost[gpu.index()]
    }
}
