//! What ships: attention over the catalog (P1), a bounded gain for what is observed (P2), and a calibrated standard error.
//!
//! `attention` says what a newcomer does beside a partner from what like workloads do beside it; `gain` corrects that by what
//! was measured of the newcomer itself; `train` fits the 166 numbers behind both, and the standard error, on `episodes` in which every
//! known workload is hidden in turn; `alone` does rates alone. A pair has a newcomer, the one with fewer measured pairs, and two
//! roles: its own rate, and its partner's beside it. Measured cells are never touched, and what fits is not decided here.
//!
//! Where little is known it falls back by degrees: nobody alike, the partner's mean; one or two known beside that partner, mostly the
//! performance model; nothing measured on a kind, half the model and half what other kinds say, with twice the standard error; a
//! partner of which nothing was measured, the nearest one that was. Fewer than six workloads with measured pairs cannot teach
//! what "alike" means: the numbers are then trained on [`prior`], the library as the performance model sees it.
//!
//! **What was tried** on Gavel's table (`arles learn eval`; mean error of pairs in per cent at 0 / 2 / 4 observations; held out:
//! one workload | a family):
//!
//! | | workload | family |
//! | --- | --- | --- |
//! | as it is | 9.7 / 9.1 / 8.7 | 22.3 / 20.1 / 17.7 |
//! | with the performance model as a mean of learned weight (v) | 9.8 / 9.2 / 8.7 | 22.5 / 20.5 / 18.1 |
//! | without the trend in batch (t = 0) and with v | 10.5 / 9.7 / 9.2 | 22.4 / 20.5 / 18.1 |
//! | without the other role's residual (c = 0) and with v | 9.8 / 9.2 / 8.7 | 22.5 / 20.5 / 18.1 |
//!
//! So v is learned only in the prior world, where the model is nearly right, and is 0 where measurements teach; c costs nothing and
//! does nothing here. Steps of training, rates and shrinkage were set once and not searched. The level of the conformal
//! quantile for new families (0.94) and the halving of the variance in `alone` were chosen after a look at these folds.
//!
//! An observation moves the measured cell, the sums and residuals that rest on it, and ln standard error by at most 0.01; the other
//! numbers wait for the next training. So order does not matter, and a bad measurement cannot run away with anything.

mod alone;
mod attention;
mod episodes;
mod gain;
mod numbers;
mod train;

use crate::features::{Spec, spec};
use crate::ground::{Ground, Seen};
use crate::method::{Belief, Method, Shell};
use crate::shift::{self, Role, UNKNOWN_PART};
use crate::table::{Setting, Unfit};
use crate::{mean, modelled, prior, solo};
use alone::Alone;
use arles_core::Library;
use arles_core::estimate::{Estimator, Source};
use attention::{Voice, likeness, listen};
use episodes::School;
use gain::{Heard, correction, etas, nearness, transfers};
pub use numbers::Numbers;
use numbers::{PerKind, Plain, ROLES};
use std::sync::Arc;
pub use train::Trained;
use train::{LEAST_STANDARD_ERROR, ln_standard_error};

/// Fewer measured workloads than this cannot teach what "alike" means; the model's world does.
const LEAST_KNOWN: usize = 6;

/// Makes one, trained on what the catalog holds.
pub(crate) fn make(setting: &Setting<'_>) -> Result<Box<dyn Estimator>, Unfit> {
    let (numbers, _) = train(setting);
    Ok(with(setting, numbers))
}

/// Trains the numbers on the measured pairs of a setting's catalog; where these are too few, on the library as the performance
/// model sees it.
#[must_use]
pub fn train(setting: &Setting<'_>) -> (Numbers, Trained) {
    let ground = Ground::new(setting);
    let known = (0..ground.things().len()).filter(|&t| ground.met(t) > 0 && ground.things()[t].psi.is_some()).count();
    if known >= LEAST_KNOWN {
        return train_on(&ground, setting, false);
    }
    let world = prior::catalog(setting.kinds, Library::builtin(), setting.seed);
    let ground = Ground::from(&Setting { workloads: &[], catalog: &world, ..*setting }, Source::Initial);
    train_on(&ground, setting, true)
}

/// An estimator with numbers that were trained before, here or elsewhere.
#[must_use]
pub fn with(setting: &Setting<'_>, numbers: Numbers) -> Box<dyn Estimator> {
    let ground = Ground::new(setting);
    let learned = Learned::new(&ground, numbers);
    Box::new(Shell::new(ground, learned))
}

fn train_on(ground: &Ground, setting: &Setting<'_>, prior: bool) -> (Numbers, Trained) {
    let school = School::new(ground, setting.seed);
    let specs: Vec<Spec> = ground.kinds().iter().map(spec).collect();
    let start = Numbers::start(ground.kinds(), if prior { 0.5 } else { 0.0 });
    let (numbers, trained) = train::train(start, &school, &specs, setting.seed, !prior, setting.progress);
    (numbers, Trained { prior, ..trained })
}

/// A workload like another.
#[derive(Clone, Copy, Debug)]
struct Like {
    thing: usize,
    /// By role.
    weights: [f64; ROLES],
    /// ln batch of it less that of the other, in one family.
    step: Option<f64>,
}

/// What was measured of a newcomer beside a partner, less what P1 says.
#[derive(Clone, Copy, Debug)]
struct Residual {
    kind: usize,
    partner: usize,
    /// By role.
    ln: [f64; ROLES],
}

/// Numbers of a kind of this setting.
#[derive(Clone, Copy, Debug)]
struct KindNumbers {
    attention: f64,
    slope: f64,
    model: f64,
    standard_error: f64,
    /// Unseen in training: twice the standard error.
    known: bool,
}

/// What never changes after training.
struct Fixed {
    numbers: Numbers,
    /// By role and kind.
    per_kind: Vec<KindNumbers>,
    /// κ and κ0 by (role, from, to).
    transfers: Vec<[f64; 2]>,
    /// exp(−Σ η (Ψ_p − Ψ_j)²) by (role, p, j); 0 without features.
    nearness: Vec<f32>,
    likes: Vec<Vec<Like>>,
}

/// The method.
#[derive(Clone)]
struct Learned {
    fixed: Arc<Fixed>,
    /// z by (role, kind, partner, newcomer); NaN where nothing was measured.
    values: Arc<Vec<f32>>,
    /// Σ z and how many, by (role, kind, partner).
    sums: Vec<(f64, f64)>,
    /// By thing.
    residuals: Vec<Vec<Residual>>,
    /// By role: what is added to ln standard error for how surprising observations were.
    surprise: [f64; ROLES],
    alone: Alone,
}

/// So many like workloads are listened to.
const MOST_LIKE: usize = 24;
/// Beyond so many measured pairs, a kind is corrected by its own alone.
const MOST_RESIDUALS: usize = 64;

/// The step of [`Learned::surprise`] after one observation, and how far it may go.
const SURPRISE_STEP: f64 = 0.01;
const MOST_SURPRISE: f64 = 0.5;

/// What P1 says of a cell.
struct Said {
    ln: f64,
    likeness: f64,
}

impl Learned {
    fn new(ground: &Ground, numbers: Numbers) -> Self {
        let (n, kinds) = (ground.things().len(), ground.kinds().len());
        let mut learned = Self {
            fixed: Arc::new(Fixed::new(ground, numbers)),
            values: Arc::new(vec![f32::NAN; ROLES * kinds * n * n]),
            sums: vec![(0.0, 0.0); ROLES * kinds * n],
            residuals: vec![Vec::new(); n],
            surprise: [0.0; ROLES],
            alone: Alone::new(ground),
        };
        for a in 0..kinds {
            for one in 0..n {
                for two in 0..n {
                    learned.put(ground, one, two, a);
                }
            }
        }
        for thing in 0..n {
            learned.reconsider(ground, thing);
        }
        learned
    }

    fn at(&self, ground: &Ground, role: usize, kind: usize, partner: usize) -> usize {
        (role * ground.kinds().len() + kind) * ground.things().len() + partner
    }

    /// Takes the ground's cell of `thing` beside `other` over, in both roles.
    fn put(&mut self, ground: &Ground, thing: usize, other: usize, kind: usize) {
        let ln = ground.relative(thing, other, kind);
        let n = ground.things().len();
        for (role, newcomer, partner) in [(0, thing, other), (1, other, thing)] {
            let row = self.at(ground, role, kind, partner);
            let before = f64::from(self.values[row * n + newcomer]);
            if ln.is_nan() && before.is_nan() {
                continue;
            }
            let v = self.fixed.per_kind[role * ground.kinds().len() + kind].model;
            let z = (ln - v * modelled::beside(ground, thing, other, kind).unwrap_or(0.0)) as f32;
            Arc::make_mut(&mut self.values)[row * n + newcomer] = z;
            let (sum, count) = &mut self.sums[row];
            for (value, sign) in [(before, -1.0), (f64::from(z), 1.0)] {
                if value.is_finite() {
                    *sum += sign * value;
                    *count += sign;
                }
            }
        }
    }

    /// P1.
    fn say(&self, ground: &Ground, role: usize, newcomer: usize, other: usize, kind: usize) -> Option<Said> {
        let n = ground.things().len();
        let row = self.at(ground, role, kind, other);
        let values = &self.values[row * n..(row + 1) * n];
        let own = f64::from(values[newcomer]);
        let (mut sum, mut count) = self.sums[row];
        if own.is_finite() {
            sum -= own;
            count -= 1.0;
        }
        let (one, two) = if role == 0 { (newcomer, other) } else { (other, newcomer) };
        let model = modelled::beside(ground, one, two, kind);
        if count < 0.5 {
            return self.say_of_other_kinds(ground, role, newcomer, other, model);
        }
        let Some(model) = model else {
            let role = if role == 0 { Role::Own } else { Role::Partner };
            return Some(Said { ln: mean::partner_mean(ground, role, newcomer, other, kind).0, likeness: 0.0 });
        };
        let m = sum / count;
        let there = self.fixed.likes[newcomer].iter().map(|like| (like, f64::from(values[like.thing])));
        let voices = there.filter(|(_, z)| z.is_finite()).map(|(like, value)| Voice {
            weight: like.weights[role],
            value,
            step: like.step,
        });
        let numbers = &self.fixed.numbers;
        let said = listen(voices, m, numbers.get(role, Plain::Need).exp());
        let k = &self.fixed.per_kind[role * ground.kinds().len() + kind];
        let ln = m + k.attention * said.att + k.slope * said.slope + k.model * model;
        // A mean of one or two is hardly evidence.
        let trust = count * count / (count * count + 4.0);
        Some(Said { ln: (trust * ln + (1.0 - trust) * model).min(0.0), likeness: said.likeness })
    }

    /// Where nobody was measured beside `other` on a kind: half the model, half what other kinds say.
    fn say_of_other_kinds(
        &self,
        ground: &Ground,
        role: usize,
        newcomer: usize,
        other: usize,
        model: Option<f64>,
    ) -> Option<Said> {
        let measured = |b: &usize| self.sums[self.at(ground, role, *b, other)].1 > 1.5;
        let elsewhere = (0..ground.kinds().len()).filter(measured);
        let said = elsewhere.filter_map(|b| Some(self.say(ground, role, newcomer, other, b)?.ln));
        let ln = match (shift::moments(said), model) {
            (Some((mean, _)), Some(model)) => (mean + model) / 2.0,
            (Some((mean, _)), None) => mean,
            (None, model) => model?,
        };
        Some(Said { ln, likeness: 0.0 })
    }

    /// Works the residuals of a thing out anew.
    fn reconsider(&mut self, ground: &Ground, thing: usize) {
        let mut residuals = Vec::new();
        if ground.met(thing) > 0 {
            for kind in 0..ground.kinds().len() {
                for partner in 0..ground.things().len() {
                    let of = |role: usize| {
                        let measured = shift::relative(ground, [Role::Own, Role::Partner][role], thing, partner, kind);
                        if !measured.is_finite() {
                            return None;
                        }
                        Some(measured - self.say(ground, role, thing, partner, kind)?.ln)
                    };
                    let both = [of(0), of(1)];
                    if both[0].is_some() || both[1].is_some() {
                        let ln = both.map(|r| r.or(both[0]).or(both[1]).unwrap_or(0.0));
                        residuals.push(Residual { kind, partner, ln });
                    }
                }
            }
        }
        self.residuals[thing] = residuals;
    }

    /// One step of the standard error's own numbers, along the slope of Laplace's likelihood: |error|/β − 1, bounded.
    fn be_surprised(&mut self, ground: &Ground, thing: usize, other: usize, kind: usize) {
        let measured = ground.relative(thing, other, kind);
        let (role, newcomer, partner) = shift::roles(ground, thing, other);
        let r = role.index();
        let Some(said) = self.say(ground, r, newcomer, partner, kind) else { return };
        if measured.is_finite() {
            let numbers = &self.fixed.numbers;
            let likeness = 0.5 * (numbers.get(r, Plain::Need).exp() + said.likeness).ln();
            let sigma = self.fixed.per_kind[r * ground.kinds().len() + kind].standard_error;
            let sd = ln_standard_error(sigma, numbers.get(r, Plain::Likeness), likeness, 0.0, 0.0)
                .exp()
                .max(LEAST_STANDARD_ERROR);
            let step = ((measured - said.ln).abs() / (sd / 2f64.sqrt()) - 1.0).clamp(-1.0, 1.0);
            self.surprise[r] += SURPRISE_STEP * step;
        }
    }

    /// P2: the correction and Σ g.
    fn correct(&self, ground: &Ground, role: usize, newcomer: usize, other: usize, kind: usize) -> (f64, f64) {
        let (kinds, n) = (ground.kinds().len(), ground.things().len());
        let cross = self.fixed.numbers.get(role, Plain::Cross);
        let all = &self.residuals[newcomer];
        // Of somebody who was measured often, other kinds have nothing to add.
        let heard = all.iter().filter(|o| all.len() <= MOST_RESIDUALS || o.kind == kind);
        correction(heard.map(|o| {
            let [k, k0] = self.fixed.transfers[(role * kinds + o.kind) * kinds + kind];
            let near = f64::from(self.fixed.nearness[(role * n + o.partner) * n + other]);
            Heard { gain: k * near + k0, residual: o.ln[role] + cross * o.ln[1 - role] }
        }))
    }

    /// The measured partner that stands in for one of which nothing was measured: the nearest.
    fn stand_in(&self, ground: &Ground, newcomer: usize, other: usize) -> usize {
        if ground.met(other) > 0 {
            return other;
        }
        ground.near(other).iter().map(|&(k, _)| k).find(|&k| k != newcomer && ground.met(k) > 0).unwrap_or(other)
    }
}

impl Fixed {
    fn new(ground: &Ground, numbers: Numbers) -> Self {
        let specs: Vec<Spec> = ground.kinds().iter().map(spec).collect();
        let kinds = ground.kinds();
        let mut per_kind = Vec::new();
        let mut passed = Vec::new();
        for role in 0..ROLES {
            for (a, kind) in kinds.iter().enumerate() {
                let of = |f: PerKind| numbers.of_any(role, f, kind);
                let (standard_error, known) = of(PerKind::StandardError);
                let (attention, slope) = (of(PerKind::Attention).0, of(PerKind::Slope).0);
                per_kind.push(KindNumbers { attention, slope, model: of(PerKind::Model).0, standard_error, known });
                for b in 0..kinds.len() {
                    passed.push(transfers(&numbers, role, &specs[a], &specs[b], a == b).map(|t| t.value));
                }
            }
        }
        let ln_batch = |t: usize| ground.things()[t].features.as_ref().map_or(0.0, |w| f64::from(w.batch.max(1)).ln());
        let like = |i: usize| {
            let near = ground.near(i).iter().filter_map(|&(k, _)| {
                let (one, two) = (ground.things()[i].psi.as_ref()?, ground.things()[k].psi.as_ref()?);
                let related = solo::related(ground, i, k);
                let weights = [0, 1].map(|r| likeness(&numbers, r, one, two, related).exp());
                Some(Like { thing: k, weights, step: related.then(|| ln_batch(k) - ln_batch(i)) })
            });
            let mut near: Vec<Like> = near.collect();
            // The rest weighs nothing, and each costs a look into memory that is far away.
            near.sort_by(|a, b| (b.weights[0] + b.weights[1]).total_cmp(&(a.weights[0] + a.weights[1])));
            near.truncate(MOST_LIKE);
            near
        };
        let likes: Vec<Vec<Like>> = (0..ground.things().len()).map(like).collect();
        let mut all_near = Vec::with_capacity(ROLES * ground.things().len() * ground.things().len());
        for role in 0..ROLES {
            let etas = etas(&numbers, role);
            for p in ground.things() {
                all_near.extend(ground.things().iter().map(|j| match (&p.psi, &j.psi) {
                    (Some(p), Some(j)) => nearness(&etas, p, j) as f32,
                    _ => 0.0,
                }));
            }
        }
        Self { numbers, per_kind, transfers: passed, nearness: all_near, likes }
    }
}

impl Method for Learned {
    fn alone(&self, _: &Ground, thing: usize, kind: usize) -> Belief {
        self.alone.belief(thing, kind)
    }

    fn beside(&self, ground: &Ground, thing: usize, other: usize, kind: usize) -> Belief {
        let (role, newcomer, partner) = shift::roles(ground, thing, other);
        let stand_in = self.stand_in(ground, newcomer, partner);
        let r = role.index();
        let Some(said) = self.say(ground, r, newcomer, stand_in, kind) else {
            return Belief { ln: UNKNOWN_PART.ln(), standard_error: 0.6, refined: false };
        };
        let (moved, gains) = self.correct(ground, r, newcomer, stand_in, kind);
        let numbers = &self.fixed.numbers;
        let k = &self.fixed.per_kind[r * ground.kinds().len() + kind];
        let likeness = 0.5 * (numbers.get(r, Plain::Need).exp() + said.likeness).ln();
        let observed = numbers.get(r, Plain::Observed).exp();
        let standard_error =
            ln_standard_error(k.standard_error, numbers.get(r, Plain::Likeness), likeness, observed, gains).exp();
        let standard_error = standard_error * self.surprise[r].clamp(-MOST_SURPRISE, MOST_SURPRISE).exp();
        let unsure = if k.known { 1.0 } else { 2.0 } * if stand_in == partner { 1.0 } else { 1.5 };
        let at_home = self.fixed.likes[newcomer].iter().any(|l| l.step.is_some() && ground.met(l.thing) > 0);
        let standard_error =
            standard_error.max(LEAST_STANDARD_ERROR) * numbers.conformal[usize::from(at_home)] * unsure;
        Belief { ln: (said.ln + moved).min(0.0), standard_error, refined: gains > 0.0 }
    }

    fn learn(&mut self, ground: &Ground, seen: &Seen) {
        match seen.partner {
            Some(other) => {
                self.be_surprised(ground, seen.thing, other, seen.kind);
                self.put(ground, seen.thing, other, seen.kind);
                if ground.alone(seen.thing, seen.kind).is_nan() {
                    self.alone.refresh(ground, seen.thing);
                }
            }
            None => {
                for other in 0..ground.things().len() {
                    self.put(ground, seen.thing, other, seen.kind);
                }
                self.alone.refresh(ground, seen.thing);
            }
        }
        self.reconsider(ground, seen.thing);
        if let Some(other) = seen.partner {
            self.reconsider(ground, other);
        }
    }
}

#[cfg(test)]
mod tests;
