//! `arles kubernetes`: what an operator of a Kubernetes cluster does besides `arles serve --engine kubernetes`.

mod doctor;
mod shadow;
mod webhook;

use crate::fault::{EXIT_CODES, Failed, Hinted, remark};
use crate::output::{self, Column, OutputFlag, Table};
use crate::settings::{KUBERNETES, SettingFlags};
use anyhow::Result;
use arles_engine::kubernetes::tools::Cluster;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::io::Write;

/// Check or watch a Kubernetes cluster, give its pods back
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Kubernetes {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Doctor(doctor::Doctor),
    Shadow(shadow::Shadow),
    Release(Release),
    Webhook(webhook::Webhook),
}

impl Kubernetes {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.action {
            Action::Doctor(doctor) => doctor.run(out),
            Action::Shadow(shadow) => shadow.run(out),
            Action::Release(release) => release.run(out),
            Action::Webhook(webhook) => webhook.run(out),
        }
    }
}

/// Give all pods back to Kubernetes: the way back in one command
///
/// Gates of waiting pods are removed, and the default scheduler takes over. Pods that wait for arles by their scheduler's name are bound where they
/// fit first; those that fit nowhere now are listed, and the command can be run again. Pods that run go on. A daemon that still runs never takes any
/// of them again. It needs the rights of arles' service account, and no daemon.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
struct Release {
    /// Show which pods would be given back
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    flags: SettingFlags<KUBERNETES>,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Serialize)]
struct ReleasedPod {
    pod: String,
    outcome: &'static str,
    why: String,
}

impl Release {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let serve = self.flags.settings()?.serve;
        let hint = "run it where kubectl works, as a user who may change pods";
        let failed = |error: arles_core::engine::EngineError| Hinted::new(error.to_string(), hint).failed();
        let there = Cluster::open(serve.kubeconfig.as_deref()).map_err(failed)?;
        let done = there.release(&serve.kubernetes_scheduler, self.dry_run).map_err(failed)?;
        let row = |outcome| move |pod| ReleasedPod { pod, outcome, why: String::new() };
        let mut rows: Vec<ReleasedPod> = done.waiting.into_iter().map(row("does not wait for arles")).collect();
        rows.extend(done.running.into_iter().map(row("goes on running")));
        let failed = done.failed.len();
        rows.extend(done.failed.into_iter().map(|(pod, why)| ReleasedPod { pod, outcome: "still waits", why }));
        let mut table = Table::new(vec![
            Column::left("pod", "pod"),
            Column::left("outcome", "outcome"),
            Column::prose("why", "why"),
        ]);
        for row in &rows {
            table.row(vec![row.pod.as_str().into(), row.outcome.into(), row.why.as_str().into()]);
        }
        output::print(out, self.output.output, &table, &rows)?;
        match (failed, self.dry_run) {
            (0, true) => remark(format_args!("{} pods would be given back; nothing was changed", rows.len())),
            (0, false) => remark(format_args!("{} pods were given back to Kubernetes", rows.len())),
            (failed, _) => return Err(Failed(format!("{failed} of {} pods were not given back", rows.len())).into()),
        }
        Ok(())
    }
}
