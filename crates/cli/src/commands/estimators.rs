//! `arles estimators`: the table of estimators, as it is compiled in.

use crate::fault::EXIT_CODES;
use crate::output::{self, Column, OutputFlag, Table};
use anyhow::Result;
use arles_learn::ESTIMATORS;
use clap::Args;
use serde::Serialize;
use std::io::Write;

/// List the throughput estimators
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Estimators {
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Serialize)]
struct EstimatorRow {
    name: &'static str,
    summary: &'static str,
}

impl Estimators {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut table = Table::new(vec![Column::left("estimator", "estimator"), Column::prose("summary", "summary")]);
        let rows: Vec<EstimatorRow> =
            ESTIMATORS.iter().map(|e| EstimatorRow { name: e.name, summary: e.summary }).collect();
        for row in &rows {
            table.row(vec![row.name.into(), row.summary.into()]);
        }
        output::print(out, self.output.output, &table, &rows)
    }
}
