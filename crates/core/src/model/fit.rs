//! How far the model is from measurements.
//!
//! A step is whatever its author calls one, so absolute rates say little; what a scheduler lives on are ratios. Each
//! ratio is taken within the measurements and within the model, and the two are compared:
//!
//! - *speed-up*: rate on a kind over rate on the baseline kind, alone, gang 1;
//! - *pair*: rate beside a partner over rate alone, on one kind;
//! - *scaling*: rate of a gang over rate of one GPU, on one kind.
//!
//! An error is |model/measured − 1|. A measured rate of 0 means "does not fit" and counts in [`Memory`] only.

use super::{alone, beside};
use crate::library::UnknownName;
use crate::{Library, Spread};
use serde::Serialize;
use std::collections::BTreeMap;

/// One measured rate.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Any name of the workload.
    pub workload: String,
    /// Any name of the kind.
    pub kind: String,
    /// GPUs.
    pub gang: u32,
    /// Whether the gang spanned more nodes than it needed.
    pub spread: bool,
    /// The other workload on the GPU, if any; with one, the gang is 1.
    pub partner: Option<String>,
    /// Steps per second of `workload` (not of its partner: that is a cell of its own); 0 where it did not fit.
    pub rate: f64,
}

/// What a set of errors amounts to; shares, not per cent.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Errors {
    /// How many cells were compared.
    pub count: usize,
    /// Mean |model/measured − 1|.
    pub mean: f64,
    /// Median of the same.
    pub median: f64,
    /// Nine of ten cells are at or below this.
    pub p90: f64,
}

/// Whether the model knows what fits in memory, counted over all cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Memory {
    /// Fits, and the model says so.
    pub fits: usize,
    /// Does not fit, and the model says so.
    pub too_large: usize,
    /// Does not fit, but the model says it does.
    pub falsely_fits: usize,
    /// Fits, but the model says it does not.
    pub falsely_too_large: usize,
}

/// The distance between model and measurements.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Fit {
    /// Speed-ups over the baseline, by kind.
    pub speedups: BTreeMap<String, Errors>,
    /// Of two kinds and a workload measured on both: how often the model names the faster one. 1 if there are none.
    pub rank_agreement: f64,
    /// The factor by which the median absolute rate is off, alone on one GPU; 1 is perfect.
    pub rate_factor: f64,
    /// Rates beside a partner over rates alone.
    pub pairs: Errors,
    /// The same, by kind.
    pub pairs_by_kind: BTreeMap<String, Errors>,
    /// Scaling of gangs that are not spread, by kind.
    pub scaling: BTreeMap<String, Errors>,
    /// Scaling of spread gangs, by kind.
    pub spread_scaling: BTreeMap<String, Errors>,
    /// What fits.
    pub memory: Memory,
}

/// What model and measurement say about one quantity.
type Versus = (f64, f64);

/// Ratios of model and measurement, by kind.
type ByKind = BTreeMap<String, Vec<Versus>>;

/// The solo rates of each (workload, kind), by the library's names.
type Solo = BTreeMap<(String, String), Versus>;

/// Compares the model with `cells`. `baseline` is the kind that speed-ups are taken over.
///
/// # Errors
/// When a name is not in the library.
pub fn fit(library: &Library, baseline: &str, cells: &[Measured]) -> Result<Fit, UnknownName> {
    let baseline = &library.kind(baseline)?.name;
    let (mut solo, mut memory) = (Solo::new(), Memory::default());
    let mut others = Vec::new();
    for cell in cells {
        let (w, k) = (library.workload(&cell.workload)?, library.kind(&cell.kind)?);
        let model = match &cell.partner {
            Some(partner) => beside(w, library.workload(partner)?, k).map(|together| together.own),
            None => alone(w, k, cell.gang, if cell.spread { Spread::Nodes } else { Spread::Packed })
                .map(|performance| performance.rate),
        };
        memory.count(cell.rate > 0.0, model.is_some());
        let (Some(model), true) = (model, cell.rate > 0.0) else { continue };
        let key = (w.name.clone(), k.name.clone());
        if cell.partner.is_some() || cell.gang != 1 {
            others.push((key, cell, model));
        } else if !cell.spread {
            solo.insert(key, (model, cell.rate));
        }
    }
    let (mut pairs, mut scaling, mut spread) = (ByKind::new(), ByKind::new(), ByKind::new());
    for (key, cell, model) in others {
        let Some(&(solo_model, solo_rate)) = solo.get(&key) else { continue };
        let ratios = match (&cell.partner, cell.spread) {
            (Some(_), _) => &mut pairs,
            (None, false) => &mut scaling,
            (None, true) => &mut spread,
        };
        ratios.entry(key.1).or_default().push((model / solo_model, cell.rate / solo_rate));
    }
    Ok(Fit {
        speedups: errors_by_kind(&speedups(&solo, baseline)),
        rank_agreement: rank_agreement(&solo),
        rate_factor: rate_factor(&solo),
        pairs: Errors::of(pairs.values().flatten()),
        pairs_by_kind: errors_by_kind(&pairs),
        scaling: errors_by_kind(&scaling),
        spread_scaling: errors_by_kind(&spread),
        memory,
    })
}

impl Errors {
    fn of<'a>(ratios: impl IntoIterator<Item = &'a Versus>) -> Self {
        let mut errors: Vec<f64> = ratios.into_iter().map(|(model, measured)| (model / measured - 1.0).abs()).collect();
        if errors.is_empty() {
            return Self::default();
        }
        errors.sort_by(f64::total_cmp);
        let count = errors.len();
        let mean = errors.iter().sum::<f64>() / count as f64;
        Self { count, mean, median: median(&errors), p90: errors[(count * 9).div_ceil(10) - 1] }
    }
}

impl Memory {
    fn count(&mut self, measured_fits: bool, model_fits: bool) {
        let counter = match (measured_fits, model_fits) {
            (true, true) => &mut self.fits,
            (false, false) => &mut self.too_large,
            (false, true) => &mut self.falsely_fits,
            (true, false) => &mut self.falsely_too_large,
        };
        *counter += 1;
    }
}

fn errors_by_kind(ratios: &ByKind) -> BTreeMap<String, Errors> {
    ratios.iter().map(|(kind, ratios)| (kind.clone(), Errors::of(ratios))).collect()
}

fn speedups(solo: &Solo, baseline: &String) -> ByKind {
    let mut speedups = ByKind::new();
    for ((workload, kind), (model, measured)) in solo.iter().filter(|((_, kind), _)| kind != baseline) {
        if let Some((base_model, base_measured)) = solo.get(&(workload.clone(), baseline.clone())) {
            speedups.entry(kind.clone()).or_default().push((model / base_model, measured / base_measured));
        }
    }
    speedups
}

fn rank_agreement(solo: &Solo) -> f64 {
    let (mut right, mut all) = (0, 0);
    for ((workload, kind), one) in solo {
        let later = solo.range((workload.clone(), kind.clone())..).skip(1);
        for (_, two) in later.take_while(|((other, _), _)| other == workload) {
            all += 1;
            right += usize::from(one.0.total_cmp(&two.0) == one.1.total_cmp(&two.1));
        }
    }
    if all == 0 { 1.0 } else { right as f64 / all as f64 }
}

fn rate_factor(solo: &Solo) -> f64 {
    let mut factors: Vec<f64> = solo.values().map(|(model, measured)| (model / measured).ln().abs()).collect();
    factors.sort_by(f64::total_cmp);
    if factors.is_empty() { 1.0 } else { median(&factors).exp() }
}

/// The median of sorted values, of which there is at least one.
fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOADS: [&str; 3] = ["resnet50-b32", "lm-b20", "a3c-b4"];
    const KINDS: [&str; 2] = ["k80", "v100"];

    fn cell(workload: &str, kind: &str, gang: u32, partner: Option<&str>, rate: f64) -> Measured {
        let partner = partner.map(str::to_owned);
        Measured { workload: workload.into(), kind: kind.into(), gang, spread: false, partner, rate }
    }

    /// What would be measured if the model were the truth.
    fn truth() -> Vec<Measured> {
        let library = Library::builtin();
        let mut cells = Vec::new();
        for kind in KINDS {
            let k = library.kind(kind).unwrap();
            for name in WORKLOADS {
                let w = library.workload(name).unwrap();
                for gang in [1, 4] {
                    cells.push(cell(name, kind, gang, None, alone(w, k, gang, Spread::Packed).unwrap().rate));
                }
                for partner in WORKLOADS {
                    let together = beside(w, library.workload(partner).unwrap(), k);
                    cells.push(cell(name, kind, 1, Some(partner), together.map_or(0.0, |t| t.own)));
                }
            }
        }
        cells
    }

    fn check(cells: &[Measured]) -> Fit {
        fit(Library::builtin(), "k80", cells).unwrap()
    }

    #[test]
    fn a_perfect_model_has_no_error() {
        let fit = check(&truth());
        assert_eq!(fit.speedups.keys().collect::<Vec<_>>(), ["v100"]);
        assert_eq!(fit.speedups["v100"].count, 3);
        assert_eq!(fit.pairs.count, 18);
        assert_eq!(fit.scaling["k80"].count, 3);
        let errors = [fit.speedups["v100"], fit.pairs, fit.scaling["v100"]];
        assert!(errors.iter().all(|e| e.mean < 1e-12 && e.p90 < 1e-12), "{errors:?}");
        assert!((fit.rate_factor - 1.0).abs() < 1e-12);
        assert_eq!(fit.rank_agreement, 1.0);
        assert_eq!(fit.memory, Memory { fits: 30, ..Memory::default() });
    }

    #[test]
    fn a_unit_of_the_author_cancels_except_in_absolute_rates() {
        let mut cells = truth();
        cells.iter_mut().for_each(|cell| cell.rate *= 3.0);
        let fit = check(&cells);
        assert!(fit.pairs.mean < 1e-12 && fit.speedups["v100"].mean < 1e-12 && fit.scaling["k80"].mean < 1e-12);
        assert!((fit.rate_factor - 3.0).abs() < 1e-9);
    }

    #[test]
    fn one_wrong_solo_rate_shows_where_it_should() {
        let mut cells = truth();
        let wrong = cells.iter_mut().find(|c| c.workload == "lm-b20" && c.kind == "v100").unwrap();
        wrong.rate /= 1000.0;
        let fit = check(&cells);
        // The model's speed-up is 1000 times the measured one, and two of three rankings survive.
        assert!((fit.speedups["v100"].p90 - 999.0).abs() < 1e-6);
        assert!(fit.speedups["v100"].median < 1e-12);
        assert!((fit.rank_agreement - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(fit.pairs_by_kind["k80"].p90, check(&truth()).pairs_by_kind["k80"].p90);
    }

    #[test]
    fn what_does_not_fit_is_counted_apart() {
        let fit = check(&[cell("resnet50-b64", "k80", 1, None, 0.0), cell("gpt2-xl-b1", "k80", 1, None, 1.0)]);
        assert_eq!(fit.memory, Memory { falsely_fits: 1, falsely_too_large: 1, ..Memory::default() });
        assert_eq!((fit.rate_factor, fit.rank_agreement, fit.pairs.count), (1.0, 1.0, 0));
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert!(fit(Library::builtin(), "k80", &[cell("mystery", "k80", 1, None, 1.0)]).is_err());
        assert!(fit(Library::builtin(), "k81", &[]).is_err());
    }
}
