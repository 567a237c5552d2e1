//! Every candidate on every trace, once.

use super::{GoghSetup, UNUSED_GPUS};
use crate::pool;
use arles_report::record::{LearningSample, Summary};
use arles_sim::scenario::RunHooks;
use std::collections::BTreeMap;

/// What is kept of a run.
pub(super) struct Outcome {
    pub(super) summary: Summary,
    /// Time of the last arrival: as long as the trace offers work.
    pub(super) span_seconds: f64,
    /// GPU hours that its jobs take at best, and GPUs of the cluster.
    pub(super) work_gpu_hours: f64,
    pub(super) gpus: f64,
    /// Seconds, and energy of the cluster until then; from nothing to the end.
    pub(super) energy: Vec<(f64, f64)>,
    /// What the estimator knew over time.
    pub(super) learning: Vec<LearningSample>,
}

impl Outcome {
    /// Energy until a moment.
    pub(super) fn energy_until(&self, seconds: f64) -> f64 {
        between(&self.energy, seconds)
    }

    /// Energy from a tenth of the trace on.
    pub(super) fn energy_after_a_tenth(&self) -> f64 {
        self.summary.energy_kwh - self.energy_until(self.span_seconds / 10.0)
    }
}

/// The height at x of the line through points in order; that of the last beyond it.
fn between(points: &[(f64, f64)], x: f64) -> f64 {
    let after = points.partition_point(|point| point.0 < x);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (Some((x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some((_, y)), None) => y,
        (None, first) => first.map_or(0.0, |point| point.1),
    }
}

/// A run, or why there is none.
pub(super) type Result = std::result::Result<Outcome, String>;

/// Records by load, candidate and seed, each run once.
pub struct Runs {
    /// By load, habit and candidate; then by seed.
    results: BTreeMap<(usize, usize, usize), Vec<Result>>,
}

impl Runs {
    /// The runs of a candidate at a load under a habit of unused GPUs, by seed; none where it does not take part.
    pub(super) fn of(&self, load: usize, unused: usize, candidate: usize) -> &[Result] {
        self.results.get(&(load, unused, candidate)).map_or(&[], Vec::as_slice)
    }

    /// Something of every run that there is, seed by seed, beside the same of another candidate.
    pub(super) fn beside(
        &self,
        (load, unused): (usize, usize),
        (own, other): (usize, usize),
        of: impl Fn(&Outcome, &Outcome) -> f64,
    ) -> Vec<f64> {
        let pairs = self.of(load, unused, own).iter().zip(self.of(load, unused, other));
        pairs.filter_map(|(own, other)| Some(of(own.as_ref().ok()?, other.as_ref().ok()?))).collect()
    }

    /// Something of every run that there is.
    pub(super) fn each(&self, load: usize, unused: usize, own: usize, of: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        self.beside((load, unused), (own, own), |outcome, _| of(outcome))
    }

    /// Why runs failed, each with its candidate.
    pub(super) fn warnings<'r>(&'r self, setup: &'r GoghSetup<'_>) -> impl Iterator<Item = String> + 'r {
        self.results.iter().flat_map(|((_, _, c), runs)| {
            let failed = runs.iter().filter_map(|run| run.as_ref().err());
            failed.map(|why| format!("{}: {why}", setup.name(*c)))
        })
    }
}

/// Runs every candidate on every trace.
#[must_use]
pub fn runs(setup: &GoghSetup<'_>) -> Runs {
    let mut items = Vec::new();
    for (load, l) in setup.loads.iter().enumerate() {
        for unused in 0..UNUSED_GPUS.len() {
            for candidate in setup.there(load, unused) {
                items.extend((0..l.scenarios.len()).map(|seed| (load, unused, candidate, seed)));
            }
        }
    }
    let done = pool::each(setup.plan, &items, |&item| one(setup, item));
    let mut results: BTreeMap<_, Vec<Result>> = BTreeMap::new();
    for ((load, unused, candidate, _), result) in items.into_iter().zip(done) {
        results.entry((load, unused, candidate)).or_default().push(result);
    }
    Runs { results }
}

fn one(setup: &GoghSetup<'_>, (load, unused, candidate, seed): (usize, usize, usize, usize)) -> Result {
    let candidate = &setup.candidates[candidate];
    let scenario = &setup.loads[load].scenarios[seed][unused];
    let hooks = RunHooks { estimator: setup.guess(candidate, seed), ..RunHooks::default() };
    let record = scenario.run(candidate.policy, hooks, &mut |_| {}).map_err(|error| error.to_string())?;
    let end = (record.summary.makespan_seconds, record.summary.energy_kwh);
    let samples = record.timeline.iter().map(|s| (s.at_seconds, s.energy_kwh)).filter(|s| s.0 > 0.0 && s.0 < end.0);
    Ok(Outcome {
        work_gpu_hours: scenario.least_gpu_seconds() / 3600.0,
        gpus: scenario.cluster().gpus() as f64,
        span_seconds: scenario.trace().jobs.last().map_or(0.0, |job| job.arrival_seconds),
        energy: std::iter::once((0.0, 0.0)).chain(samples).chain([end]).collect(),
        learning: record.learning,
        summary: record.summary,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_between_samples_is_on_the_line() {
        let energy = [(0.0, 0.0), (10.0, 5.0), (20.0, 6.0)];
        let expect = [(0.0, 0.0), (5.0, 2.5), (10.0, 5.0), (15.0, 5.5), (20.0, 6.0), (99.0, 6.0)];
        expect.into_iter().for_each(|(x, y)| assert_eq!(between(&energy, x), y));
        assert_eq!(between(&[], 1.0), 0.0);
    }
}
