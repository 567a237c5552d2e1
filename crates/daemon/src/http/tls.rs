//! Certificates and keys from PEM files, and new ones while the server runs.
//!
//! The cryptography is ring's, named outright: nothing is installed for the whole process.

use super::ServeError;
use arles_api::pem::{certificates, read};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

/// Where certificate and key are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// The certificate, then those it rests on, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// The certificate in use. Connections that are open keep the one that they began with.
pub struct Certificate {
    files: Tls,
    acceptor: RwLock<TlsAcceptor>,
}

impl Certificate {
    /// Reads certificate and key, and checks that they belong together.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it.
    pub fn load(files: &Tls) -> Result<Self, ServeError> {
        Ok(Self { files: files.clone(), acceptor: RwLock::new(acceptor(files)?) })
    }

    /// Reads the same files again, for connections from now on. If they are of no use, the old ones stay in use.
    ///
    /// # Errors
    /// As [`Certificate::load`].
    pub fn reload(&self) -> Result<(), ServeError> {
        let fresh = acceptor(&self.files)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// The files that it is read from.
    #[must_use]
    pub fn files(&self) -> &Tls {
        &self.files
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What accepts TLS.
fn acceptor(tls: &Tls) -> Result<TlsAcceptor, ServeError> {
    let certificates = certificates(&tls.cert).map_err(ServeError::Tls)?;
    let pem = read(&tls.key).map_err(ServeError::Tls)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| {
        let path = tls.key.display();
        ServeError::Tls(format!(
            "{path} contains no private key in PEM ({error}); expected '-----BEGIN PRIVATE KEY-----'"
        ))
    })?;
    let broken = |error: &dyn std::fmt::Display| {
        let (cert, key) = (tls.cert.display(), tls.key.display());
        ServeError::Tls(format!("the key in {key} does not match the certificate in {cert} ({error})"))
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| broken(&error))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| broken(&error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
