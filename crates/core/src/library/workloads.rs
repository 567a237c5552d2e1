//! Rows of the table of workloads: one per model, expanded to one workload per batch size.

use super::table::{Row, Table, TableError};
use crate::{Mode, Precision, Workload};

/// The columns, in order; `data/workloads.csv` explains them.
pub(super) const COLUMNS: [&str; 17] = [
    "model",
    "domain",
    "mode",
    "precision",
    "params_m",
    "synced_m",
    "gflop_sample",
    "mb_sample",
    "param_bytes",
    "fixed_gib",
    "gib_sample",
    "host_ms",
    "host_ms_sample",
    "kernels",
    "batches",
    "aliases",
    "source",
];

const DOMAINS: [(&str, &str); 6] = [
    ("vision", "vision"),
    ("language", "language"),
    ("speech", "speech"),
    ("recommendation", "recommendation"),
    ("diffusion", "diffusion"),
    ("reinforcement", "reinforcement"),
];
const MODES: [(&str, Mode); 2] = [("training", Mode::Training), ("inference", Mode::Inference)];
const PRECISIONS: [(&str, Precision); 4] =
    [("fp32", Precision::Fp32), ("tf32", Precision::Tf32), ("fp16", Precision::Fp16), ("int8", Precision::Int8)];

/// Gradients are exchanged in 32 bits, also where the arithmetic is in 16.
const GRADIENT_BYTES: f64 = 4.0;

/// All workloads, each with its line.
pub(super) fn read(table: &Table<'_>) -> Result<Vec<(usize, Workload)>, TableError> {
    let mut workloads = Vec::new();
    for row in table.rows() {
        for batch in row.list("batches")? {
            match batch.parse() {
                Ok(batch) if batch > 0 => workloads.push((row.line, workload(&row, batch)?)),
                _ => return Err(row.fail("batches", format!("'{batch}' is not a batch size, 1 or more"))),
            }
        }
    }
    Ok(workloads)
}

fn workload(row: &Row<'_>, batch: u32) -> Result<Workload, TableError> {
    row.text("source")?;
    let n = f64::from(batch);
    let model = row.text("model")?;
    let params = row.positive("params_m")? * 1e6;
    let mode = row.choice("mode", &MODES)?;
    Ok(Workload {
        name: format!("{model}-b{batch}"),
        family: model.to_owned(),
        domain: row.choice("domain", &DOMAINS)?.to_owned(),
        mode,
        precision: row.choice("precision", &PRECISIONS)?,
        batch,
        params,
        flops_per_step: n * row.positive("gflop_sample")? * 1e9,
        bytes_per_step: n * row.positive("mb_sample")? * 1e6 + params * row.number("param_bytes", 0.0)?,
        synced_bytes: row.number("synced_m", 0.0)? * 1e6 * GRADIENT_BYTES,
        kernels_per_step: row.number("kernels", 1.0)?,
        memory_gib: row.positive("fixed_gib")? + n * row.number("gib_sample", 0.0)?,
        host_seconds: (row.number("host_ms", 0.0)? + n * row.number("host_ms_sample", 0.0)?) / 1e3,
        aliases: row.list("aliases")?.into_iter().map(|alias| alias.replace("{}", &batch.to_string())).collect(),
    })
}
