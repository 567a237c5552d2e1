//! Shares that whole gangs can have.
//!
//! A policy divides GPU time as if gangs could be cut: on eight GPUs of one kind it may grant a gang of eight half of the time and a single job
//! all of it, which no order of turns can give. Where gangs are small beside their kind that costs nearly nothing. Where they are a
//! good part of it, everybody falls short of its grant by the same part, and often there are other kinds on which less would be lost.
//!
//! What can be had in the long run is a mixture of *packings*: whole gangs on whole GPUs, no user with more gangs than jobs. With a_u(p) the part of
//! what user u was granted that packing p gives it, in steps,
//!
//! ```text
//! λ = max over mixtures w   min over users u   Σ_p w_p a_u(p)
//! ```
//!
//! is the largest part that all can have at once. It is found with packings on demand (column generation): the weights of users that are
//! worst for the packings at hand, then a good packing for these weights, kind after kind. The worst weights jump from vertex to vertex, so a
//! packing is first looked for at weights between them and those that proved most so far, which takes far fewer packings. If λ over all kinds is larger than over the kinds that were
//! granted, the mixture's shares take the place of the grants: they can be had as they are, and everybody gets the part λ. Either way the allocation
//! says of which packings its shares are a mixture: whoever serves gangs one by one, whoever is owed most first, runs the wrong ones beside each other and
//! loses up to 6 % of what is possible.
//!
//! Who gets how much of a GPU's worth remains the policy's answer; on which kind is, in these cases, this module's.
//!
//! Packings are good for many problems, and the next problem is mostly the last one with somebody more or less: those that were part
//! of a mixture are remembered, and the next search begins with them.

mod packing;

use super::{Allocation, AtOnce, ClassId, Grant, Members, PolicyEntry, Problem, kind_id, user_index};
use arles_lp::{Budget, Model, Solver, Status, Vertex};
use packing::{Item, best};

/// Gangs are small beside their kind when the kind has more than this many times as many GPUs.
const SMALL_PART: f64 = 4.0;
/// Problems beyond these sizes are left alone: what is lost there is small, or finding out takes too long. (A few milliseconds are well spent
/// on shares that will stand for long; where users are many they come and go, and shares with them.)
const MOST_USERS: usize = 16;
const MOST_GPUS: f64 = 64.0;
/// Shares that can be had up to this part need no other kinds.
const GOOD_ENOUGH: f64 = 0.98;
/// Other kinds must gain this much of everybody's share.
const WORTH_IT: f64 = 0.01;
/// Packings that are tried at most.
const MOST_PACKINGS: usize = 40;
/// How far the weights for which a packing is looked for first are those that proved most, and not the worst for the packings at hand.
const SMOOTH: f64 = 0.7;
/// The search ends when a packing would raise the bound by no more than this part.
const GAP: f64 = 1e-3;
/// Shares below this are a solver's rounding errors.
const NOISE: f64 = 1e-4;

/// Something that a user is owed: the part of it that one gang attains while it runs on each kind.
struct Goal {
    user: usize,
    per_gang: Vec<f64>,
}

/// Gangs of every user on every kind (row-major), at once.
type Gangs = Vec<u32>;

/// Makes allocations attainable, one after another. It remembers packings of the last, which changes how soon it is done and, within its
/// tolerance, the mixture: the same problems in the same order have the same answers.
#[derive(Clone, Default)]
pub(crate) struct WholeGangs {
    capacity: Vec<f64>,
    /// Class and gang of each user.
    users: Vec<(ClassId, u32)>,
    /// Of mixtures on the kinds that were granted, and on any.
    on_granted: Vec<Gangs>,
    on_any: Vec<Gangs>,
}

impl WholeGangs {
    /// The allocation, or one that whole gangs can have where this one they cannot.
    pub(crate) fn attainable(&mut self, problem: &Problem, allocation: Allocation, policy: &PolicyEntry) -> Allocation {
        if policy.energy_aware || !worth_looking(problem, &allocation) {
            return allocation;
        }
        self.move_to(problem);
        let granted = granted(problem, &allocation);
        let goals_by_kind = goals_by_kind(problem, &granted);
        let Some(on_granted) = mixture(problem, &goals_by_kind, &mut self.on_granted) else { return allocation };
        let mut proposal = allocation.proposal.clone();
        proposal.packings = packings(problem, &self.on_granted);
        if on_granted.part < GOOD_ENOUGH {
            let goals = goals(problem, &granted, policy.ignores_speeds);
            if let Some(on_any) = mixture(problem, &goals, &mut self.on_any)
                && on_any.part >= on_granted.part + WORTH_IT
            {
                proposal.grants = on_any.grants(problem, &goals);
                proposal.packings = packings(problem, &self.on_any);
            }
        }
        Allocation::check(problem, proposal).unwrap_or(allocation)
    }

    /// Makes what is remembered fit this problem: without users that are gone, and with no more gangs than there are jobs.
    fn move_to(&mut self, problem: &Problem) {
        if self.capacity != problem.capacity {
            self.on_granted.clear();
            self.on_any.clear();
            self.capacity.clone_from(&problem.capacity);
        }
        let kinds = problem.kinds();
        let was: Vec<Option<usize>> =
            problem.users.iter().map(|user| self.users.binary_search(&(user.class, user.gang)).ok()).collect();
        for gangs in self.on_granted.iter_mut().chain(&mut self.on_any) {
            let mut moved = vec![0; problem.users.len() * kinds];
            for ((row, user), was) in moved.chunks_exact_mut(kinds).zip(&problem.users).zip(&was) {
                let Some(was) = was else { continue };
                let mut jobs = user.jobs;
                for (gangs, before) in row.iter_mut().zip(&gangs[was * kinds..(was + 1) * kinds]) {
                    *gangs = jobs.min(*before);
                    jobs -= *gangs;
                }
            }
            *gangs = moved;
        }
        for known in [&mut self.on_granted, &mut self.on_any] {
            known.sort_unstable();
            known.dedup();
        }
        self.users.clear();
        self.users.extend(problem.users.iter().map(|user| (user.class, user.gang)));
    }
}

/// Packings as an allocation has them, without gangs that a remembered one has on a kind where they do not fit any more.
fn packings(problem: &Problem, known: &[Gangs]) -> Vec<Vec<AtOnce>> {
    let kinds = problem.kinds();
    let packing = |gangs: &Gangs| {
        let some = gangs.iter().enumerate().filter(|(at, gangs)| **gangs > 0 && problem.rates[*at] > 0.0);
        some.map(|(at, &gangs)| AtOnce(user_index(at / kinds), kind_id(at % kinds), gangs)).collect()
    };
    known.iter().map(packing).collect()
}

/// Whether somebody's gang is a good part of a kind that it was granted and that is given away in full, by shares that are not whole.
fn worth_looking(problem: &Problem, allocation: &Allocation) -> bool {
    let gpus: f64 = problem.capacity.iter().sum();
    if problem.users.len() > MOST_USERS || gpus > MOST_GPUS {
        return false;
    }
    let gang = |grant: &Grant| match grant.members {
        Members::One(u) => Some(f64::from(problem.users[u as usize].gang)),
        Members::Two(..) => None,
    };
    // Two jobs on one GPU are small, and their rates are not those of one.
    if allocation.grants().iter().any(|grant| gang(grant).is_none()) {
        return false;
    }
    let large = |grant: &Grant| {
        gang(grant).is_some_and(|gang| gang > 1.0 && SMALL_PART * gang >= problem.capacity[grant.kind.index()])
    };
    let divided = |grant: &Grant| (grant.gangs - grant.gangs.round()).abs() > NOISE;
    allocation.grants().iter().any(large) && allocation.grants().iter().any(divided)
}

/// Gangs granted, by user and kind.
fn granted(problem: &Problem, allocation: &Allocation) -> Vec<f64> {
    let mut gangs = vec![0.0; problem.users.len() * problem.kinds()];
    for grant in allocation.grants() {
        if let Members::One(u) = grant.members {
            gangs[u as usize * problem.kinds() + grant.kind.index()] += grant.gangs;
        }
    }
    gangs
}

/// Every grant for itself: what the placer pays as it stands.
fn goals_by_kind(problem: &Problem, granted: &[f64]) -> Vec<Goal> {
    let kinds = problem.kinds();
    let shares = granted.iter().enumerate().filter(|(_, share)| **share > NOISE);
    let goal = |(at, share): (usize, &f64)| {
        let per_gang = (0..kinds).map(|j| if j == at % kinds { 1.0 / share } else { 0.0 }).collect();
        Goal { user: at / kinds, per_gang }
    };
    shares.map(goal).collect()
}

/// What every user was granted, in steps, on whatever kind it gets them. A policy that is blind to speeds grants time.
fn goals(problem: &Problem, granted: &[f64], blind: bool) -> Vec<Goal> {
    let mut goals = Vec::new();
    for user in 0..problem.users.len() {
        let rate = |rate: f64| if blind { f64::from(u8::from(rate > 0.0)) } else { rate };
        let rates: Vec<f64> = problem.rates(user).iter().map(|&r| rate(r)).collect();
        let shares = &granted[user * problem.kinds()..(user + 1) * problem.kinds()];
        let owed: f64 = shares.iter().zip(&rates).map(|(share, rate)| share * rate).sum();
        if owed > 0.0 {
            goals.push(Goal { user, per_gang: rates.iter().map(|rate| rate / owed).collect() });
        }
    }
    goals
}

/// A mixture of packings, and the part of every goal that it attains at least.
struct Mixture {
    part: f64,
    /// Gangs at once on average, by user and kind.
    shares: Vec<f64>,
}

impl Mixture {
    /// Its shares as grants; nobody gets more than it was owed.
    fn grants(&self, problem: &Problem, goals: &[Goal]) -> Vec<Grant> {
        let kinds = problem.kinds();
        let mut grants = Vec::new();
        for goal in goals {
            let shares = &self.shares[goal.user * kinds..(goal.user + 1) * kinds];
            let attained: f64 = shares.iter().zip(&goal.per_gang).map(|(share, part)| share * part).sum();
            let scale = if attained > 1.0 { 1.0 / attained } else { 1.0 };
            let user = user_index(goal.user);
            let given = shares.iter().enumerate().filter(|(_, share)| **share > NOISE);
            grants.extend(given.map(|(j, share)| Grant {
                kind: kind_id(j),
                members: Members::One(user),
                gangs: share * scale,
            }));
        }
        grants
    }
}

/// The mixture of packings with the largest least part of the goals; `None` where there are none. Begins with the packings `known`, and
/// leaves there those that it is made of.
fn mixture(problem: &Problem, goals: &[Goal], known: &mut Vec<Gangs>) -> Option<Mixture> {
    let with_parts = |gangs: Gangs| {
        let parts: Vec<f64> = goals.iter().map(|goal| attained(problem, &gangs, goal)).collect();
        (gangs, parts)
    };
    let value = |parts: &[f64], weights: &[f64]| parts.iter().zip(weights).map(|(part, w)| part * w).sum::<f64>();
    let mut packings: Vec<(Gangs, Vec<f64>)> = std::mem::take(known).into_iter().map(with_parts).collect();
    let mut centre = vec![1.0 / goals.len() as f64; goals.len()];
    let (mut proved, mut found) = (f64::INFINITY, None);
    loop {
        let (most, worst, mixed) = match packings.is_empty() {
            true => (f64::NEG_INFINITY, centre.clone(), Vec::new()),
            false => worst_weights(&packings, goals.len())?,
        };
        found = Some(mixed).filter(|mixed| !mixed.is_empty()).or(found);
        if goals.is_empty() || packings.len() >= MOST_PACKINGS || proved <= most * (1.0 + GAP) {
            break;
        }
        let mut better = None;
        for part in [SMOOTH, 0.0] {
            let weights: Vec<f64> = centre.iter().zip(&worst).map(|(c, w)| part * c + (1.0 - part) * w).collect();
            let (gangs, parts) = with_parts(good_packing(problem, goals, &weights));
            if value(&parts, &weights) < proved {
                (proved, centre) = (value(&parts, &weights), weights);
            }
            let is_new = || packings.iter().all(|(known, _)| *known != gangs);
            if value(&parts, &worst) > most * (1.0 + GAP) && is_new() {
                better = Some((gangs, parts));
                break;
            }
        }
        match better {
            Some(packing) => packings.push(packing),
            None => break,
        }
    }
    let mixed = found?;
    let part = |goal: usize| packings.iter().zip(&mixed).map(|((_, parts), w)| w * parts[goal]).sum::<f64>();
    let least = (0..goals.len()).map(part).fold(f64::INFINITY, f64::min);
    let share = |at: usize| packings.iter().zip(&mixed).map(|((gangs, _), w)| w * f64::from(gangs[at])).sum();
    let shares = (0..problem.users.len() * problem.kinds()).map(share).collect();
    let used = packings.into_iter().zip(&mixed).filter(|(_, weight)| **weight > NOISE);
    known.extend(used.map(|((gangs, _), _)| gangs));
    // Room for as many new ones.
    known.truncate(MOST_PACKINGS / 2);
    Some(Mixture { part: least, shares })
}

fn attained(problem: &Problem, gangs: &Gangs, goal: &Goal) -> f64 {
    let row = &gangs[goal.user * problem.kinds()..(goal.user + 1) * problem.kinds()];
    row.iter().zip(&goal.per_gang).map(|(&gangs, part)| f64::from(gangs) * part).sum()
}

/// What the best mixture of the packings at hand gives the worst-off goal, the weights of goals for which they do worst, and the
/// mixture: primal and dual of one small program. (Everybody is given one more than it attains, so that the value is above 0 and the duals
/// of the packings add up to 1.)
fn worst_weights(packings: &[(Gangs, Vec<f64>)], goals: usize) -> Option<(f64, Vec<f64>, Vec<f64>)> {
    let mut model = Model::minimise();
    let most = model.add_column(0.0, f64::INFINITY, 1.0).ok()?;
    let mut weights = Vec::with_capacity(goals);
    for _ in 0..goals {
        weights.push(model.add_column(0.0, f64::INFINITY, 0.0).ok()?);
    }
    let all: Vec<_> = weights.iter().map(|&y| (y, 1.0)).collect();
    model.add_row(1.0, f64::INFINITY, &all).ok()?;
    for (_, parts) in packings {
        let mut row: Vec<_> = weights.iter().zip(parts).map(|(&y, &part)| (y, -(1.0 + part))).collect();
        row.push((most, 1.0));
        model.add_row(0.0, f64::INFINITY, &row).ok()?;
    }
    let outcome = Vertex.solve(&model, Budget::default());
    if outcome.status != Status::Optimal {
        return None;
    }
    let mixture = normalised(outcome.row_duals.get(1..)?.iter().map(|w| w.abs()))?;
    let weights = normalised(weights.iter().map(|y| outcome.x[y.index()].max(0.0)))?;
    Some((outcome.x[most.index()] - 1.0, weights, mixture))
}

/// The same with sum 1; `None` if there is no such.
fn normalised(weights: impl Iterator<Item = f64> + Clone) -> Option<Vec<f64>> {
    let sum: f64 = weights.clone().sum();
    (sum.is_finite() && sum > 0.0).then(|| weights.map(|w| w / sum).collect())
}

/// A packing whose goals weigh much: the best one where the kinds are small, else a good one.
fn good_packing(problem: &Problem, goals: &[Goal], weights: &[f64]) -> Gangs {
    let kinds = problem.kinds();
    let mut values = vec![0.0; problem.users.len() * kinds];
    for (goal, weight) in goals.iter().zip(weights) {
        let row = &mut values[goal.user * kinds..(goal.user + 1) * kinds];
        row.iter_mut().zip(&goal.per_gang).for_each(|(value, part)| *value += weight * part);
    }
    if let Some(gangs) = packing::best_on_all(problem, &values) {
        return gangs;
    }
    // Whoever has one job should not spend it on a kind that does little for it because that kind came first.
    let spared = |at: usize| {
        let row = &values[at / kinds * kinds..(at / kinds + 1) * kinds];
        let others = row.iter().enumerate().filter(|(j, _)| *j != at % kinds).map(|(_, value)| *value);
        values[at] - 0.5 * others.fold(0.0, f64::max)
    };
    let spared: Vec<f64> = (0..values.len()).map(spared).collect();
    let worth = |gangs: &Gangs| gangs.iter().zip(&values).map(|(&gangs, value)| f64::from(gangs) * value).sum::<f64>();
    let mut good: Option<(f64, Gangs)> = None;
    for order in orders(kinds) {
        for by in [&values, &spared] {
            let gangs = packing_in_order(problem, by, &values, &order);
            if good.as_ref().is_none_or(|(best, _)| worth(&gangs) > *best) {
                good = Some((worth(&gangs), gangs));
            }
        }
    }
    good.map_or_else(|| vec![0; values.len()], |(_, gangs)| gangs)
}

/// Orders of kinds to try: all while they are few, else each kind first once.
fn orders(kinds: usize) -> Vec<Vec<usize>> {
    if kinds > 4 {
        return (0..kinds).map(|first| (0..kinds).map(|j| (first + j) % kinds).collect()).collect();
    }
    let mut orders = vec![Vec::new()];
    for kind in 0..kinds {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            (0..=order.len()).map(move |at| {
                let mut order = order.clone();
                order.insert(at, kind);
                order
            })
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

/// Kind after kind the best packing of the jobs that are left, by the values `by`; what stays free then goes by `values`.
fn packing_in_order(problem: &Problem, by: &[f64], values: &[f64], order: &[usize]) -> Gangs {
    let kinds = problem.kinds();
    let mut jobs: Vec<u32> = problem.users.iter().map(|user| user.jobs).collect();
    let mut free: Vec<u32> = problem.capacity.iter().map(|gpus| gpus.floor() as u32).collect();
    let mut gangs = vec![0; values.len()];
    for (by, &j) in [by, values].into_iter().flat_map(|by| order.iter().map(move |j| (by, j))) {
        let (mut items, mut whose) = (Vec::new(), Vec::new());
        for (u, user) in problem.users.iter().enumerate().filter(|(u, _)| by[u * kinds + j] > 0.0) {
            let most = jobs[u].min(free[j] / user.gang) as usize;
            items.extend(std::iter::repeat_n(Item { size: user.gang, value: by[u * kinds + j] }, most));
            whose.extend(std::iter::repeat_n(u, most));
        }
        for ((item, u), _) in items.iter().zip(whose).zip(best(&items, free[j])).filter(|(_, chosen)| *chosen) {
            gangs[u * kinds + j] += 1;
            jobs[u] -= 1;
            free[j] -= item.size;
        }
    }
    gangs
}
