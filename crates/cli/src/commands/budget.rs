//! `arles budget`: what all GPUs together may draw.

use crate::output::{self, Column, Format, OutputFlag, Table};
use crate::quantity::{power, watts};
use crate::server::{self, EXIT_CODES, ServerFlags};
use anyhow::{Result, anyhow};
use arles_api::PowerBudget;
use clap::Args;
use std::io::Write;

/// Show or set the power that all GPUs together may draw
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Budget {
    /// The budget from now on, such as 12kW or 1.2MW; none for no limit
    #[arg(value_name = "WATTS")]
    watts: Option<String>,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Budget {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let client = self.server.client()?;
        let budget: PowerBudget = match &self.watts {
            None => client.get("/v1/power-budget").map_err(server::fault)?,
            Some(text) => {
                let watts = if text.trim() == "none" { None } else { Some(power(text).map_err(|e| anyhow!(e))?) };
                client.put("/v1/power-budget", &PowerBudget { watts }).map_err(server::fault)?
            }
        };
        let said = budget.watts.map_or("none".to_owned(), watts);
        if self.output.output == Format::Table {
            let line = match budget.watts {
                Some(_) => format!("all GPUs together may draw {said}, by the estimates"),
                None => "there is no power budget".to_owned(),
            };
            return Ok(writeln!(out, "{line}")?);
        }
        let mut table = Table::new(vec![Column::right("budget", "watts")]);
        table.row(vec![said.as_str().into()]);
        output::print(out, self.output.output, &table, &budget)
    }
}
