//! A virtual cluster in another process, as an engine.

use crate::wire::{Answer, Call, Denial, Hello, PROTOCOL, Reply, Request, Welcome};
use arles_core::engine::{Engine, EngineError, EngineReport, JobMeter, LiveJob, Mandate, OrderReply};
use arles_core::scheduler::{GangReport, Order};
use arles_core::{Cluster, JobId, NodeId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long an answer may take. A look at ten thousand GPUs takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The other end of [`serve`](crate::serve). A call that fails closes the connection, so that no late answer is ever taken for that
/// of another call; the next call connects anew.
pub struct Remote {
    path: PathBuf,
    patience: Duration,
    mandate: Mandate,
    session: String,
    stream: Option<BufReader<UnixStream>>,
    next_event: Option<Time>,
    deposed: bool,
}

/// Why a call came to nothing.
enum Trouble {
    Io(io::Error),
    Denied(Denial),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Remote {
    /// The virtual cluster that listens at `path`. Whether it does shows at the first call.
    #[must_use]
    pub fn connect(path: impl Into<PathBuf>) -> Self {
        let (mandate, session) = (Mandate::default(), session());
        Self { path: path.into(), patience: PATIENCE, mandate, session, stream: None, next_event: None, deposed: false }
    }

    /// The same with another patience; at least a millisecond.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience: patience.max(Duration::from_millis(1)), ..self }
    }

    /// A node goes down, as [`Virtual::fail_node`](crate::Virtual::fail_node) says.
    ///
    /// # Errors
    /// When there is no such node, or the engine cannot be talked to.
    pub fn fail_node(&mut self, now: Time, node: NodeId) -> Result<(), EngineError> {
        self.order(now, Call::FailNode(node))
    }

    /// A node comes back, empty.
    ///
    /// # Errors
    /// When there is no such node, or the engine cannot be talked to.
    pub fn restore_node(&mut self, now: Time, node: NodeId) -> Result<(), EngineError> {
        self.order(now, Call::RestoreNode(node))
    }

    fn ask(&mut self, now: Time, call: Call) -> Result<Reply, EngineError> {
        // Kept again only if all went well.
        let stream = self.stream.take().map_or_else(|| self.open(), Ok);
        let asked = stream.and_then(|mut stream| {
            let answer: Answer = exchange(&mut stream, &Request { now, call })?;
            Ok((answer, stream))
        });
        let (answer, stream) = asked.map_err(|trouble| match trouble {
            Trouble::Io(error) => self.sentence(&error),
            Trouble::Denied(denial) => {
                self.deposed |= denial.deposed;
                EngineError(denial.why)
            }
        })?;
        self.stream = Some(stream);
        self.deposed |= answer.deposed;
        self.next_event = answer.next_event;
        answer.reply.map_err(EngineError)
    }

    /// The same where nothing comes back but that it is done.
    fn order(&mut self, now: Time, call: Call) -> Result<(), EngineError> {
        match self.ask(now, call)? {
            Reply::Done => Ok(()),
            _ => Err(astray()),
        }
    }

    fn open(&self) -> Result<BufReader<UnixStream>, Trouble> {
        let stream = UnixStream::connect(&self.path)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        let mut stream = BufReader::new(stream);
        let (session, mandate) = (Cow::Borrowed(self.session.as_str()), Cow::Borrowed(&self.mandate));
        let welcome: Welcome = exchange(&mut stream, &Hello { protocol: PROTOCOL, session, mandate })?;
        welcome.map_err(Trouble::Denied)?;
        Ok(stream)
    }

    fn sentence(&self, e: &io::Error) -> EngineError {
        let path = self.path.display();
        EngineError(match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("the virtual cluster at '{path}' has not answered for {:?}; it is asked again", self.patience)
            }
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                format!(
                    "nobody listens at '{path}'; start the virtual cluster there, or give the path of one that runs"
                )
            }
            _ => format!("the virtual cluster at '{path}' cannot be talked to: {e}; it is asked again"),
        })
    }
}

/// What no other driver on this machine calls itself.
fn session() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{}", std::process::id(), since.as_nanos(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// One question and its answer.
fn exchange<T: DeserializeOwned>(stream: &mut BufReader<UnixStream>, request: &impl Serialize) -> io::Result<T> {
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    stream.get_mut().write_all(&text)?;
    text.clear();
    stream.read_until(b'\n', &mut text)?;
    if text.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection before it had answered"));
    }
    Ok(serde_json::from_slice(&text)?)
}

fn astray() -> EngineError {
    EngineError("the virtual cluster gave the answer to another question; use one of the same version".to_owned())
}

impl Engine for Remote {
    /// It is said at the beginning of every connection; this one begins with the next call.
    fn lead(&mut self, mandate: &Mandate) -> Result<(), EngineError> {
        self.mandate = mandate.clone();
        self.stream = None;
        Ok(())
    }

    fn deposed(&self) -> bool {
        self.deposed
    }

    fn set_cluster(&mut self, now: Time, cluster: &Cluster) -> Result<(), EngineError> {
        self.order(now, Call::SetCluster(Cow::Borrowed(cluster)))
    }

    fn sync_jobs(&mut self, now: Time, live: &[LiveJob]) -> Result<Vec<JobMeter>, EngineError> {
        match self.ask(now, Call::Roll(Cow::Borrowed(live)))? {
            Reply::Meters(meters) => Ok(meters),
            _ => Err(astray()),
        }
    }

    fn add_job(&mut self, now: Time, job: &LiveJob) -> Result<(), EngineError> {
        self.order(now, Call::Enrol(Cow::Borrowed(job)))
    }

    fn remove_job(&mut self, now: Time, job: JobId) -> Result<Option<JobMeter>, EngineError> {
        match self.ask(now, Call::Dismiss(job))? {
            Reply::Meter(meter) => Ok(meter),
            _ => Err(astray()),
        }
    }

    fn apply(&mut self, now: Time, order: &Order) -> Result<OrderReply, EngineError> {
        match self.ask(now, Call::Apply(Cow::Borrowed(order)))? {
            Reply::OrderReply(told) => Ok(told),
            _ => Err(astray()),
        }
    }

    fn poll(&mut self, now: Time) -> Result<Vec<GangReport>, EngineError> {
        match self.ask(now, Call::News)? {
            Reply::News(news) => Ok(news),
            _ => Err(astray()),
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.next_event
    }

    fn survey(&mut self, now: Time, asked_at: Time) -> Result<EngineReport, EngineError> {
        match self.ask(now, Call::Survey { asked_at })? {
            Reply::EngineReport(report) => Ok(*report),
            _ => Err(astray()),
        }
    }
}
