//! The chapter about estimates: `arles_learn::evaluate` on every published workload, as sheets and charts.

use super::known;
use crate::estimation::Estimation;
use crate::measured;
use crate::settings::Settings;
use crate::setup::Setup;
use anyhow::Result;
use arles_core::Library;
use arles_learn::evaluate::{EvaluationOptions, OBSERVATION_PLANS, ObservationPlan, Score, Split, evaluate};
use arles_learn::{ESTIMATORS, EstimatorEntry};
use arles_report::finding::{Finding, Judgement, Plot, Series, Sheet, Style, Value};
use arles_study::Plan;
use arles_study::gogh::LEARNED;

/// Numbers of observations that are shown, with the columns' titles and names.
const SHOWN: [(&str, &str, &str); 5] = [
    ("0", "seen\nnothing", "error_0"),
    ("1", "\n1", "error_1"),
    ("2", "\n2", "error_2"),
    ("4", "\n4", "error_4"),
    ("8", "\n8", "error_8"),
];

/// Cells and split, with the names of their sheet and chart and what they are called.
const PARTS: [(&str, Split, &str, &str, &str); 4] = [
    ("pair", Split::LeaveWorkloadOut, "pair-workload", "error-pair-workload", "Rates in pairs, a workload never seen"),
    (
        "pair",
        Split::LeaveFamilyOut,
        "pair-family",
        "error-pair-family",
        "Rates in pairs, a model never seen at any batch size",
    ),
    ("solo", Split::LeaveWorkloadOut, "solo-workload", "error-solo-workload", "Rates alone, a workload never seen"),
    (
        "solo",
        Split::LeaveFamilyOut,
        "solo-family",
        "error-solo-family",
        "Rates alone, a model never seen at any batch size",
    ),
];

/// The published error, and what still counts as that.
const STATED_ERROR: f64 = 0.05;
const MOST_ERROR: f64 = 0.06;
/// After so many observations.
const SEEN: &str = "4";

/// Evaluates all estimators on the ground of the settings.
pub(super) fn finding(settings: &Settings, plan: &Plan<'_>) -> Result<Finding> {
    let setup = Setup::new(settings)?;
    let (catalog, kinds) = match setup.rates() {
        Some(table) => {
            let measured = measured::from_table(table)?;
            (measured.catalog, measured.kinds)
        }
        None => (known::measured(&setup, &known::published(&setup))?, setup.cluster.kinds().to_vec()),
    };
    // Every fold trains every estimator: a quick look has few folds.
    let (splits, observed): (&[Split], &[&str]) = if plan.quick {
        (&[Split::LeaveFamilyOut], &["0", "1", "4"])
    } else {
        (&Split::OF_WORKLOADS, &["0", "1", "2", "4", "8"])
    };
    let plans: Vec<ObservationPlan> =
        OBSERVATION_PLANS.iter().filter(|p| observed.contains(&p.name)).copied().collect();
    let estimators = chosen(settings);
    let question = EvaluationOptions {
        catalog: &catalog,
        kinds: &kinds,
        library: Library::builtin(),
        estimators: &estimators,
        splits,
        plans: &plans,
        seed: plan.seed,
        threads: plan.threads,
        most_folds: 32,
        withheld: 0.0,
    };
    let scores = evaluate(&question, plan.progress)?;
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
    // E|e^(s·N) − 1| ≈ s·√(2/π).
    let floor = (settings.rates.is_none() && settings.deviation > 0.0)
        .then(|| settings.deviation * std::f64::consts::FRAC_2_PI.sqrt());
    let mut finding = Finding::by(format!(
        "Every published workload in turn is held out, or all batch sizes of its model: no cell that names it is left. An estimator is made from the \
         rest, sees a few measurements of the newcomer (1: alone on one kind; 2: and one pair there; 4: both on two kinds; 8: three pairs on each \
         of two kinds), and is asked for all other cells on {}. Means of |estimate/truth − 1|; in pairs of the rate over the rate alone, of both \
         partners. 'arles learn eval' has more; '--estimator learned-rnn-ff' adds the published networks, which train for minutes.{}",
        names.join(", "),
        floor.map_or(String::new(), |floor| format!(
            " In this world every cell deviates from the model by chance, which alone is a mean error of about {}: nobody can know a cell better before it \
             is measured.",
            Style::Percent(0).format(floor)
        ))
    ));
    for part in PARTS.into_iter().filter(|part| splits.contains(&part.1)) {
        tell(&scores, part, &estimators, &mut finding);
    }
    verdicts(&scores, floor, &mut finding);
    Ok(finding)
}

/// The published networks take minutes to train for every fold, so they take part only where the user names one of them.
const NETWORKS: [&str; 2] = ["learned-rnn-ff", "learned-ff-ff"];

fn chosen(settings: &Settings) -> Vec<&'static EstimatorEntry> {
    let network = |entry: &EstimatorEntry| NETWORKS.contains(&entry.name);
    let asked = matches!(settings.estimator, Estimation::Learned(entry) if network(entry));
    ESTIMATORS.iter().filter(|entry| asked || !network(entry)).collect()
}

fn find<'s>(scores: &'s [Score], estimator: &str, cells: &str, split: Split, seen: &str) -> Option<&'s Score> {
    let same = |s: &&Score| s.estimator == estimator && s.cells == cells && s.split == split && s.observations == seen;
    scores.iter().find(same).filter(|score| score.mape_percent.is_finite())
}

fn tell(
    scores: &[Score],
    (cells, split, name, chart, title): (&'static str, Split, &'static str, &'static str, &'static str),
    estimators: &[&'static EstimatorEntry],
    finding: &mut Finding,
) {
    let seen = |plan: &str| scores.iter().any(|score| score.observations == plan);
    let shown: Vec<_> = SHOWN.iter().filter(|shown| seen(shown.0)).collect();
    let columns: Vec<(&'static str, &'static str)> =
        std::iter::once(("estimator", "estimator")).chain(shown.iter().map(|shown| (shown.1, shown.2))).collect();
    let mut sheet = Sheet::new(name, title, &columns);
    let mut lines = Vec::new();
    for entry in estimators {
        let errors: Vec<Option<f64>> = shown
            .iter()
            .map(|shown| find(scores, entry.name, cells, split, shown.0).map(|score| score.mape_percent / 100.0))
            .collect();
        if errors.iter().all(Option::is_none) {
            continue;
        }
        let say = |error: &Option<f64>| error.map_or(Value::Empty, |error| Value::number(error, Style::Percent(1)));
        sheet.row(std::iter::once(entry.name.into()).chain(errors.iter().map(say)).collect());
        let points = shown.iter().zip(&errors);
        let points = points.filter_map(|(shown, error)| Some((shown.0.parse().ok()?, (*error)?, None)));
        lines.push(Series { name: entry.name.to_owned(), points: points.collect() });
    }
    finding.sheets.push(sheet);
    finding.plots.push(Plot::Trends {
        name: chart,
        title: title.to_owned(),
        caption: "Height: mean error over all cells that were not observed. Lower is better.".to_owned(),
        x_label: "observations of the newcomer",
        y_label: "mean error",
        time: false,
        lines,
    });
}

fn verdicts(scores: &[Score], floor: Option<f64>, finding: &mut Finding) {
    let error = |estimator: &str, cells: &str, split: Split, seen: &str| {
        find(scores, estimator, cells, split, seen).map(|score| score.mape_percent / 100.0)
    };
    let say = |ratio: f64| Style::Percent(1).format(ratio);
    for (cells, split, _, _, title) in PARTS {
        let (Some(first), Some(last)) = (error(LEARNED, cells, split, "0"), error(LEARNED, cells, split, SEEN)) else {
            continue;
        };
        finding.verdict(
            format!("{LEARNED}: {}{}", title[..1].to_lowercase(), &title[1..]),
            format!("about {} error", Style::Percent(0).format(STATED_ERROR)),
            format!("{} at first, {} after {SEEN} observations", say(first), say(last)),
            // Where chance alone makes more than what is stated, nothing follows.
            if floor.is_some_and(|floor| floor > MOST_ERROR) {
                Judgement::Open
            } else {
                Judgement::of(last <= MOST_ERROR)
            },
        );
    }
    let [recurrent, forward] = NETWORKS;
    for (cells, split, _, _, title) in PARTS {
        let (Some(r), Some(f)) = (error(recurrent, cells, split, "0"), error(forward, cells, split, "0")) else {
            continue;
        };
        finding.verdict(
            format!("first guess: {}{}", title[..1].to_lowercase(), &title[1..]),
            "a recurrent network is better than a feed-forward one",
            format!("recurrent {}, feed-forward {}", say(r), say(f)),
            Judgement::of(r < f),
        );
    }
}
