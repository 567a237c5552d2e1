//! Comma-separated lines under a header, each field by the name of its column.
//!
//! Quotes as in RFC 4180: a field that begins with one ends with one, and may hold commas, line breaks and doubled quotes. Lines end
//! in LF or CRLF; blank lines and a byte order mark are skipped.

use super::super::labels::from_label;
use super::CsvError;
use arles_core::library::nearest;

/// A line of a file.
pub(super) struct Line<'l> {
    /// From 1.
    pub(super) number: usize,
    header: &'l [String],
    fields: &'l [String],
}

impl<'l> Line<'l> {
    /// What stands under a column, if there is such a column and something under it.
    pub(super) fn get(&self, column: &str) -> Option<&'l str> {
        let at = self.header.iter().position(|name| name == column)?;
        Some(self.fields[at].trim()).filter(|text| !text.is_empty())
    }

    pub(super) fn required(&self, column: &str) -> Result<&'l str, String> {
        self.get(column).ok_or_else(|| format!("{column} is empty; every line needs one"))
    }

    /// A finite number of `least` or more; `expected` says it in words.
    pub(super) fn number(&self, column: &str, least: f64, expected: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.get(column) else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= least => Ok(Some(number)),
            _ => Err(format!("{column} is '{text}'; expected {expected}")),
        }
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(&self, column: &str, words: &[(&'static str, T)]) -> Result<T, String> {
        let text = self.required(column)?;
        from_label(text, words).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!("{column} is '{text}'{}; expected one of {}", hint(text, &words), words.join(", "))
        })
    }

    /// A whole number of 0 or more.
    pub(super) fn whole(&self, column: &str) -> Result<Option<u32>, String> {
        let read = |text: &str| {
            text.parse().map_err(|_| format!("{column} is '{text}'; expected a whole number, 0 to {}", u32::MAX))
        };
        self.get(column).map(read).transpose()
    }
}

/// Hands over every line below a header of some of `columns`, all of `required` among them.
pub(super) fn each(
    text: &str,
    origin: &str,
    columns: &[&str],
    required: &[&str],
    mut take: impl FnMut(&Line<'_>) -> Result<(), String>,
) -> Result<(), CsvError> {
    let fail = |line, message| CsvError { origin: origin.to_owned(), line, message };
    let mut cutter = Tokenizer { rest: text.trim_start_matches('\u{feff}'), number: 1 };
    let mut next = || cutter.next().map_err(|(line, message)| fail(line, message));
    let Some((number, header)) = next()? else {
        return Err(fail(0, format!("this file is empty; expected a header such as {}", columns.join(","))));
    };
    let header: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
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
            let hint = hint(name, columns);
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

/// The name that may have been meant.
fn hint(wrong: &str, names: &[&str]) -> String {
    nearest(wrong, names.iter().copied()).map_or(String::new(), |neighbours| format!(" (did you mean {neighbours}?)"))
}

/// The line that is wrong, and why.
type Wrong = (usize, String);

struct Tokenizer<'t> {
    rest: &'t str,
    number: usize,
}

impl Tokenizer<'_> {
    /// The fields of the next line that is not blank, and its number.
    fn next(&mut self) -> Result<Option<(usize, Vec<String>)>, Wrong> {
        loop {
            if self.rest.is_empty() {
                return Ok(None);
            }
            let number = self.number;
            let fields = self.line()?;
            if fields.iter().any(|field| !field.trim().is_empty()) {
                return Ok(Some((number, fields)));
            }
            if fields.len() > 1 {
                return Err((number, "there is nothing in this line but commas; remove it".into()));
            }
        }
    }

    fn line(&mut self) -> Result<Vec<String>, Wrong> {
        let mut fields = Vec::new();
        loop {
            fields.push(if self.rest.starts_with('"') { self.in_quotes()? } else { self.plain()? });
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None => break,
            }
        }
        self.rest = self.rest.strip_prefix('\r').unwrap_or(self.rest);
        self.rest = self.rest.strip_prefix('\n').unwrap_or(self.rest);
        self.number += 1;
        Ok(fields)
    }

    fn plain(&mut self) -> Result<String, Wrong> {
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let mut field = &self.rest[..end];
        if !self.rest[end..].starts_with(',') {
            field = field.strip_suffix('\r').unwrap_or(field);
        }
        self.rest = &self.rest[field.len()..];
        if field.contains('"') {
            return Err((
                self.number,
                format!("a quote stands inside {field:?}; quote the whole field and double the quotes in it"),
            ));
        }
        Ok(field.to_owned())
    }

    fn in_quotes(&mut self) -> Result<String, Wrong> {
        let begun = self.number;
        let mut field = String::new();
        self.rest = &self.rest[1..];
        loop {
            let Some(end) = self.rest.find('"') else {
                return Err((
                    begun,
                    "a quote is opened here and never closed; close it, or double it to mean one".into(),
                ));
            };
            field += &self.rest[..end];
            self.number += self.rest[..end].matches('\n').count();
            self.rest = &self.rest[end + 1..];
            match self.rest.strip_prefix('"') {
                Some(rest) => self.rest = rest,
                None => break,
            }
            field.push('"');
        }
        if self.rest.is_empty()
            || self.rest.starts_with([',', '\n'])
            || self.rest.starts_with("\r\n")
            || self.rest == "\r"
        {
            return Ok(field);
        }
        Err((self.number, "text follows a closing quote; expected a comma or the end of the line".into()))
    }
}

/// A field, in quotes where it needs them.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
