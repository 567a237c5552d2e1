//! The rungs of a lexicographic division: where some cannot use everything, raising the worst-off is not the end.
//!
//! If the engine finds that all resources outside a set B would have to be free, then B and the users *confined* to
//! it (no positive rate outside) are a bottleneck: at the optimum they take all of B, whoever can go elsewhere does,
//! and the rest is a smaller problem of the same kind. That gives at most `k` rungs, from the lowest level up.
//!
//! Whether a set is the *first* bottleneck is only known afterwards: the next rung must not be lower. If it is, the
//! two are pooled: with the upper set's prices raised until nobody of the lower wants them, their union is a start
//! from which the engine brings them together, and from which it cannot fall back, because its objective only rises.

use super::band::{Bander, start_prices};
use super::engine::{Crowd, Outcome};
use super::forest::{MOST, Mask, everything, members};
use super::read::read;

/// A user who has no rung yet.
const NONE: u8 = u8::MAX;

/// A set of resources with the users confined to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rung {
    pub(super) set: Mask,
    pub(super) t: f64,
    /// Prices of the set, `m·p = 1` (equal level); others 0.
    pub(super) p: [f64; MOST],
    /// Where its mixes begin.
    mixes: usize,
}

/// Solves any crowd, rung by rung.
#[derive(Clone, Debug, Default)]
pub(super) struct Ladder {
    pub(super) bander: Bander,
    pub(super) rungs: Vec<Rung>,
    /// Per user: its rung.
    pub(super) rung: Vec<u8>,
    /// Per user: a resource, or `k` and the number of a mix.
    pub(super) bundle: Vec<u8>,
    /// Fractions of a user's value that come from each resource.
    pub(super) mixes: Vec<[f64; MOST]>,
    part: Part,
}

/// A crowd's restriction to some users and resources.
#[derive(Clone, Debug, Default)]
struct Part {
    users: Vec<u32>,
    resources: Vec<usize>,
    w: Vec<f64>,
    weight: Vec<f64>,
    capacity: Vec<f64>,
}

impl Part {
    fn cut(&mut self, crowd: &Crowd<'_>, set: Mask) {
        let k = crowd.capacity.len();
        self.resources.clear();
        self.resources.extend(members(set));
        self.capacity.clear();
        self.capacity.extend(members(set).map(|j| crowd.capacity[j]));
        self.w.clear();
        self.weight.clear();
        for &l in &self.users {
            let row = &crowd.w[l as usize * k..][..k];
            self.w.extend(members(set).map(|j| row[j]));
            self.weight.push(crowd.weight[l as usize]);
        }
    }
}

impl Ladder {
    /// Solves, from `start` (prices and how far they are trusted) if there is one.
    pub(super) fn climb(&mut self, crowd: &Crowd<'_>, start: Option<([f64; MOST], f64)>, steps: u32) {
        let (n, k) = (crowd.weight.len(), crowd.capacity.len());
        self.bander.begin(steps);
        self.rungs.clear();
        self.mixes.clear();
        self.rung.clear();
        self.rung.resize(n, NONE);
        self.bundle.clear();
        self.bundle.resize(n, 0);
        let (mut p, trust) = match start {
            Some((p, trust)) => (p, Some(trust)),
            None => (start_prices(crowd), None),
        };
        match self.bander.solve(crowd, &mut p, trust) {
            Outcome::Stuck(set) if set != everything(k) => self.climb_on(crowd, set),
            _ => self.record_all(crowd, p),
        }
    }

    /// There is a single rung.
    fn record_all(&mut self, crowd: &Crowd<'_>, mut p: [f64; MOST]) {
        let k = crowd.capacity.len();
        let t = read(crowd, &mut self.bander, &mut p);
        self.rungs.push(Rung { set: everything(k), t, p, mixes: 0 });
        self.rung.fill(0);
        self.bundle.copy_from_slice(&self.bander.choice);
        for tie in &self.bander.forest().ties {
            self.bundle[tie.user as usize] = (k + self.mixes.len()) as u8;
            self.mixes.push(fractions(&tie.part, tie.mask));
        }
    }

    /// There are several; `set` is a guess at the first.
    fn climb_on(&mut self, crowd: &Crowd<'_>, set: Mask) {
        let k = crowd.capacity.len();
        let mut pools = 4 * k;
        let mut guess = Some((set, None));
        loop {
            self.part.users.clear();
            let unplaced = self.rung.iter().enumerate().filter(|&(_, &rung)| rung == NONE);
            self.part.users.extend(unplaced.map(|(l, _)| l as u32));
            if self.part.users.is_empty() {
                return;
            }
            let left = everything(k) & !self.rungs.iter().fold(0, |sum, rung| sum | rung.set);
            self.add_rung(crowd, left, guess.take());
            if pools > 0 && self.out_of_order() {
                pools -= 1;
                guess = self.pool(crowd);
            }
        }
    }

    fn out_of_order(&self) -> bool {
        matches!(self.rungs.as_slice(), [.., below, above] if above.t < below.t * (1.0 - 1e-10))
    }

    /// Finds the lowest rung of the part's users on the resources `left`, beginning with a guess if there is one.
    fn add_rung(&mut self, crowd: &Crowd<'_>, left: Mask, guess: Option<(Mask, Option<[f64; MOST]>)>) {
        let mut set = left;
        let mut start = None;
        if let Some((guessed, prices)) = guess
            && confine(crowd, &mut self.part.users, left & !guessed)
        {
            (set, start) = (guessed, prices);
        }
        loop {
            self.part.cut(crowd, set);
            let Part { resources, w, weight, capacity, .. } = &self.part;
            let part = Crowd { goal: crowd.goal, w, weight, capacity };
            let mut p = start_prices(&part);
            if let Some(start) = start {
                resources.iter().enumerate().for_each(|(j, &resource)| p[j] = start[resource]);
            }
            let trust = start.map(|_| 1.0);
            let Outcome::Stuck(bottleneck) = self.bander.solve(&part, &mut p, trust) else {
                return self.record(crowd, set, p);
            };
            let narrower = members(bottleneck).fold(0, |sum: Mask, j| sum | 1 << resources[j]);
            if narrower == set || !confine(crowd, &mut self.part.users, set & !narrower) {
                // No bottleneck after all, but rounding: the bound will say what the answer is worth.
                return self.record(crowd, set, p);
            }
            (set, start) = (narrower, None);
        }
    }

    /// Writes a part's answer down as a rung.
    fn record(&mut self, crowd: &Crowd<'_>, set: Mask, mut p: [f64; MOST]) {
        let k = crowd.capacity.len();
        let Part { users, resources, w, weight, capacity } = &self.part;
        let part = Crowd { goal: crowd.goal, w, weight, capacity };
        let t = read(&part, &mut self.bander, &mut p);
        let mut rung = Rung { set, t, p: [0.0; MOST], mixes: self.mixes.len() };
        for (j, &resource) in resources.iter().enumerate() {
            rung.p[resource] = p[j];
        }
        for (&l, &choice) in users.iter().zip(&self.bander.choice) {
            self.rung[l as usize] = self.rungs.len() as u8;
            self.bundle[l as usize] = resources[choice as usize] as u8;
        }
        for tie in &self.bander.forest().ties {
            let local = fractions(&tie.part, tie.mask);
            let mut mix = [0.0; MOST];
            resources.iter().enumerate().for_each(|(j, &resource)| mix[resource] = local[j]);
            self.bundle[users[tie.user as usize] as usize] = (k + self.mixes.len()) as u8;
            self.mixes.push(mix);
        }
        self.rungs.push(rung);
    }

    /// Takes the last two rungs back; returns their union and prices from which to solve it.
    fn pool(&mut self, crowd: &Crowd<'_>) -> Option<(Mask, Option<[f64; MOST]>)> {
        let k = crowd.capacity.len();
        let above = self.rungs.pop()?;
        let below = self.rungs.pop()?;
        self.mixes.truncate(below.mixes);
        let first = self.rungs.len() as u8;
        // The users of the later rung could use the earlier one's resources. Those must cost what keeps them away.
        let mut raise = 0.0;
        for (l, rung) in self.rung.iter_mut().enumerate().filter(|(_, rung)| **rung != NONE && **rung >= first) {
            if *rung == first + 1 {
                let w = &crowd.w[l * k..][..k];
                let worth = |set: Mask, p: &[f64; MOST]| members(set).map(|j| w[j] / p[j]).fold(0.0, f64::max);
                raise = f64::max(raise, worth(below.set, &below.p) / worth(above.set, &above.p));
            }
            *rung = NONE;
        }
        let raise = if raise > 0.0 { raise } else { 1.0 };
        let mut p = [0.0; MOST];
        members(below.set).for_each(|j| p[j] = below.p[j] * raise);
        members(above.set).for_each(|j| p[j] = above.p[j]);
        Some((below.set | above.set, Some(p)))
    }
}

/// Keeps the users who cannot use anything in `outside`; if there are none, keeps all and returns false.
fn confine(crowd: &Crowd<'_>, users: &mut Vec<u32>, outside: Mask) -> bool {
    let k = crowd.capacity.len();
    let confined = |l: u32| members(outside).all(|j| crowd.w[l as usize * k + j] == 0.0);
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
