//! Rows of the table of kinds.

use super::table::{Row, Table, TableError};
use crate::Kind;

/// The columns, in order; `data/kinds.csv` explains them.
pub(super) const COLUMNS: [&str; 16] = [
    "name",
    "product",
    "year",
    "memory_gib",
    "bandwidth_gbps",
    "fp32_tflops",
    "tf32_tflops",
    "fp16_tflops",
    "int8_tops",
    "link_gbps",
    "idle_watts",
    "max_watts",
    "hourly_usd",
    "max_jobs",
    "aliases",
    "source",
];

/// All kinds, each with its line.
pub(super) fn read(table: &Table<'_>) -> Result<Vec<(usize, Kind)>, TableError> {
    table.rows().map(|row| Ok((row.line, kind(&row)?))).collect()
}

fn kind(row: &Row<'_>) -> Result<Kind, TableError> {
    row.text("source")?;
    let product = row.text("product")?.to_owned();
    let mut aliases: Vec<String> = row.list("aliases")?.into_iter().map(str::to_owned).collect();
    aliases.push(product.clone());
    let fp32_tflops = row.positive("fp32_tflops")?;
    let idle_watts = row.positive("idle_watts")?;
    Ok(Kind {
        name: row.text("name")?.to_owned(),
        product,
        year: row.value("year", "a year")?,
        memory_gib: row.positive("memory_gib")?,
        bandwidth_gbps: row.positive("bandwidth_gbps")?,
        fp32_tflops,
        // Units for fewer bits are never slower: whoever lacks them computes in more bits.
        tf32_tflops: row.number("tf32_tflops", fp32_tflops)?,
        fp16_tflops: row.number("fp16_tflops", fp32_tflops)?,
        int8_tops: row.number("int8_tops", 0.0)?,
        link_gbps: row.positive("link_gbps")?,
        idle_watts,
        max_watts: row.number("max_watts", idle_watts)?,
        power_limit: None,
        hourly_usd: row.positive("hourly_usd")?,
        max_jobs: match row.value("max_jobs", "a number from 1 to 255")? {
            0 => return Err(row.fail("max_jobs", "0 jobs; a kind that can run nothing has no place here".into())),
            jobs => jobs,
        },
        aliases,
    })
}
