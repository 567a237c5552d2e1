//! What was seen of Slurm's jobs, run through the scheduler.
//!
//! A job's work is what it did while it was watched: its time on the GPUs that it had, at the rate that it has there by the performance
//! model. So on the same kind it takes as long as it took, and on others what the model says. Everything is cut to the window of the watch: jobs
//! that were there when it began arrive at that moment, with the work that they did from then on.

use crate::quantity;
use crate::settings::Settings;
use anyhow::{Result, anyhow};
use arles_core::{Cluster, KindId, Library, Spread, Tenant, WorkloadId};
use arles_engine::slurm::{WatchedJob, WatchedRun};
use arles_report::record::{JobRecord, RunRecord};
use arles_sim::rng::Rng;
use arles_sim::scenario::{Options, RunHooks, Scenario};
use arles_sim::trace::{Length, Trace, TraceJob};
use arles_sim::truth::Truth;
use arles_sim::world::WorldOptions;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// From when until when was watched, in Unix seconds.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Window {
    pub(in crate::commands) from: u64,
    pub(in crate::commands) until: u64,
}

/// A job as it was under Slurm and as it would have been.
#[derive(Serialize)]
pub(in crate::commands) struct ComparedJob {
    pub(in crate::commands) slurm_job: String,
    pub(in crate::commands) account: String,
    pub(in crate::commands) gpus: u32,
    pub(in crate::commands) workload: String,
    pub(in crate::commands) slurm_kinds: Vec<String>,
    pub(in crate::commands) slurm_wait_seconds: f64,
    /// From its submission, or the begin of the watch, to its end; nothing for one that still ran.
    pub(in crate::commands) slurm_completion_seconds: Option<f64>,
    slurm_joules_estimated: f64,
    pub(in crate::commands) arles_kinds: Vec<String>,
    pub(in crate::commands) arles_wait_seconds: Option<f64>,
    pub(in crate::commands) arles_completion_seconds: Option<f64>,
    pub(in crate::commands) arles_restarts: u32,
    arles_joules_estimated: f64,
    pub(in crate::commands) saved_seconds: Option<f64>,
    pub(in crate::commands) saved_wh: Option<f64>,
}

/// What the report says.
#[derive(Serialize)]
pub(in crate::commands) struct Compared {
    policy: String,
    watched_seconds: u64,
    pub(in crate::commands) jobs: Vec<ComparedJob>,
    /// Jobs that never ran while they were watched, so that nobody knows how long they are.
    never_ran: usize,
    /// Jobs on GPUs of unknown kinds, or that fit nowhere by the model.
    left_out: usize,
    /// Jobs that do not say what they run: their workloads are drawn from a mix.
    workloads_drawn: usize,
    energy: &'static str,
}

impl Compared {
    /// The sums, in sentences.
    pub(in crate::commands) fn in_words(&self, system: &str) -> String {
        let over: Vec<&ComparedJob> = self.jobs.iter().filter(|job| job.saved_seconds.is_some()).collect();
        let mean = |time: fn(&ComparedJob) -> Option<f64>| {
            over.iter().filter_map(|job| time(job)).sum::<f64>() / over.len().max(1) as f64
        };
        let (slurm, arles) = (mean(|job| job.slurm_completion_seconds), mean(|job| job.arles_completion_seconds));
        let joules = |of: fn(&ComparedJob) -> f64| self.jobs.iter().map(of).sum::<f64>();
        let (drawn, would_draw) = (joules(|job| job.slurm_joules_estimated), joules(|job| job.arles_joules_estimated));
        let change = |before: f64, after: f64| format!("{:+.1} %", 100.0 * (after / before.max(1e-9) - 1.0));
        let mut text = format!(
            "{} jobs were over within {}: mean completion time {} under {system}, {} under {} ({}). All jobs together: {} kWh, {} kWh ({}), \
             both estimated. Nothing was changed in {system}.",
            over.len(),
            quantity::span(self.watched_seconds as f64),
            quantity::span(slurm),
            quantity::span(arles),
            self.policy,
            change(slurm, arles),
            quantity::kwh(drawn),
            quantity::kwh(would_draw),
            change(drawn, would_draw),
        );
        let mut add = |count: usize, what: &str| {
            if count > 0 {
                text.push_str(&format!(" {count} {what}."));
            }
        };
        add(self.workloads_drawn, "jobs do not say what they run: their workloads are drawn from a mix (--workloads)");
        add(self.jobs.len() - over.len(), "jobs still ran: they count with what they did so far");
        add(self.never_ran, "jobs never ran while they were watched, and are left out");
        add(self.left_out, "jobs ran on GPUs of no known kind, or fit nowhere by the model, and are left out");
        text
    }
}

/// A job that can be replayed.
struct Played<'j> {
    job: &'j WatchedJob,
    /// Its runs within the window.
    runs: Vec<(u64, u64, KindId)>,
    arrival: u64,
    workload: u32,
    steps: f64,
    joules: f64,
}

/// Runs what was seen through the scheduler under the policy of the settings.
pub(in crate::commands) fn compare(
    settings: &Settings,
    cluster: Cluster,
    jobs: &[&WatchedJob],
    window: Window,
) -> Result<Compared> {
    let (workloads, chosen, workloads_drawn) = workloads(settings, jobs);
    let truth = Truth::new(cluster.kinds(), &workloads, None)?;
    let mut never_ran = 0;
    let mut played = Vec::new();
    for (job, &workload) in jobs.iter().zip(&chosen) {
        if job.runs.is_empty() {
            never_ran += 1;
            continue;
        }
        played.extend(play(&cluster, &truth, job, workload, window));
    }
    let left_out = jobs.len() - never_ran - played.len();
    if played.is_empty() {
        return Err(anyhow!(
            "no job that was watched ran on GPUs of a known kind; 'doctor' instead of 'shadow' looks at the nodes"
        ));
    }
    played.sort_by_key(|played| played.arrival);
    let serve = &settings.serve;
    let options = Options {
        round_seconds: serve.round_seconds,
        restart_seconds: serve.restart_seconds,
        world_options: WorldOptions {
            start_seconds: settings.start_seconds,
            checkpoint_seconds: settings.checkpoint_seconds,
            ..WorldOptions::default()
        },
        drop_unfit: true,
        ..Options::default()
    };
    let names: Vec<String> =
        (0..cluster.nodes().len()).map(|node| cluster.kind(cluster.nodes()[node].kind).name.clone()).collect();
    let kind_of_gpu: Vec<String> =
        (0..cluster.gpus() as u32).map(|gpu| names[cluster.node_of(arles_core::GpuId(gpu)).index()].clone()).collect();
    let kinds = cluster.kinds().to_vec();
    let scenario = Scenario::new(cluster, Arc::new(trace(&played, workloads.clone(), window)), None, options)?;
    let record = scenario.run(serve.policy, RunHooks::default(), &mut |_| {})?;
    let rows = played.iter().enumerate().map(|(number, played)| {
        let found = record.jobs.iter().find(|job| job.id == number as u64);
        let kinds_held: BTreeSet<&str> =
            played.runs.iter().map(|(.., kind)| kinds[kind.index()].name.as_str()).collect();
        row(played, found, &workloads[played.workload as usize], kinds_held, used(&record, number as u64, &kind_of_gpu))
    });
    Ok(Compared {
        policy: serve.policy.name.to_owned(),
        watched_seconds: window.until - window.from,
        jobs: rows.collect(),
        never_ran,
        left_out,
        workloads_drawn,
        energy: "estimated, by the performance model, on both sides",
    })
}

/// Names of workloads, which of them each job runs, and how many jobs do not say.
fn workloads(settings: &Settings, jobs: &[&WatchedJob]) -> (Vec<String>, Vec<u32>, usize) {
    let mut rng = Rng::new(settings.seed).fork("shadow workloads");
    let (mut names, mut chosen, mut drawn): (Vec<String>, Vec<u32>, usize) = (Vec::new(), Vec::new(), 0);
    for job in jobs {
        let said = job.wishes.workload.as_deref().or(Some(&job.name));
        let known = said.and_then(|name| Library::builtin().workload(name).ok()).map(|workload| workload.name.clone());
        let name = known.unwrap_or_else(|| {
            drawn += usize::from(!job.runs.is_empty());
            settings.import.workloads.draw(&mut rng).clone()
        });
        let at = names.iter().position(|other| *other == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        chosen.push(at as u32);
    }
    (names, chosen, drawn)
}

/// What a job did within the window; nothing if it cannot be told.
fn play<'j>(
    cluster: &Cluster,
    truth: &Truth,
    job: &'j WatchedJob,
    workload: u32,
    window: Window,
) -> Option<Played<'j>> {
    let pace = truth.alone(WorkloadId(workload), job.gang);
    let (mut runs, mut steps, mut joules) = (Vec::new(), 0.0, 0.0);
    for run in &job.runs {
        let kind = kind_of(cluster, run)?;
        let (from, until) = (run.started.max(window.from), run.ended.unwrap_or(window.until).min(window.until));
        if until <= from {
            continue;
        }
        let spread = if run.nodes.len() > 1 { Spread::Nodes } else { Spread::Packed };
        let at = Spread::ALL.iter().position(|level| *level == spread).unwrap_or(0);
        let pace = pace[kind.index()]?[at];
        let seconds = (until - from) as f64;
        steps += seconds * pace.rate;
        joules += seconds * pace.watts * f64::from(job.gang);
        runs.push((from, until, kind));
    }
    let arrival = job.submitted.clamp(window.from, window.until);
    (steps > 0.0).then_some(Played { job, runs, arrival, workload, steps, joules })
}

fn kind_of(cluster: &Cluster, run: &WatchedRun) -> Option<KindId> {
    let name = run.nodes.first()?;
    cluster.present().find(|(_, node)| node.name == *name).map(|(_, node)| node.kind)
}

fn trace(played: &[Played<'_>], workloads: Vec<String>, window: Window) -> Trace {
    let (mut tenants, mut kinds): (Vec<Tenant>, Vec<String>) = (Vec::new(), Vec::new());
    let mut jobs = Vec::new();
    for (number, played) in played.iter().enumerate() {
        let job = played.job;
        let tenant = tenants.iter().position(|tenant| tenant.name == job.account).unwrap_or_else(|| {
            tenants.push(Tenant { name: job.account.clone(), weight: 1.0 });
            tenants.len() - 1
        });
        let wanted = if job.wishes.kinds.is_empty() { job.kinds.clone() } else { job.wishes.kinds.clone() };
        let wanted = wanted.into_iter().filter_map(|name| Library::builtin().kind(&name).ok());
        let wanted = wanted.map(|kind| {
            kinds.iter().position(|name| *name == kind.name).unwrap_or_else(|| {
                kinds.push(kind.name.clone());
                kinds.len() - 1
            }) as u16
        });
        jobs.push(TraceJob {
            id: number as u64,
            tenant: tenant as u32,
            workload: played.workload,
            gang: job.gang,
            arrival_seconds: (played.arrival - window.from) as f64,
            length: Length::Steps(played.steps),
            floor: None,
            weight: job.wishes.weight.filter(|weight| *weight > 0.0).unwrap_or(1.0),
            restart_seconds: job.wishes.restart_seconds.filter(|seconds| *seconds >= 0.0),
            before_seconds: None,
            largest_gang: None,
            kinds: wanted.collect(),
        });
    }
    Trace { tenants, workloads, kinds, jobs }
}

/// Kinds that a job had in the simulation, as far as its GPUs are on record.
fn used(record: &RunRecord, job: u64, kind_of_gpu: &[String]) -> Vec<String> {
    let spans = record.gantt.iter().filter(|span| span.job == job);
    let kinds: BTreeSet<&String> = spans.map(|span| &kind_of_gpu[span.gpu as usize]).collect();
    kinds.into_iter().cloned().collect()
}

fn row(
    played: &Played<'_>,
    simulated: Option<&JobRecord>,
    workload: &str,
    slurm_kinds: BTreeSet<&str>,
    arles_kinds: Vec<String>,
) -> ComparedJob {
    let after = |moment: u64| moment.saturating_sub(played.arrival) as f64;
    let slurm_end = played.job.over.then(|| played.runs.last().map(|(_, until, _)| after(*until))).flatten();
    let arles_end = simulated.and_then(|job| Some(job.end_seconds? - job.arrival_seconds));
    let arles_joules = simulated.map_or(0.0, |job| job.active_joules + job.idle_joules + job.restart_joules);
    let saved_seconds = slurm_end.zip(arles_end).map(|(slurm, arles)| slurm - arles);
    ComparedJob {
        slurm_job: played.job.slurm.clone(),
        account: played.job.account.clone(),
        gpus: played.job.gang,
        workload: workload.to_owned(),
        slurm_kinds: slurm_kinds.into_iter().map(str::to_owned).collect(),
        slurm_wait_seconds: played.runs.first().map_or(0.0, |(from, ..)| after(*from)),
        slurm_completion_seconds: slurm_end,
        slurm_joules_estimated: played.joules,
        arles_kinds,
        arles_wait_seconds: simulated.and_then(|job| Some(job.start_seconds? - job.arrival_seconds)),
        arles_completion_seconds: arles_end,
        arles_restarts: simulated.map_or(0, |job| job.restarts),
        arles_joules_estimated: arles_joules,
        saved_seconds,
        saved_wh: simulated.map(|_| (played.joules - arles_joules) / 3600.0),
    }
}
