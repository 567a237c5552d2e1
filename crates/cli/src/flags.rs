//! The flags that `simulate` and `compare` share, and what they write.

use crate::fault::Hinted;
use crate::files::Draft;
use crate::output::Format;
use crate::settings::Settings;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// What to simulate. Each flag is a setting of the configuration file and wins over it.
#[derive(Args)]
pub(crate) struct RunFlags {
    /// Settings from a TOML file; 'arles check-config --default' prints one with every default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Trace to run, plain or gzip; without one, jobs come from the generator
    #[arg(long, value_name = "FILE", help_heading = "Jobs", conflicts_with = "generate")]
    trace: Option<String>,
    /// Format of the trace: arles, gavel, philly or openb [default: the first line decides]
    #[arg(long, value_name = "NAME", help_heading = "Jobs")]
    format: Option<String>,
    /// Deal imported jobs out to tenants: round-robin:N or seeded:N
    #[arg(long, value_name = "SPLIT", help_heading = "Jobs")]
    tenants: Option<String>,
    /// What imported jobs run where the trace does not say: NAME:WEIGHT,...
    #[arg(long, value_name = "MIX", help_heading = "Jobs")]
    workloads: Option<String>,
    /// What the trace's names of kinds mean: G2=a100,G3=a10
    #[arg(long, value_name = "NAMES", help_heading = "Jobs")]
    kind_names: Option<String>,
    /// Generate the jobs: jobs=1000,load=0.8,...; the keys are those of the configuration file
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Jobs")]
    generate: Option<String>,
    /// Leave out jobs that fit no kind, instead of refusing the trace
    #[arg(long, help_heading = "Jobs")]
    drop_unfit: bool,
    /// GPUs of each kind, such as v100:36,p100:36,k80:36
    #[arg(long, value_name = "KIND:COUNT", help_heading = "Cluster")]
    cluster: Option<String>,
    /// Most GPUs on one node
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    gpus_per_node: Option<String>,
    /// Measured rates (Gavel's JSON); without them, the built-in performance model is the truth
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    rates: Option<String>,
    /// Kind on which durations and fractional floors are measured [default: the fastest that fits]
    #[arg(long, value_name = "KIND", help_heading = "Cluster")]
    reference: Option<String>,
    /// Nodes that are away for a while: NODE@FROM..UNTIL,... such as v100-003@1h..2h
    #[arg(long, value_name = "OUTAGES", help_heading = "Cluster")]
    fail: Option<String>,
    /// A file of outages, one to a line
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    node_events: Option<String>,
    /// Policies, separated by commas, or all; 'arles policies' lists them
    #[arg(long, value_name = "NAMES", help_heading = "Scheduling")]
    policy: Option<String>,
    /// Time between two decisions, such as 360s, 6m or 1h
    #[arg(long, value_name = "TIME", help_heading = "Scheduling")]
    round: Option<String>,
    /// Lost at every start of a job after its first, where its trace does not say
    #[arg(long, value_name = "TIME", help_heading = "Scheduling")]
    restart: Option<String>,
    /// How long a stopping job holds its GPUs to save its state
    #[arg(long, value_name = "TIME", help_heading = "Scheduling")]
    checkpoint: Option<String>,
    /// A job that is cut off loses what it did since the last multiple of this
    #[arg(long, value_name = "TIME", help_heading = "Scheduling")]
    checkpoint_every: Option<String>,
    /// Who says how fast everything is [default: oracle]; 'arles estimators' lists them
    #[arg(long, value_name = "NAME", help_heading = "Learning")]
    estimator: Option<String>,
    /// Relative error of one measurement [default: 0.03]
    #[arg(long, value_name = "RATIO", help_heading = "Learning")]
    noise: Option<String>,
    /// How far the built-in world deviates from the performance model [default: 0]
    #[arg(long, value_name = "RATIO", help_heading = "Learning")]
    deviation: Option<String>,
    /// Whether unused GPUs stay on or are switched off: on or off [default: on]
    #[arg(long, value_name = "ON|OFF", help_heading = "Cluster")]
    unused: Option<String>,
    /// Decides every random draw; same seed, same bytes
    #[arg(long, value_name = "N")]
    seed: Option<String>,
    /// Simulations at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<String>,
}

impl RunFlags {
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
        let flags = [
            ("--trace", "trace.file", &self.trace),
            ("--format", "trace.format", &self.format),
            ("--tenants", "trace.tenants", &self.tenants),
            ("--workloads", "trace.workloads", &self.workloads),
            ("--kind-names", "trace.kind-names", &self.kind_names),
            ("--cluster", "cluster.gpus", &self.cluster),
            ("--gpus-per-node", "cluster.gpus-per-node", &self.gpus_per_node),
            ("--rates", "rates.file", &self.rates),
            ("--reference", "simulation.reference", &self.reference),
            ("--fail", "simulation.fail", &self.fail),
            ("--node-events", "simulation.node-events", &self.node_events),
            ("--policy", "simulation.policies", &self.policy),
            ("--round", "simulation.round", &self.round),
            ("--restart", "simulation.restart", &self.restart),
            ("--checkpoint", "simulation.checkpoint", &self.checkpoint),
            ("--checkpoint-every", "simulation.checkpoint-every", &self.checkpoint_every),
            ("--estimator", "simulation.estimator", &self.estimator),
            ("--noise", "simulation.noise", &self.noise),
            ("--deviation", "simulation.deviation", &self.deviation),
            ("--unused", "simulation.unused", &self.unused),
            ("--seed", "simulation.seed", &self.seed),
            ("--threads", "simulation.threads", &self.threads),
        ];
        for (flag, key, value) in flags {
            if let Some(value) = value {
                settings.put(key, value, flag)?;
            }
        }
        if let Some(text) = &self.generate {
            settings.put_generate(text, "--generate")?;
            settings.trace = None;
        }
        settings.drop_unfit |= self.drop_unfit;
        self.check_import_flags(&settings)?;
        Ok(settings)
    }

    /// Whether policies were named.
    pub(crate) fn names_policies(&self) -> bool {
        self.policy.is_some()
    }

    /// Whether a cluster was named, or a file that may name one.
    pub(crate) fn names_cluster(&self) -> bool {
        self.cluster.is_some() || self.config.is_some()
    }

    /// Flags about importing mean nothing without a trace; whoever gives one expects it to do something.
    fn check_import_flags(&self, settings: &Settings) -> Result<()> {
        let flags = [
            ("--format", &self.format),
            ("--tenants", &self.tenants),
            ("--workloads", &self.workloads),
            ("--kind-names", &self.kind_names),
        ];
        match flags.iter().find(|(_, value)| value.is_some()) {
            Some((flag, _)) if settings.trace.is_none() => Err(Hinted::new(
                format!("{flag} is about the import of a trace, and the jobs here come from the generator"),
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
    /// How to print the numbers
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table", help_heading = "Results")]
    pub(crate) output: Format,
    /// Write a report: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    report: Option<PathBuf>,
    /// Write every job of every policy as CSV
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
