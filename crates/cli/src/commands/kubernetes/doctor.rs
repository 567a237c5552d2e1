//! `arles kubernetes doctor`: what of a cluster keeps arles from working well, and what to change.

use crate::commands::findings::{self, Finding, State, finding};
use crate::engines::product_kinds;
use crate::fault::EXIT_CODES;
use crate::output::OutputFlag;
use crate::settings::{KUBERNETES_DOCTOR, SettingFlags, Settings};
use anyhow::Result;
use arles_core::engine::EngineError;
use arles_engine::kubernetes::Mode;
use arles_engine::kubernetes::tools::{ClaimedGpus, Cluster, FoundNodes};
use clap::Args;
use std::io::Write;

/// Check a Kubernetes cluster and say what to change, and why
///
/// Asks the API server for its version, its nodes and what this user may do; changes nothing. With --mode advise, also for Kueue and what an adviser may do
/// there. It ends with exit code 1 if something must be changed.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Doctor {
    #[command(flatten)]
    flags: SettingFlags<KUBERNETES_DOCTOR>,
    #[command(flatten)]
    output: OutputFlag,
}

impl Doctor {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let settings = self.flags.settings()?;
        let opened = Cluster::open(settings.serve.kubeconfig.as_deref());
        let asked = opened.and_then(|there| Ok((there.version()?, there)));
        let found = match asked {
            Err(error) => vec![finding("API server", State::Wrong, format!("{error}; see whether kubectl works here"))],
            Ok((version, there)) => examine(&there, version, &settings),
        };
        findings::print(out, self.output.output, &found)
    }
}

fn examine(there: &Cluster, version: (u32, u32), settings: &Settings) -> Vec<Finding> {
    let (major, minor) = version;
    let mut found = vec![finding("API server", State::Ok, format!("Kubernetes {major}.{minor} answers"))];
    let name = &settings.serve.kubernetes_scheduler;
    found.push(match version >= (1, 27) {
        true => finding("gates", State::Ok, "pods with the gate arles/admission wait for arles"),
        false => finding(
            "gates",
            State::Advice,
            format!("this version drops scheduling gates, so such pods would not wait; use schedulerName: {name}, which arles binds itself"),
        ),
    });
    found.push(of_rights(there, settings));
    match settings.serve.kubernetes_mode {
        Mode::Advise => found.extend(of_kueue(there)),
        Mode::Place => found.extend(there.claimed_gpus().map(|claimed| of_claims(claimed, name))),
    }
    found.extend(of_nodes(there.nodes(&product_kinds(settings))));
    found
}

fn of_rights(there: &Cluster, settings: &Settings) -> Finding {
    let (namespace, mode) = (&settings.serve.kubernetes_namespace, settings.serve.kubernetes_mode);
    let manifests = match mode {
        Mode::Place => "packaging/kubernetes/rbac.yaml",
        Mode::Advise => "packaging/kubernetes-advise",
    };
    match there.missing_rights(namespace, mode) {
        Ok(missing) if missing.is_empty() => finding("rights", State::Ok, "this user may do all that arles does"),
        Ok(missing) => {
            let missing = missing.join(", ");
            let text = format!("this user may not {missing}; apply {manifests} and run as that service account");
            finding("rights", State::Wrong, text)
        }
        Err(error) => finding("rights", State::Wrong, error.to_string()),
    }
}

/// What an adviser needs of Kueue. Whether Kueue listens is in its own configuration, which is not at the API server.
fn of_kueue(there: &Cluster) -> Vec<Finding> {
    match there.kueue() {
        Err(error) => vec![finding("Kueue", State::Wrong, error.to_string())],
        Ok((queues, workloads)) => {
            let state = if queues == 0 { State::Wrong } else { State::Ok };
            let found = format!("{queues} ClusterQueues with GPUs and {workloads} Workloads with GPUs");
            let remedy = if queues == 0 { "; make a ClusterQueue with a quota of GPUs" } else { "" };
            let gates = "Kueue takes advice if it runs with --feature-gates=PriorityBoost=true,ConcurrentAdmission=true (alpha since 0.17 and 0.18), which cannot be seen from here; \
                         see whether its Deployment has them, and that kueue-priority-booster does not run beside arles";
            vec![finding("Kueue", state, format!("{found}{remedy}")), finding("Kueue's gates", State::Advice, gates)]
        }
    }
}

fn of_claims(claimed: ClaimedGpus, scheduler_name: &str) -> Finding {
    let ClaimedGpus { gpus, nodes, classes } = claimed;
    let text = format!("{gpus} GPUs of {nodes} nodes are handed out by claims (DRA) of {}", classes.join(", "));
    match classes.is_empty() {
        true => {
            let text = format!(
                "{gpus} GPUs of {nodes} nodes are in ResourceSlices, and no DeviceClass picks them; install that of the driver, gpu.nvidia.com"
            );
            finding("claims", State::Wrong, text)
        }
        false => finding(
            "claims",
            State::Ok,
            format!(
                "{text}; such pods wait behind the gate or in suspended Jobs, and those with schedulerName: {scheduler_name} are refused"
            ),
        ),
    }
}

fn of_nodes(nodes: Result<FoundNodes, EngineError>) -> Vec<Finding> {
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(error) => return vec![finding("nodes", State::Wrong, error.to_string())],
    };
    let gpus: u32 = nodes.nodes.iter().map(|node| node.gpus).sum();
    let text = format!("{} nodes with {gpus} GPUs of known kinds", nodes.nodes.len());
    let state = if nodes.nodes.is_empty() { State::Wrong } else { State::Ok };
    let mut found = vec![finding("nodes", state, text)];
    found.extend(nodes.unknown.into_iter().map(|(node, product)| {
        let text = format!(
            "{node} has GPUs with {product}, so it is left out; label it nvidia.com/gpu.product (NVIDIA's GPU feature discovery does), or describe the product in [[kind]]"
        );
        finding("products", State::Wrong, text)
    }));
    found
}
