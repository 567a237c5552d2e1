//! Logs of the long-running commands: lines on stderr with a time and a level, as text or JSON.
//!
//! A log must never stop what it reports on. So lines go through a queue of bounded length to a thread that does nothing but write them: where stderr is
//! a full disk or a closed pipe, or a pipe whose reader has fallen asleep, lines are lost and counted, and nothing else happens.

use arles_daemon::service::gauges::LOST_LOG_LINES;
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::{Duration, Instant};
use tracing::level_filters::LevelFilter;

/// Lines that may wait to be written.
const QUEUE: usize = 1024;
/// How long the end of the program waits for lines that are not yet written.
const PATIENCE: Duration = Duration::from_secs(1);

/// How log lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("unknown log format '{other}'; expected text or json")),
        }
    }
}

/// Reads the least level that is logged.
pub(crate) fn level(text: &str) -> Result<LevelFilter, String> {
    match text.trim() {
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        other => Err(format!("unknown log level '{other}'; expected error, warn, info or debug")),
    }
}

/// What waits to be written.
enum Item {
    Line(Vec<u8>),
    /// Everything before is written when this is answered.
    Flush(mpsc::Sender<()>),
}

/// The end of the queue that lines are put into; never fails, never waits.
struct Lines(SyncSender<Item>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.try_send(Item::Line(bytes.to_vec())).is_err() {
            LOST_LOG_LINES.add(1);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(queue: &Receiver<Item>) {
    while let Ok(item) = queue.recv() {
        match item {
            Item::Line(line) => {
                if io::stderr().write_all(&line).is_err() {
                    LOST_LOG_LINES.add(1);
                }
            }
            Item::Flush(done) => drop(done.send(())),
        }
    }
}

/// The log of this program. Dropping it waits a moment for the last lines.
pub(crate) struct Log(SyncSender<Item>);

impl Drop for Log {
    fn drop(&mut self) {
        let (done, written) = mpsc::channel();
        let (mut item, until) = (Item::Flush(done), Instant::now() + PATIENCE);
        // A full queue is one that nobody reads, or one that will have room in a moment.
        while let Err(TrySendError::Full(back)) = self.0.try_send(item) {
            if Instant::now() >= until {
                return;
            }
            item = back;
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// Logs from now on, panics too. Called once, by the command that runs, which keeps the value to its end.
pub(crate) fn start(format: LogFormat, level: LevelFilter) -> Log {
    let (sender, queue) = mpsc::sync_channel(QUEUE);
    let writer = std::thread::Builder::new().name("log".into()).spawn(move || write_all(&queue));
    if writer.is_err() {
        // The queue has lost its other end: every line counts as lost.
        LOST_LOG_LINES.add(1);
    }
    let lines = sender.clone();
    let lines = tracing_subscriber::fmt()
        .with_writer(move || Lines(lines.clone()))
        .with_max_level(level)
        .with_target(false)
        // The library would complain about a writer on stderr itself, and panic where there is none.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(log_panic));
    Log(sender)
}

/// A panic is a line like any other, and waits for nobody to read it.
fn log_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let backtrace = std::backtrace::Backtrace::capture();
    match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => {
            tracing::error!(thread, "panic at {place}: {text}\n{backtrace}");
        }
        _ => tracing::error!(thread, "panic at {place}: {text}"),
    }
}
