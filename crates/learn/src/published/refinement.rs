//! P2, the refinement: what one measured pair implies for pairs that were not measured.
//!
//! After workload i was measured beside p on kind a₁, the prediction b of (a₂, j) moves by a fraction of the innovation ρ:
//!
//! ```text
//! b ← b + γ·g∘ρ,   ρ = ln measured − predicted on (a₁, p),   g = tanh net(Ψ_i, Ψ_p, Ψ_j, a₁, a₂, predicted there and here, ρ)
//! ```
//!
//! for both roles. Several measurements are applied in sequence, each innovation relative to the prediction as moved by the earlier ones;
//! those on the same kind come last, the partner most similar to j last of all. A network that outputs the corrected prediction directly
//! is known to make predictions worse with every measurement; a bounded fraction of the innovation cannot diverge, and an
//! innovation of 0 moves nothing.
//!
//! It is trained on out-of-fold predictions of P1 ([`HeldOutCase`]) in the same folds. γ, one value for pairs on the same
//! kind and one for others, is the fraction of its adjustments that was right for workloads it was not trained on.

use super::frozen::Frozen;
use super::initial::{FOLDS, HeldOutCase, part};
use super::neighbours::{Case, Likeness, scaled};
use super::net::{Network, Shape, TrainingRows, TrainingSchedule};
use crate::features::{PSI, SPEC, distance2};
use crate::rng::Rng;
use candle_core::Result;

/// Measurements of a workload that are taken into account at most, the most most_informative ones.
const MOST_SEEN: usize = 6;
/// TrainingRows drawn at most, and for every case of the past.
const LESSONS: (usize, usize) = (6000, 2);
const WIDTH: usize = 3 * PSI + 2 * SPEC + 2 + 6;
const PLAN: TrainingSchedule = TrainingSchedule { steps: 300, batch: 256, rate: 3e-3, decay: 1.0 };
/// A surprise counts at most so much.
const MOST_CALIBRATION: f64 = 1.5;

/// A measured pair, and its prediction by P1.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredPair {
    pub(super) case: Case,
    pub(super) believed: [f64; 2],
    /// NaN where only the other role was measured.
    pub(super) measured: [f64; 2],
}

/// The second network.
pub(super) struct RefinementNetwork {
    members: Vec<Frozen>,
    /// γ on the same kind, and on another, by role.
    gamma: [[f64; 2]; 2],
}

/// How far off a belief was after one measurement on the same kind: what the standard error is made of.
pub(super) struct RefinedError {
    pub(super) kin: bool,
    pub(super) kind: usize,
    pub(super) off: f64,
}

impl RefinementNetwork {
    pub(super) fn train(
        likeness: &Likeness,
        held_out: &[HeldOutCase],
        draw: &mut Rng,
    ) -> Result<(Self, Vec<RefinedError>)> {
        let drawn = episodes(held_out, draw);
        let mut training = TrainingRows::default();
        for &(one, other) in &drawn {
            let (seen, past) = (as_measured(&held_out[one]), &held_out[other]);
            let rho = innovation(&seen);
            training.x.push(inputs(likeness, &seen, rho, past.case, past.believed));
            training.s.push(rho.map(|r| r as f32));
            training.y.push([0, 1].map(|o| (past.truth[o] - past.believed[o]) as f32));
        }
        let (mut members, mut moves) = (Vec::new(), vec![[0.0; 2]; drawn.len()]);
        for f in 0..FOLDS {
            let net = Network::new(Shape::Forward, WIDTH, true, draw)?;
            let take: Vec<usize> = (0..drawn.len()).filter(|&l| held_out[drawn[l].0].fold != f).collect();
            net.train(&training, &take, &PLAN, draw)?;
            let member = net.freeze()?;
            for l in (0..drawn.len()).filter(|&l| held_out[drawn[l].0].fold == f) {
                let said = member.say(&training.x[l]);
                moves[l] = [0, 1].map(|o| f64::from(said[o] * training.s[l][o]));
            }
            members.push(member);
        }
        let same = |l: usize| held_out[drawn[l].0].case.a == held_out[drawn[l].1].case.a;
        let wanted = |l: usize, o: usize| f64::from(training.y[l][o]);
        let gamma = [true, false].map(|kind| {
            [0, 1].map(|o| {
                part(
                    drawn
                        .iter()
                        .enumerate()
                        .filter(|&(l, _)| same(l) == kind)
                        .map(|(l, _)| (moves[l][o], wanted(l, o))),
                )
            })
        });
        let after = (0..drawn.len()).filter(|&l| same(l)).flat_map(|l| {
            let past = &held_out[drawn[l].1];
            [0, 1].map(|o| RefinedError {
                kin: past.kin,
                kind: past.case.a,
                off: wanted(l, o) - gamma[0][o] * moves[l][o],
            })
        });
        let after = after.filter(|a| a.off.is_finite()).collect();
        Ok((Self { members, gamma }, after))
    }

    /// A belief of a case after what was seen of its workload, as [`most_informative`] orders it.
    pub(super) fn refine(
        &self,
        likeness: &Likeness,
        case: Case,
        believed: [f64; 2],
        seen: &[MeasuredPair],
    ) -> [f64; 2] {
        let mut left = seen.to_vec();
        let mut belief = believed;
        while let Some(now) = left.pop() {
            let rho = innovation(&now);
            belief = self.moved(likeness, &now, rho, case, belief);
            for later in &mut left {
                later.believed = self.moved(likeness, &now, rho, later.case, later.believed);
            }
        }
        belief
    }

    fn moved(&self, likeness: &Likeness, seen: &MeasuredPair, rho: [f64; 2], case: Case, belief: [f64; 2]) -> [f64; 2] {
        let x = inputs(likeness, seen, rho, case, belief);
        let said: Vec<[f32; 2]> = self.members.iter().map(|m| m.say(&x)).collect();
        let gamma = self.gamma[usize::from(seen.case.a != case.a)];
        [0, 1].map(|o| {
            let g = said.iter().map(|s| f64::from(s[o])).sum::<f64>() / said.len().max(1) as f64;
            (belief[o] + gamma[o] * g * rho[o]).clamp(-7.0, 0.0)
        })
    }
}

/// Of the cases that were measured of a workload, the most most_informative for another of it, the most most_informative first.
pub(super) fn most_informative<T>(likeness: &Likeness, case: Case, mut seen: Vec<(Case, T)>) -> Vec<(Case, T)> {
    seen.sort_by(|(one, _), (two, _)| {
        let close = |seen: &Case| closeness(likeness, *seen, case);
        close(two).total_cmp(&close(one)).then(one.cmp(two))
    });
    seen.truncate(MOST_SEEN);
    seen
}

/// Pairs of cases (measured, asked about) of one workload with the same neighbours in sight; on the same kind half of the time.
fn episodes(held_out: &[HeldOutCase], draw: &mut Rng) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..held_out.len()).collect();
    let key = |p: usize| (held_out[p].case.i, held_out[p].kin);
    order.sort_by_key(|&p| (key(p), held_out[p].case.a, p));
    let groups: Vec<&[usize]> = order.chunk_by(|&one, &two| key(one) == key(two)).filter(|g| g.len() > 1).collect();
    let mut drawn = Vec::new();
    let training = if groups.is_empty() { 0 } else { LESSONS.0.min(LESSONS.1 * held_out.len()) };
    for l in 0..training {
        let group = groups[l % groups.len()];
        let one = group[draw.below(group.len())];
        let start = group.partition_point(|&p| held_out[p].case.a < held_out[one].case.a);
        let end = group.partition_point(|&p| held_out[p].case.a <= held_out[one].case.a);
        let among = if draw.below(2) == 0 { &group[start..end] } else { group };
        let other = among[draw.below(among.len())];
        if one != other {
            drawn.push((one, other));
        }
    }
    drawn
}

fn as_measured(past: &HeldOutCase) -> MeasuredPair {
    MeasuredPair { case: past.case, believed: past.believed, measured: past.truth }
}

/// ρ by role; 0 for what was not measured.
fn innovation(seen: &MeasuredPair) -> [f64; 2] {
    [0, 1].map(|o| {
        let rho = seen.measured[o] - seen.believed[o];
        if rho.is_finite() { rho.clamp(-MOST_CALIBRATION, MOST_CALIBRATION) } else { 0.0 }
    })
}

/// How most_informative a measured case is for another of the same workload.
fn closeness(likeness: &Likeness, one: Case, two: Case) -> f64 {
    neighbours(&likeness.psi[one.j], &likeness.psi[two.j])
        + 2.0 * neighbours(&likeness.spec[one.a], &likeness.spec[two.a])
}

fn neighbours<const N: usize>(one: &[f64; N], two: &[f64; N]) -> f64 {
    let d2: f64 = one.iter().zip(two).map(|(a, b)| (a - b) * (a - b)).sum();
    (-d2).exp()
}

fn inputs(likeness: &Likeness, seen: &MeasuredPair, rho: [f64; 2], case: Case, belief: [f64; 2]) -> Vec<f32> {
    let (psi, spec) = (&likeness.psi, &likeness.spec);
    let (from, to) = (&spec[seen.case.a], &spec[case.a]);
    let mut x = Vec::with_capacity(WIDTH);
    x.extend(psi[case.i].iter().map(|v| *v as f32));
    x.extend(psi[seen.case.j].iter().map(|v| *v as f32));
    x.extend((0..PSI).map(|d| (psi[case.j][d] - psi[seen.case.j][d]) as f32));
    x.extend(from.iter().map(|v| *v as f32));
    x.extend((0..SPEC).map(|d| (to[d] - from[d]) as f32));
    x.push((-distance2(&psi[case.j], &psi[seen.case.j])).exp() as f32);
    x.push(neighbours(from, to) as f32);
    x.extend(seen.believed.map(scaled));
    x.extend(rho.map(|r| (2.0 * r) as f32));
    x.extend(belief.map(scaled));
    x
}
