//! What an experiment leaves behind, as plain data: terminal, JSON, CSV, Markdown and HTML are all made from it.

use crate::MeanInterval;
use serde::{Serialize, Serializer};
use std::fmt;

/// How a number is written for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// With so many decimals.
    Plain(u8),
    /// In per cent, with so many decimals.
    Percent(u8),
    /// In per cent with its sign, for gains and losses.
    Change(u8),
    /// Seconds, in the unit that fits.
    Seconds,
}

impl Style {
    /// A number as it is written.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        // Beyond a hundredfold there is nothing to compare any more; beyond 100 %, decimals say nothing.
        let most = |decimals: u8| if value.abs() <= 1.1 { usize::from(decimals) } else { 0 };
        let (text, zero) = match self {
            Self::Percent(_) | Self::Change(_) if value >= 100.0 => return ">9999 %".into(),
            _ if !value.is_finite() => return "–".into(),
            Self::Plain(decimals) => (format!("{value:.*}", usize::from(decimals)), false),
            Self::Percent(decimals) => (format!("{:.*} %", most(decimals), value * 100.0), false),
            Self::Change(decimals) => (format!("{:+.*} %", most(decimals), value * 100.0), true),
            Self::Seconds => return seconds(value),
        };
        // What rounds to nothing has no sign.
        let nothing = !text.contains(|c: char| c.is_ascii_digit() && c != '0');
        let text = if nothing { text.trim_start_matches(['-', '+']).to_owned() } else { text };
        if zero { text.replace('-', "−") } else { text }
    }
}

fn seconds(value: f64) -> String {
    let (unit, size) = match value {
        v if v < 1e-3 => ("µs", 1e-6),
        v if v < 1.0 => ("ms", 1e-3),
        _ => ("s", 1.0),
    };
    let scaled = value / size;
    let decimals = if scaled < 10.0 {
        2
    } else if scaled < 100.0 {
        1
    } else {
        0
    };
    format!("{scaled:.decimals$} {unit}")
}

/// What stands in one place of a sheet.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A name or a few words.
    Text(String),
    /// A number of things.
    Count(u64),
    /// A number, with the half width of its 95 % interval where several seeds give one.
    Number(f64, Option<f64>, Style),
    /// An empty cell.
    Empty,
}

impl Value {
    /// A number without an interval.
    #[must_use]
    pub fn number(value: f64, style: Style) -> Self {
        Self::Number(value, None, style)
    }

    /// A mean with its interval.
    #[must_use]
    pub fn spread(spread: MeanInterval, style: Style) -> Self {
        Self::Number(spread.mean, spread.half_width, style)
    }

    /// The number for programs, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(value, ..) => Some(*value).filter(|value| value.is_finite()),
            Self::Text(_) | Self::Empty => None,
        }
    }

    /// Half the width of the 95 % interval, where there is one.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        if let Self::Number(_, half, _) = self { half.filter(|half| half.is_finite()) } else { None }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(value, half, style) => {
                let unsigned = match style {
                    Style::Change(decimals) => Style::Percent(*decimals),
                    style => *style,
                };
                let (said, half) = (style.format(*value), half.map(|half| unsigned.format(half)));
                match (half, said.strip_suffix(" %")) {
                    (Some(half), Some(bare)) => write!(f, "{bare} ± {half}"),
                    (Some(half), None) => write!(f, "{said} ± {half}"),
                    (None, _) => f.write_str(&said),
                }
            }
            Self::Empty => Ok(()),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Number(value, None, _) => Some(value).filter(|v| v.is_finite()).serialize(serializer),
            Self::Number(mean, half_width, _) => {
                MeanInterval { mean: *mean, half_width: *half_width }.serialize(serializer)
            }
            Self::Empty => serializer.serialize_none(),
        }
    }
}

/// A column of a sheet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Column {
    /// For people; a second line after a line break.
    pub title: &'static str,
    /// Name of the column in JSON and CSV.
    pub name: &'static str,
}

/// A table of numbers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sheet {
    /// For programs, unique in the finding.
    pub name: &'static str,
    /// What it shows, in a line.
    pub title: String,
    /// Titles and styles, in order.
    pub columns: Vec<Column>,
    /// Its rows, as long as the columns.
    pub rows: Vec<Vec<Value>>,
    /// How to read it.
    pub note: String,
}

impl Sheet {
    /// An empty sheet under columns (title, name).
    #[must_use]
    pub fn new(name: &'static str, title: impl Into<String>, columns: &[(&'static str, &'static str)]) -> Self {
        let columns = columns.iter().map(|&(title, name)| Column { title, name }).collect();
        Self { name, title: title.into(), columns, rows: Vec::new(), note: String::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Value>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The same with a sentence on how to read it.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// How a statement and a measurement stand to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// The measurement agrees with the claim.
    Agrees,
    /// The measurement contradicts the claim.
    Differs,
    /// The two cannot be compared: other data, another rival.
    Open,
}

impl Judgement {
    /// One word for tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "DIFFERS",
            Self::Open => "open",
        }
    }

    /// Agrees if so, differs if not.
    #[must_use]
    pub fn of(agrees: bool) -> Self {
        if agrees { Self::Agrees } else { Self::Differs }
    }
}

/// What is stated beside what was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// What the claim is about.
    pub about: String,
    /// The claim.
    pub stated: String,
    /// The measurement.
    pub measured: String,
    /// Whether they are the same.
    pub judgement: Judgement,
}

/// A line of a chart.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// Its name in the legend; the policy.
    pub name: String,
    /// Where it goes, in order of x: x, y and half the width of y's interval.
    pub points: Vec<(f64, f64, Option<f64>)>,
}

/// A chart.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "lowercase", tag = "form")]
pub enum Plot {
    /// A bar for each name, from a base line.
    Bars {
        /// File name without ending.
        name: &'static str,
        /// What it shows.
        title: String,
        /// How to read it.
        #[serde(rename = "reading")]
        caption: String,
        /// What is measured; the axis' label.
        unit: &'static str,
        /// How values are written.
        style: Style,
        /// Where bars begin: 0, or 1 for ratios.
        base: f64,
        /// Name, value, half width of the interval.
        bars: Vec<(String, f64, Option<f64>)>,
    },
    /// Lines over a common axis.
    Lines {
        /// File name without ending.
        name: &'static str,
        /// What it shows.
        title: String,
        /// How to read it.
        #[serde(rename = "reading")]
        caption: String,
        /// Label of the axis across.
        #[serde(rename = "across")]
        x_label: &'static str,
        /// Label of the axis up.
        #[serde(rename = "up")]
        y_label: &'static str,
        /// Whether both axes are logarithmic, a number across and seconds up; else both are ratios.
        log: bool,
        /// One line for each policy or estimator.
        lines: Vec<Series>,
    },
    /// Lines over a number of things or over time, each in a colour of its own on the whole page.
    #[serde(rename = "courses")]
    Trends {
        /// File name without ending.
        name: &'static str,
        /// What it shows.
        title: String,
        /// How to read it.
        #[serde(rename = "reading")]
        caption: String,
        /// Label of the axis across.
        #[serde(rename = "across")]
        x_label: &'static str,
        /// Label of the axis up; ratios.
        #[serde(rename = "up")]
        y_label: &'static str,
        /// Whether x is seconds and a value holds until the next; else x counts, and points are joined.
        time: bool,
        /// One line for each policy or estimator.
        lines: Vec<Series>,
    },
    /// A bar for each name, made of parts.
    #[serde(rename = "stacks")]
    StackedBars {
        /// File name without ending.
        name: &'static str,
        /// What it shows.
        title: String,
        /// How to read it.
        #[serde(rename = "reading")]
        caption: String,
        /// What is measured; the axis' label.
        unit: &'static str,
        /// Names of the stacked parts, bottom first.
        parts: Vec<Part>,
        /// Name, and its amount of each part.
        bars: Vec<(String, Vec<f64>)>,
    },
    /// Heat maps side by side that share rows, columns and scale.
    #[serde(rename = "maps")]
    HeatMaps {
        /// File name without ending.
        name: &'static str,
        /// What it shows.
        title: String,
        /// How to read it.
        #[serde(rename = "reading")]
        caption: String,
        /// What the colours mean; ratios from 0 to 1.
        scale: &'static str,
        /// What stands at the left, and at the top: both have these names.
        names: Vec<String>,
        /// Title of each map, and its cells row by row; `None` where there is nothing.
        maps: Vec<(String, Vec<Option<f64>>)>,
    },
}

/// A part of a stacked bar.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Energy spent on computing.
    Active,
    /// Energy lost to restarts.
    Restarts,
    /// Idle power of GPUs in use.
    Idle,
    /// Idle power of GPUs that nobody uses.
    Unused,
}

impl Part {
    /// Label in the legend.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Active => "computing",
            Self::Restarts => "restarts",
            Self::Idle => "idle power of used GPUs",
            Self::Unused => "unused GPUs",
        }
    }
}

/// What an experiment found.
#[derive(Clone, PartialEq, Debug, Serialize, Default)]
pub struct Finding {
    /// What was done, and how numbers are normalised.
    pub method: String,
    /// Tables of numbers.
    pub sheets: Vec<Sheet>,
    /// What is stated beside what was measured.
    pub verdicts: Vec<Verdict>,
    /// Charts of the numbers.
    pub plots: Vec<Plot>,
    /// What went wrong, in sentences.
    #[serde(rename = "troubles")]
    pub warnings: Vec<String>,
}

impl Finding {
    /// A finding of nothing yet, by a method.
    #[must_use]
    pub fn by(method: impl Into<String>) -> Self {
        Self { method: method.into(), ..Self::default() }
    }

    /// Adds what is stated and what was measured.
    pub fn verdict(
        &mut self,
        about: impl Into<String>,
        stated: impl Into<String>,
        measured: impl Into<String>,
        judgement: Judgement,
    ) {
        let (about, stated, measured) = (about.into(), stated.into(), measured.into());
        self.verdicts.push(Verdict { about, stated, measured, judgement });
    }

    /// Notes a trouble, once.
    pub fn warn(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        if !self.warnings.contains(&sentence) {
            self.warnings.push(sentence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_with_their_intervals() {
        let check = |value: Value, expect: &str| assert_eq!(value.to_string(), expect);
        check(Value::Number(1.2345, Some(0.021), Style::Plain(2)), "1.23 ± 0.02");
        check(Value::Number(0.123, Some(0.01), Style::Percent(1)), "12.3 ± 1.0 %");
        check(Value::Number(0.123, None, Style::Change(1)), "+12.3 %");
        check(Value::Number(-0.123, Some(0.5), Style::Change(0)), "−12 ± 50 %");
        check(Value::number(-0.0001, Style::Change(1)), "0.0 %");
        check(Value::number(f64::NAN, Style::Plain(1)), "–");
        check(Value::number(0.000_012_3, Style::Seconds), "12.3 µs");
        check(Value::number(f64::INFINITY, Style::Percent(1)), ">9999 %");
        check(Value::Number(12.34, Some(0.5), Style::Change(1)), "+1234 ± 50.0 %");
        check(Value::Count(3), "3");
    }
}

/// An experiment that was done: what is printed, plotted and written.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExperimentReport {
    /// Name of the experiment.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The published claim.
    pub claim: &'static str,
    /// Title of the testbed, where the result depends on one.
    #[serde(rename = "ground")]
    pub testbed: Option<String>,
    /// The command that repeats it.
    pub command: String,
    /// Policies of the experiment that this build does not have.
    #[serde(rename = "absent")]
    pub missing_policies: Vec<&'static str>,
    /// Results.
    #[serde(flatten)]
    pub finding: Finding,
}
