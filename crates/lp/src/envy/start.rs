//! Where to begin: what users would buy with equal money. The outcome of such a market is envy-free already, and its
//! sum is within a percent of the best; here it gives the first partition.

use super::stage::Stage;
use crate::market::{self, Market, STEPS};

/// The users by what they would buy; users who would mix, and content ones, each by themselves.
pub(super) fn groups(stage: &Stage) -> Vec<Vec<u32>> {
    let market = Market { w: &stage.w, weight: &stage.weight, capacity: &stage.room };
    let Ok(equilibrium) = market::equilibrium(&market, None, STEPS) else {
        // Somebody has no use for what is left: begin with what everybody likes best.
        return by(stage, |l| {
            let rates = stage.rates(l);
            (0..stage.k).max_by(|&a, &b| rates[a].total_cmp(&rates[b]))
        });
    };
    by(stage, |l| equilibrium.division.resource(l))
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
