//! The rival policies do what their papers say: worked examples, and random problems against brute force or the general
//! solver, with ties, zeros, one user, one kind, more users than GPUs, huge and tiny rates.

use arles_core::allocate::{Allocation, ClassId, Entitlement, Members, Policy, Problem, User, find_policy};
use arles_core::{JobId, KindId, Round, TenantId, Time, WorkloadId};
use arles_lp::{Budget, Clarabel, maxmin};
use proptest::prelude::*;

/// What a test says of one user.
#[derive(Clone, Debug)]
struct Draft {
    gang: u32,
    jobs: u32,
    weight: f64,
    waited_seconds: u32,
    done: f64,
    left: f64,
    floor: Option<f64>,
    held: Option<u16>,
    rates: Vec<f64>,
}

impl Draft {
    fn new(rates: &[f64]) -> Self {
        let rates = rates.to_vec();
        Self {
            gang: 1,
            jobs: 1,
            weight: 1.0,
            waited_seconds: 0,
            done: 0.0,
            left: 1000.0,
            floor: None,
            held: None,
            rates,
        }
    }
}

const NOW_SECONDS: u32 = 1_000_000;

fn problem(capacity: &[f64], drafts: &[Draft]) -> Problem {
    let user = |(i, draft): (usize, &Draft)| User {
        class: ClassId(i as u32),
        tenant: TenantId(i as u32),
        tenant_weight: draft.weight,
        workload: WorkloadId(i as u32),
        gang: draft.gang,
        jobs: draft.jobs,
        job_weight: 1.0,
        floor: draft.floor,
        job: (draft.jobs == 1).then_some(JobId(i as u64)),
        arrived: Time(u64::from(NOW_SECONDS - draft.waited_seconds) * 1_000_000),
        attained_gpu_seconds: 0.0,
        steps_done: draft.done,
        steps_left: draft.left,
        held: draft.held.map(KindId),
    };
    let users = drafts.iter().enumerate().map(user).collect();
    let rates = drafts.iter().flat_map(|draft| draft.rates.iter().copied()).collect();
    let problem = Problem::new(Round(1), capacity.to_vec(), users, rates).expect("a sound problem");
    problem.at(Time(u64::from(NOW_SECONDS) * 1_000_000))
}

fn ask(policy: &str, problem: &Problem) -> Allocation {
    let entry = find_policy(policy).expect("in the table");
    let answer = (entry.make)().allocate(problem).expect("an answer");
    let again: Box<dyn Policy> = (entry.make)();
    assert_eq!(again.allocate(problem).expect("an answer"), answer, "{policy} is not deterministic");
    answer
}

/// GPUs that each user holds of each kind, pairs apart.
fn gpus(problem: &Problem, answer: &Allocation) -> Vec<Vec<f64>> {
    let mut x = vec![vec![0.0; problem.kinds()]; problem.users.len()];
    for grant in answer.grants() {
        if let Members::One(u) = grant.members {
            x[u as usize][grant.kind.index()] += grant.gangs * f64::from(problem.users[u as usize].gang);
        }
    }
    x
}

fn worth(problem: &Problem, user: usize, x: &[f64]) -> f64 {
    problem.gpu_rates(user).zip(x).map(|(r, x)| r * x).sum()
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => Just(0.0),
        2 => (1u32..4).prop_map(f64::from),
        5 => 0.1..10.0f64,
        1 => 1e-9..1e-6f64,
        1 => 1e6..1e9f64,
    ]
}

fn draft(kinds: usize, most_jobs: u32) -> impl Strategy<Value = Draft> {
    let gang = prop_oneof![5 => Just(1u32), 1 => Just(2u32), 1 => Just(4u32)];
    let steps = || prop_oneof![1 => Just(0.0), 1 => Just(1000.0), 4 => 1.0..1e6f64];
    let rates = prop::collection::vec(rate(), kinds);
    (gang, 1..=most_jobs, 0.5..4.0f64, 0u32..200_000, steps(), steps(), rates).prop_map(
        |(gang, jobs, weight, waited_seconds, done, left, rates)| Draft {
            gang,
            jobs,
            weight,
            waited_seconds,
            done,
            left,
            floor: None,
            held: None,
            rates,
        },
    )
}

fn random(users: usize, most_jobs: u32) -> impl Strategy<Value = Problem> {
    (1usize..5).prop_flat_map(move |kinds| {
        let capacity = prop::collection::vec(prop_oneof![1 => Just(0u32), 5 => 1u32..12], kinds);
        (capacity, prop::collection::vec(draft(kinds, most_jobs), 1..=users)).prop_map(|(capacity, drafts)| {
            let capacity: Vec<f64> = capacity.iter().map(|&m| f64::from(m)).collect();
            problem(&capacity, &drafts)
        })
    })
}

/// Users that fit somewhere.
fn servable(problem: &Problem) -> Vec<usize> {
    (0..problem.users.len()).filter(|&u| problem.gpu_rates(u).any(|r| r > 0.0)).collect()
}

/// Largest t with rate ≥ t · need for all of `users`, by the general solver; `None` where it cannot prove its answer.
fn reference_level(problem: &Problem, users: &[usize], needs: &[f64]) -> Option<f64> {
    let (mut w, mut beta, mut caps) = (Vec::new(), Vec::new(), Vec::new());
    for (&u, need) in users.iter().zip(needs) {
        let best = problem.gpu_rates(u).fold(0.0, f64::max);
        w.extend(problem.gpu_rates(u).map(|r| r / best));
        beta.push(need / best);
        caps.push(problem.most_gpus(u));
    }
    let question = maxmin::MaxMin { w: &w, beta: &beta, caps: &caps, capacity: &problem.capacity };
    let level = maxmin::General::new(&question).ok()?.solve(&question, &Clarabel, Budget::default());
    (level.bound.gap() < 1e-6).then_some(level.t)
}

/// Steps left, as the policies reckon with them.
fn left(problem: &Problem, u: usize) -> f64 {
    let user = &problem.users[u];
    let known = user.steps_left.max(0.01 * (user.steps_done + user.steps_left));
    let full = problem.gpu_rates(u).fold(0.0, f64::max) * problem.most_gpus(u);
    if known > 0.0 { known } else { full * 3600.0 }
}

mod gandiva {
    use super::*;

    /// Two users, a fast and a slow GPU: speed-ups 2 and 3. The second buys at the price of the seller's own speed-up,
    /// since nobody else bids: it pays its half of the slow GPU for a quarter of the fast one.
    #[test]
    fn two_users_trade_at_the_lower_speedup() {
        let mut drafts = [Draft::new(&[2.0, 1.0]), Draft::new(&[3.0, 1.0])];
        drafts.iter_mut().for_each(|d| d.jobs = 9);
        let problem = problem(&[1.0, 1.0], &drafts);
        let x = gpus(&problem, &ask("gandiva-fair", &problem));
        let expect = [[0.25, 1.0], [0.75, 0.0]];
        for (row, expect) in x.iter().zip(expect) {
            assert!(row.iter().zip(expect).all(|(a, b)| (a - b).abs() < 1e-9), "{x:?}");
        }
    }

    /// A third user bids 2.5, so the buyer pays 2.5 and not 2: what it has left after the seller's part is spent at that.
    #[test]
    fn the_price_is_the_second_highest_speedup() {
        let mut drafts = [Draft::new(&[2.0, 1.0]), Draft::new(&[3.0, 1.0]), Draft::new(&[2.5, 1.0])];
        drafts.iter_mut().for_each(|d| d.jobs = 9);
        let problem = problem(&[3.0, 3.0], &drafts);
        let x = gpus(&problem, &ask("gandiva-fair", &problem));
        // The second buys 0.4 for 1 slow; then the third buys at 2 what its own slow GPU pays for, 0.5.
        let expect = [[0.1, 3.0], [1.4, 0.0], [1.5, 0.0]];
        for (row, expect) in x.iter().zip(expect) {
            assert!(row.iter().zip(expect).all(|(a, b)| (a - b).abs() < 1e-9), "{x:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

        /// Nobody has less than the best it could pick, within what it can hold, from its part of every kind.
        #[test]
        fn everybody_has_at_least_its_tickets_worth(problem in random(12, 6)) {
            let x = gpus(&problem, &ask("gandiva-fair", &problem));
            let weights = Entitlement::Tenants.weights(&problem);
            let all: f64 = weights.iter().sum();
            for u in servable(&problem) {
                let mut kinds: Vec<usize> = (0..problem.kinds()).collect();
                let rates: Vec<f64> = problem.gpu_rates(u).collect();
                kinds.sort_by(|&a, &b| rates[b].total_cmp(&rates[a]));
                let (mut room, mut owed) = (problem.most_gpus(u), 0.0);
                for j in kinds {
                    let taken = (problem.capacity[j] * weights[u] / all).min(room);
                    room -= taken;
                    owed += taken * rates[j];
                }
                let has = worth(&problem, u, &x[u]);
                prop_assert!(has >= owed * (1.0 - 1e-9), "user {u} has {has}, its tickets are worth {owed}");
            }
        }

        /// Nothing is left over while somebody could use it.
        #[test]
        fn nothing_is_left_over(problem in random(12, 6)) {
            let x = gpus(&problem, &ask("gandiva-fair", &problem));
            for j in 0..problem.kinds() {
                let spare = problem.capacity[j] - x.iter().map(|row| row[j]).sum::<f64>();
                let wanted = servable(&problem).into_iter().any(|u| {
                    let room = problem.most_gpus(u) - x[u].iter().sum::<f64>();
                    problem.gpu_rates(u).nth(j).is_some_and(|r| r > 0.0) && room > 1e-6
                });
                prop_assert!(spare <= 1e-6 || !wanted, "{spare} GPUs of kind {j} are left over: {x:?}");
            }
        }
    }
}

mod makespan {
    use super::*;

    /// One GPU each of speeds 2 and 1, two equal jobs of 300 steps: together 3 steps a second, 600 steps, 200 s.
    #[test]
    fn two_equal_jobs_share_both_kinds() {
        let mut drafts = [Draft::new(&[2.0, 1.0]), Draft::new(&[2.0, 1.0])];
        drafts.iter_mut().for_each(|d| d.left = 300.0);
        let answer = ask("min-makespan", &problem(&[1.0, 1.0], &drafts));
        assert!(close(answer.objective().expect("a level"), 1.0 / 200.0, 1e-6));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_makespan_is_what_the_general_solver_finds(problem in random(10, 1)) {
            let answer = ask("min-makespan", &problem);
            let users = servable(&problem);
            if users.is_empty() {
                return Ok(());
            }
            let needs: Vec<f64> = users.iter().map(|&u| left(&problem, u)).collect();
            let certificate = answer.certificate().expect("bounds");
            prop_assert!(certificate.gap() <= 1e-6, "gap {}", certificate.gap());
            if let Some(t) = reference_level(&problem, &users, &needs) {
                let found = answer.objective().expect("a level");
                prop_assert!(close(found, t, 3e-6), "makespan {}, the general solver has {}", 1.0 / found, 1.0 / t);
            }
            let x = gpus(&problem, &answer);
            for (&u, need) in users.iter().zip(&needs) {
                let rate = worth(&problem, u, &x[u]);
                prop_assert!(rate >= need * certificate.lower * (1.0 - 1e-9), "user {u} would be late");
            }
        }
    }
}

mod finish_time {
    use super::*;

    fn isolated(problem: &Problem, users: &[usize], u: usize) -> f64 {
        let weights = Entitlement::Jobs.weights(problem);
        let all: f64 = users.iter().map(|&u| weights[u]).sum();
        let part: Vec<f64> = (problem.gpu_rates(u).zip(&problem.capacity))
            .map(|(r, m)| if r > 0.0 { m * weights[u] / all } else { 0.0 })
            .collect();
        let rate = worth(problem, u, &part) * (problem.most_gpus(u) / part.iter().sum::<f64>()).min(1.0);
        (problem.users[u].steps_done + left(problem, u)) / rate
    }

    /// Two fresh equal jobs on one GPU: each has half of it, as it would have alone: ρ = 1.
    #[test]
    fn equal_jobs_end_as_they_would_alone() {
        let answer = ask("finish-time-fairness", &problem(&[1.0], &[Draft::new(&[5.0]), Draft::new(&[5.0])]));
        assert!(close(answer.objective().expect("a ratio"), 1.0, 1e-6));
    }

    /// Whoever has waited gets more: with half a GPU each would need 200 s of its own; one has waited for 100 s.
    /// ρ·200 = 100 + 100/x and ρ·200 = 100/(1 − x).
    #[test]
    fn who_has_waited_gets_more() {
        let mut drafts = [Draft::new(&[1.0]), Draft::new(&[1.0])];
        drafts.iter_mut().for_each(|d| d.left = 100.0);
        drafts[0].waited_seconds = 100;
        let problem = problem(&[1.0], &drafts);
        let answer = ask("finish-time-fairness", &problem);
        let x = gpus(&problem, &answer)[0][0];
        assert!(close(100.0 + 100.0 / x, 100.0 / (1.0 - x), 1e-5), "{x}");
        assert!(x > 0.5);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

        /// The bracket is narrow, and a fine bisection with the general solver ends inside it.
        #[test]
        fn the_ratio_is_what_bisection_finds(problem in random(8, 1)) {
            let answer = ask("finish-time-fairness", &problem);
            let users = servable(&problem);
            if users.is_empty() {
                return Ok(());
            }
            let certificate = answer.certificate().expect("bounds");
            prop_assert!(certificate.gap() <= 1e-5, "gap {}", certificate.gap());
            let iso: Vec<f64> = users.iter().map(|&u| isolated(&problem, &users, u)).collect();
            let waited = |u: usize| problem.now.since(problem.users[u].arrived);
            let x = gpus(&problem, &answer);
            for (&u, iso) in users.iter().zip(&iso) {
                let rho = (waited(u) + left(&problem, u) / worth(&problem, u, &x[u])) / iso;
                prop_assert!(rho <= (1.0 + 1e-9) / certificate.lower, "user {u}: {rho} is above {}", 1.0 / certificate.lower);
            }
            let alone = |(&u, iso): (&usize, &f64)| {
                let full = problem.gpu_rates(u).fold(0.0, f64::max) * problem.most_gpus(u);
                (waited(u) + left(&problem, u) / full) / iso
            };
            let (mut low, mut high) = (users.iter().zip(&iso).map(alone).fold(0.0, f64::max), 2.0 / certificate.lower);
            for _ in 0..40 {
                let rho = 0.5 * (low + high);
                let needs: Vec<f64> = (users.iter().zip(&iso)).map(|(&u, iso)| left(&problem, u) / (rho * iso - waited(u))).collect();
                let Some(t) = reference_level(&problem, &users, &needs) else { return Ok(()) };
                if t >= 1.0 { high = rho } else { low = rho }
            }
            let found = 1.0 / answer.objective().expect("a ratio");
            prop_assert!(close(found, high, 1e-5), "ratio {found}, bisection has {high}");
        }
    }
}
