//! `arles budget`: what all GPUs together may draw, and those of racks.

use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity::{power, watts};
use crate::server::{self, EXIT_CODES, ServerFlags};
use anyhow::{Result, anyhow};
use arles_api::{PowerBudget, PowerBudgetRequest};
use clap::Args;
use std::io::Write;

/// Show or set the power that GPUs may draw: all together, or those of a rack
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Budget {
    /// The budget from now on, such as 12kW or 1.2MW; none for no limit
    #[arg(value_name = "WATTS")]
    watts: Option<String>,
    /// For the GPUs of this rack, or of all racks below that name: row-1 is above row-1/rack-3
    #[arg(long, value_name = "NAME", requires = "watts")]
    rack: Option<String>,
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
                let request = PowerBudgetRequest { watts, rack: self.rack.clone() };
                client.put("/v1/power-budget", &request).map_err(server::fault)?
            }
        };
        if self.output.output == Format::Table {
            return Ok(write!(out, "{}", in_words(&budget))?);
        }
        let mut table = Table::new(vec![Column::left("rack", "rack"), Column::right("budget", "watts")]);
        let amount = |most: f64| Cell::number(watts(most), most);
        table.row(vec!["".into(), budget.watts.map_or_else(|| "none".into(), amount)]);
        for rack in &budget.racks {
            table.row(vec![rack.rack.as_str().into(), amount(rack.watts)]);
        }
        output::print(out, self.output.output, &table, &budget)
    }
}

fn in_words(budget: &PowerBudget) -> String {
    let mut said = match budget.watts {
        Some(most) => format!("all GPUs together may draw {}, by the estimates\n", watts(most)),
        None if budget.racks.is_empty() => "there is no power budget\n".to_owned(),
        None => "there is no power budget for all GPUs together\n".to_owned(),
    };
    for rack in &budget.racks {
        said += &format!("those of {} may draw {}\n", rack.rack, watts(rack.watts));
    }
    said
}
