//! `arles agent`: a machine's GPUs as metrics, for whoever scrapes them.
//!
//! It reads the cards at a steady pace and answers `GET /metrics` in Prometheus' text format: enough of HTTP for a scraper, and nothing else.
//! With `--record` every reading is written down, so that tests can play a real card where there is none.

use crate::fault::{EXIT_CODES, Failed};
use crate::quantity;
use anyhow::{Context, Result};
use arles_engine::{Card, GpuReading, GpuTrouble, Nvidia, RecordedReading};
use clap::Args;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Meter the GPUs of this machine, for Prometheus
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Agent {
    /// Address for scrapers
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9470")]
    listen: SocketAddr,
    /// Time between two readings of every card
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = pace)]
    every: f64,
    /// End after this long [default: go on until stopped]
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::positive_seconds)]
    length: Option<f64>,
    /// Write every reading to this file, a JSON object to a line
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// A pause between readings: short, but never none.
fn pace(text: &str) -> Result<f64, String> {
    let seconds = quantity::seconds(text)?;
    match (0.01..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err(format!("'{text}' is no pause between readings; expected 10ms to 1h")),
    }
}

/// How long a scraper may take to say what it wants, and how much it may say.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_REQUEST: u64 = 8192;
/// Time between two readings of everything: a counter of energy takes 4 ms to answer, and misses nothing however seldom it is read. Between
/// them only power and utilisation are asked for.
const WHOLE_PACE: Duration = Duration::from_millis(990);

impl Agent {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let nvidia = Nvidia::open().map_err(Failed)?;
        let listener = TcpListener::bind(self.listen).with_context(|| format!("cannot listen on {}", self.listen))?;
        let mut record = match &self.record {
            Some(path) => {
                Some(BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
            }
            None => None,
        };
        writeln!(out, "metering {} GPUs on http://{}/metrics", nvidia.cards().len(), listener.local_addr()?)?;
        out.flush()?;
        let page = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&page);
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(&stream, &shown)));
        let (began, every) = (Instant::now(), Duration::from_secs_f64(self.every));
        let (mut next, mut looked) = (began, None);
        let mut last: Vec<Option<GpuReading>> = vec![None; nvidia.cards().len()];
        while self.length.is_none_or(|length| began.elapsed().as_secs_f64() < length) {
            let whole = looked.is_none_or(|at: Instant| at.elapsed() >= WHOLE_PACE);
            if whole {
                looked = Some(Instant::now());
            }
            // A card that could not be read is asked for everything again.
            let read = |(card, before): (&Card, &Option<GpuReading>)| match before {
                Some(before) if !whole => nvidia.glance(&card.uuid, before),
                _ => nvidia.look(&card.uuid),
            };
            let readings: Vec<Result<GpuReading, GpuTrouble>> = nvidia.cards().iter().zip(&last).map(read).collect();
            last = readings.iter().map(|reading| reading.as_ref().ok().copied()).collect();
            if let Some(file) = &mut record {
                for (card, said) in nvidia.cards().iter().zip(&readings) {
                    let line = RecordedReading { gpu: card.uuid.clone(), said: said.clone() };
                    serde_json::to_writer(&mut *file, &line)?;
                    file.write_all(b"\n")?;
                }
                file.flush()?;
            }
            *page.lock().unwrap_or_else(PoisonError::into_inner) = metrics(nvidia.cards(), &readings);
            next += every;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }
}

/// Answers one request; whatever goes wrong concerns its sender alone.
fn answer(stream: &TcpStream, page: &Mutex<String>) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let mut lines = BufReader::new(stream.take(LONGEST_REQUEST)).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    // The rest of the head is of no interest, but a connection that is closed with bytes unread is reset.
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let (status, body) = match request.split(' ').nth(1) {
        Some("/metrics") => ("200 OK", page.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        _ => ("404 Not Found", "expected GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = stream;
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

/// A family of metrics: name, type, help, and what a reading says of it.
type Family = (&'static str, &'static str, &'static str, fn(&GpuReading) -> Option<f64>);

const GIB: f64 = (1u64 << 30) as f64;
const FAMILIES: [Family; 13] = [
    ("arles_gpu_power_watts", "gauge", "Power draw", |r| Some(r.watts)),
    ("arles_gpu_energy_joules_total", "counter", "Energy since the driver was loaded, by the card's counter", |r| {
        r.joules
    }),
    ("arles_gpu_power_limit_watts", "gauge", "Power limit in force", |r| r.limit_watts),
    ("arles_gpu_busy_ratio", "gauge", "Part of the time with something to do", |r| r.utilisation),
    ("arles_gpu_memory_busy_ratio", "gauge", "Part of the time in which memory was read or written", |r| {
        r.memory_utilisation
    }),
    ("arles_gpu_memory_used_bytes", "gauge", "Device memory in use", |r| r.memory_gib.map(|gib| gib * GIB)),
    ("arles_gpu_temperature_celsius", "gauge", "Temperature of the chip", |r| r.celsius),
    ("arles_gpu_clock_hertz", "gauge", "Clock of the multiprocessors", |r| r.clock_mhz.map(|mhz| mhz * 1e6)),
    ("arles_gpu_power_capped", "gauge", "1 while the power limit holds the clock back", |r| {
        Some(f64::from(u8::from(r.power_capped)))
    }),
    ("arles_gpu_slowed_down", "gauge", "1 while heat or the power supply holds the clock back", |r| {
        Some(f64::from(u8::from(r.slowed_down)))
    }),
    ("arles_gpu_memory_errors_total", "counter", "Memory errors that could not be corrected", |r| {
        r.ecc_errors.map(|errors| errors as f64)
    }),
    ("arles_gpu_xid_errors_total", "counter", "Critical errors that the driver told of since the agent began", |r| {
        r.xid_errors.map(|errors| errors as f64)
    }),
    ("arles_gpu_last_xid", "gauge", "Number (Xid) of the last critical error; none before the first", |r| {
        r.last_xid.map(|number| number as f64)
    }),
];

fn metrics(cards: &[Card], readings: &[Result<GpuReading, GpuTrouble>]) -> String {
    let mut text = String::new();
    let labels = |card: &Card| {
        let kind = card.kind.as_deref().unwrap_or("unknown");
        format!("{{gpu=\"{}\",uuid=\"{}\",kind=\"{kind}\"}}", card.index, card.uuid)
    };
    let _ = writeln!(text, "# HELP arles_gpu_up 1 if the card could be read\n# TYPE arles_gpu_up gauge");
    for (card, reading) in cards.iter().zip(readings) {
        let _ = writeln!(text, "arles_gpu_up{} {}", labels(card), u8::from(reading.is_ok()));
    }
    for (name, kind, help, value) in FAMILIES {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (card, reading) in cards.iter().zip(readings) {
            if let Some(value) = reading.as_ref().ok().and_then(value) {
                let _ = writeln!(text, "{name}{} {value}", labels(card));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_what_the_cards_say() {
        let card = Card {
            index: 0,
            uuid: "GPU-1".into(),
            name: "NVIDIA H200".into(),
            kind: Some("h200".into()),
            memory_gib: 139.8,
            counts_energy: true,
            limit_watts: None,
            limits_watts: None,
            part_of: None,
        };
        let reading = GpuReading { watts: 76.5, joules: Some(1234.5), memory_gib: Some(2.0), ..GpuReading::default() };
        let lost = Card { index: 1, uuid: "GPU-2".into(), kind: None, ..card.clone() };
        let text = metrics(&[card, lost], &[Ok(reading), Err(GpuTrouble::Lost("lost".into()))]);
        assert!(
            text.contains("arles_gpu_energy_joules_total{gpu=\"0\",uuid=\"GPU-1\",kind=\"h200\"} 1234.5\n"),
            "{text}"
        );
        assert!(
            text.contains("arles_gpu_memory_used_bytes{gpu=\"0\",uuid=\"GPU-1\",kind=\"h200\"} 2147483648\n"),
            "{text}"
        );
        assert!(text.contains("arles_gpu_up{gpu=\"1\",uuid=\"GPU-2\",kind=\"unknown\"} 0\n"), "{text}");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let page = Mutex::new(text.clone());
        let server = std::thread::spawn(move || {
            listener.incoming().flatten().take(2).for_each(|stream| answer(&stream, &page));
        });
        let ask = |path: &str| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("answered");
            answer
        };
        assert!(ask("/metrics").ends_with(&text));
        assert!(ask("/").starts_with("HTTP/1.1 404"));
        server.join().expect("it ended");
    }
}
