//! Reads prices and divisions out of a finished tree, from the rates as asked.
//!
//! The engine arrives at its prices by multiplying many factors, and perturbs rates. What is certain at the end is
//! only the structure: who chose what and who is tied to what. Everything else follows from it once more, in an
//! order that depends on nothing but the structure: two ways to the same tree give the same bits.
//!
//! ```text
//! inside a component   p_i / p_j = w_ei / w_ej      along every tie e
//! between components   equilibrium: m·p of a component is the money spent in it
//!                      equal level: one component, unless several are in balance by themselves: then as found
//! ```

use super::band::Bander;
use super::engine::{Crowd, Goal, close_books};
use super::forest::{Forest, MOST, Mask, everything, members};

/// Replaces `p` by the tree's own prices and divides the ties anew; returns the level (equal level only).
pub(super) fn read(crowd: &Crowd<'_>, bander: &mut Bander, p: &mut [f64; MOST]) -> f64 {
    let k = crowd.capacity.len();
    bander.forest().ties.sort_unstable_by_key(|tie| tie.user);
    let mut tied = [u32::MAX; MOST];
    for (at, tie) in tied.iter_mut().zip(&bander.forest().ties) {
        *at = tie.user;
    }
    let demand = untied_demand(crowd, &bander.choice, &tied);
    let forest = bander.forest();
    let mut seen: Mask = 0;
    for root in 0..k {
        if seen >> root & 1 == 0 {
            let component = forest.reach(1 << root, None);
            seen |= component;
            if component == everything(k) || crowd.goal == Goal::Equilibrium {
                p[root] = 1.0;
            }
            spread(crowd, forest, root, component, p);
            if crowd.goal == Goal::Equilibrium {
                spend(crowd, forest, component, &demand, p);
            }
        }
    }
    if crowd.goal == Goal::EqualLevel {
        super::band::scale_prices(crowd, p);
    }
    for tie in &mut forest.ties {
        let (l, j) = (tie.user as usize, tie.mask.trailing_zeros() as usize);
        tie.value = match crowd.goal {
            Goal::EqualLevel => crowd.weight[l] * p[j] / crowd.w[l * k + j],
            Goal::Equilibrium => crowd.weight[l],
        };
    }
    let books = close_books(crowd, p, demand, forest);
    forest.settle(k, &books);
    let (supply, capacity): (f64, f64) =
        (0..k).map(|j| (books.supply[j], crowd.capacity[j] * p[j])).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    capacity / supply
}

/// Units per level, or money, of the users who are not tied.
fn untied_demand(crowd: &Crowd<'_>, choice: &[u8], tied: &[u32; MOST]) -> [f64; MOST] {
    let k = crowd.capacity.len();
    let (mut demand, mut next) = ([0.0; MOST], 0);
    for (l, (&c, &v)) in choice.iter().zip(crowd.weight).enumerate() {
        if next < MOST && tied[next] as usize == l {
            next += 1;
            continue;
        }
        demand[c as usize % MOST] += match crowd.goal {
            Goal::EqualLevel => v / crowd.w[l * k + c as usize],
            Goal::Equilibrium => v,
        };
    }
    demand
}

/// Sets the prices of a component from its root's.
fn spread(crowd: &Crowd<'_>, forest: &Forest, root: usize, component: Mask, p: &mut [f64; MOST]) {
    let k = crowd.capacity.len();
    let mut known: Mask = 1 << root;
    while known != component {
        let before = known;
        for tie in &forest.ties {
            let from = tie.mask & known;
            if from != 0 && tie.mask & !known != 0 {
                let (w, i) = (&crowd.w[tie.user as usize * k..][..k], from.trailing_zeros() as usize);
                members(tie.mask & !known).for_each(|j| p[j] = p[i] * w[j] / w[i]);
                known |= tie.mask;
            }
        }
        if known == before {
            return;
        }
    }
}

/// Scales the prices of a component so that they take all the money spent in it.
fn spend(crowd: &Crowd<'_>, forest: &Forest, component: Mask, demand: &[f64; MOST], p: &mut [f64; MOST]) {
    let money: f64 = members(component).map(|j| demand[j]).sum();
    let tied: f64 =
        forest.ties.iter().filter(|tie| tie.mask & component != 0).map(|tie| crowd.weight[tie.user as usize]).sum();
    let supply: f64 = members(component).map(|j| crowd.capacity[j] * p[j]).sum();
    let unit = (money + tied) / supply;
    if unit > 0.0 {
        members(component).for_each(|j| p[j] *= unit);
    }
}
