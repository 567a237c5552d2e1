//! Moments as people write them: a date with a time, a time of every day, or a time from the beginning on. All are UTC, since a cluster's clocks are.

use crate::quantity;

pub(crate) const DAY_SECONDS: f64 = 86_400.0;

/// When something begins: once, every day, or so long after a beginning.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Moment {
    /// Seconds after a beginning.
    After(f64),
    /// Seconds after midnight, every day.
    Daily(f64),
    /// Seconds since 1970.
    At(f64),
}

const EXPECTED: &str =
    "expected a date with a time such as 2026-11-20T08:00, a time of every day such as 18:00, or a duration such as 6h";

impl Moment {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || format!("'{text}' is not a moment; {EXPECTED}");
        match text.split_once(['T', ' ']) {
            Some((date, time)) if date.contains('-') => {
                let days = days(date).ok_or_else(wrong)?;
                let seconds = seconds_of_day(time.trim_end_matches('Z')).ok_or_else(wrong)?;
                Ok(Self::At(days * DAY_SECONDS + seconds))
            }
            None if text.contains('-') => Ok(Self::At(days(text).ok_or_else(wrong)? * DAY_SECONDS)),
            None if text.contains(':') => seconds_of_day(text).map(Self::Daily).ok_or_else(wrong),
            _ => quantity::seconds(text).map(Self::After).map_err(|_| wrong()),
        }
    }
}

/// A deadline: a moment, or so long from now by this machine's clock.
pub(crate) fn deadline(text: &str) -> Result<f64, String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    Ok(match Moment::read(text)? {
        Moment::At(seconds) => seconds,
        Moment::After(seconds) => now + seconds,
        Moment::Daily(seconds) => {
            let today = (now / DAY_SECONDS).floor() * DAY_SECONDS + seconds;
            if today > now { today } else { today + DAY_SECONDS }
        }
    })
}

/// Days from 1970 to a date such as 2026-11-20.
fn days(date: &str) -> Option<f64> {
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
    if parts.next().is_some() || !(1970..=9999).contains(&year) || !(1..=length).contains(&day) {
        return None;
    }
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let before = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    let months: i64 = lengths.iter().take(month as usize - 1).sum();
    Some((before + months + day - 1) as f64)
}

/// Seconds after midnight of 18:00 or 18:00:30; 24:00 is the end of the day.
fn seconds_of_day(time: &str) -> Option<f64> {
    let mut parts = time.split(':');
    let (hour, minute) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?);
    let second = parts.next().map_or(Some(0.0), |text| text.parse::<f64>().ok())?;
    let sound = hour <= 24 && minute < 60 && (0.0..60.0).contains(&second) && parts.next().is_none();
    let seconds = f64::from(hour * 3600 + minute * 60) + second;
    (sound && seconds <= DAY_SECONDS).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        let check = |text: &str, want: Moment| assert_eq!(Moment::read(text), Ok(want), "{text}");
        check("1970-01-02", Moment::At(86_400.0));
        check("2026-11-20T08:00", Moment::At(1_795_161_600.0));
        check("2024-02-29 23:59:30Z", Moment::At(1_709_251_170.0));
        check("2000-03-01T00:00", Moment::At(951_868_800.0));
        check("18:00", Moment::Daily(64_800.0));
        check("6h", Moment::After(21_600.0));
        for wrong in ["2026-13-01", "2026-02-30", "25:00", "soon", "2026-11-20T8", "1:2:3:4"] {
            assert!(Moment::read(wrong).is_err(), "{wrong}");
        }
    }
}
