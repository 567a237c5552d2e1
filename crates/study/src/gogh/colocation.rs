//! What an estimator believes of pairs before and after a run, beside the truth.
//!
//! The relative rate of w beside p on a kind is r(w,p)/r(w): what the partner leaves of w's rate alone. An estimator is held to
//! its own figure alone. The error is the mean of |believed − true| over all ordered pairs that fit, in hundredths of the rate alone.

use super::{GoghSetup, UNUSED_GPUS};
use arles_core::estimate::{Estimator, Observation, RateQuery, RateRow, Source};
use arles_core::{Kind, KindId, Profile, WorkloadId};
use arles_report::finding::{Finding, Plot, Sheet, Style, Value};
use arles_sim::measure::EstimatorSetup;
use arles_sim::scenario::{RunHooks, Scenario};
use std::sync::{Arc, Mutex, PoisonError};

/// An estimator that can still be asked when the run that used it is over.
struct SharedEstimator(Arc<Mutex<Box<dyn Estimator>>>);

impl SharedEstimator {
    fn with<R>(&self, what: impl FnOnce(&mut dyn Estimator) -> R) -> R {
        what(self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut())
    }
}

impl Estimator for SharedEstimator {
    fn estimate(&self, ask: &RateQuery) -> RateRow {
        self.with(|estimator| estimator.estimate(ask))
    }

    fn observe(&mut self, observation: &Observation) -> Vec<RateQuery> {
        self.with(|estimator| estimator.observe(observation))
    }

    fn add_kind(&mut self, kind: &Kind) {
        self.with(|estimator| estimator.add_kind(kind));
    }

    fn add_workload(&mut self, name: &str, profile: &Profile) {
        self.with(|estimator| estimator.add_workload(name, profile));
    }

    fn fork(&self) -> Box<dyn Estimator> {
        self.with(|estimator| estimator.fork())
    }
}

/// Relative rates of all ordered pairs on a kind, row by row, and whether each was measured.
type Cells = Vec<Option<(f64, bool)>>;

fn believed(estimator: &dyn Estimator, workloads: usize, kind: usize) -> Cells {
    let ids = || (0..workloads as u32).map(WorkloadId);
    let cell =
        |workload, partner| estimator.estimate(&RateQuery { workload, gang: 1, partner }).cells.get(kind).copied()?;
    let alone: Vec<_> = ids().map(|w| cell(w, None)).collect();
    let pair = |(w, p): (WorkloadId, WorkloadId)| {
        let (alone, pair) = (alone[w.index()]?, cell(w, Some(p))?);
        Some((pair.rate / alone.rate, pair.source == Source::Measured))
    };
    ids().flat_map(|w| ids().map(move |p| (w, p))).map(pair).collect()
}

fn truth(scenario: &Scenario, kind: usize) -> Cells {
    let truth = scenario.truth();
    let ids = || (0..scenario.trace().workloads.len() as u32).map(WorkloadId);
    let pair = |(w, p): (WorkloadId, WorkloadId)| {
        let alone = truth.alone(w, 1)[kind]?[0].rate;
        Some((truth.together(w, p, KindId(kind as u16))?.first_rate / alone, true))
    };
    ids().flat_map(|w| ids().map(move |p| (w, p))).map(pair).collect()
}

/// Mean error, and of how many cells, of those that `keep` wants; nothing where there are none.
fn error(truth: &Cells, believed: &Cells, keep: impl Fn(usize) -> bool) -> (f64, u64) {
    let both = truth.iter().zip(believed).enumerate().filter(|(i, _)| keep(*i));
    let errors: Vec<f64> = both.filter_map(|(_, (t, b))| Some((t.as_ref()?.0 - b.as_ref()?.0).abs())).collect();
    (errors.iter().sum::<f64>() / errors.len() as f64, errors.len() as u64)
}

/// Tells what one estimator believes of pairs before and after a run.
#[must_use]
pub fn colocation(setup: &GoghSetup<'_>) -> Finding {
    let chosen = setup.learner();
    let scenario = setup.loads.get(setup.middle()).and_then(|load| load.scenarios.first());
    let (Some(chosen), Some([scenario, _])) = (chosen, scenario) else {
        let mut finding = Finding::by("No estimator takes part in these runs.");
        finding.warn("no estimator takes part, so there is nothing to compare with the truth");
        return finding;
    };
    let candidate = &setup.candidates[chosen];
    let mut finding = Finding::by(format!(
        "Relative rates of pairs of the trace's workloads as estimated by '{}': before its run at {} (first seed, \
            unused GPUs {}), from measurements of other workloads only, and after the run. A relative rate is the rate \
            beside a partner over the rate alone.",
        setup.name(chosen),
        setup.loads[setup.middle()].title,
        UNUSED_GPUS[0]
    ));
    let Some(guess) = setup.guess(candidate, 0) else { return finding };
    let (kinds, workloads) = (scenario.cluster().kinds().len(), scenario.trace().workloads.len());
    let look =
        |estimator: &dyn Estimator| (0..kinds).map(|kind| believed(estimator, workloads, kind)).collect::<Vec<_>>();
    let before = look(guess.estimator.as_ref());
    let kept = Arc::new(Mutex::new(guess.estimator));
    let guess = EstimatorSetup { estimator: Box::new(SharedEstimator(Arc::clone(&kept))), ..guess };
    let hooks = RunHooks { estimator: Some(guess), ..RunHooks::default() };
    let jobs = scenario.trace().jobs.len().max(1) as f64;
    let progress = &mut |over: u64| (setup.plan.progress)(over as f64 / jobs);
    if let Err(why) = scenario.run(candidate.policy, hooks, progress) {
        finding.warn(format!("{}: {why}", setup.name(chosen)));
        return finding;
    }
    let after = look(&SharedEstimator(kept));
    let truths: Vec<Cells> = (0..kinds).map(|kind| truth(scenario, kind)).collect();
    finding.sheets.push(sheet(scenario, &truths, &before, &after));
    let most = |kind: &usize| truths[*kind].iter().flatten().count();
    if let Some(kind) = (0..kinds).rev().max_by_key(most) {
        finding.plots.push(maps(scenario, kind, [&truths[kind], &before[kind], &after[kind]]));
    }
    finding
}

fn sheet(scenario: &Scenario, truths: &[Cells], before: &[Cells], after: &[Cells]) -> Sheet {
    let columns = [
        ("kind", "kind"),
        ("pairs\nthat fit", "pairs"),
        ("measured\nin the run", "measured"),
        ("error\nbefore", "error_before"),
        ("error\nafter", "error_after"),
        ("of those never\nmeasured, before", "error_unmeasured_before"),
        ("after", "error_unmeasured_after"),
    ];
    let mut sheet = Sheet::new("pairs", "Mean error of relative rates", &columns);
    for (j, kind) in scenario.cluster().kinds().iter().enumerate() {
        let measured = |i: usize| after[j][i].is_some_and(|cell| cell.1);
        let of = |cells: &Cells, keep: &dyn Fn(usize) -> bool| error(&truths[j], cells, keep);
        let number = |(error, cells): (f64, u64)| match cells {
            0 => Value::Empty,
            _ => Value::number(error, Style::Percent(1)),
        };
        sheet.row(vec![
            kind.name.as_str().into(),
            Value::Count(of(&after[j], &|_| true).1),
            Value::Count(of(&after[j], &measured).1),
            number(of(&before[j], &|_| true)),
            number(of(&after[j], &|_| true)),
            number(of(&before[j], &|i| !measured(i))),
            number(of(&after[j], &|i| !measured(i))),
        ]);
    }
    sheet.note(
        "Pairs are ordered: the rate of the first workload beside the second. Errors are in percentage points of the \
        rate alone.",
    )
}

fn maps(scenario: &Scenario, kind: usize, cells: [&Cells; 3]) -> Plot {
    let name = &scenario.cluster().kinds()[kind].name;
    let maps = ["true", "estimated before the run", "estimated after the run"].into_iter().zip(cells);
    let bare = |cells: &Cells| cells.iter().map(|cell| cell.map(|(ratio, _)| ratio)).collect();
    Plot::HeatMaps {
        name: "pairs",
        title: format!("Rate beside a partner over the rate alone, on {name}"),
        caption: "RateRow: the workload whose rate is shown; column: its partner. Bright: little interference. Empty: the two do not \
            fit in memory together.".to_owned(),
        scale: "rate beside a partner over the rate alone",
        names: scenario.workloads().map(|(name, _)| name.to_owned()).collect(),
        maps: maps.map(|(title, cells)| (title.to_owned(), bare(cells))).collect(),
    }
}
