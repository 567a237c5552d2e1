//! The commands against a real daemon: every one of them, what is refused, and what happens when nobody is there.
//!
//! No test here asks how long anything takes; what must happen in time is waited for.

#[path = "support/arles.rs"]
mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Ran, arles, folder};

/// A daemon of its own, and the folder that commands run in.
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

fn ended(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary was built");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
    Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Daemon {
    /// With a state folder that is left as it is.
    fn start(folder: &Path, flags: &[&str]) -> Self {
        let address = folder.join("state/address");
        let _ = std::fs::remove_file(&address);
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).expect("a log");
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--engine", "virtual", "--estimator", "oracle"];
        let rest = ["--state", "state", "--cluster", "v100:8,k80:8", "--tenants", "vision:2,search"];
        let child =
            command(folder).args(fixed).args(rest).args(flags).stderr(log).spawn().expect("the binary was built");
        let mut daemon = Self { child, folder: folder.to_owned(), url: String::new() };
        wait_for("the daemon's address", || {
            assert!(daemon.child.try_wait().expect("it is ours").is_none(), "the daemon ended: {}", daemon.log());
            daemon.url = std::fs::read_to_string(&address).unwrap_or_default();
            !daemon.url.is_empty() && daemon.arles(&["tenants"]).code == 0
        });
        daemon
    }

    fn open(name: &str) -> Self {
        Self::start(&folder(name), &["--open-loopback", "--speed", "600"])
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn arles(&self, arguments: &[&str]) -> Ran {
        let first_token = self.folder.join("state/admin.token");
        let mut command = command(&self.folder);
        command.args(arguments).env("ARLES_URL", &self.url);
        // A copy of a journal knows its tokens, but has no file of one beside it.
        if first_token.exists() {
            command.env("ARLES_TOKEN_FILE", first_token);
        }
        ended(&mut command)
    }

    /// What it prints; it must go well.
    fn says(&self, line: &str) -> String {
        let ran = self.arles(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "arles {line}\n{}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.says(&format!("{line} -o json"))).expect("it prints JSON")
    }

    /// What it complains of, with exit code 2.
    fn refuses(&self, line: &str) -> String {
        let ran = self.arles(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ran.code, 2, "arles {line}\n{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout, "", "arles {line}");
        ran.stderr
    }

    fn state(&self, job: u64) -> String {
        self.json(&format!("show {job}"))["state"].as_str().expect("a state").to_owned()
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..600 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("waited too long for {what}");
}

#[test]
fn a_job_from_submission_to_its_end() {
    let daemon = Daemon::open("client-life");
    assert_eq!(daemon.says("submit resnet50-b64 -t vision --steps 1e9 --gpus 4 --name long"), "job 1 submitted\n");
    assert_eq!(daemon.says("submit resnet50-b64 -t search --steps 1e9 --gpus gpu:v100:8 -q"), "2\n");
    assert_eq!(daemon.says("submit lm-b20 -t search --steps 1e9 --count 3"), "3 jobs submitted, 3 to 5\n");
    assert_eq!(daemon.json("submit lm-b20 -t vision --steps 1e9 --kinds k80")["kinds"][0], "k80");
    assert_eq!(daemon.json("show 2")["kinds"][0], "v100");
    wait_for("job 1 to run", || daemon.state(1) == "running");

    let queue = daemon.says("queue");
    assert!(queue.starts_with("job  tenant  name          gpus  st"), "{queue}");
    assert_eq!(daemon.json("queue").as_array().map(Vec::len), Some(6));
    assert_eq!(daemon.json("queue --tenant search").as_array().map(Vec::len), Some(4));
    assert_eq!(daemon.says("queue -o csv --limit 2").lines().count(), 3);
    let short = daemon.arles(&["queue", "--limit", "2"]);
    assert!(short.stderr.contains("4 older jobs are not shown; --limit 6 shows them all"), "{}", short.stderr);
    assert!(daemon.says("queue --state R").contains(" R "));

    let shown = daemon.says("show 1");
    assert!(shown.starts_with("job ") && shown.contains("4 × v100") || shown.contains("4 × k80"), "{shown}");
    assert!(daemon.says("explain 1").starts_with("Job 1 runs on 4 × "));
    assert!(!daemon.json("explain 2")["rates"].as_array().expect("rates").is_empty());
    assert!(daemon.says("submit lm-b20 -t vision --steps 1000 --dry-run").starts_with("Would "));
    assert_eq!(daemon.json("queue").as_array().map(Vec::len), Some(6), "a dry run submits nothing");

    // Whether a job holds GPUs when it is cancelled is the scheduler's affair, and rounds pass between two commands: what is
    // printed must be one of the two sentences, and the job must come to its end.
    for job in [3, 4] {
        let said = daemon.says(&format!("cancel {job}"));
        assert!(said == format!("job {job} cancelled\n") || said == format!("job {job} is being stopped\n"), "{said}");
        wait_for("the job to be cancelled", || daemon.state(job) == "cancelled");
    }
    assert!(daemon.refuses("cancel 3").contains("job 3 has already ended"));
    let several = daemon.arles(&["cancel", "5", "777"]);
    assert_eq!(several.code, 2);
    assert!(
        several.stdout.starts_with("job 5 ") && several.stderr.contains("job 777 does not exist"),
        "{}",
        several.stderr
    );
    assert!(daemon.refuses("cancel --all-of vision").contains("confirm with --yes"));
    daemon.says("cancel --all-of vision --yes");
    wait_for("vision's jobs to be over", || daemon.json("queue --tenant vision").as_array().is_some_and(Vec::is_empty));
    assert_eq!(daemon.json("queue --all").as_array().map(Vec::len), Some(6));
}

#[test]
fn waiting_ends_with_the_job() {
    let daemon = Daemon::open("client-wait");
    let ran = daemon.arles(&["submit", "resnet50-b64", "-t", "vision", "--steps", "100", "--wait"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "job 1 submitted\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("job 1 "), "{}", ran.stderr);
    // One that is cancelled meanwhile.
    let mut waits = command(&daemon.folder);
    waits.env("ARLES_URL", &daemon.url).args("submit lm-b20 -t vision --steps 1e12 --wait -q".split(' '));
    let waits = waits.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary was built");
    wait_for("job 2", || daemon.arles(&["show", "2"]).code == 0);
    daemon.says("cancel 2");
    let output = waits.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not completed: job 2 (cancelled)"));
    // The same key is the same job.
    let first = daemon.says("submit lm-b20 -t vision --steps 1e6 --key nightly -q");
    assert_eq!(daemon.says("submit lm-b20 -t vision --steps 1e6 --key nightly -q"), first);
}

#[test]
fn the_cluster_and_its_rules() {
    let daemon = Daemon::open("client-cluster");
    daemon.says("submit resnet50-b64 -t vision --steps 1e9 --gpus 2 --count 4");
    daemon.says("submit lm-b20 -t search --steps 1e9 --count 4");
    wait_for("something to run", || {
        daemon.json("queue --state running").as_array().is_some_and(|jobs| !jobs.is_empty())
    });
    assert!(daemon.says("nodes").contains("4 nodes, "));
    assert_eq!(daemon.json("nodes").as_array().map(Vec::len), Some(4));
    assert!(daemon.says("nodes --summary").contains("k80"));
    assert!(
        daemon
            .says("nodes -o csv")
            .starts_with("node,kind,state,watts,busy,gpus,cpus,memory_gib,rack,why\nv100-000,v100,up,")
    );
    assert!(daemon.says("tenants set robots 3").starts_with("robots: weight 3.00, 50.0 % of the cluster"));
    assert_eq!(daemon.json("tenants")[2]["name"], "robots");
    assert!(daemon.says("policy").contains("oef-coop"));
    assert!(daemon.says("policy fifo --dry-run").contains("Nothing has changed."));
    assert!(daemon.says("policy").contains("oef-coop"));
    assert_eq!(daemon.says("policy fifo"), "switched to fifo from the next round on\n");
    assert_eq!(daemon.json("policy")["name"], "fifo");
    assert_eq!(daemon.json("audit")["tenants"][0], "vision");
    assert!(daemon.says("audit --from 1h").contains("sharing"));
    for by in ["tenant", "kind", "job"] {
        assert_eq!(daemon.json(&format!("energy --by {by}"))["by"], by);
        assert!(daemon.says(&format!("energy --by {by} -o csv")).starts_with("name,gpu_seconds,"));
    }
    let frame = daemon.says("top --once");
    assert!(frame.contains("fifo · round ") && frame.contains("vision"), "{frame}");
}

#[test]
fn tokens_open_what_their_scope_says() {
    let daemon = Daemon::start(&folder("client-tokens"), &["--speed", "600"]);
    let stranger = ended(command(&daemon.folder).args(["queue", "--server", &daemon.url]));
    assert_eq!(stranger.code, 2, "{}", stranger.stderr);
    let secret = daemon.says("token create ci --scope tenant --tenant vision");
    assert!(secret.starts_with("arles_") && secret.lines().count() == 1);
    std::fs::write(daemon.folder.join("ci.token"), &secret).unwrap();
    daemon.says("token create look --scope read --to look.token");
    let list = daemon.says("token list");
    assert!(list.contains("ci") && list.contains("look") && !list.contains("arles_"), "{list}");
    daemon.says("submit lm-b20 -t search --steps 1e9");
    // A tenant's own token names no tenant, and sees its own jobs only.
    daemon.says("submit lm-b20 --steps 1e9 --token-file ci.token");
    assert_eq!(daemon.json("queue --token-file ci.token").as_array().map(Vec::len), Some(1));
    assert!(daemon.refuses("show 1 --token-file ci.token").contains("belongs to another tenant"));
    assert!(
        daemon
            .refuses("submit lm-b20 -t search --steps 1 --token-file ci.token")
            .contains("may submit for tenant vision")
    );
    assert_eq!(daemon.json("queue --token-file look.token").as_array().map(Vec::len), Some(2));
    for line in ["cancel 1", "policy fifo", "tenants set x 1", "token list", "submit lm-b20 -t vision --steps 1"] {
        daemon.refuses(&format!("{line} --token-file look.token"));
    }
    daemon.says("token revoke ci");
    let complaint = daemon.refuses("queue --token-file ci.token");
    assert!(!complaint.contains(secret.trim()), "no secret is printed");
    assert!(!daemon.log().contains(secret.trim()));
}

#[test]
fn a_backup_while_the_daemon_runs_and_a_restart() {
    let mut daemon = Daemon::open("client-backup");
    daemon.says("submit lm-b20 -t vision --steps 1e9 --count 5 --name kept");
    let copied = daemon.says("backup copy.db --state state");
    assert!(copied.contains("5 live jobs on 16 GPUs; verified"), "{copied}");
    assert_eq!(daemon.arles(&["backup", "copy.db", "--state", "state"]).code, 1, "a copy is never overwritten");
    assert_eq!(daemon.json("queue --journal copy.db").as_array().map(Vec::len), Some(5));
    assert_eq!(daemon.json("queue --journal state").as_array().map(Vec::len), Some(5));
    assert_eq!(daemon.json("show 3 --journal copy.db")["name"], "kept");
    for line in ["nodes", "tenants", "policy", "audit", "energy", "explain 1", "top --once"] {
        daemon.says(&format!("{line} --journal copy.db"));
    }
    assert!(daemon.refuses("queue --journal nowhere").contains("nowhere"));
    // The daemon dies; the journal can still be read, and the next one knows everything.
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    let away = daemon.arles(&["queue"]);
    assert_eq!(away.code, 1);
    assert!(away.stderr.contains("connection to") && away.stderr.contains("hint: "), "{}", away.stderr);
    assert_eq!(daemon.json("queue --journal state").as_array().map(Vec::len), Some(5));
    let again = Daemon::start(&daemon.folder, &["--open-loopback", "--speed", "600"]);
    assert_eq!(again.json("queue").as_array().map(Vec::len), Some(5));
    // A copy is a journal: a daemon can go on from it.
    let restored = folder("client-restored");
    std::fs::create_dir_all(restored.join("state")).unwrap();
    std::fs::copy(daemon.folder.join("copy.db"), restored.join("state/journal.db")).unwrap();
    let restored = Daemon::start(&restored, &["--open-loopback", "--speed", "600"]);
    assert!(restored.says("token list").contains("admin"));
    assert_eq!(restored.json("queue").as_array().map(Vec::len), Some(5));
}

#[test]
fn a_job_is_found_by_its_name() {
    let daemon = Daemon::open("client-named");
    daemon.says("submit lm-b20 -t vision --steps 1e9 --name nightly");
    daemon.says("submit lm-b20 -t vision --steps 1e9 --name twice --count 2");
    assert_eq!(daemon.json("show nightly")["id"], 1);
    assert!(daemon.says("explain nightly").contains("Job 1 "));
    let told = daemon.refuses("show twice");
    assert!(told.contains("several live jobs are named 'twice': 3, 2") && told.contains("give the number"), "{told}");
    daemon.says("cancel 2 --yes");
    daemon.says("cancel 3 --yes");
    wait_for("both are over", || ["2", "3"].iter().all(|job| daemon.state(job.parse().unwrap()) == "cancelled"));
    // Of those that are over it is the newest, and that is said.
    let ran = daemon.arles(&["show", "twice", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["id"], 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("this is the newest, job 3 (others: 2)"), "{}", ran.stderr);
    assert_eq!(daemon.json("show nightly --journal state")["id"], 1, "a journal knows names too");
}

#[test]
fn a_backup_says_that_it_copies_a_folder() {
    let daemon = Daemon::open("client-backup-url");
    let told = daemon.refuses("backup copy.db");
    assert!(told.contains("cannot be made through ARLES_URL") && told.contains("--state FOLDER"), "{told}");
    assert!(!daemon.folder.join("copy.db").exists());
    daemon.says("backup copy.db --state state");
    let metrics = daemon.folder.join("state/last-backup");
    assert!(metrics.is_file(), "the daemon can say how old the last backup is");
}

#[test]
fn nobody_there_is_a_failure_with_a_hint() {
    let folder = folder("client-nobody");
    for command in ["queue", "show 1", "cancel 1", "top --once", "policy fifo", "token list", "submit lm-b20 --steps 1"]
    {
        let line: Vec<&str> = command.split(' ').chain(["--server", "http://127.0.0.1:1"]).collect();
        let ran = arles(&folder, &line, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{command}");
        assert!(
            ran.stderr.starts_with("error: connection to http://127.0.0.1:1 refused\nhint: is 'arles serve'"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn wrong_input_is_refused_in_a_sentence() {
    let daemon = Daemon::open("client-wrong");
    let cases = [
        ("submit resnet5 -t vision --steps 1", "unknown workload 'resnet5'"),
        ("submit lm-b20 -t visio --steps 1", "did you mean vision?"),
        ("submit lm-b20 --steps 1", "names no tenant"),
        ("submit lm-b20 -t vision", "give --steps N or --period TIME"),
        ("submit lm-b20 -t vision --steps 1 --period 1h", "cannot be used with"),
        ("submit lm-b20 -t vision --steps -1", "unexpected argument '-1'"),
        ("submit lm-b20 -t vision --steps 0", "expected a number from 0.001"),
        ("submit lm-b20 -t vision --steps 1 --gpus 99", "a gang of 99 GPUs does not fit this cluster"),
        ("submit lm-b20 -t vision --steps 1 --gpus v100", "expected a number such as 2"),
        ("submit lm-b20 -t vision --steps 1 --gpus v100:1 --kinds k80", "--kinds names kinds too"),
        ("submit lm-b20 -t vision --steps 1 --kinds a100", "this cluster has no GPUs of kind 'a100'"),
        ("show 99", "job 99 does not exist"),
        ("show 0", "'0' is not a job number; expected a whole number from 1 on"),
        ("explain x", "'x' is neither a job number nor the name of a job that you may see"),
        ("cancel nightly", "'nightly' is not a job number; expected a whole number from 1 on"),
        ("hold nightly", "'nightly' is not a job number"),
        ("queue --state happy", "'happy' is not a job state"),
        ("policy fif", "did you mean fifo?"),
        ("tenants set vision 0", "expected a number from"),
        ("token create x --scope god", "'god' is not a scope"),
        ("token create x --scope tenant", "needs a tenant"),
        ("token revoke nobody", "there is no token named 'nobody'"),
        ("audit --from soon", "'soon' is not a duration"),
        ("queue --server nonsense", "is not the address of a server"),
        ("queue --server https://127.0.0.1:1 --ca nowhere.pem", "nowhere.pem cannot be read"),
        ("queue --token-file nothing", "nothing: cannot read this file"),
        ("run --job 1 --pattern ( -- true", "is not a regular expression"),
    ];
    for (line, expect) in cases {
        let told = daemon.refuses(line);
        assert!(told.contains(expect), "arles {line}\n{told}");
    }
    assert_eq!(daemon.json("queue --all").as_array().map(Vec::len), Some(0), "nothing came of it");
}

fn run(daemon: &Daemon, job: Option<&str>, arguments: &[&str]) -> Ran {
    let mut command = command(&daemon.folder);
    command.env("ARLES_URL", &daemon.url);
    if let Some(job) = job {
        command.env("ARLES_JOB", job);
    }
    ended(command.arg("run").args(arguments))
}

#[test]
fn quotas_are_set_tenants_removed_and_what_a_restart_finds_otherwise_is_said() {
    let daemon = Daemon::open("client-quota");
    let said = daemon.json("tenants quota vision --gpus 2 --gpu-hours 500 --submits 600/min");
    assert_eq!(said["quota"], serde_json::json!({"gpus": 2, "gpu_hours": 500.0, "submits_per_second": 10.0}));
    let said = daemon.says("tenants quota vision --gpu-hours none");
    assert!(said.contains("GPUs at once") && said.contains("none"), "{said}");
    let quota = daemon.json("tenants quota vision")["quota"].to_string();
    assert_eq!(quota, r#"{"gpus":2,"submits_per_second":10.0}"#, "what a command does not name stays");
    assert!(daemon.refuses("tenants quota nobody").starts_with("error: there is no tenant 'nobody'"));
    assert!(daemon.refuses("tenants quota vision --submits 10").contains("'10' is not a frequency"));
    daemon.says("submit resnet50-b64 -t search --steps 1e12");
    let refused = daemon.arles(&["tenants", "remove", "search"]);
    assert!(refused.stderr.contains("tenant 'search' has 1 live job"), "{}", refused.stderr);
    let said = daemon.says("tenants remove search --cancel");
    assert_eq!(said, "search: removed; its tokens are revoked, and its history stays\n");
    let folder = daemon.folder.clone();
    drop(daemon);

    let daemon = Daemon::start(&folder, &["--open-loopback", "--speed", "600", "--policy", "fifo"]);
    let log = daemon.log();
    for said in [
        "the policy stays oef-coop; the configuration's fifo is for new journals ('arles policy fifo' switches)",
        "tenant search of the configuration was removed and stays so ('arles tenants set search 1' brings it back)",
    ] {
        assert!(log.contains(said), "{said}\n{log}");
    }
    assert_eq!(daemon.json("tenants")[0]["quota"]["gpus"], 2);
    assert_eq!(daemon.json("tenants").as_array().map(Vec::len), Some(1));
}

#[test]
fn a_command_that_knows_nothing_is_reported_for() {
    let daemon = Daemon::open("client-run");
    daemon.says("submit lm-b20 -t vision --steps 1e12");
    let script = r"printf 'a\000b\n'; echo 'step 120/1000'; printf '\r 42%%| 240/500 [00:01<00:05, 3.5it/s]'; echo bad >&2; exit 7";
    let ran = run(&daemon, Some("1"), &["--", "sh", "-c", script]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert_eq!(ran.stdout, "a\0b\nstep 120/1000\n\r 42%| 240/500 [00:01<00:05, 3.5it/s]");
    assert_eq!(ran.stderr, "bad\n");
    let reported = &daemon.json("show 1")["reported"];
    assert_eq!((&reported["steps"], &reported["rate"]), (&240.0.into(), &3.5.into()));
    let ran = run(&daemon, None, &["--job", "1", "--pattern", r"did (?P<step>\d+)", "--", "echo", "did 5000"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "did 5000\n"));
    assert_eq!(daemon.json("show 1")["reported"]["steps"], 5000.0);
    // No job: the command is all there is.
    let ran = run(&daemon, None, &["--", "sh", "-c", "echo step 9; exit 3"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (3, "step 9\n", ""));
    // A job that is not there, or a server that is not: one line, and the command is not disturbed.
    let ran = run(&daemon, Some("99"), &["--", "sh", "-c", "echo step 9; exit 4"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (4, "step 9\n"));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let away = ["--server", "http://127.0.0.1:1", "--job", "1", "--", "sh", "-c", "echo step 9; kill -9 $$"];
    let ran = run(&daemon, None, &away);
    assert_eq!((ran.code, ran.stdout.as_str()), (137, "step 9\n"));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let ran = run(&daemon, Some("1"), &["--", "no-such-command"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("cannot start 'no-such-command'"), "{}", ran.stderr);
}

#[test]
fn signals_reach_the_command() {
    let daemon = Daemon::open("client-signals");
    daemon.says("submit lm-b20 -t vision --steps 1e12");
    let script = "trap 'echo saved; exit 0' TERM; echo ready > ready; echo step 1; while :; do sleep 0.05; done";
    let mut command = command(&daemon.folder);
    command.env("ARLES_URL", &daemon.url).args(["run", "--job", "1", "--", "sh", "-c", script]);
    let child = command.stdout(Stdio::piped()).spawn().expect("the binary was built");
    wait_for("the command", || daemon.folder.join("ready").exists());
    let killed = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().expect("there is kill");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"step 1\nsaved\n"[..]));
}

#[test]
fn cancelling_a_job_stops_its_command() {
    let daemon = Daemon::open("client-cancelled");
    // One that says how far it is, and one of which nothing is known.
    for (job, says) in [(1, "echo step 1"), (2, "true")] {
        daemon.says("submit lm-b20 -t vision --steps 1e12");
        let ready = daemon.folder.join(format!("ready-{job}"));
        let script = format!(
            "trap 'echo saved; exit 0' TERM; {says}; echo ready > {}; while :; do sleep 0.05; done",
            ready.display()
        );
        let mut command = command(&daemon.folder);
        command.env("ARLES_URL", &daemon.url).args([
            "run",
            "--job",
            &job.to_string(),
            "--every",
            "1s",
            "--",
            "sh",
            "-c",
        ]);
        let child =
            command.arg(&script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary was built");
        wait_for("the command", || ready.exists());
        daemon.says(&format!("cancel {job}"));
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(85), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.ends_with("saved\n"), "{said}");
    }
}

#[test]
fn the_catalog_of_a_daemon_is_read_while_it_runs() {
    let daemon = Daemon::open("client-catalog");
    daemon.says("submit lm-b20 -t vision --steps 1e12");
    let listed = || {
        let state = daemon.folder.join("state");
        let ran = daemon.arles(&["catalog", "list", "-o", "json", "--catalog", &state.to_string_lossy()]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout.contains("lm-b20") && ran.stdout.contains("measured")
    };
    wait_for("a measurement in the catalog", listed);
}

const RUNNING: &str = r#"{"id": 1, "tenant": "a", "workload": "b", "gang": 1, "weight": 1, "restart_seconds": 0, "kinds": [],
 "state": "running", "submitted_at": 0, "steps_done": 0, "restarts": 0, "failures": 0, "gpu_seconds": 0,
 "energy": {"active_joules": 0, "idle_joules": 0, "restart_joules": 0}}"#;

/// A server that asks whoever reports to make room at once, within so many seconds.
fn impatient(grace_seconds: f64) -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                let mut request = Vec::new();
                // Requests are small: a question ends with an empty line, a report with a brace.
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    request.extend_from_slice(&buffer[..n]);
                    let asks = request.starts_with(b"GET");
                    if !request.ends_with(if asks { &b"\r\n\r\n"[..] } else { b"}" }) {
                        continue;
                    }
                    request.clear();
                    let told = format!(r#"{{"action": "checkpoint-and-stop", "grace_seconds": {grace_seconds}}}"#);
                    let body = if asks { RUNNING } else { &told };
                    let head =
                        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}", body.len());
                    let _ = write!(stream, "{head}\r\n\r\n{body}");
                }
            });
        }
    });
    url
}

#[test]
fn a_command_makes_room_when_it_is_asked_to() {
    let folder = folder("client-room");
    let run = |grace: f64, script: &str| {
        let url = impatient(grace);
        ended(command(&folder).args(["run", "--server", &url, "--job", "1", "--", "sh", "-c", script]))
    };
    // One that saves, one that knows no better than to die, one that fails to save, and one that does not listen.
    let saves = run(60.0, "trap 'echo saved; exit 0' TERM; echo step 1; while :; do sleep 0.05; done");
    assert_eq!((saves.code, saves.stdout.as_str()), (85, "step 1\nsaved\n"), "{}", saves.stderr);
    assert!(saves.stderr.contains("preempted; sending SIGTERM, 60 s to checkpoint and stop"), "{}", saves.stderr);
    assert_eq!(run(60.0, "echo step 1; while :; do sleep 0.05; done").code, 85);
    assert_eq!(run(60.0, "trap 'exit 5' TERM; echo step 1; while :; do sleep 0.05; done").code, 5);
    let deaf = run(0.1, "trap '' TERM; echo step 1; while :; do sleep 0.05; done");
    assert_eq!(deaf.code, 137);
    assert!(deaf.stderr.contains("grace period over"), "{}", deaf.stderr);
}

#[test]
fn the_python_hook_reports_to_the_daemon() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        arles_testing::skip("there is no python3");
        return;
    }
    let daemon = Daemon::open("client-python");
    daemon.says("submit lm-b20 -t vision --steps 1e12");
    let mut example = Command::new("python3");
    example.arg(python.join("examples/no_framework.py")).args(["--steps", "50", "--step-seconds", "0.001"]);
    example.env("PYTHONPATH", python.join("src")).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(&daemon.folder);
    for name in ["ARLES_TOKEN", "ARLES_TOKEN_FILE", "ARLES_CA"] {
        example.env_remove(name);
    }
    let output = example.env("ARLES_URL", &daemon.url).env("ARLES_JOB", "1").output().expect("python3 is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("done: 50 steps"));
    assert_eq!(daemon.json("show 1")["reported"]["steps"], 50.0);
}

#[test]
fn programs_are_submitted_held_and_shown() {
    let daemon = Daemon::open("client-programs");
    let first = daemon.arles(&[
        "submit",
        "-t",
        "vision",
        "--hold",
        "--time-limit",
        "2h",
        "--",
        "python",
        "train.py",
        "--lr",
        "3e-4",
    ]);
    assert_eq!((first.code, first.stdout.as_str()), (0, "job 1 submitted\n"), "{}", first.stderr);
    let job = daemon.json("show 1");
    assert_eq!((job["held"].as_bool(), job["open"].as_bool()), (Some(true), Some(true)));
    assert_eq!(job["program"]["line"], "python train.py --lr 3e-4");
    let here = daemon.folder.canonicalize().expect("a folder");
    assert_eq!(job["program"]["full"]["directory"].as_str(), here.to_str());
    let script =
        "#!/bin/bash\n#ARLES tenant=vision\n#ARLES gpus=2\n#ARLES hold\n#ARLES array=1-3%1\n#ARLES env=A=1\necho $A\n";
    std::fs::write(daemon.folder.join("job.sh"), script).expect("a script");
    assert_eq!(daemon.says("submit job.sh --gpus 4"), "array of 3 jobs submitted, 2 to 4\n");
    let job = daemon.json("show 3");
    assert_eq!((job["gang"].as_u64(), job["array"]["index"].as_u64()), (Some(4), Some(2)));
    assert_eq!(job["program"]["full"]["script"]["text"], script);
    assert_eq!(daemon.says("submit -t vision --hold --after ok:1 --cpus 2 -q -- python eval.py"), "5\n");
    let shown = daemon.says("show 5");
    for words in ["program", "python eval.py", "waiting, held", "ok:1", "2.000 CPUs for each GPU", "end unknown"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert_eq!(daemon.says("release 1 2"), "job 1 released\njob 2 released\n");
    assert!(daemon.refuses("release 1").contains("job 1 is not held"));
    assert_eq!(daemon.says("hold 1"), "job 1 held\n");
    assert!(daemon.refuses("hold 99").contains("job 99 does not exist"));
    assert!(daemon.refuses("submit -t vision --after ok:99 -- true").contains("job 99 does not exist"));
    assert!(daemon.refuses("submit -t vision --gpu-memory 4T -- true").contains("no nodes of this cluster"));
}

#[test]
fn nodes_are_drained_added_and_removed() {
    let daemon = Daemon::open("client-nodes");
    let drained = daemon.arles(&["nodes", "drain", "v100-000", "--why", "a new fan", "--deadline", "2h"]);
    assert_eq!((drained.code, drained.stdout.as_str()), (0, "v100-000 drained, empty in 2h\n"), "{}", drained.stderr);
    let listed = daemon.says("nodes");
    assert!(listed.contains("drained") && listed.contains("a new fan"), "{listed}");
    assert_eq!(daemon.json("nodes --away").as_array().map(Vec::len), Some(1));
    assert_eq!(daemon.says("nodes undrain v100-000"), "v100-000 gets jobs again\n");
    assert!(daemon.refuses("nodes undrain v100-000").contains("is not drained"));
    assert_eq!(daemon.says("nodes add big --gpus gpu:a100:2 --cpus 32 --memory 256G"), "big added: 2 × a100-40gb\n");
    assert!(daemon.says("nodes").contains("0 of 32"));
    assert_eq!(daemon.says("nodes kind big a100-80gb"), "big has 2 × a100-80gb\n");
    assert_eq!(daemon.says("nodes remove big k80-001"), "big removed\nk80-001 removed\n");
    assert!(daemon.refuses("nodes remove big").contains("there is no node 'big'"));
    assert!(daemon.refuses("nodes add x --gpus v101:2").contains("no kind is called 'v101'"));
    assert_eq!(daemon.json("nodes").as_array().map(Vec::len), Some(3));
}
