//! `arles policies`: the table of policies, as it is compiled in.

use crate::fault::EXIT_CODES;
use crate::output::{self, Column, OutputFlag, Table};
use anyhow::Result;
use arles_core::allocate::POLICIES;
use clap::Args;
use serde::Serialize;
use std::io::Write;

/// List the policies and their guarantees
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Policies {
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Serialize)]
struct PolicyRow {
    name: &'static str,
    promises: Vec<&'static str>,
    summary: &'static str,
}

impl Policies {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut table = Table::new(vec![
            Column::left("policy", "policy"),
            Column::words("guarantees", "promises", 17),
            Column::prose("summary", "summary"),
        ]);
        let rows: Vec<PolicyRow> = POLICIES
            .iter()
            .map(|policy| PolicyRow {
                name: policy.name,
                promises: policy.promises.iter().map(|promise| promise.name()).collect(),
                summary: policy.summary,
            })
            .collect();
        for row in &rows {
            table.row(vec![row.name.into(), row.promises.join(" ").into(), row.summary.into()]);
        }
        output::print(out, self.output.output, &table, &rows)
    }
}
