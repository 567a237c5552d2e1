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
        ("reproduce oaf", "there is nothing to reproduce of 'oaf' (did you mean oef?)"),
        (
            "reproduce oef --only lyng",
            "--only: there is no experiment 'lyng' (did you mean lying?); expected one of examples",
        ),
        ("reproduce oef --rates missing.json", "missing.json: cannot read this file as a rate table"),
        ("reproduce oef --policy ofe-coop", "--policy: there is no policy 'ofe-coop'"),
        ("reproduce oef --seeds 0", "no experiment can be done with 0 seeds"),
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
    let rates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gavel/simulation_throughputs.json");
    if !rates.exists() {
        println!("skipped: Gavel's rates are not at {}", rates.display());
        return;
    }
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
