//! The commands, one file each.

mod allocate;
mod audit;
mod backup;
mod cancel;
mod catalog;
mod check_config;
mod check_model;
mod compare;
mod demo;
mod energy;
mod estimate;
mod estimators;
mod explain;
mod generate;
mod import;
mod kinds;
mod learn;
mod nodes;
mod policies;
mod policy;
mod queue;
mod replay;
mod reproduce;
mod run;
mod serve;
mod show;
mod simulate;
mod submit;
mod tenants;
mod token;
mod top;
mod workloads;
mod world;

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
    Demo(demo::Demo),
    Serve(serve::Serve),
    World(world::World),
    Submit(submit::Submit),
    Queue(queue::Queue),
    Show(show::Show),
    Explain(explain::Explain),
    Cancel(cancel::Cancel),
    Nodes(nodes::Nodes),
    Top(top::Top),
    Tenants(tenants::Tenants),
    Policy(policy::Policy),
    Audit(audit::Audit),
    Energy(energy::Energy),
    Token(token::Token),
    Backup(backup::Backup),
    Run(run::Run),
    Simulate(simulate::Simulate),
    Compare(compare::Compare),
    Allocate(allocate::Allocate),
    Catalog(catalog::Catalog),
    Generate(generate::Generate),
    Import(import::Import),
    Replay(replay::Replay),
    Reproduce(reproduce::Reproduce),
    Estimate(estimate::Estimate),
    Learn(learn::Learn),
    Policies(policies::Policies),
    Estimators(estimators::Estimators),
    Kinds(kinds::Kinds),
    Workloads(workloads::Workloads),
    CheckModel(check_model::CheckModel),
    CheckConfig(check_config::CheckConfig),
}

/// Does what was asked; results go to stdout.
pub(crate) fn run(command: Command) -> Result<()> {
    // These write from several threads; the lock below would keep all but one waiting.
    let command = match command {
        Command::Top(command) => return command.run(),
        Command::Run(command) => return command.run(),
        other => other,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match command {
        Command::Demo(command) => command.run(&mut out),
        Command::Serve(command) => command.run(),
        Command::World(command) => command.run(),
        Command::Top(_) | Command::Run(_) => Ok(()),
        Command::Submit(command) => command.run(&mut out),
        Command::Queue(command) => command.run(&mut out),
        Command::Show(command) => command.run(&mut out),
        Command::Explain(command) => command.run(&mut out),
        Command::Cancel(command) => command.run(&mut out),
        Command::Nodes(command) => command.run(&mut out),
        Command::Tenants(command) => command.run(&mut out),
        Command::Policy(command) => command.run(&mut out),
        Command::Audit(command) => command.run(&mut out),
        Command::Energy(command) => command.run(&mut out),
        Command::Token(command) => command.run(&mut out),
        Command::Backup(command) => command.run(&mut out),
        Command::Simulate(command) => command.run(&mut out),
        Command::Compare(command) => command.run(&mut out),
        Command::Allocate(command) => command.run(&mut out),
        Command::Catalog(command) => command.run(&mut out),
        Command::Generate(command) => command.run(&mut out),
        Command::Import(command) => command.run(&mut out),
        Command::Replay(command) => command.run(&mut out),
        Command::Reproduce(command) => command.run(&mut out),
        Command::Estimate(command) => command.run(&mut out),
        Command::Learn(command) => command.run(&mut out),
        Command::Policies(command) => command.run(&mut out),
        Command::Estimators(command) => command.run(&mut out),
        Command::Kinds(command) => command.run(&mut out),
        Command::Workloads(command) => command.run(&mut out),
        Command::CheckModel(command) => command.run(&mut out),
        Command::CheckConfig(command) => command.run(&mut out),
    };
    // What was printed before an error is still worth reading.
    let flushed = out.flush();
    done?;
    Ok(flushed?)
}
