//! Timestamps as people write them: `2026-11-15T16:47:06Z`, always in UTC.
//!
//! A catalog on disk counts microseconds since 1970-01-01T00:00:00Z without leap seconds. The calendar is the crate
//! `time`'s; parsing is our own, since exactly one form is written and taken.

use arles_core::Time;
use time::Date;

/// The last moment that has a name: 9999-12-31T23:59:59.999999Z.
pub const LATEST: Time = Time(253_402_300_799_999_999);

const DAY: u64 = 86_400;
/// The Julian day of 1970-01-01.
const EPOCH: i32 = 2_440_588;
const EXPECTED: &str = "expected a moment in UTC such as 2026-11-15 or 2026-11-15T16:47:06Z, from 1970 to 9999";

/// A moment in words; a fraction of a second has six digits, or is left out where it is zero.
#[must_use]
pub fn text(at: Time) -> String {
    let (seconds, micros) = (at.0 / 1_000_000, at.0 % 1_000_000);
    let (year, month, day) = date(seconds / DAY).to_calendar_date();
    let month = u8::from(month);
    let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Reads a moment.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse(text: &str) -> Result<Time, String> {
    read(text.trim()).ok_or_else(|| format!("'{text}' is no moment; {EXPECTED}"))
}

fn read(text: &str) -> Option<Time> {
    let (date, clock) = match text.split_once(['T', ' ']) {
        Some((date, clock)) => (date, clock.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let days = days(year, month, day)?;
    if hour > 23 || minute > 59 || second > 59 || !(1..=6).contains(&fraction.len()) {
        return None;
    }
    let [micros] = numbers(&format!("{fraction:0<6}"), '.', [6])?;
    Some(Time(((days * DAY) + hour * 3600 + minute * 60 + second) * 1_000_000 + micros))
}

/// Exactly these many digits between exactly these separators.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != width || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// The date of a day since the epoch; the last of all where there is none.
fn date(days: u64) -> Date {
    i32::try_from(days).ok().and_then(|days| Date::from_julian_day(EPOCH + days).ok()).unwrap_or(Date::MAX)
}

/// The day since the epoch of a date, if there is such a date.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let month = u8::try_from(month).ok()?.try_into().ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
    u64::try_from(date.to_julian_day() - EPOCH).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_their_names() {
        let check = |seconds: u64, micros: u64, name: &str| {
            let at = Time(seconds * 1_000_000 + micros);
            assert_eq!(text(at), name);
            assert_eq!(parse(name), Ok(at), "{name}");
        };
        check(0, 0, "1970-01-01T00:00:00Z");
        check(951_782_400, 0, "2000-02-29T00:00:00Z");
        check(951_868_800, 0, "2000-03-01T00:00:00Z");
        check(1_000_000_000, 1, "2001-09-09T01:46:40.000001Z");
        check(4_107_542_400, 0, "2100-03-01T00:00:00Z");
        check(LATEST.0 / 1_000_000, 999_999, "9999-12-31T23:59:59.999999Z");
        assert_eq!(parse("2001-09-09"), Ok(Time(999_993_600_000_000)));
        assert_eq!(parse("2001-09-09 01:46:40.5Z"), Ok(Time(1_000_000_000_500_000)));
    }

    #[test]
    fn every_day_goes_there_and_back() {
        for day in (0..LATEST.0 / 1_000_000 / DAY).step_by(13) {
            let (year, month, date) = date(day).to_calendar_date();
            assert_eq!(days(year as u64, month as u64, u64::from(date)), Some(day));
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for wrong in [
            "",
            "yesterday",
            "1760000000",
            "2026-02-29",
            "2026-13-01",
            "2026-1-1",
            "1969-12-31",
            "0000-01-01",
            "2026-11-15T16:47:06",
            "2026-11-15T24:00:00Z",
            "2026-11-15T16:47:06.1234567Z",
            "2026-11-15T16:47:06.Z",
            "2026-11-15T16:47:06.é1Z",
            "+026-11-15",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
