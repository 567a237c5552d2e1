//! The population: how fast workloads are on each kind on the whole, for those of which nothing is known but their rates.
//!
//! Of a workload w on kind a, y_wa = ln rate = level_w + κ_a + what is special to the two. Kinds are compared by workloads that
//! were measured on both, never by the means of different workloads. With m_a the performance model's median over the library's
//! workloads of ln rate on a over that on the V100, and s² the variance over workloads of y_b − y_a:
//!
//! ```text
//! κ minimises  Σ_a (κ_a − m_a)²/(½σ²) + Σ_w Σ_{a<b} (2/|S_w|)·(κ_b − κ_a − (y_wb − y_wa))²/s²_ab,      σ = 0.3
//! ```
//!
//! S_w being the kinds that w was measured on, so that its |S_w|²/2 differences count as the |S_w| − 1 that they are. Two kinds
//! that nobody compared differ as the model says, every comparison moves that, and a comparison with a third counts too. C is the inverse
//! of the matrix: the variance of κ_b − κ_a is C_aa + C_bb − 2C_ab. s² of two kinds is that of what was measured, with
//! [`DIFFERENCE`]² as four workloads more. What is said of w on b:
//!
//! - w was measured on kinds S: κ_b + the mean over a ∈ S of y_wa − κ_a, with variance ½s² + ½s²/|S| + that of the κ and of the
//!   measurements. All its other kinds move in proportion with what is measured of it.
//! - w was never measured: κ_b + the mean over all measured cells of y − κ, the library's median workload counting as one, with a
//!   standard error of [`LEVEL`]: a factor of e² to either side. *How many* steps a program does in a second depends on what it
//!   calls a step, so there is no knowing it; ratios between kinds are those of κ.
//!
//! Everything is kept as sums over pairs of kinds: an observation costs a few steps for each, however many workloads there are, in
//! any order. A cell that nobody measured adds nothing, and a kind that nobody measured moves no other.

use arles_core::{Kind, Library, Spread, Workload, model};
use std::sync::LazyLock;

/// σ: standard error of the model's ratio of two kinds, in ln.
const MODELLED: f64 = 0.3;
/// Standard deviation between workloads of the ratio of two kinds, in ln, before anything was measured.
const DIFFERENCE: f64 = 0.35;
/// So many workloads' worth of evidence that is.
const DIFFERENCE_WEIGHT: f64 = 4.0;
/// Standard error of a rate of which nothing is known.
pub(crate) const LEVEL: f64 = 2.0;

/// The kind to which others are compared. Any would do, but always the same one: no kind that is added moves others.
static YARDSTICK: LazyLock<Kind> = LazyLock::new(|| {
    let kinds = Library::builtin().kinds().iter();
    boundless(kinds.max_by_key(|k| k.name == "v100").expect("the library has kinds"))
});

/// ln rate on the yardstick of all workloads of the library, and the median.
static LIBRARY: LazyLock<(Vec<(&'static Workload, f64)>, f64)> = LazyLock::new(|| {
    let of = |w: &'static Workload| Some((w, model::alone(w, &YARDSTICK, 1, Spread::Packed)?.rate.ln()));
    let rates: Vec<(&Workload, f64)> = Library::builtin().workloads().iter().filter_map(of).collect();
    let middle = median(rates.iter().map(|(_, ln)| *ln).collect()).unwrap_or(0.0);
    (rates, middle)
});

/// A kind with room for everything.
pub(crate) fn boundless(kind: &Kind) -> Kind {
    Kind { memory_gib: f64::INFINITY, max_jobs: 2, ..kind.clone() }
}

/// The middle of what is finite; `None` of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|x| x.is_finite());
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// m of a kind.
fn modelled(kind: &Kind) -> f64 {
    let kind = boundless(kind);
    let ratio =
        |(w, ln): &(&Workload, f64)| model::alone(w, &kind, 1, Spread::Packed).map_or(f64::NAN, |p| p.rate.ln() - ln);
    median(LIBRARY.0.iter().map(ratio).collect()).unwrap_or(0.0)
}

/// m of the kind as sold.
fn as_sold(kind: &Kind) -> f64 {
    modelled(&Kind { power_limit: None, ..kind.clone() })
}

/// Differences y_b − y_a between two kinds a < b: Σ, Σ of squares, how many, and the same with the weights 2/|S|.
#[derive(Clone, Copy, Debug, Default)]
struct Differences {
    sum: f64,
    squares: f64,
    count: f64,
    weighted: f64,
    weights: f64,
}

impl Differences {
    /// s².
    fn variance(&self) -> f64 {
        let Self { sum, squares, count, .. } = *self;
        let about_mean = if count > 0.5 { (squares - sum * sum / count).max(0.0) } else { 0.0 };
        (DIFFERENCE_WEIGHT * DIFFERENCE * DIFFERENCE + about_mean) / (DIFFERENCE_WEIGHT + count)
    }
}

/// What is known of one workload on one kind, as if alone on one GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnRate {
    pub(crate) kind: usize,
    pub(crate) ln: f64,
    pub(crate) variance: f64,
}

/// Sums over all measured cells, and what follows from them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Population {
    /// m by kind.
    modelled: Vec<f64>,
    /// The same without power limits.
    as_sold: Vec<f64>,
    /// Σ y and how many, by kind.
    levels: Vec<(f64, f64)>,
    /// By (a, b), a < b.
    differences: Vec<Differences>,
    /// κ by kind.
    kappa: Vec<f64>,
    /// C by (a, b).
    covariance: Vec<f64>,
}

impl Population {
    pub(crate) fn new(kinds: &[Kind]) -> Self {
        let n = kinds.len();
        let mut population = Self {
            modelled: kinds.iter().map(modelled).collect(),
            as_sold: kinds.iter().map(as_sold).collect(),
            levels: vec![(0.0, 0.0); n],
            differences: vec![Differences::default(); n * n],
            ..Self::default()
        };
        population.settle();
        population
    }

    pub(crate) fn add_kind(&mut self, kind: &Kind) {
        let n = self.levels.len();
        self.modelled.push(modelled(kind));
        self.as_sold.push(as_sold(kind));
        self.levels.push((0.0, 0.0));
        let mut wider = vec![Differences::default(); (n + 1) * (n + 1)];
        for (at, known) in self.differences.iter().enumerate() {
            wider[at / n * (n + 1) + at % n] = *known;
        }
        self.differences = wider;
        self.settle();
    }

    /// ln rate of the library's median workload on a kind without a power limit, by the model.
    pub(crate) fn modelled_median(&self, kind: usize) -> f64 {
        LIBRARY.1 + self.as_sold[kind]
    }

    /// ln of the rate on one kind over that on another, of whatever workload.
    pub(crate) fn ratio(&self, from: usize, to: usize) -> f64 {
        self.kappa[to] - self.kappa[from]
    }

    /// How many cells were measured.
    pub(crate) fn cells(&self) -> f64 {
        self.levels.iter().map(|(_, count)| count).sum()
    }

    /// Takes a workload's ln rates by kind out (`sign` −1) or in (1); NaN and −∞ where there is none.
    fn count(&mut self, row: &[f64], sign: f64) {
        let measured: Vec<(usize, f64)> = row.iter().copied().enumerate().filter(|(_, y)| y.is_finite()).collect();
        let weight = 2.0 / measured.len().max(1) as f64;
        for (i, &(a, y)) in measured.iter().enumerate() {
            self.levels[a].0 += sign * y;
            self.levels[a].1 += sign;
            for &(b, other) in &measured[i + 1..] {
                let (d, known) = (other - y, &mut self.differences[a * row.len() + b]);
                known.sum += sign * d;
                known.squares += sign * d * d;
                known.count += sign;
                known.weighted += sign * weight * d;
                known.weights += sign * weight;
            }
        }
    }

    /// A workload's ln rates by kind were `before` and are `after`. [`settle`](Self::settle) when all is told.
    pub(crate) fn moved(&mut self, before: &[f64], after: &[f64]) {
        self.count(before, -1.0);
        self.count(after, 1.0);
    }

    /// Works κ and C out anew.
    pub(crate) fn settle(&mut self) {
        let n = self.levels.len();
        let prior = 2.0 / (MODELLED * MODELLED);
        let (mut matrix, mut right) = (vec![0.0; n * n], vec![0.0; n]);
        for a in 0..n {
            matrix[a * n + a] += prior;
            right[a] += prior * self.modelled[a];
            for b in a + 1..n {
                let known = &self.differences[a * n + b];
                let s2 = known.variance();
                let (w, d) = (known.weights.max(0.0) / s2, known.weighted / s2);
                matrix[a * n + a] += w;
                matrix[b * n + b] += w;
                matrix[a * n + b] -= w;
                matrix[b * n + a] -= w;
                right[a] -= d;
                right[b] += d;
            }
        }
        self.covariance = inverse(matrix, n);
        let kappa = |row: &[f64]| row.iter().zip(&right).map(|(c, r)| c * r).sum();
        self.kappa = self.covariance.chunks_exact(n.max(1)).map(kappa).collect();
    }

    /// ln rate on a kind of a workload of which only `own` is known, and its standard error.
    pub(crate) fn predict(&self, own: &[OwnRate], kind: usize) -> (f64, f64) {
        let kinds = self.levels.len();
        if own.is_empty() {
            let (mut sum, mut count) = (LIBRARY.1, 1.0);
            for (kappa, (level, cells)) in self.kappa.iter().zip(&self.levels) {
                sum += level - cells * kappa;
                count += cells;
            }
            return (self.kappa[kind] + sum / count, LEVEL);
        }
        let c = |a: usize, b: usize| self.covariance[a * kinds + b];
        let n = own.len() as f64;
        let (mut level, mut ratios, mut special, mut measured) = (0.0, 0.0, 0.0, 0.0);
        for rate in own {
            let a = rate.kind;
            level += (rate.ln - self.kappa[a]) / n;
            ratios += (c(a, a) + c(kind, kind) - 2.0 * c(a, kind)).max(0.0) / n;
            special += self.differences[a.min(kind) * kinds + a.max(kind)].variance() / n;
            measured += rate.variance / n;
        }
        (self.kappa[kind] + level, (special / 2.0 + special / (2.0 * n) + ratios + measured / n).sqrt())
    }
}

/// The inverse of a symmetric positive definite matrix, by elimination; its diagonal dominates, so no pivots are looked for.
fn inverse(mut matrix: Vec<f64>, n: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; n * n];
    for a in 0..n {
        inverse[a * n + a] = 1.0;
    }
    for p in 0..n {
        let pivot = matrix[p * n + p];
        for b in 0..n {
            matrix[p * n + b] /= pivot;
            inverse[p * n + b] /= pivot;
        }
        for a in (0..n).filter(|&a| a != p) {
            let factor = matrix[a * n + p];
            for b in 0..n {
                matrix[a * n + b] -= factor * matrix[p * n + b];
                inverse[a * n + b] -= factor * inverse[p * n + b];
            }
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(names: &[&str]) -> Vec<Kind> {
        names.iter().map(|name| Library::builtin().kind(name).unwrap().clone()).collect()
    }

    #[test]
    fn with_nothing_measured_the_model_compares_kinds() {
        let population = Population::new(&kinds(&["k80", "v100", "a100"]));
        let [k80, v100, a100] = [0, 1, 2].map(|kind| population.predict(&[], kind));
        assert!(k80.0 < v100.0 && v100.0 < a100.0, "{k80:?} {v100:?} {a100:?}");
        assert!(v100.0 - k80.0 > 0.5 && k80.1 == LEVEL);
    }

    const NONE: [f64; 2] = [f64::NAN; 2];

    fn ratio(population: &mut Population) -> f64 {
        population.settle();
        population.predict(&[], 1).0 - population.predict(&[], 0).0
    }

    #[test]
    fn measured_ratios_replace_those_of_the_model() {
        let mut population = Population::new(&kinds(&["k80", "v100"]));
        let before = ratio(&mut population);
        // Twenty workloads, from very slow to very fast, each just as fast on both.
        let all: Vec<[f64; 2]> = (0..20).map(|w| [f64::from(w) - 10.0; 2]).collect();
        for y in &all {
            population.moved(&NONE, &[y[0], f64::NAN]);
            population.moved(&[y[0], f64::NAN], y);
        }
        let after = ratio(&mut population);
        assert!(after.abs() < 0.1 && before > 0.5, "{before} {after}");
        // And what is taken back leaves nothing behind.
        for y in &all {
            population.moved(y, &NONE);
        }
        assert!((ratio(&mut population) - before).abs() < 1e-9);
        assert!(population.cells().abs() < 1e-9);
    }

    #[test]
    fn what_differs_between_workloads_is_no_difference_of_kinds() {
        let mut population = Population::new(&kinds(&["v100", "a100"]));
        let before = ratio(&mut population);
        // Only slow ones were measured on the A100, only fast ones on the V100.
        population.moved(&NONE, &[5.0, f64::NAN]);
        population.moved(&NONE, &[f64::NAN, -5.0]);
        let after = ratio(&mut population);
        assert!((after - before).abs() < 1e-9, "{before} {after}");
    }

    #[test]
    fn a_comparison_with_a_third_kind_counts() {
        let mut population = Population::new(&kinds(&["k80", "p100", "v100"]));
        let believed = |p: &Population| p.predict(&[], 2).0 - p.predict(&[], 0).0;
        let before = believed(&population);
        for w in 0..10 {
            let y = f64::from(w);
            population.moved(&[f64::NAN; 3], &[y, y + 3.0, f64::NAN]);
            population.moved(&[f64::NAN; 3], &[f64::NAN, y, y + 3.0]);
        }
        population.settle();
        assert!(before < 4.0 && (believed(&population) - 6.0).abs() < 0.5, "{before} {}", believed(&population));
    }

    #[test]
    fn every_measurement_makes_it_surer() {
        let population = Population::new(&kinds(&["k80", "p100", "v100", "t4", "a100"]));
        let own = |kind: usize| OwnRate { kind, ln: 3.0, variance: 9e-4 };
        let nothing = population.predict(&[], 4);
        let one = population.predict(&[own(0)], 4);
        let four = population.predict(&[own(0), own(1), own(2), own(3)], 4);
        assert!(nothing.1 > one.1 && one.1 > four.1 && nothing.1 > 0.5, "{nothing:?} {one:?} {four:?}");
    }
}
