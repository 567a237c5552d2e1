//! Cells as they are printed.

use crate::output;
use crate::quantity::{percent, shown};
use arles_core::Time;
use arles_core::estimate::Source;
use arles_learn::catalog::{labels, timestamp};
use arles_learn::{Cell, Key};
use serde::Serialize;

/// A cell under the names of its columns.
#[derive(Serialize)]
pub(super) struct CellRow<'c> {
    workload: &'c str,
    kind: &'c str,
    gang: u32,
    partner: Option<&'c str>,
    rate_steps_per_second: f64,
    watts: Option<f64>,
    source: Source,
    observations: u32,
    at: String,
    standard_error: f64,
}

impl<'c> CellRow<'c> {
    pub(super) fn of((key, cell): (&'c Key, &'c Cell)) -> Self {
        Self {
            workload: &key.workload,
            kind: &key.kind,
            gang: key.gang,
            partner: key.partner.as_deref(),
            rate_steps_per_second: cell.rate,
            watts: cell.watts,
            source: cell.source,
            observations: cell.observations,
            at: timestamp::text(cell.at),
            standard_error: cell.standard_error,
        }
    }
}

/// The rate, in a few digits.
pub(super) fn rate(cell: &Cell) -> output::Cell {
    let text = if cell.rate > 0.0 { shown(cell.rate, 3) } else { "unfit".into() };
    output::Cell::number(text, cell.rate)
}

/// Watts, source, observations, age and standard error, as of `now`.
pub(super) fn quality(cell: &Cell, now: Time) -> [output::Cell; 5] {
    let watts = cell.watts.unwrap_or(f64::NAN);
    let standard_error = cell.standard_error_at(now);
    let age_seconds = now.since(cell.at);
    [
        output::Cell::number(shown(watts, 3), watts),
        labels::label_of(&cell.source, &labels::SOURCES).into(),
        cell.observations.into(),
        output::Cell::number(age(age_seconds), age_seconds),
        output::Cell::number(percent(standard_error), standard_error),
    ]
}

/// A span of time in two or three characters and its unit.
fn age(seconds: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(60.0, "s"), (60.0, "min"), (24.0, "h"), (365.25, "d")];
    let mut span = seconds;
    for (most, unit) in UNITS {
        // An hour and a half is 90 min rather than 2 h.
        if span < 2.0 * most {
            return format!("{span:.0} {unit}");
        }
        span /= most;
    }
    format!("{span:.1} y")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let check = |seconds, expect| assert_eq!(age(seconds), expect);
        check(0.0, "0 s");
        check(100.4, "100 s");
        check(5400.0, "90 min");
        check(36_000.0, "10 h");
        check(86_400.0 * 400.0, "400 d");
        check(86_400.0 * 365.25 * 6.5, "6.5 y");
    }
}
