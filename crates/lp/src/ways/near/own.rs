//! The program of one user: the least cost at which it reaches its floor, with limits of what others may see of its units.
//!
//! ```text
//! minimise Σ_a c_a x_a      w·x ≥ floor      sight_i·X/π_l ≤ most_i      every i ≠ l
//! ```
//!
//! Of the limits as many bind as there are resources: they are added as they are broken. In `y_a = x_a w_a/floor` all numbers are about 1.

use super::small::Small;
use super::table::Table;
use crate::ways::Ways;

/// A limit is broken if it is exceeded by this part.
const BROKEN: f64 = 1e-9;
/// Limits that are added at a time.
const AT_A_TIME: usize = 2;
/// Times that limits are added.
const ROUNDS: usize = 60;

/// A way of a user: its number, resource, rate and draw.
type Way = (u32, u32, f64, f64);

/// What everybody can do and see, and memory for one program after the other.
#[derive(Debug)]
pub(super) struct Own<'a> {
    pub(super) problem: &'a Ways<'a>,
    pub(super) k: usize,
    ways: Vec<Way>,
    /// Where each user's ways end.
    ends: Vec<u32>,
    /// `κ π_i a_i/f_i`, users × resources: what a unit per weight is to `i`, in floors; and the same by resource.
    pub(super) sight: Vec<f64>,
    sights: Table,
    small: Small,
    /// Whose limits are in the program, after its floor.
    known: Vec<u32>,
    seen: Vec<f64>,
    /// The last answer.
    pub(super) answer: Answer,
}

/// A use of one user.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// `(way, use)`, where it uses any.
    pub(super) x: Vec<(u32, f64)>,
    /// By resource.
    pub(super) units: Vec<f64>,
    /// `(i, δ)`.
    pub(super) limits: Vec<(u32, f64)>,
}

/// What is asked of one user.
pub(super) struct Asked<'a> {
    /// Of units, beside their draw.
    pub(super) prices: &'a [f64],
    pub(super) floor: f64,
    /// What others may see of its units, in their floors.
    pub(super) most: &'a [f64],
    /// Who is likely to limit it.
    pub(super) limited_by: &'a [u32],
}

impl<'a> Own<'a> {
    pub(super) fn new(problem: &'a Ways<'a>, floors: &[f64], part: f64, best: &[f64]) -> Self {
        let (n, k) = (problem.users(), problem.capacity.len());
        let sight = |(at, a): (usize, &f64)| part * problem.weight[at / k] * a / floors[at / k];
        let sight: Vec<f64> = best.iter().enumerate().map(sight).collect();
        let (mut ways, mut ends) = (Vec::new(), Vec::with_capacity(n));
        for l in 0..n {
            ways.extend(problem.useful(l).map(|(a, j, w, p)| (a as u32, j as u32, w, p)));
            ends.push(ways.len() as u32);
        }
        let sights = Table::new(&sight, k);
        let answer = Answer { units: vec![0.0; k], ..Answer::default() };
        Self {
            problem,
            k,
            ways,
            ends,
            sight,
            sights,
            small: Small::default(),
            known: Vec::new(),
            seen: vec![0.0; n],
            answer,
        }
    }

    pub(super) fn sight_of(&self, i: u32) -> &[f64] {
        &self.sight[i as usize * self.k..][..self.k]
    }

    pub(super) fn ways_of(&self, l: usize) -> &[Way] {
        let from = if l == 0 { 0 } else { self.ends[l - 1] };
        &self.ways[from as usize..self.ends[l] as usize]
    }

    /// Leaves user `l`'s answer in [`Self::answer`]; false if there is none.
    pub(super) fn solve(&mut self, l: usize, asked: &Asked<'_>) -> bool {
        let from = if l == 0 { 0 } else { self.ends[l - 1] };
        let ways = from as usize..self.ends[l] as usize;
        let unit = |way: &Way| asked.floor / way.2;
        self.known.clear();
        self.small.start(self.ways[ways.clone()].iter().map(|way| (way.3 + asked.prices[way.1 as usize]) * unit(way)));
        self.small.add_row(self.ways[ways.clone()].iter().map(|_| -1.0), -1.0);
        asked.limited_by.iter().for_each(|&i| self.add(l, asked, i));
        for _ in 0..ROUNDS {
            if !self.small.solve() {
                return false;
            }
            self.answer.units.fill(0.0);
            self.answer.x.clear();
            for (c, way) in self.ways[ways.clone()].iter().enumerate() {
                let y = self.small.value(c);
                if y > 0.0 {
                    let x = y * unit(way);
                    self.answer.x.push((way.0, x));
                    self.answer.units[way.1 as usize] += x;
                }
            }
            if !self.break_limits(l, asked) {
                self.answer.limits.clear();
                for (row, &i) in self.known.iter().enumerate() {
                    let delta = self.small.dual(row + 1);
                    if delta > 0.0 {
                        self.answer.limits.push((i, delta / asked.most[i as usize]));
                    }
                }
                return true;
            }
        }
        false
    }

    /// Adds the limit that `i` sets to `l`.
    fn add(&mut self, l: usize, asked: &Asked<'_>, i: u32) {
        let from = if l == 0 { 0 } else { self.ends[l - 1] };
        let ways = &self.ways[from as usize..self.ends[l] as usize];
        let sight = &self.sight[i as usize * self.k..][..self.k];
        let unit = asked.floor / (self.problem.weight[l] * asked.most[i as usize]);
        self.small.add_row(ways.iter().map(|way| sight[way.1 as usize] * unit / way.2), 1.0);
        self.known.push(i);
    }

    /// Adds those who would envy `l` its units most; says whether there is any.
    fn break_limits(&mut self, l: usize, asked: &Asked<'_>) -> bool {
        let per_weight = 1.0 / self.problem.weight[l];
        let mut seen = std::mem::take(&mut self.seen);
        self.sights.worth(&self.answer.units, per_weight, &mut seen);
        let mut worst = [(1.0 + BROKEN, u32::MAX); AT_A_TIME];
        for (block, (seen, most)) in seen.chunks(BLOCK).zip(asked.most.chunks(BLOCK)).enumerate() {
            let least = worst[AT_A_TIME - 1].0;
            // Most blocks have nobody in them, which is found out without a branch.
            if !seen.iter().zip(most).fold(false, |any, (seen, most)| any | (*seen > least * most)) {
                continue;
            }
            for (at, (seen, most)) in seen.iter().zip(most).enumerate() {
                let i = (block * BLOCK + at) as u32;
                if *seen > worst[AT_A_TIME - 1].0 * most && i as usize != l && !self.known.contains(&i) {
                    worst[AT_A_TIME - 1] = (seen / most, i);
                    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
                }
            }
        }
        self.seen = seen;
        let found = worst.map(|t| t.1);
        found.iter().filter(|i| **i != u32::MAX).for_each(|&i| self.add(l, asked, i));
        found[0] != u32::MAX
    }
}

/// Users that are looked at together.
const BLOCK: usize = 32;
