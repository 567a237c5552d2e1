//! The starting point: the equilibrium of a market with equal incomes. It is envy-free already, and its sum is within a
//! percent of the best: it is the first incumbent as well as the first partition.

use super::scaled::{Menu, Scaled};
use crate::market::{self, Equilibrium, Market, STEPS};

/// The users by the resource that they buy; users who buy several are alone. The bundles are what they get for their
/// incomes. There are none where the market's solver rejects the numbers: then everybody is on its fastest resource.
pub(super) fn menu(scaled: &Scaled) -> Menu {
    let market = Market { w: &scaled.w, weight: &scaled.weight, capacity: &vec![1.0; scaled.k] };
    let Ok(equilibrium) = market::equilibrium(&market, None, STEPS) else {
        let groups = by(scaled, |l| {
            let rates = scaled.rates(l);
            (0..scaled.k).max_by(|&a, &b| rates[a].total_cmp(&rates[b]))
        });
        return Menu { groups, bundles: Vec::new() };
    };
    let groups = by(scaled, |l| equilibrium.assignment.resource(l));
    let bundles = groups.iter().flat_map(|group| bought(&equilibrium, group[0] as usize)).collect();
    Menu { groups, bundles }
}

/// What a user buys per unit of its weight.
fn bought(equilibrium: &Equilibrium, l: usize) -> Vec<f64> {
    let mut bundle = vec![0.0; equilibrium.prices.len()];
    equilibrium.assignment.each(l, |j, fraction| bundle[j] = fraction / equilibrium.prices[j]);
    bundle
}

fn by(scaled: &Scaled, resource: impl Fn(usize) -> Option<usize>) -> Vec<Vec<u32>> {
    let mut groups = vec![Vec::new(); scaled.k];
    let mut alone = Vec::new();
    for l in 0..scaled.users() {
        match resource(l) {
            Some(j) => groups[j].push(l as u32),
            None => alone.push(vec![l as u32]),
        }
    }
    groups.extend(alone);
    groups.retain(|group| !group.is_empty());
    groups
}
