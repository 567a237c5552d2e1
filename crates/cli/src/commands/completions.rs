//! `arles completions`: what a shell needs to complete commands and flags.

use crate::commands::Arguments;
use crate::fault::EXIT_CODES;
use anyhow::Result;
use clap::{Args, CommandFactory, ValueEnum};
use std::io::Write;

/// Print a script that completes commands and flags in a shell
#[derive(Args)]
#[command(after_help = format!("{HELP}\n\n{EXIT_CODES}"))]
pub(crate) struct Completions {
    /// Shell that is to read the script
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

const HELP: &str = "For bash:  arles completions bash > ~/.local/share/bash-completion/completions/arles
For zsh:   arles completions zsh > DIR/_arles, where DIR is in $fpath
For fish:  arles completions fish > ~/.config/fish/completions/arles.fish";

/// Shells that people who run clusters use.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        };
        // Into memory first: the generator does not say when its reader has gone.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "arles", &mut script);
        Ok(out.write_all(&script)?)
    }
}
