//! Large programs: estimate the prices on a sample, then solve exactly for the few users near a boundary.
//!
//! A sample of the users gives prices that are nearly right. At those, most users prefer one resource by a margin that the
//! remaining error cannot change; they are *fixed* there, as constant demand. Only the *band* of users whose second-best
//! resource is close enters the exact solve. Afterwards every fixed user is checked at the new prices. If none prefers
//! another resource, the optimality conditions hold for the whole program: the solution is exact and does not depend on
//! the sample. Those who do join the band, and if they are many the band is made wider. Band and sample are solved the same
//! way, so the cost is a few passes over the users.
//!
//! A warm start is the same with the last prices in place of the sample's.
//!
//! Users are weighted in the sample by what they stand for; a user larger than that is in the sample as itself.

use super::engine::{Effort, Engine, Goal, Outcome, Program, Subproblem, xorshift};
use super::forest::{Forest, MOST};
use super::rows::each_best;

/// Programs up to this size are solved directly.
const DIRECT: usize = 400;
/// One user in so many is sampled.
const SAMPLED: usize = 16;
/// How often a band is extended before all users are in it.
const REPAIRS: usize = 40;
/// The users on which a quantile is estimated.
const QUANTILE: usize = 4096;
/// The relative margin by which a fixed user must prefer another resource: more than the engine's perturbation, less
/// than matters.
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

/// Solves programs of any size. Afterwards it has the choices and ties.
#[derive(Clone, Debug, Default)]
pub(super) struct SampledSolver {
    engine: Engine,
    frames: Vec<Frame>,
    everybody: Vec<u32>,
    pub(super) choice: Vec<u8>,
    pub(super) effort: Effort,
    /// The most steps in all.
    pub(super) steps: u32,
    random: u64,
}

impl SampledSolver {
    /// Resets the counters for a new problem.
    pub(super) fn begin(&mut self, steps: u32) {
        self.effort = Effort::default();
        self.steps = steps;
        self.random = 0x2545_F491_4F6C_DD1D;
    }

    pub(super) fn forest(&mut self) -> &mut Forest {
        &mut self.engine.forest
    }

    /// Solves a whole program from prices `p`. `trust` is the fraction of users who may change their choice, if `p` comes
    /// from a similar program; without it a large program is sampled first.
    pub(super) fn solve(&mut self, program: &Program<'_>, p: &mut [f64; MOST], trust: Option<f64>) -> Outcome {
        let n = program.weight.len();
        self.choice.clear();
        self.choice.resize(n, 0);
        let mut everybody = std::mem::take(&mut self.everybody);
        everybody.clear();
        everybody.extend(0..n as u32);
        let sub = Subproblem { ids: &everybody, weight: program.weight, base: &[0.0; MOST] };
        let outcome = self.within(program, &sub, p, trust);
        if outcome == Outcome::Spent && n > DIRECT {
            // Only some have chosen: everybody takes its best resource at the current prices.
            self.engine.forest.ties.clear();
            let (k, mut choice) = (program.capacity.len(), self.choice.iter_mut());
            each_best(k, program.w.chunks_exact(k), &inverse(p), 1.0, |_, best| {
                choice.next().into_iter().for_each(|choice| *choice = best.trailing_zeros() as u8);
            });
        }
        self.everybody = everybody;
        outcome
    }

    fn within(
        &mut self,
        program: &Program<'_>,
        sub: &Subproblem<'_>,
        p: &mut [f64; MOST],
        trust: Option<f64>,
    ) -> Outcome {
        if sub.ids.len() <= DIRECT || program.capacity.len() == 1 {
            return self.direct(program, sub, p);
        }
        let mut frame = self.frames.pop().unwrap_or_default();
        let outcome = self.banded(program, sub, p, trust, &mut frame);
        self.frames.push(frame);
        outcome
    }

    fn direct(&mut self, program: &Program<'_>, sub: &Subproblem<'_>, p: &mut [f64; MOST]) -> Outcome {
        self.engine.run(program, sub, p, &mut self.choice, (self.steps, &mut self.effort))
    }

    fn banded(
        &mut self,
        program: &Program<'_>,
        sub: &Subproblem<'_>,
        p: &mut [f64; MOST],
        trust: Option<f64>,
        frame: &mut Frame,
    ) -> Outcome {
        let n = sub.ids.len();
        let mut fraction = match trust {
            Some(fraction) => fraction,
            None => {
                let sampled = (n / SAMPLED).max(DIRECT / 2);
                self.draw(program, sub, sampled, frame);
                let sample = Subproblem { ids: &frame.sample, weight: &frame.sample_weight, ..*sub };
                let outcome = self.within(program, &sample, p, None);
                match outcome {
                    Outcome::Balanced => {}
                    Outcome::Spent => return outcome,
                    // Only the sample of a whole program is evidence of a bottleneck.
                    Outcome::Stuck(_) if sub.base.iter().any(|&b| b > 0.0) => return self.direct(program, sub, p),
                    Outcome::Stuck(_) if program.goal == Goal::EqualLevel => return outcome,
                    Outcome::Stuck(_) => {}
                }
                f64::max(1.5 * program.capacity.len() as f64, 3.0) / (sampled as f64).sqrt()
            }
        };
        fraction = fraction.max(0.5 * DIRECT as f64 / n as f64);
        rank_closeness(program, sub.ids, p, &mut frame.closeness);
        let mut base = *sub.base;
        let mut rebuild = true;
        for _ in 0..REPAIRS {
            if rebuild {
                base = self.split(program, sub, p, fraction, frame);
            }
            if frame.band.len() * 10 > n * 7 {
                break;
            }
            let mut moved = *p;
            let band = Subproblem { ids: &frame.band, weight: &frame.band_weight, base: &base };
            match self.within(program, &band, &mut moved, None) {
                Outcome::Balanced => {}
                Outcome::Spent => return Outcome::Spent,
                // The band is too small to balance the fixed demand.
                Outcome::Stuck(_) if trust.is_some() => return self.banded(program, sub, p, None, frame),
                Outcome::Stuck(_) => {
                    fraction *= 2.0;
                    rebuild = true;
                    continue;
                }
            }
            *p = moved;
            let before = frame.band.len();
            let changed = self.ask_again(program, sub, p, &mut base, frame);
            if changed == 0 {
                self.keep(sub, frame);
                return Outcome::Balanced;
            }
            rebuild = changed > before / 2;
            if rebuild && trust.is_some() {
                // The old prices are too far off.
                return self.banded(program, sub, p, None, frame);
            }
            fraction *= if rebuild { 2.0 } else { 1.0 };
        }
        self.direct(program, sub, p)
    }

    /// A stratified sample without repeats (repeats would be exact ties), and what each of it stands for.
    fn draw(&mut self, program: &Program<'_>, sub: &Subproblem<'_>, count: usize, frame: &mut Frame) {
        frame.sample.clear();
        frame.sample_weight.clear();
        measure(program, sub, &mut frame.size);
        let total: f64 = frame.size.iter().sum();
        // A user larger than what one of the sample stands for is in it as itself.
        let large = total / count as f64;
        let (mut all, mut drawn) = (0.0, 0.0);
        for q in 0..count {
            let (from, to) = (q * sub.ids.len() / count, (q + 1) * sub.ids.len() / count);
            let lucky = from + (xorshift(&mut self.random) % (to - from) as u64) as usize;
            for i in from..to {
                let size = frame.size[i];
                if size > large {
                    frame.sample.push(sub.ids[i]);
                    frame.sample_weight.push(-sub.weight[i]);
                    continue;
                }
                all += size;
                if i == lucky {
                    drawn += size;
                    frame.sample.push(sub.ids[i]);
                    frame.sample_weight.push(sub.weight[i]);
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
        program: &Program<'_>,
        sub: &Subproblem<'_>,
        p: &[f64; MOST],
        fraction: f64,
        frame: &mut Frame,
    ) -> [f64; MOST] {
        let last = frame.closeness.len() - 1;
        let at = ((fraction * frame.closeness.len() as f64) as usize).min(last);
        let threshold = frame.closeness[at].min(1.0 - 1e-9);
        self.effort.visits += sub.ids.len() as u64;
        let Frame { band, band_weight, fixed, .. } = frame;
        let mut load = *sub.base;
        band.clear();
        band_weight.clear();
        fixed.clear();
        let mut i = 0;
        each_best(program.capacity.len(), rows(program, sub.ids), &inverse(p), threshold, |_, close| {
            let c = close.trailing_zeros() as usize % MOST;
            if close.count_ones() == 1 {
                load[c] += demand(program, sub, i, c);
                fixed.push(c as u8);
            } else {
                band.push(sub.ids[i]);
                band_weight.push(sub.weight[i]);
                fixed.push(IN_BAND);
            }
            i += 1;
        });
        load
    }

    /// Checks the choices of the fixed users; those who would choose differently join the band.
    fn ask_again(
        &mut self,
        program: &Program<'_>,
        sub: &Subproblem<'_>,
        p: &[f64; MOST],
        base: &mut [f64; MOST],
        frame: &mut Frame,
    ) -> usize {
        self.effort.visits += sub.ids.len() as u64;
        let Frame { band, band_weight, fixed, .. } = frame;
        let before = band.len();
        let mut i = 0;
        each_best(program.capacity.len(), rows(program, sub.ids), &inverse(p), 1.0 - INDIFFERENT, |_, close| {
            let c = fixed[i];
            if c != IN_BAND && close >> c & 1 == 0 {
                let c = c as usize;
                base[c] = f64::max(base[c] - demand(program, sub, i, c), 0.0);
                fixed[i] = IN_BAND;
                band.push(sub.ids[i]);
                band_weight.push(sub.weight[i]);
            }
            i += 1;
        });
        band.len() - before
    }

    /// Records the choices of the fixed users.
    fn keep(&mut self, sub: &Subproblem<'_>, frame: &Frame) {
        for (&id, &fixed) in sub.ids.iter().zip(&frame.fixed) {
            if fixed != IN_BAND {
                self.choice[id as usize] = fixed;
            }
        }
    }
}

/// The rates of some users.
fn rows<'a>(program: &Program<'a>, ids: &[u32]) -> impl Iterator<Item = &'a [f64]> {
    let (k, w) = (program.capacity.len(), program.w);
    ids.iter().map(move |&id| &w[id as usize * k..][..k])
}

/// What the subproblem's i-th user demands of the resource it chose: units per level, or money.
fn demand(program: &Program<'_>, sub: &Subproblem<'_>, i: usize, c: usize) -> f64 {
    match program.goal {
        Goal::EqualLevel => sub.weight[i] / program.w[sub.ids[i] as usize * program.capacity.len() + c],
        Goal::Equilibrium => sub.weight[i],
    }
}

/// The size of each user, roughly: what it needs at its largest rate, or its income.
fn measure(program: &Program<'_>, sub: &Subproblem<'_>, size: &mut Vec<f64>) {
    size.clear();
    size.extend_from_slice(sub.weight);
    if program.goal == Goal::EqualLevel {
        let mut sizes = size.iter_mut();
        each_best(program.capacity.len(), rows(program, sub.ids), &[1.0; MOST], 1.0, |greatest, _| {
            sizes.next().into_iter().for_each(|size| *size /= greatest);
        });
    }
}

fn inverse(p: &[f64; MOST]) -> [f64; MOST] {
    std::array::from_fn(|j| 1.0 / p[j])
}

/// How close the second-best resource of some of the users is to their best, closest first.
fn rank_closeness(program: &Program<'_>, ids: &[u32], p: &[f64; MOST], closeness: &mut Vec<f64>) {
    let inverse = inverse(p);
    closeness.clear();
    closeness.extend(ids.iter().step_by((ids.len() / QUANTILE).max(1)).map(|id| {
        let (mut best, mut second) = (0.0, 0.0);
        for (w, inverse) in rows(program, std::slice::from_ref(id)).flatten().zip(&inverse) {
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
pub(super) fn start_prices(program: &Program<'_>) -> [f64; MOST] {
    let (n, k) = (program.weight.len(), program.capacity.len());
    let (mut logs, mut counts) = ([0.0; MOST], [0.0; MOST]);
    for w in program.w.chunks_exact(k).step_by((n / 1000).max(1)) {
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
    scale_prices(program, &mut p);
    p
}

/// Scales to `m·p = 1`, or to all the money there is.
pub(super) fn scale_prices(program: &Program<'_>, p: &mut [f64; MOST]) {
    let total = match program.goal {
        Goal::EqualLevel => 1.0,
        Goal::Equilibrium => program.weight.iter().sum(),
    };
    let unit = total / program.capacity.iter().zip(p.iter()).map(|(m, p)| m * p).sum::<f64>();
    p.iter_mut().for_each(|p| *p *= unit);
}
