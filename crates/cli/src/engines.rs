//! Execution backends of `arles serve`: what runs the gangs that the scheduler orders.
//!
//! Adding one is a file in `crates/engine` and a line in [`ENGINES`]; `--engine`, its help and its errors come from the table.

use crate::fault::Hinted;
use crate::settings::{Settings, find as find_in};
use crate::setup::Setup;
use anyhow::{Context, Result};
use arles_core::engine::Engine;
use arles_core::{Cluster, ClusterChange, Kind, KindId, Library, NodeSpec};
use arles_engine::intake::Intake;
use arles_engine::kubernetes::{Mode, ProgramOptions, SharedFolder, tools as kubernetes_tools};
use arles_engine::slurm::{Canary, KindOf, tools};
use arles_engine::{
    CardLimits, EnergySource, GpuMeter, Inventory, Kubernetes, KubernetesOptions, Local, LocalOptions, MetricsMeter,
    Nominal, Nvidia, OutputLimits, Remote, Sharing, Slurm, SlurmOptions, Virtual, put_back_left_over,
};
use arles_sim::measure::Noise;
use arles_sim::truth::Truth;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// What an engine may be made from.
pub(crate) struct EngineSetup<'s> {
    pub(crate) settings: &'s Settings,
    pub(crate) setup: &'s Setup<'s>,
    /// How the workloads really run: what a simulated cluster is made of.
    pub(crate) truth: &'s Arc<Truth>,
    /// Where an engine that finds jobs itself leaves word of them.
    pub(crate) intake: OnceCell<Intake>,
}

/// An execution backend.
pub(crate) struct EngineEntry {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) make: fn(&EngineSetup<'_>) -> Result<Box<dyn Engine>>,
}

/// All execution backends.
pub(crate) static ENGINES: &[EngineEntry] = &[
    EngineEntry {
        name: "virtual",
        summary: "simulated cluster, in this process or behind --world SOCKET",
        make: |from| {
            Ok(match &from.settings.serve.world {
                Some(socket) => Box::new(Remote::connect(socket.clone())),
                None => Box::new(simulated(from.settings, from.setup, from.truth)),
            })
        },
    },
    EngineEntry {
        name: "local",
        summary: "programs as processes of this machine, on its NVIDIA GPUs or those of --declare",
        make: local,
    },
    EngineEntry {
        name: "slurm",
        summary: "a Slurm cluster: jobs of 'sbatch' that are marked for arles, on Slurm's nodes",
        make: slurm,
    },
    EngineEntry {
        name: "kubernetes",
        summary: "a Kubernetes cluster: pods that are given to arles, on the cluster's nodes with GPUs",
        make: kubernetes,
    },
];

/// This machine. Its clock is everybody's, so it cannot run faster than real time.
fn local(from: &EngineSetup<'_>) -> Result<Box<dyn Engine>> {
    let serve = &from.settings.serve;
    if serve.speed != 1.0 {
        let hint = "leave --speed out, or use --engine virtual";
        return Err(Hinted::new(format!("--speed is {}, and programs run in real time", serve.speed), hint).into());
    }
    let mut environment = BTreeMap::new();
    // With the token that every job gets, its code reports without anybody's help. A port that is not known yet cannot be told.
    if serve.listen.port() != 0 {
        environment.insert("ARLES_URL".to_owned(), url_here(serve.listen, serve.tls_certificate.is_some()));
    }
    let (meter, devices): (Box<dyn GpuMeter>, BTreeMap<String, Vec<String>>) = match &serve.declare {
        Some(_) => {
            tracing::warn!("GPUs were declared: energy is nominal, from the kinds' published power, and not measured");
            (Box::new(Nominal), BTreeMap::new())
        }
        None => {
            let nodes = found_gpus()?.kinds.into_iter().map(|(kind, cards)| (format!("{kind}-000"), cards));
            (Box::new(nvidia()?), nodes.collect())
        }
    };
    if serve.sharing == Sharing::Mps && serve.declare.is_some() {
        let hint = "leave --sharing out: it is about real NVIDIA GPUs";
        return Err(Hinted::new("--sharing mps does not go with --declare", hint).into());
    }
    let options = LocalOptions {
        state: serve.state.join("gangs"),
        logs: serve.state.join("logs"),
        output: OutputLimits {
            file_bytes: serve.output_file_bytes,
            files: serve.output_files,
            all_bytes: serve.output_all_bytes,
        },
        shim: vec![executable()?, "shim".to_owned()],
        control_groups: serve.control_groups,
        sharing: serve.sharing,
        grace_seconds: serve.grace_seconds,
        devices,
        environment,
        boot: arles_daemon::clock::wall().0,
    };
    for sentence in put_back_left_over() {
        tracing::warn!("{sentence}");
    }
    let limiter = card_limits(from, &options.devices)?;
    let local = Local::open(from.setup.cluster.clone(), options, meter)?;
    tracing::info!("{}", local.isolation());
    Ok(Box::new(match limiter {
        Some(limiter) => local.with_limiter(Box::new(limiter)),
        None => local,
    }))
}

/// Sets the power limits of the configuration; none where there are none. Every card is tried first: what cannot be set is said before a job
/// depends on it.
fn card_limits(from: &EngineSetup<'_>, devices: &BTreeMap<String, Vec<String>>) -> Result<Option<CardLimits>> {
    let cluster = &from.setup.cluster;
    if from.settings.power_limits.is_empty() {
        return Ok(None);
    }
    if from.settings.serve.declare.is_some() {
        let hint = "leave one of the two out: GPUs that were declared have no power limit to set";
        return Err(Hinted::new("--power-limits does not go with --declare", hint).into());
    }
    for (_, node) in cluster.present() {
        let modes = cluster.modes().iter().filter(|(_, base)| *base == node.kind);
        let limits: Vec<f64> = modes.filter_map(|(mode, _)| cluster.kind(*mode).power_limit).collect();
        for device in devices.get(&node.name).into_iter().flatten().filter(|_| !limits.is_empty()) {
            CardLimits::try_on(device, limits.iter().copied()).map_err(|why| {
                let hint = "leave --power-limits out, or run the daemon where it may set them";
                Hinted::new(format!("--power-limits: {why}"), hint)
            })?;
        }
    }
    Ok(Some(CardLimits::default()))
}

/// Where a process of this machine reaches the daemon.
fn url_here(listen: SocketAddr, tls: bool) -> String {
    let address = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), listen.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), listen.port()),
        _ => listen,
    };
    format!("{}://{address}", if tls { "https" } else { "http" })
}

/// This very program, by a path that stays the same when a newer one is installed there.
fn executable() -> Result<String> {
    let path = std::env::current_exe().context("cannot find the arles program, which jobs are started with")?;
    path.into_os_string().into_string().map_err(|path| {
        let hint = "move it to a folder whose name is UTF-8";
        Hinted::new(format!("the arles program is at {}", path.display()), hint).into()
    })
}

/// Slurm, whose clock is everybody's too.
fn slurm(from: &EngineSetup<'_>) -> Result<Box<dyn Engine>> {
    let serve = &from.settings.serve;
    if serve.speed != 1.0 {
        let hint = "leave --speed out, or use --engine virtual";
        return Err(Hinted::new(format!("--speed is {}, and Slurm runs in real time", serve.speed), hint).into());
    }
    let mut environment = BTreeMap::new();
    if serve.open_loopback {
        environment.insert("ARLES_URL".to_owned(), format!("http://{}", serve.listen));
    }
    let state = std::path::absolute(&serve.state)?;
    let options = SlurmOptions {
        kind_of: Some(slurm_kinds(from.settings)),
        folder: state.join("slurm"),
        logs: state.join("logs"),
        environment,
        boot: arles_daemon::clock::wall().0,
        ..slurm_options(from.settings)
    };
    let meter = meter(serve.slurm_energy.as_ref());
    tracing::info!("energy: {}", energy_source(from.settings));
    let engine = Slurm::new(from.setup.cluster.clone(), options, meter)?;
    let _ = from.intake.set(engine.intake());
    Ok(Box::new(engine))
}

/// What the nodes' GPUs draw: by collected metrics, or by the published power of their kinds.
fn meter(source: Option<&EnergySource>) -> Box<dyn GpuMeter> {
    match source {
        Some(source) => Box::new(MetricsMeter::start(source.clone())),
        None => Box::new(Nominal),
    }
}

/// Where figures of energy come from, in words: for everything that shows them.
pub(crate) fn energy_source(settings: &Settings) -> String {
    let serve = &settings.serve;
    let nominal = "estimated: the published power of each kind of GPU, idle or busy";
    let silent = "a GPU of which nothing was heard for a minute counts with its kind's published power";
    match (serve.engine.name, &serve.declare) {
        ("virtual", _) => "simulated, by the performance model".into(),
        ("slurm", _) => {
            serve.slurm_energy.as_ref().map_or_else(|| nominal.into(), |source| format!("measured: {source}; {silent}"))
        }
        // Where Kueue places, which nodes a job is on is not followed.
        ("kubernetes", _) => match serve.kubernetes_energy.as_ref().filter(|_| serve.kubernetes_mode == Mode::Place) {
            Some(source) => {
                format!("measured: {source}; {silent}, and so does one of which it is not known whose it is")
            }
            None => nominal.into(),
        },
        ("local", Some(_)) => nominal.into(),
        ("local", None) => "measured: the cards' own meters (NVML)".into(),
        _ => "by the engine".into(),
    }
}

/// How the settings say that Slurm is reached.
pub(crate) fn slurm_options(settings: &Settings) -> SlurmOptions {
    let serve = &settings.serve;
    // Where the environment of Slurm's own tools has it, too: a token must not be in a file that others can read.
    let token = std::env::var("SLURM_JWT").ok().map(|token| {
        (std::env::var("SLURM_USER").or_else(|_| std::env::var("USER")).unwrap_or_else(|_| "root".into()), token)
    });
    SlurmOptions {
        conf: None,
        rest: serve.slurm_rest.clone(),
        token,
        folder: std::path::PathBuf::new(),
        logs: std::path::PathBuf::new(),
        environment: BTreeMap::new(),
        job_mapping: serve.slurm_job_mapping.clone(),
        poll_seconds: serve.slurm_poll_seconds,
        canary: Canary {
            partitions: serve.slurm_partitions.clone(),
            accounts: serve.slurm_accounts.clone(),
            percent: serve.slurm_percent,
        },
        kind_of: None,
        boot: 0,
    }
}

/// Kinds by the types that Slurm's nodes give their GPUs. Two jobs share no GPU there unless the operator wants it.
pub(crate) fn slurm_kinds(settings: &Settings) -> KindOf {
    let (described, shards) = (settings.kinds.clone(), settings.serve.slurm_shards);
    Box::new(move |name| {
        let own = described.iter().find(|kind| kind.name == name).cloned();
        let kind = own.or_else(|| Library::builtin().any_kind(name).ok())?;
        let max_jobs = if shards { kind.max_jobs } else { 1 };
        Some(Kind { max_jobs, ..kind })
    })
}

/// Kubernetes, in real time as well.
fn kubernetes(from: &EngineSetup<'_>) -> Result<Box<dyn Engine>> {
    let serve = &from.settings.serve;
    if serve.speed != 1.0 {
        let hint = "leave --speed out, or use --engine virtual";
        return Err(Hinted::new(format!("--speed is {}, and Kubernetes runs in real time", serve.speed), hint).into());
    }
    tracing::info!("energy: {}", energy_source(from.settings));
    let path = std::path::absolute(&serve.state)?.join("job-files");
    let options = KubernetesOptions {
        kubeconfig: serve.kubeconfig.clone(),
        mode: serve.kubernetes_mode,
        scheduler_name: serve.kubernetes_scheduler.clone(),
        namespaces: serve.kubernetes_namespaces.clone(),
        gang_timeout_seconds: serve.kubernetes_gang_seconds,
        programs: ProgramOptions {
            namespace: serve.kubernetes_namespace.clone(),
            image: serve.kubernetes_image.clone(),
            folder: serve.kubernetes_claim.clone().map(|claim| SharedFolder { path, claim: Some(claim) }),
            environment: BTreeMap::new(),
            grace_seconds: serve.grace_seconds,
        },
        kind_of: Some(product_kinds(from.settings)),
        lease_seconds: serve.kubernetes_lease_seconds,
        boot: arles_daemon::clock::wall().0,
    };
    let engine = Kubernetes::new(from.setup.cluster.clone(), options, meter(serve.kubernetes_energy.as_ref()))?;
    let _ = from.intake.set(engine.intake());
    Ok(Box::new(engine))
}

/// Kinds by the product labels of Kubernetes' nodes. Two jobs share no GPU there.
pub(crate) fn product_kinds(settings: &Settings) -> KindOf {
    let described = settings.kinds.clone();
    Box::new(move |product| {
        let is_it = |kind: &&Kind| kind.name == product || kind.aliases.iter().any(|alias| alias == product);
        let own = described.iter().find(is_it).cloned();
        let kind = own.or_else(|| Library::builtin().any_kind(product).ok())?;
        Some(Kind { max_jobs: 1, ..kind })
    })
}

/// The cluster that Kubernetes has.
pub(crate) fn kubernetes_cluster(settings: &Settings) -> Result<Cluster> {
    let doctor = "'arles kubernetes doctor' looks at what is wrong";
    let wrong = |error: arles_core::engine::EngineError| Hinted::new(format!("--engine kubernetes: {error}"), doctor);
    let there = kubernetes_tools::Cluster::open(settings.serve.kubeconfig.as_deref()).map_err(wrong)?;
    let found = there.nodes(&product_kinds(settings)).map_err(wrong)?;
    for (node, product) in &found.unknown {
        tracing::warn!("node {node} has GPUs with '{product}', which 'arles kinds' does not know; it is left out");
    }
    if found.nodes.is_empty() {
        let hint = "nodes need the label nvidia.com/gpu.product (NVIDIA's GPU feature discovery sets it); describe products that 'arles kinds' lacks in [[kind]] tables";
        return Err(Hinted::new("--engine kubernetes found no node with GPUs of a known kind", hint).into());
    }
    cluster_of(found.nodes)
}

/// The cluster that Slurm has.
pub(crate) fn slurm_cluster(settings: &Settings) -> Result<Cluster> {
    let serve = slurm_options(settings);
    let found = tools::find_nodes(serve.rest.as_deref(), serve.token, &slurm_kinds(settings)).map_err(|error| {
        Hinted::new(format!("--engine slurm: {error}"), "'arles slurm doctor' looks at what is wrong")
    })?;
    for (node, kind) in &found.unknown {
        tracing::warn!("node {node} has GPUs of type '{kind}', which 'arles kinds' does not know; it is left out");
    }
    if found.nodes.is_empty() {
        let hint = "give GPUs a type in gres.conf, such as Type=v100, and describe types that 'arles kinds' lacks in [[kind]] tables";
        return Err(Hinted::new("--engine slurm found no node with GPUs of a known kind", hint).into());
    }
    cluster_of(found.nodes)
}

/// A cluster of nodes that another system has.
fn cluster_of(found: Vec<NodeSpec>) -> Result<Cluster> {
    let mut kinds: Vec<Kind> = Vec::new();
    for node in &found {
        if !kinds.iter().any(|kind| kind.name == node.kind.name) {
            kinds.push(node.kind.clone());
        }
    }
    let at = |node: &NodeSpec| kinds.iter().position(|kind| kind.name == node.kind.name).unwrap_or(0);
    let nodes: Vec<_> = found.iter().map(|node| (node.name.clone(), KindId(at(node) as u16), node.gpus)).collect();
    let mut cluster = Cluster::new(kinds, nodes)?;
    for node in found {
        cluster.apply(&ClusterChange::Join(node))?;
    }
    Ok(cluster)
}

fn nvidia() -> Result<Nvidia> {
    let hint = "name GPUs with --declare, for instance --declare v100:2,k80:2; they need not be there";
    Nvidia::open().map_err(|sentence| Hinted::new(format!("--engine local has no GPUs: {sentence}"), hint).into())
}

/// The cards of this machine by kind.
pub(crate) fn found_gpus() -> Result<Inventory> {
    let found = nvidia()?.inventory();
    for name in &found.unknown {
        tracing::warn!("'{name}' is a GPU that 'arles kinds' does not know; it is left out");
    }
    if found.kinds.is_empty() {
        let hint = "describe the kind in a [[kind]] table and name its GPUs with --declare";
        return Err(Hinted::new("--engine local found no GPU of a known kind", hint).into());
    }
    Ok(found)
}

/// Looks an engine up.
pub(crate) fn find(name: &str) -> Result<&'static EngineEntry, String> {
    find_in("engine", name.trim(), ENGINES.iter(), |entry| entry.name)
}

/// The engines with their summaries, for help.
pub(crate) fn help() -> String {
    let lines: Vec<String> = ENGINES.iter().map(|entry| format!("  {}  {}", entry.name, entry.summary)).collect();
    format!("Engines:\n{}", lines.join("\n"))
}

/// A simulated cluster.
pub(crate) fn simulated(settings: &Settings, setup: &Setup<'_>, truth: &Arc<Truth>) -> Virtual {
    let noise = Noise { rate_sd: settings.noise, watts_sd: settings.noise, seed: settings.seed };
    // Another number at every start: the counters of this cluster begin anew with the process.
    let boot = arles_daemon::clock::wall().0;
    Virtual::new(setup.cluster.clone(), Arc::clone(truth), setup.world_options(), noise, boot)
}
