//! Tables on the terminal, and the same as JSON and CSV.
//!
//! A cell knows two texts: the short one for people and the exact one for programs. Columns are as wide as what is in
//! them; only a table's last column, where it is prose, is broken into lines that fit the terminal.
//!
//! Whatever names hold, nothing that is printed here moves a cursor, turns text around or is a formula to a spreadsheet: characters that
//! cannot be seen are replaced (in JSON they are escaped, so programs read them as they are), and a cell of text in CSV that
//! begins like a formula has an apostrophe before it. Numbers stay numbers.

use anyhow::Result;
use arles_core::name::{harmless, is_hidden};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::borrow::Cow;
use std::io::Write;

/// How results are printed. (Remarks on the variants would make clap spread every help text over two screens.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    // Aligned columns, for people.
    Table,
    // One JSON document.
    Json,
    // RFC 4180, a header first.
    Csv,
}

/// A column's place in a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Short title; a second line after a line break, for a unit.
    title: &'static str,
    /// Name in CSV.
    name: &'static str,
    align: Align,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Align {
    Left,
    Right,
    /// Left, and broken into lines: of this width, or of what the terminal has left.
    Prose(Option<usize>),
    /// Left, and cut where the terminal ends.
    Cut,
    /// For programs only.
    Hidden,
}

impl Column {
    /// A column of names.
    pub(crate) fn left(title: &'static str, name: &'static str) -> Self {
        Self { title, name, align: Align::Left }
    }

    /// A column of numbers.
    pub(crate) fn right(title: &'static str, name: &'static str) -> Self {
        Self { title, name, align: Align::Right }
    }

    /// A column that is in CSV only.
    pub(crate) fn hidden(name: &'static str) -> Self {
        Self { title: "", name, align: Align::Hidden }
    }

    /// A last column of sentences.
    pub(crate) fn prose(title: &'static str, name: &'static str) -> Self {
        Self { title, name, align: Align::Prose(None) }
    }

    /// A last column that is cut where the terminal ends, so that a row is a line.
    pub(crate) fn cut(title: &'static str, name: &'static str) -> Self {
        Self { title, name, align: Align::Cut }
    }

    /// A column of words in lines of at most `width` characters.
    pub(crate) fn words(title: &'static str, name: &'static str, width: usize) -> Self {
        Self { title, name, align: Align::Prose(Some(width)) }
    }
}

/// What stands in one place of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    shown: String,
    exact: String,
    /// Whether the exact text is a number of ours, which may begin with a minus sign.
    number: bool,
}

impl Cell {
    /// A short text for people and the exact number for programs.
    pub(crate) fn number(shown: String, exact: f64) -> Self {
        Self { shown, exact: if exact.is_finite() { exact.to_string() } else { String::new() }, number: true }
    }

    /// A title for people and a name for programs.
    pub(crate) fn named(shown: &str, exact: &str) -> Self {
        Self { shown: seen(shown, " "), exact: seen(exact, "\n"), number: false }
    }

    /// As it stands in CSV. Spreadsheets calculate what begins with one of these signs, whatever quotes are around it; the apostrophe is
    /// how they are told that a cell is text.
    fn csv(&self) -> Cow<'_, str> {
        let formula = self.exact.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
        let number = self.number || self.exact == "-" || self.exact.parse().is_ok_and(f64::is_finite);
        if formula && !number { Cow::Owned(format!("'{}", self.exact)) } else { Cow::Borrowed(&self.exact) }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(value: T) -> Self {
        let text = value.to_string();
        Self { exact: seen(&text, "\n"), shown: seen(&text, " "), number: false }
    }
}

/// A text without hidden characters, its line breaks as given: one would begin another row for people, and is quoted for programs.
fn seen(text: &str, line_break: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join(line_break)
}

/// Rows under columns.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    /// `None` is an empty line, for people only.
    rows: Vec<Option<Vec<Cell>>>,
}

/// Between two columns.
const GAP: usize = 2;
/// Prose is never squeezed below this.
const LEAST_PROSE: usize = 24;
/// Nor is what is cut.
const LEAST_CUT: usize = 8;

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// A table of fields: a name and a value in every row. `value` names the fields for people.
    pub(crate) fn of_fields(title: &'static str, value: &'static str) -> Self {
        Self::new(vec![Column::left(title, "what"), Column::prose(value, "value")])
    }

    /// A row of a table of fields.
    pub(crate) fn field(&mut self, name: &str, value: String) {
        self.row(vec![name.into(), value.into()]);
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(Some(cells));
    }

    /// An empty line, unless the table is empty so far.
    pub(crate) fn gap(&mut self) {
        if !self.rows.is_empty() {
            self.rows.push(None);
        }
    }

    /// The table for people, on a terminal `width` wide.
    pub(crate) fn text(&self, width: usize) -> String {
        let titles: Vec<Vec<&str>> = self.columns.iter().map(|column| column.title.split('\n').collect()).collect();
        let mut widths: Vec<usize> = Vec::with_capacity(self.columns.len());
        for (j, (column, lines)) in self.columns.iter().zip(&titles).enumerate() {
            let shown = self.rows.iter().flatten().map(|row| row[j].shown.as_str());
            let natural = lines.iter().copied().chain(shown).map(|text| text.chars().count()).max().unwrap_or(0);
            let left: usize = widths.iter().filter(|w| **w > 0).map(|w| w + GAP).sum();
            widths.push(match column.align {
                Align::Cut => natural.min(width.saturating_sub(left).max(LEAST_CUT)),
                Align::Prose(most) => natural.min(most.unwrap_or(width.saturating_sub(left).max(LEAST_PROSE))),
                Align::Left | Align::Right => natural,
                Align::Hidden => 0,
            });
        }
        let mut text = String::new();
        for line in 0..titles.iter().map(Vec::len).max().unwrap_or(0) {
            let cells: Vec<&str> = titles.iter().map(|lines| lines.get(line).copied().unwrap_or_default()).collect();
            self.line(&cells, &widths, &mut text);
        }
        for row in &self.rows {
            match row {
                None => text.push('\n'),
                Some(row) => self.lines(row, &widths, &mut text),
            }
        }
        text
    }

    /// A row, which is several lines if its prose is.
    fn lines(&self, row: &[Cell], widths: &[usize], text: &mut String) {
        let cells: Vec<Vec<String>> = (row.iter().zip(&self.columns).zip(widths))
            .map(|((cell, column), &width)| match column.align {
                Align::Prose(_) => wrapped(&cell.shown, width),
                Align::Cut => vec![crate::jobs::shortened(&cell.shown, width)],
                Align::Left | Align::Right | Align::Hidden => vec![cell.shown.clone()],
            })
            .collect();
        for i in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let line: Vec<&str> = cells.iter().map(|parts| parts.get(i).map_or("", String::as_str)).collect();
            self.line(&line, widths, text);
        }
    }

    fn line(&self, cells: &[&str], widths: &[usize], text: &mut String) {
        let mut line = String::new();
        for ((cell, &width), column) in cells.iter().zip(widths).zip(&self.columns) {
            match column.align {
                Align::Hidden => continue,
                Align::Right => line.push_str(&format!("{cell:>width$}")),
                Align::Left | Align::Prose(_) | Align::Cut => line.push_str(&format!("{cell:<width$}")),
            }
            line.push_str(&" ".repeat(GAP));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }

    /// The table as CSV.
    pub(crate) fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory cannot fail, and rows are as long as the header.
        let _ = writer.write_record(self.columns.iter().map(|column| column.name));
        for row in self.rows.iter().flatten() {
            let _ = writer.write_record(row.iter().map(|cell| cell.csv().into_owned()));
        }
        writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// The flag of every command that prints a table.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputFlag {
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Format,
}

/// Prints a table, or what it was made from.
pub(crate) fn print(out: &mut dyn Write, format: Format, table: &Table, value: &impl Serialize) -> Result<()> {
    match format {
        Format::Table => out.write_all(table.text(terminal_width()).as_bytes())?,
        Format::Csv => out.write_all(table.csv().as_bytes())?,
        Format::Json => json(out, value)?,
    }
    Ok(())
}

/// Prints a JSON document.
pub(crate) fn json(out: &mut dyn Write, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(writeln!(out, "{}", escaped(&text))?)
}

/// A JSON text whose hidden characters are escaped. They stand inside of strings only, but for the line breaks between values.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c != '\n' && is_hidden(c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| safe.push_str(&format!("\\u{unit:04x}")));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Prints prose below a table, in lines that fit the terminal.
pub(crate) fn paragraph(out: &mut dyn Write, text: &str) -> Result<()> {
    writeln!(out)?;
    prose(out, text)
}

/// Prints sentences in lines that fit the terminal, and are not too long to read.
pub(crate) fn prose(out: &mut dyn Write, text: &str) -> Result<()> {
    for line in wrapped(text, terminal_width().min(100)) {
        writeln!(out, "{}", harmless(&line))?;
    }
    Ok(())
}

/// Columns of the terminal as the shell exports them; 80 if it does not.
pub(crate) fn terminal_width() -> usize {
    std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(80).clamp(40, 400)
}

/// Words in lines of at most `width` characters; a longer word has a line of its own.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the beginning");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![
            Column::left("name", "name"),
            Column::right("rate\n1/s", "rate"),
            Column::hidden("id"),
            Column::prose("about", "about"),
        ]);
        table.row(vec![
            "a".into(),
            Cell::number("1.23".into(), 1.2345),
            1.into(),
            "one two three four five six".into(),
        ]);
        table.gap();
        table.row(vec!["long".into(), Cell::number("-".into(), f64::NAN), 2.into(), "x, y".into()]);
        table
    }

    #[test]
    fn prose_is_broken_and_numbers_stand_right() {
        let expect =
            "name  rate  about\n       1/s\na     1.23  one two three four five\n            six\n\nlong     -  x, y\n";
        assert_eq!(table().text(36), expect);
    }

    #[test]
    fn a_cell_of_text_is_no_formula_and_a_number_is_a_number() {
        let mut table = Table::new(vec![Column::left("name", "name"), Column::right("n", "n"), Column::left("m", "m")]);
        let exact = || Cell::number("-2".into(), -2.0);
        for name in ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "＝1", "a=b", "-7", "-"] {
            table.row(vec![name.into(), exact(), Cell::named(name, name)]);
        }
        let expect = "name,n,m\n'=1+1,-2,'=1+1\n'+cmd,-2,'+cmd\n'-2+3,-2,'-2+3\n'@SUM(A1),-2,'@SUM(A1)\n'＝1,-2,'＝1\n\
                      a=b,-2,a=b\n-7,-2,-7\n-,-2,-\n";
        assert_eq!(table.csv(), expect);
    }

    #[test]
    fn what_cannot_be_seen_is_replaced_and_in_json_escaped() {
        let mut table = Table::new(vec![Column::left("name", "name")]);
        table.row(vec!["a\u{1b}[2Jb\u{202e}c".into()]);
        assert_eq!(table.text(80), "name\na\u{fffd}[2Jb\u{fffd}c\n");
        assert_eq!(table.csv(), "name\na\u{fffd}[2Jb\u{fffd}c\n");
        let mut out = Vec::new();
        json(&mut out, &["a\u{1b}\u{202e}\u{e0041}"]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "[\n  \"a\\u001b\\u202e\\udb40\\udc41\"\n]\n");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), ["a\u{1b}\u{202e}\u{e0041}"]);
    }

    #[test]
    fn programs_get_exact_numbers() {
        assert_eq!(table().csv(), "name,rate,id,about\na,1.2345,1,one two three four five six\nlong,,2,\"x, y\"\n");
    }
}
