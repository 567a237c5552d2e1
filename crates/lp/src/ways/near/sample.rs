//! First prices: those of a division of some of the users in which nobody has more than its floor (`near/level.rs`).
//!
//! They are picked as if by lot, and have what they have in the fair division. Their prices are not those of all, but near enough to begin with.

use super::level::Leveling;
use super::own::Own;
use super::proof::Envy;
use super::{Nearly, Ways};
use crate::ways::thrift;

/// Users in the sample; of fewer than so many times that all are asked from the beginning.
const SIZE: usize = 200;
const TIMES: usize = 2;
/// The gap that will do: it is only a start; and turns at most.
const GAP: f64 = 2e-3;
const TURNS: u32 = 40;

/// Prices to begin with.
pub(super) fn prices(envy: &Envy<'_>, asked: &Nearly<'_>) -> Vec<f64> {
    let (problem, k) = (envy.problem, envy.problem.capacity.len());
    let (n, ways) = (problem.users(), problem.ways());
    let none = vec![0.0; k];
    if n < TIMES * SIZE {
        return none;
    }
    let mut of: Vec<usize> = (0..n).collect();
    // As if by lot: users may come in some order.
    of.sort_by_key(|l| ((l + 1).wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF, *l));
    of.truncate(SIZE);
    let rows = |all: &[f64], each: usize| -> Vec<f64> {
        of.iter().flat_map(|&l| all[l * each..][..each].iter().copied()).collect()
    };
    let (w, draw, best) = (rows(problem.w, ways), rows(problem.draw, ways), rows(envy.best, k));
    let (weight, floors, units) = (rows(problem.weight, 1), rows(asked.floors, 1), rows(asked.units, k));
    let mut capacity = none.clone();
    units.iter().enumerate().for_each(|(at, x)| capacity[at % k] += x);
    let caps = vec![f64::INFINITY; of.len()];
    let few =
        Ways { w: &w, draw: &draw, resource: problem.resource, weight: &weight, caps: &caps, capacity: &capacity };
    let own = |l: usize| thrift(&few, l, &units[l * k..][..k], floors[l]);
    let known: Vec<f64> = (0..of.len()).flat_map(own).collect();
    let mut own = Own::new(&few, &floors, asked.part, &best);
    Leveling::new(&mut own, &floors, &known, &none, Vec::new()).solve(GAP, TURNS).prices
}
