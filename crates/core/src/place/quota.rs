//! How many gangs of each class run on each kind this round.
//!
//! Every grant is a *claim*: a share x and a credit c, in gangs. A round looks at what is due, t = x + c:
//!
//!   1. *due*: gang after gang, always of the claim that has most of its t left, while GPUs of the kind and jobs of
//!      the class last: whole gangs, then the largest remainder; before all others those of one packing, where it is known which gangs
//!      should run beside each other (`packings.rs`). Whatever is served is charged, c = t − served,
//!      so in the long run the gangs served equal the share. A gang that runs already counts for h rounds more
//!      than one that does not, so that turns are h rounds long: as many as its restart is worth.
//!   2. *spare GPUs*: GPUs that no claim is due go to classes with idle jobs, largest credit first, uncharged, so
//!      that no GPU stays free while a job could use it.
//!   3. *upgrades*: gangs move from slower to faster kinds that would stay free, where that pays.
//!
//! A frugal policy has a reason for every GPU that it leaves free. Where it grants whole gangs its grants are served as they are, nothing is given away, and nothing is
//! owed afterwards; where it grants shares, as many GPUs stay free as the shares leave free (`kept.rs`).
//!
//! A gang is served whole or not at all; what a class could not be served stays in its credit.
//!
//! *When shares cannot be had.* Shares of a linear program need not be a mixture of whole gangs: a single job that is granted
//! all the time and a gang of four granted three quarters of it cannot both have that on four GPUs. Then somebody's credit
//! reaches its limit, and what exceeds the limit is lost. Losing it alone would let the order of service decide who is
//! short, so all lose alike: with r the rounds' worth of its share that a claim loses (overdue / x, the largest of all), every claim
//! on the kinds concerned loses r·x. In n rounds that lost R of them a claim is then served (n − R)·x, give or take its
//! limit: the same part of its share as every other, and as large a part as the order of service can pack. Kinds are concerned
//! together when some class has shares of both. What a class at its limit receives in spare GPUs counts as received.

use super::View;
use super::kept::Kept;
use super::packings::{self, Packings};
use super::thrift::Thrift;
use crate::KindId;
use crate::allocate::{Allocation, ClassId, FreeGpus, Grant, Members, Problem};
use crate::live::{Class, Slot};
use serde::{Deserialize, Serialize};

/// A grant and what is still owed on it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) first: ClassId,
    pub(super) second: Option<ClassId>,
    pub(super) kind: KindId,
    pub(super) share: f64,
    /// Gang rounds owed; below zero, received in advance.
    #[serde(rename = "dev")]
    pub(super) credit: f64,
    /// Gangs that the last plan gave it.
    served: f64,
    /// Whether the last plan found no node with CPUs and memory for a gang of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unseated: bool,
    /// Index of its classes in this round's [`Quota`].
    #[serde(skip)]
    first_at: u32,
    #[serde(skip)]
    second_at: Option<u32>,
}

impl Claim {
    pub(super) fn key(&self) -> (ClassId, Option<ClassId>, KindId) {
        (self.first, self.second, self.kind)
    }

    /// Whether its numbers can be reckoned with. A claim that was restored may hold any: sums of what passes stay finite.
    fn is_finite(&self) -> bool {
        let bounded = |x: f64| x.abs() <= MOST_GANGS;
        bounded(self.share) && self.share >= 0.0 && bounded(self.credit) && bounded(self.served)
    }

    /// Takes back that it was served a gang: there was no seat for it.
    fn refund(&mut self) {
        self.unseated = true;
        if self.served >= 1.0 {
            self.served -= 1.0;
            self.credit += 1.0;
        }
    }

    /// What is due this round, after `skipped` rounds in which the last plan went on.
    fn due(&self, skipped: u32) -> f64 {
        self.share + self.credit + f64::from(skipped) * (self.share - self.served)
    }
}

/// No share, credit or service is larger: far more gangs than any cluster has GPUs.
const MOST_GANGS: f64 = 1e12;
/// Amounts below this are a solver's rounding errors.
const NOISE: f64 = 1e-7;
/// Shares below this are not worth a claim: the edge of an interior point's answer.
const MIN_SHARE: f64 = 1e-4;
/// Credits are kept within this many gangs, times the gang's size, beyond share and turn: a class that could not be
/// served for long catches up in a few rounds, not in as many as it waited, and a large gang can in the end outrank as
/// many small ones as it has to push aside.
const MAX_CREDIT: f64 = 2.0;
/// How long a better place is assumed to last when its gain is weighed against a restart.
pub(super) const HORIZON_SECONDS: f64 = 3600.0;

/// The claim of a grant; none if its share is too small, or if it names what is not in `problem`: an allocation that was
/// replayed has not come through its checker.
fn claim(problem: &Problem, grant: &Grant) -> Option<Claim> {
    let class = |u: u32| problem.users.get(u as usize).map(|user| user.class);
    let (first, second) = match grant.members {
        Members::One(u) => (class(u)?, None),
        Members::Two(u, v) => (class(u)?, Some(class(v)?)),
    };
    let (kind, share) = (grant.kind, grant.gangs);
    let known = share.is_finite() && share > MIN_SHARE && kind.index() < problem.kinds();
    known.then_some(Claim {
        first,
        second,
        kind,
        share,
        credit: 0.0,
        served: 0.0,
        unseated: false,
        first_at: 0,
        second_at: None,
    })
}

/// The claims of a new allocation, with the credits of `old`. Both sorted by key.
pub(super) fn renew(old: &[Claim], problem: &Problem, allocation: &Allocation) -> Vec<Claim> {
    let mut claims: Vec<Claim> = allocation.grants().iter().filter_map(|grant| claim(problem, grant)).collect();
    claims.sort_by_key(Claim::key);
    claims.dedup_by(|b, a| {
        let same = a.key() == b.key();
        if same {
            a.share += b.share;
        }
        same
    });
    let (mut gone, mut at) = (Vec::new(), 0);
    for o in old {
        while claims.get(at).is_some_and(|c| c.key() < o.key()) {
            at += 1;
        }
        match claims.get_mut(at) {
            Some(claim) if claim.key() == o.key() => {
                (claim.credit, claim.served, claim.unseated) = (o.credit, o.served, o.unseated);
            }
            // What is owed on a kind that the class no longer has a share of is still paid.
            _ if o.credit > NOISE => gone.push(Claim { share: 0.0, ..*o }),
            _ => {}
        }
    }
    if !gone.is_empty() {
        claims.append(&mut gone);
        claims.sort_by_key(Claim::key);
    }
    claims
}

/// Refunds gangs that found no seat: (first class, second class, kind) of each. Claims are sorted by key.
pub(super) fn refund(claims: &mut [Claim], unseated: impl Iterator<Item = (ClassId, Option<ClassId>, KindId)>) {
    claims.iter_mut().for_each(|claim| claim.unseated = false);
    for key in unseated {
        if let Ok(at) = claims.binary_search_by_key(&key, Claim::key) {
            claims[at].refund();
        }
    }
}

/// Gives back what a claim was charged for one gang. Claims are sorted by key.
pub(super) fn give_back(claims: &mut [Claim], key: (ClassId, Option<ClassId>, KindId)) {
    if let Ok(at) = claims.binary_search_by_key(&key, Claim::key)
        && claims[at].served >= 1.0
    {
        claims[at].served -= 1.0;
        claims[at].credit += 1.0;
    }
}

/// A class during one round.
struct Candidate<'a> {
    id: ClassId,
    class: &'a Class,
    /// Jobs that can run, and of these the ones that are not served yet.
    jobs: u32,
    idle: u32,
    /// Sum of its shares.
    share: f64,
    /// Sum of its credits, each within its limit.
    credit: f64,
    /// Rounds of advantage of a gang that runs.
    turn_rounds: f64,
}

impl<'a> Candidate<'a> {
    fn new(view: &View<'_>, id: ClassId, class: &'a Class, jobs: u32) -> Self {
        let restart_seconds = view.jobs.get(class.jobs.first()).spec.restart_seconds;
        let turn_rounds = view.turn_seconds(restart_seconds) / view.round_seconds;
        Self { id, class, jobs, idle: jobs, share: 0.0, credit: 0.0, turn_rounds }
    }
}

/// Classes that hold GPUs or are owed any, in order.
fn at_work<'a>(view: &View<'a>, holders: &[(ClassId, u64, Slot)], claims: &[Claim]) -> Vec<(ClassId, &'a Class)> {
    let owed = claims.iter().flat_map(|claim| std::iter::once(claim.first).chain(claim.second));
    let mut ids: Vec<ClassId> = holders.iter().map(|holder| holder.0).chain(owed).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().filter_map(|id| Some((id, view.classes.get(&id)?))).collect()
}

/// A gang's place in the order of service as one number, which sorts several times faster than a pair: what is due, in
/// 65,536ths and largest first, then the claim's index in the low half.
fn rank(due: f64, index: u32) -> u64 {
    let due = (due * 65_536.0) as u32;
    u64::from(u32::MAX - due) << 32 | u64::from(index)
}

/// Gangs per class and kind, and pairs.
pub(super) struct Quota<'a> {
    candidates: Vec<Candidate<'a>>,
    /// Gangs alone, by class and kind (row-major).
    gangs: Vec<u32>,
    /// Gangs that run now, likewise.
    held: Vec<u32>,
    /// Jobs that hold GPUs which a plan may give them, by class, and where those of each class are in the list.
    holders: Vec<(ClassId, u64, Slot)>,
    holders_of: Vec<std::ops::Range<usize>>,
    /// Pairs: (first, second, kind), by class index.
    pub(super) pairs: Vec<(u32, u32, KindId)>,
    kinds: usize,
    /// The kind whose GPUs each kind takes.
    sold_as: Vec<usize>,
    /// Usable GPUs of each kind, and of these the ones in no quota yet.
    gpus: Vec<u32>,
    free_gpus: Vec<u32>,
    /// GPUs of each kind that stay free although somebody could use them.
    pub(super) withheld: Vec<u32>,
}

impl<'a> Quota<'a> {
    /// This round's quotas. Charges the claims for what they are served, and drops those of classes that are gone.
    pub(super) fn new(
        view: &View<'a>,
        (thrift, kept, packings): (&Thrift, &mut Kept, &Packings),
        claims: &mut Vec<Claim>,
    ) -> Self {
        let mut quota = Self::empty(view, claims);
        quota.locate(view, claims);
        if view.free_gpus == FreeGpus::Kept && view.whole {
            quota.serve_exactly(claims);
        } else {
            quota.serve_due(claims, packings, view.skipped_rounds);
            if view.fronts_only {
                quota.join_fronts(view, claims);
            }
            match view.free_gpus {
                FreeGpus::GivenAway => quota.give_away(view, thrift),
                FreeGpus::KeptOnAverage => quota.give_the_rest_away(view, thrift, kept),
                FreeGpus::Kept => {}
            }
            quota.settle(claims, view.skipped_rounds + 1);
        }
        quota.assert_balanced(claims);
        quota
    }

    /// Every GPU is free or in one quota, every job idle or in one quota, every credit a number.
    fn assert_balanced(&self, claims: &[Claim]) {
        let mut gpus = self.free_gpus.clone();
        let mut jobs: Vec<u32> = self.candidates.iter().map(|candidate| candidate.idle).collect();
        for (c, row) in self.gangs.chunks_exact(self.kinds).enumerate() {
            for (j, &gangs) in row.iter().enumerate() {
                gpus[self.sold_as[j]] += gangs * self.candidates[c].class.gang;
                jobs[c] += gangs;
            }
        }
        for &(first, second, kind) in &self.pairs {
            gpus[self.sold_as[kind.index()]] += 1;
            jobs[first as usize] += 1;
            jobs[second as usize] += 1;
        }
        assert_eq!(gpus, self.gpus, "the quotas of a kind and its free GPUs are its usable GPUs");
        let all = self.candidates.iter().map(|candidate| candidate.jobs);
        assert!(all.eq(jobs), "the quotas of a class and its idle jobs are its jobs");
        assert!(claims.iter().all(Claim::is_finite), "credits are finite numbers");
    }

    /// Classes in order, by their index, with the gangs that each was given, by kind.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u32, &'a Class, &[u32])> {
        (0..)
            .zip(self.candidates.iter().map(|e| e.class))
            .zip(self.gangs.chunks_exact(self.kinds))
            .map(|((c, class), gangs)| (c, class, gangs))
    }

    pub(super) fn id(&self, index: u32) -> ClassId {
        self.candidates[index as usize].id
    }

    /// Jobs of a class that hold GPUs which a plan may give them, in the order of their submission.
    pub(super) fn holders(&self, index: u32) -> impl Iterator<Item = Slot> + '_ {
        self.holders[self.holders_of[index as usize].clone()].iter().map(|holder| holder.2)
    }

    /// Jobs of a class that a plan may give GPUs: all that hold some, and of those that wait the ones that have received least service, so many that are not in
    /// `but` (by slot). Whoever waits behind them has no turn before them.
    pub(super) fn next<'v>(
        &'v self,
        view: &'v View<'_>,
        index: u32,
        waiting: usize,
        but: &'v [bool],
    ) -> impl Iterator<Item = Slot> + 'v {
        let is_free = |slot: &Slot| !but.get(*slot as usize).copied().unwrap_or(false);
        let queue = view.jobs.queue(self.id(index), view.now).filter(is_free).take(waiting);
        self.holders(index).filter(is_free).chain(queue)
    }

    /// Sets every claim's index of its classes for this round. Claims of classes that are gone are dropped, and so are claims
    /// that this cluster cannot serve at all: a restored or replayed claim may name anything. Claims and candidates are in the
    /// same order, so that one walk finds all. From here on indices can be trusted.
    fn locate(&self, view: &View<'_>, claims: &mut Vec<Claim>) {
        let shares_gpu = |kind: KindId| view.pairs && view.cluster.kind(kind).max_jobs >= 2;
        let single = |c: u32| self.candidates[c as usize].class.gang == 1;
        let mut at = 0;
        claims.retain_mut(|claim| {
            if claim.kind.index() >= self.kinds || !claim.is_finite() {
                return false;
            }
            while self.candidates.get(at).is_some_and(|e| e.id < claim.first) {
                at += 1;
            }
            if self.candidates.get(at).is_none_or(|e| e.id != claim.first) {
                return false;
            }
            claim.first_at = at as u32;
            let second = claim.second.map(|s| self.candidates.binary_search_by_key(&s, |e| e.id));
            claim.second_at = second.and_then(Result::ok).map(|s| s as u32);
            match (claim.second, claim.second_at) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(_), Some(second)) => shares_gpu(claim.kind) && single(claim.first_at) && single(second),
            }
        });
    }

    fn empty(view: &View<'a>, claims: &[Claim]) -> Self {
        let kinds = view.cluster.kinds().len();
        let plannable = view.jobs.holding().filter(|(slot, _)| view.plannable(*slot));
        let mut holders: Vec<_> = plannable.map(|(slot, job)| (job.class, job.joined, slot)).collect();
        holders.sort_unstable();
        let classes = if view.fronts_only {
            at_work(view, &holders, claims)
        } else {
            view.classes.iter().map(|(&id, class)| (id, class)).collect()
        };
        let mut candidates = Vec::with_capacity(classes.len());
        let mut held = vec![0; classes.len() * kinds];
        let mut holders_of = Vec::with_capacity(classes.len());
        let (mut at, ready) = (0, view.jobs.ready(view.now));
        for (c, (id, class)) in classes.into_iter().enumerate() {
            let from = at;
            while let Some(&(_, _, slot)) = holders.get(at).filter(|holder| holder.0 == id) {
                let gang =
                    view.jobs.get(slot).phase.held().expect("who holds GPUs and may be planned goes on holding them");
                held[c * kinds + gang.kind.index()] += 1;
                at += 1;
            }
            holders_of.push(from..at);
            candidates.push(Candidate::new(view, id, class, ready(id, &class.jobs) + (at - from) as u32));
        }
        let mut gpus = vec![0; kinds];
        for node in view.cluster.nodes() {
            let usable = &view.usable[node.gpu_range().start as usize..node.gpu_range().end as usize];
            gpus[node.kind.index()] += usable.iter().map(|&u| u32::from(u)).sum::<u32>();
        }
        let gangs = vec![0; candidates.len() * kinds];
        let (sold_as, pairs, free_gpus, withheld) = (view.sold_as(), Vec::new(), gpus.clone(), vec![0; kinds]);
        Self { candidates, gangs, held, holders, holders_of, pairs, kinds, sold_as, free_gpus, withheld, gpus }
    }

    /// Lets those take part who wait at the front of their lines, as many as there are free GPUs for.
    fn join_fronts(&mut self, view: &View<'a>, claims: &mut [Claim]) {
        let free_gpus: u32 = self.free_gpus.iter().sum();
        if free_gpus == 0 {
            return;
        }
        let class = |slot: Slot| view.jobs.get(slot).class;
        // Those who wait and are owed GPUs are at the front as well, and take part already.
        let waiting = self.candidates.iter().zip(&self.holders_of).filter(|(_, holders)| holders.is_empty());
        let theirs: u32 = waiting.map(|(candidate, _)| candidate.class.gang).sum();
        let (_, fronts) = view.jobs.fronts(view.now, free_gpus + theirs, |slot| view.classes[&class(slot)].shape());
        let is_new = |id: &ClassId| self.candidates.binary_search_by_key(id, |e| e.id).is_err();
        let mut ids: Vec<ClassId> = fronts.into_iter().map(class).filter(is_new).collect();
        ids.sort_unstable();
        // Candidates are in the order of their classes, so all of a larger number move up.
        let mut ids = ids.into_iter().peekable();
        let (k, n) = (self.kinds, self.candidates.len() + ids.len());
        let mut candidates = Vec::with_capacity(n);
        let (mut gangs, mut held) = (Vec::with_capacity(n * k), Vec::with_capacity(n * k));
        let (mut holders_of, mut moved_to) = (Vec::with_capacity(n), Vec::with_capacity(self.candidates.len()));
        for (c, candidate) in self.candidates.drain(..).map(Some).chain(std::iter::once(None)).enumerate() {
            let before = |id: &ClassId| candidate.as_ref().is_none_or(|candidate| *id < candidate.id);
            while let Some(id) = ids.next_if(before) {
                candidates.push(Candidate::new(view, id, &view.classes[&id], 1));
                gangs.resize(gangs.len() + k, 0);
                held.resize(held.len() + k, 0);
                holders_of.push(0..0);
            }
            let Some(candidate) = candidate else { break };
            moved_to.push(candidates.len() as u32);
            candidates.push(candidate);
            gangs.extend_from_slice(&self.gangs[c * k..(c + 1) * k]);
            held.extend_from_slice(&self.held[c * k..(c + 1) * k]);
            holders_of.push(self.holders_of[c].clone());
        }
        (self.candidates, self.gangs, self.held, self.holders_of) = (candidates, gangs, held, holders_of);
        let moved = |at: &mut u32| *at = moved_to[*at as usize];
        claims.iter_mut().for_each(|claim| {
            moved(&mut claim.first_at);
            claim.second_at.iter_mut().for_each(moved);
        });
        self.pairs.iter_mut().for_each(|(first, second, _)| {
            moved(first);
            moved(second);
        });
    }

    /// Serves every claim as it stands, in order, while GPUs and jobs last.
    fn serve_exactly(&mut self, claims: &mut Vec<Claim>) {
        claims.retain(|claim| claim.share > 0.0);
        for claim in claims {
            claim.credit = 0.0;
            claim.served = (0..claim.share.round() as u32).take_while(|_| self.serve_one(claim)).count() as f64;
        }
    }

    /// Serves claims gang by gang, those of one packing first and then always the one with most still due; charges them for it.
    fn serve_due(&mut self, claims: &mut [Claim], packings: &Packings, skipped: u32) {
        for claim in claims.iter_mut() {
            claim.credit = claim.due(skipped);
            claim.served = 0.0;
        }
        let due = |claim: &Claim, gang: u32| self.due(claim, gang);
        let mut order = self.order(claims, &[]);
        if let Some((most, first)) = packings.best(claims, due)
            && most > packings::worth(claims, &self.would_serve(claims, &order), due)
        {
            order = self.order(claims, &first);
        }
        for index in order {
            let claim = &mut claims[index as usize];
            if self.serve_one(claim) {
                claim.credit -= 1.0;
                claim.served += 1.0;
            }
        }
        for claim in claims.iter() {
            let limit = self.limit(claim);
            let candidate = &mut self.candidates[claim.first_at as usize];
            candidate.share += claim.share;
            candidate.credit += claim.credit.clamp(-limit, limit);
        }
    }

    /// Claims in the order in which their gangs are served, those of `first` (so many gangs of each claim) before all others.
    fn order(&self, claims: &[Claim], first: &[u32]) -> Vec<u32> {
        let (mut together, mut gangs) = (Vec::new(), Vec::with_capacity(2 * claims.len()));
        for (claim, index) in claims.iter().zip(0..) {
            let first = first.get(index as usize).copied().unwrap_or(0);
            for gang in 0.. {
                let Some(due) = self.due(claim, gang).filter(|due| *due > NOISE) else { break };
                let list = if gang < first { &mut together } else { &mut gangs };
                list.push(rank(due, index));
            }
        }
        together.sort_unstable();
        gangs.sort_unstable();
        together.into_iter().chain(gangs).map(|rank| rank as u32).collect()
    }

    /// How many gangs of every claim would be served in this order. (Of gangs alone: there are no packings where GPUs are shared.)
    fn would_serve(&self, claims: &[Claim], order: &[u32]) -> Vec<u32> {
        let mut idle: Vec<u32> = self.candidates.iter().map(|candidate| candidate.idle).collect();
        let (mut free_gpus, mut served) = (self.free_gpus.clone(), vec![0; claims.len()]);
        for &index in order {
            let claim = &claims[index as usize];
            let (class, base) = (self.candidates[claim.first_at as usize].class, self.sold_as[claim.kind.index()]);
            let idle = &mut idle[claim.first_at as usize];
            if *idle > 0 && free_gpus[base] >= class.gang && class.rates[claim.kind.index()] > 0.0 {
                *idle -= 1;
                free_gpus[base] -= class.gang;
                served[index as usize] += 1;
            }
        }
        served
    }

    /// What is due to a claim when `gang` of its gangs have been served this round, with the advantage of one that runs; `None` if its class has no more jobs.
    fn due(&self, claim: &Claim, gang: u32) -> Option<f64> {
        let candidate = &self.candidates[claim.first_at as usize];
        let runs = self.held[claim.first_at as usize * self.kinds + claim.kind.index()];
        let advantage = if gang < runs { candidate.turn_rounds } else { 0.0 };
        (gang < candidate.jobs).then(|| claim.credit - f64::from(gang) + advantage)
    }

    /// The largest credit that a claim may keep.
    fn limit(&self, claim: &Claim) -> f64 {
        let candidate = &self.candidates[claim.first_at as usize];
        MAX_CREDIT * f64::from(candidate.class.gang) + claim.share + candidate.turn_rounds
    }

    /// Credit beyond the limit of a claim that could be served. What cannot be served at all (jobs that pause after a failure, a
    /// kind with too few usable GPUs left, nodes without CPUs or memory for it) is nobody else's loss.
    fn overdue(&self, claim: &Claim) -> f64 {
        let (candidate, j) = (&self.candidates[claim.first_at as usize], claim.kind.index());
        let enough_jobs = candidate.share <= f64::from(candidate.jobs) * (1.0 + NOISE) + NOISE;
        let fits = candidate.class.rates[j] > 0.0 && self.gpus[self.sold_as[j]] >= candidate.class.gang;
        if claim.share > 0.0 && enough_jobs && fits && !claim.unseated {
            (claim.credit - self.limit(claim)).max(0.0)
        } else {
            0.0
        }
    }

    /// Brings all credits within their limits, after `rounds` rounds. What is lost by that is lost by all alike.
    fn settle(&self, claims: &mut [Claim], rounds: u32) {
        if claims.iter().any(|claim| self.overdue(claim) > 0.0) {
            self.charge_spare(claims);
            self.share_losses(claims, rounds);
        }
        for claim in claims {
            let limit = self.limit(claim);
            claim.credit = claim.credit.clamp(-limit, limit);
        }
    }

    /// Charges claims at their limit for what their class received beyond what it was charged: spare GPUs and faster kinds.
    fn charge_spare(&self, claims: &mut [Claim]) {
        let rate = |c: usize, j: usize| self.candidates[c].class.seen_rates[j];
        let received = |(c, gangs): (usize, &[u32])| {
            gangs.iter().enumerate().map(|(j, &gangs)| f64::from(gangs) * rate(c, j)).sum::<f64>()
        };
        let mut uncharged: Vec<f64> = self.gangs.chunks_exact(self.kinds).enumerate().map(received).collect();
        for claim in claims.iter().filter(|claim| claim.second.is_none()) {
            let c = claim.first_at as usize;
            uncharged[c] -= claim.served * rate(c, claim.kind.index());
        }
        for claim in claims.iter_mut().filter(|claim| claim.second.is_none()) {
            let c = claim.first_at as usize;
            let rate = rate(c, claim.kind.index());
            if rate > 0.0 {
                let gangs = self.overdue(claim).min(uncharged[c].max(0.0) / rate);
                claim.credit -= gangs;
                claim.served += gangs;
                uncharged[c] -= gangs * rate;
            }
        }
    }

    /// Takes from every claim as many rounds' worth of its share as the claim that loses most on the kinds concerned loses; never
    /// more than the `rounds` that have just been added.
    fn share_losses(&self, claims: &mut [Claim], rounds: u32) {
        let group = self.linked_kinds(claims);
        let mut lost = vec![0.0f64; self.kinds];
        for claim in claims.iter().filter(|claim| claim.share > 0.0) {
            let lost = &mut lost[group[claim.kind.index()]];
            *lost = lost.max(self.overdue(claim) / claim.share).min(f64::from(rounds));
        }
        for claim in claims {
            claim.credit -= lost[group[claim.kind.index()]] * claim.share;
        }
    }

    /// For each kind, a name for all kinds that are linked to it by classes with shares of several.
    fn linked_kinds(&self, claims: &[Claim]) -> Vec<usize> {
        let mut group: Vec<usize> = (0..self.kinds).collect();
        let mut kind_of_class: Vec<Option<usize>> = vec![None; self.candidates.len()];
        for claim in claims.iter().filter(|claim| claim.share > 0.0) {
            for class in std::iter::once(claim.first_at).chain(claim.second_at) {
                let other = *kind_of_class[class as usize].get_or_insert(claim.kind.index());
                let (a, b) = (group[claim.kind.index()], group[other]);
                if a != b {
                    group.iter_mut().filter(|g| **g == a).for_each(|g| *g = b);
                }
            }
        }
        group
    }

    /// One gang of a claim, if there is room and somebody to run; `true` if it was served.
    fn serve_one(&mut self, claim: &Claim) -> bool {
        let (first, j) = (claim.first_at as usize, claim.kind.index());
        let (class, base) = (self.candidates[first].class, self.sold_as[j]);
        if self.candidates[first].idle == 0 || self.free_gpus[base] < class.gang || class.rates[j] <= 0.0 {
            return false;
        }
        match claim.second_at {
            None => self.gangs[first * self.kinds + j] += 1,
            Some(second) => {
                let needed = if second == claim.first_at { 2 } else { 1 };
                let fits = self.candidates[second as usize].class.rates[j] > 0.0;
                if !fits || self.candidates[second as usize].idle < needed {
                    return false;
                }
                self.candidates[second as usize].idle -= 1;
                self.pairs.push((claim.first_at, second, claim.kind));
            }
        }
        self.candidates[first].idle -= 1;
        self.free_gpus[base] -= class.gang;
        true
    }

    /// Gives away what is not kept free.
    fn give_the_rest_away(&mut self, view: &View<'_>, thrift: &Thrift, kept: &mut Kept) {
        // What is over because of a gang is over for its turn, and turns of several may coincide.
        let over = |candidate: &Candidate<'_>| f64::from(candidate.class.gang) * (MAX_CREDIT + candidate.turn_rounds);
        let limit = self.candidates.iter().map(over).sum();
        self.withheld = kept.due(&self.free_gpus, view.skipped_rounds, limit);
        self.free_gpus.iter_mut().zip(&self.withheld).for_each(|(free, withheld)| *free -= withheld);
        self.give_away(view, thrift);
        self.free_gpus.iter_mut().zip(&self.withheld).for_each(|(free, withheld)| *free += withheld);
        kept.charge(&self.free_gpus);
    }

    fn give_away(&mut self, view: &View<'_>, thrift: &Thrift) {
        self.give_spare(thrift);
        if self.upgrade(view, thrift) {
            self.give_spare(thrift);
        }
    }

    /// Gives free GPUs to classes with idle jobs: largest credit first, each its fastest kind with room.
    fn give_spare(&mut self, thrift: &Thrift) {
        if self.free_gpus.iter().all(|&f| f == 0) || self.candidates.iter().all(|e| e.idle == 0) {
            return;
        }
        let mut order: Vec<(f64, usize)> = Vec::new();
        for (c, candidate) in self.candidates.iter().enumerate().filter(|(_, e)| e.idle > 0) {
            let row = c * self.kinds..(c + 1) * self.kinds;
            let runs_more = self.held[row.clone()].iter().sum::<u32>() > self.gangs[row].iter().sum();
            order.push((candidate.credit + if runs_more { candidate.turn_rounds } else { 0.0 }, c));
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, c) in order {
            let class = self.candidates[c].class;
            while self.candidates[c].idle > 0 {
                let room = |j: &usize| class.seen_rates[*j] > 0.0 && self.free_gpus[*j] >= class.gang;
                let faster =
                    |a: &usize, b: &usize| class.seen_rates[*a].total_cmp(&class.seen_rates[*b]).then(b.cmp(a));
                let Some(j) = (0..self.kinds).filter(room).max_by(faster) else { break };
                let gangs = (self.free_gpus[j] / class.gang).min(self.candidates[c].idle);
                let mode = thrift.mode(self.candidates[c].id, j, &self.sold_as, &class.seen_rates);
                self.candidates[c].idle -= gangs;
                self.gangs[c * self.kinds + mode] += gangs;
                self.free_gpus[j] -= gangs * class.gang;
            }
        }
    }

    /// Moves gangs to faster kinds that would stay free, where the gain pays for a restart; `true` if any did.
    fn upgrade(&mut self, view: &View<'_>, thrift: &Thrift) -> bool {
        let mut moved = false;
        for base in (0..self.kinds).filter(|&base| self.free_gpus[base] > 0).collect::<Vec<_>>() {
            for c in 0..self.candidates.len() {
                let (id, class) = (self.candidates[c].id, self.candidates[c].class);
                if self.free_gpus[base] < class.gang || class.seen_rates[base] <= 0.0 {
                    continue;
                }
                let to = thrift.mode(id, base, &self.sold_as, &class.seen_rates);
                let restart_seconds = view.jobs.get(class.jobs.first()).spec.restart_seconds;
                for from in 0..self.kinds {
                    if self.gangs[c * self.kinds + from] == 0
                        || class.seen_rates[from] >= class.seen_rates[to]
                        || self.sold_as[from] == base
                        || !thrift.gains(id, from, to)
                    {
                        continue;
                    }
                    let gain = class.seen_rates[to] / class.seen_rates[from] - 1.0;
                    let gangs = self.gangs[c * self.kinds + from].min(self.free_gpus[base] / class.gang);
                    if gangs > 0 && gain * HORIZON_SECONDS > restart_seconds {
                        self.gangs[c * self.kinds + from] -= gangs;
                        self.gangs[c * self.kinds + to] += gangs;
                        self.free_gpus[self.sold_as[from]] += gangs * class.gang;
                        self.free_gpus[base] -= gangs * class.gang;
                        moved = true;
                    }
                }
            }
        }
        moved
    }
}
