//! P2, across partners and kinds: what one measured pair says of the pairs that were not measured.
//!
//! After workload i was measured beside p on kind a₁, the belief b of (a₂, j) moves by a part of the surprise ρ:
//!
//! ```text
//! b ← b + γ·g∘ρ,   ρ = ln measured − believed on (a₁, p),   g = tanh net(Ψ_i, Ψ_p, Ψ_j, a₁, a₂, believed there and here, ρ)
//! ```
//!
//! for both roles. Several measurements are taken in one after the other, each surprise reckoned from what the ones before left of it:
//! those on the same kind last, the partner most like j last of all. A network that says the corrected belief outright
//! was tried by others and made beliefs worse with every measurement; a bounded part of the surprise cannot run away, and no
//! surprise moves nothing.
//!
//! It learns from beliefs of networks that had not seen the case ([`Past`]), in the same folds, and γ, one number for pairs on the same
//! kind and one for others, is the part of its moves that would have been right for workloads *it* had not seen.

use super::first::{FOLDS, Past, part};
use super::frozen::Frozen;
use super::net::{Lessons, Network, Plan, Shape};
use super::witness::{Case, Likeness, scaled};
use crate::draw::Draw;
use crate::features::{PSI, SPEC, distance2};
use candle_core::Result;

/// Measurements of a workload that are taken into account at most, the most telling ones.
const MOST_SEEN: usize = 6;
/// Lessons drawn at most, and for every case of the past.
const LESSONS: (usize, usize) = (6000, 2);
const WIDTH: usize = 3 * PSI + 2 * SPEC + 2 + 6;
const PLAN: Plan = Plan { steps: 300, batch: 256, rate: 3e-3, decay: 1.0 };
/// A surprise counts at most so much.
const MOST_SURPRISE: f64 = 1.5;

/// A measured pair, and what P1 believed of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) case: Case,
    pub(super) believed: [f64; 2],
    /// NaN where only the other role was measured.
    pub(super) measured: [f64; 2],
}

/// The second network.
pub(super) struct Second {
    members: Vec<Frozen>,
    /// γ on the same kind, and on another, by role.
    gamma: [[f64; 2]; 2],
}

/// How far off a belief was after one measurement on the same kind: what the standard error is made of.
pub(super) struct After {
    pub(super) kin: bool,
    pub(super) kind: usize,
    pub(super) off: f64,
}

impl Second {
    pub(super) fn train(likeness: &Likeness, pasts: &[Past], draw: &mut Draw) -> Result<(Self, Vec<After>)> {
        let drawn = episodes(pasts, draw);
        let mut lessons = Lessons::default();
        for &(one, other) in &drawn {
            let (seen, past) = (as_seen(&pasts[one]), &pasts[other]);
            let rho = surprise(&seen);
            lessons.x.push(inputs(likeness, &seen, rho, past.case, past.believed));
            lessons.s.push(rho.map(|r| r as f32));
            lessons.y.push([0, 1].map(|o| (past.truth[o] - past.believed[o]) as f32));
        }
        let (mut members, mut moves) = (Vec::new(), vec![[0.0; 2]; drawn.len()]);
        for f in 0..FOLDS {
            let net = Network::new(Shape::Forward, WIDTH, true, draw)?;
            let take: Vec<usize> = (0..drawn.len()).filter(|&l| pasts[drawn[l].0].fold != f).collect();
            net.train(&lessons, &take, &PLAN, draw)?;
            let member = net.freeze()?;
            for l in (0..drawn.len()).filter(|&l| pasts[drawn[l].0].fold == f) {
                let said = member.say(&lessons.x[l]);
                moves[l] = [0, 1].map(|o| f64::from(said[o] * lessons.s[l][o]));
            }
            members.push(member);
        }
        let same = |l: usize| pasts[drawn[l].0].case.a == pasts[drawn[l].1].case.a;
        let wanted = |l: usize, o: usize| f64::from(lessons.y[l][o]);
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
            let past = &pasts[drawn[l].1];
            [0, 1].map(|o| After { kin: past.kin, kind: past.case.a, off: wanted(l, o) - gamma[0][o] * moves[l][o] })
        });
        let after = after.filter(|a| a.off.is_finite()).collect();
        Ok((Self { members, gamma }, after))
    }

    /// A belief of a case after what was seen of its workload, as [`telling`] orders it.
    pub(super) fn refine(&self, likeness: &Likeness, case: Case, believed: [f64; 2], seen: &[Seen]) -> [f64; 2] {
        let mut left = seen.to_vec();
        let mut belief = believed;
        while let Some(now) = left.pop() {
            let rho = surprise(&now);
            belief = self.moved(likeness, &now, rho, case, belief);
            for later in &mut left {
                later.believed = self.moved(likeness, &now, rho, later.case, later.believed);
            }
        }
        belief
    }

    fn moved(&self, likeness: &Likeness, seen: &Seen, rho: [f64; 2], case: Case, belief: [f64; 2]) -> [f64; 2] {
        let x = inputs(likeness, seen, rho, case, belief);
        let said: Vec<[f32; 2]> = self.members.iter().map(|m| m.say(&x)).collect();
        let gamma = self.gamma[usize::from(seen.case.a != case.a)];
        [0, 1].map(|o| {
            let g = said.iter().map(|s| f64::from(s[o])).sum::<f64>() / said.len().max(1) as f64;
            (belief[o] + gamma[o] * g * rho[o]).clamp(-7.0, 0.0)
        })
    }
}

/// Of the cases that were measured of a workload, the most telling for another of it, the most telling first.
pub(super) fn telling<T>(likeness: &Likeness, case: Case, mut seen: Vec<(Case, T)>) -> Vec<(Case, T)> {
    seen.sort_by(|(one, _), (two, _)| {
        let close = |seen: &Case| closeness(likeness, *seen, case);
        close(two).total_cmp(&close(one)).then(one.cmp(two))
    });
    seen.truncate(MOST_SEEN);
    seen
}

/// Pairs of cases (measured, asked about) of one workload with the same witnesses in sight; on the same kind half of the time.
fn episodes(pasts: &[Past], draw: &mut Draw) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..pasts.len()).collect();
    let key = |p: usize| (pasts[p].case.i, pasts[p].kin);
    order.sort_by_key(|&p| (key(p), pasts[p].case.a, p));
    let groups: Vec<&[usize]> = order.chunk_by(|&one, &two| key(one) == key(two)).filter(|g| g.len() > 1).collect();
    let mut drawn = Vec::new();
    let lessons = if groups.is_empty() { 0 } else { LESSONS.0.min(LESSONS.1 * pasts.len()) };
    for l in 0..lessons {
        let group = groups[l % groups.len()];
        let one = group[draw.below(group.len())];
        let start = group.partition_point(|&p| pasts[p].case.a < pasts[one].case.a);
        let end = group.partition_point(|&p| pasts[p].case.a <= pasts[one].case.a);
        let among = if draw.below(2) == 0 { &group[start..end] } else { group };
        let other = among[draw.below(among.len())];
        if one != other {
            drawn.push((one, other));
        }
    }
    drawn
}

fn as_seen(past: &Past) -> Seen {
    Seen { case: past.case, believed: past.believed, measured: past.truth }
}

/// ρ by role; 0 for what was not measured.
fn surprise(seen: &Seen) -> [f64; 2] {
    [0, 1].map(|o| {
        let rho = seen.measured[o] - seen.believed[o];
        if rho.is_finite() { rho.clamp(-MOST_SURPRISE, MOST_SURPRISE) } else { 0.0 }
    })
}

/// How telling a measured case is for another of the same workload.
fn closeness(likeness: &Likeness, one: Case, two: Case) -> f64 {
    near(&likeness.psi[one.j], &likeness.psi[two.j]) + 2.0 * near(&likeness.spec[one.a], &likeness.spec[two.a])
}

fn near<const N: usize>(one: &[f64; N], two: &[f64; N]) -> f64 {
    let d2: f64 = one.iter().zip(two).map(|(a, b)| (a - b) * (a - b)).sum();
    (-d2).exp()
}

fn inputs(likeness: &Likeness, seen: &Seen, rho: [f64; 2], case: Case, belief: [f64; 2]) -> Vec<f32> {
    let (psi, spec) = (&likeness.psi, &likeness.spec);
    let (from, to) = (&spec[seen.case.a], &spec[case.a]);
    let mut x = Vec::with_capacity(WIDTH);
    x.extend(psi[case.i].iter().map(|v| *v as f32));
    x.extend(psi[seen.case.j].iter().map(|v| *v as f32));
    x.extend((0..PSI).map(|d| (psi[case.j][d] - psi[seen.case.j][d]) as f32));
    x.extend(from.iter().map(|v| *v as f32));
    x.extend((0..SPEC).map(|d| (to[d] - from[d]) as f32));
    x.push((-distance2(&psi[case.j], &psi[seen.case.j])).exp() as f32);
    x.push(near(from, to) as f32);
    x.extend(seen.believed.map(scaled));
    x.extend(rho.map(|r| (2.0 * r) as f32));
    x.extend(belief.map(scaled));
    x
}
