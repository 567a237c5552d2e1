//! GOGH's experiments: what learning rates and packing jobs saves in energy, and how near it comes to knowing everything.
//!
//! A [`GoghSetup`] is what they stand on: traces at several loads, each with unused GPUs left on and switched off, and the
//! [`Candidate`]s, a policy each and whoever tells it how fast everything is. Estimators come from outside: this crate knows
//! only that they can be asked and told. Where none is given, the policy is told the truth.
//!
//! [`runs`] does every run once; [`energy`] and [`learning`] tell of the same runs. [`colocation`] looks into an estimator
//! before and after a run, and [`program`] times the policy on problems as they come up in runs.

mod allocation;
mod colocation;
mod energy;
mod learning;
mod program;
mod runs;
mod unrefined;

pub use colocation::colocation;
pub use energy::energy;
pub use learning::learning;
pub use program::program;
pub use runs::{Runs, runs};
pub use unrefined::Unrefined;

use super::Plan;
use arles_core::allocate::PolicyEntry;
use arles_core::estimate::Estimator;
use arles_sim::measure::{EstimatorSetup, Noise};
use arles_sim::scenario::Scenario;

/// An experiment's place in the table.
pub struct Topic {
    /// As given to `--only`.
    pub name: &'static str,
    /// Heading in the report.
    pub title: &'static str,
    /// What is said about it in public.
    pub claim: &'static str,
    /// Whether its numbers are times of this machine.
    pub timed: bool,
}

/// All experiments that GOGH's claims rest on.
pub static TOPICS: &[Topic] = &[
    Topic {
        name: "estimates",
        title: "Estimates of what was never measured",
        claim: "Rates of a job on hardware and beside partners that it has never run with are estimated from those of similar \
            jobs, with about 5 % error; a recurrent network gives the best initial estimate and a feed-forward network the \
            best correction.",
        timed: false,
    },
    Topic {
        name: "energy",
        title: "Energy and promises",
        claim: "19.3 % less energy than conventional strategies while promised rates are kept (a public summary of the paper; its abstract has \
                no number).",
        timed: false,
    },
    Topic {
        name: "learning",
        title: "Learning during operation",
        claim: "Every measurement corrects the estimates of cells that were not measured, so that allocations approach those \
            made with true rates. The paper's figures were not available.",
        timed: false,
    },
    Topic {
        name: "co-location",
        title: "Interference between co-located jobs",
        claim: "Which jobs can share a GPU at little loss can be predicted before they have run together.",
        timed: false,
    },
    Topic {
        name: "program",
        title: "Time to solve the program",
        claim: "The allocation is an integer program that is solved online; the paper's solve times were not available.",
        timed: true,
    },
];

/// The name of the estimator that is always right.
pub const ORACLE: &str = "oracle";
/// The policy that is under test, where this build has it.
pub const GOGH: &str = "gogh";
/// The estimator that is under test.
pub const LEARNED: &str = "learned";

/// Policies that the one under test is compared with; all of them are told the truth.
pub const RIVALS: &[&str] = &["fifo", "fifo-packed", "max-min-fairness", "max-throughput", "energy-greedy"];
/// Estimators that the policy under test is tried with, after an oracle.
pub const ESTIMATORS: &[&str] = &[LEARNED, "completion", "nearest", "mean", "model"];

/// Makes a make copy of a trained estimator.
pub type MakeEstimator<'a> = &'a (dyn Fn() -> Box<dyn Estimator> + Sync);

/// A policy with the estimator that gives it rates.
pub struct Candidate<'a> {
    /// The policy that allocates.
    pub policy: &'static PolicyEntry,
    /// Name of the estimator.
    pub estimator: &'static str,
    /// The estimator; an oracle if there is none.
    pub make: Option<MakeEstimator<'a>>,
}

impl Candidate<'_> {
    /// "fifo", or "gogh, learned" for the policy under test.
    fn name(&self, tested: &str) -> String {
        if self.policy.name == tested { format!("{tested}, {}", self.estimator) } else { self.policy.name.to_owned() }
    }

    fn is(&self, policy: &str, estimator: &str) -> bool {
        self.policy.name == policy && self.estimator == estimator
    }
}

/// Traces that offer the cluster the same load.
pub struct Load {
    /// "load 0.6".
    pub title: String,
    /// One for each seed, with unused GPUs switched off and left on.
    pub scenarios: Vec<[Scenario; 2]>,
}

/// What unused GPUs do in the two scenarios of a seed.
pub const UNUSED_GPUS: [&str; 2] = ["off", "on"];

/// What the experiments stand on.
pub struct GoghSetup<'a> {
    /// Seeds, threads, progress, and the testbed.
    pub plan: &'a Plan<'a>,
    /// Name of the policy under test: the one that is tried with estimators.
    pub tested: &'a str,
    /// Policies and estimators under comparison.
    pub candidates: &'a [Candidate<'a>],
    /// At which loads, lowest first.
    pub loads: &'a [Load],
    /// Relative error of a measurement.
    pub noise: f64,
    /// For the experiment that measures time: what it is called, and a scenario of which the first decisions are taken.
    pub sizes: &'a [(String, Scenario)],
}

impl GoghSetup<'_> {
    /// A candidate's estimator for the run of a seed.
    fn guess(&self, candidate: &Candidate<'_>, seed: usize) -> Option<EstimatorSetup> {
        let noise = Noise { rate_sd: self.noise, watts_sd: self.noise, seed: self.plan.seed.wrapping_add(seed as u64) };
        candidate.make.map(|make| EstimatorSetup { name: candidate.estimator.to_owned(), estimator: make(), noise })
    }

    /// The policy under test with an estimator.
    fn tested(&self, estimator: &str) -> Option<usize> {
        self.candidates.iter().position(|c| c.is(self.tested, estimator))
    }

    /// The policy under test with the estimator under test: [`LEARNED`], or another where that is not there.
    fn learner(&self) -> Option<usize> {
        self.tested(LEARNED).or_else(|| self.learners().next())
    }

    /// Another policy, which is told the truth.
    fn rival(&self, policy: &str) -> Option<usize> {
        self.candidates.iter().position(|c| c.is(policy, ORACLE))
    }

    /// Contenders that estimate.
    fn learners(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.candidates.len()).filter(|&c| self.candidates[c].make.is_some())
    }

    /// Who takes part at a load under a habit of unused GPUs. Runs with estimators take long: all of them run at one load, and
    /// the one under test at every other.
    fn there(&self, load: usize, unused: usize) -> impl Iterator<Item = usize> + '_ {
        let all = load == self.middle() && unused == 0;
        let only = self.candidates.iter().filter(|c| c.make.is_some()).count() == 1;
        let takes = move |c: &Candidate<'_>| all || only || c.make.is_none() || c.estimator == LEARNED;
        (0..self.candidates.len()).filter(move |&c| takes(&self.candidates[c]))
    }

    fn name(&self, candidate: usize) -> String {
        self.candidates[candidate].name(self.tested)
    }

    /// The load that charts are drawn of where one has to do.
    fn middle(&self) -> usize {
        self.loads.len() / 2
    }

    /// "8 v100, 8 p100 and 8 k80, the built-in model; 400 jobs ..., loads".
    fn describe(&self) -> String {
        let first = self.loads.iter().find_map(|load| load.scenarios.first());
        let jobs = first.map_or(0, |[scenario, _]| scenario.trace().jobs.len());
        let titles: Vec<&str> = self.loads.iter().map(|load| load.title.as_str()).collect();
        let left_out: usize = self.loads.iter().flat_map(|l| &l.scenarios).map(|[s, _]| s.dropped()).sum();
        let left_out = match left_out {
            0 => String::new(),
            n => format!(" {n} jobs are excluded over all traces because they fit on no kind."),
        };
        let seeds = self.loads.first().map_or(0, |load| load.scenarios.len());
        format!(
            "{} GPUs, {}; traces of {jobs} jobs at {}, {seeds} per load, the same for every run. A single measurement has a \
                relative standard error of {}.{left_out}",
            self.plan.testbed.machines(),
            self.plan.testbed.title,
            titles.join(", "),
            arles_report::finding::Style::Percent(0).format(self.noise),
        )
    }
}
