//! The decision in force, and fairness over time.
//!
//! Policies see classes of jobs; people think in tenants. A decision is judged by the policy's own yardstick: its users with the
//! entitlements, caps and estimates of that round ([`arles_core::audit`]). Then
//!
//!   sharing ratio of a tenant  = the least of its classes
//!   envy of tenant i for j     = the largest of a class of i for a class of j
//!
//! so that what a policy promises of its users holds of tenants too, and a tenant that shows envy or loss really has a class that
//! does. Over time both are averaged over the seconds in which a tenant wanted anything; envy of somebody by one who has nothing is infinite and
//! counts as [`MOST_ENVY`]. Beside what was granted stands what was *received*: GPUs held, second by second.

use super::Book;
use crate::store::HistoryRow;
use arles_core::allocate::{Allocation, Entitlement, Problem, User, find_policy};
use arles_core::audit::Audit;
use arles_core::estimate::RateQuery;
use arles_core::{KindId, Round, TenantId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What infinite envy counts as in averages.
const MOST_ENVY: f64 = 10.0;
/// With more tenants than this the matrix of envy is not kept.
const MOST_TENANTS: usize = 64;
/// With more users than this only each one's strongest envy is looked at, and a decision cannot be judged again later.
const MOST_USERS: usize = 600;
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
    /// Whom the policy saw, and what each of them holds, user by user and kind by kind: to judge the same decision by newer estimates. Empty
    /// if they were too many.
    #[serde(default)]
    pub(crate) users: Arc<Vec<User>>,
    #[serde(default)]
    pub(crate) held: Arc<Vec<f64>>,
}

/// One tenant's sums over a period.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TenantSums {
    /// Time in which it wanted anything.
    pub(crate) seconds: f64,
    pub(crate) gpu_seconds: Vec<f64>,
    /// GPU seconds held, by kind, whether it wanted more or not.
    #[serde(default)]
    pub(crate) received: Vec<f64>,
    pub(crate) sharing_seconds: f64,
    /// By tenant envied: envy times seconds, and seconds.
    pub(crate) envy: BTreeMap<u32, (f64, f64)>,
}

/// GPUs that a tenant holds, by kind, and since when that is counted.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Holding {
    pub(crate) since: Time,
    pub(crate) gpus: Vec<f64>,
    /// GPU seconds since the period was last counted: they join it together with the seconds that they are divided by.
    #[serde(default)]
    pub(crate) uncounted: Vec<f64>,
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
            add_up(&mut own.gpu_seconds, &sums.gpu_seconds);
            add_up(&mut own.received, &sums.received);
            for (other, more) in &sums.envy {
                let cell = own.envy.entry(*other).or_default();
                cell.0 += more.0;
                cell.1 += more.1;
            }
        }
    }
}

fn add_up(sums: &mut Vec<f64>, more: &[f64]) {
    sums.resize(sums.len().max(more.len()), 0.0);
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// A policy's answer as tenants see it, by the entitlement that the policy divides by.
pub(crate) fn shares(problem: &Problem, allocation: &Allocation, entitlement: Entitlement) -> Vec<TenantShare> {
    of_tenants(problem, &Audit::of(problem, entitlement, allocation))
}

/// The audit of users as one of tenants.
fn of_tenants(problem: &Problem, audit: &Audit) -> Vec<TenantShare> {
    let k = problem.kinds();
    let mut tenants: BTreeMap<TenantId, Vec<usize>> = BTreeMap::new();
    for (l, user) in problem.users.iter().enumerate() {
        tenants.entry(user.tenant).or_default().push(l);
    }
    let column: BTreeMap<TenantId, usize> = tenants.keys().copied().zip(0..).collect();
    let mut envy = vec![Vec::new(); tenants.len()];
    if tenants.len() <= MOST_TENANTS {
        envy = vec![vec![0.0_f64; tenants.len()]; tenants.len()];
        let mut worst = |l: usize, i: usize, ratio: f64| {
            let cell = &mut envy[column[&problem.users[l].tenant]][column[&problem.users[i].tenant]];
            // JSON has no infinity; nobody needs to tell ten from more.
            *cell = cell.max(ratio.min(MOST_ENVY));
        };
        let n = problem.users.len();
        (0..n).for_each(|l| worst(l, l, 1.0));
        if n <= MOST_USERS {
            let foreign = |l: usize, i: usize| problem.users[l].tenant != problem.users[i].tenant;
            (0..n).for_each(|l| (0..n).filter(|&i| foreign(l, i)).for_each(|i| worst(l, i, audit.envy(l, i))));
        } else {
            audit.envies().iter().for_each(|envy| worst(envy.envier, envy.envied, envy.ratio));
        }
    }
    let share = |((tenant, users), envy): ((&TenantId, &Vec<usize>), Vec<f64>)| TenantShare {
        tenant: *tenant,
        gpus: (0..k).map(|j| users.iter().map(|&l| audit.held(l)[j]).sum()).collect(),
        sharing: users.iter().map(|&l| audit.sharing(l)).fold(MOST_ENVY, f64::min),
        envy,
    };
    tenants.iter().zip(envy).map(share).collect()
}

impl Book {
    pub(super) fn decided(&mut self, at: Time, problem: &Problem, allocation: &Allocation) {
        self.close_period(at, false);
        let entitlement = find_policy(&self.policy).map_or(Entitlement::Tenants, |policy| policy.entitlement);
        let audit = Audit::of(problem, entitlement, allocation);
        let few = problem.users.len() <= MOST_USERS;
        let held = |l: usize| audit.held(l).iter().copied();
        self.decision = Some(Decision {
            round: problem.round,
            at,
            policy: self.policy.clone(),
            capacity: problem.capacity.clone(),
            shares: of_tenants(problem, &audit),
            users: Arc::new(if few { problem.users.clone() } else { Vec::new() }),
            held: Arc::new(if few { (0..problem.users.len()).flat_map(held).collect() } else { Vec::new() }),
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
        for tenant in 0..self.holding.len() {
            self.settle_holding(at, tenant);
            let received = std::mem::take(&mut self.holding[tenant].uncounted);
            if !received.is_empty() {
                add_up(&mut self.period.tenants.entry(tenant as u32).or_default().received, &received);
            }
        }
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

    /// The decision in force as it would be judged by the estimates of now; `None` if nothing is decided, or too many take part.
    pub(crate) fn judged_again(&self) -> Option<Vec<TenantShare>> {
        let decision = self.decision.as_ref().filter(|decision| !decision.users.is_empty())?;
        let k = decision.capacity.len();
        let rate = |user: &User, kind: usize| {
            let ask = RateQuery { workload: user.workload, gang: user.gang, partner: None };
            self.estimate(&ask, KindId(kind as u16)).map_or(0.0, |estimate| estimate.rate)
        };
        let rates = decision.users.iter().flat_map(|user| (0..k).map(move |j| rate(user, j))).collect();
        let problem = Problem::new(decision.round, decision.capacity.clone(), decision.users.to_vec(), rates).ok()?;
        let entitlement = find_policy(&decision.policy)?.entitlement;
        let audit = Audit::of_holdings(&problem, entitlement, decision.held.to_vec()).ok()?;
        Some(of_tenants(&problem, &audit))
    }

    /// A tenant holds so many GPUs of a kind more (or less) from now on.
    pub(super) fn hold(&mut self, at: Time, tenant: usize, kind: KindId, gpus: f64) {
        if self.holding.len() <= tenant {
            self.holding.resize(tenant + 1, Holding::default());
        }
        self.settle_holding(at, tenant);
        let held = &mut self.holding[tenant].gpus;
        held.resize(held.len().max(kind.index() + 1), 0.0);
        held[kind.index()] += gpus;
    }

    /// Counts what a tenant has held until now.
    fn settle_holding(&mut self, at: Time, tenant: usize) {
        let holding = &mut self.holding[tenant];
        let seconds = at.since(holding.since);
        holding.since = holding.since.max(at);
        if seconds > 0.0 && holding.gpus.iter().any(|&gpus| gpus > 0.0) {
            let received: Vec<f64> = holding.gpus.iter().map(|gpus| gpus * seconds).collect();
            add_up(&mut holding.uncounted, &received);
        }
    }
}
