//! `arles estimate`: how fast a workload would be, and where that number comes from.

use super::learn::estimator;
use crate::measured;
use crate::output::{self, Cell, Column, OutputFlag, Table};
use crate::progress::Progress;
use crate::quantity::{shown, whole};
use anyhow::{Result, anyhow};
use arles_core::estimate::{Estimate as CoreEstimate, RateQuery, Source};
use arles_core::{Kind, Library, Workload, WorkloadId};
use arles_learn::{Catalog, Setting, Subject, explain_source};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Estimate the throughput of a workload on a kind, alone or sharing a GPU
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Estimate {
    /// Workloads, separated by commas, or 'all' that were measured; 'arles workloads' lists those of the library
    #[arg(long, value_name = "NAME")]
    workload: String,
    /// Kinds, separated by commas [default: those of the rate table or catalog]
    #[arg(long, value_name = "NAMES")]
    kind: Option<String>,
    /// Workload that shares the GPU
    #[arg(long, value_name = "NAME")]
    beside: Option<String>,
    /// GPUs of the gang
    #[arg(long, value_name = "N", default_value = "1")]
    gang: String,
    /// Throughput estimator; 'arles estimators' lists them
    #[arg(long, value_name = "NAME", default_value = "learned")]
    estimator: String,
    /// Measured rates to learn from: a table of cells (CSV) or Gavel's JSON; without rates or a catalog, only the performance model is known
    #[arg(long, value_name = "FILE", conflicts_with = "catalog")]
    rates: Option<PathBuf>,
    /// Catalog of measurements to learn from
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// Random seed of the training; same seed, same output
    #[arg(long, value_name = "N", default_value = "1")]
    seed: String,
    #[command(flatten)]
    output: OutputFlag,
}

/// Of more workloads than this nobody reads where each number comes from.
const MOST_EXPLAINED: usize = 20;

const EXAMPLES: &str = "\
Examples:
  arles estimate --workload lm-b20 --kind v100,a100
  arles estimate --workload lm-b20 --beside resnet50-b32 --rates simulation_throughputs.json
  arles estimate --workload all --kind rtx4090 --rates cells.csv --estimator process -o csv
  arles estimate --workload bert-base-b32 --gang 4 --kind v100 -o json

Exit codes: 0 success; 1 failure; 2 invalid usage or input.";

/// The document of `-o json`.
#[derive(Serialize)]
struct EstimateDocument {
    workload: String,
    beside: Option<String>,
    gang: u32,
    estimator: &'static str,
    cells: Vec<KindEstimate>,
}

/// The estimate on one kind.
#[derive(Serialize)]
struct KindEstimate {
    kind: String,
    fits: bool,
    #[serde(flatten)]
    figures: Option<Figures>,
    from: String,
}

/// The numbers of an estimate, under the names that users see.
#[derive(Clone, Copy, Serialize)]
struct Figures {
    rate: f64,
    spread_rate: f64,
    partner_rate: f64,
    watts: f64,
    standard_error: f64,
    source: Source,
}

impl From<CoreEstimate> for Figures {
    fn from(e: CoreEstimate) -> Self {
        let CoreEstimate { rate, spread_rate, partner_rate, watts, standard_error, source, .. } = e;
        Self { rate, spread_rate, partner_rate, watts, standard_error, source }
    }
}

impl Estimate {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let entry = estimator("--estimator", &self.estimator)?;
        let gang: u32 = whole(&self.gang, 1).map_err(|e| anyhow!("--gang: {e}"))?;
        let seed = whole(&self.seed, 0).map_err(|e| anyhow!("--seed: {e}"))?;
        if gang > 1 && self.beside.is_some() {
            return Err(anyhow!(
                "--beside: only single GPUs are shared, not gangs of {gang}; leave out --beside or --gang"
            ));
        }
        let (catalog, kinds, asked) = self.header()?;
        let workloads = self.workloads(&catalog)?;
        let beside = self.beside.as_deref().map(|name| described("--beside", name, &catalog)).transpose()?;
        let beside = beside.as_ref();
        let mut subjects = workloads.clone();
        subjects.extend(beside.filter(|p| workloads.iter().all(|w| w.name != p.name)).cloned());
        for (workload, kind) in workloads.iter().flat_map(|w| kinds[..asked].iter().map(move |kind| (w, kind))) {
            room(workload, beside, kind, asked == 1 && workloads.len() == 1)?;
        }
        let progress = Progress::parts("training");
        let setting = Setting { kinds: &kinds, workloads: &subjects, catalog: &catalog, seed, progress: &|_| {} };
        let made = (entry.make)(&Setting { progress: &|part| progress.at_part(part), ..setting })?;
        drop(progress);
        let number = |name: &str| subjects.iter().position(|s| s.name == name).map(|at| WorkloadId(at as u32));
        let partner = beside.and_then(|p| number(&p.name));
        let answer = |(at, workload): (usize, &'_ Subject)| {
            let ask = RateQuery { workload: WorkloadId(at as u32), gang, partner };
            let cells = made.estimate(&ask).cells.into_iter().take(asked).enumerate();
            let line = |(a, figures): (usize, Option<CoreEstimate>)| KindEstimate {
                kind: kinds[a].name.clone(),
                fits: figures.is_some(),
                from: match figures {
                    // Where a number comes from is found by looking at everything again: for few, not for a thousand.
                    Some(_) if workloads.len() > MOST_EXPLAINED => String::new(),
                    Some(_) => explain_source(&setting, entry.name, &ask, a),
                    None => unfit(workload, beside, &kinds[a], entry.name),
                },
                figures: figures.map(Figures::from),
            };
            EstimateDocument {
                workload: workload.name.clone(),
                beside: beside.map(|p| p.name.clone()),
                gang,
                estimator: entry.name,
                cells: cells.map(line).collect(),
            }
        };
        let answers: Vec<EstimateDocument> = workloads.iter().enumerate().map(answer).collect();
        match answers.as_slice() {
            [one] => output::print(out, self.output.output, &tabled(&answers), one),
            all => output::print(out, self.output.output, &tabled(&answers), &all),
        }
    }

    /// Who is asked about.
    fn workloads(&self, catalog: &Catalog) -> Result<Vec<Subject>> {
        if self.workload != "all" {
            return self.workload.split(',').map(|name| described("--workload", name.trim(), catalog)).collect();
        }
        let mut names: Vec<&str> = catalog.cells().map(|(key, _)| key.workload.as_str()).collect();
        names.dedup();
        if names.is_empty() {
            return Err(anyhow!("--workload: 'all' are those that were measured, and none were; name some"));
        }
        names.into_iter().map(|name| described("--workload", name, catalog)).collect()
    }

    /// What is known, on which kinds, and how many of these were asked for: the first ones.
    fn header(&self) -> Result<(Catalog, Vec<Kind>, usize)> {
        let library = Library::builtin();
        let mut kinds: Vec<Kind> = Vec::new();
        for name in self.kind.iter().flat_map(|names| names.split(',')) {
            let kind = library.any_kind(name.trim()).map_err(|e| anyhow!("--kind: {e}"))?;
            if !kinds.iter().any(|k| k.name == kind.name) {
                kinds.push(kind);
            }
        }
        let measured = measured::from_files(self.rates.as_deref(), self.catalog.as_deref())?;
        if kinds.is_empty() && measured.kinds.is_empty() {
            return Err(anyhow!("--kind: no kinds were measured; name one or more, such as --kind v100,a100"));
        }
        let asked = if kinds.is_empty() { measured.kinds.len() } else { kinds.len() };
        for kind in measured.kinds {
            if !kinds.iter().any(|k| k.name == kind.name) {
                kinds.push(kind);
            }
        }
        Ok((measured.catalog, kinds, asked))
    }
}

/// A workload of the library or the catalog, with as much as is known of it.
fn described(flag: &str, name: &str, catalog: &Catalog) -> Result<Subject> {
    let own = |name: &str, features: Option<Workload>| Subject { name: name.to_owned(), features };
    let library = Library::builtin();
    if let Some(known) = catalog.features(name) {
        return Ok(own(&known.name, Some(known.clone())));
    }
    // What a table says of a workload under its own name goes before what the library says of one with a like name.
    if catalog.traits(name).is_some() || catalog.cells().any(|(key, _)| key.workload == name) {
        let features = library.workload(name).ok().filter(|w| w.name == name);
        return Ok(own(name, features.cloned()));
    }
    match library.workload(name) {
        Ok(workload) => Ok(own(&workload.name, Some(workload.clone()))),
        Err(unknown) => Err(anyhow!("{flag}: {unknown}")),
    }
}

/// Device memory that a workload is known to need.
fn needs(subject: &Subject) -> f64 {
    subject.features.as_ref().map_or(0.0, |w| w.memory_gib)
}

/// Where one kind only was asked for, what does not fit on it is an error; among several it is an answer.
fn room(workload: &Subject, beside: Option<&Subject>, kind: &Kind, only: bool) -> Result<()> {
    let need = needs(workload) + beside.map_or(0.0, needs);
    if only && (need > kind.memory_gib || (beside.is_some() && kind.max_jobs < 2)) {
        return Err(anyhow!("{}", unfit(workload, beside, kind, "")));
    }
    Ok(())
}

fn unfit(workload: &Subject, beside: Option<&Subject>, kind: &Kind, estimator: &str) -> String {
    let (name, place) = (&workload.name, &kind.name);
    match beside {
        Some(_) if estimator == "stated" => "rates of pairs are never stated".into(),
        Some(p) if kind.max_jobs < 2 => format!("{name} cannot run beside {}: {place} takes one job at a time", p.name),
        Some(p) if needs(workload) + needs(p) > kind.memory_gib => format!(
            "{name} and {} need {:.1} GiB together and {place} has {:.1}; take a kind with more memory or a smaller batch",
            p.name,
            needs(workload) + needs(p),
            kind.memory_gib
        ),
        None if needs(workload) > kind.memory_gib => format!(
            "{name} needs {:.1} GiB and {place} has {:.1}; take a kind with more memory or a smaller batch",
            needs(workload),
            kind.memory_gib
        ),
        _ => format!("measured not to fit on {place}"),
    }
}

fn tabled(answers: &[EstimateDocument]) -> Table {
    let several = answers.len() > 1;
    let first = several.then(|| Column::left("workload", "workload"));
    let mut columns: Vec<Column> = first.into_iter().collect();
    columns.extend([
        Column::left("kind", "kind"),
        Column::right("rate\nsteps/s", "rate_steps_per_second"),
        Column::hidden("spread_rate_steps_per_second"),
        Column::right("partner\nsteps/s", "partner_rate_steps_per_second"),
        Column::right("power\nW", "watts"),
        Column::right("std\nerr %", "standard_error_ratio"),
        Column::left("source", "source"),
        Column::prose("from", "from"),
    ]);
    let mut table = Table::new(columns);
    for (answer, line) in answers.iter().flat_map(|answer| answer.cells.iter().map(move |line| (answer, line))) {
        let number = |of: fn(&Figures) -> f64, digits: usize| {
            let value = line.figures.as_ref().map_or(f64::NAN, of);
            Cell::number(shown(value, digits), value)
        };
        let partner =
            line.figures.map_or(f64::NAN, |f| if answer.beside.is_some() { f.partner_rate } else { f64::NAN });
        let error = line.figures.map_or(f64::NAN, |f| f.standard_error);
        let source = line.figures.map_or("-".to_owned(), |f| format!("{:?}", f.source).to_lowercase());
        let first: Option<Cell> = several.then(|| answer.workload.as_str().into());
        let mut row: Vec<Cell> = first.into_iter().collect();
        row.extend([
            line.kind.as_str().into(),
            number(|f| f.rate, 3),
            number(|f| f.spread_rate, 3),
            Cell::number(shown(partner, 3), partner),
            number(|f| f.watts, 3),
            Cell::number(shown(error * 100.0, 2), error),
            source.into(),
            line.from.as_str().into(),
        ]);
        table.row(row);
    }
    table
}
