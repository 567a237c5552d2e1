//! The pricing problem of a block: would splitting it raise the objective? Solved recursively: first over clusters of
//! its users, then, if no split into clusters pays, inside every cluster. A cluster that should be split is split, and
//! the level above is priced again.

use super::block::Block;
use super::restricted::{self, Restricted};
use super::scaled::Scaled;

/// A gain below this is rounding; the objective is about 1.
pub(super) const GAIN: f64 = 3e-11;
/// Blocks up to this many users are priced user by user.
const SMALL: usize = 24;
/// Users in a cluster, unless that makes more clusters than branches.
const CLUSTER: usize = 8;
const BRANCHES: usize = 48;

/// The outcome of pricing a block.
#[derive(Debug, Default)]
pub(super) struct Priced {
    /// `R − R₀`.
    pub(super) gain: f64,
    /// If splitting pays: the parts.
    pub(super) parts: Vec<Vec<u32>>,
    /// If it does not: the duals of rows inside the block, and of outsiders towards its members.
    pub(super) envy: Vec<(u32, u32, f64)>,
    /// If it was not asked further than clusters: the program over them, to go on from.
    pub(super) shallow: Option<Restricted>,
}

/// State shared by all pricing problems of one solve.
#[derive(Debug)]
pub(super) struct Pricing<'a> {
    pub(super) scaled: &'a Scaled,
    /// Per user, others against whom its row once had a positive dual.
    pub(super) pool: Vec<Vec<u32>>,
    /// Per user, its last cluster: users with one label start in one cluster again.
    pub(super) label: Vec<u32>,
    labels: u32,
    /// Scratch: a user's position in the current block.
    place: Vec<u32>,
    /// Per user, whether splitting its block into clusters did not pay when that was last asked.
    quiet: Vec<bool>,
    /// The gain above which a block is split.
    pub(super) worthwhile: f64,
    pub(super) pivots: u32,
    pub(super) spent: u32,
}

impl<'a> Pricing<'a> {
    /// `label`: the clusters of the last solution. They are numbered anew, so that a chain of warm starts never runs out
    /// of numbers.
    pub(super) fn new(scaled: &'a Scaled, mut label: Vec<u32>, pivots: u32) -> Self {
        let n = scaled.users();
        let mut known: Vec<u32> = label.iter().copied().filter(|&label| label != u32::MAX).collect();
        known.sort_unstable();
        known.dedup();
        for label in label.iter_mut().filter(|label| **label != u32::MAX) {
            *label = known.partition_point(|known| *known < *label) as u32;
        }
        Self {
            scaled,
            pool: vec![Vec::new(); n],
            label,
            labels: known.len() as u32,
            place: vec![u32::MAX; n],
            quiet: vec![false; n],
            worthwhile: GAIN,
            pivots,
            spent: 0,
        }
    }

    /// Solves a block restricted to a partition.
    pub(super) fn restricted(&mut self, block: &Block, parts: Vec<Vec<u32>>) -> Restricted {
        for (at, &l) in block.members.iter().enumerate() {
            self.place[l as usize] = at as u32;
        }
        let mut hints = Vec::new();
        for (at, &l) in block.members.iter().enumerate() {
            let known = self.pool[l as usize].iter().map(|&i| self.place[i as usize]);
            hints.extend(known.filter(|&i| i != u32::MAX).map(|i| (at as u32, i)));
        }
        for &l in &block.members {
            self.place[l as usize] = u32::MAX;
        }
        let restricted = restricted::solve(self.scaled, block, parts, &hints, self.pivots.saturating_sub(self.spent));
        self.spent += restricted.pivots;
        for &(at, h, _) in &restricted.envy {
            let (l, i) = (block.members[at as usize], block.members[restricted.parts[h as usize][0] as usize]);
            if !self.pool[l as usize].contains(&i) {
                self.pool[l as usize].push(i);
            }
        }
        restricted
    }

    /// Prices a block whose members hold `bundle`. With `deep`, clusters are priced too, and there are duals if no split
    /// pays; `known` is what the same question without `deep` left in [`Priced::shallow`], if it was asked. Where pivots run out or the numbers are bad, the duals are those of the last basis, and `gain` says how far
    /// they are from a proof.
    pub(super) fn price(&mut self, block: &Block, bundle: &[f64], deep: bool, mut known: Option<Restricted>) -> Priced {
        let held = block.value_of(self.scaled, bundle);
        let n = block.members.len();
        let mut parts: Vec<Vec<u32>> = if n <= SMALL {
            (0..n as u32).map(|at| vec![at]).collect()
        } else {
            block.clusters(self.scaled, CLUSTER.max(n / BRANCHES), &self.label)
        };
        loop {
            let restricted = known.take().unwrap_or_else(|| self.restricted(block, parts));
            let gain = restricted.objective - held;
            if gain > self.worthwhile && restricted.exact {
                let parts = self.by_bundle(&restricted);
                if parts.len() > 1 {
                    return Priced { gain, parts, ..Priced::default() };
                }
            }
            if !deep {
                return Priced { gain, shallow: restricted.exact.then_some(restricted), ..Priced::default() };
            }
            let (priced, finer) = self.price_parts(block, &restricted, gain);
            if n > SMALL {
                self.remember(block, &finer);
            }
            if finer.len() == restricted.parts.len() {
                return priced;
            }
            parts = finer;
        }
    }

    /// Prices every part by itself; returns the duals of them all, and the parts, split where that pays.
    fn price_parts(&mut self, block: &Block, restricted: &Restricted, gain: f64) -> (Priced, Vec<Vec<u32>>) {
        let k = self.scaled.k;
        let own: Vec<u32> = (0..restricted.parts.len() as u32).collect();
        let children = block.children(restricted, &own, own.len());
        let mut priced = Priced { gain, ..Priced::default() };
        let mut parts = Vec::new();
        for (g, child) in children.iter().enumerate() {
            if let [only] = child.members[..] {
                priced.envy.extend(child.inflow.iter().map(|&(i, y)| (i, only, y)));
                parts.push(restricted.parts[g].clone());
                continue;
            }
            let inner = self.price(child, &restricted.bundles[g * k..][..k], true, None);
            if !inner.parts.is_empty() {
                // The child's members are the part's, in the same order.
                let of = |at: u32| restricted.parts[g][at as usize];
                parts.extend(inner.parts.iter().map(|part| part.iter().map(|&at| of(at)).collect()));
            } else {
                parts.push(restricted.parts[g].clone());
                priced.gain += inner.gain.max(0.0);
                priced.envy.extend(inner.envy);
            }
        }
        (priced, parts)
    }

    /// Whether a block is large, and nearly all of its members were in blocks that did not pay when they were last asked.
    pub(super) fn is_quiet(&self, block: &Block) -> bool {
        let quiet = block.members.iter().filter(|&&l| self.quiet[l as usize]).count();
        block.members.len() > SMALL && 10 * quiet > 9 * block.members.len()
    }

    /// Keeps in mind whether splitting a block into clusters paid.
    pub(super) fn heard(&mut self, block: &Block, gain: f64) {
        block.members.iter().for_each(|&l| self.quiet[l as usize] = gain <= GAIN);
    }

    fn remember(&mut self, block: &Block, parts: &[Vec<u32>]) {
        for part in parts {
            part.iter().for_each(|&at| self.label[block.members[at as usize] as usize] = self.labels);
            self.labels += 1;
        }
    }

    /// The block's members, partitioned by bundle.
    fn by_bundle(&self, restricted: &Restricted) -> Vec<Vec<u32>> {
        let class_of = classes(restricted, self.scaled.k);
        let count = class_of.iter().max().map_or(0, |&c| c as usize + 1);
        let mut parts = vec![Vec::new(); count];
        for (part, class) in restricted.parts.iter().zip(class_of) {
            parts[class as usize].extend_from_slice(part);
        }
        parts
    }
}

/// A number per part, equal for parts with equal bundles.
pub(super) fn classes(restricted: &Restricted, k: usize) -> Vec<u32> {
    let scale = restricted.bundles.iter().fold(1e-300, |a: f64, b| a.max(*b));
    let cell = |g: usize| -> Vec<i64> {
        restricted.bundles[g * k..][..k].iter().map(|b| (b / scale * 1e9).round() as i64).collect()
    };
    let cells: Vec<Vec<i64>> = (0..restricted.parts.len()).map(cell).collect();
    let mut order: Vec<usize> = (0..restricted.parts.len()).collect();
    order.sort_by(|&a, &b| cells[a].cmp(&cells[b]).then(a.cmp(&b)));
    let mut class_of = vec![0; restricted.parts.len()];
    let mut class = 0;
    for (a, b) in order.iter().zip(&order[1..]) {
        let near = cells[*a].iter().zip(&cells[*b]).all(|(a, b)| (a - b).abs() <= 1);
        class += u32::from(!near);
        class_of[*b] = class;
    }
    class_of
}
