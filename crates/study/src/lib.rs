//! Experiments: what a paper claims, measured.
//!
//! An experiment is a pure function of its [`Plan`]: the rates it stands on, the policies, the seeds. It returns a
//! [`Finding`]: sheets of numbers, charts, and verdicts that put what is stated beside what was measured and say where
//! the two differ. Every random draw has a stream of its own, named by what it is for, so neither the number of threads
//! nor the other experiments change a digit.
//!
//! An experiment never prints, never reads a file and never looks at the clock: the one that measures time is handed
//! a stopwatch, and is marked as [`Experiment::timed`] so that nobody expects the same bytes of it twice.
//!
//! One experiment is one file below and one line in [`EXPERIMENTS`].

mod completion;
mod examples;
mod gangs;
pub mod gogh;
mod instance;
mod lying;
mod pool;
mod properties;
mod robustness;
mod solve_time;
mod testbed;
mod throughput;

pub use testbed::{Testbed, TestbedError};

use arles_core::allocate::{POLICIES, PolicyEntry, find_policy};
use arles_report::finding::Finding;
use arles_sim::scenario::Scenario;

/// Everything an experiment may depend on.
pub struct Plan<'a> {
    /// How fast everything runs, and on what.
    pub testbed: &'a Testbed,
    /// The policies under test.
    pub policies: &'a [&'static PolicyEntry],
    /// First seed.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Fewer draws, for a quick look.
    pub quick: bool,
    /// Instances at a time.
    pub threads: usize,
    /// Traces to run, one for each seed; where all are the same, only one.
    pub scenarios: &'a [Scenario],
    /// Seconds on some clock, for the experiment that measures time.
    pub stopwatch: &'a (dyn Fn() -> f64 + Sync),
    /// Is told how much of the experiment is done, 0 to 1.
    pub progress: &'a (dyn Fn(f64) + Sync),
}

impl Plan<'_> {
    /// The seeds, in order.
    fn seeds(&self) -> impl Iterator<Item = u64> + Clone + use<> {
        let (first, count) = (self.seed, self.seeds);
        (0..count).map(move |i| first.wrapping_add(i))
    }

    /// One number for a quick look, another for the real thing.
    fn effort(&self, quick: usize, full: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// Which policies an experiment is about, unless the user names some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicySet {
    /// These and no others, whatever the user names.
    Only(&'static [&'static str]),
    /// These, or those that the user names.
    Named(&'static [&'static str]),
    /// All of the table, or those that the user names.
    All,
}

impl PolicySet {
    /// The policies of this line-up, and the names that this build does not have.
    #[must_use]
    pub fn resolve(self, chosen: Option<&[&'static PolicyEntry]>) -> (Vec<&'static PolicyEntry>, Vec<&'static str>) {
        match (self, chosen) {
            (Self::Named(_) | Self::All, Some(chosen)) => (chosen.to_vec(), Vec::new()),
            (Self::All, None) => (POLICIES.iter().collect(), Vec::new()),
            (Self::Only(names) | Self::Named(names), _) => {
                let absent = names.iter().copied().filter(|name| find_policy(name).is_none()).collect();
                (names.iter().filter_map(|name| find_policy(name)).collect(), absent)
            }
        }
    }
}

/// One experiment of the table.
pub struct Experiment {
    /// As given to `--only`.
    pub name: &'static str,
    /// Heading in the report.
    pub title: &'static str,
    /// What is said about it in public.
    pub claim: &'static str,
    /// Which policies it is about.
    pub policies: PolicySet,
    /// Whether it depends on the testbed; others are run once, whatever rates there are.
    pub uses_testbed: bool,
    /// Whether it runs traces.
    pub uses_traces: bool,
    /// Whether its numbers are times of this machine.
    pub timed: bool,
    /// Runs the experiment.
    pub run: fn(&Plan<'_>) -> Finding,
}

/// OEF's own two programs.
const OEF: &[&str] = &["oef-noncoop", "oef-coop"];

/// Those that divide GPUs among tenants, with what fairness costs in between and no fairness last.
const DIVIDERS: &[&str] = &["gandiva-fair", "max-min-fairness", "oef-noncoop", "oef-coop", "ceei", "max-throughput"];

/// All experiments that OEF's claims rest on.
pub static EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "examples",
        title: "Worked examples",
        claim: "Two users with speed-ups (1, 2) and (1, 3) on one slow and one fast GPU: both get 1.8 under the \
            non-cooperative program, 1.5 and 2.25 under the cooperative one.",
        policies: PolicySet::Only(OEF),
        uses_testbed: false,
        uses_traces: false,
        timed: false,
        run: examples::run,
    },
    Experiment {
        name: "properties",
        title: "Properties, and where they fail",
        claim: "Non-cooperative OEF is strategy-proof and efficient; cooperative OEF is envy-free, efficient and provides a \
            sharing incentive; both allocate to each tenant kinds that are adjacent in speed.",
        policies: PolicySet::Named(OEF),
        uses_testbed: false,
        uses_traces: false,
        timed: false,
        run: properties::run,
    },
    Experiment {
        name: "throughput",
        title: "Total throughput",
        claim: "Up to 32 % more training throughput than the heterogeneity-aware schedulers of its time, and long-run GPU time equal to \
                the ideal share.",
        policies: PolicySet::Named(DIVIDERS),
        uses_testbed: true,
        uses_traces: false,
        timed: false,
        run: throughput::run,
    },
    Experiment {
        name: "completion",
        title: "Completion times on a trace",
        claim: "The paper compares mean completion times on a trace; its figures were not available. It states that with the \
            placer long-run GPU time equals the ideal share and gangs are not mixed.",
        policies: PolicySet::All,
        uses_testbed: true,
        uses_traces: true,
        timed: false,
        run: completion::run,
    },
    Experiment {
        name: "lying",
        title: "Misreported speed-ups",
        claim: "Under non-cooperative OEF, overstating one's speed-ups never gains. Understating them does, and so do \
            misreports under the cooperative program; the remedy is to use measured rates.",
        policies: PolicySet::Named(DIVIDERS),
        uses_testbed: true,
        uses_traces: false,
        timed: false,
        run: lying::run,
    },
    Experiment {
        name: "gangs",
        title: "Gangs over kinds and nodes",
        claim: "A synchronous job on mixed kinds runs at the speed of the slowest GPU; the placer avoids such placements.",
        policies: PolicySet::Named(&["max-min-fairness", "gandiva-fair", "oef-noncoop", "oef-coop"]),
        uses_testbed: true,
        uses_traces: true,
        timed: false,
        run: gangs::run,
    },
    Experiment {
        name: "solve-time",
        title: "Time to allocate",
        claim: "The programs are linear; the paper reports their solve time against tenants and kinds, but its figures were \
            not available.",
        policies: PolicySet::Named(DIVIDERS),
        uses_testbed: false,
        uses_traces: false,
        timed: true,
        run: solve_time::run,
    },
    Experiment {
        name: "robustness",
        title: "Wrong profiles",
        claim: "Allocations withstand errors of 10 to 20 % in the profiled speed-ups; the paper's figures were not available.",
        policies: PolicySet::Named(DIVIDERS),
        uses_testbed: true,
        uses_traces: false,
        timed: false,
        run: robustness::run,
    },
];

/// Looks an experiment up by name.
#[must_use]
pub fn find_experiment(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}
