//! Same seed, same bytes: in parallel, alone, and again; and a journal replays every decision.

#[path = "support/arles.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use support::{arles, folder};

/// Everything a simulation prints and writes, but for the time it took.
fn everything(folder: &Path, threads: &str, more: &[&str]) -> [String; 3] {
    let common = ["--generate", "jobs=60,gangs=1:3,2:1,inference=0.2", "--cluster", "v100:8,k80:8", "-o", "json"];
    let files = ["--report", "out.html", "--jobs-csv", "jobs.csv", "--restart", "30s", "--threads", threads];
    let arguments: Vec<&str> = ["simulate"].iter().chain(&common).chain(&files).chain(more).copied().collect();
    let ran = arles(folder, &arguments, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let timeless: Vec<&str> = ran.stdout.lines().filter(|line| !line.contains("wall_seconds")).collect();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    [timeless.join("\n"), read("out.html"), read("jobs.csv")]
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = folder("same-bytes");
    let alone = everything(&folder, "1", &["--seed", "7"]);
    assert!(alone == everything(&folder, "4", &["--seed", "7"]), "threads change the result");
    assert!(alone == everything(&folder, "1", &["--seed", "7"]), "a second run differs");
    let other = everything(&folder, "1", &["--seed", "8"]);
    assert!(alone.iter().zip(&other).all(|(a, b)| a != b), "the seed changes nothing");
}

#[test]
fn runs_without_a_report_print_the_same_numbers() {
    let folder = folder("lean");
    let flags = ["simulate", "--generate", "jobs=60", "--cluster", "v100:8,k80:8", "--policy", "fifo,las", "-o", "csv"];
    let lean = arles(&folder, &flags, "");
    let full = arles(&folder, &[&flags[..], &["--report", "out.html"]].concat(), "");
    assert_eq!((lean.code, full.code), (0, 0));
    assert_eq!(lean.stdout, full.stdout);
}

#[test]
fn a_configuration_gives_what_its_flags_give() {
    let folder = folder("config");
    let config = "[cluster]\ngpus = [\"v100:8\", \"k80:8\"]\n[simulation]\npolicies = \"fifo\"\nround = 60\n[generate]\njobs = 20\n";
    std::fs::write(folder.join("my.toml"), config).unwrap();
    let flags = "simulate --cluster v100:8,k80:8 --policy fifo --round 1m --generate jobs=20 -o csv";
    let by_flags = arles(&folder, &flags.split(' ').collect::<Vec<_>>(), "");
    let by_file = arles(&folder, &["simulate", "--config", "my.toml", "-o", "csv"], "");
    assert_eq!((by_flags.code, &by_flags.stdout), (0, &by_file.stdout));
    let flag_wins = arles(&folder, &["simulate", "--config", "my.toml", "-o", "csv", "--policy", "las"], "");
    assert!(flag_wins.stdout.lines().nth(1).unwrap().starts_with("las,"));
    let checked = arles(&folder, &["check-config", "my.toml", "-o", "csv"], "");
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(checked.stdout.contains("cluster.gpus,\"v100:8,k80:8\""), "{}", checked.stdout);
}

#[test]
fn a_generated_trace_can_be_run_from_its_file() {
    let folder = folder("generated");
    let cluster = ["--cluster", "v100:8,k80:8"];
    let made = arles(&folder, &[&["generate", "jobs=30", "load=0.5", "-o", "trace.csv"][..], &cluster].concat(), "");
    assert_eq!((made.code, made.stdout.as_str()), (0, ""));
    let run = |jobs: &[&str]| {
        let ran = arles(&folder, &[&["simulate", "-o", "csv", "--policy", "fifo"][..], &cluster, jobs].concat(), "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    assert_eq!(run(&["--trace", "trace.csv"]), run(&["--generate", "jobs=30,load=0.5"]));
    let imported = arles(&folder, &["import", "trace.csv"], "");
    assert_eq!(imported.stdout, std::fs::read_to_string(folder.join("trace.csv")).unwrap());
}

#[test]
fn a_journal_replays_and_a_changed_one_does_not() {
    let folder = folder("journal");
    let flags = "simulate --cluster v100:8,k80:8 --generate jobs=15 --policy max-min-fairness --journal j.jsonl --fail v100-000@1h..2h";
    let ran = arles(&folder, &flags.split(' ').collect::<Vec<_>>(), "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let same = arles(&folder, &["replay", "j.jsonl", "-o", "json"], "");
    assert_eq!(same.code, 0, "{}", same.stderr);
    assert!(
        same.stdout.contains("\"completed\": 15") && same.stdout.contains("\"first_difference\": null"),
        "{}",
        same.stdout
    );
    let events = arles(&folder, &["replay", "j.jsonl", "--events"], "");
    assert!(events.stdout.contains("start") && events.stdout.contains("completed"), "{}", events.stdout);

    let text = std::fs::read_to_string(folder.join("j.jsonl")).unwrap();
    let changed: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(i, line)| if i == 5 { line.replace("\"d\":", "\"d\":1") } else { line.into() })
        .collect();
    std::fs::write(folder.join("changed.jsonl"), changed.join("\n")).unwrap();
    let differs = arles(&folder, &["replay", "changed.jsonl"], "");
    assert_eq!(differs.code, 1, "{}", differs.stderr);
    assert!(differs.stderr.contains("the decision at line 6 differs"), "{}", differs.stderr);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let folder = folder("closed-pipe");
    for arguments in [&["generate", "jobs=100000"][..], &["kinds"], &["check-config", "--default"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_arles"))
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{arguments:?}: {stderr}");
    }
}
