//! `arles reproduce`: the experiments of a paper, done again.
//!
//! What is measured comes from [`arles_study`]; here it is put on the ground that the flags describe (the built-in
//! model and, with `--rates`, measured rates as well), told on the terminal and written down.

mod gogh;
mod markdown;
mod oef;
mod told;

use super::simulate::{command_line, shell_quoted};
use crate::fault::Hinted;
use crate::files::Draft;
use crate::flags::RunFlags;
use crate::output::{self, Format};
use crate::settings::{REPRODUCE, Settings, find};
use anyhow::{Result, anyhow};
use arles_core::allocate::POLICIES;
use arles_core::library::suggestion;
use arles_report::finding::ExperimentReport;
use arles_report::{self as report, ReportHead};
use clap::Args;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A paper whose experiments can be done again.
struct Paper {
    /// As the user names it.
    name: &'static str,
    /// As its authors call what it is about.
    title: &'static str,
    /// Where it appeared.
    origin: &'static str,
    /// Names of its experiments, and whether each is about times of this machine.
    experiments: fn() -> Vec<(&'static str, bool)>,
    /// Settings that differ from those of other commands, for a quick look and for the real thing.
    defaults: fn(quick: bool) -> Vec<(&'static str, String)>,
    /// Does the experiments with these names.
    run: fn(&Reproduce, &Settings, &[&'static str]) -> Result<Done>,
}

static PAPERS: &[Paper] = &[
    Paper {
        name: "oef",
        title: "OEF",
        origin: "Middleware '24",
        experiments: oef::names,
        defaults: oef::defaults,
        run: oef::run,
    },
    Paper {
        name: "gogh",
        title: "GOGH",
        origin: "arXiv 2510.15652",
        experiments: gogh::names,
        defaults: gogh::defaults,
        run: gogh::run,
    },
];

/// What was done.
struct Done {
    chapters: Vec<ExperimentReport>,
    /// The machines and the jobs, in a few words.
    cluster: String,
    traces: String,
}

/// Reproduce the experiments of a paper: published claims beside measured results
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Reproduce {
    /// Paper: oef or gogh
    #[arg(value_name = "PAPER")]
    paper: String,
    /// Experiments to run, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", help_heading = "Experiments")]
    only: Option<String>,
    /// Fewer draws and shorter runs: seconds instead of minutes
    #[arg(long, help_heading = "Experiments")]
    quick: bool,
    #[command(flatten)]
    run: RunFlags<REPRODUCE>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table", help_heading = "Results")]
    output: Format,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    html: Option<PathBuf>,
    /// Write the tables as Markdown, each with the command that made it
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    markdown: Option<PathBuf>,
}

const AFTER_HELP: &str =
    "Experiments of oef: examples, properties, throughput, completion, lying, gangs, solve-time, robustness.
Experiments of gogh: estimates, energy, learning, co-location, program.
Without --rates they use the built-in performance model; with --rates, the measured rates as well. Without --policy, each \
experiment runs the policies that its claim is about. solve-time and program depend on the machine, so -o json and -o csv leave them \
out unless --only names them; everything else is identical for the same seed.

Exit codes: 0 success; 1 failure (cannot write a file); 2 invalid usage or input.";

/// The document of `-o json`.
#[derive(Serialize)]
struct Document<'c> {
    paper: &'static str,
    quick: bool,
    seed: u64,
    seeds: u64,
    experiments: &'c [ExperimentReport],
}

impl Reproduce {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let paper = self.paper()?;
        let experiments = self.experiments(paper)?;
        let settings = self.settings(paper)?;
        let draft = |path: &Option<PathBuf>| path.as_deref().map(Draft::create).transpose();
        let (html, markdown) = (draft(&self.html)?, draft(&self.markdown)?);
        let done = (paper.run)(self, &settings, &experiments)?;
        let chapters = &done.chapters;
        if let Some(mut draft) = html {
            let policies: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
            let page = report::study_html(&head(paper, &settings, &done), chapters, &policies);
            draft.out().write_all(page.as_bytes())?;
            draft.keep()?;
        }
        if let Some(mut draft) = markdown {
            draft.out().write_all(markdown::page(paper, &command_line(), chapters).as_bytes())?;
            draft.keep()?;
        }
        match self.output {
            Format::Table => told::print(out, chapters),
            Format::Csv => Ok(out.write_all(told::csv(chapters).as_bytes())?),
            Format::Json => {
                let (seed, seeds) = (settings.seed, settings.seeds);
                output::json(
                    out,
                    &Document { paper: paper.name, quick: self.quick, seed, seeds, experiments: chapters },
                )
            }
        }
    }

    fn paper(&self) -> Result<&'static Paper> {
        PAPERS.iter().find(|paper| paper.name == self.paper).ok_or_else(|| {
            let names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
            let near = suggestion(&self.paper, names.iter().copied());
            anyhow!("there is no paper '{}'{near}; expected {}", self.paper, names.join(" or "))
        })
    }

    /// The experiments asked for: all in the order of the table, or those named in the order of their names.
    fn experiments(&self, paper: &Paper) -> Result<Vec<&'static str>> {
        let all = (paper.experiments)();
        let Some(names) = &self.only else {
            // Times differ from run to run; programs that compare bytes want none of them.
            let wanted = all.into_iter().filter(|(_, timed)| !timed || self.output == Format::Table);
            return Ok(wanted.map(|(name, _)| name).collect());
        };
        let mut chosen: Vec<&'static str> = Vec::new();
        for name in names.split(',').map(str::trim) {
            let known = all.iter().map(|(name, _)| *name);
            let experiment = find("experiment", name, known, |name| name).map_err(|e| anyhow!("--only: {e}"))?;
            if !chosen.contains(&experiment) {
                chosen.push(experiment);
            }
        }
        Ok(chosen)
    }

    fn settings(&self, paper: &Paper) -> Result<Settings> {
        let defaults = (paper.defaults)(self.quick);
        let defaults: Vec<(&str, &str)> = defaults.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let settings = self.run.settings_over(&defaults)?;
        if settings.seeds == 0 {
            let hint = "give 1 or more; an interval needs at least 2";
            return Err(Hinted::new("--seeds: an experiment needs at least 1 seed, not 0", hint).into());
        }
        Ok(settings)
    }

    /// The command that does one experiment again.
    fn command(&self, experiment: &str) -> String {
        let mut words = command_line();
        if let Some(names) = &self.only {
            words =
                words.replace(&format!(" --only {}", shell_quoted(names)), "").replace(&format!(" --only={names}"), "");
        }
        format!("{words} --only {experiment}")
    }
}

/// How a ground is called in reports.
fn ground_title(rates: Option<&Path>) -> String {
    match rates {
        None => "the built-in model".to_owned(),
        Some(path) => format!("rates of {}", path.file_name().unwrap_or_default().to_string_lossy()),
    }
}

/// How many things are done at a time.
fn threads(settings: &Settings) -> usize {
    match settings.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// What stands above the report.
fn head(paper: &Paper, settings: &Settings, done: &Done) -> ReportHead {
    ReportHead {
        title: format!("{}, reproduced", paper.title),
        cluster: done.cluster.clone(),
        trace: done.traces.clone(),
        command: command_line(),
        seed: settings.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
