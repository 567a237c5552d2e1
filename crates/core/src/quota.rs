//! What a tenant may use, and the calendar by which monthly budgets are counted.
//!
//! A quota limits; it promises nothing: who is owed how much is said by weights. Live jobs and submissions per second are looked at when a
//! job is submitted, by whoever takes submissions; the scheduler itself keeps the limits on GPUs at once and on a month's use.

use crate::Time;
use serde::{Deserialize, Serialize};

/// Limits of one tenant; what is `None` is not limited.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// GPUs that its jobs hold at once. A GPU that two of its jobs share counts for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Jobs that are not over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// GPU-hours in a calendar month (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_hours: Option<f64>,
    /// Energy in a calendar month (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kwh: Option<f64>,
    /// Submissions per second, in the long run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submits_per_second: Option<f64>,
}

impl Quota {
    /// Whether it limits what the scheduler decides.
    #[must_use]
    pub fn binds_scheduling(&self) -> bool {
        self.gpus.is_some() || self.gpu_hours.is_some() || self.kwh.is_some()
    }

    /// The same quota, or a sentence about what cannot be meant.
    ///
    /// # Errors
    /// When an amount is not a number from 0 up, or a rate is not positive.
    pub fn check(self) -> Result<Self, String> {
        let amounts = [("GPU-hours", self.gpu_hours), ("kWh", self.kwh)];
        for (what, amount) in amounts {
            if let Some(amount) = amount.filter(|amount| !(amount.is_finite() && (0.0..=1e12).contains(amount))) {
                return Err(format!("{amount} {what} a month is no quota; expected a number from 0 to 1e12"));
            }
        }
        match self.submits_per_second.filter(|rate| !(rate.is_finite() && *rate > 0.0 && *rate <= 1e6)) {
            Some(rate) => {
                Err(format!("{rate} submissions per second are no quota; expected more than 0 and at most 1e6"))
            }
            None => Ok(self),
        }
    }

    /// In words, such as "8 GPUs, 500 GPU-hours a month".
    #[must_use]
    pub fn words(&self) -> String {
        let parts = [
            self.jobs.map(|n| format!("{n} live jobs")),
            self.gpus.map(|n| format!("{n} GPUs at once")),
            self.gpu_hours.map(|n| format!("{n} GPU-hours a month")),
            self.kwh.map(|n| format!("{n} kWh a month")),
            self.submits_per_second.map(|n| format!("{n} submissions per second")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "no quota".into() } else { parts.join(", ") }
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAY_MICROS: u64 = 86_400_000_000;

/// A calendar month (UTC), counted from January 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Month(pub u32);

impl Month {
    /// The month that a moment is in.
    #[must_use]
    pub fn of(time: Time) -> Self {
        let day = time.0 / DAY_MICROS;
        // A month has 28 days at least: between none and so many have begun since.
        let (mut least, mut most) = (0, u32::try_from(day / 28).unwrap_or(u32::MAX - 1));
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            if Self(middle).first_day() <= day {
                least = middle;
            } else {
                most = middle - 1;
            }
        }
        Self(least)
    }

    /// Midnight (UTC) of its first day.
    #[must_use]
    pub fn begins(self) -> Time {
        Time(self.first_day().saturating_mul(DAY_MICROS))
    }

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Its first day in words, such as "1 December".
    #[must_use]
    pub fn first_in_words(self) -> String {
        format!("1 {}", MONTHS[(self.0 % 12) as usize])
    }

    /// Days since 1 January 1970.
    fn first_day(self) -> u64 {
        const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let (year, month) = (1970 + u64::from(self.0 / 12), (self.0 % 12) as usize);
        let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let leap_days_before = leap_days(year - 1) - leap_days(1969) + u64::from(leap && month > 1);
        365 * (year - 1970) + leap_days_before + BEFORE[month]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_when_the_calendar_says() {
        // Seconds since 1970 of the first moment of a month, by `date -u`.
        for (seconds, months, words) in [
            (0_u64, 0, "1 January"),
            (951_868_800, 362, "1 March"),
            (1_709_251_200, 650, "1 March"),
            (1_796_083_200, 683, "1 December"),
            (4_107_542_400, 1562, "1 March"),
        ] {
            let month = Month(months);
            assert_eq!(month.begins(), Time(seconds * 1_000_000), "{months}");
            assert_eq!(month.first_in_words(), words);
            assert_eq!(Month::of(Time(seconds * 1_000_000)), month);
            assert_eq!(Month::of(Time(seconds * 1_000_000 + 27 * DAY_MICROS)), month);
            if months > 0 {
                assert_eq!(Month::of(Time(seconds * 1_000_000 - 1)).next(), month);
            }
        }
    }

    #[test]
    fn amounts_that_cannot_be_meant_are_told() {
        let wrong = Quota { gpu_hours: Some(f64::NAN), ..Quota::default() }.check().unwrap_err();
        assert!(wrong.contains("GPU-hours a month is no quota"), "{wrong}");
        assert!(Quota { submits_per_second: Some(0.0), ..Quota::default() }.check().is_err());
        assert!(Quota { kwh: Some(-1.0), ..Quota::default() }.check().is_err());
        let sound = Quota { gpus: Some(8), gpu_hours: Some(500.0), ..Quota::default() };
        assert_eq!(sound.check().unwrap().words(), "8 GPUs at once, 500 GPU-hours a month");
        assert_eq!(Quota::default().words(), "no quota");
    }
}
