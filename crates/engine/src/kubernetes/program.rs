//! Programs that were submitted through arles, as pods that arles makes: one for each node of a gang, with the gang's number in its name.
//!
//! A gang's pods are made when it starts and deleted when it stops; the next gang has others. So nothing is changed of a pod once it is there.

use super::mark::{JOB, Mark};
use super::object::{GPU_RESOURCES, Node};
use crate::slurm::program::folder;
use arles_core::Program;
use arles_core::engine::LiveJob;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The user that programs run as: that of the daemon's image.
const USER: u32 = 711;

/// A folder that the daemon and the pods both see.
#[derive(Clone, Debug)]
pub struct SharedFolder {
    /// Where it is, for the daemon and in the pods.
    pub path: PathBuf,
    /// The claim in arles' own namespace that pods mount there; without, they see it by other means.
    pub claim: Option<String>,
}

/// What pods of programs have in common.
#[derive(Clone, Debug)]
pub struct ProgramOptions {
    /// The namespace that arles makes pods in. Nobody else should be able to.
    pub namespace: String,
    /// Image of programs that name none.
    pub image: String,
    /// Where programs write how far they are; without, only what training code reports is known.
    pub folder: Option<SharedFolder>,
    /// Told to programs on top of their own environment.
    pub environment: BTreeMap<String, String>,
    /// Seconds between SIGTERM and SIGKILL.
    pub grace_seconds: f64,
}

/// One pod of a gang.
pub(super) struct Rank<'a> {
    pub(super) number: usize,
    pub(super) of: usize,
    pub(super) node: &'a Node,
    pub(super) gpus: u32,
}

/// What a gang's pods are called.
pub(super) fn pod_name(mark: &Mark, number: usize) -> String {
    format!("arles-{}-{}-{}-{number}", tag(&mark.journal), mark.job.0, mark.fence.0)
}

/// A few letters for a journal, so that pods of two daemons in one namespace have other names.
fn tag(journal: &str) -> String {
    let hash = journal.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    format!("{:06x}", hash & 0xff_ffff)
}

/// A pod of a program, with its place.
pub(super) fn manifest(
    options: &ProgramOptions,
    live: &LiveJob,
    mark: &Mark,
    rank: &Rank<'_>,
    steps: f64,
    kind: &str,
) -> Value {
    let nothing = Program::default();
    let (spec, program) = (&live.spec, live.spec.program.as_deref().unwrap_or(&nothing));
    let resource = rank.node.gpu_resource().unwrap_or(GPU_RESOURCES[0]);
    let needs = &spec.needs;
    let mut asked = json!({resource: rank.gpus.to_string()});
    if needs.cpus_per_gpu > 0.0 {
        asked["cpu"] = json!(format!("{}m", (1000.0 * needs.cpus_per_gpu * f64::from(rank.gpus)).ceil()));
    }
    if needs.memory_gib_per_gpu > 0.0 {
        asked["memory"] = json!(format!("{}Mi", (1024.0 * needs.memory_gib_per_gpu * f64::from(rank.gpus)).ceil()));
    }
    let mut container = json!({
        "name": "program",
        "image": program.image.as_deref().unwrap_or(&options.image),
        "command": command(program).iter().map(|word| literal(word)).collect::<Vec<_>>(),
        "env": environment(options, live, program, rank, steps, kind),
        "resources": {"limits": asked.clone(), "requests": asked},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    });
    if let Some(directory) = &program.directory {
        container["workingDir"] = json!(directory);
    }
    let mut volumes = json!([]);
    if let Some(SharedFolder { path, claim: Some(claim) }) = &options.folder {
        container["volumeMounts"] = json!([{"name": "arles", "mountPath": path}]);
        volumes = json!([{"name": "arles", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(mark, rank.number),
            "labels": {JOB: mark.job.0.to_string(), "app.kubernetes.io/managed-by": "arles"},
            "annotations": mark.annotations(),
        },
        "spec": {
            "nodeName": rank.node.metadata.name,
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": options.grace_seconds.ceil() as u64,
            "tolerations": GPU_RESOURCES.map(|key| json!({"key": key, "operator": "Exists"})),
            // What the standard "restricted" asks for. The user is the daemon's own, so that both can write in a shared folder.
            "securityContext": {"runAsNonRoot": true, "runAsUser": USER, "fsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": volumes,
        }
    })
}

/// What runs. A script travels in the environment and is written down by the pod's first words.
fn command(program: &Program) -> Vec<String> {
    let Some(script) = &program.script else { return program.command.clone() };
    let first = script.text.lines().next().unwrap_or("");
    let interpreter = first.strip_prefix("#!").map_or("/bin/sh", str::trim);
    let words =
        r#"f=$(mktemp) && printf '%s' "$ARLES_SCRIPT" >"$f" && unset ARLES_SCRIPT && exec INTERPRETER "$f" "$@""#;
    let words = words.replace("INTERPRETER", interpreter);
    let fixed = ["/bin/sh".to_owned(), "-c".to_owned(), words, script.name.clone()];
    fixed.into_iter().chain(program.command.iter().cloned()).collect()
}

fn environment(
    options: &ProgramOptions,
    live: &LiveJob,
    program: &Program,
    rank: &Rank<'_>,
    steps: f64,
    kind: &str,
) -> Vec<Value> {
    let spec = &live.spec;
    let mut told: BTreeMap<String, String> = options.environment.clone();
    told.extend(program.environment.clone());
    let mut tell = |name: &str, value: String| drop(told.insert(name.to_owned(), value));
    tell("ARLES_JOB", spec.id.0.to_string());
    tell("ARLES_GPUS", spec.gang.to_string());
    tell("ARLES_KIND", kind.to_owned());
    tell("ARLES_RANK", rank.number.to_string());
    tell("ARLES_PODS", rank.of.to_string());
    tell("ARLES_STEPS_DONE", steps.to_string());
    if let Some(shared) = &options.folder {
        tell("ARLES_STEPS_FILE", folder(&shared.path, spec.id).join("steps").display().to_string());
    }
    if let Some(task) = spec.array {
        tell("ARLES_ARRAY_INDEX", task.index.to_string());
    }
    if let Some(script) = &program.script {
        tell("ARLES_SCRIPT", script.text.clone());
    }
    told.into_iter().map(|(name, value)| json!({"name": name, "value": literal(&value)})).collect()
}

/// A text that Kubernetes leaves as it is: it replaces `$(NAME)` in commands and values, and twice the sign by the sign.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::scheduler::Fence;
    use arles_core::{GpuId, JobId, JobSpec, Script};
    use std::sync::Arc;

    #[test]
    fn a_program_is_a_pod_on_its_node_with_its_gang_in_its_name() {
        let script = Script { name: "train.sh".into(), text: "#!/usr/bin/python3 -u\nprint(1)\n".into() };
        let program = Program { command: vec!["--fast".into()], script: Some(script), ..Program::default() };
        let spec = JobSpec { id: JobId(7), gang: 2, program: Some(Arc::new(program)), ..JobSpec::default() };
        let live = LiveJob { spec, steps_done: 0.0 };
        let options = ProgramOptions {
            namespace: "arles".into(),
            image: "python:3".into(),
            folder: Some(SharedFolder { path: "/shared".into(), claim: Some("arles".into()) }),
            environment: BTreeMap::from([("ODD".to_owned(), "$(PATH)".to_owned())]),
            grace_seconds: 30.0,
        };
        let mark = Mark { job: JobId(7), journal: "j".into(), fence: Fence(3), gpus: vec![GpuId(0), GpuId(1)] };
        let node = Node {
            metadata: super::super::object::Meta { name: "n0".into(), ..Default::default() },
            ..Node::default()
        };
        let pod = manifest(&options, &live, &mark, &Rank { number: 0, of: 1, node: &node, gpus: 2 }, 5.0, "v100");
        assert!(pod["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-7-3-0")), "{pod}");
        assert_eq!(pod["spec"]["nodeName"], "n0");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"]["nvidia.com/gpu"], "2");
        let words: Vec<&str> =
            container["command"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
        assert!(words[2].contains("exec /usr/bin/python3 -u \"$$f\" \"$$@\""), "{words:?}");
        assert_eq!(words[3..], ["train.sh", "--fast"]);
        let told = |name: &str| container["env"].as_array()?.iter().find(|e| e["name"] == name)?["value"].as_str();
        assert_eq!((told("ODD"), told("ARLES_STEPS_DONE")), (Some("$$(PATH)"), Some("5")));
        assert_eq!(told("ARLES_STEPS_FILE"), Some("/shared/job-7/steps"));
    }
}
