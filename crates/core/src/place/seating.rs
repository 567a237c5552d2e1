//! Which GPUs: running gangs stay where they are, the others get as few nodes as possible, larger gangs first.
//!
//! Where a gang goes, and whom it may evict so that it need not be apart, is in `gather.rs`.
//!
//! Where nodes count CPUs and memory, a node has room for a gang only if it has these too, so a job with a quota may find no seat. Then its
//! quota is refunded and its GPUs go to whoever fits on them.

mod gather;

use super::rounding::service;
use super::thrift::Thrift;
use super::{Plan, Seat, View};
use crate::allocate::FreeGpus;
use crate::host::HostRoom;
use crate::live::{Class, Gang, Slot};
use crate::{GpuId, KindId, Needs, NodeId, Spread};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gather::Sizes;

/// Room on the nodes while a round is being planned.
#[derive(Clone, Default)]
pub(super) struct Seating {
    /// Whether a GPU is still free for this round's plan.
    free: Vec<bool>,
    /// Free GPUs of each node.
    room: Vec<u32>,
    /// Nodes by kind and room: `by_room[kind][room]`, for best fit in constant time.
    by_room: Vec<Vec<Vec<NodeId>>>,
    /// Position of each node in its list of `by_room`.
    position: Vec<u32>,
    /// The job that was kept on each GPU, so that a larger gang can evict it.
    kept: Vec<Slot>,
    /// What the nodes of each kind could hold.
    sizes: Vec<Sizes>,
    /// CPUs and memory left.
    pub(super) host: HostRoom,
    /// Jobs (alone or two that were to share a GPU) for which no node had enough CPUs and memory.
    pub(super) unseated: Vec<(Slot, Option<Slot>, KindId)>,
}

const NONE: Slot = Slot::MAX;

/// A gang that needs GPUs; the largest comes first, then the smaller slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Unplaced {
    gang: u32,
    slot: Reverse<Slot>,
    /// Of the GPUs that it needs.
    kind: KindId,
    /// As what it is to run: their kind, or a mode of it.
    mode: KindId,
}

impl Seating {
    /// Seats all jobs chosen. The quotas have made sure that there are enough GPUs of every kind.
    pub(super) fn seat(&mut self, view: &View<'_>, chosen: &[(Slot, KindId)], pairs: &[(Slot, Slot, KindId)]) -> Plan {
        self.reset(view);
        let mut plan = Plan { keep: Vec::with_capacity(chosen.len()), seats: Vec::new() };
        let mut unplaced = BinaryHeap::new();
        let mut apart = Vec::new();
        for &(a, b, kind) in pairs {
            match self.keep_pair(view, a, b, kind) {
                true => [a, b].into_iter().for_each(|slot| stay_as(view, slot, kind, &mut plan)),
                false => apart.push((a, b, kind)),
            }
        }
        for &(slot, mode) in chosen {
            let (job, kind) = (view.jobs.get(slot), view.cluster.sold_as(mode));
            match job.held_whole() {
                Some(gang) if view.cluster.sold_as(gang.kind) == kind && self.keep(view, slot, &gang.gpus) => {
                    if gang.kind != mode {
                        // Who stays in another mode stays: nobody evicts it in the same round.
                        gang.gpus.iter().for_each(|gpu| self.kept[gpu.index()] = NONE);
                    }
                    stay_as(view, slot, mode, &mut plan);
                }
                _ => unplaced.push(Unplaced { gang: job.gang(), slot: Reverse(slot), kind, mode }),
            }
        }
        if unplaced.is_empty() && apart.is_empty() && !self.any_apart(view, &plan) {
            return plan;
        }
        self.fill_by_room(view);
        for (a, b, kind) in apart {
            self.seat_pair(view, a, b, kind, &mut plan);
        }
        self.consolidate(view, &mut plan, &mut unplaced);
        while let Some(next) = unplaced.pop() {
            match self.find(view, next, &mut plan, &mut unplaced) {
                Some((gpus, spread)) => plan.seats.push(Seat { job: next.slot.0, kind: next.mode, gpus, spread }),
                None => self.unseated.push((next.slot.0, None, next.mode)),
            }
        }
        assert!(self.unseated.is_empty() || self.host.counts(), "only CPUs and memory can be short");
        let unseated: usize = self.unseated.iter().map(|(_, partner, _)| 1 + usize::from(partner.is_some())).sum();
        let jobs = chosen.len() + 2 * pairs.len() - unseated;
        assert_eq!(plan.keep.len() + plan.seats.len(), jobs, "the quotas leave a seat for every job chosen");
        plan
    }

    fn reset(&mut self, view: &View<'_>) {
        view.host_room(&mut self.host);
        self.unseated.clear();
        self.free.clear();
        self.free.extend_from_slice(view.usable);
        self.kept.clear();
        self.kept.resize(view.usable.len(), NONE);
        self.room.clear();
        self.room.extend(view.cluster.nodes().iter().map(|n| {
            let usable = &view.usable[n.gpu_range().start as usize..n.gpu_range().end as usize];
            usable.iter().filter(|&&u| u).count() as u32
        }));
    }

    fn fill_by_room(&mut self, view: &View<'_>) {
        self.measure(view);
        self.by_room.resize_with(view.cluster.kinds().len(), Vec::new);
        self.position.resize(view.cluster.nodes().len(), 0);
        for nodes in self.by_room.iter_mut().flatten() {
            nodes.clear();
        }
        for (n, node) in view.cluster.nodes().iter().enumerate() {
            let by_room = &mut self.by_room[node.kind.index()];
            if by_room.len() <= node.gpus as usize {
                by_room.resize_with(node.gpus as usize + 1, Vec::new);
            }
            let nodes = &mut by_room[self.room[n] as usize];
            self.position[n] = nodes.len() as u32;
            nodes.push(NodeId(n as u32));
        }
    }

    /// Keeps a gang where it is unless one of its GPUs is gone or shared with somebody else.
    fn keep(&mut self, view: &View<'_>, slot: Slot, gpus: &[GpuId]) -> bool {
        if !gpus.iter().all(|g| self.free[g.index()]) || !self.take_host(view, slot, gpus) {
            return false;
        }
        for &gpu in gpus {
            self.free[gpu.index()] = false;
            self.kept[gpu.index()] = slot;
            self.room[view.cluster.node_of(gpu).index()] -= 1;
        }
        true
    }

    fn keep_pair(&mut self, view: &View<'_>, a: Slot, b: Slot, kind: KindId) -> bool {
        let held = |slot: Slot| held_on(view, slot, kind).map(|gang| gang.gpus[0]);
        match (held(a), held(b)) {
            (Some(x), Some(y)) if x == y && self.free[x.index()] && self.take_host_pair(view, a, b, x) => {
                self.free[x.index()] = false;
                self.room[view.cluster.node_of(x).index()] -= 1;
                true
            }
            _ => false,
        }
    }

    /// A pair that does not share a GPU yet: one stays where it is if it can, the other joins it.
    fn seat_pair(&mut self, view: &View<'_>, a: Slot, b: Slot, kind: KindId, plan: &mut Plan) {
        for (stays, joins) in [(a, b), (b, a)] {
            let Some(gang) = held_on(view, stays, kind) else { continue };
            let gpu = gang.gpus[0];
            if self.free[gpu.index()] && self.take_host_pair(view, stays, joins, gpu) {
                self.take(view, gpu);
                stay_as(view, stays, kind, plan);
                plan.seats.push(Seat { job: joins, kind, gpus: vec![gpu], spread: Spread::Packed });
                return;
            }
        }
        let (needs, others) = (needs_of(view, a), needs_of(view, b));
        let both = Needs {
            cpus_per_gpu: needs.cpus_per_gpu + others.cpus_per_gpu,
            memory_gib_per_gpu: needs.memory_gib_per_gpu + others.memory_gib_per_gpu,
            ..*needs
        };
        match self.fit_one_node(view, view.cluster.sold_as(kind), 1, &both) {
            Some(gpus) => {
                plan.seats.push(Seat { job: a, kind, gpus: gpus.clone(), spread: Spread::Packed });
                plan.seats.push(Seat { job: b, kind, gpus, spread: Spread::Packed });
            }
            None => self.unseated.push((a, Some(b), kind)),
        }
    }

    /// CPUs and memory for a gang, if its nodes have them.
    fn take_host(&mut self, view: &View<'_>, slot: Slot, gpus: &[GpuId]) -> bool {
        self.host.take_gang(view.cluster, needs_of(view, slot), gpus).is_ok()
    }

    fn give_host_back(&mut self, view: &View<'_>, slot: Slot, gpus: &[GpuId]) {
        self.host.give_gang_back(view.cluster, needs_of(view, slot), gpus);
    }

    fn take_host_pair(&mut self, view: &View<'_>, a: Slot, b: Slot, gpu: GpuId) -> bool {
        if !self.take_host(view, a, &[gpu]) {
            return false;
        }
        let both = self.take_host(view, b, &[gpu]);
        if !both {
            self.give_host_back(view, a, &[gpu]);
        }
        both
    }

    /// Marks a free GPU as taken.
    fn take(&mut self, view: &View<'_>, gpu: GpuId) {
        self.free[gpu.index()] = false;
        let node = view.cluster.node_of(gpu);
        self.set_room(view, node, self.room[node.index()] - 1);
    }

    fn set_room(&mut self, view: &View<'_>, node: NodeId, room: u32) {
        let kind = view.cluster.node(node).kind.index();
        let (old, position) = (self.room[node.index()] as usize, self.position[node.index()] as usize);
        let nodes = &mut self.by_room[kind][old];
        nodes.swap_remove(position);
        if let Some(moved) = nodes.get(position) {
            self.position[moved.index()] = position as u32;
        }
        let nodes = &mut self.by_room[kind][room as usize];
        self.position[node.index()] = nodes.len() as u32;
        nodes.push(node);
        self.room[node.index()] = room;
    }

    /// Takes `count` free GPUs of a node.
    fn take_from(&mut self, view: &View<'_>, node: NodeId, count: u32, gpus: &mut Vec<GpuId>) {
        let free = &mut self.free;
        let range = view.cluster.node(node).gpu_range();
        gpus.extend(range.filter(|&g| std::mem::take(&mut free[g as usize])).take(count as usize).map(GpuId));
        self.set_room(view, node, self.room[node.index()] - count);
    }

    /// The node with least room that holds `gang` GPUs of a job with these needs.
    fn one_node(&self, kind: KindId, gang: u32, needs: &Needs) -> Option<NodeId> {
        let by_room = &self.by_room[kind.index()];
        let enough = |node: &&NodeId| self.host.gpus(**node, needs) >= gang;
        by_room.iter().skip(gang as usize).find_map(|nodes| nodes.iter().rev().find(enough)).copied()
    }

    fn fit_one_node(&mut self, view: &View<'_>, kind: KindId, gang: u32, needs: &Needs) -> Option<Vec<GpuId>> {
        let node = self.one_node(kind, gang, needs)?;
        let mut gpus = Vec::with_capacity(gang as usize);
        self.take_from(view, node, gang, &mut gpus);
        self.host.take(node, needs, gang);
        Some(gpus)
    }

    /// Gives GPUs that are still free to whoever fits on them, least service first: those whose quota they were do not. So many of each kind as are `withheld` stay
    /// free; a policy that keeps all free that it leaves free has only those without a seat given another.
    pub(super) fn fill(&mut self, view: &View<'_>, thrift: &Thrift, withheld: &[u32], plan: &mut Plan) {
        let had_quota = |slot: Slot| self.unseated.iter().any(|&(a, b, _)| a == slot || b == Some(slot));
        let mut planned = vec![false; view.jobs.slots()];
        let slots = plan.keep.iter().copied().chain(plan.seats.iter().map(|seat| seat.job));
        slots.for_each(|slot| planned[slot as usize] = true);
        let idle =
            view.jobs.iter().map(|(slot, _)| slot).filter(|&slot| !planned[slot as usize] && view.plannable(slot));
        let idle = idle.filter(|&slot| view.free_gpus != FreeGpus::Kept || had_quota(slot));
        let mut idle: Vec<(f64, Slot)> = idle.map(|slot| (service(view, slot, None), slot)).collect();
        idle.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let sold_as = view.sold_as();
        // Free GPUs of each kind that may be given away.
        let mut spare = vec![0; sold_as.len()];
        self.room.iter().zip(view.cluster.nodes()).for_each(|(room, node)| spare[node.kind.index()] += room);
        spare.iter_mut().zip(withheld).for_each(|(spare, withheld)| *spare = spare.saturating_sub(*withheld));
        for (_, job) in idle {
            if let Some(gang) = view.jobs.get(job).held_whole()
                && gang.gpus.iter().all(|g| self.free[g.index()])
                && spare[sold_as[gang.kind.index()]] as usize >= gang.gpus.len()
                && self.take_host(view, job, &gang.gpus)
            {
                spare[sold_as[gang.kind.index()]] -= gang.gpus.len() as u32;
                gang.gpus.iter().for_each(|&gpu| self.take(view, gpu));
                plan.keep.push(job);
                continue;
            }
            let (class, needs) = (class_of(view, job), needs_of(view, job));
            let fits = class
                .fastest_first
                .iter()
                .copied()
                .filter(|&kind| class.rates[kind.index()] > 0.0 && !view.cluster.kind(kind).is_mode());
            for kind in fits {
                if spare[kind.index()] >= class.gang
                    && let Some(fit) = self.fit(view, kind, class.gang, needs)
                {
                    let gpus = self.take_fit(view, &fit, needs);
                    spare[kind.index()] -= class.gang;
                    let mode = thrift.mode(view.jobs.get(job).class, kind.index(), &sold_as, &class.rates);
                    plan.seats.push(Seat { job, kind: KindId(mode as u16), gpus, spread: fit.spread });
                    break;
                }
            }
        }
    }
}

/// The gang that a job holds on GPUs of the kind, in whatever mode.
fn held_on<'a>(view: &View<'a>, slot: Slot, kind: KindId) -> Option<&'a Gang> {
    let same = |gang: &&Gang| view.cluster.sold_as(gang.kind) == view.cluster.sold_as(kind);
    view.jobs.get(slot).held_whole().filter(same)
}

/// Plans that a job goes on where it is, in the mode that it is in or in another.
fn stay_as(view: &View<'_>, job: Slot, kind: KindId, plan: &mut Plan) {
    let gang = view.jobs.get(job).phase.held().expect("who stays holds GPUs");
    if gang.kind == kind {
        plan.keep.push(job);
    } else {
        plan.seats.push(Seat { job, kind, gpus: gang.gpus.clone(), spread: gang.spread });
    }
}

fn needs_of<'a>(view: &View<'a>, slot: Slot) -> &'a Needs {
    &view.jobs.get(slot).spec.needs
}

fn class_of<'a>(view: &View<'a>, slot: Slot) -> &'a Class {
    &view.classes[&view.jobs.get(slot).class]
}
