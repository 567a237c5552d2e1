//! A virtual cluster in a process of its own, so that it outlives the daemon that drives it.
//!
//! Requests come over a Unix socket, a line of JSON each. A thread for every connection: one that was cut in the middle of a
//! line, or that says nothing any more, keeps nobody else waiting; half a line is never acted upon. Calls are done one at a time.
//!
//! Time runs on by itself: it is T + speed·w, where T is the largest time it was given and w the wall time since then. With
//! speed 0 it is what it is given, as in [`Virtual`]. This is the only place of the crate that looks at a clock.
//!
//! Who may: processes of the same user or of root, and of those one driver at a time. The first line of a connection says on whose behalf it is
//! ([`Mandate`]). The cluster belongs to the journal that drove it first. A later term of that journal is obeyed at once, and from then on nothing
//! that an earlier term says is done: the check and the deed are under one lock. A driver of the same term has to wait until the one
//! before has hung up, which a process that dies does at once.
//!
//! Every order that is done or refused, and every end of a gang, is a line of the log before its answer is sent. When the log
//! cannot be written any more nothing is answered but that: a witness that missed something is none.

use crate::Virtual;
use crate::log::{LogEvent, LogLine};
use crate::wire::{Answer, Call, Denial, Hello, PROTOCOL, Reply, Request, Welcome};
use arles_core::Time;
use arles_core::engine::{Engine, EngineError, Mandate};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at what happened by itself.
const TICK: Duration = Duration::from_millis(50);

/// How long a connection may take to say who it is.
const HELLO: Duration = Duration::from_secs(10);
/// Most connections at once; a driver needs one.
const CONNECTIONS: usize = 64;
/// Pause after no connection could be accepted: descriptors that are used up now are free again later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// No sensible request is longer: a roll call of a million jobs is a quarter of it.
const LONGEST_LINE: u64 = 1 << 30;

/// Serves a virtual cluster until the socket is closed. Its time runs `speed` times as fast as the clock on the wall.
///
/// # Errors
/// When `speed` is negative or no number, or this is no listening socket.
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
    let host = Arc::new(Mutex::new(Host { world, speed, given: None, lead: None, log, broken: None }));
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
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept() {
            Ok((stream, _)) => receive(stream, &host, &open),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            // Out of descriptors or of memory, or the peer is gone already: none of it ends a cluster on which jobs run.
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
    }
}

/// Gives a connection a thread, if it may have one.
fn receive<W: Write + Send + 'static>(stream: UnixStream, host: &Arc<Mutex<Host<W>>>, open: &Arc<AtomicUsize>) {
    if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
        open.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let (host, counted) = (Arc::clone(host), Arc::clone(open));
    // Whatever becomes of a connection concerns its client alone, who sees it.
    let spawned = std::thread::Builder::new().spawn(move || {
        let _ = converse(&stream, &host);
        counted.fetch_sub(1, Ordering::Relaxed);
    });
    if spawned.is_err() {
        open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(host: &Mutex<T>) -> MutexGuard<'_, T> {
    host.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether whoever is at the other end is of the same user, or root.
fn is_ours(stream: &UnixStream) -> io::Result<bool> {
    let (peer, own) = (rustix::net::sockopt::socket_peercred(stream)?.uid, rustix::process::geteuid());
    Ok(peer == own || peer.is_root())
}

/// Reads a line; `None` at the end.
fn line_of(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    Ok((line.pop() == Some(b'\n')).then_some(line))
}

fn say(mut writer: &UnixStream, answer: &impl serde::Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    writer.write_all(&text)
}

/// Answers one client until it goes.
fn converse<W: Write>(stream: &UnixStream, host: &Mutex<Host<W>>) -> io::Result<()> {
    if !is_ours(stream)? {
        let why = "this virtual cluster belongs to another user; start one of your own, or run the daemon as that user";
        return say(stream, &Welcome::Err(Denial { why: why.to_owned(), deposed: false }));
    }
    stream.set_read_timeout(Some(HELLO))?;
    let mut reader = BufReader::new(stream);
    let Some(line) = line_of(&mut reader)? else { return Ok(()) };
    let hello = match serde_json::from_slice::<Hello>(&line) {
        Ok(hello) => hello,
        Err(e) => {
            let why = format!("the greeting is not one of this engine's: {e}; use the same version of arles");
            return say(stream, &Welcome::Err(Denial { why, deposed: false }));
        }
    };
    let welcome = lock(host).greet(&hello);
    say(stream, &welcome)?;
    if welcome.is_err() {
        return Ok(());
    }
    stream.set_read_timeout(None)?;
    let answered = answer_all(stream, &mut reader, host, &hello);
    lock(host).hang_up(&hello.session);
    answered
}

fn answer_all<W: Write>(
    stream: &UnixStream,
    reader: &mut impl BufRead,
    host: &Mutex<Host<W>>,
    hello: &Hello<'_>,
) -> io::Result<()> {
    while let Some(line) = line_of(reader)? {
        let answer = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => lock(host).answer(hello, &request),
            Err(e) => {
                let why = format!("the request is not one of this engine's: {e}");
                Answer { next_event: None, reply: Err(why), deposed: false }
            }
        };
        say(stream, &answer)?;
    }
    Ok(())
}

/// Who is obeyed.
struct Lead {
    mandate: Mandate,
    session: String,
    connections: usize,
}

struct Host<W> {
    world: Virtual,
    speed: f64,
    /// The largest time it was given, and when that was.
    given: Option<(Time, Instant)>,
    lead: Option<Lead>,
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

    /// Decides whether a driver is obeyed from now on.
    fn greet(&mut self, hello: &Hello<'_>) -> Welcome {
        let denied = |why: String, deposed: bool| Err(Denial { why, deposed });
        let (theirs, ours) = (hello.protocol, PROTOCOL);
        if theirs != ours {
            return denied(
                format!(
                    "the daemon speaks version {theirs} of the protocol and this virtual cluster {ours}; use the same version of arles for both"
                ),
                false,
            );
        }
        let asked = &*hello.mandate;
        let kinds: Vec<&str> = self.world.world().cluster().kinds().iter().map(|kind| kind.name.as_str()).collect();
        if !asked.kinds.is_empty() && !asked.kinds.iter().any(|kind| kinds.contains(&kind.as_str())) {
            let (have, want) = (kinds.join(", "), asked.kinds.join(", "));
            return denied(
                format!(
                    "this virtual cluster has {have} and the daemon's cluster {want}; give the socket of its own with --world"
                ),
                false,
            );
        }
        if let Some(lead) = &mut self.lead {
            let (term, later) = (lead.mandate.term, asked.term);
            if lead.session == hello.session {
                lead.connections += 1;
                return Ok(());
            }
            if lead.mandate.journal != asked.journal {
                let (own, other) = (&lead.mandate.journal, &asked.journal);
                return denied(
                    format!(
                        "this virtual cluster belongs to the journal '{own}', and the daemon's is '{other}'; start another with 'arles world', or this one anew"
                    ),
                    false,
                );
            }
            if later < term {
                return denied(
                    format!("term {term} is obeyed here, and this daemon's is {later}: another leads"),
                    true,
                );
            }
            if later == term && lead.connections > 0 {
                return denied(
                    "another daemon drives this virtual cluster; stop it first, or use --standby with both".to_owned(),
                    false,
                );
            }
        }
        let at = self.clock().unwrap_or(Time::ZERO);
        self.world.deeds.get_or_insert_default().push(LogLine { at, deed: LogEvent::Led(asked.term) });
        self.write_down();
        self.lead = Some(Lead { mandate: asked.clone(), session: hello.session.to_string(), connections: 1 });
        Ok(())
    }

    fn hang_up(&mut self, session: &str) {
        if let Some(lead) = self.lead.as_mut().filter(|lead| lead.session == session) {
            lead.connections = lead.connections.saturating_sub(1);
        }
    }

    /// Says why a driver is no longer obeyed, if so.
    fn superseded(&mut self, hello: &Hello<'_>, request: &Request) -> Option<Answer> {
        let lead = self.lead.as_ref().filter(|lead| lead.session != hello.session)?;
        let (term, own) = (lead.mandate.term, hello.mandate.term);
        if let Call::Apply(order) = &request.call {
            let at = self.clock().unwrap_or(Time::ZERO);
            let deed = LogEvent::Late(own, order.clone().into_owned());
            self.world.deeds.get_or_insert_default().push(LogLine { at, deed });
            self.write_down();
        }
        let why = format!("term {term} is obeyed here, and this daemon's is {own}: another leads");
        Some(Answer { next_event: None, reply: Err(why), deposed: term > own })
    }

    fn answer(&mut self, hello: &Hello<'_>, request: &Request) -> Answer {
        if let Some(answer) = self.superseded(hello, request) {
            return answer;
        }
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
        Answer { next_event: self.world.next_event(), reply, deposed: false }
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
