//! `arles slurm`: what an operator of a Slurm cluster does besides `arles serve --engine slurm`.

mod doctor;
pub(super) mod shadow;

use super::import::Import;
use crate::fault::{EXIT_CODES, Failed, Hinted, remark};
use crate::output::{self, Column, OutputFlag, Table};
use crate::quantity;
use anyhow::Result;
use arles_engine::slurm::tools;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Check or watch a Slurm cluster, give its jobs back, import its accounting
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Slurm {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Doctor(doctor::Doctor),
    Shadow(shadow::Shadow),
    Release(Release),
    Import(Import),
}

impl Slurm {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.action {
            Action::Doctor(doctor) => doctor.run(out),
            Action::Shadow(shadow) => shadow.run(out),
            Action::Release(release) => release.run(out),
            Action::Import(import) => import.run(out),
        }
    }
}

/// Give all jobs back to Slurm: the way back in one command
///
/// Jobs that wait are released, without the place that arles chose. Jobs that run go on. A daemon that still runs never takes any of them
/// again. It needs the rights of a Slurm operator, and no daemon.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
struct Release {
    /// Show which jobs would be given back
    #[arg(long)]
    dry_run: bool,
    /// Only if the daemon of --state has not been seen for this long: for a timer, so that no job waits for a daemon that is gone
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_seconds)]
    if_silent: Option<f64>,
    /// State directory of the daemon
    #[arg(long, value_name = "FOLDER", default_value = "arles-state")]
    state: PathBuf,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Serialize)]
struct ReleasedJob {
    slurm_job: String,
    outcome: &'static str,
    why: String,
}

impl Release {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        if let Some(limit) = self.if_silent {
            let silent = silent_seconds(&self.state)?;
            if silent < limit {
                remark(format_args!("the daemon was seen {silent:.0} s ago; nothing was released"));
                return Ok(());
            }
        }
        let hint = "run it where Slurm's commands work, as a user who may operate Slurm";
        let done =
            tools::release_all(None, self.dry_run).map_err(|error| Hinted::new(error.to_string(), hint).failed())?;
        let row = |outcome| move |slurm_job| ReleasedJob { slurm_job, outcome, why: String::new() };
        let mut rows: Vec<ReleasedJob> = done.waiting.into_iter().map(row("waits in Slurm's queue")).collect();
        rows.extend(done.running.into_iter().map(row("goes on running")));
        let failed = done.failed.len();
        rows.extend(done.failed.into_iter().map(|(slurm_job, why)| ReleasedJob {
            slurm_job,
            outcome: "not released",
            why,
        }));
        let mut table = Table::new(vec![
            Column::left("job", "slurm_job"),
            Column::left("outcome", "outcome"),
            Column::prose("why", "why"),
        ]);
        for row in &rows {
            table.row(vec![row.slurm_job.as_str().into(), row.outcome.into(), row.why.as_str().into()]);
        }
        output::print(out, self.output.output, &table, &rows)?;
        match (failed, self.dry_run) {
            (0, true) => remark(format_args!("{} jobs would be given back; nothing was changed", rows.len())),
            (0, false) => remark(format_args!("{} jobs were given back to Slurm", rows.len())),
            (failed, _) => return Err(Failed(format!("{failed} of {} jobs were not given back", rows.len())).into()),
        }
        Ok(())
    }
}

/// How long ago the daemon of a state folder last reached Slurm.
fn silent_seconds(state: &std::path::Path) -> Result<f64> {
    let path = state.join("slurm").join("last-look");
    let seen = std::fs::metadata(&path).and_then(|meta| meta.modified());
    let seen = seen.map_err(|error| {
        let sentence = format!("when the daemon was last seen cannot be read from {}: {error}", path.display());
        Hinted::new(sentence, "name the daemon's folder with --state, or leave --if-silent out")
    })?;
    Ok(seen.elapsed().map_or(0.0, |span| span.as_secs_f64()))
}
