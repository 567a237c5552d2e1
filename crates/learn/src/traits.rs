//! Everything that may be known of a workload, each part optional: what its author can say, what a run shows, and which software runs it.
//!
//! A [`Workload`] of the library knows nearly all of it, a [`Profile`] some, and a table of measurements whatever its columns say. Estimators that
//! compare workloads do it by [`Point`], in which NaN says "nobody knows"; [`Metric::alike`] is a covariance for points with holes.
//!
//! **Holes.** Where a coordinate is missing it is taken as drawn from N(0, 1), each workload its own draw, and the covariance is the mean over draws:
//!
//! ```text
//! Π_d √(ℓ²/t_d)·exp(−½(x_d − x'_d)²/t_d),   t_d = ℓ² + (how many of the two are missing),   0 in place of what is missing
//! ```
//!
//! and 1 between a workload and itself. A mean of covariances is one, so no set of workloads, however full of holes, gives a matrix that is none.

use crate::profile::{Completed, LIKE};
use arles_core::{Fingerprint, Library, Mode, Precision, Profile, Workload};

/// What is known of a workload. The default: nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Traits {
    /// The model, at whatever batch size and on whatever software.
    pub family: Option<String>,
    /// The work itself: the same under several stacks. The workload's own name where nobody said.
    pub model: Option<String>,
    /// The software that runs it, such as `vllm` or `pt240/eager`.
    pub stack: Option<String>,
    /// As [`Workload::domain`].
    pub domain: Option<String>,
    /// Training or inference.
    pub mode: Option<Mode>,
    /// Arithmetic of the matrix work.
    pub precision: Option<Precision>,
    /// Samples per step on one GPU.
    pub batch: Option<f64>,
    /// Parameters.
    pub params: Option<f64>,
    /// As [`Workload::flops_per_step`].
    pub flops_per_step: Option<f64>,
    /// As [`Workload::bytes_per_step`].
    pub bytes_per_step: Option<f64>,
    /// As [`Workload::kernels_per_step`].
    pub kernels_per_step: Option<f64>,
    /// Device memory needed on one GPU.
    pub memory_gib: Option<f64>,
    /// Share of the time in which the GPU had something to do when it ran alone, 0 to 1.
    pub gpu_utilisation: Option<f64>,
    /// Share of the time in which memory was read or written then, 0 to 1.
    pub bandwidth_utilisation: Option<f64>,
    /// What it drew then over the GPU's limit, 0 to 1.
    pub power_ratio: Option<f64>,
}

/// Coordinates of a point.
const COORDINATES: usize = 19;
/// Where counters of a run begin: GPU, memory, power. (Memory needed follows them and is no counter: it grows with the batch, and as one it was taken for
/// what rules a pair.)
pub(crate) const COUNTERS: usize = 14;
/// A workload as a point; NaN where nobody knows.
pub(crate) type Point = [f64; COORDINATES];

const DOMAINS: [&str; 6] = ["vision", "language", "speech", "recommendation", "diffusion", "reinforcement"];
/// Which coordinate is the logarithm of the batch.
const BATCH: usize = 2;

/// What two workloads may have in common, by name; 0 where nobody said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) family: u64,
    pub(crate) model: u64,
    pub(crate) stack: u64,
}

impl Traits {
    /// All that a workload of the library says.
    #[must_use]
    pub fn of_workload(w: &Workload) -> Self {
        let known = |x: f64| Some(x).filter(|x| *x > 0.0 && x.is_finite());
        Self {
            family: Some(w.family.clone()).filter(|f| !f.is_empty()),
            domain: Some(w.domain.clone()).filter(|d| !d.is_empty()),
            mode: Some(w.mode),
            precision: Some(w.precision),
            batch: known(f64::from(w.batch)),
            params: known(w.params),
            flops_per_step: known(w.flops_per_step),
            bytes_per_step: known(w.bytes_per_step),
            kernels_per_step: known(w.kernels_per_step),
            memory_gib: known(w.memory_gib),
            ..Self::default()
        }
    }

    /// What a profile says, `like` left to whoever has a library.
    #[must_use]
    pub fn of_profile(p: &Profile) -> Self {
        let part = |x: Option<f64>| x.filter(|x| (0.0..=1.0).contains(x));
        let positive = |x: Option<f64>| x.filter(|x| *x > 0.0 && x.is_finite());
        Self {
            domain: p.domain.clone(),
            mode: p.mode,
            precision: p.precision,
            batch: positive(p.batch.map(f64::from)),
            params: positive(p.params),
            memory_gib: positive(p.memory_gib),
            gpu_utilisation: part(p.gpu_utilisation),
            bandwidth_utilisation: part(p.bandwidth_utilisation),
            ..Self::default()
        }
    }

    /// These, and those of another where these say nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            family: self.family.or(other.family),
            model: self.model.or(other.model),
            stack: self.stack.or(other.stack),
            domain: self.domain.or(other.domain),
            mode: self.mode.or(other.mode),
            precision: self.precision.or(other.precision),
            batch: self.batch.or(other.batch),
            params: self.params.or(other.params),
            flops_per_step: self.flops_per_step.or(other.flops_per_step),
            bytes_per_step: self.bytes_per_step.or(other.bytes_per_step),
            kernels_per_step: self.kernels_per_step.or(other.kernels_per_step),
            memory_gib: self.memory_gib.or(other.memory_gib),
            gpu_utilisation: self.gpu_utilisation.or(other.gpu_utilisation),
            bandwidth_utilisation: self.bandwidth_utilisation.or(other.bandwidth_utilisation),
            power_ratio: self.power_ratio.or(other.power_ratio),
        }
    }

    /// As a profile, for whoever completes features from one.
    fn profile(&self) -> Profile {
        Profile {
            like: None,
            domain: self.domain.clone(),
            mode: self.mode,
            precision: self.precision,
            batch: self.batch.map(|b| b.round().clamp(1.0, f64::from(u32::MAX)) as u32),
            // Without parameters, arithmetic tells their size: a multiply-add for each, or more.
            params: self.params.or_else(|| Some(self.flops_per_step? / self.batch.unwrap_or(1.0) / 6.0)),
            memory_gib: self.memory_gib,
            gpu_utilisation: self.gpu_utilisation,
            bandwidth_utilisation: self.bandwidth_utilisation,
        }
    }

    /// Features as far as they can be made up from these.
    pub(crate) fn completed(&self, name: &str, library: &Library) -> Completed {
        let mut completed = Completed::from_profile(name, &self.profile(), library);
        if let Some(w) = &mut completed.features {
            if let Some(family) = &self.family {
                w.family.clone_from(family);
            }
            let (flops, bytes) = (w.flops_per_step, w.bytes_per_step);
            w.flops_per_step = self.flops_per_step.unwrap_or(flops);
            // Traffic that nobody stated grows with arithmetic that somebody did.
            w.bytes_per_step = self.bytes_per_step.unwrap_or(bytes * (w.flops_per_step / flops).clamp(0.01, 100.0));
            w.kernels_per_step = self.kernels_per_step.unwrap_or(w.kernels_per_step);
            if self.flops_per_step.is_some() && self.params.is_some() {
                completed.standard_error = LIKE;
            }
        }
        completed
    }

    /// Its coordinates, sizes as logarithms over a typical spread so that 1 is clearly different.
    pub(crate) fn point(&self) -> Point {
        let ln = |x: Option<f64>| x.map_or(f64::NAN, |x| x.max(1e-3).ln());
        let batch = ln(self.batch);
        let (flops, bytes) = (ln(self.flops_per_step), ln(self.bytes_per_step));
        let mut point = [f64::NAN; COORDINATES];
        point[0] = (ln(self.params) - 17.0) / 3.0;
        point[1] = (flops - batch - 22.0) / 3.0;
        point[BATCH] = (batch - 3.5) / 1.5;
        point[3] = (flops - 25.0) / 3.0;
        point[4] = (bytes - 22.0) / 3.0;
        point[5] = (ln(self.kernels_per_step) - 7.0) / 1.5;
        if let Some(domain) = &self.domain {
            for (d, name) in DOMAINS.iter().enumerate() {
                point[6 + d] = f64::from(domain.eq_ignore_ascii_case(name));
            }
        }
        point[12] = self.mode.map_or(f64::NAN, |m| f64::from(m == Mode::Inference));
        point[13] = self.precision.map_or(f64::NAN, |p| match p {
            Precision::Fp32 => 0.0,
            Precision::Tf32 => 0.4,
            Precision::Fp16 => 0.7,
            Precision::Int8 => 1.0,
        });
        let part = |x: Option<f64>| x.map_or(f64::NAN, |x| (x - 0.5) * 3.0);
        point[COUNTERS] = part(self.gpu_utilisation);
        point[COUNTERS + 1] = part(self.bandwidth_utilisation);
        point[COUNTERS + 2] = part(self.power_ratio);
        point[COUNTERS + 3] = (ln(self.memory_gib) - 1.5) / 1.5;
        point[COUNTERS + 4] = (flops - bytes - 3.0) / 1.0;
        point
    }

    /// By what it may be the same as others.
    pub(crate) fn marks(&self, name: &str) -> Marks {
        let mark = |text: &str| Fingerprint::of(text.as_bytes()).max(1);
        let own = || mark(&format!("only {name}"));
        Marks {
            family: self.family.as_deref().map_or_else(own, mark),
            model: self.model.as_deref().map_or_else(|| mark(name), mark),
            stack: self.stack.as_deref().map_or(0, mark),
        }
    }
}

/// The coordinates in which some workloads differ, and how far apart is far. Coordinates that nobody knows, or that are the same for all, say nothing;
/// among workloads that come later they stay silent, so that nobody's covariance changes with them.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Metric {
    coordinates: Vec<usize>,
    counters: Vec<usize>,
    /// ℓ².
    square: f64,
}

/// ℓ over the root of the number of coordinates, so that strangers are as far apart in many as in few.
const LENGTH: f64 = 0.5;
/// ℓ² of counters alone, and of batches.
const COUNTER_SQUARE: f64 = 1.0;
const BATCH_SQUARE: f64 = 4.0 / 9.0;

impl Metric {
    pub(crate) fn new(points: &[&Point]) -> Self {
        let differ = |d: usize| {
            let mut known = points.iter().map(|p| p[d]).filter(|x| !x.is_nan());
            known.next().is_some_and(|first| known.any(|x| (x - first).abs() > 1e-9))
        };
        let coordinates: Vec<usize> = (0..COORDINATES).filter(|&d| differ(d)).collect();
        let counters: Vec<usize> =
            coordinates.iter().copied().filter(|d| (COUNTERS..COUNTERS + 3).contains(d)).collect();
        let square = LENGTH * LENGTH * coordinates.len().max(1) as f64;
        Self { coordinates, counters, square }
    }

    /// How alike two workloads are by all that is known, 0 to 1. Of one and itself it is 1, which the caller knows.
    pub(crate) fn alike(&self, one: &Point, two: &Point) -> f64 {
        alike(one, two, &self.coordinates, self.square)
    }

    /// The same by the counters of a run.
    pub(crate) fn alike_in_counters(&self, one: &Point, two: &Point) -> f64 {
        alike(one, two, &self.counters, COUNTER_SQUARE)
    }

    /// The product of coordinates, a missing one being 0.
    pub(crate) fn product(&self, one: &Point, two: &Point) -> f64 {
        let sum: f64 = self.coordinates.iter().map(|&d| one[d] * two[d]).filter(|x| !x.is_nan()).sum();
        sum / self.coordinates.len().max(1) as f64
    }
}

/// How alike two batches are.
pub(crate) fn alike_in_batch(one: &Point, two: &Point) -> f64 {
    alike(one, two, &[BATCH], BATCH_SQUARE)
}

fn alike(one: &Point, two: &Point, coordinates: &[usize], square: f64) -> f64 {
    let (mut exponent, mut factor) = (0.0, 1.0);
    for &d in coordinates {
        let (x, y) = (one[d], two[d]);
        let missing = f64::from(u8::from(x.is_nan()) + u8::from(y.is_nan()));
        let t = square + missing;
        let gap = (if x.is_nan() { 0.0 } else { x }) - (if y.is_nan() { 0.0 } else { y });
        exponent += gap * gap / t;
        if missing > 0.0 {
            factor *= square / t;
        }
    }
    (-0.5 * exponent).exp() * f64::sqrt(factor)
}
