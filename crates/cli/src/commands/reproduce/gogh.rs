//! GOGH's experiments: the field of [`arles_study::gogh`] made from settings, and estimators to play on it.
//!
//! **What estimators know.** The catalog that they are made from holds measurements of published workloads that no job of the traces
//! runs: other batch sizes of most models, nothing at all of some. Host times of workloads are withheld as in `arles learn eval`,
//! since those of published workloads were set with their rates in mind.

mod estimates;
mod known;
mod tutors;

use super::{Done, Reproduce, ground_title};
use crate::cluster;
use crate::estimation::Estimation;
use crate::fault::remark;
use crate::progress::Progress;
use crate::settings::Settings;
use crate::setup::Setup;
use anyhow::{Result, anyhow};
use arles_core::allocate::{PolicyEntry, find_policy};
use arles_report::finding::{ExperimentReport, Finding};
use arles_sim::scenario::Scenario;
use arles_study::gogh::{self, Candidate, GOGH, GoghSetup, Load, ORACLE, RIVALS, Runs, TOPICS, Topic, UNUSED_GPUS};
use arles_study::{Plan, Testbed};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tutors::Tutor;

/// Names of the experiments, and whether each is about times of this machine.
pub(super) fn names() -> Vec<(&'static str, bool)> {
    TOPICS.iter().map(|topic| (topic.name, topic.timed)).collect()
}

/// What the jobs run. Of CycleGAN and A3C there is only one batch size, so nothing like them was ever measured.
const WORKLOADS: &str = "ResNet-18 (batch size 32):1,ResNet-18 (batch size 128):1,ResNet-50 (batch size 32):1,\
    Transformer (batch size 16):1,Transformer (batch size 128):1,LM (batch size 10):1,LM (batch size 80):1,\
    Recommendation (batch size 1024):1,Recommendation (batch size 8192):1,CycleGAN:1,A3C:1";

/// The cluster of the built-in world unless the user names one: kinds of five generations, some of them slow and frugal.
const MIXED: &str = "a100:4,v100:8,t4:8,p100:4,k80:4";
/// That of a measured table: the kinds of Gavel's.
const MEASURED: &str = "v100:8,p100:8,k80:8";

/// Loads that are offered unless the user names one.
const LOADS: [f64; 3] = [0.3, 0.6, 0.9];

/// Stands in for the policy under test where this build does not have it.
const STAND_IN: &str = "energy-greedy";

/// Many short jobs, all with a promised rate, so that the load is the same most of the time and no long job rules the end.
pub(super) fn defaults(quick: bool) -> Vec<(&'static str, String)> {
    let (jobs, seeds, load) = if quick { ("60", "2", "0.6") } else { ("200", "5", "") };
    let settings = [
        ("cluster.gpus", MIXED),
        ("cluster.gpus-per-node", "4"),
        ("simulation.round", "10m"),
        ("simulation.restart", "1m"),
        ("simulation.drop-unfit", "true"),
        ("simulation.deviation", "0.1"),
        ("generate.jobs", jobs),
        ("generate.load", load),
        ("generate.mean", "2h"),
        ("generate.sigma", "1"),
        ("generate.tail", "0"),
        ("generate.cap", "12h"),
        ("generate.gangs", "1:92,2:6,4:2"),
        ("generate.workloads", WORKLOADS),
        ("generate.floors", "0.3:1,0.4:1,0.5:1,0.6:1"),
        ("generate.inference", "0.1"),
        ("generate.inference-floors", "0.3:1,0.4:1,0.5:1"),
        ("compare.seeds", seeds),
    ];
    settings.into_iter().map(|(key, value)| (key, value.to_owned())).collect()
}

/// Does the experiments with these names.
pub(super) fn run(flags: &Reproduce, settings: &Settings, names: &[&'static str]) -> Result<Done> {
    let modelled = Settings { rates: None, ..settings.clone() };
    let mut stages = vec![Stage::new(flags, &modelled, names)?];
    let mut measured = settings.clone();
    if !settings.names("cluster.gpus") {
        measured.put("cluster.gpus", MEASURED, "the defaults of this command")?;
    }
    if measured.rates.is_some() {
        stages.push(Stage::new(flags, &measured, names)?);
    }
    stages[0].absences().into_iter().for_each(|sentence| remark(format_args!("{sentence}")));
    let mut kept: Vec<Option<Runs>> = stages.iter().map(|_| None).collect();
    let mut chapters = Vec::new();
    for topic in names.iter().filter_map(|name| TOPICS.iter().find(|topic| topic.name == *name)) {
        for (stage, runs) in stages.iter().zip(&mut kept) {
            let finding = stage.finding(flags, topic, runs)?;
            chapters.push(ExperimentReport {
                name: topic.name,
                title: topic.title,
                claim: topic.claim,
                testbed: Some(stage.ground.title.clone()),
                command: flags.command(topic.name),
                missing_policies: Vec::new(),
                finding,
            });
        }
    }
    Ok(Done { cluster: cluster::in_words(&stages[0].ground.cluster), traces: stages[0].traces.clone(), chapters })
}

/// A ground with its traces and the estimators made for them.
struct Stage<'s> {
    settings: &'s Settings,
    ground: Testbed,
    loads: Vec<Load>,
    sizes: Vec<(String, Scenario)>,
    /// The policy under test, if any.
    tested: Option<&'static PolicyEntry>,
    rivals: Vec<&'static PolicyEntry>,
    tutors: Vec<Tutor>,
    /// Names that this build does not have.
    absent: Vec<&'static str>,
    traces: String,
}

impl<'s> Stage<'s> {
    fn new(flags: &Reproduce, settings: &'s Settings, names: &[&str]) -> Result<Self> {
        let title = ground_title(settings.rates.as_deref().map(Path::new));
        let setup = Setup::new(settings)?;
        let ground =
            Testbed::new(&title, setup.cluster.clone(), setup.rates().cloned()).map_err(|e| anyhow!("{title}: {e}"))?;
        let named = settings.names("simulation.policies").then_some(&settings.policies[..]);
        let (tested, rivals, mut absent) = lineup(named);
        let mut stage = Self {
            settings,
            ground,
            loads: Vec::new(),
            sizes: Vec::new(),
            tested,
            rivals,
            tutors: Vec::new(),
            absent: Vec::new(),
            traces: String::new(),
        };
        let wants = |some: &[&str]| names.iter().any(|name| some.contains(name));
        if wants(&["energy", "learning", "co-location"]) {
            stage.loads = loads(settings)?;
            if let Some([first, _]) = stage.loads.first().and_then(|load| load.scenarios.first()) {
                stage.traces = setup.trace_in_words(first.trace());
                let only = match settings.estimator {
                    Estimation::Oracle => None,
                    Estimation::Learned(entry) => Some(entry),
                };
                let known = known::known(&setup, first)?;
                (stage.tutors, absent) = tutors::all(only, &known, settings.seed, absent)?;
            }
        }
        if wants(&["program"]) {
            stage.sizes = sizes(settings, flags.quick)?;
        }
        stage.absent = absent;
        Ok(stage)
    }

    /// Sentences about what this build does not have.
    fn absences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if !self.absent.is_empty() {
            sentences.push(format!("without {}, which this arles does not have", self.absent.join(", ")));
        }
        if let Some(tested) = self.tested.filter(|_| self.absent.contains(&GOGH)) {
            sentences.push(format!("{} stands in for {GOGH}", tested.name));
        }
        sentences
    }

    fn finding(&self, flags: &Reproduce, topic: &Topic, runs: &mut Option<Runs>) -> Result<Finding> {
        let bar = Progress::parts(&format!("{}, {}", topic.name, self.ground.title));
        let begun = Instant::now();
        let plan = Plan {
            testbed: &self.ground,
            policies: &self.rivals,
            seed: self.settings.seed,
            seeds: self.settings.seeds,
            quick: flags.quick,
            threads: super::threads(self.settings),
            scenarios: &[],
            stopwatch: &|| begun.elapsed().as_secs_f64(),
            progress: &|part| bar.at_part(part),
        };
        let contenders = self.contenders();
        let field = GoghSetup {
            plan: &plan,
            tested: self.tested.map_or("", |policy| policy.name),
            candidates: &contenders,
            loads: &self.loads,
            noise: self.settings.noise,
            sizes: &self.sizes,
        };
        let mut finding = match topic.name {
            "estimates" => estimates::finding(self.settings, &plan)?,
            "energy" => gogh::energy(&field, runs.get_or_insert_with(|| gogh::runs(&field))),
            "learning" => gogh::learning(&field, runs.get_or_insert_with(|| gogh::runs(&field))),
            "co-location" => gogh::colocation(&field),
            _ => gogh::program(&field),
        };
        if topic.name != "estimates" {
            self.absences().into_iter().for_each(|sentence| finding.warn(sentence));
        }
        Ok(finding)
    }

    /// Rivals, then the policy under test with true rates and with every estimator.
    fn contenders(&self) -> Vec<Candidate<'_>> {
        let told = |policy| Candidate { policy, estimator: ORACLE, make: None };
        let mut contenders: Vec<Candidate<'_>> = self.rivals.iter().copied().map(told).collect();
        if let Some(policy) = self.tested {
            contenders.push(told(policy));
            for tutor in &self.tutors {
                contenders.push(Candidate { policy, estimator: tutor.name, make: Some(tutor.fresh.as_ref()) });
            }
        }
        contenders
    }
}

/// The policy under test, its rivals, and the names that this build does not have.
fn lineup(
    named: Option<&[&'static PolicyEntry]>,
) -> (Option<&'static PolicyEntry>, Vec<&'static PolicyEntry>, Vec<&'static str>) {
    if let Some(named) = named {
        let tested = named.iter().find(|p| p.name == GOGH).or(named.iter().find(|p| p.energy_aware)).copied();
        let rivals = named.iter().copied().filter(|p| tested.is_none_or(|tested| tested.name != p.name)).collect();
        return (tested, rivals, Vec::new());
    }
    let tested = find_policy(GOGH).or(find_policy(STAND_IN));
    let absent = RIVALS.iter().chain([&GOGH]).copied().filter(|name| find_policy(name).is_none()).collect();
    let rivals = RIVALS.iter().filter_map(|name| find_policy(name));
    (tested, rivals.filter(|p| tested.is_none_or(|tested| tested.name != p.name)).collect(), absent)
}

/// The traces of every load and seed, with unused GPUs off and on. A trace from a file has the load that it has.
fn loads(settings: &Settings) -> Result<Vec<Load>> {
    let offered: Vec<Option<f64>> = match (&settings.trace, settings.load) {
        (Some(_), _) => vec![None],
        (None, Some(load)) => vec![Some(load)],
        (None, None) => LOADS.map(Some).to_vec(),
    };
    let mut loads = Vec::new();
    for load in offered {
        let habits = UNUSED_GPUS.map(|habit| Settings { load, unused_off: habit == "off", ..settings.clone() });
        let [off, on] = [Setup::new(&habits[0])?, Setup::new(&habits[1])?];
        let mut scenarios: Vec<[Scenario; 2]> = Vec::new();
        for seed in (0..settings.seeds).map(|i| settings.seed.wrapping_add(i)) {
            let trace = Arc::new(off.trace(seed)?.trace);
            // A trace that is the same for every seed is worth one run.
            if scenarios.last().is_some_and(|[last, _]| last.trace() == trace.as_ref()) {
                break;
            }
            scenarios.push([off.scenario(Arc::clone(&trace), true)?, on.scenario(trace, true)?]);
        }
        let title = load.map_or("the trace".to_owned(), |load| format!("load {load}"));
        loads.push(Load { title, scenarios });
    }
    Ok(loads)
}

/// Kinds that are added for the widest problem; measured tables do not have them.
const MORE_KINDS: &str = "t4:16,a100-40gb:16,l4:16";

/// Clusters of growing size, two jobs to a GPU, all there from the beginning.
fn sizes(settings: &Settings, quick: bool) -> Result<Vec<(String, Scenario)>> {
    let times: &[u32] = if quick { &[1, 2] } else { &[1, 4, 16] };
    let mut clusters: Vec<cluster::Counts> = Vec::new();
    for times in times {
        clusters.push(settings.gpus.iter().map(|(name, n)| (name.clone(), n.saturating_mul(*times))).collect());
    }
    if settings.rates.is_none() && !quick {
        let more = cluster::counts(MORE_KINDS).map_err(|e| anyhow!(e))?;
        let here = |name: &str| settings.gpus.iter().any(|(known, _)| known == name);
        let wide = settings.gpus.iter().map(|(name, _)| (name.clone(), 16));
        clusters.push(wide.chain(more.into_iter().filter(|(name, _)| !here(name))).collect());
    }
    let mut sizes = Vec::new();
    for gpus in clusters {
        let all: u32 = gpus.iter().map(|(_, n)| n).fold(0, |sum, n| sum.saturating_add(*n));
        let kinds = gpus.iter().filter(|(_, n)| *n > 0).count();
        let mut own = Settings { gpus, trace: None, load: None, unused_off: true, ..settings.clone() };
        own.put("generate.arrivals", "at-once", "the defaults of this command")?;
        own.put("generate.jobs", &(2 * u64::from(all)).to_string(), "the defaults of this command")?;
        let setup = Setup::new(&own)?;
        let trace = Arc::new(setup.trace(settings.seed)?.trace);
        sizes.push((format!("{all} GPUs of {kinds} kinds"), setup.scenario(trace, false)?));
    }
    Ok(sizes)
}
