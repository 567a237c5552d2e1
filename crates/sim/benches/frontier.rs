//! The whole trade-off of power against speed: `fair-energy` at twenty ε and `fair-power` under twenty budgets, by size; beside the same points each asked of a policy
//! that has seen nothing.
//!
//! `cargo bench -p arles-sim --bench frontier` for all of it, `-- 100` for up to 100 users, `-- fair-power` for one policy; `-- default` for `fair-energy` at no sacrifice
//! without limits, beside `oef-coop`. Times are the processor's, of one run each, one after the other.

use arles_core::allocate::{ClassId, Power, Problem, User, UserPower, find_policy};
use arles_core::frontier::{Frontier, Point};
use arles_core::{KindId, Round, TenantId, Time, WorkloadId};

const SIZES: [(usize, usize); 4] = [(20, 4), (100, 5), (1_000, 3), (1_000, 10)];
/// Sizes for decisions without limits.
const PLAIN: [(usize, usize); 4] = [(1_000, 3), (1_000, 10), (10_000, 3), (10_000, 10)];
/// Ways to run a GPU: what is left of the draw.
const MODES: [f64; 4] = [1.0, 0.75, 0.6, 0.45];
const POINTS: usize = 20;
/// Cold points are timed at these, and counted for all.
const COLD: [usize; 3] = [1, 9, 18];

fn main() {
    let most = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(usize::MAX);
    if std::env::args().any(|a| a == "default") {
        return PLAIN.into_iter().filter(|size| size.0 <= most).for_each(|(n, k)| beside_coop(n, k));
    }
    println!(
        "     n   k  modes | policy         first    {POINTS} warm  {POINTS} cold  ratio | saved at 5 %  bound of it  greatest gap"
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
fn problem(n: usize, k: usize, modes: &[f64]) -> Problem {
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
        let lower = full.iter().flat_map(|one| modes[1..].iter().map(move |part| (one, *part)));
        let all: Vec<(&[f64; 3], f64)> = full.iter().map(|one| (one, 1.0)).chain(lower).collect();
        rates.extend(all.iter().map(|([speed, _, bend], part)| speed * part.powf(*bend)));
        powers.push(UserPower {
            watts: all.iter().map(|([_, watts, _], part)| watts * part).collect(),
            standard_errors: vec![0.0; k * modes.len()],
            held: vec![0; k * modes.len()],
            needed: None,
            restart_seconds: 0.0,
            by_the_clock: false,
        });
    }
    let mut capacity: Vec<f64> = (0..k).map(|j| (2 * n / k + 3 * j) as f64).collect();
    capacity.resize(k * modes.len(), 0.0);
    let base = |j: usize| if j < k { j } else { (j - k) / (modes.len() - 1) };
    let sold_as = (0..capacity.len()).map(|j| KindId(base(j) as u16)).collect();
    let problem = Problem::new(Round(1), capacity, users, rates).expect("a sound problem");
    let problem = if modes.len() > 1 { problem.with_modes(sold_as).expect("sound modes") } else { problem };
    let power = Power { users: powers, ..Power::uniform(&problem) };
    problem.with_power(power).expect("sound power")
}

/// The processor's seconds of this thread, which do not depend on what else the machine does; the clock's where nobody counts them.
fn seconds() -> f64 {
    let own = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = own.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let clock = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64());
    nanoseconds.map_or_else(clock, |nanoseconds| 1e-9 * nanoseconds)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let from = seconds();
    let done = work();
    (done, seconds() - from)
}

/// Decisions without limits, one after the other, a hundredth of the users with other rates each time.
fn beside_coop(n: usize, k: usize) {
    for policy in ["oef-coop", "fair-energy"] {
        let (mut asked, mut next) = (problem(n, k, &MODES[..1]), dice(11));
        let policy = (find_policy(policy).expect("in the table").make, policy);
        let (made, mut line) = ((policy.0)(), String::new());
        for _ in 0..4 {
            let power = asked.power.clone().expect("power is known");
            let question = asked.clone().with_power(Power { epsilon: 0.0, ..power.clone() }).expect("sound power");
            let (answer, seconds) = timed(|| made.allocate(&question).expect("an answer"));
            drop(answer);
            line += &format!(" {seconds:>7.3} s");
            let rates = (0..n).flat_map(|u| asked.rates(u).to_vec()).collect::<Vec<f64>>();
            let changed =
                |(at, rate): (usize, &f64)| if at / k % 100 == 7 { rate * (0.9 + 0.2 * next()) } else { *rate };
            let rates = rates.iter().enumerate().map(changed).collect();
            let (round, capacity, users) = (Round(1), asked.capacity.clone(), asked.users.clone());
            asked =
                Problem::new(round, capacity, users, rates).expect("a sound problem").with_power(power).expect("power");
        }
        println!("{n:>6} {k:>3} {:<12} first and three more:{line}", policy.1);
    }
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
    let problem = problem(n, k, &MODES);
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
                let gap = |point: &Point| 1.0 - point.least_watts.unwrap_or(0.0) / point.watts;
                let greatest = all.points[1..].iter().map(gap).fold(0.0, f64::max);
                println!(
                    " | {:>11.2} % {:>9.2} % {:>10.2} %",
                    100.0 * all.saved(point),
                    100.0 * bound,
                    100.0 * greatest
                );
            }
            None => println!(" |"),
        }
    }
}
