//! A cluster that changes: nodes join and leave, a kind is corrected, single GPUs are lost and come back.
//!
//! The world follows what it is told the cluster is, as often as it is told. Accounts are settled before anything about a GPU changes, so
//! that every second of it is counted under the kind that it had, and none after its node has left.

use super::*;

impl World {
    /// The cluster is this from now on. Nodes that are new are up and idle; those that have left are gone with their gangs, which fall back
    /// to their last checkpoints; gangs on GPUs whose kind was corrected go on as fast as they are on that. A gang that would be on two kinds
    /// saves its state and is gone; one that does not fit on the right kind fails, which is told.
    ///
    /// # Errors
    /// A sentence, when the cluster is not one that this one can have become, or nothing is known of a new kind. Nothing is changed then.
    pub fn set_cluster(&mut self, now: Time, cluster: &Cluster) -> Result<Vec<GangReport>, String> {
        self.follow(now, cluster, |_| true)
    }

    /// The same where some nodes cannot be reached: those that have left go on with what they run until they can be.
    ///
    /// # Errors
    /// As [`World::set_cluster`].
    pub fn follow(
        &mut self,
        now: Time,
        cluster: &Cluster,
        reached: impl Fn(NodeId) -> bool,
    ) -> Result<Vec<GangReport>, String> {
        self.check_descent(cluster)?;
        self.grow_kinds(cluster)?;
        for n in (0..self.cluster.nodes().len() as u32).map(NodeId) {
            if cluster.node(n).removed && self.up[n.index()] && reached(n) {
                self.fail_node(now, n);
            }
        }
        let (corrected, told) = self.leave_wrong_kinds(now, cluster);
        self.cluster = cluster.clone();
        for job in corrected {
            let sim_job = self.jobs.get_mut(&job).expect("it holds something");
            let gang = sim_job.gang.as_mut().expect("it holds something");
            gang.kind = self.cluster.kind_of(gang.gpus[0]);
            self.set_pace(now, job);
        }
        for node in &cluster.nodes()[self.up.len()..] {
            self.up.push(!node.removed);
            if !node.removed {
                self.watts += f64::from(node.gpus) * self.unused_watts(node.kind);
            }
        }
        self.on_gpu.resize(cluster.gpus(), [None; 2]);
        self.idle_since.resize(cluster.gpus(), now);
        self.lost.resize(cluster.gpus(), false);
        Ok(told)
    }

    /// Whether this cluster can have become that one: numbers stay what they are, and nobody comes back under an old one.
    fn check_descent(&self, cluster: &Cluster) -> Result<(), String> {
        let (old, new) = (&self.cluster, cluster);
        let kinds = old.kinds().iter().zip(new.kinds()).all(|(old, new)| old.name == new.name);
        let same = |(old, new): (&arles_core::Node, &arles_core::Node)| {
            old.name == new.name && old.first_gpu == new.first_gpu && old.gpus == new.gpus && old.removed <= new.removed
        };
        let nodes = old.nodes().iter().zip(new.nodes()).all(same);
        let longer = old.kinds().len() <= new.kinds().len() && old.nodes().len() <= new.nodes().len();
        if kinds && nodes && longer {
            return Ok(());
        }
        Err(format!(
            "this virtual cluster of {} nodes is another than the one of {} nodes that it was told to become; begin both anew",
            old.nodes().len(),
            new.nodes().len()
        ))
    }

    /// Room in the books for kinds that are new, and their truth.
    fn grow_kinds(&mut self, cluster: &Cluster) -> Result<(), String> {
        let kinds = cluster.kinds().len();
        if kinds == self.busy.len() {
            return Ok(());
        }
        self.truth = Arc::new(self.truth.with_kinds(cluster.kinds()).map_err(|error| error.to_string())?);
        self.busy.resize(kinds, 0);
        self.unused_joules.resize(kinds, 0.0);
        self.used_joules.resize(kinds, Draw::default());
        self.busy_gpu_seconds.resize(kinds, 0.0);
        for sim_job in self.jobs.values_mut() {
            sim_job.paces = sim_job.paces_by(&self.truth);
        }
        Ok(())
    }

    /// Settles everything on nodes that `cluster` says are of another kind. Returns the gangs that go on there, and what became of others.
    fn leave_wrong_kinds(&mut self, now: Time, cluster: &Cluster) -> (Vec<JobId>, Vec<GangReport>) {
        let nodes: Vec<NodeId> = (0..self.cluster.nodes().len() as u32)
            .map(NodeId)
            .filter(|&n| self.cluster.node(n).kind != cluster.node(n).kind)
            .collect();
        let ranges = nodes.iter().flat_map(|&n| self.cluster.node(n).gpu_range());
        let mut hit: Vec<JobId> = ranges.flat_map(|g| self.on_gpu[g as usize]).flatten().collect();
        hit.sort_unstable();
        hit.dedup();
        let (mut stay, mut told) = (Vec::new(), Vec::new());
        for job in hit {
            self.settle(now, job);
            match self.fate(job, cluster) {
                None => stay.push(job),
                Some(Fate::Saved) => {
                    self.release(now, job);
                }
                Some(Fate::Fails(why)) => match self.fail(now, job, &why, None) {
                    Some(report) => told.push(report),
                    // It was on the way out.
                    None => self.break_off(now, job),
                },
            }
        }
        for node in nodes {
            self.move_books(now, node, cluster.node(node).kind, cluster);
        }
        (stay, told)
    }

    /// What becomes of a gang on GPUs whose kind is corrected, unless it goes on.
    fn fate(&self, job: JobId, cluster: &Cluster) -> Option<Fate> {
        let sim_job = &self.jobs[&job];
        let gang = sim_job.gang.as_ref().expect("it holds something");
        let kind = cluster.kind_of(gang.gpus[0]);
        let name = &cluster.kind(kind).name;
        if gang.gpus.iter().any(|&gpu| cluster.kind_of(gpu) != kind) {
            return Some(Fate::Saved);
        }
        if sim_job.paces[kind.index()].is_none() || cluster.kind(kind).memory_gib < sim_job.spec.needs.gpu_memory_gib {
            return Some(Fate::Fails(format!("job {} does not fit in the memory of {name}", job.0)));
        }
        let partner = gang.partner.and_then(|partner| self.jobs.get(&partner))?;
        let together = self.truth.together(sim_job.plays(), partner.plays(), kind).is_some();
        let may = together && cluster.kind(kind).max_jobs >= 2;
        (!may).then(|| Fate::Fails(format!("job {} cannot run beside job {} on {name}", job.0, partner.spec.id.0)))
    }

    /// Everything on a node is counted under another kind from now on.
    fn move_books(&mut self, now: Time, node: NodeId, kind: KindId, cluster: &Cluster) {
        let old = self.cluster.node(node).kind;
        let unused = |off: bool, kind: KindId| if off { 0.0 } else { cluster.kind(kind).idle_watts };
        for gpu in self.cluster.node(node).gpu_range().map(GpuId) {
            self.settle_unused(now, gpu);
            let used = self.on_gpu[gpu.index()].iter().any(Option::is_some);
            if used {
                self.busy[old.index()] -= 1;
                self.busy[kind.index()] += 1;
            }
            if self.is_on(gpu) {
                let off = !used && self.world_options.unused_off;
                self.watts += unused(off, kind) - unused(off, old);
            }
        }
    }

    /// A GPU stops working: whoever is on it breaks, which is told, and it draws nothing.
    pub fn lose_gpu(&mut self, now: Time, gpu: GpuId) -> Vec<GangReport> {
        if self.lost[gpu.index()] {
            return Vec::new();
        }
        let mut told = Vec::new();
        for job in self.on_gpu[gpu.index()].into_iter().flatten() {
            match self.crash(now, job, &format!("{gpu} was lost")) {
                Some(report) => told.push(report),
                // It was on the way out.
                None => self.break_off(now, job),
            }
        }
        self.settle_unused(now, gpu);
        if self.is_on(gpu) {
            self.watts -= self.unused_watts(self.cluster.kind_of(gpu));
        }
        self.lost[gpu.index()] = true;
        told
    }

    /// A GPU works again.
    pub fn return_gpu(&mut self, now: Time, gpu: GpuId) {
        if !std::mem::replace(&mut self.lost[gpu.index()], false) || !self.is_on(gpu) {
            return;
        }
        self.idle_since[gpu.index()] = now;
        self.watts += self.unused_watts(self.cluster.kind_of(gpu));
    }

    /// Whether a GPU does not work although its node may be up.
    #[must_use]
    pub fn is_lost(&self, gpu: GpuId) -> bool {
        self.lost[gpu.index()]
    }
}

/// How a gang ends when the kind of its GPUs is corrected.
enum Fate {
    /// It saves its state first.
    Saved,
    Fails(String),
}

#[cfg(test)]
mod tests;
