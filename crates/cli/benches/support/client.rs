//! Clients that keep their connections, a pace, and latencies counted from when a request was due, so that a server that falls behind
//! cannot hide it.

use super::plain::head_of;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A connection that is kept.
pub(crate) struct Line {
    reader: BufReader<TcpStream>,
    to: SocketAddr,
    pub(crate) body: Vec<u8>,
}

impl Line {
    pub(crate) fn open(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Self { reader: BufReader::new(stream), to, body: Vec::new() }
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> u16 {
        self.ask_as("", method, path, body)
    }

    /// The same with header lines of one's own.
    pub(crate) fn ask_as(&mut self, headers: &str, method: &str, path: &str, body: &str) -> u16 {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.to,
            body.len()
        );
        self.reader.get_mut().write_all(head.as_bytes()).expect("sent");
        let (status, length) = head_of(&mut self.reader).expect("an answer");
        self.body.resize(length, 0);
        self.reader.read_exact(&mut self.body).expect("a body");
        status
    }
}

/// `connections` clients ask the n-th thing for `seconds`, together `per_second` times a second (0: as fast as it goes); latencies in seconds, sorted.
pub(crate) fn drive(
    to: SocketAddr,
    ask: impl Fn(&mut Line, u64) + Copy + Send + 'static,
    connections: u64,
    per_second: f64,
    seconds: f64,
) -> (Vec<f64>, f64) {
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let next = Arc::clone(&next);
            std::thread::spawn(move || {
                let (mut line, mut took) = (Line::open(to), Vec::new());
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let due = if per_second > 0.0 { n as f64 / per_second } else { began.elapsed().as_secs_f64() };
                    if due > seconds {
                        return took;
                    }
                    let early = due - began.elapsed().as_secs_f64();
                    if early > 0.0 {
                        std::thread::sleep(Duration::from_secs_f64(early));
                    }
                    ask(&mut line, n);
                    took.push(began.elapsed().as_secs_f64() - due);
                }
            })
        })
        .collect();
    let mut took: Vec<f64> = clients.into_iter().flat_map(|client| client.join().expect("a client")).collect();
    let elapsed = began.elapsed().as_secs_f64();
    took.sort_by(f64::total_cmp);
    (took, elapsed)
}

pub(crate) fn tell(name: &str, took: &[f64], elapsed: f64) {
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize] * 1e3;
    println!(
        "{name:<34} {:>8.0}/s   p50 {:>7.2} ms   p99 {:>7.2} ms   p99.9 {:>7.2} ms   worst {:>7.2} ms",
        took.len() as f64 / elapsed,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
