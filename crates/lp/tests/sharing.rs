//! Sharing against closed forms, and against the general solver over all columns.

use arles_lp::sharing::{self, Filling, Pair, Sharing, User};
use arles_lp::{Budget, Clarabel, ColumnId, Domain, InputError, Model, Solver, certificate};
use proptest::prelude::*;

const BUDGET: Budget = Budget::iterations(20_000);

/// A question that owns its numbers.
#[derive(Clone, Debug)]
struct Question {
    users: Vec<User>,
    rates: Vec<f64>,
    pairs: Vec<Pair>,
    capacity: Vec<f64>,
}

impl Question {
    fn problem(&self) -> Sharing<'_> {
        Sharing { users: &self.users, rates: &self.rates, pairs: &self.pairs, capacity: &self.capacity }
    }
}

fn user(class: usize) -> User {
    User { class, beta: 1.0, jobs: 1.0, need: 1.0 }
}

fn pair(first: usize, second: usize, resource: usize, rates: (f64, f64)) -> Pair {
    Pair { first, second, resource, rates }
}

fn fill(question: &Question) -> Filling {
    let shared = sharing::fill(&question.problem(), BUDGET).unwrap();
    assert_feasible(question, &shared);
    assert!(shared.bottlenecks.iter().all(|stage| stage.bound.upper >= stage.bound.lower), "{:?}", shared.bottlenecks);
    // A stage is proved against what those who stopped before it, or are full, have in the end. They may be a few parts in
    // ten million short: where their duals are a thousand times those of the stage, so is what that leaves open.
    assert!(shared.gap <= 2e-3, "gap {:e}", shared.gap);
    shared
}

/// What the rate of a class is in a share, from the question alone.
fn rate(question: &Question, shared: &Filling, share: &sharing::Share) -> (f64, f64) {
    let k = question.capacity.len();
    let class = |group: usize| question.users[shared.groups[group][0]].class;
    let first = class(share.first);
    let Some(second) = share.second.map(class) else {
        return (question.rates[first * k + share.resource], 0.0);
    };
    let listed = |a: usize, b: usize| {
        question.pairs.iter().find(|pair| (pair.first, pair.second, pair.resource) == (a, b, share.resource))
    };
    match (listed(first, second), listed(second, first)) {
        (Some(pair), _) => pair.rates,
        (None, Some(pair)) => (pair.rates.1, pair.rates.0),
        (None, None) => panic!("{share:?} is a pair of nothing"),
    }
}

fn assert_feasible(question: &Question, shared: &Filling) {
    let (k, n) = (question.capacity.len(), question.users.len());
    let (mut units, mut jobs, mut done) =
        (vec![0.0; k], vec![0.0; shared.groups.len()], vec![0.0; shared.groups.len()]);
    let need = |group: usize| question.users[shared.groups[group][0]].need;
    for share in &shared.shares {
        assert!(share.amount > 0.0);
        let rates = rate(question, shared, share);
        units[share.resource] += share.amount * if share.second.is_none() { need(share.first) } else { 1.0 };
        jobs[share.first] += share.amount;
        done[share.first] += rates.0 * share.amount;
        if let Some(second) = share.second {
            assert_eq!((need(share.first), need(second)), (1.0, 1.0), "only jobs of one unit share it");
            jobs[second] += share.amount;
            done[second] += rates.1 * share.amount;
        }
    }
    let within = |value: f64, limit: f64| value <= limit * (1.0 + 1e-9);
    assert!((0..k).all(|j| within(units[j], question.capacity[j])), "{units:?} units of {:?}", question.capacity);
    let mut seen = vec![0; n];
    for (g, members) in shared.groups.iter().enumerate() {
        let all = |of: fn(&User) -> f64| members.iter().map(|&i| of(&question.users[i])).sum::<f64>();
        assert!(within(jobs[g], all(|user| user.jobs)), "group {g} is in more places than it has jobs");
        for &i in members {
            seen[i] += 1;
            let level = done[g] / all(|user| user.beta);
            assert!((shared.levels[i] - level).abs() <= 1e-9 * level);
        }
    }
    assert!(seen.iter().all(|&times| times == 1), "everybody is in one group");
}

fn assert_levels(shared: &Filling, expected: &[f64]) {
    let near = |(ours, theirs): (&f64, &f64)| (ours - theirs).abs() <= 1e-5 * theirs;
    assert!(shared.levels.iter().zip(expected).all(near), "{:?} is not {expected:?}", shared.levels);
}

#[test]
fn two_that_do_not_disturb_each_other_share() {
    let mut question = Question {
        users: vec![user(0), user(1)],
        rates: vec![1.0, 2.0],
        pairs: vec![pair(0, 1, 0, (0.8, 1.6))],
        capacity: vec![1.0],
    };
    // 0.8 and 1.6 side by side; mixing in turns alone makes them equal at 16/15 each... of which user 0 cannot have more
    // than its job can do beside the other, 1 - x alone: 0.8 x + y = 1.6 x + 2 z, x + y + z = 1, z = 0.
    let x = 1.0 / 1.8;
    assert_levels(&fill(&question), &[0.8 * x + 1.0 - x, 1.6 * x]);
    question.users[1].beta = 2.0;
    assert_levels(&fill(&question), &[0.8, 0.8]);
}

#[test]
fn a_pair_worse_than_taking_turns_is_not_used() {
    let question = Question {
        users: vec![user(0), user(1)],
        rates: vec![1.0, 1.0],
        pairs: vec![pair(0, 1, 0, (0.5, 0.5))],
        capacity: vec![1.0],
    };
    let shared = fill(&question);
    assert_levels(&shared, &[0.5, 0.5]);
    assert!(shared.shares.iter().all(|share| share.second.is_none()));
}

#[test]
fn a_single_job_is_not_beside_itself() {
    let mut question = Question {
        users: vec![user(0)],
        rates: vec![1.0],
        pairs: vec![pair(0, 0, 0, (0.9, 0.9))],
        capacity: vec![0.5],
    };
    assert_levels(&fill(&question), &[0.5]);
    question.users[0].jobs = 2.0;
    assert_levels(&fill(&question), &[0.9]);
    // Two users of one class are a group of two jobs.
    question.users = vec![user(0), user(0)];
    assert_levels(&fill(&question), &[0.45, 0.45]);
}

#[test]
fn gangs_take_what_they_need_and_never_share() {
    let question = Question {
        users: vec![user(0), User { need: 4.0, ..user(1) }],
        rates: vec![1.0, 1.0],
        pairs: vec![pair(0, 1, 0, (0.9, 0.9))],
        capacity: vec![2.0],
    };
    // x + 4 x = 2.
    assert_levels(&fill(&question), &[0.4, 0.4]);
}

#[test]
fn the_rest_rise_when_one_is_full() {
    let question = Question {
        users: vec![User { beta: 10.0, ..user(0) }, user(0), User { jobs: 9.0, ..user(0) }],
        rates: vec![1.0, 0.0],
        pairs: vec![],
        capacity: vec![5.0, 3.0],
    };
    assert_levels(&fill(&question), &[0.1, 1.0, 3.0]);
}

#[test]
fn nonsense_is_refused() {
    let good = Question {
        users: vec![user(0), user(1)],
        rates: vec![1.0, 1.0],
        pairs: vec![pair(0, 1, 0, (0.9, 0.9))],
        capacity: vec![1.0],
    };
    let refuse = |change: &dyn Fn(&mut Question)| {
        let mut question = good.clone();
        change(&mut question);
        sharing::fill(&question.problem(), BUDGET).unwrap_err()
    };
    assert_eq!(refuse(&|q| q.users.clear()), InputError::Empty);
    assert_eq!(refuse(&|q| q.capacity.push(1.0)), InputError::Unknown { what: "user", index: 1, value: 1 });
    assert_eq!(refuse(&|q| q.users[0].class = 9), InputError::Unknown { what: "user", index: 0, value: 9 });
    assert_eq!(refuse(&|q| q.pairs[0].first = 2), InputError::Order { index: 0 });
    assert_eq!(refuse(&|q| q.pairs.push(q.pairs[0])), InputError::Order { index: 1 });
    assert_eq!(refuse(&|q| q.rates[1] = 0.0), InputError::Unservable { user: 1 });
    let refusal = refuse(&|q| q.users[1].need = 0.5);
    assert_eq!(refusal, InputError::Number { what: "need of user", index: 1, value: 0.5, domain: Domain::AtLeastOne });
    assert!(refusal.to_string().starts_with("need of user 1 is 0.5;"));
}

#[test]
fn a_spent_budget_leaves_a_feasible_answer_with_an_honest_gap() {
    let question = draw(11, 9, 3, 5);
    let best = fill(&question);
    for iterations in 1..best.iterations {
        let shared = sharing::fill(&question.problem(), Budget::iterations(iterations)).unwrap();
        assert_feasible(&question, &shared);
        let short = best.levels.iter().zip(&shared.levels).any(|(best, ours)| *ours < best * (1.0 - 1e-3));
        assert!(!short || shared.gap > 1e-4, "the gap {:e} hides that somebody is short", shared.gap);
    }
}

/// A question of some size from a seed.
fn draw(users: usize, classes: usize, k: usize, seed: u64) -> Question {
    let mut state = seed;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let rates: Vec<f64> =
        (0..classes * k).map(|at| if uniform() < 0.1 && at % k > 0 { 0.0 } else { 0.5 + uniform() }).collect();
    let mut pairs = Vec::new();
    for first in 0..classes {
        for second in first..classes {
            for resource in 0..k {
                let (a, b) = (uniform(), uniform());
                let alone = |class: usize| rates[class * k + resource];
                let b = if first == second { a } else { b };
                if uniform() < 0.8 {
                    pairs.push(pair(first, second, resource, (alone(first) * a, alone(second) * b)));
                }
            }
        }
    }
    let users: Vec<User> = (0..users)
        .map(|_| User {
            class: (uniform() * classes as f64) as usize,
            beta: 0.5 + (3.0 * uniform()).floor(),
            jobs: 1.0 + (3.0 * uniform()).floor(),
            need: if uniform() < 0.2 { 2.0 } else { 1.0 },
        })
        .collect();
    let capacity = (0..k).map(|_| 0.2 + 4.0 * uniform()).collect();
    Question { users, rates, pairs, capacity }
}

/// Max of the level of one user, or of all `rising`, over all columns, user by user.
fn most(question: &Question, floor: &[f64], rising: &[bool], target: Option<usize>) -> Option<f64> {
    let (n, k) = (question.users.len(), question.capacity.len());
    let mut model = Model::maximise();
    let t = model.add_column(f64::NEG_INFINITY, f64::INFINITY, 1.0).unwrap();
    let lifted = |i: usize| target.map_or(rising[i], |target| target == i);
    let mut rates: Vec<Vec<(ColumnId, f64)>> =
        (0..n).map(|i| if lifted(i) { vec![(t, -question.users[i].beta)] } else { vec![] }).collect();
    let (mut jobs, mut units) = (vec![Vec::new(); n], vec![Vec::new(); k]);
    for (i, user) in question.users.iter().enumerate() {
        for j in 0..k {
            let x = model.add_column(0.0, f64::INFINITY, 0.0).unwrap();
            rates[i].push((x, question.rates[user.class * k + j]));
            jobs[i].push((x, 1.0));
            units[j].push((x, user.need));
        }
    }
    // Alike users are a group, and two of a group's jobs may share; users of several jobs pair with themselves.
    let alike = |i: usize, h: usize| {
        let (a, b) = (question.users[i], question.users[h]);
        (a.class, a.need, a.beta / a.jobs) == (b.class, b.need, b.beta / b.jobs)
    };
    for pair in &question.pairs {
        for i in (0..n).filter(|&i| question.users[i].class == pair.first && question.users[i].need == 1.0) {
            for h in (0..n).filter(|&h| question.users[h].class == pair.second && question.users[h].need == 1.0) {
                let group: f64 = (0..n).filter(|&other| alike(i, other)).map(|other| question.users[other].jobs).sum();
                if i == h && group < 2.0 {
                    continue;
                }
                let x = model.add_column(0.0, f64::INFINITY, 0.0).unwrap();
                rates[i].push((x, pair.rates.0));
                rates[h].push((x, pair.rates.1));
                jobs[i].push((x, 1.0));
                jobs[h].push((x, 1.0));
                units[pair.resource].push((x, 1.0));
            }
        }
    }
    for i in 0..n {
        let least = if lifted(i) { 0.0 } else { question.users[i].beta * floor[i] };
        model.add_row(least, f64::INFINITY, &rates[i]).unwrap();
        model.add_row(f64::NEG_INFINITY, question.users[i].jobs, &jobs[i]).unwrap();
    }
    for j in 0..k {
        model.add_row(f64::NEG_INFINITY, question.capacity[j], &units[j]).unwrap();
    }
    let outcome = Clarabel.solve(&model, Budget::default());
    certificate::check(&model, &outcome).is_good(1e-7).then_some(outcome.objective)
}

/// The leximin vector, program by program; nothing where Clarabel itself is not sure. A user whose dual is small gains
/// a thousand times what the others are lowered by to leave Clarabel an interior: hence the wide test for "can rise".
fn reference(question: &Question) -> Option<Vec<f64>> {
    let n = question.users.len();
    let (mut u, mut rising) = (vec![0.0; n], vec![true; n]);
    while rising.contains(&true) {
        let t = most(question, &u, &rising, None)?;
        let mut floor = u.clone();
        (0..n).filter(|&i| rising[i]).for_each(|i| floor[i] = t * (1.0 - 1e-8));
        let mut room = Vec::new();
        for i in (0..n).filter(|&i| rising[i]) {
            room.push((most(question, &floor, &rising, Some(i))? / t, i));
        }
        room.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, &(room, i)) in room.iter().enumerate() {
            if at == 0 || room <= 1.0 + 1e-3 {
                rising[i] = false;
                u[i] = t * (1.0 - 1e-8);
            }
        }
    }
    Some(u)
}

#[test]
fn numbers_that_were_hard_once() {
    for (users, classes, k, seed) in [
        (9, 3, 3, 14_599_312_293_249_302_363),
        (8, 8, 3, 712_437_580_174_113_571),
        (3, 3, 2, 4_248_053_987_439_794_807),
    ] {
        fill(&draw(users, classes, k, seed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_general_solver_over_all_columns(
        (users, classes, k, seed) in (1..12usize, 1..12usize, 1..4usize, any::<u64>())
    ) {
        let question = draw(users, classes, k, seed);
        let shared = fill(&question);
        let Some(reference) = reference(&question) else { return Ok(()) };
        let least = |levels: &[f64]| levels.iter().copied().fold(f64::INFINITY, f64::min);
        let (ours, theirs) = (least(&shared.levels), least(&reference));
        prop_assert!((ours - theirs).abs() <= 1e-6 * theirs, "the least is {} and not {}", ours, theirs);
        for (i, theirs) in reference.into_iter().enumerate() {
            let ours = shared.levels[i];
            prop_assert!((ours - theirs).abs() <= 2e-3 * theirs, "user {} has {} and not {}", i, ours, theirs);
        }
        prop_assert_eq!(sharing::fill(&question.problem(), BUDGET).unwrap(), shared);
    }
}

/// A user whose dual is a ten-thousandth of the others' seems to rise where the level is short by parts in ten million: it cannot.
#[test]
fn a_user_that_cannot_rise_does_not_seem_to() {
    for (users, classes, k, seed) in [(9, 6, 1, 2_365_560_892_994_140_433), (7, 7, 1, 16_808_177_333_529_709_761)] {
        let question = draw(users, classes, k, seed);
        let theirs = reference(&question).expect("the general solver is sure");
        for (ours, theirs) in fill(&question).levels.iter().zip(theirs) {
            assert!((ours - theirs).abs() <= 1e-6 * theirs, "{ours} and not {theirs}");
        }
    }
}
