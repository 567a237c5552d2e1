//! How rates grow with gangs, beyond what the model says: learned from whoever was measured on several sizes.
//!
//! Of a workload measured on g₀ GPUs, the smallest of its gangs, and on g,
//!
//! ```text
//! ln rate(g) − ln rate(g₀) = ln model(g) − ln model(g₀) + c·ln(g/g₀) + ε,      c ~ N(m, τ²),  ε ~ N(0, σ²)
//! ```
//!
//! c is a property of the workload: how it is divided, and over what it exchanges. m is the mean c of its family drawn towards that of all, that drawn towards 0; τ is how far
//! workloads were from what the others would have made one expect of them, apart for those with a relative and, their families left out, for strangers; σ how far their sizes lie from one line. A few
//! gangs as the model has them count as well ([`WORTH`]), so that the first that is measured does not decide. Where the workload itself was measured on several sizes, c is conditioned
//! on these, and the nearest size is where it starts from.

use crate::catalog::MEASUREMENT_ERROR;
use crate::evidence::{CellIndex, Evidence};
use crate::method::modelled_scaling;
use std::collections::BTreeMap;

/// Standard deviation of c, and of ε, where nobody was measured, and how many workloads that is worth.
const SLOPE: f64 = 0.15;
const NOISE: f64 = 0.08;
const WORTH: f64 = 3.0;
/// Workloads of all that weigh as much as one of the family.
const STRANGERS: f64 = 1.0;

/// What gangs of everybody teach.
#[derive(Clone, Debug)]
pub(crate) struct GangScaling {
    /// Σ c and how many, of all and by family.
    all: (f64, f64),
    families: BTreeMap<u64, (f64, f64)>,
    /// c by workload and kind, so that nobody is taught by itself.
    own: BTreeMap<(usize, usize), f64>,
    /// τ², without and with a relative.
    spread: [f64; 2],
    /// σ².
    noise: f64,
}

/// What was measured of one workload on several sizes.
struct Line {
    /// (x, r): ln(g/g₀), and what the model leaves there.
    points: Vec<(f64, f64)>,
    /// Σ x², Σ x·r.
    squares: f64,
    product: f64,
}

impl Line {
    fn new(evidence: &Evidence, workload: usize, kind: usize) -> Option<Self> {
        let sizes = sizes(evidence, workload, kind);
        let &(first, least) = sizes.first()?;
        let modelled = |gang: u32| modelled_scaling(evidence, workload, kind, gang);
        let left = |&(gang, ln): &(u32, f64)| (apart(first, gang), ln - least - modelled(gang) + modelled(first));
        let points: Vec<(f64, f64)> = sizes[1..].iter().map(left).filter(|(_, r)| r.is_finite()).collect();
        let squares = points.iter().map(|(x, _)| x * x).sum();
        let product = points.iter().map(|(x, r)| x * r).sum();
        (!points.is_empty()).then_some(Self { points, squares, product })
    }

    fn slope(&self) -> f64 {
        self.product / self.squares
    }
}

/// The mean square of these errors, drawn towards what is usual.
fn variance(errors: &[f64], usual: f64) -> f64 {
    let squares: f64 = errors.iter().map(|e| e * e).sum();
    (WORTH * usual * usual + squares) / (WORTH + errors.len() as f64)
}

/// ln of how many times as large a gang is.
fn apart(from: u32, to: u32) -> f64 {
    (f64::from(to) / f64::from(from)).ln()
}

/// Sizes measured on a kind with ln rate, the smallest first.
fn sizes(evidence: &Evidence, workload: usize, kind: usize) -> Vec<(u32, f64)> {
    let gangs = evidence.gangs(workload, kind).iter().filter_map(|&gang| {
        let cell = evidence.measured(&CellIndex { workload, partner: None, kind, gang })?;
        Some((gang, cell.rate.ln()))
    });
    let one = (1, evidence.alone(workload, kind));
    std::iter::once(one).chain(gangs).filter(|(_, ln)| ln.is_finite()).collect()
}

impl GangScaling {
    pub(crate) fn new(evidence: &Evidence) -> Self {
        let lines = evidence.with_gangs().filter_map(|at| Some((at, Line::new(evidence, at.0, at.1)?)));
        let lines: Vec<((usize, usize), Line)> = lines.collect();
        let mut scaling = Self {
            all: (0.0, 0.0),
            families: BTreeMap::new(),
            own: lines.iter().map(|(at, line)| (*at, line.slope())).collect(),
            spread: [SLOPE * SLOPE; 2],
            noise: NOISE * NOISE,
        };
        for (&(workload, _), &slope) in &scaling.own {
            let family = scaling.families.entry(evidence.workloads()[workload].marks.family).or_default();
            for sum in [&mut scaling.all, family] {
                *sum = (sum.0 + slope, sum.1 + 1.0);
            }
        }
        let (mut slopes, mut off): ([Vec<f64>; 2], Vec<f64>) = Default::default();
        for ((workload, kind), line) in &lines {
            let (mean, related) = scaling.mean(evidence, *workload, *kind);
            if related {
                slopes[1].push(line.slope() - mean);
            }
            // Whoever has relatives says what is not known of one that has none, too: as if it had none.
            slopes[0].push(line.slope() - scaling.mean_of_strangers(evidence, *workload));
            // A line through one point is exact.
            let points = line.points.iter().filter(|_| line.points.len() > 1);
            off.extend(points.map(|(x, r)| r - x * line.slope()));
        }
        scaling.spread = slopes.map(|errors| variance(&errors, SLOPE));
        scaling.noise = variance(&off, NOISE);
        scaling
    }

    /// m of a workload by everybody else, and whether a relative is among them.
    fn mean(&self, evidence: &Evidence, workload: usize, kind: usize) -> (f64, bool) {
        let own = self.own.get(&(workload, kind)).map_or((0.0, 0.0), |slope| (*slope, 1.0));
        let all = (self.all.0 - own.0, self.all.1 - own.1);
        let all = all.0 / (all.1 + WORTH);
        let family = self.families.get(&evidence.workloads()[workload].marks.family);
        let family = family.map_or((0.0, 0.0), |sum| (sum.0 - own.0, sum.1 - own.1));
        ((family.0 + STRANGERS * all) / (family.1 + STRANGERS), family.1 > 0.5)
    }

    /// m of a workload by everybody outside its family.
    fn mean_of_strangers(&self, evidence: &Evidence, workload: usize) -> f64 {
        let family = self.families.get(&evidence.workloads()[workload].marks.family).copied().unwrap_or_default();
        (self.all.0 - family.0) / (self.all.1 - family.1 + WORTH)
    }

    /// The size from which a gang of a workload is carried over with ln rate there, what that is to be multiplied by, as a logarithm, and its standard error.
    /// `None` for the first where no size was measured: it is then one GPU, of which somebody else knows.
    pub(crate) fn carry(
        &self,
        evidence: &Evidence,
        workload: usize,
        kind: usize,
        gang: u32,
    ) -> (Option<f64>, f64, f64) {
        let sizes = sizes(evidence, workload, kind);
        let nearest = sizes.iter().min_by(|a, b| apart(a.0, gang).abs().total_cmp(&apart(b.0, gang).abs()));
        let (from, base) = nearest.map_or((1, None), |&(from, ln)| (from, Some(ln)));
        let (mean, related) = self.mean(evidence, workload, kind);
        let spread = self.spread[usize::from(related)];
        let (squares, product) = Line::new(evidence, workload, kind).map_or((0.0, 0.0), |l| (l.squares, l.product));
        let precision = 1.0 / spread + squares / self.noise;
        let slope = (mean / spread + product / self.noise) / precision;
        let modelled = |g: u32| modelled_scaling(evidence, workload, kind, g);
        let x = apart(from, gang);
        let variance = x * x / precision + self.noise + MEASUREMENT_ERROR * MEASUREMENT_ERROR;
        (base, modelled(gang) - modelled(from) + slope * x, variance.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Catalog, Key, Measurement};
    use crate::table::Setting;
    use arles_core::{Library, Time};

    /// Six workloads of which nothing is known, each measured alone and in gangs that grow as g^0.5.
    fn evidence(sizes: &[u32], last: &[u32]) -> Evidence {
        let mut catalog = Catalog::default();
        for w in 0..6 {
            for &gang in if w == 5 { last } else { sizes } {
                let rate = (1.0 + f64::from(w)) * f64::from(gang).sqrt();
                let key = Key { workload: format!("own-{w}"), partner: None, kind: "v100".into(), gang };
                let measured = Measurement { rate, watts: None, at: Time::ZERO, error: MEASUREMENT_ERROR };
                catalog.measure(key, &measured).unwrap();
            }
        }
        let kinds = [Library::builtin().kind("v100").unwrap().clone()];
        Evidence::new(&Setting { kinds: &kinds, workloads: &[], catalog: &catalog, seed: 1, progress: &|_| {} })
    }

    #[test]
    fn gangs_of_others_tell_how_one_grows_and_its_own_tell_more() {
        let carried = |last: &[u32]| {
            let evidence = evidence(&[1, 2, 4, 8], last);
            let (base, ln, error) = GangScaling::new(&evidence).carry(&evidence, 5, 0, 8);
            (base.unwrap() + ln - (6.0 * 8f64.sqrt()).ln(), error)
        };
        let (one, two) = (carried(&[1]), carried(&[1, 4]));
        assert!(one.0.abs() < 1.645 * one.1 && one.0.abs() < 0.45, "{one:?}");
        assert!(two.0.abs() < 0.1 && two.1 < one.1, "{two:?}");
    }

    #[test]
    fn where_nobody_was_measured_in_gangs_the_model_speaks_and_is_not_sure() {
        let evidence = evidence(&[1], &[1]);
        let (base, ln, error) = GangScaling::new(&evidence).carry(&evidence, 5, 0, 4);
        assert_eq!(base, Some(6f64.ln()));
        assert!((ln - modelled_scaling(&evidence, 5, 0, 4)).abs() < 1e-12 && error > 0.1);
    }
}
