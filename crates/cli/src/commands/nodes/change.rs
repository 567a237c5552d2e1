//! Nodes that are drained, undrained, removed, added or corrected.

use crate::output::{self, Format, OutputFlag};
use crate::quantity::{self, span};
use crate::server::{self, EXIT_CODES, ServerFlags};
use anyhow::Result;
use arles_api as api;
use arles_api::client::{Client, encode};
use clap::{Args, Subcommand};
use std::io::Write;

#[derive(Subcommand)]
pub(super) enum Action {
    Drain(Drain),
    Undrain(Undrain),
    Remove(Remove),
    Add(Add),
    Kind(Correct),
}

#[derive(Args)]
struct ChangeFlags {
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Drain nodes: no new jobs; those that run are moved by the deadline
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Drain {
    /// Node names
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    /// Reason, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Time until the node must be empty, such as 2h [default: jobs run to their end]
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds)]
    deadline: Option<f64>,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// Let drained nodes get jobs again
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Undrain {
    /// Node names
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// Remove nodes for good: their jobs are stopped and wait again
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Remove {
    /// Node names
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// Add a node; one of the same name with other GPUs leaves
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Add {
    /// Node name
    node: String,
    /// GPUs: v100:4, by any name of the kind
    #[arg(long, value_name = "KIND:COUNT", value_parser = gpus)]
    gpus: (String, u32),
    /// CPUs for jobs [default: not counted]
    #[arg(long, value_name = "N", value_parser = |text: &str| quantity::number(text, 0.0, 1e6))]
    cpus: Option<f64>,
    /// Host memory for jobs, such as 256G [default: not counted]
    #[arg(long, value_name = "SIZE", value_parser = quantity::gib)]
    memory: Option<f64>,
    /// Rack it stands in, or switch or NVLink domain: gangs are kept within one where they can be
    #[arg(long, value_name = "NAME")]
    rack: Option<String>,
    /// Configuration file that describes the kind, where the library lacks it
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// Correct the kind of a node's GPUs
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Correct {
    /// Node name
    node: String,
    /// What its GPUs really are, by any name of the kind
    kind: String,
    /// Configuration file that describes the kind, where the library lacks it
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    #[command(flatten)]
    flags: ChangeFlags,
}

fn gpus(text: &str) -> Result<(String, u32), String> {
    let bare = text.trim();
    let bare = bare.strip_prefix("gpu:").unwrap_or(bare);
    match bare.rsplit_once(':').map(|(kind, count)| (kind.trim(), count.trim().parse::<u32>())) {
        Some((kind, Ok(count @ 1..))) if !kind.is_empty() => Ok((kind.to_owned(), count)),
        _ => Err(format!("'{text}' is not a number of GPUs of a kind; expected KIND:COUNT such as v100:4")),
    }
}

/// Figures of a kind from a configuration file, if it describes one of this name.
fn described(config: Option<&std::path::Path>, kind: &str) -> Result<Option<api::KindSpec>> {
    let Some(path) = config else { return Ok(None) };
    let mut settings = crate::settings::Settings::builtin()?;
    settings.put_file(path)?;
    Ok(settings.described_kinds.iter().find(|(name, _)| name == kind).map(|(_, spec)| spec.clone()))
}

impl Action {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        match self {
            Self::Drain(drain) => {
                let request = api::DrainRequest { why: drain.why.clone(), deadline_seconds: drain.deadline };
                let ask = |client: &Client, path: &str| client.post(&format!("{path}/drain"), &request, None);
                let until = drain.deadline.map_or(String::new(), |seconds| format!(", empty in {}", span(seconds)));
                drain.flags.change(&drain.nodes, ask, |node| format!("{} {}{until}", node.name, node.state), out)
            }
            Self::Undrain(undrain) => {
                let ask = |client: &Client, path: &str| client.post(&format!("{path}/undrain"), &(), None);
                undrain.flags.change(&undrain.nodes, ask, |node| format!("{} gets jobs again", node.name), out)
            }
            Self::Remove(remove) => {
                let ask = |client: &Client, path: &str| client.delete(path);
                remove.flags.change(&remove.nodes, ask, |node| format!("{} removed", node.name), out)
            }
            Self::Add(add) => {
                let (kind, gpus) = &add.gpus;
                let request = api::NodeRequest {
                    name: add.node.clone(),
                    kind: kind.clone(),
                    specification: described(add.config.as_deref(), kind)?,
                    gpus: *gpus,
                    cpus: add.cpus,
                    memory_gib: add.memory,
                    rack: add.rack.clone(),
                };
                let ask = |client: &Client, _: &str| client.post("/v1/nodes", &request, None);
                let text = |node: &api::Node| format!("{} added: {} × {}", node.name, node.gpus, node.kind);
                add.flags.change(std::slice::from_ref(&add.node), ask, text, out)
            }
            Self::Kind(correct) => {
                let specification = described(correct.config.as_deref(), &correct.kind)?;
                let request = api::KindCorrection { kind: correct.kind.clone(), specification };
                let ask = |client: &Client, path: &str| client.post(&format!("{path}/kind"), &request, None);
                let text = |node: &api::Node| format!("{} has {} × {}", node.name, node.gpus, node.kind);
                correct.flags.change(std::slice::from_ref(&correct.node), ask, text, out)
            }
        }
    }
}

impl ChangeFlags {
    /// Asks for each node in turn, and stops at the first refusal.
    fn change(
        &self,
        nodes: &[String],
        ask: impl Fn(&Client, &str) -> Result<api::Node, api::client::ClientError>,
        text: impl Fn(&api::Node) -> String,
        out: &mut dyn Write,
    ) -> Result<()> {
        let client = self.server.client()?;
        let mut done = Vec::new();
        let mut refused = None;
        for name in nodes {
            match ask(&client, &format!("/v1/nodes/{}", encode(name))) {
                Ok(node) => done.push(node),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        match self.output.output {
            Format::Table => done.iter().try_for_each(|node| writeln!(out, "{}", text(node)))?,
            Format::Csv => write!(out, "{}", super::by_node(&done).csv())?,
            // A single refusal is the whole answer.
            Format::Json if done.is_empty() && refused.is_some() => {}
            Format::Json => output::json(out, &done)?,
        }
        refused.map_or(Ok(()), |error| Err(server::fault(error)))
    }
}
