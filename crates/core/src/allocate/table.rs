//! The table of policies: `--policy`, `arles policies` and the conformance suite all come from here.

use super::{
    Entitlement, Policy, allox::AlloX, ceei::Ceei, cost::MinCost, energy_greedy::EnergyGreedy, fifo::Fifo,
    finish_time::FinishTime, gandiva::GandivaFair, gogh::Gogh, las::LeastAttained, makespan::MinMakespan,
    max_min::MaxMin, max_min_packed::MaxMinPacked, oef_coop::Cooperative, oef_noncoop::NonCooperative, sia::Sia,
    throughput::MaxThroughput,
};

/// How jobs are presented to a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// Alike jobs of a tenant are one user: the program's size is users × kinds, not jobs.
    Alike,
    /// Every job is its own user: for policies that order jobs.
    Single,
}

/// A property of the allocations that a policy returns, checked by the conformance suite. Some are theorems about divisible
/// GPUs, users without caps and rates above 0, and are promised for such problems only: their text says "plain".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Promise {
    /// Multiplying all rates of a user by a number changes nothing.
    ScaleFree,
    /// No GPU stays free while a job that fits it has nothing.
    WorkConserving,
    /// Plain: nobody falls below what an equal division of every kind, by entitlement, would give it.
    SharingIncentive,
    /// Plain: nobody would be better off with what another got, scaled by entitlement.
    EnvyFree,
    /// Plain: nobody could have more without another having less.
    ParetoEfficient,
    /// Plain: overstating one's speed-ups never raises one's true utility.
    InflationProof,
    /// Every floor that can be kept together with the others is kept.
    FloorsKept,
    /// Plain: the objective is the largest there is, to a millionth.
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
    /// Whether it weighs power: it is told what everything draws, and GPUs that it leaves free stay free.
    pub frugal: bool,
    /// What users are owed relative to each other, in its promises and in audits.
    pub entitlement: Entitlement,
    /// What it promises.
    pub promises: &'static [Promise],
    /// Makes one.
    pub make: fn() -> Box<dyn Policy>,
}

/// What most policies that order jobs have in common.
const ORDERS_JOBS: PolicyEntry = PolicyEntry {
    name: "",
    summary: "",
    grouping: Grouping::Single,
    every_round: false,
    blind: false,
    pairs: false,
    frugal: false,
    entitlement: Entitlement::Jobs,
    promises: &[],
    make: || Box::new(LeastAttained),
};
/// What most policies that divide GPUs among classes have in common.
const DIVIDES: PolicyEntry = PolicyEntry { grouping: Grouping::Alike, ..ORDERS_JOBS };
/// What most policies that divide GPUs among tenants have in common.
const DIVIDES_BY_TENANT: PolicyEntry = PolicyEntry { entitlement: Entitlement::Tenants, ..DIVIDES };

/// All policies: fairness among tenants, fairness among jobs, other aims, queues.
pub static POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "oef-coop",
        summary: "OEF for tenants who are honest: most speed in all while nobody would rather have another's GPUs",
        promises: &[Promise::ScaleFree, Promise::SharingIncentive, Promise::EnvyFree, Promise::Optimal],
        make: || Box::<Cooperative>::default(),
        ..DIVIDES_BY_TENANT
    },
    PolicyEntry {
        name: "oef-noncoop",
        summary: "OEF for tenants who may lie: the same speed for everybody per weight; overstating never pays",
        promises: &[Promise::ScaleFree, Promise::MaxMin, Promise::ParetoEfficient, Promise::InflationProof],
        make: || Box::<NonCooperative>::default(),
        ..DIVIDES_BY_TENANT
    },
    PolicyEntry {
        name: "ceei",
        summary: "equal incomes on a market of GPUs (max Nash welfare): envy-free, efficient, nobody below an equal share",
        promises: &[
            Promise::ScaleFree,
            Promise::SharingIncentive,
            Promise::EnvyFree,
            Promise::ParetoEfficient,
            Promise::Optimal,
        ],
        make: || Box::<Ceei>::default(),
        ..DIVIDES_BY_TENANT
    },
    PolicyEntry {
        name: "gandiva-fair",
        summary: "a ticket share of every kind, then fast GPUs are traded for slow ones where both sides gain",
        promises: &[Promise::ScaleFree, Promise::SharingIncentive],
        make: || Box::new(GandivaFair),
        ..DIVIDES_BY_TENANT
    },
    PolicyEntry {
        name: "max-min-fairness",
        summary: "Gavel's: the least normalised rate over all jobs is as large as it can be, then the next; knows speeds",
        promises: &[Promise::ScaleFree, Promise::MaxMin, Promise::SharingIncentive],
        make: || Box::new(MaxMin::new(true)),
        ..DIVIDES
    },
    PolicyEntry {
        name: "max-min-packed",
        summary: "the same with two single-GPU jobs on one GPU where that pays (Gavel's space sharing)",
        pairs: true,
        promises: &[Promise::ScaleFree, Promise::SharingIncentive],
        make: || Box::new(MaxMinPacked),
        ..DIVIDES
    },
    PolicyEntry {
        name: "max-min-agnostic",
        summary: "max-min-fairness with every kind taken for equally fast",
        blind: true,
        promises: &[Promise::ScaleFree],
        make: || Box::new(MaxMin::new(false)),
        ..DIVIDES
    },
    PolicyEntry {
        name: "finish-time-fairness",
        summary: "Themis' measure, Gavel's program: nobody ends much later than with a part of the cluster of its own",
        every_round: true,
        make: || Box::new(FinishTime),
        ..ORDERS_JOBS
    },
    PolicyEntry {
        name: "min-makespan",
        summary: "Gavel's: the last of the jobs that are there now ends as early as it can",
        every_round: true,
        make: || Box::new(MinMakespan),
        ..ORDERS_JOBS
    },
    PolicyEntry {
        name: "max-throughput",
        summary: "Gavel's: promised rates first, then the sum of all speed-ups, two to a GPU where that pays; not fair",
        pairs: true,
        promises: &[Promise::ScaleFree],
        make: || Box::new(MaxThroughput),
        ..DIVIDES
    },
    PolicyEntry {
        name: "min-cost",
        summary: "Gavel's: promised rates first, then the sum of all speed-ups per dollar; not fair",
        promises: &[Promise::ScaleFree],
        make: || Box::new(MinCost),
        ..DIVIDES
    },
    PolicyEntry {
        name: "gogh",
        summary: "GOGH's integer program: least energy with promised rates kept, two to a GPU where that saves; tries kinds out",
        pairs: true,
        frugal: true,
        promises: &[Promise::Whole],
        make: || Box::<Gogh>::default(),
        ..DIVIDES
    },
    PolicyEntry {
        name: "energy-greedy",
        summary: "job after job, each where it adds least power that keeps its promise",
        pairs: true,
        frugal: true,
        promises: &[Promise::Whole],
        make: || Box::new(EnergyGreedy),
        ..ORDERS_JOBS
    },
    PolicyEntry {
        name: "allox",
        summary: "jobs matched to kinds and places in their queues for the least mean completion time; short jobs first",
        every_round: true,
        promises: &[Promise::Whole],
        make: || Box::new(AlloX),
        ..ORDERS_JOBS
    },
    PolicyEntry {
        name: "sia",
        summary: "Sia's program with fixed gangs: each round every job gets one kind or waits, early gains count most",
        every_round: true,
        promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
        make: || Box::new(Sia),
        ..ORDERS_JOBS
    },
    PolicyEntry {
        name: "las",
        summary: "least attained service first, in doubling classes of GPU time; preempts",
        every_round: true,
        promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
        ..ORDERS_JOBS
    },
    PolicyEntry {
        name: "fifo",
        summary: "first come, first served, each on the fastest free kind that fits; a job gives way to nobody",
        promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
        make: || Box::new(Fifo { packing: false }),
        ..ORDERS_JOBS
    },
    PolicyEntry {
        name: "fifo-packed",
        summary: "fifo that puts a waiting job beside a running one where the two together gain",
        pairs: true,
        promises: &[Promise::ScaleFree, Promise::WorkConserving, Promise::Whole],
        make: || Box::new(Fifo { packing: true }),
        ..ORDERS_JOBS
    },
];

/// Looks a policy up by name.
#[must_use]
pub fn find_policy(name: &str) -> Option<&'static PolicyEntry> {
    POLICIES.iter().find(|p| p.name == name)
}
