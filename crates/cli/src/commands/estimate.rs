//! `arles estimate`: how fast a workload would be, and where that number comes from.

use super::learn::estimator;
use crate::measured;
use crate::output::{self, Cell, Column, OutputFlag, Table};
use crate::progress::Progress;
use crate::quantity::{shown, whole};
use anyhow::{Result, anyhow};
use arles_core::estimate::{Estimate as Figures, RateQuery};
use arles_core::{Kind, Library, Workload, WorkloadId};
use arles_learn::{Catalog, Setting, Subject, explain_source};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Say how fast a workload would be on a kind, alone or beside another, and how that is known
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Estimate {
    /// Whose rate; 'arles workloads' lists them
    #[arg(long, value_name = "NAME")]
    workload: String,
    /// On which kinds, separated by commas [default: those of the rate table or catalog]
    #[arg(long, value_name = "NAMES")]
    kind: Option<String>,
    /// The other job on the same GPU
    #[arg(long, value_name = "NAME")]
    beside: Option<String>,
    /// GPUs held at once
    #[arg(long, value_name = "N", default_value = "1")]
    gang: String,
    /// Who estimates; 'arles estimators' lists them
    #[arg(long, value_name = "NAME", default_value = "learned")]
    estimator: String,
    /// Measured rates to learn from (Gavel's JSON); without these or a catalog, the performance model is all there is
    #[arg(long, value_name = "FILE", conflicts_with = "catalog")]
    rates: Option<PathBuf>,
    /// Catalog of measurements to learn from
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// Decides every random draw of a training; same seed, same bytes
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

Exit codes: 0 done; 1 the work failed; 2 wrong usage or input.";

#[derive(Serialize)]
struct Answer<'a> {
    workload: &'a str,
    beside: Option<&'a str>,
    gang: u32,
    estimator: &'a str,
    cells: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    kind: String,
    fits: bool,
    #[serde(flatten)]
    figures: Option<Figures>,
    from: String,
}

impl Estimate {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let entry = estimator("--estimator", &self.estimator)?;
        let gang: u32 = whole(&self.gang, 1).map_err(|e| anyhow!("--gang: {e}"))?;
        let seed = whole(&self.seed, 0).map_err(|e| anyhow!("--seed: {e}"))?;
        if gang > 1 && self.beside.is_some() {
            return Err(anyhow!(
                "--beside: only single GPUs are shared, and a gang of {gang} was asked for; leave one of the two out"
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
        let line = |(a, figures): (usize, Option<Figures>)| Line {
            kind: kinds[a].name.clone(),
            fits: figures.is_some(),
            from: match figures {
                Some(_) => explain_source(&setting, entry.name, &ask, a),
                None => unfit(workload, beside, &kinds[a], entry.name),
            },
            figures,
        };
        let answer = Answer {
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
            return Err(anyhow!(
                "--kind: there is no measured kind to take; name one or more, such as --kind v100,a100"
            ));
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
            "{flag}: '{name}' was measured, but nobody said what it is made of, so nothing else can be told of it; \
             see its cells with 'arles catalog show', or give its features with 'arles catalog import --features'"
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
        Some(_) if estimator == "stated" => "nobody states rates of pairs".into(),
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

fn tabled(answer: &Answer<'_>) -> Table {
    let mut table = Table::new(vec![
        Column::left("kind", "kind"),
        Column::right("rate\nsteps/s", "rate_steps_per_second"),
        Column::hidden("spread_rate_steps_per_second"),
        Column::right("partner\nsteps/s", "partner_rate_steps_per_second"),
        Column::right("power\nW", "watts"),
        Column::right("doubt\n%", "doubt_ratio"),
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
        let doubt = line.figures.map_or(f64::NAN, |f| f.standard_error);
        let source = line.figures.map_or("-".to_owned(), |f| format!("{:?}", f.source).to_lowercase());
        table.row(vec![
            line.kind.as_str().into(),
            number(|f| f.rate, 3),
            number(|f| f.spread_rate, 3),
            Cell::number(shown(partner, 3), partner),
            number(|f| f.watts, 3),
            Cell::number(shown(doubt * 100.0, 2), doubt),
            source.into(),
            line.from.as_str().into(),
        ]);
    }
    table
}
