//! `arles learn eval`: the protocol of `arles_learn::evaluate` on a table of measured rates.

use super::estimator;
use crate::measured;
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::progress::Progress;
use crate::quantity::{shown, whole};
use anyhow::{Result, anyhow};
use arles_core::Library;
use arles_core::library::suggestion;
use arles_learn::evaluate::{EvaluationOptions, OBSERVATION_PLANS, ObservationPlan, Score, Split, evaluate};
use arles_learn::{ESTIMATORS, EstimatorEntry};
use arles_sim::rates::RateTable;
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

const PROTOCOL: &str = "\
Holds out one workload (leave-workload-out) or all batch sizes of a model (leave-family-out): every measured cell that names it is removed from \
the catalog. The estimator is trained on the rest, observes a few measurements of the held-out workload, and predicts all others. \
Solo: steps/s on one GPU. Pair: rate beside a partner over the rate alone, for both partners.

Observations: 0 none; 1 the rate alone on one random kind; 2 that and one pair on it; 4 both on two kinds; 4s alone and three pairs on one \
kind; 8 alone and three pairs on two kinds. Each is drawn four times.

Example: arles learn eval --rates simulation_throughputs.json --split leave-family-out --observe 0,4 -o json";

/// Evaluate estimators on held-out workloads
#[derive(Args)]
#[command(after_help = PROTOCOL)]
pub(crate) struct Eval {
    /// Measured rates (Gavel's JSON)
    #[arg(long, value_name = "FILE")]
    rates: PathBuf,
    /// Split: leave-workload-out or leave-family-out [default: both]
    #[arg(long, value_name = "SPLIT")]
    split: Option<String>,
    /// Observations of a held-out workload: any of 0,1,2,4,4s,8
    #[arg(long, value_name = "PLANS", default_value = "0,1,2,4")]
    observe: String,
    /// Estimators, separated by commas, or all
    #[arg(long, value_name = "NAMES", default_value = "all")]
    estimators: String,
    /// Random seed; same seed, same output
    #[arg(long, value_name = "N", default_value = "1")]
    seed: String,
    /// Folds to evaluate in parallel [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<String>,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Serialize)]
struct EvalDocument<'a> {
    results: &'a [Score],
    notes: Vec<String>,
}

impl Eval {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let splits = self.splits()?;
        let plans = self.plans()?;
        let estimators = self.chosen()?;
        let seed = whole(&self.seed, 0).map_err(|e| anyhow!("--seed: {e}"))?;
        let threads = match &self.threads {
            Some(text) => whole(text, 1).map_err(|e| anyhow!("--threads: {e}"))?,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let measured = measured::from_table(&RateTable::from_file(&self.rates)?)?;
        let progress = Progress::parts("evaluating");
        let question = EvaluationOptions {
            catalog: &measured.catalog,
            kinds: &measured.kinds,
            library: Library::builtin(),
            estimators: &estimators,
            splits: &splits,
            plans: &plans,
            seed,
            threads,
        };
        let scores = evaluate(&question, &|part| progress.at_part(part))?;
        drop(progress);
        let notes = notes(measured.left_out);
        output::print(
            out,
            self.output.output,
            &tabled(&scores),
            &EvalDocument { results: &scores, notes: notes.clone() },
        )?;
        if self.output.output == Format::Table {
            output::paragraph(out, &notes.join(" "))?;
        }
        Ok(())
    }

    fn splits(&self) -> Result<Vec<Split>> {
        let Some(names) = &self.split else { return Ok(Split::ALL.to_vec()) };
        let known = || Split::ALL.iter().map(|s| s.name());
        names
            .split(',')
            .map(|name| {
                Split::ALL.into_iter().find(|s| s.name() == name.trim()).ok_or_else(|| {
                    let near = suggestion(name, known());
                    anyhow!(
                        "--split: there is no split '{name}'{near}; expected {}",
                        known().collect::<Vec<_>>().join(" or ")
                    )
                })
            })
            .collect()
    }

    fn plans(&self) -> Result<Vec<ObservationPlan>> {
        let all: Vec<&str> = OBSERVATION_PLANS.iter().map(|p| p.name).collect();
        let find = |name: &str| OBSERVATION_PLANS.iter().find(|p| p.name == name.trim()).copied();
        let missing = |name: &str| {
            anyhow!("--observe: '{name}' is not a number of observations; expected any of {}", all.join(","))
        };
        self.observe.split(',').map(|name| find(name).ok_or_else(|| missing(name))).collect()
    }

    fn chosen(&self) -> Result<Vec<&'static EstimatorEntry>> {
        if self.estimators == "all" {
            return Ok(ESTIMATORS.iter().collect());
        }
        self.estimators.split(',').map(|name| estimator("--estimators", name.trim())).collect()
    }
}

fn notes(left_out: usize) -> Vec<String> {
    let mut notes = vec![
        "Host times of all workloads were replaced by the median of their domain among library rows that are not published measurements, \
         because those of published ones were tuned to their rates."
            .to_owned(),
        "Cells that do not fit (rate 0) are not scored; 'refused' are those that fit although the features say they do not.".to_owned(),
        "'known family' leaves out workloads of which the catalog has no other batch size.".to_owned(),
    ];
    if left_out > 0 {
        notes.push(format!("{left_out} cells of spread gangs were left out."));
    }
    notes
}

fn tabled(scores: &[Score]) -> Table {
    let mut table = Table::new(vec![
        Column::left("split", "split"),
        Column::left("cells", "cells"),
        Column::left("seen", "observations"),
        Column::left("estimator", "estimator"),
        Column::right("mean\nerror %", "mape_percent"),
        Column::right("median\n%", "median_percent"),
        Column::right("p90\n%", "p90_percent"),
        Column::right("mae", "mae"),
        Column::right("known\nfamily %", "known_family_mape_percent"),
        Column::right("inside\n90 %", "coverage90_ratio"),
        Column::hidden("interval90_low_percent"),
        Column::hidden("interval90_high_percent"),
        Column::hidden("without_recommendation_mape_percent"),
        Column::hidden("count"),
        Column::hidden("refused"),
    ]);
    let mut order: Vec<&Score> = scores.iter().collect();
    let plan = |s: &Score| OBSERVATION_PLANS.iter().position(|p| p.name == s.observations);
    order.sort_by_key(|s| (s.split.name() != Split::LeaveWorkloadOut.name(), s.cells != "pair", plan(s)));
    let mut block = None;
    for s in order {
        let this = (s.split, s.cells, s.observations);
        if block.is_some_and(|b| b != this) {
            table.gap();
        }
        block = Some(this);
        let number = |x: f64, digits: usize| Cell::number(shown(x, digits), x);
        let short = if s.split == Split::LeaveWorkloadOut { "workload" } else { "family" };
        table.row(vec![
            Cell::named(short, s.split.name()),
            s.cells.into(),
            s.observations.into(),
            s.estimator.into(),
            number(s.mape_percent, 3),
            number(s.median_percent, 3),
            number(s.p90_percent, 3),
            number(s.mae, 2),
            number(s.known_family_mape_percent, 3),
            number(s.coverage90_ratio * 100.0, 3),
            number(s.mape_interval90_percent[0], 3),
            number(s.mape_interval90_percent[1], 3),
            number(s.without_recommendation_mape_percent, 3),
            s.count.into(),
            s.refused.into(),
        ]);
    }
    table
}
