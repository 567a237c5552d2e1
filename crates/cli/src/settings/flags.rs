//! Flags that are settings: made from the table, so that a flag and its key in the configuration file have one description and one
//! default, and the flag wins over the file.

use super::{Setting, Settings, all};
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::path::PathBuf;

// Commands whose flags are settings, as bits.
pub(crate) const SIMULATE: u16 = 1;
pub(crate) const COMPARE: u16 = 1 << 1;
pub(crate) const REPRODUCE: u16 = 1 << 2;
pub(crate) const SERVE: u16 = 1 << 3;
pub(crate) const WORLD: u16 = 1 << 4;
pub(crate) const GENERATE: u16 = 1 << 5;
pub(crate) const IMPORT: u16 = 1 << 6;
pub(crate) const SLURM: u16 = 1 << 7;
pub(crate) const SHADOW: u16 = 1 << 8;
pub(crate) const KUBERNETES: u16 = 1 << 9;
pub(crate) const KUBERNETES_SHADOW: u16 = 1 << 10;
/// Flags of the daemon that its doctor takes, and none of the other commands for Kubernetes.
pub(super) const DOCTOR_ALONE: u16 = 1 << 11;
pub(crate) const KUBERNETES_DOCTOR: u16 = KUBERNETES | DOCTOR_ALONE;
/// Commands that watch another system's cluster.
pub(super) const SHADOWS: u16 = SHADOW | KUBERNETES_SHADOW;
/// Commands that run simulations.
pub(super) const RUN: u16 = SIMULATE | COMPARE | REPRODUCE;

/// The flag of a setting.
pub(crate) struct Flag {
    pub(super) name: &'static str,
    /// What stands for its value in help; a flag without one is a switch.
    pub(super) value: &'static str,
    /// Where the help lists it; empty for the first list.
    pub(super) heading: &'static str,
    /// Commands that have it.
    pub(super) commands: u16,
}

/// The flags of a command that are settings, and `--config` where it takes a file.
pub(crate) struct SettingFlags<const COMMAND: u16> {
    config: Option<PathBuf>,
    given: Vec<(&'static Setting, String)>,
}

/// The settings of a command with their flags.
fn flags(command: u16) -> impl Iterator<Item = (&'static Setting, &'static Flag)> {
    all().filter_map(move |setting| Some((setting, setting.flag.as_ref().filter(|flag| flag.commands & command != 0)?)))
}

impl Setting {
    fn arg(&'static self, flag: &'static Flag, command: u16) -> Arg {
        // What an empty text means in the file is what a flag that is left out means.
        let (help, default) = self.help.trim().split_once("; empty: ").unwrap_or((self.help.trim(), self.default));
        // A paper's experiments have defaults of their own.
        let silent = default.is_empty() || flag.value.is_empty() || (command == REPRODUCE && default == self.default);
        let default = if silent { String::new() } else { format!(" [default: {default}]") };
        let arg = Arg::new(self.key).long(flag.name).help(format!("{help}{default}"));
        // Short lists need no headings.
        let headed = !flag.heading.is_empty() && command & (RUN | SERVE) != 0;
        let arg = if headed { arg.help_heading(flag.heading) } else { arg };
        if flag.value.is_empty() { arg.action(ArgAction::SetTrue) } else { arg.value_name(flag.value) }
    }
}

impl<const COMMAND: u16> Args for SettingFlags<COMMAND> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("TOML file with settings; 'arles check-config --default' prints one with every default");
        let config = (COMMAND & (RUN | SERVE | GENERATE | SLURM | SHADOWS | KUBERNETES) != 0).then_some(config);
        command.args(config).args(flags(COMMAND).map(|(setting, flag)| setting.arg(flag, COMMAND)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const COMMAND: u16> FromArgMatches for SettingFlags<COMMAND> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let text = |setting: &Setting, flag: &Flag| match flag.value {
            "" => matches.get_flag(setting.key).then(|| "true".to_owned()),
            _ => matches.get_one::<String>(setting.key).cloned(),
        };
        let given = flags(COMMAND).filter_map(|(setting, flag)| Some((setting, text(setting, flag)?))).collect();
        let config = matches.try_get_one::<PathBuf>("config").ok().flatten().cloned();
        Ok(Self { config, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<const COMMAND: u16> SettingFlags<COMMAND> {
    /// The defaults, changed by the configuration file, changed by the flags.
    pub(crate) fn settings(&self) -> Result<Settings> {
        self.settings_over(&[])
    }

    /// The same with other defaults (key and value) where a command has some of its own.
    pub(crate) fn settings_over(&self, defaults: &[(&str, &str)]) -> Result<Settings> {
        let mut settings = Settings::builtin()?;
        for (key, value) in defaults {
            settings.put(key, value, "the defaults of this command")?;
        }
        if let Some(path) = &self.config {
            settings.put_file(path)?;
        }
        for (setting, text) in &self.given {
            let name = setting.flag.as_ref().map_or(setting.key, |flag| flag.name);
            settings.put(setting.key, text, &format!("--{name}"))?;
            settings.serve.given.push(setting.key.to_owned());
        }
        Ok(settings)
    }

    /// Whether the flag of this setting was given.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.given.iter().any(|(setting, _)| setting.key == key)
    }
}
