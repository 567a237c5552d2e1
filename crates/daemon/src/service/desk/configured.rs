//! A start on an existing journal with a configuration that says otherwise.
//!
//! Policy, tenants and weights of a configuration are those of a new journal: in an old one they are what they were changed to while it ran. What
//! differs is said, with the command that changes it. Tenants that are new in a configuration join; quotas follow what has changed in the
//! configuration since the last start, so what operators set meanwhile stays.

use super::Desk;
use crate::Refusal;
use crate::access::Caller;
use crate::store::StoreError;
use arles_api as api;
use arles_core::{Quota, Tenant};
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// What a configuration says of who shares the cluster and how; what it leaves open is `None`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ConfiguredSharing {
    /// The policy's name.
    pub policy: Option<String>,
    /// Tenants and their weights.
    pub tenants: Option<Vec<Tenant>>,
    /// Quotas by tenant.
    pub quotas: Vec<(String, api::Quota)>,
}

/// What came of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Followed {
    /// What was changed.
    pub done: Vec<String>,
    /// What is otherwise than the configuration says, and how to change it.
    pub differs: Vec<String>,
}

impl Desk {
    /// Compares a configuration with the journal.
    ///
    /// # Errors
    /// When a tenant or a quota of it makes no sense, or the journal cannot be written.
    pub async fn follow_sharing(&self, wanted: &ConfiguredSharing) -> Result<Followed, Refusal> {
        let mut followed = Followed::default();
        let current = self.shared.book().policy.clone();
        if let Some(policy) = wanted.policy.as_ref().filter(|policy| **policy != current) {
            followed.differs.push(format!(
                "the policy stays {current}; the configuration's {policy} is for new journals ('arles policy {policy}' switches)"
            ));
        }
        if let Some(tenants) = &wanted.tenants {
            self.follow_tenants(tenants, &mut followed).await?;
        }
        self.follow_quotas(&wanted.quotas, &mut followed).await?;
        Ok(followed)
    }

    async fn follow_tenants(&self, wanted: &[Tenant], followed: &mut Followed) -> Result<(), Refusal> {
        let known: Vec<(String, f64, bool)> = {
            let book = self.shared.book();
            let line = |(i, line): (usize, &crate::read::book::TenantTotals)| {
                (line.name.clone(), line.weight, book.has_left(i))
            };
            book.tenants.iter().enumerate().map(line).collect()
        };
        for Tenant { name, weight } in wanted {
            let how = format!("'arles tenants set {} {weight}'", quoted(name));
            match known.iter().find(|(known, ..)| known == name) {
                None => {
                    let request = api::TenantRequest { weight: *weight };
                    self.set_tenant(&Caller::loopback(), name, request).await?;
                    followed.done.push(format!("tenant {name} joins with weight {weight}"));
                }
                Some((.., true)) => followed.differs.push(format!(
                    "tenant {name} of the configuration was removed and stays so ({how} brings it back)"
                )),
                Some((_, now, _)) if now != weight => followed.differs.push(format!(
                    "tenant {name} keeps its weight {now}; the configuration says {weight} ({how} changes it)"
                )),
                Some(_) => {}
            }
        }
        let unnamed =
            |(name, _, left): &&(String, f64, bool)| !left && wanted.iter().all(|tenant| tenant.name != *name);
        for (name, ..) in known.iter().filter(unnamed) {
            let how = format!("'arles tenants remove {}'", quoted(name));
            followed.differs.push(format!("tenant {name} is not in the configuration and stays ({how} removes it)"));
        }
        Ok(())
    }

    async fn follow_quotas(&self, wanted: &[(String, api::Quota)], followed: &mut Followed) -> Result<(), Refusal> {
        let broken = |error: StoreError| {
            crate::store::log_error(&error);
            Refusal::unavailable("journal", "the configured quotas cannot be read or written", "see the server's log")
        };
        let store = || self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let last = store().configured_quotas().map_err(broken)?;
        let core = |quota: &api::Quota| {
            let api::Quota { gpus, jobs, gpu_hours, kwh, submits_per_second } = *quota;
            Quota { gpus, jobs, gpu_hours, kwh, submits_per_second }
        };
        let wanted: BTreeMap<String, Quota> = wanted.iter().map(|(name, quota)| (name.clone(), core(quota))).collect();
        for name in last.keys().chain(wanted.keys().filter(|name| !last.contains_key(*name))) {
            let (was, now) = (last.get(name), wanted.get(name).copied().unwrap_or_default());
            let in_force = {
                let book = self.shared.book();
                let at = book.present_tenants().find(|(_, line)| line.name == *name).map(|(i, _)| i);
                at.map(|at| book.tenant_uses.get(at).map(|used| used.quota).unwrap_or_default())
            };
            let Some(in_force) = in_force else {
                if wanted.contains_key(name) {
                    followed.differs.push(format!(
                        "the configuration has a quota of tenant {name}, whom nobody knows ('arles tenants set {} 1' adds it)",
                        quoted(name)
                    ));
                }
                continue;
            };
            if in_force == now {
                continue;
            }
            if was != Some(&now) {
                let Quota { gpus, jobs, gpu_hours, kwh, submits_per_second } = now;
                let quota = api::Quota { gpus, jobs, gpu_hours, kwh, submits_per_second };
                self.set_quota(&Caller::loopback(), name, quota).await?;
                followed.done.push(format!("tenant {name} may use {}", now.words()));
            } else {
                followed.differs.push(format!(
                    "tenant {name} keeps its quota ({}); the configuration says {} ('arles tenants quota {}' changes it)",
                    in_force.words(),
                    now.words(),
                    quoted(name)
                ));
            }
        }
        if wanted != last {
            store().set_configured_quotas(&wanted).map_err(broken)?;
        }
        Ok(())
    }
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if name.chars().all(plain) { name.to_owned() } else { format!("\"{}\"", name.escape_debug()) }
}
