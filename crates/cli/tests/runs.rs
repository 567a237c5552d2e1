//! A program that nobody knows: what arles says of it before its first run, and after its first, second and fourth. `--nocapture` shows the table.

mod plain;

use plain::{Folder, wait_until};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ARLES: &str = env!("CARGO_BIN_EXE_arles");

struct Serving {
    child: Child,
    folder: Folder,
    url: String,
}

impl Serving {
    /// A daemon as a newcomer starts it, on a virtual cluster that runs fast.
    fn start() -> Self {
        let folder = Folder::new("runs");
        let state = folder.0.join("state");
        let log = std::fs::File::create(folder.0.join("daemon.log")).expect("a log");
        let child = Command::new(ARLES)
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--open-loopback",
                "--cluster",
                "v100:1,p100:1,k80:1",
                "--tenants",
                "a",
            ])
            .args(["--speed", "1200", "--survey", "60s", "--deviation", "0.2", "--state"])
            .arg(&state)
            .stderr(log)
            .spawn()
            .expect("a daemon");
        let address = state.join("address");
        let mut serving = Self { child, folder, url: String::new() };
        wait_until("the daemon listens", || {
            serving.url = std::fs::read_to_string(&address).unwrap_or_default();
            !serving.url.is_empty() && serving.tries(&["queue", "-o", "json"]).is_some()
        });
        serving
    }

    fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// What a command prints, if it succeeds.
    fn tries(&self, words: &[&str]) -> Option<String> {
        let mut command = Command::new(ARLES);
        command.args(words).env("ARLES_URL", &self.url).env_remove("ARLES_TOKEN").current_dir(self.folder());
        let output = command.stderr(Stdio::null()).output().expect("arles runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn json(&self, words: &[&str]) -> Value {
        let text = self.tries(words).unwrap_or_else(|| panic!("{words:?} failed"));
        serde_json::from_str(&text).expect("JSON")
    }

    /// Submits the program, with its learning rate and these flags; returns the job.
    fn submit(&self, flags: &[&str], rate: &str) -> Value {
        // What the virtual cluster plays: forty minutes on a V100, which nobody tells the scheduler.
        let plays = ["--env", "ARLES_VIRTUAL_WORKLOAD=resnet50-b64", "--env", "ARLES_VIRTUAL_STEPS=24000"];
        let words = [
            &["submit", "--tenant", "a", "-o", "json"][..],
            flags,
            &plays,
            &["--", "python", "train.py", "--lr", rate],
        ]
        .concat();
        self.json(&words)
    }

    /// By kind: rate, standard error and where they come from.
    fn estimates(&self, probe: &str) -> Vec<(String, f64, f64, String)> {
        let told = self.json(&["explain", probe, "-o", "json"]);
        let cell = |row: &Value| {
            let number = |name: &str| row[name].as_f64().expect("a number");
            let word = |name: &str| row[name].as_str().expect("a word").to_owned();
            (word("kind"), number("rate"), number("standard_error"), word("source"))
        };
        let mut cells: Vec<_> = told["rates"].as_array().expect("rates").iter().map(cell).collect();
        cells.sort_by(|a, b| a.0.cmp(&b.0));
        cells
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_program_that_nobody_knows_becomes_known_by_running() {
    let serving = Serving::start();
    // A held job of the same program is asked about, so that nothing depends on where a run is just now.
    let probe = serving.submit(&["--hold"], "0")["id"].to_string();
    wait_until("somebody has guessed", || !serving.estimates(&probe).is_empty());
    let mut seen = vec![(0, serving.estimates(&probe))];
    for run in 1..=4 {
        let job = serving.submit(&[], &format!("{run}e-4"));
        assert_eq!(
            job["expected_seconds"].as_f64().is_some(),
            run > 1,
            "run {run}: earlier runs say how long it takes: {job}"
        );
        let id = job["id"].to_string();
        wait_until("the run is over", || serving.json(&["show", &id, "-o", "json"])["state"] == "completed");
        if run != 3 {
            let measured = |cells: &[(String, f64, f64, String)]| cells.iter().any(|cell| cell.3 == "measured");
            wait_until("it was measured", || measured(&serving.estimates(&probe)));
            seen.push((run, serving.estimates(&probe)));
        }
    }
    println!("runs  kind      steps/s  standard error  source");
    for (run, cells) in &seen {
        for (kind, rate, error, source) in cells {
            println!("{run:>4}  {kind:<8} {rate:>8.2} {error:>15.3}  {source}");
        }
    }
    let error = |at: usize, kind: &str| seen[at].1.iter().find(|cell| cell.0 == kind).map_or(f64::NAN, |cell| cell.2);
    let kinds = ["k80", "p100", "v100"];
    assert!(seen.iter().all(|(_, cells)| cells.len() == kinds.len()), "{seen:?}");
    assert!(kinds.iter().all(|kind| error(0, kind) > 0.5), "with nothing known it says so: {seen:?}");
    assert!(
        kinds.iter().all(|kind| error(1, kind) < 0.7 * error(0, kind)),
        "one run says something about every kind: {seen:?}"
    );
    let best = |at: usize| kinds.iter().map(|kind| error(at, kind)).fold(f64::MAX, f64::min);
    assert!(best(1) < 0.1 && best(3) <= best(1), "and more runs more: {seen:?}");
}
