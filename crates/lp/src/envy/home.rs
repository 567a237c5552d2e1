//! The users of a block who are at home: they hold nothing but one resource and are far from wanting any other. Most users of a large
//! block are, they stay together in its program, and a single relay proves that splitting them does not pay.
//!
//! Let the block hold an amount of resource `a` alone, and `v_l = π_l + Y_l`. A user's balance, in money, and its rates beside `a`'s are
//!
//! ```text
//! S_l = v_l w_la − π_l p_a        r_lj = w_lj/w_la        ρ_j = p_j/p_a
//! ```
//!
//! Whoever has `S_l < 0` pays `−S_l` into the relay, outsiders pay what they pay for the block, and the relay is shared among those with
//! `S_l > 0` in proportion to it. Resource `a` is then balanced for everybody. For the others, with `r̄` the mean of the payers' `r`,
//!
//! ```text
//! S_l < 0:   g_lj = π_l p_a (r_lj − ρ_j)                             ≤ 0 for those who like a best at these prices
//! S_l > 0:   g_lj = π_l p_a (r_lj − ρ_j) + S_l (r_lj − r̄_j)         ≤ 0 for those far enough from where they would not
//! ```
//!
//! Nothing here is believed: what a relay leaves is computed for every user, and who is left with something is taken out.

use super::Relay;
use super::block::Block;
use super::pricing::FEW;
use super::restricted::{Crowd, Limits};
use super::scaled::Scaled;

/// The part of its distance from ρ that a user's share in the relay may take for it to count as at home.
const ROOM: f64 = 0.5;
/// The part of that distance that rows of its own may take.
const USED: f64 = 0.8;
/// What may be left of `g_l`, beside the user's weight (prices are about 1): the bound rises by the largest.
const LEFT: f64 = 1e-10;

/// Balances of a block's members, and what there is to be shared.
struct Balance {
    resource: usize,
    /// `S_l`.
    of: Vec<f64>,
    /// `Σ S_l` over those with more than they pay for.
    surplus: f64,
    /// What is paid into the relay: per unit of rates, by resource.
    passed: Vec<f64>,
}

impl Block {
    /// The resource that a bundle consists of, if it is one.
    fn only_resource(bundle: &[f64]) -> Option<usize> {
        let all: f64 = bundle.iter().sum();
        let resource = (0..bundle.len()).max_by(|&i, &j| bundle[i].total_cmp(&bundle[j]))?;
        (all > 0.0 && all - bundle[resource] <= 1e-12 * all).then_some(resource)
    }

    fn balance(&self, scaled: &Scaled, resource: usize) -> Balance {
        let mut balance =
            Balance { resource, of: Vec::with_capacity(self.members.len()), surplus: 0.0, passed: vec![0.0; scaled.k] };
        for (&l, &outflow) in self.members.iter().zip(&self.outflow) {
            let (weight, rates) = (scaled.weight[l as usize], scaled.rates(l as usize));
            let own = (weight + outflow) * rates[resource] - weight * self.prices[resource];
            balance.of.push(own);
            if own > 0.0 {
                balance.surplus += own;
            } else {
                let paid = -own / rates[resource];
                balance.passed.iter_mut().zip(rates).for_each(|(to, w)| *to += paid * w);
            }
        }
        for &(i, y) in &self.inflow {
            balance.passed.iter_mut().zip(scaled.rates(i as usize)).for_each(|(to, w)| *to += y * w);
        }
        balance
    }

    /// Whether the relay leaves nothing of `g_l` for the member at a position, within a part of the way to ρ.
    fn has_room(&self, scaled: &Scaled, balance: &Balance, at: usize) -> bool {
        let l = self.members[at] as usize;
        let (weight, rates, a) = (scaled.weight[l], scaled.rates(l), balance.resource);
        let share = if balance.of[at] > 0.0 { balance.of[at] / balance.surplus } else { 0.0 };
        rates.iter().enumerate().filter(|&(j, &w)| w > 0.0 && j != a).all(|(j, w)| {
            let home = weight * (self.prices[a] * w / rates[a] - self.prices[j]);
            let moved = balance.of[at].max(0.0) * w / rates[a] - share * balance.passed[j];
            home < 0.0 && ROOM * home + moved < 0.0
        })
    }

    /// Members who are at home in `bundle` with room to spare, by position; nobody unless it is of one resource.
    pub(super) fn at_home(&self, scaled: &Scaled, bundle: &[f64]) -> Vec<u32> {
        let Some(resource) = Self::only_resource(bundle) else { return Vec::new() };
        let balance = self.balance(scaled, resource);
        let stays = |at: &usize| self.outflow[*at] == 0.0 && self.has_room(scaled, &balance, *at);
        (0..self.members.len()).filter(stays).map(|at| at as u32).collect()
    }

    /// What rows of the members of large parts may be worth, for a relay to prove the part whole: those who have less than they pay for
    /// can together take as much more as they lack, on average; everybody alone, as much as keeps it at home.
    pub(super) fn limits(&self, scaled: &Scaled, bundle: &[f64], parts: &[Vec<u32>]) -> Limits {
        let mut limits = Limits::default();
        let Some(resource) = Self::only_resource(bundle) else { return limits };
        let balance = self.balance(scaled, resource);
        for (part, members) in (0..).zip(parts).filter(|t| t.1.len() >= FEW) {
            let crowd = self.limit(scaled, &balance, members, &mut limits.users);
            limits.crowds.extend(crowd.map(|(mean, most)| Crowd { part, mean, most }));
        }
        limits
    }

    fn limit(
        &self,
        scaled: &Scaled,
        balance: &Balance,
        part: &[u32],
        users: &mut Vec<(u32, f64)>,
    ) -> Option<(Vec<(u32, f64)>, f64)> {
        let a = balance.resource;
        let rates = |at: u32| scaled.rates(self.members[at as usize] as usize);
        let (mut passed, mut paid) = (vec![0.0; scaled.k], 0.0);
        for &at in part.iter().filter(|&&at| balance.of[at as usize] < 0.0) {
            let own = -balance.of[at as usize];
            passed.iter_mut().zip(rates(at)).for_each(|(to, w)| *to += own * w / rates(at)[a]);
            paid += own;
        }
        for &at in part {
            let (weight, rates) = (scaled.weight[self.members[at as usize] as usize], rates(at));
            let mut most = paid;
            for (j, &w) in rates.iter().enumerate().filter(|&(j, &w)| w > 0.0 && j != a) {
                let room = weight * (self.prices[j] - self.prices[a] * w / rates[a]);
                let rise = w / rates[a] - passed[j] / paid.max(f64::MIN_POSITIVE);
                if rise > 0.0 {
                    most = most.min(USED * room / rise);
                }
            }
            users.push((at, ((most - balance.of[at as usize].max(0.0)) / rates[a]).max(0.0)));
        }
        let lacks = |at: u32| (-balance.of[at as usize]).max(0.0) / rates(at)[a];
        let all: f64 = part.iter().map(|&at| lacks(at)).sum();
        let mean = part.iter().map(|&at| (at, lacks(at) / all)).filter(|t| t.1 > 0.0).collect();
        (all > 0.0).then_some((mean, all))
    }

    /// Duals that prove the block whole and what they leave; or the positions of those for whom they leave too much.
    pub(super) fn relayed(&self, scaled: &Scaled, bundle: &[f64]) -> Result<Proved, Vec<u32>> {
        let Some(a) = Self::only_resource(bundle) else { return Err((0..self.members.len() as u32).collect()) };
        let balance = self.balance(scaled, a);
        let mut pool = Pool::new(self, scaled, &balance);
        let mut served = vec![false; self.members.len()];
        let mut wrong = Vec::new();
        loop {
            let mut hard: Vec<(f64, u32)> = Vec::new();
            for at in (0..self.members.len()).filter(|&at| !served[at]) {
                let left = pool.left(self, scaled, &balance, at);
                if left > LEFT {
                    hard.push((left, at as u32));
                }
            }
            if hard.is_empty() {
                break;
            }
            hard.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
            for (_, at) in hard {
                served[at as usize] = true;
                if balance.of[at as usize] <= 0.0 || !pool.serve(self, scaled, &balance, at) {
                    wrong.push(at);
                }
            }
        }
        if wrong.is_empty() { Ok(pool.finish(self, scaled, &balance, &served)) } else { Err(wrong) }
    }
}

/// What proves that a block stays whole.
pub(super) struct Proved {
    pub(super) through: Vec<Relay>,
    /// The most that is left of a `g_l` beside its weight.
    pub(super) left: f64,
}

/// What is still to be shared: who pays how much.
struct Pool {
    /// `(user, amount of the resource, what of it is left)`.
    payers: Vec<(u32, f64)>,
    /// Rates beside the resource's, payers × resources.
    beside: Vec<f64>,
    /// `Σ S_l` over those who are not served yet.
    surplus: f64,
    /// `Σ` of what is paid times rates beside the resource's.
    passed: Vec<f64>,
    /// A relay for each who was served alone.
    through: Vec<Relay>,
}

impl Pool {
    fn new(block: &Block, scaled: &Scaled, balance: &Balance) -> Self {
        let (k, a) = (scaled.k, balance.resource);
        let members = block.members.iter().zip(&balance.of).filter(|t| *t.1 < 0.0).map(|(&l, &own)| (l, -own));
        let outsiders = block.inflow.iter().map(|&(i, y)| (i, y * scaled.rates(i as usize)[a]));
        let payers: Vec<(u32, f64)> = members.chain(outsiders).filter(|t| t.1 > 0.0).collect();
        let mut pool = Self {
            beside: Vec::with_capacity(payers.len() * k),
            payers,
            surplus: balance.surplus,
            passed: vec![0.0; k],
            through: Vec::new(),
        };
        for &(l, paid) in &pool.payers {
            let rates = scaled.rates(l as usize);
            pool.beside.extend(rates.iter().map(|w| w / rates[a]));
            pool.passed.iter_mut().zip(rates).for_each(|(to, w)| *to += paid * w / rates[a]);
        }
        pool
    }

    /// What a share in the pool leaves of `g_l`, beside the weight.
    fn left(&self, block: &Block, scaled: &Scaled, balance: &Balance, at: usize) -> f64 {
        let l = block.members[at] as usize;
        let (weight, rates, a, own) = (scaled.weight[l], scaled.rates(l), balance.resource, balance.of[at].max(0.0));
        let share = if own > 0.0 { own / self.surplus } else { 0.0 };
        let mut most = f64::NEG_INFINITY;
        for (j, &w) in rates.iter().enumerate().filter(|t| *t.1 > 0.0) {
            let home = weight * (block.prices[a] * w / rates[a] - block.prices[j]);
            most = most.max(home + own * w / rates[a] - share * self.passed[j]);
        }
        most / weight
    }

    /// Gives a member payers of its own, who are on average as far out as it must have them; those who are least far out but far
    /// enough. False, with nothing done, if there are not enough.
    fn serve(&mut self, block: &Block, scaled: &Scaled, balance: &Balance, at: u32) -> bool {
        let (k, a, l) = (scaled.k, balance.resource, block.members[at as usize] as usize);
        let (weight, rates, own) = (scaled.weight[l], scaled.rates(l), balance.of[at as usize]);
        let need = |j: usize| {
            let room = weight * (block.prices[j] - block.prices[a] * rates[j] / rates[a]);
            if rates[j] > 0.0 && j != a { rates[j] / rates[a] - room / own } else { f64::NEG_INFINITY }
        };
        let needs: Vec<f64> = (0..k).map(need).collect();
        let mut far: Vec<(f64, usize)> = Vec::new();
        for (place, beside) in self.beside.chunks_exact(k).enumerate().filter(|t| self.payers[t.0].1 > 0.0) {
            if beside.iter().zip(&needs).all(|(r, need)| r >= need) {
                far.push((beside.iter().sum::<f64>(), place));
            }
        }
        far.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
        if far.iter().map(|t| self.payers[t.1].1).sum::<f64>() < own {
            return false;
        }
        let (mut due, mut paid) = (own, Vec::new());
        for (_, place) in far {
            let (payer, amount) = self.payers[place];
            let taken = amount.min(due);
            self.payers[place].1 -= taken;
            let beside = &self.beside[place * k..][..k];
            self.passed.iter_mut().zip(beside).for_each(|(to, r)| *to -= taken * r);
            paid.push((payer, taken / scaled.rates(payer as usize)[a]));
            due -= taken;
            if due <= 0.0 {
                break;
            }
        }
        self.through.push(Relay { paid, share: vec![(l as u32, 1.0)] });
        self.surplus -= own;
        true
    }

    fn finish(mut self, block: &Block, scaled: &Scaled, balance: &Balance, served: &[bool]) -> Proved {
        let rest = |at: &usize| !served[*at] && balance.of[*at] > 0.0;
        let sharing: Vec<usize> = (0..block.members.len()).filter(rest).collect();
        let all: f64 = sharing.iter().map(|&at| balance.of[at]).sum();
        let left = (0..block.members.len()).filter(|&at| !served[at]).map(|at| self.left(block, scaled, balance, at));
        let left = left.fold(0.0, f64::max);
        let mut relay = Relay::default();
        let paid = |&(l, amount): &(u32, f64)| (l, amount / scaled.rates(l as usize)[balance.resource]);
        relay.paid.extend(self.payers.iter().filter(|t| t.1 > 0.0).map(paid));
        relay.share.extend(sharing.iter().map(|&at| (block.members[at], balance.of[at] / all)));
        if relay.share.is_empty() {
            // Nobody needs anything any more: what outsiders pay must go to somebody, and members keep theirs.
            let outside = |t: &(u32, f64)| block.inflow.iter().any(|row| row.0 == t.0);
            relay.paid.retain(outside);
            relay.share.push((block.members[0], 1.0));
        }
        self.through.push(relay);
        Proved { through: self.through, left }
    }
}
