//! Sia (SOSP '23) with gangs as they are submitted: every round each job gets one kind, or waits.
//!
//! G_ij is job i's rate on kind j over its least on any kind it fits on, and X_ij ∈ {0, 1} says that it runs there:
//!
//!   minimise  Σ_ij X_ij G_ij^p + λ (J − Σ_ij X_ij)     s.t.   Σ_j X_ij ≤ 1,   Σ_i g_i X_ij ≤ m_j        p = −½, λ = 1.1
//!
//! A negative power makes the first doubling of a job's rate worth more than the second. λ > 1 makes anybody's running worth
//! more than waiting. The same, turned round, is the objective here:
//!
//!   maximise  Σ_ij v_ij X_ij        v_ij = λ − G_ij^p
//!
//! Sia discounts a kind that a running job would have to move to by (T − N·S)/(T + S), T its age, S what a restart costs
//! and N how often it has restarted. The problem knows T; S is taken as a minute and N as 0. It scales its jobs, too: this
//! does not.
//!
//! The prices π_j of a GPU come from minimising the Lagrangian bound
//!
//!   D(π) = Σ_j m_j π_j + Σ_i max(0, max_j (v_ij − g_i π_j))   ≥   every sum that can be had, whole or not
//!
//! coordinate by coordinate, exactly. Jobs are then given kinds in order of (v_ij − g_i π_j)/g_i, and moved, swapped and
//! exchanged for waiting ones, a gang for several too, while that gains. Polyak's steps towards the sum so found lower D further: D is the certificate.

use super::program::{self, Served};
use super::{
    AllocateError, Allocation, Certificate, Grant, Members, Policy, PolicyEntry, Problem, Promise, Proposal, kind_id,
    user_index,
};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "sia",
    summary: "Sia's objective with fixed gangs, by local search: each round a job gets one kind or waits; the first speed-ups count most",
    every_round: true,
    promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
    make: || Box::new(Sia),
    ..PolicyEntry::ORDERS_JOBS
};

pub(super) struct Sia;

const POWER: f64 = -0.5;
const LAMBDA: f64 = 1.1;
/// What a restart is taken to cost.
const RESTART_SECONDS: f64 = 60.0;
/// A kind that a job fits on is always worth something, however dear the restart.
const LEAST_VALUE: f64 = 0.01;
/// Sweeps over the prices, passes of improvement and Polyak's steps, at most.
const SWEEPS: u32 = 8;
const PASSES: u32 = 20;
const STEPS: u32 = 100;
/// Gains below this are rounding.
const DUST: f64 = 1e-12;

impl Policy for Sia {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let served = Served::new(problem);
        let jobs = program::units(problem, &served);
        if jobs.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let choice = Choice::new(problem, &served, &jobs);
        let mut prices = choice.prices();
        let mut plan = choice.greedy(&prices);
        choice.improve(&mut plan);
        let lower = choice.value(&plan);
        let upper = choice.lower_bound(&mut prices, lower).max(lower);
        let running = plan.kind_of.iter().zip(&jobs).filter_map(|(kind, &i)| Some(((*kind)?, i)));
        let grants = running.map(|(kind, i)| Grant {
            kind: kind_id(kind),
            members: Members::One(user_index(served.users[i])),
            gangs: 1.0,
        });
        let grants = grants.collect();
        let certificate = Some(Certificate { lower, upper });
        Allocation::check(
            problem,
            Proposal { grants, objective: Some(lower), certificate, prices, ..Proposal::default() },
        )
    }
}

/// The program.
struct Choice {
    kinds: usize,
    /// v, jobs × kinds; 0 where it does not fit.
    v: Vec<f64>,
    gangs: Vec<f64>,
    /// Jobs that run now.
    runs: Vec<bool>,
    capacity: Vec<f64>,
}

/// Who runs where.
struct Plan {
    kind_of: Vec<Option<usize>>,
    free: Vec<f64>,
}

impl Choice {
    fn new(problem: &Problem, served: &Served, jobs: &[usize]) -> Self {
        let k = problem.kinds();
        let speedups = problem.speedups();
        let mut v = Vec::with_capacity(jobs.len() * k);
        let (mut gangs, mut runs) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        for &i in jobs {
            let u = served.users[i];
            let user = &problem.users[u];
            let age = problem.now.since(user.arrived).max(1.0);
            let moving = age / (age + RESTART_SECONDS);
            for (j, &g) in speedups[u * k..(u + 1) * k].iter().enumerate() {
                let moved = user.held.is_some_and(|held| held.index() != j);
                let goodput = g * if moved { moving } else { 1.0 };
                v.push(if g > 0.0 { (LAMBDA - goodput.powf(POWER)).max(LEAST_VALUE) } else { 0.0 });
            }
            gangs.push(f64::from(user.gang));
            runs.push(user.held.is_some());
        }
        Self { kinds: k, v, gangs, runs, capacity: problem.capacity.iter().map(|m| m.floor()).collect() }
    }

    fn jobs(&self) -> usize {
        self.gangs.len()
    }

    fn v(&self, i: usize, j: usize) -> f64 {
        self.v[i * self.kinds + j]
    }

    /// What job i does best at these prices, `besides` a kind: its surplus there, at least 0.
    fn surplus(&self, i: usize, prices: &[f64], besides: Option<usize>) -> f64 {
        let others = (0..self.kinds).filter(|&j| Some(j) != besides && self.v(i, j) > 0.0);
        others.map(|j| self.v(i, j) - self.gangs[i] * prices[j]).fold(0.0, f64::max)
    }

    /// Prices by coordinate descent: each kind's in turn is where those who would pay more take all of it.
    fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.kinds];
        let mut bids: Vec<(f64, f64)> = Vec::with_capacity(self.jobs());
        for _ in 0..SWEEPS {
            let before = prices.clone();
            for j in (0..self.kinds).filter(|&j| self.capacity[j] > 0.0) {
                bids.clear();
                for i in (0..self.jobs()).filter(|&i| self.v(i, j) > 0.0) {
                    let bid = (self.v(i, j) - self.surplus(i, &prices, Some(j))) / self.gangs[i];
                    bids.push((bid, self.gangs[i]));
                }
                bids.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
                let mut left = self.capacity[j];
                let marginal = bids.iter().find(|(_, gang)| {
                    left -= gang;
                    left < 0.0
                });
                prices[j] = marginal.map_or(0.0, |(bid, _)| bid.max(0.0));
            }
            if prices == before {
                break;
            }
        }
        prices
    }

    /// Best surplus per GPU first, whoever runs before whoever waits, while there is room.
    fn greedy(&self, prices: &[f64]) -> Plan {
        let mut cells: Vec<(f64, usize, usize)> = Vec::with_capacity(self.v.len());
        for (at, &v) in self.v.iter().enumerate().filter(|(_, v)| **v > 0.0) {
            let (i, j) = (at / self.kinds, at % self.kinds);
            cells.push((v / self.gangs[i] - prices[j], i, j));
        }
        let waits = |i: usize| !self.runs[i];
        cells.sort_by(|a, b| b.0.total_cmp(&a.0).then((waits(a.1), a.1, a.2).cmp(&(waits(b.1), b.1, b.2))));
        let mut plan = Plan { kind_of: vec![None; self.jobs()], free: self.capacity.clone() };
        for (_, i, j) in cells {
            if plan.kind_of[i].is_none() && plan.free[j] >= self.gangs[i] {
                plan.kind_of[i] = Some(j);
                plan.free[j] -= self.gangs[i];
            }
        }
        plan
    }

    fn worth(&self, plan: &Plan, i: usize) -> f64 {
        plan.kind_of[i].map_or(0.0, |j| self.v(i, j))
    }

    fn value(&self, plan: &Plan) -> f64 {
        (0..self.jobs()).map(|i| self.worth(plan, i)).sum()
    }

    fn put(&self, plan: &mut Plan, i: usize, to: Option<usize>) {
        if let Some(j) = plan.kind_of[i] {
            plan.free[j] += self.gangs[i];
        }
        if let Some(j) = to {
            plan.free[j] -= self.gangs[i];
        }
        plan.kind_of[i] = to;
    }

    /// Moves jobs to better kinds, into free room or in exchange for another's place, while that gains.
    fn improve(&self, plan: &mut Plan) {
        for _ in 0..PASSES {
            let mut gained = false;
            for i in 0..self.jobs() {
                for j in 0..self.kinds {
                    gained |= self.v(i, j) > self.worth(plan, i) + DUST && self.take(plan, i, j);
                }
            }
            for i in (0..self.jobs()).filter(|&i| self.gangs[i] > 1.0) {
                gained |= self.make_room(plan, i);
            }
            if !gained {
                break;
            }
        }
        self.refill(plan, None);
    }

    /// Brings job i to kind j if there is room, or if another can leave for less than i gains.
    fn take(&self, plan: &mut Plan, i: usize, j: usize) -> bool {
        if plan.free[j] >= self.gangs[i] {
            self.put(plan, i, Some(j));
            return true;
        }
        let gain = self.v(i, j) - self.worth(plan, i);
        let from = plan.kind_of[i];
        let mut best: Option<(f64, usize, Option<usize>)> = None;
        for other in (0..self.jobs()).filter(|&other| plan.kind_of[other] == Some(j)) {
            if plan.free[j] + self.gangs[other] < self.gangs[i] {
                continue;
            }
            let room = |to: usize| plan.free[to] + if Some(to) == from { self.gangs[i] } else { 0.0 };
            let goes =
                (0..self.kinds).filter(|&to| to != j && self.v(other, to) > 0.0 && room(to) >= self.gangs[other]);
            let goes = goes.max_by(|&a, &b| self.v(other, a).total_cmp(&self.v(other, b)).then(b.cmp(&a)));
            let loss = self.v(other, j) - goes.map_or(0.0, |to| self.v(other, to));
            if loss + DUST < gain && best.is_none_or(|(least, ..)| loss < least) {
                best = Some((loss, other, goes));
            }
        }
        let Some((_, other, goes)) = best else { return false };
        self.put(plan, i, None);
        self.put(plan, other, goes);
        self.put(plan, i, Some(j));
        true
    }

    /// A gang for several: tries job i elsewhere, the least valuable of those there giving way, or i itself giving way to
    /// others; keeps the first that gains.
    fn make_room(&self, plan: &mut Plan, i: usize) -> bool {
        let now = self.value(plan);
        for to in (0..=self.kinds).filter(|&to| to == self.kinds || self.v(i, to) > 0.0) {
            let to = (to < self.kinds).then_some(to);
            if to == plan.kind_of[i] || to.is_some_and(|j| self.capacity[j] < self.gangs[i]) {
                continue;
            }
            let mut trial = Plan { kind_of: plan.kind_of.clone(), free: plan.free.clone() };
            self.put(&mut trial, i, None);
            if let Some(j) = to {
                let mut here: Vec<usize> = (0..self.jobs()).filter(|&other| trial.kind_of[other] == Some(j)).collect();
                let density = |other: usize| self.v(other, j) / self.gangs[other];
                here.sort_by(|&a, &b| density(a).total_cmp(&density(b)).then(b.cmp(&a)));
                for other in here {
                    if trial.free[j] < self.gangs[i] {
                        self.put(&mut trial, other, None);
                    }
                }
                self.put(&mut trial, i, to);
            }
            self.refill(&mut trial, Some(i));
            if self.value(&trial) > now + DUST {
                *plan = trial;
                return true;
            }
        }
        false
    }

    /// Gives whoever waits (but for `except`) the best kind with room, most valuable per GPU first.
    fn refill(&self, plan: &mut Plan, except: Option<usize>) {
        loop {
            let waits = (0..self.jobs()).filter(|&i| Some(i) != except && plan.kind_of[i].is_none());
            let cells = waits.flat_map(|i| (0..self.kinds).map(move |j| (i, j)));
            let fits = cells.filter(|&(i, j)| self.v(i, j) > 0.0 && plan.free[j] >= self.gangs[i]);
            let density = |&(i, j): &(usize, usize)| self.v(i, j) / self.gangs[i];
            let Some((i, j)) = fits.max_by(|a, b| density(a).total_cmp(&density(b)).then(b.cmp(a))) else { break };
            self.put(plan, i, Some(j));
        }
    }

    /// D(π), lowered by Polyak's steps towards `reached`; leaves the best prices in `prices`.
    fn lower_bound(&self, prices: &mut [f64], reached: f64) -> f64 {
        let mut at = prices.to_vec();
        let mut best = f64::INFINITY;
        let mut slope = vec![0.0; self.kinds];
        for _ in 0..STEPS {
            slope.copy_from_slice(&self.capacity);
            let mut bound: f64 = self.capacity.iter().zip(&at).map(|(m, p)| m * p).sum();
            for i in 0..self.jobs() {
                let surplus = |j: usize| if self.v(i, j) > 0.0 { self.v(i, j) - self.gangs[i] * at[j] } else { 0.0 };
                let Some(j) = (0..self.kinds).max_by(|&a, &b| surplus(a).total_cmp(&surplus(b)).then(b.cmp(&a))) else {
                    continue;
                };
                if surplus(j) > 0.0 {
                    bound += surplus(j);
                    slope[j] -= self.gangs[i];
                }
            }
            if bound < best {
                best = bound;
                prices.copy_from_slice(&at);
            }
            // A price of 0 cannot fall.
            let steep: f64 =
                (slope.iter().zip(&at)).map(|(s, p)| if *p <= 0.0 && *s > 0.0 { 0.0 } else { s * s }).sum();
            if best <= reached + DUST || steep == 0.0 {
                break;
            }
            let step = (bound - reached) / steep;
            at.iter_mut().zip(&slope).for_each(|(p, s)| *p = (*p - step * s).max(0.0));
        }
        best
    }
}
