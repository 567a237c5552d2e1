//! What an operator does when something went wrong: verify, restore, backups on a schedule, and the log of who did what.

mod plain;
#[allow(dead_code, reason = "folders here are those of daemons")]
#[path = "support/arles.rs"]
mod support;

use plain::{Daemon, Folder, call, patiently};
use std::net::SocketAddr;
use std::path::Path;
use support::{Ran, arles};

fn start(folder: &Path, flags: &[&str]) -> (Daemon, SocketAddr) {
    let mut all = vec!["--tenants".to_owned(), "vision".to_owned()];
    all.extend(flags.iter().map(|&flag| flag.to_owned()));
    let mut daemon = Daemon::start_with(folder, "v100:2", 1, &all);
    let at = daemon.address();
    (daemon, at)
}

/// Submits a job and tells its number.
fn submit(at: SocketAddr) -> u64 {
    let body = r#"{"workload": "resnet50-b64", "tenant": "vision", "steps": 1e12}"#;
    let (status, answer) = patiently(|| call(at, "POST", "/v1/jobs", None, Some(body)));
    assert_eq!(status, 201, "{answer}");
    let job: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    job["id"].as_u64().expect("a number")
}

fn says(folder: &Path, line: &str) -> String {
    let Ran { code, stdout, stderr } = arles(folder, &line.split_whitespace().collect::<Vec<_>>(), "");
    assert_eq!(code, 0, "arles {line}\n{stdout}{stderr}");
    stdout
}

/// What it prints on both, with this exit code.
fn fails(folder: &Path, line: &str, code: i32) -> String {
    let ran = arles(folder, &line.split_whitespace().collect::<Vec<_>>(), "");
    assert_eq!(ran.code, code, "arles {line}\n{}{}", ran.stdout, ran.stderr);
    ran.stdout + &ran.stderr
}

fn copies(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = folder
        .read_dir()
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_journal_is_verified_lost_and_restored_without_a_number_given_out_twice() {
    let folder = Folder::new("recover-restore");
    let (mut daemon, at) = start(&folder.0, &[]);
    (1..=3).for_each(|number| assert_eq!(submit(at), number));
    let copied = says(&folder.0, "backup night.db --state state");
    assert!(copied.contains("3 live jobs on 2 GPUs; verified"), "{copied}");
    assert!(says(&folder.0, "verify state").contains("state: sound. "), "while the daemon runs");
    assert!(says(&folder.0, "verify night.db").contains("night.db: sound. "));
    let held = fails(&folder.0, "restore night.db --state state --replace", 1);
    assert!(held.contains("another daemon is using state"), "{held}");
    (4..=6).for_each(|number| assert_eq!(submit(at), number));
    daemon.stop();
    let there = fails(&folder.0, "restore night.db --state state", 1);
    assert!(there.contains("state has a journal already") && there.contains("--replace"), "{there}");
    // The file is damaged beyond use.
    let path = folder.0.join("state/journal.db");
    let mut bytes = std::fs::read(&path).expect("the journal");
    let middle = bytes.len() / 2;
    bytes[100..middle].fill(0x55);
    std::fs::write(&path, bytes).expect("damaged");
    let found = arles(&folder.0, &["verify", "state"], "");
    assert_ne!(found.code, 0, "{}", found.stdout);
    let restored = says(&folder.0, "restore night.db --state state --replace");
    assert!(restored.contains("the journal that was there is now in state/replaced-"), "{restored}");
    assert!(restored.contains("of that journal are not in the copy"), "{restored}");
    assert!(restored.contains("jobs are numbered from 7 on"), "{restored}");
    assert!(restored.contains("3 live jobs; start it with 'arles serve --state state'"), "{restored}");
    assert!(says(&folder.0, "verify state").contains("sound"));
    let (mut daemon, at) = start(&folder.0, &[]);
    assert_eq!(submit(at), 7, "numbers that were given out stay given out");
    daemon.stop();
    assert!(says(&folder.0, "verify state").contains("sound"));
    let elsewhere = says(&folder.0, "restore night.db --state new/state");
    assert!(elsewhere.starts_with("new/state: restored up to entry "), "{elsewhere}");
    std::fs::write(folder.0.join("bad.db"), "nothing of the kind").expect("written");
    assert!(fails(&folder.0, "restore bad.db --state other", 2).contains("is not a journal of arles"));
    assert!(!folder.0.join("other").exists(), "nothing is begun with a bad copy");
}

#[test]
fn what_is_wrong_with_a_journal_is_said_sentence_by_sentence() {
    let folder = Folder::new("recover-verify");
    let (mut daemon, at) = start(&folder.0, &[]);
    (1..=3).for_each(|number| assert_eq!(submit(at), number));
    daemon.stop();
    let journal = rusqlite_free_change(&folder.0);
    let told = fails(&folder.0, "verify state", 1);
    assert!(told.contains("its hash does not fit") && told.contains("error: state: "), "{journal}: {told}");
    let json = arles(&folder.0, &["verify", "state", "-o", "json"], "");
    let found: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert!(json.code == 1 && found["findings"].as_array().is_some_and(|all| !all.is_empty()), "{}", json.stdout);
    // The snapshot after it is whole, so nothing is lost.
    assert_eq!(says(&folder.0, "queue --journal state").matches("resnet50-b64").count(), 3);
}

/// Changes a name in an entry, byte for byte, wherever it stands in the file: what SQLite itself would never notice.
fn rusqlite_free_change(folder: &Path) -> usize {
    let path = folder.join("state/journal.db");
    let mut bytes = std::fs::read(&path).expect("the journal");
    let needle = b"{\"submit\":{\"spec\":{\"id\":2,";
    let mut changed = 0;
    for at in 0..bytes.len() - needle.len() {
        if bytes[at..].starts_with(needle) {
            bytes[at + needle.len() - 2] = b'9';
            changed += 1;
        }
    }
    std::fs::write(&path, bytes).expect("written");
    changed
}

#[test]
fn backups_on_a_schedule_are_verified_and_rotate() {
    let folder = Folder::new("recover-rotate");
    let own = folder.0.join("own");
    let to = own.to_string_lossy().into_owned();
    let (mut daemon, at) = start(&folder.0, &["--backup-to", &to, "--backup-every", "1s", "--backup-keep", "2"]);
    submit(at);
    let first = says(&folder.0, "backup --to there --state state");
    assert!(first.starts_with("there/journal-") && first.contains("; verified"), "{first}");
    // Names go by the second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let second = says(&folder.0, "backup --to there --keep 1 --state state");
    assert!(second.contains("; 1 removed"), "{second}");
    assert_eq!(copies(&folder.0.join("there")).len(), 1);
    let copy = copies(&folder.0.join("there")).remove(0);
    assert!(says(&folder.0, &format!("queue --journal there/{copy}")).contains("resnet50-b64"));
    plain::wait_until("the daemon has made copies of its own", || {
        own.is_dir() && copies(&own).iter().filter(|name| name.ends_with(".db")).count() == 2
    });
    daemon.stop();
    assert!(fails(&folder.0, "backup", 2).contains("required"));
    assert!(fails(&folder.0, "backup x.db --to there", 2).contains("cannot be used with"));
    assert!(fails(&folder.0, "backup --to there --state nowhere", 2).contains("no journal at"));
}

#[test]
fn the_log_says_who_did_what() {
    let folder = Folder::new("recover-log");
    let (mut daemon, at) = start(&folder.0, &[]);
    submit(at);
    let (status, _) = patiently(|| call(at, "DELETE", "/v1/jobs/1", None, None));
    assert!(status < 300, "{status}");
    let token = r#"{"name": "ci", "scope": "tenant", "tenant": "vision"}"#;
    assert_eq!(patiently(|| call(at, "POST", "/v1/tokens", None, Some(token))).0, 201);
    let server = format!("--server http://{at}");
    let all = says(&folder.0, &format!("log {server}"));
    for text in ["loopback", "127.0.0.1", "submitted job 1:", "cancelled job 1", "created token ci"] {
        assert!(all.contains(text), "'{text}' is not in\n{all}");
    }
    let lines = |line: &str| {
        says(&folder.0, &format!("log {line} -o csv")).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&format!("--kind cancel {server}")).len(), 1);
    let of_job = lines(&format!("--job 1 {server}"));
    assert!(of_job.len() == 2 && of_job[0].contains("submitted job 1: resnet50-b64 on 1 GPU"), "{of_job:?}");
    assert_eq!(lines(&format!("--tenant vision --since 1h {server}")).len(), 3);
    assert_eq!(lines(&format!("--by nobody {server}")).len(), 0);
    assert!(fails(&folder.0, &format!("log --kind cancle {server}"), 2).contains("cancel"));
    daemon.stop();
    assert_eq!(lines("--kind submit --journal state").len(), 1, "and without a daemon");
}
