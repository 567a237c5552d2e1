//! The whole trade-off of power against speed: `fair-energy` at twenty ε and `fair-power` under twenty budgets, by size; beside the same points each asked of a policy
//! that has seen nothing.
//!
//! `cargo bench -p arles-sim --bench frontier` for all of it, `-- 100` for up to 100 users, `-- fair-power` for one policy. Times are of one run each, one after the other.

use arles_core::allocate::{ClassId, Power, Problem, User, UserPower, find_policy};
use arles_core::frontier::{Frontier, Point};
use arles_core::{KindId, Round, TenantId, Time, WorkloadId};
use std::time::Instant;

const SIZES: [(usize, usize); 4] = [(20, 4), (100, 5), (1_000, 3), (1_000, 10)];
/// Ways to run a GPU: what is left of the draw.
const MODES: [f64; 4] = [1.0, 0.75, 0.6, 0.45];
const POINTS: usize = 20;
/// Cold points are timed at these, and counted for all.
const COLD: [usize; 3] = [1, 9, 18];

fn main() {
    let most = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(usize::MAX);
    println!(
        "     n   k  modes | policy         first    {POINTS} warm  {POINTS} cold  ratio | saved at 5 %  bound of it"
    );
    for (n, k) in SIZES.into_iter().filter(|size| size.0 <= most) {
        row(n, k);
    }
}

/// Numbers from 0 to 1 from a seed, nothing else.
fn dice(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Tenants with a workload each. Rates rise with draw to a power between 0.2 and 0.8, another for every user and kind.
fn problem(n: usize, k: usize) -> Problem {
    let mut next = dice(7);
    let (mut users, mut rates, mut powers) = (Vec::new(), Vec::new(), Vec::new());
    for l in 0..n as u32 {
        users.push(User {
            class: ClassId(l),
            tenant: TenantId(l),
            tenant_weight: 1.0 + f64::from(l * 7 % 4),
            workload: WorkloadId(l),
            gang: 1,
            jobs: 1_000_000,
            job_weight: 1.0,
            parts: 1,
            floor: None,
            job: None,
            arrived: Time::ZERO,
            attained_gpu_seconds: 0.0,
            steps_done: 0.0,
            steps_left: 1.0,
            held: None,
        });
        let full: Vec<[f64; 3]> = (0..k)
            .map(|j| {
                let speed = 1.0 + j as f64 * (0.2 + 1.3 * next());
                [speed, (150.0 + 60.0 * j as f64) * (0.6 + 0.4 * next()), 0.2 + 0.6 * next()]
            })
            .collect();
        let lower = full.iter().flat_map(|one| MODES[1..].iter().map(move |part| (one, *part)));
        let all: Vec<(&[f64; 3], f64)> = full.iter().map(|one| (one, 1.0)).chain(lower).collect();
        rates.extend(all.iter().map(|([speed, _, bend], part)| speed * part.powf(*bend)));
        powers.push(UserPower {
            watts: all.iter().map(|([_, watts, _], part)| watts * part).collect(),
            standard_errors: vec![0.0; k * MODES.len()],
            held: vec![0; k * MODES.len()],
            needed: None,
            restart_seconds: 0.0,
            by_the_clock: false,
        });
    }
    let mut capacity: Vec<f64> = (0..k).map(|j| (2 * n / k + 3 * j) as f64).collect();
    capacity.resize(k * MODES.len(), 0.0);
    let base = |j: usize| if j < k { j } else { (j - k) / (MODES.len() - 1) };
    let sold_as = (0..capacity.len()).map(|j| KindId(base(j) as u16)).collect();
    let problem = Problem::new(Round(1), capacity, users, rates).expect("a sound problem");
    let problem = problem.with_modes(sold_as).expect("sound modes");
    let power = Power { users: powers, ..Power::uniform(&problem) };
    problem.with_power(power).expect("sound power")
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let from = Instant::now();
    let done = work();
    (done, from.elapsed().as_secs_f64())
}

/// Seconds of one question to a policy that has seen nothing.
fn alone(policy: &str, problem: &Problem, point: &Point) -> f64 {
    let known = problem.power.clone().expect("power is known");
    let asked = problem.clone();
    let power = Power { epsilon: point.epsilon, budget_watts: point.budget_watts, ..known };
    let asked = asked.with_power(power).expect("sound power");
    let policy = (find_policy(policy).expect("in the table").make)();
    timed(|| policy.allocate(&asked).expect("an answer")).1
}

fn row(n: usize, k: usize) {
    let problem = problem(n, k);
    let epsilons: Vec<f64> = (1..=POINTS).map(|i| 0.015 * i as f64).collect();
    let parts: Vec<f64> = (1..=POINTS).map(|i| 1.0 - 0.03 * i as f64).collect();
    type Sweep = fn(&Problem, &[f64]) -> Frontier;
    let by_epsilon: Sweep = |problem, all| Frontier::of(problem, all).expect("an answer");
    let by_budget: Sweep = |problem, all| Frontier::of_budgets(problem, all).expect("an answer");
    let named = |policy: &str| std::env::args().any(|a| a == policy);
    let both = [("fair-energy", by_epsilon, &epsilons), ("fair-power", by_budget, &parts)];
    let all_of_them = !both.iter().any(|(policy, ..)| named(policy));
    for (policy, sweep, points) in both.into_iter().filter(|(policy, ..)| all_of_them || named(policy)) {
        let (_, first) = timed(|| sweep(&problem, &[]));
        let (all, seconds) = timed(|| sweep(&problem, points));
        let cold: f64 = COLD.iter().map(|&i| alone(policy, &problem, &all.points[i + 1])).sum();
        let (warm, cold) = (seconds - first, cold / COLD.len() as f64 * POINTS as f64);
        print!(
            "{n:>6} {k:>3} {:>6} | {policy:<11} {first:>7.3} s {warm:>7.3} s {cold:>7.3} s {:>6.1}",
            MODES.len(),
            cold / warm
        );
        match all.points.iter().find(|point| point.epsilon >= 0.044) {
            Some(point) => {
                let bound = 1.0 - point.least_watts.unwrap_or(0.0) / all.points[0].watts;
                println!(" | {:>11.2} % {:>9.2} %", 100.0 * all.saved(point), 100.0 * bound);
            }
            None => println!(" |"),
        }
    }
}
