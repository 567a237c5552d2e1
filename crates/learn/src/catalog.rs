//! The catalog: what is known of every (workload, kind, gang, partner), and how well.
//!
//! It outlives jobs and restarts, so that whoever comes next feeds on what was measured before. It holds facts only; what
//! they say about other cells is for estimators.
//!
//! **A measurement moves a cell.** A cell's rate is known as ln rate ± v^½. A measurement z with a relative error s, made Δ
//! seconds after the last, is a step of Kalman's filter with a state that drifts by q a second:
//!
//! ```text
//! v ← min(v + q·Δ, v_most)     what is old fades
//! g = v / (v + s²)             the gain: 1 where nothing was known
//! ln rate ← ln rate + g·(z − ln rate),     v ← (1 − g)·v
//! ```
//!
//! So the tenth measurement moves a cell less than the first, and one after a month more than one after a minute. Watts move by
//! the same gain. A rate that was only stated, or estimated, is no evidence: the first measurement replaces it.

pub mod csv;
pub mod disk;
pub mod labels;
pub mod timestamp;

use crate::traits::Traits;
use arles_core::estimate::{Observation, Source};
use arles_core::{KindId, Library, Profile, Time, Workload, WorkloadId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// s: relative error of one measurement of a rate.
pub const MEASUREMENT_ERROR: f64 = 0.03;
/// q: how fast a cell's variance grows while nobody looks: by a second measurement's worth in a month.
const DRIFT_PER_SECOND: f64 = MEASUREMENT_ERROR * MEASUREMENT_ERROR / (30.0 * 86_400.0);
/// v_most: no measurement becomes so old that it says less than this.
const MOST_VARIANCE: f64 = 0.3 * 0.3;
/// More than this is no relative error, but a slip; its square must stay a number.
const MOST_STANDARD_ERROR: f64 = 100.0;

/// Which cell, by names: those of the library, or the user's own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Key {
    /// The workload whose rate it is.
    pub workload: String,
    /// The other job on the same GPU, if any.
    pub partner: Option<String>,
    /// The GPU kind that it runs on.
    pub kind: String,
    /// GPUs held at once.
    pub gang: u32,
}

/// What is known of a cell.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Steps per second of the whole gang; 0 where it is known not to fit.
    pub rate: f64,
    /// Power of one GPU, idle power and a partner's part included; `None` where nobody measured it.
    pub watts: Option<f64>,
    /// Where the rate comes from.
    pub source: Source,
    /// Measurements taken in.
    pub observations: u32,
    /// When it last changed, on the clock of whoever keeps the catalog.
    pub at: Time,
    /// Relative standard error of the rate at that moment.
    #[serde(rename = "doubt")]
    pub standard_error: f64,
}

/// One figure as it was measured, before the filter has weighed it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measurement {
    /// Steps per second of the whole gang.
    pub rate: f64,
    /// Power of one GPU, if it was measured.
    pub watts: Option<f64>,
    /// When it was measured.
    pub at: Time,
    /// Relative standard error; [`MEASUREMENT_ERROR`] where nobody knows better.
    pub error: f64,
}

/// A number that no catalog takes in: a whole sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CatalogError(pub String);

/// What is known, in memory.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Catalog {
    cells: BTreeMap<Key, Cell>,
    features: BTreeMap<String, Workload>,
    profiles: BTreeMap<String, Profile>,
    traits: BTreeMap<String, Traits>,
    /// Names that mean nothing to the library here: an evaluation takes features away.
    withheld: BTreeSet<String>,
}

impl Key {
    /// The cell that an observation is about; `None` if it is about nobody that is known by name, or about a gang that was spread,
    /// which says little about one that is not.
    #[must_use]
    pub fn of<'n>(
        o: &Observation,
        workload: impl Fn(WorkloadId) -> Option<&'n str>,
        kind: impl Fn(KindId) -> Option<&'n str>,
    ) -> Option<Self> {
        if o.spread.apart() && o.ask.gang > 1 {
            return None;
        }
        let partner = match o.ask.partner {
            Some(partner) => Some(workload(partner)?.to_owned()),
            None => None,
        };
        let (workload, kind) = (workload(o.ask.workload)?.to_owned(), kind(o.kind)?.to_owned());
        Some(Self { workload, partner, kind, gang: o.ask.gang })
    }
}

impl Cell {
    /// Relative standard error of the rate as of `now`: it grows with age.
    #[must_use]
    pub fn standard_error_at(&self, now: Time) -> f64 {
        self.variance_at(now).sqrt()
    }

    fn variance_at(&self, now: Time) -> f64 {
        let v = self.standard_error * self.standard_error;
        (v + DRIFT_PER_SECOND * now.since(self.at)).min(MOST_VARIANCE.max(v))
    }
}

impl Catalog {
    /// Everything known, in order of workload, partner, kind and gang.
    pub fn cells(&self) -> impl Iterator<Item = (&Key, &Cell)> {
        self.cells.iter()
    }

    /// Number of cells.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// What is known of a cell.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Cell> {
        self.cells.get(key)
    }

    /// What a workload is made of, where somebody said so.
    #[must_use]
    pub fn features(&self, workload: &str) -> Option<&Workload> {
        self.features.get(workload)
    }

    /// All features, by name.
    pub fn described(&self) -> impl Iterator<Item = &Workload> {
        self.features.values()
    }

    /// Says what a workload is made of; its name is the key.
    pub fn describe(&mut self, workload: Workload) {
        self.features.insert(workload.name.clone(), workload);
    }

    /// What little is known of a workload that nobody described in full, where somebody said so.
    #[must_use]
    pub fn profile(&self, workload: &str) -> Option<&Profile> {
        self.profiles.get(workload)
    }

    /// All profiles, by name.
    pub fn profiles(&self) -> impl Iterator<Item = (&str, &Profile)> {
        self.profiles.iter().map(|(name, profile)| (name.as_str(), profile))
    }

    /// Says what little is known of a workload; whatever was said before is replaced.
    pub fn set_profile(&mut self, workload: &str, profile: Profile) {
        self.profiles.insert(workload.to_owned(), profile);
    }

    /// What a table of measurements says of a workload beside its rates. Kept in memory only: files have features and profiles.
    #[must_use]
    pub fn traits(&self, workload: &str) -> Option<&Traits> {
        self.traits.get(workload)
    }

    /// Says what a table knows of a workload; whatever was said before is replaced.
    pub fn set_traits(&mut self, workload: &str, traits: Traits) {
        self.traits.insert(workload.to_owned(), traits);
    }

    /// Writes a cell as it is, unless something of a better source is there; `true` if it was written.
    ///
    /// # Errors
    /// When a number makes no sense.
    pub fn put(&mut self, key: Key, cell: Cell) -> Result<bool, CatalogError> {
        check(&key, cell.rate, cell.watts, cell.standard_error, cell.at)?;
        if self.cells.get(&key).is_some_and(|known| known.source > cell.source) {
            return Ok(false);
        }
        // No file keeps the sign of a zero.
        self.cells.insert(key, Cell { rate: cell.rate + 0.0, standard_error: cell.standard_error + 0.0, ..cell });
        Ok(true)
    }

    /// Takes a measurement in and returns the cell as it is now.
    ///
    /// # Errors
    /// When a number makes no sense; the cell is then as it was.
    pub fn measure(&mut self, key: Key, m: &Measurement) -> Result<Cell, CatalogError> {
        check(&key, m.rate, m.watts, m.error, m.at)?;
        if m.rate == 0.0 {
            return Err(CatalogError(format!("{key}: a measured rate of 0 says nothing; leave the cell out")));
        }
        let first = Cell {
            rate: m.rate,
            watts: m.watts,
            source: Source::Measured,
            observations: 1,
            at: m.at,
            standard_error: m.error + 0.0,
        };
        let moved = match self.cells.get(&key) {
            Some(known) if known.source == Source::Measured && known.rate > 0.0 => moved(known, m),
            _ => first,
        };
        self.cells.insert(key, moved);
        Ok(moved)
    }

    /// Takes an observation in and returns its cell as it is now; `None` if a number makes no sense, which changes nothing. A power
    /// of 0 was not measured. Whoever turns observations into cells does it here, with a key from [`Key::of`], so that
    /// all come to the same cell.
    pub fn observe(&mut self, key: Key, o: &Observation) -> Option<Cell> {
        let watts = Some(o.watts).filter(|w| w.is_finite() && *w > 0.0);
        self.measure(key, &Measurement { rate: o.rate, watts, at: o.at, error: MEASUREMENT_ERROR }).ok()
    }

    /// Forgets what a workload is made of, and that the library has one of its name; its cells stay.
    pub(crate) fn withhold_features(&mut self, workload: &str) {
        self.features.remove(workload);
        self.profiles.remove(workload);
        self.withheld.insert(workload.to_owned());
    }

    /// What the library says of a workload by its name, unless that was taken away.
    pub(crate) fn in_library<'l>(&self, workload: &str, library: &'l Library) -> Option<&'l Workload> {
        library.workload(workload).ok().filter(|_| !self.withheld.contains(workload))
    }

    /// Forgets every cell on a kind.
    pub(crate) fn forget_kind(&mut self, kind: &str) {
        self.cells.retain(|key, _| key.kind != kind);
    }

    /// Forgets every cell that names a workload, on either side, and what it is made of.
    pub fn forget(&mut self, workload: &str) {
        self.cells.retain(|key, _| key.workload != workload && key.partner.as_deref() != Some(workload));
        self.features.remove(workload);
        self.profiles.remove(workload);
        self.traits.remove(workload);
    }
}

/// The filter's step.
fn moved(known: &Cell, m: &Measurement) -> Cell {
    let v = known.variance_at(m.at);
    let gain = v / (v + m.error * m.error).max(f64::MIN_POSITIVE);
    let watts = match (known.watts, m.watts) {
        (Some(old), Some(new)) => Some(old + gain * (new - old)),
        (old, new) => new.or(old),
    };
    let rate = known.rate * (m.rate / known.rate).powf(gain);
    Cell {
        // Between the two, whatever the quotient of a huge and a tiny rate was rounded to.
        rate: rate.clamp(known.rate.min(m.rate), known.rate.max(m.rate)),
        watts,
        source: Source::Measured,
        observations: known.observations.saturating_add(1),
        at: known.at.max(m.at),
        standard_error: ((1.0 - gain) * v).sqrt(),
    }
}

fn check(key: &Key, rate: f64, watts: Option<f64>, standard_error: f64, at: Time) -> Result<(), CatalogError> {
    let refuse = |what: String| Err(CatalogError(format!("{key}: {what}")));
    for name in [&key.workload, &key.kind].into_iter().chain(&key.partner) {
        check_name(name)?;
    }
    if key.gang == 0 {
        return refuse("a gang of 0 GPUs; expected 1 or more".into());
    }
    if key.partner.is_some() && key.gang != 1 {
        return refuse(format!("a gang of {} beside a partner; only single GPUs are shared", key.gang));
    }
    if !(rate.is_finite() && rate >= 0.0) {
        return refuse(format!("a rate of {rate} steps/s; expected more than 0, or 0 for 'does not fit'"));
    }
    if let Some(watts) = watts.filter(|w| !(w.is_finite() && *w > 0.0)) {
        return refuse(format!("a power of {watts} W; expected more than 0, or nothing where it is unknown"));
    }
    if !(0.0..=MOST_STANDARD_ERROR).contains(&standard_error) {
        return refuse(format!(
            "a standard error of {standard_error}; expected a relative error, 0 to {MOST_STANDARD_ERROR}"
        ));
    }
    if at > timestamp::LATEST {
        return refuse(format!("a time {at} after the origin; expected one before the year 10000"));
    }
    Ok(())
}

/// Names stand in files of one line a cell, and an empty one means nobody.
fn check_name(name: &str) -> Result<(), CatalogError> {
    let refuse =
        |what: &str| Err(CatalogError(format!("the name {name:?} {what}; give it one of printable characters")));
    match name {
        _ if name.trim().is_empty() => refuse("is empty"),
        _ if name.trim() != name => refuse("begins or ends with a space"),
        _ if name.contains(arles_core::name::is_hidden) => refuse("has a control or invisible character in it"),
        _ => Ok(()),
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}x {}", self.workload, self.gang, self.kind)?;
        match &self.partner {
            Some(partner) => write!(f, " beside {partner}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::Spread;

    fn key() -> Key {
        Key { workload: "lm-b5".into(), partner: None, kind: "v100".into(), gang: 1 }
    }

    fn at(seconds: f64, rate: f64) -> Measurement {
        Measurement { rate, watts: Some(100.0), at: Time::from_seconds(seconds), error: MEASUREMENT_ERROR }
    }

    #[test]
    fn a_second_measurement_moves_a_cell_half_way_and_an_old_one_fades() {
        let mut catalog = Catalog::default();
        catalog.measure(key(), &at(0.0, 10.0)).unwrap();
        let soon = catalog.clone().measure(key(), &at(1.0, 12.0)).unwrap();
        assert!((soon.rate - 120f64.sqrt()).abs() < 1e-6, "{soon:?}");
        assert!(soon.standard_error < MEASUREMENT_ERROR * 0.71);
        let late = catalog.measure(key(), &at(365.0 * 86_400.0, 12.0)).unwrap();
        assert!(late.rate > 11.7 && late.rate < 12.0, "{late:?}");
        assert_eq!(late.observations, 2);
    }

    #[test]
    fn an_observation_is_a_measurement_of_its_cell() {
        let o = Observation {
            ask: arles_core::estimate::RateQuery { workload: WorkloadId(1), gang: 1, partner: Some(WorkloadId(0)) },
            kind: KindId(0),
            spread: Spread::Packed,
            rate: 3.0,
            watts: 0.0,
            at: Time::from_seconds(7.0),
            job: None,
        };
        let of =
            |o: &Observation| Key::of(o, |w| ["a", "b"].get(w.index()).copied(), |k| ["v100"].get(k.index()).copied());
        let key = Key { workload: "b".into(), partner: Some("a".into()), kind: "v100".into(), gang: 1 };
        assert_eq!(of(&o), Some(key.clone()));
        let mut catalog = Catalog::default();
        let cell = catalog.observe(key.clone(), &o).unwrap();
        assert_eq!((cell.rate, cell.watts, cell.observations), (3.0, None, 1));
        assert_eq!(catalog.observe(key.clone(), &Observation { watts: 90.0, ..o }).unwrap().watts, Some(90.0));
        assert_eq!(catalog.observe(key, &Observation { rate: f64::NAN, ..o }), None);
        let alone = |gang| arles_core::estimate::RateQuery { workload: WorkloadId(0), gang, partner: None };
        assert!(of(&Observation { kind: KindId(1), ..o }).is_none());
        assert!(of(&Observation { ask: alone(4), spread: Spread::Nodes, ..o }).is_none());
        assert!(of(&Observation { ask: alone(1), spread: Spread::Nodes, ..o }).is_some());
    }

    #[test]
    fn a_better_source_is_not_overwritten() {
        let mut catalog = Catalog::default();
        catalog.measure(key(), &at(0.0, 10.0)).unwrap();
        let stated = Cell { source: Source::Stated, rate: 99.0, ..*catalog.get(&key()).unwrap() };
        assert_eq!(catalog.put(key(), stated), Ok(false));
        assert_eq!(catalog.get(&key()).unwrap().rate, 10.0);
    }

    #[test]
    fn nonsense_gets_a_sentence() {
        let mut catalog = Catalog::default();
        for rate in [-1.0, f64::NAN, f64::INFINITY, 0.0] {
            let error = catalog.measure(key(), &at(0.0, rate)).unwrap_err();
            assert!(error.0.contains("lm-b5 on 1x v100: a"), "{error}");
        }
        assert!(catalog.is_empty());
    }
}
