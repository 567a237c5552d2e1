//! The journal on disk: what is not ours or too new is refused, damage is survived where it can be, copies are whole.

mod common;

use arles_core::Time;
use arles_daemon::access::Caller;
use arles_daemon::desk::{EnergyBy, JobsQuery, Page};
use arles_daemon::service::Options;
use arles_daemon::service::verify::verify;
use arles_daemon::store::{Deed, FILE, HistoryRow, MaintenanceStep, Retention, Store, copies};
use arles_daemon::views::Archive;
use common::{Folder, block, cluster, header, request, start, try_start, wait_until};
use rusqlite::Connection;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
            "has format version 99, and this arles reads up to version 3; use the version of arles that wrote it"
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
        assert!(sentence.contains("the file is damaged: 'arles restore' brings a backup back"), "{sentence}");
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
    let used = |account: &arles_api::EnergyAccount| -> f64 { account.rows.iter().map(|r| r.energy.joules()).sum() };
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

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display())).permissions().mode() & 0o777
}

/// A journal with one running daemon behind it: files as they lie on the disk while it runs, with a log that is not folded in.
fn copied_alive(jobs: u32) -> (Folder, arles_daemon::entry::JournalHeader) {
    let (alive, saved) = (Folder::new(), Folder::new());
    let header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
    let options = Options { snapshot_entries: 1_000_000, ..Options::default() };
    let service = start(&alive.0, &header, options);
    let desk = service.desk();
    let reader = Connection::open(alive.0.join(FILE)).expect("a reader");
    for job in 0..jobs {
        if job == jobs / 2 {
            // So far everything is in the file; whoever reads an old state keeps what follows out of it.
            reader.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).expect("folded");
            reader.execute_batch("BEGIN; SELECT count(*) FROM meta;").expect("reading");
        }
        block(desk.submit(&Caller::loopback(), None, request("a", "resnet50-b64", 1, 1e9))).expect("taken in");
    }
    // These are the files of one moment if nothing was written meanwhile.
    for _ in 0..100 {
        let before = std::fs::read(alive.0.join("journal.mark")).expect("a mark");
        for name in [FILE, "journal.db-wal", "journal.mark"] {
            std::fs::copy(alive.0.join(name), saved.0.join(name)).expect("copied");
        }
        let wal = std::fs::metadata(saved.0.join("journal.db-wal")).expect("a log").len();
        if before == std::fs::read(alive.0.join("journal.mark")).expect("a mark") && wal > 0 {
            break;
        }
    }
    drop(reader);
    service.stop().expect("a clean end");
    (saved, header)
}

fn clone_of(saved: &Folder) -> Folder {
    let folder = Folder::new();
    for name in [FILE, "journal.db-wal", "journal.mark"] {
        let _ = std::fs::copy(saved.0.join(name), folder.0.join(name));
    }
    folder
}

#[test]
fn after_a_clean_end_the_file_alone_is_the_whole_journal() {
    let folder = Folder::new();
    lived(&folder);
    let whole = Archive::open(&folder.0, &mut |remark| panic!("{remark}")).expect("the journal").fingerprint();
    let log = std::fs::metadata(folder.0.join("journal.db-wal")).map_or(0, |meta| meta.len());
    assert_eq!(log, 0, "nothing is left in the write-ahead log");
    let elsewhere = Folder::new();
    std::fs::copy(folder.0.join(FILE), elsewhere.0.join(FILE)).expect("copied");
    let alone = Archive::open(&elsewhere.0, &mut |remark| panic!("{remark}")).expect("the copy").fingerprint();
    assert_eq!(alone, whole);
    let found = verify(&folder.0).expect("looked at");
    assert_eq!(found.findings, Vec::<String>::new());
    assert!(found.hashed_entries == found.entries && found.entries > 40 && found.snapshots == 2, "{found:?}");
}

#[test]
fn a_journal_that_lost_its_end_says_so_and_gives_no_number_out_again() {
    let (saved, header) = copied_alive(12);
    let folder = clone_of(&saved);
    std::fs::remove_file(folder.0.join("journal.db-wal")).expect("left behind");
    let mut remarks = Vec::new();
    let opened = Archive::open(&folder.0, &mut |remark| remarks.push(remark));
    let lost = opened.is_err() || remarks.iter().any(|remark| remark.contains("are lost"));
    assert!(lost, "{remarks:?}");
    drop(opened);
    let service = try_start(&folder.0, &header, Options::default(), |engine| Box::new(engine)).expect("it starts");
    let (job, _) = block(service.desk().submit(&Caller::loopback(), None, request("a", "resnet50-b64", 1, 1.0)))
        .expect("taken in");
    assert_eq!(job.id, 13, "numbers go on");
    let told = service.desk().events(&Caller::loopback(), 0, 1000);
    assert!(
        told.is_none_or(|(events, _)| events.iter().any(|event| event.text.contains("were lost"))),
        "it is an event too"
    );
    service.stop().expect("a clean end");
    let after = Archive::open(&folder.0, &mut |remark| panic!("{remark}"));
    assert!(after.is_ok(), "it is told once, and in the journal from then on");
}

#[test]
fn a_journal_that_is_gone_altogether_is_not_begun_anew_without_a_word() {
    let (saved, header) = copied_alive(4);
    let folder = clone_of(&saved);
    std::fs::remove_file(folder.0.join("journal.db-wal")).expect("left behind");
    std::fs::write(folder.0.join(FILE), "").expect("emptied");
    let refused = try_start(&folder.0, &header, Options::default(), |engine| Box::new(engine));
    let told = refused.err().expect("nothing is begun in its place").to_string();
    assert!(told.contains("the journal is lost, with its jobs"), "{told}");
    std::fs::remove_file(folder.0.join("journal.mark")).expect("as it says");
    let service = try_start(&folder.0, &header, Options::default(), |engine| Box::new(engine)).expect("a new journal");
    service.stop().expect("a clean end");
}

/// The older copy of a journal in the place of the newest: every entry in between is missing.
#[test]
fn an_older_copy_in_the_place_of_the_journal_is_noticed() {
    let folder = Folder::new();
    let header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
    let service = start(&folder.0, &header, Options::default());
    let submit = |service: &arles_daemon::service::Service| {
        let job = block(service.desk().submit(&Caller::loopback(), None, request("a", "resnet50-b64", 1, 1e9)));
        job.expect("taken in").0.id
    };
    for _ in 0..5 {
        submit(&service);
    }
    let copy = folder.0.join("copy.db");
    Store::read(&folder.0).expect("a reader").back_up(&copy).expect("a copy");
    for _ in 0..5 {
        submit(&service);
    }
    service.stop().expect("a clean end");
    std::fs::rename(&copy, folder.0.join(FILE)).expect("in its place");
    for name in ["journal.db-wal", "journal.db-shm"] {
        let _ = std::fs::remove_file(folder.0.join(name));
    }
    let found = verify(&folder.0).expect("looked at").findings;
    assert!(found.iter().any(|finding| finding.contains("are lost")), "{found:?}");
    let service = start(&folder.0, &header, Options::default());
    assert_eq!(submit(&service), 11, "numbers of jobs that are lost are not given out again");
    service.stop().expect("a clean end");
}

#[test]
fn an_entry_that_was_changed_is_refused() {
    let folder = Folder::new();
    lived(&folder);
    let changes = [
        "UPDATE journal SET entry = replace(entry, '2000', '2001') WHERE seq = (SELECT min(seq) FROM journal WHERE entry LIKE '%2000%')",
        "UPDATE journal SET at = at + 1 WHERE seq = 7",
        "UPDATE journal SET digest = digest + 1 WHERE seq = 7",
        "UPDATE journal SET by = '{\"name\":\"mallory\"}' WHERE seq = 7",
        "UPDATE journal SET chain = NULL WHERE seq = 7",
        "DELETE FROM journal WHERE seq = 7",
    ];
    for change in changes {
        let copy = Folder::new();
        std::fs::copy(folder.0.join(FILE), copy.0.join(FILE)).expect("copied");
        let connection = Connection::open(copy.0.join(FILE)).expect("the journal");
        assert_eq!(connection.execute(change, []).expect("changed"), 1, "{change}");
        drop(connection);
        let told = Archive::retrace(&copy.0).err().expect("refused").to_string();
        assert!(told.contains("damaged") || told.contains("missing"), "{change}: {told}");
        let findings = verify(&copy.0).expect("looked at").findings;
        assert!(!findings.is_empty(), "{change}");
    }
}

#[test]
fn rows_that_stand_alone_are_sealed() {
    let folder = Folder::new();
    lived(&folder);
    let mut store = Store::open(&folder.0).expect("the journal");
    let (token, _) = arles_daemon::desk::fresh_token("ci", arles_daemon::access::Scope::Read, None);
    store.put_token(&token).expect("kept");
    assert_eq!(store.tokens().expect("tokens").len(), 1);
    drop(store);
    let connection = Connection::open(folder.0.join(FILE)).expect("the journal");
    connection.execute("UPDATE token SET scope = 'admin'", []).expect("changed");
    assert_eq!(Store::read(&folder.0).expect("a reader").tokens().expect("tokens"), [], "nobody knows what it may do");
    let findings = verify(&folder.0).expect("looked at").findings;
    assert!(findings.len() == 1 && findings[0].contains("token 'ci' is damaged"), "{findings:?}");
    connection
        .execute("UPDATE meta SET value = replace(value, 'v100', 'v101') WHERE key = 'ground'", [])
        .expect("changed");
    let told = Archive::open(&folder.0, &mut |_| {}).err().expect("refused").to_string();
    assert!(told.contains("the row 'ground' of the table meta"), "{told}");
}

/// Bytes are changed at random, in the file or in its log. The journal is then refused, or right, or says what it lost; and no number is given
/// out twice.
#[test]
fn flipped_bits_are_refused_or_harmless_or_told() {
    const JOBS: u32 = 30;
    let (saved, header) = copied_alive(JOBS);
    let whole = {
        let copy = clone_of(&saved);
        Archive::open(&copy.0, &mut |remark| panic!("{remark}")).expect("as it was").fingerprint()
    };
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below.max(1)
    };
    let (mut refused, mut right, mut told) = (0, 0, 0);
    for round in 0..60 {
        let copy = clone_of(&saved);
        let path = copy.0.join(if round % 2 == 0 { "journal.db-wal" } else { FILE });
        let mut bytes = std::fs::read(&path).expect("bytes");
        for _ in 0..1 + round % 3 {
            let at = random(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random(8);
        }
        std::fs::write(&path, &bytes).expect("written");
        let mut remarks = Vec::new();
        let service = match Archive::open(&copy.0, &mut |remark| remarks.push(remark)) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
                continue;
            }
            Ok(archive) => {
                let same = archive.fingerprint() == whole;
                assert!(same || !remarks.is_empty(), "round {round}: something is lost without a word");
                (right, told) = (right + u32::from(same), told + u32::from(!same));
                drop(archive);
                try_start(&copy.0, &header, Options::default(), |engine| Box::new(engine))
            }
        };
        let Ok(service) = service else { continue };
        if let Ok((job, _)) =
            block(service.desk().submit(&Caller::loopback(), None, request("a", "resnet50-b64", 1, 1.0)))
        {
            assert!(job.id > u64::from(JOBS), "round {round}: number {} is given out again", job.id);
        }
        let _ = service.stop();
    }
    assert!(told > 0 && right + refused > 0, "{refused} refused, {right} right, {told} told");
}

#[test]
fn folder_and_files_are_their_owners_alone() {
    let parent = Folder::new();
    let folder = parent.0.join("state");
    let header = header(cluster(&[("v100", 2)]), &["a"], "fifo");
    let service = start(&folder, &header, Options::default());
    block(service.desk().submit(&Caller::loopback(), None, request("a", "resnet50-b64", 1, 1e9))).expect("taken in");
    let copy = parent.0.join("copy.db");
    Store::read(&folder).expect("a reader").back_up(&copy).expect("a copy");
    assert_eq!(mode(&folder), 0o700);
    for name in ["lock", FILE, "journal.db-wal", "journal.db-shm", "journal.mark"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&copy), 0o600);
    service.stop().expect("a clean end");
    // A folder that an older version left open is closed; one with other things in it is left alone.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("opened");
    std::fs::set_permissions(folder.join("lock"), std::fs::Permissions::from_mode(0o644)).expect("opened");
    drop(Store::open(&folder).expect("the journal"));
    assert_eq!((mode(&folder), mode(&folder.join("lock"))), (0o700, 0o600));
    let shared = parent.0.join("shared");
    std::fs::create_dir(&shared).expect("a folder");
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o755)).expect("opened");
    std::fs::write(shared.join("notes"), "ours").expect("written");
    drop(Store::open(&shared).expect("a journal"));
    assert_eq!(mode(&shared), 0o755);
}

/// A copy is closed to others from its first byte on, and has its name only once it is checked.
#[test]
fn a_copy_in_the_making_is_private_and_unnamed() {
    let folder = Folder::new();
    lived(&folder);
    let target = folder.0.join("night.db");
    copies::copy_checked(&folder.0, &target, &mut |part| {
        assert_eq!(mode(part), 0o600);
        assert!(part.to_string_lossy().ends_with("night.db.part") && !target.exists());
        Ok(())
    })
    .expect("a copy");
    assert!(target.exists() && !folder.0.join("night.db.part").exists());
    let no = |_: &Path| Err(arles_daemon::store::StoreError::Refused("no".into()));
    copies::copy_checked(&folder.0, &folder.0.join("bad.db"), &mut { no }).expect_err("not checked");
    assert!(!folder.0.join("bad.db").exists() && !folder.0.join("bad.db.part").exists());
}

#[test]
fn copies_rotate_and_nothing_goes_before_the_new_one_is_good() {
    let folder = Folder::new();
    lived(&folder);
    let to = folder.0.join("copies");
    let names = || {
        let mut names: Vec<String> =
            to.read_dir().expect("a folder").flatten().map(|e| e.file_name().into_string().expect("text")).collect();
        names.sort();
        names
    };
    for hour in 0..5 {
        copies::rotate(&folder.0, &to, 3, hour * 3600, &mut |_| Ok(())).expect("a copy");
    }
    assert_eq!(names(), ["journal-19700101T020000Z.db", "journal-19700101T030000Z.db", "journal-19700101T040000Z.db"]);
    std::fs::write(to.join("journal-notes.db"), "mine").expect("written");
    std::fs::write(to.join("journal-19700101T050000Z.db.part"), "half").expect("written");
    let bad = |_: &Path| Err(arles_daemon::store::StoreError::Refused("no".into()));
    copies::rotate(&folder.0, &to, 1, 6 * 3600, &mut { bad }).expect_err("not good");
    assert_eq!(names().len(), 4, "nothing went but the half of a copy: {:?}", names());
    copies::rotate(&folder.0, &to, 1, 7 * 3600, &mut |_| Ok(())).expect("a copy");
    assert_eq!(names(), ["journal-19700101T070000Z.db", "journal-notes.db"]);
}

fn seconds(at: u64) -> Time {
    Time(at * 1_000_000)
}

#[test]
fn the_newest_periods_of_an_audit_are_kept_when_there_are_too_many() {
    let folder = Folder::new();
    let mut store = Store::open(&folder.0).expect("a journal");
    let period = |at: u64| HistoryRow::Audit { at: seconds(at), until: seconds(at + 1), facts: at.to_string() };
    store.append(&[], &(0..30).map(period).collect::<Vec<_>>(), None).expect("written");
    let found: Vec<(Time, Time, u64)> = store.audits(Time(0), seconds(100), 10).expect("read");
    let facts: Vec<u64> = found.iter().map(|(.., facts)| *facts).collect();
    assert_eq!(facts, (20..30).collect::<Vec<_>>());
}

#[test]
fn what_is_older_than_it_is_kept_goes_a_little_at_a_time() {
    let folder = Folder::new();
    let mut store = Store::open(&folder.0).expect("a journal");
    let mut rows = Vec::new();
    for at in 0..1200 {
        let (tenant, workload, state) = ("a".to_owned(), "w".to_owned(), "completed".to_owned());
        rows.push(HistoryRow::Past {
            id: arles_core::JobId(at + 1),
            tenant,
            workload,
            state,
            ended: seconds(at),
            record: (at + 1).to_string(),
        });
        rows.push(HistoryRow::Sample { at: seconds(at), totals: at.to_string() });
        rows.push(HistoryRow::Audit { at: seconds(at), until: seconds(at + 1), facts: at.to_string() });
        rows.push(HistoryRow::Deed(Deed {
            at: seconds(at),
            name: "ada".into(),
            kind: "submit".into(),
            ..Deed::default()
        }));
    }
    store.append(&[], &rows, None).expect("written");
    let retention = Retention { jobs_seconds: 100.0, samples_seconds: 200.0, log_seconds: 300.0 };
    let step = MaintenanceStep::Prune(retention.bounds(seconds(1200)));
    let count = |table: &str| -> i64 {
        let connection = Connection::open(folder.0.join(FILE)).expect("the journal");
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("counted")
    };
    store.append(&[], &[], Some(&step)).expect("pruned");
    assert_eq!(count("past"), 700, "a few hundred at a time");
    for _ in 0..3 {
        store.append(&[], &[], Some(&step)).expect("pruned");
    }
    assert_eq!((count("past"), count("sample"), count("deed")), (100, 200, 300));
    assert_eq!(count("audit"), 201, "a period that reaches into what is kept stays");
    let (at, _): (Time, u64) = store.sample_at(seconds(1000)).expect("read").expect("the account at the bound");
    assert_eq!(at, seconds(1000));
}

/// Takes away from a journal what this version added.
fn as_version_2(path: &Path) {
    let connection = Connection::open(path).expect("the journal");
    connection
        .execute_batch(
            "DROP TABLE deed; DROP INDEX past_ended;
             ALTER TABLE journal DROP COLUMN by; ALTER TABLE journal DROP COLUMN chain;
             ALTER TABLE snapshot DROP COLUMN chain; ALTER TABLE snapshot DROP COLUMN seal;
             ALTER TABLE meta DROP COLUMN seal; ALTER TABLE token DROP COLUMN seal;
             ALTER TABLE token DROP COLUMN expires; ALTER TABLE token DROP COLUMN used; ALTER TABLE token DROP COLUMN rotated;
             ALTER TABLE token DROP COLUMN id; DROP TABLE old_secret;
             PRAGMA user_version = 2;",
        )
        .expect("older");
}

#[test]
fn a_journal_of_the_version_before_is_read_as_it_is_and_goes_on_with_hashes() {
    let folder = Folder::new();
    let header = lived(&folder);
    let whole = Archive::open(&folder.0, &mut |remark| panic!("{remark}")).expect("the journal").fingerprint();
    std::fs::remove_file(folder.0.join("journal.mark")).expect("it had none");
    as_version_2(&folder.0.join(FILE));
    let read = Archive::open(&folder.0, &mut |remark| panic!("{remark}")).expect("an older journal").fingerprint();
    assert_eq!(read, whole);
    let version = || -> i32 {
        let connection = Connection::open(folder.0.join(FILE)).expect("the journal");
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a version")
    };
    assert_eq!(version(), 2, "who reads changes nothing");
    let service = start(&folder.0, &header, fast());
    block(service.desk().submit(&Caller::loopback(), None, request("a", "resnet50-b64", 1, 10.0))).expect("taken in");
    service.stop().expect("a clean end");
    assert_eq!(version(), 3);
    let found = verify(&folder.0).expect("looked at");
    assert_eq!(found.findings, Vec::<String>::new());
    assert!(found.hashed_entries > 0 && found.hashed_entries < found.entries, "{found:?}");
}
