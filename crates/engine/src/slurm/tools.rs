//! What is done with a Slurm cluster outside of an engine: finding its nodes, giving jobs back, looking at its configuration.

use super::controller::{CommandError, Controller};
use super::mark::{self, Claim};
use super::record::{NodeRecord, Stage};
use super::rest::Rest;
use super::{KindOf, SlurmOptions};
use arles_core::NodeSpec;
use arles_core::engine::EngineError;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A node as arles counts it; nothing for one without GPUs of a known kind.
fn node_spec(node: &NodeRecord, kind_of: &KindOf) -> Option<NodeSpec> {
    let (kind, gpus) = node.gpus()?;
    let kind = kind_of(&kind?)?;
    let memory_gib = (node.real_memory > 0).then_some(node.real_memory as f64 / 1024.0);
    let cpus = u32::try_from(node.cpus).ok().filter(|cpus| *cpus > 0);
    Some(NodeSpec { name: node.name.clone(), kind, gpus, cpus: cpus.map(f64::from), memory_gib, rack: None })
}

/// Nodes as arles counts them. A kind is shared by two jobs only if all of its nodes have shards for that.
pub(super) fn node_specs(records: &[NodeRecord], kind_of: &KindOf) -> Vec<NodeSpec> {
    let specs = records.iter().filter_map(|node| Some((node_spec(node, kind_of)?, node.shards_per_gpu() >= 2)));
    let mut specs: Vec<(NodeSpec, bool)> = specs.collect();
    let whole: BTreeSet<String> =
        specs.iter().filter(|(_, shards)| !shards).map(|(node, _)| node.kind.name.clone()).collect();
    for (node, _) in specs.iter_mut().filter(|(node, _)| whole.contains(&node.kind.name)) {
        node.kind.max_jobs = 1;
    }
    specs.into_iter().map(|(node, _)| node).collect()
}

/// The nodes with GPUs that Slurm has, and names with types of those whose kind is not known.
pub struct FoundNodes {
    /// Nodes that can be scheduled.
    pub nodes: Vec<NodeSpec>,
    /// Nodes whose GPUs have no type, or one that is not known, with that type.
    pub unknown: Vec<(String, String)>,
    /// Shards of each GPU, by node; 0 where there are none.
    pub shards: Vec<(String, u32)>,
}

/// Asks Slurm for its nodes.
///
/// # Errors
/// When Slurm cannot be asked.
pub fn find_nodes(
    rest: Option<&str>,
    token: Option<(String, String)>,
    kind_of: &KindOf,
) -> Result<FoundNodes, EngineError> {
    let (user, token) = token.unzip();
    let rest = rest.map(|address| Rest::new(address, user, token)).transpose()?;
    let records = Controller::new(rest, None).nodes()?;
    let mut found = FoundNodes { nodes: node_specs(&records, kind_of), unknown: Vec::new(), shards: Vec::new() };
    for node in records {
        let Some((kind, _)) = node.gpus() else { continue };
        match found.nodes.iter().any(|known| known.name == node.name) {
            true => found.shards.push((node.name.clone(), node.shards_per_gpu())),
            false => found.unknown.push((node.name, kind.unwrap_or_else(|| "no type".into()))),
        }
    }
    Ok(found)
}

/// What giving jobs back came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Released {
    /// Jobs that wait in Slurm's own queue now.
    pub waiting: Vec<String>,
    /// Jobs that run and go on running; arles does not touch them any more.
    pub running: Vec<String>,
    /// Jobs that Slurm did not let go, and why.
    pub failed: Vec<(String, String)>,
}

/// Gives all of arles' jobs back to Slurm: those that wait are released without a place, those that run are left alone. A daemon that still
/// runs never takes them again. With `dry_run`, says only which they are.
///
/// # Errors
/// When Slurm cannot be asked.
pub fn release_all(conf: Option<PathBuf>, dry_run: bool) -> Result<Released, EngineError> {
    let mut controller = Controller::new(None, conf);
    let mut done = Released::default();
    for record in controller.jobs(None)?.unwrap_or_default() {
        if !matches!(
            mark::claim(&record.comment, &record.admin_comment),
            Claim::Taken | Claim::Offered | Claim::Refused
        ) {
            continue;
        }
        let name = record.slurm_name();
        let comment = format!("AdminComment={}", mark::released());
        let (changes, held) = match record.stage() {
            Stage::Held => (vec!["ReqNodeList=".to_owned(), comment], true),
            Stage::Queued | Stage::Running | Stage::Completing => (vec![comment], false),
            Stage::Completed | Stage::Cancelled | Stage::Failed => continue,
        };
        let outcome = match dry_run {
            true => Ok(()),
            false => {
                controller.update(&name, &changes).and_then(|()| if held { controller.release(&name) } else { Ok(()) })
            }
        };
        match outcome {
            Ok(()) if record.stage() == Stage::Running => done.running.push(name),
            Ok(()) => done.waiting.push(name),
            Err(CommandError::Refused(why) | CommandError::Unreachable(why)) => done.failed.push((name, why)),
        }
    }
    Ok(done)
}

/// What Slurm says of its configuration: `scontrol show config`, as names and values.
///
/// # Errors
/// When Slurm cannot be asked.
pub fn configuration() -> Result<Vec<(String, String)>, EngineError> {
    let text = Controller::new(None, None).run(&["scontrol", "show", "config"])?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once('='));
    Ok(lines.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect())
}

/// The version of the API that slurmrestd speaks and arles understands.
///
/// # Errors
/// When there is none, or slurmrestd does not answer.
pub fn rest_version(options: &SlurmOptions) -> Result<&'static str, EngineError> {
    let (user, token) = options.token.clone().unzip();
    let address = options.rest.as_deref().ok_or_else(|| EngineError("no slurmrestd is configured".into()))?;
    Rest::new(address, user, token)?.version()
}
