//! `arles profile` on whatever machine this is: rates of real processes. Where there is no NVIDIA driver, watts are left out, and that is said.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn arles(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arles"));
    command.arg("profile").args(arguments).stdin(Stdio::null());
    command
}

fn ended(arguments: &[&str]) -> (Output, String) {
    let output = arles(arguments).output().expect("arles runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, stderr)
}

/// A program that counts a step every so many seconds, and can be told from others by its last argument.
fn counting(pause: &str) -> String {
    format!("sh -c 'n=0; while :; do n=$((n+1)); echo step $n; sleep {pause}; done'")
}

const BRIEF: [&str; 6] = ["--seconds", "1s", "--warmup", "0s", "--settle", "100ms"];

#[test]
fn a_program_is_measured_alone_and_beside_another_and_none_is_left() {
    let (slow, mark) = (
        counting("0.1"),
        format!("exec sh -c 'n=0; while :; do n=$((n+1)); echo step $n; sleep 0.0{}; done'", std::process::id()),
    );
    let beside = format!("slow={slow}");
    let mut arguments = BRIEF.to_vec();
    arguments.extend(["-o", "json", "--name", "fast", "--beside", &beside, "--", "sh", "-c", &mark]);
    let (output, stderr) = ended(&arguments);
    assert!(output.status.success(), "{stderr}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = report["measured"].as_array().expect("lines");
    let who: Vec<(Option<&str>, Option<&str>)> =
        lines.iter().map(|line| (line["workload"].as_str(), line["partner"].as_str())).collect();
    let expected = [
        (None, None),
        (Some("fast"), None),
        (Some("slow"), None),
        (Some("fast"), Some("slow")),
        (Some("slow"), Some("fast")),
    ];
    assert_eq!(who, expected, "nobody, each alone, then both");
    let rate = |at: usize| lines[at]["steps_per_second"]["mean"].as_f64().expect("a rate");
    assert!(rate(1) > rate(2) && rate(2) > 0.0, "{stderr}");
    assert!(lines[4]["of_alone"].as_f64().is_some_and(|ratio| ratio > 0.0));
    let pause = format!("sleep 0.0{}", std::process::id());
    let left = Command::new("pgrep").args(["-f", &pause]).output().expect("pgrep");
    assert!(left.stdout.is_empty(), "programs are ended with the measurement");
}

#[test]
fn what_ends_or_says_nothing_is_named_with_what_it_said() {
    let mut arguments = BRIEF.to_vec();
    arguments.extend(["--", "sh", "-c", "echo out of memory >&2; exit 3"]);
    let (output, stderr) = ended(&arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("sh ended") && stderr.contains("out of memory"), "{stderr}");
    let mut arguments = BRIEF.to_vec();
    arguments.extend(["--patience", "1s", "--", "sleep", "60"]);
    let (output, stderr) = ended(&arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("sleep has printed no counts of steps") && stderr.contains("--pattern"), "{stderr}");
}

#[test]
fn wrong_usage_gets_a_sentence() {
    for (arguments, words) in [
        (vec!["--limits", "lots", "--", "true"], "'lots' is no power limit"),
        (vec![], "CMD"),
        (vec!["--beside", "sh -c true", "--", "sh", "-c", "true"], "two workloads are called 'sh'"),
        (vec!["--workloads", "nowhere.toml"], "nowhere.toml"),
    ] {
        let (output, stderr) = ended(&arguments);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn an_interrupt_ends_the_programs_too() {
    let pause = format!("sleep 0.01{}", std::process::id());
    let line = format!("while :; do echo step 1; {pause}; done");
    let mut child = arles(&["--seconds", "60s", "--", "sh", "-c", &line])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("arles runs");
    let seen = |wanted: bool| {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            let found = Command::new("pgrep").args(["-f", &pause]).output().expect("pgrep");
            if found.stdout.is_empty() != wanted {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    };
    assert!(seen(true), "the program runs");
    // The handlers are set before programs are started.
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(seen(false), "nothing is left");
}
