//! Energy accounts, and how far off estimates were when something was measured. What was measured is in the catalog.

use super::{Book, CellKey, edit};
use crate::store::HistoryRow;
use arles_core::engine::{JobMeter, KindMeter, Meters};
use arles_core::estimate::{Observation, RateQuery};
use arles_core::meter::Charge;
use arles_core::{KindId, Prices, Spread, Time};
use serde::{Deserialize, Serialize};

/// Time between two samples of the counters, by the scheduler's clock.
const SAMPLE_SECONDS: f64 = 300.0;

/// A cell that was measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Sighting {
    /// What was estimated when it was first measured.
    pub(crate) first_estimate: Option<f64>,
    /// When it was last measured.
    pub(crate) at: Time,
}

/// What was measured of a cell on one tenant's own runs: the means.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OwnCell {
    pub(crate) times: u32,
    pub(crate) rate: f64,
    /// Of the measurements that had one.
    pub(crate) watts: Option<f64>,
}

impl OwnCell {
    fn add(&mut self, seen: &Observation) {
        self.times = self.times.saturating_add(1);
        let part = 1.0 / f64::from(self.times);
        self.rate += part * (seen.rate - self.rate);
        if seen.watts > 0.0 {
            let was = self.watts.unwrap_or(seen.watts);
            self.watts = Some(was + part * (seen.watts - was));
        }
    }
}

/// A measured cell as the book had it before there was a catalog.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub(crate) struct OldCell {
    pub(crate) mean_rate: f64,
    pub(crate) mean_watts: f64,
    pub(crate) times: u32,
    pub(crate) at: Time,
    #[serde(default)]
    first_estimate: Option<f64>,
}

/// Counters since the journal began.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// Since when.
    pub(crate) begun: Time,
    /// When the meters were read, on the scheduler's clock.
    pub(crate) at: Time,
    /// By kind.
    pub(crate) kinds: Vec<KindMeter>,
    /// By tenant: energy and GPU seconds.
    pub(crate) tenants: Vec<(Charge, f64)>,
    /// What the energy of each kind cost, unused GPUs included, and of each tenant: money and kilograms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kinds_paid: Vec<(f64, f64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tenants_paid: Vec<(f64, f64)>,
    /// The last readings of the kinds' meters, and of which boot.
    pub(crate) reading: Option<(u64, Vec<KindMeter>)>,
    /// When the counters were last sampled for the history.
    pub(crate) sampled: Option<Time>,
}

impl Totals {
    pub(super) fn new(kinds: usize, begun: Time) -> Self {
        Self { begun, at: begun, kinds: vec![KindMeter::default(); kinds], ..Self::default() }
    }

    /// The same counters as they were at an earlier moment taken away: what happened since.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut left = self.clone();
        left.begun = earlier.at;
        for (kind, was) in left.kinds.iter_mut().zip(&earlier.kinds) {
            *kind = difference(kind, was);
        }
        for (tenant, was) in left.tenants.iter_mut().zip(&earlier.tenants) {
            tenant.0 = charge_difference(&tenant.0, &was.0);
            tenant.1 -= was.1;
        }
        let paid = [(&mut left.kinds_paid, &earlier.kinds_paid), (&mut left.tenants_paid, &earlier.tenants_paid)];
        for (now, was) in paid.into_iter().flat_map(|(now, was)| now.iter_mut().zip(was)) {
            *now = (now.0 - was.0, now.1 - was.1);
        }
        left
    }
}

fn difference(now: &KindMeter, was: &KindMeter) -> KindMeter {
    let mut left = *now;
    left.used.active_joules -= was.used.active_joules;
    left.used.idle_joules -= was.used.idle_joules;
    left.unused_joules -= was.unused_joules;
    left.busy_gpu_seconds -= was.busy_gpu_seconds;
    left
}

fn charge_difference(now: &Charge, was: &Charge) -> Charge {
    Charge {
        active_joules: now.active_joules - was.active_joules,
        idle_joules: now.idle_joules - was.idle_joules,
        restart_joules: now.restart_joules - was.restart_joules,
    }
}

/// Adds money and kilograms to an account, where prices are known.
fn pay(paid: &mut Vec<(f64, f64)>, account: usize, (money, kg): (f64, f64), prices: &Prices) {
    if prices.is_empty() {
        return;
    }
    paid.resize(paid.len().max(account + 1), (0.0, 0.0));
    paid[account].0 += money;
    paid[account].1 += kg;
}

impl Book {
    /// Takes in a reading, or a part of one: jobs are booked as they come, and everything else with the last part.
    pub(super) fn metered(&mut self, at: Time, meters: &Meters) {
        if !meters.completes() {
            let same_boot = self.totals.reading.as_ref().is_some_and(|(boot, _)| *boot == meters.boot);
            if !same_boot {
                self.totals.reading = Some((meters.boot, Vec::new()));
            }
            return self.job_meters(meters, at);
        }
        let fresh = KindMeter::default();
        for (j, reading) in meters.kinds.iter().enumerate().take(self.totals.kinds.len()) {
            let was = match &self.totals.reading {
                Some((boot, kinds)) if *boot == meters.boot => kinds.get(j).unwrap_or(&fresh),
                _ => &fresh,
            };
            let more = difference(reading, was);
            let total = &mut self.totals.kinds[j];
            total.used.active_joules += more.used.active_joules;
            total.used.idle_joules += more.used.idle_joules;
            total.unused_joules += more.unused_joules;
            total.busy_gpu_seconds += more.busy_gpu_seconds;
            let joules = more.used.active_joules + more.used.idle_joules + more.unused_joules;
            pay(&mut self.totals.kinds_paid, j, self.prices.charge(self.totals.at, at, joules), &self.prices);
        }
        self.job_meters(meters, at);
        self.totals.reading = Some((meters.boot, meters.kinds.clone()));
        self.totals.at = at;
        if meters.gpu_watts.len() == self.watts.len() {
            self.watts.clone_from(&meters.gpu_watts);
            self.add_up_watts();
        }
        if self.totals.sampled.is_none_or(|last| at.since(last) >= SAMPLE_SECONDS) {
            self.totals.sampled = Some(at);
            let totals = serde_json::to_string(&self.totals).expect("plain data");
            self.rows.push(HistoryRow::Sample { at, totals });
        }
    }

    fn job_meters(&mut self, meters: &Meters, at: Time) {
        let since = self.totals.at;
        meters.jobs.iter().for_each(|meter| self.job_meter(meters.boot, meter, since, at));
    }

    /// Books what a job's meter shows more than the last time.
    fn job_meter(&mut self, boot: u64, meter: &JobMeter, since: Time, at: Time) {
        let Some(record) = edit(&mut self.jobs, &meter.job) else { return };
        let (was, was_seconds) = match record.reading.as_deref() {
            Some((of, last)) if *of == boot => (last.charge, last.gpu_seconds),
            _ => (Charge::default(), 0.0),
        };
        let more = charge_difference(&meter.charge, &was);
        let seconds = meter.gpu_seconds - was_seconds;
        record.charge.add(&more);
        record.gpu_seconds += seconds;
        record.reading = Some(Box::new((boot, *meter)));
        if !record.state.over() {
            record.steps = record.steps.max(meter.steps);
            record.rate = (meter.rate > 0.0).then_some(meter.rate);
        }
        let tenant = record.spec.tenant.index();
        if self.totals.tenants.len() <= tenant {
            self.totals.tenants.resize(tenant + 1, (Charge::default(), 0.0));
        }
        let total = &mut self.totals.tenants[tenant];
        total.0.add(&more);
        total.1 += seconds;
        pay(&mut self.totals.tenants_paid, tenant, self.prices.charge(since, at, more.total()), &self.prices);
    }

    pub(super) fn last_meter(&mut self, meter: &JobMeter) {
        let boot = self.totals.reading.as_ref().map_or(0, |(boot, _)| *boot);
        self.job_meter(boot, meter, self.totals.at, self.totals.at);
    }

    /// Keeps of an old snapshot's cells what is still the book's.
    pub(crate) fn keep_old_sightings(&mut self) {
        for (key, cell) in &self.old_measured {
            let sighting = Sighting { first_estimate: cell.first_estimate, at: cell.at };
            self.sightings.entry(*key).or_insert(sighting);
        }
    }

    pub(super) fn measured(&mut self, seen: &Observation) {
        self.note_watts(seen);
        if seen.rate <= 0.0 {
            return;
        }
        let key: CellKey = (seen.ask, seen.kind, seen.spread);
        let guess = self.guess(&seen.ask, seen.kind, seen.spread);
        self.counts.measurements += 1;
        if let Some(guess) = guess.filter(|_| seen.rate > 0.0) {
            self.counts.error_sum += (guess / seen.rate - 1.0).abs();
            self.counts.errors += 1;
        }
        let sighting = self.sightings.entry(key).or_insert(Sighting { first_estimate: guess, at: seen.at });
        sighting.at = sighting.at.max(seen.at);
        if let Some(record) = seen.job.and_then(|job| self.jobs.get(&job)) {
            self.own_measured.entry((key, record.spec.tenant.0)).or_default().add(seen);
        }
    }

    /// What is estimated now of a cell that an engine may measure. (A pair is asked for with the lesser workload first.)
    pub(crate) fn guess(&self, ask: &RateQuery, kind: KindId, spread: Spread) -> Option<f64> {
        match ask.partner {
            Some(partner) if partner < ask.workload => {
                let turned = RateQuery { workload: partner, gang: ask.gang, partner: Some(ask.workload) };
                self.estimate(&turned, kind).map(|estimate| estimate.partner_rate)
            }
            _ => self.estimate(ask, kind).map(|e| e.rate_at(spread)),
        }
    }
}
