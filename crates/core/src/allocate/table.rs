//! The table of policies: `--policy`, `arles policies` and the conformance suite all come from here.

use super::{Entitlement, Policy, fifo::Fifo, las::LeastAttained, max_min::MaxMin, oef_noncoop::NonCooperative};

/// How jobs are presented to a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// Alike jobs of a tenant are one user: the program's size is users × kinds, not jobs.
    Alike,
    /// Every job is its own user: for policies that order jobs.
    Single,
}

/// A property of every allocation that a policy returns, checked by the conformance suite.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Promise {
    /// Multiplying all rates of a user by a number changes nothing.
    ScaleFree,
    /// No GPU stays free while a job that fits it has nothing.
    WorkConserving,
    /// Nobody falls below what an equal division of every kind, by entitlement, would give it.
    SharingIncentive,
    /// Nobody would be better off with what another got, scaled by entitlement.
    EnvyFree,
    /// Nobody could have more without another having less.
    ParetoEfficient,
    /// Overstating one's speed-ups never raises one's true utility.
    InflationProof,
    /// Every floor that can be kept together with the others is kept.
    FloorsKept,
    /// The objective is what the general solver finds, to a millionth.
    Optimal,
    /// The least normalised rate is as large as it can be.
    MaxMin,
    /// Grants are whole gangs, never shares of time.
    Whole,
}

impl Promise {
    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ScaleFree => "scale-free",
            Self::WorkConserving => "work-conserving",
            Self::SharingIncentive => "sharing-incentive",
            Self::EnvyFree => "envy-free",
            Self::ParetoEfficient => "pareto-efficient",
            Self::InflationProof => "inflation-proof",
            Self::FloorsKept => "floors-kept",
            Self::Optimal => "optimal",
            Self::MaxMin => "max-min",
            Self::Whole => "whole-gangs",
        }
    }
}

/// One line of the table.
pub struct PolicyEntry {
    /// As given to `--policy`.
    pub name: &'static str,
    /// One line for `arles policies`.
    pub summary: &'static str,
    /// How it wants the jobs.
    pub grouping: Grouping,
    /// Whether its answer depends on progress, so that it must be asked every round.
    pub every_round: bool,
    /// Whether it takes all kinds for equally fast, so that the placer must too.
    pub blind: bool,
    /// Whether it may put two jobs on one GPU.
    pub pairs: bool,
    /// What users are owed relative to each other, in its promises and in audits.
    pub entitlement: Entitlement,
    /// What it promises.
    pub promises: &'static [Promise],
    /// Makes one.
    pub make: fn() -> Box<dyn Policy>,
}

/// All policies.
pub static POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "fifo",
        summary: "first come, first served, each on the fastest free kind that fits; a job gives way to nobody",
        grouping: Grouping::Single,
        every_round: false,
        blind: false,
        pairs: false,
        entitlement: Entitlement::Jobs,
        promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
        make: || Box::new(Fifo { packing: false }),
    },
    PolicyEntry {
        name: "fifo-packed",
        summary: "fifo that puts a waiting job beside a running one where the two together gain",
        grouping: Grouping::Single,
        every_round: false,
        blind: false,
        pairs: true,
        entitlement: Entitlement::Jobs,
        promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
        make: || Box::new(Fifo { packing: true }),
    },
    PolicyEntry {
        name: "las",
        summary: "least attained service first, in doubling classes of GPU time; preempts",
        grouping: Grouping::Single,
        every_round: true,
        blind: false,
        pairs: false,
        entitlement: Entitlement::Jobs,
        promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
        make: || Box::new(LeastAttained),
    },
    PolicyEntry {
        name: "max-min-fairness",
        summary: "Gavel's: the least normalised rate over all jobs is as large as it can be; knows the kinds' speeds",
        grouping: Grouping::Alike,
        every_round: false,
        blind: false,
        pairs: false,
        entitlement: Entitlement::Jobs,
        promises: &[Promise::ScaleFree, Promise::MaxMin, Promise::SharingIncentive],
        make: || Box::new(MaxMin::new(true)),
    },
    PolicyEntry {
        name: "max-min-agnostic",
        summary: "the same with every kind taken for equally fast",
        grouping: Grouping::Alike,
        every_round: false,
        blind: true,
        pairs: false,
        entitlement: Entitlement::Jobs,
        promises: &[Promise::ScaleFree],
        make: || Box::new(MaxMin::new(false)),
    },
    PolicyEntry {
        name: "oef-noncoop",
        summary: "OEF for tenants who may lie: the same speed for everybody per weight; overstating never pays",
        grouping: Grouping::Alike,
        every_round: false,
        blind: false,
        pairs: false,
        entitlement: Entitlement::Tenants,
        promises: &[Promise::ScaleFree, Promise::ParetoEfficient, Promise::InflationProof, Promise::Optimal],
        make: || Box::<NonCooperative>::default(),
    },
];

/// Looks a policy up by name.
#[must_use]
pub fn find_policy(name: &str) -> Option<&'static PolicyEntry> {
    POLICIES.iter().find(|p| p.name == name)
}
