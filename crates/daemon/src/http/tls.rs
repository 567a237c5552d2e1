//! Certificates and keys from PEM files.
//!
//! The cryptography is ring's, named outright: nothing is installed for the whole process.

use super::ServeError;
use arles_api::pem::{certificates, read};
use std::path::PathBuf;
use std::sync::Arc;
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

/// What accepts TLS.
pub(super) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, ServeError> {
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
