//! Trading on Gavel's measured rates gains what it should over bare ticket shares.

use arles_core::allocate::{ClassId, Members, Problem, User, find_policy};
use arles_core::{Round, TenantId, Time, WorkloadId};
use arles_sim::rates::RateTable;

const GPUS: f64 = 8.0;
const TENANTS: usize = 20;
const DRAWS: usize = 60;

/// 20 tenants with one random single-GPU workload each, any number of jobs, 8 GPUs of each of three kinds. Throughput is
/// in speed-ups over everybody's slowest kind.
#[test]
fn trading_gains_a_sixth_over_equal_shares() {
    let Some(path) = arles_testing::shared("data/gavel/simulation_throughputs.json") else { return };
    let table = RateTable::from_file(&path).expect("a rate table");
    let workloads = measured(&table);
    assert_eq!(workloads.len(), 26);
    let policy = (find_policy("gandiva-fair").expect("in the table").make)();
    let (mut seed, mut gains) = (1u64, Vec::new());
    for _ in 0..DRAWS {
        let mut rates = Vec::new();
        for _ in 0..TENANTS {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            rates.extend_from_slice(&workloads[(seed >> 33) as usize % workloads.len()]);
        }
        let users = (0..TENANTS as u32).map(user).collect();
        let problem = Problem::new(Round(0), vec![GPUS; 3], users, rates).expect("a sound problem");
        let speedups = problem.speedups();
        let answer = policy.allocate(&problem).expect("an answer");
        let total: f64 = (answer.grants().iter())
            .map(|grant| match grant.members {
                Members::One(u) => grant.gangs * speedups[u as usize * 3 + grant.kind.index()],
                Members::Two(..) => 0.0,
            })
            .sum();
        gains.push(total / (speedups.iter().sum::<f64>() * GPUS / TENANTS as f64));
    }
    let mean = gains.iter().sum::<f64>() / DRAWS as f64;
    let most = gains.iter().copied().fold(0.0, f64::max);
    println!("total throughput over equal shares: mean {mean:.3}, most {most:.3}");
    assert!((mean - 1.16).abs() < 0.0116, "mean gain {mean}");
    assert!((most - 1.20).abs() < 0.024, "largest gain {most}");
}

/// Rates of all workloads on v100, p100 and k80, alone on one GPU.
fn measured(table: &RateTable) -> Vec<[f64; 3]> {
    let kinds = ["v100", "p100", "k80"].map(|name| table.find_kind(name).expect("measured"));
    let workloads = 0..table.workloads().len() as u32;
    let row = |w| kinds.map(|kind| table.solo(w, kind, 1, false).unwrap_or(0.0));
    workloads.map(row).filter(|row| row.iter().any(|&r| r > 0.0)).collect()
}

fn user(i: u32) -> User {
    User {
        class: ClassId(i),
        tenant: TenantId(i),
        tenant_weight: 1.0,
        workload: WorkloadId(i),
        gang: 1,
        jobs: 1000,
        job_weight: 1.0,
        parts: 1,
        floor: None,
        job: None,
        arrived: Time::ZERO,
        attained_gpu_seconds: 0.0,
        steps_done: 0.0,
        steps_left: 1.0,
        held: None,
    }
}
