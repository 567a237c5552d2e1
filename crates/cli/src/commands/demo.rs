//! `arles demo`: what arles is good for, in a few seconds.

use super::simulate::{Staged, write_files};
use crate::fault::{EXIT_CODES, Hinted};
use crate::files::Draft;
use crate::flags::Drafts;
use crate::output::{self, Format, OutputFlag};
use crate::quantity::{percent, shown};
use crate::runs;
use crate::settings::Settings;
use crate::setup::Setup;
use crate::{cluster, results};
use anyhow::Result;
use arles_report::record::{RunRecord, Summary};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

const CONFIG: &str = include_str!("demo.toml");

/// Run several policies on a mixed cluster and write a report
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Demo {
    /// Random seed; same seed, same output
    #[arg(long, value_name = "N", default_value = "0")]
    seed: String,
    /// Throughput estimator; 'arles estimators' lists them
    #[arg(long, value_name = "NAME", default_value = "learned")]
    estimator: String,
    /// HTML report to write
    #[arg(long, value_name = "FILE", default_value = "arles-demo.html")]
    report: PathBuf,
    /// Print the demo's configuration, to edit and run with 'arles simulate --config'
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    output: OutputFlag,
}

impl Demo {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        if self.print_config {
            return Ok(out.write_all(CONFIG.as_bytes())?);
        }
        let mut settings = Settings::builtin()?;
        settings.put_text(CONFIG, "the demo's configuration")?;
        settings.put("simulation.seed", &self.seed, "--seed")?;
        settings.put("simulation.estimator", &self.estimator, "--estimator")?;
        let setup = Setup::new(&settings)?;
        let drafts = Drafts { report: Some(Draft::create(&self.report)?), jobs: None };
        let staged = Staged::new(&setup, settings.seed, true)
            .map_err(|e| Hinted::new(format!("{e:#}"), "the demo cannot run with this seed; try another"))?;
        let runs = runs::run_all(&staged.tasks(&settings), settings.threads)?;
        write_files(drafts, || staged.head(&setup, "arles demo", settings.seed), &runs)?;
        if self.output.output == Format::Table {
            writeln!(out, "Cluster: {}.\nTrace: {}.\n", cluster::in_words(&setup.cluster), staged.trace)?;
        }
        output::print(out, self.output.output, &results::table(&runs), &results::Document::of(&runs))?;
        if self.output.output == Format::Table {
            output::paragraph(out, &results::legend(&runs))?;
            output::paragraph(out, &findings(&runs))?;
            writeln!(out, "\nReport: {}", self.report.display())?;
        }
        Ok(())
    }
}

/// What is to be seen in the numbers.
fn findings(runs: &[RunRecord]) -> String {
    let find = |name: &str| runs.iter().map(|run| &run.summary).find(|summary| summary.policy == name);
    let mut sentences = Vec::new();
    if let (Some(aware), Some(blind)) = (find("max-min-fairness"), find("max-min-agnostic")) {
        sentences.push(format!(
            "Max-min fairness that knows each kind's speed completes jobs {} on average than max-min-agnostic ({} vs {} h) and uses {} energy.",
            change(aware.mean_jct_seconds, blind.mean_jct_seconds, "sooner", "later"),
            shown(aware.mean_jct_seconds / 3600.0, 3),
            shown(blind.mean_jct_seconds / 3600.0, 3),
            change(aware.energy_kwh, blind.energy_kwh, "less", "more"),
        ));
    }
    let summaries = || runs.iter().map(|run| &run.summary);
    let quickest = summaries().min_by(|a, b| a.mean_jct_seconds.total_cmp(&b.mean_jct_seconds));
    let truest = summaries().min_by(|a, b| a.sla_violation_ratio.total_cmp(&b.sla_violation_ratio));
    if let (Some(quickest), Some(truest), Some(fifo)) = (quickest, truest, find("fifo")) {
        let best = if truest.policy == quickest.policy { "it also" } else { &truest.policy };
        sentences.push(format!(
            "{} has the lowest mean JCT, {} than fifo; {best} keeps promised rates best (below them {} % of the time).",
            quickest.policy,
            change(quickest.mean_jct_seconds, fifo.mean_jct_seconds, "lower", "higher"),
            percent(truest.sla_violation_ratio),
        ));
    }
    if let (Some(gogh), Some(fifo)) = (find("gogh"), find("fifo")) {
        let used = |s: &Summary| s.energy_kwh - s.energy_unused_kwh;
        sentences.push(format!(
            "GPUs in use consume {} energy under gogh than under fifo ({} vs {} kWh); promised rates are missed {} % of the time (fifo: {} %).",
            change(used(gogh), used(fifo), "less", "more"),
            shown(used(gogh), 3),
            shown(used(fifo), 3),
            percent(gogh.sla_violation_ratio),
            percent(fifo.sla_violation_ratio),
        ));
    }
    if let Some(sentence) = find("fifo").zip(find("max-min-fairness")).and_then(|(fifo, fair)| tenant(fifo, fair)) {
        sentences.push(sentence);
    }
    sentences.join(" ")
}

/// Whose jobs fairness helps most. (GPU time says little here: over a whole trace, everybody gets what it asked for.)
fn tenant(fifo: &Summary, fair: &Summary) -> Option<String> {
    let pairs = fifo.tenants.iter().filter_map(|before| {
        let after = fair.tenants.iter().find(|after| after.name == before.name)?;
        Some((after.mean_jct_seconds / before.mean_jct_seconds, before, after))
    });
    let (ratio, before, after) = pairs.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let hours = |seconds: f64| shown(seconds / 3600.0, 3);
    (ratio < 1.0).then(|| {
        format!(
            "Tenant {} gains most from max-min-fairness: mean JCT {} h, under fifo {} h.",
            before.name,
            hours(after.mean_jct_seconds),
            hours(before.mean_jct_seconds),
        )
    })
}

/// "12 % sooner" for a number below another.
fn change(number: f64, other: f64, below: &str, above: &str) -> String {
    let ratio = number / other - 1.0;
    format!("{:.0} % {}", ratio.abs() * 100.0, if ratio <= 0.0 { below } else { above })
}
