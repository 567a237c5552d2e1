//! Names and numbers as people read them.
//!
//! Three significant digits, a unit that fits, thousands apart. A value that is not finite is printed as a dash: `NaN`
//! and `inf` never reach a reader. Every name goes through [`escape`] on its way into markup, without exception.

/// Printed where there is no value.
pub(super) const NONE: &str = "–";

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86400.0;

/// A name made harmless inside HTML and XML, in text as in attributes. Characters that XML forbids become U+FFFD.
pub(super) fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if unseen(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Control characters, those that turn text around, and what XML forbids. (The rule for names is `arles_core::name`, which this crate
/// does not see; a page must hold whatever a record says.)
pub(super) fn unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// A name cut to at most `letters` characters, the last of them an ellipsis if something was cut.
pub(super) fn shorten(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(letters.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A name as part of a file name: lower-case letters, digits and single hyphens.
pub(super) fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.trim_end_matches('-').to_owned()
}

/// Three significant digits: 0.0123, 1.23, 12.3, 123, 1,234.
pub(super) fn figures(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let size = value.abs();
    let decimals = match size {
        s if s < 5e-5 => return "0".to_owned(),
        s if s < 0.00995 => 4,
        s if s < 0.0995 => 3,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => return thousands(value),
    };
    format!("{value:.decimals$}")
}

/// [`figures`] without the zeros that say nothing: ticks read 10 and 0.5, not 10.0 and 0.50.
pub(super) fn brief(value: f64) -> String {
    let text = figures(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number.
pub(super) fn count(value: u64) -> String {
    group(&value.to_string())
}

/// The nearest whole number.
pub(super) fn thousands(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let digits = group(&format!("{:.0}", value.abs()));
    if value < 0.0 && digits != "0" { format!("−{digits}") } else { digits }
}

fn group(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A unit, and how many of the base unit it holds.
pub(super) type Unit = (&'static str, f64);

/// The unit in which a duration of about this length is best told.
pub(super) fn time_unit(seconds: f64) -> Unit {
    match seconds.abs() {
        s if s < MINUTE => ("s", 1.0),
        s if s < HOUR => ("min", MINUTE),
        s if s < 2.0 * DAY => ("h", HOUR),
        _ => ("d", DAY),
    }
}

/// The unit in which an energy of about this size is best told.
pub(super) fn energy_unit(kwh: f64) -> Unit {
    match kwh.abs() {
        e if e < 1.0 => ("Wh", 1e-3),
        e if e < 1e3 => ("kWh", 1.0),
        e if e < 1e6 => ("MWh", 1e3),
        _ => ("GWh", 1e6),
    }
}

/// The unit in which a power of about this size is best told.
pub(super) fn power_unit(watts: f64) -> Unit {
    match watts.abs() {
        w if w < 1e3 => ("W", 1.0),
        w if w < 1e6 => ("kW", 1e3),
        _ => ("MW", 1e6),
    }
}

/// A value of the base unit, told in this one.
pub(super) fn in_unit(value: f64, (unit, size): Unit) -> String {
    if value.is_finite() { format!("{} {unit}", brief(value / size)) } else { NONE.to_owned() }
}

/// 45 s, 12.3 min, 1.2 h, 3.4 d.
pub(super) fn duration(seconds: f64) -> String {
    in_unit(seconds, time_unit(seconds))
}

/// 820 Wh, 3.4 kWh, 1.2 MWh.
pub(super) fn energy(kwh: f64) -> String {
    in_unit(kwh, energy_unit(kwh))
}

/// 320 W, 4.5 kW.
pub(super) fn power(watts: f64) -> String {
    in_unit(watts, power_unit(watts))
}

/// 320 W, 4.50 kW: for columns, where each number has as many digits as the next.
pub(super) fn power_in_full(watts: f64) -> String {
    let (unit, size) = power_unit(watts);
    if watts.is_finite() { format!("{} {unit}", figures(watts / size)) } else { NONE.to_owned() }
}

/// 56.6 %.
pub(super) fn percent(ratio: f64) -> String {
    if ratio.is_finite() { format!("{} %", percent_figures(ratio)) } else { NONE.to_owned() }
}

/// 56.6: a percentage where the unit stands elsewhere.
pub(super) fn percent_figures(ratio: f64) -> String {
    let hundredths = ratio * 100.0;
    match hundredths.abs() {
        h if !h.is_finite() => NONE.to_owned(),
        h if h < 5e-3 => "0".to_owned(),
        h if h < 0.995 => format!("{hundredths:.2}"),
        _ => format!("{hundredths:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let check = |got: String, want: &str| assert_eq!(got, want);
        check(figures(0.0), "0");
        check(figures(9.996), "10.0");
        check(figures(1234.4), "1,234");
        check(figures(-1_234_567.0), "−1,234,567");
        check(brief(10.0), "10");
        check(brief(0.5), "0.5");
        check(brief(100.0), "100");
        check(count(0), "0");
        check(count(1_000_000), "1,000,000");
        check(duration(45.0), "45 s");
        check(duration(4320.0), "1.2 h");
        check(duration(86400.0 * 3.4), "3.4 d");
        check(energy(0.82), "820 Wh");
        check(energy(3400.0), "3.4 MWh");
        check(power(4500.0), "4.5 kW");
        check(power_in_full(4500.0), "4.50 kW");
        check(percent(0.566), "56.6 %");
        check(percent(0.00123), "0.12 %");
    }

    #[test]
    fn what_is_not_finite_is_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for text in [figures(value), brief(value), duration(value), energy(value), power(value), percent(value)] {
                assert_eq!(text, NONE);
            }
        }
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(escape("<a b='c' d=\"e\">&\u{0}"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\u{fffd}");
        assert_eq!(escape("a\u{202e}b\u{2066}c\u{1b}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten("abcd", 4), "abcd");
        assert_eq!(slug("OEF (coop) / ε"), "oef-coop");
    }
}
