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

use super::engine::{Goal, Program, balance_of};
use super::forest::{Forest, MOST, Mask, everything, members};
use super::sampled::SampledSolver;

/// Replaces `p` by the tree's own prices and divides the ties anew; returns the level (equal level only).
pub(super) fn read(program: &Program<'_>, solver: &mut SampledSolver, p: &mut [f64; MOST]) -> f64 {
    let k = program.capacity.len();
    solver.forest().ties.sort_unstable_by_key(|tie| tie.user);
    let mut tied = [u32::MAX; MOST];
    for (at, tie) in tied.iter_mut().zip(&solver.forest().ties) {
        *at = tie.user;
    }
    let demand = untied_demand(program, &solver.choice, &tied);
    let forest = solver.forest();
    let mut seen: Mask = 0;
    for root in 0..k {
        if seen >> root & 1 == 0 {
            let component = forest.reach(1 << root, None);
            seen |= component;
            if component == everything(k) || program.goal == Goal::Equilibrium {
                p[root] = 1.0;
            }
            spread(program, forest, root, component, p);
            if program.goal == Goal::Equilibrium {
                spend(program, forest, component, &demand, p);
            }
        }
    }
    if program.goal == Goal::EqualLevel {
        super::sampled::scale_prices(program, p);
    }
    for tie in &mut forest.ties {
        let (l, j) = (tie.user as usize, tie.mask.trailing_zeros() as usize);
        tie.value = match program.goal {
            Goal::EqualLevel => program.weight[l] * p[j] / program.w[l * k + j],
            Goal::Equilibrium => program.weight[l],
        };
    }
    let balance = balance_of(program, p, demand, forest);
    forest.settle(k, &balance);
    let (supply, capacity): (f64, f64) =
        (0..k).map(|j| (balance.supply[j], program.capacity[j] * p[j])).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    capacity / supply
}

/// Units per level, or money, of the users who are not tied.
fn untied_demand(program: &Program<'_>, choice: &[u8], tied: &[u32; MOST]) -> [f64; MOST] {
    let k = program.capacity.len();
    let (mut demand, mut next) = ([0.0; MOST], 0);
    for (l, (&c, &v)) in choice.iter().zip(program.weight).enumerate() {
        if next < MOST && tied[next] as usize == l {
            next += 1;
            continue;
        }
        demand[c as usize % MOST] += match program.goal {
            Goal::EqualLevel => v / program.w[l * k + c as usize],
            Goal::Equilibrium => v,
        };
    }
    demand
}

/// Sets the prices of a component from its root's.
fn spread(program: &Program<'_>, forest: &Forest, root: usize, component: Mask, p: &mut [f64; MOST]) {
    let k = program.capacity.len();
    let mut known: Mask = 1 << root;
    while known != component {
        let before = known;
        for tie in &forest.ties {
            let from = tie.mask & known;
            if from != 0 && tie.mask & !known != 0 {
                let (w, i) = (&program.w[tie.user as usize * k..][..k], from.trailing_zeros() as usize);
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
fn spend(program: &Program<'_>, forest: &Forest, component: Mask, demand: &[f64; MOST], p: &mut [f64; MOST]) {
    let money: f64 = members(component).map(|j| demand[j]).sum();
    let tied: f64 =
        forest.ties.iter().filter(|tie| tie.mask & component != 0).map(|tie| program.weight[tie.user as usize]).sum();
    let supply: f64 = members(component).map(|j| program.capacity[j] * p[j]).sum();
    let unit = (money + tied) / supply;
    if unit > 0.0 {
        members(component).for_each(|j| p[j] *= unit);
    }
}
