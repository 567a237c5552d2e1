//! A virtual cluster in a process of its own, so that it outlives the daemon that drives it.
//!
//! Requests come over a Unix socket, a line of JSON each. A thread for every connection: one that was cut in the middle of a
//! line, or that says nothing any more, keeps nobody else waiting; half a line is never acted upon. Calls are done one at a time.
//!
//! Time runs on by itself: it is T + speed·w, where T is the largest time it was given and w the wall time since then. With
//! speed 0 it is what it is given, as in [`Virtual`]. This is the only place of the crate that looks at a clock.
//!
//! Every order that is done or refused, and every end of a gang, is a line of the log before its answer is sent. When the log
//! cannot be written any more nothing is answered but that: a witness that missed something is none.

use crate::Virtual;
use crate::wire::{Answer, Call, Reply, Request};
use arles_core::Time;
use arles_core::engine::{Engine, EngineError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at what happened by itself.
const TICK: Duration = Duration::from_millis(50);

/// No sensible request is longer: a roll call of a million jobs is a quarter of it.
const LONGEST_LINE: u64 = 1 << 30;

/// Serves a virtual cluster until the socket fails. Its time runs `speed` times as fast as the clock on the wall.
///
/// # Errors
/// When `speed` is negative or no number, or the socket fails.
#[expect(clippy::needless_pass_by_value, reason = "the socket is closed when nobody serves it any more")]
pub fn serve<W: Write + Send + 'static>(
    listener: UnixListener,
    mut world: Virtual,
    speed: f64,
    log: W,
) -> io::Result<()> {
    if !(speed.is_finite() && speed >= 0.0) {
        let why = format!("a virtual cluster cannot run {speed} times as fast as the clock; give a number from 0 up");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    world.deeds = Some(Vec::new());
    let host = Arc::new(Mutex::new(Host { world, speed, given: None, log, broken: None }));
    let watched = Arc::downgrade(&host);
    if speed > 0.0 {
        std::thread::spawn(move || {
            while let Some(host) = watched.upgrade() {
                lock(&host).tick();
                drop(host);
                std::thread::sleep(TICK);
            }
        });
    }
    for stream in listener.incoming() {
        let (stream, host) = (stream?, Arc::clone(&host));
        // Whatever becomes of a connection concerns its client alone, who sees it.
        std::thread::spawn(move || converse(&stream, &host));
    }
    Ok(())
}

fn lock<T>(host: &Mutex<T>) -> MutexGuard<'_, T> {
    host.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one client until it goes.
fn converse<W: Write>(stream: &UnixStream, host: &Mutex<Host<W>>) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok(());
        }
        let answer = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => lock(host).answer(&request),
            Err(e) => Answer { next_event: None, reply: Err(format!("the request is not one of this engine's: {e}")) },
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        writer.write_all(&text)?;
    }
}

struct Host<W> {
    world: Virtual,
    speed: f64,
    /// The largest time it was given, and when that was.
    given: Option<(Time, Instant)>,
    log: W,
    /// Why the log is no longer written.
    broken: Option<String>,
}

impl<W: Write> Host<W> {
    /// The time it is.
    fn clock(&self) -> Option<Time> {
        let (given, at) = self.given?;
        Some(given.after(at.elapsed().as_secs_f64() * self.speed))
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let now = match self.clock() {
            Some(own) if own >= request.now => own,
            _ => {
                self.given = Some((request.now, Instant::now()));
                request.now
            }
        };
        let reply = match self.broken {
            None => self.call(now, &request.call).map_err(|e| e.0),
            Some(_) => Ok(Reply::Done),
        };
        self.write_down();
        let reply = self.broken.clone().map_or(reply, Err);
        Answer { next_event: self.world.next_event(), reply }
    }

    fn call(&mut self, now: Time, call: &Call) -> Result<Reply, EngineError> {
        let world = &mut self.world;
        Ok(match call {
            Call::SetCluster(cluster) => {
                world.set_cluster(now, cluster)?;
                Reply::Done
            }
            Call::Roll(live) => Reply::Meters(world.sync_jobs(now, live)?),
            Call::Enrol(job) => world.add_job(now, job).map(|()| Reply::Done)?,
            Call::Dismiss(job) => Reply::Meter(world.remove_job(now, *job)?),
            Call::Apply(order) => Reply::OrderReply(world.apply(now, order)?),
            Call::News => Reply::News(world.poll(now)?),
            Call::Survey { asked_at } => Reply::EngineReport(Box::new(world.survey(now, *asked_at)?)),
            Call::FailNode(node) => world.fail_node(now, *node).map(|()| Reply::Done)?,
            Call::RestoreNode(node) => world.restore_node(now, *node).map(|()| Reply::Done)?,
        })
    }

    /// Lets happen what is due, asked or not.
    fn tick(&mut self) {
        if let Some(now) = self.clock() {
            self.world.pass(now);
            self.write_down();
        }
    }

    fn write_down(&mut self) {
        let lines = self.world.deeds.replace(Vec::new()).unwrap_or_default();
        if lines.is_empty() || self.broken.is_some() {
            return;
        }
        let mut write = || -> io::Result<()> {
            let mut text = Vec::new();
            for line in &lines {
                serde_json::to_writer(&mut text, line)?;
                text.push(b'\n');
            }
            self.log.write_all(&text)?;
            self.log.flush()
        };
        if let Err(e) = write() {
            self.broken =
                Some(format!("the virtual cluster's log cannot be written: {e}; make room and begin it anew"));
        }
    }
}
