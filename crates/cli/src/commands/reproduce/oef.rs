//! OEF's experiments: those of [`arles_study::EXPERIMENTS`], each on every ground.

use super::{Done, Reproduce, ground_title};
use crate::cluster;
use crate::fault::remark;
use crate::progress::Progress;
use crate::settings::Settings;
use crate::setup::Setup;
use anyhow::{Result, anyhow};
use arles_core::allocate::PolicyEntry;
use arles_report::finding::ExperimentReport;
use arles_sim::scenario::Scenario;
use arles_study::{EXPERIMENTS, Experiment, Plan, Testbed, find_experiment};
use std::sync::Arc;
use std::time::Instant;

/// Names of the experiments, and whether each is about times of this machine.
pub(super) fn names() -> Vec<(&'static str, bool)> {
    EXPERIMENTS.iter().map(|experiment| (experiment.name, experiment.timed)).collect()
}

/// Twenty tenants of equal weight.
fn twenty_tenants() -> String {
    (1..=20).map(|i| format!("tenant-{i:02}:1")).collect::<Vec<_>>().join(",")
}

/// What this paper's experiments are made from, unless the user says otherwise.
pub(super) fn defaults(quick: bool) -> Vec<(&'static str, String)> {
    let (jobs, seeds) = if quick { ("80", "2") } else { ("400", "5") };
    vec![
        ("cluster.gpus", "v100:8,p100:8,k80:8".to_owned()),
        ("cluster.gpus-per-node", "4".to_owned()),
        ("simulation.round", "6m".to_owned()),
        ("simulation.drop-unfit", "true".to_owned()),
        ("generate.jobs", jobs.to_owned()),
        ("generate.tenants", twenty_tenants()),
        ("compare.seeds", seeds.to_owned()),
    ]
}

/// Does the experiments with these names.
pub(super) fn run(flags: &Reproduce, settings: &Settings, names: &[&'static str]) -> Result<Done> {
    let experiments: Vec<&'static Experiment> = names.iter().filter_map(|name| find_experiment(name)).collect();
    let stages = Stage::all(settings, &experiments)?;
    let mut chapters = Vec::new();
    for experiment in &experiments {
        for stage in stages.iter().take(if experiment.uses_testbed { stages.len() } else { 1 }) {
            chapters.extend(chapter(flags, experiment, stage, settings));
        }
    }
    Ok(Done {
        cluster: stages.first().map_or(String::new(), |stage| cluster::in_words(&stage.ground.cluster)),
        traces: stages.first().map_or(String::new(), |stage| stage.traces.clone()),
        chapters,
    })
}

/// Does one experiment on one ground; nothing, and a remark, where this build has none of its policies.
fn chapter(
    flags: &Reproduce,
    experiment: &'static Experiment,
    stage: &Stage,
    settings: &Settings,
) -> Option<ExperimentReport> {
    let chosen: Option<&[&'static PolicyEntry]> = settings.names("simulation.policies").then_some(&settings.policies);
    let (policies, absent) = experiment.policies.resolve(chosen);
    let missing = absent.join(", ");
    if policies.is_empty() {
        remark(format_args!("{}: left out, since this arles has no {missing}", experiment.name));
        return None;
    }
    if !absent.is_empty() {
        remark(format_args!("{}: without {missing}, which this arles does not have", experiment.name));
    }
    let label = if experiment.uses_testbed {
        format!("{}, {}", experiment.name, stage.ground.title)
    } else {
        experiment.name.into()
    };
    let bar = Progress::parts(&label);
    let begun = Instant::now();
    let finding = (experiment.run)(&Plan {
        testbed: &stage.ground,
        policies: &policies,
        seed: settings.seed,
        seeds: settings.seeds,
        quick: flags.quick,
        threads: super::threads(settings),
        scenarios: if experiment.uses_traces { &stage.scenarios } else { &[] },
        stopwatch: &|| begun.elapsed().as_secs_f64(),
        progress: &|part| bar.at_part(part),
    });
    drop(bar);
    Some(ExperimentReport {
        name: experiment.name,
        title: experiment.title,
        claim: experiment.claim,
        testbed: experiment.uses_testbed.then(|| stage.ground.title.clone()),
        command: flags.command(experiment.name),
        missing_policies: absent,
        finding,
    })
}

/// A ground with its traces.
struct Stage {
    ground: Testbed,
    scenarios: Vec<Scenario>,
    traces: String,
}

impl Stage {
    /// The built-in model and, where there is a table of rates, that as well.
    fn all(settings: &Settings, experiments: &[&Experiment]) -> Result<Vec<Self>> {
        let traced = experiments.iter().any(|experiment| experiment.uses_traces);
        let modelled = Settings { rates: None, ..settings.clone() };
        let mut stages = vec![Self::new(&modelled, &ground_title(None), traced)?];
        if let Some(path) = &settings.rates {
            stages.push(Self::new(settings, &ground_title(Some(path)), traced)?);
        }
        Ok(stages)
    }

    fn new(settings: &Settings, title: &str, traced: bool) -> Result<Self> {
        let setup = Setup::new(settings)?;
        let ground =
            Testbed::new(title, setup.cluster.clone(), setup.rates().cloned()).map_err(|e| anyhow!("{title}: {e}"))?;
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
