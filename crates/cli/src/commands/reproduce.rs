//! `arles reproduce`: the experiments of a paper, done again.
//!
//! What is measured comes from [`arles_sim::study`]; here it is put on the ground that the flags describe (the built-in
//! model and, with `--rates`, measured rates as well), told on the terminal and written down.

mod markdown;
mod told;

use super::simulate::{command_line, shell_quoted};
use crate::cluster;
use crate::fault::{Hinted, remark};
use crate::files::Draft;
use crate::flags::RunFlags;
use crate::output::{self, Format};
use crate::progress::Progress;
use crate::settings::Settings;
use crate::setup::Setup;
use anyhow::{Result, anyhow};
use arles_core::allocate::PolicyEntry;
use arles_core::library::nearest;
use arles_sim::drive::Scenario;
use arles_sim::report::{self, ReportHead};
use arles_sim::study::{Chapter, EXPERIMENTS, Experiment, Ground, Plan, find_experiment};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Do the experiments of a paper again: what it claims beside what is measured
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Reproduce {
    /// Which paper: oef
    #[arg(value_name = "PAPER")]
    paper: String,
    /// Experiments to do, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", help_heading = "Experiments")]
    only: Option<String>,
    /// Seeds; intervals are over these [default: 5]
    #[arg(long, value_name = "N", help_heading = "Experiments")]
    seeds: Option<String>,
    /// Fewer draws and shorter runs: a look in seconds instead of minutes
    #[arg(long, help_heading = "Experiments")]
    quick: bool,
    #[command(flatten)]
    run: RunFlags,
    /// How to print the numbers
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table", help_heading = "Results")]
    output: Format,
    /// Write a report: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    html: Option<PathBuf>,
    /// Write the tables as Markdown, each with its command
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    markdown: Option<PathBuf>,
}

const AFTER_HELP: &str = "Experiments: examples, properties, throughput, completion, lying, gangs, solve-time, robustness.
Without --rates they stand on the built-in model; with it, on measured rates as well. Where --policy names none, each
experiment has the policies that its claim is about. solve-time is left out of -o json and -o csv unless --only names it:
everything else is the same for the same seed, to the byte.

Exit codes: 0 done; 1 the work failed (a file could not be written); 2 wrong usage or input.";

/// The document of `-o json`.
#[derive(Serialize)]
struct Document<'c> {
    paper: &'static str,
    quick: bool,
    seed: u64,
    seeds: u64,
    experiments: &'c [Chapter],
}

/// Twenty tenants of equal weight.
fn twenty_tenants() -> String {
    (1..=20).map(|i| format!("tenant-{i:02}:1")).collect::<Vec<_>>().join(",")
}

impl Reproduce {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        if self.paper != "oef" {
            let near = nearest(&self.paper, ["oef"]).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            let sentence = format!("there is nothing to reproduce of '{}'{near}; expected oef", self.paper);
            return Err(anyhow!(sentence));
        }
        let experiments = self.experiments()?;
        let settings = self.settings()?;
        let draft = |path: &Option<PathBuf>| path.as_deref().map(Draft::create).transpose();
        let (html, markdown) = (draft(&self.html)?, draft(&self.markdown)?);
        let stages = Stage::all(&settings, &experiments)?;
        let mut chapters = Vec::new();
        for experiment in &experiments {
            for stage in stages.iter().take(if experiment.grounded { stages.len() } else { 1 }) {
                chapters.extend(self.chapter(experiment, stage, &settings));
            }
        }
        if let Some(mut draft) = html {
            draft.out().write_all(report::study_html(&head(&settings, &stages), &chapters).as_bytes())?;
            draft.keep()?;
        }
        if let Some(mut draft) = markdown {
            draft.out().write_all(markdown::page(&command_line(), &chapters).as_bytes())?;
            draft.keep()?;
        }
        match self.output {
            Format::Table => told::print(out, &chapters),
            Format::Csv => Ok(out.write_all(told::csv(&chapters).as_bytes())?),
            Format::Json => {
                let (seed, seeds) = (settings.seed, settings.seeds);
                let document = Document { paper: "oef", quick: self.quick, seed, seeds, experiments: &chapters };
                output::json(out, &document)
            }
        }
    }

    /// The experiments asked for, in the order of the table.
    fn experiments(&self) -> Result<Vec<&'static Experiment>> {
        let Some(names) = &self.only else {
            // Times differ from run to run; programs that compare bytes want none of them.
            return Ok(EXPERIMENTS.iter().filter(|e| !e.timed || self.output == Format::Table).collect());
        };
        let mut chosen: Vec<&'static Experiment> = Vec::new();
        for name in names.split(',').map(str::trim) {
            let experiment = find_experiment(name).ok_or_else(|| {
                let all: Vec<&str> = EXPERIMENTS.iter().map(|e| e.name).collect();
                let near =
                    nearest(name, all.iter().copied()).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                anyhow!("--only: there is no experiment '{name}'{near}; expected one of {}", all.join(", "))
            })?;
            if !chosen.iter().any(|known| known.name == experiment.name) {
                chosen.push(experiment);
            }
        }
        Ok(chosen)
    }

    fn settings(&self) -> Result<Settings> {
        let (jobs, seeds, tenants) =
            if self.quick { ("80", "2", twenty_tenants()) } else { ("400", "5", twenty_tenants()) };
        let mut settings = self.run.settings_over(&[
            ("cluster.gpus", "v100:8,p100:8,k80:8"),
            ("cluster.gpus-per-node", "4"),
            ("simulation.round", "6m"),
            ("simulation.drop-unfit", "true"),
            ("generate.jobs", jobs),
            ("generate.tenants", &tenants),
            ("compare.seeds", seeds),
        ])?;
        if let Some(seeds) = &self.seeds {
            settings.put("compare.seeds", seeds, "--seeds")?;
        }
        if settings.seeds == 0 {
            let hint = "give 1 or more; an interval needs at least 2";
            return Err(Hinted::new("--seeds: no experiment can be done with 0 seeds", hint).into());
        }
        Ok(settings)
    }

    /// Does one experiment on one ground; nothing, and a remark, where this build has none of its policies.
    fn chapter(&self, experiment: &'static Experiment, stage: &Stage, settings: &Settings) -> Option<Chapter> {
        let chosen: Option<&[&'static PolicyEntry]> = self.run.names_policies().then_some(&settings.policies);
        let (policies, absent) = experiment.lineup.resolve(chosen);
        let missing = absent.join(", ");
        if policies.is_empty() {
            remark(format_args!("{}: left out, since this arles has no {missing}", experiment.name));
            return None;
        }
        if !absent.is_empty() {
            remark(format_args!("{}: without {missing}, which this arles does not have", experiment.name));
        }
        let label = if experiment.grounded {
            format!("{}, {}", experiment.name, stage.ground.title)
        } else {
            experiment.name.into()
        };
        let bar = Progress::parts(&label);
        let begun = Instant::now();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let finding = (experiment.run)(&Plan {
            ground: &stage.ground,
            policies: &policies,
            seed: settings.seed,
            seeds: settings.seeds,
            quick: self.quick,
            threads: if settings.threads == 0 { cores } else { settings.threads },
            scenarios: if experiment.traced { &stage.scenarios } else { &[] },
            stopwatch: &|| begun.elapsed().as_secs_f64(),
            progress: &|part| bar.at_part(part),
        });
        drop(bar);
        Some(Chapter {
            name: experiment.name,
            title: experiment.title,
            claim: experiment.claim,
            ground: experiment.grounded.then(|| stage.ground.title.clone()),
            command: self.command(experiment),
            absent,
            finding,
        })
    }

    /// The command that does one experiment again.
    fn command(&self, experiment: &Experiment) -> String {
        let mut words = command_line();
        if let Some(names) = &self.only {
            words =
                words.replace(&format!(" --only {}", shell_quoted(names)), "").replace(&format!(" --only={names}"), "");
        }
        format!("{words} --only {}", experiment.name)
    }
}

/// A ground with its traces.
struct Stage {
    ground: Ground,
    scenarios: Vec<Scenario>,
    traces: String,
}

impl Stage {
    /// The built-in model and, where there is a table of rates, that as well.
    fn all(settings: &Settings, experiments: &[&Experiment]) -> Result<Vec<Self>> {
        let traced = experiments.iter().any(|experiment| experiment.traced);
        let modelled = Settings { rates: None, ..settings.clone() };
        let mut stages = vec![Self::new(&modelled, "the built-in model", traced)?];
        if let Some(path) = &settings.rates {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            stages.push(Self::new(settings, &format!("rates of {name}"), traced)?);
        }
        Ok(stages)
    }

    fn new(settings: &Settings, title: &str, traced: bool) -> Result<Self> {
        let setup = Setup::new(settings)?;
        let ground =
            Ground::new(title, setup.cluster.clone(), setup.rates().cloned()).map_err(|e| anyhow!("{title}: {e}"))?;
        let (mut scenarios, mut traces, mut last) = (Vec::new(), String::new(), None);
        for seed in (0..settings.seeds).map(|i| settings.seed.wrapping_add(i)).take(if traced { usize::MAX } else { 0 })
        {
            let trace = Arc::new(setup.trace(seed)?.trace);
            // A trace that is the same for every seed is worth one run.
            if last.as_ref() == Some(&trace) {
                break;
            }
            traces = setup.trace_in_words(&trace);
            scenarios.push(setup.scenario(Arc::clone(&trace), false)?);
            last = Some(trace);
        }
        Ok(Self { ground, scenarios, traces })
    }
}

/// What stands above the report.
fn head(settings: &Settings, stages: &[Stage]) -> ReportHead {
    let machines = stages.first().map_or(String::new(), |stage| cluster::in_words(&stage.ground.cluster));
    ReportHead {
        title: "OEF, reproduced".to_owned(),
        cluster: machines,
        trace: stages.first().map_or(String::new(), |stage| stage.traces.clone()),
        command: command_line(),
        seed: settings.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
