//! Sizes of elastic jobs: against brute force, within what was asked for, and no worse than one size for all where that is claimed (docs/fair-energy.md).

use arles_core::allocate::{ClassId, Members, Problem, User, find_policy};
use arles_core::sizing::{Sizable, Supply, choose};
use arles_core::{JobSpec, Round, TenantId, Time, WorkloadId};
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

/// What tenants get under `oef-coop` if their jobs have these sizes, each job counted in its own rate on one GPU.
fn served(drawn: &[Drawn], sizes: &[u32], tenants: usize, gpus: u32) -> Vec<f64> {
    let user = |(at, (&(tenant, _, _, _), &gang)): (usize, (&Drawn, &u32))| User {
        class: ClassId(at as u32),
        tenant: TenantId(tenant as u32),
        tenant_weight: 1.0,
        workload: WorkloadId(at as u32),
        gang,
        jobs: 1,
        job_weight: 1.0,
        parts: 1,
        floor: None,
        job: None,
        arrived: Time::ZERO,
        attained_gpu_seconds: 0.0,
        steps_done: 0.0,
        steps_left: 1.0,
        held: None,
    };
    let users: Vec<User> = drawn.iter().zip(sizes).enumerate().map(user).collect();
    let rates = drawn.iter().zip(sizes).map(|(job, &gang)| rate(gang, job.3)).collect::<Vec<_>>();
    let problem = Problem::new(Round(1), vec![f64::from(gpus)], users, rates.clone()).expect("a sound problem");
    let answer = (find_policy("oef-coop").expect("in the table").make)().allocate(&problem).expect("an answer");
    let mut served = vec![0.0; tenants];
    for grant in answer.grants() {
        let Members::One(user) = grant.members else { panic!("nobody shares") };
        served[drawn[user as usize].0] += grant.gangs * rates[user as usize];
    }
    served
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

    /// Several kinds, tenants with limits, gangs that fit on some kinds only: whatever is chosen can be seated, a tenant's limit is
    /// kept unless its jobs are as small as they can be, and no GPU is free that somebody could grow onto.
    #[test]
    fn sizes_fit_and_leave_nothing(
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

    /// Tenants with equal weights whose parts are whole numbers: the worst-off gets no less than with one size for all, be that the fewest or the most GPUs that
    /// every job can use. (All together may get less than with the fewest: a tenant uses its part even where another would make more of it.)
    #[test]
    fn nobody_is_worse_off_than_with_one_size_for_all(drawn in drawn(3, 8), each in 1u32..6) {
        // A gang that can never be had says nothing about sizes.
        let drawn: Vec<Drawn> = drawn.into_iter().filter(|job| job.1 + job.2 <= each).collect();
        let mut present: Vec<usize> = drawn.iter().map(|job| job.0).collect();
        present.sort_unstable();
        present.dedup();
        let drawn: Vec<Drawn> = drawn.iter().map(|job| (present.binary_search(&job.0).unwrap(), job.1, job.2, job.3)).collect();
        if drawn.is_empty() {
            return Ok(());
        }
        let (tenants, gpus) = (present.len(), each * present.len() as u32);
        let jobs: Vec<Sizable> = drawn.iter().map(sizable).collect();
        let supply = Supply { gpus: vec![gpus], weights: vec![1.0; tenants], limits: vec![u32::MAX; tenants] };
        let chosen: Vec<u32> = choose(&supply, &jobs).iter().zip(&jobs).map(|(&at, job)| job.sizes[at]).collect();
        let ours = served(&drawn, &chosen, tenants, gpus);
        for sizes in [drawn.iter().map(|job| job.1).collect::<Vec<_>>(), drawn.iter().map(|job| job.1 + job.2).collect()] {
            let fixed = served(&drawn, &sizes, tenants, gpus);
            let worst = |x: &[f64]| x.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert!(worst(&ours) >= worst(&fixed) * 0.999, "{drawn:?} on {gpus}: {chosen:?} gives {ours:?}, {sizes:?} {fixed:?}");
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
