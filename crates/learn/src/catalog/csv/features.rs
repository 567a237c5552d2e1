//! What workloads are made of, one line each: for those that the library does not know.

use super::super::disk::{check_features, numbers};
use super::super::labels::{MODES, PRECISIONS, label_of};
use super::CsvError;
use super::lines::{self, Line, quoted};
use arles_core::{Library, Workload};
use std::io::{self, Write};

/// The columns of a file of features; all but the aliases must be there. Aliases are divided by `;`.
pub const FEATURES: [&str; 14] = [
    "name",
    "family",
    "domain",
    "mode",
    "precision",
    "batch",
    "params",
    "flops_per_step",
    "bytes_per_step",
    "synced_bytes",
    "kernels_per_step",
    "memory_gib",
    "host_seconds",
    "aliases",
];

const DOMAINS: [(&str, ()); 6] = [
    ("vision", ()),
    ("language", ()),
    ("speech", ()),
    ("recommendation", ()),
    ("diffusion", ()),
    ("reinforcement", ()),
];

/// Reads a file of features; `origin` names it in errors.
///
/// # Errors
/// At the first line that cannot be used, and where a name means something else already.
pub fn read_features(text: &str, origin: &str, library: &Library) -> Result<Vec<Workload>, CsvError> {
    let mut workloads: Vec<Workload> = Vec::new();
    lines::each(text, origin, &FEATURES, &FEATURES[..13], |line| {
        let workload = read_workload(line)?;
        check_features(&workload).map_err(|error| error.0)?;
        for name in std::iter::once(&workload.name).chain(&workload.aliases) {
            if library.workload(name).is_ok_and(|known| *known != workload) {
                return Err(format!(
                    "name '{name}' is known to arles already, as something else; give yours another name"
                ));
            }
            if workloads.iter().any(|above| above.name == *name || above.aliases.contains(name)) {
                return Err(format!("name '{name}' occurs twice; a name may mean one thing only"));
            }
        }
        workloads.push(workload);
        Ok(())
    })?;
    Ok(workloads)
}

fn read_workload(line: &Line<'_>) -> Result<Workload, String> {
    let number = |column: &str| {
        line.required(column)?;
        Ok::<_, String>(line.number(column, 0.0, "a number, 0 or more")?.unwrap_or_default())
    };
    line.one_of("domain", &DOMAINS)?;
    line.required("batch")?;
    Ok(Workload {
        name: line.required("name")?.to_owned(),
        family: line.required("family")?.to_owned(),
        domain: line.required("domain")?.to_owned(),
        mode: line.one_of("mode", &MODES)?,
        precision: line.one_of("precision", &PRECISIONS)?,
        batch: line.whole("batch")?.unwrap_or_default(),
        params: number("params")?,
        flops_per_step: number("flops_per_step")?,
        bytes_per_step: number("bytes_per_step")?,
        synced_bytes: number("synced_bytes")?,
        kernels_per_step: number("kernels_per_step")?,
        memory_gib: number("memory_gib")?,
        host_seconds: number("host_seconds")?,
        aliases: line
            .get("aliases")
            .map_or(Vec::new(), |text| text.split(';').map(|part| part.trim().to_owned()).collect()),
    })
}

/// Writes a file of features.
///
/// # Errors
/// When the stream cannot be written.
pub fn write_features<'w>(mut out: impl Write, workloads: impl IntoIterator<Item = &'w Workload>) -> io::Result<()> {
    writeln!(out, "{}", FEATURES.join(","))?;
    for w in workloads {
        write!(out, "{},{},{}", quoted(&w.name), quoted(&w.family), quoted(&w.domain))?;
        let (mode, precision) = (label_of(&w.mode, &MODES), label_of(&w.precision, &PRECISIONS));
        write!(out, ",{mode},{precision},{}", w.batch)?;
        for (_, number) in numbers(w) {
            write!(out, ",{number}")?;
        }
        writeln!(out, ",{}", quoted(&w.aliases.join(";")))?;
    }
    Ok(())
}
