//! What changes by the hour, from files: prices of electricity and power budgets.
//!
//! Lines begin at moments ([`Moment`]), all of one sort in a file. In a simulation the first date of a file is the beginning and days begin at midnight; a
//! daemon lives by the calendar, so there durations mean nothing. Times of every day are written out for as many days as anybody plans ahead.

use crate::cluster;
use crate::files;
use crate::moment::{DAY_SECONDS, Moment};
use anyhow::{Result, anyhow};
use arles_core::{PriceBand, Prices, Time};
use arles_sim::scenario::BudgetEvent;
use std::path::Path;

/// Days for which what happens every day is written out.
const DAYS: u32 = 60;

/// Lines of a file with their moments.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Hourly<T> {
    lines: Vec<(Moment, T)>,
}

/// What a kilowatt-hour costs and emits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Price {
    per_kwh: f64,
    kg_per_kwh: f64,
}

impl<T: Copy> Hourly<T> {
    fn new(lines: Vec<(Moment, T)>) -> Result<Self, String> {
        let sort = |moment: &Moment| std::mem::discriminant(moment);
        if lines.windows(2).any(|two| sort(&two[0].0) != sort(&two[1].0)) {
            return Err("dates, times of day and durations are mixed; use one of them in a file".into());
        }
        Ok(Self { lines })
    }

    /// From when on what holds, in seconds after the beginning of a simulation.
    fn in_run(&self) -> Vec<(f64, T)> {
        let first = match self.lines.first() {
            Some((Moment::At(first), _)) => *first,
            _ => 0.0,
        };
        self.dated(0.0).into_iter().map(|(at, what)| (at - first, what)).collect()
    }

    /// The same in seconds since the origin of `day`'s clock, with what happens daily from that day on.
    fn dated(&self, day: f64) -> Vec<(f64, T)> {
        let mut moments: Vec<(f64, T)> = Vec::new();
        for (moment, what) in &self.lines {
            match moment {
                Moment::After(seconds) | Moment::At(seconds) => moments.push((*seconds, *what)),
                Moment::Daily(seconds) => {
                    moments.extend((0..DAYS).map(|n| (day + f64::from(n) * DAY_SECONDS + seconds, *what)));
                }
            }
        }
        moments.sort_by(|a, b| a.0.total_cmp(&b.0));
        moments
    }

    /// From when on what holds by the calendar, if `now` is this.
    pub(crate) fn on_calendar(&self, now: f64) -> Vec<(f64, T)> {
        // From yesterday on: what began then may still hold.
        self.dated((now / DAY_SECONDS).floor() * DAY_SECONDS - DAY_SECONDS)
    }

    /// A daemon's file has no durations.
    pub(crate) fn needs_calendar(self) -> Result<Self, String> {
        match self.lines.first() {
            Some((Moment::After(_), _)) => {
                Err("a daemon lives by the calendar; give dates such as 2026-11-20T18:00, or times of every day such as 18:00".into())
            }
            _ => Ok(self),
        }
    }
}

impl Hourly<Price> {
    /// A CSV with the columns `from`, `per_kwh` and, if known, `kg_per_kwh`.
    pub(crate) fn prices(path: &Path) -> Result<Self> {
        let text = files::read(path, "prices of electricity as CSV: from,per_kwh,kg_per_kwh")?;
        Self::read_prices(&text).map_err(|sentence| anyhow!("{}{sentence}", path.display()))
    }

    fn read_prices(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.split('#').next().unwrap_or("").trim()));
        let mut lines = lines.by_ref().filter(|(_, line)| !line.is_empty());
        let expected = "expected a header of from,per_kwh and, if emissions are known, kg_per_kwh";
        let (number, header) = lines.next().ok_or_else(|| format!(": there is nothing in it; {expected}"))?;
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        if names.iter().any(|name| !["from", "per_kwh", "kg_per_kwh"].contains(name)) {
            return Err(format!(":{number}: the header is '{header}'; {expected}"));
        }
        let column = |name: &str| names.iter().position(|other| *other == name);
        let (Some(from), Some(price)) = (column("from"), column("per_kwh")) else {
            return Err(format!(":{number}: the header is '{header}'; {expected}"));
        };
        let mut read = Vec::new();
        for (number, line) in lines {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let place = |sentence: String| format!(":{number}: {sentence}");
            if fields.len() != names.len() {
                return Err(place(format!("there are {} fields; expected {}", fields.len(), names.len())));
            }
            let amount = |at: usize, what: &str| match fields[at].parse::<f64>() {
                Ok(amount) if amount.is_finite() => Ok(amount),
                _ => Err(place(format!("{what} is '{}'; expected a number", fields[at]))),
            };
            let kg_per_kwh = column("kg_per_kwh").map_or(Ok(0.0), |at| amount(at, "kg_per_kwh"))?;
            if kg_per_kwh < 0.0 {
                return Err(place(format!("kg_per_kwh is {kg_per_kwh}; expected 0 or more")));
            }
            let moment = Moment::read(fields[from]).map_err(place)?;
            read.push((moment, Price { per_kwh: amount(price, "per_kwh")?, kg_per_kwh }));
        }
        Self::new(read).map_err(|sentence| format!(": {sentence}"))
    }

    /// Prices of a simulation.
    pub(crate) fn of_run(&self) -> Result<Prices, String> {
        bands(&self.in_run())
    }

    /// Prices by the calendar.
    pub(crate) fn of_calendar(&self, now: f64) -> Result<Prices, String> {
        bands(&self.on_calendar(now))
    }
}

fn bands(moments: &[(f64, Price)]) -> Result<Prices, String> {
    let band = |(at, price): &(f64, Price)| PriceBand {
        from: Time::from_seconds(*at),
        per_kwh: price.per_kwh,
        kg_per_kwh: price.kg_per_kwh,
    };
    Prices::new(moments.iter().map(band).collect())
}

impl Hourly<Option<f64>> {
    /// Power budgets such as 8kW@18:00, one or more to a line.
    pub(crate) fn budgets(path: &Path) -> Result<Self> {
        let text = files::read(path, "a list of power budgets such as 8kW@18:00, one to a line")?;
        let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default()));
        let mut read = Vec::new();
        for (number, line) in lines {
            let place = |sentence| anyhow!("{}:{number}: {sentence}", path.display());
            read.extend(cluster::budgets(line).map_err(place)?);
        }
        Self::of_lines(read).map_err(|sentence| anyhow!("{}: {sentence}", path.display()))
    }

    pub(crate) fn of_lines(lines: Vec<(Moment, Option<f64>)>) -> Result<Self, String> {
        Self::new(lines)
    }

    /// Budgets of a simulation.
    pub(crate) fn of_run(&self) -> Vec<BudgetEvent> {
        let event = |(at_seconds, watts): (f64, Option<f64>)| BudgetEvent { at_seconds, watts };
        self.in_run().into_iter().map(event).collect()
    }

    /// The budget that holds by the calendar; nothing before the first.
    pub(crate) fn at(&self, now: f64) -> Option<Option<f64>> {
        self.on_calendar(now).into_iter().rev().find(|(at, _)| *at <= now).map(|(_, watts)| watts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_date_is_where_a_simulation_begins() {
        let text = "from,per_kwh,kg_per_kwh\n2026-11-20T00:00,0.30,0.4\n2026-11-20T02:00,0.10,0.2 # wind\n";
        let prices = Hourly::read_prices(text).expect("sound").of_run().expect("in order");
        let seconds: Vec<f64> = prices.bands().iter().map(|band| band.from.seconds()).collect();
        assert_eq!(seconds, [0.0, 7200.0]);
        assert_eq!(prices.bands()[1].kg_per_kwh, 0.2);
    }

    #[test]
    fn what_happens_daily_happens_every_day() {
        let daily = Hourly::of_lines(cluster::budgets("1.2MW@06:00,0.8MW@18:00").expect("sound")).expect("one sort");
        let day = 20_000.0 * DAY_SECONDS;
        assert_eq!(daily.at(day + 7.0 * 3600.0), Some(Some(1.2e6)));
        assert_eq!(daily.at(day + 19.0 * 3600.0), Some(Some(0.8e6)));
        // Before six in the morning, yesterday evening's holds.
        assert_eq!(daily.at(day + 3600.0), Some(Some(0.8e6)));
        assert_eq!(daily.of_run()[1].at_seconds, 18.0 * 3600.0);
    }

    #[test]
    fn wrong_files_get_a_sentence() {
        let check = |text: &str, says: &str| {
            let said = Hourly::read_prices(text).expect_err(text);
            assert!(said.contains(says), "{said}");
        };
        check("", "nothing in it");
        check("when,price\n", "expected a header of from,per_kwh");
        check("from,per_kwh\n06:00,cheap\n", ":2: per_kwh is 'cheap'");
        check("from,per_kwh\n06:00,1\n6h,2\n", "mixed");
        check("from,per_kwh,kg_per_kwh\n06:00,1,-2\n", "0 or more");
        let offsets = Hourly::read_prices("from,per_kwh\n0h,1\n").expect("sound");
        assert!(offsets.needs_calendar().is_err());
    }
}
