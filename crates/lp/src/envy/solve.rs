//! The search: restricted master and pricing in turns, from a starting partition to a proof.

use super::block::Block;
use super::bound::{Allocation, prove, prove_two};
use super::merge::Merged;
use super::pricing::{self, Priced, Pricing};
use super::restricted::Restricted;
use super::scaled::{Duals, Menu, Scaled};
use super::{EnvyDual, EnvyFree, Relay, Solution, TOLERANCE, relay, start, two};
use crate::Certificate;

/// The largest relative envy of a starting point that may become the incumbent.
const ENVY: f64 = 1e-8;
/// The relative gap beyond which another proof is tried, by relays.
const UNPROVED: f64 = 1e-3;

pub(super) fn solve(problem: &EnvyFree<'_>, last: Option<&Solution>, pivots: u32) -> Solution {
    let resources = problem.capacity.len();
    let merged = Merged::new(problem);
    let distinct = merged.problem();
    let mut run = Run::new(&distinct, pivots);
    if let Some((allocation, duals)) = two::solve(&distinct) {
        run.offer(allocation);
        run.duals = duals;
        return run.finish(&merged, resources);
    }
    if let Some(last) = last.filter(|last| last.prices.len() == resources && last.bundles.len() >= resources) {
        let menu = (last.bundles.len() / resources) as u32;
        let users = [last.holds.len(), last.labels.len()] == [problem.weight.len(); 2];
        let same = users && last.holds.iter().all(|&bundle| bundle < menu);
        let held = |l: usize| if same { last.holds[merged.first[l] as usize] } else { 0 };
        run.warm_start(merged.compress(&last.bundles, resources), (0..distinct.weight.len()).map(held).collect());
        let now = |user: u32| merged.of.get(user as usize).copied();
        if last.labels.len() == problem.weight.len() {
            run.labels = merged.first.iter().map(|&user| last.labels[user as usize]).collect();
        }
        run.hints = last.envy.iter().filter_map(|row| Some((now(row.user)?, now(row.other)?))).collect();
    }
    run.search();
    run.finish(&merged, resources)
}

impl Duals {
    /// Their upper bound. Duals of a search that was cut short may be worse than none, and are then dropped.
    fn prove(&mut self, problem: &EnvyFree<'_>) -> f64 {
        if let Some(upper) = prove_two(problem, &mut self.prices) {
            return upper;
        }
        let upper = prove(problem, &mut self.prices, &self.envy, &self.through);
        let mut prices = vec![0.0; self.prices.len()];
        let plain = prove(problem, &mut prices, &[], &[]);
        if plain < upper {
            *self = Self { prices, ..Self::default() };
        }
        upper.min(plain)
    }
}

/// One solve over distinct users.
struct Run<'a> {
    problem: &'a EnvyFree<'a>,
    /// The incumbent...
    allocation: Allocation,
    /// ...and its value.
    objective: f64,
    duals: Duals,
    /// The partition to start from, if there is one.
    groups: Option<Vec<Vec<u32>>>,
    /// Rows that are likely to bind.
    hints: Vec<(u32, u32)>,
    /// Per user, the cluster it was last in.
    labels: Vec<u32>,
    pivots: u32,
    spent: u32,
}

impl<'a> Run<'a> {
    fn new(problem: &'a EnvyFree<'a>, pivots: u32) -> Self {
        let total: f64 = problem.weight.iter().sum();
        let equal: Vec<f64> = problem.capacity.iter().map(|m| m / total).collect();
        let n = problem.weight.len();
        let mut allocation = Allocation { bundles: equal, holds: vec![0; n] };
        let objective = allocation.settle(problem);
        let duals = Duals { prices: vec![0.0; problem.capacity.len()], ..Duals::default() };
        let (hints, labels) = (Vec::new(), vec![u32::MAX; n]);
        Self { problem, allocation, objective, duals, groups: None, hints, labels, pivots, spent: 0 }
    }

    /// Starts from a menu and who held what of it: everybody takes the bundle it values most, which is the first
    /// partition.
    fn warm_start(&mut self, bundles: Vec<f64>, holds: Vec<u32>) {
        let mut allocation = Allocation { bundles, holds };
        allocation.settle(self.problem);
        let mut groups = vec![Vec::new(); allocation.bundles.len() / self.problem.capacity.len()];
        allocation.holds.iter().enumerate().for_each(|(l, &bundle)| groups[bundle as usize].push(l as u32));
        groups.retain(|group| !group.is_empty());
        self.groups = Some(groups);
        self.offer(allocation);
    }

    /// Makes an envy-free allocation the incumbent, if it is better.
    fn offer(&mut self, mut allocation: Allocation) {
        let objective = allocation.settle(self.problem);
        if objective > self.objective && allocation.envy(self.problem) <= ENVY {
            (self.allocation, self.objective) = (allocation, objective);
        }
    }

    /// Improves the incumbent and its duals until they prove it optimal, or the pivots are spent.
    fn search(&mut self) {
        let scaled = Scaled::new(self.problem);
        let groups = self.groups.take().unwrap_or_else(|| {
            let menu = start::menu(&scaled);
            if !menu.bundles.is_empty() {
                self.offer(scaled.allocation(&menu));
            }
            menu.groups
        });
        let mut pricing = Pricing::new(&scaled, std::mem::take(&mut self.labels), self.pivots);
        self.hints.iter().for_each(|&(l, i)| pricing.pool[l as usize].push(i));
        let found = best_menu(&mut pricing, groups);
        self.spent = pricing.spent;
        self.labels = pricing.label;
        if let Some((menu, duals)) = found {
            let mut allocation = scaled.allocation(&menu);
            let objective = allocation.settle(self.problem);
            if objective >= self.objective {
                (self.allocation, self.objective) = (allocation, objective);
            }
            self.duals = scaled.unscaled(&duals, self.problem.capacity);
        }
    }

    /// The incumbent in terms of the problem as given, with its certificate.
    fn finish(self, merged: &Merged, resources: usize) -> Solution {
        let Self { problem, allocation, mut duals, objective, labels, spent, pivots, .. } = self;
        let mut upper = duals.prove(problem);
        if pivots > 0 && upper > objective * (1.0 + UNPROVED) {
            let mut relayed = relay::duals(problem, &allocation, objective);
            let better = relayed.prove(problem);
            if better < upper {
                (upper, duals) = (better, relayed);
            }
        }
        let name = |(l, i, dual): (u32, u32, f64)| EnvyDual {
            user: merged.first[l as usize],
            other: merged.first[i as usize],
            dual,
        };
        Solution {
            largest_envy: allocation.envy(problem),
            holds: merged.of.iter().map(|&at| allocation.holds[at as usize]).collect(),
            labels: merged.of.iter().map(|&at| labels[at as usize]).collect(),
            bundles: merged.expand(&allocation.bundles, resources),
            objective,
            prices: merged.expand(&duals.prices, resources),
            envy: duals.envy.into_iter().map(name).collect(),
            through: duals.through.into_iter().map(|r| r.renamed(|l| merged.first[l as usize])).collect(),
            bound: Certificate { lower: objective, upper },
            iterations: spent,
        }
    }
}

/// A menu, its blocks, and what is known of its duals.
struct Candidate {
    menu: Menu,
    blocks: Vec<Block>,
    duals: Duals,
    /// Whether every block was priced user by user, and no split pays.
    proved: bool,
}

/// The best menu found, and duals; none if not even the first partition was solved. Half of the pivots are kept for the
/// proof: duals of some of the blocks only prove next to nothing.
fn best_menu(pricing: &mut Pricing<'_>, groups: Vec<Vec<u32>>) -> Option<(Menu, Duals)> {
    let pivots = pricing.pivots;
    pricing.pivots -= pivots.saturating_sub(pricing.spent) / 2;
    let mut found = search(pricing, groups)?;
    if !found.proved && pricing.stayed && pricing.spent < pricing.pivots {
        // The numbers were bad: again, in smaller steps.
        pricing.homes = false;
        found = search(pricing, found.menu.groups.clone()).unwrap_or(found);
    }
    pricing.pivots = pivots;
    if !found.proved {
        pricing.worthwhile = f64::INFINITY;
        let sweep = Sweep::deep(pricing, &found.blocks, &found.menu, Vec::new());
        (found.duals.envy, found.duals.through) = (sweep.envy, sweep.through);
    }
    Some((found.menu, found.duals))
}

/// Master and pricing in turns, until no split pays.
fn search(pricing: &mut Pricing<'_>, mut groups: Vec<Vec<u32>>) -> Option<Candidate> {
    let scaled = pricing.scaled;
    let everybody = Block::all(scaled);
    let mut best = None;
    let mut last = 0.0;
    loop {
        let restricted = pricing.restricted(&everybody, groups, None);
        if !restricted.exact {
            return best;
        }
        let class_of = pricing::classes(&restricted, scaled.k);
        let count = class_of.iter().max().map_or(0, |&c| c as usize + 1);
        let blocks = everybody.children(&restricted, &class_of, count);
        let mut bundles = vec![0.0; count * scaled.k];
        for (g, &class) in class_of.iter().enumerate() {
            let bundle = &restricted.bundles[g * scaled.k..][..scaled.k];
            bundles[class as usize * scaled.k..][..scaled.k].copy_from_slice(bundle);
        }
        let menu = Menu { groups: blocks.iter().map(|block| block.members.clone()).collect(), bundles };
        // While the sum rises, users with the same bundle are joined again; when it does not (the duals are not
        // unique), parts stay apart, so that the partition must become finer.
        let before = if restricted.objective > last * (1.0 + TOLERANCE) { &menu.groups } else { &restricted.parts };
        let near = TOLERANCE * restricted.objective;
        let (sweep, finer) = Sweep::price_all(pricing, &blocks, &menu, before, near);
        last = restricted.objective;
        let answered = pricing.spent < pricing.pivots && sweep.part.iter().all(|&part| part == 0);
        let proved = finer.is_none() && answered;
        let duals = Duals { prices: restricted.prices, envy: sweep.envy, through: sweep.through };
        best = Some(Candidate { menu, blocks, duals, proved });
        match finer {
            Some(finer) => groups = finer,
            None => return best,
        }
    }
}

/// The outcome of pricing all blocks of a menu.
struct Sweep {
    gain: f64,
    envy: Vec<(u32, u32, f64)>,
    through: Vec<Relay>,
    /// Per user, a number: users of one bundle with different numbers should be split.
    part: Vec<u32>,
}

impl Sweep {
    fn new(pricing: &Pricing<'_>) -> Self {
        Self { gain: 0.0, envy: Vec::new(), through: Vec::new(), part: vec![0; pricing.scaled.users()] }
    }

    /// Prices the blocks of a menu: over clusters first; user by user only if no split into clusters pays. Returns the
    /// finer partition to go on with, if there is one.
    fn price_all(
        pricing: &mut Pricing<'_>,
        blocks: &[Block],
        menu: &Menu,
        before: &[Vec<u32>],
        near: f64,
    ) -> (Self, Option<Vec<Vec<u32>>>) {
        let mut known = Vec::new();
        let mut sweep = Self::over_clusters(pricing, blocks, menu, near, &mut known);
        let mut finer = refine(before, &sweep.part);
        if sweep.gain <= near || finer.len() == before.len() {
            sweep = Self::deep(pricing, blocks, menu, known);
            finer = refine(before, &sweep.part);
        }
        let further = sweep.gain > near && finer.len() > before.len() && pricing.spent < pricing.pivots;
        (sweep, further.then_some(finer))
    }

    /// Prices blocks over clusters. The large ones that did not pay last time are asked only if no other pays: asking them takes
    /// most of the time, and they seldom answer otherwise than before. What they said is left in `known`.
    fn over_clusters(
        pricing: &mut Pricing<'_>,
        blocks: &[Block],
        menu: &Menu,
        near: f64,
        known: &mut Vec<Option<Restricted>>,
    ) -> Self {
        let mut sweep = Self::new(pricing);
        known.clear();
        known.resize_with(blocks.len(), || None);
        let (last, first): (Vec<usize>, Vec<usize>) =
            (0..blocks.len()).partition(|&class| pricing.is_quiet(&blocks[class]));
        for classes in [first, last] {
            if sweep.gain > near {
                break;
            }
            for class in classes.into_iter().filter(|&class| blocks[class].members.len() > 1) {
                let mut priced = pricing.price(&blocks[class], menu.bundle(pricing.scaled.k, class), false, None);
                pricing.heard(&blocks[class], priced.gain);
                known[class] = priced.shallow.take();
                sweep.add(&blocks[class], priced);
            }
        }
        sweep
    }

    /// Prices all blocks user by user.
    fn deep(pricing: &mut Pricing<'_>, blocks: &[Block], menu: &Menu, known: Vec<Option<Restricted>>) -> Self {
        let mut sweep = Self::new(pricing);
        let known = known.into_iter().chain(std::iter::repeat_with(|| None));
        for ((class, block), known) in blocks.iter().enumerate().zip(known) {
            if let [only] = block.members[..] {
                sweep.envy.extend(block.inflow.iter().map(|&(i, y)| (i, only, y)));
                continue;
            }
            let priced = pricing.price(block, menu.bundle(pricing.scaled.k, class), true, known);
            sweep.add(block, priced);
        }
        sweep
    }

    fn add(&mut self, block: &Block, priced: Priced) {
        self.gain += priced.gain.max(0.0);
        for (number, members) in priced.parts.iter().enumerate() {
            members.iter().for_each(|&at| self.part[block.members[at as usize] as usize] = number as u32);
        }
        self.envy.extend(priced.envy);
        self.through.extend(priced.through);
    }
}

/// The groups, split by the part numbers of their members.
fn refine(groups: &[Vec<u32>], part: &[u32]) -> Vec<Vec<u32>> {
    let mut refined = Vec::new();
    for group in groups {
        let mut members = group.clone();
        members.sort_by_key(|&l| (part[l as usize], l));
        refined.extend(members.chunk_by(|&a, &b| part[a as usize] == part[b as usize]).map(<[u32]>::to_vec));
    }
    refined
}
