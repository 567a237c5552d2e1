//! `arles generate`: a trace from a seed.

use crate::fault::{EXIT_CODES, remark};
use crate::files::Draft;
use crate::settings::{GENERATE, SettingFlags};
use crate::setup::Setup;
use anyhow::Result;
use arles_sim::trace::csv::Writer;
use arles_sim::trace::generate::Generator;
use clap::Args;
use std::io::{self, Write};
use std::path::PathBuf;

/// Generate a trace from a seed, as CSV
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Generate {
    /// What to generate, such as jobs=1000 load=0.8; the keys are those of section 'generate' in the configuration file
    #[arg(value_name = "KEY=VALUE")]
    options: Vec<String>,
    #[command(flatten)]
    flags: SettingFlags<GENERATE>,
    /// Output file [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Generate {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut settings = self.flags.settings()?;
        if !self.options.is_empty() {
            settings.put_generate(&self.options.join(","), "generate")?;
        }
        let generator = Setup::new(&settings)?.generator(settings.seed)?;
        match &self.output {
            None => write(generator, out)?,
            Some(path) => {
                let mut draft = Draft::create(path)?;
                write(generator, draft.out())?;
                draft.keep()?;
            }
        }
        remark(format_args!("{} jobs generated from seed {}", settings.generate.jobs, settings.seed));
        Ok(())
    }
}

/// Writes the jobs as they are made: a million of them need no memory.
fn write(generator: Generator, out: impl Write) -> io::Result<()> {
    let names = generator.names().clone();
    let mut writer = Writer::new(out, &names)?;
    for job in generator {
        writer.write(&job)?;
    }
    writer.finish()
}
