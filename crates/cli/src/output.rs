//! Tables on the terminal, and the same as JSON and CSV.
//!
//! A cell knows two texts: the short one for people and the exact one for programs. Columns are as wide as what is in
//! them; only a table's last column, where it is prose, is broken into lines that fit the terminal.

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;
use std::io::Write;

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, for people.
    Table,
    /// One JSON document.
    Json,
    /// RFC 4180, a header first.
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
    /// Left, and broken into lines.
    Prose,
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

    /// A last column of sentences.
    pub(crate) fn prose(title: &'static str, name: &'static str) -> Self {
        Self { title, name, align: Align::Prose }
    }
}

/// What stands in one place of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    shown: String,
    exact: String,
}

impl Cell {
    /// A short text for people and the exact number for programs.
    pub(crate) fn number(shown: String, exact: f64) -> Self {
        Self { shown, exact: if exact.is_finite() { exact.to_string() } else { String::new() } }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(value: T) -> Self {
        let text = value.to_string();
        Self { exact: text.clone(), shown: text }
    }
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

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
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
        let mut widths = vec![0; self.columns.len()];
        for (j, lines) in titles.iter().enumerate() {
            let shown = self.rows.iter().flatten().map(|row| row[j].shown.as_str());
            widths[j] = lines.iter().copied().chain(shown).map(|text| text.chars().count()).max().unwrap_or(0);
        }
        if let (Some(last), Some(Column { align: Align::Prose, .. })) =
            (widths.len().checked_sub(1), self.columns.last())
        {
            let before: usize = widths[..last].iter().map(|w| w + GAP).sum();
            widths[last] = widths[last].min(width.saturating_sub(before).max(LEAST_PROSE));
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
        let cells: Vec<&str> = row.iter().map(|cell| cell.shown.as_str()).collect();
        let (Some((prose, before)), Some(Align::Prose)) = (cells.split_last(), self.columns.last().map(|c| c.align))
        else {
            return self.line(&cells, widths, text);
        };
        for (i, part) in wrapped(prose, widths[before.len()]).iter().enumerate() {
            let before = before.iter().map(|cell| if i == 0 { cell } else { "" });
            self.line(&before.chain([part.as_str()]).collect::<Vec<_>>(), widths, text);
        }
    }

    fn line(&self, cells: &[&str], widths: &[usize], text: &mut String) {
        let mut line = String::new();
        for ((cell, &width), column) in cells.iter().zip(widths).zip(&self.columns) {
            match column.align {
                Align::Right => line.push_str(&format!("{cell:>width$}")),
                Align::Left | Align::Prose => line.push_str(&format!("{cell:<width$}")),
            }
            line.push_str(&" ".repeat(GAP));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }

    /// The table as CSV.
    pub(crate) fn csv(&self) -> String {
        let mut text = self.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(",") + "\n";
        for row in self.rows.iter().flatten() {
            text += &row.iter().map(|cell| quoted(&cell.exact)).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        text
    }
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
    Ok(writeln!(out, "{text}")?)
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

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![
            Column::left("name", "name"),
            Column::right("rate\n1/s", "rate"),
            Column::prose("about", "about"),
        ]);
        table.row(vec!["a".into(), Cell::number("1.23".into(), 1.2345), "one two three four five six".into()]);
        table.gap();
        table.row(vec!["long".into(), Cell::number("-".into(), f64::NAN), "x, y".into()]);
        table
    }

    #[test]
    fn prose_is_broken_and_numbers_stand_right() {
        let expect =
            "name  rate  about\n       1/s\na     1.23  one two three four\n            five six\n\nlong     -  x, y\n";
        assert_eq!(table().text(36), expect);
    }

    #[test]
    fn programs_get_exact_numbers() {
        assert_eq!(table().csv(), "name,rate,about\na,1.2345,one two three four five six\nlong,,\"x, y\"\n");
    }
}
