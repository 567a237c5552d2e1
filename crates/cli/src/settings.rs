//! Settings: what a simulation or a daemon is made from, wherever it was written.
//!
//! [`table`] says once what can be set. Flags, `--generate` and the configuration file all end in [`Settings::put`], so a value is
//! checked once and refused with one sentence, whoever gave it.

mod file;
mod flags;
mod kinds;
mod parse;
mod quotas;
mod table;

use anyhow::{Context, Result, anyhow};
use arles_core::library::suggestion;
use std::path::Path;

pub(crate) use flags::{
    COMPARE, GENERATE, IMPORT, KUBERNETES, KUBERNETES_DOCTOR, KUBERNETES_SHADOW, REPRODUCE, SERVE, SHADOW, SIMULATE,
    SLURM, SettingFlags, WORLD,
};
pub(crate) use parse::{find, frequency, policy};
pub(crate) use table::{ServeSettings, Settings};

/// One thing that can be set.
pub(crate) struct Setting {
    /// Where it stands in the configuration file: `section.key`.
    key: &'static str,
    /// Its default, as a user would write it.
    default: &'static str,
    /// One description for the file and the flag.
    help: &'static str,
    flag: Option<flags::Flag>,
    put: fn(&mut Settings, &str) -> Result<(), String>,
}

/// Everything that can be set.
fn all() -> impl Iterator<Item = &'static Setting> + Clone {
    table::SIMULATION.iter().chain(table::DAEMON)
}

/// The value of a default.
fn from_default<T>(key: &str, text: &str, parse: fn(&str) -> Result<T, String>) -> Result<T> {
    parse(text).map_err(|sentence| anyhow!("the default of {key}: {sentence}"))
}

const FILE_HEAD: &str = "\
# Settings of `arles simulate`, `arles compare`, `arles reproduce`, `arles generate` and `arles serve`, with their defaults.
# Use a changed copy with --config FILE; flags win over the file. An unknown key is an error.
# Times are written 360s, 6m, 1.5h or 2d; a plain number is in seconds.
";

const KIND_TABLE: &str = "
# A GPU kind that 'arles kinds' does not list, by the figures of its maker; [cluster] and 'arles nodes add' may name it. One table for each.
# [[kind]]
# name = \"rtx6000\"
# memory-gib = 96
# bandwidth-gbps = 1792
# fp32-tflops = 125
# idle-watts = 30
# max-watts = 600
# Optional: product, year, tf32-tflops, fp16-tflops, int8-tops, link-gbps, hourly-usd, max-jobs, aliases = [\"...\"].
";

const QUOTA_TABLE: &str = "
# What a tenant may use; whatever is left out is not limited. 'arles tenants quota' changes it while the daemon runs. One table for each tenant.
# [quota.vision]
# jobs = 1000
# gpus = 8
# gpu-hours = 500
# kwh = 200
# submits = \"10/s\"
# Live jobs, GPUs at once, GPU-hours and kWh in a calendar month (UTC), and submissions, which may be 10/s, 600/min or 1000/h.
";

/// The commented configuration file with every default.
pub(crate) fn default_file() -> String {
    let mut text = FILE_HEAD.to_owned();
    let mut last = "";
    for setting in all() {
        let (section, key) = setting.key.split_once('.').unwrap_or(("", setting.key));
        if section != last {
            text += &format!("\n[{section}]\n");
            last = section;
        }
        let bare = setting.default.parse::<f64>().is_ok() || setting.default.parse::<bool>().is_ok();
        let value = if bare { setting.default.to_owned() } else { format!("\"{}\"", setting.default) };
        let end = if setting.help.ends_with('.') { "" } else { "." };
        text += &format!("# {}{end}\n{key} = {value}\n", setting.help.trim());
    }
    text + KIND_TABLE + QUOTA_TABLE
}

impl ServeSettings {
    /// Whether the user said what this setting is, by its flag or in a file.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.given.iter().any(|given| given == key)
    }
}

impl Settings {
    /// The defaults.
    pub(crate) fn builtin() -> Result<Self> {
        let mut settings = Self::from_defaults()?;
        // Also those that are a part of something larger.
        for setting in all() {
            settings.put(setting.key, setting.default, "the defaults")?;
        }
        Ok(settings)
    }

    /// Sets what a file of the user's says, and returns it: keys and values.
    pub(crate) fn put_file(&mut self, path: &Path) -> Result<Vec<(String, String)>> {
        let text = crate::files::read(path, "a configuration file")?;
        self.put_text(&text, &path.display().to_string())
    }

    /// Sets what the text of a configuration file says; `origin` names it in errors.
    pub(crate) fn put_text(&mut self, text: &str, origin: &str) -> Result<Vec<(String, String)>> {
        file::apply(self, text, origin)
    }

    /// Whether the user said what this setting is, by its flag or in a file.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.serve.names(key)
    }

    /// Sets one thing; `origin` is who says so.
    pub(crate) fn put(&mut self, key: &str, text: &str, origin: &str) -> Result<()> {
        if key == "cluster.gpus" {
            // The only value that may name a kind of the same file.
            let counts = crate::cluster::counts_among(text, &self.kinds);
            self.gpus = counts.map_err(|sentence| anyhow!("{origin}: {sentence}"))?;
            return Ok(());
        }
        let setting = all().find(|setting| setting.key == key);
        let setting = setting.with_context(|| format!("{origin}: there is no setting '{key}'"))?;
        (setting.put)(self, text).map_err(|sentence| anyhow!("{origin}: {sentence}"))
    }

    /// Sets what `--generate jobs=1000,load=0.8` says. A part without `=` goes on with the value before it.
    pub(crate) fn put_generate(&mut self, text: &str, origin: &str) -> Result<()> {
        let mut entries: Vec<(String, String)> = Vec::new();
        for part in text.split(',').map(str::trim) {
            match (part.split_once('='), entries.last_mut()) {
                (Some((key, value)), _) => entries.push((key.trim().to_owned(), value.trim().to_owned())),
                (None, Some((_, value))) => {
                    value.push(',');
                    value.push_str(part);
                }
                (None, None) => {
                    let sentence = format!("'{part}' sets nothing; expected KEY=VALUE such as jobs=1000,load=0.8");
                    return Err(anyhow!("{origin}: {sentence}"));
                }
            }
        }
        for (key, value) in entries {
            let full = format!("generate.{key}");
            if all().all(|setting| setting.key != full) {
                return Err(anyhow!("{origin}: {}", unknown_key("generate", &key)));
            }
            self.put(&full, &value, &format!("{origin} {key}"))?;
        }
        // Whoever writes down an arrival rate means it.
        if text.contains("arrivals=") && !text.contains("load=") {
            self.load = None;
        }
        Ok(())
    }
}

/// The keys of a section of the file.
fn keys(section: &str) -> Vec<&'static str> {
    all().filter_map(|s| s.key.split_once('.')).filter(|(own, _)| *own == section).map(|(_, key)| key).collect()
}

/// A sentence about a key that a section does not have.
fn unknown_key(section: &str, key: &str) -> String {
    let keys = keys(section);
    let near = suggestion(key, keys.iter().copied());
    format!("[{section}] has no key '{key}'{near}; expected one of {}", keys.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::allocate::POLICIES;
    use arles_sim::trace::generate::GenerateOptions;
    use arles_sim::trace::import::ImportOptions;

    fn wrong<T>(put: impl Fn(&mut Settings) -> Result<T>) -> String {
        format!("{:#}", put(&mut Settings::builtin().unwrap()).err().unwrap())
    }

    #[test]
    fn the_default_file_sets_everything_once() {
        let text = default_file();
        let mut settings = Settings::builtin().unwrap();
        let given = settings.put_text(&text, "the default file").unwrap();
        assert_eq!(given.len(), all().count());
        for setting in all() {
            let value = given.iter().find(|(key, _)| key == setting.key).map(|(_, value)| value.as_str());
            assert_eq!(value, Some(setting.default), "{}", setting.key);
        }
        assert_eq!(settings.generate, GenerateOptions::default());
        assert_eq!(settings.import, ImportOptions::default());
        assert_eq!(settings.policies.len(), POLICIES.len());
    }

    #[test]
    fn generator_options_may_hold_commas() {
        let mut settings = Settings::builtin().unwrap();
        settings.put_generate("jobs=50,gangs=1:3,2:1,load=0.5", "--generate").unwrap();
        assert_eq!((settings.generate.jobs, settings.load), (50, Some(0.5)));
        assert_eq!(settings.generate.gangs.values(), [1, 2]);
        settings.put_generate("arrivals=poisson:7", "--generate").unwrap();
        assert_eq!(settings.load, None);
    }

    #[test]
    fn wrong_settings_name_what_was_meant() {
        let text = |text: &'static str| wrong(move |s| s.put_text(text, "my.toml"));
        assert_eq!(
            text("[simulation]\nruond = 6"),
            "my.toml:2: [simulation] has no key 'ruond' (did you mean round?); expected one of policies, seed, round, \
             restart, start, checkpoint, checkpoint-every, reference, drop-unfit, fail, node-events, threads, estimator, noise, \
             deviation, shared-gpus, unused, epsilon, half-life, refill, power-budget, budget-events, prices"
        );
        assert!(
            text("[simulations]\nround = 6")
                .starts_with("my.toml:1: there is no section [simulations] (did you mean simulation?)")
        );
        assert!(text("[simulation]\n\nround = 'x'").starts_with("my.toml:3: simulation.round: 'x' is not a duration"));
        assert!(text("round = 3").starts_with("my.toml:1: 'round' is outside of any section"));
        assert!(text("[cluster\n").starts_with("my.toml:1:9: this is not TOML"));
        let put = |key: &'static str, value: &'static str| wrong(move |s| s.put(key, value, "--flag"));
        assert!(put("simulation.policies", "max-min-fairnes").starts_with(
            "--flag: there is no policy 'max-min-fairnes' (did you mean max-min-fairness?); expected one of oef-coop, "
        ));
        assert!(put("trace.format", "gavle").contains("did you mean gavel?"));
        assert!(wrong(|s| s.put_generate("jbos=3", "--generate")).contains("did you mean jobs?"));
    }
}
