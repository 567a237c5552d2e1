//! The decision in force, and fairness over a window.

use super::judgement::Figures;
use super::{Source, View, window};
use crate::Refusal;
use crate::read::book::{AuditPeriod, Book, TenantShare};
use arles_api as api;
use arles_core::Time;

/// Periods that one audit reads at most: ten minutes each, about half a year.
const MOST_PERIODS: usize = 26_000;

impl View<'_> {
    /// The decision in force and what changed lately.
    #[must_use]
    pub fn allocation(&self) -> api::Allocation {
        let solve_seconds = match self.source {
            Source::Live(shared) => {
                Some(shared.gauges.last_solve_micros.get()).filter(|&m| m > 0).map(|m| m as f64 / 1e6)
            }
            Source::Archive(_) => None,
        };
        self.book(|book| {
            let cluster = book.cluster();
            let kinds = cluster.kinds().len();
            let tenants: Vec<String> = self.visible_tenants(book).map(|(_, line)| line.name.clone()).collect();
            let decision = book.decision.as_ref();
            let usable: f64 = decision.map_or(0.0, |d| d.capacity.iter().sum());
            let again = book.judged_again().unwrap_or_default();
            let share = |(i, line): (usize, &crate::read::book::TenantTotals)| {
                let own = decision.and_then(|d| d.shares.iter().find(|share| share.tenant.index() == i));
                // A decision has as many kinds as there were then.
                let mut gpus = own.map_or_else(Vec::new, |share| share.gpus.clone());
                gpus.resize(kinds, 0.0);
                let envy = self.visible_tenants(book).map(|(j, _)| {
                    let at = decision?.shares.iter().position(|share| share.tenant.index() == j)?;
                    own?.envy.get(at).copied()
                });
                let envy: Vec<Option<f64>> = envy.collect();
                let mut received = book.holding.get(i).map_or_else(Vec::new, |holding| holding.gpus.clone());
                received.resize(gpus.len(), 0.0);
                let newest = again.iter().find(|share| share.tenant.index() == i).filter(|_| own.is_some());
                let worst = |share: &TenantShare| share.envy.iter().copied().fold(1.0, f64::max);
                let figures = Figures {
                    policy: decision.map(|d| d.policy.as_str()),
                    sharing: own.map(|share| share.sharing),
                    envy: strongest(&envy, &tenants),
                    again: newest.map(|share| (share.sharing, worst(share), decision.map_or(0, |d| d.round.0))),
                    granted: gpus.iter().sum(),
                    received: received.iter().sum(),
                    verb: "holds",
                };
                api::Share {
                    tenant: line.name.clone(),
                    entitlement_ratio: entitlement(book, line.weight),
                    granted_ratio: if usable > 0.0 { gpus.iter().sum::<f64>() / usable } else { 0.0 },
                    notes: figures.notes(),
                    gpus,
                    received,
                    sharing_ratio: own.map(|share| share.sharing),
                    envy,
                }
            };
            let seen = |change: &&api::Change| self.who.sees(&change.tenant);
            api::Allocation {
                round: decision.map_or(0, |d| d.round.0),
                current_round: book.round.0,
                decided_at: decision.map(|d| d.at.seconds()),
                policy: decision.map_or_else(|| book.policy.clone(), |d| d.policy.clone()),
                kinds: cluster.kinds().iter().map(|kind| kind.name.clone()).collect(),
                tenants: tenants.clone(),
                capacity: {
                    let mut capacity = decision.map_or_else(Vec::new, |d| d.capacity.clone());
                    capacity.resize(kinds, 0.0);
                    capacity
                },
                shares: self.visible_tenants(book).map(share).collect(),
                solve_seconds,
                failure: book.failure.as_ref().map(|why| self.trouble(why)),
                changes: book.changes.iter().filter(seen).cloned().collect(),
            }
        })
    }

    /// A policy's complaint may name jobs and classes of anybody: a tenant hears only that there is one.
    fn trouble(&self, why: &str) -> String {
        match self.who.tenant {
            None => why.to_owned(),
            Some(_) => "the policy returned no usable allocation; the operator of the server can see why".into(),
        }
    }

    /// Who got how much in a window, and whether that was fair.
    ///
    /// # Errors
    /// When the window is invalid.
    pub fn audit(&self, from: Option<f64>, to: Option<f64>) -> Result<api::Audit, Refusal> {
        let (from, to) = window(from, to)?;
        let periods: Vec<(Time, Time, AuditPeriod)> = self.history(|store| store.audits(from, to, MOST_PERIODS))?;
        Ok(self.book(|book| {
            let mut all = AuditPeriod::default();
            let current = (book.period.until, &book.period);
            let kept = periods.iter().map(|(_, until, period)| (*until, period));
            // The period that is still open may just have been written.
            let open = std::iter::once(current).filter(|(_, p)| p.from.is_some_and(|from| from < to) && p.until > from);
            kept.chain(open).for_each(|(_, period)| all.merge(period));
            self.judge(book, &all)
        }))
    }

    fn judge(&self, book: &Book, all: &AuditPeriod) -> api::Audit {
        let cluster = book.cluster();
        let k = cluster.kinds().len();
        let names: Vec<String> = self.visible_tenants(book).map(|(_, line)| line.name.clone()).collect();
        let share = |(i, line): (usize, &crate::read::book::TenantTotals)| {
            let sums = all.tenants.get(&(i as u32));
            let seconds = sums.map_or(0.0, |sums| sums.seconds);
            let mean = |sum: f64| if seconds > 0.0 { sum / seconds } else { 0.0 };
            let gpus: Vec<f64> =
                (0..k).map(|j| mean(sums.and_then(|s| s.gpu_seconds.get(j)).copied().unwrap_or(0.0))).collect();
            let held: f64 = sums.map_or(0.0, |s| s.gpu_seconds.iter().sum());
            let envy = self.visible_tenants(book).map(|(j, _)| {
                let (sum, seconds) = *sums?.envy.get(&(j as u32))?;
                (seconds > 0.0).then(|| sum / seconds)
            });
            let envy: Vec<Option<f64>> = envy.collect();
            let sharing = sums.filter(|s| s.seconds > 0.0).map(|s| s.sharing_seconds / s.seconds);
            // Over the time in which it wanted anything, as what was granted: who wants nothing holds nothing.
            let received: Vec<f64> =
                (0..k).map(|j| mean(sums.and_then(|s| s.received.get(j)).copied().unwrap_or(0.0))).collect();
            let figures = Figures {
                policy: all.policies.first().filter(|_| all.policies.len() == 1).map(String::as_str),
                sharing,
                envy: strongest(&envy, &names),
                again: None,
                granted: mean(held),
                received: received.iter().sum(),
                verb: "received",
            };
            api::Share {
                tenant: line.name.clone(),
                entitlement_ratio: entitlement(book, line.weight),
                notes: figures.notes(),
                gpus,
                granted_ratio: if all.capacity_seconds > 0.0 { held / all.capacity_seconds } else { 0.0 },
                received,
                sharing_ratio: sharing,
                envy,
            }
        };
        let shares: Vec<api::Share> = self.visible_tenants(book).map(share).collect();
        let envies = shares.iter().flat_map(|share| share.envy.iter().flatten().copied());
        api::Audit {
            from: all.from.unwrap_or(book.now).seconds(),
            to: all.until.seconds(),
            seconds: all.seconds,
            kinds: cluster.kinds().iter().map(|kind| kind.name.clone()).collect(),
            tenants: names.clone(),
            worst_envy: envies.reduce(f64::max),
            least_sharing: shares.iter().filter_map(|share| share.sharing_ratio).reduce(f64::min),
            policies: all.policies.iter().cloned().collect(),
            shares,
        }
    }
}

/// A weight as a part of all.
fn entitlement(book: &Book, weight: f64) -> f64 {
    weight / book.present_tenants().map(|(_, line)| line.weight).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// The strongest envy of a row, and whom it is felt for.
fn strongest<'t>(envy: &[Option<f64>], tenants: &'t [String]) -> Option<(f64, &'t str)> {
    let known = envy.iter().zip(tenants).filter_map(|(ratio, name)| Some(((*ratio)?, name.as_str())));
    known.reduce(|most, other| if other.0 > most.0 { other } else { most })
}
