//! P1, the initial estimate: the rates of a new workload beside a partner, predicted from those of its nearest neighbours.
//!
//! ```text
//! ln T̂ = base + γ·net(evidence)      for both roles: the new workload's own rate, and its partner's
//! ```
//!
//! The feed-forward network reads the nearest neighbour; the recurrent one reads up to four, the least similar first. `base` is the
//! nearest neighbour's rate (feed-forward) or the mean of the nearest two (recurrent), so that an untrained network copies.
//!
//! **Training is by masking.** Every measured cell is a training case twice: once with its workload hidden and once with its whole family
//! hidden, so that the neighbours are as far away as they will be in use. **Folds.** Families are split into three folds; one ensemble member is
//! trained per fold on the cases that name none of its families on either side. A training case is predicted by the member that did not see it
//! (P2 and the standard errors are trained on these predictions), a new case by the mean of all members. γ, one value per role for workloads
//! whose family is known and one for others, is the fraction of the out-of-fold adjustments that was right: without it the networks are worse than
//! the copy they start from (Gavel, new workload, no observations: 13.6 and 14.3 % instead of 11.1 and 11.5, the copy 11.6).

use super::frozen::Frozen;
use super::neighbours::{Case, Likeness, NEIGHBOURS, Neighbour, WIDTH};
use super::net::{Network, Shape, TrainingRows, TrainingSchedule};
use crate::evidence::Evidence;
use crate::rng::Rng;
use candle_core::Result;

/// Members, and folds.
pub(super) const FOLDS: usize = 3;
/// Measured cells that are learned from at most; drawn by the seed where there are more.
const MOST_CELLS: usize = 4096;
/// No network moves its base further than this.
const FURTHEST: f64 = 2.0;

/// A case with known rates, and its out-of-fold prediction.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldOutCase {
    pub(super) case: Case,
    /// Whether a neighbour is of its own family.
    pub(super) kin: bool,
    pub(super) believed: [f64; 2],
    /// ln of the true relative rates; NaN where one is not known.
    pub(super) truth: [f64; 2],
    /// The fold of its workload.
    pub(super) fold: usize,
}

/// The first network.
pub(super) struct InitialNetwork {
    shape: Shape,
    members: Vec<Frozen>,
    /// γ without and with a known family, by role.
    gamma: [[f64; 2]; 2],
}

impl InitialNetwork {
    /// Trains on everything the evidence holds; also returns its out-of-fold predictions.
    pub(super) fn train(
        evidence: &Evidence,
        likeness: &Likeness,
        shape: Shape,
        draw: &mut Rng,
        progress: &dyn Fn(f64),
    ) -> Result<(Self, Vec<HeldOutCase>)> {
        let fold = folds(likeness, draw);
        let (mut held_out, mut training) = (Vec::new(), TrainingRows::default());
        for (case, hide_family) in episodes(evidence, likeness, draw) {
            let hidden = |t: usize| t == case.i || hide_family && likeness.family[t] == likeness.family[case.i];
            let neighbours = likeness.neighbours(evidence, case, &|t| !hidden(t));
            let Some(nearest) = neighbours.first() else { continue };
            let kin = likeness.family[nearest.k] == likeness.family[case.i];
            let base = base(shape, &neighbours);
            let truth = [evidence.relative(case.i, case.j, case.a), evidence.relative(case.j, case.i, case.a)];
            training.x.push(inputs(likeness, shape, case, &neighbours));
            training.s.push([1.0; 2]);
            training.y.push([0, 1].map(|o| (truth[o] - base[o]) as f32));
            held_out.push(HeldOutCase { case, kin, believed: base, truth, fold: fold[case.i] });
        }
        let (mut members, mut moves) = (Vec::new(), vec![[0.0; 2]; held_out.len()]);
        for f in 0..FOLDS {
            progress(f as f64 / FOLDS as f64);
            let net = Network::new(shape, WIDTH, false, draw)?;
            let take: Vec<usize> =
                (0..held_out.len()).filter(|&p| held_out[p].fold != f && fold[held_out[p].case.j] != f).collect();
            net.train(&training, &take, &plan(shape), draw)?;
            let member = net.freeze()?;
            for p in (0..held_out.len()).filter(|&p| held_out[p].fold == f) {
                moves[p] = member.say(&training.x[p]).map(f64::from);
            }
            members.push(member);
        }
        let gamma = [false, true].map(|kin| {
            let cases = || (0..held_out.len()).filter(|&p| held_out[p].kin == kin);
            [0, 1].map(|o| part(cases().map(|p| (moves[p][o], f64::from(training.y[p][o])))))
        });
        for (past, by) in held_out.iter_mut().zip(&moves) {
            past.believed = moved(past.believed, gamma[usize::from(past.kin)], *by);
        }
        Ok((Self { shape, members, gamma }, held_out))
    }

    /// The prediction for a case, both roles; `None` without neighbours.
    pub(super) fn believe(&self, likeness: &Likeness, case: Case, neighbours: &[Neighbour]) -> Option<[f64; 2]> {
        if neighbours.is_empty() {
            return None;
        }
        let (base, x) = (base(self.shape, neighbours), inputs(likeness, self.shape, case, neighbours));
        let said: Vec<[f32; 2]> = self.members.iter().map(|m| m.say(&x)).collect();
        let mean = |o: usize| said.iter().map(|s| f64::from(s[o])).sum::<f64>() / said.len().max(1) as f64;
        let kin = likeness.family[neighbours[0].k] == likeness.family[case.i];
        Some(moved(base, self.gamma[usize::from(kin)], [mean(0), mean(1)]))
    }
}

fn plan(shape: Shape) -> TrainingSchedule {
    match shape {
        Shape::Forward => TrainingSchedule { steps: 400, batch: 256, rate: 3e-3, decay: 1.0 },
        Shape::Recurrent(_) => TrainingSchedule { steps: 200, batch: 256, rate: 3e-3, decay: 1.0 },
    }
}

/// A relative rate is at most 1, whatever a network says.
fn moved(base: [f64; 2], gamma: [f64; 2], by: [f64; 2]) -> [f64; 2] {
    [0, 1].map(|o| (base[o] + gamma[o] * by[o].clamp(-FURTHEST, FURTHEST)).clamp(-7.0, 0.0))
}

/// The part, 0 to 1, of the moves m that comes nearest to what was wanted y: least squares with the far ends clipped.
pub(super) fn part(moves: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut my, mut mm) = (0.0, 0.0);
    for (m, y) in moves.filter(|(m, y)| m.is_finite() && y.is_finite()) {
        my += m * y.clamp(-0.6, 0.6);
        mm += m * m;
    }
    if mm > 0.0 { (my / mm).clamp(0.0, 1.0) } else { 0.0 }
}

fn base(shape: Shape, neighbours: &[Neighbour]) -> [f64; 2] {
    let observed = match shape {
        Shape::Forward => &neighbours[..1],
        Shape::Recurrent(_) => &neighbours[..neighbours.len().min(2)],
    };
    [0, 1].map(|o| observed.iter().map(|w| w.rates[o]).sum::<f64>() / observed.len() as f64)
}

/// What a network reads of a case: its neighbours, the most alike last, and zeros before them where there are few.
fn inputs(likeness: &Likeness, shape: Shape, case: Case, neighbours: &[Neighbour]) -> Vec<f32> {
    let steps = match shape {
        Shape::Forward => 1,
        Shape::Recurrent(steps) => steps,
    };
    let observed = &neighbours[..neighbours.len().min(steps)];
    let mut x = vec![0.0; (steps - observed.len()) * WIDTH];
    for neighbour in observed.iter().rev() {
        x.extend(likeness.read(case, neighbour));
    }
    x
}

/// The recurrent shape for the largest number of neighbours.
pub(super) const RECURRENT: Shape = Shape::Recurrent(NEIGHBOURS);

/// Every measured cell, with its workload hidden (false) and with its family hidden (true).
fn episodes(evidence: &Evidence, likeness: &Likeness, draw: &mut Rng) -> Vec<(Case, bool)> {
    let n = evidence.workloads().len();
    let described = |t: usize| evidence.workloads()[t].psi.is_some();
    let mut cells = Vec::new();
    for a in 0..evidence.kinds().len() {
        for i in (0..n).filter(|&i| described(i) && evidence.measured_pairs(i) > 0) {
            for j in (0..n).filter(|&j| described(j) && evidence.relative(i, j, a).is_finite()) {
                cells.push(Case { i, j, a });
            }
        }
    }
    if cells.len() > MOST_CELLS {
        draw.shuffle(&mut cells);
        cells.truncate(MOST_CELLS);
        cells.sort_unstable();
    }
    let family = &likeness.family;
    let of = |case: &Case| {
        // A family hidden has no members left to be a partner, and hiding a family of one is hiding a workload.
        let apart = family[case.i] != family[case.j];
        let relatives = (0..n).any(|t| t != case.i && evidence.measured_pairs(t) > 0 && family[t] == family[case.i]);
        [Some((*case, false)), (apart && relatives).then_some((*case, true))]
    };
    cells.iter().flat_map(of).flatten().collect()
}

/// The fold of every workload: by family, or by workload where there are fewer families than folds.
fn folds(likeness: &Likeness, draw: &mut Rng) -> Vec<usize> {
    let families = likeness.family.iter().max().map_or(0, |&f| f + 1);
    let groups: Vec<usize> =
        if families >= FOLDS { likeness.family.clone() } else { (0..likeness.family.len()).collect() };
    let mut order: Vec<usize> = (0..groups.iter().max().map_or(0, |&g| g + 1)).collect();
    draw.shuffle(&mut order);
    // The largest group goes to the emptiest fold.
    let size = |g: usize| groups.iter().filter(|&&of| of == g).count();
    order.sort_by_key(|&g| std::cmp::Reverse(size(g)));
    let (mut filled, mut fold) = ([0; FOLDS], vec![0; order.len()]);
    for g in order {
        let f = (0..FOLDS).min_by_key(|&f| filled[f]).unwrap_or(0);
        filled[f] += size(g);
        fold[g] = f;
    }
    groups.iter().map(|&g| fold[g]).collect()
}
