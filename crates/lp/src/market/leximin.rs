//! Lexicographic max-min: where some users cannot use every resource, raising the worst-off is only the first level.
//!
//! If the engine finds that all resources outside a set B would have to be free, then B and the users *confined* to
//! it (no positive rate outside) are a bottleneck: at the optimum they take all of B, the others use resources outside
//! B, and the rest is a smaller problem of the same kind. That gives at most `k` levels, in ascending order.
//!
//! Whether a set is the *first* bottleneck is only known afterwards: the next level must not be lower. If it is, the two
//! are pooled: with the lower set's prices raised until no user of the upper one prefers them, their union is a starting
//! point from which the engine equalises them. It cannot return to the old split, because its objective only rises.

use super::engine::{Outcome, Program};
use super::forest::{MOST, Mask, everything, members};
use super::read::read;
use super::sampled::{SampledSolver, start_prices};

/// A user who has no level yet.
const NONE: u8 = u8::MAX;

/// A set of resources with the users confined to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bottleneck {
    pub(super) set: Mask,
    pub(super) t: f64,
    /// Prices of the set, `m·p = 1` (equal level); others 0.
    pub(super) p: [f64; MOST],
    /// Where its mixes begin.
    mixes: usize,
}

/// Solves any program, level by level.
#[derive(Clone, Debug, Default)]
pub(super) struct Leximin {
    pub(super) solver: SampledSolver,
    pub(super) bottlenecks: Vec<Bottleneck>,
    /// Per user: the position of its bottleneck.
    pub(super) level_of: Vec<u8>,
    /// Per user: a resource, or `k` and the number of a mix.
    pub(super) bundle: Vec<u8>,
    /// Fractions of a user's value that come from each resource.
    pub(super) mixes: Vec<[f64; MOST]>,
    part: Part,
}

/// A program's restriction to some users and resources.
#[derive(Clone, Debug, Default)]
struct Part {
    users: Vec<u32>,
    resources: Vec<usize>,
    w: Vec<f64>,
    weight: Vec<f64>,
    capacity: Vec<f64>,
}

impl Part {
    fn cut(&mut self, program: &Program<'_>, set: Mask) {
        let k = program.capacity.len();
        self.resources.clear();
        self.resources.extend(members(set));
        self.capacity.clear();
        self.capacity.extend(members(set).map(|j| program.capacity[j]));
        self.w.clear();
        self.weight.clear();
        for &l in &self.users {
            let row = &program.w[l as usize * k..][..k];
            self.w.extend(members(set).map(|j| row[j]));
            self.weight.push(program.weight[l as usize]);
        }
    }
}

impl Leximin {
    /// Solves, from `start` (prices and how far they are trusted) if there is one.
    pub(super) fn solve(&mut self, program: &Program<'_>, start: Option<([f64; MOST], f64)>, steps: u32) {
        let (n, k) = (program.weight.len(), program.capacity.len());
        self.solver.begin(steps);
        self.bottlenecks.clear();
        self.mixes.clear();
        self.level_of.clear();
        self.level_of.resize(n, NONE);
        self.bundle.clear();
        self.bundle.resize(n, 0);
        let (mut p, trust) = match start {
            Some((p, trust)) => (p, Some(trust)),
            None => (start_prices(program), None),
        };
        match self.solver.solve(program, &mut p, trust) {
            Outcome::Stuck(set) if set != everything(k) => self.solve_levels(program, set),
            _ => self.record_all(program, p),
        }
    }

    /// There is a single level.
    fn record_all(&mut self, program: &Program<'_>, mut p: [f64; MOST]) {
        let k = program.capacity.len();
        let t = read(program, &mut self.solver, &mut p);
        self.bottlenecks.push(Bottleneck { set: everything(k), t, p, mixes: 0 });
        self.level_of.fill(0);
        self.bundle.copy_from_slice(&self.solver.choice);
        for tie in &self.solver.forest().ties {
            self.bundle[tie.user as usize] = (k + self.mixes.len()) as u8;
            self.mixes.push(fractions(&tie.part, tie.mask));
        }
    }

    /// There are several levels; `set` is a guess at the first.
    fn solve_levels(&mut self, program: &Program<'_>, set: Mask) {
        let k = program.capacity.len();
        let mut pools = 4 * k;
        let mut guess = Some((set, None));
        loop {
            self.part.users.clear();
            let unplaced = self.level_of.iter().enumerate().filter(|&(_, &level)| level == NONE);
            self.part.users.extend(unplaced.map(|(l, _)| l as u32));
            if self.part.users.is_empty() {
                return;
            }
            let left = everything(k) & !self.bottlenecks.iter().fold(0, |sum, found| sum | found.set);
            self.add_bottleneck(program, left, guess.take());
            if pools > 0 && self.out_of_order() {
                pools -= 1;
                guess = self.pool(program);
            }
        }
    }

    fn out_of_order(&self) -> bool {
        matches!(self.bottlenecks.as_slice(), [.., below, above] if above.t < below.t * (1.0 - 1e-10))
    }

    /// Finds the lowest bottleneck of the part's users on the resources `left`, from a guess if there is one.
    fn add_bottleneck(&mut self, program: &Program<'_>, left: Mask, guess: Option<(Mask, Option<[f64; MOST]>)>) {
        let mut set = left;
        let mut start = None;
        if let Some((guessed, prices)) = guess
            && confine(program, &mut self.part.users, left & !guessed)
        {
            (set, start) = (guessed, prices);
        }
        loop {
            self.part.cut(program, set);
            let Part { resources, w, weight, capacity, .. } = &self.part;
            let part = Program { goal: program.goal, w, weight, capacity };
            let mut p = start_prices(&part);
            if let Some(start) = start {
                resources.iter().enumerate().for_each(|(j, &resource)| p[j] = start[resource]);
            }
            let trust = start.map(|_| 1.0);
            let Outcome::Stuck(bottleneck) = self.solver.solve(&part, &mut p, trust) else {
                return self.record(program, set, p);
            };
            let narrower = members(bottleneck).fold(0, |sum: Mask, j| sum | 1 << resources[j]);
            if narrower == set || !confine(program, &mut self.part.users, set & !narrower) {
                // Rounding, not a bottleneck: the certificate will say how good the result is.
                return self.record(program, set, p);
            }
            (set, start) = (narrower, None);
        }
    }

    /// Records the solution of a part as a bottleneck.
    fn record(&mut self, program: &Program<'_>, set: Mask, mut p: [f64; MOST]) {
        let k = program.capacity.len();
        let Part { users, resources, w, weight, capacity } = &self.part;
        let part = Program { goal: program.goal, w, weight, capacity };
        let t = read(&part, &mut self.solver, &mut p);
        let mut found = Bottleneck { set, t, p: [0.0; MOST], mixes: self.mixes.len() };
        for (j, &resource) in resources.iter().enumerate() {
            found.p[resource] = p[j];
        }
        for (&l, &choice) in users.iter().zip(&self.solver.choice) {
            self.level_of[l as usize] = self.bottlenecks.len() as u8;
            self.bundle[l as usize] = resources[choice as usize] as u8;
        }
        for tie in &self.solver.forest().ties {
            let local = fractions(&tie.part, tie.mask);
            let mut mix = [0.0; MOST];
            resources.iter().enumerate().for_each(|(j, &resource)| mix[resource] = local[j]);
            self.bundle[users[tie.user as usize] as usize] = (k + self.mixes.len()) as u8;
            self.mixes.push(mix);
        }
        self.bottlenecks.push(found);
    }

    /// Removes the last two bottlenecks; returns their union and prices from which to solve it.
    fn pool(&mut self, program: &Program<'_>) -> Option<(Mask, Option<[f64; MOST]>)> {
        let k = program.capacity.len();
        let above = self.bottlenecks.pop()?;
        let below = self.bottlenecks.pop()?;
        self.mixes.truncate(below.mixes);
        let first = self.bottlenecks.len() as u8;
        // The users of the later one can use the earlier one's resources. Those must cost so much that they do not.
        let mut raise = 0.0;
        for (l, level) in self.level_of.iter_mut().enumerate().filter(|(_, level)| **level != NONE && **level >= first)
        {
            if *level == first + 1 {
                let w = &program.w[l * k..][..k];
                let worth = |set: Mask, p: &[f64; MOST]| members(set).map(|j| w[j] / p[j]).fold(0.0, f64::max);
                raise = f64::max(raise, worth(below.set, &below.p) / worth(above.set, &above.p));
            }
            *level = NONE;
        }
        let raise = if raise > 0.0 { raise } else { 1.0 };
        let mut p = [0.0; MOST];
        members(below.set).for_each(|j| p[j] = below.p[j] * raise);
        members(above.set).for_each(|j| p[j] = above.p[j]);
        Some((below.set | above.set, Some(p)))
    }
}

/// Keeps the users who cannot use anything in `outside`; if there are none, keeps all and returns false.
fn confine(program: &Program<'_>, users: &mut Vec<u32>, outside: Mask) -> bool {
    let k = program.capacity.len();
    let confined = |l: u32| members(outside).all(|j| program.w[l as usize * k + j] == 0.0);
    let some = users.iter().any(|&l| confined(l));
    if some {
        users.retain(|&l| confined(l));
    }
    some
}

/// Parts of a value as fractions of it; rounding may have made some slightly negative.
fn fractions(part: &[f64; MOST], mask: Mask) -> [f64; MOST] {
    let mut mix = [0.0; MOST];
    members(mask).for_each(|j| mix[j] = f64::max(part[j], 0.0));
    let total: f64 = mix.iter().sum();
    if total > 0.0 {
        mix.iter_mut().for_each(|part| *part /= total);
    } else {
        mix[mask.trailing_zeros() as usize] = 1.0;
    }
    mix
}
