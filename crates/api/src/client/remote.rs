//! Where the server is, and connections to it.

use super::{ClientError, Sender};
use crate::pem::{certificates, system_certificates};
use crate::socket;
use hyper::{StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

const CONNECT: Duration = Duration::from_secs(5);

/// What a server's address begins with where it is a socket of this machine.
const UNIX: &str = "unix:";

/// A server's address, and what is needed to trust it.
pub(super) struct Remote {
    url: String,
    authority: String,
    end: End,
}

/// Where a connection goes.
enum End {
    Network { host: String, port: u16, tls: Option<(TlsConnector, ServerName<'static>)> },
    Socket(PathBuf),
}

impl Remote {
    pub(super) fn new(url: &str, ca: Option<&Path>) -> Result<Self, ClientError> {
        let wrong = || {
            let example = "expected something like http://127.0.0.1:7117, https://arles.example:7117 or \
                           unix:/var/lib/arles/arles.sock";
            ClientError::Setup(format!("'{url}' is not the address of a server; {example}"))
        };
        if let Some(path) = url.strip_prefix(UNIX) {
            let path = path.strip_prefix("//").unwrap_or(path);
            let end = End::Socket(Some(path).filter(|path| !path.is_empty()).ok_or_else(wrong)?.into());
            return Ok(Self { url: format!("{UNIX}{path}"), authority: "localhost".into(), end });
        }
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
        let tls = if secure { Some(secured(&host, ca)?) } else { None };
        let scheme = if secure { "https" } else { "http" };
        let end = End::Network { host, port, tls };
        Ok(Self { url: format!("{scheme}://{authority}"), authority: authority.to_string(), end })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// As the header `Host` says it.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) async fn connect(&self) -> Result<Sender, ClientError> {
        let (host, port, tls) = match &self.end {
            End::Network { host, port, tls } => (host.as_str(), *port, tls),
            End::Socket(path) => return self.connect_socket(path).await,
        };
        let opened = tokio::time::timeout(CONNECT, TcpStream::connect((host, port))).await;
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
        let Some((connector, name)) = tls else { return self.handshake(stream).await };
        let secured = tokio::time::timeout(CONNECT, connector.connect(name.clone(), stream)).await;
        let stream = secured.map_err(|_| self.slow(CONNECT))?.map_err(|error| {
            let hint = "does the server use TLS, and is its certificate signed by one in the CA file?";
            ClientError::Unreachable(format!("the TLS handshake with {} failed ({error}); {hint}", self.url))
        })?;
        self.handshake(stream).await
    }

    async fn connect_socket(&self, path: &Path) -> Result<Sender, ClientError> {
        let short = socket::short(path);
        let opened = match &short {
            Ok(short) => tokio::time::timeout(CONNECT, UnixStream::connect(short.path())).await,
            Err(error) => Ok(Err(error.kind().into())),
        };
        let stream = opened.map_err(|_| self.slow(CONNECT))?.map_err(|error| {
            let path = path.display();
            ClientError::Unreachable(match error.kind() {
                ErrorKind::NotFound => {
                    format!("there is no socket {path}; is 'arles serve' running on that state folder?")
                }
                ErrorKind::ConnectionRefused => {
                    format!("nobody listens on {path}; is 'arles serve' running on that state folder?")
                }
                ErrorKind::PermissionDenied => format!(
                    "{path} is for the user that runs the daemon and for root; use the daemon's address and a token"
                ),
                _ => format!("{path} cannot be reached ({error}); is it the socket of a daemon?"),
            })
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

fn secured(host: &str, ca: Option<&Path>) -> Result<(TlsConnector, ServerName<'static>), ClientError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(ca) => {
            for certificate in certificates(ca).map_err(ClientError::Setup)? {
                roots.add(certificate).map_err(|error| {
                    ClientError::Setup(format!("{} contains a certificate that is not a CA: {error}", ca.display()))
                })?;
            }
        }
        // A system's bundle has hundreds, and some that are of no use to us do no harm.
        None => drop(roots.add_parsable_certificates(system_certificates().map_err(ClientError::Setup)?)),
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
        for (url, shown) in [("unix:/run/a.sock", "unix:/run/a.sock"), ("unix:///run/a.sock", "unix:/run/a.sock")] {
            assert_eq!(Remote::new(url, None).map(|remote| remote.url).ok().as_deref(), Some(shown));
        }
        assert!(Remote::new("unix:", None).is_err());
    }
}
