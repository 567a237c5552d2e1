//! Jobs that can wait for cheaper electricity: those with a deadline, while prices are known.
//!
//! A job that waits for a cheaper hour is invisible to policies and placer, like one that is held. It is promised its deadline *by its tenant's own
//! means*: with Π the weights of all tenants, present or not, and m the GPUs of the kinds that the job fits,
//!
//!   part   = π/Π · m / (GPUs that all live jobs of its tenant ask for),  at most 1
//!   need   = what is left / (part · its rate on the slowest of these kinds)
//!   latest = deadline − (1 + MARGIN) · need − a few rounds and a restart
//!
//! and it waits only while `latest` is ahead. From then on its tenant's share alone ends it in time, whatever others do; so jobs wait only under policies
//! that promise every tenant at least an equal division. What others might leave free is never counted on. Where nobody knows how much there is to
//! do (a program without a time limit), nothing can be promised, and the job does not wait.
//!
//! Until `latest` it waits for the start at which the mean price over its run is least; a hundredth less is not worth waiting for. It is looked at
//! once a round until it has started; then price plays no part any more: a stop costs a restart, and the promise was about the whole run.

use super::*;
use crate::allocate::Entitlement;
use crate::prices::Prices;

/// Rates are estimates, and turns are whole rounds.
const MARGIN: f64 = 0.5;
/// Rounds until a job that may start has a place.
const GUARD_ROUNDS: f64 = 4.0;
/// The part of the price that must be saved.
const WORTH_WAITING: f64 = 0.01;

impl Scheduler {
    /// Electricity by the hour, as far as it is known.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    pub(super) fn set_prices(&mut self, prices: &Prices, out: &mut Vec<Output>) {
        if let Err(why) = prices.check() {
            return out.push(Output::Note(Event::Refused { why }));
        }
        out.push(Output::Note(Event::PricesSet { bands: prices.bands().len() }));
        self.prices = prices.clone();
        self.defer();
    }

    /// Decides anew which jobs wait for a cheaper hour.
    pub(super) fn defer(&mut self) {
        let slots: Vec<Slot> = self.jobs.deferrable().map(|(slot, _)| slot).collect();
        if slots.is_empty() {
            return;
        }
        let mut asked = vec![0.0; self.tenants.len()];
        self.jobs.iter().for_each(|(_, job)| asked[job.spec.tenant.index()] += f64::from(job.spec.most_gpus()));
        for slot in slots {
            let job = self.jobs.get(slot);
            let until = self.cheaper_start(job, asked[job.spec.tenant.index()]);
            if until != job.cheaper_at {
                self.changed |= until.is_none() || job.cheaper_at.is_none();
                self.jobs.get_mut(slot).cheaper_at = until;
            }
        }
    }

    /// When a job should start instead of now, if it should wait.
    fn cheaper_start(&self, job: &Job, asked: f64) -> Option<Time> {
        let untouched = job.phase == Phase::Waiting && job.target.is_none() && job.first_started.is_none();
        // Where claims are jobs', a tenant's share shrinks with everybody else's jobs.
        let promised =
            self.policy.promises(Promise::SharingIncentive) && self.policy.entitlement == Entitlement::Tenants;
        if !untouched || self.prices.is_empty() || !promised {
            return None;
        }
        let (latest, likely) = self.latest_start(job, asked)?;
        if latest <= self.now {
            return None;
        }
        let mean = |start: Time| self.prices.means(start, Time(start.0.saturating_add(likely.0))).0;
        let starts = self.prices.bands().iter().map(|band| band.from);
        let starts = starts.filter(|from| *from > self.now && *from < latest).chain([latest]);
        let (start, price) = starts.map(|start| (start, mean(start))).min_by(|a, b| a.1.total_cmp(&b.1))?;
        let now = mean(self.now);
        (price < now - WORTH_WAITING * now.abs()).then_some(start)
    }

    /// The last moment at which its tenant's share alone still ends a job before its deadline, and how long it is likely to run.
    fn latest_start(&self, job: &Job, asked: f64) -> Option<(Time, Time)> {
        let deadline = job.spec.before?;
        let class = self.classes.get(&job.class)?;
        let counts = self.cluster.counts();
        let fits = || (0..counts.len()).filter(|&j| class.rates[j] > 0.0 && counts[j] >= job.gang());
        let slowest = fits().map(|j| class.rates[j]).reduce(f64::min)?;
        let present = self.tenants.iter().zip(&self.tenant_states).filter(|(_, state)| !state.removed);
        let all: f64 = present.map(|(tenant, _)| tenant.weight).sum();
        let gpus: f64 = fits().map(|j| f64::from(counts[j])).sum();
        let part = (self.tenants[job.spec.tenant.index()].weight / all * gpus / asked.max(1.0)).min(1.0);
        let (need, likely) = match (job.spec.work, job.spec.time_limit_seconds) {
            (Work::Steps(_), _) => {
                let left = job.progress(class.best_rate()).1;
                (left / slowest, left / class.best_rate())
            }
            (Work::Period(seconds), _) | (Work::Open(_), Some(seconds)) => (seconds, seconds),
            (Work::Open(_), None) => return None,
        };
        let need = (1.0 + MARGIN) * need / part.max(f64::MIN_POSITIVE);
        let guard = GUARD_ROUNDS * self.settings.round_seconds + job.spec.restart_seconds;
        let room = deadline.since(Time::ZERO) - need - guard;
        (room.is_finite() && room > 0.0).then(|| (Time::from_seconds(room), Time::from_seconds(likely)))
    }

    /// Why a job waits that waits for a cheaper hour.
    pub(super) fn deferral_reason(&self, job: &Job) -> Option<Reason> {
        let until = job.cheaper_at?;
        let price = |at: Time| self.prices.at(at).map_or(0.0, |band| band.per_kwh);
        Some(Reason::CheaperHour {
            now_per_kwh: price(self.now),
            then_per_kwh: price(until),
            seconds: until.since(self.now).max(0.0),
            deadline_seconds: job.spec.before.map_or(0.0, |before| before.since(self.now)),
        })
    }
}
