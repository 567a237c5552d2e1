//! Where to begin: what users would buy with equal money. The outcome of such a market is envy-free already, and its
//! sum is within a percent of the best: it is the first answer as well as the first partition.

use super::stage::{Menu, Stage};
use crate::market::{self, Equilibrium, Market, STEPS};

/// The users by what they would buy; users who would mix, and content ones, each by themselves. The bundles are what
/// they get for their money; there are none if somebody has no use for what is left, and then everybody is on what it
/// likes best.
pub(super) fn menu(stage: &Stage) -> Menu {
    let market = Market { w: &stage.w, weight: &stage.weight, capacity: &stage.room };
    let Ok(equilibrium) = market::equilibrium(&market, None, STEPS) else {
        let groups = by(stage, |l| {
            let rates = stage.rates(l);
            (0..stage.k).max_by(|&a, &b| rates[a].total_cmp(&rates[b]))
        });
        return Menu { groups, bundles: Vec::new() };
    };
    let groups = by(stage, |l| equilibrium.division.resource(l));
    let bundles = groups.iter().flat_map(|group| bought(&equilibrium, group[0] as usize)).collect();
    Menu { groups, bundles }
}

/// What a user buys per unit of its weight.
fn bought(equilibrium: &Equilibrium, l: usize) -> Vec<f64> {
    let mut bundle = vec![0.0; equilibrium.prices.len()];
    equilibrium.division.each(l, |j, fraction| bundle[j] = fraction / equilibrium.prices[j]);
    bundle
}

fn by(stage: &Stage, resource: impl Fn(usize) -> Option<usize>) -> Vec<Vec<u32>> {
    let mut groups = vec![Vec::new(); stage.k];
    let mut alone = Vec::new();
    for l in 0..stage.users() {
        match resource(l).filter(|_| !stage.content[l]) {
            Some(j) => groups[j].push(l as u32),
            None => alone.push(vec![l as u32]),
        }
    }
    groups.extend(alone);
    groups.retain(|group| !group.is_empty());
    groups
}
