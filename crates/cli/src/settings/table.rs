//! What can be set: the one place where a setting is written down.
//!
//! A row is a description, the key in the configuration file, its default, its flag, and how a text becomes a value. From it come
//! the field, the default, `arles check-config --default`, the errors about unknown keys, and the flag with its help. A row
//! whose value is a field of [`Settings`] or [`ServeSettings`] names the field's type; the others set a part of `import` or `generate`.

use super::flags::{
    COMPARE, DOCTOR_ALONE, Flag, GENERATE, IMPORT, KUBERNETES, KUBERNETES_SHADOW, REPRODUCE, RUN, SERVE, SHADOW,
    SHADOWS, SLURM, WORLD,
};
use super::parse::*;
use super::{Setting, from_default};
use crate::cluster::{self, Counts, Outage};
use crate::engines::{self, EngineEntry};
use crate::estimation::Estimation;
use crate::logging::{self, LogFormat};
use crate::moment::Moment;
use crate::quantity::{bytes, number, positive_seconds, seconds, truth, whole};
use anyhow::Result;
use arles_api::{KindSpec, Quota};
use arles_core::allocate::PolicyEntry;
use arles_core::{Kind, Tenant};
use arles_daemon::service::SharedEstimates;
use arles_engine::EnergySource;
use arles_engine::kubernetes::Mode;
use arles_engine::{MigLayout, Sharing};
use arles_sim::trace::generate::{GenerateOptions, submitters};
use arles_sim::trace::import::{ImportOptions, kind_names};
use std::net::SocketAddr;
use std::path::PathBuf;
use tracing::level_filters::LevelFilter;

/// Makes a struct and the table of what sets it; `$place` leads to it from all settings, `$more` are fields that no row names.
macro_rules! settings {
    (
        $(#[$about:meta])* $name:ident, $table:ident, $place:expr, { $($more:ident: $more_type:ty = $more_value:expr),* $(,)? }
        $(
            #[doc = $help:literal]
            $key:literal = $default:literal, $flag:expr => $field:ident $(. $part:ident)* $(: $type:ty)? = $parse:expr;
        )*
    ) => {
        $(#[$about])*
        #[derive(Clone)]
        pub(crate) struct $name {
            $($(#[doc = $help] pub(crate) $field: $type,)?)*
            $(pub(crate) $more: $more_type,)*
        }

        impl $name {
            pub(super) fn from_defaults() -> Result<Self> {
                Ok(Self {
                    $($($field: from_default::<$type>($key, $default, $parse)?,)?)*
                    $($more: $more_value,)*
                })
            }
        }

        pub(super) static $table: &[Setting] = &[$(Setting {
            key: $key,
            default: $default,
            help: $help,
            flag: $flag,
            put: |settings, text| {
                let place: fn(&mut Settings) -> &mut $name = $place;
                let parse: fn(&str) -> Result<_, String> = $parse;
                place(settings).$field $(. $part)* = parse(text)?;
                Ok(())
            },
        }),*];
    };
}

const FILE_ONLY: Option<Flag> = None;

const fn flag(name: &'static str, value: &'static str, heading: &'static str, commands: u16) -> Option<Flag> {
    Some(Flag { name, value, heading, commands })
}

settings! {
    /// What a simulation is made from, and everything else that can be set.
    Settings, SIMULATION, |settings| settings, {
        import: ImportOptions = ImportOptions::default(),
        generate: GenerateOptions = GenerateOptions::default(),
        described_kinds: Vec<(String, KindSpec)> = Vec::new(),
        kinds: Vec<Kind> = Vec::new(),
        serve: ServeSettings = ServeSettings::from_defaults()?,
    }

    /// GPUs of each kind; 'arles kinds' lists the kinds. Slurm, Kubernetes and driver names work too
    "cluster.gpus" = "v100:36,p100:36,k80:36", flag("cluster", "KIND:COUNT", "Cluster", RUN | SERVE | WORLD | GENERATE)
        => gpus: Counts = cluster::counts;
    /// Most GPUs on one node. Nodes are called v100-000, v100-001, ...
    "cluster.gpus-per-node" = "4", flag("gpus-per-node", "N", "Cluster", RUN | SERVE | WORLD)
        => gpus_per_node: u32 = |text| whole(text, 1);
    /// Nodes of a kind that stand in one rack, counted in order; gangs are kept within one where they can be. 0 for a cluster without racks
    "cluster.nodes-per-rack" = "0", flag("nodes-per-rack", "N", "Cluster", RUN | SERVE | WORLD)
        => nodes_per_rack: u32 = |text| whole(text, 0);
    /// Power limits that GPUs may be run under, for policies that choose them, such as h200@400W; none if empty
    "cluster.power-limits" = "", flag("power-limits", "KIND@WATTS", "Cluster", RUN | SERVE | WORLD)
        => power_limits: Vec<cluster::PowerLimit> = cluster::power_limits;

    /// Policies, separated by commas, or all; 'arles policies' lists them
    "simulation.policies" = "all", flag("policy", "NAMES", "Scheduling", RUN)
        => policies: Vec<&'static PolicyEntry> = policies;
    /// Seed of every random draw: the generated trace and the choices of importers
    "simulation.seed" = "0", flag("seed", "N", "", RUN | GENERATE | IMPORT)
        => seed: u64 = |text| whole(text, 0);
    /// Length of a scheduling round
    "simulation.round" = "360s", flag("round", "TIME", "Scheduling", RUN)
        => round_seconds: f64 = positive_seconds;
    /// Time lost at every restart of a job, unless its trace says otherwise
    "simulation.restart" = "0s", flag("restart", "TIME", "Scheduling", RUN)
        => restart_seconds: f64 = seconds;
    /// Time from the order to start a job until it runs: what a real cluster takes to launch it. It has its GPUs meanwhile
    "simulation.start" = "0s", flag("start", "TIME", "Scheduling", RUN | SHADOWS)
        => start_seconds: f64 = seconds;
    /// How long a stopping job keeps its GPUs to save a checkpoint
    "simulation.checkpoint" = "0s", flag("checkpoint", "TIME", "Scheduling", RUN | SHADOWS)
        => checkpoint_seconds: f64 = seconds;
    /// Checkpoint interval: a job whose node fails loses the work since its last multiple
    "simulation.checkpoint-every" = "30m", flag("checkpoint-every", "TIME", "Scheduling", RUN)
        => checkpoint_every_seconds: f64 = positive_seconds;
    /// Kind on which durations and fractional floors are measured; empty: the fastest kind that a job fits
    "simulation.reference" = "", flag("reference", "KIND", "Cluster", RUN)
        => reference: Option<String> = |text| given(text).map(kind).transpose();
    /// Drop jobs that fit no kind, instead of refusing the trace
    "simulation.drop-unfit" = "false", flag("drop-unfit", "", "Jobs", RUN)
        => drop_unfit: bool = truth;
    /// Node outages: NODE@FROM..UNTIL, separated by commas, such as v100-003@1h..2h,k80-000@30m..45m
    "simulation.fail" = "", flag("fail", "OUTAGES", "Cluster", RUN)
        => outages: Vec<Outage> = cluster::outages;
    /// File of node outages, one per line
    "simulation.node-events" = "", flag("node-events", "FILE", "Cluster", RUN)
        => node_events: Option<PathBuf> = path;
    /// Simulations to run in parallel; 0: one per core
    "simulation.threads" = "0", flag("threads", "N", "", RUN)
        => threads: usize = |text| whole(text, 0);
    /// Throughput estimator; 'arles estimators' lists them. 'oracle' knows the true rates, the others learn from measurements
    "simulation.estimator" = "oracle", flag("estimator", "NAME", "Learning", RUN)
        => estimator: Estimation = Estimation::parse;
    /// Relative standard deviation of one measurement
    "simulation.noise" = "0.03", flag("noise", "RATIO", "Learning", RUN)
        => noise: f64 = |text| number(text, 0.0, 1.0);
    /// Relative standard deviation of the simulated cluster from the performance model, which estimators know
    "simulation.deviation" = "0", flag("deviation", "RATIO", "Cluster", RUN | SERVE | WORLD)
        => deviation: f64 = |text| number(text, 0.0, 2.0);
    /// Two jobs on one GPU: on (policies may put them there, where both fit) or off (one job has it to itself)
    "simulation.shared-gpus" = "on", flag("shared-gpus", "ON|OFF", "Cluster", RUN)
        => shared_gpus: bool = switched_on;
    /// Unused GPUs: on (they draw idle power) or off (they draw nothing)
    "simulation.unused" = "on", flag("unused", "ON|OFF", "Cluster", RUN)
        => unused_off: bool = switched_off;

    /// Part of its fair speed that everybody may be asked to give up to save power, for policies that weigh the two
    "simulation.epsilon" = "0.05", flag("epsilon", "RATIO", "Scheduling", RUN)
        => epsilon: f64 = epsilon;
    /// Time after which a tenant's past use counts half, such as 7d; empty: past use does not count
    "simulation.half-life" = "", flag("half-life", "TIME", "Scheduling", RUN)
        => half_life_seconds: Option<f64> = half_life;
    /// GPUs of a job that ends: on (the next job of its tenant and workload has them at once) or off (they wait for the next round)
    "simulation.refill" = "off", flag("refill", "ON|OFF", "Scheduling", RUN)
        => refill: bool = switched_on;
    /// Power that all GPUs together may draw: WATTS, or WATTS@TIME from a time on, separated by commas, such as 12kW,8kW@6h,none@12h; empty: no limit
    "simulation.power-budget" = "", flag("power-budget", "BUDGETS", "Cluster", RUN)
        => power_budget: Vec<(Moment, Option<f64>)> = cluster::budgets;
    /// File of power budgets, one per line, from a time of every day or a date on, such as 0.8MW@18:00
    "simulation.budget-events" = "", flag("budget-events", "FILE", "Cluster", RUN | SERVE)
        => budget_events: Option<PathBuf> = path;
    /// Electricity by the hour: a CSV of from, per_kwh and kg_per_kwh; jobs with a deadline wait for cheaper hours
    "simulation.prices" = "", flag("prices", "FILE", "Cluster", RUN | SERVE)
        => prices: Option<PathBuf> = path;

    /// Measured rates (Gavel's JSON); empty: the built-in performance model is the ground truth
    "rates.file" = "", flag("rates", "FILE", "Cluster", RUN | SERVE | WORLD | GENERATE)
        => rates: Option<PathBuf> = path;

    /// Trace to run, plain or gzip; empty: jobs come from the generator
    "trace.file" = "", flag("trace", "FILE", "Jobs", RUN)
        => trace: Option<PathBuf> = path;
    /// Trace format: arles, gavel, philly or openb; empty: detected from the first line
    "trace.format" = "", flag("format", "NAME", "Jobs", RUN | IMPORT)
        => format: Option<String> = |text| given(text).map(format).transpose();
    /// Assign imported jobs to N tenants, round-robin:N or seeded:N; empty: the trace's own tenants
    "trace.tenants" = "", flag("tenants", "SPLIT", "Jobs", RUN | IMPORT)
        => import.tenants = |text| given(text).map(parsed).transpose();
    /// Workloads of imported jobs where the trace names none: NAME:WEIGHT, separated by commas; empty: the generator's mix
    "trace.workloads" = "", flag("workloads", "MIX", "Jobs", RUN | IMPORT | SHADOWS)
        => import.workloads = |text| mix_or(text, ImportOptions::default().workloads);
    /// GPU kinds behind the trace's own names, such as G2=a100,G3=a10
    "trace.kind-names" = "", flag("kind-names", "NAMES", "Jobs", RUN | IMPORT)
        => import.kind_names = |text| given(text).map_or(Ok(Vec::new()), |text| kind_names(text).map_err(|e| e.message));

    /// Number of jobs
    "generate.jobs" = "1000", FILE_ONLY => generate.jobs = jobs;
    /// Offered work over what the whole cluster could do if it never idled; sets the arrival rate. Empty: the rate below
    "generate.load" = "0.8", FILE_ONLY
        => load: Option<f64> = |text| given(text).map(|text| number(text, 0.001, 1000.0)).transpose();
    /// Arrivals: at-once, poisson:PER_HOUR or diurnal:PER_HOUR:AMPLITUDE
    "generate.arrivals" = "poisson:20", FILE_ONLY => generate.arrivals = parsed;
    /// Mean duration alone on the reference kind. Durations are log-normal with a Pareto tail, cut at the cap
    "generate.mean" = "2h", FILE_ONLY => generate.durations.mean_seconds = positive_seconds;
    /// Spread of the log-normal body
    "generate.sigma" = "1.5", FILE_ONLY => generate.durations.sigma = |text| number(text, 0.0, 10.0);
    /// Share of jobs in the Pareto tail
    "generate.tail" = "0.05", FILE_ONLY => generate.durations.tail = |text| number(text, 0.0, 1.0);
    /// Exponent of the Pareto tail
    "generate.alpha" = "1.5", FILE_ONLY => generate.durations.alpha = |text| number(text, 0.01, 100.0);
    /// Longest duration
    "generate.cap" = "7d", FILE_ONLY => generate.durations.cap_seconds = positive_seconds;
    /// Tenants: NAME:WEIGHT:DEMAND, separated by commas; the demand is a tenant's part of the jobs
    "generate.tenants" = "default:1", FILE_ONLY => generate.tenants = |text| submitters(text).map_err(|e| e.message);
    /// Gang sizes: GPUS:WEIGHT, separated by commas
    "generate.gangs" = "1:70,2:15,4:10,8:5", FILE_ONLY => generate.gangs = parsed;
    /// Workloads: NAME:WEIGHT, separated by commas; 'arles workloads' lists them. Empty: one of each publicly measured family
    "generate.workloads" = "", FILE_ONLY => generate.workloads = |text| mix_or(text, GenerateOptions::default().workloads);
    /// Promised rates of training jobs: FLOOR:WEIGHT, separated by commas; a fraction of the rate alone on the reference kind, or none
    "generate.floors" = "none", FILE_ONLY => generate.floors = parsed;
    /// Share of inference jobs, which run for a period instead of a number of steps
    "generate.inference" = "0", FILE_ONLY => generate.inference = |text| number(text, 0.0, 1.0);
    /// Workloads of inference jobs; empty: the same as training jobs
    "generate.inference-workloads" = "", FILE_ONLY
        => generate.inference_workloads = |text| given(text).map(parsed).transpose();
    /// Promised rates of inference jobs
    "generate.inference-floors" = "0.5", FILE_ONLY => generate.inference_floors = parsed;

    /// Policy that the others are compared with
    "compare.baseline" = "fifo", flag("baseline", "NAME", "Scheduling", COMPARE)
        => baseline: &'static PolicyEntry = policy;
    /// Runs of each policy, each with its own seed; 0: 5 for a generated trace, 1 for a file
    "compare.seeds" = "0", flag("seeds", "N", "Scheduling", COMPARE | REPRODUCE)
        => seeds: u64 = |text| whole(text, 0);
}

settings! {
    /// What a daemon is made from, beside the cluster.
    ServeSettings, DAEMON, |settings| &mut settings.serve, {
        quotas: Vec<(String, Quota)> = Vec::new(),
        given: Vec<String> = Vec::new(),
    }

    /// State directory: the journal and the first token. 'arles backup' copies the journal while the daemon runs
    "serve.state" = "arles-state", flag("state", "FOLDER", "", SERVE)
        => state: PathBuf = |text| Ok(PathBuf::from(text));
    /// Catalog of measured rates: a file that several daemons may share; empty: catalog.db in the state directory
    "serve.catalog" = "", flag("catalog", "FILE", "", SERVE)
        => catalog: Option<PathBuf> = path;
    /// Address and port to listen on; port 0 takes any free one
    "serve.listen" = "127.0.0.1:7117", flag("listen", "ADDRESS", "", SERVE)
        => listen: SocketAddr = address;
    /// Share the state folder with other daemons: one of them leads, and another takes over when it is gone
    "serve.standby" = "false", flag("standby", "", "Standby", SERVE)
        => standby: bool = truth;
    /// Time without a sign of life after which the leader's place is taken
    "serve.lease" = "3s", flag("lease", "TIME", "Standby", SERVE)
        => lease_seconds: f64 = lease;
    /// URL that clients reach this daemon at, if it is another than the address it listens on
    "serve.advertise" = "", flag("advertise", "URL", "Standby", SERVE)
        => advertise: Option<String> = advertised;
    /// Execution backend
    "serve.engine" = "virtual", flag("engine", "NAME", "Cluster", SERVE)
        => engine: &'static EngineEntry = engines::find;
    /// GPUs to schedule programs of this machine on, with --engine local; they need not be there
    "serve.declare" = "", flag("declare", "KIND:COUNT", "Cluster", SERVE)
        => declare: Option<Counts> = declared;
    /// Slices (MIG) to divide this machine's cards of a kind into while the daemon runs, such as h200=3g.71gb+2g.35gb; takes root and idle cards
    "serve.mig-layout" = "", flag("mig-layout", "KIND=SLICES", "Cluster", SERVE)
        => mig_layout: Option<MigLayout> = mig_layout;
    /// Speed of the scheduler's clock relative to real time
    "serve.speed" = "1", flag("speed", "RATIO", "Cluster", SERVE)
        => speed: f64 = |text| number(text, 0.001, 1e6);
    /// Socket of an 'arles world' to drive, instead of a simulated cluster in this process
    "serve.world" = "", flag("world", "SOCKET", "Cluster", SERVE)
        => world: Option<PathBuf> = path;
    /// Policy of a new journal; 'arles policy NAME' switches later. With --power-limits and no policy named: fair-energy
    "serve.policy" = "oef-coop", flag("policy", "NAME", "Scheduling", SERVE | SHADOWS)
        => policy: &'static PolicyEntry = policy;
    /// Part of its fair speed that everybody may be asked to give up to save power, of a new journal
    "serve.epsilon" = "0.05", flag("epsilon", "RATIO", "Scheduling", SERVE)
        => epsilon: f64 = epsilon;
    /// Time after which a tenant's past use counts half, such as 7d, of a new journal; empty: past use does not count
    "serve.half-life" = "", flag("half-life", "TIME", "Scheduling", SERVE)
        => half_life_seconds: Option<f64> = half_life;
    /// GPUs of a job that ends, of a new journal: on (the next job of its tenant and workload has them at once) or off (they wait for the next round)
    "serve.refill" = "off", flag("refill", "ON|OFF", "Scheduling", SERVE)
        => refill: bool = switched_on;
    /// Tenants that share the cluster: NAME or NAME:WEIGHT, separated by commas. More can be added while it runs
    "serve.tenants" = "research,vision,language", flag("tenants", "TENANTS", "Scheduling", SERVE)
        => tenants: Vec<Tenant> = tenants;
    /// Length of a scheduling round
    "serve.round" = "60s", flag("round", "TIME", "Scheduling", SERVE | SHADOWS)
        => round_seconds: f64 = positive_seconds;
    /// Time between two surveys of the whole cluster
    "serve.survey" = "120s", flag("survey", "TIME", "Scheduling", SERVE | SLURM)
        => survey_seconds: f64 = positive_seconds;
    /// Time lost at every restart of a job, unless its submission says otherwise
    "serve.restart" = "30s", flag("restart", "TIME", "Scheduling", SERVE | SHADOWS)
        => restart_seconds: f64 = seconds;
    /// Grace period that training code gets to save a checkpoint
    "serve.grace" = "30s", FILE_ONLY => grace_seconds: f64 = seconds;
    /// How two jobs share a GPU with --engine local: time-slicing (in turns) or mps (at the same time, by NVIDIA's service)
    "serve.sharing" = "time-slicing", flag("sharing", "HOW", "Cluster", SERVE)
        => sharing: Sharing = sharing;
    /// Put jobs of --engine local into control groups of their own where this daemon may: they get the memory and CPUs they asked for, and no more
    "serve.control-groups" = "true", FILE_ONLY => control_groups: bool = truth;
    /// Throughput estimator; 'arles estimators' lists them
    "serve.estimator" = "learned", flag("estimator", "NAME", "Scheduling", SERVE)
        => estimator: Estimation = Estimation::parse;
    /// Let requests from this machine do everything without a token. Only with a loopback address
    "serve.open-loopback" = "false", flag("open-loopback", "", "", SERVE)
        => open_loopback: bool = truth;
    /// TLS certificate chain (PEM)
    "serve.tls-certificate" = "", flag("tls-certificate", "FILE", "", SERVE)
        => tls_certificate: Option<PathBuf> = path;
    /// Private key of the TLS certificate (PEM)
    "serve.tls-key" = "", flag("tls-key", "FILE", "", SERVE)
        => tls_key: Option<PathBuf> = path;
    /// Rate limit per token, in requests per second
    "serve.requests-per-second" = "1000", flag("requests-per-second", "N", "", SERVE)
        => requests_per_second: f64 = |text| number(text, 0.1, 1e9);
    /// Burst of requests that one token may send at once
    "serve.burst" = "2000", FILE_ONLY => burst: f64 = |text| number(text, 1.0, 1e9);
    /// Largest request body, in bytes
    "serve.body-limit" = "4194304", FILE_ONLY => body_limit: usize = |text| whole(text, 1024);
    /// Most connections at once
    "serve.connections" = "1024", FILE_ONLY => connections: usize = |text| whole(text, 1);
    /// Most of them from one address; raise it to the limit of all behind a proxy, whose clients have one address
    "serve.connections-per-address" = "512", FILE_ONLY => connections_per_address: usize = |text| whole(text, 1);
    /// Log every request on stderr
    "serve.log-requests" = "false", flag("log-requests", "", "", SERVE)
        => log_requests: bool = truth;
    /// Format of the log on stderr: text or json
    "serve.log-format" = "text", flag("log-format", "FORMAT", "", SERVE)
        => log_format: LogFormat = LogFormat::parse;
    /// Least level that is logged: error, warn, info or debug
    "serve.log-level" = "info", flag("log-level", "LEVEL", "", SERVE)
        => log_level: LevelFilter = logging::level;
    /// Journal entries after which a snapshot is written; one is also written when a restart would take too long
    "serve.snapshot-entries" = "20000", flag("snapshot-entries", "N", "", SERVE)
        => snapshot_entries: u64 = |text| whole(text, 1);
    /// Take this machine's clock for right, however far it is from the journal's last entry; jobs go on as if no time had passed
    "serve.accept-clock" = "false", flag("accept-clock", "", "", SERVE)
        => accept_clock: bool = truth;
    /// Keep every journal entry, for 'arles replay'
    "serve.keep-journal" = "false", flag("keep-journal", "", "", SERVE)
        => keep_journal: bool = truth;

    /// slurmrestd of --engine slurm: unix:PATH, or HOST:PORT with a token in SLURM_JWT. Without it, Slurm's commands are asked
    "slurm.rest" = "", flag("slurm-rest", "ADDRESS", "Slurm", SERVE | SLURM | SHADOW)
        => slurm_rest: Option<String> = |text| Ok(given(text).map(str::to_owned));
    /// Time between two looks at Slurm's queue while nothing is under way
    "slurm.poll" = "2s", flag("slurm-poll", "TIME", "Slurm", SERVE | SHADOW)
        => slurm_poll_seconds: f64 = positive_seconds;
    /// Partitions whose jobs arles takes, separated by commas; all if none is named. Other marked jobs are given back to Slurm
    "slurm.partitions" = "", flag("slurm-partitions", "NAMES", "Slurm", SERVE | SHADOW)
        => slurm_partitions: Vec<String> = names;
    /// Accounts whose jobs arles takes, separated by commas; all if none is named
    "slurm.accounts" = "", flag("slurm-accounts", "NAMES", "Slurm", SERVE | SHADOW)
        => slurm_accounts: Vec<String> = names;
    /// How many of a hundred marked jobs arles takes; the others are given back to Slurm
    "slurm.percent" = "100", flag("slurm-percent", "NUMBER", "Slurm", SERVE)
        => slurm_percent: f64 = |text| number(text, 0.0, 100.0);

    /// Where the nodes' GPUs say what they draw: prometheus:http://HOST:PORT, or exporter:http://{node}:9400/metrics (DCGM's or 'arles agent'). Without it, energy is estimated
    "slurm.energy" = "", flag("slurm-energy", "SOURCE", "Slurm", SERVE)
        => slurm_energy: Option<EnergySource> = |text| given(text).map(EnergySource::parse).transpose();
    /// Folder for dcgm-exporter's --hpc-job-mapping-dir, with a folder for each node in it; empty: none is written
    "slurm.job-mapping" = "", flag("slurm-job-mapping", "FOLDER", "Slurm", SERVE)
        => slurm_job_mapping: Option<PathBuf> = path;
    /// Give tenants the shares that their accounts have in Slurm's database, where it has one. 'arles tenants set' counts until the share is changed there
    "slurm.shares" = "true", FILE_ONLY => slurm_shares: bool = truth;
    /// Put two single-GPU jobs on one GPU where the policy wants it, on kinds of which all nodes have shards (gres/shard); 'arles slurm doctor' says what else that needs
    "slurm.shards" = "false", FILE_ONLY => slurm_shards: bool = truth;
    /// Kubeconfig of --engine kubernetes; empty: KUBECONFIG, the service account of this pod, or ~/.kube/config
    "kubernetes.kubeconfig" = "", flag("kubeconfig", "FILE", "Kubernetes", SERVE | KUBERNETES | KUBERNETES_SHADOW)
        => kubeconfig: Option<PathBuf> = path;
    /// What arles does: place pods that are given to it, or advise Kueue, which then admits and runs everything
    "kubernetes.mode" = "place", flag("mode", "MODE", "Kubernetes", SERVE | DOCTOR_ALONE)
        => kubernetes_mode: Mode = kubernetes_mode;
    /// Give tenants the weights and limits of Kueue's ClusterQueues, where it has any. 'arles tenants set' counts until they are changed there
    "kubernetes.queues" = "true", FILE_ONLY => kubernetes_queues: bool = truth;
    /// Pods that name this scheduler are bound by arles itself. Pods behind the gate arles/admission are taken in any case
    "kubernetes.scheduler-name" = "arles", flag("scheduler-name", "NAME", "Kubernetes", SERVE | KUBERNETES)
        => kubernetes_scheduler: String = |text| Ok(text.to_owned());
    /// Namespaces whose pods arles takes, separated by commas; all if none is named
    "kubernetes.namespaces" = "", flag("namespaces", "NAMES", "Kubernetes", SERVE | KUBERNETES_SHADOW)
        => kubernetes_namespaces: Vec<String> = names;
    /// Namespace in which arles makes pods for programs of 'arles submit'
    "kubernetes.namespace" = "arles", flag("namespace", "NAME", "Kubernetes", SERVE | KUBERNETES)
        => kubernetes_namespace: String = |text| Ok(text.to_owned());
    /// Image of programs that name none
    "kubernetes.image" = "python:3", FILE_ONLY => kubernetes_image: String = |text| Ok(text.to_owned());
    /// Volume claim in that namespace which programs mount, at the place where this daemon has its folder job-files in the state directory; empty: none
    "kubernetes.claim" = "", FILE_ONLY => kubernetes_claim: Option<String> = |text| Ok(given(text).map(str::to_owned));
    /// Where the nodes' GPUs say what they draw and which pod has them: prometheus:http://HOST:PORT, or exporter:http://{node}:9400/metrics (dcgm-exporter with its Kubernetes mapping). Without it, energy is estimated
    "kubernetes.energy" = "", flag("kubernetes-energy", "SOURCE", "Kubernetes", SERVE)
        => kubernetes_energy: Option<EnergySource> = |text| given(text).map(EnergySource::parse).transpose();
    /// Time after which a gang whose pods do not all run is given back
    "kubernetes.gang-timeout" = "5m", flag("gang-timeout", "TIME", "Kubernetes", SERVE)
        => kubernetes_gang_seconds: f64 = positive_seconds;
    /// How long a daemon that is not heard is believed to lead, by the Lease arles in that namespace; 0 to do without. Daemons of one state folder do not wait for it
    "kubernetes.lease" = "15s", FILE_ONLY => kubernetes_lease_seconds: f64 = seconds;

    /// Largest file of a job's output, with --engine local; another is begun when it is full. 'arles logs' shows them
    "output.file-size" = "16M", FILE_ONLY => output_file_bytes: u64 = |text| bytes(text, 4096);
    /// Files of a job's output that are kept, the newest
    "output.files" = "4", FILE_ONLY => output_files: u32 = |text| whole(text, 1);
    /// Output of all jobs together; that of jobs that ended first is removed when there is more
    "output.all" = "10G", FILE_ONLY => output_all_bytes: u64 = |text| bytes(text, 0);

    /// How long ended jobs are kept, from their end
    "retention.jobs" = "366d", FILE_ONLY => retention_jobs_seconds: f64 = positive_seconds;
    /// How long energy accounts and fairness over time are kept
    "retention.samples" = "366d", FILE_ONLY => retention_samples_seconds: f64 = positive_seconds;
    /// How long the log of changes is kept, which 'arles log' shows
    "retention.log" = "366d", FILE_ONLY => retention_log_seconds: f64 = positive_seconds;

    /// Folder for scheduled backups of the journal; empty: none. Best on another disk
    "backup.to" = "", flag("backup-to", "FOLDER", "", SERVE)
        => backup_to: Option<PathBuf> = path;
    /// Time between two backups
    "backup.every" = "6h", flag("backup-every", "TIME", "", SERVE)
        => backup_every_seconds: f64 = positive_seconds;
    /// Backups that stay in the folder, the newest
    "backup.keep" = "14", flag("backup-keep", "N", "", SERVE)
        => backup_keep: u32 = |text| whole(text, 1);
    /// What a tenant sees of measurements: own (how often and how sure by its own runs alone) or shared (by everybody's runs)
    "privacy.estimates" = "own", FILE_ONLY
        => estimates: SharedEstimates = estimates_shown;
}
