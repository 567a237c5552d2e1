//! P1, across workloads: what a workload never seen will do beside a partner, from what those most like it do.
//!
//! ```text
//! ln T̂ = base + γ·net(evidence)      for both roles: the new workload's own rate, and its partner's
//! ```
//!
//! The feed-forward network hears the nearest witness; the recurrent one hears up to four, the least alike first. `base` is what the
//! nearest says (feed-forward), or the mean of the nearest two (recurrent), so that a network with nothing to add copies.
//!
//! **Training is by masking.** Every measured cell is a case twice: once with its workload hidden and once with its whole family
//! hidden, so that the witnesses are as far as they will be in use. **Folds.** Families are dealt into three; a member is trained for
//! each on the cases that name none of its families on either side. A case is believed by the member that has not seen it (this is
//! what P2 and the standard error learn from), a new one by the mean of all. γ, one number for workloads whose family was heard and one for
//! strangers, by role, is the part of the moves that was right for cases not seen: without it the networks are further off than
//! the copy they start from (Gavel, a workload new, nothing observed: 13.6 and 14.3 % instead of 11.1 and 11.5, the copy 11.6).

use super::frozen::Frozen;
use super::net::{Lessons, Network, Plan, Shape};
use super::witness::{Case, Likeness, RunObserver, WIDTH, WITNESSES};
use crate::draw::Draw;
use crate::ground::Ground;
use candle_core::Result;

/// Members, and folds.
pub(super) const FOLDS: usize = 3;
/// Measured cells that are learned from at most; drawn by the seed where there are more.
const MOST_CELLS: usize = 4096;
/// No network moves its base further than this.
const FURTHEST: f64 = 2.0;

/// A case whose end is known, with what was believed of it by a network that had not seen it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    pub(super) case: Case,
    /// Whether a witness of its own family was heard.
    pub(super) kin: bool,
    pub(super) believed: [f64; 2],
    /// ln of the true relative rates; NaN where one is not known.
    pub(super) truth: [f64; 2],
    /// The fold of its workload.
    pub(super) fold: usize,
}

/// The first network.
pub(super) struct First {
    shape: Shape,
    members: Vec<Frozen>,
    /// γ of strangers and of those whose family was heard, by role.
    gamma: [[f64; 2]; 2],
}

impl First {
    /// Trains on everything the ground holds; also returns what it would have believed of all that.
    pub(super) fn train(
        ground: &Ground,
        likeness: &Likeness,
        shape: Shape,
        draw: &mut Draw,
        progress: &dyn Fn(f64),
    ) -> Result<(Self, Vec<Past>)> {
        let fold = folds(likeness, draw);
        let (mut pasts, mut lessons) = (Vec::new(), Lessons::default());
        for (case, hide_family) in episodes(ground, likeness, draw) {
            let hidden = |t: usize| t == case.i || hide_family && likeness.family[t] == likeness.family[case.i];
            let witnesses = likeness.witnesses(ground, case, &|t| !hidden(t));
            let Some(nearest) = witnesses.first() else { continue };
            let kin = likeness.family[nearest.k] == likeness.family[case.i];
            let base = base(shape, &witnesses);
            let truth = [ground.relative(case.i, case.j, case.a), ground.relative(case.j, case.i, case.a)];
            lessons.x.push(inputs(likeness, shape, case, &witnesses));
            lessons.s.push([1.0; 2]);
            lessons.y.push([0, 1].map(|o| (truth[o] - base[o]) as f32));
            pasts.push(Past { case, kin, believed: base, truth, fold: fold[case.i] });
        }
        let (mut members, mut moves) = (Vec::new(), vec![[0.0; 2]; pasts.len()]);
        for f in 0..FOLDS {
            progress(f as f64 / FOLDS as f64);
            let net = Network::new(shape, WIDTH, false, draw)?;
            let take: Vec<usize> =
                (0..pasts.len()).filter(|&p| pasts[p].fold != f && fold[pasts[p].case.j] != f).collect();
            net.train(&lessons, &take, &plan(shape), draw)?;
            let member = net.freeze()?;
            for p in (0..pasts.len()).filter(|&p| pasts[p].fold == f) {
                moves[p] = member.say(&lessons.x[p]).map(f64::from);
            }
            members.push(member);
        }
        let gamma = [false, true].map(|kin| {
            let cases = || (0..pasts.len()).filter(|&p| pasts[p].kin == kin);
            [0, 1].map(|o| part(cases().map(|p| (moves[p][o], f64::from(lessons.y[p][o])))))
        });
        for (past, by) in pasts.iter_mut().zip(&moves) {
            past.believed = moved(past.believed, gamma[usize::from(past.kin)], *by);
        }
        Ok((Self { shape, members, gamma }, pasts))
    }

    /// What is believed of a case, for both roles; `None` where nobody speaks for it.
    pub(super) fn believe(&self, likeness: &Likeness, case: Case, witnesses: &[RunObserver]) -> Option<[f64; 2]> {
        if witnesses.is_empty() {
            return None;
        }
        let (base, x) = (base(self.shape, witnesses), inputs(likeness, self.shape, case, witnesses));
        let said: Vec<[f32; 2]> = self.members.iter().map(|m| m.say(&x)).collect();
        let mean = |o: usize| said.iter().map(|s| f64::from(s[o])).sum::<f64>() / said.len().max(1) as f64;
        let kin = likeness.family[witnesses[0].k] == likeness.family[case.i];
        Some(moved(base, self.gamma[usize::from(kin)], [mean(0), mean(1)]))
    }
}

fn plan(shape: Shape) -> Plan {
    match shape {
        Shape::Forward => Plan { steps: 400, batch: 256, rate: 3e-3, decay: 1.0 },
        Shape::Recurrent(_) => Plan { steps: 200, batch: 256, rate: 3e-3, decay: 1.0 },
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

fn base(shape: Shape, witnesses: &[RunObserver]) -> [f64; 2] {
    let heard = match shape {
        Shape::Forward => &witnesses[..1],
        Shape::Recurrent(_) => &witnesses[..witnesses.len().min(2)],
    };
    [0, 1].map(|o| heard.iter().map(|w| w.rates[o]).sum::<f64>() / heard.len() as f64)
}

/// What a network reads of a case: its witnesses, the most alike last, and zeros before them where there are few.
fn inputs(likeness: &Likeness, shape: Shape, case: Case, witnesses: &[RunObserver]) -> Vec<f32> {
    let steps = match shape {
        Shape::Forward => 1,
        Shape::Recurrent(steps) => steps,
    };
    let heard = &witnesses[..witnesses.len().min(steps)];
    let mut x = vec![0.0; (steps - heard.len()) * WIDTH];
    for witness in heard.iter().rev() {
        x.extend(likeness.read(case, witness));
    }
    x
}

/// The recurrent shape for as many witnesses as are heard.
pub(super) const RECURRENT: Shape = Shape::Recurrent(WITNESSES);

/// Every measured cell, with its workload hidden (false) and with its family hidden (true).
fn episodes(ground: &Ground, likeness: &Likeness, draw: &mut Draw) -> Vec<(Case, bool)> {
    let n = ground.things().len();
    let described = |t: usize| ground.things()[t].psi.is_some();
    let mut cells = Vec::new();
    for a in 0..ground.kinds().len() {
        for i in (0..n).filter(|&i| described(i) && ground.met(i) > 0) {
            for j in (0..n).filter(|&j| described(j) && ground.relative(i, j, a).is_finite()) {
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
        let relatives = (0..n).any(|t| t != case.i && ground.met(t) > 0 && family[t] == family[case.i]);
        [Some((*case, false)), (apart && relatives).then_some((*case, true))]
    };
    cells.iter().flat_map(of).flatten().collect()
}

/// The fold of every workload: by family, or by workload where there are fewer families than folds.
fn folds(likeness: &Likeness, draw: &mut Draw) -> Vec<usize> {
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
