//! The commands, one file each.

mod agent;
mod allocate;
mod audit;
mod backup;
mod budget;
mod cancel;
mod catalog;
mod check_config;
mod check_model;
mod compare;
mod completions;
mod demo;
mod energy;
mod estimate;
mod estimators;
mod explain;
mod findings;
mod fleet;
mod frontier;
mod generate;
mod gpus;
mod hold;
mod import;
mod kinds;
mod kubernetes;
mod learn;
mod log;
mod logs;
mod man;
mod nodes;
mod policies;
mod policy;
mod profile;
mod queue;
mod replay;
mod reproduce;
mod restore;
mod run;
mod serve;
mod shim;
mod show;
mod simulate;
mod slurm;
mod submit;
mod tenants;
mod token;
mod top;
mod verify;
mod workloads;
mod world;

use crate::fault::EXIT_CODES;
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::io::{self, BufWriter, Write};

/// Schedules machine-learning jobs on clusters of mixed GPU kinds.
#[derive(Parser)]
#[command(name = "arles", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands in the order of the help text: what they are called, and who does them.
macro_rules! commands {
    ($($module:ident::$name:ident),* $(,)?) => {
        #[derive(Subcommand)]
        pub(crate) enum Command {
            $($name($module::$name),)*
        }

        impl Command {
            fn run(&self, out: &mut dyn Write) -> Result<()> {
                match self {
                    $(Self::$name(command) => command.run(out),)*
                }
            }
        }
    };
}

commands! {
    demo::Demo,
    serve::Serve,
    world::World,
    submit::Submit,
    queue::Queue,
    show::Show,
    explain::Explain,
    logs::Logs,
    cancel::Cancel,
    hold::Hold,
    hold::Release,
    nodes::Nodes,
    gpus::Gpus,
    agent::Agent,
    profile::Profile,
    top::Top,
    tenants::Tenants,
    policy::Policy,
    budget::Budget,
    audit::Audit,
    energy::Energy,
    token::Token,
    log::Log,
    backup::Backup,
    restore::Restore,
    verify::Verify,
    run::Run,
    simulate::Simulate,
    compare::Compare,
    allocate::Allocate,
    frontier::Frontier,
    fleet::Fleet,
    catalog::Catalog,
    generate::Generate,
    import::Import,
    slurm::Slurm,
    kubernetes::Kubernetes,
    replay::Replay,
    reproduce::Reproduce,
    estimate::Estimate,
    learn::Learn,
    policies::Policies,
    estimators::Estimators,
    kinds::Kinds,
    workloads::Workloads,
    check_model::CheckModel,
    check_config::CheckConfig,
    completions::Completions,
    man::Man,
    shim::Shim,
}

/// Does what was asked; results go to stdout.
pub(crate) fn run(command: &Command) -> Result<()> {
    // Not locked: some commands write from several threads.
    let mut out = BufWriter::new(io::stdout());
    let done = command.run(&mut out);
    // What was printed before an error is still worth reading.
    let flushed = out.flush();
    done?;
    Ok(flushed?)
}
