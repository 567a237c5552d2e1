//! Errors, added up.

use super::{Evaluation, FoldTask, Split};
use crate::rng::Rng;
use serde::Serialize;
use std::collections::BTreeMap;

/// The kind of cells that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cells {
    Solo,
    /// The newcomer's own rate beside a partner.
    Own,
    /// The partner's rate beside the newcomer.
    Partner,
    /// The rate over that on the first kind.
    Speedup,
    Gang,
    Watts,
}

impl Cells {
    /// As it is called in results.
    fn name(self) -> &'static str {
        match self {
            Cells::Solo => "solo",
            Cells::Own | Cells::Partner => "pair",
            Cells::Speedup => "speedup",
            Cells::Gang => "gang",
            Cells::Watts => "watts",
        }
    }
}

/// All names of cells, in the order of results.
pub const CELLS: [&str; 5] = ["solo", "pair", "speedup", "gang", "watts"];

/// An estimate against the truth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    /// Estimate over truth, less 1.
    pub(super) relative: f64,
    pub(super) absolute: f64,
    /// Whether a 90 % interval holds the truth, where one is stated.
    pub(super) covered: Option<bool>,
}

/// One cell that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) plan: usize,
    pub(super) cells: Cells,
    pub(super) newcomer: usize,
    pub(super) kind: usize,
    /// `None` if the estimator refused.
    pub(super) compared: Option<Compared>,
}

/// How an estimator did under one split and one plan, alone or in pairs. Errors in per cent of the truth.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Score {
    /// Its name in the table.
    pub estimator: &'static str,
    /// What was held out.
    pub split: Split,
    /// What was observed.
    pub observations: &'static str,
    /// One of [`CELLS`].
    pub cells: &'static str,
    /// Mean error; NaN (null) where every cell was refused.
    pub mape_percent: f64,
    /// Half of the errors are below this.
    pub median_percent: f64,
    /// Nine of ten errors are below this.
    pub p90_percent: f64,
    /// Mean of estimate over truth, less 1: above 0 where it says too much.
    pub bias_percent: f64,
    /// Mean absolute error of the rate over the workload's best rate on any kind, both as estimated and as measured (solo), or of
    /// the relative rate (pair).
    pub mae: f64,
    /// Mean error by kind.
    pub by_kind: BTreeMap<String, f64>,
    /// Share of cells inside the 90 % interval that the estimator's standard error spans.
    pub coverage90_ratio: f64,
    /// Mean error by the newcomer's family.
    pub by_family: BTreeMap<String, f64>,
    /// Coverage by family.
    pub coverage90_by_family: BTreeMap<String, f64>,
    /// Mean error over newcomers of which the catalog has another batch size ("LW-24" on Gavel's table).
    pub known_family_mape_percent: f64,
    /// Mean error without the family `recommendation`, whose published rates on v100 differ ×8–12 between files.
    pub without_recommendation_mape_percent: f64,
    /// Mean error of the newcomer's own rate, in pairs.
    pub own_mape_percent: f64,
    /// 5 % and 95 % quantile of the mean error when families are drawn with replacement.
    pub mape_interval90_percent: [f64; 2],
    /// Cells compared.
    pub count: usize,
    /// Cells that the estimator said do not fit.
    pub refused: usize,
}

/// Draws of families for the interval.
const BOOTSTRAPS: usize = 400;

/// Adds up all folds, in the order estimator, split, plan, cells.
pub(super) fn scores(evaluation: &Evaluation<'_>, tasks: &[FoldTask], samples: &[Vec<Sample>]) -> Vec<Score> {
    let options = evaluation.options;
    let mut scores = Vec::new();
    for (e, entry) in options.estimators.iter().enumerate() {
        for &split in options.splits {
            let folds = tasks.iter().zip(samples).filter(|(w, _)| w.estimator == e && w.split == split);
            let mine: Vec<&Sample> = folds.flat_map(|(_, samples)| samples).collect();
            for (p, plan) in options.plans.iter().enumerate() {
                for cells in CELLS {
                    let asked = mine.iter().copied().filter(|s| s.plan == p && s.cells.name() == cells);
                    let asked: Vec<&Sample> = asked.collect();
                    // Rates alone and pairs are always told, the rest where there is something.
                    if asked.is_empty() && cells != "solo" && cells != "pair" {
                        continue;
                    }
                    let blank = Score::blank(entry.name, split, plan.name, cells);
                    scores.push(score(evaluation, blank, &asked));
                }
            }
        }
    }
    scores
}

impl Score {
    fn blank(estimator: &'static str, split: Split, observations: &'static str, cells: &'static str) -> Self {
        Self {
            estimator,
            split,
            observations,
            cells,
            mape_percent: f64::NAN,
            median_percent: f64::NAN,
            p90_percent: f64::NAN,
            bias_percent: f64::NAN,
            mae: f64::NAN,
            by_kind: BTreeMap::new(),
            coverage90_ratio: f64::NAN,
            by_family: BTreeMap::new(),
            coverage90_by_family: BTreeMap::new(),
            known_family_mape_percent: f64::NAN,
            without_recommendation_mape_percent: f64::NAN,
            own_mape_percent: f64::NAN,
            mape_interval90_percent: [f64::NAN; 2],
            count: 0,
            refused: 0,
        }
    }
}

fn score(evaluation: &Evaluation<'_>, blank: Score, asked: &[&Sample]) -> Score {
    let answered: Vec<(&Sample, Compared)> = asked.iter().filter_map(|s| s.compared.map(|m| (*s, m))).collect();
    let refused = asked.len() - answered.len();
    if answered.is_empty() {
        return Score { refused, ..blank };
    }
    let mean_of = |keep: &dyn Fn(&Sample) -> bool| {
        percent_mean(answered.iter().filter(|(s, _)| keep(s)).map(|(_, m)| m.relative.abs()))
    };
    let covered = |keep: &dyn Fn(&Sample) -> bool| {
        let (mut inside, mut all) = (0usize, 0usize);
        for covered in answered.iter().filter(|(s, _)| keep(s)).filter_map(|(_, m)| m.covered) {
            all += 1;
            inside += usize::from(covered);
        }
        inside as f64 / all as f64
    };
    let mut errors: Vec<f64> = answered.iter().map(|(_, m)| m.relative.abs() * 100.0).collect();
    errors.sort_by(f64::total_cmp);
    let quantile = |q: f64| errors[((errors.len() as f64 * q).ceil() as usize).clamp(1, errors.len()) - 1];
    let family = |s: &Sample| evaluation.family(s.newcomer);
    let mut families: Vec<&str> = answered.iter().map(|(s, _)| family(s)).collect();
    families.sort_unstable();
    families.dedup();
    let siblings = |s: &Sample| (0..evaluation.subjects.len()).filter(|&i| evaluation.family(i) == family(s)).count();
    let kinds = evaluation.options.kinds.iter().enumerate();
    Score {
        mape_percent: mean_of(&|_| true),
        median_percent: quantile(0.5),
        p90_percent: quantile(0.9),
        bias_percent: percent_mean(answered.iter().map(|(_, m)| m.relative)),
        mae: answered.iter().map(|(_, m)| m.absolute).sum::<f64>() / answered.len() as f64,
        by_kind: kinds.map(|(a, k)| (k.name.clone(), mean_of(&|s| s.kind == a))).collect(),
        coverage90_ratio: covered(&|_| true),
        by_family: families.iter().map(|f| ((*f).to_owned(), mean_of(&|s| family(s) == *f))).collect(),
        coverage90_by_family: families.iter().map(|f| ((*f).to_owned(), covered(&|s| family(s) == *f))).collect(),
        known_family_mape_percent: if blank.split == Split::LeaveWorkloadOut {
            mean_of(&|s| siblings(s) > 1)
        } else {
            f64::NAN
        },
        without_recommendation_mape_percent: mean_of(&|s| family(s) != "recommendation"),
        own_mape_percent: mean_of(&|s| s.cells == Cells::Own),
        mape_interval90_percent: interval(&families, evaluation.options.seed, |f| {
            let mine = answered.iter().filter(|(s, _)| family(s) == f);
            mine.fold((0.0, 0.0), |(sum, n), (_, m)| (sum + m.relative.abs() * 100.0, n + 1.0))
        }),
        count: answered.len(),
        refused,
        ..blank
    }
}

pub(super) fn percent_mean(errors: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = errors.fold((0.0, 0usize), |(s, n), e| (s + e, n + 1));
    100.0 * sum / count as f64
}

/// 5 % and 95 % quantile of the mean over families drawn with replacement; `total` gives a family's sum and count.
fn interval(families: &[&str], seed: u64, total: impl Fn(&str) -> (f64, f64)) -> [f64; 2] {
    let totals: Vec<(f64, f64)> = families.iter().map(|f| total(f)).collect();
    let mut random = Rng::new(seed, "families");
    let mut means: Vec<f64> = (0..BOOTSTRAPS)
        .map(|_| {
            let drawn = totals.iter().map(|_| totals[random.below(totals.len())]);
            let (sum, count) = drawn.fold((0.0, 0.0), |(s, n), t| (s + t.0, n + t.1));
            sum / count
        })
        .collect();
    means.sort_by(f64::total_cmp);
    [means[BOOTSTRAPS / 20], means[BOOTSTRAPS - 1 - BOOTSTRAPS / 20]]
}
