//! The commands, one file each.

mod simulate;

use crate::fault::EXIT_CODES;
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::io::{self, BufWriter, Write};

/// Schedules machine-learning jobs on clusters of mixed GPU kinds, and shows what that is worth.
#[derive(Parser)]
#[command(name = "arles", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a trace on a virtual cluster under one or more policies
    Simulate(simulate::Simulate),
}

/// Does what was asked; results go to stdout.
pub(crate) fn run(command: Command) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match command {
        Command::Simulate(command) => command.run(&mut out),
    };
    // What was printed before an error is still worth reading.
    let flushed = out.flush();
    done?;
    Ok(flushed?)
}
