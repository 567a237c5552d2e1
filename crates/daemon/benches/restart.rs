//! How long a restart takes: `cargo bench -p arles-daemon --bench restart [-- PAST:LIVE ...]`, jobs that are over and jobs that are live.
//!
//! A journal is filled with past jobs and a number of live ones, as if they had been there; the time is from opening the file until the
//! service is ready to take requests. The rival is the same journal without its snapshots: everything is replayed.

#[path = "../tests/common/mod.rs"]
mod common;

use arles_core::{JobId, Time};
use arles_daemon::access::Caller;
use arles_daemon::desk::JobsQuery;
use arles_daemon::service::Options;
use arles_daemon::store::{HistoryRow, Store};
use common::{Folder, block, cluster, header, request, start};
use std::time::Instant;

fn main() {
    println!("{:>12} {:>10} {:>14} {:>14} {:>12}", "past jobs", "live jobs", "journal MiB", "snapshot, s", "replay, s");
    let asked: Vec<(u64, u64)> = std::env::args().filter_map(|text| sizes(&text)).collect();
    let usual = [(10_000, 1_000), (100_000, 1_000), (1_000_000, 1_000), (1_000_000, 10_000), (1_000_000, 50_000)];
    for &(past, live) in if asked.is_empty() { &usual[..] } else { &asked } {
        let folder = Folder::new();
        let header = header(cluster(&[("v100", 400), ("k80", 400)]), &["a", "b"], "max-min-fairness");
        let who = Caller::loopback();
        let options = Options { speed: 60.0, keep_journal: true, snapshot_entries: u64::MAX, ..Options::default() };
        let service = start(&folder.0, &header, options.clone());
        let desk = service.desk();
        block(async {
            for chunk in 0..live / 100 {
                let submits: Vec<_> = (0..100)
                    .map(|i| {
                        let (desk, who) = (desk.clone(), who.clone());
                        let tenant = if (chunk + i) % 2 == 0 { "a" } else { "b" };
                        tokio::spawn(
                            async move { desk.submit(&who, None, request(tenant, "resnet50-b64", 1, 1e9)).await },
                        )
                    })
                    .collect();
                for submit in submits {
                    submit.await.expect("a task").expect("taken in");
                }
            }
        });
        let example = desk.view(&who).jobs(&JobsQuery::default()).expect("jobs").jobs.len();
        assert!(example > 0);
        service.stop().expect("a clean end");
        fill(&folder, past, live);
        let size = |name: &str| std::fs::metadata(folder.0.join(name)).map_or(0, |file| file.len());
        let bytes = size("journal.db") + size("journal.db-wal");
        let with = restart(&folder, &header, &options, live);
        drop_snapshots(&folder);
        let without = restart(&folder, &header, &options, live);
        println!("{past:>12} {live:>10} {:>14.0} {with:>14.3} {without:>12.3}", bytes as f64 / 1_048_576.0);
    }
}

/// Jobs that are over, and live ones.
fn sizes(text: &str) -> Option<(u64, u64)> {
    let (past, live) = text.split_once(':')?;
    Some((past.parse().ok()?, live.parse().ok()?))
}

/// A plausible line of history: what a job of this size is written as.
const RECORD: &str = r#"{"spec":{"id":0,"tenant":0,"workload":0,"gang":1,"work":{"steps":1000.0},"floor":null,"weight":1.0,"restart_seconds":10.0,"kinds":[],"arrived":0},"state":"completed","started":0,"ended":0,"steps":1000.0,"rate":null,"estimated_rate":9.5,"starts":1,"failures":0,"gpu_seconds":100.0,"charge":{"active_joules":1.0,"idle_joules":1.0,"restart_joules":0.0},"last_fence":1,"last_stop":0,"metered":true}"#;

fn fill(folder: &Folder, past: u64, live: u64) {
    let mut store = Store::open(&folder.0).expect("the journal");
    let first = live * 10;
    for chunk in (0..past).collect::<Vec<_>>().chunks(10_000) {
        let row = |n: &u64| HistoryRow::Past {
            id: JobId(first + n),
            tenant: if n.is_multiple_of(2) { "a".into() } else { "b".into() },
            workload: "resnet50-b64".into(),
            state: "completed".into(),
            ended: Time(*n),
            record: RECORD.replacen("\"id\":0", &format!("\"id\":{}", first + n), 1),
        };
        store.append(&[], &chunk.iter().map(row).collect::<Vec<_>>(), None).expect("written");
    }
}

fn restart(folder: &Folder, header: &arles_daemon::entry::JournalHeader, options: &Options, live: u64) -> f64 {
    let began = Instant::now();
    let service = start(&folder.0, header, options.clone());
    let desk = service.desk();
    assert!(desk.view(&Caller::loopback()).server().live_jobs == live);
    let page = desk.view(&Caller::loopback()).jobs(&JobsQuery::default()).expect("jobs");
    assert_eq!(page.jobs.len(), 100);
    let took = began.elapsed().as_secs_f64();
    service.stop().expect("a clean end");
    took
}

fn drop_snapshots(folder: &Folder) {
    let copy = folder.0.join("journal.db");
    let connection = rusqlite::Connection::open(copy).expect("the journal");
    connection.execute_batch("DELETE FROM snapshot; DELETE FROM snapshot_part").expect("dropped");
}
