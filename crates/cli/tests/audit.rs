//! `arles audit` finds what was planted, and finds nothing where nothing is.

#[path = "support/arles.rs"]
mod support;

use serde_json::Value;
use std::path::Path;
use support::{arles, folder};

/// ann runs twice as fast on a V100 as on a K80, bob three times; one GPU of each.
const QUESTION: &str = "user,k80,v100\ngpus,1,1\nann,1,2\nbob,1,3\n";

fn audit(folder: &Path, line: &str) -> Value {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ran = arles(folder, &[&["audit"], &words[..], &["-o", "json"]].concat(), "");
    assert_eq!(ran.code, 0, "arles audit {line}\n{}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("it prints JSON")
}

/// Whether a property holds, and in which words.
fn verdict(audit: &Value, property: &str) -> (Option<bool>, String) {
    let all = audit["verdicts"].as_array().expect("verdicts");
    let one =
        all.iter().find(|v| v["property"] == property).unwrap_or_else(|| panic!("no verdict on {property}: {all:?}"));
    (one["holds"].as_bool(), one["words"].as_str().expect("words").to_owned())
}

fn written(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
    let folder = folder(name);
    for (file, text) in files {
        std::fs::write(folder.join(file), text).expect("the folder can be written");
    }
    folder
}

#[test]
fn a_planted_envy_is_found() {
    let folder = written("audit-envy", &[("q.csv", QUESTION), ("x.csv", "user,k80,v100\nann,1,0\nbob,0,1\n")]);
    let audit = audit(&folder, "q.csv --allocation x.csv");
    let (holds, words) = verdict(&audit, "envy-freeness");
    assert_eq!(holds, Some(false));
    assert!(words.contains("ann those of bob") && words.contains("100 % more"), "{words}");
    assert_eq!(audit["parties"][0]["worst_envy"], 2.0);
    assert_eq!(audit["parties"][0]["envied"], "bob");
    assert!(audit["envy"][1][0].as_f64().expect("a ratio") < 1.0);
    let (holds, words) = verdict(&audit, "sharing incentive");
    assert!(holds == Some(false) && words.contains("ann has 0.667"), "{words}");
    assert_eq!(verdict(&audit, "Pareto efficiency").0, Some(true));
    assert_eq!(verdict(&audit, "no gain from lies").0, None, "nobody was lied to");
}

#[test]
fn a_planted_waste_is_found() {
    // Half a K80 is idle; with it ann could also leave bob more of the V100.
    let idle = "user,k80,v100\nann,0.5,0.25\nbob,0,0.75\n";
    // Both kinds halved: the two would trade.
    let halves = r#"{"users": ["bob", "ann"], "kinds": ["v100", "k80"], "shares": [[0.5, 0.5], [0.5, 0.5]]}"#;
    let folder = written("audit-waste", &[("q.csv", QUESTION), ("idle.csv", idle), ("halves.json", halves)]);
    let wasted = audit(&folder, "q.csv --allocation idle.csv");
    let (holds, words) = verdict(&wasted, "Pareto efficiency");
    assert!(holds == Some(false) && words.starts_with("23.1 % more in all"), "{words}");
    let traded = audit(&folder, "q.csv --allocation halves.json");
    let (holds, words) = verdict(&traded, "Pareto efficiency");
    assert!(holds == Some(false), "{words}");
    assert_eq!(verdict(&traded, "envy-freeness").0, Some(true), "halves are equal");
    assert_eq!(verdict(&traded, "sharing incentive").0, Some(true));
}

#[test]
fn a_planted_lie_is_found() {
    // What oef-noncoop answers when bob says 2.5 instead of 3: bob has 2.00 where honesty gives it 1.80.
    let lied = "user,k80,v100\ngpus,1,1\nann,1,2\nbob,1,2.5\n";
    let folder = written("audit-lie", &[("q.csv", QUESTION), ("lied.csv", lied)]);
    let answer = arles(&folder, &["allocate", "lied.csv", "--policy", "oef-noncoop"], "");
    std::fs::write(folder.join("x.json"), answer.stdout).expect("the folder can be written");
    let audit_of_it = audit(&folder, "q.csv --allocation x.json --policy oef-noncoop");
    let (holds, words) = verdict(&audit_of_it, "as the policy answers");
    assert!(holds == Some(false) && words.contains("bob has 1.11 of what it would get"), "{words}");
    let (holds, words) = verdict(&audit_of_it, "no gain from lies");
    assert!(holds == Some(false) && words.contains("deflated"), "{words}");
    let lie = &audit_of_it["parties"][1]["best_lie"];
    assert!(lie["gain"].as_f64().expect("a gain") > 1.11, "{lie}");
    assert_eq!(lie["slant"], "deflated");
    // The same seed finds the same.
    assert_eq!(audit_of_it, audit(&folder, "q.csv --allocation x.json --policy oef-noncoop"));
}

#[test]
fn fair_answers_pass() {
    let folder = written("audit-fair", &[("q.csv", QUESTION), ("one.csv", "user,v100\ngpus,3\nann,1\nbob,7\neve,2\n")]);
    let coop = audit(&folder, "q.csv --policy ceei");
    for property in ["envy-freeness", "sharing incentive", "Pareto efficiency", "finish-time fairness"] {
        assert_eq!(verdict(&coop, property).0, Some(true), "{property}: {coop}");
    }
    let alike = audit(&folder, "one.csv --policy oef-coop");
    assert!(alike["verdict"].as_str().expect("a sentence").starts_with("Fair in all that was looked at"), "{alike}");
}

#[test]
fn pages_and_maps_are_written_and_wrong_input_is_told() {
    let folder = written("audit-files", &[("q.csv", QUESTION), ("x.csv", "user,k80,v100\nann,1,0\nbob,0,1\n")]);
    let ran = arles(&folder, &["audit", "q.csv", "--allocation", "x.csv", "--report", "a.html", "--svg", "a.svg"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("envy-freeness") && ran.stdout.contains("FAILS"), "{}", ran.stdout);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it was written");
    assert!(read("a.html").contains("ann envies bob: 2.00") && read("a.svg").starts_with("<svg xmlns"));
    let says = |line: &str, sentence: &str| {
        let ran = arles(&folder, &line.split_whitespace().collect::<Vec<_>>(), "");
        assert!(ran.code == 2 && ran.stderr.contains(sentence), "arles {line}\n{}", ran.stderr);
    };
    std::fs::write(folder.join("more.csv"), "user,k80,v100\nann,1,0.5\nbob,0,1\n").expect("a folder");
    std::fs::write(folder.join("eve.csv"), "user,k80,v100\neve,1,0.5\n").expect("a folder");
    says("audit q.csv", "nothing to audit");
    says("audit q.csv --allocation more.csv", "gives away 1.5 GPUs of kind 'v100' and there are 1");
    says("audit q.csv --allocation eve.csv", "there is no user 'eve'");
    says("audit --policy fifo", "--policy is about a question");
    says("audit none.csv --policy fifo", "none.csv");
}

const TRACE: &str = "\
job_id,tenant,weight,workload,gang,arrival_seconds,steps
1,vision,1,resnet50-b64,1,0,400000
2,vision,1,resnet50-b64,1,0,400000
3,vision,1,resnet50-b64,1,0,400000
4,vision,1,resnet50-b64,1,0,400000
5,search,1,lm-b20,1,60,200000
6,search,1,lm-b20,1,60,200000
";

#[test]
fn a_run_is_audited_from_its_journal() {
    let folder = written("audit-run", &[("trace.csv", TRACE)]);
    let journal = |policy: &str| {
        let line =
            format!("simulate --trace trace.csv --cluster v100:1,k80:1 --policy {policy} --journal {policy}.jsonl");
        let ran = arles(&folder, &line.split_whitespace().collect::<Vec<_>>(), "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        audit(&folder, &format!("{policy}.jsonl"))
    };
    // First come, first served: search waits behind vision's four jobs.
    let fifo = journal("fifo");
    assert_eq!(verdict(&fifo, "envy-freeness").0, Some(false), "{fifo}");
    assert_eq!(verdict(&fifo, "sharing incentive").0, Some(false), "{fifo}");
    let (holds, words) = verdict(&fifo, "finish-time fairness");
    assert!(holds == Some(false) && words.starts_with("search takes"), "{words}");
    let coop = journal("oef-coop");
    assert_eq!(verdict(&coop, "envy-freeness").0, Some(true), "{coop}");
    assert_eq!(verdict(&coop, "sharing incentive").0, Some(true), "{coop}");
    let late = |audit: &Value| {
        audit["parties"]
            .as_array()
            .expect("parties")
            .iter()
            .map(|p| p["finish_time_ratio"].as_f64().expect("jobs ended"))
            .fold(0.0, f64::max)
    };
    assert!(late(&coop) < late(&fifo), "{} against {}", late(&coop), late(&fifo));
    assert_eq!(coop, audit(&folder, "oef-coop.jsonl"), "the same journal, the same audit");
}
