//! The daemon's log: lines with time and level, and no harm where nobody can read them.

mod plain;

use plain::{Daemon, Folder, call, patiently};
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

/// A daemon with its log wherever the test wants it.
fn start(folder: &Path, flags: &[&str], stderr: impl Into<Stdio>) -> (Daemon, SocketAddr) {
    let mut all = vec!["--log-requests".to_owned(), "--tenants".to_owned(), "vision".to_owned()];
    all.extend(flags.iter().map(|&flag| flag.to_owned()));
    let mut daemon = Daemon::start_logging(folder, "v100:2", 1, &all, stderr);
    let at = daemon.address();
    (daemon, at)
}

/// Submits a job, which is also a line in the log.
fn submit(at: SocketAddr) {
    let body = r#"{"workload": "resnet50-b64", "tenant": "vision", "steps": 100}"#;
    let (status, answer) = patiently(|| call(at, "POST", "/v1/jobs", Some("once"), Some(body)));
    assert!(status == 201 || status == 200, "{status}: {answer}");
}

#[test]
fn a_daemon_whose_log_cannot_be_written_goes_on_serving() {
    let full = || File::options().write(true).open("/dev/full").expect("a disk that is always full");
    for (name, stderr) in [("log-full", Stdio::from(full())), ("log-closed", Stdio::piped())] {
        let folder = Folder::new(name);
        let (mut daemon, at) = start(&folder.0, &[], stderr);
        submit(at);
        let (status, answer) = call(at, "GET", "/v1/queue", None, None).expect("an answer");
        assert_eq!(status, 200, "{answer}");
        daemon.stop();
    }
}

#[test]
fn lines_have_a_time_and_a_level_as_text_and_as_json() {
    for (format, level) in [("text", "info"), ("json", "info"), ("json", "warn")] {
        let folder = Folder::new(&format!("log-{format}-{level}"));
        let path = folder.0.join("log");
        let log = File::create(&path).expect("a log");
        let (mut daemon, at) = start(&folder.0, &["--log-format", format, "--log-level", level], log);
        submit(at);
        daemon.stop();
        let text = std::fs::read_to_string(&path).expect("the log");
        assert_eq!(text.contains("shutdown complete"), level == "info", "{text}");
        for line in text.lines() {
            match format {
                "json" => {
                    let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
                    assert!(value["timestamp"].as_str().is_some_and(|time| time.contains('T')), "{line}");
                    assert!(value["level"].is_string() && value["message"].is_string(), "{line}");
                    if value["message"] == "request" {
                        assert!(value["remote"].as_str().is_some_and(|at| at.starts_with("127.0.0.1:")), "{line}");
                        assert!(value["token"] == "loopback" || value["token"] == "-", "{line}");
                        assert!(value["method"].is_string() && value["path"].is_string(), "{line}");
                        assert!(value["status"].is_u64() && value["ms"].is_f64() && value["id"].is_u64(), "{line}");
                    }
                }
                _ => assert!(line.contains("Z ") && line.contains(" INFO "), "{line}"),
            }
        }
        if level == "info" {
            assert!(text.contains("/v1/jobs") && text.contains("201"), "the request is there: {text}");
        }
    }
}
