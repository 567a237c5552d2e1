//! One alias table: many names, one thing each.
//!
//! Names are compared after folding: lower case; space, `-` and `_` are one separator; a leading maker's name
//! and Kubernetes' trailing `SHARED` (time-sliced) are dropped, since drivers print the same product with and
//! without them.

use std::collections::BTreeMap;
use std::fmt;
use strsim::levenshtein;

/// How many near names an error tells.
const NEAREST: usize = 3;

/// A name that nothing goes by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    /// `kind` or `workload`.
    pub what: &'static str,
    /// The name as it was asked for.
    pub name: String,
    /// The names that come nearest by edit distance, nearest first.
    pub nearest: Vec<String>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name, nearest } = self;
        write!(f, "no {what} is called '{name}'; the nearest names are {}", nearest.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// A name that was taken already.
pub(super) struct Clash {
    /// By whom: the name it was first added under.
    pub(super) other: String,
}

/// Folded name → number of the thing, and the name as first written.
#[derive(Clone, Default, Debug)]
pub(super) struct Aliases {
    by_name: BTreeMap<String, (usize, String)>,
}

impl Aliases {
    /// Lets `name` lead to `number`. Saying the same thing twice is allowed: spellings may fold to one.
    pub(super) fn add(&mut self, name: &str, number: usize) -> Result<(), Clash> {
        let (taken_by, other) = self.by_name.entry(fold(name)).or_insert_with(|| (number, name.into()));
        if *taken_by == number { Ok(()) } else { Err(Clash { other: other.clone() }) }
    }

    /// Where `name` leads.
    pub(super) fn find(&self, what: &'static str, name: &str) -> Result<usize, UnknownName> {
        let folded = fold(name);
        self.by_name.get(&folded).map(|(number, _)| *number).ok_or_else(|| UnknownName {
            what,
            name: name.into(),
            nearest: self.nearest(&folded),
        })
    }

    /// The nearest names, one for each thing.
    fn nearest(&self, folded: &str) -> Vec<String> {
        let mut ranked: Vec<_> =
            self.by_name.iter().map(|(known, (number, name))| (levenshtein(folded, known), *number, name)).collect();
        ranked.sort();
        let mut seen = std::collections::BTreeSet::new();
        ranked.retain(|(_, number, _)| seen.insert(*number));
        ranked.into_iter().take(NEAREST).map(|(_, _, name)| name.clone()).collect()
    }
}

/// The form in which names are compared.
fn fold(name: &str) -> String {
    let words: Vec<String> = name
        .split(|c: char| c.is_whitespace() || c == '-' || c == '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let mut words = words.as_slice();
    if let [maker, rest @ ..] = words
        && matches!(maker.as_str(), "nvidia" | "amd")
        && !rest.is_empty()
    {
        words = rest;
    }
    if let [rest @ .., last] = words
        && last == "shared"
        && !rest.is_empty()
    {
        words = rest;
    }
    words.join("-")
}

/// The name most like `wrong`, case apart, if any is like it at all: for errors that say "did you mean".
#[must_use]
pub fn nearest<'n>(wrong: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let wrong = wrong.to_lowercase();
    let scored = names.into_iter().map(|name| (levenshtein(&wrong, &name.to_lowercase()), name));
    let best = scored.min_by_key(|(edits, _)| *edits)?;
    (best.0 <= 1 + best.1.len() / 3).then_some(best.1)
}

/// The end of an error about a wrong name: ` (did you mean v100?)`, or nothing where no name is like it.
#[must_use]
pub fn suggestion<'n>(wrong: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    nearest(wrong, names).map_or(String::new(), |near| format!(" (did you mean {near}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fold() {
        let check = |name, expect| assert_eq!(fold(name), expect, "{name}");
        check("Tesla V100-SXM2-16GB", "tesla-v100-sxm2-16gb");
        check("NVIDIA_A100-SXM4-80GB", "a100-sxm4-80gb");
        check("NVIDIA-A10-SHARED", "a10");
        check("  t4 ", "t4");
        check("nvidia", "nvidia");
        check("", "");
    }

    #[test]
    fn distances() {
        let check = |a, b, expect| assert_eq!(levenshtein(a, b), expect, "{a} {b}");
        check("", "", 0);
        check("abc", "", 3);
        check("kitten", "sitting", 3);
        check("v100", "v10", 1);
    }

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(nearest("gnag", ["gang", "steps"]), Some("gang"));
        assert_eq!(nearest("Arrival", ["arrival_seconds", "steps", "arrivals"]), Some("arrivals"));
        assert_eq!(nearest("colour", ["gang", "steps"]), None);
    }
}
