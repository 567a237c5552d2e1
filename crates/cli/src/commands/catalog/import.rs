//! `arles catalog import`: measurements from files, all of them or none.

use super::place::{Place, told};
use super::{gavel, moment_or_now};
use crate::fault::{EXIT_CODES, remark};
use crate::files;
use anyhow::Result;
use arles_core::library::suggestion;
use arles_core::{Library, Time};
use arles_learn::catalog::csv::{self, Names};
use arles_learn::catalog::disk::Batch;
use arles_learn::{Cell, Key};
use clap::Args;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Columns of CSV: workload, kind, gang, partner, rate_steps_per_second, watts, source, observations, at, doubt; the first two and \
the rate are required; doubt is the relative standard error. An existing cell from a better source (measured > refined > initial > stated), or of a later date, \
is kept.

Examples:
  arles catalog import simulation_throughputs.json --at 2020-11-04
  arles catalog import ours.csv --features nets.csv";

/// Import measurements: arles' CSV or Gavel's JSON
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Import {
    /// Files to import; an error in any of them leaves the catalog unchanged
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Features of your own workloads: CSV, as written by 'export --features'
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,
    /// Date of the measurements where a file has none, such as 2026-11-15 [default: now]
    #[arg(long, value_name = "MOMENT")]
    at: Option<String>,
}

/// So many workloads without features are named.
const MOST_NAMED: usize = 8;

/// A file that was read.
struct CellFile {
    origin: String,
    cells: Vec<(Key, Cell)>,
    spread: usize,
}

/// What became of the cells of a file.
#[derive(Default)]
struct ImportCounts {
    new: usize,
    changed: usize,
    same: usize,
    kept: usize,
}

impl Import {
    pub(super) fn run(&self, place: &Place) -> Result<()> {
        let now = moment_or_now("--at", self.at.as_deref())?;
        let library = Library::builtin();
        // Everything is read and checked before a catalog is made.
        let known = place.read_if_there()?;
        let described = match &self.features {
            Some(path) => {
                let text = files::read(path, "a CSV file of features")?;
                csv::read_features(&text, &path.display().to_string(), library)?
            }
            None => Vec::new(),
        };
        // What is said now comes before what was said earlier.
        let names = Names::new(library, described.iter().chain(known.described()));
        let given = self.files.iter().map(|path| read(path, &names, now)).collect::<Result<Vec<CellFile>>>()?;
        let mut disk = place.open()?;
        let mut batch = disk.begin().map_err(told)?;
        for workload in &described {
            batch.describe(workload.clone()).map_err(told)?;
        }
        let counts = given.iter().map(|given| take_in(&mut batch, given)).collect::<Result<Vec<ImportCounts>>>()?;
        batch.commit().map_err(told)?;
        for (given, count) in given.iter().zip(&counts) {
            remark(format_args!("{}", told_in_words(given, count)));
        }
        if !described.is_empty() {
            remark(format_args!("workload features: {}", described.len()));
        }
        tell_featureless(&given, &names);
        Ok(())
    }
}

fn read(path: &Path, names: &Names<'_>, now: Time) -> Result<CellFile> {
    let origin = path.display().to_string();
    let text = files::read(path, "CSV, or Gavel's JSON")?;
    let (cells, spread) = match text.trim_start().starts_with('{') {
        true => gavel::cells(&text, &origin, names, now)?,
        false => (csv::read(&text, &origin, names, now)?, 0),
    };
    Ok(CellFile { origin, cells, spread })
}

fn take_in(batch: &mut Batch<'_>, given: &CellFile) -> Result<ImportCounts> {
    let mut count = ImportCounts::default();
    for (key, cell) in &given.cells {
        match batch.catalog().get(key) {
            Some(known) if known == cell => count.same += 1,
            Some(known) if (known.source, known.at) > (cell.source, cell.at) => count.kept += 1,
            known => {
                *(if known.is_some() { &mut count.changed } else { &mut count.new }) += 1;
                batch.put(key.clone(), *cell).map_err(told)?;
            }
        }
    }
    Ok(count)
}

fn told_in_words(given: &CellFile, count: &ImportCounts) -> String {
    let mut words =
        format!("{}: {} cells: {} new, {} changed", given.origin, given.cells.len(), count.new, count.changed);
    for (number, what) in [
        (count.same, "unchanged"),
        (count.kept, "skipped (better or later cells exist)"),
        (given.spread, "more of spread gangs left out"),
    ] {
        if number > 0 {
            words += &format!(", {number} {what}");
        }
    }
    words
}

/// Names the workloads that estimators can only know by their cells; a slip in a name is found here.
fn tell_featureless(given: &[CellFile], names: &Names<'_>) {
    let all = given.iter().flat_map(|given| &given.cells);
    let all = all.flat_map(|(key, _)| std::iter::once(&key.workload).chain(&key.partner));
    let featureless: BTreeSet<&String> = all.filter(|name| names.known(name).is_none()).collect();
    if featureless.is_empty() {
        return;
    }
    let known = || Library::builtin().workloads().iter().map(|workload| workload.name.as_str());
    let with_hint = |name: &&String| format!("'{name}'{}", suggestion(name, known()));
    let mut names: Vec<String> = featureless.iter().take(MOST_NAMED).map(with_hint).collect();
    if featureless.len() > MOST_NAMED {
        names.push(format!("and {} more", featureless.len() - MOST_NAMED));
    }
    remark(format_args!("without features: {}; give them with --features FILE", names.join(", ")));
}
