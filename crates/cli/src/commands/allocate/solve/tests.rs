//! Prices and objectives are of GPUs, however many parts a GPU was counted in.

use super::super::question::Spelling;
use super::*;
use arles_core::allocate::{POLICIES, find_policy};
use std::collections::BTreeMap;

/// GPUs that are added or taken away.
const STEP: f64 = 1e-2;
/// Error of a price, relative to what all GPUs are worth over their number.
const SLACK: f64 = 2e-3;

fn read(text: &str) -> Question {
    Question::read(text, Spelling::Json, None).expect("a question")
}

/// The question of docs/cli.md with another cap.
fn of_the_docs(gpus_max: f64) -> Question {
    read(&format!(
        r#"{{"kinds": [{{"name": "v100", "count": 2}}, {{"name": "k80", "count": 2}}],
            "users": [{{"name": "ann", "weight": 2, "rates": [4, 1]}},
                      {{"name": "bob", "rates": [2, 1], "gpus_max": {gpus_max}}}]}}"#
    ))
}

/// Numbers that look random and are always the same.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn rate(&mut self) -> f64 {
        0.5 + self.below(900) as f64 / 200.0
    }
}

/// A random question in which some users have this cap.
fn random(draw: &mut Draw, gpus_max: f64) -> Question {
    let kinds = 1 + draw.below(3) as usize;
    let kind = |draw: &mut Draw, j: usize| {
        format!(r#"{{"name": "kind{j}", "count": {}, "hourly_cost": {}}}"#, 3 + draw.below(4), draw.rate())
    };
    let user = |draw: &mut Draw, l: usize| {
        let rates: Vec<String> = (0..kinds).map(|_| draw.rate().to_string()).collect();
        let more = match (l, draw.below(4)) {
            (0, _) | (_, 0) => format!(r#", "gpus_max": {gpus_max}"#),
            (_, 1) => r#", "gang": 2"#.to_owned(),
            (_, 2) => format!(r#", "floor": {}"#, draw.rate() / 8.0),
            _ => String::new(),
        };
        format!(r#"{{"name": "user{l}", "weight": {}, "rates": [{}]{more}}}"#, 1 + draw.below(3), rates.join(","))
    };
    let users = 2 + draw.below(4) as usize;
    let kinds: Vec<String> = (0..kinds).map(|j| kind(draw, j)).collect();
    let users: Vec<String> = (0..users).map(|l| user(draw, l)).collect();
    read(&format!(r#"{{"kinds": [{}], "users": [{}]}}"#, kinds.join(","), users.join(",")))
}

/// The objective in GPUs with `more` GPUs of kind `j`, everybody's measure as it is; `None` where it is not proved.
fn with_more(policy: &'static PolicyEntry, question: &Question, units: &Units, j: usize, more: f64) -> Option<f64> {
    let scale = scale(policy, question);
    let mut case = Case::new(policy, question, scale).expect("a case");
    let single = case.single.as_mut().map(|(problem, _)| problem);
    for problem in std::iter::once(&mut case.problem).chain(single) {
        let before = problem.clone();
        problem.capacity[j] += more * scale;
        if policy.name.starts_with("max-min") {
            let mean = |problem: &Problem, u: usize| {
                let speed = |r: f64| if policy.ignores_speeds { f64::from(u8::from(r > 0.0)) } else { r };
                let sum: f64 = problem.gpu_rates(u).zip(&problem.capacity).map(|(r, m)| speed(r) * m).sum();
                sum / problem.capacity.iter().sum::<f64>()
            };
            for u in 0..before.users.len() {
                let factor = mean(&before, u) / mean(problem, u);
                problem.users[u].job_weight *= factor;
            }
        }
    }
    let answer = case.allocate().expect("an answer");
    answer.certificate().filter(|certificate| certificate.gap() <= 1e-6)?;
    Some(answer.objective()? / units.objective)
}

/// Checks all prices; returns how many were pinned down by solving again on both sides.
fn check_prices(policy: &'static PolicyEntry, question: &Question) -> u32 {
    let solved = solve(policy, question).expect("an answer");
    let Some(now) = solved.certificate.filter(|c| c.gap() <= 1e-6).and(solved.objective) else { return 0 };
    let units = Units::new(policy, question, scale(policy, question), &solved.utilities);
    let gpus: f64 = question.kinds.iter().map(|kind| f64::from(kind.count)).sum();
    let mut pinned = 0;
    for (j, &price) in solved.prices.iter().enumerate() {
        let then = |more: f64| with_more(policy, question, &units, j, more);
        let (Some(after), Some(before)) = (then(STEP), then(-STEP)) else { continue };
        let (more, less) = ((after - now) / STEP, (now - before) / STEP);
        let slack = SLACK * (now.abs() / gpus).max(price.abs());
        let inside = price >= more - slack && price <= less + slack;
        assert!(
            inside,
            "{}: kind {j} has price {price}; one more is worth {more} to {less}: {question:?}",
            policy.name
        );
        pinned += u32::from(less - more <= slack && price > slack);
    }
    pinned
}

#[test]
fn a_price_is_what_one_more_gpu_is_worth_whatever_the_caps() {
    let mut pinned: BTreeMap<&str, u32> = BTreeMap::new();
    for gpus_max in [1.0, 2.0, 4.0, 1.9, 0.5, 0.125] {
        let mut draw = Draw(7);
        for _ in 0..12 {
            let question = random(&mut draw, gpus_max);
            for policy in POLICIES.iter().filter(|policy| !policy.promises(Promise::Whole)) {
                *pinned.entry(policy.name).or_default() += check_prices(policy, &question);
            }
        }
    }
    let priced = [
        "oef-noncoop",
        "ceei",
        "max-min-fairness",
        "max-min-packed",
        "max-min-agnostic",
        "min-makespan",
        "max-throughput",
        "min-cost",
    ];
    for name in priced {
        assert!(pinned[name] >= 12, "{name}: {} prices were pinned down", pinned[name]);
    }
}

#[test]
fn the_prices_of_the_docs_are_the_duals() {
    let policy = find_policy("max-min-fairness").expect("in the table");
    let solved = solve(policy, &of_the_docs(1.5)).expect("an answer");
    let near = |a: f64, b: f64| (a - b).abs() < 5e-5;
    assert!(near(solved.prices[0], 0.4211) && near(solved.prices[1], 0.1053), "{:?}", solved.prices);
}

/// A little more of a cap is a little change of a price: the number of parts of a GPU must not be seen in it.
#[test]
fn prices_do_not_jump_with_the_decimals_of_a_cap() {
    for policy in POLICIES.iter().filter(|policy| !policy.promises(Promise::Whole)) {
        let at = |gpus_max: f64| solve(policy, &of_the_docs(gpus_max)).expect("an answer");
        for whole in [1.0, 2.0] {
            let (here, there) = (at(whole), at(whole + 0.001));
            let near = |a: f64, b: f64| (a - b).abs() <= 0.02 * a.abs().max(b.abs()).max(1e-3);
            let objectives = here.objective.zip(there.objective);
            assert!(objectives.is_none_or(|(a, b)| near(a, b)), "{} at {whole}: {objectives:?}", policy.name);
            let prices = here.prices.iter().zip(&there.prices);
            // Where a cap begins to bind a price may change at once, but not by ten.
            let jump = prices.clone().any(|(a, b)| a.max(*b) > 5.0 * a.min(*b) && a.min(*b) > 1e-9);
            assert!(!jump, "{} at {whole}: {:?} and {:?}", policy.name, here.prices, there.prices);
        }
    }
}

/// Two jobs that each keep three quarters of their rate beside each other are worth one and a half GPUs on one.
#[test]
fn pairs_of_a_question_are_used_by_policies_that_share() {
    let text = r#"{"kinds": [{"name": "v100", "count": 1}],
        "users": [{"name": "ann", "rates": [4], "jobs": 1}, {"name": "bob", "rates": [2], "jobs": 1}],
        "pairs": [{"users": ["bob", "ann"], "kind": "v100", "rates": [1.5, 3]}]}"#;
    let question = Question::read(text, Spelling::Json, None).expect("a question");
    for (policy, utilities, shared) in [("max-min-packed", [3.0, 1.5], 1), ("max-min-fairness", [2.0, 1.0], 0)] {
        let solved = solve(find_policy(policy).expect("in the table"), &question).expect("an answer");
        for (found, expected) in solved.utilities.iter().zip(utilities) {
            assert!((found - expected).abs() < 1e-5, "{policy}: {:?}", solved.utilities);
        }
        assert_eq!(solved.shared.len(), shared, "{policy}: {:?}", solved.shared);
        assert!((solved.used[0] - 1.0).abs() < 1e-6, "one GPU is in use: {:?}", solved.used);
    }
    for (wrong, said) in [
        (text.replace("[\"bob\", \"ann\"]", "[\"bob\", \"amn\"]"), "did you mean ann?"),
        (text.replace("[1.5, 3]", "[1.5, 5]"), "expected at most its rate alone, 4"),
        (text.replace("\"v100\", \"rates\"", "\"k80\", \"rates\""), "expected one of the kinds of the question"),
        (text.replace("[1.5, 3]", "[1.5]"), "expected two numbers"),
    ] {
        let refused = Question::read(&wrong, Spelling::Json, None).expect_err("refused");
        assert!(refused.contains(said), "{refused}");
    }
}
