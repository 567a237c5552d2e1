//! Surveys: what is really there corrects what the scheduler believes.
//!
//! A survey is believed, but only about what it can know: the nodes that answered, as of the moment the
//! question was asked. A gang ordered later is not missed, an older survey than the last is not read again,
//! and a node that does not answer is given up only after its own lease must have ended its gangs.
//!
//! A survey may come in parts, several of the same moment: of a gang over many nodes that moment is known once the last of
//! them has answered.

use super::*;
use crate::Node;

impl Scheduler {
    pub(super) fn surveyed(&mut self, survey: &Survey, out: &mut Vec<Output>) {
        let fresh = self.note_nodes(survey, out);
        if fresh.is_empty() {
            return;
        }
        let (cluster, nodes) = (&self.cluster, &self.nodes);
        let just_now = |gpu: &GpuId| fresh.binary_search(&cluster.node_of(*gpu)).is_ok();
        let answered = |gpu: &GpuId| nodes[cluster.node_of(*gpu).index()].seen_at == Some(survey.at);
        let looked_at = |gpus: &[GpuId]| gpus.is_empty() || gpus.iter().any(just_now) && gpus.iter().all(answered);
        self.strangers.retain(|_, gpus| !looked_at(gpus));
        let mut seen: Vec<(JobId, Fence)> = Vec::with_capacity(survey.gangs.len());
        for gang in &survey.gangs {
            seen.push((gang.job, gang.fence));
            self.gang_seen(gang, out);
        }
        seen.sort_unstable();
        self.miss_absent(survey.at, &fresh, &seen, out);
    }

    /// Takes in which nodes answered; returns, in order, those about which the survey is news.
    fn note_nodes(&mut self, survey: &Survey, out: &mut Vec<Output>) -> Vec<NodeId> {
        let mut fresh = Vec::with_capacity(survey.nodes.len());
        for seen in &survey.nodes {
            let Some(state) = self.nodes.get_mut(seen.node.index()) else { continue };
            if state.seen_at.is_some_and(|seen_at| seen_at >= survey.at) {
                continue;
            }
            state.seen_at = Some(survey.at);
            state.seen_patience = self.patience - self.now.since(survey.at).min(self.settings.round_seconds);
            if state.up != seen.up {
                state.up = seen.up;
                self.changed |= !self.cluster.node(seen.node).removed;
            }
            fresh.push(seen.node);
        }
        fresh.sort_unstable();
        let down: Vec<NodeId> = fresh.iter().copied().filter(|n| !self.nodes[n.index()].up).collect();
        self.leave_down_nodes(&down, survey.at, out);
        fresh
    }

    /// Gangs that ran on nodes that are down are gone; those still being started must be called back first.
    fn leave_down_nodes(&mut self, down: &[NodeId], at: Time, out: &mut Vec<Output>) {
        let (ran, rest): (Vec<Slot>, Vec<Slot>) =
            self.on_nodes(down).into_iter().partition(|&slot| self.jobs.get(slot).phase.ran_before(at));
        let fences =
            |slot: &Slot| self.jobs.get(*slot).phase.occupied().map(|gang| (self.jobs.get(*slot).spec.id, gang.fence));
        let given_up: BTreeSet<(JobId, Fence)> = ran.iter().filter_map(fences).collect();
        self.give_up_gangs(ran, down, "its node went down", out);
        // What is left of them elsewhere is there if this survey shows it, in this part or one to come.
        let answered = |gpu: &GpuId| self.nodes[self.cluster.node_of(*gpu).index()].seen_at == Some(at);
        self.strangers.retain(|gang, gpus| !given_up.contains(gang) || !gpus.iter().all(answered));
        for slot in rest {
            if let Phase::Starting(..) = self.jobs.get(slot).phase {
                self.stop(slot, AfterStop::Wait, out);
            }
        }
    }

    /// Jobs with a GPU on one of `nodes`.
    pub(super) fn on_nodes(&self, nodes: &[NodeId]) -> Vec<Slot> {
        if nodes.is_empty() {
            return Vec::new();
        }
        let on = |gang: &Gang| gang.gpus.iter().any(|&g| nodes.contains(&self.cluster.node_of(g)));
        self.jobs.holding().filter(|(_, job)| job.phase.occupied().is_some_and(on)).map(|(slot, _)| slot).collect()
    }

    fn gang_seen(&mut self, gang: &ObservedGang, out: &mut Vec<Output>) {
        let known = self
            .jobs
            .slot(gang.job)
            .filter(|&slot| self.jobs.get(slot).phase.occupied().is_some_and(|held| held.fence == gang.fence));
        let Some(slot) = known else {
            // Given up when its node had been silent for too long, and done by then: nothing is left to be done again.
            let waits = |slot: &Slot| self.jobs.get(*slot).phase == Phase::Waiting;
            if gang.state == GangState::Finished
                && let Some(slot) = self.jobs.slot(gang.job).filter(waits)
            {
                return self.complete(slot, gang.fence, out);
            }
            // Not ours any more, or never was: ask for it to go, and keep off its GPUs until it has.
            out.push(Output::Order(Order::Stop { job: gang.job, fence: gang.fence }));
            if gang.state == GangState::Running {
                let gpus = gang.gpus.iter().copied().filter(|gpu| gpu.index() < self.cluster.gpus());
                self.keep_off(gang.job, gang.fence, &gpus.collect::<Vec<_>>());
            }
            return;
        };
        match &gang.state {
            GangState::Running => {
                self.confirm_start(slot);
                let mut job = self.jobs.get_mut(slot);
                if gang.steps_done > job.steps_done && gang.steps_done.is_finite() {
                    job.steps_done = gang.steps_done;
                    job.failures = 0;
                }
            }
            GangState::Finished => self.complete(slot, gang.fence, out),
            GangState::Failed(why) => self.broke(slot, gang.steps_done, why, out),
        }
    }

    /// Gangs that should have been in the survey and were not are gone. One that was never known to run is not: its
    /// start may still be on its way, and only the answer to that or to a stop says what became of it. Nor is one that
    /// is being stopped: the stop may have taken the record of a gang that had finished, and its answer, which says so, may
    /// come in later than the survey. It is ordered again until it is answered.
    fn miss_absent(&mut self, at: Time, fresh: &[NodeId], seen: &[(JobId, Fence)], out: &mut Vec<Output>) {
        let answered = |gpu: &GpuId| self.nodes[self.cluster.node_of(*gpu).index()].seen_at == Some(at);
        let gpus = fresh.iter().flat_map(|node| self.cluster.node(*node).gpu_range());
        let mut absent: Vec<Slot> = gpus.flat_map(|gpu| self.seats.on(GpuId(gpu))).collect();
        absent.sort_unstable();
        absent.dedup();
        absent.retain(|&slot| {
            let job = self.jobs.get(slot);
            let Some(gang) = job.phase.occupied() else { return false };
            let expected = job.phase.ran_before(at) && job.phase.held().is_some();
            let all_answered = gang.gpus.iter().all(answered);
            expected && all_answered && seen.binary_search(&(job.spec.id, gang.fence)).is_err()
        });
        for slot in absent {
            let steps = self.jobs.get(slot).steps_done;
            self.gone(slot, steps, "its gang was not there when looked for", out);
        }
    }

    /// Gives up the gangs of nodes that have been silent for longer than their lease.
    pub(super) fn expire_leases(&mut self, out: &mut Vec<Output>) {
        let late = |state: &NodeState| self.patience - state.seen_patience > self.settings.loss_seconds();
        let (mut lost, mut removed) = (Vec::new(), Vec::new());
        for (node, n) in self.cluster.nodes().iter().zip(0..) {
            let state = &self.nodes[n as usize];
            match node.removed {
                true if late(state) && self.occupied(node) => removed.push(NodeId(n)),
                false if late(state) && state.up => lost.push(NodeId(n)),
                _ => {}
            }
        }
        for &node in &lost {
            self.nodes[node.index()].up = false;
            self.changed = true;
            out.push(Output::Note(Event::NodeLost { node }));
        }
        self.give_up_gangs(self.on_nodes(&lost), &lost, "its node has been silent for longer than its lease", out);
        // Nobody waits for a node that has left; only its last gangs must be known to be gone.
        self.give_up_gangs(self.on_nodes(&removed), &removed, "its node was removed and does not answer", out);
    }

    /// Whether anybody is on a GPU of a node.
    fn occupied(&self, node: &Node) -> bool {
        node.gpu_range().any(|gpu| self.seats.on(GpuId(gpu)).next().is_some())
    }

    /// Keeps off the GPUs of a gang that should not be there. GPUs of nodes that have left are nobody's to use.
    fn keep_off(&mut self, job: JobId, fence: Fence, gpus: &[GpuId]) {
        let there = |gpu: &GpuId| !self.cluster.node(self.cluster.node_of(*gpu)).removed;
        let blocked: Vec<GpuId> = gpus.iter().copied().filter(there).collect();
        if gpus.is_empty() || !blocked.is_empty() {
            self.strangers.insert((job, fence), blocked);
        }
    }

    /// Requeues jobs that had a GPU on one of `nodes`. What is left of their gangs elsewhere is told to stop.
    fn give_up_gangs(&mut self, slots: Vec<Slot>, nodes: &[NodeId], why: &str, out: &mut Vec<Output>) {
        for slot in slots {
            let job = self.jobs.get(slot);
            let steps = job.steps_done;
            let gang = job.phase.occupied().expect("filtered above");
            let elsewhere: Vec<GpuId> =
                gang.gpus.iter().copied().filter(|&g| !nodes.contains(&self.cluster.node_of(g))).collect();
            if !elsewhere.is_empty() {
                out.push(Output::Order(Order::Stop { job: job.spec.id, fence: gang.fence }));
                let (id, fence) = (job.spec.id, gang.fence);
                self.keep_off(id, fence, &elsewhere);
            }
            self.gone(slot, steps, why, out);
        }
    }
}
