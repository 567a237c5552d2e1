//! Random problems: ties, zeros, one user, one kind, more users than GPUs, huge and tiny rates.

use arles_core::allocate::{ClassId, PairRates, Problem, User};
use arles_core::{JobId, KindId, Round, TenantId, Time, WorkloadId};
use proptest::prelude::*;

/// One user before it is put into a problem.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) gang: u32,
    pub(crate) jobs: u32,
    pub(crate) weight: f64,
    pub(crate) attained_gpu_seconds: f64,
    pub(crate) steps_left: f64,
    pub(crate) rates: Vec<f64>,
}

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => Just(0.0),
        2 => (1u32..4).prop_map(f64::from),
        4 => 0.1..10.0f64,
        1 => 1e-9..1e-6f64,
        1 => 1e6..1e9f64,
    ]
}

fn draft(kinds: usize, single: bool) -> impl Strategy<Value = Draft> {
    let jobs = if single { 1u32..2 } else { 1u32..9 };
    let gang = prop_oneof![6 => Just(1u32), 1 => Just(2u32), 1 => Just(4u32), 1 => Just(8u32)];
    let steps_left = prop_oneof![Just(1000.0), 1.0..1e6f64];
    (gang, jobs, 0.5..4.0f64, 0.0..1e6f64, steps_left, prop::collection::vec(rate(), kinds)).prop_map(
        |(gang, jobs, weight, attained_gpu_seconds, steps_left, rates)| Draft {
            gang,
            jobs,
            weight,
            attained_gpu_seconds,
            steps_left,
            rates,
        },
    )
}

/// Anything that a scheduler may ask: gangs, few jobs, kinds that do not fit, kinds that are away.
pub(crate) fn any_problem(single: bool) -> impl Strategy<Value = Problem> {
    (1usize..6).prop_flat_map(move |kinds| {
        let capacity = prop::collection::vec(prop_oneof![1 => Just(0u32), 5 => 1u32..40], kinds);
        (capacity, prop::collection::vec(draft(kinds, single), 1..24))
            .prop_map(move |(capacity, drafts)| build(&capacity, &drafts, single))
    })
}

/// The problems that theorems are about: divisible GPUs, nobody capped, everybody can use every kind. A tenant has one
/// user.
pub(crate) fn plain_problem() -> impl Strategy<Value = Problem> {
    let rate = || prop_oneof![1 => (1u32..4).prop_map(f64::from), 3 => 0.2..5.0f64];
    (1usize..5, 1usize..9).prop_flat_map(move |(kinds, users)| {
        let user = (1u32..4, prop::collection::vec(rate(), kinds), 0.01..100.0f64);
        (prop::collection::vec(1u32..9, kinds), prop::collection::vec(user, users)).prop_map(|(capacity, users)| {
            let all: u32 = capacity.iter().sum();
            let draft = |(weight, rates, unit): &(u32, Vec<f64>, f64)| Draft {
                gang: 1,
                jobs: all,
                weight: f64::from(*weight),
                attained_gpu_seconds: 0.0,
                steps_left: 1000.0 * unit * f64::from(*weight).sqrt(),
                rates: rates.iter().map(|r| r * unit).collect(),
            };
            let drafts: Vec<Draft> = users.iter().map(draft).collect();
            let costs = (0..capacity.len()).map(|j| [1.0, 2.5, 0.4, 6.0][j]).collect();
            let mut problem = build(&capacity, &drafts, false).with_costs(costs).expect("sound costs");
            problem.users.iter_mut().zip(0..).for_each(|(user, i)| user.tenant = TenantId(i));
            problem
        })
    })
}

pub(crate) fn build(capacity: &[u32], drafts: &[Draft], single: bool) -> Problem {
    let (mut users, mut all_rates) = (Vec::new(), Vec::new());
    for (i, draft) in drafts.iter().enumerate() {
        // The scheduler leaves out users that fit nowhere.
        if draft.rates.iter().all(|&r| r == 0.0) {
            continue;
        }
        users.push(User {
            class: ClassId(i as u32),
            tenant: TenantId((i % 3) as u32),
            tenant_weight: draft.weight,
            workload: WorkloadId(i as u32),
            gang: draft.gang,
            jobs: draft.jobs,
            job_weight: 1.0,
            parts: 1,
            floor: None,
            job: single.then_some(JobId(i as u64)),
            arrived: Time(i as u64 % 4),
            attained_gpu_seconds: draft.attained_gpu_seconds,
            steps_done: 0.0,
            steps_left: draft.steps_left,
            held: None,
        });
        all_rates.extend_from_slice(&draft.rates);
    }
    let capacity = capacity.iter().map(|&c| f64::from(c)).collect();
    Problem::new(Round(7), capacity, users, all_rates).expect("a sound problem").at(Time::from_seconds(1000.0))
}

/// Every two single-GPU users together, each at between 0.4 and 1 of its rate alone.
pub(crate) fn with_pairs(problem: Problem) -> Problem {
    let part = |a: u32, b: u32, j: usize| 0.4 + 0.6 * f64::from((a * 31 + b * 17 + j as u32 * 7) % 11) / 10.0;
    let mut pairs = Vec::new();
    let singles = || problem.users.iter().enumerate().filter(|(_, user)| user.gang == 1);
    for (u, a) in singles() {
        for (v, b) in singles().filter(|(_, b)| a.workload <= b.workload) {
            for j in 0..problem.kinds() {
                let (alone_a, alone_b) = (problem.rates(u)[j], problem.rates(v)[j]);
                if alone_a > 0.0 && alone_b > 0.0 {
                    let (a, b) = (a.workload, b.workload);
                    let (rate_a, rate_b) = (alone_a * part(a.0, b.0, j), alone_b * part(b.0, a.0, j));
                    // Two jobs of one workload are as fast as each other.
                    let rate_b = if a == b { rate_a } else { rate_b };
                    pairs.push(PairRates { a, b, kind: KindId(j as u16), rate_a, rate_b });
                }
            }
        }
    }
    problem.with_pairs(pairs).expect("sound pairs")
}

/// Every second user was promised a part of its best rate. With `scarce` floors more than the GPUs can keep, mostly; else few and
/// low, so that they can often be kept together.
pub(crate) fn with_floors(mut problem: Problem, scarce: bool) -> Problem {
    let parts = if scarce { [0.1, 0.5, 0.9] } else { [0.01, 0.03, 0.1] };
    for u in (0..problem.users.len()).step_by(2) {
        let best = problem.rates(u).iter().copied().fold(0.0, f64::max);
        problem.users[u].floor = Some(best * parts[u / 2 % 3]);
    }
    problem
}

/// Every second user holds GPUs of a kind it fits on, as many as there are.
pub(crate) fn with_holders(mut problem: Problem) -> Problem {
    let mut free = problem.capacity.clone();
    for u in (1..problem.users.len()).step_by(2) {
        let gpus = f64::from(problem.users[u].gang * problem.users[u].jobs);
        // The slowest, so that keeping it is a choice.
        let room = (0..problem.kinds()).filter(|&j| problem.rates(u)[j] > 0.0 && free[j] >= gpus);
        if let Some(j) = room.min_by(|&a, &b| problem.rates(u)[a].total_cmp(&problem.rates(u)[b])) {
            free[j] -= gpus;
            problem.users[u].held = Some(KindId(j as u16));
        }
    }
    problem
}

/// One job to each user and at most two GPUs of a kind: small enough to try all places in all queues.
pub(crate) fn one_job_each(mut problem: Problem) -> Problem {
    problem.users.iter_mut().for_each(|user| user.jobs = 1);
    problem.capacity.iter_mut().for_each(|m| *m = m.min(2.0));
    problem
}

/// The same with an eighth of the GPUs, so that somebody waits.
pub(crate) fn scarce(mut problem: Problem) -> Problem {
    problem.capacity.iter_mut().for_each(|m| *m = (*m / 8.0).ceil());
    problem
}
