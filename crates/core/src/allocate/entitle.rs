//! What users are owed relative to each other.
//!
//! A user here is a class of alike jobs. OEF divides among tenants: each (tenant, workload) is a virtual user with the
//! weight of its tenant divided by the number of the tenant's workloads, so submitting more jobs, or more kinds of
//! jobs, does not buy a larger share. Elastic jobs that differ in their present size are one virtual user. Gavel divides among jobs: whoever has more of them is owed more.

use super::{Problem, User};
use crate::TenantId;
use std::collections::BTreeMap;

/// The weights π that fairness is measured by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entitlement {
    /// Tenants are owed by their weight, which their users divide in proportion to the weight of one of their jobs.
    Tenants,
    /// Every job is owed by its weight and its tenant's.
    Jobs,
}

impl Entitlement {
    /// π of every user; positive, in no particular unit.
    #[must_use]
    pub fn weights(self, problem: &Problem) -> Vec<f64> {
        let users = problem.users.iter();
        let claim = |user: &User| user.job_weight / f64::from(user.parts.max(1));
        match self {
            Self::Jobs => users.map(|u| f64::from(u.jobs.max(1)) * u.job_weight * u.tenant_weight).collect(),
            Self::Tenants => {
                let mut claims: BTreeMap<TenantId, f64> = BTreeMap::new();
                for user in users.clone() {
                    *claims.entry(user.tenant).or_default() += claim(user);
                }
                users.map(|u| u.tenant_weight * claim(u) / claims[&u.tenant]).collect()
            }
        }
    }
}
