//! `arles man`: the manual, from the same table as the help texts.

use crate::commands::Arguments;
use crate::fault::{EXIT_CODES, Failed};
use crate::files::Draft;
use anyhow::Result;
use clap::{Args, Command, CommandFactory};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write the manual pages, one for each command
#[derive(Args)]
#[command(after_help = format!("Read one with 'man -l DIR/arles-submit.1'.\n\n{EXIT_CODES}"))]
pub(crate) struct Man {
    /// Folder to write to; it is made where there is none
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        std::fs::create_dir_all(&self.folder).map_err(|error| {
            Failed(format!("cannot make the folder '{}' ({error}); give one that you can write", self.folder.display()))
        })?;
        let mut all = Arguments::command().disable_help_subcommand(true);
        all.build();
        let pages = pages(&all, "arles", &self.folder)?;
        Ok(writeln!(out, "{}: {pages} pages", self.folder.display())?)
    }
}

/// Writes the page of a command and of those below it; returns how many.
fn pages(command: &Command, name: &str, folder: &Path) -> Result<usize> {
    let mut written = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        written += pages(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    // The version stands where the date would, so that the same source makes the same pages.
    let page = clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .section("1")
        .date(env!("CARGO_PKG_VERSION"))
        .source(format!("arles {}", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut draft = Draft::create(&folder.join(format!("{name}.1")))?;
    page.render(draft.out())?;
    draft.keep()?;
    Ok(written)
}
