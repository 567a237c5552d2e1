//! Ψ: a workload as a point in space, so that "alike" is a distance; and the same for kinds.
//!
//! Only what its author can say before it ever ran: sizes, arithmetic, memory traffic, kernels, domain. Sizes enter as
//! logarithms over a typical spread, so that a step of 1 is "clearly different" in every dimension.
//!
//! `host_seconds` is *not* here: nobody knows it before running, and the library's figures for published workloads were
//! set with their published rates in mind.

use arles_core::{Kind, Library, Mode, Precision, Spread, Workload, model};
use std::sync::LazyLock;

/// Dimensions of Ψ.
pub(crate) const PSI: usize = 16;
/// Which dimension is the logarithm of the batch.
pub(crate) const BATCH: usize = 2;
/// Dimensions of a kind's specification.
pub(crate) const SPEC: usize = 6;

/// A workload as a point.
pub(crate) type Psi = [f64; PSI];
/// A kind as a point.
pub(crate) type Spec = [f64; SPEC];

const DOMAINS: [&str; 6] = ["vision", "language", "speech", "recommendation", "diffusion", "reinforcement"];
/// Sizes span many powers of ten between families; e^SPREAD is "clearly different".
const SPREAD: f64 = 3.0;
/// Inside a family the batch is all that differs, so a smaller step counts.
const BATCH_SPREAD: f64 = 1.5;

/// The kind on which the length of a step is computed, with room for everything.
static YARDSTICK: LazyLock<Kind> = LazyLock::new(|| {
    let mut kind = Library::builtin().kinds().iter().max_by_key(|k| k.name == "v100").expect("there are kinds").clone();
    kind.memory_gib = f64::INFINITY;
    kind
});

/// Ψ of a workload.
pub(crate) fn psi(w: &Workload) -> Psi {
    let batch = f64::from(w.batch.max(1));
    let ln = |x: f64| x.max(1e-3).ln();
    let gpu_seconds = model::alone(w, &YARDSTICK, 1, Spread::Packed).map_or(1e-2, |p| p.busy / p.rate);
    let mut psi = [0.0; PSI];
    psi[0] = (ln(w.params) - 17.0) / SPREAD;
    psi[1] = (ln(w.flops_per_step / batch) - 22.0) / SPREAD;
    psi[BATCH] = (ln(batch) - 3.5) / BATCH_SPREAD;
    psi[3] = (ln(w.flops_per_step) - 25.0) / SPREAD;
    psi[4] = (ln(w.bytes_per_step) - 22.0) / SPREAD;
    psi[5] = (ln(w.kernels_per_step) - 7.0) / SPREAD * 2.0;
    psi[6] = (gpu_seconds.max(1e-9).ln() + 3.0) / SPREAD * 2.0;
    psi[7] = ((gpu_seconds / w.kernels_per_step.max(1.0)).max(1e-9).ln() + 10.0) / SPREAD * 2.0;
    for (d, domain) in DOMAINS.iter().enumerate() {
        psi[8 + d] = f64::from(w.domain == *domain);
    }
    psi[14] = f64::from(w.mode == Mode::Inference);
    psi[15] = match w.precision {
        Precision::Fp32 => 0.0,
        Precision::Tf32 => 0.4,
        Precision::Fp16 => 0.7,
        Precision::Int8 => 1.0,
    };
    psi
}

/// A kind's specification: memory, bandwidth, arithmetic in 32 and 16 bits, power, year.
pub(crate) fn spec(k: &Kind) -> Spec {
    let ln = |x: f64, typical: f64| (x.max(1e-3) / typical).ln();
    [
        ln(k.memory_gib, 24.0),
        ln(k.bandwidth_gbps, 900.0),
        ln(k.fp32_tflops, 16.0),
        ln(k.fp16_tflops, 100.0),
        ln(k.max_watts, 250.0) * 2.0,
        (f64::from(k.year) - 2019.0) / 4.0,
    ]
}

/// Squared distance of two workloads, every dimension counted alike.
pub(crate) fn distance2(one: &Psi, two: &Psi) -> f64 {
    one.iter().zip(two).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_sizes_of_a_family_are_nearer_than_other_families() {
        let library = Library::builtin();
        let at = |name: &str| psi(library.workload(name).unwrap());
        let (a, b, other) = (at("lm-b10"), at("lm-b20"), at("resnet50-b32"));
        assert!(distance2(&a, &b) < distance2(&a, &other));
        assert!(library.workloads().iter().all(|w| psi(w).iter().all(|x| x.is_finite() && x.abs() < 8.0)));
        assert!(library.kinds().iter().all(|k| spec(k).iter().all(|x| x.is_finite() && x.abs() < 8.0)));
    }

    #[test]
    fn host_time_is_not_looked_at() {
        let mut w = Library::builtin().workload("a3c-b4").unwrap().clone();
        let before = psi(&w);
        w.host_seconds = 5.0;
        let moved: f64 = distance2(&before, &psi(&w));
        assert!(moved < 1e-18, "{moved}");
    }
}
