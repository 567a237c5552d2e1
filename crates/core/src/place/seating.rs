//! Which GPUs: gangs stay where they are, the others get as few nodes as possible, larger gangs first.
//!
//! A gang that must be placed takes the node with the least room that holds it whole (best fit, so that
//! large holes stay large). If there is none it may push smaller gangs off a node, when what it would lose by
//! being spread outweighs their restarts; else it spreads over the nodes with most room. A running gang that
//! is spread moves together once a node has room and the gain pays for its restart.

use super::quota::HORIZON_SECONDS;
use super::{Placement, Seat, View};
use crate::live::{Class, Slot};
use crate::{GpuId, KindId, NodeId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Room on the nodes while a round is being planned.
#[derive(Clone, Default)]
pub(super) struct Seating {
    /// Whether a GPU is still free for this round's plan.
    free: Vec<bool>,
    /// Free GPUs of each node.
    room: Vec<u32>,
    /// Nodes by kind and room: `shelves[kind][room]`, for best fit in constant time.
    shelves: Vec<Vec<Vec<NodeId>>>,
    /// Position of each node on its shelf.
    shelf_position: Vec<u32>,
    /// Who was kept on each GPU, so that a larger gang can push it off.
    kept: Vec<Slot>,
}

const NONE: Slot = Slot::MAX;

/// A gang that needs a place; the largest comes first, then whoever has the lesser slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Homeless {
    gang: u32,
    slot: Reverse<Slot>,
    kind: KindId,
}

impl Seating {
    /// Seats everybody chosen. The quotas have made sure that there are enough GPUs of every kind.
    pub(super) fn seat(
        &mut self,
        view: &View<'_>,
        chosen: &[(Slot, KindId)],
        couples: &[(Slot, Slot, KindId)],
    ) -> Placement {
        self.reset(view);
        let mut placement = Placement { keep: Vec::with_capacity(chosen.len()), seats: Vec::new() };
        let mut homeless = BinaryHeap::new();
        let mut parted = Vec::new();
        for &(a, b, kind) in couples {
            match self.keep_couple(view, a, b, kind) {
                true => placement.keep.extend([a, b]),
                false => parted.push((a, b, kind)),
            }
        }
        for &(slot, kind) in chosen {
            let job = view.jobs.get(slot);
            match job.phase.held() {
                Some(gang) if gang.kind == kind && self.keep(view, slot, &gang.gpus) => placement.keep.push(slot),
                _ => homeless.push(Homeless { gang: job.spec.gang, slot: Reverse(slot), kind }),
            }
        }
        if homeless.is_empty() && parted.is_empty() && !self.any_spread(view, &placement) {
            return placement;
        }
        self.fill_shelves(view);
        for (a, b, kind) in parted {
            self.seat_couple(view, a, b, kind, &mut placement);
        }
        self.gather_spread(view, &mut placement);
        while let Some(next) = homeless.pop() {
            let (gpus, spread) = self.find(view, next, &mut placement, &mut homeless);
            if gpus.len() == next.gang as usize {
                placement.seats.push(Seat { job: next.slot.0, kind: next.kind, gpus, spread });
            }
        }
        placement
    }

    fn reset(&mut self, view: &View<'_>) {
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

    fn fill_shelves(&mut self, view: &View<'_>) {
        self.shelves.resize_with(view.cluster.kinds().len(), Vec::new);
        self.shelf_position.resize(view.cluster.nodes().len(), 0);
        for shelf in self.shelves.iter_mut().flatten() {
            shelf.clear();
        }
        for (n, node) in view.cluster.nodes().iter().enumerate() {
            let shelves = &mut self.shelves[node.kind.index()];
            if shelves.len() <= node.gpus as usize {
                shelves.resize_with(node.gpus as usize + 1, Vec::new);
            }
            let shelf = &mut shelves[self.room[n] as usize];
            self.shelf_position[n] = shelf.len() as u32;
            shelf.push(NodeId(n as u32));
        }
    }

    /// Keeps a gang where it is unless one of its GPUs is gone or shared with somebody else.
    fn keep(&mut self, view: &View<'_>, slot: Slot, gpus: &[GpuId]) -> bool {
        if !gpus.iter().all(|g| self.free[g.index()]) {
            return false;
        }
        for &gpu in gpus {
            self.free[gpu.index()] = false;
            self.kept[gpu.index()] = slot;
            self.room[view.cluster.node_of(gpu).index()] -= 1;
        }
        true
    }

    fn keep_couple(&mut self, view: &View<'_>, a: Slot, b: Slot, kind: KindId) -> bool {
        let held = |slot: Slot| view.jobs.get(slot).phase.held().filter(|g| g.kind == kind).map(|g| g.gpus[0]);
        match (held(a), held(b)) {
            (Some(x), Some(y)) if x == y && self.free[x.index()] => {
                self.free[x.index()] = false;
                self.room[view.cluster.node_of(x).index()] -= 1;
                true
            }
            _ => false,
        }
    }

    /// A couple that is not together yet: the host stays if it can, the guest joins it.
    fn seat_couple(&mut self, view: &View<'_>, a: Slot, b: Slot, kind: KindId, placement: &mut Placement) {
        for (host, guest) in [(a, b), (b, a)] {
            let Some(gang) = view.jobs.get(host).phase.held().filter(|g| g.kind == kind) else { continue };
            let gpu = gang.gpus[0];
            if self.free[gpu.index()] {
                self.take(view, gpu);
                placement.keep.push(host);
                placement.seats.push(Seat { job: guest, kind, gpus: vec![gpu], spread: false });
                return;
            }
        }
        if let Some(gpus) = self.fit_one_node(view, kind, 1) {
            placement.seats.push(Seat { job: a, kind, gpus: gpus.clone(), spread: false });
            placement.seats.push(Seat { job: b, kind, gpus, spread: false });
        }
    }

    /// Marks a free GPU as taken and re-shelves its node.
    fn take(&mut self, view: &View<'_>, gpu: GpuId) {
        self.free[gpu.index()] = false;
        let node = view.cluster.node_of(gpu);
        self.reshelve(view, node, self.room[node.index()] - 1);
    }

    fn reshelve(&mut self, view: &View<'_>, node: NodeId, room: u32) {
        let kind = view.cluster.node(node).kind.index();
        let (old, position) = (self.room[node.index()] as usize, self.shelf_position[node.index()] as usize);
        let shelf = &mut self.shelves[kind][old];
        shelf.swap_remove(position);
        if let Some(moved) = shelf.get(position) {
            self.shelf_position[moved.index()] = position as u32;
        }
        let shelf = &mut self.shelves[kind][room as usize];
        self.shelf_position[node.index()] = shelf.len() as u32;
        shelf.push(node);
        self.room[node.index()] = room;
    }

    /// Takes `count` free GPUs of a node.
    fn take_from(&mut self, view: &View<'_>, node: NodeId, count: u32, gpus: &mut Vec<GpuId>) {
        let free = &mut self.free;
        let range = view.cluster.node(node).gpu_range();
        gpus.extend(range.filter(|&g| std::mem::take(&mut free[g as usize])).take(count as usize).map(GpuId));
        self.reshelve(view, node, self.room[node.index()] - count);
    }

    /// The node with least room that holds `gang` GPUs.
    fn fit_one_node(&mut self, view: &View<'_>, kind: KindId, gang: u32) -> Option<Vec<GpuId>> {
        let shelves = &self.shelves[kind.index()];
        let node = *shelves.iter().skip(gang as usize).find_map(|shelf| shelf.last())?;
        let mut gpus = Vec::with_capacity(gang as usize);
        self.take_from(view, node, gang, &mut gpus);
        Some(gpus)
    }

    /// GPUs for a gang, and whether they lie on more nodes than it needs.
    fn find(
        &mut self,
        view: &View<'_>,
        who: Homeless,
        placement: &mut Placement,
        homeless: &mut BinaryHeap<Homeless>,
    ) -> (Vec<GpuId>, bool) {
        let Homeless { gang, kind, .. } = who;
        if let Some(gpus) = self.fit_one_node(view, kind, gang) {
            return (gpus, false);
        }
        if gang > 1
            && self.push_off(view, who, placement, homeless)
            && let Some(gpus) = self.fit_one_node(view, kind, gang)
        {
            return (gpus, false);
        }
        let mut gpus = Vec::with_capacity(gang as usize);
        while gpus.len() < gang as usize {
            let shelves = &self.shelves[kind.index()];
            let Some(&node) = shelves.iter().skip(1).rev().find_map(|shelf| shelf.last()) else { break };
            let count = self.room[node.index()].min(gang - gpus.len() as u32);
            self.take_from(view, node, count, &mut gpus);
        }
        let spread = spans_too_many(view, kind, &gpus);
        (gpus, spread)
    }

    /// Makes room for a gang on one node by sending smaller gangs elsewhere, if that pays.
    fn push_off(
        &mut self,
        view: &View<'_>,
        who: Homeless,
        placement: &mut Placement,
        homeless: &mut BinaryHeap<Homeless>,
    ) -> bool {
        let Homeless { gang, slot, kind } = who;
        let class = class_of(view, slot.0);
        let (packed, spread) = (class.rates[kind.index()], class.spread_rates[kind.index()]);
        let gain = (1.0 - spread / packed) * f64::from(gang) * HORIZON_SECONDS;
        if gain <= 0.0 {
            return false;
        }
        let mut best: Option<(f64, NodeId)> = None;
        for (n, node) in view.cluster.nodes().iter().enumerate() {
            if node.kind != kind || node.gpus < gang {
                continue;
            }
            if let Some(cost) = self.cost_of_room(view, NodeId(n as u32), gang)
                && cost < gain
                && best.is_none_or(|(least, _)| cost < least)
            {
                best = Some((cost, NodeId(n as u32)));
            }
        }
        let Some((_, node)) = best else { return false };
        for (_, victim) in self.victims(view, node, gang) {
            let held = view.jobs.get(victim).phase.held().expect("kept gangs are held");
            for &gpu in &held.gpus {
                self.free[gpu.index()] = true;
                self.kept[gpu.index()] = NONE;
            }
            self.reshelve(view, node, self.room[node.index()] + held.gpus.len() as u32);
            let at = placement.keep.iter().position(|&k| k == victim).expect("victims were kept");
            placement.keep.swap_remove(at);
            homeless.push(Homeless { gang: held.gpus.len() as u32, slot: Reverse(victim), kind });
        }
        true
    }

    /// Smaller gangs wholly on `node`, cheapest first, whose leaving makes room for `gang` GPUs.
    fn victims(&self, view: &View<'_>, node: NodeId, gang: u32) -> Vec<(f64, Slot)> {
        let range = view.cluster.node(node).gpu_range();
        let mut movable: Vec<(f64, Slot)> = Vec::new();
        for gpu in range.clone() {
            let victim = self.kept[gpu as usize];
            if victim == NONE || movable.iter().any(|&(_, v)| v == victim) {
                continue;
            }
            let job = view.jobs.get(victim);
            let held = job.phase.held().expect("kept gangs are held");
            if job.spec.gang < gang && held.gpus.iter().all(|g| range.contains(&g.0)) {
                movable.push((job.spec.restart_seconds * f64::from(job.spec.gang), victim));
            }
        }
        movable.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut room = self.room[node.index()];
        let needed = movable.iter().position(|&(_, v)| {
            room += view.jobs.get(v).spec.gang;
            room >= gang
        });
        movable.truncate(needed.map_or(0, |n| n + 1));
        movable
    }

    fn cost_of_room(&self, view: &View<'_>, node: NodeId, gang: u32) -> Option<f64> {
        let victims = self.victims(view, node, gang);
        (!victims.is_empty()).then(|| victims.iter().map(|v| v.0).sum())
    }

    fn any_spread(&self, view: &View<'_>, placement: &Placement) -> bool {
        placement.keep.iter().any(|&slot| view.jobs.get(slot).phase.held().is_some_and(|g| g.spread))
    }

    /// Moves running gangs that are spread onto one node where there is room and the gain pays.
    fn gather_spread(&mut self, view: &View<'_>, placement: &mut Placement) {
        let spread = |slot: &Slot| view.jobs.get(*slot).phase.held().is_some_and(|g| g.spread);
        let candidates: Vec<Slot> = placement.keep.iter().copied().filter(spread).collect();
        for slot in candidates {
            let job = view.jobs.get(slot);
            let gang = job.phase.held().expect("kept gangs are held");
            let class = class_of(view, slot);
            let gain = class.rates[gang.kind.index()] / class.spread_rates[gang.kind.index()] - 1.0;
            if gain * HORIZON_SECONDS <= job.spec.restart_seconds {
                continue;
            }
            if let Some(gpus) = self.fit_one_node(view, gang.kind, job.spec.gang) {
                for &gpu in &gang.gpus {
                    let node = view.cluster.node_of(gpu);
                    self.free[gpu.index()] = true;
                    self.kept[gpu.index()] = NONE;
                    self.reshelve(view, node, self.room[node.index()] + 1);
                }
                placement.keep.retain(|&k| k != slot);
                placement.seats.push(Seat { job: slot, kind: gang.kind, gpus, spread: false });
            }
        }
    }
}

fn class_of<'a>(view: &View<'a>, slot: Slot) -> &'a Class {
    &view.classes[&view.jobs.get(slot).class]
}

/// Whether a gang spans more nodes than the largest nodes of its kind would need.
pub(crate) fn spans_too_many(view: &View<'_>, kind: KindId, gpus: &[GpuId]) -> bool {
    let largest = view.cluster.nodes().iter().filter(|n| n.kind == kind).map(|n| n.gpus).max().unwrap_or(1);
    let mut nodes: Vec<NodeId> = gpus.iter().map(|&g| view.cluster.node_of(g)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.len() > gpus.len().div_ceil(largest.max(1) as usize)
}
