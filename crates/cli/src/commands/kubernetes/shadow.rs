//! `arles kubernetes shadow`: watches a live cluster, touches nothing, and says job by job what arles would have done.

use crate::commands::slurm::shadow::replay::{self, Window};
use crate::commands::slurm::shadow::{Names, table, unix_seconds};
use crate::engines::kubernetes_cluster;
use crate::fault::{EXIT_CODES, Hinted, remark};
use crate::interrupt::catch_interrupts;
use crate::output::{self, Format, OutputFlag};
use crate::quantity;
use crate::settings::{KUBERNETES_SHADOW, SettingFlags, Settings};
use anyhow::Result;
use arles_engine::kubernetes::Watch;
use arles_engine::kubernetes::tools::Cluster;
use arles_engine::slurm::WatchedRun;
use clap::Args;
use serde_json::Value;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time between two looks at what the watches have brought.
const PAUSE: Duration = Duration::from_secs(1);

const NAMES: Names = Names {
    system: "Kubernetes",
    on: "Kubernetes\non",
    job: "kubernetes_job",
    tenant: "tenant",
    kinds: "kubernetes_kinds",
    wait: "kubernetes_wait_seconds",
    completion: "kubernetes_completion_seconds",
};

/// Watch a Kubernetes cluster and report what arles would have done, and saved; touches nothing
///
/// Follows all pods with GPUs for a while, given to arles or not, and puts them together to jobs as arles would. Then the same jobs are run through the
/// scheduler on a simulated copy of the cluster, and every job is shown twice: as it was, and as it would have been. How fast jobs are on other
/// kinds, and what they draw, are estimates. Ctrl-C ends the watch early, and the report follows. It needs to list and watch pods, nodes, Jobs and namespaces.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Shadow {
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = quantity::positive_seconds)]
    watch_seconds: f64,
    #[command(flatten)]
    flags: SettingFlags<KUBERNETES_SHADOW>,
    #[command(flatten)]
    output: OutputFlag,
}

impl Shadow {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let settings = self.flags.settings()?;
        let cluster = kubernetes_cluster(&settings)?;
        let (watch, window) = self.watch(&settings)?;
        let mut jobs = watch.jobs();
        let ended_before = |run: &WatchedRun| run.ended.is_some_and(|ended| ended <= window.from);
        jobs.retain(|job| !(job.over && job.runs.iter().all(ended_before)));
        if !jobs.iter().any(|job| !job.runs.is_empty()) {
            let hint = "watch for longer with --for, or while pods run";
            let sentence = format!("no pod with GPUs ran while {} jobs were watched", jobs.len());
            return Err(Hinted::new(sentence, hint).failed().into());
        }
        let compared = replay::compare(&settings, cluster, &jobs, window)?;
        let record = renamed(serde_json::to_value(&compared)?);
        output::print(out, self.output.output, &table(&compared, &NAMES), &record)?;
        if self.output.output == Format::Table {
            output::paragraph(out, &compared.in_words(NAMES.system))?;
        }
        Ok(())
    }

    /// Follows the pods until the time is over or somebody interrupts.
    fn watch(&self, settings: &Settings) -> Result<(Watch, Window)> {
        let failed = |error: arles_core::engine::EngineError| {
            Hinted::new(error.to_string(), "'arles kubernetes doctor' looks at what is wrong").failed()
        };
        let serve = &settings.serve;
        let there = Cluster::open(serve.kubeconfig.as_deref()).map_err(failed)?;
        let mut watch = Watch::new(there, serve.kubernetes_namespaces.clone());
        let stop = catch_interrupts();
        let (began, from) = (Instant::now(), unix_seconds());
        watch.look(from).map_err(failed)?;
        let (count, span) = (watch.jobs().len(), quantity::span(self.watch_seconds));
        remark(format_args!("watching {count} jobs for {span}; nothing is changed, and Ctrl-C ends it"));
        let until = Duration::from_secs_f64(self.watch_seconds);
        while began.elapsed() < until && !stop.load(Ordering::Relaxed) {
            let next = Instant::now() + PAUSE.min(until.saturating_sub(began.elapsed()));
            while Instant::now() < next && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50).min(next.saturating_duration_since(Instant::now())));
            }
            // A server that restarts is no reason to throw away what was seen.
            if let Err(error) = watch.look(unix_seconds()) {
                remark(format_args!("{error}; it is asked again"));
            }
        }
        Ok((watch, Window { from, until: unix_seconds() }))
    }
}

/// The record with this system's names for its own side.
fn renamed(value: Value) -> Value {
    let key = |key: String| match key.strip_prefix("slurm_") {
        Some(rest) => format!("kubernetes_{rest}"),
        None if key == "account" => NAMES.tenant.to_owned(),
        None => key,
    };
    match value {
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (key(name), renamed(value))).collect(),
        Value::Array(items) => items.into_iter().map(renamed).collect(),
        other => other,
    }
}
