//! A daemon that follows power budgets and prices of electricity from files, by the calendar.
//!
//! Files are written anew in place of waiting for hours to pass, so nothing here depends on how quick the machine is.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// An empty folder that is the test's own.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the target folder can be written");
    path
}

struct Daemon {
    child: Child,
    folder: PathBuf,
    url: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arles"));
    for name in ["ARLES_URL", "ARLES_TOKEN", "ARLES_TOKEN_FILE", "ARLES_CA", "ARLES_JOB"] {
        command.env_remove(name);
    }
    command.current_dir(folder).env("COLUMNS", "100").stdin(Stdio::null());
    command
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("waited too long for {what}");
}

impl Daemon {
    fn start(folder: &Path, flags: &[&str]) -> Self {
        let log = std::fs::File::create(folder.join("log")).expect("a log");
        let fixed =
            ["serve", "--listen", "127.0.0.1:0", "--engine", "virtual", "--estimator", "oracle", "--open-loopback"];
        let rest = ["--state", "state", "--cluster", "v100:8,k80:8", "--tenants", "vision,search", "--speed", "600"];
        let child =
            command(folder).args(fixed).args(rest).args(flags).stderr(log).spawn().expect("the binary was built");
        let mut daemon = Self { child, folder: folder.to_owned(), url: String::new() };
        wait_for("the daemon's address", || {
            assert!(daemon.child.try_wait().expect("it is ours").is_none(), "the daemon ended: {}", daemon.log());
            daemon.url = std::fs::read_to_string(folder.join("state/address")).unwrap_or_default();
            !daemon.url.is_empty() && daemon.try_json("tenants").is_some()
        });
        daemon
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn says(&self, line: &str) -> String {
        let output = command(&self.folder).args(line.split_whitespace()).env("ARLES_URL", &self.url).output();
        let output = output.expect("the binary was built");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "arles {line}\n{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    fn try_json(&self, line: &str) -> Option<Value> {
        let line = format!("{line} -o json");
        let output = command(&self.folder).args(line.split_whitespace()).env("ARLES_URL", &self.url).output().ok()?;
        output.status.success().then(|| serde_json::from_slice(&output.stdout).ok())?
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.says(&format!("{line} -o json"))).expect("it prints JSON")
    }

    fn budget(&self) -> Option<f64> {
        self.json("budget")["watts"].as_f64()
    }

    /// What all GPUs draw by the meters.
    fn watts(&self) -> f64 {
        let nodes = self.json("nodes");
        let list = nodes["nodes"].as_array().or_else(|| nodes.as_array()).expect("nodes").clone();
        list.iter().map(|node| node["watts"].as_f64().expect("watts")).sum()
    }
}

#[test]
fn a_budget_that_drops_by_forty_per_cent_and_returns() {
    let folder = folder("hourly-budget");
    let write = |text: &str| std::fs::write(folder.join("budgets"), text).expect("the folder can be written");
    write("none@2020-01-01T00:00\n");
    let daemon = Daemon::start(&folder, &["--budget-events", "budgets"]);
    daemon.says("submit resnet50-b64 -t vision --steps 1e12 --count 8");
    daemon.says("submit resnet50-b64 -t search --steps 1e12 --count 8");
    let running = || daemon.json("queue --state R").as_array().map_or(0, Vec::len);
    wait_for("all jobs to run", || running() == 16);
    wait_for("the meters", || daemon.watts() > 1000.0);
    let full = daemon.watts();
    let low = (0.6 * full).round();
    write(&format!("none@2020-01-01T00:00\n{low}W@2020-01-02T00:00 # until it is lifted\n"));
    wait_for("the lower budget", || daemon.budget() == Some(low));
    wait_for("the cluster to be below it", || daemon.watts() <= low * 1.001);
    assert!(running() < 16, "somebody waits");
    write("none@2020-01-01T00:00\n");
    wait_for("the budget to be lifted", || daemon.budget().is_none());
    wait_for("all jobs to run again", || running() == 16);
    let lost =
        daemon.json("queue --all").as_array().expect("jobs").iter().filter(|job| job["state"] == "failed").count();
    assert_eq!(lost, 0);
    // An operator's own budget stays until the file says something else.
    daemon.says("budget 5kW");
    assert_eq!(daemon.budget(), Some(5000.0));
    // A file that makes no sense changes nothing.
    write("plenty\n");
    wait_for("the complaint", || daemon.log().contains("what was read before stays in force"));
    assert_eq!(daemon.budget(), Some(5000.0));
}

#[test]
fn jobs_wait_for_cheaper_hours_and_say_so() {
    let folder = folder("hourly-prices");
    let write = |text: &str| std::fs::write(folder.join("prices.csv"), text).expect("the folder can be written");
    // Dear now and for long; in ten years it is cheap.
    write("from,per_kwh,kg_per_kwh\n2020-01-01T00:00,0.40,0.5\n2036-01-01T00:00,0.10,0.1\n");
    let daemon = Daemon::start(&folder, &["--prices", "prices.csv"]);
    wait_for("the prices", || daemon.json("log").to_string().contains("prices"));
    assert_eq!(
        daemon.says("submit resnet50-b64 -t vision --steps 1000 --before 2040-01-01T08:00"),
        "job 1 submitted\n"
    );
    assert_eq!(daemon.says("submit resnet50-b64 -t vision --steps 1e12"), "job 2 submitted\n");
    wait_for("job 2 to run", || daemon.json("show 2")["state"] == "running");
    wait_for("the reason", || daemon.says("explain 1").contains("cheaper electricity (0.1 a kWh instead of 0.4)"));
    assert_eq!(daemon.json("show 1")["state"], "waiting");
    wait_for("the account", || {
        let rows = daemon.json("energy")["rows"].clone();
        let vision =
            rows.as_array().expect("rows").iter().find(|row| row["name"] == "vision").cloned().expect("vision");
        vision["cost"].as_f64().is_some_and(|cost| cost > 0.0)
            && vision["carbon_kg"].as_f64().is_some_and(|kg| kg > 0.0)
    });
    assert!(daemon.says("energy").contains("cost"));
    // It is cheap from now on: nobody waits any longer.
    write("from,per_kwh,kg_per_kwh\n2020-01-01T00:00,0.10,0.1\n");
    wait_for("job 1 to end", || daemon.json("show 1")["state"] == "completed");
}
