//! The journal on disk: what is not ours or too new is refused, damage is survived where it can be, copies are whole.

mod common;

use arles_daemon::access::Caller;
use arles_daemon::desk::{EnergyBy, JobsQuery, Page};
use arles_daemon::service::Options;
use arles_daemon::store::{FILE, Store};
use arles_daemon::views::Archive;
use common::{Folder, block, cluster, header, request, start, wait_until};
use rusqlite::Connection;

fn fast() -> Options {
    Options { speed: 3600.0, keep_journal: true, snapshot_entries: 20, ..Options::default() }
}

fn refusal(folder: &Folder) -> String {
    Store::open(&folder.0).err().expect("refused").to_string()
}

#[test]
fn what_is_not_ours_or_too_new_is_refused() {
    let folder = Folder::new();
    let path = folder.0.join(FILE);
    std::fs::write(&path, "once upon a time, there was a file that was no database at all").expect("written");
    assert!(refusal(&folder).contains("is not a journal of arles"), "{}", refusal(&folder));
    std::fs::remove_file(&path).expect("removed");
    let other = Connection::open(&path).expect("a database");
    other.execute_batch("CREATE TABLE accounts (name TEXT)").expect("a table");
    drop(other);
    assert!(refusal(&folder).contains("is a database, but not a journal of arles"), "{}", refusal(&folder));
    std::fs::remove_file(&path).expect("removed");
    drop(Store::open(&folder.0).expect("a new journal"));
    let newer = Connection::open(&path).expect("the journal");
    newer.pragma_update(None, "user_version", 99).expect("changed");
    drop(newer);
    let sentence = refusal(&folder);
    assert!(
        sentence.contains(
            "has format version 99, and this arles reads up to version 2; use the version of arles that wrote it"
        ),
        "{sentence}"
    );
    for never in [-1, i32::MIN, 0] {
        let older = Connection::open(&path).expect("the journal");
        older.pragma_update(None, "user_version", never).expect("changed");
        drop(older);
        let sentence = refusal(&folder);
        assert!(sentence.contains(&format!("has format version {never}, which no arles ever wrote")), "{sentence}");
        let sentence = Store::read(&path).err().expect("refused").to_string();
        assert!(sentence.contains("the file is damaged: use a backup"), "{sentence}");
    }
    let unread = Store::read(&folder.0.join("elsewhere")).err().expect("nothing there").to_string();
    assert!(unread.contains("no journal at"), "{unread}");
}

#[test]
fn a_second_daemon_is_kept_out() {
    let folder = Folder::new();
    let first = Store::open(&folder.0).expect("a journal");
    assert!(refusal(&folder).contains("another daemon is using"), "{}", refusal(&folder));
    drop(first);
    drop(Store::open(&folder.0).expect("free again"));
}

/// Runs a few jobs, with many snapshots on the way.
fn lived(folder: &Folder) -> arles_daemon::entry::JournalHeader {
    let header = header(cluster(&[("v100", 2), ("k80", 2)]), &["a", "b"], "max-min-fairness");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    for i in 0..20 {
        let tenant = if i % 2 == 0 { "a" } else { "b" };
        block(desk.submit(&Caller::loopback(), None, request(tenant, "resnet50-b64", 1, 2_000.0))).expect("taken in");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    wait_until("all are over", || desk.view(&Caller::loopback()).server().live_jobs == 0);
    service.stop().expect("a clean end");
    header
}

#[test]
fn a_damaged_snapshot_costs_time_and_nothing_else() {
    let folder = Folder::new();
    lived(&folder);
    let whole = Archive::open(&folder.0, &mut |remark| panic!("{remark}")).expect("the journal").fingerprint();
    let (retraced, entries, differing) = Archive::retrace(&folder.0).expect("the whole journal");
    assert!(entries > 40 && differing == 0);
    assert_eq!(retraced.fingerprint(), whole);
    drop(retraced);
    let connection = Connection::open(folder.0.join(FILE)).expect("the journal");
    let count: i64 = connection.query_row("SELECT count(*) FROM snapshot", [], |row| row.get(0)).expect("counted");
    assert_eq!(count, 2, "the two newest are kept");
    let newest = "(SELECT max(seq) FROM snapshot)";
    let sql = format!("UPDATE snapshot_part SET body = zeroblob(length(body)) WHERE seq = {newest}");
    connection.execute(&sql, []).expect("damaged");
    let mut remarks = Vec::new();
    let older = Archive::open(&folder.0, &mut |remark| remarks.push(remark)).expect("the older one").fingerprint();
    assert_eq!(older, whole, "the older snapshot and the entries since lead to the same state");
    assert!(remarks.len() == 1 && remarks[0].contains("is damaged; trying an older one"), "{remarks:?}");
    connection.execute("UPDATE snapshot_part SET body = zeroblob(length(body))", []).expect("damaged");
    let none = Archive::open(&folder.0, &mut |_| {}).expect("from the first entry").fingerprint();
    assert_eq!(none, whole);
    connection.execute("DELETE FROM journal WHERE seq < 5", []).expect("deleted");
    let lost = Archive::open(&folder.0, &mut |_| {}).err().expect("nothing to begin with").to_string();
    assert!(lost.contains("restore a copy made by 'arles backup'"), "{lost}");
}

#[test]
fn a_copy_is_whole_while_the_daemon_goes_on() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
    let service = start(&folder.0, &header, fast());
    let desk = service.desk();
    for _ in 0..30 {
        block(desk.submit(&Caller::loopback(), None, request("a", "resnet50-b64", 1, 1e6))).expect("taken in");
    }
    let copy = folder.0.join("copy.db");
    Store::read(&folder.0).expect("a reader").back_up(&copy).expect("a copy");
    let again = Store::read(&folder.0).expect("a reader").back_up(&copy).expect_err("it is there").to_string();
    assert!(again.contains("already exists"), "{again}");
    block(desk.submit(&Caller::loopback(), None, request("a", "resnet50-b64", 1, 1e6))).expect("taken in");
    let archive = Archive::open(&copy, &mut |remark| panic!("{remark}")).expect("the copy");
    let who = Caller::loopback();
    assert_eq!(archive.view(&who).jobs(&JobsQuery::default()).expect("jobs").jobs.len(), 30);
    service.stop().expect("a clean end");
}

#[test]
fn energy_adds_up_across_restarts() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2), ("k80", 2)]), &["a", "b"], "max-min-fairness");
    let who = Caller::loopback();
    let used = |account: &arles_api::EnergyAccount| -> f64 {
        account.rows.iter().map(|r| r.energy.active_joules + r.energy.idle_joules + r.energy.restart_joules).sum()
    };
    let mut last = 0.0;
    for life in 0..4 {
        let service = start(&folder.0, &header, fast());
        let desk = service.desk();
        if life < 2 {
            for tenant in ["a", "b", "a"] {
                block(desk.submit(&who, None, request(tenant, "resnet50-b64", 1, 60_000.0))).expect("taken in");
            }
        }
        let read = |by| desk.view(&who).energy(by, None, None, &Page::default()).expect("energy");
        let before = read(EnergyBy::Kind).to;
        wait_until("meters are read", || read(EnergyBy::Kind).to > before + 600.0);
        if life == 3 {
            wait_until("all are over", || desk.view(&who).server().live_jobs == 0);
            let before = read(EnergyBy::Kind).to;
            wait_until("meters are read", || read(EnergyBy::Kind).to > before + 300.0);
            let (kinds, tenants, jobs) =
                (used(&read(EnergyBy::Kind)), used(&read(EnergyBy::Tenant)), used(&read(EnergyBy::Job)));
            assert!((tenants - jobs).abs() <= 1e-6 * jobs, "{tenants} J by tenant, {jobs} J by job");
            // What was drawn between the last reading and a restart is known to nobody; it is missing on both sides alike.
            assert!((kinds - tenants).abs() <= 1e-6 * kinds, "{kinds} J by kind, {tenants} J by tenant");
        }
        let total = read(EnergyBy::Kind).total_joules;
        assert!(total > last, "accounts only grow: {total} after {last}");
        last = total;
        service.stop().expect("a clean end");
    }
}
