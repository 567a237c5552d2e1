//! `fair-energy` at both ends of ε, among many tenants that are alike, and with tenants that have tenants.

use crate::draws::{Draft, build, plain_problem};
use crate::fair::{ask, at_full_power, keeps, keeps_its_promises, sharing, told, watts, with_modes, with_zeros};
use crate::promises::{best_speed, utility};
use arles_core::TenantId;
use arles_core::allocate::{Allocation, Members, Problem, find_policy};
use arles_core::hierarchy::{Claim, effective_weights};
use arles_lp::{Budget, Clarabel, ColumnId, Model, Solver, Status};
use proptest::prelude::*;

/// Up to twenty tenants, each with one of a few workloads, on one to three GPUs of each kind.
fn crowd() -> impl Strategy<Value = Problem> {
    let profiles = prop::collection::vec(prop::collection::vec(0.2..5.0f64, 3), 1..5);
    let tenants = prop::collection::vec((0..5usize, 1..4u32), 2..20);
    (1..4usize, profiles, tenants, prop::collection::vec(1..4u32, 3)).prop_map(|(kinds, profiles, tenants, gpus)| {
        let draft = |(profile, weight): &(usize, u32)| Draft {
            gang: 1,
            jobs: 20,
            weight: f64::from(*weight),
            attained_gpu_seconds: 0.0,
            steps_left: 1000.0,
            rates: profiles[profile % profiles.len()][..kinds].to_vec(),
        };
        let mut plain = build(&gpus[..kinds], &tenants.iter().map(draft).collect::<Vec<_>>(), false);
        plain.users.iter_mut().zip(0..).for_each(|(user, i)| user.tenant = TenantId(i));
        plain
    })
}

/// More tenants, no two alike, than the program with rows against envy is solved for.
fn multitude() -> impl Strategy<Value = Problem> {
    let tenants = prop::collection::vec((prop::collection::vec(0.2..5.0f64, 3), 1..4u32), 66..90);
    (1..4usize, tenants, prop::collection::vec(1..40u32, 3)).prop_map(|(kinds, tenants, gpus)| {
        let draft = |(rates, weight): &(Vec<f64>, u32)| Draft {
            gang: 1,
            jobs: 200,
            weight: f64::from(*weight),
            attained_gpu_seconds: 0.0,
            steps_left: 1000.0,
            rates: rates[..kinds].to_vec(),
        };
        let mut plain = build(&gpus[..kinds], &tenants.iter().map(draft).collect::<Vec<_>>(), false);
        plain.users.iter_mut().zip(0..).for_each(|(user, i)| user.tenant = TenantId(i));
        plain
    })
}

fn total(problem: &Problem, answer: &Allocation) -> f64 {
    (0..problem.users.len()).map(|l| utility(problem, answer.grants(), l)).sum()
}

/// Speed-ups of everybody in every mode, in the unit that its utility is in; gangs are of one GPU, and nothing is faster than a kind as it is sold.
fn speeds(problem: &Problem) -> Vec<f64> {
    let row = |u: usize| {
        let rates = problem.rates(u);
        let sold = (0..problem.kinds()).find(|&j| problem.sold_as(j) == j && rates[j] > 0.0);
        let unit = sold.map_or(0.0, |j| best_speed(problem, u, j) / rates[j]);
        rates.iter().map(move |rate| rate * unit)
    };
    (0..problem.users.len()).flat_map(row).collect()
}

/// The least that is drawn if everybody has its floor, by the general solver; unused GPUs are off.
fn least_draw(problem: &Problem, floors: &[f64]) -> Option<f64> {
    let (n, k, w) = (problem.users.len(), problem.kinds(), speeds(problem));
    let power = problem.power.as_ref()?;
    let drawn = |at: usize| power.users[at / k].watts[at % k];
    let unit = (0..n * k).map(drawn).fold(0.0, f64::max);
    let mut model = Model::minimise();
    let x: Vec<ColumnId> =
        (0..n * k).map(|at| model.add_column(0.0, f64::INFINITY, drawn(at) / unit)).collect::<Result<_, _>>().ok()?;
    for j in (0..k).filter(|&j| problem.sold_as(j) == j) {
        let of = (0..n * k).filter(|at| problem.sold_as(at % k) == j);
        model.add_row(f64::NEG_INFINITY, problem.capacity[j], &of.map(|at| (x[at], 1.0)).collect::<Vec<_>>()).ok()?;
    }
    for l in 0..n {
        let own: Vec<_> = (l * k..(l + 1) * k).map(|at| (x[at], w[at])).collect();
        model.add_row(floors[l], f64::INFINITY, &own).ok()?;
    }
    let outcome = Clarabel.solve(&model, Budget::default());
    (outcome.status == Status::Optimal).then_some(outcome.objective * unit)
}

/// What nobody may fall below however large ε is: an equal division, and what its own share gives on its most efficient GPUs.
fn last_floors(problem: &Problem, full: &Problem, fair: &Allocation) -> Vec<f64> {
    let (k, w) = (problem.kinds(), speeds(problem));
    let power = problem.power.as_ref().expect("power is known");
    let floor = |l: usize| {
        let mut units = vec![0.0; k];
        for grant in fair.grants() {
            if grant.members == Members::One(l as u32) {
                units[grant.kind.index()] += grant.gangs;
            }
        }
        let held = (0..k).filter(|&j| units[problem.sold_as(j)] > 0.0 && w[l * k + j] > 0.0);
        let ratio = |j: usize| w[l * k + j] / power.users[l].watts[j];
        let best = held.clone().map(ratio).fold(0.0, f64::max);
        let efficient: f64 = held
            .filter(|&j| ratio(j) >= best * (1.0 - 1e-9))
            .map(|j| w[l * k + j] * units[problem.sold_as(j)])
            .fold(0.0, f64::max);
        crate::fair::equal_division(problem, l).max(efficient).min(utility(full, fair.grants(), l))
    };
    (0..problem.users.len()).map(floor).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing is given up: as much speed in all as OEF has.
    #[test]
    fn no_epsilon_is_the_optimum_of_oef(plain in plain_problem(), off: bool) {
        let problem = told(with_modes(&plain, &[0.7, 0.5]), 0.0, off, None);
        let full = at_full_power(&problem, plain.kinds());
        let (ours, theirs) = (ask("fair-energy", &problem), ask("oef-coop", &full));
        let (ours, theirs) = (total(&problem, &ours), total(&full, &theirs));
        prop_assert!((ours - theirs).abs() <= 1e-5 * theirs, "{ours} against {theirs}");
    }

    /// Everything may be given up but fairness: the least power with which nobody is below an equal division, by another solver.
    #[test]
    fn all_of_epsilon_is_the_energy_program(plain in plain_problem()) {
        let problem = told(with_modes(&plain, &[0.7]), 0.9999, true, None);
        let full = at_full_power(&problem, plain.kinds());
        let floors = last_floors(&problem, &full, &ask("oef-coop", &full));
        let draws = watts(&problem, ask("fair-energy", &problem).grants());
        if let Some(least) = least_draw(&problem, &floors) {
            prop_assert!(draws >= least * (1.0 - 1e-5), "{draws} W where {least} W are the least");
            prop_assert!(draws <= least * (1.0 + 1e-4), "{draws} W where {least} W would do");
        }
    }

    #[test]
    fn among_many_that_are_alike(plain in crowd(), epsilon in 0.0..0.4f64, off: bool, zeros: bool) {
        let plain = if zeros { with_zeros(plain) } else { plain };
        let problem = told(with_modes(&plain, &[0.75, 0.5]), epsilon, off, None);
        keeps_its_promises(&problem, plain.kinds(), epsilon)?;
    }

    /// Three organisations with teams: promises are kept by effective weights, and an organisation has its share.
    #[test]
    fn with_tenants_of_tenants(plain in crowd(), epsilon in 0.0..0.4f64, weights in prop::collection::vec(0.2..4.0f64, 24)) {
        let mut plain = plain;
        let names: Vec<String> = (0..plain.users.len()).map(|l| format!("o{}/t{}/u{l}", l % 3, l % 2)).collect();
        let claim = |(l, name)| Claim { name, weight: weights[l], demand_gpus: 1e6 };
        let mut claims: Vec<Claim<'_>> = names.iter().map(String::as_str).enumerate().map(claim).collect();
        claims.extend(["o0", "o1", "o2"].into_iter().enumerate().map(|(o, name)| Claim {
            name,
            weight: weights[20 + o],
            demand_gpus: 0.0,
        }));
        let owed = effective_weights(&claims, plain.capacity.iter().sum());
        plain.users.iter_mut().zip(&owed).for_each(|(user, owed)| user.tenant_weight = *owed);
        let problem = told(with_modes(&plain, &[0.75]), epsilon, true, None);
        keeps_its_promises(&problem, plain.kinds(), epsilon)?;
        let answer = ask("fair-energy", &problem);
        let all: f64 = owed.iter().sum();
        for o in 0..3.min(names.len()) {
            let members = (0..names.len()).filter(|l| l % 3 == o);
            let part = |l: usize| {
                let whole = crate::fair::equal_division(&problem, l) * all / owed[l];
                utility(&problem, answer.grants(), l) / whole
            };
            let has: f64 = members.map(part).sum();
            prop_assert!(has >= weights[20 + o] / all * (1.0 - 1e-5), "organisation {o} has {has}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Users, most of them more than GPUs: promises are kept, and the answer is within a hundredth of the least draw with rows against envy.
    #[test]
    fn among_more_than_the_program_serves(plain in multitude(), epsilon in 0.001..0.4f64, off: bool) {
        let problem = told(with_modes(&plain, &[0.75, 0.5]), epsilon, off, None);
        keeps_its_promises(&problem, plain.kinds(), epsilon)?;
        let certificate = ask("fair-energy", &problem).certificate().expect("a bound");
        let gap = 1.0 - certificate.upper / certificate.lower;
        prop_assert!(gap <= 0.01 * (1.0 + 1e-6), "{gap} above the least");
    }

    /// Asked again at another sacrifice, a policy keeps its promises as one that has seen nothing.
    #[test]
    fn at_one_sacrifice_after_the_other(plain in multitude(), epsilons in prop::collection::vec(0.0..0.4f64, 2)) {
        let policy = (find_policy("fair-energy").expect("in the table").make)();
        for epsilon in epsilons {
            let problem = told(with_modes(&plain, &[0.75, 0.5]), epsilon, true, None);
            let answer = policy.allocate(&problem).expect("an answer");
            keeps(&problem, plain.kinds(), epsilon, &answer)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// All at once: modes, two jobs on a GPU, weights of a hierarchy, kinds on which somebody does not fit, often more tenants than GPUs.
    #[test]
    fn with_all_of_it(plain in crowd(), epsilon in 0.0..0.4f64, off: bool, weights in prop::collection::vec(0.2..4.0f64, 24)) {
        let mut plain = with_zeros(plain);
        let names: Vec<String> = (0..plain.users.len()).map(|l| format!("o{}/t{}/u{l}", l % 3, l % 2)).collect();
        let claim = |(l, name)| Claim { name, weight: weights[l % 24], demand_gpus: 1e6 };
        let claims: Vec<Claim<'_>> = names.iter().map(String::as_str).enumerate().map(claim).collect();
        let owed = effective_weights(&claims, plain.capacity.iter().sum());
        plain.users.iter_mut().zip(&owed).for_each(|(user, owed)| user.tenant_weight = *owed);
        let problem = told(sharing(with_modes(&plain, &[0.6])), epsilon, off, None);
        keeps_its_promises(&problem, plain.kinds(), epsilon)?;
    }

    #[test]
    fn many_that_are_alike_two_to_a_gpu(plain in crowd(), epsilon in 0.0..0.4f64, off: bool) {
        let problem = told(sharing(with_modes(&plain, &[0.6])), epsilon, off, None);
        keeps_its_promises(&problem, plain.kinds(), epsilon)?;
    }
}
