//! A line of a journal that somebody has changed by hand, or that a disk has: the scheduler refuses the answer in it and goes
//! on with the shares it had. It never panics, and it never places what does not fit.

#[path = "common/nouns.rs"]
mod nouns;

use arles_core::allocate::{Allocation, Problem, find_policy};
use arles_core::estimate::{Estimate, RateQuery, RateRow, Source};
use arles_core::scheduler::{Event, ObservedNode, Settings, Survey};
use arles_core::{Input, NodeId, Output, Scheduler, Tenant, Time};
use nouns::{cluster, job};
use std::sync::Arc;

/// A scheduler of three jobs on two kinds that has just asked how to divide the GPUs.
fn asking() -> (Scheduler, Arc<Problem>) {
    let tenants = vec![Tenant { name: "default".into(), weight: 1.0 }];
    let policy = find_policy("max-min-fairness").expect("in the table");
    let mut scheduler = Scheduler::new(cluster(&[2, 2], 2), tenants, policy, Settings::with_round(60.0));
    let nodes = (0..2).map(|n| ObservedNode { node: NodeId(n), up: true }).collect();
    scheduler.step(Time::ZERO, Input::Surveyed(Survey { at: Time::ZERO, nodes, gangs: Vec::new() }));
    for id in 0..3 {
        for output in scheduler.step(Time::ZERO, Input::Submit(job(id, id as u32, 1))) {
            if let Output::Estimate(ask) = output {
                scheduler.step(Time::ZERO, Input::Estimated(vec![row(ask)]));
            }
        }
    }
    let outputs = scheduler.step(Time::from_seconds(60.0), Input::Tick);
    let asked = outputs.into_iter().find_map(|output| match output {
        Output::Solve(problem) => Some(problem),
        _ => None,
    });
    (scheduler, asked.expect("it asks"))
}

fn row(ask: RateQuery) -> RateRow {
    let cell = |rate| Estimate {
        rate,
        spread_rate: rate,
        racks_rate: 0.0,
        partner_rate: 0.0,
        watts: 200.0,
        standard_error: 0.0,
        source: Source::Measured,
    };
    RateRow { ask, cells: vec![Some(cell(2.0)), Some(cell(1.0))] }
}

/// The line of a journal with the right answer.
fn line(problem: &Problem) -> String {
    let answer = (find_policy("max-min-fairness").expect("in the table").make)().allocate(problem);
    serde_json::to_string(&Input::Allocated(problem.round, answer)).expect("plain data")
}

/// What comes of a line in which `from` was changed to `to`: why it could not be read, or what the scheduler says.
fn told(from: &str, to: &str) -> Result<Vec<Output>, String> {
    let (mut scheduler, problem) = asking();
    let line = line(&problem);
    assert!(line.contains(from), "'{from}' is not in {line}");
    let input: Input = serde_json::from_str(&line.replacen(from, to, 1)).map_err(|error| error.to_string())?;
    let outputs = scheduler.step(Time::from_seconds(61.0), input);
    // It asks again, and a right answer is taken as ever.
    let again = scheduler.step(Time::from_seconds(120.0), Input::Tick);
    assert!(again.iter().any(|output| matches!(output, Output::Solve(_))), "it does not ask again: {again:?}");
    Ok(outputs)
}

fn check_refused(from: &str, to: &str, why: &str) {
    let outputs = told(from, to).expect("the line can be read");
    let said = outputs.iter().find_map(|output| match output {
        Output::Note(Event::NoAllocation { why, .. }) => Some(why.clone()),
        _ => None,
    });
    let said = said.unwrap_or_else(|| panic!("{from} -> {to} was taken: {outputs:?}"));
    assert!(said.contains(why), "'{said}' does not say '{why}'");
}

fn check_unreadable(from: &str, to: &str, why: &str) {
    let error = told(from, to).expect_err("nobody can read this");
    assert!(error.contains(why), "'{error}' does not say '{why}'");
}

#[test]
fn a_line_as_it_was_written_is_taken() {
    let (mut scheduler, problem) = asking();
    let line = line(&problem);
    let input: Input = serde_json::from_str(&line).expect("it can be read");
    assert_eq!(serde_json::to_string(&input).expect("plain data"), line, "the same bytes");
    let outputs = scheduler.step(Time::from_seconds(61.0), input);
    assert!(outputs.iter().any(|output| matches!(output, Output::Order(_))), "{outputs:?}");
}

#[test]
fn who_or_what_is_not_there_is_refused() {
    check_refused(r#""one":0"#, r#""one":77"#, "user 77");
    check_refused(r#""one":0"#, r#""two":[0,77]"#, "one of which is not there");
    check_refused(r#""one":0"#, r#""two":[0,1]"#, "do not fit together");
    check_refused(r#""kind":0"#, r#""kind":9"#, "which is not in the problem");
    check_refused(r#""round":1"#, r#""round":2"#, "it was made for");
    check_refused(r#""prices":["#, r#""prices":[1.0,"#, "3 prices for 2 kinds");
}

#[test]
fn more_than_there_is_is_refused() {
    check_refused(r#""gangs":"#, r#""gangs":1"#, "12.000000 GPUs of kind-0 were granted where 2 are usable");
    check_refused(r#""gangs":"#, r#""gangs":999999"#, "granted");
}

#[test]
fn numbers_that_are_none_are_not_read() {
    check_unreadable(r#""gangs":"#, r#""gangs":-"#, "a share of -");
    check_unreadable(r#""gangs":"#, r#""gangs":null,"x":"#, "null");
    check_unreadable(r#""gangs":"#, r#""gangs":NaN,"x":"#, "expected value");
    check_unreadable(r#""one":0"#, r#""two":[1,0]"#, "cannot share a GPU");
    check_unreadable(r#""one":0"#, r#""one":-1"#, "invalid value");
}

/// A policy's answer to a problem with fewer users than are there, and with more.
#[test]
fn an_answer_to_other_users_is_refused() {
    let (mut scheduler, problem) = asking();
    let mut other = Problem::clone(&problem);
    other.users.extend(problem.users.clone());
    other.rates.extend(problem.rates.clone());
    let answer: Result<Allocation, _> = (find_policy("fifo").expect("in the table").make)().allocate(&other);
    let outputs = scheduler.step(Time::from_seconds(61.0), Input::Allocated(problem.round, answer));
    let refused = outputs.iter().any(|output| matches!(output, Output::Note(Event::NoAllocation { .. })));
    assert!(refused, "{outputs:?}");
}

/// A scheduler under way: jobs run, wait and share, on nodes of two kinds.
fn under_way() -> Scheduler {
    let (mut scheduler, problem) = asking();
    let answer = (find_policy("max-min-fairness").expect("in the table").make)().allocate(&problem);
    let outputs = scheduler.step(Time::from_seconds(61.0), Input::Allocated(problem.round, answer));
    let starts = outputs.iter().filter_map(|output| match output {
        Output::Order(arles_core::scheduler::Order::Start(start)) => Some(start.clone()),
        _ => None,
    });
    for start in starts.take(2).collect::<Vec<_>>() {
        use arles_core::scheduler::{GangEvent, GangReport};
        let report = GangReport::new(start.job, start.fence, GangEvent::Started);
        scheduler.step(Time::from_seconds(62.0), Input::Reported(report));
    }
    for id in 3..6 {
        scheduler.step(Time::from_seconds(63.0), Input::Submit(job(id, 1, 2)));
    }
    scheduler.step(Time::from_seconds(120.0), Input::Tick);
    scheduler
}

/// Numbers and texts of a document, by their place in it.
fn leaves(value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Array(all) => {
            found.push(at.to_owned());
            all.iter().enumerate().for_each(|(i, value)| leaves(value, &format!("{at}/{i}"), found));
        }
        serde_json::Value::Object(all) => {
            all.iter().for_each(|(key, value)| leaves(value, &format!("{at}/{key}"), found));
        }
        _ => found.push(at.to_owned()),
    }
}

/// What a damaged place may hold instead.
fn damages(value: &serde_json::Value) -> Vec<serde_json::Value> {
    use serde_json::{Value, json};
    match value {
        Value::Number(_) => vec![
            json!(0),
            json!(1),
            json!(7),
            json!(4_294_967_295_u64),
            json!(u64::MAX),
            json!(-1),
            json!(1e300),
            Value::Null,
        ],
        Value::Bool(truth) => vec![json!(!truth)],
        Value::String(_) => vec![json!("nonsense"), json!("")],
        Value::Array(all) => {
            let (mut longer, mut shorter) = (all.clone(), all.clone());
            longer.extend(all.first().cloned());
            shorter.pop();
            vec![Value::Array(longer), Value::Array(shorter), Value::Array(Vec::new())]
        }
        Value::Null => vec![json!(1), json!({})],
        Value::Object(_) => Vec::new(),
    }
}

/// Lives on for a few rounds with whatever was restored, answered by the policy.
fn live_on(mut scheduler: Scheduler) {
    let begun = scheduler.now();
    for round in 1..=4 {
        let now = begun.after(60.0 * f64::from(round));
        let mut inputs = vec![Input::Tick];
        while let Some(input) = inputs.pop() {
            for output in scheduler.step(now, &input) {
                match output {
                    Output::Solve(problem) => {
                        let answer = (scheduler.policy().make)().allocate(&problem);
                        inputs.push(Input::Allocated(problem.round, answer));
                    }
                    Output::Estimate(ask) => inputs.push(Input::Estimated(vec![row(ask)])),
                    _ => {}
                }
            }
        }
        let (last, nodes) = (scheduler.now(), scheduler.cluster().nodes().len() as u32);
        let nodes = (0..nodes).map(|n| ObservedNode { node: NodeId(n), up: true }).collect();
        scheduler.step(now, Input::Surveyed(Survey { at: last, nodes, gangs: Vec::new() }));
        scheduler.explain_all().for_each(drop);
    }
}

/// Every number, text and list of a snapshot is damaged in turn: it is refused with a sentence, or the scheduler lives on. It never panics.
#[test]
fn a_damaged_snapshot_is_refused_or_lived_with() {
    let whole = serde_json::to_value(under_way()).expect("plain data");
    live_on(serde_json::from_value(whole.clone()).expect("it can be read"));
    let mut places = Vec::new();
    leaves(&whole, "", &mut places);
    let (mut refused, mut lived, mut panicked) = (0, 0, Vec::new());
    for place in &places {
        for damage in damages(whole.pointer(place).expect("it is there")) {
            let mut damaged = whole.clone();
            *damaged.pointer_mut(place).expect("it is there") = damage.clone();
            let outcome = std::panic::catch_unwind(|| match serde_json::from_value::<Scheduler>(damaged) {
                Ok(scheduler) => {
                    live_on(scheduler);
                    true
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    false
                }
            });
            match outcome {
                Ok(true) => lived += 1,
                Ok(false) => refused += 1,
                Err(_) => panicked.push(format!("{damage} at {place}")),
            }
        }
    }
    assert!(panicked.is_empty(), "these panic: {panicked:#?}");
    assert!(refused > 100 && lived > 100, "{refused} refused, {lived} lived with");
}
