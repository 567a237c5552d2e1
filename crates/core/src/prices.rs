//! Electricity by the hour: what a kilowatt-hour costs and what it emits, from a moment on until the next.
//!
//! The scheduler has no calendar, so moments are its own time and whoever reads a file of prices turns its dates into them. Money has no currency
//! here: prices are compared and added up, never converted.

use crate::Time;
use serde::{Deserialize, Serialize};

const JOULES_PER_KWH: f64 = 3.6e6;
/// More changes of the price than anybody has: forty years of hours.
const MOST_BANDS: usize = 350_000;

/// From a moment on.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PriceBand {
    /// Since when.
    pub from: Time,
    /// What a kilowatt-hour costs, in whatever money; it may be below 0.
    pub per_kwh: f64,
    /// Kilograms of CO₂ that a kilowatt-hour emits.
    pub kg_per_kwh: f64,
}

/// Prices in order of time. Before the first the first is meant, after the last the last stays.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices {
    bands: Vec<PriceBand>,
}

impl Prices {
    /// Prices that were checked.
    ///
    /// # Errors
    /// A sentence, when they are not in order of time or one is no price.
    pub fn new(bands: Vec<PriceBand>) -> Result<Self, String> {
        let prices = Self { bands };
        prices.check().map(|()| prices)
    }

    /// What is wrong with them, in a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.bands.len() > MOST_BANDS {
            return Err(format!("there are {} prices; expected at most {MOST_BANDS}", self.bands.len()));
        }
        for (i, band) in self.bands.iter().enumerate() {
            if !band.per_kwh.is_finite() {
                return Err(format!("price {} is {} a kWh; expected a number", i + 1, band.per_kwh));
            }
            if !(band.kg_per_kwh.is_finite() && band.kg_per_kwh >= 0.0) {
                return Err(format!("price {} emits {} kg a kWh; expected 0 or more", i + 1, band.kg_per_kwh));
            }
        }
        match self.bands.windows(2).position(|two| two[0].from >= two[1].from) {
            Some(i) => Err(format!("price {} begins no later than price {}; give them in order of time", i + 2, i + 1)),
            None => Ok(()),
        }
    }

    /// Whether nobody said anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bands.is_empty()
    }

    /// In order of time.
    #[must_use]
    pub fn bands(&self) -> &[PriceBand] {
        &self.bands
    }

    /// What holds at a moment.
    #[must_use]
    pub fn at(&self, moment: Time) -> Option<&PriceBand> {
        let after = self.bands.partition_point(|band| band.from <= moment);
        self.bands.get(after.saturating_sub(1))
    }

    /// When what holds at a moment ends, if it does.
    #[must_use]
    pub fn next_change(&self, moment: Time) -> Option<Time> {
        self.bands.get(self.bands.partition_point(|band| band.from <= moment)).map(|band| band.from)
    }

    /// Money and kilograms for so many joules, drawn evenly between two moments.
    #[must_use]
    pub fn charge(&self, from: Time, until: Time, joules: f64) -> (f64, f64) {
        let (money, kg) = self.means(from, until);
        let kwh = joules / JOULES_PER_KWH;
        (money * kwh, kg * kwh)
    }

    /// The mean price and the mean emission of a kilowatt-hour between two moments.
    #[must_use]
    pub fn means(&self, from: Time, until: Time) -> (f64, f64) {
        let all = until.since(from);
        let Some(first) = self.at(from) else { return (0.0, 0.0) };
        if all <= 0.0 {
            return (first.per_kwh, first.kg_per_kwh);
        }
        let (mut at, mut band) = (from, first);
        let (mut money, mut kg) = (0.0, 0.0);
        loop {
            let end = self.next_change(at).map_or(until, |change| change.min(until));
            let part = end.since(at) / all;
            money += part * band.per_kwh;
            kg += part * band.kg_per_kwh;
            match self.at(end) {
                Some(next) if end < until => (at, band) = (end, next),
                _ => return (money, kg),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices() -> Prices {
        let band = |from: f64, per_kwh: f64| PriceBand { from: Time::from_seconds(from), per_kwh, kg_per_kwh: 0.5 };
        Prices::new(vec![band(100.0, 3.0), band(200.0, 1.0), band(300.0, 5.0)]).expect("in order")
    }

    #[test]
    fn the_first_reaches_back_and_the_last_stays() {
        let at = |seconds: f64| prices().at(Time::from_seconds(seconds)).expect("there are some").per_kwh;
        assert_eq!([at(0.0), at(100.0), at(199.0), at(200.0), at(1e6)], [3.0, 3.0, 3.0, 1.0, 5.0]);
        assert_eq!(prices().next_change(Time::from_seconds(100.0)), Some(Time::from_seconds(200.0)));
        assert_eq!(prices().next_change(Time::from_seconds(300.0)), None);
    }

    #[test]
    fn means_are_weighed_by_time() {
        let mean = |from: f64, until: f64| prices().means(Time::from_seconds(from), Time::from_seconds(until)).0;
        assert!((mean(150.0, 250.0) - 2.0).abs() < 1e-12);
        assert!((mean(150.0, 350.0) - (50.0 * 3.0 + 100.0 + 50.0 * 5.0) / 200.0).abs() < 1e-12);
        assert!((mean(400.0, 500.0) - 5.0).abs() < 1e-12);
        let (money, kg) = prices().charge(Time::from_seconds(150.0), Time::from_seconds(250.0), 7.2e6);
        assert!((money - 4.0).abs() < 1e-12 && (kg - 1.0).abs() < 1e-12);
    }

    #[test]
    fn disorder_is_told() {
        let band = |from: u64, per_kwh: f64| PriceBand { from: Time(from), per_kwh, kg_per_kwh: 0.0 };
        assert!(Prices::new(vec![band(5, 1.0), band(5, 2.0)]).unwrap_err().contains("order of time"));
        assert!(Prices::new(vec![band(5, f64::NAN)]).unwrap_err().contains("a number"));
        assert!(Prices::default().at(Time(3)).is_none());
    }
}
