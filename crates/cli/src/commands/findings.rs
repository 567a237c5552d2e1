//! What a doctor found: a check, how it went, and a sentence. The same table for every system that arles runs beside.

use crate::fault::{Failed, remark};
use crate::output::{self, Column, Format, Table};
use anyhow::Result;
use serde::Serialize;
use std::io::Write;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// It works, and could be better.
    Advice,
    /// It does not work.
    Wrong,
}

#[derive(Serialize)]
pub(super) struct Finding {
    check: &'static str,
    state: State,
    finding: String,
}

pub(super) fn finding(check: &'static str, state: State, finding: impl Into<String>) -> Finding {
    Finding { check, state, finding: finding.into() }
}

/// Prints what was found; fails if something must be changed.
pub(super) fn print(out: &mut dyn Write, format: Format, found: &[Finding]) -> Result<()> {
    let mut table = Table::new(vec![
        Column::left("check", "check"),
        Column::left("state", "state"),
        Column::prose("finding", "finding"),
    ]);
    for row in found {
        let state = match row.state {
            State::Ok => "ok",
            State::Advice => "advice",
            State::Wrong => "WRONG",
        };
        table.row(vec![row.check.into(), state.into(), row.finding.as_str().into()]);
    }
    output::print(out, format, &table, &found)?;
    match found.iter().filter(|row| row.state == State::Wrong).count() {
        0 => remark(format_args!("nothing must be changed")),
        wrong => {
            let all = found.len();
            return Err(Failed(format!("{wrong} of {all} checks found something that must be changed")).into());
        }
    }
    Ok(())
}
