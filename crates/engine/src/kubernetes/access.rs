//! How the API server is reached and as whom: a kubeconfig, or the service account of the pod that this is.
//!
//! Must never: show a token or a key in a message.

use arles_core::engine::EngineError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Where a pod finds its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Everything that is needed to open a connection.
pub(super) struct Access {
    pub(super) host: String,
    pub(super) port: u16,
    /// Before every path, for servers behind a proxy.
    pub(super) prefix: String,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    token: Token,
}

/// A bearer token, or how it is had.
#[derive(Clone)]
enum Token {
    None,
    Fixed(String),
    /// Read anew each time: whoever issues tokens replaces them.
    File(PathBuf),
    /// A command that prints one, as the clouds' do.
    Command(Exec),
}

impl Access {
    /// The kubeconfig that is named; else that of `KUBECONFIG`; else the service account of this pod; else `~/.kube/config`.
    ///
    /// # Errors
    /// When there is none, or it makes no sense.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, EngineError> {
        if let Some(path) = named {
            return Self::of_file(path);
        }
        if let Some(paths) = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()) {
            let first = std::env::split_paths(&paths).find(|path| !path.as_os_str().is_empty());
            return Self::of_file(&first.unwrap_or_default());
        }
        if let (Ok(host), Ok(port)) =
            (std::env::var("KUBERNETES_SERVICE_HOST"), std::env::var("KUBERNETES_SERVICE_PORT"))
        {
            return Self::of_pod(host, &port);
        }
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        match home.filter(|path| path.exists()) {
            Some(path) => Self::of_file(&path),
            None => Err(EngineError(
                "no Kubernetes cluster is configured; set KUBECONFIG or --kubeconfig FILE, or run arles in a pod"
                    .into(),
            )),
        }
    }

    fn of_pod(host: String, port: &str) -> Result<Self, EngineError> {
        let port =
            port.parse().map_err(|_| EngineError(format!("KUBERNETES_SERVICE_PORT is '{port}', and no port")))?;
        let account = Path::new(ACCOUNT);
        let roots = certificates(&read(&account.join("ca.crt"))?, "the service account's ca.crt")?;
        let tls = Some(secured(&host, roots, None)?);
        Ok(Self { host, port, prefix: String::new(), tls, token: Token::File(account.join("token")) })
    }

    fn of_file(path: &Path) -> Result<Self, EngineError> {
        let wrong = |why: String| EngineError(format!("the kubeconfig {} {why}", path.display()));
        let text = read(path)?;
        let config: Config = serde_norway::from_slice(&text).map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let missing = |what: &str, name: &str| wrong(format!("names the {what} '{name}' and does not have it"));
        let current = &config.current_context;
        let context = config.contexts.iter().find(|c| c.name == *current).ok_or_else(|| missing("context", current))?;
        let (cluster_name, user_name) = (&context.context.cluster, &context.context.user);
        let cluster = config.clusters.iter().find(|c| c.name == *cluster_name);
        let cluster = &cluster.ok_or_else(|| missing("cluster", cluster_name))?.cluster;
        let user = config.users.iter().find(|u| u.name == *user_name);
        let user = &user.ok_or_else(|| missing("user", user_name))?.user;
        if cluster.insecure_skip_tls_verify {
            return Err(wrong(
                "has insecure-skip-tls-verify, and arles does not trust just anybody; give certificate-authority-data"
                    .into(),
            ));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let part = |inline: &Option<String>, file: &Option<PathBuf>| -> Result<Option<Vec<u8>>, EngineError> {
            match (inline, file) {
                (Some(text), _) => base64(text).map(Some).ok_or_else(|| wrong("has base64 that is none".into())),
                (None, Some(file)) => read(&folder.join(file)).map(Some),
                (None, None) => Ok(None),
            }
        };
        let (host, port, secure, prefix) = parse_url(&cluster.server).ok_or_else(|| {
            wrong(format!("has the server '{}'; expected something like https://HOST:6443", cluster.server))
        })?;
        let tls = if secure {
            let roots = part(&cluster.certificate_authority_data, &cluster.certificate_authority)?;
            let roots = roots.map(|pem| certificates(&pem, "the kubeconfig's certificate authority")).transpose()?;
            let roots = roots.ok_or_else(|| wrong("has no certificate authority".into()))?;
            let certificate = part(&user.client_certificate_data, &user.client_certificate)?;
            let key = part(&user.client_key_data, &user.client_key)?;
            let identity = match certificate.zip(key) {
                None => None,
                Some((certificate, key)) => {
                    let chain = certificates(&certificate, "the kubeconfig's client certificate")?;
                    let key = PrivateKeyDer::from_pem_slice(&key)
                        .map_err(|e| wrong(format!("has a client key that is none: {e}")))?;
                    Some((chain, key))
                }
            };
            Some(secured(cluster.tls_server_name.as_deref().unwrap_or(&host), roots, identity)?)
        } else {
            None
        };
        let token = match (&user.token, &user.token_file, &user.exec) {
            (Some(token), ..) => Token::Fixed(token.clone()),
            (None, Some(file), _) => Token::File(folder.join(file)),
            (None, None, Some(exec)) => Token::Command(exec.clone()),
            (None, None, None) => Token::None,
        };
        Ok(Self { host, port, prefix, tls, token })
    }

    /// The bearer token as of now.
    pub(super) fn token(&self) -> Result<Option<String>, EngineError> {
        match &self.token {
            Token::None => Ok(None),
            Token::Fixed(token) => Ok(Some(token.clone())),
            Token::File(path) => {
                let text = String::from_utf8_lossy(&read(path)?).trim().to_owned();
                Ok(Some(text).filter(|text| !text.is_empty()))
            }
            Token::Command(exec) => exec.run().map(Some),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    #[serde(default)]
    clusters: Vec<ClusterEntry>,
    #[serde(default)]
    users: Vec<UserEntry>,
    #[serde(default)]
    contexts: Vec<ContextEntry>,
    #[serde(default)]
    current_context: String,
}

#[derive(Deserialize)]
struct ClusterEntry {
    name: String,
    cluster: ClusterConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ClusterConfig {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    tls_server_name: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
}

#[derive(Deserialize)]
struct UserEntry {
    name: String,
    #[serde(default)]
    user: UserConfig,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct UserConfig {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    exec: Option<Exec>,
}

#[derive(Deserialize)]
struct ContextEntry {
    name: String,
    context: ContextConfig,
}

#[derive(Deserialize)]
struct ContextConfig {
    cluster: String,
    user: String,
}

/// A command that prints a token.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exec {
    command: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<ExecVariable>>,
    api_version: Option<String>,
}

#[derive(Clone, Deserialize)]
struct ExecVariable {
    name: String,
    value: String,
}

impl Exec {
    fn run(&self) -> Result<String, EngineError> {
        let wrong = |why: String| EngineError(format!("'{}' of the kubeconfig gives no token: {why}", self.command));
        let version = self.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1");
        let asked = format!(r#"{{"apiVersion":"{version}","kind":"ExecCredential","spec":{{"interactive":false}}}}"#);
        let mut command = Command::new(&self.command);
        command.args(self.args.iter().flatten()).env("KUBERNETES_EXEC_INFO", asked);
        command.envs(self.env.iter().flatten().map(|variable| (&variable.name, &variable.value)));
        let output = command.output().map_err(|error| wrong(error.to_string()))?;
        let answer: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|_| wrong("it did not print a credential".into()))?;
        let token = answer["status"]["token"].as_str();
        token.map(str::to_owned).ok_or_else(|| wrong("there is none in what it printed".into()))
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, EngineError> {
    std::fs::read(path).map_err(|error| EngineError(format!("{} cannot be read: {error}", path.display())))
}

pub(super) fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, EngineError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(|| EngineError(format!("{what} has no certificate in it")))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn secured(
    host: &str,
    roots: Vec<CertificateDer<'static>>,
    identity: Option<Identity>,
) -> Result<(TlsConnector, ServerName<'static>), EngineError> {
    let wrong = |why: &dyn std::fmt::Display| EngineError(format!("TLS with the API server cannot be set up: {why}"));
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_root_certificates(store);
    let config = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| wrong(&error))?,
        None => builder.with_no_client_auth(),
    };
    let name =
        ServerName::try_from(host.to_owned()).map_err(|_| wrong(&format_args!("'{host}' is no name of a server")))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// Host, port, whether it is TLS, and what comes before every path.
fn parse_url(url: &str) -> Option<(String, u16, bool, String)> {
    let uri: hyper::Uri = url.trim_end_matches('/').parse().ok()?;
    let secure = match uri.scheme_str()? {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let authority = uri.authority()?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
    Some((host, port, secure, uri.path().trim_end_matches('/').to_owned()))
}

/// RFC 4648, standard alphabet; white space is skipped.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut found, mut bits, mut count) = (Vec::with_capacity(text.len() * 3 / 4), 0u32, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            found.push((bits >> count & 0xff) as u8);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_openssl_writes_it() {
        for (text, expected) in [("", ""), ("YQ==", "a"), ("YWI=", "ab"), ("YWJj", "abc"), ("YWJj\nZA==", "abcd")] {
            assert_eq!(base64(text).as_deref(), Some(expected.as_bytes()), "{text}");
        }
        assert_eq!(base64("?"), None);
    }

    #[test]
    fn servers_are_whole_or_refused() {
        let found = |url| parse_url(url).map(|(host, port, secure, prefix)| format!("{host} {port} {secure} {prefix}"));
        assert_eq!(found("https://10.0.0.1:6443").as_deref(), Some("10.0.0.1 6443 true "));
        assert_eq!(found("https://example.org/k8s/c-1/").as_deref(), Some("example.org 443 true /k8s/c-1"));
        assert_eq!(found("http://[::1]:8001").as_deref(), Some("::1 8001 false "));
        assert_eq!(found("example.org"), None);
    }

    #[test]
    fn a_kubeconfig_that_makes_no_sense_gets_a_sentence() {
        let folder = std::env::temp_dir().join(format!("arles-kubeconfig-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for (text, expected) in [
            ("current-context: x", "names the context 'x'"),
            ("[", "cannot be read"),
            (
                "current-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\nclusters: [{name: b, cluster: {server: nowhere}}]\nusers: [{name: c}]",
                "expected something like https://HOST:6443",
            ),
        ] {
            let path = folder.join("config");
            std::fs::write(&path, text).expect("a file");
            let error = Access::find(Some(&path)).err().expect("it makes no sense").to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
