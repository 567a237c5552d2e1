//! `arles compare`: policies over several seeds, against a baseline.
//!
//! Seeds are paired: every policy runs the same traces, and a ratio is taken seed by seed before it is averaged, so what
//! the traces have in common cancels. Intervals are Student's, mean ± t·s/√n at 95 %.

mod whole;

use super::audit::course::Course;
use super::simulate::{Staged, write_files};
use crate::fault::{EXIT_CODES, Hinted};
use crate::flags::{ResultFlags, RunFlags};
use crate::output::{self, Cell, Column, Format, Table};
use crate::quantity::shown;
use crate::runs::{self, Task};
use crate::settings::{COMPARE, Settings};
use crate::setup::Setup;
use anyhow::Result;
use arles_core::allocate::POLICIES;
use arles_report::MeanInterval;
use arles_report::record::{RunRecord, Summary};
use clap::Args;
use serde::Serialize;
use std::io::Write;

/// Compare policies with a baseline over several seeds
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Compare {
    #[command(flatten)]
    run: RunFlags<COMPARE>,
    /// One table with all policies as rows and all metrics as columns, fairness by the audit included
    #[arg(long, help_heading = "Scheduling")]
    all: bool,
    #[command(flatten)]
    results: ResultFlags,
}

/// A number of a run that is worth comparing.
struct Metric {
    name: &'static str,
    title: &'static str,
    /// What the number is divided by for people.
    unit: f64,
    of: fn(&Summary) -> f64,
}

static METRICS: &[Metric] = &[
    Metric { name: "mean_jct_seconds", title: "mean JCT, h", unit: 3600.0, of: |s| s.mean_jct_seconds },
    Metric { name: "p50_jct_seconds", title: "median JCT, h", unit: 3600.0, of: |s| s.p50_jct_seconds },
    Metric { name: "p99_jct_seconds", title: "p99 JCT, h", unit: 3600.0, of: |s| s.p99_jct_seconds },
    Metric { name: "makespan_seconds", title: "makespan, h", unit: 3600.0, of: |s| s.makespan_seconds },
    Metric { name: "utilisation_ratio", title: "utilisation, %", unit: 0.01, of: |s| s.utilisation_ratio },
    Metric { name: "energy_kwh", title: "energy, kWh", unit: 1.0, of: |s| s.energy_kwh },
    Metric { name: "sla_violation_ratio", title: "below floor, %", unit: 0.01, of: |s| s.sla_violation_ratio },
    Metric { name: "migrations", title: "migrations", unit: 1.0, of: |s| s.migrations as f64 },
];

#[derive(Serialize)]
struct MetricRow {
    metric: &'static str,
    policy: &'static str,
    #[serde(flatten)]
    spread: MeanInterval,
    /// Over the baseline, seed by seed; missing where the baseline has a 0.
    ratio: Option<MeanInterval>,
}

/// The document of `-o json`: the comparison, and every run that it rests on.
#[derive(Serialize)]
struct Comparison<'r> {
    baseline: &'static str,
    seeds: Vec<u64>,
    metrics: Vec<MetricRow>,
    runs: Vec<SeededRun<'r>>,
}

#[derive(Serialize)]
struct SeededRun<'r> {
    seed: u64,
    #[serde(flatten)]
    summary: &'r Summary,
}

impl Compare {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut settings = self.run.settings()?;
        if self.all {
            return self.run_all(settings, out);
        }
        // The baseline is always run, and stands first.
        let baseline = settings.baseline;
        settings.policies.retain(|policy| policy.name != baseline.name);
        settings.policies.insert(0, baseline);
        let setup = Setup::new(&settings)?;
        let drafts = self.results.drafts()?;
        let (seeds, staged) = stage(&settings, &setup, drafts.need_details())?;
        staged[0].remark();
        let tasks: Vec<Task<'_>> = staged.iter().flat_map(|staged| staged.tasks(&settings)).collect();
        let runs = runs::run_all(&tasks, settings.threads)?;
        let first = &runs[..settings.policies.len()];
        write_files(drafts, || staged[0].head(&setup, "arles compare", seeds[0]), first)?;
        let document = Comparison {
            baseline: baseline.name,
            metrics: compared(&settings, &runs),
            runs: seeded(&seeds, settings.policies.len(), &runs),
            seeds,
        };
        output::print(out, self.results.output, &table(&document), &document)?;
        if self.results.output == Format::Table {
            legend(out, &document)?;
        }
        Ok(())
    }
}

impl Compare {
    /// Every policy, unless some were named, with its metrics in one line.
    fn run_all(&self, mut settings: Settings, out: &mut dyn Write) -> Result<()> {
        if !settings.names("simulation.policies") {
            settings.policies = POLICIES.iter().collect();
        }
        let setup = Setup::new(&settings)?;
        let (seeds, staged) = stage(&settings, &setup, false)?;
        staged[0].remark();
        let tasks: Vec<Task<'_>> = staged.iter().flat_map(|staged| staged.tasks(&settings)).collect();
        let seen =
            runs::watch_all(&tasks, settings.threads, Course::watching, |run, course| (run.summary, course.means()))?;
        let rows = whole::rows(&settings.policies, &seen);
        let document = whole::Document::new(seeds, rows);
        output::print(out, self.results.output, &document.table(), &document)?;
        if self.results.output == Format::Table {
            output::paragraph(out, &document.legend())?;
        }
        Ok(())
    }
}

/// Scenarios of all seeds; only the first keeps details, since only that one is reported.
fn stage(settings: &Settings, setup: &Setup<'_>, details: bool) -> Result<(Vec<u64>, Vec<Staged>)> {
    let count = match settings.seeds {
        0 if settings.trace.is_none() => 5,
        0 => 1,
        count => count,
    };
    if count > 1
        && settings.trace.is_some()
        && setup.trace(settings.seed)?.trace == setup.trace(settings.seed.wrapping_add(1))?.trace
    {
        let sentence = format!("this trace is the same for every seed, so {count} seeds would run it {count} times");
        return Err(Hinted::new(sentence, "leave --seeds out, or generate the trace with --generate").into());
    }
    let seeds: Vec<u64> = (0..count).map(|i| settings.seed.wrapping_add(i)).collect();
    let staged = seeds
        .iter()
        .enumerate()
        .map(|(i, &seed)| Staged::new(setup, seed, details && i == 0))
        .collect::<Result<_>>()?;
    Ok((seeds, staged))
}

fn seeded<'r>(seeds: &[u64], policies: usize, runs: &'r [RunRecord]) -> Vec<SeededRun<'r>> {
    let each = seeds.iter().zip(runs.chunks(policies));
    each.flat_map(|(&seed, runs)| runs.iter().map(move |run| SeededRun { seed, summary: &run.summary })).collect()
}

/// Every metric of every policy. Runs stand seed by seed, the baseline first.
fn compared(settings: &Settings, runs: &[RunRecord]) -> Vec<MetricRow> {
    let mut lines = Vec::new();
    for metric in METRICS {
        for (p, policy) in settings.policies.iter().enumerate() {
            let rounds = || runs.chunks(settings.policies.len());
            let values: Vec<f64> = rounds().map(|runs| (metric.of)(&runs[p].summary)).collect();
            let ratios: Vec<f64> =
                rounds().map(|runs| (metric.of)(&runs[p].summary) / (metric.of)(&runs[0].summary)).collect();
            let ratio = ratios.iter().all(|ratio| ratio.is_finite()).then(|| MeanInterval::of(&ratios));
            lines.push(MetricRow {
                metric: metric.name,
                policy: policy.name,
                spread: MeanInterval::of(&values),
                ratio,
            });
        }
    }
    lines
}

fn table(document: &Comparison<'_>) -> Table {
    let mut table = Table::new(vec![
        Column::left("metric", "metric"),
        Column::left("policy", "policy"),
        Column::right("mean", "mean"),
        Column::right("± 95 %", "half_width"),
        Column::right("ratio", "ratio"),
        Column::right("± 95 %", "ratio_half_width"),
    ]);
    let mut last = "";
    for line in &document.metrics {
        let metric = METRICS.iter().find(|metric| metric.name == line.metric);
        let (title, unit) = metric.map_or((line.metric, 1.0), |metric| (metric.title, metric.unit));
        let first = last != line.metric;
        if first {
            table.gap();
        }
        last = line.metric;
        let scaled = |value: Option<f64>| value.map_or(Cell::from(""), |v| Cell::number(shown(v / unit, 3), v));
        let plain = |value: Option<f64>| value.map_or(Cell::from(""), |v| Cell::number(format!("{v:.3}"), v));
        let own = line.policy == document.baseline;
        let ratio = line.ratio.filter(|_| !own);
        table.row(vec![
            Cell::named(if first { title } else { "" }, line.metric),
            line.policy.into(),
            scaled(Some(line.spread.mean)),
            scaled(line.spread.half_width),
            if own { Cell::named("1", "1") } else { plain(ratio.map(|r| r.mean)) },
            plain(ratio.and_then(|r| r.half_width)),
        ]);
    }
    table
}

fn legend(out: &mut dyn Write, document: &Comparison<'_>) -> Result<()> {
    let text = match document.seeds.len() {
        1 => format!(
            "One run of each policy; ratios are relative to {}. Confidence intervals need several seeds.",
            document.baseline
        ),
        n => format!(
            "{n} seeds, the same for every policy. Ratios are relative to {}, seed by seed; ± is the half-width of the 95 % confidence interval.",
            document.baseline
        ),
    };
    output::paragraph(out, &text)
}
