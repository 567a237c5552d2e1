//! `arles shim`: the small process that a job of the local engine runs under. The daemon starts it; nobody else has a use for it.

use crate::fault::{Failed, Hinted};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::Path;

/// Run a job's program for the daemon
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Shim {}

impl Shim {
    pub(crate) fn run(&self, _: &mut dyn Write) -> Result<()> {
        let Some(folder) = std::env::var_os(arles_engine::SHIM_VARIABLE) else {
            let hint = "'arles submit' runs programs";
            return Err(Hinted::new("'arles shim' is started by 'arles serve --engine local' alone", hint).into());
        };
        match arles_engine::shim(Path::new(&folder)) {
            0 => Ok(()),
            code => Err(Failed(format!("the shim ended with code {code}")).into()),
        }
    }
}
