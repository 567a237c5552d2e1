//! Writers that are killed, and writers that meet. The test runs itself as the child.

#[path = "support/draws.rs"]
mod support;

use arles_core::estimate::Source;
use arles_core::{Library, Profile, Time};
use arles_learn::catalog::MEASUREMENT_ERROR;
use arles_learn::catalog::disk::{Batch, Disk, DiskError};
use arles_learn::{Catalog, Cell, Key, Measurement};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Draws, folder};

const FILE: &str = "ARLES_TEST_CATALOG";
const FROM: &str = "ARLES_TEST_FROM";
const COUNT: &str = "ARLES_TEST_COUNT";
const JOURNAL: &str = "3f9a01c2";

/// The n-th change: mostly measurements, now and then a batch of many, and a workload that is forgotten.
fn change(batch: &mut Batch<'_>, n: u64) -> Result<(), DiskError> {
    let key = |name: u64| Key { workload: format!("workload-{name}"), partner: None, kind: "v100".into(), gang: 1 };
    let m = Measurement { rate: 1.0 + n as f64, watts: None, at: Time(n * 1_000_000), error: MEASUREMENT_ERROR };
    // How far the journal came goes with every change.
    batch.applied(JOURNAL, n + 1)?;
    match n % 10 {
        8 => batch.profile(
            &format!("workload-{}", n % 5),
            &Profile { params: Some(n as f64 / 3.0), like: Some("lm-b5".into()), ..Profile::default() },
        ),
        7 => {
            let stated = Cell {
                rate: n as f64,
                watts: None,
                source: Source::Stated,
                observations: 0,
                at: m.at,
                standard_error: 0.3,
            };
            for name in 0..60 {
                batch.put(Key { gang: 2, ..key(name) }, stated)?;
            }
            batch.describe(Library::builtin().workloads()[n as usize % 50].clone())
        }
        9 => batch.forget(&format!("workload-{}", n % 5)).map(drop),
        _ => batch.measure(key(n % 5), &m).map(drop),
    }
}

/// What the file must hold after `n` changes, worked out in another file without haste.
fn expected(folder: &Path, n: u64) -> Catalog {
    let path = folder.join("expected.sqlite");
    let _ = std::fs::remove_file(&path);
    let mut disk = Disk::open(&path).unwrap();
    let mut batch = disk.begin().unwrap();
    (0..n).for_each(|n| change(&mut batch, n).unwrap());
    batch.commit().unwrap();
    disk.catalog().clone()
}

/// The child: changes, and says so when each is durable. Does nothing in a run of the tests.
#[test]
fn child() {
    let Some(path) = std::env::var_os(FILE).map(PathBuf::from) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (from, count) = (number(FROM), number(COUNT));
    let mut disk = Disk::open(&path).unwrap();
    for n in from..from.saturating_add(count) {
        let mut batch = disk.begin().unwrap();
        change(&mut batch, n).unwrap();
        batch.commit().unwrap();
        // One write, so that no half of an acknowledgement is ever read.
        std::io::stdout().write_all(format!("\nack {n}\n").as_bytes()).unwrap();
    }
}

fn spawn(path: &Path, from: u64, count: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FILE, path)
        .env(FROM, from.to_string())
        .env(COUNT, count.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_writer_loses_nothing_that_it_acknowledged() {
    let folder = folder("disk-killed");
    let path = folder.join("catalog.sqlite");
    let mut draws = Draws(20);
    let (mut n, mut rolled_back) = (0, 0);
    for kill in 0..20 {
        let mut child = spawn(&path, n, u64::MAX);
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        // The first kills come while the file is being made; later ones only once the child is at work.
        while kill >= 3 && !line.starts_with("ack") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the child ended by itself");
        }
        std::thread::sleep(Duration::from_micros(draws.below(60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        lines.read_to_string(&mut line).unwrap();
        let acknowledged = line.lines().filter_map(|line| line.strip_prefix("ack ")?.parse::<u64>().ok()).max();
        n = acknowledged.map_or(n, |last| last + 1);
        rolled_back += u32::from(folder.join("catalog.sqlite-journal").exists());
        if path.exists() {
            let found = Disk::read(&path).unwrap_or_else(|error| panic!("kill {kill} after {n} changes: {error}"));
            if found != expected(&folder, n) {
                assert_eq!(found, expected(&folder, n + 1), "kill {kill} after {n} changes");
                n += 1;
            }
            // Neither less nor more of the journal than is in the cells.
            assert_eq!(Disk::open(&path).unwrap().applied(JOURNAL), n, "kill {kill}");
        } else {
            assert_eq!(n, 0, "kill {kill}: the file is gone");
        }
    }
    println!("20 kills, {n} changes, {rolled_back} times a half-done change was rolled back");
    assert!(n >= 17, "every child but the first three acknowledged something");
}

#[test]
fn writers_that_meet_lose_nothing() {
    let path = folder("disk-met").join("catalog.sqlite");
    let mut children: Vec<Child> = (0..4).map(|_| spawn(&path, 0, 7)).collect();
    for child in &mut children {
        let mut printed = String::new();
        child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert!(child.wait().unwrap().success() && printed.contains("ack 6"), "{printed}");
    }
    // Changes 0 to 6 measure workloads 0 to 4, of which 0 and 1 twice.
    let catalog = Disk::read(&path).unwrap();
    let observations: Vec<u32> = catalog.cells().map(|(_, cell)| cell.observations).collect();
    assert_eq!(observations, [8, 8, 4, 4, 4]);
}
