//! Certificates from PEM files, for both ends of a connection.

use std::path::{Path, PathBuf};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// All certificates of a file.
///
/// # Errors
/// A sentence that names the file and what is wrong with it.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.map_err(|error| format!("{} is not valid PEM: {error}", path.display()))?;
    if all.is_empty() {
        return Err(format!(
            "{} contains no certificate in PEM; expected '-----BEGIN CERTIFICATE-----'",
            path.display()
        ));
    }
    Ok(all)
}

/// Where systems keep the certificates that they trust: Debian, Fedora, SUSE, Alpine and others.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificates that this system trusts: those of the file `SSL_CERT_FILE`, or of the system's bundle.
///
/// # Errors
/// A sentence that says where they were looked for.
pub fn system_certificates() -> Result<Vec<CertificateDer<'static>>, String> {
    let named = std::env::var_os("SSL_CERT_FILE").filter(|name| !name.is_empty()).map(PathBuf::from);
    let found = named.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file()));
    match found {
        Some(path) => certificates(&path),
        None => Err(format!(
            "this system has no bundle of CA certificates (looked for {}); give the server's with --ca FILE or ARLES_CA",
            BUNDLES.join(", ")
        )),
    }
}

/// A file's bytes.
///
/// # Errors
/// A sentence that names the file.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}
