//! Looking at the world: surveys, totals, and the independent view that checkers use.

use super::*;
use arles_core::estimate::RateQuery;

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
    pub spread: bool,
    /// Steps per second of the whole gang.
    pub rate: f64,
    /// Draw of one GPU, a partner's part included.
    pub watts: f64,
}

impl World {
    /// What is there now, on the nodes for which `answers` holds.
    pub fn survey(&mut self, now: Time, answers: impl Fn(NodeId) -> bool) -> Survey {
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
            let node = self.cluster.node_of(GpuId(g as u32));
            if self.on_gpu[g].iter().all(Option::is_none) && self.up[node.index()] {
                let kind = self.cluster.kind_of(GpuId(g as u32));
                self.unused_joules[kind.index()] += now.since(self.idle_since[g]) * self.unused_watts(kind);
                self.idle_since[g] = now;
            }
        }
        self.check_counts();
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
        if !std::mem::replace(&mut self.up[node.index()], false) {
            return;
        }
        self.cut_off(now, node);
        let kind = self.cluster.node(node).kind;
        let idle_watts = self.unused_watts(kind);
        for g in self.cluster.node(node).gpu_range() {
            self.unused_joules[kind.index()] += now.since(self.idle_since[g as usize]) * idle_watts;
            self.watts -= idle_watts;
        }
    }

    /// A node comes back, empty.
    pub fn restore_node(&mut self, now: Time, node: NodeId) {
        if std::mem::replace(&mut self.up[node.index()], true) {
            return;
        }
        let idle_watts = self.unused_watts(self.cluster.node(node).kind);
        for g in self.cluster.node(node).gpu_range() {
            self.idle_since[g as usize] = now;
            self.watts += idle_watts;
        }
    }

    /// Ends every gang with a GPU on `node`; each falls back to its last checkpoint.
    pub fn cut_off(&mut self, now: Time, node: NodeId) {
        let range = self.cluster.node(node).gpu_range();
        let mut hit: Vec<JobId> = range.flat_map(|g| self.on_gpu[g as usize]).flatten().collect();
        hit.sort_unstable();
        hit.dedup();
        for job in hit {
            self.settle(now, job);
            let safe = self.jobs[&job].gang.as_ref().map_or(0.0, |g| g.safe_steps);
            self.release(now, job);
            self.jobs.get_mut(&job).expect("it was there").steps = safe;
        }
    }

    /// A running gang breaks; returns what it would tell.
    pub fn crash(&mut self, now: Time, job: JobId, why: &str) -> Option<GangReport> {
        self.settle(now, job);
        let sim_job = self.jobs.get_mut(&job)?;
        let gang = sim_job.gang.as_ref().filter(|g| g.ended.is_none() && !g.stopping)?;
        let (fence, safe) = (gang.fence, gang.safe_steps);
        sim_job.steps = safe;
        self.end(now, job, GangState::Failed(why.to_owned()));
        Some(GangReport::new(job, fence, GangEvent::Failed(safe, why.to_owned())))
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
                gang: sim_job.spec.gang,
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
            let (kind, up) = (self.cluster.kind_of(gpu), self.up[self.cluster.node_of(gpu).index()]);
            let empty = self.on_gpu[g].iter().all(Option::is_none);
            if empty && up { now.since(self.idle_since[g]) * self.unused_watts(kind) } else { 0.0 }
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
        self.seated.iter().map(|id| &self.jobs[id])
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
        self.jobs.get(&job)
    }

    /// All jobs that are not over.
    pub fn lives(&self) -> impl Iterator<Item = &SimJob> {
        self.jobs.values()
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

    /// Which GPU is of which kind, on which node.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Whether a node is up.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        self.up[node.index()]
    }
}
