//! `arles workloads`: the workloads that arles knows, and how the performance model says they run on a kind.

use crate::fault::EXIT_CODES;
use crate::output::{self, Cell, Column, OutputFlag, Table};
use crate::quantity::{percent, shown};
use anyhow::Result;
use arles_core::model::{self, Performance};
use arles_core::{Kind, Library, Mode, Precision, Spread, Workload};
use clap::Args;
use serde::Serialize;
use std::io::Write;

/// List the known workloads, or show one
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Workloads {
    /// Workload, by any of its names, including those of published traces
    name: Option<String>,
    /// Show the performance model's rates on this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// GPUs of the gang, with --kind
    #[arg(long, value_name = "N", default_value_t = 1, requires = "kind")]
    gang: u32,
    #[command(flatten)]
    output: OutputFlag,
}

/// A workload, and how it runs.
#[derive(Serialize)]
struct WorkloadRow<'l> {
    #[serde(flatten)]
    workload: &'l Workload,
    /// Absent where no kind was asked for, null where it does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    performance: Option<Option<Performance>>,
}

impl Workloads {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let library = Library::builtin();
        let kind = self.kind.as_deref().map(|name| library.kind(name)).transpose()?;
        let row = |workload| {
            let performance = kind.map(|kind| model::alone(workload, kind, self.gang, Spread::Packed));
            WorkloadRow { workload, performance }
        };
        if let Some(name) = &self.name {
            let row = row(library.workload(name)?);
            return output::print(out, self.output.output, &details(&row, kind, self.gang), &row);
        }
        let rows: Vec<WorkloadRow<'_>> = library.workloads().iter().map(row).collect();
        output::print(out, self.output.output, &table(&rows, kind.is_some()), &rows)
    }
}

fn table(rows: &[WorkloadRow<'_>], with_kind: bool) -> Table {
    let mut columns = vec![
        Column::left("workload", "name"),
        Column::left("domain", "domain"),
        Column::left("mode", "mode"),
        Column::hidden("precision"),
        Column::right("memory\nGiB", "memory_gib"),
    ];
    columns.extend(match with_kind {
        true => {
            [Column::right("rate\n1/s", "rate"), Column::right("draw\nW", "watts"), Column::right("busy\n%", "busy")]
        }
        false => [
            Column::right("params\nM", "params"),
            Column::right("GFLOP\nper step", "flops_per_step"),
            Column::right("GB\nper step", "bytes_per_step"),
        ],
    });
    let mut table = Table::new(columns);
    for WorkloadRow { workload: w, performance } in rows {
        let exact = |value: f64, unit: f64| Cell::number(shown(value / unit, 3), value);
        let mut row = vec![
            w.name.as_str().into(),
            w.domain.as_str().into(),
            mode(w).into(),
            precision(w).into(),
            exact(w.memory_gib, 1.0),
        ];
        row.extend(match performance {
            None => [exact(w.params, 1e6), exact(w.flops_per_step, 1e9), exact(w.bytes_per_step, 1e9)],
            Some(None) => ["-", "-", "-"].map(|dash| Cell::number(dash.into(), f64::NAN)),
            Some(Some(p)) => [exact(p.rate, 1.0), exact(p.watts, 1.0), Cell::number(percent(p.busy), p.busy)],
        });
        table.row(row);
    }
    table
}

fn details(row: &WorkloadRow<'_>, kind: Option<&Kind>, gang: u32) -> Table {
    let w = row.workload;
    let mut table = Table::of_fields("field", "value");
    let mut line = |field: &str, value: String| table.field(field, value);
    line("workload", w.name.clone());
    line("family", format!("{}, {}, {}, {}", w.family, w.domain, mode(w), precision(w)));
    line("batch", format!("{} samples per step on one GPU", w.batch));
    line("params", format!("{} million", shown(w.params / 1e6, 4)));
    line(
        "step",
        format!(
            "{} GFLOP, {} GB moved, {} kernels",
            shown(w.flops_per_step / 1e9, 4),
            shown(w.bytes_per_step / 1e9, 4),
            shown(w.kernels_per_step, 4)
        ),
    );
    line("gradients", format!("{} MB synchronised per step in a gang", shown(w.synced_bytes / 1e6, 4)));
    line("host", format!("{} ms of host time per step", shown(w.host_seconds * 1e3, 3)));
    line("memory", format!("{} GiB", shown(w.memory_gib, 4)));
    line("also", w.aliases.join(", "));
    if let (Some(kind), Some(performance)) = (kind, row.performance) {
        line(
            &format!("on {gang} × {}", kind.name),
            match performance {
                None => format!("does not fit: {} GiB of memory", kind.memory_gib),
                Some(p) => format!(
                    "{} steps/s, {} W per GPU, GPU busy {} % of the time (performance model)",
                    shown(p.rate, 4),
                    shown(p.watts, 3),
                    percent(p.busy)
                ),
            },
        );
    }
    table
}

fn mode(w: &Workload) -> &'static str {
    match w.mode {
        Mode::Training => "train",
        Mode::Inference => "serve",
    }
}

fn precision(w: &Workload) -> &'static str {
    match w.precision {
        Precision::Fp32 => "fp32",
        Precision::Tf32 => "tf32",
        Precision::Fp16 => "fp16",
        Precision::Int8 => "int8",
    }
}
