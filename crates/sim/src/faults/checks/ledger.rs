//! The devices' energy, integrated from the outside.
//!
//! Between two moments at which anything changes, a GPU that is up draws its idle power, and each gang on it
//! draws active power on top: what the truth says, or a part of that while it restarts or saves its state. So
//!
//!   E = Σ over spans of  (Σ over GPUs that are up of P_idle + Σ over gangs of a(t) P_active) Δt
//!
//! from nothing but who is where and since when. The world settles its accounts differently (gang by gang, when
//! something about a gang changes), so agreement means something.

use super::Plan;
use crate::world::World;
use arles_core::scheduler::{Fence, Start};
use arles_core::{GpuId, JobId, NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A gang that runs.
#[derive(Clone, Debug)]
struct Present {
    fence: Fence,
    gpus: Vec<GpuId>,
    /// Until when it loads and restores.
    restarts_until: Time,
    /// Whether it saves its state before it stops.
    saves: bool,
}

/// The integral of the devices' power.
pub(super) struct Ledger<'p> {
    plan: &'p Plan,
    /// Orders that reached the world, for what only they tell.
    orders: BTreeMap<Fence, Start>,
    present: BTreeMap<JobId, Present>,
    started_before: BTreeSet<JobId>,
    until: Time,
    joules: f64,
}

impl<'p> Ledger<'p> {
    pub(super) fn new(plan: &'p Plan) -> Self {
        Self {
            plan,
            orders: BTreeMap::new(),
            present: BTreeMap::new(),
            started_before: BTreeSet::new(),
            until: Time::ZERO,
            joules: 0.0,
        }
    }

    pub(super) fn joules(&self) -> f64 {
        self.joules
    }

    pub(super) fn ordered(&mut self, start: &Start) {
        self.orders.insert(start.fence, start.clone());
    }

    pub(super) fn saves(&mut self, job: JobId) {
        if let Some(gang) = self.present.get_mut(&job) {
            gang.saves = true;
        }
    }

    /// Takes in which gangs have come and gone.
    pub(super) fn look(&mut self, now: Time, world: &World) {
        self.present.retain(|&job, gang| world.held(job).is_some_and(|(fence, _)| fence == gang.fence));
        for job in world.holders() {
            if self.present.contains_key(&job) {
                continue;
            }
            let (fence, gpus) = world.held(job).expect("a holder holds something");
            let again = !self.started_before.insert(job);
            let restart = world.life(job).map_or(0.0, |sim_job| sim_job.spec.restart_seconds);
            let restarts_until = if again { now.after(restart) } else { now };
            self.present.insert(job, Present { fence, gpus: gpus.to_vec(), restarts_until, saves: false });
        }
    }

    /// Adds what is drawn until `to`, while nothing changes.
    pub(super) fn pass(&mut self, to: Time, world: &World) {
        let seconds = to.since(self.until);
        if seconds <= 0.0 {
            return;
        }
        let cluster = world.cluster();
        for (n, node) in cluster.nodes().iter().enumerate() {
            if world.is_up(NodeId(n as u32)) {
                let working = node.gpu_range().filter(|&g| !world.is_lost(GpuId(g))).count();
                self.joules += working as f64 * cluster.kind(node.kind).idle_watts * seconds;
            }
        }
        for (&job, gang) in &self.present {
            let restarting = gang.restarts_until.min(to).since(self.until);
            let full = if gang.saves { 0.0 } else { seconds - restarting };
            let busy = full + self.plan.world_options.restart_activity * (seconds - full);
            self.joules += self.active_watts(job, gang, world) * busy;
        }
        self.until = to;
    }

    fn active_watts(&self, job: JobId, gang: &Present, world: &World) -> f64 {
        let workload = |job: JobId| world.life(job).expect("jobs are kept to the end").plays();
        let start = &self.orders[&gang.fence];
        // Not the order's kind: that may have been corrected.
        let kind = world.cluster().kind_of(gang.gpus[0]);
        let idle_watts = world.cluster().kind(kind).idle_watts;
        let beside = |(&other, there): (&JobId, &Present)| (other != job && there.gpus == gang.gpus).then_some(other);
        // Only gangs of one GPU share it: the seats are looked at elsewhere.
        let alone = gang.gpus.len() > 1;
        match self.present.iter().filter(|_| !alone).find_map(beside) {
            Some(partner) => {
                let pair = world.truth().together(workload(job), workload(partner), kind);
                pair.map_or(0.0, |pair| (pair.watts - idle_watts).max(0.0) / 2.0)
            }
            None => {
                let row = world.truth().alone(workload(job), gang.gpus.len() as u32);
                let pace = row[kind.index()].expect("it runs there")[start.spread.index()];
                (pace.watts - idle_watts).max(0.0) * gang.gpus.len() as f64
            }
        }
    }
}
