//! Large crowds: find the prices on a sample, then solve exactly for the few users near a boundary.
//!
//! A sample of the users gives prices that are nearly right. At those, most users have a favourite resource by a
//! margin that the remaining error cannot turn; they are *fixed* there, as demand that does not move. Only the
//! *band* of users whose second-best resource is close enters the exact solve. Afterwards every fixed user is asked
//! again at the new prices. If nobody has changed its mind, the optimality conditions hold for the whole crowd: the
//! answer is exact and owes nothing to the sample. Those who have join the band, and if they are many the band is
//! made wider. Band and sample are solved the same way, so the cost is a few passes over the users.
//!
//! A warm start is the same with last time's prices in place of the sample's.
//!
//! Users of unlike size cannot be sampled alike: whoever is larger than a sampled user would stand for is in the
//! sample, as itself.

use super::engine::{Crowd, Effort, Engine, Goal, Outcome, Task, xorshift};
use super::forest::{Forest, MOST};
use super::rows::each_best;

/// Crowds up to this size are solved as they are.
const DIRECT: usize = 400;
/// One user in so many is sampled.
const SAMPLED: usize = 16;
/// How often a band is repaired before everybody is let in.
const REPAIRS: usize = 40;
/// So many users suffice to place a quantile.
const QUANTILE: usize = 4096;
/// Fixed users must prefer another resource by this much to count as having changed their mind: more than the
/// engine's perturbation, less than matters.
const INDIFFERENT: f64 = 1e-10;
/// The mark of a user in the band.
const IN_BAND: u8 = u8::MAX;

/// Memory of one depth of the recursion.
#[derive(Clone, Debug, Default)]
struct Frame {
    sample: Vec<u32>,
    sample_weight: Vec<f64>,
    size: Vec<f64>,
    band: Vec<u32>,
    band_weight: Vec<f64>,
    /// Per user: the resource it is fixed on, or `IN_BAND`.
    fixed: Vec<u8>,
    closeness: Vec<f64>,
}

/// Solves crowds of any size. Afterwards: who chose what, and who is tied.
#[derive(Clone, Debug, Default)]
pub(super) struct Bander {
    engine: Engine,
    frames: Vec<Frame>,
    everybody: Vec<u32>,
    pub(super) choice: Vec<u8>,
    pub(super) effort: Effort,
    /// The most steps in all.
    pub(super) steps: u32,
    random: u64,
}

impl Bander {
    /// Forgets what was done before a new question.
    pub(super) fn begin(&mut self, steps: u32) {
        self.effort = Effort::default();
        self.steps = steps;
        self.random = 0x2545_F491_4F6C_DD1D;
    }

    pub(super) fn forest(&mut self) -> &mut Forest {
        &mut self.engine.forest
    }

    /// Solves for a whole crowd from prices `p`. `trust` is the fraction of users who may have to think again if `p`
    /// was an answer once; without it a large crowd is sampled first.
    pub(super) fn solve(&mut self, crowd: &Crowd<'_>, p: &mut [f64; MOST], trust: Option<f64>) -> Outcome {
        let n = crowd.weight.len();
        self.choice.clear();
        self.choice.resize(n, 0);
        let mut everybody = std::mem::take(&mut self.everybody);
        everybody.clear();
        everybody.extend(0..n as u32);
        let task = Task { ids: &everybody, weight: crowd.weight, base: &[0.0; MOST] };
        let outcome = self.within(crowd, &task, p, trust);
        if outcome == Outcome::Spent && n > DIRECT {
            // Only some have chosen: everybody takes what is best at the prices there are.
            self.engine.forest.ties.clear();
            let (k, mut choice) = (crowd.capacity.len(), self.choice.iter_mut());
            each_best(k, crowd.w.chunks_exact(k), &inverse(p), 1.0, |_, best| {
                choice.next().into_iter().for_each(|choice| *choice = best.trailing_zeros() as u8);
            });
        }
        self.everybody = everybody;
        outcome
    }

    fn within(&mut self, crowd: &Crowd<'_>, task: &Task<'_>, p: &mut [f64; MOST], trust: Option<f64>) -> Outcome {
        if task.ids.len() <= DIRECT || crowd.capacity.len() == 1 {
            return self.direct(crowd, task, p);
        }
        let mut frame = self.frames.pop().unwrap_or_default();
        let outcome = self.banded(crowd, task, p, trust, &mut frame);
        self.frames.push(frame);
        outcome
    }

    fn direct(&mut self, crowd: &Crowd<'_>, task: &Task<'_>, p: &mut [f64; MOST]) -> Outcome {
        self.engine.run(crowd, task, p, &mut self.choice, (self.steps, &mut self.effort))
    }

    fn banded(
        &mut self,
        crowd: &Crowd<'_>,
        task: &Task<'_>,
        p: &mut [f64; MOST],
        trust: Option<f64>,
        frame: &mut Frame,
    ) -> Outcome {
        let n = task.ids.len();
        let mut fraction = match trust {
            Some(fraction) => fraction,
            None => {
                let sampled = (n / SAMPLED).max(DIRECT / 2);
                self.draw(crowd, task, sampled, frame);
                let sample = Task { ids: &frame.sample, weight: &frame.sample_weight, ..*task };
                let outcome = self.within(crowd, &sample, p, None);
                match outcome {
                    Outcome::Balanced => {}
                    Outcome::Spent => return outcome,
                    // Of a band's sample this says nothing; of a whole crowd's it is a guess worth trying.
                    Outcome::Stuck(_) if task.base.iter().any(|&b| b > 0.0) => return self.direct(crowd, task, p),
                    Outcome::Stuck(_) if crowd.goal == Goal::EqualLevel => return outcome,
                    Outcome::Stuck(_) => {}
                }
                f64::max(1.5 * crowd.capacity.len() as f64, 3.0) / (sampled as f64).sqrt()
            }
        };
        fraction = fraction.max(0.5 * DIRECT as f64 / n as f64);
        rank_closeness(crowd, task.ids, p, &mut frame.closeness);
        let mut base = *task.base;
        let mut rebuild = true;
        for _ in 0..REPAIRS {
            if rebuild {
                base = self.split(crowd, task, p, fraction, frame);
            }
            if frame.band.len() * 10 > n * 7 {
                break;
            }
            let mut moved = *p;
            let band = Task { ids: &frame.band, weight: &frame.band_weight, base: &base };
            match self.within(crowd, &band, &mut moved, None) {
                Outcome::Balanced => {}
                Outcome::Spent => return Outcome::Spent,
                // What is fixed cannot be balanced by so few.
                Outcome::Stuck(_) if trust.is_some() => return self.banded(crowd, task, p, None, frame),
                Outcome::Stuck(_) => {
                    fraction *= 2.0;
                    rebuild = true;
                    continue;
                }
            }
            *p = moved;
            let before = frame.band.len();
            let changed = self.ask_again(crowd, task, p, &mut base, frame);
            if changed == 0 {
                self.keep(task, frame);
                return Outcome::Balanced;
            }
            rebuild = changed > before / 2;
            if rebuild && trust.is_some() {
                // Too much is new for the old prices to be a guide.
                return self.banded(crowd, task, p, None, frame);
            }
            fraction *= if rebuild { 2.0 } else { 1.0 };
        }
        self.direct(crowd, task, p)
    }

    /// A stratified sample without repeats (repeats would be exact ties), and what each of it stands for.
    fn draw(&mut self, crowd: &Crowd<'_>, task: &Task<'_>, count: usize, frame: &mut Frame) {
        frame.sample.clear();
        frame.sample_weight.clear();
        measure(crowd, task, &mut frame.size);
        let total: f64 = frame.size.iter().sum();
        // Whoever is larger than what one of the sample stands for, stands for itself.
        let large = total / count as f64;
        let (mut all, mut drawn) = (0.0, 0.0);
        for q in 0..count {
            let (from, to) = (q * task.ids.len() / count, (q + 1) * task.ids.len() / count);
            let lucky = from + (xorshift(&mut self.random) % (to - from) as u64) as usize;
            for i in from..to {
                let size = frame.size[i];
                if size > large {
                    frame.sample.push(task.ids[i]);
                    frame.sample_weight.push(-task.weight[i]);
                    continue;
                }
                all += size;
                if i == lucky {
                    drawn += size;
                    frame.sample.push(task.ids[i]);
                    frame.sample_weight.push(task.weight[i]);
                }
            }
        }
        let scale = if drawn > 0.0 { all / drawn } else { 1.0 };
        frame
            .sample_weight
            .iter_mut()
            .for_each(|weight| *weight = if *weight < 0.0 { -*weight } else { *weight * scale });
    }

    /// Fixes everybody but a band of about `fraction` of the users; returns the demand that is fixed.
    fn split(
        &mut self,
        crowd: &Crowd<'_>,
        task: &Task<'_>,
        p: &[f64; MOST],
        fraction: f64,
        frame: &mut Frame,
    ) -> [f64; MOST] {
        let last = frame.closeness.len() - 1;
        let at = ((fraction * frame.closeness.len() as f64) as usize).min(last);
        let threshold = frame.closeness[at].min(1.0 - 1e-9);
        self.effort.visits += task.ids.len() as u64;
        let Frame { band, band_weight, fixed, .. } = frame;
        let mut load = *task.base;
        band.clear();
        band_weight.clear();
        fixed.clear();
        let mut i = 0;
        each_best(crowd.capacity.len(), rows(crowd, task.ids), &inverse(p), threshold, |_, close| {
            let c = close.trailing_zeros() as usize % MOST;
            if close.count_ones() == 1 {
                load[c] += demand(crowd, task, i, c);
                fixed.push(c as u8);
            } else {
                band.push(task.ids[i]);
                band_weight.push(task.weight[i]);
                fixed.push(IN_BAND);
            }
            i += 1;
        });
        load
    }

    /// Asks the fixed users whether they would still choose the same; those who would not join the band.
    fn ask_again(
        &mut self,
        crowd: &Crowd<'_>,
        task: &Task<'_>,
        p: &[f64; MOST],
        base: &mut [f64; MOST],
        frame: &mut Frame,
    ) -> usize {
        self.effort.visits += task.ids.len() as u64;
        let Frame { band, band_weight, fixed, .. } = frame;
        let before = band.len();
        let mut i = 0;
        each_best(crowd.capacity.len(), rows(crowd, task.ids), &inverse(p), 1.0 - INDIFFERENT, |_, close| {
            let c = fixed[i];
            if c != IN_BAND && close >> c & 1 == 0 {
                let c = c as usize;
                base[c] = f64::max(base[c] - demand(crowd, task, i, c), 0.0);
                fixed[i] = IN_BAND;
                band.push(task.ids[i]);
                band_weight.push(task.weight[i]);
            }
            i += 1;
        });
        band.len() - before
    }

    /// Everybody fixed has chosen for good.
    fn keep(&mut self, task: &Task<'_>, frame: &Frame) {
        for (&id, &fixed) in task.ids.iter().zip(&frame.fixed) {
            if fixed != IN_BAND {
                self.choice[id as usize] = fixed;
            }
        }
    }
}

/// The rates of some users.
fn rows<'a>(crowd: &Crowd<'a>, ids: &[u32]) -> impl Iterator<Item = &'a [f64]> {
    let (k, w) = (crowd.capacity.len(), crowd.w);
    ids.iter().map(move |&id| &w[id as usize * k..][..k])
}

/// What the task's i-th user demands of the resource it chose: units per level, or money.
fn demand(crowd: &Crowd<'_>, task: &Task<'_>, i: usize, c: usize) -> f64 {
    match crowd.goal {
        Goal::EqualLevel => task.weight[i] / crowd.w[task.ids[i] as usize * crowd.capacity.len() + c],
        Goal::Equilibrium => task.weight[i],
    }
}

/// How much each user counts, roughly: what it would need at its greatest rate, or its money.
fn measure(crowd: &Crowd<'_>, task: &Task<'_>, size: &mut Vec<f64>) {
    size.clear();
    size.extend_from_slice(task.weight);
    if crowd.goal == Goal::EqualLevel {
        let mut sizes = size.iter_mut();
        each_best(crowd.capacity.len(), rows(crowd, task.ids), &[1.0; MOST], 1.0, |greatest, _| {
            sizes.next().into_iter().for_each(|size| *size /= greatest);
        });
    }
}

fn inverse(p: &[f64; MOST]) -> [f64; MOST] {
    std::array::from_fn(|j| 1.0 / p[j])
}

/// How close the second-best resource of some of the users is to their best, closest first.
fn rank_closeness(crowd: &Crowd<'_>, ids: &[u32], p: &[f64; MOST], closeness: &mut Vec<f64>) {
    let inverse = inverse(p);
    closeness.clear();
    closeness.extend(ids.iter().step_by((ids.len() / QUANTILE).max(1)).map(|id| {
        let (mut best, mut second) = (0.0, 0.0);
        for (w, inverse) in rows(crowd, std::slice::from_ref(id)).flatten().zip(&inverse) {
            let worth = w * inverse;
            if worth > best {
                (best, second) = (worth, best);
            } else if worth > second {
                second = worth;
            }
        }
        second / best
    }));
    closeness.sort_unstable_by(|a, b| b.total_cmp(a));
}

/// Prices to begin with: what a typical user gets out of each resource, as dear in all as there is demand.
pub(super) fn start_prices(crowd: &Crowd<'_>) -> [f64; MOST] {
    let (n, k) = (crowd.weight.len(), crowd.capacity.len());
    let (mut logs, mut counts) = ([0.0; MOST], [0.0; MOST]);
    for w in crowd.w.chunks_exact(k).step_by((n / 1000).max(1)) {
        for j in 0..k {
            if w[j] > 0.0 {
                logs[j] += w[j].ln();
                counts[j] += 1.0;
            }
        }
    }
    let typical = logs.iter().sum::<f64>() / counts.iter().sum::<f64>();
    let mut p = [0.0; MOST];
    for j in 0..k {
        p[j] = if counts[j] > 0.0 { (logs[j] / counts[j]).exp() } else { typical.exp() };
    }
    scale_prices(crowd, &mut p);
    p
}

/// Scales to `m·p = 1`, or to all the money there is.
pub(super) fn scale_prices(crowd: &Crowd<'_>, p: &mut [f64; MOST]) {
    let total = match crowd.goal {
        Goal::EqualLevel => 1.0,
        Goal::Equilibrium => crowd.weight.iter().sum(),
    };
    let unit = total / crowd.capacity.iter().zip(p.iter()).map(|(m, p)| m * p).sum::<f64>();
    p.iter_mut().for_each(|p| *p *= unit);
}
