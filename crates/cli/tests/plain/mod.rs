//! Daemons and worlds as processes, and HTTP without any of our own code.
// Every test binary compiles all of it and uses a part.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) const ARLES: &str = env!("CARGO_BIN_EXE_arles");

/// A folder of its own, gone with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("arles-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of a failure is worth a look.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// A virtual cluster as a process.
pub(crate) struct World {
    child: Child,
    pub(crate) socket: PathBuf,
    pub(crate) log: PathBuf,
}

impl World {
    pub(crate) fn start(folder: &Path, cluster: &str, speed: u32) -> Self {
        let (socket, log) = (folder.join("world"), folder.join("world.log"));
        let child = Command::new(ARLES)
            .args(["world", "--cluster", cluster, "--speed", &speed.to_string(), "--listen"])
            .arg(&socket)
            .arg("--log")
            .arg(&log)
            .stderr(Stdio::null())
            .spawn()
            .expect("a world");
        wait_until("the world listens", || socket.exists());
        Self { child, socket, log }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A daemon as a process.
pub(crate) struct Daemon {
    child: Child,
    address: PathBuf,
}

impl Daemon {
    pub(crate) fn start(folder: &Path, cluster: &str, speed: u32, world: Option<&Path>) -> Self {
        let mut flags: Vec<String> =
            ["--keep-journal", "--snapshot-entries", "150", "--round", "60s", "--survey", "60s"]
                .map(str::to_owned)
                .into();
        if let Some(world) = world {
            flags.extend(["--world".to_owned(), world.to_string_lossy().into_owned()]);
        }
        Self::start_with(folder, cluster, speed, &flags)
    }

    pub(crate) fn start_with(folder: &Path, cluster: &str, speed: u32, flags: &[String]) -> Self {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("daemon.log")).expect("a log");
        Self::start_logging(folder, cluster, speed, flags, log)
    }

    /// With its log wherever the test wants it.
    pub(crate) fn start_logging(
        folder: &Path,
        cluster: &str,
        speed: u32,
        flags: &[String],
        log: impl Into<Stdio>,
    ) -> Self {
        let state = folder.join("state");
        let address = state.join("address");
        let _ = std::fs::remove_file(&address);
        let limited = flags.iter().any(|flag| flag == "--requests-per-second");
        let mut child = Command::new(ARLES)
            .args(["serve", "--listen", "127.0.0.1:0", "--open-loopback", "--estimator", "oracle"])
            .args(["--requests-per-second", "1000000"].iter().filter(|_| !limited))
            .args(["--cluster", cluster, "--speed", &speed.to_string(), "--state"])
            .arg(&state)
            .args(flags)
            .stderr(log)
            .spawn()
            .expect("a daemon");
        // A pipe loses its reader at once: whatever is written from now on fails.
        drop(child.stderr.take());
        Self { child, address }
    }

    /// Where it listens, once it does.
    pub(crate) fn address(&mut self) -> SocketAddr {
        let mut found = None;
        wait_until("the daemon listens", || {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("the daemon ended by itself: {status}; see daemon.log");
            }
            let text = std::fs::read_to_string(&self.address).unwrap_or_default();
            found = text.strip_prefix("http://").and_then(|address| address.parse().ok());
            found.is_some_and(|address| {
                call(address, "GET", "/readyz", None, None).is_ok_and(|(status, _)| status == 200)
            })
        });
        found.expect("waited for")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// SIGTERM, and a clean end.
    pub(crate) fn stop(&mut self) {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill");
        assert!(told.success());
        let status = self.child.wait().expect("gone");
        assert!(status.success(), "a clean end: {status}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a daemon is, or several of which one leads.
pub(crate) struct Door {
    addresses: Vec<SocketAddr>,
    at: AtomicUsize,
}

impl Door {
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, at: AtomicUsize::new(0) }
    }

    /// One request to whoever answered last; if that one is away or unavailable, the next goes to another.
    pub(crate) fn call(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<&str>,
    ) -> io::Result<(u16, String)> {
        let (at, many) = (self.at.load(Ordering::Relaxed), self.addresses.len());
        let patience = Duration::from_secs(if many > 1 { 2 } else { 30 });
        let answer = call_within(patience, self.addresses[at % many], method, path, key, body);
        if answer.as_ref().map_or(true, |(status, _)| *status == 503) && many > 1 {
            let _ = self.at.compare_exchange(at, at + 1, Ordering::Relaxed, Ordering::Relaxed);
            answer?;
            return Err(io::Error::other("not this one, or not now"));
        }
        answer
    }
}

/// One request on a connection of its own: status and body.
pub(crate) fn call(
    to: SocketAddr,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: Option<&str>,
) -> io::Result<(u16, String)> {
    call_within(Duration::from_secs(30), to, method, path, key, body)
}

/// The same with another patience.
pub(crate) fn call_within(
    patience: Duration,
    to: SocketAddr,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: Option<&str>,
) -> io::Result<(u16, String)> {
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(patience))?;
    let mut out = &stream;
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let length = match body {
        Some(body) => format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()),
        None => String::new(),
    };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n{key}{length}\r\n");
    out.write_all((head + body.unwrap_or_default()).as_bytes())?;
    let mut reader = BufReader::new(&stream);
    let (status, length) = head_of(&mut reader)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    String::from_utf8(body).map(|body| (status, body)).map_err(io::Error::other)
}

/// Reads the head of an answer: its status, and how long its body is.
pub(crate) fn head_of(reader: &mut impl BufRead) -> io::Result<(u16, usize)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no answer: '{line}'")))?;
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::Error::other("cut off"));
        }
        if line == "\r\n" {
            return Ok((status, length));
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
}

/// Every job the daemon knows, live and past, with its state.
pub(crate) fn all_jobs(to: &Door) -> BTreeMap<u64, String> {
    let (mut jobs, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let path = format!("/v1/jobs?limit=1000&order=oldest{cursor}");
        let (status, body) = patiently(|| to.call("GET", &path, None, None));
        assert_eq!(status, 200, "{body}");
        let page: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        for job in page["jobs"].as_array().into_iter().flatten() {
            let (id, state) = (job["id"].as_u64().expect("a number"), job["state"].as_str().expect("a state"));
            assert!(jobs.insert(id, state.to_owned()).is_none(), "job {id} is listed twice");
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return jobs,
        }
    }
}

/// What a process holds in memory.
pub(crate) fn memory_mib(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Processor time that a process has used, all its threads together, in seconds: what a machine with other work on it does not change much.
pub(crate) fn processor_seconds(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in brackets, may hold spaces; user and system time are the 12th and 13th words behind it, in hundredths of a second.
    let words = text.rsplit_once(')').map_or("", |(_, words)| words).split_whitespace();
    words.skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Tries until it works, for at most a minute.
pub(crate) fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> T {
    let mut last = None;
    for _ in 0..3000 {
        match attempt() {
            Ok(done) => return done,
            Err(error) => last = Some(error),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("tried for a minute in vain: {last:?}");
}

/// Waits until something holds, for at most three minutes.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..18_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited three minutes in vain: {what}");
}
