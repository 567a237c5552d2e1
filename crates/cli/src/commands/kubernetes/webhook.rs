//! `arles kubernetes webhook`: gives GPU pods of labelled namespaces to arles, where the API server cannot do it itself.

use crate::fault::{EXIT_CODES, Failed};
use anyhow::{Context, Result};
use arles_engine::kubernetes::{GivenBy, Webhook as Server};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

/// Give new GPU pods of labelled namespaces to arles
///
/// Answers the API server's question about each new pod, over TLS: pods that ask for GPUs get the gate arles/admission, or arles' name for their scheduler. It
/// never refuses a pod. packaging/kubernetes/webhook has the manifests; where Kubernetes is 1.36 or later, packaging/kubernetes/gates does the same without a webhook.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Webhook {
    /// Address for the API server
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:7443")]
    listen: SocketAddr,
    /// Certificate as PEM; read again when it was renewed
    #[arg(long, value_name = "FILE")]
    tls_certificate: PathBuf,
    /// Its private key as PEM
    #[arg(long, value_name = "FILE")]
    tls_key: PathBuf,
    /// How pods are given to arles; versions before 1.27 have no gates
    #[arg(long, value_enum, default_value_t = Way::Gate)]
    give_by: Way,
    /// The name of the scheduler, with --give-by scheduler-name
    #[arg(long, value_name = "NAME", default_value = "arles")]
    scheduler_name: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    Gate,
    SchedulerName,
}

impl Webhook {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let given_by = match self.give_by {
            Way::Gate => GivenBy::Gate,
            Way::SchedulerName => GivenBy::SchedulerName(self.scheduler_name.clone()),
        };
        let failed = |error: arles_core::engine::EngineError| Failed(error.to_string());
        let server = Server::new(&self.tls_certificate, &self.tls_key, given_by).map_err(failed)?;
        let listener = TcpListener::bind(self.listen).with_context(|| format!("cannot listen on {}", self.listen))?;
        writeln!(out, "answering on https://{}/mutate", listener.local_addr()?)?;
        out.flush()?;
        match server.serve(listener).map_err(failed)? {}
    }
}
