//! Cuts that describe the convex envelope of the cost of patterns.
//!
//! Class `a` receives slots whose parts are `p_s`, `x_s` of them per demand. If its demands hold whole patterns, `y_P` of
//! each, what they lack costs per demand at least
//!
//! ```text
//! H(x) = min Σ_P y_P h(P)    Σ_P y_P = 1,   Σ_P y_P (times s is in P) ≤ x_s,   y ≥ 0
//!      = max σ − Σ_s w_s x_s     σ − Σ_{s∈P} w_s ≤ h(P) for all P,   w ≥ 0
//! ```
//!
//! The second program is small (a few parts, and patterns only as they are needed); its solution is the cut
//! `H(x) ≥ σ − Σ w_s x_s` that says most at `x`. A part that is not among the `p_s` may count as the next larger one: it
//! covers less, so what holds for the larger one holds for it. Slots beyond need are not counted here; that a demand has
//! room for `D` only is a row of its own.

use super::Cover;
use crate::Status;
use crate::simplex::Simplex;

/// A function of parts in steps: up to and including the first end the first value, and so on; beyond the last end the
/// last value.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Steps {
    /// Ascending.
    pub(super) ends: Vec<f64>,
    /// One for each end.
    pub(super) values: Vec<f64>,
}

impl Steps {
    /// The value at a part; 0 without steps.
    pub(super) fn at(&self, part: f64) -> f64 {
        let step = self.ends.partition_point(|&end| end < part).min(self.ends.len().saturating_sub(1));
        self.values.get(step).copied().unwrap_or(0.0)
    }
}

/// `H(x) ≥ right − Σ w(p) x`, per demand of the class.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Cut {
    pub(super) class: usize,
    /// In proportion to the part...
    pub(super) slope: f64,
    /// ...and in steps.
    pub(super) steps: Steps,
    pub(super) right: f64,
}

impl Cut {
    /// w at a part.
    pub(super) fn at(&self, part: f64) -> f64 {
        self.slope * part + self.steps.at(part)
    }
}

/// Parts in one cut; those used least give way.
const MOST_PARTS: usize = 20;
/// A little of each part, so that what is not used is not worth more than it must be.
const TRACE: f64 = 1e-4;
/// How far a pattern may be below σ, in units of the largest cost.
const SLACK: f64 = 1e-9;
/// Patterns in one program.
const MOST_PATTERNS: usize = 600;

/// The cuts that hold for every class: what is short is not covered, and who is unserved has no slot.
pub(super) fn first(cover: &Cover, class: usize) -> Vec<Cut> {
    let (short, unserved) = (cover.classes[class].short_price, cover.classes[class].unserved_price);
    let cut = |more: f64| {
        let steps = Steps { ends: vec![1.0], values: vec![more] };
        Cut { class, slope: short, steps, right: short + more }
    };
    [0.0, unserved]
        .into_iter()
        .enumerate()
        .filter(|&(i, more)| (i == 0 || more > 0.0) && short + more > 0.0)
        .map(|(_, more)| cut(more))
        .collect()
}

/// The cut that says most where a class uses `parts` (ascending, with the amount per demand), and by how much what it
/// says there is above `known`.
pub(super) fn separate(cover: &Cover, class: usize, parts: &[(f64, f64)], known: f64) -> Option<(Cut, f64)> {
    let parts = few(parts);
    let envelope = Envelope::at(cover, class, &parts)?;
    let n = parts.len();
    let v = envelope.program.values();
    let mut values: Vec<f64> = v[..n].iter().map(|w| w.max(0.0) * envelope.unit).collect();
    // Or as the cheapest of the larger ones.
    for s in (0..n - 1).rev() {
        values[s] = values[s].min(values[s + 1]);
    }
    let right = (v[n] - SLACK) * envelope.unit;
    let said = right - parts.iter().zip(&values).map(|(part, w)| part.1 * w).sum::<f64>();
    let ends = parts.iter().map(|part| part.0).collect();
    Some((Cut { class, slope: 0.0, steps: Steps { ends, values }, right }, said - known))
}

/// The patterns that attain the envelope: positions in `parts`, and what part of the demands hold these.
pub(super) fn patterns(cover: &Cover, class: usize, parts: &[(f64, f64)]) -> Vec<(Vec<u32>, f64)> {
    let Some(envelope) = Envelope::at(cover, class, parts) else { return Vec::new() };
    let Envelope { program, patterns, unit: _ } = envelope;
    let rows = patterns.into_iter().enumerate();
    rows.map(|(row, pattern)| (pattern, program.dual(row + 1))).filter(|(_, y)| *y > 1e-9).collect()
}

/// The second program of the module, solved.
struct Envelope {
    program: Simplex,
    /// Of each row but the first, which is the empty pattern's.
    patterns: Vec<Vec<u32>>,
    /// What costs are divided by.
    unit: f64,
}

impl Envelope {
    fn at(cover: &Cover, class: usize, parts: &[(f64, f64)]) -> Option<Self> {
        let unit = cover.shortage(class, 0.0, 0);
        if unit <= 0.0 || parts.is_empty() {
            return None;
        }
        let n = parts.len();
        let mut costs: Vec<f64> = parts.iter().map(|&(_, x)| -(x + TRACE)).collect();
        costs.push(1.0);
        let mut program = Simplex::new(&costs);
        program.add_row(&[(n as u32, 1.0)], 1.0);
        let mut patterns = Vec::new();
        while patterns.len() < MOST_PATTERNS {
            if program.solve(20_000) != Status::Optimal {
                return None;
            }
            let v = program.values();
            let points: Vec<(f64, f64)> = parts.iter().zip(v).map(|(&(part, _), &w)| (w.max(0.0), part)).collect();
            let Some((pattern, cost)) = broken(cover, class, &points, v[n] - SLACK, unit) else {
                return Some(Self { program, patterns, unit });
            };
            let mut terms: Vec<(u32, f64)> = vec![(n as u32, 1.0)];
            for &s in &pattern {
                match terms.iter_mut().find(|term| term.0 == s) {
                    Some(term) => term.1 -= 1.0,
                    None => terms.push((s, -1.0)),
                }
            }
            program.add_row(&terms, cost / unit);
            patterns.push(pattern);
        }
        None
    }
}

/// Parts that count as the next larger one that remains, until they are few.
fn few(parts: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut amounts: Vec<f64> = parts.iter().map(|part| part.1).collect();
    amounts.sort_unstable_by(|x, y| y.total_cmp(x));
    let least = amounts.get(MOST_PARTS).copied().unwrap_or(-1.0);
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let mut waiting = 0.0;
    for (at, &(part, x)) in parts.iter().enumerate() {
        waiting += x;
        if x > least || at + 1 == parts.len() {
            kept.push((part, waiting));
            waiting = 0.0;
        }
    }
    kept
}

/// A pattern in the making: its price, its sum, the pattern it was made from, and the last slot.
type Node = (f64, f64, u32, u32);

/// The pattern with the least `Σ w + h`, if that is below `limit`, and its `h`. Prices are in units of `unit`.
fn broken(cover: &Cover, class: usize, points: &[(f64, f64)], limit: f64, unit: f64) -> Option<(Vec<u32>, f64)> {
    let mut best = limit;
    let mut found: Option<(u32, f64)> = None;
    let mut all: Vec<Node> = vec![(0.0, 0.0, 0, 0)];
    let mut layer = 0..1;
    for slots in 1..=cover.classes[class].most as usize {
        let mut next: Vec<Node> = Vec::new();
        for parent in layer {
            let (price, sum, ..) = all[parent];
            for (s, &(w, part)) in points.iter().enumerate() {
                if price + w < best {
                    next.push((price + w, f64::min(sum + part, 1.0), parent as u32, s as u32));
                }
            }
        }
        next.sort_unstable_by(|x, y| y.1.total_cmp(&x.1).then(x.0.total_cmp(&y.0)));
        let mut cheapest = f64::INFINITY;
        next.retain(|node| {
            let better = node.0 < cheapest;
            cheapest = cheapest.min(node.0);
            better
        });
        let start = all.len();
        for node in next {
            let cost = cover.shortage(class, node.1, slots);
            if node.0 + cost / unit < best {
                best = node.0 + cost / unit;
                found = Some((all.len() as u32, cost));
            }
            all.push(node);
        }
        layer = start..all.len();
        if layer.is_empty() {
            break;
        }
    }
    let (mut at, cost) = found?;
    let mut pattern = Vec::new();
    while at != 0 {
        let (_, _, parent, s) = all[at as usize];
        pattern.push(s);
        at = parent;
    }
    Some((pattern, cost))
}
