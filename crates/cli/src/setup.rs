//! From settings to scenarios: reads the files they name and checks that everything fits together.

use crate::cluster;
use crate::estimation::Tutor;
use crate::files;
use crate::hourly::Hourly;
use crate::quantity::MOST_SECONDS;
use crate::settings::Settings;
use anyhow::{Result, anyhow};
use arles_core::{Cluster, KindId, Prices, WorkloadId};
use arles_sim::measure::Noise;
use arles_sim::rates::RateTable;
use arles_sim::scenario::{Options, Scenario};
use arles_sim::trace::generate::{GenerateOptions, Generator};
use arles_sim::trace::import::{self, ImportOptions, ImportReport};
use arles_sim::trace::{Length, Trace};
use arles_sim::truth::{Deviation, Truth};
use arles_sim::world::WorldOptions;
use std::sync::Arc;

/// Settings with the files they name read; makes scenarios.
pub(crate) struct Setup<'s> {
    settings: &'s Settings,
    pub(crate) cluster: Cluster,
    rates: Option<RateTable>,
    options: Options,
}

/// A trace and what became of the lines it came from.
pub(crate) struct Loaded {
    pub(crate) trace: Trace,
    pub(crate) report: Option<ImportReport>,
}

impl<'s> Setup<'s> {
    pub(crate) fn new(settings: &'s Settings) -> Result<Self> {
        let cluster = cluster::build(&settings.gpus, settings.gpus_per_node, &settings.kinds)
            .and_then(|cluster| if settings.shared_gpus { Ok(cluster) } else { cluster::unshared(&cluster) })
            .and_then(|cluster| cluster::in_racks(cluster, settings.nodes_per_rack))
            .map_err(|e| anyhow!("--cluster: {e}"))?;
        // The GPUs of this machine are not known yet.
        let limits = if settings.serve.engine.name == "local" { &[][..] } else { &settings.power_limits };
        let cluster = cluster::limited(cluster, limits).map_err(|e| anyhow!("--power-limits: {e}"))?;
        let rates = settings.rates.as_deref().map(RateTable::from_file).transpose()?;
        let mut outages = settings.outages.clone();
        if let Some(path) = &settings.node_events {
            let text = files::read(path, "a list of outages such as v100-003@1h..2h, one to a line")?;
            let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default()));
            for (number, line) in lines {
                let place = |sentence| anyhow!("{}:{number}: {sentence}", path.display());
                outages.extend(cluster::outages(line).map_err(place)?);
            }
        }
        let budgets = Hourly::of_lines(settings.power_budget.clone()).map_err(|e| anyhow!("--power-budget: {e}"))?;
        let mut power_budget = budgets.of_run();
        if let Some(path) = &settings.budget_events {
            power_budget.extend(Hourly::budgets(path)?.of_run());
        }
        let prices = match &settings.prices {
            Some(path) => Hourly::prices(path)?.of_run().map_err(|e| anyhow!("{}: {e}", path.display()))?,
            None => Prices::default(),
        };
        let options = Options {
            round_seconds: settings.round_seconds,
            restart_seconds: settings.restart_seconds,
            world_options: WorldOptions {
                start_seconds: settings.start_seconds,
                checkpoint_seconds: settings.checkpoint_seconds,
                checkpoint_every_seconds: settings.checkpoint_every_seconds,
                unused_off: settings.unused_off,
                ..WorldOptions::default()
            },
            reference: settings.reference.as_deref().map(|name| reference(name, &cluster)).transpose()?,
            epsilon: settings.epsilon,
            half_life_seconds: settings.half_life_seconds,
            refill: settings.refill,
            power_budget,
            prices,
            script: cluster::script(&outages, &cluster).map_err(|e| anyhow!("--fail: {e}"))?,
            keep_details: false,
            drop_unfit: settings.drop_unfit,
            deviation: Deviation {
                seed: settings.seed,
                rate_sd: settings.deviation,
                pair_sd: settings.deviation,
                watts_sd: settings.deviation / 2.0,
            },
        };
        Ok(Self { settings, cluster, rates, options })
    }

    /// The estimator of the settings, trained for a scenario; `None` for an oracle.
    pub(crate) fn tutor(&self, scenario: &Scenario, seed: u64) -> Result<Option<Tutor>> {
        let noise = Noise { rate_sd: self.settings.noise, watts_sd: self.settings.noise, seed };
        self.settings.estimator.tutor(scenario, noise)
    }

    /// Saving state, and what is lost when there is no time for it.
    pub(crate) fn world_options(&self) -> WorldOptions {
        self.options.world_options
    }

    /// The measured rates, if there are any.
    pub(crate) fn rates(&self) -> Option<&RateTable> {
        self.rates.as_ref()
    }

    /// How these workloads really run on the cluster.
    pub(crate) fn truth(&self, workloads: &[String]) -> Result<Truth> {
        Ok(Truth::new(self.cluster.kinds(), workloads, self.rates.clone())?.deviating(self.options.deviation)?)
    }

    /// The trace of the settings at a seed: from a file or from the generator.
    pub(crate) fn trace(&self, seed: u64) -> Result<Loaded> {
        let Some(path) = &self.settings.trace else {
            return Ok(Loaded { trace: self.generator(seed)?.into_trace(), report: None });
        };
        let options = ImportOptions { seed, ..self.settings.import.clone() };
        let imported = import::from_file(path, self.settings.format.as_deref(), &options)?;
        self.check_end(&imported.trace).map_err(|sentence| anyhow!("{}: {sentence}", path.display()))?;
        Ok(Loaded { trace: imported.trace, report: Some(imported.report) })
    }

    /// Refuses a trace that has nothing in it, or that would keep the simulation busy for ever.
    fn check_end(&self, trace: &Trace) -> Result<(), String> {
        if trace.jobs.is_empty() {
            return Err("there is no job in this trace; add one below the header".into());
        }
        let truth =
            Truth::new(self.cluster.kinds(), &trace.workloads, self.rates.clone()).map_err(|e| e.to_string())?;
        for job in &trace.jobs {
            let seconds = match job.length {
                Length::Duration(seconds) | Length::Period(seconds) => seconds,
                // A job that fits nowhere is somebody else's to report.
                Length::Steps(steps) => {
                    truth.reference_rate(WorkloadId(job.workload), job.gang, None).map_or(0.0, |rate| steps / rate)
                }
            };
            let what = match (job.arrival_seconds > MOST_SECONDS, seconds > MOST_SECONDS) {
                (false, false) => continue,
                (true, _) => "arrives after",
                (false, true) => "would take",
            };
            let name = &trace.workloads[job.workload as usize];
            return Err(format!("job {} ({name}) {what} more than 30 years; check its line", job.id));
        }
        Ok(())
    }

    /// The generator of the settings at a seed.
    pub(crate) fn generator(&self, seed: u64) -> Result<Generator> {
        let options = GenerateOptions { seed, ..self.settings.generate.clone() };
        let make = |options| Generator::new(options).map_err(|e| anyhow!("generator: {e}"));
        // Checked as they were written, before a rate is worked out from them.
        let as_written = make(options.clone())?;
        let Some(load) = self.settings.load else { return Ok(as_written) };
        let arrivals = options.arrivals.at_rate(self.per_hour(&options, load)?);
        make(GenerateOptions { arrivals, ..options })
    }

    /// The arrival rate that offers `load` times what the cluster can do.
    ///
    /// What it can do is counted in GPUs of the reference kind: Σ_j m_j · mean over the mix of r_j / r_reference.
    fn per_hour(&self, options: &GenerateOptions, load: f64) -> Result<f64> {
        let names = options.workloads.values();
        let truth = Truth::new(self.cluster.kinds(), names, self.rates.clone())?;
        let counts = self.cluster.counts();
        let (mut gpus, mut weights) = (0.0, 0.0);
        for (i, weight) in options.workloads.weights().iter().enumerate() {
            let workload = WorkloadId(i as u32);
            let Some(base) = truth.reference_rate(workload, 1, self.options.reference) else { continue };
            let row = truth.alone(workload, 1);
            let speeds =
                row.iter().zip(&counts).filter_map(|(pace, n)| Some(pace.as_ref()?[0].rate / base * f64::from(*n)));
            gpus += weight * speeds.sum::<f64>();
            weights += weight;
        }
        if gpus <= 0.0 {
            return Err(anyhow!(
                "generator: no workload of the mix fits a kind of this cluster; choose others with workloads=NAME:WEIGHT,..."
            ));
        }
        Ok(load * gpus / weights * 3600.0 / options.mean_gpu_seconds())
    }

    /// The trace on the cluster, checked.
    pub(crate) fn scenario(&self, trace: Arc<Trace>, keep_details: bool) -> Result<Scenario> {
        let options = Options { keep_details, ..self.options.clone() };
        Ok(Scenario::new(self.cluster.clone(), trace, self.rates.clone(), options)?)
    }

    /// The trace in a few words, for reports.
    pub(crate) fn trace_in_words(&self, trace: &Trace) -> String {
        let origin = match &self.settings.trace {
            Some(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            None => "generated".to_owned(),
        };
        let days = trace.jobs.last().map_or(0.0, |job| job.arrival_seconds) / 86_400.0;
        let tenants = trace.tenants.len();
        let plural = if tenants == 1 { "" } else { "s" };
        format!("{origin}: {} jobs of {tenants} tenant{plural} over {days:.1} days", trace.jobs.len())
    }
}

fn reference(name: &str, cluster: &Cluster) -> Result<KindId> {
    let at = cluster.kinds().iter().position(|kind| kind.name == name);
    at.map(|j| KindId(j as u16)).ok_or_else(|| {
        let names: Vec<&str> = cluster.kinds().iter().map(|kind| kind.name.as_str()).collect();
        anyhow!("--reference: there is no {name} in this cluster; expected one of {}", names.join(", "))
    })
}
