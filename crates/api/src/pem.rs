//! Certificates from PEM files, for both ends of a connection.

use std::path::Path;
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

/// A file's bytes.
///
/// # Errors
/// A sentence that names the file.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}
