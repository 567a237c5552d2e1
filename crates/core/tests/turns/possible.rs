//! The largest part of what everybody is owed that whole gangs on whole GPUs can get in the long run.
//!
//! A *packing* p says how many gangs of each class run on each kind in one round: whole gangs, no kind over its GPUs, no class
//! over its jobs. What can be had in the long run is a mixture of packings. With ρ_g(p) the part of goal g that p attains, the
//! best that can be done for the goal that fares worst is
//!
//! ```text
//! λ* = max over mixtures w   min over goals g   Σ_p w_p ρ_g(p)   =   min over weights y, Σ y = 1   max over p   Σ_g y_g ρ_g(p)
//! ```
//!
//! The right-hand side is solved with packings on demand: the weights that are worst for the packings found so far, then the best
//! packing for these weights, by dynamic programming over GPUs in use. The program's duals are a mixture. Both bounds are
//! computed from the weights and the mixture themselves, so they hold however well the program was solved.
//!
//! Nothing here knows the placer. Turns, restarts and nodes can only make less possible.

use arles_lp::{Budget, Clarabel, Model, Solver};

/// A class of alike jobs.
pub(crate) struct Class {
    pub(crate) gang: u32,
    pub(crate) jobs: u32,
}

/// Something that a class is owed.
pub(crate) struct Goal {
    /// Index of the class.
    pub(crate) class: usize,
    /// The part of the goal that one gang attains while it runs on each kind.
    pub(crate) per_gang: Vec<f64>,
}

/// Bounds on λ*.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Possible {
    /// Attained by a mixture of packings.
    pub(crate) lower: f64,
    /// No mixture does better.
    pub(crate) upper: f64,
}

/// Distance between the bounds at which the search ends.
const GAP: f64 = 1e-3;

/// λ* of `goals` of `classes` on `counts` GPUs of each kind.
pub(crate) fn possible(counts: &[u32], classes: &[Class], goals: &[Goal]) -> Possible {
    let mut weights = vec![1.0 / goals.len() as f64; goals.len()];
    let mut packings: Vec<Vec<f64>> = Vec::new();
    let mut found = Possible { lower: 0.0, upper: f64::INFINITY };
    for _ in 0..400 {
        let (value, packing) = best_packing(counts, classes, goals, &weights);
        found.upper = found.upper.min(value);
        if found.upper - found.lower <= GAP || packings.contains(&packing) {
            break;
        }
        packings.push(packing);
        let lower;
        (lower, weights) = worst_weights(&packings, goals.len());
        found.lower = found.lower.max(lower);
    }
    found
}

/// What the best mixture of the packings at hand attains of every goal, and the weights for which they do worst.
fn worst_weights(packings: &[Vec<f64>], goals: usize) -> (f64, Vec<f64>) {
    let mut model = Model::minimise();
    let most = model.add_column(f64::NEG_INFINITY, f64::INFINITY, 1.0).expect("finite");
    let weights: Vec<_> = (0..goals).map(|_| model.add_column(0.0, 1.0, 0.0).expect("finite")).collect();
    let all: Vec<_> = weights.iter().map(|&y| (y, 1.0)).collect();
    model.add_row(1.0, 1.0, &all).expect("finite");
    for packing in packings {
        let mut row: Vec<_> = weights.iter().zip(packing).map(|(&y, &part)| (y, -part)).collect();
        row.push((most, 1.0));
        model.add_row(0.0, f64::INFINITY, &row).expect("finite");
    }
    let outcome = Clarabel.solve(&model, Budget::default());
    let mixture = normalised(outcome.row_duals[1..].iter().map(|w| w.abs()));
    let attained = |goal: usize| packings.iter().zip(&mixture).map(|(packing, w)| w * packing[goal]).sum::<f64>();
    let least = (0..goals).map(attained).fold(f64::INFINITY, f64::min);
    (least, normalised(weights.iter().map(|y| outcome.x[y.index()].max(0.0))))
}

/// The same weights with sum 1.
fn normalised(weights: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let sum: f64 = weights.clone().sum();
    weights.map(|w| w / sum).collect()
}

/// The packing with the largest weighted sum of goals: that sum, and the part of each goal that it attains.
fn best_packing(counts: &[u32], classes: &[Class], goals: &[Goal], weights: &[f64]) -> (f64, Vec<f64>) {
    let kinds = counts.len();
    let mut gain = vec![0.0; classes.len() * kinds];
    for (goal, weight) in goals.iter().zip(weights) {
        goal.per_gang.iter().enumerate().for_each(|(j, part)| gain[goal.class * kinds + j] += weight * part);
    }
    // A state is the number of GPUs in use of each kind, in mixed radix.
    let strides: Vec<usize> =
        counts.iter().scan(1, |next, &n| Some(std::mem::replace(next, *next * (n as usize + 1)))).collect();
    let states: usize = counts.iter().map(|&n| n as usize + 1).product();
    let used = |state: usize, kind: usize| state / strides[kind] % (counts[kind] as usize + 1);
    let jobs: Vec<usize> = classes.iter().enumerate().flat_map(|(c, class)| vec![c; class.jobs as usize]).collect();
    let mut best = vec![0.0f64; states];
    let mut choice = vec![None; jobs.len() * states];
    for (i, &c) in jobs.iter().enumerate() {
        let gang = classes[c].gang as usize;
        // From full to empty, so that what is read is still without this job.
        for state in (0..states).rev() {
            for kind in (0..kinds).filter(|&kind| used(state, kind) >= gang) {
                let with = best[state - gang * strides[kind]] + gain[c * kinds + kind];
                if with > best[state] {
                    best[state] = with;
                    choice[i * states + state] = Some(kind);
                }
            }
        }
    }
    let (mut packing, mut state) = (vec![0.0; goals.len()], states - 1);
    for (i, &c) in jobs.iter().enumerate().rev() {
        if let Some(kind) = choice[i * states + state] {
            let of_class = goals.iter().zip(&mut packing).filter(|(goal, _)| goal.class == c);
            of_class.for_each(|(goal, part)| *part += goal.per_gang[kind]);
            state -= classes[c].gang as usize * strides[kind];
        }
    }
    (best[states - 1], packing)
}
