//! Keeping gangs together, at every level: GPUs of one node, nodes of one rack, as few racks as possible.
//!
//! A gang that fits on one node takes the one with the least room that holds it. A larger one takes the rack where it needs fewest nodes,
//! and of these the one with the least room: its roomiest nodes, and for the rest of the gang the node that the rest fits best. What fits into
//! no rack is spread over those with most room.
//!
//! A gang that would be apart, or that runs apart, may evict smaller ones to come nearer together. What that gains is the time that its
//! remaining work would take less, on all its GPUs; what it costs is the restarts, its own too if it runs, and for a gang that finds
//! no other place in one piece what *that* one loses. It is done where the gain is larger.

use super::{Plan, Seating, Unplaced, View, class_of, needs_of};
use crate::live::Slot;
use crate::{GpuId, KindId, Needs, NodeId, Spread};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the nodes of a kind could hold if they were empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sizes {
    /// GPUs of the largest node.
    node: u32,
    /// GPUs of the fullest rack.
    rack: u32,
}

/// Where a gang could go: GPUs on each node.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Fit {
    parts: Vec<(NodeId, u32)>,
    pub(super) spread: Spread,
}

/// Nodes of one rack that have room, most room first.
struct RackRoom {
    total: u32,
    nodes: Vec<(u32, NodeId)>,
}

impl RackRoom {
    /// How many nodes hold `gang` GPUs, which they do all together.
    fn nodes_for(&self, gang: u32) -> usize {
        let sums = self.nodes.iter().scan(0, |sum, (room, _)| {
            *sum += room;
            Some(*sum)
        });
        1 + sums.take_while(|&sum| sum < gang).count()
    }

    /// The roomiest nodes, and the one that the rest of the gang fits best.
    fn take(&self, gang: u32, parts: &mut Vec<(NodeId, u32)>) {
        let (mut rest, last) = (gang, self.nodes_for(gang) - 1);
        for &(room, node) in &self.nodes[..last] {
            parts.push((node, room));
            rest -= room;
        }
        let best = self.nodes[last..].iter().rev().find(|(room, _)| *room >= rest).expect("there is enough room");
        parts.push((best.1, rest));
    }
}

/// A way to make room: whom to evict, and what that costs in GPU seconds.
struct Eviction {
    cost: f64,
    victims: Vec<Slot>,
}

impl Seating {
    /// What every kind's nodes and racks could hold.
    pub(super) fn measure(&mut self, view: &View<'_>) {
        let kinds = view.cluster.kinds().len();
        self.sizes.clear();
        self.sizes.resize(kinds, Sizes::default());
        let racks = view.cluster.racks().len() + 1;
        let mut in_rack = vec![0; kinds * racks];
        for (_, node) in view.cluster.present() {
            let size = &mut self.sizes[node.kind.index()];
            size.node = size.node.max(node.gpus);
            let gpus = &mut in_rack[node.kind.index() * racks + rack(node.rack)];
            *gpus += node.gpus;
            size.rack = size.rack.max(*gpus);
        }
    }

    /// The best place for a gang among the GPUs that are free.
    pub(super) fn fit(&self, view: &View<'_>, kind: KindId, gang: u32, needs: &Needs) -> Option<Fit> {
        if let Some(node) = self.one_node(kind, gang, needs) {
            return Some(Fit { parts: vec![(node, gang)], spread: Spread::Packed });
        }
        if gang == 1 {
            return None;
        }
        let mut racks = self.racks_with_room(view, kind, needs);
        let mut parts = Vec::new();
        let enough = racks.iter().filter(|rack| rack.total >= gang);
        if let Some(best) = enough.min_by_key(|rack| (rack.nodes_for(gang), rack.total)) {
            best.take(gang, &mut parts);
        } else {
            racks.sort_by_key(|rack| Reverse(rack.total));
            let mut rest = gang;
            for rack in &racks {
                let here = rest.min(rack.total);
                rack.take(here, &mut parts);
                rest -= here;
                if rest == 0 {
                    break;
                }
            }
            if rest > 0 {
                return None;
            }
        }
        let spread = self.level(view, kind, gang, parts.iter().map(|&(node, _)| node));
        Some(Fit { parts, spread })
    }

    fn racks_with_room(&self, view: &View<'_>, kind: KindId, needs: &Needs) -> Vec<RackRoom> {
        let mut racks: Vec<RackRoom> = Vec::new();
        racks.resize_with(view.cluster.racks().len() + 1, || RackRoom { total: 0, nodes: Vec::new() });
        for &node in self.by_room[kind.index()].iter().skip(1).flatten() {
            let room = self.room[node.index()].min(self.host.gpus(node, needs));
            if room > 0 {
                let rack = &mut racks[rack(view.cluster.node(node).rack)];
                rack.total += room;
                rack.nodes.push((room, node));
            }
        }
        racks.retain(|rack| rack.total > 0);
        racks.iter_mut().for_each(|rack| rack.nodes.sort_unstable_by_key(|&(room, node)| (Reverse(room), node)));
        racks
    }

    /// How far apart a gang on these nodes is.
    fn level(&self, view: &View<'_>, kind: KindId, gang: u32, nodes: impl Iterator<Item = NodeId>) -> Spread {
        let mut nodes: Vec<NodeId> = nodes.collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut racks: Vec<usize> = nodes.iter().map(|&node| rack(view.cluster.node(node).rack)).collect();
        racks.sort_unstable();
        racks.dedup();
        let sizes = self.sizes[kind.index()];
        if racks.len() > gang.div_ceil(sizes.rack.max(1)) as usize {
            Spread::Racks
        } else if nodes.len() > gang.div_ceil(sizes.node.max(1)) as usize {
            Spread::Nodes
        } else {
            Spread::Packed
        }
    }

    /// Takes the GPUs of a fit.
    pub(super) fn take_fit(&mut self, view: &View<'_>, fit: &Fit, needs: &Needs) -> Vec<GpuId> {
        let mut gpus = Vec::with_capacity(fit.parts.iter().map(|part| part.1 as usize).sum());
        for &(node, count) in &fit.parts {
            self.take_from(view, node, count, &mut gpus);
            self.host.take(node, needs, count);
        }
        gpus
    }

    /// GPUs for a gang that has none, and how far apart they are; none if there are not enough.
    pub(super) fn find(
        &mut self,
        view: &View<'_>,
        who: Unplaced,
        plan: &mut Plan,
        unplaced: &mut BinaryHeap<Unplaced>,
    ) -> Option<(Vec<GpuId>, Spread)> {
        let needs = needs_of(view, who.slot.0);
        let mut fit = self.fit(view, who.kind, who.gang, needs);
        if who.gang > 1 && fit.as_ref().is_none_or(|fit| fit.spread.apart()) {
            let at = fit.as_ref().map_or(Spread::Racks, |fit| fit.spread);
            if let Some(victims) = self.worth_evicting(view, who, at, 0.0) {
                self.evict(view, &victims, plan, unplaced);
                fit = self.fit(view, who.kind, who.gang, needs);
            }
        }
        let fit = fit?;
        Some((self.take_fit(view, &fit, needs), fit.spread))
    }

    /// Whom to evict so that a gang that is, or would be, apart at level `at` comes nearer together, if that is worth more than it costs;
    /// `price` is what the gang itself would pay.
    fn worth_evicting(&self, view: &View<'_>, who: Unplaced, at: Spread, price: f64) -> Option<Vec<Slot>> {
        let levels = Spread::ALL.into_iter().filter(|level| *level < at);
        let mut best: Option<(f64, Vec<Slot>)> = None;
        for level in levels {
            let gain = gain(view, who.slot.0, who.mode, at, level) - price;
            if gain <= best.as_ref().map_or(0.0, |best| best.0) {
                continue;
            }
            let eviction = match level {
                Spread::Packed => self.room_on_nodes(view, who),
                Spread::Nodes | Spread::Racks => self.room_in_rack(view, who),
            };
            if let Some(Eviction { cost, victims }) = eviction
                && gain - cost > best.as_ref().map_or(0.0, |best| best.0)
            {
                best = Some((gain - cost, victims));
            }
        }
        best.map(|(_, victims)| victims)
    }

    /// The cheapest way to empty as few nodes of one rack as the gang needs.
    fn room_on_nodes(&self, view: &View<'_>, who: Unplaced) -> Option<Eviction> {
        let size = self.sizes[who.kind.index()].node.max(1);
        let whole = who.gang.div_ceil(size) - 1;
        let rest = who.gang - whole * size;
        let mut costs: Vec<(usize, f64, f64, NodeId)> = Vec::new();
        for (id, node) in view.cluster.present().filter(|(_, node)| node.kind == who.kind && node.gpus >= rest) {
            let part = self.room_on(view, who, id, rest).map(|eviction| eviction.cost);
            let Some(part) = part else { continue };
            let all = if whole > 0 { self.room_on(view, who, id, size).map(|eviction| eviction.cost) } else { None };
            costs.push((rack(node.rack), all.unwrap_or(f64::INFINITY), part, id));
        }
        costs.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)).then(a.3.cmp(&b.3)));
        let racks = costs.chunk_by(|a, b| a.0 == b.0).filter(|nodes| nodes.len() > whole as usize);
        let sets = racks.map(|nodes| {
            let (emptied, others) = nodes.split_at(whole as usize);
            let last = others.iter().min_by(|a, b| a.2.total_cmp(&b.2).then(a.3.cmp(&b.3))).expect("one more node");
            (emptied.iter().map(|node| node.1).sum::<f64>() + last.2, emptied, last)
        });
        let (cost, emptied, last) = sets.filter(|set| set.0.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0))?;
        let rooms = emptied.iter().map(|node| (node.3, size)).chain([(last.3, rest)]);
        let mut victims: Vec<Slot> = rooms
            .flat_map(|(node, gpus)| self.room_on(view, who, node, gpus).map_or(Vec::new(), |e| e.victims))
            .collect();
        victims.sort_unstable();
        victims.dedup();
        (!victims.is_empty()).then_some(Eviction { cost, victims })
    }

    /// The cheapest way to have `gpus` free GPUs on a node: nobody, or smaller gangs.
    fn room_on(&self, view: &View<'_>, who: Unplaced, node: NodeId, gpus: u32) -> Option<Eviction> {
        let needs = needs_of(view, who.slot.0);
        let (room, host) = (self.room[node.index()], self.host.gpus(node, needs));
        if room >= gpus && host >= gpus {
            return Some(Eviction { cost: 0.0, victims: Vec::new() });
        }
        let range = view.cluster.node(node).gpu_range();
        let movable = self.movable(view, who, range.clone().map(GpuId));
        let here = |slot: Slot| {
            let held = view.jobs.get(slot).phase.held().expect("kept gangs are held");
            held.gpus.iter().filter(|gpu| range.contains(&gpu.0)).count() as u32
        };
        let (mut free, mut cost) = (room, 0.0);
        let needed = movable.iter().enumerate().position(|(at, &(price, victim))| {
            free += here(victim);
            cost += price;
            let leaving = movable[..=at].iter().map(|&(_, v)| (needs_of(view, v), here(v)));
            free >= gpus && (!self.host.counts() || self.host.gpus_without(node, needs, leaving) >= gpus)
        })?;
        Some(Eviction { cost, victims: movable[..=needed].iter().map(|&(_, victim)| victim).collect() })
    }

    /// The cheapest way to have room for the whole gang in one rack. (Where CPUs and memory are counted, room is more than GPUs; there a
    /// rack is not emptied for somebody who may not fit after all.)
    fn room_in_rack(&self, view: &View<'_>, who: Unplaced) -> Option<Eviction> {
        if self.host.counts() {
            return None;
        }
        let racks = (0..=view.cluster.racks().len()).map(|at| {
            let of_rack = view.cluster.present().filter(|(_, node)| node.kind == who.kind && rack(node.rack) == at);
            let nodes: Vec<NodeId> = of_rack.map(|(id, _)| id).collect();
            let mut free: u32 = nodes.iter().map(|node| self.room[node.index()]).sum();
            let gpus = nodes.iter().flat_map(|&node| view.cluster.node(node).gpu_range().map(GpuId));
            let (mut cost, mut victims) = (0.0, Vec::new());
            for (price, victim) in self.movable(view, who, gpus) {
                if free >= who.gang {
                    break;
                }
                free += view.jobs.get(victim).gang();
                cost += price;
                victims.push(victim);
            }
            (free >= who.gang).then_some(Eviction { cost, victims })
        });
        let cheapest = racks.flatten().min_by(|a, b| a.cost.total_cmp(&b.cost))?;
        (!cheapest.victims.is_empty()).then_some(cheapest)
    }

    /// Smaller gangs that the plan keeps on these GPUs, with the price of evicting each, cheapest first.
    fn movable(&self, view: &View<'_>, who: Unplaced, gpus: impl Iterator<Item = GpuId>) -> Vec<(f64, Slot)> {
        let mut slots: Vec<Slot> = gpus.map(|gpu| self.kept[gpu.index()]).filter(|&slot| slot != super::NONE).collect();
        slots.sort_unstable();
        slots.dedup();
        slots.retain(|&slot| view.jobs.get(slot).gang() < who.gang);
        let mut movable: Vec<(f64, Slot)> =
            slots.iter().map(|&slot| (self.price(view, slot, who.kind), slot)).collect();
        movable.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        movable
    }

    /// What it costs to evict a gang, in GPU seconds: its restart, and what it loses if no node has room for it in one piece.
    fn price(&self, view: &View<'_>, slot: Slot, kind: KindId) -> f64 {
        let (spec, gang) = (&view.jobs.get(slot).spec, view.jobs.get(slot).gang());
        let restart = spec.restart_seconds * f64::from(gang);
        if gang == 1 || self.one_node(kind, gang, &spec.needs).is_some() {
            return restart;
        }
        restart + gain(view, slot, kind, Spread::Nodes, Spread::Packed)
    }

    fn evict(&mut self, view: &View<'_>, victims: &[Slot], plan: &mut Plan, unplaced: &mut BinaryHeap<Unplaced>) {
        for &victim in victims {
            let held = view.jobs.get(victim).phase.held().expect("kept gangs are held");
            self.let_go(view, victim, &held.gpus);
            let (gang, kind) = (held.gpus.len() as u32, view.cluster.sold_as(held.kind));
            unplaced.push(Unplaced { gang, slot: Reverse(victim), kind, mode: held.kind });
        }
        plan.keep.retain(|slot| !victims.contains(slot));
    }

    /// A kept gang no longer keeps its GPUs.
    fn let_go(&mut self, view: &View<'_>, slot: Slot, gpus: &[GpuId]) {
        self.give_host_back(view, slot, gpus);
        for &gpu in gpus {
            let node = view.cluster.node_of(gpu);
            self.free[gpu.index()] = true;
            self.kept[gpu.index()] = super::NONE;
            self.set_room(view, node, self.room[node.index()] + 1);
        }
    }

    pub(super) fn any_apart(&self, view: &View<'_>, plan: &Plan) -> bool {
        plan.keep.iter().any(|&slot| view.jobs.get(slot).phase.held().is_some_and(|gang| gang.spread.apart()))
    }

    /// Moves running gangs that are apart nearer together where that pays for their restart: those first that lose most.
    pub(super) fn consolidate(&mut self, view: &View<'_>, plan: &mut Plan, unplaced: &mut BinaryHeap<Unplaced>) {
        let mut apart: Vec<(f64, Slot)> = Vec::new();
        for &slot in &plan.keep {
            let job = view.jobs.get(slot);
            let Some(gang) = job.phase.held().filter(|gang| gang.spread.apart()) else { continue };
            let own = job.spec.restart_seconds * f64::from(job.gang());
            let most = gain(view, slot, gang.kind, gang.spread, Spread::Packed) - own;
            if most > 0.0 {
                apart.push((most, slot));
            }
        }
        apart.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, slot) in apart {
            // Somebody larger may have evicted it meanwhile.
            if plan.keep.contains(&slot) {
                self.bring_together(view, slot, plan, unplaced);
            }
        }
    }

    fn bring_together(&mut self, view: &View<'_>, slot: Slot, plan: &mut Plan, unplaced: &mut BinaryHeap<Unplaced>) {
        let job = view.jobs.get(slot);
        let gang = job.phase.held().expect("kept gangs are held");
        let own = job.spec.restart_seconds * f64::from(job.gang());
        let kind = view.cluster.sold_as(gang.kind);
        let who = Unplaced { gang: job.gang(), slot: Reverse(slot), kind, mode: gang.kind };
        // Its own GPUs are part of where it may go.
        self.let_go(view, slot, &gang.gpus);
        let worth = |fit: &Fit| gain(view, slot, gang.kind, gang.spread, fit.spread) > own;
        let mut fit = self.fit(view, kind, who.gang, &job.spec.needs).filter(worth);
        if fit.as_ref().is_none_or(|fit| fit.spread.apart()) {
            let (at, price) = fit.as_ref().map_or((gang.spread, own), |fit| (fit.spread, 0.0));
            if let Some(victims) = self.worth_evicting(view, who, at, price) {
                self.evict(view, &victims, plan, unplaced);
                fit = self.fit(view, kind, who.gang, &job.spec.needs).filter(worth);
            }
        }
        match fit {
            Some(fit) => {
                let gpus = self.take_fit(view, &fit, &job.spec.needs);
                plan.keep.retain(|&kept| kept != slot);
                plan.seats.push(super::Seat { job: slot, kind: gang.kind, gpus, spread: fit.spread });
            }
            None => self.stay(view, slot, &gang.gpus),
        }
    }

    /// A gang that was let go keeps its GPUs after all.
    fn stay(&mut self, view: &View<'_>, slot: Slot, gpus: &[GpuId]) {
        let fits = self.take_host(view, slot, gpus);
        assert!(fits, "what it gave back is still there");
        for &gpu in gpus {
            self.take(view, gpu);
            self.kept[gpu.index()] = slot;
        }
    }
}

/// The place of a rack among all; that of nodes without one is the first.
fn rack(rack: Option<crate::RackId>) -> usize {
    rack.map_or(0, |rack| rack.index() + 1)
}

/// GPU seconds that a job's remaining work takes less at level `to` than at level `from`.
fn gain(view: &View<'_>, slot: Slot, kind: KindId, from: Spread, to: Spread) -> f64 {
    let (job, class) = (view.jobs.get(slot), class_of(view, slot));
    let (slow, fast) = (class.rate(kind, from), class.rate(kind, to));
    if !(slow > 0.0 && fast > slow) {
        return 0.0;
    }
    let (_, left) = job.progress(class.best_rate());
    left * (1.0 / slow - 1.0 / fast) * f64::from(job.gang())
}
