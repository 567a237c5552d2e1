//! Thrift within one's own units: the least draw with which a user still reaches its floor, having the units it was given.
//!
//! Per resource the best use of some draw is the concave hull of `(0, 0)` and the points `(p_a, w_a)`; over all resources the edges of all hulls,
//! steepest first, until the floor is reached. Exact, and no solver: `O(A log A)` for a user with `A` ways.
//!
//! Whoever saves this way takes nothing from anybody. If a division of units leaves nobody envious and everybody gives up the same part ε
//! of its utility at most, then nobody gains more than `ε/(1−ε)` by taking another's place: the other's units have become fewer, if anything.

use super::Ways;

/// An edge of a hull: while it is taken, a unit of its resource passes from the way `from` (or from rest) to the way `to`.
#[derive(Clone, Copy)]
struct Edge {
    rate: f64,
    draw: f64,
    from: Option<usize>,
    to: usize,
    units: f64,
}

/// A way: its number, resource, rate and draw.
type Way = (usize, usize, f64, f64);

/// The use of `units` (by resource) with which user `l` reaches `floor` at least draw, by way; all that the units give if that is less.
#[must_use]
pub fn thrift(problem: &Ways<'_>, l: usize, units: &[f64], floor: f64) -> Vec<f64> {
    let mut edges = edges(problem, l, units);
    // Steeper first; edges of one hull are in order already, so ties keep theirs.
    edges.sort_by(|a, b| (b.rate * a.draw).total_cmp(&(a.rate * b.draw)));
    let (mut use_of, mut reached) = (vec![0.0; problem.ways()], 0.0);
    for Edge { rate, units, from, to, .. } in edges {
        if reached >= floor {
            break;
        }
        let taken = units * ((floor - reached) / (rate * units)).min(1.0);
        reached += rate * taken;
        use_of[to] += taken;
        if let Some(from) = from {
            use_of[from] = f64::max(use_of[from] - taken, 0.0);
        }
    }
    use_of
}

/// The edges of all hulls, resource by resource.
fn edges(problem: &Ways<'_>, l: usize, units: &[f64]) -> Vec<Edge> {
    // Most users hold one or two of many resources: all others' ways are looked at once only.
    let ways: Vec<Way> = problem.useful(l).filter(|&(_, j, ..)| units[j] > 0.0).collect();
    let mut edges = Vec::with_capacity(ways.len());
    for (j, &units) in units.iter().enumerate().filter(|(_, units)| **units > 0.0) {
        hull(&ways, j, units, &mut edges);
    }
    edges
}

/// The hull of one resource, from the origin to its fastest way.
fn hull(ways: &[Way], j: usize, units: f64, edges: &mut Vec<Edge>) {
    let ways = ways.iter().filter(|way| way.1 == j);
    let (mut at_rate, mut at_draw, mut from) = (0.0, 0.0, None);
    loop {
        let steeper = |a: &(usize, f64, f64), b: &(usize, f64, f64)| {
            // (rate, draw) gained from here; where nothing is drawn the one that gains most is steepest.
            (a.1 * b.2).total_cmp(&(b.1 * a.2)).then(a.1.total_cmp(&b.1))
        };
        let gains = ways.clone().map(|&(a, _, w, p)| (a, w - at_rate, f64::max(p - at_draw, 0.0)));
        let Some((to, rate, draw)) = gains.filter(|gain| gain.1 > 0.0).max_by(steeper) else { return };
        edges.push(Edge { rate, draw, from, to, units });
        (at_rate, at_draw, from) = (at_rate + rate, at_draw + draw, Some(to));
    }
}

/// What user `l` gets of `units` by using only what is steepest of all: most utility for its draw. Less than this could be had with less draw, but only in
/// proportion: whoever has so much to do takes as much longer.
#[must_use]
pub fn most_efficient(problem: &Ways<'_>, l: usize, units: &[f64]) -> f64 {
    let edges = edges(problem, l, units);
    let steeper = |a: &&Edge, b: &&Edge| (a.rate * b.draw).total_cmp(&(b.rate * a.draw));
    let Some(steepest) = edges.iter().max_by(steeper).copied() else { return 0.0 };
    let as_steep = |edge: &&Edge| edge.rate * steepest.draw >= steepest.rate * edge.draw * (1.0 - 1e-9);
    edges.iter().filter(as_steep).map(|edge| edge.rate * edge.units).sum()
}
