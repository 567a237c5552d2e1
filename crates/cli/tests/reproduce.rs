//! `arles reproduce`: the same bytes for the same seed, a sentence for what is wrong, and the published figures.

#[path = "support/arles.rs"]
mod support;

use std::path::Path;
use support::{arles, folder};

/// Everything a quick reproduction prints and writes; times are left out of it by `-o json`.
fn everything(folder: &Path, threads: &str, seed: &str) -> [String; 3] {
    let flags = ["reproduce", "oef", "--quick", "-o", "json", "--html", "out.html", "--markdown", "out.md"];
    let ran = arles(folder, &[&flags[..], &["--threads", threads, "--seed", seed]].concat(), "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    [ran.stdout, read("out.html"), read("out.md")]
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = folder("reproduce");
    let alone = everything(&folder, "1", "7");
    assert!(alone == everything(&folder, "4", "7"), "threads change the result");
    let other = everything(&folder, "1", "8");
    assert!(alone.iter().zip(&other).all(|(a, b)| a != b), "the seed changes nothing");
    assert!(!alone[0].contains("solve-time"), "times are in a document that is to be compared");
    assert!(
        !alone[1].contains("http:") && !alone[1].contains("https:"),
        "the report names something outside of itself"
    );
}

/// A small field: two policies of which one is tried with every estimator.
fn small_field(folder: &Path, threads: &str) -> [String; 3] {
    let command = "reproduce gogh --quick --only energy,learning,co-location --policy fifo,energy-greedy --generate jobs=24 -o json \
                   --html out.html --markdown out.md --threads";
    let flags: Vec<&str> = command.split_whitespace().chain([threads]).collect();
    let ran = arles(folder, &flags, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    [ran.stdout, read("out.html"), read("out.md")]
}

#[test]
fn runs_with_estimators_are_the_same_on_any_number_of_threads() {
    let folder = folder("reproduce-gogh");
    let alone = small_field(&folder, "1");
    // Both write the number of threads into their command.
    let same = |texts: [String; 3], threads: &str| texts.map(|text| text.replace(&format!("--threads {threads}"), ""));
    let document: serde_json::Value = serde_json::from_str(&alone[0]).unwrap();
    let names: Vec<_> =
        document["experiments"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["energy", "learning", "co-location"]);
    for experiment in document["experiments"].as_array().unwrap() {
        assert_eq!(experiment["troubles"].as_array().unwrap().len(), 0, "{}", experiment["troubles"]);
    }
    let runs = document["experiments"][0]["sheets"][0]["rows"].as_array().unwrap();
    assert!(runs.iter().any(|row| row[0] == "energy-greedy, learned P1"), "{runs:?}");
    assert!(same(alone, "1") == same(small_field(&folder, "3"), "3"), "threads change the result");
}

#[test]
fn the_policy_under_test_is_tried_with_an_estimator_and_timed() {
    let folder = folder("reproduce-gogh-table");
    let command = "reproduce gogh --quick --only energy,program --policy fifo,gogh --estimator model --seeds 1 --generate jobs=12 \
                   --cluster v100:2,k80:2";
    let ran = arles(&folder, &command.split_whitespace().collect::<Vec<_>>(), "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for text in
        ["energy: Energy and promises", "gogh, oracle", "gogh, model", "program: Time to solve", "energy-greedy"]
    {
        assert!(ran.stdout.contains(text), "{text} is missing:\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("Trouble"), "{}", ran.stdout);
}

#[test]
fn every_experiment_finds_something_without_trouble() {
    let folder = folder("reproduce-table");
    let ran = arles(&folder, &["reproduce", "oef", "--quick"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for name in ["properties", "throughput", "completion", "lying", "gangs", "solve-time", "robustness"] {
        assert!(ran.stdout.contains(&format!("\n{name}: ")) || ran.stdout.starts_with(name), "{name} is missing");
    }
    assert!(!ran.stdout.contains("Trouble"), "{}", ran.stdout);
}

#[test]
fn wrong_input_gets_a_sentence() {
    let folder = folder("reproduce-wrong");
    let cases = [
        ("reproduce", "required arguments were not provided"),
        ("reproduce oaf", "there is no paper 'oaf' (did you mean oef?)"),
        ("reproduce gog", "there is no paper 'gog' (did you mean gogh?); expected oef or gogh"),
        (
            "reproduce gogh --only enrgy",
            "--only: there is no experiment 'enrgy' (did you mean energy?); expected one of estimates, energy",
        ),
        ("reproduce gogh --only examples", "--only: there is no experiment 'examples'"),
        ("reproduce gogh --estimator lerned", "there is no estimator 'lerned' (did you mean learned?)"),
        ("reproduce gogh --deviation 3", "--deviation: '3' cannot be used"),
        ("reproduce gogh --trace missing.csv", "missing.csv: cannot read this file"),
        (
            "reproduce oef --only lyng",
            "--only: there is no experiment 'lyng' (did you mean lying?); expected one of examples",
        ),
        ("reproduce oef --rates missing.json", "missing.json: cannot read this file as a rate table"),
        ("reproduce oef --policy ofe-coop", "--policy: there is no policy 'ofe-coop'"),
        ("reproduce oef --seeds 0", "an experiment needs at least 1 seed, not 0"),
        ("reproduce oef --seeds many", "--seeds: 'many' cannot be used"),
        ("reproduce oef --trace missing.csv", "missing.csv: cannot read this file"),
        ("reproduce oef --html no/such/folder/out.html", "cannot write 'no/such/folder/out.html'"),
        ("reproduce oef --cluster k80:0", "is a cluster with no GPUs"),
    ];
    for (command, sentence) in cases {
        let ran = arles(&folder, &command.split(' ').collect::<Vec<_>>(), "");
        assert!(ran.code != 0 && ran.stderr.contains(sentence), "arles {command}: {}\n{}", ran.code, ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "arles {command}: {}", ran.stderr);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "something is left behind");
}

#[test]
fn throughput_on_published_rates_is_as_stated() {
    let Some(rates) = arles_testing::shared("data/gavel/simulation_throughputs.json") else { return };
    let folder = folder("reproduce-published");
    let rates = rates.to_string_lossy().into_owned();
    let ran = arles(&folder, &["reproduce", "oef", "--only", "throughput", "--rates", &rates, "-o", "json"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let verdicts = document["experiments"][1]["verdicts"].as_array().unwrap();
    let stated: Vec<_> =
        verdicts.iter().filter(|v| v["about"].as_str().unwrap().ends_with("mean (largest) ratio")).collect();
    assert!(!stated.is_empty(), "no policy has a published figure");
    for verdict in stated {
        assert_eq!(verdict["judgement"], "agrees", "{verdict}");
    }
}

/// A file that says nothing of the cluster leaves it as it is without a file: a measured table has kinds of its own. One that names policies has them run.
#[test]
fn a_file_says_what_it_says_and_no_more() {
    let folder = folder("reproduce-gogh-file");
    let rate = r#"{"('ResNet-18 (batch size 32)', 1)": {"null": 5.0}}"#;
    let table = ["v100", "p100", "k80"].map(|kind| format!("\"{kind}\": {rate}")).join(", ");
    std::fs::write(folder.join("rates.json"), format!("{{{table}}}")).unwrap();
    std::fs::write(folder.join("plain.toml"), "[simulation]\npolicies = \"fifo\"\nseed = 3\n").unwrap();
    let command = "reproduce gogh --quick --only energy --estimator model --seeds 1 --rates rates.json --config plain.toml -o json --generate";
    let flags: Vec<&str> = command.split(' ').chain(["jobs=6,workloads=ResNet-18 (batch size 32):1"]).collect();
    let ran = arles(&folder, &flags, "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("fifo") && !ran.stdout.contains("max-min-fairness"), "{}", ran.stdout);
}
