//! The daemon's log: lines with time and level, and no harm where nobody can read them.

mod plain;

use plain::{Folder, call, patiently, wait_until};
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A daemon with its log wherever the test wants it; killed with the value.
struct Daemon {
    child: Child,
    at: SocketAddr,
}

impl Daemon {
    fn start(folder: &Path, flags: &[&str], stderr: impl Into<Stdio>) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_arles"))
            .args(["serve", "--listen", "127.0.0.1:0", "--open-loopback", "--estimator", "oracle", "--log-requests"])
            .args(["--cluster", "v100:2", "--tenants", "vision", "--state"])
            .arg(folder)
            .args(flags)
            .stderr(stderr)
            .spawn()
            .expect("a daemon");
        // A reader that goes away at once: whatever is written from now on fails.
        drop(child.stderr.take());
        let mut at = None;
        wait_until("the daemon listens", || {
            let text = std::fs::read_to_string(folder.join("address")).unwrap_or_default();
            at = text.strip_prefix("http://").and_then(|address| address.parse().ok());
            at.is_some()
        });
        Self { child, at: at.expect("waited for") }
    }

    /// Submits a job, which is also a line in the log.
    fn submit(&self) {
        let body = r#"{"workload": "resnet50-b64", "tenant": "vision", "steps": 100}"#;
        let (status, answer) = patiently(|| call(self.at, "POST", "/v1/jobs", Some("once"), Some(body)));
        assert!(status == 201 || status == 200, "{status}: {answer}");
    }

    fn stop(mut self) {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill");
        assert!(told.success());
        let status = self.child.wait().expect("gone");
        assert!(status.success(), "a clean end: {status}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_daemon_whose_log_cannot_be_written_goes_on_serving() {
    let full = || File::options().write(true).open("/dev/full").expect("a disk that is always full");
    for (name, stderr) in [("log-full", Stdio::from(full())), ("log-closed", Stdio::piped())] {
        let folder = Folder::new(name);
        let daemon = Daemon::start(&folder.0, &[], stderr);
        daemon.submit();
        let (status, answer) = call(daemon.at, "GET", "/v1/queue", None, None).expect("an answer");
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
        let daemon = Daemon::start(&folder.0, &["--log-format", format, "--log-level", level], log);
        daemon.submit();
        daemon.stop();
        let mut text = String::new();
        File::open(&path).and_then(|mut file| file.read_to_string(&mut text)).expect("the log");
        assert_eq!(text.contains("shutdown complete"), level == "info", "{text}");
        for line in text.lines() {
            match format {
                "json" => {
                    let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
                    assert!(value["timestamp"].as_str().is_some_and(|time| time.contains('T')), "{line}");
                    assert!(value["level"].is_string() && value["message"].is_string(), "{line}");
                }
                _ => assert!(line.contains("Z ") && line.contains(" INFO "), "{line}"),
            }
        }
        if level == "info" {
            assert!(text.contains("/v1/jobs") && text.contains("201"), "the request is there: {text}");
        }
    }
}
