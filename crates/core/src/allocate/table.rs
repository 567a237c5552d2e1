//! What a policy says about itself: its entry in [`POLICIES`](super::POLICIES). `--policy`, `arles policies`,
//! `GET /v1/policies` and the conformance suite all come from the entries, so a text here must say nothing that the suite
//! does not check: a property is either declared as a [`Promise`] or not claimed.

use super::{Entitlement, POLICIES, Policy, las};

/// How jobs are presented to a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// Alike jobs of a tenant are one user: the program's size is users × kinds, not jobs.
    Alike,
    /// Every job is its own user: for policies that order jobs.
    Single,
}

/// A property of the allocations that a policy returns, checked by the conformance suite. Those marked *plain* are theorems
/// about divisible GPUs, users without caps and rates above 0, and are promised for such problems only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Promise {
    /// Multiplying all rates of a workload by a number changes nothing.
    ScaleFree,
    /// No GPU stays free while a job that fits it has nothing.
    WorkConserving,
    /// Plain: nobody falls below what an equal division of every kind, by entitlement, would give it.
    SharingIncentive,
    /// Plain: nobody would be better off with what another got, scaled by entitlement.
    EnvyFree,
    /// Plain: nobody would gain more than ε/(1 − ε) by taking another's place, its GPUs in one's own best modes; of two on a GPU each holds half.
    NearlyEnvyFree,
    /// Plain: nobody could have more without another having less.
    ParetoEfficient,
    /// Plain: overstating one's speed-ups never raises one's true utility.
    InflationProof,
    /// Floors come first. Where all of them can be kept together, all are; otherwise what is missing (of each job's floor, as
    /// a part of it, summed over jobs) is as little as it can be.
    FloorsKept,
    /// Plain: the objective is the largest there is, with a certificate that proves it to a millionth.
    Optimal,
    /// The least normalised rate is as large as it can be, with a certificate that proves it to a millionth.
    MaxMin,
    /// A job that holds GPUs keeps them, or is given faster ones, while there is room for all that is held.
    NonPreemptive,
    /// Grants are whole gangs, never shares of time.
    Whole,
}

impl Promise {
    /// Every promise there is.
    pub const ALL: [Self; 12] = [
        Self::ScaleFree,
        Self::WorkConserving,
        Self::SharingIncentive,
        Self::EnvyFree,
        Self::NearlyEnvyFree,
        Self::ParetoEfficient,
        Self::InflationProof,
        Self::FloorsKept,
        Self::Optimal,
        Self::MaxMin,
        Self::NonPreemptive,
        Self::Whole,
    ];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ScaleFree => "scale-free",
            Self::WorkConserving => "work-conserving",
            Self::SharingIncentive => "sharing-incentive",
            Self::EnvyFree => "envy-free",
            Self::NearlyEnvyFree => "nearly-envy-free",
            Self::ParetoEfficient => "pareto-efficient",
            Self::InflationProof => "inflation-proof",
            Self::FloorsKept => "floors-kept",
            Self::Optimal => "optimal",
            Self::MaxMin => "max-min",
            Self::NonPreemptive => "non-preemptive",
            Self::Whole => "whole-gangs",
        }
    }
}

/// What becomes of GPUs that a policy leaves free while somebody waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeGpus {
    /// The placer gives them to whoever waits.
    GivenAway,
    /// As many as its shares leave free stay free over the rounds; what is free only because whole gangs do not add up to shares is given away.
    KeptOnAverage,
    /// All stay free.
    Kept,
}

/// One policy in [`POLICIES`].
pub struct PolicyEntry {
    /// As given to `--policy`.
    pub name: &'static str,
    /// One line for `arles policies`.
    pub summary: &'static str,
    /// How it wants the jobs.
    pub grouping: Grouping,
    /// Whether its answer depends on progress, so that it must be asked every round.
    pub every_round: bool,
    /// Whether those who hold GPUs keep them and the others are served in the order of their arrival, whoever does not fit being passed over. Behind
    /// a long queue it is then told of those only who could be served, and of alike jobs behind them as one user.
    pub first_come: bool,
    /// Whether it treats all kinds as equally fast, so that the placer must too.
    pub ignores_speeds: bool,
    /// Whether it may put two jobs on one GPU.
    pub pairs: bool,
    /// Whether it weighs power: the problem then says what everything draws.
    pub energy_aware: bool,
    /// What becomes of GPUs that it leaves free.
    pub free_gpus: FreeGpus,
    /// Whether it may run GPUs under power limits: it is then told the rates and watts of the modes that the cluster has.
    pub modes: bool,
    /// What users are owed relative to each other, in its promises and in audits.
    pub entitlement: Entitlement,
    /// How the objective depends on the unit in which GPUs are counted: counting s parts to a GPU (capacities and gangs
    /// times s, a gang's rate as before, an hour of a part 1/s of the cost) multiplies it by s to this power, and prices,
    /// which are then per part, by s to one power less. `None` without an objective, and where GPUs have no parts.
    pub objective_degree: Option<i32>,
    /// Each is checked by the conformance suite on random problems.
    pub promises: &'static [Promise],
    /// A fresh one, without memory of earlier answers.
    pub make: fn() -> Box<dyn Policy>,
}

impl PolicyEntry {
    /// What most policies that order jobs have in common.
    pub const ORDERS_JOBS: Self = Self {
        name: "",
        summary: "",
        grouping: Grouping::Single,
        every_round: false,
        first_come: false,
        ignores_speeds: false,
        pairs: false,
        energy_aware: false,
        free_gpus: FreeGpus::GivenAway,
        modes: false,
        entitlement: Entitlement::Jobs,
        objective_degree: None,
        promises: &[],
        make: || Box::new(las::LeastAttained),
    };
    /// What most policies that divide GPUs among classes of jobs have in common.
    pub const DIVIDES: Self = Self { grouping: Grouping::Alike, objective_degree: Some(1), ..Self::ORDERS_JOBS };
    /// What most policies that divide GPUs among tenants have in common.
    pub const DIVIDES_BY_TENANT: Self = Self { entitlement: Entitlement::Tenants, ..Self::DIVIDES };

    /// Whether it makes a promise.
    #[must_use]
    pub fn promises(&self, promise: Promise) -> bool {
        self.promises.contains(&promise)
    }
}

/// Looks a policy up by name.
#[must_use]
pub fn find_policy(name: &str) -> Option<&'static PolicyEntry> {
    POLICIES.iter().find(|p| p.name == name)
}
