//! `arles nodes`: the hosts of the cluster, and changes of them.

mod change;

use crate::jobs::harmless;
use crate::output::{self, Cell, Column, Format, Table};
use crate::quantity::{percent, shown, watts};
use crate::server::{EXIT_CODES, ReadFlags};
use anyhow::Result;
use arles_api::Node;
use clap::Args;
use std::collections::BTreeMap;
use std::io::Write;

/// List the nodes: state, busy GPUs, power; drain, remove or add some
#[derive(Args)]
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub(crate) struct Nodes {
    #[command(subcommand)]
    action: Option<change::Action>,
    /// One line per GPU kind instead of per node
    #[arg(short, long)]
    summary: bool,
    /// Only nodes that are not up
    #[arg(long)]
    away: bool,
    #[command(flatten)]
    read: ReadFlags,
}

impl Nodes {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        if let Some(action) = &self.action {
            return action.run(out);
        }
        let mut nodes = self.read.open()?.nodes()?.nodes;
        nodes.retain(|node| !self.away || node.state != "up");
        let table = if self.summary { by_kind(&nodes) } else { by_node(&nodes) };
        output::print(out, self.read.format(), &table, &nodes)?;
        if self.read.format() == Format::Table {
            let sum = |count: fn(&Node) -> u32| nodes.iter().map(count).sum::<u32>();
            let (busy, gpus) = (sum(|node| node.busy), sum(|node| node.gpus));
            let draw = watts(nodes.iter().map(|node| node.watts).sum());
            let share = percent(f64::from(busy) / f64::from(gpus));
            let word = if nodes.len() == 1 { "node" } else { "nodes" };
            let total = format!("{} {word}, {busy} of {gpus} GPUs busy ({share} %), {draw}", nodes.len());
            output::paragraph(out, &total)?;
        }
        Ok(())
    }
}

fn by_node(nodes: &[Node]) -> Table {
    // Columns that are empty for all nodes say nothing.
    let optional = |shown: bool, title: &'static str, name: &'static str| {
        if shown { Column::right(title, name) } else { Column::hidden(name) }
    };
    let why = |node: &Node| {
        let drained = node.drain.iter().map(|drain| drain.why.clone());
        let lost = match node.lost_gpus.len() {
            _ if node.drain.is_some() => None,
            0 => None,
            1 => Some("1 GPU lost".to_owned()),
            lost => Some(format!("{lost} GPUs lost")),
        };
        let slow = node
            .slow_gpus
            .iter()
            .map(|slow| format!("GPU {} at {:.2} of its kind's speed", slow.gpu, slow.speed_ratio));
        drained.chain(lost).chain(slow).collect::<Vec<_>>().join("; ")
    };
    let remark = if nodes.iter().any(|node| !why(node).is_empty()) {
        Column::prose("why", "why")
    } else {
        Column::hidden("why")
    };
    let mut table = Table::new(vec![
        Column::left("node", "node"),
        Column::left("kind", "kind"),
        Column::left("state", "state"),
        Column::right("power", "watts"),
        Column::left("busy", "busy"),
        Column::hidden("gpus"),
        optional(nodes.iter().any(|node| node.cpus.is_some()), "cpus", "cpus"),
        optional(nodes.iter().any(|node| node.memory_gib.is_some()), "memory", "memory_gib"),
        optional(nodes.iter().any(|node| node.rack.is_some()), "rack", "rack"),
        remark,
    ]);
    let used = |busy: f64, all: Option<f64>, unit: &str| match all {
        Some(all) => Cell::number(format!("{} of {}{unit}", shown(busy, 3), shown(all, 4)), all),
        None => Cell::number("-".into(), f64::NAN),
    };
    for node in nodes {
        // One mark a GPU, as far as that can be read at a glance.
        let bar = match node.gpus {
            0..=16 => "▮".repeat(node.busy as usize) + &"▯".repeat((node.gpus - node.busy.min(node.gpus)) as usize),
            _ => String::new(),
        };
        let busy = format!("{:>2} of {} {bar}", node.busy, node.gpus);
        table.row(vec![
            node.name.as_str().into(),
            node.kind.as_str().into(),
            node.state.as_str().into(),
            Cell::number(watts(node.watts), node.watts),
            Cell::number(busy, f64::from(node.busy)),
            node.gpus.into(),
            used(node.busy_cpus, node.cpus, ""),
            used(node.busy_memory_gib, node.memory_gib, " G"),
            harmless(node.rack.as_deref().unwrap_or("-")).into(),
            harmless(&why(node)).into(),
        ]);
    }
    table
}

fn by_kind(nodes: &[Node]) -> Table {
    let mut kinds: BTreeMap<&str, (u32, u32, u32, u32, f64)> = BTreeMap::new();
    for node in nodes {
        let line = kinds.entry(&node.kind).or_default();
        line.0 += 1;
        line.1 += u32::from(node.state != "up");
        line.2 += node.busy;
        line.3 += node.gpus;
        line.4 += node.watts;
    }
    let mut table = Table::new(vec![
        Column::left("kind", "kind"),
        Column::right("nodes", "nodes"),
        Column::right("away", "away"),
        Column::right("busy", "busy"),
        Column::right("gpus", "gpus"),
        Column::right("power", "watts"),
    ]);
    for (kind, (count, away, busy, gpus, draw)) in kinds {
        let draw = Cell::number(watts(draw), draw);
        table.row(vec![kind.into(), count.into(), away.into(), busy.into(), gpus.into(), draw]);
    }
    table
}
