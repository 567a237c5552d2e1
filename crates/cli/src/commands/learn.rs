//! `arles learn`: how good estimators are on workloads they never saw, and training by hand.

mod eval;
mod train;

use crate::fault::EXIT_CODES;
use crate::settings;
use anyhow::{Result, anyhow};
use arles_learn::{ESTIMATORS, EstimatorEntry, REFERENCES};
use clap::{Args, Subcommand};
use std::io::Write;

/// Train and evaluate estimators
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Learn {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Eval(eval::Eval),
    Train(train::Train),
}

impl Learn {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.what {
            What::Eval(eval) => eval.run(out),
            What::Train(train) => train.run(out),
        }
    }
}

/// An estimator of the table, or a sentence.
pub(crate) fn estimator(flag: &str, name: &str) -> Result<&'static EstimatorEntry> {
    settings::find("estimator", name, ESTIMATORS.iter(), |entry| entry.name).map_err(|e| anyhow!("{flag}: {e}"))
}

/// The same, with what an evaluation knows beside them.
fn evaluated(flag: &str, name: &str) -> Result<&'static EstimatorEntry> {
    let all = ESTIMATORS.iter().chain(REFERENCES);
    settings::find("estimator", name, all, |entry| entry.name).map_err(|e| anyhow!("{flag}: {e}"))
}
