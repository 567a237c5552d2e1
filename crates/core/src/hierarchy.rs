//! What tenants are owed where tenants have tenants: organisation, team, user.
//!
//! A tenant's name is its place: `lab/vision/ann` is a part of `lab/vision`, which is a part of `lab`, each with a weight of its own (1 where nothing
//! was said) among its siblings. Names without a stroke are all siblings, and then this module changes nothing.
//!
//! **Weights.** A part has its parent's weight, divided among the parts that want anything *now*, by their weights: an idle team's share goes to its
//! sibling teams, not to other organisations. A tenant with parts and jobs of its own is a part of itself, with weight 1. So the weights of all that are active
//! below a tenant add up to its own, and whatever a policy promises to every leaf by weight it promises to every team and every organisation.
//!
//! **Demands.** A part with few jobs cannot use all that it is owed. What it leaves goes to its siblings first, counted in GPUs: their weights rise until all of
//! the parent's share is wanted. It keeps its own weight (with which it may prefer fast GPUs), as what it does not spend is lost to it. What a whole
//! organisation leaves over is divided by the policy, as between tenants without parts.
//!
//! **History.** Every tenant has an account, in GPU-seconds: what it was owed of what all used, less what it used. It halves in every half-life:
//!
//! ```text
//! D ← 2^(−Δt/h) (D + share − used)          Σ D stays 0
//! ```
//!
//! Whoever has a positive account is owed `D/τ` GPUs more, and whoever has a negative one as much less, but never less than half of its share; nobody
//! gets more than debtors give up now. So from any moment with `D = 0` on, a tenant has at least its share in total (one kind of GPUs, everybody
//! hungry: its surplus since then and `−D` move by the same amounts, and `−D` only decays), and whoever has `D = 0` is never charged. The promise of an
//! equal share holds over the window, and for half of it in every round.

use std::collections::{BTreeMap, BTreeSet};

/// Nobody pays back more than this part of its share at once.
const MOST_PAID: f64 = 0.5;

/// A tenant, as its place in the tree and what it wants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim<'a> {
    /// Its name, with a stroke between the levels.
    pub name: &'a str,
    /// Its weight among its siblings.
    pub weight: f64,
    /// GPUs that its jobs could hold; 0 for a tenant without any.
    pub demand_gpus: f64,
}

/// A tenant or a group of them.
#[derive(Default)]
struct Part<'a> {
    weight: f64,
    /// The tenant of this name, if there is one.
    tenant: Option<usize>,
    /// GPUs that the tenant itself wants, and that all below want.
    own: f64,
    all: f64,
    parts: BTreeMap<&'a str, Part<'a>>,
}

impl<'a> Part<'a> {
    fn tree(claims: &[Claim<'a>]) -> Self {
        let mut root = Self::default();
        for (at, claim) in claims.iter().enumerate() {
            let mut part = &mut root;
            for step in claim.name.split('/') {
                part.all += claim.demand_gpus;
                part = part.parts.entry(step).or_insert_with(|| Self { weight: 1.0, ..Self::default() });
            }
            part.all += claim.demand_gpus;
            (part.weight, part.tenant, part.own) = (claim.weight, Some(at), claim.demand_gpus);
        }
        root
    }

    /// Divides `amount` below this part; a GPU counts `unit`.
    fn divide(&self, amount: f64, unit: f64, owed: &mut [f64]) {
        if self.own > 0.0 && self.parts.values().all(|part| part.all <= 0.0) {
            if let Some(tenant) = self.tenant {
                owed[tenant] = amount;
            }
            return;
        }
        let own = (self.own > 0.0).then_some((1.0, self.own, None));
        let below = self.parts.values().filter(|part| part.all > 0.0);
        let wants: Vec<_> = own.into_iter().chain(below.map(|part| (part.weight, part.all, Some(part)))).collect();
        let weights: f64 = wants.iter().map(|want| want.0).sum();
        let level = level(amount, wants.iter().map(|want| (want.0, want.1 * unit)).collect());
        for (weight, gpus, part) in wants {
            let nominal = amount * weight / weights;
            let owed_here = f64::max(nominal, (gpus * unit).min(level * weight));
            match (part, self.tenant) {
                (Some(part), _) => part.divide(owed_here, unit, owed),
                (None, Some(tenant)) => owed[tenant] = owed_here,
                (None, None) => {}
            }
        }
    }
}

/// λ with `Σ min(demand, λ·weight) = amount`; infinite where all demands together are less.
fn level(amount: f64, mut wants: Vec<(f64, f64)>) -> f64 {
    wants.sort_by(|a, b| (a.1 * b.0).total_cmp(&(b.1 * a.0)));
    let (mut left, mut weights) = (amount, wants.iter().map(|want| want.0).sum::<f64>());
    for (weight, demand) in wants {
        if left * weight <= demand * weights {
            return left / weights;
        }
        left -= demand;
        weights -= weight;
    }
    f64::INFINITY
}

/// The weight of every tenant among all others, given who wants what of `gpus` GPUs; 0 for those that want nothing.
///
/// Where no name has a stroke these are the tenants' own weights.
#[must_use]
pub fn effective_weights(claims: &[Claim<'_>], gpus: f64) -> Vec<f64> {
    let root = Part::tree(claims);
    let active = root.parts.values().filter(|part| part.all > 0.0);
    let all: f64 = active.clone().map(|part| part.weight).sum();
    let unit = if gpus > 0.0 { all / gpus } else { f64::INFINITY };
    let mut owed = vec![0.0; claims.len()];
    active.for_each(|part| part.divide(part.weight, unit, &mut owed));
    owed
}

/// What everybody is owed of what all used, as parts of 1, whether it has jobs now or not; whose `demand_gpus` is 0 is owed nothing.
#[must_use]
pub fn standing_shares(claims: &[Claim<'_>]) -> Vec<f64> {
    // Of no GPUs nobody leaves anything to its siblings.
    let shares = effective_weights(claims, 0.0);
    let all: f64 = shares.iter().sum();
    shares.into_iter().map(|share| if all > 0.0 { share / all } else { 0.0 }).collect()
}

/// Which of these names are those of parents of others.
#[must_use]
pub fn parents<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<bool> {
    let above = |name: &'a str| name.match_indices('/').map(move |(at, _)| &name[..at]);
    let above: BTreeSet<&str> = names.clone().flat_map(above).collect();
    names.map(|name| above.contains(name)).collect()
}

/// An account after `seconds` in which its tenant was owed and used so many GPU-seconds.
#[must_use]
pub fn settled(account: f64, owed: f64, used: f64, seconds: f64, half_life_seconds: f64) -> f64 {
    (account + owed - used) * (-seconds / half_life_seconds).exp2()
}

/// Factors of the weights: what everybody is owed with its account, over what it is owed without. `shares` are GPUs of those that want any (0 of the others).
#[must_use]
pub fn with_history(shares: &[f64], accounts: &[f64], payback_seconds: f64) -> Vec<f64> {
    let asked = shares.iter().zip(accounts).map(|(share, account)| match share {
        share if *share > 0.0 => (account / payback_seconds).max(-MOST_PAID * share),
        _ => 0.0,
    });
    let asked: Vec<f64> = asked.collect();
    let gains: f64 = asked.iter().filter(|asked| **asked > 0.0).sum();
    let paid: f64 = -asked.iter().filter(|asked| **asked < 0.0).sum::<f64>();
    let part = |mine: f64, theirs: f64| if mine > theirs { theirs / mine } else { 1.0 };
    let (gain, pay) = (part(gains, paid), part(paid, gains));
    let factor = |(share, asked): (&f64, &f64)| match share {
        share if *share > 0.0 => 1.0 + asked * if *asked > 0.0 { gain } else { pay } / share,
        _ => 1.0,
    };
    shares.iter().zip(&asked).map(factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owed(claims: &[(&str, f64, f64)], gpus: f64) -> Vec<f64> {
        let claims: Vec<Claim<'_>> =
            claims.iter().map(|&(name, weight, demand_gpus)| Claim { name, weight, demand_gpus }).collect();
        effective_weights(&claims, gpus)
    }

    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-12 * (1.0 + expected), "{found} is not {expected}");
        }
    }

    #[test]
    fn names_without_strokes_have_their_own_weights() {
        assert_eq!(owed(&[("a", 2.0, 1.0), ("b", 0.3, 100.0), ("c", 5.0, 0.0)], 12.0), [2.0, 0.3, 0.0]);
    }

    /// Twelve GPUs, two organisations: while a2 is idle, a1 has all of a's half.
    #[test]
    fn an_idle_team_leaves_its_share_to_its_siblings() {
        near(&owed(&[("a/a1", 1.0, 99.0), ("a/a2", 1.0, 0.0), ("b", 1.0, 99.0)], 12.0), &[1.0, 0.0, 1.0]);
        near(&owed(&[("a/a1", 1.0, 99.0), ("a/a2", 1.0, 99.0), ("b", 1.0, 99.0)], 12.0), &[0.5, 0.5, 1.0]);
        near(
            &owed(&[("a/a1", 1.0, 99.0), ("a/a2", 3.0, 99.0), ("b", 1.0, 99.0), ("a", 4.0, 0.0)], 12.0),
            &[1.0, 3.0, 1.0, 0.0],
        );
    }

    /// Of its three GPUs a2 wants one: the other two are a1's, not b's.
    #[test]
    fn what_a_team_cannot_use_goes_to_its_siblings_first() {
        let found = owed(&[("a/a1", 1.0, 99.0), ("a/a2", 1.0, 1.0), ("b", 1.0, 99.0)], 12.0);
        near(&found, &[1.0 - 1.0 / 6.0, 0.5, 1.0]);
    }

    #[test]
    fn a_tenant_with_parts_is_a_part_of_itself() {
        near(&owed(&[("a", 2.0, 9.0), ("a/x", 3.0, 9.0), ("b", 2.0, 9.0)], 8.0), &[0.5, 1.5, 2.0]);
        near(&owed(&[("a", 2.0, 9.0), ("a/x", 3.0, 0.0), ("b", 2.0, 9.0)], 8.0), &[2.0, 0.0, 2.0]);
    }

    /// Names of up to three levels, each level of a few.
    fn claims() -> impl Strategy<Value = Vec<(String, f64, f64)>> {
        let demand = prop_oneof![1 => Just(0.0), 2 => 0.1..3.0f64, 2 => Just(1000.0)];
        prop::collection::btree_map(
            prop::collection::vec(0..3u8, 1..4)
                .prop_map(|steps| steps.iter().map(|step| format!("t{step}")).collect::<Vec<_>>().join("/")),
            (0.1..5.0f64, demand),
            1..12,
        )
        .prop_map(|map| map.into_iter().map(|(name, (weight, demand))| (name, weight, demand)).collect())
    }

    fn within(name: &str, group: &str) -> bool {
        name == group || name.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// What is used below an organisation adds up to its weight, or to all that it wants.
        #[test]
        fn weights_below_a_part_add_up(tenants in claims(), gpus in 1.0..40.0f64) {
            let claims: Vec<Claim<'_>> = tenants
                .iter()
                .map(|(name, weight, demand_gpus)| Claim { name, weight: *weight, demand_gpus: *demand_gpus })
                .collect();
            let owed = effective_weights(&claims, gpus);
            let tops: BTreeSet<&str> = claims.iter().map(|c| c.name.split('/').next().unwrap_or(c.name)).collect();
            let weight_of = |name: &str| claims.iter().find(|c| c.name == name).map_or(1.0, |c| c.weight);
            let wanted = |name: &str| claims.iter().filter(|c| within(c.name, name)).map(|c| c.demand_gpus).sum::<f64>();
            let all: f64 = tops.iter().filter(|top| wanted(top) > 0.0).map(|top| weight_of(top)).sum();
            let unit = all / gpus;
            for top in tops.iter().filter(|top| wanted(top) > 0.0) {
                let used: f64 = claims
                    .iter()
                    .zip(&owed)
                    .filter(|(c, _)| within(c.name, top))
                    .map(|(c, owed)| owed.min(c.demand_gpus * unit))
                    .sum();
                let expected = weight_of(top).min(wanted(top) * unit);
                prop_assert!((used - expected).abs() <= 1e-9 * expected, "{top}: {used} of {expected}");
            }
            for (claim, owed) in claims.iter().zip(&owed) {
                prop_assert_eq!(*owed > 0.0, claim.demand_gpus > 0.0);
            }
        }

        /// Nobody is charged whose account is even, nobody pays more than half, and nothing is made of nothing.
        #[test]
        fn history_only_moves_what_debtors_pay(
            tenants in prop::collection::vec((prop_oneof![Just(0.0), 0.1..10.0f64], prop_oneof![Just(0.0), -1e6..1e6f64]), 1..9),
        ) {
            let (shares, accounts): (Vec<f64>, Vec<f64>) = tenants.into_iter().unzip();
            let factors = with_history(&shares, &accounts, 86_400.0);
            let (before, after): (f64, f64) =
                (shares.iter().sum(), shares.iter().zip(&factors).map(|(share, factor)| share * factor).sum());
            prop_assert!((before - after).abs() <= 1e-9 * (1.0 + before), "{before} became {after}");
            for (factor, account) in factors.iter().zip(&accounts) {
                prop_assert!(*factor >= 0.5 - 1e-12);
                prop_assert!(*account != 0.0 || *factor == 1.0);
                prop_assert!(*account > 0.0 || *factor <= 1.0);
                prop_assert!(*account < 0.0 || *factor >= 1.0);
            }
        }

        /// After one half-life half is left, in however many rounds.
        #[test]
        fn a_half_life_halves(account in -1e9..1e9f64, rounds in 1..500u32, half_life in 60.0..1e7f64) {
            let round = half_life / f64::from(rounds);
            let left = (0..rounds).fold(account, |account, _| settled(account, 0.0, 0.0, round, half_life));
            prop_assert!((left - account / 2.0).abs() <= 1e-9 * account.abs());
        }

        /// One kind, everybody hungry but for spells of idling and bursts: from the moments when its account is even, nobody has less than its share in total.
        #[test]
        fn a_burst_is_paid_back(seed in any::<u64>()) {
            const GPUS: f64 = 12.0;
            let (n, hours, half_life, payback) = (4usize, 24 * 28, 7.0 * 24.0, 3.0 * 24.0);
            let share = GPUS / n as f64;
            let (mut accounts, mut got) = (vec![0.0; n], vec![0.0; n]);
            for hour in 0..hours {
                // The last is always hungry; the others come and go for days at a time.
                let hungry = |l: usize| l == n - 1 || (seed >> ((hour / 48 * 3 + l) % 64)) & 1 == 1;
                let active = (0..n).filter(|&l| hungry(l)).count() as f64;
                let shares: Vec<f64> = (0..n).map(|l| if hungry(l) { GPUS / active } else { 0.0 }).collect();
                let factors = with_history(&shares, &accounts, payback);
                for l in 0..n {
                    let used = shares[l] * factors[l];
                    got[l] += used;
                    accounts[l] = settled(accounts[l], share, used, 1.0, half_life);
                }
                let sum: f64 = accounts.iter().sum();
                prop_assert!(sum.abs() <= 1e-6, "accounts add up to {sum}");
            }
            let last = got[n - 1] / (hours as f64 * share);
            prop_assert!(last >= 1.0 - 1e-9, "always hungry, and has {last} of its share");
        }
    }
}
