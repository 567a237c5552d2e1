//! Settings: what a simulation is made from, wherever it was written.
//!
//! One table, [`SETTINGS`], says what can be set and how a text becomes a value. Flags, `--generate` and the
//! configuration file all end in [`Settings::put`], so a value is checked once and refused with one sentence, whoever
//! gave it. The defaults are those of the commented file that `arles check-config --default` prints, and nowhere else.

mod file;
mod serve;

use crate::cluster::{self, Counts, Outage};
use crate::estimation::Estimation;
use crate::logging::{self, LogFormat};
use crate::quantity::{number, positive_seconds, seconds, truth, whole};
use anyhow::{Context, Result, anyhow};
use arles_core::Library;
use arles_core::allocate::{POLICIES, PolicyEntry, find_policy};
use arles_core::library::nearest;
use arles_sim::trace::Mix;
use arles_sim::trace::generate::{GenerateOptions, submitters};
use arles_sim::trace::import::{FORMATS, ImportOptions, kind_names};
use std::path::{Path, PathBuf};

pub(crate) use serve::ServeSettings;

/// The commented file with every default.
pub(crate) const DEFAULT_FILE: &str = include_str!("settings/default.toml");

/// What a simulation is made from.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) gpus: Counts,
    pub(crate) gpus_per_node: u32,
    pub(crate) policies: Vec<&'static PolicyEntry>,
    pub(crate) seed: u64,
    pub(crate) round_seconds: f64,
    pub(crate) restart_seconds: f64,
    pub(crate) checkpoint_seconds: f64,
    pub(crate) checkpoint_every_seconds: f64,
    pub(crate) reference: Option<String>,
    pub(crate) drop_unfit: bool,
    pub(crate) outages: Vec<Outage>,
    pub(crate) node_events: Option<PathBuf>,
    pub(crate) threads: usize,
    pub(crate) estimator: Estimation,
    pub(crate) noise: f64,
    pub(crate) deviation: f64,
    pub(crate) unused_off: bool,
    pub(crate) rates: Option<PathBuf>,
    pub(crate) trace: Option<PathBuf>,
    pub(crate) format: Option<String>,
    pub(crate) import: ImportOptions,
    pub(crate) generate: GenerateOptions,
    pub(crate) load: Option<f64>,
    pub(crate) baseline: &'static PolicyEntry,
    pub(crate) seeds: u64,
    pub(crate) serve: ServeSettings,
}

/// One thing that can be set.
pub(crate) struct Setting {
    /// Where it stands in the configuration file: `section.key`.
    pub(crate) key: &'static str,
    put: fn(&mut Settings, &str) -> Result<(), String>,
}

macro_rules! settings {
    ($($key:literal => |$s:ident, $text:ident| $put:expr),* $(,)?) => {
        &[$(Setting { key: $key, put: |$s, $text| { $put; Ok(()) } }),*]
    };
}

/// Everything that can be set.
pub(crate) static SETTINGS: &[Setting] = settings![
    "cluster.gpus" => |s, text| s.gpus = cluster::counts(text)?,
    "cluster.gpus-per-node" => |s, text| s.gpus_per_node = whole(text, 1)?,
    "simulation.policies" => |s, text| s.policies = policies(text)?,
    "simulation.seed" => |s, text| s.seed = whole(text, 0)?,
    "simulation.round" => |s, text| s.round_seconds = positive_seconds(text)?,
    "simulation.restart" => |s, text| s.restart_seconds = seconds(text)?,
    "simulation.checkpoint" => |s, text| s.checkpoint_seconds = seconds(text)?,
    "simulation.checkpoint-every" => |s, text| s.checkpoint_every_seconds = positive_seconds(text)?,
    "simulation.reference" => |s, text| s.reference = given(text).map(kind).transpose()?,
    "simulation.drop-unfit" => |s, text| s.drop_unfit = truth(text)?,
    "simulation.fail" => |s, text| s.outages = cluster::outages(text)?,
    "simulation.node-events" => |s, text| s.node_events = given(text).map(PathBuf::from),
    "simulation.threads" => |s, text| s.threads = whole(text, 0)?,
    "simulation.estimator" => |s, text| s.estimator = Estimation::parse(text)?,
    "simulation.noise" => |s, text| s.noise = number(text, 0.0, 1.0)?,
    "simulation.deviation" => |s, text| s.deviation = number(text, 0.0, 2.0)?,
    "simulation.unused" => |s, text| s.unused_off = match text.trim() {
        "on" => false,
        "off" => true,
        other => return Err(format!("'{other}' is neither on nor off; unused GPUs stay on or are switched off")),
    },
    "rates.file" => |s, text| s.rates = given(text).map(PathBuf::from),
    "trace.file" => |s, text| s.trace = given(text).map(PathBuf::from),
    "trace.format" => |s, text| s.format = given(text).map(format).transpose()?,
    "trace.tenants" => |s, text| s.import.tenants = given(text).map(parsed).transpose()?,
    "trace.workloads" => |s, text| s.import.workloads = mix_or(text, ImportOptions::default().workloads)?,
    "trace.kind-names" => |s, text| s.import.kind_names = match given(text) {
        None => Vec::new(),
        Some(text) => kind_names(text).map_err(|e| e.message)?,
    },
    "generate.jobs" => |s, text| s.generate.jobs = jobs(text)?,
    "generate.load" => |s, text| s.load = given(text).map(|t| number(t, 0.001, 1000.0)).transpose()?,
    "generate.arrivals" => |s, text| s.generate.arrivals = parsed(text)?,
    "generate.mean" => |s, text| s.generate.durations.mean_seconds = positive_seconds(text)?,
    "generate.sigma" => |s, text| s.generate.durations.sigma = number(text, 0.0, 10.0)?,
    "generate.tail" => |s, text| s.generate.durations.tail = number(text, 0.0, 1.0)?,
    "generate.alpha" => |s, text| s.generate.durations.alpha = number(text, 0.01, 100.0)?,
    "generate.cap" => |s, text| s.generate.durations.cap_seconds = positive_seconds(text)?,
    "generate.tenants" => |s, text| s.generate.tenants = submitters(text).map_err(|e| e.message)?,
    "generate.gangs" => |s, text| s.generate.gangs = parsed(text)?,
    "generate.workloads" => |s, text| s.generate.workloads = mix_or(text, GenerateOptions::default().workloads)?,
    "generate.floors" => |s, text| s.generate.floors = parsed(text)?,
    "generate.inference" => |s, text| s.generate.inference = number(text, 0.0, 1.0)?,
    "generate.inference-workloads" => |s, text| {
        s.generate.inference_workloads = given(text).map(parsed).transpose()?;
    },
    "generate.inference-floors" => |s, text| s.generate.inference_floors = parsed(text)?,
    "compare.baseline" => |s, text| s.baseline = policy(text)?,
    "compare.seeds" => |s, text| s.seeds = whole(text, 0)?,
    "serve.state" => |s, text| s.serve.state = PathBuf::from(text),
    "serve.listen" => |s, text| s.serve.listen = serve::address(text)?,
    "serve.engine" => |s, text| s.serve.engine = serve::engine(text)?,
    "serve.speed" => |s, text| s.serve.speed = number(text, 0.001, 1e6)?,
    "serve.world" => |s, text| s.serve.world = given(text).map(PathBuf::from),
    "serve.policy" => |s, text| s.serve.policy = policy(text)?,
    "serve.tenants" => |s, text| s.serve.tenants = serve::tenants(text)?,
    "serve.round" => |s, text| s.serve.round_seconds = positive_seconds(text)?,
    "serve.survey" => |s, text| s.serve.survey_seconds = positive_seconds(text)?,
    "serve.restart" => |s, text| s.serve.restart_seconds = seconds(text)?,
    "serve.grace" => |s, text| s.serve.grace_seconds = seconds(text)?,
    "serve.estimator" => |s, text| s.serve.estimator = Estimation::parse(text)?,
    "serve.open-loopback" => |s, text| s.serve.open_loopback = truth(text)?,
    "serve.tls-certificate" => |s, text| s.serve.tls_certificate = given(text).map(PathBuf::from),
    "serve.tls-key" => |s, text| s.serve.tls_key = given(text).map(PathBuf::from),
    "serve.requests-per-second" => |s, text| s.serve.requests_per_second = number(text, 0.1, 1e9)?,
    "serve.burst" => |s, text| s.serve.burst = number(text, 1.0, 1e9)?,
    "serve.body-limit" => |s, text| s.serve.body_limit = whole(text, 1024)?,
    "serve.connections" => |s, text| s.serve.connections = whole(text, 1)?,
    "serve.log-requests" => |s, text| s.serve.log_requests = truth(text)?,
    "serve.log-format" => |s, text| s.serve.log_format = LogFormat::parse(text)?,
    "serve.log-level" => |s, text| s.serve.log_level = logging::level(text)?,
    "serve.snapshot-entries" => |s, text| s.serve.snapshot_entries = whole(text, 1)?,
    "serve.keep-journal" => |s, text| s.serve.keep_journal = truth(text)?,
];

impl Settings {
    /// The defaults.
    pub(crate) fn builtin() -> Result<Self> {
        let mut blank = Self {
            gpus: Vec::new(),
            gpus_per_node: 1,
            policies: Vec::new(),
            seed: 0,
            round_seconds: 0.0,
            restart_seconds: 0.0,
            checkpoint_seconds: 0.0,
            checkpoint_every_seconds: 0.0,
            reference: None,
            drop_unfit: false,
            outages: Vec::new(),
            node_events: None,
            threads: 0,
            estimator: Estimation::Oracle,
            noise: 0.0,
            deviation: 0.0,
            unused_off: false,
            rates: None,
            trace: None,
            format: None,
            import: ImportOptions::default(),
            generate: GenerateOptions::default(),
            load: None,
            baseline: &POLICIES[0],
            seeds: 0,
            serve: ServeSettings::blank(),
        };
        file::apply(&mut blank, DEFAULT_FILE, "the built-in settings")?;
        Ok(blank)
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

    /// Sets one thing; `origin` is who says so.
    pub(crate) fn put(&mut self, key: &str, text: &str, origin: &str) -> Result<()> {
        let setting = SETTINGS.iter().find(|setting| setting.key == key);
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
            if SETTINGS.iter().all(|setting| setting.key != full) {
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
    SETTINGS
        .iter()
        .filter_map(|s| s.key.split_once('.'))
        .filter(|(own, _)| *own == section)
        .map(|(_, key)| key)
        .collect()
}

/// A sentence about a key that a section does not have.
fn unknown_key(section: &str, key: &str) -> String {
    let keys = keys(section);
    let near = nearest(key, keys.iter().copied()).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
    format!("[{section}] has no key '{key}'{near}; expected one of {}", keys.join(", "))
}

/// A text, unless it is empty.
fn given(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|error: T::Err| error.to_string())
}

fn mix_or(text: &str, default: Mix<String>) -> Result<Mix<String>, String> {
    given(text).map_or(Ok(default), parsed)
}

/// A number of jobs that fits in a computer's memory.
fn jobs(text: &str) -> Result<u64, String> {
    const MOST: u64 = 100_000_000;
    match whole(text, 1)? {
        jobs if jobs > MOST => Err(format!("'{text}' is too many; expected at most {MOST} jobs")),
        jobs => Ok(jobs),
    }
}

fn kind(name: &str) -> Result<String, String> {
    Library::builtin().kind(name).map(|kind| kind.name.clone()).map_err(|e| format!("{e}; 'arles kinds' lists all"))
}

fn format(name: &str) -> Result<String, String> {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    let near = nearest(name, names.iter().copied()).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
    Err(format!("there is no trace format '{name}'{near}; expected one of {}", names.join(", ")))
}

/// Looks a policy up.
pub(crate) fn policy(name: &str) -> Result<&'static PolicyEntry, String> {
    find_policy(name.trim()).ok_or_else(|| {
        let names = || POLICIES.iter().map(|policy| policy.name);
        let near = nearest(name, names()).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        let all: Vec<&str> = names().collect();
        format!("there is no policy '{name}'{near}; expected one of {}", all.join(", "))
    })
}

fn policies(text: &str) -> Result<Vec<&'static PolicyEntry>, String> {
    if text.trim() == "all" {
        return Ok(POLICIES.iter().collect());
    }
    let mut chosen: Vec<&'static PolicyEntry> = Vec::new();
    for name in text.split(',') {
        let entry = policy(name.trim())?;
        if chosen.iter().any(|known| known.name == entry.name) {
            return Err(format!("policy '{}' is listed twice in '{text}'; name it once", entry.name));
        }
        chosen.push(entry);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong<T>(put: impl Fn(&mut Settings) -> Result<T>) -> String {
        format!("{:#}", put(&mut Settings::builtin().unwrap()).err().unwrap())
    }

    #[test]
    fn the_default_file_sets_everything_once() {
        for setting in SETTINGS {
            let (section, key) = setting.key.split_once('.').unwrap();
            let body = DEFAULT_FILE.split(&format!("[{section}]\n")).nth(1).unwrap();
            let body = body.split("\n[").next().unwrap();
            assert_eq!(
                body.lines().filter(|line| line.starts_with(&format!("{key} = "))).count(),
                1,
                "{}",
                setting.key
            );
        }
        let settings = Settings::builtin().unwrap();
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
             restart, checkpoint, checkpoint-every, reference, drop-unfit, fail, node-events, threads, estimator, noise, \
             deviation, unused"
        );
        assert!(
            text("[simulations]\nround = 6")
                .starts_with("my.toml:1: there is no section [simulations] (did you mean simulation?)")
        );
        assert!(text("[simulation]\n\nround = 'x'").starts_with("my.toml:3: simulation.round: 'x' is no span of time"));
        assert!(text("round = 3").starts_with("my.toml:1: 'round' stands outside of any section"));
        assert!(text("[cluster\n").starts_with("my.toml:1: this is no TOML"));
        let put = |key: &'static str, value: &'static str| wrong(move |s| s.put(key, value, "--flag"));
        assert!(put("simulation.policies", "max-min-fairnes").starts_with(
            "--flag: there is no policy 'max-min-fairnes' (did you mean max-min-fairness?); expected one of oef-coop, "
        ));
        assert!(put("trace.format", "gavle").contains("did you mean gavel?"));
        assert!(wrong(|s| s.put_generate("jbos=3", "--generate")).contains("did you mean jobs?"));
    }
}
