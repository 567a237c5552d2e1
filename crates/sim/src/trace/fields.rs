//! The fields of a trace's text (cut by [`arles_core::delimited`]), read as numbers; errors say line and column, which are only
//! worked out when there is an error to print.

use super::TraceError;
use arles_core::delimited::{self, QuoteError, QuoteProblem};

pub(super) use arles_core::delimited::Field;

/// A text and the name it goes by in errors.
#[derive(Clone, Copy)]
pub(super) struct Source<'t> {
    pub(super) origin: &'t str,
    pub(super) text: &'t str,
}

/// Which finite numbers a field may hold.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Allow {
    Any,
    NotNegative,
    Positive,
}

impl<'t> Source<'t> {
    /// An error at an offset.
    pub(super) fn error(&self, at: usize, message: impl Into<String>) -> TraceError {
        let before = &self.text[..at.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        let column = before[line_start..].trim_start_matches('\u{feff}').chars().count() + 1;
        TraceError { origin: self.origin.to_owned(), line, column, message: message.into() }
    }

    /// An error of the file as a whole.
    pub(super) fn fault(&self, message: impl Into<String>) -> TraceError {
        TraceError { origin: self.origin.to_owned(), line: 0, column: 0, message: message.into() }
    }

    /// A finite number; `name` says of what.
    pub(super) fn number(&self, field: &Field<'_>, name: &str, allow: Allow) -> Result<f64, TraceError> {
        let text = field.text.trim();
        let refuse = |expected: &str| Err(self.error(field.at, format!("{name} is '{text}'; expected {expected}")));
        match (text.parse::<f64>(), allow) {
            (Err(_), _) => refuse("a number"),
            (Ok(number), _) if !number.is_finite() => refuse("a finite number"),
            (Ok(number), Allow::NotNegative) if number < 0.0 => refuse("0 or more"),
            (Ok(number), Allow::Positive) if number <= 0.0 => refuse("more than 0"),
            (Ok(number), _) => Ok(number),
        }
    }

    /// A whole number of 0 or more.
    pub(super) fn whole<N: std::str::FromStr>(&self, field: &Field<'_>, name: &str) -> Result<N, TraceError> {
        let text = field.text.trim();
        let refuse = || format!("{name} is '{text}'; expected a whole number, 0 or more");
        text.parse().map_err(|_| self.error(field.at, refuse()))
    }

    /// Lines of comma-separated fields.
    pub(super) fn commas(self) -> Lines<'t> {
        Lines { source: self, lines: delimited::Lines::commas(self.text) }
    }

    /// Lines of tab-separated fields.
    pub(super) fn tabs(self) -> Lines<'t> {
        Lines { source: self, lines: delimited::Lines::tabs(self.text) }
    }

    /// Lines of fields with bars between them.
    pub(super) fn bars(self) -> Lines<'t> {
        Lines { source: self, lines: delimited::Lines::bars(self.text) }
    }

    fn wrong_quote(&self, QuoteError { at, problem }: QuoteError<'_>) -> TraceError {
        let message = match problem {
            QuoteProblem::Inside(_) => {
                "a quote stands inside a field that does not begin with one; quote the whole field and double the quotes \
                 inside it"
            }
            QuoteProblem::NeverClosed => "this quote is never closed; close it, or double it if it is part of a name",
            QuoteProblem::TextFollows => "text follows a closing quote; expected a comma or the end of the line",
        };
        self.error(at, message)
    }
}

/// Cuts a source line by line.
pub(super) struct Lines<'t> {
    source: Source<'t>,
    lines: delimited::Lines<'t>,
}

impl<'t> Lines<'t> {
    /// Puts the fields of the next line that is not blank into `fields`; false at the end of the text.
    pub(super) fn next_into(&mut self, fields: &mut Vec<Field<'t>>) -> Result<bool, TraceError> {
        self.lines.next_into(fields).map_err(|wrong| self.source.wrong_quote(wrong))
    }
}

/// Refuses a line whose number of fields is not that of the lines above it.
pub(super) fn expect_fields(source: Source<'_>, fields: &[Field<'_>], expected: usize) -> Result<(), TraceError> {
    let at = fields.get(expected).or(fields.first()).map_or(0, |field| field.at);
    match fields.len() {
        n if n == expected => Ok(()),
        1 => Err(source.error(at, format!("this line has 1 field; expected {expected}"))),
        n => Err(source.error(at, format!("this line has {n} fields; expected {expected}"))),
    }
}

/// Where a header has each of these names.
pub(super) fn positions<const N: usize>(header: &[Field<'_>], names: [&str; N]) -> [Option<usize>; N] {
    names.map(|name| header.iter().position(|field| field.text.trim() == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Result<Vec<Vec<String>>, String> {
        let mut lines = Source { origin: "f", text }.commas();
        let (mut fields, mut all) = (Vec::new(), Vec::new());
        while lines.next_into(&mut fields).map_err(|e| e.to_string())? {
            all.push(fields.iter().map(|f| f.text.to_string()).collect());
        }
        Ok(all)
    }

    #[test]
    fn fields_are_cut_as_rfc_4180_says() {
        let check = |text: &str, expected: &[&[&str]]| assert_eq!(cut(text).unwrap(), expected, "{text:?}");
        check("", &[]);
        check("\n \n\r\n", &[]);
        check("a,b\nc,d", &[&["a", "b"], &["c", "d"]]);
        check("\u{feff}a,b\r\n\r\nc,\r\n", &[&["a", "b"], &["c", ""]]);
        check(",\n,,", &[&["", ""], &["", "", ""]]);
        check("\"a, b\",c\n", &[&["a, b", "c"]]);
        check("\"say \"\"hi\"\"\",\"\"\r\n", &[&["say \"hi\"", ""]]);
        check("\"two\nlines\",x\ny,z\n", &[&["two\nlines", "x"], &["y", "z"]]);
    }

    #[test]
    fn wrong_quotes_are_pointed_at() {
        let check = |text: &str, expected: &str| assert!(cut(text).unwrap_err().starts_with(expected), "{text:?}");
        check("a,b\nc,d\"e", "f:2:4: a quote stands inside");
        check("a,\"b\nc", "f:1:3: this quote is never closed");
        check("\"a\"b,c", "f:1:4: text follows");
    }

    #[test]
    fn columns_count_characters() {
        let source = Source { origin: "f", text: "\u{feff}é,x\ny" };
        assert_eq!(source.error(source.text.find('x').unwrap(), "").column, 3);
        assert_eq!(source.error(source.text.find('y').unwrap(), "").line, 2);
    }
}
