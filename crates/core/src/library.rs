//! The kinds and workloads that arles knows without having measured anything.
//!
//! Two tables, `data/kinds.csv` and `data/workloads.csv`, are compiled into the program; [`Library::builtin`]
//! is what they say, and [`Library::parse`] reads tables of the same form from elsewhere (the caller does the
//! reading: this module does no IO). Every name a thing goes by in Slurm, Kubernetes, the driver or a published
//! trace leads to it through one alias table, and no name leads to two.
//!
//! The library must never hold a *rate*: rates are computed by [`crate::model`] or measured.

mod alias;
mod kinds;
mod table;
mod workloads;

use crate::{Kind, Workload};
use alias::{Aliases, Clash};
pub use alias::{UnknownName, nearest, suggestion};
use std::sync::LazyLock;
use table::Table;
pub use table::TableError;

const KINDS: &str = include_str!("../data/kinds.csv");
const WORKLOADS: &str = include_str!("../data/workloads.csv");

static BUILTIN: LazyLock<Library> = LazyLock::new(|| match Library::parse(KINDS, WORKLOADS) {
    Ok(library) => library,
    // A test parses these very tables, so no program that passed it gets here.
    Err(error) => panic!("the built-in library is broken: {error}"),
});

/// Kinds and workloads with all their names.
#[derive(Clone, Debug)]
pub struct Library {
    kinds: Vec<Kind>,
    workloads: Vec<Workload>,
    kind_names: Aliases,
    workload_names: Aliases,
}

impl Library {
    /// The library that comes with arles.
    #[must_use]
    pub fn builtin() -> &'static Library {
        &BUILTIN
    }

    /// Reads both tables.
    ///
    /// # Errors
    /// At the first cell that is not what its column asks for, and at the first name that means two things.
    pub fn parse(kinds: &str, workloads: &str) -> Result<Library, TableError> {
        let kinds = kinds::read(&Table::parse("kinds", kinds, &kinds::COLUMNS)?)?;
        let workloads = workloads::read(&Table::parse("workloads", workloads, &workloads::COLUMNS)?)?;
        let kind_names = index("kinds", kinds.iter().map(|(line, k)| (*line, &k.name, &k.aliases)))?;
        let workload_names = index("workloads", workloads.iter().map(|(line, w)| (*line, &w.name, &w.aliases)))?;
        Ok(Library {
            kinds: kinds.into_iter().map(|(_, kind)| kind).collect(),
            workloads: workloads.into_iter().map(|(_, workload)| workload).collect(),
            kind_names,
            workload_names,
        })
    }

    /// All kinds, in the order of the table.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// All workloads, in the order of the table.
    #[must_use]
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }

    /// The kind that goes by `name`; case does not matter, nor whether words are joined by space, `-` or `_`.
    ///
    /// # Errors
    /// When there is none; the error names those that come nearest.
    pub fn kind(&self, name: &str) -> Result<&Kind, UnknownName> {
        self.kind_names.find("kind", name).map(|i| &self.kinds[i])
    }

    /// The kind of this name; or a slice of one, `h200-3g.71gb`, which drivers call `NVIDIA H200 MIG 3g.71gb`; or a mode: `h200@400W` is an
    /// `h200` under a limit of 400 W.
    ///
    /// # Errors
    /// A sentence, when there is no such kind or it cannot be run under that limit.
    pub fn any_kind(&self, name: &str) -> Result<Kind, String> {
        let Some((kind, limit)) = name.split_once('@') else {
            let known = self.kind(name).map_err(|error| error.to_string());
            return known.cloned().or_else(|error| self.slice(name).ok_or(error));
        };
        let watts = limit.strip_suffix(['W', 'w']).and_then(|watts| watts.trim().parse::<f64>().ok());
        let watts = watts.filter(|watts| watts.is_finite()).ok_or_else(|| {
            format!(
                "'{name}' names no power limit; write the kind, '@' and a number of watts, for instance {kind}@250W"
            )
        })?;
        let kind = self.kind(kind).map_err(|error| error.to_string())?;
        kind.limited_to(watts).map_err(|error| error.to_string())
    }

    /// The slice of a GPU that goes by `name`.
    fn slice(&self, name: &str) -> Option<Kind> {
        let separators = |c: char| c.is_whitespace() || c == '-' || c == '_';
        let (whole, profile) = name.trim_end().rsplit_once(separators)?;
        let profile = profile.to_lowercase();
        let whole = whole.trim_end_matches(separators);
        let whole = whole.strip_suffix("MIG").or(whole.strip_suffix("mig")).unwrap_or(whole);
        self.kind(whole.trim_end_matches(separators)).ok()?.slice(&profile)
    }

    /// The workload that goes by `name`, with the same freedom of spelling.
    ///
    /// # Errors
    /// When there is none; the error names those that come nearest.
    pub fn workload(&self, name: &str) -> Result<&Workload, UnknownName> {
        self.workload_names.find("workload", name).map(|i| &self.workloads[i])
    }
}

/// Numbers things by all their names.
fn index<'a>(
    table: &'static str,
    things: impl Iterator<Item = (usize, &'a String, &'a Vec<String>)>,
) -> Result<Aliases, TableError> {
    let mut names = Aliases::default();
    for (number, (line, name, aliases)) in things.enumerate() {
        for alias in std::iter::once(name).chain(aliases) {
            names.add(alias, number).map_err(|Clash { other }| {
                let column = if alias == name { "name" } else { "aliases" };
                let problem = format!("'{alias}' already stands for '{other}'; a name may mean one thing only");
                TableError { table, line, column: column.into(), problem }
            })?;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
