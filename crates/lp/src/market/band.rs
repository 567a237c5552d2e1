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

use super::engine::{Crowd, Effort, Engine, Goal, Outcome, Task, xorshift};
use super::forest::{Forest, MOST};

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
    band: Vec<u32>,
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
        let task = Task { ids: &everybody, scale: 1.0, base: &[0.0; MOST] };
        let outcome = self.within(crowd, &task, p, trust);
        if outcome == Outcome::Spent && n > DIRECT {
            // Only some have chosen: everybody takes what is best at the prices there are.
            self.engine.forest.ties.clear();
            for (choice, w) in self.choice.iter_mut().zip(crowd.w.chunks_exact(crowd.capacity.len())) {
                *choice = favourite(w, &inverse(p)).0 as u8;
            }
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
                self.draw(task.ids, sampled, &mut frame.sample);
                let scale = task.scale * n as f64 / sampled as f64;
                let outcome = self.within(crowd, &Task { ids: &frame.sample, scale, ..*task }, p, None);
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
            match self.within(crowd, &Task { ids: &frame.band, base: &base, ..*task }, &mut moved, None) {
                Outcome::Balanced => {}
                Outcome::Spent => return Outcome::Spent,
                // What is fixed cannot be balanced by so few.
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
            fraction *= if rebuild { 2.0 } else { 1.0 };
        }
        self.direct(crowd, task, p)
    }

    /// A stratified sample without repeats: repeats would be exact ties.
    fn draw(&mut self, ids: &[u32], count: usize, sample: &mut Vec<u32>) {
        sample.clear();
        for q in 0..count {
            let (from, to) = (q * ids.len() / count, (q + 1) * ids.len() / count);
            let at = from + (xorshift(&mut self.random) % (to - from) as u64) as usize;
            sample.push(ids[at]);
        }
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
        let k = crowd.capacity.len();
        let last = frame.closeness.len() - 1;
        let at = ((fraction * frame.closeness.len() as f64) as usize).min(last);
        let threshold = frame.closeness[at].min(1.0 - 1e-9);
        self.effort.visits += task.ids.len() as u64;
        let inverse = inverse(p);
        let mut load = [0.0; MOST];
        frame.band.clear();
        frame.fixed.clear();
        for &id in task.ids {
            let l = id as usize;
            let w = &crowd.w[l * k..][..k];
            let (c, best, second) = favourite(w, &inverse);
            if second >= threshold * best {
                frame.band.push(id);
                frame.fixed.push(IN_BAND);
            } else {
                load[c] += demand(crowd, l, c);
                frame.fixed.push(c as u8);
            }
        }
        std::array::from_fn(|j| task.base[j] + task.scale * load[j])
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
        let k = crowd.capacity.len();
        self.effort.visits += task.ids.len() as u64;
        let inverse = inverse(p);
        let mut changed = 0;
        for (&id, fixed) in task.ids.iter().zip(&mut frame.fixed) {
            if *fixed == IN_BAND {
                continue;
            }
            let (l, c) = (id as usize, *fixed as usize);
            let w = &crowd.w[l * k..][..k];
            let mut best = 0.0;
            for (w, inverse) in w.iter().zip(&inverse) {
                best = if w * inverse > best { w * inverse } else { best };
            }
            if best > w[c] * inverse[c] * (1.0 + INDIFFERENT) {
                changed += 1;
                base[c] = f64::max(base[c] - task.scale * demand(crowd, l, c), 0.0);
                *fixed = IN_BAND;
                frame.band.push(id);
            }
        }
        changed
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

/// What one user demands of the resource it chose: units per level, or money.
fn demand(crowd: &Crowd<'_>, l: usize, c: usize) -> f64 {
    match crowd.goal {
        Goal::EqualLevel => crowd.weight[l] / crowd.w[l * crowd.capacity.len() + c],
        Goal::Equilibrium => crowd.weight[l],
    }
}

fn inverse(p: &[f64; MOST]) -> [f64; MOST] {
    std::array::from_fn(|j| 1.0 / p[j])
}

/// The best resource, what it is worth per price, and what the second best is.
#[inline(always)]
fn favourite(w: &[f64], inverse: &[f64; MOST]) -> (usize, f64, f64) {
    let (mut at, mut best, mut second) = (0, 0.0, 0.0);
    for (j, (w, inverse)) in w.iter().zip(inverse).enumerate() {
        let worth = w * inverse;
        let better = worth > best;
        let runner_up = if better { best } else { worth };
        second = if runner_up > second { runner_up } else { second };
        at = if better { j } else { at };
        best = if better { worth } else { best };
    }
    (at, best, second)
}

/// How close the second-best resource of some of the users is to their best, closest first.
fn rank_closeness(crowd: &Crowd<'_>, ids: &[u32], p: &[f64; MOST], closeness: &mut Vec<f64>) {
    let k = crowd.capacity.len();
    let inverse = inverse(p);
    closeness.clear();
    closeness.extend(ids.iter().step_by((ids.len() / QUANTILE).max(1)).map(|&id| {
        let (_, best, second) = favourite(&crowd.w[id as usize * k..][..k], &inverse);
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
