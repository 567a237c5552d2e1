//! `arles generate`: a trace from a seed.

use crate::fault::{EXIT_CODES, remark};
use crate::files::Draft;
use crate::settings::Settings;
use crate::setup::Setup;
use anyhow::Result;
use arles_sim::trace::csv::Writer;
use arles_sim::trace::generate::Generator;
use clap::Args;
use std::io::{self, Write};
use std::path::PathBuf;

/// Make a trace from a seed, as CSV
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Generate {
    /// What to generate, such as jobs=1000 load=0.8; the keys are those of the configuration file
    #[arg(value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Settings from a TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Cluster that the load is measured against, such as v100:36,p100:36,k80:36
    #[arg(long, value_name = "KIND:COUNT")]
    cluster: Option<String>,
    /// Measured rates, which say how fast that cluster is
    #[arg(long, value_name = "FILE")]
    rates: Option<String>,
    /// Decides every draw
    #[arg(long, value_name = "N")]
    seed: Option<String>,
    /// Where to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Generate {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut settings = Settings::builtin()?;
        if let Some(path) = &self.config {
            settings.put_file(path)?;
        }
        let flags = [
            ("--cluster", "cluster.gpus", &self.cluster),
            ("--rates", "rates.file", &self.rates),
            ("--seed", "simulation.seed", &self.seed),
        ];
        for (flag, key, value) in flags {
            if let Some(value) = value {
                settings.put(key, value, flag)?;
            }
        }
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
