//! Delimited text, cut into fields that remember where they stood. Strict: a quote out of place is refused, never guessed at.
//!
//! Two dialects: commas with RFC 4180 quoting (`"a, b"`, a quote doubled inside quotes, line breaks allowed there), and tabs
//! without any. Lines end in LF or CRLF; blank lines and a byte order mark are skipped. What a reader says about a wrong file is
//! its own: here is only what is wrong, and where.

use std::borrow::Cow;

/// One field of a line.
#[derive(Clone, Debug)]
pub struct Field<'t> {
    /// Without its quotes.
    pub text: Cow<'t, str>,
    /// Offset of its first byte in the text.
    pub at: usize,
}

/// A quote out of place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuoteError<'t> {
    /// Offset in the text.
    pub at: usize,
    /// What is wrong there.
    pub problem: QuoteProblem<'t>,
}

/// What can be wrong about a quote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuoteProblem<'t> {
    /// It stands inside this field, which does not begin with one.
    Inside(&'t str),
    /// The text ends before it is closed.
    NeverClosed,
    /// It closes a field, and more text follows.
    TextFollows,
}

/// Cuts a text line by line.
pub struct Lines<'t> {
    text: &'t str,
    delimiter: u8,
    quotes: bool,
    at: usize,
}

impl<'t> Lines<'t> {
    /// Lines of comma-separated fields.
    #[must_use]
    pub fn commas(text: &'t str) -> Self {
        Self::new(text, b',', true)
    }

    /// Lines of tab-separated fields.
    #[must_use]
    pub fn tabs(text: &'t str) -> Self {
        Self::new(text, b'\t', false)
    }

    fn new(text: &'t str, delimiter: u8, quotes: bool) -> Self {
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, delimiter, quotes, at }
    }

    /// Lines of fields with bars between them, in which quotes mean nothing.
    #[must_use]
    pub fn bars(text: &'t str) -> Self {
        Self::new(text, b'|', false)
    }

    /// Puts the fields of the next line that is not blank into `fields`; false at the end of the text.
    ///
    /// # Errors
    /// When a quote is out of place.
    pub fn next_into(&mut self, fields: &mut Vec<Field<'t>>) -> Result<bool, QuoteError<'t>> {
        fields.clear();
        self.skip_blank_lines();
        if self.at == self.text.len() {
            return Ok(false);
        }
        loop {
            let quoted = self.quotes && self.byte() == Some(b'"');
            fields.push(if quoted { self.quoted()? } else { self.plain()? });
            match self.byte() {
                Some(byte) if byte == self.delimiter => self.at += 1,
                _ => break,
            }
        }
        for end in [b'\r', b'\n'] {
            self.at += usize::from(self.byte() == Some(end));
        }
        Ok(true)
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blank_lines(&mut self) {
        loop {
            let rest = self.rest();
            let line = rest.find('\n').map_or(rest, |end| &rest[..=end]);
            if line.is_empty() || !line.trim_matches([' ', '\r', '\n']).is_empty() {
                return;
            }
            self.at += line.len();
        }
    }

    fn plain(&mut self) -> Result<Field<'t>, QuoteError<'t>> {
        let at = self.at;
        let rest = &self.text.as_bytes()[at..];
        let ends = |b: &u8| *b == self.delimiter || *b == b'\n';
        let mut end = at + rest.iter().position(ends).unwrap_or(rest.len());
        self.at = end;
        if self.byte() != Some(self.delimiter) && self.text.as_bytes()[at..end].last() == Some(&b'\r') {
            end -= 1;
            self.at = end;
        }
        let text = &self.text[at..end];
        match text.find('"').filter(|_| self.quotes) {
            Some(quote) => Err(QuoteError { at: at + quote, problem: QuoteProblem::Inside(text) }),
            None => Ok(Field { text: Cow::Borrowed(text), at }),
        }
    }

    fn quoted(&mut self) -> Result<Field<'t>, QuoteError<'t>> {
        let at = self.at;
        let mut text = Cow::Borrowed("");
        self.at += 1;
        loop {
            let Some(end) = self.rest().find('"') else {
                return Err(QuoteError { at, problem: QuoteProblem::NeverClosed });
            };
            text += &self.rest()[..end];
            self.at += end + 1;
            if self.byte() != Some(b'"') {
                break;
            }
            text += "\"";
            self.at += 1;
        }
        match self.byte() {
            None | Some(b'\n') => {}
            Some(b'\r') if self.rest().starts_with("\r\n") || self.rest() == "\r" => {}
            Some(byte) if byte == self.delimiter => {}
            Some(_) => return Err(QuoteError { at: self.at, problem: QuoteProblem::TextFollows }),
        }
        Ok(Field { text, at })
    }
}
