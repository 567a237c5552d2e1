//! Fair and frugal: the best fair division first, then as little power as a part ε of everybody's speed allows.
//!
//! **First stage.** What everybody would have under `oef-coop`, every GPU in its fastest mode: GPUs X*_l and speed u*_l. Where that gives somebody less than an
//! equal division (rates of 0 can do that), `ceei`, which never does.
//!
//! **Second stage.** With a_lj the speed-up of l on a GPU of kind j in l's own fastest mode, and X_i the GPUs that i holds, in whatever mode:
//!
//!   minimise   watts
//!   s.t.       u_l ≥ f_l                                        everybody
//!              u_l/π_l ≥ (1 − ε) a_l·X_i/π_i                    everybody, of everybody else
//!
//!   f_l = the largest of  (1 − ε) u*_l,   an equal division,   what l's jobs were promised,   what l gets of its most efficient GPUs;   at most u*_l
//!
//! Another's GPUs are valued in one's own best mode: compared in the *other's* modes, a program that saves power runs them in modes that l has no use
//! for and calls that fair. Had l the GPUs of i, the same sacrifice would be asked of it, so nobody gains more than ε/(1 − ε) by taking
//! another's place. The last floor keeps l from being slowed where that saves no energy: a GPU that idles for a while draws less power and takes
//! as much longer. A promise is kept out of its tenant's own share, never out of another's.
//!
//! Three answers, each no better than the next: every user frugal within its own GPUs (no solver, keeps every row, always there at once); the
//! program above, with two jobs on one GPU where that pays, while there are few enough users, and near it with a bound where there are many; and, as a bound for
//! the rest, the program without rows against envy. What is returned is the best of the first two, and the certificate says how far from the bound it is.
//!
//! Of two on a GPU each counts as holding half of it. With caps (fewer jobs than a fair share would serve) envy counts what l could use of another's GPUs.
//!
//! **Under a power budget** that this exceeds, the answer is that of `fair-power`: watts are then a good like GPUs.

use super::ceei::Ceei;
use super::fair_power;
use super::modal::{Modal, beyond_idle};
use super::oef_coop::Cooperative;
use super::{
    AllocateError, Allocation, Certificate, FreeGpus, Grant, Members, PairRates, Policy, PolicyEntry, Problem, Promise,
    Proposal, program, user_index,
};
use crate::wanted::Wanted;
use arles_lp::Budget;
use arles_lp::ways::{self, Envious, NearWorkspace, Nearly, Together, Workspace};
use std::sync::{Mutex, PoisonError};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fair-energy",
    summary: "OEF's cooperative division, then least power for a part ε of everybody's speed: at most ε/(1-ε) envy, nobody below an equal share; two jobs may share a GPU",
    pairs: true,
    energy_aware: true,
    free_gpus: FreeGpus::KeptOnAverage,
    modes: true,
    objective_degree: Some(0),
    promises: &[Promise::SharingIncentive, Promise::NearlyEnvyFree],
    make: || Box::<FairEnergy>::default(),
    ..PolicyEntry::DIVIDES_BY_TENANT
};

/// Users, alike ones as one, up to which rows against envy are worth their time; and with few kinds, where what is near is not near enough.
const MOST_USERS: usize = 64;
const MOST_USERS_OF_FEW_KINDS: usize = 200;
const FEW_KINDS: usize = 3;
/// The gap to the least power at which an answer for more users will do.
const NEAR: f64 = 0.01;
/// Pivots in one answer.
const PIVOTS: Budget = Budget::iterations(20_000);
/// Somebody with less than this part of an equal division has less.
const EQUAL: f64 = 1.0 - 1e-6;
/// Floors are lowered by this part, so that rounding in the first stage does not make them unreachable.
const INSIDE: f64 = 1e-9;

#[derive(Default)]
pub(super) struct FairEnergy {
    cooperative: Cooperative,
    ceei: Ceei,
    memory: Mutex<Memory>,
}

/// The last answer's parts, to start from. Where only ε, watts, budgets or promises have changed the first stage stands as it is.
#[derive(Default)]
struct Memory {
    first: Option<(FirstStage, Fair)>,
    near: NearWorkspace,
}

/// All that the first stage looks at.
#[derive(PartialEq)]
struct FirstStage {
    users: Vec<usize>,
    best: Vec<f64>,
    weight: Vec<f64>,
    caps: Vec<f64>,
    capacity: Vec<f64>,
}

impl FirstStage {
    fn of(modal: &Modal<'_>) -> Self {
        let ways = modal.ways();
        Self {
            users: modal.users.clone(),
            best: (0..modal.users.len()).flat_map(|l| ways.best_rates(l)).collect(),
            weight: modal.weight.clone(),
            caps: modal.caps.clone(),
            capacity: modal.problem.capacity.clone(),
        }
    }
}

/// Who uses what, and what that draws.
struct Use {
    x: Vec<f64>,
    /// Units for two, each with its pair.
    together: Vec<(Together, f64)>,
    draw: f64,
}

/// The first stage: GPUs as sold by user and kind, and speeds.
#[derive(Clone)]
struct Fair {
    units: Vec<f64>,
    speeds: Vec<f64>,
    equal: Vec<f64>,
}

impl Policy for FairEnergy {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let modal = Modal::new(problem);
        if modal.users.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let fair = self.fair(&modal, &mut memory)?;
        let floors = floors(&modal, &fair);
        let own = thrifty(&modal, &fair, &floors);
        let (mut best, mut bound) = (own, 0.0f64);
        for (shared, least) in with_rows(&modal, &fair, &floors, &best, &mut memory.near) {
            bound = bound.max(least);
            if shared.draw < best.draw {
                best = shared;
            }
        }
        if bound == 0.0 && floors.iter().all(|floor| *floor > 0.0) {
            bound = ways::least_draw(&modal.ways(), &[], &floors, Budget::default())?.bound.lower;
        }
        if modal.budget().is_some_and(|watts| best.draw > watts) {
            return within_budget(&modal);
        }
        let certificate = Certificate { lower: -best.draw, upper: -bound.min(best.draw) };
        let proposal = Proposal {
            grants: grants(&modal, &best),
            objective: Some(-best.draw),
            certificate: Some(certificate),
            ..Proposal::default()
        };
        Allocation::check(problem, proposal)
    }
}

impl FairEnergy {
    /// The division at full power.
    fn fair(&self, modal: &Modal<'_>, memory: &mut Memory) -> Result<Fair, AllocateError> {
        let asked = FirstStage::of(modal);
        if let Some((_, fair)) = memory.first.as_ref().filter(|(known, _)| *known == asked) {
            return Ok(fair.clone());
        }
        let fastest = fastest(modal.problem);
        let mut fair = read(modal, &self.cooperative.allocate(&fastest)?);
        if fair.speeds.iter().zip(&fair.equal).any(|(speed, equal)| *speed < EQUAL * equal) {
            fair = read(modal, &self.ceei.allocate(&fastest)?);
        }
        memory.first = Some((asked, fair.clone()));
        Ok(fair)
    }
}

/// The problem with every GPU in its fastest mode, nobody sharing one.
fn fastest(problem: &Problem) -> Problem {
    let k = problem.kinds();
    let mut fastest = Problem { pairs: Vec::new(), power: None, ..problem.clone() };
    if !problem.sold_as.is_empty() {
        for row in fastest.rates.chunks_exact_mut(k) {
            for j in (0..k).filter(|&j| problem.sold_as(j) != j) {
                let rate = std::mem::take(&mut row[j]);
                row[problem.sold_as(j)] = row[problem.sold_as(j)].max(rate);
            }
        }
    }
    fastest
}

fn read(modal: &Modal<'_>, allocation: &Allocation) -> Fair {
    let (problem, ways) = (modal.problem, modal.ways());
    let (n, k) = (modal.users.len(), problem.kinds());
    let mut units = vec![0.0; n * k];
    for grant in allocation.grants() {
        if let Members::One(u) = grant.members
            && let Ok(l) = modal.users.binary_search(&(u as usize))
        {
            units[l * k + grant.kind.index()] += grant.gangs * f64::from(problem.users[u as usize].gang);
        }
    }
    let all: f64 = modal.weight.iter().sum();
    let (mut speeds, mut equal) = (Vec::with_capacity(n), Vec::with_capacity(n));
    for l in 0..n {
        let best = ways.best_rates(l);
        speeds.push(best.iter().zip(&units[l * k..]).map(|(a, x)| a * x).sum());
        // Fastest first, up to what it can hold.
        let mut kinds: Vec<(f64, f64)> =
            best.iter().zip(&problem.capacity).map(|(a, m)| (*a, m * modal.weight[l] / all)).collect();
        kinds.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut left = modal.caps[l];
        equal.push(kinds.into_iter().fold(0.0, |sum, (a, units)| {
            let used = if a > 0.0 { units.min(left) } else { 0.0 };
            left -= used;
            sum + a * used
        }));
    }
    Fair { units, speeds, equal }
}

fn floors(modal: &Modal<'_>, fair: &Fair) -> Vec<f64> {
    let k = modal.problem.kinds();
    let floor = |l: usize| {
        let most = fair.speeds[l] * (1.0 - INSIDE);
        let efficient = ways::most_efficient(&modal.ways(), l, &fair.units[l * k..][..k]);
        let asked = (1.0 - modal.power.epsilon) * fair.speeds[l];
        asked.max(fair.equal[l]).max(modal.promised(l)).max(efficient).min(most)
    };
    (0..modal.users.len()).map(floor).collect()
}

/// Everybody frugal within its own GPUs.
fn thrifty(modal: &Modal<'_>, fair: &Fair, floors: &[f64]) -> Use {
    let k = modal.problem.kinds();
    let ways = modal.ways();
    let own = |(l, floor): (usize, &f64)| ways::thrift(&ways, l, &fair.units[l * k..][..k], *floor);
    let x: Vec<f64> = floors.iter().enumerate().flat_map(own).collect();
    Use { draw: modal.drawn(&x), x, together: Vec::new() }
}

/// What the program with rows against envy, or one near it, says: uses that keep the rows, each with a bound.
fn with_rows(
    modal: &Modal<'_>,
    fair: &Fair,
    floors: &[f64],
    known: &Use,
    workspace: &mut NearWorkspace,
) -> Vec<(Use, f64)> {
    if floors.iter().any(|floor| *floor <= 0.0) {
        return Vec::new();
    }
    let users = modal.users.len();
    if users <= MOST_USERS {
        return without_envy(modal, fair, floors, known, &together(modal)).into_iter().collect();
    }
    let near = nearly(modal, fair, floors, workspace);
    let kinds = modal.problem.capacity.iter().filter(|m| **m > 0.0).count();
    let is_near = near.as_ref().is_some_and(|(near, least)| near.draw - least <= NEAR * near.draw);
    let exact = (!is_near && users <= MOST_USERS_OF_FEW_KINDS && kinds <= FEW_KINDS)
        .then(|| without_envy(modal, fair, floors, known, &[]));
    near.into_iter().chain(exact.flatten()).collect()
}

/// The program with rows against envy, and what it proves.
fn without_envy(
    modal: &Modal<'_>,
    fair: &Fair,
    floors: &[f64],
    known: &Use,
    together: &[Together],
) -> Option<(Use, f64)> {
    let rents = rents(modal, fair);
    let part = 1.0 - modal.power.epsilon;
    let asked = Envious { floors, part, rents: &rents, together, known: &known.x };
    let answer = ways::least_draw_without_envy(&modal.ways(), &asked, PIVOTS)?;
    let used = together.iter().copied().zip(answer.together).filter(|(_, units)| *units > 0.0);
    let answer_use = Use { x: answer.x, together: used.collect(), draw: answer.draw };
    // A solver may be wrong: what breaks a row is not taken.
    (!rents.is_empty() || keeps_rows(modal, &answer_use)).then_some((answer_use, answer.least))
}

/// Near the program with rows against envy, where there are too many users for it; without pairs, and where nobody is capped.
fn nearly(modal: &Modal<'_>, fair: &Fair, floors: &[f64], workspace: &mut NearWorkspace) -> Option<(Use, f64)> {
    let all: f64 = modal.problem.capacity.iter().sum();
    let capped = modal.caps.iter().any(|cap| *cap < all);
    let part = 1.0 - modal.power.epsilon;
    if capped || part >= 1.0 {
        return None;
    }
    let asked = Nearly { floors, part, units: &fair.units, gap: NEAR };
    let near = workspace.solve(&modal.ways(), &asked, ways::TURNS).ok()?;
    let answer = Use { draw: modal.drawn(&near.x), x: near.x, together: Vec::new() };
    keeps_rows(modal, &answer).then_some((answer, near.bound.lower))
}

/// Whether nobody would gain more than ε/(1 − ε) by taking another's place; nobody is capped.
fn keeps_rows(modal: &Modal<'_>, answer: &Use) -> bool {
    let (ways, n, k) = (modal.ways(), modal.users.len(), modal.problem.kinds());
    let (mut units, mut speeds) = (vec![0.0; n * k], vec![0.0; n]);
    for (at, &x) in answer.x.iter().enumerate() {
        units[at / k * k + modal.problem.sold_as(at % k)] += x;
        speeds[at / k] += modal.w[at] * x;
    }
    for (pair, gpus) in &answer.together {
        for (l, rate) in [pair.first, pair.second].into_iter().zip(pair.rates) {
            units[l * k + modal.problem.sold_as(pair.way)] += gpus / 2.0;
            speeds[l] += rate * gpus;
        }
    }
    // Nothing that is not a number passes.
    if !units.iter().chain(&speeds).all(|x| x.is_finite()) {
        return false;
    }
    let part = (1.0 - modal.power.epsilon) * EQUAL;
    let best: Vec<Vec<f64>> = (0..n).map(|l| ways.best_rates(l)).collect();
    let wanted = Wanted::new(&units, &modal.weight, |l, j| best[l][j] * modal.weight[l] / speeds[l]);
    (0..n).all(|l| {
        let most = speeds[l] / modal.weight[l];
        let mut envied = false;
        wanted.each(&best[l], most / part, |i, worth| {
            envied |= i != l && part * worth > most;
            most / part
        });
        !envied
    })
}

/// μ of everybody: what a place within its cap is worth to it. Any number is allowed; this one makes most of its rows hold at the division at full power.
fn rents(modal: &Modal<'_>, fair: &Fair) -> Vec<f64> {
    let (n, k) = (modal.users.len(), modal.problem.kinds());
    let all: f64 = modal.problem.capacity.iter().sum();
    if modal.caps.iter().all(|cap| *cap >= all) {
        return Vec::new();
    }
    let rent = |l: usize| {
        if modal.caps[l].is_infinite() {
            return 0.0;
        }
        let best = modal.ways().best_rates(l);
        let worst = |rent: f64| {
            let worth = |i: usize| {
                let others = best.iter().zip(&fair.units[i * k..]).map(|(a, x)| f64::max(a - rent, 0.0) * x);
                others.sum::<f64>() * modal.weight[l] / modal.weight[i]
            };
            (0..n).filter(|&i| i != l).map(worth).fold(0.0, f64::max) + rent * modal.caps[l]
        };
        let rents = std::iter::once(0.0).chain(best.iter().copied());
        rents.map(|rent| (worst(rent), rent)).min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0.0, |(_, rent)| rent)
    };
    (0..n).map(rent).collect()
}

/// All that two users can do on one GPU.
fn together(modal: &Modal<'_>) -> Vec<Together> {
    let problem = modal.problem;
    let of = |workload| {
        let takes_part =
            move |(_, u): &(usize, &usize)| problem.users[**u].workload == workload && problem.users[**u].gang == 1;
        modal.users.iter().enumerate().filter(takes_part).map(|(l, _)| l)
    };
    let mut found = Vec::new();
    for (at, pair) in problem.pairs.iter().enumerate() {
        let &PairRates { a, b, kind, rate_a, rate_b } = pair;
        let way = kind.index();
        if problem.gpus_of(way) < 1.0 {
            continue;
        }
        let draw = beyond_idle(&modal.power, modal.power.pairs[at].watts, way);
        for first in of(a) {
            for second in of(b).filter(|&second| a != b || second >= first) {
                let users = [first, second].map(|l| modal.users[l]);
                if first == second && problem.users[users[0]].jobs < 2 {
                    continue;
                }
                let unit = |l: usize, u: usize| over_alone(modal, l, u, way);
                let rates = [rate_a * unit(first, users[0]), rate_b * unit(second, users[1])];
                if rates.iter().all(|rate| *rate > 0.0) {
                    found.push(Together { first, second, way, rates, draw });
                }
            }
        }
    }
    found
}

/// What a step per second is in a user's speed-ups; 0 on a kind that counts as one that it does not fit on.
fn over_alone(modal: &Modal<'_>, l: usize, u: usize, kind: usize) -> f64 {
    let (w, rate) = (modal.w[l * modal.problem.kinds() + kind], modal.problem.rates(u)[kind]);
    if rate > 0.0 { w / rate } else { 0.0 }
}

fn grants(modal: &Modal<'_>, best: &Use) -> Vec<Grant> {
    let mut grants = program::grants(modal.problem, &modal.users, &best.x);
    grants.extend(best.together.iter().map(|(pair, units)| {
        let users = [pair.first, pair.second].map(|l| user_index(modal.users[l]));
        let members = Members::Two(users[0].min(users[1]), users[0].max(users[1]));
        Grant { kind: super::kind_id(pair.way), members, gangs: *units }
    }));
    grants
}

/// The market over GPUs and watts.
fn within_budget(modal: &Modal<'_>) -> Result<Allocation, AllocateError> {
    let Some((incomes, _)) = fair_power::divide(modal, &mut Workspace::default())? else {
        return Allocation::check(modal.problem, Proposal::default());
    };
    let proposal = Proposal {
        grants: program::grants(modal.problem, &modal.users, &incomes.x),
        objective: Some(-modal.drawn(&incomes.x)),
        watt_price: incomes.draw_prices.first().copied(),
        ..Proposal::default()
    };
    Allocation::check(modal.problem, proposal)
}
