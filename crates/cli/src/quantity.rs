//! Numbers as users write and read them.

use std::fmt::Display;
use std::str::FromStr;

/// Units of time and their seconds.
const UNITS: [(&str, f64); 6] = [("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// The longest span of time that is taken: about 30 years. More is a slip, and would keep a simulation busy for ever.
pub(crate) const MOST_SECONDS: f64 = 1e9;

/// Reads a span of time: `360s`, `6m`, `1.5h`, `2d`; a plain number is seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(unit, seconds)| text.strip_suffix(unit).map(|number| (number.trim_end(), *seconds)))
        .unwrap_or((text, 1.0));
    match number.parse::<f64>() {
        Ok(number) if number * unit > MOST_SECONDS => Err(format!("'{text}' is too long; expected at most 30 years")),
        Ok(number) if number >= 0.0 => Ok(number * unit),
        _ => Err(format!("'{text}' is not a duration; expected a number, 0 or more, such as 360s, 6m, 1.5h or 2d")),
    }
}

/// Reads a span of time of a second or more.
pub(crate) fn positive_seconds(text: &str) -> Result<f64, String> {
    match seconds(text)? {
        seconds if seconds >= 1.0 => Ok(seconds),
        _ => Err(format!("'{text}' is too short; expected a second or more, such as 360s or 6m")),
    }
}

/// Reads a number within bounds.
pub(crate) fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && (least..=most).contains(&number) => Ok(number),
        _ if most.is_finite() => Err(format!("'{text}' cannot be used; expected a number from {least} to {most}")),
        _ => Err(format!("'{text}' cannot be used; expected a number, {least} or more")),
    }
}

/// Reads a power: `950`, `950W`, `12kW`, `1.2MW`.
pub(crate) fn power(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 3] = [("MW", 1e6), ("kW", 1e3), ("W", 1.0)];
    let bare = text.trim();
    let unit = UNITS.iter().find_map(|(unit, watts)| Some((bare.strip_suffix(unit)?.trim_end(), *watts)));
    let (number, watts) = unit.unwrap_or((bare, 1.0));
    match number.parse::<f64>().map(|number| number * watts) {
        Ok(watts) if watts.is_finite() && watts >= 0.0 => Ok(watts),
        _ => Err(format!("'{text}' is not a power; expected a number of watts, such as 950, 12kW or 1.2MW")),
    }
}

/// Reads an amount of memory, in GiB: `64G`, `512M`, `1.5TiB`.
pub(crate) fn gib(text: &str) -> Result<f64, String> {
    const UNITS: [(char, f64); 4] = [('K', 1.0 / 1_048_576.0), ('M', 1.0 / 1024.0), ('G', 1.0), ('T', 1024.0)];
    let bare = text.trim();
    let short = bare.strip_suffix("iB").or_else(|| bare.strip_suffix('B')).unwrap_or(bare);
    let read = UNITS.iter().find_map(|(unit, gib)| {
        let number = short.strip_suffix(*unit).or_else(|| short.strip_suffix(unit.to_ascii_lowercase()))?;
        Some(number.trim_end().parse::<f64>().ok()? * gib)
    });
    match read {
        Some(gib) if gib.is_finite() && (0.0..=1e6).contains(&gib) => Ok(gib),
        _ => Err(format!("'{text}' is not an amount of memory; expected a number with a unit, such as 64G or 512M")),
    }
}

/// Reads an amount of data of at least so many bytes: `16M`, `10G`.
pub(crate) fn bytes(text: &str, least: u64) -> Result<u64, String> {
    let bytes = (gib(text)? * (1u64 << 30) as f64).round() as u64;
    if bytes >= least { Ok(bytes) } else { Err(format!("'{text}' is too little; expected at least {least} bytes")) }
}

/// Reads a whole number.
pub(crate) fn whole<T: FromStr + PartialOrd + Display + Copy>(text: &str, least: T) -> Result<T, String> {
    match text.trim().parse::<T>() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(format!("'{text}' cannot be used; expected a whole number, {least} or more")),
    }
}

/// Reads `true` or `false`.
pub(crate) fn truth(text: &str) -> Result<bool, String> {
    text.trim().parse().map_err(|_| format!("'{text}' cannot be used; expected true or false"))
}

/// A number for people: about `digits` significant ones, never in powers of ten unless it is huge.
pub(crate) fn shown(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        return "-".into();
    }
    if number.abs() < 5e-7 {
        return "0".into();
    }
    // The magnitude after rounding: 0.9996 is shown as 1.00.
    let rounded = format!("{number:.*e}", digits - 1).parse().unwrap_or(number);
    let magnitude = f64::log10(rounded.abs()).floor() as i32;
    if magnitude >= 9 {
        return format!("{number:.*e}", digits - 1);
    }
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, 6) as usize;
    format!("{number:.decimals$}")
}

/// A span of time for people: the two largest units of it, such as 45s, 12m30s, 3h12m or 2d5h.
pub(crate) fn span(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "-".into();
    }
    let whole = seconds.round().clamp(0.0, 1e12) as u64;
    let two = |large: u64, unit: &str, small: u64, sub: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{sub}"),
    };
    match whole {
        0..60 => format!("{whole}s"),
        60..3600 => two(whole / 60, "m", whole % 60, "s"),
        3600..86_400 => two(whole / 3600, "h", whole % 3600 / 60, "m"),
        _ => two(whole / 86_400, "d", whole % 86_400 / 3600, "h"),
    }
}

/// Joules as kilowatt-hours, for tables.
pub(crate) fn kwh(joules: f64) -> String {
    shown(joules / 3.6e6, 3)
}

/// Watts for people: 950 W, 12.3 kW.
pub(crate) fn watts(watts: f64) -> String {
    if watts < 999.5 { format!("{watts:.0} W") } else { format!("{} kW", shown(watts / 1000.0, 3)) }
}

/// Seconds as hours, for tables.
pub(crate) fn hours(seconds: f64) -> String {
    shown(seconds / 3600.0, 3)
}

/// A ratio as per cent, with one decimal.
pub(crate) fn percent(ratio: f64) -> String {
    if ratio.is_finite() { format!("{:.1}", ratio * 100.0) } else { "-".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time() {
        let check = |text, expect| assert_eq!(seconds(text), Ok(expect), "{text}");
        check("360s", 360.0);
        check("6m", 360.0);
        check("6min", 360.0);
        check("1.5 h", 5400.0);
        check("2d", 172_800.0);
        check("12", 12.0);
        check("0", 0.0);
        check("250ms", 0.25);
        for wrong in ["", "s", "abc", "-1s", "NaN", "inf", "1x", "1h30m", "1e300", "100000d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert!(positive_seconds("0s").is_err() && positive_seconds("1ms").is_err());
    }

    #[test]
    fn amounts_of_memory() {
        let check = |text, expect| assert_eq!(gib(text), Ok(expect), "{text}");
        check("64G", 64.0);
        check("64GiB", 64.0);
        check("64 GB", 64.0);
        check("512m", 0.5);
        check("1.5T", 1536.0);
        for wrong in ["", "64", "G", "-1G", "1e99T", "64X", "NaNG"] {
            assert!(gib(wrong).unwrap_err().contains("expected a number with a unit"), "{wrong}");
        }
    }

    #[test]
    fn spans_are_shown_in_two_units() {
        let check = |seconds, expect| assert_eq!(span(seconds), expect, "{seconds}");
        check(0.2, "0s");
        check(59.6, "1m");
        check(750.0, "12m30s");
        check(3.0 * 3600.0 + 59.0, "3h");
        check(2.0 * 86_400.0 + 5.5 * 3600.0, "2d5h");
        check(-3.0, "0s");
        check(f64::NAN, "-");
    }

    #[test]
    fn numbers_are_shown_short() {
        let check = |number, expect| assert_eq!(shown(number, 3), expect, "{number}");
        check(0.0, "0");
        check(0.012_345, "0.0123");
        check(1.2345, "1.23");
        check(12.345, "12.3");
        check(-123.45, "-123");
        check(12_345.6, "12346");
        check(0.9996, "1.00");
        check(1e-9, "0");
        check(3e12, "3.00e12");
        check(f64::NAN, "-");
    }
}
