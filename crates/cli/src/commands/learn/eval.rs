//! `arles learn eval`: the protocol of `arles_learn::evaluate` on a table of measured rates.

use super::evaluated;
use crate::measured;
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::progress::Progress;
use crate::quantity::{shown, whole};
use crate::settings;
use anyhow::{Result, anyhow};
use arles_core::Library;
use arles_core::allocate::{POLICIES, PolicyEntry};
use arles_core::library::suggestion;
use arles_learn::evaluate::{
    CELLS, ChosenScore, EvaluationOptions, LOOPS, OBSERVATION_PLANS, ObservationPlan, Score, Split, evaluate,
    evaluate_chosen,
};
use arles_learn::{ESTIMATORS, EstimatorEntry};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

const PROTOCOL: &str = "\
Holds out one workload (leave-workload-out), a family (leave-family-out) or a kind (leave-kind-out): every measured cell that names it is removed from \
the catalog. The estimator is trained on the rest, observes a few measurements of what is held out, and predicts all others. \
Solo: steps/s on one GPU. Pair: rate beside a partner over the rate alone, for both partners. Speedup: rate over that on the first kind. \
Gang: steps/s of several GPUs. Watts: of one GPU.

Observations: 0 none; 1 the rate alone on one random kind; 2 that and one pair on it; 4 both on two kinds; 4s alone and three pairs on one \
kind; 8 alone and three pairs on two kinds. Each is drawn four times. Of a held-out kind: so many other workloads, alone on it.

The table of cells is CSV: workload,kind,rate_steps_per_second and any of family, domain, mode, precision, stack, batch, params, flops_per_step, \
bytes_per_step, kernels_per_step, memory_gib, gpu_utilisation, bandwidth_utilisation, power_utilisation, limit_watts, gang, nodes, partner, watts. \
Every other field may be empty; see docs/learning.md.

With --chosen-by POLICY, half of the workloads (or families) are new and the policy chooses what runs side by side and is measured: errors of pairs that nobody \
measured, by how much what was chosen was overestimated, and what is lost to the same policy with true rates.

To compare with, there are also by-flops, by-bandwidth, roofline and constant-ratio (rules of thumb), learned-p1 (no corrections), learned-few, learned-frozen and \
learned-kinds (one thing done otherwise).

Example: arles learn eval --rates simulation_throughputs.json --split leave-family-out --observe 0,4 -o json
         arles learn eval --rates cells.csv --split leave-kind-out --kind rtx3090,rtx4090 --estimators process,learned
         arles learn eval --rates simulation_throughputs.json --chosen-by gogh --estimators learned-p1,learned,process,stacked";

/// Evaluate estimators on held-out workloads
#[derive(Args)]
#[command(after_help = PROTOCOL)]
pub(crate) struct Eval {
    /// Measured rates: a table of cells (CSV) or Gavel's JSON
    #[arg(long, value_name = "FILE")]
    rates: PathBuf,
    /// Splits: leave-workload-out, leave-family-out, leave-kind-out [default: the first two]
    #[arg(long, value_name = "SPLIT")]
    split: Option<String>,
    /// Observations of a held-out workload: any of 0,1,2,4,4s,8
    #[arg(long, value_name = "PLANS", default_value = "0,1,2,4")]
    observe: String,
    /// Estimators, separated by commas, or all
    #[arg(long, value_name = "NAMES", default_value = "all")]
    estimators: String,
    /// Only these kinds of the table, separated by commas
    #[arg(long, value_name = "NAMES")]
    kind: Option<String>,
    /// Folds of a split at most; more workloads or families than that are held out in groups
    #[arg(long, value_name = "N", default_value = "32")]
    folds: String,
    /// Withhold this percentage of all features, drawn at random; 100 withholds families too
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    withhold: String,
    /// Score pairs where this policy chooses what is measured (one that shares GPUs)
    #[arg(long, value_name = "POLICY", conflicts_with = "observe")]
    chosen_by: Option<String>,
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
        let folds = whole(&self.folds, 2).map_err(|e| anyhow!("--folds: {e}"))?;
        let withheld: u32 = whole(&self.withhold, 0).map_err(|e| anyhow!("--withhold: {e}"))?;
        if withheld > 100 {
            return Err(anyhow!("--withhold: '{withheld}' is more than all; expected a percentage, 0 to 100"));
        }
        let mut measured = measured::from_rates(&self.rates)?;
        self.keep_kinds(&mut measured)?;
        let policy = self.policy()?;
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
            most_folds: folds,
            withheld: f64::from(withheld) / 100.0,
        };
        if let Some(policy) = policy {
            let scores = evaluate_chosen(&question, policy, &|part| progress.at_part(part))?;
            drop(progress);
            return self.print_chosen(out, &scores);
        }
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

    fn policy(&self) -> Result<Option<&'static PolicyEntry>> {
        let Some(name) = &self.chosen_by else { return Ok(None) };
        let entry = settings::find("policy", name, POLICIES.iter(), |entry| entry.name);
        let entry = entry.map_err(|e| anyhow!("--chosen-by: {e}"))?;
        if !entry.pairs {
            return Err(anyhow!(
                "--chosen-by: {name} puts no two jobs on one GPU, so it chooses no pairs; expected one that does, such as gogh"
            ));
        }
        Ok(Some(entry))
    }

    fn print_chosen(&self, out: &mut dyn Write, scores: &[ChosenScore]) -> Result<()> {
        let notes = [format!(
            "{LOOPS} loops of 40 rounds with 30 jobs on 8 GPUs of each kind; rates alone are known. Open: pairs with a new workload that none of these \
             estimators observed. Chosen: pairs as they were about to run for the first time. Lost: work done less than with true rates; GPUs: more for the same work."
        )];
        #[derive(Serialize)]
        struct ChosenDocument<'a> {
            results: &'a [ChosenScore],
            notes: &'a [String],
        }
        output::print(
            out,
            self.output.output,
            &chosen_table(scores),
            &ChosenDocument { results: scores, notes: &notes },
        )?;
        if self.output.output == Format::Table {
            output::paragraph(out, &notes.join(" "))?;
        }
        Ok(())
    }

    fn splits(&self) -> Result<Vec<Split>> {
        let Some(names) = &self.split else { return Ok(Split::OF_WORKLOADS.to_vec()) };
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

    /// Leaves the kinds that were named.
    fn keep_kinds(&self, measured: &mut measured::Measured) -> Result<()> {
        let Some(names) = &self.kind else { return Ok(()) };
        let mut kept = Vec::new();
        for name in names.split(',') {
            let kind = Library::builtin().any_kind(name.trim()).map_err(|e| anyhow!("--kind: {e}"))?;
            let Some(known) = measured.kinds.iter().find(|k| k.name == kind.name) else {
                return Err(anyhow!("--kind: nothing was measured on {} in this table; leave it out", kind.name));
            };
            kept.push(known.clone());
        }
        measured.kinds = kept;
        Ok(())
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
        self.estimators.split(',').map(|name| evaluated("--estimators", name.trim())).collect()
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

fn chosen_table(scores: &[ChosenScore]) -> Table {
    let mut table = Table::new(vec![
        Column::left("new", "split"),
        Column::left("chosen by", "chosen_by"),
        Column::left("estimator", "estimator"),
        Column::right("open\nat first %", "open_first_percent"),
        Column::right("after a\nquarter %", "open_quarter_percent"),
        Column::right("a half\n%", "open_half_percent"),
        Column::right("at the\nend %", "open_end_percent"),
        Column::right("bias\n%", "open_bias_percent"),
        Column::right("inside\n90 %", "open_coverage90_ratio"),
        Column::right("chosen\n%", "chosen_mape_percent"),
        Column::right("bias\n%", "chosen_bias_percent"),
        Column::right("inside\n90 %", "chosen_coverage90_ratio"),
        Column::right("lost\n%", "lost_percent"),
        Column::right("GPUs\n%", "gpus_percent"),
        Column::right("pairs\nmeasured", "pairs_measured"),
        Column::hidden("open_count"),
        Column::hidden("chosen_count"),
    ]);
    let mut split = None;
    for s in scores {
        if split.is_some_and(|before| before != s.split) {
            table.gap();
        }
        split = Some(s.split);
        let number = |x: f64, digits: usize| Cell::number(shown(x, digits), x);
        let short = s.split.name().trim_start_matches("leave-").trim_end_matches("-out");
        let mut row = vec![Cell::named(short, s.split.name()), s.chosen_by.into(), s.estimator.into()];
        row.extend(s.open_mape_percent.map(|x| number(x, 3)));
        row.push(number(s.open_bias_percent, 2));
        row.push(number(s.open_coverage90_ratio * 100.0, 3));
        row.push(number(s.chosen_mape_percent, 3));
        row.push(number(s.chosen_bias_percent, 2));
        row.push(number(s.chosen_coverage90_ratio * 100.0, 3));
        row.push(number(s.lost_percent, 2));
        row.push(number(s.gpus_percent, 2));
        row.push(number(s.pairs_measured, 3));
        row.push(s.open_count.into());
        row.push(s.chosen_count.into());
        table.row(row);
    }
    table
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
        Column::right("bias\n%", "bias_percent"),
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
    let split = |s: &Score| Split::ALL.iter().position(|split| *split == s.split);
    let cells = |s: &Score| ["pair", "solo"].iter().chain(&CELLS).position(|cells| *cells == s.cells);
    order.sort_by_key(|s| (split(s), cells(s), plan(s)));
    let mut block = None;
    for s in order {
        let this = (s.split, s.cells, s.observations);
        if block.is_some_and(|b| b != this) {
            table.gap();
        }
        block = Some(this);
        let number = |x: f64, digits: usize| Cell::number(shown(x, digits), x);
        let short = s.split.name().trim_start_matches("leave-").trim_end_matches("-out");
        table.row(vec![
            Cell::named(short, s.split.name()),
            s.cells.into(),
            s.observations.into(),
            s.estimator.into(),
            number(s.mape_percent, 3),
            number(s.median_percent, 3),
            number(s.p90_percent, 3),
            number(s.bias_percent, 2),
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
