//! Measured rates: how many steps per second a workload does on each GPU kind, alone, in a gang and beside
//! a partner. The simulator's ground truth where somebody has measured it.
//!
//! The format is the one in which Gavel published its measurements (OSDI'20), and Shockwave after it:
//!
//! ```text
//! { "v100":                { "('LM (batch size 5)', 1)": { "null": 61.4,                        <- alone
//!                                                          "watts": 212.0,                      <- draw of one GPU, idle included
//!                                                          "('A3C', 1)": [40.1, 3.2] } },       <- [own, partner's]
//!   "v100_unconsolidated": { "('LM (batch size 5)', 4)": { "null": 30.0 } } }                   <- gang over several nodes
//! ```
//!
//! Watts are an addition of ours, and may be left out. A kind under a power limit is a kind of its own, `v100@150W`.
//!
//! A rate of 0 says *does not fit*. Pairs are kept for gangs of one GPU only: published tables hold nothing
//! but zeroes for wider ones, and arles never shares a GPU of a gang of several.
//!
//! The file is over a megabyte and read at every start, so it is streamed into flat vectors;
//! afterwards each lookup is one index computation. Nothing here guesses: a cell that was not measured is
//! `None`, and it is the caller who may extrapolate.

mod read;

use std::path::Path;

/// A table of measured rates. Workloads and kinds are named by their index.
#[derive(Clone, Debug)]
pub struct RateTable {
    workloads: Vec<String>,
    kinds: Vec<String>,
    /// Gang sizes that occur, ascending.
    gangs: Vec<u32>,
    /// Rate alone by (kind, spread, workload, gang); NaN where the table says nothing.
    solo: Vec<f64>,
    /// Draw of one GPU, in the same order; empty where the table has none.
    watts: Vec<f64>,
    /// (own, partner's) rate by (kind, workload, partner); NaN where the table says nothing.
    pairs: Vec<(f64, f64)>,
}

/// One measured rate, for reports.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cell {
    /// Index into [`RateTable::workloads`].
    pub workload: u32,
    /// Index into [`RateTable::kinds`].
    pub kind: u16,
    /// GPUs held at once.
    pub gang: u32,
    /// Whether the gang lies on more nodes than it needs.
    pub spread: bool,
    /// The job beside it on the same GPU and that job's rate, if any.
    pub partner: Option<(u32, f64)>,
    /// Steps per second of the whole gang; 0 if it does not fit.
    pub rate: f64,
}

/// Why a rate table cannot be used: a sentence, and where in the file it went wrong.
pub use crate::trace::TraceError as RatesError;

impl RateTable {
    /// Reads a table from the text of a JSON file; `origin` names it in errors.
    ///
    /// # Errors
    /// When the text is no such table, a rate is negative or not a number, or there is no rate in it.
    pub fn from_json(text: &str, origin: &str) -> Result<Self, RatesError> {
        read::table(text, origin)
    }

    /// Reads a table from a JSON file.
    ///
    /// # Errors
    /// When the file cannot be read, and as [`RateTable::from_json`].
    pub fn from_file(path: &Path) -> Result<Self, RatesError> {
        let origin = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::from_json(&text, &origin),
            Err(error) => {
                let message = format!("cannot read this file as a rate table ({error}); give the path of a JSON file");
                Err(RatesError { origin, line: 0, column: 0, message })
            }
        }
    }

    /// Names of the workloads, without gang sizes, in order of appearance.
    #[must_use]
    pub fn workloads(&self) -> &[String] {
        &self.workloads
    }

    /// Names of the kinds in order of appearance; those for spread gangs are not counted apart.
    #[must_use]
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// Gang sizes that occur in the table, ascending.
    #[must_use]
    pub fn gangs(&self) -> &[u32] {
        &self.gangs
    }

    /// Index of a workload.
    #[must_use]
    pub fn find_workload(&self, name: &str) -> Option<u32> {
        self.workloads.iter().position(|w| w == name).map(|i| i as u32)
    }

    /// Index of a kind.
    #[must_use]
    pub fn find_kind(&self, name: &str) -> Option<u16> {
        self.kinds.iter().position(|k| k == name).map(|i| i as u16)
    }

    /// Steps per second of a whole gang that has its GPUs to itself; `None` if it does not fit or was not measured.
    ///
    /// `spread` asks for a gang on more nodes than it needs; where that was not measured, the rate on one
    /// node stands in. One GPU is never spread.
    #[must_use]
    pub fn solo(&self, workload: u32, kind: u16, gang: u32, spread: bool) -> Option<f64> {
        let gang_index = self.gangs.iter().position(|&g| g == gang)?;
        let at = |spread| self.solo.get(self.solo_index(workload, kind, gang_index, spread)?).copied();
        let mut rate = at(spread && gang > 1)?;
        if rate.is_nan() {
            rate = at(false)?;
        }
        (rate > 0.0).then_some(rate)
    }

    /// Watts that one GPU of a gang draws which has its GPUs to itself, if somebody measured them. How far apart the gang is makes no difference.
    #[must_use]
    pub fn watts(&self, workload: u32, kind: u16, gang: u32) -> Option<f64> {
        let gang_index = self.gangs.iter().position(|&g| g == gang)?;
        let watts = *self.watts.get(self.solo_index(workload, kind, gang_index, false)?)?;
        (watts > 0.0).then_some(watts)
    }

    /// Steps per second of two jobs that share one GPU, `workload`'s first; `None` if they do not fit together
    /// or were not measured.
    #[must_use]
    pub fn pair(&self, workload: u32, partner: u32, kind: u16) -> Option<(f64, f64)> {
        let (own, other) = *self.pairs.get(self.pair_index(workload, partner, kind)?)?;
        (own > 0.0 && other > 0.0).then_some((own, other))
    }

    /// Everything in the table, those that do not fit included: alone by kind, workload and gang, then pairs.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let (n, g) = (self.workloads.len(), self.gangs.len());
        let solo = self.solo.iter().enumerate().filter(|(_, rate)| !rate.is_nan()).map(move |(i, &rate)| Cell {
            workload: (i / g % n) as u32,
            kind: (i / g / n / 2) as u16,
            gang: self.gangs[i % g],
            spread: i / g / n % 2 == 1,
            partner: None,
            rate,
        });
        let pairs = self.pairs.iter().enumerate().filter(|(_, p)| !p.0.is_nan()).map(move |(i, &(rate, other))| Cell {
            workload: (i / n % n) as u32,
            kind: (i / n / n) as u16,
            gang: 1,
            spread: false,
            partner: Some(((i % n) as u32, other)),
            rate,
        });
        solo.chain(pairs)
    }

    fn solo_index(&self, workload: u32, kind: u16, gang_index: usize, spread: bool) -> Option<usize> {
        let (w, n) = (workload as usize, self.workloads.len());
        let plane = usize::from(kind) * 2 + usize::from(spread);
        (w < n).then_some((plane * n + w) * self.gangs.len() + gang_index)
    }

    fn pair_index(&self, workload: u32, partner: u32, kind: u16) -> Option<usize> {
        let (w, p, n) = (workload as usize, partner as usize, self.workloads.len());
        (w < n && p < n).then_some((usize::from(kind) * n + w) * n + p)
    }
}

#[cfg(test)]
mod tests;
