//! `arles world`: a virtual cluster in a process of its own, which outlives the daemon that drives it.

use crate::engines;
use crate::fault::{EXIT_CODES, Failed, Hinted};
use crate::logging::{self, LogFormat};
use crate::settings::{SettingFlags, WORLD};
use crate::setup::Setup;
use anyhow::Result;
use arles_core::Library;
use arles_engine::serve;
use clap::Args;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::level_filters::LevelFilter;

/// Run a simulated cluster in its own process, for 'arles serve --world'
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct World {
    /// Unix socket to listen on; one that nobody listens on any more is replaced
    #[arg(long, value_name = "SOCKET")]
    listen: PathBuf,
    /// Speed of its clock relative to real time
    #[arg(long, value_name = "RATIO", default_value = "1")]
    speed: f64,
    #[command(flatten)]
    flags: SettingFlags<WORLD>,
    /// Log every order and every end of a gang as a line of JSON
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
    pub(crate) fn run(&self, _: &mut dyn Write) -> Result<()> {
        let _log = logging::start(self.log_format, self.log_level);
        let settings = self.flags.settings()?;
        let setup = Setup::new(&settings)?;
        let workloads: Vec<String> = Library::builtin().workloads().iter().map(|w| w.name.clone()).collect();
        let truth = Arc::new(setup.truth(&workloads)?);
        let world = engines::simulated(&settings, &setup, &truth);
        let log: Box<dyn Write + Send> = match &self.log {
            None => Box::new(io::sink()),
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                Box::new(file.map_err(|e| Failed(format!("cannot write '{}' ({e})", path.display())))?)
            }
        };
        let listener = listen(&self.listen)?;
        tracing::info!(
            "ready: virtual cluster of {} at {}",
            crate::cluster::in_words(&setup.cluster),
            self.listen.display()
        );
        Ok(serve(listener, world, self.speed, log)?)
    }
}

/// A socket of this user alone. What is at the path is removed only if it is a socket that nobody listens on.
fn listen(path: &Path) -> Result<UnixListener> {
    let name = path.display();
    let cannot =
        |e: io::Error| Failed(format!("cannot listen on '{name}' ({e}); give a path in a folder you can write"));
    if let Ok(there) = std::fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            let hint = "give a path where nothing is, or remove what is there";
            return Err(Hinted::new(format!("'{name}' exists and is not a socket"), hint).into());
        }
        if UnixStream::connect(path).is_ok() {
            let hint = "stop it first, or give another path";
            return Err(Hinted::new(format!("a virtual cluster listens on '{name}' already"), hint).failed().into());
        }
        std::fs::remove_file(path).map_err(cannot)?;
    }
    let listener = UnixListener::bind(path).map_err(cannot)?;
    // Whoever connects before this is asked for its user as everybody is.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(cannot)?;
    Ok(listener)
}
