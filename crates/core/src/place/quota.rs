//! How many gangs of each class run on each kind this round.
//!
//! Every grant has a *standing*: its share x and a deviation dev, in gangs. A round looks at t = x + dev:
//!
//!   1. *due*: whole gangs ⌊t⌋ first, then what remains, largest remainder first, while GPUs of the kind and
//!      jobs of the class last. Whatever is served is charged: dev = t − served. So in the long run the gangs
//!      served equal the share.
//!   2. *gifts*: GPUs that nobody is due go to classes with idle jobs, largest deviation first, uncharged, so
//!      that no GPU stays free while a job could use it.
//!   3. *upgrades*: gangs move from slower to faster kinds that would stay free, where that pays.
//!
//! A gang is served whole or not at all; a class that cannot be served keeps its claim in dev.

use super::View;
use crate::KindId;
use crate::allocate::{Allocation, ClassId, Members, Problem};

/// A grant and what is still owed on it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Claim {
    pub(super) first: ClassId,
    pub(super) second: Option<ClassId>,
    pub(super) kind: KindId,
    pub(super) share: f64,
    pub(super) dev: f64,
}

impl Claim {
    fn key(&self) -> (ClassId, Option<ClassId>, KindId) {
        (self.first, self.second, self.kind)
    }

    fn due(&self) -> f64 {
        self.share + self.dev
    }
}

/// Claims below this are rounding noise of a solver.
const NOISE: f64 = 1e-7;
/// Deviations are kept within this many gangs beyond the share: a class that could not be served for long
/// catches up in a few rounds, not in as many as it waited.
const MOST_SAVED: f64 = 2.0;
/// How long a better place is assumed to last when its gain is weighed against a restart.
pub(super) const HORIZON_SECONDS: f64 = 3600.0;

/// The claims of a new allocation, deviations carried over from `old`. Both sorted by key.
pub(super) fn adopt(old: &[Claim], problem: &Problem, allocation: &Allocation) -> Vec<Claim> {
    let class = |u: u32| problem.users[u as usize].class;
    let mut claims: Vec<Claim> = allocation
        .grants()
        .iter()
        .filter(|g| g.gangs > NOISE)
        .map(|g| {
            let (first, second) = match g.members {
                Members::One(u) => (class(u), None),
                Members::Two(u, v) => (class(u), Some(class(v))),
            };
            Claim { first, second, kind: g.kind, share: g.gangs, dev: 0.0 }
        })
        .collect();
    claims.sort_by_key(Claim::key);
    claims.dedup_by(|b, a| {
        let same = a.key() == b.key();
        if same {
            a.share += b.share;
        }
        same
    });
    let mut gone = Vec::new();
    for o in old {
        match claims.binary_search_by_key(&o.key(), Claim::key) {
            Ok(i) => claims[i].dev = o.dev,
            Err(_) if o.dev > NOISE => gone.push(Claim { share: 0.0, ..*o }),
            Err(_) => {}
        }
    }
    claims.append(&mut gone);
    claims.sort_by_key(Claim::key);
    claims
}

/// Gangs per class and kind, and pairs.
#[derive(Clone, Debug, Default)]
pub(super) struct Quota {
    /// Classes in order.
    pub(super) classes: Vec<ClassId>,
    /// Gangs alone, by class and kind (row-major).
    pub(super) gangs: Vec<u32>,
    /// Pairs: (first, second, kind, how many), by class index.
    pub(super) pairs: Vec<(u32, u32, KindId, u32)>,
    kinds: usize,
    free_gpus: Vec<u32>,
    idle_jobs: Vec<u32>,
    saved: Vec<f64>,
}

impl Quota {
    pub(super) fn gangs(&self, class: usize) -> &[u32] {
        &self.gangs[class * self.kinds..(class + 1) * self.kinds]
    }

    /// Fills `self` for this round and charges the claims.
    pub(super) fn fill(&mut self, view: &View<'_>, claims: &mut Vec<Claim>) {
        self.reset(view);
        claims.retain(|c| self.index(c.first).is_some() && c.second.is_none_or(|s| self.index(s).is_some()));
        self.serve_due(view, claims);
        self.give(view);
        if self.upgrade(view) {
            self.give(view);
        }
    }

    fn index(&self, class: ClassId) -> Option<usize> {
        self.classes.binary_search(&class).ok()
    }

    fn reset(&mut self, view: &View<'_>) {
        self.kinds = view.cluster.kinds().len();
        self.classes.clear();
        self.idle_jobs.clear();
        for (&id, class) in view.classes {
            self.classes.push(id);
            let plannable = class.jobs.iter().filter(|&&slot| view.plannable(slot));
            self.idle_jobs.push(plannable.count() as u32);
        }
        self.gangs.clear();
        self.gangs.resize(self.classes.len() * self.kinds, 0);
        self.saved.clear();
        self.saved.resize(self.classes.len(), 0.0);
        self.pairs.clear();
        self.free_gpus.clear();
        self.free_gpus.resize(self.kinds, 0);
        for node in view.cluster.nodes() {
            let usable = node.gpu_range().filter(|&g| view.usable[g as usize]).count();
            self.free_gpus[node.kind.index()] += usable as u32;
        }
    }

    fn serve_due(&mut self, view: &View<'_>, claims: &mut [Claim]) {
        let mut order: Vec<(f64, u32)> = Vec::with_capacity(claims.len());
        order.extend(claims.iter().enumerate().map(|(i, c)| (c.due(), i as u32)));
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut remainders = Vec::with_capacity(claims.len());
        for &(due, i) in &order {
            let whole = (due + NOISE).floor().max(0.0);
            let served = self.serve(view, &claims[i as usize], whole as u32);
            claims[i as usize].dev = due - f64::from(served);
            if f64::from(served) == whole && due - whole > NOISE {
                remainders.push((due - whole, i));
            }
        }
        remainders.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, i) in remainders {
            let served = self.serve(view, &claims[i as usize], 1);
            claims[i as usize].dev -= f64::from(served);
        }
        for claim in claims {
            let most = MOST_SAVED + claim.share;
            claim.dev = claim.dev.clamp(-most, most);
            let first = self.index(claim.first).expect("dead claims were dropped");
            self.saved[first] += claim.dev;
        }
    }

    /// Up to `gangs` of a claim; returns how many were served.
    fn serve(&mut self, view: &View<'_>, claim: &Claim, gangs: u32) -> u32 {
        let Some(first) = self.index(claim.first) else { return 0 };
        let class = &view.classes[&claim.first];
        let j = claim.kind.index();
        if class.rates[j] <= 0.0 {
            return 0;
        }
        let room = self.free_gpus[j] / class.gang;
        match claim.second.and_then(|s| self.index(s)) {
            None => {
                let served = gangs.min(room).min(self.idle_jobs[first]);
                self.idle_jobs[first] -= served;
                self.gangs[first * self.kinds + j] += served;
                self.free_gpus[j] -= served * class.gang;
                served
            }
            Some(second) => {
                let jobs = if first == second {
                    self.idle_jobs[first] / 2
                } else {
                    self.idle_jobs[first].min(self.idle_jobs[second])
                };
                let served = gangs.min(room).min(jobs);
                self.idle_jobs[first] -= served;
                self.idle_jobs[second] -= served;
                self.free_gpus[j] -= served;
                if served > 0 {
                    self.pairs.push((first as u32, second as u32, claim.kind, served));
                }
                served
            }
        }
    }

    /// Gives free GPUs to classes with idle jobs: largest saved claim first, each its fastest kind with room.
    fn give(&mut self, view: &View<'_>) {
        if self.free_gpus.iter().all(|&f| f == 0) || self.idle_jobs.iter().all(|&i| i == 0) {
            return;
        }
        let mut order: Vec<u32> = (0..self.classes.len() as u32).filter(|&c| self.idle_jobs[c as usize] > 0).collect();
        order.sort_by(|&a, &b| self.saved[b as usize].total_cmp(&self.saved[a as usize]).then(a.cmp(&b)));
        for c in order {
            let c = c as usize;
            let class = &view.classes[&self.classes[c]];
            while self.idle_jobs[c] > 0 {
                let room = |j: &usize| class.seen_rates[*j] > 0.0 && self.free_gpus[*j] >= class.gang;
                let faster =
                    |a: &usize, b: &usize| class.seen_rates[*a].total_cmp(&class.seen_rates[*b]).then(b.cmp(a));
                let Some(j) = (0..self.kinds).filter(room).max_by(faster) else { break };
                let gangs = (self.free_gpus[j] / class.gang).min(self.idle_jobs[c]);
                self.idle_jobs[c] -= gangs;
                self.gangs[c * self.kinds + j] += gangs;
                self.free_gpus[j] -= gangs * class.gang;
            }
        }
    }

    /// Moves gangs to faster kinds that would stay free, where the gain pays for a restart; `true` if any did.
    fn upgrade(&mut self, view: &View<'_>) -> bool {
        let mut moved = false;
        if self.free_gpus.iter().all(|&f| f == 0) {
            return moved;
        }
        for c in 0..self.classes.len() {
            let class = &view.classes[&self.classes[c]];
            let restart = class.jobs.first().map_or(0.0, |&slot| view.jobs.get(slot).spec.restart_seconds);
            for to in 0..self.kinds {
                for from in 0..self.kinds {
                    let (slow, fast) = (class.seen_rates[from], class.seen_rates[to]);
                    let pays = slow > 0.0 && (fast / slow - 1.0) * HORIZON_SECONDS > restart && fast > slow;
                    let gangs = self.gangs[c * self.kinds + from].min(self.free_gpus[to] / class.gang);
                    if pays && gangs > 0 {
                        self.gangs[c * self.kinds + from] -= gangs;
                        self.gangs[c * self.kinds + to] += gangs;
                        self.free_gpus[from] += gangs * class.gang;
                        self.free_gpus[to] -= gangs * class.gang;
                        moved = true;
                    }
                }
            }
        }
        moved
    }
}
