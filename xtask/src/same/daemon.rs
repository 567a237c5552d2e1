//! A daemon of each binary on a virtual cluster: the client's commands, the API's answers, and what its journal says afterwards.

use super::outcome::{self, Binary, Outcome};
use super::{Case, Compare, Expected, Report, exact, header, shape};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Rounds are short and the clock is fast; jobs that are submitted do not end by themselves.
const SERVE: &str = "serve --listen 127.0.0.1:0 --open-loopback --keep-journal --state state --cluster v100:4,k80:4 --gpus-per-node 2 \
    --policy oef-coop --tenants vision:2,search --estimator oracle --speed 60 --round 60s --survey 60s";

/// Commands with a server, in order. A line that begins with a slash is a GET.
const CASES: &[Case] = &[
    exact("daemon-submit", "submit resnet50-b64 --tenant vision --gpus 2 --steps 1e9 --name nightly"),
    exact("daemon-submit-count", "submit lm-b20 --tenant search --gpus gpu:v100:2 --steps 1e9 --count 4"),
    exact("daemon-submit-quiet", "submit lm-b20 -t search --period 20d --key once -q"),
    exact("daemon-submit-again", "submit lm-b20 -t search --period 20d --key once -q"),
    exact("daemon-submit-wrong", "submit nothing-b1 -t vision --steps 5"),
    exact("daemon-show-wrong", "show 99"),
    shape("daemon-dry-run", "submit resnet50-b64 -t vision --steps 1e6 --dry-run -o json"),
    shape("daemon-queue", "queue -o json"),
    header("daemon-queue-csv", "queue -o csv"),
    shape("daemon-show", "show 1 -o json"),
    shape("daemon-explain", "explain 1 -o json"),
    shape("daemon-nodes", "nodes -o json"),
    header("daemon-nodes-csv", "nodes --summary -o csv"),
    shape("daemon-tenants", "tenants -o json"),
    shape("daemon-policy", "policy -o json"),
    shape("daemon-policy-dry-run", "policy fifo --dry-run -o json"),
    shape("daemon-audit", "audit -o json"),
    shape("daemon-energy", "energy --by kind -o json"),
    header("daemon-energy-csv", "energy --by job -o csv"),
    exact("daemon-tenants-set", "tenants set speech 3"),
    exact("daemon-cancel", "cancel 2"),
    exact("daemon-token-list", "token list -o json"),
    exact("get-openapi", "/openapi.json"),
    exact("get-policies", "/v1/policies"),
    exact("get-kinds", "/v1/kinds"),
    exact("get-workloads", "/v1/workloads"),
    shape("get-server", "/v1/server"),
    shape("get-jobs", "/v1/jobs"),
    shape("get-job", "/v1/jobs/1"),
    shape("get-explain", "/v1/jobs/1/explain"),
    shape("get-queue", "/v1/queue"),
    shape("get-nodes", "/v1/nodes"),
    shape("get-gpus", "/v1/gpus"),
    shape("get-tenants", "/v1/tenants"),
    shape("get-audit", "/v1/audit"),
    shape("get-energy", "/v1/energy?by=tenant"),
    shape("get-allocation", "/v1/allocation"),
    shape("get-estimates", "/v1/estimates"),
    exact("get-unknown-job", "/v1/jobs/99"),
    exact("get-nothing", "/v1/nothing"),
];

/// Commands on the state folder, once the daemon has ended.
const AFTERWARDS: &[Case] = &[
    shape("journal-queue", "queue --journal state --all -o json"),
    shape("journal-audit", "audit --journal state -o json"),
    header("journal-replay", "replay state -o csv"),
];

/// A running daemon, ended with it.
struct Daemon {
    child: Child,
    address: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    fn start(binary: &Binary) -> Result<Daemon, String> {
        let log = std::fs::File::create(binary.folder.join("state.log")).map_err(|e| format!("no log: {e}"))?;
        let mut command = binary.command(SERVE);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().map_err(|e| format!("no daemon: {e}"))?;
        let mut daemon = Daemon { child, address: String::new() };
        let file = binary.folder.join("state/address");
        daemon.wait("listens", |daemon| {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            daemon.address = text.trim().trim_start_matches("http://").to_owned();
            daemon.get("/readyz").is_ok_and(|(status, _)| status == 200)
        })?;
        Ok(daemon)
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&mut Daemon) -> bool) -> Result<(), String> {
        let began = Instant::now();
        while !done(self) {
            if began.elapsed() > Duration::from_secs(60) {
                return Err(format!("no daemon that {what} within a minute; see state.log in its folder"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// One request on a connection of its own: status and body.
    fn get(&self, path: &str) -> Result<(i32, Vec<u8>), String> {
        let failed = |e: std::io::Error| format!("GET {path}: {e}");
        let mut stream = TcpStream::connect(&self.address).map_err(failed)?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(failed)?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map_err(failed)?;
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").ok_or(format!("GET {path}: no head"))?;
        let status = std::str::from_utf8(&bytes[..end]).ok().and_then(|head| head.split(' ').nth(1)?.parse().ok());
        Ok((status.ok_or(format!("GET {path}: no status"))?, bytes.split_off(end + 4)))
    }

    fn outcome(&self, binary: &Binary, line: &str) -> Result<Outcome, String> {
        if line.starts_with('/') {
            let (status, body) = self.get(line)?;
            return Ok(Outcome { code: Some(status), stdout: self.equal(&body), ..Outcome::default() });
        }
        let mut ran = binary.run(&format!("{line} --server http://{}", self.address))?;
        ran.stdout = self.equal(&ran.stdout);
        ran.stderr = self.equal(&ran.stderr);
        // The daemon's own log.
        ran.files.remove("state.log");
        Ok(ran)
    }

    fn equal(&self, bytes: &[u8]) -> Vec<u8> {
        String::from_utf8_lossy(bytes).replace(&self.address, "ADDRESS").into_bytes()
    }

    /// SIGTERM; its exit code.
    fn stop(mut self) -> Outcome {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let code = self.child.wait().ok().and_then(|status| status.code());
        Outcome { code, ..Outcome::default() }
    }
}

pub(super) fn compare(before: &Binary, after: &Binary, report: &mut Report, expected: &Expected) -> Result<(), String> {
    let (one, two) = outcome::both(before, after, Daemon::start);
    let (mut one, mut two) = (one?, two?);
    for (i, case) in CASES.iter().enumerate() {
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| one.outcome(before, case.line));
            let b = two.outcome(after, case.line);
            (a.join().expect("no request panics"), b)
        });
        report.add((case.name, case.compare), &a?, &b?, expected);
        // What is asked from here on is about jobs that run and have been measured for a while.
        if CASES.get(i + 1).is_some_and(|next| next.name == "daemon-queue") {
            for daemon in [&mut one, &mut two] {
                daemon.wait("runs a job", |daemon| {
                    let running = |(_, body): (i32, Vec<u8>)| String::from_utf8_lossy(&body).contains("\"running\"");
                    daemon.get("/v1/jobs/1").is_ok_and(running)
                })?;
            }
            std::thread::sleep(Duration::from_secs(4));
        }
    }
    report.add(("daemon-stop", Compare::Exact), &one.stop(), &two.stop(), expected);
    for case in AFTERWARDS {
        let (a, b) = outcome::both(before, after, |binary| binary.run(case.line));
        report.add((case.name, case.compare), &a?, &b?, expected);
    }
    Ok(())
}
