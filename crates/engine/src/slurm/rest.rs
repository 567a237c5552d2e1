//! slurmrestd, over a Unix socket or TCP: just enough HTTP to ask it.

use arles_core::engine::EngineError;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A list of ten thousand jobs takes seconds.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest answer that is read: a hundred thousand jobs.
const MOST_BYTES: u64 = 1 << 30;
/// Versions whose answers are understood, best first. Later ones drop what they deprecate, so none is guessed.
const VERSIONS: [&str; 6] = ["v0.0.38", "v0.0.39", "v0.0.40", "v0.0.41", "v0.0.42", "v0.0.37"];

/// An answer to a question.
pub(crate) enum Answer {
    /// As of the moment that was named.
    Unchanged,
    Text(Vec<u8>),
}

/// A slurmrestd.
#[derive(Clone)]
pub(crate) struct Rest {
    address: Address,
    user: Option<String>,
    token: Option<String>,
    version: Option<&'static str>,
}

#[derive(Clone)]
enum Address {
    Unix(String),
    Tcp(String),
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Rest {
    /// `unix:PATH`, or `HOST:PORT` with a token.
    ///
    /// # Errors
    /// When it is neither.
    pub(crate) fn new(address: &str, user: Option<String>, token: Option<String>) -> Result<Self, EngineError> {
        let address = match address.strip_prefix("unix:") {
            Some(path) => Address::Unix(path.to_owned()),
            None if address.contains(':') && !address.contains('/') => Address::Tcp(address.to_owned()),
            None => {
                let shown = address.escape_debug();
                return Err(EngineError(format!(
                    "'{shown}' is no address of slurmrestd; expected unix:PATH or HOST:PORT, such as unix:/run/slurmrestd.sock"
                )));
            }
        };
        Ok(Self { address, user, token, version: None })
    }

    /// The version of the API that is spoken, once it is known.
    ///
    /// # Errors
    /// When slurmrestd does not answer, or speaks none that is understood.
    pub(crate) fn version(&mut self) -> Result<&'static str, EngineError> {
        if let Some(version) = self.version {
            return Ok(version);
        }
        let Answer::Text(text) = self.ask("/openapi/v3")? else { return Err(strange("nothing")) };
        let text = String::from_utf8_lossy(&text);
        let spoken = |version: &&&str| {
            text.contains(&format!("/slurm/{version}/jobs")) || text.contains(&format!("\\/slurm\\/{version}\\/jobs"))
        };
        let Some(version) = VERSIONS.iter().find(spoken) else {
            return Err(EngineError(format!("slurmrestd speaks none of the versions {}", VERSIONS.join(", "))));
        };
        self.version = Some(version);
        Ok(version)
    }

    /// Asks for something under the version's path.
    ///
    /// # Errors
    /// When there is no answer, or one that is an error.
    pub(crate) fn get(&mut self, path: &str) -> Result<Answer, EngineError> {
        let version = self.version()?;
        self.ask(&format!("/slurm/{version}/{path}"))
    }

    fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match &self.address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Box::new(stream)
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Box::new(stream)
            }
        })
    }

    fn ask(&self, path: &str) -> Result<Answer, EngineError> {
        let lost = |error: std::io::Error| EngineError(format!("slurmrestd does not answer: {error}"));
        let mut stream = self.connect().map_err(lost)?;
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n");
        let headers = [("X-SLURM-USER-NAME", &self.user), ("X-SLURM-USER-TOKEN", &self.token)];
        for (name, value) in headers {
            if let Some(value) = value {
                request.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        request.push_str("Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(lost)?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).map_err(lost)?;
        let status = line.split_whitespace().nth(1).and_then(|code| code.parse::<u32>().ok());
        let length = read_headers(&mut reader).map_err(lost)?;
        match status {
            Some(304) => return Ok(Answer::Unchanged),
            Some(200) => {}
            // A token that ran out, say. Its text is for people.
            Some(other) => return Err(strange(&format!("HTTP status {other}"))),
            None => return Err(strange("no HTTP")),
        }
        let Some(length) = length else { return Err(strange("an answer of unknown length")) };
        let mut body = Vec::new();
        reader.take(length.min(MOST_BYTES)).read_to_end(&mut body).map_err(lost)?;
        if (body.len() as u64) < length {
            return Err(strange("half an answer"));
        }
        Ok(Answer::Text(body))
    }
}

fn strange(what: &str) -> EngineError {
    EngineError(format!("slurmrestd answers with {what}"))
}

/// Reads up to the empty line; how long the body is.
fn read_headers(reader: &mut impl BufRead) -> std::io::Result<Option<u64>> {
    let mut length = None;
    for _ in 0..100 {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    Ok(length)
}
