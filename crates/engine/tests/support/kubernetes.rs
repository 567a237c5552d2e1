//! A real Kubernetes for tests: started by `e2e/kubernetes/cluster` in a folder of its own, and stopped with its owner.
#![allow(dead_code, reason = "each test file uses what it needs")]

use arles_core::Cluster;
use arles_engine::kubernetes::{ProgramOptions, SharedFolder};
use arles_engine::{Kubernetes, KubernetesOptions, Nominal};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static NEXT: AtomicU32 = AtomicU32::new(0);
/// One control plane at a time: several on two cores answer too late for everybody.
static TURN: Mutex<()> = Mutex::new(());

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/kubernetes").join(name)
}

/// A cluster that is somebody else's, whose control plane is used as it is. Nodes of ours are added to it and removed again.
fn given() -> Option<PathBuf> {
    std::env::var_os("ARLES_TEST_KUBECONFIG").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Whether the control plane is ours to break; says so if not.
pub(crate) fn owned_or_skip(what: &str) -> bool {
    if given().is_some() {
        arles_testing::skip(format_args!("{what}: the cluster of ARLES_TEST_KUBECONFIG is not ours to break"));
    }
    given().is_none()
}

/// Whether a control plane was built and can be started; says so if not.
pub(crate) fn kubernetes_or_skip(what: &str) -> bool {
    let built = Command::new(script("build")).arg("--show").output();
    if built.is_ok_and(|output| output.status.success()) {
        return true;
    }
    arles_testing::skip(format_args!(
        "{what}: no Kubernetes is built; run e2e/kubernetes/build, which takes about five minutes"
    ));
    false
}

pub(crate) struct RealKubernetes {
    pub(crate) folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl RealKubernetes {
    /// Starts a control plane with nodes written as `name:product:gpus`.
    pub(crate) fn start(nodes: &[String]) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let kubernetes =
            Self { folder: PathBuf::from(format!("/tmp/ak-{}-{number}", std::process::id())), _turn: turn };
        // A busy machine may be too slow for one of its parts; then it is begun anew.
        let mut said = String::new();
        for _ in 0..3 {
            let mut command = kubernetes.script(if given().is_some() { "attach" } else { "start" });
            let output = command.args(given()).args(nodes).output().expect("bash is there");
            if output.status.success() {
                return kubernetes;
            }
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            println!("it is begun anew: {said}");
            let _ = kubernetes.script("stop").arg("--wipe").output();
        }
        panic!("{said}");
    }

    fn script(&self, verb: &str) -> Command {
        let mut command = Command::new(script("cluster"));
        command.arg(verb).arg(&self.folder);
        command
    }

    /// One of the script's verbs, such as `kill-node`.
    pub(crate) fn act(&self, verb: &str, rest: &[&str]) {
        let output = self.script(verb).args(rest).output().expect("bash is there");
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The server's minor version, such as 20.
    pub(crate) fn minor(&self) -> u32 {
        let there = arles_engine::kubernetes::tools::Cluster::open(Some(&self.kubeconfig())).expect("it is there");
        there.version().expect("it answers").1
    }

    /// Whether the server has scheduling gates; says so if not.
    pub(crate) fn has_gates_or_skip(&self, what: &str) -> bool {
        let minor = self.minor();
        if minor < 27 {
            arles_testing::skip_known(format_args!(
                "{what}: Kubernetes 1.{minor} has no scheduling gates; name a recent one with ARLES_TEST_KUBECONFIG, or its programs with ARLES_KUBERNETES"
            ));
        }
        minor >= 27
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// An engine's options with a namespace of its own for programs.
    pub(crate) fn options(&self, namespace: &str) -> KubernetesOptions {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        KubernetesOptions {
            kubeconfig: Some(self.kubeconfig()),
            mode: arles_engine::kubernetes::Mode::Place,
            scheduler_name: "arles".into(),
            namespaces: Vec::new(),
            gang_timeout_seconds: 20.0,
            programs: ProgramOptions {
                namespace: namespace.to_owned(),
                image: "none".into(),
                folder: Some(SharedFolder { path: self.folder.join(format!("programs-{number}")), claim: None }),
                environment: BTreeMap::new(),
                grace_seconds: 5.0,
            },
            kind_of: None,
            lease_seconds: 0.0,
            boot: 1,
        }
    }

    pub(crate) fn engine(&self, cluster: Cluster, namespace: &str) -> Kubernetes {
        Kubernetes::new(cluster, self.options(namespace), Box::new(Nominal)).expect("it answers")
    }

    /// One of the programs of Kubernetes' own.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let bin = Command::new(script("build")).arg("--show").output().expect("bash is there").stdout;
        Path::new(String::from_utf8_lossy(&bin).trim()).join(name)
    }

    /// What kubectl says, with this for its standard input.
    pub(crate) fn kubectl(&self, words: &[&str], input: &str) -> Result<String, String> {
        let mut command = Command::new(self.program("kubectl"));
        command.args(words).env("KUBECONFIG", self.kubeconfig()).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    pub(crate) fn create(&self, object: &Value) {
        self.kubectl(&["create", "-f", "-"], &object.to_string()).expect("it is accepted");
    }

    /// A namespace with its default service account.
    pub(crate) fn namespace(&self, name: &str) {
        if let Err(why) = self.kubectl(&["create", "namespace", name], "") {
            assert!(why.contains("already exists"), "{why}");
        }
        self.kubectl(&["label", "--overwrite", "namespace", name, "standin=true"], "").expect("it is accepted");
        for _ in 0..200 {
            if self.kubectl(&["-n", name, "get", "serviceaccount", "default"], "").is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("the namespace {name} has no service account");
    }

    /// A field of all pods of a namespace, such as `{.spec.nodeName}`, in the order of their names.
    pub(crate) fn pods(&self, namespace: &str, field: &str) -> Vec<String> {
        let form = format!("jsonpath={{range .items[*]}}{field}{{\"\\n\"}}{{end}}");
        let text = self.kubectl(&["-n", namespace, "get", "pods", "-o", &form], "").expect("it answers");
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for RealKubernetes {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("ARLES_KEEP").is_some() {
            println!("kept: {}", self.folder.display());
            return;
        }
        let _ = self.script("stop").arg("--wipe").output();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
