//! A small strict reader for the library's tables.
//!
//! Cells are divided by commas and trimmed; there are no quotes, so a cell holds no comma. Lists inside a cell
//! are divided by `;`, and `-` is the empty list. Lines that are blank or start with `#` say nothing. The first
//! other line names the columns and must name exactly those expected. Nothing is guessed and nothing is skipped: the
//! first wrong cell is an error with its line and column.

use std::fmt;
use std::str::FromStr;

/// Where a table is wrong, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableError {
    /// File of the table, below `data/`.
    pub table: &'static str,
    /// Line, counted from 1, comments included.
    pub line: usize,
    /// Name of the column; empty where the whole line is at fault.
    pub column: String,
    /// What was found and what was expected.
    pub problem: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, line, column, problem } = self;
        write!(f, "table of {table}, line {line}")?;
        if !column.is_empty() {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {problem}")
    }
}

impl std::error::Error for TableError {}

/// A table whose shape is right; cells are checked as they are asked for.
pub(super) struct Table<'a> {
    name: &'static str,
    columns: &'static [&'static str],
    rows: Vec<(usize, Vec<&'a str>)>,
}

/// One line of a [`Table`].
pub(super) struct Row<'a> {
    table: &'a Table<'a>,
    /// Line, counted from 1.
    pub(super) line: usize,
    cells: &'a [&'a str],
}

impl<'a> Table<'a> {
    /// Cuts `text` into cells.
    pub(super) fn parse(
        name: &'static str,
        text: &'a str,
        columns: &'static [&'static str],
    ) -> Result<Self, TableError> {
        let fail = |line, problem| TableError { table: name, line, column: String::new(), problem };
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(i, line)| (i, line.split(',').map(str::trim).collect::<Vec<_>>()));
        match lines.next() {
            Some((_, header)) if header == columns => {}
            Some((line, header)) => {
                let (found, expected) = (header.join(", "), columns.join(", "));
                return Err(fail(line, format!("the columns are '{found}'; they must be '{expected}'")));
            }
            None => return Err(fail(1, "there is no line that names the columns".into())),
        }
        let rows: Vec<_> = lines.collect();
        match rows.iter().find(|(_, cells)| cells.len() != columns.len()) {
            Some((line, cells)) => {
                Err(fail(*line, format!("{} cells; there must be {}, divided by commas", cells.len(), columns.len())))
            }
            None => Ok(Self { name, columns, rows }),
        }
    }

    /// All lines below the header.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, cells)| Row { table: self, line: *line, cells })
    }
}

impl Row<'_> {
    /// The cell as it is; it must not be empty.
    pub(super) fn text(&self, column: &str) -> Result<&str, TableError> {
        match self.cell(column) {
            "" => Err(self.fail(column, "the cell is empty; write '-' where there is nothing to say".into())),
            text => Ok(text),
        }
    }

    /// A number that is not below `least`.
    pub(super) fn number(&self, column: &str, least: f64) -> Result<f64, TableError> {
        let number: f64 = self.value(column, "a number")?;
        if number.is_finite() && number >= least {
            return Ok(number);
        }
        Err(self.fail(column, format!("{number} is out of range; the least value is {least}")))
    }

    /// A number above 0.
    pub(super) fn positive(&self, column: &str) -> Result<f64, TableError> {
        self.number(column, f64::MIN_POSITIVE)
    }

    /// Anything that can be read from text; `expected` says what.
    pub(super) fn value<T: FromStr>(&self, column: &str, expected: &str) -> Result<T, TableError> {
        let text = self.text(column)?;
        text.parse().map_err(|_| self.fail(column, format!("'{text}' is not {expected}")))
    }

    /// One of the words in `choices`.
    pub(super) fn choice<T: Copy>(&self, column: &str, choices: &[(&str, T)]) -> Result<T, TableError> {
        let text = self.text(column)?;
        choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            self.fail(column, format!("'{text}' is none of {}", words.join(", ")))
        })
    }

    /// The parts of a cell divided by `;`.
    pub(super) fn list(&self, column: &str) -> Result<Vec<&str>, TableError> {
        match self.text(column)? {
            "-" => Ok(Vec::new()),
            text => text
                .split(';')
                .map(str::trim)
                .map(|part| if part.is_empty() { Err(self.fail(column, "an empty part".into())) } else { Ok(part) })
                .collect(),
        }
    }

    /// An error about one cell of this line.
    pub(super) fn fail(&self, column: &str, problem: String) -> TableError {
        TableError { table: self.table.name, line: self.line, column: column.into(), problem }
    }

    fn cell(&self, column: &str) -> &str {
        let index = self.table.columns.iter().position(|c| *c == column);
        self.cells[index.expect("code asks for declared columns only")]
    }
}
