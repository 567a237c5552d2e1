//! Comma-separated lines under a header, each field by the name of its column.
//!
//! Text is cut by [`arles_core::delimited`]; a line with nothing in it but commas is refused.

use super::super::labels::from_label;
use super::CsvError;
use arles_core::delimited::{Field, Lines, QuoteError, QuoteProblem};
use arles_core::library::suggestion;

/// A line of a file.
pub(crate) struct Line<'l> {
    /// From 1.
    pub(crate) number: usize,
    header: &'l [String],
    fields: &'l [Field<'l>],
}

impl<'l> Line<'l> {
    /// What stands under a column, if there is such a column and something under it.
    pub(crate) fn get(&self, column: &str) -> Option<&'l str> {
        let at = self.header.iter().position(|name| name == column)?;
        Some(self.fields[at].text.trim()).filter(|text| !text.is_empty())
    }

    pub(crate) fn required(&self, column: &str) -> Result<&'l str, String> {
        self.get(column).ok_or_else(|| format!("{column} is empty; every line needs one"))
    }

    /// A finite number of `least` or more; `expected` says it in words.
    pub(crate) fn number(&self, column: &str, least: f64, expected: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.get(column) else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= least => Ok(Some(number)),
            _ => Err(format!("{column} is '{text}'; expected {expected}")),
        }
    }

    /// One of a few words.
    pub(crate) fn one_of<T: Copy>(&self, column: &str, words: &[(&'static str, T)]) -> Result<T, String> {
        let text = self.required(column)?;
        from_label(text, words).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!(
                "{column} is '{text}'{}; expected one of {}",
                suggestion(text, words.iter().copied()),
                words.join(", ")
            )
        })
    }

    /// A whole number of 0 or more.
    pub(crate) fn whole(&self, column: &str) -> Result<Option<u32>, String> {
        let read = |text: &str| {
            text.parse().map_err(|_| format!("{column} is '{text}'; expected a whole number, 0 to {}", u32::MAX))
        };
        self.get(column).map(read).transpose()
    }
}

/// Hands over every line below a header of some of `columns`, all of `required` among them.
pub(crate) fn each(
    text: &str,
    origin: &str,
    columns: &[&str],
    required: &[&str],
    mut take: impl FnMut(&Line<'_>) -> Result<(), String>,
) -> Result<(), CsvError> {
    let fail = |line, message| CsvError { origin: origin.to_owned(), line, message };
    let text = text.trim_start_matches('\u{feff}');
    let mut numbered = NumberedLines { text, lines: Lines::commas(text), counted: (0, 1) };
    let mut next = || numbered.next().map_err(|(line, message)| fail(line, message));
    let Some((number, header)) = next()? else {
        return Err(fail(0, format!("this file is empty; expected a header such as {}", columns.join(","))));
    };
    let header: Vec<String> = header.iter().map(|name| name.text.trim().to_owned()).collect();
    check_header(&header, columns, required).map_err(|message| fail(number, message))?;
    while let Some((number, fields)) = next()? {
        if fields.len() != header.len() {
            let (found, expected) = (fields.len(), header.len());
            return Err(fail(number, format!("this line has {found} fields; expected {expected}, as the header has")));
        }
        take(&Line { number, header: &header, fields: &fields }).map_err(|message| fail(number, message))?;
    }
    Ok(())
}

fn check_header(header: &[String], columns: &[&str], required: &[&str]) -> Result<(), String> {
    for (i, name) in header.iter().enumerate() {
        if !columns.contains(&name.as_str()) {
            let hint = suggestion(name, columns.iter().copied());
            return Err(format!("there is no column '{name}'{hint}; expected a header of {}", columns.join(", ")));
        }
        if header[..i].contains(name) {
            return Err(format!("column '{name}' occurs twice; remove one of the two"));
        }
    }
    match required.iter().find(|name| !header.iter().any(|column| column == *name)) {
        Some(missing) => Err(format!("column '{missing}' is missing; add it to the header")),
        None => Ok(()),
    }
}

/// The line that is wrong, and why.
type Wrong = (usize, String);

struct NumberedLines<'t> {
    text: &'t str,
    lines: Lines<'t>,
    /// An offset, and the number of its line.
    counted: (usize, usize),
}

impl<'t> NumberedLines<'t> {
    /// The fields of the next line that is not blank, and its number.
    fn next(&mut self) -> Result<Option<(usize, Vec<Field<'t>>)>, Wrong> {
        let mut fields = Vec::new();
        loop {
            if !self.lines.next_into(&mut fields).map_err(|wrong| self.wrong_quote(wrong))? {
                return Ok(None);
            }
            let number = self.number(fields[0].at);
            if fields.iter().any(|field| !field.text.trim().is_empty()) {
                return Ok(Some((number, fields)));
            }
            if fields.len() > 1 {
                return Err((number, "there is nothing in this line but commas; remove it".into()));
            }
        }
    }

    /// The number of the line at an offset; offsets only go up.
    fn number(&mut self, at: usize) -> usize {
        let (before, number) = self.counted;
        self.counted = (at, number + self.text[before..at].matches('\n').count());
        self.counted.1
    }

    fn wrong_quote(&mut self, QuoteError { at, problem }: QuoteError<'_>) -> Wrong {
        let message = match problem {
            QuoteProblem::Inside(field) => {
                format!("a quote stands inside {field:?}; quote the whole field and double the quotes in it")
            }
            QuoteProblem::NeverClosed => {
                "a quote is opened here and never closed; close it, or double it to mean one".into()
            }
            QuoteProblem::TextFollows => "text follows a closing quote; expected a comma or the end of the line".into(),
        };
        (self.number(at), message)
    }
}

/// A field, in quotes where it needs them.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
