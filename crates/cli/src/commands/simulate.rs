//! `arles simulate`: a trace on a virtual cluster under one or more policies.

use crate::cluster;
use crate::estimation::Tutor;
use crate::fault::{EXIT_CODES, Hinted, remark};
use crate::files::Draft;
use crate::flags::{Drafts, ResultFlags, RunFlags};
use crate::output::{self, Format};
use crate::results;
use crate::runs::{self, Task};
use crate::settings::{SIMULATE, Settings};
use crate::setup::{Loaded, Setup};
use anyhow::Result;
use arles_report::record::RunRecord;
use arles_report::{self as report, ReportHead};
use arles_sim::scenario::Scenario;
use arles_sim::trace::import::ImportReport;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Simulate a trace on a cluster under one or more policies
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Simulate {
    #[command(flatten)]
    run: RunFlags<SIMULATE>,
    #[command(flatten)]
    results: ResultFlags,
    /// Write the run's journal, for 'arles replay'; one policy only
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    journal: Option<PathBuf>,
}

impl Simulate {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let settings = self.run.settings()?;
        if self.journal.is_some() && settings.policies.len() != 1 {
            let sentence =
                format!("--journal records one run, and {} policies were asked for", settings.policies.len());
            return Err(Hinted::new(sentence, "name one policy, for instance --policy max-min-fairness").into());
        }
        let setup = Setup::new(&settings)?;
        let drafts = self.results.drafts()?;
        let mut journal = self.journal.as_deref().map(Draft::create).transpose()?;
        let staged = Staged::new(&setup, settings.seed, drafts.need_details())?;
        staged.remark();
        let tasks = staged.tasks(&settings);
        let runs = match &mut journal {
            Some(journal) => vec![runs::run_with_journal(tasks[0], journal.out())?],
            None => runs::run_all(&tasks, settings.threads)?,
        };
        write_files(drafts, || staged.head(&setup, "arles simulate", settings.seed), &runs)?;
        journal.map_or(Ok(()), Draft::keep)?;
        output::print(out, self.results.output, &results::table(&runs), &results::Document::of(&runs))?;
        if self.results.output == Format::Table {
            output::paragraph(out, &results::legend(&runs))?;
        }
        Ok(())
    }
}

/// A scenario and what is said about it.
pub(super) struct Staged {
    pub(super) scenario: Scenario,
    pub(super) jobs: u64,
    pub(super) trace: String,
    tutor: Option<Tutor>,
    imported: Option<ImportReport>,
}

impl Staged {
    /// Loads the trace at a seed and checks it.
    pub(super) fn new(setup: &Setup<'_>, seed: u64, keep_details: bool) -> Result<Self> {
        let Loaded { trace, report } = setup.trace(seed)?;
        let (words, jobs) = (setup.trace_in_words(&trace), trace.jobs.len() as u64);
        let scenario = setup.scenario(Arc::new(trace), keep_details)?;
        let tutor = setup.tutor(&scenario, seed)?;
        Ok(Self { scenario, jobs, trace: words, tutor, imported: report })
    }

    /// Says on stderr what was lost of the trace on its way.
    pub(super) fn remark(&self) {
        if let Some(report) = self.imported.as_ref().filter(|r| !r.dropped.is_empty() || !r.changed.is_empty()) {
            remark(format_args!("{report}"));
        }
        if self.scenario.dropped() > 0 {
            remark(format_args!("{} jobs dropped: they fit no kind of this cluster", self.scenario.dropped()));
        }
        if let Some(sentence) = self.scenario.hopeless_promises() {
            remark(format_args!("{sentence}"));
        }
    }

    /// A run for each policy of the settings.
    pub(super) fn tasks(&self, settings: &Settings) -> Vec<Task<'_>> {
        let tutor = self.tutor.as_ref();
        let task = |policy| Task { scenario: &self.scenario, policy, tutor, jobs: self.jobs };
        settings.policies.iter().map(|policy| task(policy)).collect()
    }

    /// What stands above the report.
    pub(super) fn head(&self, setup: &Setup<'_>, title: &str, seed: u64) -> ReportHead {
        ReportHead {
            title: title.to_owned(),
            cluster: cluster::in_words(&setup.cluster),
            trace: self.trace.clone(),
            command: command_line(),
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Writes the report and the jobs, if they were asked for.
pub(super) fn write_files(drafts: Drafts, head: impl Fn() -> ReportHead, runs: &[RunRecord]) -> Result<()> {
    if let Some(mut draft) = drafts.report {
        draft.out().write_all(report::html(&head(), runs).as_bytes())?;
        draft.keep()?;
    }
    if let Some(mut draft) = drafts.jobs {
        results::write_jobs(runs, draft.out())?;
        draft.keep()?;
    }
    Ok(())
}

/// The command as it was given, in quotes where a shell needs them. Where results are written is left out, so
/// that the same simulation gives the same report.
pub(super) fn command_line() -> String {
    let mut words = vec!["arles".to_owned()];
    let mut arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = arguments.next() {
        let (flag, value) = word.split_once('=').map_or((word.as_str(), false), |(flag, _)| (flag, true));
        if ["--report", "--svg", "--html", "--markdown", "--jobs-csv", "--journal", "--threads", "-o", "--output"]
            .contains(&flag)
        {
            if !value {
                arguments.next();
            }
            continue;
        }
        words.push(shell_quoted(&word));
    }
    words.join(" ")
}

pub(super) fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
