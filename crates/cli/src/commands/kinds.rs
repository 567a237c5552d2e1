//! `arles kinds`: the GPU kinds that arles knows without having measured anything.

use crate::fault::EXIT_CODES;
use crate::output::{self, Cell, Column, OutputFlag, Table};
use crate::settings::Settings;
use anyhow::{Result, anyhow};
use arles_core::{Kind, Library};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// List the known GPU kinds, or show one
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Kinds {
    /// Kind, by any of its names: arles', Slurm's, Kubernetes' or the driver's
    name: Option<String>,
    /// Configuration file whose `kind` tables are listed too
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlag,
}

impl Kinds {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut settings = Settings::builtin()?;
        if let Some(path) = &self.config {
            settings.put_file(path)?;
        }
        let described = &settings.kinds;
        match &self.name {
            None => {
                let all: Vec<&Kind> = Library::builtin().kinds().iter().chain(described).collect();
                output::print(out, self.output.output, &table(&all), &all)
            }
            Some(name) => {
                let own =
                    |kind: &&Kind| kind.name == *name || kind.aliases.iter().any(|a| a.eq_ignore_ascii_case(name));
                let kind = match described.iter().find(own) {
                    Some(kind) => kind.clone(),
                    None => Library::builtin().any_kind(name).map_err(|sentence| anyhow!(sentence))?,
                };
                output::print(out, self.output.output, &details(&kind), &kind)
            }
        }
    }
}

fn table(kinds: &[&Kind]) -> Table {
    let mut table = Table::new(vec![
        Column::left("kind", "name"),
        Column::right("year", "year"),
        Column::right("memory\nGiB", "memory_gib"),
        Column::right("memory\nGB/s", "bandwidth_gbps"),
        Column::right("fp32\nTFLOP/s", "fp32_tflops"),
        Column::right("fp16\nTFLOP/s", "fp16_tflops"),
        Column::right("8-bit\nTOP/s", "int8_tops"),
        Column::right("link\nGB/s", "link_gbps"),
        Column::right("idle\nW", "idle_watts"),
        Column::right("max\nW", "max_watts"),
    ]);
    for kind in kinds {
        let number = |value: f64| Cell::number(value.to_string(), value);
        let numbers =
            [kind.memory_gib, kind.bandwidth_gbps, kind.fp32_tflops, kind.fp16_tflops, kind.int8_tops, kind.link_gbps];
        let mut row = vec![kind.name.as_str().into(), kind.year.into()];
        row.extend(numbers.into_iter().chain([kind.idle_watts, kind.max_watts]).map(number));
        table.row(row);
    }
    table
}

fn details(kind: &Kind) -> Table {
    let mut table = Table::of_fields("field", "value");
    let mut line = |field: &str, value: String| table.field(field, value);
    line("kind", kind.name.clone());
    line("product", kind.product.clone());
    line("year", kind.year.to_string());
    line("memory", format!("{} GiB at {} GB/s", kind.memory_gib, kind.bandwidth_gbps));
    line("fp32", format!("{} TFLOP/s", kind.fp32_tflops));
    line("tf32", format!("{} TFLOP/s", kind.tf32_tflops));
    line("fp16", format!("{} TFLOP/s", kind.fp16_tflops));
    line("8-bit", if kind.int8_tops > 0.0 { format!("{} TOP/s", kind.int8_tops) } else { "none".into() });
    line("link", format!("{} GB/s between GPUs of a node", kind.link_gbps));
    line("power", format!("{} W idle, {} W max", kind.idle_watts, kind.max_watts));
    line("sharing", format!("up to {} jobs per GPU", kind.max_jobs));
    line("also", kind.aliases.join(", "));
    table
}
