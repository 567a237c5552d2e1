//! `arles learn`: how good estimators are on workloads they never saw, and training by hand.

mod eval;
mod train;

use crate::fault::EXIT_CODES;
use anyhow::{Result, anyhow};
use arles_core::library::nearest;
use arles_learn::{ESTIMATORS, EstimatorEntry, find_estimator};
use clap::{Args, Subcommand};
use std::io::Write;

/// Train estimators, and say how far they are off on workloads they never saw
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
    find_estimator(name).ok_or_else(|| {
        let names = || ESTIMATORS.iter().map(|e| e.name);
        let near = nearest(name, names()).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        let all: Vec<&str> = names().collect();
        anyhow!("{flag}: there is no estimator '{name}'{near}; expected one of {}", all.join(", "))
    })
}
