//! `arles slurm shadow`: watches a live cluster, touches nothing, and says job by job what arles would have done.

pub(in crate::commands) mod replay;

use crate::engines::{slurm_cluster, slurm_options};
use crate::fault::{EXIT_CODES, Hinted, remark};
use crate::interrupt::catch_interrupts;
use crate::output::{self, Column, Format, OutputFlag, Table};
use crate::quantity;
use crate::settings::{SHADOW, SettingFlags, Settings};
use anyhow::Result;
use arles_engine::slurm::{Watch, WatchedRun};
use clap::Args;
use replay::{Compared, Window};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What the other system's side of the comparison is called in tables.
pub(in crate::commands) struct Names {
    pub(in crate::commands) system: &'static str,
    pub(in crate::commands) on: &'static str,
    pub(in crate::commands) job: &'static str,
    pub(in crate::commands) tenant: &'static str,
    pub(in crate::commands) kinds: &'static str,
    pub(in crate::commands) wait: &'static str,
    pub(in crate::commands) completion: &'static str,
}

const NAMES: Names = Names {
    system: "Slurm",
    on: "Slurm\non",
    job: "slurm_job",
    tenant: "account",
    kinds: "slurm_kinds",
    wait: "slurm_wait_seconds",
    completion: "slurm_completion_seconds",
};

/// Watch a Slurm cluster and report what arles would have done, and saved; touches nothing
///
/// Looks at the queue for a while: at all jobs with GPUs, marked for arles or not. Then the same jobs are run through the scheduler on a simulated
/// copy of the cluster, and every job is shown twice: as it was under Slurm, and as it would have been. How fast a job is on other kinds,
/// and what it draws, are estimates. Ctrl-C ends the watch early, and the report follows.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Shadow {
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = quantity::positive_seconds)]
    watch_seconds: f64,
    #[command(flatten)]
    flags: SettingFlags<SHADOW>,
    #[command(flatten)]
    output: OutputFlag,
}

impl Shadow {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let settings = self.flags.settings()?;
        let cluster = slurm_cluster(&settings)?;
        let (watch, window) = self.watch(&settings)?;
        let mut jobs = watch.jobs();
        // Slurm shows jobs for a while after their end.
        let ended_before = |run: &WatchedRun| run.ended.is_some_and(|ended| ended <= window.from);
        jobs.retain(|job| !(job.over && job.runs.iter().all(ended_before)));
        if !jobs.iter().any(|job| !job.runs.is_empty()) {
            let hint = "watch for longer with --for, or while jobs run";
            let sentence = format!("no job with GPUs ran while {} jobs were watched", jobs.len());
            return Err(Hinted::new(sentence, hint).failed().into());
        }
        let compared = replay::compare(&settings, cluster, &jobs, window)?;
        output::print(out, self.output.output, &table(&compared, &NAMES), &compared)?;
        if self.output.output == Format::Table {
            output::paragraph(out, &compared.in_words(NAMES.system))?;
        }
        Ok(())
    }

    /// Looks at the queue until the time is over or somebody interrupts.
    fn watch(&self, settings: &Settings) -> Result<(Watch, Window)> {
        let failed = |error: arles_core::engine::EngineError| {
            Hinted::new(error.to_string(), "'arles slurm doctor' looks at what is wrong").failed()
        };
        let mut watch = Watch::new(&slurm_options(settings)).map_err(failed)?;
        let stop = catch_interrupts();
        let (began, from) = (Instant::now(), unix_seconds());
        watch.look(from).map_err(failed)?;
        remark(format_args!(
            "watching {} jobs for {}; nothing is changed, and Ctrl-C ends it",
            watch.jobs().len(),
            quantity::span(self.watch_seconds)
        ));
        let pause = Duration::from_secs_f64(settings.serve.slurm_poll_seconds);
        let until = Duration::from_secs_f64(self.watch_seconds);
        let mut lost = false;
        while began.elapsed() < until && !stop.load(Ordering::Relaxed) {
            let next = Instant::now() + pause.min(until.saturating_sub(began.elapsed()));
            while Instant::now() < next && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50).min(next.saturating_duration_since(Instant::now())));
            }
            // A controller that restarts is no reason to throw away what was seen.
            match watch.look(unix_seconds()) {
                Ok(()) => lost = false,
                Err(error) if !lost => {
                    remark(format_args!("{error}; it is asked again"));
                    lost = true;
                }
                Err(_) => {}
            }
        }
        Ok((watch, Window { from, until: unix_seconds() }))
    }
}

pub(in crate::commands) fn unix_seconds() -> u64 {
    (arles_daemon::clock::wall().0 / 1_000_000) as u64
}

pub(in crate::commands) fn table(compared: &Compared, names: &Names) -> Table {
    let mut table = Table::new(vec![
        Column::left("job", names.job),
        Column::left(names.tenant, names.tenant),
        Column::right("GPUs", "gpus"),
        Column::hidden("workload"),
        Column::left(names.on, names.kinds),
        Column::right("\nwaits", names.wait),
        Column::right("\ndone", names.completion),
        Column::left("arles\non", "arles_kinds"),
        Column::right("\nwaits", "arles_wait_seconds"),
        Column::right("\ndone", "arles_completion_seconds"),
        Column::hidden("arles_restarts"),
        Column::right("saved\ntime", "saved_seconds"),
        Column::right("\nWh", "saved_wh"),
    ]);
    let span = |seconds: Option<f64>| match seconds {
        Some(seconds) => output::Cell::number(quantity::span(seconds), seconds),
        None => "-".into(),
    };
    for row in &compared.jobs {
        let saved = row.saved_seconds.map_or_else(
            || "-".into(),
            |seconds| {
                let sign = if seconds <= -0.5 { "-" } else { "" };
                output::Cell::number(format!("{sign}{}", quantity::span(seconds.abs())), seconds)
            },
        );
        let energy = row.saved_wh.map_or_else(|| "-".into(), |wh| output::Cell::number(quantity::shown(wh, 3), wh));
        table.row(vec![
            row.slurm_job.as_str().into(),
            row.account.as_str().into(),
            row.gpus.into(),
            row.workload.as_str().into(),
            row.slurm_kinds.join("+").into(),
            span(Some(row.slurm_wait_seconds)),
            span(row.slurm_completion_seconds),
            row.arles_kinds.join("+").into(),
            span(row.arles_wait_seconds),
            span(row.arles_completion_seconds),
            row.arles_restarts.into(),
            saved,
            energy,
        ]);
    }
    table
}
