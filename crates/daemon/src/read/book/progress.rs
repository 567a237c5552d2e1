//! What jobs' own code says, and what of it counts as a measurement.
//!
//! **Which stretch a rate is of.** The hook measures between ends of steps: after every report it notes the time and count of the next end of
//! a step (a mark), and a report's rate is that between the mark of the last report that had a rate and its own. So the stretch
//! begins no earlier than w₀, the arrival of the last report *before* the count had reached what it was at that earlier report:
//!
//! ```text
//! report      1        2        3            a rate in report 3 is of a stretch that began after report 1,
//! count       s₁       s₂       s₃           because its first mark was noted while the count went from s₁ to s₂
//! mark            ·────────·                 (w₀ = arrival of 1)
//! ```
//!
//! A report without a rate leaves w₀ where it is; it is never later than the true beginning. (`arles run` measures between lines of output
//! under the same bound.)
//!
//! **Undisturbed.** Such a rate is an observation of (workload, gang, partner, kind, spread) only if the job has held the same gang, beside
//! the same partner, both running, since w₀, and its count has moved. A job, and a cell, is observed at most every [`OBSERVED_EVERY`]
//! seconds of the scheduler's clock: the catalog's filter gains little from more, and journal and estimator would have to cope with
//! as many as there are jobs.
//!
//! Power comes from whoever runs the gangs. An engine that also measures the rate of a job that reports its own is heard for the power
//! alone: code knows what it calls a step, an engine guesses.
//!
//! Must never depend on anything but the entries: a replay comes to the same observations.

use super::{Book, CellKey, Record, edit};
use crate::store::entry::ProgressReport;
use arles_api::JobState;
use arles_core::estimate::{Observation, RateQuery};
use arles_core::{JobId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Seconds of the scheduler's clock between two observations of one job, and of one cell.
pub(super) const OBSERVED_EVERY: f64 = 30.0;

/// What a job's code said last, and what is known of when it measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) steps: f64,
    /// Steps per second of the code's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) safe_steps: Option<f64>,
    /// When it arrived.
    pub(crate) at: Time,
    /// Arrival of the last report before the count reached `steps`; `None` if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reached_after: Option<Time>,
    /// w₀ of the next rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measures_from: Option<Time>,
    /// When a rate of it last counted as a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) observed: Option<Time>,
}

impl Said {
    /// All moments in it, to be moved.
    pub(super) fn times(&mut self) -> impl Iterator<Item = &mut Time> {
        let rest = [&mut self.reached_after, &mut self.measures_from, &mut self.observed];
        std::iter::once(&mut self.at).chain(rest.into_iter().flatten())
    }

    fn after(before: Option<&Self>, report: &ProgressReport) -> Self {
        let reached_after = before.and_then(|b| if b.steps == report.steps { b.reached_after } else { Some(b.at) });
        // With a checkpoint the code begins to measure anew.
        let anew = report.rate.is_some() || report.safe_steps == Some(report.steps);
        let kept = before.and_then(|b| b.measures_from).filter(|_| !anew);
        Self {
            steps: report.steps,
            rate: report.rate,
            safe_steps: report.safe_steps,
            at: report.at,
            reached_after,
            measures_from: kept.or(reached_after),
            observed: before.and_then(|b| b.observed),
        }
    }

    /// Whether this code measures its own rate.
    fn measures(&self) -> bool {
        self.rate.is_some() || self.observed.is_some()
    }
}

impl Book {
    /// What reports count as measurements, given everything before them.
    pub(crate) fn observations(&self, reports: &[ProgressReport]) -> Vec<Observation> {
        let mut cells: BTreeSet<CellKey> = BTreeSet::new();
        let seen = reports.iter().filter_map(|report| self.steady(report)).filter(|seen| self.is_due(seen));
        let seen = seen.filter(|seen| cells.insert((seen.ask, seen.kind, seen.spread)));
        seen.map(|seen| self.of_its_kind(seen)).collect()
    }

    /// Whether neither the job nor its cell was observed a moment ago.
    fn is_due(&self, seen: &Observation) -> bool {
        let said = seen.job.and_then(|job| self.jobs.get(&job)).and_then(|record| record.said);
        let sighting = self.sightings.get(&(seen.ask, seen.kind, seen.spread));
        let last = [said.and_then(|said| said.observed), sighting.map(|sighting| sighting.at)];
        last.into_iter().flatten().all(|last| seen.at.since(last) >= OBSERVED_EVERY)
    }

    /// The rate of a report, if it is of an undisturbed stretch.
    fn steady(&self, report: &ProgressReport) -> Option<Observation> {
        let record = self.jobs.get(&report.job)?;
        let (said, held) = (record.said.as_ref()?, record.held.as_ref()?);
        let rate = report.rate.map(|rate| rate / report.speed).filter(|rate| rate.is_finite() && *rate > 0.0)?;
        let undisturbed = record.state == JobState::Running
            && report.steps > said.steps
            && said.measures_from.is_some_and(|from| from >= record.steady_since);
        if !undisturbed {
            return None;
        }
        let partner = match self.partner(record) {
            None => None,
            Some(partner) if partner.state == JobState::Running => Some(partner.spec.workload),
            Some(_) => return None,
        };
        let ask = RateQuery { workload: record.spec.workload, gang: held.gpus.len() as u32, partner };
        let watts = record.watts.filter(|(since, _)| *since >= record.steady_since).map_or(0.0, |(_, watts)| watts);
        Some(Observation {
            ask,
            kind: held.kind,
            spread: held.spread,
            rate,
            watts,
            at: report.at,
            job: Some(report.job),
        })
    }

    /// Takes reports in. Those of jobs that are over are too late to matter.
    pub(super) fn progressed(&mut self, reports: &[ProgressReport]) {
        let observed: BTreeSet<JobId> = self.observations(reports).iter().filter_map(|seen| seen.job).collect();
        let steady: Vec<Observation> = reports.iter().filter_map(|report| self.steady(report)).collect();
        for report in reports {
            let Some(record) = edit(&mut self.jobs, &report.job).filter(|record| !record.state.over()) else {
                continue;
            };
            let mut said = Said::after(record.said.as_ref(), report);
            if observed.contains(&report.job) {
                said.observed = Some(report.at);
            }
            record.said = Some(said);
        }
        steady.iter().for_each(|seen| self.look_at_card(seen));
    }

    /// An engine's measurements, those of jobs that measure their own rate for their power alone: their rate is 0, which says nothing.
    pub(crate) fn heard_from_engine(&self, mut seen: Vec<Observation>) -> Vec<Observation> {
        for observation in &mut seen {
            let record = observation.job.and_then(|job| self.jobs.get(&job));
            if record.is_some_and(|record| record.said.is_some_and(|said| said.measures())) {
                observation.rate = 0.0;
            }
        }
        seen
    }

    /// Remembers the power that was measured of a job's GPUs, for the observations of its rate.
    pub(super) fn note_watts(&mut self, seen: &Observation) {
        if let Some(record) = seen.job.and_then(|job| edit(&mut self.jobs, &job))
            && seen.watts > 0.0
        {
            record.watts = Some((seen.at, seen.watts));
        }
    }

    /// Whoever shares GPUs with a job, if anybody does.
    fn partner(&self, record: &Record) -> Option<&Record> {
        let gpus = &record.held.as_ref()?.gpus;
        let others = gpus.iter().flat_map(|&gpu| self.seats[gpu as usize]);
        let other = others.into_iter().find(|&job| job != 0 && job != record.spec.id.0)?;
        self.jobs.get(&JobId(other)).map(AsRef::as_ref)
    }

    /// Something about a job's gang has changed, for it and for whoever is beside it.
    pub(super) fn disturb(&mut self, at: Time, job: JobId) {
        let Some(record) = self.jobs.get(&job) else { return };
        let partner = self.partner(record).map(|partner| partner.spec.id);
        for job in std::iter::once(job).chain(partner) {
            if let Some(record) = edit(&mut self.jobs, &job) {
                record.steady_since = at;
            }
        }
    }
}

#[cfg(test)]
mod tests;
