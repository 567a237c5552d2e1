//! `arles learn train`: the numbers behind the estimator `learned`, trained and kept.

use crate::fault::EXIT_CODES;
use crate::files::Draft;
use crate::measured;
use crate::output::{self, Column, OutputFlag, Table};
use crate::progress::Progress;
use crate::quantity::{shown, whole};
use anyhow::{Result, anyhow};
use arles_core::{Kind, Library};
use arles_learn::Setting;
use arles_learn::learned::{self, TrainingSummary};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Train the parameters of the 'learned' estimator
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Train {
    /// Measured rates to train on (Gavel's JSON); without rates or a catalog, the performance model's predictions for the library
    #[arg(long, value_name = "FILE", conflicts_with = "catalog")]
    rates: Option<PathBuf>,
    /// Catalog of measurements to train on
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// Kinds, separated by commas, if there are no measurements
    #[arg(long, value_name = "NAMES", default_value = "k80,p100,v100,t4,a100,h100")]
    kind: String,
    /// Write the parameters to this file (JSON)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Random seed; same seed, same output
    #[arg(long, value_name = "N", default_value = "1")]
    seed: String,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Serialize)]
struct TrainingDocument {
    #[serde(flatten)]
    trained: TrainingSummary,
    numbers: usize,
    wall_seconds: f64,
}

impl Train {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let seed = whole(&self.seed, 0).map_err(|e| anyhow!("--seed: {e}"))?;
        let measured = measured::from_files(self.rates.as_deref(), self.catalog.as_deref())?;
        let kinds = if measured.kinds.is_empty() { self.kinds()? } else { measured.kinds };
        let draft = self.out.as_deref().map(Draft::create).transpose()?;
        let progress = Progress::parts("training");
        let before = Instant::now();
        let (numbers, trained) = learned::train(&Setting {
            kinds: &kinds,
            workloads: &[],
            catalog: &measured.catalog,
            seed,
            progress: &|part| progress.at_part(part),
        });
        drop(progress);
        let report = TrainingDocument { trained, numbers: numbers.len(), wall_seconds: before.elapsed().as_secs_f64() };
        if let Some(mut draft) = draft {
            writeln!(draft.out(), "{}", serde_json::to_string(&numbers)?)?;
            draft.keep()?;
        }
        let mut table = Table::new(vec![Column::left("field", "what"), Column::right("value", "value")]);
        let on = if trained.prior { "the performance model" } else { "measured pairs" };
        table.row(vec!["trained on".into(), on.into()]);
        table.row(vec!["episodes".into(), trained.episodes.into()]);
        table.row(vec!["steps".into(), trained.steps.into()]);
        table.row(vec!["parameters".into(), report.numbers.into()]);
        table.row(vec!["final loss".into(), shown(trained.loss, 3).into()]);
        table.row(vec!["seconds".into(), shown(report.wall_seconds, 2).into()]);
        output::print(out, self.output.output, &table, &report)
    }

    fn kinds(&self) -> Result<Vec<Kind>> {
        let find = |name: &str| Library::builtin().kind(name.trim()).cloned().map_err(|e| anyhow!("--kind: {e}"));
        self.kind.split(',').map(find).collect()
    }
}
