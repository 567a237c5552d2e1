//! The decision in force, and fairness over time.
//!
//! Policies see classes of jobs; people think in tenants. A tenant is judged here as one user: it holds what its classes hold,
//! can use what they can, is owed its weight, and its speed-up on a kind is that of its classes, weighted by the GPUs that each can
//! use. Envy and the sharing ratio are those of [`arles_core::audit`] for these users. Over time both are averaged over the seconds in
//! which a tenant wanted anything; envy of somebody by one who has nothing is infinite and counts as [`MOST_ENVY`].

use super::Book;
use crate::store::HistoryRow;
use arles_core::allocate::{Allocation, ClassId, Entitlement, Problem, User};
use arles_core::audit::Audit;
use arles_core::{Round, TenantId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What infinite envy counts as in averages.
const MOST_ENVY: f64 = 10.0;
/// With more tenants than this the matrix of envy is not kept.
const MOST_TENANTS: usize = 64;
/// Length of a period in the history.
const PERIOD_SECONDS: f64 = 600.0;

/// A tenant's part of a decision.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct TenantShare {
    pub(crate) tenant: TenantId,
    /// GPUs granted, by kind.
    pub(crate) gpus: Vec<f64>,
    pub(crate) sharing: f64,
    /// Envy of the tenants of the decision, in its order.
    pub(crate) envy: Vec<f64>,
}

/// What the policy last answered, as tenants see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) round: Round,
    pub(crate) at: Time,
    pub(crate) policy: String,
    pub(crate) capacity: Vec<f64>,
    pub(crate) shares: Vec<TenantShare>,
}

/// One tenant's sums over a period.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TenantSums {
    /// Time in which it wanted anything.
    pub(crate) seconds: f64,
    pub(crate) gpu_seconds: Vec<f64>,
    pub(crate) sharing_seconds: f64,
    /// By tenant envied: envy times seconds, and seconds.
    pub(crate) envy: BTreeMap<u32, (f64, f64)>,
}

/// Fairness over a period.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AuditPeriod {
    pub(crate) from: Option<Time>,
    pub(crate) until: Time,
    pub(crate) capacity_seconds: f64,
    pub(crate) seconds: f64,
    pub(crate) tenants: BTreeMap<u32, TenantSums>,
    pub(crate) policies: BTreeSet<String>,
}

impl AuditPeriod {
    /// Counts a decision's time in.
    fn add(&mut self, decision: &Decision, from: Time, until: Time) {
        let seconds = until.since(from);
        self.from.get_or_insert(from);
        self.until = until;
        if seconds <= 0.0 || decision.shares.is_empty() {
            return;
        }
        self.seconds += seconds;
        self.capacity_seconds += seconds * decision.capacity.iter().sum::<f64>();
        self.policies.insert(decision.policy.clone());
        for share in &decision.shares {
            let sums = self.tenants.entry(share.tenant.0).or_default();
            sums.seconds += seconds;
            sums.sharing_seconds += seconds * share.sharing.min(MOST_ENVY);
            sums.gpu_seconds.resize(share.gpus.len(), 0.0);
            for (sum, gpus) in sums.gpu_seconds.iter_mut().zip(&share.gpus) {
                *sum += seconds * gpus;
            }
            for (other, envy) in decision.shares.iter().zip(&share.envy) {
                let cell = sums.envy.entry(other.tenant.0).or_default();
                cell.0 += seconds * envy.min(MOST_ENVY);
                cell.1 += seconds;
            }
        }
    }

    /// Two periods as one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.from = self.from.into_iter().chain(other.from).min();
        self.until = self.until.max(other.until);
        self.seconds += other.seconds;
        self.capacity_seconds += other.capacity_seconds;
        self.policies.extend(other.policies.iter().cloned());
        for (tenant, sums) in &other.tenants {
            let own = self.tenants.entry(*tenant).or_default();
            own.seconds += sums.seconds;
            own.sharing_seconds += sums.sharing_seconds;
            own.gpu_seconds.resize(sums.gpu_seconds.len().max(own.gpu_seconds.len()), 0.0);
            for (sum, more) in own.gpu_seconds.iter_mut().zip(&sums.gpu_seconds) {
                *sum += more;
            }
            for (other, more) in &sums.envy {
                let cell = own.envy.entry(*other).or_default();
                cell.0 += more.0;
                cell.1 += more.1;
            }
        }
    }
}

/// One tenant's classes added up.
struct Sum {
    weight: f64,
    /// GPUs that can be used.
    usable: f64,
    /// Speed-ups by kind, times these.
    speeds: Vec<f64>,
    held: Vec<f64>,
}

/// A policy's answer as tenants see it.
pub(crate) fn shares(problem: &Problem, allocation: &Allocation) -> Vec<TenantShare> {
    let k = problem.kinds();
    let audit = Audit::of(problem, Entitlement::Tenants, allocation);
    let speedups = problem.speedups();
    let mut tenants: BTreeMap<TenantId, Sum> = BTreeMap::new();
    for (l, user) in problem.users.iter().enumerate() {
        let sum = tenants.entry(user.tenant).or_insert_with(|| Sum {
            weight: user.tenant_weight,
            usable: 0.0,
            speeds: vec![0.0; k],
            held: vec![0.0; k],
        });
        let usable = problem.most_gpus(l);
        sum.usable += usable;
        for j in 0..k {
            sum.speeds[j] += usable * speedups[l * k + j];
            sum.held[j] += audit.held(l)[j];
        }
    }
    let (mut users, mut rates, mut x) = (Vec::new(), Vec::new(), Vec::new());
    for (tenant, sum) in &tenants {
        users.push(as_one_user(*tenant, sum, problem));
        rates.extend(sum.speeds.iter().map(|speed| speed / sum.usable.max(1.0)));
        x.extend(&sum.held);
    }
    let judged = Problem::new(problem.round, problem.capacity.clone(), users, rates)
        .ok()
        .and_then(|of_tenants| Audit::of_holdings(&of_tenants, Entitlement::Tenants, x).ok());
    let few = tenants.len() <= MOST_TENANTS;
    let share = |(l, (tenant, sum)): (usize, (&TenantId, &Sum))| TenantShare {
        tenant: *tenant,
        gpus: sum.held.clone(),
        sharing: judged.as_ref().map_or(1.0, |audit| audit.sharing(l).min(MOST_ENVY)),
        envy: match &judged {
            // JSON has no infinity; nobody needs to tell ten from more.
            Some(audit) if few => audit.envy_row(l).map(|envy| envy.min(MOST_ENVY)).collect(),
            _ => Vec::new(),
        },
    };
    tenants.iter().enumerate().map(share).collect()
}

fn as_one_user(tenant: TenantId, sum: &Sum, problem: &Problem) -> User {
    User {
        class: ClassId(tenant.0),
        tenant,
        tenant_weight: sum.weight,
        workload: arles_core::WorkloadId(tenant.0),
        gang: 1,
        jobs: sum.usable.min(1e9) as u32,
        job_weight: 1.0,
        floor: None,
        job: None,
        arrived: problem.now,
        attained_gpu_seconds: 0.0,
        steps_done: 0.0,
        steps_left: 1.0,
        held: None,
    }
}

impl Book {
    pub(super) fn decided(&mut self, at: Time, problem: &Problem, allocation: &Allocation) {
        self.close_period(at, false);
        self.decision = Some(Decision {
            round: problem.round,
            at,
            policy: self.policy.clone(),
            capacity: problem.capacity.clone(),
            shares: shares(problem, allocation),
        });
        let users = problem.users.len();
        self.push_event(
            at,
            "round",
            None,
            format!("{}: {} allocated GPUs to {users} job classes", problem.round, self.policy),
        );
    }

    /// Counts the decision in force until `at` in, and begins a new period if this one is long enough.
    pub(super) fn close_period(&mut self, at: Time, now: bool) {
        let from = self.period.from.map_or(at, |_| self.period.until);
        if let Some(decision) = &self.decision {
            self.period.add(decision, from.max(decision.at), at);
        }
        if let Some(from) = self.period.from
            && (now || at.since(from) >= PERIOD_SECONDS)
        {
            let facts = serde_json::to_string(&self.period).expect("plain data");
            self.rows.push(HistoryRow::Audit { at: from, until: at, facts });
            self.period = AuditPeriod { until: at, from: Some(at), ..AuditPeriod::default() };
        }
    }
}
