//! Ticket shares and trading (Gandiva_fair, EuroSys '20).
//!
//! *Tickets.* User l with π_l tickets is owed π_l/Σπ of every kind. Who cannot use a kind leaves its part to the others.
//! Who cannot hold all that it is offered (d_l GPUs are its most) keeps what is fastest for it, and the rest is
//! offered to the others, again by tickets, until nobody can hold more or nothing is left.
//!
//! *Trading.* For two kinds, a fast f and a slow s, user l's speed-up is s_l = r_lf / r_ls. The user with the lowest sells
//! its part of f to the one with the highest, one GPU of f for ρ of s, where
//!
//!   ρ = the second-highest speed-up among those who still have some of s to pay with, never below the seller's own.
//!
//! The buyer gives no more than the fast GPU is worth to it (ρ ≤ s_buyer) and the seller takes no less (ρ ≥ s_seller),
//! so nobody loses by a trade and everybody keeps at least what its tickets are worth: *sharing incentive*. The price
//! is the second-highest so that the buyer gains nothing by understating its speed-up. They trade until one of the
//! two has nothing left to give or cannot hold more, then the next takes its place, until the highest is no longer
//! above the lowest.
//!
//! The order of trades is ours, since how the published system orders them was not at hand: of several orders the one that
//! comes nearest to what is known of it on Gavel's measured rates (1.16 of an equal division on average, 1.20 at most, 20
//! tenants). Kinds are ordered by Σ_l π_l w_lj², w over the slowest kind; pairs of neighbours trade first, the faster before the
//! slower, then kinds two apart, and so on; each pair once. (On Gavel's measured rates this gains 16 % over the bare shares;
//! going through the pairs again until nobody would trade gains another 1 %.)

use super::program::Served;
use super::{AllocateError, Allocation, Entitlement, Policy, PolicyEntry, Problem, Promise, Proposal};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "gandiva-fair",
    summary: "Gandiva_fair: a ticket share of every GPU kind, then trades of fast GPUs for slow ones that leave neither side worse off",
    promises: &[Promise::ScaleFree, Promise::SharingIncentive],
    make: || Box::new(GandivaFair),
    ..PolicyEntry::DIVIDES_BY_TENANT
};

pub(super) struct GandivaFair;

/// Amounts below this part of a cap or a capacity are rounding.
const DUST: f64 = 1e-12;

impl Policy for GandivaFair {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let served = Served::new(problem);
        let weights = Entitlement::Tenants.weights(problem);
        let tickets: Vec<f64> = served.users.iter().map(|&u| weights[u]).collect();
        let mut x = vec![0.0; served.w.len()];
        share_out(problem, &served, &tickets, &mut x);
        let order = fastest_first(problem, &served, &tickets);
        for apart in 1..order.len() {
            for pair in order.windows(apart + 1) {
                trade(problem.kinds(), &served, (pair[0], pair[apart]), &mut x);
            }
        }
        // Who paid several slow GPUs for a fast one can hold more again.
        share_out(problem, &served, &tickets, &mut x);
        Allocation::check(problem, Proposal { grants: served.grants(problem, &x), ..Proposal::default() })
    }
}

/// Adds everybody's part, by tickets, of what is left of every kind. `x` is users × kinds.
fn share_out(problem: &Problem, served: &Served, tickets: &[f64], x: &mut [f64]) {
    let (n, k) = (served.users.len(), problem.kinds());
    let used = |j: usize| x.iter().skip(j).step_by(k).sum::<f64>();
    let mut left: Vec<f64> = (0..k).map(|j| (problem.capacity[j] - used(j)).max(0.0)).collect();
    let mut open: Vec<usize> = (0..n).collect();
    let mut fastest: Vec<usize> = (0..k).collect();
    while !open.is_empty() {
        let mut all = vec![0.0; k];
        for &i in &open {
            (0..k).filter(|&j| served.w[i * k + j] > 0.0).for_each(|j| all[j] += tickets[i]);
        }
        let offers: Vec<f64> = left.iter().zip(&all).map(|(m, all)| if *all > 0.0 { m / all } else { 0.0 }).collect();
        let before = open.len();
        open.retain(|&i| {
            let w = &served.w[i * k..(i + 1) * k];
            let row = &mut x[i * k..(i + 1) * k];
            let mut room = (served.caps[i] - row.iter().sum::<f64>()).max(0.0);
            fastest.sort_by(|&a, &b| w[b].total_cmp(&w[a]).then(a.cmp(&b)));
            for &j in fastest.iter().filter(|&&j| w[j] > 0.0) {
                let taken = (offers[j] * tickets[i]).min(room);
                row[j] += taken;
                left[j] -= taken;
                room -= taken;
            }
            room > DUST * served.caps[i]
        });
        left.iter_mut().for_each(|m| *m = m.max(0.0));
        // Nobody was full, so everything on offer was taken.
        if open.len() == before {
            break;
        }
    }
}

/// Kinds that somebody can use, the most valuable first.
fn fastest_first(problem: &Problem, served: &Served, tickets: &[f64]) -> Vec<usize> {
    let k = problem.kinds();
    let speedups = problem.speedups();
    let worth =
        |j: usize| (served.users.iter().zip(tickets)).map(|(&u, t)| t * speedups[u * k + j].powi(2)).sum::<f64>();
    let mut kinds: Vec<(usize, f64)> = (0..k).map(|j| (j, worth(j))).filter(|(_, worth)| *worth > 0.0).collect();
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    kinds.into_iter().map(|(j, _)| j).collect()
}

/// Trades `fast` for `slow` until nobody gains. `x` is users × `k` kinds.
fn trade(k: usize, served: &Served, (fast, slow): (usize, usize), x: &mut [f64]) {
    let w = |i: usize, j: usize| served.w[i * k + j];
    let speedup = |i: usize| w(i, fast) / w(i, slow);
    let mut users: Vec<usize> = (0..served.users.len()).filter(|&i| w(i, fast) > 0.0 && w(i, slow) > 0.0).collect();
    users.sort_by(|&a, &b| speedup(a).total_cmp(&speedup(b)).then(a.cmp(&b)));
    // An amount is worth trading if it is more than rounding of what its holder could have.
    let has = |x: &[f64], i: usize, j: usize| x[i * k + j] > DUST * served.caps[i];
    let room = |x: &[f64], i: usize| (served.caps[i] - x[i * k..(i + 1) * k].iter().sum::<f64>()).max(0.0);
    let mut sellers = users.iter().copied().filter(|&i| speedup(i).is_finite());
    let mut buyers = users.iter().rev().copied().filter(|&i| speedup(i).is_finite()).peekable();
    let (mut seller, mut buyer) = (sellers.next(), buyers.next());
    while let (Some(s), Some(b)) = (seller, buyer) {
        if speedup(b) <= speedup(s) {
            break;
        }
        if !has(x, s, fast) {
            seller = sellers.next();
            continue;
        }
        if !has(x, b, slow) {
            buyer = buyers.next();
            continue;
        }
        while buyers.peek().is_some_and(|&i| !has(x, i, slow)) {
            buyers.next();
        }
        let price = buyers.peek().map_or(speedup(s), |&i| speedup(i)).max(speedup(s));
        let mut amount = x[s * k + fast].min(x[b * k + slow] / price);
        // Whoever ends up with more GPUs than before must be able to hold them.
        let growth = if price > 1.0 { (s, price - 1.0) } else { (b, 1.0 - price) };
        let limit = if growth.1 > 0.0 { room(x, growth.0) / growth.1 } else { f64::INFINITY };
        let full = limit <= amount;
        amount = amount.min(limit);
        for (at, change) in [(s * k + fast, -1.0), (b * k + fast, 1.0), (s * k + slow, price), (b * k + slow, -price)] {
            x[at] = (x[at] + change * amount).max(0.0);
        }
        match full {
            true if growth.0 == s => seller = sellers.next(),
            true => buyer = buyers.next(),
            // One of the two has nothing left; it is passed over above. Rounding must not keep both.
            false if x[s * k + fast] <= x[b * k + slow] / price => seller = sellers.next(),
            false => buyer = buyers.next(),
        }
    }
}
