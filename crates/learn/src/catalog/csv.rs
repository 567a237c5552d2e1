//! Cells and features as comma-separated values, for people, spreadsheets and other programs.
//!
//! A file of cells has one line a cell; the columns are [`COLUMNS`], in any order, of which [`workload`, `kind` and
//! `rate_steps_per_second`](COLUMNS) must be there. What a line does not say: a gang of 1, no partner, watts unknown, source
//! `stated`, measured now. Reading hands over all lines, checked, or an error that says where the file is wrong. Writing what was read
//! gives the same bytes, and reading what was written the same cells: numbers have as many digits as it takes.
//!
//! **A rate of 0 says *does not fit***, and a slip looks the same; so it is taken only where the line states its source.
//!
//! Nothing here touches a file or a clock.

mod features;
mod lines;

pub use features::{FEATURES, read_features, write_features};

use super::labels::{SOURCES, label_of};
use super::{Cell, Key, MEASUREMENT_ERROR, MOST_VARIANCE, check, check_name, timestamp};
use arles_core::estimate::Source;
use arles_core::{Kind, Library, Time, Workload};
pub(crate) use lines::{Line, each};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

/// The columns of a file of cells.
pub const COLUMNS: [&str; 10] =
    ["workload", "kind", "gang", "partner", "rate_steps_per_second", "watts", "source", "observations", "at", "doubt"];

const REQUIRED: [&str; 3] = ["workload", "kind", "rate_steps_per_second"];

/// Where a file is wrong, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvError {
    /// The file, as the user named it.
    pub origin: String,
    /// Line, from 1; 0 when the fault is the file's as a whole.
    pub line: usize,
    /// What is wrong, what was expected and what to do.
    pub message: String,
}

impl fmt::Display for CsvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.origin, self.message),
            line => write!(f, "{}:{line}: {}", self.origin, self.message),
        }
    }
}

impl std::error::Error for CsvError {}

/// What names mean: those of the library, and the user's own.
#[derive(Clone, Debug)]
pub struct Names<'a> {
    library: &'a Library,
    own: Vec<&'a Workload>,
    /// What was asked before: the library looks for names that come near one it does not know, which takes a while.
    asked: RefCell<BTreeMap<String, Option<&'a Workload>>>,
}

impl<'a> Names<'a> {
    /// The library's names, and those of workloads that somebody described.
    pub fn new(library: &'a Library, own: impl IntoIterator<Item = &'a Workload>) -> Self {
        Self { library, own: own.into_iter().collect(), asked: RefCell::default() }
    }

    /// The kind, slice or mode of this name.
    ///
    /// # Errors
    /// When no kind is called so; with the nearest names.
    pub fn kind(&self, name: &str) -> Result<Kind, String> {
        self.library.any_kind(name)
    }

    /// The one name of a workload: the library's, or of a described one, or else the name itself.
    #[must_use]
    pub fn workload(&self, name: &str) -> String {
        self.known(name).map_or_else(|| name.trim().to_owned(), |workload| workload.name.clone())
    }

    /// What a workload is made of, if anybody said.
    #[must_use]
    pub fn known(&self, name: &str) -> Option<&'a Workload> {
        let name = name.trim();
        if let Some(known) = self.asked.borrow().get(name) {
            return *known;
        }
        let own = || self.own.iter().find(|w| w.name == name || w.aliases.iter().any(|alias| alias == name)).copied();
        let known = self.library.workload(name).ok().or_else(own);
        self.asked.borrow_mut().insert(name.to_owned(), known);
        known
    }
}

/// Reads a file of cells; `origin` names it in errors, and what does not say when it was measured was so `now`.
///
/// # Errors
/// At the first line that cannot be used; then nothing is read.
pub fn read(text: &str, origin: &str, names: &Names<'_>, now: Time) -> Result<Vec<(Key, Cell)>, CsvError> {
    let mut cells = Vec::new();
    let mut seen = BTreeMap::new();
    lines::each(text, origin, &COLUMNS, &REQUIRED, |line| {
        let (key, cell) = read_cell(line, names, now)?;
        if let Some(above) = seen.insert(key.clone(), line.number) {
            return Err(format!("{key} is in line {above} already; keep one of the two"));
        }
        cells.push((key, cell));
        Ok(())
    })?;
    Ok(cells)
}

fn read_cell(line: &Line<'_>, names: &Names<'_>, now: Time) -> Result<(Key, Cell), String> {
    let kind = names.kind(line.required("kind")?)?;
    let workload = name(line, "workload", line.required("workload")?, names)?;
    let partner = line.get("partner").map(|text| name(line, "partner", text, names)).transpose()?;
    let gang = line.whole("gang")?.unwrap_or(1);
    if gang == 0 {
        return Err("gang is '0'; expected a whole number, 1 or more".into());
    }
    if let Some(partner) = &partner {
        if gang > 1 {
            return Err(format!(
                "gang is '{gang}' beside partner '{partner}'; only single GPUs are shared: leave one of the two out"
            ));
        }
        if kind.max_jobs < 2 {
            let kind = &kind.name;
            return Err(format!(
                "partner is '{partner}', and one GPU of kind {kind} takes 1 job only; remove this line"
            ));
        }
    }
    let source = line.get("source").map(|_| line.one_of("source", &SOURCES)).transpose()?;
    let rate = read_rate(line, source)?;
    let observations = line.whole("observations")?;
    if let (None, Some(n @ 1..)) = (source, observations) {
        return Err(format!("observations is '{n}' where no source is given; say measured, or leave it empty"));
    }
    let (observed, standard_error) = match source {
        Some(Source::Measured) => (1, MEASUREMENT_ERROR),
        _ => (0, MOST_VARIANCE.sqrt()),
    };
    let key = Key { workload, partner, kind: kind.name.clone(), gang };
    let cell = Cell {
        rate,
        watts: line.number("watts", f64::MIN_POSITIVE, "more than 0, or nothing where it is unknown")?,
        source: source.unwrap_or(Source::Stated),
        observations: observations.unwrap_or(observed),
        at: line.get("at").map(timestamp::parse).transpose().map_err(|e| format!("at: {e}"))?.unwrap_or(now),
        standard_error: line.number("doubt", 0.0, "a relative error, 0 or more")?.unwrap_or(standard_error),
    };
    check(&key, cell.rate, cell.watts, cell.standard_error, cell.at).map_err(|error| error.0)?;
    Ok((key, cell))
}

fn read_rate(line: &Line<'_>, source: Option<Source>) -> Result<f64, String> {
    let text = line.required("rate_steps_per_second")?;
    let rate = line.number("rate_steps_per_second", 0.0, "steps per second, more than 0")?.unwrap_or_default();
    if rate == 0.0 && source.is_none() {
        return Err(format!(
            "rate_steps_per_second is '{text}'; expected more than 0, or 0 and a source where it does not fit on this kind"
        ));
    }
    // No file keeps the sign of a zero.
    Ok(rate + 0.0)
}

fn name(line: &Line<'_>, column: &str, text: &str, names: &Names<'_>) -> Result<String, String> {
    let name = names.workload(text);
    check_name(&name).map_err(|error| format!("{column} is {text:?} in line {}: {error}", line.number))?;
    Ok(name)
}

/// Writes a file of cells.
///
/// # Errors
/// When the stream cannot be written.
pub fn write<'c>(mut out: impl Write, cells: impl IntoIterator<Item = (&'c Key, &'c Cell)>) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    for (key, cell) in cells {
        let watts = cell.watts.map_or(String::new(), |watts| watts.to_string());
        writeln!(
            out,
            "{},{},{},{},{},{watts},{},{},{},{}",
            lines::quoted(&key.workload),
            lines::quoted(&key.kind),
            key.gang,
            lines::quoted(key.partner.as_deref().unwrap_or_default()),
            cell.rate,
            label_of(&cell.source, &SOURCES),
            cell.observations,
            timestamp::text(cell.at),
            cell.standard_error
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
