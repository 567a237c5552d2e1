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
    /// Workload; 'arles workloads' lists them
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
    /// Measured rates to learn from (Gavel's JSON); without rates or a catalog, only the performance model is known
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

const EXAMPLES: &str = "\
Examples:
  arles estimate --workload lm-b20 --kind v100,a100
  arles estimate --workload lm-b20 --beside resnet50-b32 --rates simulation_throughputs.json
  arles estimate --workload bert-base-b32 --gang 4 --kind v100 -o json

Exit codes: 0 success; 1 failure; 2 invalid usage or input.";

/// The document of `-o json`.
#[derive(Serialize)]
struct EstimateDocument<'a> {
    workload: &'a str,
    beside: Option<&'a str>,
    gang: u32,
    estimator: &'a str,
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
        let workload = &described("--workload", &self.workload, &catalog)?;
        let beside = self.beside.as_deref().map(|name| described("--beside", name, &catalog)).transpose()?;
        let beside = beside.as_ref();
        let mut subjects = vec![subject(workload)];
        subjects.extend(beside.filter(|p| p.name != workload.name).map(subject));
        for kind in &kinds[..asked] {
            room(workload, beside, kind, asked == 1)?;
        }
        let progress = Progress::parts("training");
        let setting = Setting { kinds: &kinds, workloads: &subjects, catalog: &catalog, seed, progress: &|_| {} };
        let made = (entry.make)(&Setting { progress: &|part| progress.at_part(part), ..setting })?;
        drop(progress);
        let partner = beside.map(|p| WorkloadId(u32::from(p.name != workload.name)));
        let ask = RateQuery { workload: WorkloadId(0), gang, partner };
        let cells = made.estimate(&ask).cells.into_iter().take(asked).enumerate();
        let line = |(a, figures): (usize, Option<CoreEstimate>)| KindEstimate {
            kind: kinds[a].name.clone(),
            fits: figures.is_some(),
            from: match figures {
                Some(_) => explain_source(&setting, entry.name, &ask, a),
                None => unfit(workload, beside, &kinds[a], entry.name),
            },
            figures: figures.map(Figures::from),
        };
        let answer = EstimateDocument {
            workload: &workload.name,
            beside: beside.map(|p| p.name.as_str()),
            gang,
            estimator: entry.name,
            cells: cells.map(line).collect(),
        };
        output::print(out, self.output.output, &tabled(&answer), &answer)
    }

    /// What is known, on which kinds, and how many of these were asked for: the first ones.
    fn header(&self) -> Result<(Catalog, Vec<Kind>, usize)> {
        let library = Library::builtin();
        let mut kinds: Vec<Kind> = Vec::new();
        for name in self.kind.iter().flat_map(|names| names.split(',')) {
            let kind = library.kind(name.trim()).map_err(|e| anyhow!("--kind: {e}"))?;
            if !kinds.iter().any(|k| k.name == kind.name) {
                kinds.push(kind.clone());
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

/// What a workload is made of, by the library or the catalog.
fn described(flag: &str, name: &str, catalog: &Catalog) -> Result<Workload> {
    let unknown = match Library::builtin().workload(name) {
        Ok(workload) => return Ok(workload.clone()),
        Err(unknown) => unknown,
    };
    if let Some(workload) = catalog.features(name) {
        return Ok(workload.clone());
    }
    if catalog.cells().any(|(key, _)| key.workload == name) {
        return Err(anyhow!(
            "{flag}: '{name}' was measured but has no features, so nothing else can be estimated for it; \
             see its cells with 'arles catalog show', or add features with 'arles catalog import --features'"
        ));
    }
    Err(anyhow!("{flag}: {unknown}"))
}

fn subject(workload: &Workload) -> Subject {
    Subject { name: workload.name.clone(), features: Some(workload.clone()) }
}

/// Where one kind only was asked for, what does not fit on it is an error; among several it is an answer.
fn room(workload: &Workload, beside: Option<&Workload>, kind: &Kind, only: bool) -> Result<()> {
    let need = workload.memory_gib + beside.map_or(0.0, |p| p.memory_gib);
    if only && (need > kind.memory_gib || (beside.is_some() && kind.max_jobs < 2)) {
        return Err(anyhow!("{}", unfit(workload, beside, kind, "")));
    }
    Ok(())
}

fn unfit(workload: &Workload, beside: Option<&Workload>, kind: &Kind, estimator: &str) -> String {
    let (name, place) = (&workload.name, &kind.name);
    match beside {
        Some(_) if estimator == "stated" => "rates of pairs are never stated".into(),
        Some(p) if kind.max_jobs < 2 => format!("{name} cannot run beside {}: {place} takes one job at a time", p.name),
        Some(p) if workload.memory_gib + p.memory_gib > kind.memory_gib => format!(
            "{name} and {} need {:.1} GiB together and {place} has {:.1}; take a kind with more memory or a smaller batch",
            p.name,
            workload.memory_gib + p.memory_gib,
            kind.memory_gib
        ),
        None if workload.memory_gib > kind.memory_gib => format!(
            "{name} needs {:.1} GiB and {place} has {:.1}; take a kind with more memory or a smaller batch",
            workload.memory_gib, kind.memory_gib
        ),
        _ => format!("measured not to fit on {place}"),
    }
}

fn tabled(answer: &EstimateDocument<'_>) -> Table {
    let mut table = Table::new(vec![
        Column::left("kind", "kind"),
        Column::right("rate\nsteps/s", "rate_steps_per_second"),
        Column::hidden("spread_rate_steps_per_second"),
        Column::right("partner\nsteps/s", "partner_rate_steps_per_second"),
        Column::right("power\nW", "watts"),
        Column::right("std\nerr %", "standard_error_ratio"),
        Column::left("source", "source"),
        Column::prose("from", "from"),
    ]);
    for line in &answer.cells {
        let number = |of: fn(&Figures) -> f64, digits: usize| {
            let value = line.figures.as_ref().map_or(f64::NAN, of);
            Cell::number(shown(value, digits), value)
        };
        let partner =
            line.figures.map_or(f64::NAN, |f| if answer.beside.is_some() { f.partner_rate } else { f64::NAN });
        let error = line.figures.map_or(f64::NAN, |f| f.standard_error);
        let source = line.figures.map_or("-".to_owned(), |f| format!("{:?}", f.source).to_lowercase());
        table.row(vec![
            line.kind.as_str().into(),
            number(|f| f.rate, 3),
            number(|f| f.spread_rate, 3),
            Cell::number(shown(partner, 3), partner),
            number(|f| f.watts, 3),
            Cell::number(shown(error * 100.0, 2), error),
            source.into(),
            line.from.as_str().into(),
        ]);
    }
    table
}
