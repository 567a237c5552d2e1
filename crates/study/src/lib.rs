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
mod ground;
mod instance;
mod lying;
mod pool;
mod properties;
mod robustness;
mod solve_time;
mod throughput;

pub use ground::{Ground, GroundError};

use arles_core::allocate::{POLICIES, PolicyEntry, find_policy};
use arles_report::finding::Finding;
use arles_sim::scenario::Scenario;

/// Everything an experiment may depend on.
pub struct Plan<'a> {
    /// How fast everything runs, and on what.
    pub ground: &'a Ground,
    /// The policies under test.
    pub policies: &'a [&'static PolicyEntry],
    /// The first seed.
    pub seed: u64,
    /// How many seeds.
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
pub enum Lineup {
    /// These and no others, whatever the user names.
    Only(&'static [&'static str]),
    /// These, or those that the user names.
    Named(&'static [&'static str]),
    /// All of the table, or those that the user names.
    All,
}

impl Lineup {
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

/// One line of the table.
pub struct Experiment {
    /// As given to `--only`.
    pub name: &'static str,
    /// A heading.
    pub title: &'static str,
    /// What is said about it in public.
    pub claim: &'static str,
    /// Which policies it is about.
    pub lineup: Lineup,
    /// Whether it depends on the ground; others are run once, whatever rates there are.
    pub grounded: bool,
    /// Whether it runs traces.
    pub traced: bool,
    /// Whether its numbers are times of this machine.
    pub timed: bool,
    /// Does it.
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
        claim: "Two users with speed-ups (1, 2) and (1, 3) on one slow and one fast GPU: both have 1.8 where they may lie, 1.5 and \
                2.25 where they are honest.",
        lineup: Lineup::Only(OEF),
        grounded: false,
        traced: false,
        timed: false,
        run: examples::run,
    },
    Experiment {
        name: "properties",
        title: "Properties, and where they fail",
        claim: "Non-cooperative OEF is strategy-proof and efficient; cooperative OEF is envy-free, gives everybody a reason to \
                share, and is efficient; both give a tenant kinds that are adjacent in speed.",
        lineup: Lineup::Named(OEF),
        grounded: false,
        traced: false,
        timed: false,
        run: properties::run,
    },
    Experiment {
        name: "throughput",
        title: "Total throughput",
        claim: "Up to 32 % more training throughput than the heterogeneity-aware schedulers of its time, and long-run GPU time equal to \
                the ideal share.",
        lineup: Lineup::Named(DIVIDERS),
        grounded: true,
        traced: false,
        timed: false,
        run: throughput::run,
    },
    Experiment {
        name: "completion",
        title: "Completion times on a trace",
        claim: "The paper compares mean completion times on a trace; its figures were not at hand. Of the placer it is said that long-run GPU time \
                equals the ideal share and that gangs are not mixed.",
        lineup: Lineup::All,
        grounded: true,
        traced: true,
        timed: false,
        run: completion::run,
    },
    Experiment {
        name: "lying",
        title: "A lying tenant",
        claim: "Where tenants may lie (non-cooperative OEF), overstating one's speed-ups never gains. Understating them does, and so do lies under \
                the cooperative program; the remedy is to use measured rates.",
        lineup: Lineup::Named(DIVIDERS),
        grounded: true,
        traced: false,
        timed: false,
        run: lying::run,
    },
    Experiment {
        name: "gangs",
        title: "Gangs over kinds and nodes",
        claim: "A synchronous job on mixed kinds runs at the pace of the slowest; the placer avoids such jobs.",
        lineup: Lineup::Named(&["max-min-fairness", "gandiva-fair", "oef-noncoop", "oef-coop"]),
        grounded: true,
        traced: true,
        timed: false,
        run: gangs::run,
    },
    Experiment {
        name: "solve-time",
        title: "Time to allocate",
        claim: "The programs are linear; the paper shows their solve time against tenants and kinds, with figures that were not at hand.",
        lineup: Lineup::Named(DIVIDERS),
        grounded: false,
        traced: false,
        timed: true,
        run: solve_time::run,
    },
    Experiment {
        name: "robustness",
        title: "Wrong profiles",
        claim: "Allocations withstand errors of 10 to 20 % in the profiled speed-ups; the paper's figures were not at hand.",
        lineup: Lineup::Named(DIVIDERS),
        grounded: true,
        traced: false,
        timed: false,
        run: robustness::run,
    },
];

/// Looks an experiment up by name.
#[must_use]
pub fn find_experiment(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}
