//! `arles world`: a virtual cluster in a process of its own, which outlives the daemon that drives it.

use crate::fault::{EXIT_CODES, Failed};
use crate::logging::{self, LogFormat};
use crate::settings::Settings;
use crate::setup::Setup;
use anyhow::Result;
use arles_core::Library;
use arles_engine::{Virtual, serve};
use arles_sim::measure::Noise;
use clap::Args;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::level_filters::LevelFilter;

/// Run a virtual cluster in a process of its own, for 'arles serve --world'
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct World {
    /// Socket to listen on; one that is there already is replaced
    #[arg(long, value_name = "SOCKET")]
    listen: PathBuf,
    /// Speed of its clock relative to wall-clock time
    #[arg(long, value_name = "RATIO", default_value = "1")]
    speed: f64,
    /// GPUs of each kind, such as v100:36,p100:36,k80:36
    #[arg(long, value_name = "KIND:COUNT")]
    cluster: Option<String>,
    /// Most GPUs on one node [default: 4]
    #[arg(long, value_name = "N")]
    gpus_per_node: Option<String>,
    /// Measured rates (Gavel's JSON) as its truth
    #[arg(long, value_name = "FILE")]
    rates: Option<String>,
    /// How far it deviates from the performance model [default: 0]
    #[arg(long, value_name = "RATIO")]
    deviation: Option<String>,
    /// A line of JSON for every order and every end of a gang
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Format of the log on stderr: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = LogFormat::parse)]
    log_format: LogFormat,
    /// Least level that is logged: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = logging::level)]
    log_level: LevelFilter,
}

impl World {
    pub(crate) fn run(&self) -> Result<()> {
        logging::start(self.log_format, self.log_level);
        let mut settings = Settings::builtin()?;
        let flags = [
            ("cluster.gpus", "--cluster", &self.cluster),
            ("cluster.gpus-per-node", "--gpus-per-node", &self.gpus_per_node),
            ("rates.file", "--rates", &self.rates),
            ("simulation.deviation", "--deviation", &self.deviation),
        ];
        for (key, flag, value) in flags {
            if let Some(value) = value {
                settings.put(key, value, flag)?;
            }
        }
        let setup = Setup::new(&settings)?;
        let workloads: Vec<String> = Library::builtin().workloads().iter().map(|w| w.name.clone()).collect();
        let truth = Arc::new(setup.truth(&workloads)?);
        let noise = Noise { rate_sd: settings.noise, watts_sd: settings.noise, seed: settings.seed };
        let boot = arles_daemon::clock::wall().0;
        let world = Virtual::new(setup.cluster.clone(), truth, setup.world_options(), noise, boot);
        let log: Box<dyn Write + Send> = match &self.log {
            None => Box::new(io::sink()),
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                Box::new(file.map_err(|e| Failed(format!("cannot write '{}' ({e})", path.display())))?)
            }
        };
        let _ = std::fs::remove_file(&self.listen);
        let listener = UnixListener::bind(&self.listen).map_err(|e| {
            Failed(format!("cannot listen on '{}' ({e}); give a path in a folder you can write", self.listen.display()))
        })?;
        tracing::info!(
            "ready: virtual cluster of {} at {}",
            crate::cluster::in_words(&setup.cluster),
            self.listen.display()
        );
        Ok(serve(listener, world, self.speed, log)?)
    }
}
