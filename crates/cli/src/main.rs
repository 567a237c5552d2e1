//! `arles`: the one binary. It reads settings, wires the crates below together and prints; it decides nothing.
//!
//! Results go to stdout, progress and remarks to stderr. A command either does all of its work or says in a
//! sentence why not; it never panics on what a user gave it, and a reader that closes the pipe early is no error.

mod cluster;
mod commands;
mod engines;
mod estimation;
mod fault;
mod files;
mod flags;
mod hourly;
mod interrupt;
mod jobs;
mod logging;
mod measured;
mod moment;
mod notify;
mod output;
mod progress;
mod quantity;
mod results;
mod runs;
mod server;
mod settings;
mod setup;

use clap::Parser;
use std::process::ExitCode;

/// The daemon has threads that give way to everybody at once, and may do so in the middle of an allocation. Here that holds up nobody.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    match commands::run(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fault::report(&error),
    }
}
