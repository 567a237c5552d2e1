//! What a partner leaves: a process over r = rate of i beside j over its rate alone, by (i, j, kind), on the scale of ln (1/r − 1 + ε) where most were
//! seen at work, or else of ln r (`contention.rs` says why).
//!
//! Two cells are alike by what their victims i and their partners j have in common, each by a kernel of workloads: `o` nothing, `f` all that is known of
//! both, `c` the counters of a run alone, `m` family, `b` family and batch, `i` identity. A term is a kernel of victims times one of partners, once for
//! all kinds and once more for cells of one kind; besides, the same pair in the other role, the same cell on another kind, and products of
//! three expectations: the performance model's, and what is left where the two want more of the GPU, or of its memory, than there is.
//! Each kind has its own scale and noise (on Gavel's table a V100 varies two to three times as much as the others).
//!
//! The prior mean of two that were seen at work is what their counters say (`contention.rs`) and by how much that was wrong on the whole. Of others it is the performance
//! model's where little was measured, and the mean of what was measured where that is much. Or it is what somebody else says ([`Prior`]), the process being then
//! over what that leaves of ln r.
//!
//! Whatever is measured above r = 1 is no interference: it says by how much such measurements are wrong, which on the first scale is added to what is told of others.
//!
//! A question costs O(n²) once and O(n) after each measurement: its half-solved system is kept (`Answers`).

use super::calibrate::{Hidden, factor};
use super::gaussian::{Covariance, Inverse, Kernel, Posterior, Variances, covariance_of, fit};
use super::kinds::KindTable;
use crate::catalog::MEASUREMENT_ERROR;
use crate::contention::{self, Scale};
use crate::evidence::{Evidence, KnownWorkload, median};
use crate::method::Prediction;
use crate::perf_model;
use crate::residual::UNKNOWN_RELATIVE_RATE;
use crate::rng::Rng;
use crate::traits::{COUNTERS, Metric, alike_in_batch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// So many cells are factored as they are; of more, [`THINNED`] are drawn.
const MOST: usize = 2048;
const THINNED: usize = 1024;
/// With so many, those measured later included, half of the older ones are let go.
const FULL: usize = 3072;
const RECENT: usize = 512;
/// Cells that variances and intervals are found on.
const MOST_FITTED: usize = 520;
const MOST_CALIBRATED: usize = 700;
/// The same of what a prior leaves, which is simpler.
const MOST_FITTED_LEFT: usize = 360;
const LEAST_FITTED: usize = 40;
/// Measured cells that weigh as much as the model in the prior mean.
const MODEL_WORTH: f64 = 20.0;
/// Of what is told of ln r.
const LEAST_ERROR: f64 = 0.02;
/// Numbers that half-solved questions may take.
const MOST_KEPT: usize = 6_000_000;
/// A newcomer with more measured pairs than this is one no more.
const NEWCOMER: u32 = 8;
/// Quantiles behind the factors of intervals, of strangers and of relatives.
const LEVELS: [f64; 2] = [0.93, 0.91];
/// Tabled likeness of so many workloads.
const MOST_TABLED: usize = 512;

/// Kernels of (victims, partners); see the head of the file.
const TERMS: [(Of, Of); 20] = {
    use Of::{All, Batch, Counters, Family, Itself, Nothing};
    [
        (Nothing, Nothing),
        (All, Nothing),
        (Batch, Nothing),
        (Family, Nothing),
        (Itself, Nothing),
        (Nothing, All),
        (Nothing, Batch),
        (Nothing, Family),
        (Nothing, Itself),
        (All, All),
        (All, Batch),
        (Batch, All),
        (Batch, Batch),
        (Itself, All),
        (All, Itself),
        (Itself, Batch),
        (Batch, Itself),
        (Counters, Counters),
        (Counters, Nothing),
        (Nothing, Counters),
    ]
};
/// The same pair in either role, the same cell on another kind, and three expectations.
const EXTRA: usize = 5;
/// v of all kinds, of one kind, of expectations, and ν², before anything is known, by [`Scale`].
const OF_SCALE: [[f64; 4]; 2] = [[0.04, 0.08, 0.1, 0.01], [0.01, 0.02, 0.1, 0.0013]];
/// The same of what a prior leaves, ν² over its variance; and the least part of that variance that stays.
const OF_LEFT: [f64; 4] = [0.01, 0.02, 0.1, 0.15];
const LEAST_LEFT: f64 = 0.01;
/// Cells above r = 1 that say as much as none of the error of measurements.
const FEW_ABOVE: f64 = 10.0;

/// A kernel of workloads.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Of {
    Nothing,
    All,
    Counters,
    Family,
    Batch,
    Itself,
}

/// What somebody else says of a cell (i, j, kind), and its standard error: the prior mean where there is one, the process being over what that leaves, in standard errors.
pub(crate) type Prior<'p> = &'p dyn Fn(usize, usize, usize) -> Option<(f64, f64)>;

/// An error of a measured cell and its standard error, as those of ln r.
type Tell<'t> = &'t dyn Fn(&PairCell, f64, f64) -> (f64, f64);

/// What a process is conditioned on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LooksAt {
    /// All that was measured.
    Everything,
    /// What is measured after the catalog: the catalog has only told the variances of what the prior leaves.
    WhatComes,
    /// Nothing of the catalog, not even for its variances: nobody will ask about it.
    Nothing,
}

/// A cell: i beside j on a kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct PairCell {
    victim: usize,
    partner: usize,
    kind: usize,
    /// By the model or by counters, by the GPU's time, by its memory: ln of what is left, about its usual value; 0 where nobody knows.
    expected: [f64; 3],
    /// Whether the first is by counters.
    counted: bool,
    /// Variance of the measurement.
    noise: f64,
}

impl PairCell {
    fn new(evidence: &Evidence, victim: usize, partner: usize, kind: usize) -> Self {
        let known = |ln: Option<f64>| ln.map_or(0.0, |ln| ln - UNKNOWN_RELATIVE_RATE.ln());
        let counter = |c: usize| {
            let of = |t: usize| evidence.workloads()[t].point[COUNTERS + c] / 3.0 + 0.5;
            let wanted = of(victim) + of(partner);
            (!wanted.is_nan()).then(|| -wanted.max(1.0).ln())
        };
        let model = perf_model::beside(evidence, victim, partner, kind);
        let about = |ln: Option<f64>| ln.map_or(0.0, |ln| ln + 0.35);
        let expected = [known(model), about(counter(0)), about(counter(1))];
        let counted = contention::beside(evidence, victim, partner).is_some();
        Self { victim, partner, kind, expected, counted, noise: 0.0 }
    }

    /// What is expected before any pair was measured, on the scale that pairs are learned on.
    fn expected_on(&self, scale: Scale) -> f64 {
        scale.of(self.expected[0] + UNKNOWN_RELATIVE_RATE.ln())
    }
}

/// How alike workloads are, tabled for the first of them.
#[derive(Clone, Debug)]
struct Workloads {
    metric: Metric,
    n: usize,
    /// All, counters, batch by (i, j).
    table: Arc<Vec<[f32; 3]>>,
}

impl Workloads {
    fn new(evidence: &Evidence) -> Self {
        let n = evidence.workloads().len().min(MOST_TABLED);
        let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        let metric = Metric::new(&evidence.workloads().iter().map(|w| &w.point).collect::<Vec<_>>());
        let of = |(i, j): (usize, usize)| Self::worked_out(&metric, evidence, i, j).map(|x| x as f32);
        let table = Arc::new(pairs.map(of).collect());
        Self { n, table, metric }
    }

    fn worked_out(metric: &Metric, evidence: &Evidence, one: usize, two: usize) -> [f64; 3] {
        if one == two {
            return [1.0; 3];
        }
        let (w, x) = (&evidence.workloads()[one], &evidence.workloads()[two]);
        let family = w.marks.family == x.marks.family;
        let batch = if family { alike_in_batch(&w.point, &x.point) } else { 0.0 };
        [metric.alike(&w.point, &x.point), metric.alike_in_counters(&w.point, &x.point), batch]
    }

    /// By [`Of`].
    fn kernels(&self, evidence: &Evidence, one: usize, two: usize) -> [f64; 6] {
        let [all, counters, batch] = if one < self.n && two < self.n {
            self.table[one * self.n + two].map(f64::from)
        } else {
            Self::worked_out(&self.metric, evidence, one, two)
        };
        let same = one == two;
        let family = same || evidence.workloads()[one].marks.family == evidence.workloads()[two].marks.family;
        [1.0, all, counters, f64::from(u8::from(family)), batch, f64::from(u8::from(same))]
    }
}

/// The covariance of pairs.
#[derive(Clone, Debug)]
pub(super) struct PairTerms {
    kinds: KindTable,
    workloads: Workloads,
}

impl Covariance for PairTerms {
    type Cell = PairCell;

    fn terms(&self, evidence: &Evidence, one: &PairCell, two: &PairCell, out: &mut [f64]) {
        let victims = self.workloads.kernels(evidence, one.victim, two.victim);
        let partners = self.workloads.kernels(evidence, one.partner, two.partner);
        let count = TERMS.len() + EXTRA;
        for (t, (v, p)) in TERMS.iter().enumerate() {
            out[t] = victims[*v as usize] * partners[*p as usize];
        }
        let is = |yes: bool| f64::from(u8::from(yes));
        let cell = one.victim == two.victim && one.partner == two.partner;
        let swapped = one.victim == two.partner && one.partner == two.victim;
        out[TERMS.len()] = is(cell || swapped);
        out[TERMS.len() + 1] = is(cell);
        for e in 0..3 {
            out[TERMS.len() + 2 + e] = one.expected[e] * two.expected[e];
        }
        let same = is(one.kind == two.kind || self.kinds.between(one.kind, two.kind).same);
        for t in 0..count {
            out[count + t] = same * out[t];
        }
    }

    fn group(&self, cell: &PairCell) -> usize {
        cell.kind
    }

    fn noise(&self, cell: &PairCell) -> f64 {
        cell.noise
    }
}

/// Half-solved questions.
#[derive(Default)]
struct Answers {
    kept: BTreeMap<(usize, usize, usize), Arc<Vec<f64>>>,
    numbers: usize,
}

/// What is believed of pairs.
pub(crate) struct Pairs {
    terms: PairTerms,
    variances: Arc<Variances>,
    /// By whether a relative of the newcomer and whether it itself was measured beside somebody.
    factors: [[f64; 2]; 2],
    posterior: Posterior<PairCell>,
    places: Arc<BTreeMap<(usize, usize, usize), usize>>,
    /// Unless it is over what somebody else leaves.
    means: Option<Means>,
    /// Cells of the catalog that it does not look at.
    passed_over: Arc<BTreeSet<(usize, usize, usize)>>,
    /// Families measured beside somebody, each with its workloads.
    families: BTreeMap<u64, Vec<usize>>,
    answers: Mutex<Answers>,
}

impl Clone for Pairs {
    fn clone(&self) -> Self {
        let answers = self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let answers = Answers { kept: answers.kept.clone(), numbers: answers.numbers };
        Self {
            terms: self.terms.clone(),
            variances: Arc::clone(&self.variances),
            factors: self.factors,
            posterior: self.posterior.clone(),
            places: Arc::clone(&self.places),
            means: self.means,
            passed_over: Arc::clone(&self.passed_over),
            families: self.families.clone(),
            answers: Mutex::new(answers),
        }
    }
}

impl Pairs {
    pub(crate) fn new(evidence: &Evidence, seed: u64, prior: Prior<'_>, looks_at: LooksAt) -> Self {
        let groups = evidence.kinds().len();
        let terms = PairTerms { kinds: KindTable::new(evidence.kinds()), workloads: Workloads::new(evidence) };
        let (cells, values) = drawn(evidence, seed);
        let scale = scale(evidence, &cells);
        let means = (looks_at != LooksAt::WhatComes).then(|| Means::new(evidence, &cells, scale));
        let start = start(groups, if means.is_some() { OF_SCALE[scale as usize] } else { OF_LEFT });
        let mut pairs = Self {
            terms,
            variances: Arc::new(start.clone()),
            factors: [[1.0; 2]; 2],
            posterior: Posterior::empty(),
            places: Arc::default(),
            means,
            passed_over: Arc::default(),
            families: BTreeMap::new(),
            answers: Mutex::default(),
        };
        let (cells, y): (Vec<PairCell>, Vec<f64>) =
            cells.iter().zip(&values).filter_map(|(c, ln)| pairs.taken(c, *ln, prior)).unzip();
        let most = match looks_at {
            LooksAt::Everything => MOST_FITTED,
            LooksAt::WhatComes => MOST_FITTED_LEFT,
            LooksAt::Nothing => 0,
        };
        let n = cells.len().min(most);
        if n >= LEAST_FITTED {
            pairs.variances = Arc::new(fit(&pairs.terms, evidence, &cells[..n], &y[..n], &start, &[]));
        }
        let kept = if cells.len() <= MOST { cells.len() } else { THINNED };
        let mut kernel = Kernel::new(&pairs.terms, evidence, &pairs.variances);
        if looks_at == LooksAt::Everything {
            let posterior = Posterior::new(&mut kernel, &cells[..kept], &y[..kept]);
            let n = cells.len().min(MOST_CALIBRATED);
            let tell = |c: &PairCell, error: f64, sd: f64| pairs.told_of(evidence, c, error, sd);
            let factors = calibrated(evidence, &mut kernel, &cells[..n], &y[..n], &tell);
            (pairs.posterior, pairs.factors) = (posterior, factors);
        } else {
            pairs.passed_over = Arc::new(cells.iter().map(|c| (c.victim, c.partner, c.kind)).collect());
        }
        pairs.index();
        for cell in &cells {
            pairs.enter(evidence, cell.victim);
            pairs.enter(evidence, cell.partner);
        }
        pairs
    }

    fn index(&mut self) {
        let key = |c: &PairCell| (c.victim, c.partner, c.kind);
        self.places = Arc::new(self.posterior.cells().iter().enumerate().map(|(at, c)| (key(c), at)).collect());
    }

    /// A workload was measured beside another.
    fn enter(&mut self, evidence: &Evidence, workload: usize) {
        let family = self.families.entry(evidence.workloads()[workload].marks.family).or_default();
        if !family.contains(&workload) {
            family.push(workload);
        }
    }

    /// A measured cell with its noise, and what the prior leaves of it; `None` where it is over what somebody else leaves, who has nothing to say.
    fn taken(&self, cell: &PairCell, ln: f64, prior: Prior<'_>) -> Option<(PairCell, f64)> {
        match &self.means {
            None => {
                let (mean, standard_error) = prior(cell.victim, cell.partner, cell.kind)?;
                Some((*cell, (ln - mean) / standard_error))
            }
            Some(means) => {
                let noise = match means.scale {
                    Scale::Slowdown => means.scale.error_of(ln, MEASUREMENT_ERROR).powi(2),
                    // ν² has it.
                    Scale::Left => 0.0,
                };
                Some((PairCell { noise, ..*cell }, means.scale.of(ln) - means.of(cell)))
            }
        }
    }

    /// What would have been told of ln r of a measured cell, measured less told, and its standard error, had the process been wrong by so much.
    fn told_of(&self, evidence: &Evidence, cell: &PairCell, error: f64, sd: f64) -> (f64, f64) {
        let ln = evidence.relative(cell.victim, cell.partner, cell.kind);
        let Some(means) = self.means.filter(|means| means.scale == Scale::Slowdown) else {
            return (error, sd.max(LEAST_ERROR));
        };
        let (said, sd) = self.told(means.scale.of(ln) - error, sd);
        (ln - said, sd)
    }

    /// ln r and its standard error.
    fn told(&self, at: f64, sd: f64) -> (f64, f64) {
        // On the scale of ln r what is above 0 is cut by whoever asks. Cutting it before intervals are measured made those of new families too narrow (79 instead of 93 % on
        // Gavel's table).
        let Some(means) = self.means.filter(|means| means.scale == Scale::Slowdown) else {
            return (at, sd.max(LEAST_ERROR));
        };
        (means.scale.ln(at), means.scale.error_of_ln(at, sd).hypot(means.above).max(LEAST_ERROR))
    }

    /// ln of what `other` leaves of `workload`.
    pub(super) fn predict(&self, evidence: &Evidence, (workload, other, kind): (usize, usize, usize)) -> Prediction {
        let asked = PairCell::new(evidence, workload, other, kind);
        let mut kernel = Kernel::new(&self.terms, evidence, &self.variances);
        let key = (workload, other, kind);
        let lock = || self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = lock().kept.get(&key).cloned();
        let before = known.as_ref().map_or(0, |v| v.len());
        let v = match known {
            Some(v) if v.len() == self.posterior.len() => v,
            known => {
                let mut v = known.map_or_else(Vec::new, |v| v.as_ref().clone());
                self.posterior.solve(&mut kernel, &asked, &mut v);
                let v = Arc::new(v);
                let mut answers = lock();
                if answers.numbers > MOST_KEPT {
                    *answers = Answers::default();
                } else {
                    answers.numbers += v.len() - before;
                    answers.kept.insert(key, Arc::clone(&v));
                }
                v
            }
        };
        let (mean, explained) = self.posterior.answer(&v);
        let variance = kernel.between(&asked, &asked) + kernel.noise(&asked) - explained;
        let seen = [workload, other].map(|t| evidence.measured_pairs(t));
        let newcomer = if seen[0] <= seen[1] { workload } else { other };
        let least = seen[0].min(seen[1]);
        let kin = self.families.get(&evidence.workloads()[newcomer].marks.family);
        let related = kin.is_some_and(|family| family.iter().any(|&t| t != newcomer));
        let factor = if least > NEWCOMER { 1.0 } else { self.factors[usize::from(related)][usize::from(least > 0)] };
        let expected = self.means.map_or(0.0, |means| means.of(&asked));
        let (ln, standard_error) = self.told(expected + mean, variance.max(1e-6).sqrt());
        Prediction::new(ln, standard_error * factor, least > 0)
    }

    /// How far what was measured moves a cell from its prior mean, in standard errors of that, and the part of these that is left.
    pub(crate) fn moved(&self, evidence: &Evidence, (workload, other, kind): (usize, usize, usize)) -> (f64, f64) {
        let asked = PairCell::new(evidence, workload, other, kind);
        let mut kernel = Kernel::new(&self.terms, evidence, &self.variances);
        let mut v = Vec::new();
        self.posterior.solve(&mut kernel, &asked, &mut v);
        let (mean, explained) = self.posterior.answer(&v);
        let whole = kernel.between(&asked, &asked) + kernel.noise(&asked);
        (mean, (1.0 - explained / whole).clamp(LEAST_LEFT, 1.0).sqrt())
    }

    /// `workload` was measured beside `other`.
    pub(crate) fn learn(
        &mut self,
        evidence: &Evidence,
        (workload, other, kind): (usize, usize, usize),
        prior: Prior<'_>,
    ) {
        let ln = evidence.relative(workload, other, kind).min(0.0);
        if !ln.is_finite() {
            return;
        }
        let taken = self.taken(&PairCell::new(evidence, workload, other, kind), ln, prior);
        let Some((cell, y)) = taken else { return };
        if let Some(&at) = self.places.get(&(workload, other, kind)) {
            return self.posterior.correct(at, y);
        }
        if self.posterior.len() >= FULL {
            self.let_go(evidence, prior);
        }
        Arc::make_mut(&mut self.places).insert((workload, other, kind), self.posterior.len());
        let mut kernel = Kernel::new(&self.terms, evidence, &self.variances);
        self.posterior.append(&mut kernel, cell, y);
        self.enter(evidence, workload);
        self.enter(evidence, other);
    }

    /// Half of what is not recent is forgotten, so that an observation stays cheap.
    fn let_go(&mut self, evidence: &Evidence, prior: Prior<'_>) {
        let all = self.posterior.cells();
        let keep: Vec<PairCell> =
            all.iter().enumerate().filter(|(i, _)| i % 2 == 1 || i + RECENT > all.len()).map(|(_, c)| *c).collect();
        let taken = |c: &PairCell| self.taken(c, evidence.relative(c.victim, c.partner, c.kind).min(0.0), prior);
        let (keep, y): (Vec<PairCell>, Vec<f64>) = keep.iter().filter_map(taken).unzip();
        let mut kernel = Kernel::new(&self.terms, evidence, &self.variances);
        self.posterior = Posterior::new(&mut kernel, &keep, &y);
        self.index();
        self.answers = Mutex::default();
    }

    pub(crate) fn add_kind(&mut self, evidence: &Evidence, measured: bool, prior: Prior<'_>) {
        self.terms.kinds = KindTable::new(evidence.kinds());
        if measured {
            let kind = evidence.kinds().len() - 1;
            for workload in 0..evidence.workloads().len() {
                self.learn_row(evidence, workload, kind, prior);
            }
        }
    }

    /// Takes over all that was measured of a workload beside others on a kind.
    pub(crate) fn learn_row(&mut self, evidence: &Evidence, workload: usize, kind: usize, prior: Prior<'_>) {
        let others: Vec<usize> = evidence.beside_row(workload, kind).iter().map(|(other, _)| other).collect();
        for other in others {
            let known = self.passed_over.contains(&(workload, other, kind));
            if !known || self.places.contains_key(&(workload, other, kind)) {
                self.learn(evidence, (workload, other, kind), prior);
            }
        }
    }
}

/// Whether most of the measured cells, or of all workloads where there are none, are about somebody who was seen at work.
fn scale(evidence: &Evidence, cells: &[PairCell]) -> Scale {
    let (counted, all) = if cells.is_empty() {
        let seen = |w: &KnownWorkload| !w.point[COUNTERS].is_nan();
        (evidence.workloads().iter().filter(|w| seen(w)).count(), evidence.workloads().len())
    } else {
        (cells.iter().filter(|cell| cell.counted).count(), cells.len())
    };
    if 2 * counted > all { Scale::Slowdown } else { Scale::Left }
}

/// What is expected before the process has its say.
#[derive(Clone, Copy, Debug)]
struct Means {
    scale: Scale,
    /// Mean of what was measured, and its weight against the model.
    mean: f64,
    weight: f64,
    /// By how much counters were wrong on the whole, drawn to 0: the median, since two of twelve workloads may be wrong by far.
    counters: f64,
    /// Error of measurements of ln r, by those above r = 1.
    above: f64,
}

impl Means {
    fn new(evidence: &Evidence, cells: &[PairCell], scale: Scale) -> Self {
        let (mut all, mut counted, mut above) = ((0.0, 0.0), Vec::new(), (0.0, 0.0));
        let add = |sum: &mut (f64, f64), x: f64| *sum = (sum.0 + x, sum.1 + 1.0);
        for cell in cells {
            let ln = evidence.relative(cell.victim, cell.partner, cell.kind);
            add(&mut all, scale.of(ln));
            if cell.counted {
                counted.push(scale.of(ln) - cell.expected_on(scale));
            }
            if ln > 0.0 {
                add(&mut above, ln * ln);
            }
        }
        let n = counted.len() as f64;
        Self {
            scale,
            mean: all.0 / f64::max(all.1, 1.0),
            weight: all.1 / (all.1 + MODEL_WORTH),
            counters: n / (n + MODEL_WORTH) * median(counted).unwrap_or(0.0),
            above: (above.0 / (above.1 + FEW_ABOVE)).sqrt(),
        }
    }

    fn of(&self, cell: &PairCell) -> f64 {
        match cell.counted {
            true => cell.expected_on(self.scale) + self.counters,
            false => self.weight * self.mean + (1.0 - self.weight) * cell.expected_on(self.scale),
        }
    }
}

fn start(groups: usize, [shared, special, expected, noise]: [f64; 4]) -> Variances {
    let mut terms = vec![shared; TERMS.len() + EXTRA];
    terms.extend(vec![special; TERMS.len() + EXTRA]);
    for e in 0..3 {
        terms[TERMS.len() + 2 + e] = expected;
    }
    Variances::new(&terms, noise, groups, true)
}

/// Measured cells, whole pairs in random order, and their values.
fn drawn(evidence: &Evidence, seed: u64) -> (Vec<PairCell>, Vec<f64>) {
    let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
    for kind in 0..evidence.kinds().len() {
        for one in 0..evidence.workloads().len() {
            let others = evidence.partners(one, kind).into_iter().filter(|two| *two >= one);
            pairs.extend(others.map(|two| (one, two, kind)));
        }
    }
    Rng::new(seed, "pairs").shuffle(&mut pairs);
    let (mut cells, mut values) = (Vec::new(), Vec::new());
    for (one, two, kind) in pairs {
        for (victim, partner) in [(one, two), (two, one)].into_iter().take(if one == two { 1 } else { 2 }) {
            let ln = evidence.relative(victim, partner, kind).min(0.0);
            if ln.is_finite() {
                cells.push(PairCell::new(evidence, victim, partner, kind));
                values.push(ln);
            }
        }
    }
    (cells, values)
}

/// Factors of intervals: each workload hidden in turn, with its family and without, before and after one of its pairs was seen.
fn calibrated(
    evidence: &Evidence,
    kernel: &mut Kernel<'_, PairTerms>,
    cells: &[PairCell],
    y: &[f64],
    tell: Tell<'_>,
) -> [[f64; 2]; 2] {
    if cells.len() < 2 * LEAST_FITTED {
        return [[1.0; 2]; 2];
    }
    let whole = Inverse::new(covariance_of(kernel, cells), y);
    let family = |t: usize| evidence.workloads()[t].marks.family;
    let mut told: [[Vec<(f64, f64)>; 2]; 2] = Default::default();
    let mut workloads: Vec<usize> = cells.iter().map(|c| c.victim).collect();
    workloads.sort_unstable();
    workloads.dedup();
    let mut families: Vec<u64> = workloads.iter().map(|&t| family(t)).collect();
    families.sort_unstable();
    families.dedup();
    let mut score = |block: &[usize], workload: usize, hidden: &Hidden, related: usize| {
        let names = |c: &PairCell, t: usize| c.victim == t || c.partner == t;
        let outside = |c: &PairCell| related == 1 || family(c.victim) != family(c.partner);
        let own: Vec<usize> =
            (0..block.len()).filter(|&i| names(&cells[block[i]], workload) && outside(&cells[block[i]])).collect();
        let mut tell = |seen: usize, of: &[usize], errors: Vec<(f64, f64)>| {
            let ln = |(i, (error, sd)): (&usize, (f64, f64))| tell(&cells[block[*i]], error, sd);
            told[related][seen].extend(of.iter().zip(errors).map(ln));
        };
        tell(0, &own, hidden.given(&[], own.iter().copied()));
        let Some(&first) = own.first() else { return };
        let first = &cells[block[first]];
        let same = |c: &PairCell| names(c, first.victim) && names(c, first.partner) && c.kind == first.kind;
        let seen: Vec<usize> = own.iter().copied().filter(|&i| same(&cells[block[i]])).collect();
        let rest: Vec<usize> = own.iter().copied().filter(|i| !seen.contains(i)).collect();
        tell(1, &rest, hidden.given(&seen, rest.iter().copied()));
    };
    let naming = |is: &dyn Fn(usize) -> bool| -> Vec<usize> {
        (0..cells.len()).filter(|&at| is(cells[at].victim) || is(cells[at].partner)).collect()
    };
    for &f in &families {
        let members: Vec<usize> = workloads.iter().copied().filter(|&t| family(t) == f).collect();
        let block = naming(&|t| family(t) == f);
        if block.len() < cells.len() {
            let hidden = Hidden::new(&whole, &block);
            members.iter().for_each(|&workload| score(&block, workload, &hidden, 0));
        }
        if members.len() > 1 {
            for &workload in &members {
                let own = naming(&|t| t == workload);
                score(&own, workload, &Hidden::new(&whole, &own), 1);
            }
        }
    }
    [0, 1].map(|related| [0, 1].map(|seen| factor(&told[related][seen], LEVELS[related])))
}
