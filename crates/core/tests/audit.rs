//! The audit against examples computed by hand, against its own definitions taken literally, and against what must hold
//! of divisions whose fairness is known.

use arles_core::allocate::{
    AllocateError, Allocation, ClassId, Entitlement, FreeGpus, Grant, Grouping, Members, PairRates, Policy,
    PolicyEntry, Problem, Proposal, User, find_policy,
};
use arles_core::audit::{Audit, AuditError, Lie, Slant, best_lie, single_lies, utility_after};
use arles_core::{KindId, Round, TenantId, Time, WorkloadId};
use arles_lp::{Budget, Clarabel, ColumnId, Model, Solver};
use proptest::prelude::*;

/// A user: weight, jobs, gang, rates of a gang by kind.
type Draft = (f64, u32, u32, Vec<f64>);

fn problem(capacity: &[f64], drafts: &[Draft]) -> Problem {
    let user = |(i, (weight, jobs, gang, _)): (usize, &Draft)| User {
        class: ClassId(i as u32),
        tenant: TenantId(i as u32),
        tenant_weight: *weight,
        workload: WorkloadId(i as u32),
        gang: *gang,
        jobs: *jobs,
        job_weight: 1.0,
        parts: 1,
        floor: None,
        job: None,
        arrived: Time::ZERO,
        attained_gpu_seconds: 0.0,
        steps_done: 0.0,
        steps_left: 1000.0,
        held: None,
    };
    let users = drafts.iter().enumerate().map(user).collect();
    let rates = drafts.iter().flat_map(|draft| draft.3.iter().copied()).collect();
    Problem::new(Round(0), capacity.to_vec(), users, rates).expect("a sound problem")
}

/// The example of two users with speed-ups (1, 2) and (1, 3) on one GPU of each kind, in odd units of work.
fn example() -> Problem {
    problem(&[1.0, 1.0], &[(1.0, 2, 1, vec![5.0, 10.0]), (1.0, 2, 1, vec![0.1, 0.3])])
}

fn audit(problem: &Problem, x: &[f64]) -> Audit {
    Audit::of_holdings(problem, Entitlement::Tenants, x.to_vec()).expect("sound holdings")
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

#[track_caller]
fn check(a: f64, b: f64) {
    assert!(near(a, b), "{a} is not {b}");
}

#[test]
fn the_cooperative_example() {
    let audit = audit(&example(), &[1.0, 0.25, 0.0, 0.75]);
    check(audit.utilities()[0], 1.5);
    check(audit.utilities()[1], 2.25);
    check(audit.envy(0, 1), 1.0);
    check(audit.envy(1, 0), 1.75 / 2.25);
    check(audit.sharing(0), 1.0);
    check(audit.sharing(1), 1.125);
    check(audit.jain(), 3.75f64.powi(2) / (2.0 * (1.5 * 1.5 + 2.25 * 2.25)));
    check(audit.total_over_equal(), 3.75 / 3.5);
    let worst = audit.worst_envy().expect("two users");
    assert_eq!((worst.envier, worst.envied), (0, 1));
    assert_eq!(audit.least_sharing().expect("two users").0, 0);
    assert!(audit.pareto(Budget::default()).most() < 1e-6);
}

#[test]
fn the_non_cooperative_example_is_efficient_and_envied() {
    let audit = audit(&example(), &[1.0, 0.4, 0.0, 0.6]);
    check(audit.utilities()[0], 1.8);
    check(audit.utilities()[1], 1.8);
    check(audit.jain(), 1.0);
    // User 1 would have 1 + 3 · 0.4 with what user 0 got.
    check(audit.envy(1, 0), 2.2 / 1.8);
    check(audit.sharing(1), 0.9);
    assert!(audit.pareto(Budget::default()).most() < 1e-6);
}

#[test]
fn the_cooperative_counter_example_can_be_improved() {
    let rows = [[1.0, 1.0, 3.0], [1.0, 5.0, 5.0], [1.0, 5.0, 6.0]];
    let problem = problem(&[2.0; 3], &rows.map(|row| (1.0, 6, 1, row.to_vec())));
    let answer = Oef { envy_free: true }.allocate(&problem).expect("an answer");
    let audit = Audit::of(&problem, Entitlement::Tenants, &answer);
    // The total is unique; how it is divided is not.
    let total: f64 = audit.utilities().iter().sum();
    assert!((total - (10.0 / 3.0 + 80.0 / 9.0 + 29.0 / 3.0)).abs() < 1e-5, "{total}");
    assert!(audit.worst_envy().expect("three users").ratio < 1.0 + 1e-6);
    let pareto = audit.pareto(Budget::default());
    assert!(pareto.gap() > 0.001 && pareto.gap() < 0.036, "{pareto:?}");
    assert!(pareto.most() - pareto.gap() < 1e-6, "{pareto:?}");
}

#[test]
fn weights_caps_and_gangs_count() {
    // Two GPUs fast, two slow. User 0 weighs twice as much and can use a single GPU; user 1 runs gangs of two.
    let problem = problem(&[2.0, 2.0], &[(2.0, 1, 1, vec![4.0, 1.0]), (1.0, 1, 2, vec![6.0, 2.0])]);
    let answer = |grants: &[(u32, u16, f64)]| {
        let grant = |&(l, kind, gangs): &(u32, u16, f64)| Grant { kind: KindId(kind), members: Members::One(l), gangs };
        let proposal = Proposal { grants: grants.iter().map(grant).collect(), ..Proposal::default() };
        Allocation::check(&problem, proposal).expect("it fits")
    };
    let audit = Audit::of(&problem, Entitlement::Tenants, &answer(&[(0, 1, 1.0), (1, 0, 1.0)]));
    assert_eq!(audit.held(1), [2.0, 0.0]);
    check(audit.utilities()[0], 1.0);
    check(audit.utilities()[1], 6.0);
    // Four fast GPUs by entitlement, of which it can use one.
    check(audit.envy(0, 1), 4.0);
    check(audit.envy(1, 0), 0.5 / 6.0);
    check(audit.sharing(0), 1.0 / 4.0);
    check(audit.sharing(1), 6.0 / (2.0 / 3.0 * 4.0));
    check(audit.claims().equal_division(0), 4.0);
}

#[test]
fn nothing_against_nothing_is_indifference() {
    let problem =
        problem(&[1.0, 0.0], &[(1.0, 1, 1, vec![0.0, 0.0]), (1.0, 1, 1, vec![1.0, 2.0]), (1.0, 1, 1, vec![3.0, 0.0])]);
    let audit = audit(&problem, &[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(audit.envy(0, 1), 1.0);
    assert_eq!(audit.sharing(0), 1.0);
    assert_eq!(audit.envy(2, 1), f64::INFINITY);
    assert_eq!(audit.sharing(2), 0.0);
    // The one who can use nothing has no part in the division.
    check(audit.sharing(1), 2.0);
    assert_eq!(audit.worst_envy().map(|e| (e.envier, e.envied)), Some((2, 1)));
    let alone = Audit::of_holdings(&self::problem(&[], &[]), Entitlement::Jobs, Vec::new()).expect("sound");
    assert_eq!((alone.worst_envy(), alone.least_sharing(), alone.jain()), (None, None, 1.0));
    assert_eq!(alone.pareto(Budget::default()).most(), 0.0);
}

#[test]
fn a_shared_gpu_counts_by_what_each_gets_out_of_it() {
    let pair = PairRates { a: WorkloadId(0), b: WorkloadId(1), kind: KindId(0), rate_a: 3.0, rate_b: 0.8 };
    let problem = problem(&[1.0], &[(1.0, 1, 1, vec![4.0]), (1.0, 1, 1, vec![1.0])]).with_pairs(vec![pair]);
    let problem = problem.expect("a sound pair");
    let grants = vec![Grant { kind: KindId(0), members: Members::Two(0, 1), gangs: 1.0 }];
    let answer = Allocation::check(&problem, Proposal { grants, ..Proposal::default() }).expect("it fits");
    let audit = Audit::of(&problem, Entitlement::Tenants, &answer);
    check(audit.held(0)[0], 0.75);
    check(audit.held(1)[0], 0.8);
    check(audit.sharing(0), 1.5);
    assert!(audit.pareto(Budget::default()).most() < 1e-6, "{:?}", audit.pareto(Budget::default()));
}

#[test]
fn wrong_questions_get_a_sentence() {
    let problem = example();
    let refused = |x: &[f64]| Audit::of_holdings(&problem, Entitlement::Jobs, x.to_vec()).unwrap_err().to_string();
    assert_eq!(refused(&[1.0]), "there are 1 holdings; expected 4, one for each user and kind");
    assert_eq!(refused(&[1.0, 0.0, 0.0, f64::NAN]), "user 1 holds NaN GPUs of kind 1; expected 0 or more");
    assert_eq!(
        Lie::new(vec![1.0, -1.0]).unwrap_err().to_string(),
        "the lie's factor on kind 1 is -1; expected 0 or more"
    );
    let fifo = find_policy("fifo").expect("in the table");
    let short = Lie::new(vec![1.0]).expect("sound");
    let error = utility_after(fifo, &problem, 0, &short).unwrap_err().to_string();
    assert_eq!(error, "the lie has 1 factors for 2 kinds");
    assert_eq!(best_lie(fifo, &problem, 7, &[]).unwrap_err(), AuditError::NoSuchUser { user: 7, users: 2 });
}

#[test]
fn lies_lean_on_speedups_and_not_on_units() {
    let problem = example();
    let slant = |factors: [f64; 2]| Lie::new(factors.to_vec()).expect("sound").slant(&problem, 1);
    assert_eq!(slant([1.0, 1.0]), Slant::None);
    assert_eq!(slant([7.0, 7.0]), Slant::None);
    assert_eq!(slant([1.0, 4.0]), Slant::Inflated);
    assert_eq!(slant([2.0, 1.0]), Slant::Deflated);
    assert_eq!(slant([4.0, 1.0]), Slant::Mixed);
    assert_eq!(single_lies(2, &[0.5, 2.0])[3].factors(), [1.0, 2.0]);
}

#[test]
fn the_example_of_lies() {
    let entry = entry(|| Box::new(Oef { envy_free: false }));
    let problem = example();
    let after = |report: f64| {
        let lie = Lie::new(vec![1.0, report / 3.0]).expect("sound");
        utility_after(&entry, &problem, 1, &lie).expect("an answer")
    };
    assert!((after(3.0) - 1.8).abs() < 1e-6);
    assert!((after(4.0) - 1.5).abs() < 1e-6);
    assert!((after(2.5) - 2.0).abs() < 1e-6);
    let lies: Vec<Lie> = [4.0, 2.5, 2.9].iter().map(|r| Lie::new(vec![1.0, r / 3.0]).expect("sound")).collect();
    let best = best_lie(&entry, &problem, 1, &lies).expect("an answer");
    assert_eq!(best.lie, Some(1));
    assert!((best.gain - 2.0 / 1.8).abs() < 1e-6 && (best.honest - 1.8).abs() < 1e-6);
}

#[test]
fn lies_to_policies_of_the_table() {
    let problem = problem(&[2.0, 2.0], &[(1.0, 4, 1, vec![1.0, 2.0]), (1.0, 4, 1, vec![1.0, 4.0])]);
    let lies = single_lies(2, &[0.5, 0.8, 1.25, 2.0]);
    // Who comes first gets the kind it calls the fastest: the truth serves it best.
    let fifo = best_lie(find_policy("fifo").expect("in the table"), &problem, 0, &lies).expect("an answer");
    assert_eq!((fifo.lie, fifo.gain, fifo.honest), (None, 1.0, 6.0));
    // Max-min levels what everybody has, so it pays to seem slow on the kind that one wants.
    let max_min = find_policy("max-min-fairness").expect("in the table");
    let best = best_lie(max_min, &problem, 1, &lies).expect("an answer");
    let lie = &lies[best.lie.expect("one pays")];
    assert!(best.gain > 1.01, "{best:?}");
    assert_eq!(lie.slant(&problem, 1), Slant::Deflated, "{lie:?}");
}

/// OEF's programs, written down for the general solver.
struct Oef {
    envy_free: bool,
}

impl Policy for Oef {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let (n, k, w) = (problem.users.len(), problem.kinds(), problem.speedups());
        let mut model = Model::maximise();
        let x: Vec<ColumnId> = w.iter().map(|&w| model.add_column(0.0, f64::INFINITY, w).unwrap()).collect();
        for j in 0..k {
            let terms: Vec<_> = (0..n).map(|l| (x[l * k + j], 1.0)).collect();
            model.add_row(f64::NEG_INFINITY, problem.capacity[j], &terms).unwrap();
        }
        for (l, i) in (0..n).flat_map(|l| (0..n).map(move |i| (l, i))).filter(|(l, i)| l != i) {
            let upper = if self.envy_free { f64::INFINITY } else { 0.0 };
            let of = if self.envy_free { l } else { i };
            let own = (0..k).map(|j| (x[l * k + j], w[l * k + j]));
            let other = (0..k).map(|j| (x[i * k + j], -w[of * k + j]));
            model.add_row(0.0, upper, &own.chain(other).collect::<Vec<_>>()).unwrap();
        }
        let outcome = Clarabel.solve(&model, Budget::default());
        let grant = |(at, gpus): (usize, &f64)| Grant {
            kind: KindId((at % k) as u16),
            members: Members::One((at / k) as u32),
            gangs: gpus.max(0.0),
        };
        let grants = outcome.x.iter().enumerate().map(grant).collect();
        Allocation::check(problem, Proposal { grants, ..Proposal::default() })
    }
}

fn entry(make: fn() -> Box<dyn Policy>) -> PolicyEntry {
    PolicyEntry {
        name: "test",
        summary: "",
        grouping: Grouping::Alike,
        every_round: false,
        first_come: false,
        ignores_speeds: false,
        energy_aware: false,
        free_gpus: FreeGpus::GivenAway,
        modes: false,
        objective_degree: None,
        pairs: false,
        entitlement: Entitlement::Tenants,
        promises: &[],
        make,
    }
}

/// Wild rates are eighteen powers of ten apart, beyond the digits of a general solver.
fn rate(wild: bool) -> impl Strategy<Value = f64> {
    let odd = move |rate: f64| if wild { rate } else { 0.5 };
    prop_oneof![
        2 => Just(0.0),
        3 => (1u32..4).prop_map(f64::from),
        5 => 0.1..10.0f64,
        1 => Just(odd(1e-9)),
        1 => Just(odd(1e9)),
    ]
}

/// A problem and, for each user and kind, a number that makes holdings of it.
fn case(wild: bool) -> impl Strategy<Value = (Problem, Vec<f64>)> {
    (1usize..5, 1usize..8).prop_flat_map(move |(k, n)| {
        let draft =
            (0.5..4.0f64, 1u32..6, prop_oneof![3 => Just(1u32), 1 => Just(2u32)], prop::collection::vec(rate(wild), k));
        let capacity = prop::collection::vec(prop_oneof![1 => Just(0u32), 5 => 1u32..20], k);
        let shares = prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0f64], n * k);
        (capacity, prop::collection::vec(draft, n), shares).prop_map(|(capacity, drafts, shares)| {
            let capacity: Vec<f64> = capacity.into_iter().map(f64::from).collect();
            let x = divided(&capacity, &drafts, &shares);
            (problem(&capacity, &drafts), x)
        })
    })
}

/// Shares made to fit the kinds and the users.
fn divided(capacity: &[f64], drafts: &[Draft], shares: &[f64]) -> Vec<f64> {
    let k = capacity.len();
    let mut x = shares.to_vec();
    for j in 0..k {
        let sum: f64 = x.iter().skip(j).step_by(k).sum();
        x.iter_mut().skip(j).step_by(k).for_each(|x| *x *= capacity[j] / sum.max(1.0));
    }
    for (row, (_, jobs, gang, rates)) in x.chunks_exact_mut(k).zip(drafts) {
        row.iter_mut().zip(rates).for_each(|(x, r)| *x = if *r > 0.0 { *x } else { 0.0 });
        let most = f64::from(jobs * gang) / row.iter().sum::<f64>();
        row.iter_mut().for_each(|x| *x *= most.min(1.0));
    }
    x
}

/// v by trying every order in which a user could take the kinds.
fn value(w: &[f64], d: f64, z: &[f64]) -> f64 {
    fn best(w: &[f64], left: f64, z: &[f64], open: &mut Vec<usize>) -> f64 {
        let mut most = 0.0f64;
        for at in 0..open.len() {
            let j = open.remove(at);
            let used = z[j].min(left);
            most = most.max(w[j] * used + best(w, left - used, z, open));
            open.insert(at, j);
        }
        most
    }
    best(w, d, z, &mut (0..w.len()).collect())
}

/// Holdings of the largest total utility.
fn largest_total(problem: &Problem) -> Vec<f64> {
    let (n, k, w) = (problem.users.len(), problem.kinds(), problem.speedups());
    let mut model = Model::maximise();
    let most = |w: f64| if w > 0.0 { f64::INFINITY } else { 0.0 };
    let x: Vec<ColumnId> = w.iter().map(|&w| model.add_column(0.0, most(w), w).unwrap()).collect();
    for j in 0..k {
        let terms: Vec<_> = (0..n).map(|l| (x[l * k + j], 1.0)).collect();
        model.add_row(f64::NEG_INFINITY, problem.capacity[j], &terms).unwrap();
    }
    for l in 0..n {
        let terms: Vec<_> = (0..k).map(|j| (x[l * k + j], 1.0)).collect();
        model.add_row(f64::NEG_INFINITY, problem.most_gpus(l), &terms).unwrap();
    }
    Clarabel.solve(&model, Budget::default()).x.iter().map(|x| x.max(0.0)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn envy_is_what_it_is_defined_to_be((problem, x) in case(true)) {
        let audit = audit(&problem, &x);
        let (n, k) = (problem.users.len(), problem.kinds());
        let w = problem.speedups();
        let mut worst = f64::NEG_INFINITY;
        for l in 0..n {
            let row = &w[l * k..(l + 1) * k];
            let u: f64 = row.iter().zip(&x[l * k..]).map(|(w, x)| w * x).sum();
            prop_assert!(near(u, audit.utilities()[l]));
            for (i, ratio) in audit.envy_row(l).enumerate() {
                let scale = problem.users[l].tenant_weight / problem.users[i].tenant_weight;
                let z: Vec<f64> = x[i * k..(i + 1) * k].iter().map(|x| x * scale).collect();
                let v = value(row, problem.most_gpus(l), &z);
                let expect = if u > 0.0 { v / u } else if v > 0.0 { f64::INFINITY } else { 1.0 };
                prop_assert!(expect == ratio || near(expect, ratio), "E of {l} and {i} is {ratio}, not {expect}");
                worst = if i == l { worst } else { worst.max(ratio) };
            }
        }
        match audit.worst_envy() {
            Some(found) => {
                prop_assert!(found.ratio == worst || near(found.ratio, worst), "{found:?} is not the worst, {worst}");
                prop_assert!(found.ratio == audit.envy(found.envier, found.envied) && found.envier != found.envied);
            }
            None => prop_assert!(n < 2),
        }
    }

    #[test]
    fn an_equal_division_has_its_sharing_incentive_and_no_envy((problem, _) in case(true)) {
        let (n, k) = (problem.users.len(), problem.kinds());
        let mut x = vec![0.0; n * k];
        let claims = arles_core::audit::Claims::of(&problem, Entitlement::Tenants);
        for l in 0..n {
            (0..k).for_each(|j| x[l * k + j] = problem.capacity[j] * claims.part(l));
        }
        // Caps would leave GPUs that others could envy: let everybody use everything.
        let mut roomy = problem.clone();
        roomy.users.iter_mut().for_each(|user| user.jobs = 1000);
        let audit = audit(&roomy, &x);
        for l in 0..n {
            prop_assert!(near(audit.sharing(l), 1.0));
            prop_assert!(audit.envy_row(l).all(|ratio| ratio <= 1.0 + 1e-9));
        }
        prop_assert!(near(audit.total_over_equal(), 1.0));
    }

    #[test]
    fn what_cannot_be_improved_has_no_gap((problem, _) in case(false)) {
        let audit = audit(&problem, &largest_total(&problem));
        let pareto = audit.pareto(Budget::default());
        prop_assert!(pareto.most() <= 1e-6, "{pareto:?} of a largest total");
    }

    #[test]
    fn a_gap_is_proved_from_both_sides((problem, x) in case(false)) {
        let pareto = audit(&problem, &x).pareto(Budget::default());
        prop_assert!(pareto.total <= pareto.attained && pareto.attained <= pareto.bound, "{pareto:?}");
        let doubt = (pareto.bound - pareto.attained) / pareto.bound.max(f64::MIN_POSITIVE);
        prop_assert!(doubt <= 1e-6, "{pareto:?}: doubt {doubt}");
    }

    #[test]
    fn a_bound_holds_whatever_the_rates((problem, x) in case(true)) {
        let pareto = audit(&problem, &x).pareto(Budget::default());
        prop_assert!(pareto.total <= pareto.attained && pareto.attained <= pareto.bound, "{pareto:?}");
        let hurried = audit(&problem, &x).pareto(Budget::iterations(2));
        prop_assert!(hurried.bound >= pareto.attained * (1.0 - 1e-6), "{hurried:?} against {pareto:?}");
    }
}
