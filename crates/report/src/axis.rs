//! From values to pixels, and the ticks between.
//!
//! An axis maps `low..high` onto `from..to`, linearly or by logarithm. Ticks stand where people count: at 1, 2 or 5 times
//! a power of ten, at whole minutes, hours and days.

use super::text;

/// How values are spread over the axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Scale {
    /// Equal steps for equal differences.
    Linear,
    /// Equal steps for equal ratios.
    Log,
}

/// What is measured, hence how it is written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Measure {
    /// Seconds.
    Time,
    /// A ratio, written in percent.
    Ratio,
    /// A number of things.
    Count,
    /// Power, in W, kW or MW.
    Watts,
    /// Kilowatt hours, told in a given unit.
    Energy(text::Unit),
    /// A bare number.
    Plain,
    /// Seconds of computing, far below one as well.
    Computing,
}

impl Measure {
    /// The name by which the page's script knows it.
    fn token(self) -> &'static str {
        match self {
            Measure::Time => "time",
            Measure::Ratio => "ratio",
            Measure::Count => "count",
            Measure::Watts => "watts",
            Measure::Energy(_) => "energy",
            Measure::Plain | Measure::Computing => "plain",
        }
    }

    /// A value with its unit.
    pub(super) fn format(self, value: f64) -> String {
        match self {
            Measure::Time => text::duration(value),
            Measure::Ratio => text::percent(value),
            Measure::Count => text::thousands(value),
            Measure::Watts => text::power(value),
            Measure::Energy(unit) => text::in_unit(value, unit),
            Measure::Plain => text::figures(value),
            Measure::Computing => computing(value),
        }
    }

    /// The label of a tick, where `high` decides the unit for the whole axis.
    fn label(self, value: f64, high: f64) -> String {
        let scaled = |(unit, size): text::Unit| match value {
            0.0 => "0".to_owned(),
            v => format!("{} {unit}", text::brief(v / size)),
        };
        match self {
            Measure::Ratio => format!("{} %", text::brief(value * 100.0)),
            Measure::Count => text::brief(value),
            Measure::Watts => scaled(text::power_unit(high)),
            Measure::Energy(unit) => scaled(unit),
            Measure::Time => text::duration(value),
            Measure::Plain => text::brief(value),
            Measure::Computing => computing(value),
        }
    }
}

impl Measure {
    /// The label of a tick with as many decimals as the distance to the next one needs.
    fn exact_label(self, value: f64, step: f64) -> String {
        let decimals = |step: f64| (-(step * (1.0 + 1e-9)).log10()).ceil().clamp(0.0, 12.0) as usize;
        match self {
            Measure::Ratio => format!("{:.*} %", decimals(100.0 * step), 100.0 * value),
            _ => format!("{value:.*}", decimals(step)),
        }
    }
}

/// A short time in the unit that fits.
fn computing(seconds: f64) -> String {
    let (unit, size) = match seconds {
        s if s < 0.999e-3 => ("µs", 1e-6),
        s if s < 0.999 => ("ms", 1e-3),
        _ => ("s", 1.0),
    };
    format!("{} {unit}", text::brief(seconds / size))
}

/// One axis of a plot.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Axis {
    scale: Scale,
    measure: Measure,
    /// Value at `from`.
    pub(super) low: f64,
    /// Value at `to`.
    pub(super) high: f64,
    /// Pixel of `low`.
    pub(super) from: f64,
    /// Pixel of `high`.
    pub(super) to: f64,
    /// Where a tick stands, in values, and what it says.
    pub(super) ticks: Vec<(f64, String)>,
}

/// Seconds, and how a tick there reads, from a second to three years. Finer sets contain the coarser ones.
const TIME_MARKS: [(&[f64], f64, &str); 4] = [
    (&[1.0, 2.0, 5.0, 10.0, 20.0, 30.0], 1.0, "s"),
    (&[1.0, 2.0, 5.0, 10.0, 20.0, 30.0], 60.0, "min"),
    (&[1.0, 2.0, 5.0, 10.0], 3600.0, "h"),
    (&[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0], 86400.0, "d"),
];

/// Distances of ticks on a linear time axis, with the unit that their labels share.
const TIME_STEPS: [(f64, &[f64], &str); 4] = [
    (1.0, &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0], "s"),
    (60.0, &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0], "min"),
    (3600.0, &[1.0, 2.0, 3.0, 6.0, 12.0], "h"),
    (86400.0, &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0], "d"),
];

impl Axis {
    /// A linear axis from 0 to a round number at or above `high`, with ticks at least `apart` pixels apart.
    pub(super) fn upto(high: f64, measure: Measure, (from, to): (f64, f64), apart: f64) -> Axis {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let most = ((to - from).abs() / apart).floor().max(1.0);
        let step = round_step(high / most, measure);
        let steps = (high / step - 1e-9).ceil().max(1.0);
        let top = step * steps;
        let ticks = (0..=steps as usize).map(|i| step * i as f64).map(|v| (v, measure.label(v, top))).collect();
        Axis { scale: Scale::Linear, measure, low: 0.0, high: top, from, to, ticks }
    }

    /// A linear axis between round numbers that holds `low..=high`.
    pub(super) fn between((low, high): (f64, f64), measure: Measure, (from, to): (f64, f64), apart: f64) -> Axis {
        let (low, high) = if low.is_finite() && high > low { (low, high) } else { (0.0, 1.0) };
        let most = ((to - from).abs() / apart).floor().max(1.0);
        let step = round_step((high - low) / most, measure);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let marks = (first as i64..=last as i64).map(|i| step * i as f64);
        let mut ticks: Vec<_> = marks.map(|v| (v, measure.label(v, last * step))).collect();
        if ticks.windows(2).any(|two| two[0].1 == two[1].1) {
            // Nearer to each other than three digits can tell.
            ticks.iter_mut().for_each(|(v, label)| *label = measure.exact_label(*v, step));
        }
        Axis { scale: Scale::Linear, measure, low: first * step, high: last * step, from, to, ticks }
    }

    /// A logarithmic axis between powers of ten that holds `low..=high`, both positive.
    pub(super) fn decades((low, high): (f64, f64), measure: Measure, (from, to): (f64, f64)) -> Axis {
        let (low, high) = if low > 0.0 && high.is_finite() { (low, high.max(low)) } else { (1.0, 10.0) };
        let (first, last) = ((low.log10() + 1e-9).floor() as i32, (high.log10() - 1e-9).ceil() as i32);
        let last = last.max(first + 1);
        let ticks = (first..=last).map(|e| 10f64.powi(e)).map(|v| (v, measure.label(v, high))).collect();
        Axis { scale: Scale::Log, measure, low: 10f64.powi(first), high: 10f64.powi(last), from, to, ticks }
    }

    /// A linear axis of time from 0 to exactly `high` seconds.
    pub(super) fn clock(high: f64, (from, to): (f64, f64), apart: f64) -> Axis {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let least = high * apart / (to - from).abs();
        let fits = |(size, steps, unit): &(f64, &[f64], &'static str)| {
            steps.iter().find(|s| **s * size >= least).map(|s| (s * size, *size, *unit))
        };
        let (step, size, unit) = TIME_STEPS.iter().find_map(fits).unwrap_or((high, 86400.0, "d"));
        let label = |v: f64| if v == 0.0 { "0".to_owned() } else { format!("{} {unit}", text::brief(v / size)) };
        let ticks = (0..=(high / step + 1e-9).floor() as usize).map(|i| step * i as f64).map(|v| (v, label(v)));
        Axis { scale: Scale::Linear, measure: Measure::Time, low: 0.0, high, from, to, ticks: ticks.collect() }
    }

    /// A logarithmic axis of time that holds `low..=high`, both positive.
    pub(super) fn log_time(low: f64, high: f64, (from, to): (f64, f64), apart: f64) -> Axis {
        let (low, high) = if high >= 1.5 * low { (low, high) } else { (low / 2.0, high * 2.0) };
        let mut axis = Axis { scale: Scale::Log, measure: Measure::Time, low, high, from, to, ticks: Vec::new() };
        let marks = |keep: fn(f64, &str) -> bool| {
            let marks = TIME_MARKS.iter().flat_map(move |(steps, size, unit)| {
                let steps = steps.iter().filter(move |s| keep(**s, unit));
                steps.map(move |s| (s * size, format!("{} {unit}", text::brief(*s))))
            });
            marks.filter(|(v, _)| (low..=high).contains(v)).collect::<Vec<_>>()
        };
        let fits = |ticks: &[(f64, String)]| ticks.windows(2).all(|w| axis.at(w[1].0) - axis.at(w[0].0) >= apart);
        let choices = [
            marks(|_, _| true),
            marks(|s, _| s != 2.0 && s != 20.0),
            marks(|s, _| s == 1.0 || s == 10.0 || s >= 100.0),
            // Ten hours and a day are closer than any other two.
            marks(|s, unit| s == 1.0 || (s == 10.0 && unit != "h") || s >= 100.0),
        ];
        let coarse = marks(|s, _| s == 1.0 || s == 100.0);
        axis.ticks = choices.into_iter().find(|ticks| fits(ticks)).unwrap_or(coarse);
        axis
    }

    /// A linear axis over all of 0 to 100 %.
    pub(super) fn whole((from, to): (f64, f64), apart: f64) -> Axis {
        Axis::upto(1.0, Measure::Ratio, (from, to), apart)
    }

    /// An axis without ticks, where rows with names of their own stand.
    pub(super) fn bare((from, to): (f64, f64)) -> Axis {
        Axis { ticks: Vec::new(), ..Axis::whole((from, to), 1.0) }
    }

    /// The pixel of a value; values beyond the axis are drawn at its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (low, high, value) = match self.scale {
            Scale::Linear => (self.low, self.high, value),
            Scale::Log => (self.low.ln(), self.high.ln(), value.max(self.low).ln()),
        };
        let part = ((value - low) / (high - low)).clamp(0.0, 1.0);
        self.from + if part.is_finite() { part } else { 0.0 } * (self.to - self.from)
    }

    /// The axis for the page's script, which turns pixels back into values.
    pub(super) fn token(&self) -> String {
        let scale = if self.scale == Scale::Log { "log" } else { "lin" };
        format!("{scale} {} {} {} {} {}", self.low, self.high, self.from, self.to, self.measure.token())
    }
}

/// The smallest round step that is at least `least`.
fn round_step(least: f64, measure: Measure) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= least * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0 * power);
    // Half a job is no tick.
    if measure == Measure::Count { step.ceil().max(1.0) } else { step }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|t| t.1.as_str()).collect()
    }

    #[test]
    fn near_ticks_have_labels_of_their_own() {
        let labels = |range: (f64, f64), measure: Measure| {
            let axis = Axis::between(range, measure, (0.0, 500.0), 56.0);
            let labels: Vec<String> = axis.ticks.iter().map(|t| t.1.clone()).collect();
            assert!(labels.windows(2).all(|two| two[0] != two[1]), "{labels:?}");
            labels
        };
        assert_eq!(labels((0.9982, 1.0021), Measure::Plain)[..2], ["0.9980", "0.9985"]);
        assert_eq!(labels((0.99998, 1.00003), Measure::Ratio)[0], "99.998 %");
        assert_eq!(labels((0.4, 1.2), Measure::Plain)[0], "0.4");
    }

    #[test]
    fn ticks_stand_where_people_count() {
        let check = |axis: Axis, want: &[&str]| assert_eq!(labels(&axis), want);
        check(Axis::whole((100.0, 0.0), 20.0), &["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        check(Axis::upto(7.0, Measure::Count, (0.0, 100.0), 30.0), &["0", "5", "10"]);
        check(Axis::upto(1.0, Measure::Count, (0.0, 100.0), 10.0), &["0", "1"]);
        check(Axis::upto(1800.0, Measure::Watts, (0.0, 100.0), 25.0), &["0", "0.5 kW", "1 kW", "1.5 kW", "2 kW"]);
        check(Axis::clock(90_000.0, (0.0, 300.0), 60.0), &["0", "6 h", "12 h", "18 h", "24 h"]);
        check(Axis::clock(86400.0 * 9.5, (0.0, 300.0), 60.0), &["0", "2 d", "4 d", "6 d", "8 d"]);
        let wide = ["1 min", "10 min", "1 h", "10 h", "1 d", "10 d", "100 d"];
        check(Axis::log_time(40.0, 86400.0 * 120.0, (0.0, 500.0), 34.0), &wide);
        let tight = ["1 min", "10 min", "1 h", "1 d", "10 d", "100 d"];
        check(Axis::log_time(40.0, 86400.0 * 120.0, (0.0, 500.0), 42.0), &tight);
        check(Axis::log_time(3000.0, 3100.0, (0.0, 200.0), 30.0), &["30 min", "1 h"]);
    }

    #[test]
    fn degenerate_ranges_still_draw() {
        for high in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            for axis in
                [Axis::upto(high, Measure::Energy(("kWh", 1.0)), (0.0, 9.0), 3.0), Axis::clock(high, (0.0, 9.0), 3.0)]
            {
                assert!(axis.at(0.5).is_finite() && axis.at(f64::NAN).is_finite() && axis.at(1e300) == 9.0);
            }
        }
    }
}
