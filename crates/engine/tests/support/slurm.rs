//! A real Slurm for tests: started by `e2e/slurm/cluster` in a folder of its own, and stopped with its owner.
#![allow(dead_code, reason = "each test file uses what it needs")]

use arles_core::Cluster;
use arles_engine::slurm::Canary;
use arles_engine::{Nominal, Slurm, SlurmOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Whether Slurm's daemons are installed and can be started; says so if not.
pub(crate) fn slurm_or_skip(what: &str) -> bool {
    programs_or_skip(what, &["slurmctld", "slurmd", "slurmrestd", "munged", "sbatch"])
}

/// The same for a Slurm with a database.
pub(crate) fn database_or_skip(what: &str) -> bool {
    programs_or_skip(
        what,
        &["slurmctld", "slurmd", "slurmrestd", "munged", "sbatch", "slurmdbd", "sacctmgr", "mariadbd"],
    )
}

fn programs_or_skip(what: &str, programs: &[&str]) -> bool {
    let there =
        |program: &str| Command::new("sh").args(["-c", &format!("PATH=$PATH:/usr/sbin command -v {program}")]).output();
    let lacks = |program: &&&str| !there(program).is_ok_and(|output| output.status.success());
    let missing: Vec<&str> = programs.iter().filter(lacks).copied().collect();
    if missing.is_empty() && rustix::process::getuid().is_root() {
        return true;
    }
    let why =
        if missing.is_empty() { "it needs root".to_owned() } else { format!("{} not installed", missing.join(", ")) };
    arles_testing::skip(format_args!(
        "{what}: {why}; install the packages that e2e/slurm/cluster names, and run the tests as root"
    ));
    false
}

pub(crate) struct RealSlurm {
    pub(crate) folder: PathBuf,
}

impl RealSlurm {
    /// Starts a cluster with nodes written as `name:type:gpus`, each on ports of its own.
    pub(crate) fn start(nodes: &[&str]) -> Self {
        Self::start_with(nodes, &[])
    }

    pub(crate) fn start_with(nodes: &[&str], settings: &[(&str, &str)]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("/tmp/as-{}-{number}", std::process::id()));
        let slurm = Self { folder };
        let mut start = slurm.script("start");
        start.args(nodes).envs(settings.iter().copied());
        let output = start.output().expect("bash is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        slurm
    }

    fn script(&self, verb: &str) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/slurm/cluster");
        let mut command = Command::new(script);
        command.arg(verb).arg(&self.folder);
        command
    }

    /// One of the script's verbs, such as `kill-node`.
    pub(crate) fn act(&self, verb: &str, rest: &[&str]) {
        let output = self.script(verb).args(rest).output().expect("bash is there");
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn conf(&self) -> PathBuf {
        self.folder.join("etc/slurm.conf")
    }

    pub(crate) fn options(&self) -> SlurmOptions {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        SlurmOptions {
            conf: Some(self.conf()),
            rest: Some(format!("unix:{}", self.folder.join("run/slurmrestd.sock").display())),
            token: None,
            folder: self.folder.join(format!("programs-{number}")),
            logs: self.folder.join(format!("logs-{number}")),
            environment: BTreeMap::new(),
            job_mapping: None,
            poll_seconds: 0.2,
            canary: Canary { percent: 100.0, ..Canary::default() },
            kind_of: None,
            boot: 1,
        }
    }

    pub(crate) fn engine(&self, cluster: Cluster) -> Slurm {
        Slurm::new(cluster, self.options(), Box::new(Nominal)).expect("an address")
    }

    /// One of Slurm's commands.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("SLURM_CONF", self.conf()).current_dir("/tmp").output().expect("it is installed")
    }

    pub(crate) fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Ends all jobs, at once, and waits until they are gone.
    pub(crate) fn cancel_everything(&self) {
        self.run(&["scancel", "--state=PENDING"]);
        self.run(&["scancel", "--full", "--signal=KILL", "--state=RUNNING"]);
        self.run(&["scancel", "--state=RUNNING"]);
        let began = Instant::now();
        while !self.text(&["squeue", "-h", "-t", "PD,R,S,CG", "-o", "%i"]).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "jobs do not end");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for RealSlurm {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("ARLES_KEEP").is_some() {
            println!("kept: {}", self.folder.display());
            return;
        }
        let _ = self.script("stop").arg("--wipe").output();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
