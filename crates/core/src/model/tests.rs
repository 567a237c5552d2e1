//! What the model promises, on the library's workloads and on kinds nobody sells.

use super::*;
use crate::Library;
use proptest::prelude::*;

fn workload() -> impl Strategy<Value = Workload> {
    (0..Library::builtin().workloads().len()).prop_map(|i| Library::builtin().workloads()[i].clone())
}

/// A kind of the library with its figures moved, and memory for anything.
fn kind() -> impl Strategy<Value = Kind> {
    let factor = || 0.3..3.0f64;
    (0..Library::builtin().kinds().len(), factor(), factor(), factor()).prop_map(|(i, compute, bandwidth, link)| {
        let mut k = faster(&Library::builtin().kinds()[i], compute, bandwidth);
        k.memory_gib = 1e4;
        k.link_gbps *= link;
        k
    })
}

fn faster(k: &Kind, compute: f64, bandwidth: f64) -> Kind {
    Kind {
        fp32_tflops: k.fp32_tflops * compute,
        tf32_tflops: k.tf32_tflops * compute,
        fp16_tflops: k.fp16_tflops * compute,
        int8_tops: k.int8_tops * compute,
        bandwidth_gbps: k.bandwidth_gbps * bandwidth,
        ..k.clone()
    }
}

fn within_limits(k: &Kind, watts: f64, busy: f64) -> bool {
    (k.idle_watts..=k.max_watts).contains(&watts) && (0.0..=1.0).contains(&busy)
}

proptest! {
    #[test]
    fn a_better_kind_is_faster_and_the_roofline_holds(
        w in workload(), k in kind(), compute in 1.0..4.0f64, bandwidth in 1.0..4.0f64
    ) {
        let rate = alone(&w, &k, 1, Spread::Packed).unwrap().rate;
        let better = faster(&k, compute, bandwidth);
        prop_assert!(alone(&w, &better, 1, Spread::Packed).unwrap().rate >= rate);
        prop_assert!(rate > 0.0 && rate <= roofline(&w, &k));
    }

    #[test]
    fn more_gpus_of_a_gang_never_do_more_than_as_many_alone(w in workload(), k in kind(), gang in 1..64u32) {
        let one = alone(&w, &k, 1, Spread::Packed).unwrap().rate;
        let packed = alone(&w, &k, gang, Spread::Packed).unwrap();
        let spread = alone(&w, &k, gang, Spread::Nodes).unwrap();
        prop_assert!(packed.rate <= f64::from(gang) * one * (1.0 + 1e-12));
        prop_assert!(spread.rate <= packed.rate, "spreading must not be faster");
        prop_assert!(within_limits(&k, packed.watts, packed.busy) && within_limits(&k, spread.watts, spread.busy));
    }

    #[test]
    fn sharing_slows_both_and_does_not_depend_on_who_is_named_first(a in workload(), b in workload(), k in kind()) {
        // Some kinds are for one job at a time.
        prop_assume!(k.max_jobs >= 2);
        let together = beside(&a, &b, &k).unwrap();
        let swapped = beside(&b, &a, &k).unwrap();
        prop_assert!(together.own <= alone(&a, &k, 1, Spread::Packed).unwrap().rate);
        prop_assert!(together.partner <= alone(&b, &k, 1, Spread::Packed).unwrap().rate);
        prop_assert_eq!((together.own, together.partner), (swapped.partner, swapped.own));
        prop_assert_eq!((together.watts, together.busy), (swapped.watts, swapped.busy));
        prop_assert!(within_limits(&k, together.watts, together.busy));
    }
}

fn by_name(workload: &str, kind: &str) -> (&'static Workload, &'static Kind) {
    let library = Library::builtin();
    (library.workload(workload).unwrap(), library.kind(kind).unwrap())
}

#[test]
fn what_is_too_large_does_not_run() {
    let check = |name: &str, kind: &str, expect: bool| {
        let (w, k) = by_name(name, kind);
        assert_eq!(alone(w, k, 1, Spread::Packed).is_some(), expect, "{name} on {kind}");
    };
    check("llama3-8b-serve-b1", "t4", false);
    check("llama3-8b-serve-b1", "l4", true);
    check("gpt2-xl-b1", "v100", false);
    check("gpt2-xl-b1", "a100-40gb", true);
    let (w, k) = by_name("resnet50-b64", "k80");
    assert!(beside(w, w, k).is_none(), "two do not fit");
    assert!(beside(w, w, &Kind { memory_gib: 100.0, ..k.clone() }).is_some());
    assert!(beside(w, w, &Kind { memory_gib: 100.0, max_jobs: 1, ..k.clone() }).is_none());
    assert!(alone(w, k, 0, Spread::Packed).is_none());
}

#[test]
fn every_workload_fits_some_kind() {
    let library = Library::builtin();
    for w in library.workloads() {
        assert!(library.kinds().iter().any(|k| alone(w, k, 1, Spread::Packed).is_some()), "{}", w.name);
    }
}

#[test]
fn waiting_jobs_share_well_and_busy_ones_do_not() {
    let total = |name: &str| {
        let (w, k) = by_name(name, "h200");
        let together = beside(w, w, k).unwrap();
        (together.own + together.partner) / alone(w, k, 1, Spread::Packed).unwrap().rate
    };
    assert!(total("recommendation-b512") > 1.1, "{}", total("recommendation-b512"));
    assert!(total("transformer-b16") > 1.0, "{}", total("transformer-b16"));
    assert!(total("gpt2-b16") < 1.05, "{}", total("gpt2-b16"));
}

#[test]
fn small_steps_gain_little_from_a_large_gpu() {
    let speedup = |name: &str| {
        let rate = |kind: &str| {
            let (w, k) = by_name(name, kind);
            alone(w, k, 1, Spread::Packed).unwrap().rate
        };
        rate("h100") / rate("v100")
    };
    assert!(speedup("lm-b5") < speedup("lm-b80"));
    assert!(speedup("dqn-atari-b32") < 1.3);
    assert!(speedup("bert-large-b16") > 2.0);
}
