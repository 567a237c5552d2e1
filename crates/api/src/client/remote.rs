//! Where the server is, and connections to it.

use super::{ClientError, Sender};
use crate::pem::certificates;
use hyper::{StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

const CONNECT: Duration = Duration::from_secs(5);

/// A server's address, and what is needed to trust it.
pub(super) struct Remote {
    url: String,
    authority: String,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Remote {
    pub(super) fn new(url: &str, ca: Option<&Path>) -> Result<Self, ClientError> {
        let wrong = || {
            let example = "expected something like http://127.0.0.1:7117 or https://arles.example:7117";
            ClientError::Setup(format!("'{url}' is not the address of a server; {example}"))
        };
        let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if uri.path() != "/" && !uri.path().is_empty() || uri.query().is_some() || authority.as_str().contains('@') {
            return Err(wrong());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tls = if secure { Some(secured(url, &host, ca)?) } else { None };
        let scheme = if secure { "https" } else { "http" };
        Ok(Self { url: format!("{scheme}://{authority}"), authority: authority.to_string(), host, port, tls })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// As the header `Host` says it.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) async fn connect(&self) -> Result<Sender, ClientError> {
        let opened = tokio::time::timeout(CONNECT, TcpStream::connect((self.host.as_str(), self.port))).await;
        let stream = opened.map_err(|_| self.slow(CONNECT))?.map_err(|error| {
            let url = &self.url;
            ClientError::Unreachable(match error.kind() {
                ErrorKind::ConnectionRefused => {
                    format!("connection to {url} refused; is 'arles serve' running at {}?", self.authority)
                }
                _ => format!("{url} cannot be reached ({error}); is the address right?"),
            })
        })?;
        let _ = stream.set_nodelay(true);
        let Some((connector, name)) = &self.tls else { return self.handshake(stream).await };
        let secured = tokio::time::timeout(CONNECT, connector.connect(name.clone(), stream)).await;
        let stream = secured.map_err(|_| self.slow(CONNECT))?.map_err(|error| {
            let hint = "does the server use TLS, and is its certificate signed by one in the CA file?";
            ClientError::Unreachable(format!("the TLS handshake with {} failed ({error}); {hint}", self.url))
        })?;
        self.handshake(stream).await
    }

    async fn handshake(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Sender, ClientError> {
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| self.broken(&error))?;
        // Errors of the connection come back with the request that they end.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    pub(super) fn broken(&self, error: &hyper::Error) -> ClientError {
        ClientError::Unreachable(format!("{} closed the connection before it responded ({error}); try again", self.url))
    }

    pub(super) fn slow(&self, limit: Duration) -> ClientError {
        let seconds = limit.as_secs();
        ClientError::Unreachable(format!("{} did not respond within {seconds} s; try again later", self.url))
    }

    pub(super) fn garbled(&self, what: &str) -> ClientError {
        let hint = "is it an arles server of the same version?";
        ClientError::Garbled(format!("{} responded with {what}; {hint}", self.url))
    }

    pub(super) fn unexpected(&self, status: StatusCode) -> ClientError {
        self.garbled(&format!("status {status} and no error message"))
    }
}

fn secured(url: &str, host: &str, ca: Option<&Path>) -> Result<(TlsConnector, ServerName<'static>), ClientError> {
    let Some(ca) = ca else {
        let text = "give the PEM file with the certificate that signed the server's";
        return Err(ClientError::Setup(format!("{url} uses TLS, so a CA file is needed; {text}")));
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca).map_err(ClientError::Setup)? {
        roots.add(certificate).map_err(|error| {
            ClientError::Setup(format!("{} contains a certificate that is not a CA: {error}", ca.display()))
        })?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Setup(format!("TLS cannot be configured: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| ClientError::Setup(format!("'{host}' is not a valid server name for TLS")))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_whole_or_refused() {
        for url in ["http://127.0.0.1:7117", "http://localhost", "http://[::1]:7117/"] {
            assert!(Remote::new(url, None).is_ok(), "{url}");
        }
        for url in
            ["", "127.0.0.1:7117", "ftp://x", "http://", "http://x/y", "http://x?y", "http://user:pass@x", "http://x y"]
        {
            let error = Remote::new(url, None).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("expected something like http://"), "{url}: {error}");
        }
        let error = Remote::new("https://x", None).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("a CA file is needed"), "{error}");
    }
}
