//! Two programs on one GPU at the same time: NVIDIA's Multi-Process Service. Without it they take turns by time slices of the driver.
//!
//! A GPU has a control daemon of its own, with its own folder of pipes, so that one that dies concerns one GPU. It is started before the first
//! program that needs it, looked after from then on, and ended with the engine unless programs still use it: those live on, and the next engine finds it.
//! Programs that hold several GPUs do not use it: one of its daemons speaks for one GPU.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How two programs share a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// In turns, by the driver.
    #[default]
    TimeSlicing,
    /// At the same time, by the Multi-Process Service.
    Mps,
}

/// The program that controls the service.
const CONTROL: &str = "nvidia-cuda-mps-control";

/// The service's daemons of one engine.
pub(super) struct Mps {
    folder: PathBuf,
}

impl Mps {
    /// Daemons of the engine with this name. Their pipes are sockets, whose paths must be short.
    pub(super) fn new(name: &str) -> Self {
        Self { folder: std::env::temp_dir().join(format!("arles-mps-{name}")) }
    }

    /// Sees to it that a GPU has its daemon; what programs on it must be told.
    ///
    /// # Errors
    /// When the service cannot be started.
    pub(super) fn serve(&self, gpu: u32, device: &str) -> io::Result<[(String, String); 2]> {
        let pipes = self.pipes(gpu);
        let variables =
            [("CUDA_MPS_PIPE_DIRECTORY", &pipes), ("CUDA_MPS_LOG_DIRECTORY", &self.folder.join(format!("{gpu}.log")))]
                .map(|(name, folder)| (name.to_owned(), folder.to_string_lossy().into_owned()));
        if !runs(&pipes) {
            use std::os::unix::fs::DirBuilderExt;
            for (_, folder) in &variables {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            let mut control = Command::new(CONTROL);
            control.arg("-d").env("CUDA_VISIBLE_DEVICES", device).envs(variables.clone());
            let told = control.stdin(Stdio::null()).output().map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("{CONTROL}: {error}; set sharing = \"time-slicing\" in [serve] to do without"),
                )
            })?;
            if !told.status.success() {
                let why = String::from_utf8_lossy(&told.stdout);
                return Err(io::Error::other(format!("{CONTROL} ended with {}: {}", told.status, why.trim())));
            }
        }
        Ok(variables)
    }

    /// Ends the daemons of these GPUs.
    pub(super) fn end(&self, gpus: impl Iterator<Item = u32>) {
        for pipes in gpus.map(|gpu| self.pipes(gpu)).filter(|pipes| runs(pipes)) {
            let mut control = Command::new(CONTROL);
            control.env("CUDA_MPS_PIPE_DIRECTORY", &pipes).stdin(Stdio::piped()).stdout(Stdio::null());
            if let Ok(mut control) = control.stderr(Stdio::null()).spawn() {
                let _ = control.stdin.take().map(|mut input| input.write_all(b"quit\n"));
                let _ = control.wait();
            }
        }
    }

    fn pipes(&self, gpu: u32) -> PathBuf {
        self.folder.join(gpu.to_string())
    }
}

/// Whether the daemon with these pipes is there: the process that it wrote down is one of its kind.
fn runs(pipes: &Path) -> bool {
    let pid = fs::read_to_string(pipes.join(format!("{CONTROL}.pid"))).unwrap_or_default();
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap_or_default();
    // The kernel keeps 15 letters of a name.
    !name.trim().is_empty() && CONTROL.starts_with(name.trim())
}
