//! `arles kubernetes doctor`: what of a cluster keeps arles from working well, and what to change.

use crate::commands::findings::{self, Finding, State, finding};
use crate::engines::product_kinds;
use crate::fault::EXIT_CODES;
use crate::output::OutputFlag;
use crate::settings::{KUBERNETES, SettingFlags, Settings};
use anyhow::Result;
use arles_core::engine::EngineError;
use arles_engine::kubernetes::tools::{Cluster, FoundNodes};
use clap::Args;
use std::io::Write;

/// Check a Kubernetes cluster and say what to change, and why
///
/// Asks the API server for its version, its nodes and what this user may do; changes nothing. It ends with exit code 1 if something must be changed.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Doctor {
    #[command(flatten)]
    flags: SettingFlags<KUBERNETES>,
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
    let namespace = &settings.serve.kubernetes_namespace;
    found.push(match there.missing_rights(namespace) {
        Ok(missing) if missing.is_empty() => finding("rights", State::Ok, "this user may do all that arles does"),
        Ok(missing) => finding(
            "rights",
            State::Wrong,
            format!(
                "this user may not {}; apply packaging/kubernetes/rbac.yaml and run as that service account",
                missing.join(", ")
            ),
        ),
        Err(error) => finding("rights", State::Wrong, error.to_string()),
    });
    found.extend(of_nodes(there.nodes(&product_kinds(settings))));
    found
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
