//! The flags that `simulate`, `compare` and `reproduce` share, and what they write.

use crate::fault::Hinted;
use crate::files::Draft;
use crate::output::Format;
use crate::settings::{SettingFlags, Settings};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// What to simulate: the flags of the settings, and the generator's.
#[derive(Args)]
pub(crate) struct RunFlags<const COMMAND: u16> {
    #[command(flatten)]
    flags: SettingFlags<COMMAND>,
    /// Generate the jobs: jobs=1000,load=0.8,...; the keys are those of section 'generate' in the configuration file
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Jobs", conflicts_with = "trace.file")]
    generate: Option<String>,
}

impl<const COMMAND: u16> RunFlags<COMMAND> {
    /// The defaults, changed by the configuration file, changed by the flags.
    pub(crate) fn settings(&self) -> Result<Settings> {
        self.settings_over(&[])
    }

    /// The same with other defaults (key and value) where a command has some of its own.
    pub(crate) fn settings_over(&self, defaults: &[(&str, &str)]) -> Result<Settings> {
        let mut settings = self.flags.settings_over(defaults)?;
        if let Some(text) = &self.generate {
            settings.put_generate(text, "--generate")?;
            settings.trace = None;
        }
        self.check_import_flags(&settings)?;
        Ok(settings)
    }

    /// Flags about importing mean nothing without a trace; whoever gives one expects it to do something.
    fn check_import_flags(&self, settings: &Settings) -> Result<()> {
        let flag = ["format", "tenants", "workloads", "kind-names"]
            .into_iter()
            .find(|flag| self.flags.names(&format!("trace.{flag}")));
        match flag {
            Some(flag) if settings.trace.is_none() => Err(Hinted::new(
                format!("--{flag} is about the import of a trace, and the jobs here come from the generator"),
                "give a trace with --trace FILE, or set the generator with --generate KEY=VALUE,...",
            )
            .into()),
            _ => Ok(()),
        }
    }
}

/// Where results go.
#[derive(Args)]
pub(crate) struct ResultFlags {
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table", help_heading = "Results")]
    pub(crate) output: Format,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    report: Option<PathBuf>,
    /// Write every job under every policy as CSV
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    jobs_csv: Option<PathBuf>,
}

/// Files begun before the work, so that one that cannot be written is known at once.
pub(crate) struct Drafts {
    pub(crate) report: Option<Draft>,
    pub(crate) jobs: Option<Draft>,
}

impl ResultFlags {
    pub(crate) fn drafts(&self) -> Result<Drafts> {
        let draft = |path: &Option<PathBuf>| path.as_deref().map(Draft::create).transpose();
        Ok(Drafts { report: draft(&self.report)?, jobs: draft(&self.jobs_csv)? })
    }
}

impl Drafts {
    /// Whether anything needs more than the printed numbers.
    pub(crate) fn need_details(&self) -> bool {
        self.report.is_some() || self.jobs.is_some()
    }
}
