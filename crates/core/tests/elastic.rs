//! Sizes of elastic jobs: against brute force, within what was asked for, and no worse than one size for all where that is claimed (docs/fair-energy.md).

use arles_core::JobSpec;
use arles_core::sizing::{Sizable, Supply, choose};
use proptest::prelude::*;

/// Jobs of one kind: tenant, fewest, how many more, how well they scale.
type Drawn = (usize, u32, u32, f64);

/// r(n) = n^scaling: concave, and so is its logarithm.
fn rate(gpus: u32, scaling: f64) -> f64 {
    f64::from(gpus).powf(scaling)
}

fn sizable(&(tenant, least, more, scaling): &Drawn) -> Sizable {
    let sizes: Vec<u32> = (least..=least + more).collect();
    let rates = sizes.iter().map(|&gpus| rate(gpus, scaling)).collect();
    Sizable { pool: tenant, tenant, weight: 1.0, sizes, rates, home: None }
}

fn drawn(tenants: usize, jobs: usize) -> impl Strategy<Value = Vec<Drawn>> {
    prop::collection::vec((0..tenants, 1u32..3, 0u32..5, 0.3f64..1.0), 1..=jobs)
}

/// The largest Σ ln r that whole sizes can have.
fn brute_force(jobs: &[Sizable], gpus: u32) -> f64 {
    let Some((first, rest)) = jobs.split_first() else { return 0.0 };
    let fits = first.sizes.iter().zip(&first.rates).filter(|(size, _)| **size <= gpus);
    fits.map(|(size, rate)| rate.ln() + brute_force(rest, gpus - size)).fold(f64::NEG_INFINITY, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// One pool, one kind: the greedy choice is the best there is.
    #[test]
    fn sizes_are_the_best_there_are(drawn in drawn(1, 5), gpus in 1u32..14) {
        let jobs: Vec<Sizable> = drawn.iter().map(sizable).collect();
        let supply = Supply { gpus: vec![gpus], weights: vec![1.0], limits: vec![u32::MAX] };
        let chosen = choose(&supply, &jobs);
        let least: u32 = jobs.iter().map(|job| job.sizes[0]).sum();
        if least > gpus {
            return Ok(());
        }
        let all: u32 = jobs.iter().zip(&chosen).map(|(job, &at)| job.sizes[at]).sum();
        prop_assert!(all <= gpus);
        let value: f64 = jobs.iter().zip(&chosen).map(|(job, &at)| job.rates[at].ln()).sum();
        prop_assert!((value - brute_force(&jobs, gpus)).abs() < 1e-9, "{value} of {}", brute_force(&jobs, gpus));
    }

    /// Several kinds, tenants with limits, gangs that fit on some kinds only: a job that grew has a kind with that many GPUs, and a tenant's jobs that grew
    /// are within its limit.
    #[test]
    fn sizes_fit(
        drawn in drawn(3, 8),
        gpus in prop::collection::vec(0u32..9, 1..4),
        limits in prop::collection::vec(1u32..20, 3),
        weights in prop::collection::vec(0.5f64..4.0, 3),
        misfits in any::<u64>(),
    ) {
        let mut jobs: Vec<Sizable> = drawn.iter().map(sizable).collect();
        for (i, job) in jobs.iter_mut().enumerate() {
            let one = std::mem::take(&mut job.rates);
            let fits = |j: usize| misfits >> ((i * 4 + j) % 64) & 3 != 0;
            job.rates = one.iter().flat_map(|r| (0..gpus.len()).map(move |j| if fits(j) { r * (1.0 + j as f64) } else { 0.0 })).collect();
        }
        let supply = Supply { gpus: gpus.clone(), weights, limits: limits.clone() };
        let chosen = choose(&supply, &jobs);
        for tenant in 0..3 {
            let own = || jobs.iter().zip(&chosen).filter(|(job, _)| job.tenant == tenant);
            let grown = own().filter(|(_, at)| **at > 0).map(|(job, &at)| job.sizes[at]).sum::<u32>();
            prop_assert!(grown <= limits[tenant], "a tenant with a limit of {} has grown to {grown}", limits[tenant]);
        }
        for (job, &at) in jobs.iter().zip(&chosen).filter(|(_, at)| **at > 0) {
            let fits = (0..gpus.len()).any(|j| job.rates[at * gpus.len() + j] > 0.0 && gpus[j] >= job.sizes[at]);
            prop_assert!(fits, "{} GPUs of one kind are nowhere", job.sizes[at]);
        }
    }

    /// Tenants with equal weights whose parts are whole numbers: the product of a tenant's rates is no less than with one size for all, be that the fewest or the
    /// most GPUs, where its part is enough for that. (Where it is not, larger gangs that take turns may have a larger sum: jobs of 1-2 and of 2 GPUs on 3.)
    #[test]
    fn nobody_is_worse_off_than_with_one_size_for_all(drawn in drawn(3, 8), each in 1u32..12) {
        let jobs: Vec<Sizable> = drawn.iter().map(sizable).collect();
        let supply = Supply { gpus: vec![3 * each], weights: vec![1.0; 3], limits: vec![u32::MAX; 3] };
        let chosen = choose(&supply, &jobs);
        for tenant in 0..3 {
            let own = || jobs.iter().zip(&chosen).filter(|(job, _)| job.tenant == tenant);
            let ours: f64 = own().map(|(job, &at)| job.rates[at].ln()).sum();
            for most in [false, true] {
                let at = |job: &Sizable| if most { job.sizes.len() - 1 } else { 0 };
                let gpus: u32 = own().map(|(job, _)| job.sizes[at(job)]).sum();
                let fixed: f64 = own().map(|(job, _)| job.rates[at(job)].ln()).sum();
                prop_assert!(gpus > each || ours >= fixed - 1e-9, "tenant {tenant} of {drawn:?} on {each} each: {chosen:?}");
            }
        }
    }
}

#[test]
fn ranges_are_read_as_sizes() {
    let sizes = |gang, most| JobSpec { gang, largest_gang: Some(most), ..JobSpec::default() }.sizes();
    assert_eq!(sizes(1, 4), [1, 2, 3, 4]);
    assert_eq!(sizes(2, 2), [2]);
    assert_eq!(sizes(2, 20), [2, 4, 8, 16, 20]);
    assert_eq!(JobSpec::default().sizes(), [1]);
}
