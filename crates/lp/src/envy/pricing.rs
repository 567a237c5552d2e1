//! The pricing problem of a block: would splitting it raise the objective? Solved recursively: first over clusters of
//! its users, then, if no split into clusters pays, inside every cluster. A cluster that should be split is split, and
//! the level above is priced again.
//!
//! Where most of a block holds one resource and is far from wanting another (`envy/home.rs`), those users stay together in one part
//! instead, which a relay proves whole, and the others are parts by themselves. If that does not hold, clusters do.

use super::Relay;
use super::block::Block;
use super::home::Proved;
use super::restricted::{self, Restricted};
use super::scaled::Scaled;

/// A gain below this is rounding; the objective is about 1.
pub(super) const GAIN: f64 = 3e-11;
/// Blocks up to this many users are priced user by user.
const SMALL: usize = 24;
/// Users in a cluster, unless that makes more clusters than branches.
const CLUSTER: usize = 8;
const BRANCHES: usize = 48;
/// Users at home stay together if there are this many...
pub(super) const FEW: usize = 25;
/// ...and they are this part of the block: to find a split, and to prove that there is none.
const SHALLOW: f64 = 0.3;
const DEEP: f64 = 0.7;
/// Up to this many others are alone.
const ALONE: usize = 64;
/// Clusters take over when more than one in so many of the block has rows that are broken, ...
const BROKEN: usize = 7;
/// ...when less than this part of those at home is left of them, ...
const KEPT: f64 = 0.9;
/// ...or after so many rounds.
const ROUNDS: usize = 8;

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
    /// More of the duals, where those are products.
    pub(super) through: Vec<Relay>,
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
    /// Whether users at home may stay together.
    pub(super) homes: bool,
    /// Whether any did.
    pub(super) stayed: bool,
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
            homes: true,
            stayed: false,
            worthwhile: GAIN,
            pivots,
            spent: 0,
        }
    }

    /// Solves a block restricted to a partition; with `home`, what it holds, so that large parts can be proved whole.
    pub(super) fn restricted(&mut self, block: &Block, parts: Vec<Vec<u32>>, home: Option<&[f64]>) -> Restricted {
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
        let limits = home.map(|bundle| block.limits(self.scaled, bundle, &parts)).unwrap_or_default();
        let pivots = self.pivots.saturating_sub(self.spent);
        let restricted = restricted::solve(self.scaled, block, parts, limits, &hints, pivots);
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
        let (mut parts, mut home) = self.first_parts(block, bundle, deep);
        let mut rounds = 0;
        loop {
            let whole = (home > 0 && deep).then_some(bundle);
            let restricted = known.take().filter(|_| home == 0).unwrap_or_else(|| self.restricted(block, parts, whole));
            let gain = restricted.objective - held;
            if restricted.exact && !restricted.broken.is_empty() {
                (parts, home) = match restricted.broken.len() > n / BROKEN {
                    true => (self.clusters(block), 0),
                    false => (restricted.unbroken(), home),
                };
                continue;
            }
            if gain > self.worthwhile && restricted.exact {
                let parts = self.by_bundle(&restricted);
                if parts.len() > 1 {
                    return Priced { gain, parts, ..Priced::default() };
                }
            }
            if !deep {
                let shallow = (restricted.exact && home == 0).then_some(restricted);
                return Priced { gain, shallow, ..Priced::default() };
            }
            let (priced, finer) = self.price_parts(block, &restricted, gain, whole);
            if n > SMALL && home == 0 {
                self.remember(block, &finer);
            }
            if finer.len() == restricted.parts.len() {
                return priced;
            }
            rounds += 1;
            let left = finer.iter().map(Vec::len).max().unwrap_or(0);
            (parts, home) = match home > 0 && ((left as f64) < KEPT * home as f64 || rounds == ROUNDS) {
                true => (self.clusters(block), 0),
                false => (finer, home),
            };
        }
    }

    /// The parts to begin with, and how many users are at home in the first of them.
    fn first_parts(&mut self, block: &Block, bundle: &[f64], deep: bool) -> (Vec<Vec<u32>>, usize) {
        let n = block.members.len();
        if n <= SMALL {
            return ((0..n as u32).map(|at| vec![at]).collect(), 0);
        }
        let home = if self.homes { block.at_home(self.scaled, bundle) } else { Vec::new() };
        let enough = if deep { DEEP } else { SHALLOW } * n as f64;
        if home.len() < FEW || (home.len() as f64) < enough {
            return (self.clusters(block), 0);
        }
        self.stayed = true;
        let others = n - home.len();
        let size = if others <= ALONE { 1 } else { CLUSTER.max(others / BRANCHES) };
        (block.clusters(self.scaled, size, &self.label, &home), home.len())
    }

    fn clusters(&self, block: &Block) -> Vec<Vec<u32>> {
        block.clusters(self.scaled, CLUSTER.max(block.members.len() / BRANCHES), &self.label, &[])
    }

    /// Prices every part by itself; returns the duals of them all, and the parts, split where that pays. With `whole`, what the block
    /// holds, large parts are of users at home.
    fn price_parts(
        &mut self,
        block: &Block,
        restricted: &Restricted,
        gain: f64,
        whole: Option<&[f64]>,
    ) -> (Priced, Vec<Vec<u32>>) {
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
            let inner = match whole.filter(|_| child.members.len() >= FEW) {
                Some(bundle) => self.price_home(child, bundle),
                None => self.price(child, &restricted.bundles[g * k..][..k], true, None),
            };
            if !inner.parts.is_empty() {
                // The child's members are the part's, in the same order.
                let of = |at: u32| restricted.parts[g][at as usize];
                parts.extend(inner.parts.iter().map(|part| part.iter().map(|&at| of(at)).collect()));
            } else {
                parts.push(restricted.parts[g].clone());
                priced.gain += inner.gain.max(0.0);
                priced.envy.extend(inner.envy);
                priced.through.extend(inner.through);
            }
        }
        (priced, parts)
    }

    /// Prices a part of users at home: those whom its relay does not serve become parts of their own.
    fn price_home(&self, block: &Block, bundle: &[f64]) -> Priced {
        match block.relayed(self.scaled, bundle) {
            Ok(Proved { through, left }) => Priced { gain: left, through, ..Priced::default() },
            Err(mut out) => {
                out.truncate((block.members.len() / 4).max(1));
                let mut parts: Vec<Vec<u32>> = out.iter().map(|&at| vec![at]).collect();
                out.sort_unstable();
                parts.push((0..block.members.len() as u32).filter(|at| out.binary_search(at).is_err()).collect());
                Priced { parts, ..Priced::default() }
            }
        }
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
