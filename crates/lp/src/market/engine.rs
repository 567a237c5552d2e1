//! The price tree: a long-step dual simplex over `k` prices, exact, `O(|U| k)` per step.
//!
//! Two programs have the same dual shape. With `a_lj = 1/w_lj` and `λ_l(p) = min_j p_j a_lj`, the cost of a unit of
//! value to user l,
//!
//! ```text
//! equal level    maximise F(p)/(m·p),    F(p) = Σ_l v_l λ_l(p)                    (its optimum is 1/t)
//! equilibrium    minimise m·p − Σ_l v_l log λ_l(p)                                (Eisenberg and Gale's dual)
//! ```
//!
//! Both are piecewise smooth; the pieces are who prefers which resource, and at a vertex some users are indifferent:
//! they form the [`super::forest`]. What a user spends is `v_l λ_l` in the first (its work, priced) and `v_l` in the
//! second (its money); what resource j has to sell is `T m_j p_j` with `T = F/(m·p)`, or `m_j p_j`. A step takes the
//! largest violation that the forest shows, cuts the edge, and moves the prices of that side to the exact optimum
//! along the line ([`super::search`]), where a new user becomes tied (or, with money, between two users). The
//! objective rises strictly, so the method is finite; in practice it takes 2 to 100 steps.
//!
//! Equal rates are degenerate: millions of ties would make it stall. `a` is therefore perturbed by up to 10⁻¹² of itself,
//! by a hash of user and resource; the final prices are computed without the perturbation.
//!
//! Users do not move while prices do, except those who leave: their preference inside a side is not changed by a
//! common factor. So a step looks at the rates of one side's users only, and only at the other side's resources.

use super::forest::{Balance, Forest, MOST, Mask, Tie, Violation, everything, members};
use super::search::{Candidate, Rule, Stop, search};

/// A step by less than this factor over 1 is a stall: far more than the perturbation, far less than matters.
const NOWHERE: f64 = 1e-9;

/// A price that counts as 0; `m·p = 1`.
const NOTHING: f64 = 1e-250;

/// What is maximised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    EqualLevel,
    Equilibrium,
}

/// The users and resources of a program: every capacity is positive, every user has a positive rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program<'a> {
    pub(super) goal: Goal,
    /// Users × resources.
    pub(super) w: &'a [f64],
    /// v
    pub(super) weight: &'a [f64],
    /// m
    pub(super) capacity: &'a [f64],
}

/// Some of a program's users, beside constant demand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subproblem<'a> {
    pub(super) ids: &'a [u32],
    /// Their weights: v, more for a user that stands for others.
    pub(super) weight: &'a [f64],
    /// Units (equal level) or money (equilibrium) already fixed on each resource.
    pub(super) base: &'a [f64; MOST],
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// At the optimum.
    Balanced,
    /// All resources outside the set would have to be free: the set is a bottleneck of its own.
    Stuck(Mask),
    /// The budget is spent.
    Spent,
}

/// How much work was done, in counts that are the same on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effort {
    /// Price steps.
    pub steps: u32,
    /// How often some user's rates were looked at.
    pub visits: u64,
}

/// Reusable memory of a run. Afterwards `forest` has the ties, by the program's own numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Engine {
    pub(super) forest: Forest,
    k: usize,
    /// a, users × resources, infinite for "cannot use"
    a: Vec<f64>,
    v: Vec<f64>,
    choice: Vec<u8>,
    /// a at the choice
    near: Vec<f64>,
    /// What an untied user demands of its choice: v·near units, or v money; 0 for the tied.
    mass: Vec<f64>,
    candidates: Vec<Candidate>,
    random: u64,
}

impl Engine {
    /// Runs from prices `p` until balanced, stuck or `steps` are spent; leaves prices in `p` and choices in `choice`.
    pub(super) fn run(
        &mut self,
        program: &Program<'_>,
        sub: &Subproblem<'_>,
        p: &mut [f64; MOST],
        choice: &mut [u8],
        (steps, effort): (u32, &mut Effort),
    ) -> Outcome {
        self.load(program, sub, p);
        effort.visits += sub.ids.len() as u64;
        let outcome = loop {
            let balance = self.balance(program, sub, p);
            let Some(violation) = self.forest.settle(self.k, &balance) else { break Outcome::Balanced };
            if effort.steps >= steps {
                break Outcome::Spent;
            }
            effort.steps += 1;
            effort.visits += sub.ids.len() as u64;
            if let Err(mask) = self.step(program, sub, p, violation) {
                break Outcome::Stuck(mask);
            }
        };
        for (&id, &c) in sub.ids.iter().zip(&self.choice) {
            choice[id as usize] = c;
        }
        for tie in &mut self.forest.ties {
            tie.user = sub.ids[tie.user as usize];
        }
        outcome
    }

    /// Copies the users and lets everybody choose at `p`.
    fn load(&mut self, program: &Program<'_>, sub: &Subproblem<'_>, p: &[f64; MOST]) {
        let k = program.capacity.len();
        self.k = k;
        self.random = 0x9E37_79B9_7F4A_7C15;
        self.forest.ties.clear();
        for buffer in [&mut self.a, &mut self.v, &mut self.near, &mut self.mass] {
            buffer.clear();
        }
        self.choice.clear();
        self.a.reserve(sub.ids.len() * k);
        for (&id, &v) in sub.ids.iter().zip(sub.weight) {
            let l = id as usize;
            let (mut best, mut choice, mut near) = (f64::INFINITY, 0, f64::INFINITY);
            for (j, &w) in program.w[l * k..][..k].iter().enumerate() {
                let a = if w > 0.0 { (1.0 + 1e-12 * nudge((l * k + j) as u64)) / w } else { f64::INFINITY };
                self.a.push(a);
                if p[j] * a < best {
                    (best, choice, near) = (p[j] * a, j, a);
                }
            }
            self.v.push(v);
            self.choice.push(choice as u8);
            self.near.push(near);
            self.mass.push(if program.goal == Goal::EqualLevel { v * near } else { v });
        }
    }

    /// Who supplies and demands what at `p`.
    fn balance(&mut self, program: &Program<'_>, sub: &Subproblem<'_>, p: &[f64; MOST]) -> Balance {
        // Four partial sums: neighbours with the same choice would wait for each other's addition.
        let mut load = [[0.0; MOST]; 4];
        let (fours, rest) = self.mass.as_chunks::<4>();
        for (mass, choice) in fours.iter().zip(self.choice.as_chunks::<4>().0) {
            for q in 0..4 {
                load[q][choice[q] as usize % MOST] += mass[q];
            }
        }
        let done = self.mass.len() - rest.len();
        for (mass, &choice) in rest.iter().zip(&self.choice[done..]) {
            load[0][choice as usize % MOST] += mass;
        }
        let demand = std::array::from_fn(|j| sub.base[j] + load[0][j] + load[1][j] + load[2][j] + load[3][j]);
        for tie in &mut self.forest.ties {
            let l = tie.user as usize;
            tie.value = match program.goal {
                Goal::EqualLevel => self.v[l] * self.near[l] * p[self.choice[l] as usize],
                Goal::Equilibrium => self.v[l],
            };
        }
        balance_of(program, p, demand, &self.forest)
    }

    /// Moves the prices of a violation's resources; `Err` says which set is a bottleneck.
    fn step(
        &mut self,
        program: &Program<'_>,
        sub: &Subproblem<'_>,
        p: &mut [f64; MOST],
        violation: Violation,
    ) -> Result<(), Mask> {
        if let Some((e, j)) = violation.cut {
            self.cut(program, e, j);
        }
        let Violation { mask, over, .. } = violation;
        let rest = everything(self.k) & !mask;
        let (x, y) = if over { (mask, rest) } else { (rest, mask) };
        let (stay, gone) = self.gather(program, sub, p, x, y);
        let supply = |side: Mask| members(side).map(|j| program.capacity[j] * p[j]).sum::<f64>();
        let rule = match (program.goal, over) {
            (Goal::EqualLevel, _) => Rule::Ratio { x: supply(x), y: supply(y) },
            (Goal::Equilibrium, true) => Rule::Rise { supply: supply(x) },
            (Goal::Equilibrium, false) => Rule::Fall { supply: supply(y) },
        };
        let random = &mut self.random;
        let mut stop = search(&mut self.candidates, rule, (stay, gone), || xorshift(random));
        if let Stop::At(q) | Stop::Between(q, _) = stop
            && let Some(first) = self.first_of_many(q)
        {
            self.candidates.swap(0, first);
            stop = Stop::At(0);
        }
        let (gone, s) = match stop {
            Stop::At(q) => (q, self.candidates[q].rho),
            Stop::Between(gone, s) => (gone, s),
            Stop::Never => return Err(x),
        };
        self.leave(program, p, y, gone);
        if let Stop::At(q) = stop {
            self.tie(p, y, self.candidates[q].user as usize);
        }
        match rule {
            Rule::Ratio { .. } | Rule::Rise { .. } => members(x).for_each(|j| p[j] *= s),
            Rule::Fall { .. } => members(y).for_each(|j| p[j] /= s),
        }
        if program.goal == Goal::EqualLevel {
            let unit = 1.0 / members(x | y).map(|j| program.capacity[j] * p[j]).sum::<f64>();
            members(x | y).for_each(|j| p[j] *= unit);
            // Prices may differ by as many decades as rates do, resource after resource. A price near 0 is taken for 0;
            // the leximin levels correct that if it was wrong.
            let dear = members(x | y).filter(|&j| p[j] > NOTHING).fold(0, |sum: Mask, j| sum | 1 << j);
            if dear != x | y {
                return Err(dear);
            }
        }
        Ok(())
    }

    /// A long step that passes users and still stalls means that many users are nearly tied. Passing one set of them after
    /// the other would cycle within 10⁻¹²; tying the first of them joins the two sides, which then move together. Returns
    /// that user's position if the first `gone` candidates leave in a stalled step.
    fn first_of_many(&self, gone: usize) -> Option<usize> {
        let farthest = self.candidates[..gone].iter().map(|c| c.rho).fold(0.0, f64::max);
        let (mut first, mut rho) = (0, f64::INFINITY);
        for (q, candidate) in self.candidates[..gone].iter().enumerate() {
            if candidate.rho < rho {
                (first, rho) = (q, candidate.rho);
            }
        }
        (gone > 0 && farthest < 1.0 + NOWHERE).then_some(first)
    }

    /// Removes resource j from a tie.
    fn cut(&mut self, program: &Program<'_>, e: usize, j: usize) {
        let tie = &mut self.forest.ties[e];
        tie.mask &= !(1 << j);
        let (l, left) = (tie.user as usize, tie.mask);
        if self.choice[l] as usize == j {
            let other = left.trailing_zeros() as usize;
            self.choice[l] = other as u8;
            self.near[l] = self.a[l * self.k + other];
        }
        if left.count_ones() == 1 {
            self.forest.ties.swap_remove(e);
            self.free(program, l);
        }
    }

    /// The user is not tied: all it demands is of its choice.
    fn free(&mut self, program: &Program<'_>, l: usize) {
        self.mass[l] = if program.goal == Goal::EqualLevel { self.v[l] * self.near[l] } else { self.v[l] };
    }

    /// Lists the users of X who could leave for Y; returns the demand that cannot leave, and that of Y.
    fn gather(&mut self, program: &Program<'_>, sub: &Subproblem<'_>, p: &[f64; MOST], x: Mask, y: Mask) -> (f64, f64) {
        let k = self.k;
        let level = program.goal == Goal::EqualLevel;
        let price = |j: usize| if level { p[j] } else { 1.0 };
        let mut stay: f64 = members(x).map(|j| sub.base[j] * price(j)).sum();
        let mut gone: f64 = members(y).map(|j| sub.base[j] * price(j)).sum();
        let mut beyond = [(0, 0.0); MOST];
        let mut count = 0;
        for j in members(y) {
            beyond[count] = (j, p[j]);
            count += 1;
        }
        let beyond = &beyond[..count];
        self.candidates.clear();
        let users = self.choice.iter().zip(&self.near).zip(&self.v).zip(self.a.chunks_exact(k));
        for (l, (((&choice, &near), &v), row)) in users.enumerate() {
            let here = p[choice as usize % MOST] * near;
            let spent = if level { v * here } else { v };
            if x >> choice & 1 == 0 {
                gone += spent;
                continue;
            }
            let mut there = f64::INFINITY;
            for &(j, p) in beyond {
                let cost = p * row[j];
                there = if cost < there { cost } else { there };
            }
            if there < f64::INFINITY {
                let go = if level { v * there } else { v };
                self.candidates.push(Candidate { rho: there / here, stay: spent, go, user: l as u32 });
            } else {
                stay += spent;
            }
        }
        (stay, gone)
    }

    /// The first `gone` candidates move to their best resource in `y`, and lose their ties.
    fn leave(&mut self, program: &Program<'_>, p: &[f64; MOST], y: Mask, gone: usize) {
        for q in 0..gone {
            let l = self.candidates[q].user as usize;
            let there = self.best(l, p, y);
            self.choice[l] = there as u8;
            self.near[l] = self.a[l * self.k + there];
            self.free(program, l);
        }
        let choice = &self.choice;
        self.forest.ties.retain(|tie| tie.mask >> choice[tie.user as usize] & 1 == 1);
    }

    /// The user's cheapest resource of a set.
    fn best(&self, l: usize, p: &[f64; MOST], set: Mask) -> usize {
        let row = &self.a[l * self.k..][..self.k];
        let (mut best, mut at) = (f64::INFINITY, 0);
        for j in members(set) {
            if p[j] * row[j] < best {
                (best, at) = (p[j] * row[j], j);
            }
        }
        at
    }

    /// The user is now indifferent between its choice and its best resource in `y`.
    fn tie(&mut self, p: &[f64; MOST], y: Mask, l: usize) {
        let there = 1 << self.best(l, p, y);
        self.mass[l] = 0.0;
        match self.forest.ties.iter_mut().find(|tie| tie.user as usize == l) {
            Some(tie) => tie.mask |= there,
            None => {
                let mask = there | 1 << self.choice[l];
                self.forest.ties.push(Tie { user: l as u32, mask, value: 0.0, part: [0.0; MOST] });
            }
        }
    }
}

/// Supply and demand at prices `p`, from demand in units or money.
pub(super) fn balance_of(program: &Program<'_>, p: &[f64; MOST], mut demand: [f64; MOST], forest: &Forest) -> Balance {
    let k = program.capacity.len();
    let mut supply = [0.0; MOST];
    for j in 0..k {
        supply[j] = program.capacity[j] * p[j];
    }
    if program.goal == Goal::EqualLevel {
        (0..k).for_each(|j| demand[j] *= p[j]);
        let tied: f64 = forest.ties.iter().map(|tie| tie.value).sum();
        let per_supply = (demand[..k].iter().sum::<f64>() + tied) / supply[..k].iter().sum::<f64>();
        supply[..k].iter_mut().for_each(|s| *s *= per_supply);
    }
    Balance { supply, demand }
}

/// A number in [0, 1) that depends on `seed` alone.
fn nudge(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// The next number of a small deterministic sequence; `state` is never 0.
pub(super) fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 11
}
