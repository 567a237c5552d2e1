//! The catalog on disk: what it keeps, what it refuses, and that no damage goes unseen.

#[path = "support/draws.rs"]
mod support;

use arles_core::estimate::Source;
use arles_core::{Library, Mode, Precision, Profile, Time};
use arles_learn::catalog::MEASUREMENT_ERROR;
use arles_learn::catalog::disk::{Disk, DiskError};
use arles_learn::{Catalog, Cell, Key, Measurement};
use rusqlite::Connection;
use std::fs;
use std::path::Path;
use std::time::Duration;
use support::{Draws, folder};

fn key(workload: &str, partner: Option<&str>) -> Key {
    Key { workload: workload.into(), partner: partner.map(Into::into), kind: "v100".into(), gang: 1 }
}

fn measured(seconds: f64, rate: f64) -> Measurement {
    Measurement { rate, watts: Some(200.0), at: Time::from_seconds(seconds), error: MEASUREMENT_ERROR }
}

fn stated(rate: f64) -> Cell {
    Cell { rate, watts: None, source: Source::Stated, observations: 0, at: Time::ZERO, standard_error: 0.3 }
}

/// A catalog with something of everything, large enough to have inner pages.
fn sample(path: &Path) -> Catalog {
    let mut disk = Disk::open(path).unwrap();
    let mut batch = disk.begin().unwrap();
    for workload in &Library::builtin().workloads()[..20] {
        batch.describe(workload.clone()).unwrap();
        batch.put(key(&workload.name, None), stated(0.0)).unwrap();
        for i in 0..10 {
            batch
                .measure(key(&workload.name, Some(&format!("partner-{i}"))), &measured(1e9, f64::from(i) + 0.1))
                .unwrap();
        }
    }
    batch.commit().unwrap();
    disk.catalog().clone()
}

fn refusal(path: &Path) -> String {
    let before = fs::read(path).ok();
    let sentence = match Disk::open(path) {
        Err(DiskError::Refused(sentence) | DiskError::Failed(sentence)) => sentence,
        other => panic!("{}: {other:?}", path.display()),
    };
    assert_eq!(Disk::read(path).unwrap_err().to_string(), sentence);
    assert_eq!(fs::read(path).ok(), before, "{} was changed", path.display());
    assert!(sentence.starts_with(&path.display().to_string()) && !sentence.contains('\n'), "{sentence}");
    sentence
}

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    let path = folder("disk-again").join("catalog.sqlite");
    let mut memory = Catalog::default();
    let mut disk = Disk::open(&path).unwrap();
    for (i, rate) in [10.0, 1e-9, 1e9, f64::MIN_POSITIVE, f64::MAX, 0.1 + 0.2].into_iter().enumerate() {
        for k in [key("lm-b5", None), key("lm-b5", Some("a3c-b4")), key("own, \"quoted\" 'name' é", None)] {
            let m = measured(i as f64 * 1e4, rate);
            assert_eq!(disk.measure(k.clone(), &m).unwrap(), memory.measure(k, &m).unwrap());
        }
    }
    let workload = Library::builtin().workloads()[3].clone();
    disk.describe(workload.clone()).unwrap();
    memory.describe(workload);
    for (k, cell) in
        [(key("gone", None), stated(-0.0)), (key("lm-b5", None), stated(3.0)), (key("b", Some("b")), stated(0.0))]
    {
        assert_eq!(disk.put(k.clone(), cell).unwrap(), memory.put(k, cell).unwrap());
    }
    assert_eq!(disk.forget("gone").unwrap(), 1);
    memory.forget("gone");
    assert_eq!(disk.catalog(), &memory);
    drop(disk);
    assert_eq!(Disk::read(&path).unwrap(), memory);
    assert_eq!(Disk::open(&path).unwrap().catalog(), &memory);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "one file, and nothing beside it");
}

fn profile(params: f64) -> Profile {
    Profile {
        like: Some("lm-b5".into()),
        mode: Some(Mode::Inference),
        precision: Some(Precision::Tf32),
        batch: Some(7),
        params: Some(params),
        gpu_utilisation: Some(0.1 + 0.2),
        ..Profile::default()
    }
}

#[test]
fn cells_profiles_and_the_journal_are_written_together_and_to_the_bit() {
    let path = folder("disk-journal").join("catalog.sqlite");
    let mut memory = Catalog::default();
    for (i, rate) in [10.0, 1.0 / 3.0, 0.1 + 0.2, 7e-301].into_iter().enumerate() {
        for _ in 0..3 {
            memory.measure(key(&format!("own-{i}"), None), &measured(1e9 + i as f64, rate * 1.01)).unwrap();
        }
    }
    let profiles = [("own-0".to_owned(), profile(1e9 / 3.0)), ("own-1".to_owned(), Profile::default())];
    for (name, profile) in &profiles {
        memory.set_profile(name, profile.clone());
    }
    let mut disk = Disk::open(&path).unwrap();
    assert_eq!(disk.applied("3f9a01c2"), 0);
    disk.write(memory.cells(), profiles.iter().map(|(n, p)| (n.as_str(), p)), "3f9a01c2", 17).unwrap();
    disk.write([], [], "another journal", 3).unwrap();
    drop(disk);
    let mut again = Disk::open(&path).unwrap();
    assert_eq!([again.applied("3f9a01c2"), again.applied("another journal"), again.applied("none")], [17, 3, 0]);
    for (key, cell) in memory.cells() {
        let found = again.catalog().get(key).unwrap();
        let bits = |c: &Cell| (c.rate.to_bits(), c.standard_error.to_bits(), c.watts.map(f64::to_bits), c.observations);
        assert_eq!((bits(found), found.at), (bits(cell), cell.at));
    }
    assert_eq!(again.catalog(), &memory);
    assert_eq!(Disk::read(&path).unwrap(), memory);
    // A journal is not set back, and a refused profile writes nothing of its batch.
    again.write([], [], "3f9a01c2", 5).unwrap();
    assert_eq!(again.applied("3f9a01c2"), 17);
    let nonsense = [("own-2", &profile(f64::NAN))];
    let cells: Vec<(Key, Cell)> = vec![(key("new", None), stated(1.0))];
    let error = again.write(cells.iter().map(|(k, c)| (k, c)), nonsense, "3f9a01c2", 18).unwrap_err();
    assert!(error.to_string().contains("own-2: params is NaN"), "{error}");
    assert!(again.write([], [], "", 1).is_err() && again.write([], [], "x", u64::MAX).is_err());
    assert_eq!((again.catalog(), again.applied("3f9a01c2")), (&memory, 17));
    assert_eq!(again.forget("own-0").unwrap(), 1);
    assert!(Disk::read(&path).unwrap().profile("own-0").is_none());
}

#[test]
fn a_file_of_the_first_version_is_read_as_it_is_and_brought_up_to_date_to_be_written() {
    let path = folder("disk-first").join("catalog.sqlite");
    let before = sample(&path);
    let first = "DROP TABLE journals; DROP TABLE profiles; PRAGMA user_version = 1; VACUUM";
    Connection::open(&path).unwrap().execute_batch(first).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(Disk::read(&path).unwrap(), before);
    assert_eq!(fs::read(&path).unwrap(), bytes, "reading changed it");
    let mut disk = Disk::open(&path).unwrap();
    assert_eq!(disk.catalog(), &before);
    disk.write([], [("own", &profile(3.0))], "3f9a01c2", 4).unwrap();
    drop(disk);
    let disk = Disk::open(&path).unwrap();
    assert_eq!((disk.applied("3f9a01c2"), disk.catalog().profile("own")), (4, Some(&profile(3.0))));
    assert_eq!(disk.catalog().len(), before.len());
}

#[test]
fn who_reads_while_another_writes_sees_cells_and_journal_of_one_moment() {
    let path = folder("disk-beside").join("catalog.sqlite");
    let mut writer = Disk::open(&path).unwrap();
    let ends = 30;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = Disk::open(&path).unwrap();
            while reader.applied("journal") < ends {
                let observations = reader.refresh().unwrap().get(&key("a", None)).map_or(0, |cell| cell.observations);
                assert_eq!(reader.applied("journal"), u64::from(observations));
                drop(Disk::read(&path).unwrap());
            }
        });
        let mut memory = Catalog::default();
        for n in 1..=ends {
            memory.measure(key("a", None), &measured(n as f64, 2.0)).unwrap();
            writer.write(memory.cells(), [], "journal", n).unwrap();
        }
    });
}

#[test]
fn a_batch_is_all_or_nothing() {
    let path = folder("disk-batch").join("catalog.sqlite");
    let before = sample(&path);
    let mut disk = Disk::open(&path).unwrap();
    let mut batch = disk.begin().unwrap();
    batch.measure(key("new", None), &measured(0.0, 1.0)).unwrap();
    batch.forget(&Library::builtin().workloads()[0].name).unwrap();
    batch.describe(Library::builtin().workloads()[25].clone()).unwrap();
    batch.profile("new", &profile(1.0)).unwrap();
    batch.applied("3f9a01c2", 9).unwrap();
    assert!(matches!(batch.measure(key("new", None), &measured(0.0, f64::NAN)), Err(DiskError::Value(_))));
    assert_ne!(batch.catalog(), &before);
    drop(batch);
    assert_eq!(disk.catalog(), &before);
    assert_eq!(disk.applied("3f9a01c2"), 0);
    // What comes after an undone batch is sealed rightly.
    disk.measure(key("new", None), &measured(0.0, 1.0)).unwrap();
    assert_eq!(&Disk::read(&path).unwrap(), disk.catalog());
}

#[test]
fn nonsense_changes_nothing() {
    let path = folder("disk-nonsense").join("catalog.sqlite");
    let mut disk = Disk::open(&path).unwrap();
    for (k, cell, why) in [
        (key("", None), stated(1.0), "the name \"\" is empty"),
        (key("a", Some("")), stated(1.0), "is empty"),
        (key("a\nb", None), stated(1.0), "has a control or invisible character"),
        (key("a", None), stated(f64::NAN), "a rate of NaN"),
        (key("a", None), Cell { at: Time(u64::MAX), ..stated(1.0) }, "before the year 10000"),
        (key("a", None), Cell { standard_error: 1e200, ..stated(1.0) }, "a standard error of"),
        (Key { gang: 2, ..key("a", Some("b")) }, stated(1.0), "a gang of 2 beside a partner"),
    ] {
        let error = disk.put(k, cell).unwrap_err();
        assert!(matches!(&error, DiskError::Value(e) if e.0.contains(why)), "{error}");
    }
    let odd = arles_core::Workload { params: f64::INFINITY, ..Library::builtin().workloads()[0].clone() };
    assert!(disk.describe(odd).unwrap_err().to_string().contains("params is inf"));
    assert!(Disk::read(&path).unwrap().is_empty());
}

#[test]
fn files_that_are_something_else_are_refused_and_left_alone() {
    let folder = folder("disk-else");
    let check = |name: &str, bytes: &[u8], why: &str| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        let sentence = refusal(&path);
        assert!(sentence.contains(why), "{sentence}");
    };
    check("empty", b"", "an empty file");
    check("text", b"workload,kind,rate_steps_per_second\n", "begins with 'workload,kind,ra'");
    check("short", b"SQL", "a file of a few bytes");
    check("head", b"SQLite format 3\0", "this catalog is damaged");
    check("noise", &[7; 5000], "begins with '\\x07");
    assert!(refusal(&folder).contains("a folder"));
    assert!(Disk::read(&folder.join("none")).unwrap_err().to_string().contains("there is no such file"));
    assert!(!folder.join("none").exists());
    let nowhere = Disk::open(&folder.join("no/such/catalog")).unwrap_err();
    assert!(matches!(&nowhere, DiskError::Failed(s) if s.contains("cannot make this catalog")), "{nowhere}");
    let other = folder.join("other");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE notes (text)").unwrap();
    assert!(refusal(&other).contains("an SQLite file of another program"));
}

#[test]
fn catalogs_that_are_odd_inside_are_refused() {
    let folder = folder("disk-odd");
    let check = |name: &str, sql: &str, why: &str| {
        let path = folder.join(name);
        sample(&path);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let sentence = refusal(&path);
        assert!(sentence.contains(why), "{sentence}");
    };
    check(
        "newer",
        "PRAGMA user_version = 7",
        "is of version 7, and this arles knows versions up to 2; use a newer arles",
    );
    check("older", "PRAGMA user_version = 0", "version 0, which never was");
    check("table", "CREATE TABLE more (x)", "its tables are cells, journals, more, profiles, seal, workloads");
    check("dropped", "DROP TABLE seal", "its tables are cells, journals, profiles, workloads");
    check("negative", "UPDATE cells SET rate = -1 WHERE partner = 'partner-3'", "a rate of -1 steps/s");
    check("endless", "UPDATE cells SET rate = 9e999 WHERE partner = 'partner-3'", "a rate of inf steps/s");
    check("gangless", "UPDATE cells SET gang = 0 WHERE partner = 'partner-3'", "a gang of 0 GPUs");
    check("past", "UPDATE cells SET at = -5", "has at -5");
    check("word", "UPDATE cells SET source = 'guessed'", "has source \"guessed\"");
    check("mode", "UPDATE workloads SET mode = 'idle'", "has mode \"idle\"");
    check("lost", "DELETE FROM cells WHERE partner = 'partner-3'", "it has 220 rows and was left with 240");
    check(
        "edited",
        "UPDATE cells SET rate = 1.5 WHERE partner = 'partner-3'",
        "its rows are not those it was left with",
    );
    let own = "INSERT INTO profiles (name, params) VALUES ('own', 1.0)";
    check("added", own, "it has 241 rows and was left with 240");
    check("ahead", "INSERT INTO journals VALUES ('3f9a01c2', 9)", "it has 241 rows and was left with 240");
    check("before", "INSERT INTO journals VALUES ('3f9a01c2', -9)", "has seq -9");
    check("sealless", "DELETE FROM seal", "this catalog is damaged");
}

#[test]
fn no_damage_goes_unseen() {
    let folder = folder("disk-damage");
    let (sound, path) = (folder.join("sound"), folder.join("damaged"));
    let expected = sample(&sound);
    let bytes = fs::read(&sound).unwrap();
    let mut draws = Draws(1);
    let (mut refused, mut harmless) = (0, 0);
    for case in 0..400 {
        let mut damaged = bytes.clone();
        let at = draws.below(bytes.len() as u64) as usize;
        match case % 4 {
            0 => damaged[at] ^= 1 << draws.below(8),
            1 => damaged[at..bytes.len().min(at + 16)].iter_mut().for_each(|byte| *byte = draws.below(256) as u8),
            2 => damaged[at / 4096 * 4096..][..4096].fill(0),
            _ => damaged.truncate(at),
        }
        fs::write(&path, &damaged).unwrap();
        match Disk::open(&path) {
            Ok(disk) => {
                assert_eq!(disk.catalog(), &expected, "case {case}: byte {at} changed, and nobody noticed");
                harmless += 1;
            }
            Err(error) => {
                assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
                assert_eq!(fs::read(&path).unwrap(), damaged, "case {case}: the damaged file was changed");
                refused += 1;
            }
        }
        let _ = fs::remove_file(folder.join("damaged-journal"));
    }
    println!("{refused} of 400 damaged files refused, {harmless} read rightly in spite of it");
    assert!(refused > 200);
}

#[test]
fn a_catalog_cut_short_says_so() {
    let path = folder("disk-short").join("catalog.sqlite");
    sample(&path);
    let length = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 4096).unwrap();
    let sentence = refusal(&path);
    assert!(sentence.contains(&format!("it ends after {} of {length} bytes", length - 4096)), "{sentence}");
}

#[test]
fn who_waits_too_long_gets_a_sentence() {
    let path = folder("disk-busy").join("catalog.sqlite");
    let mut one = Disk::open_within(&path, Duration::from_millis(50)).unwrap();
    let mut two = Disk::open_within(&path, Duration::from_millis(50)).unwrap();
    let mut batch = one.begin().unwrap();
    batch.measure(key("a", None), &measured(0.0, 1.0)).unwrap();
    let error = two.measure(key("a", None), &measured(0.0, 2.0)).unwrap_err();
    assert!(matches!(&error, DiskError::Failed(s) if s.contains("another process is writing")), "{error}");
    // Nor do others in the same process, who open and close the file, take the writer's lock away.
    drop(Disk::read(&path).unwrap());
    assert!(two.begin().is_err());
    // Who only reads need not wait, and sees nothing of what is not committed.
    assert!(two.refresh().unwrap().is_empty());
    batch.commit().unwrap();
    let cell = two.measure(key("a", None), &measured(0.0, 2.0)).unwrap();
    assert_eq!(cell.observations, 2, "the other's measurement was taken in first");
    assert_eq!(one.refresh().unwrap(), two.catalog());
}

/// Runs one test of this binary again in a process that permissions bind: root may read and write everything, but not
/// without these two capabilities.
#[cfg(unix)]
fn without_override(test: &str) {
    if std::env::var_os("ARLES_TEST_BOUND").is_some() {
        return arles_testing::skip("permissions do not bind this user even without its capabilities");
    }
    let again = std::process::Command::new("setpriv")
        .args(["--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("ARLES_TEST_BOUND", "1")
        .output();
    match again {
        Err(_) => arles_testing::skip("permissions do not bind root, and there is no setpriv to give its rights up"),
        Ok(ran) => {
            let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            assert!(ran.status.success() && out.contains("1 passed"), "{out}{err}");
        }
    }
}

#[cfg(unix)]
#[test]
fn no_permission_is_no_damage() {
    use std::os::unix::fs::PermissionsExt;
    let path = folder("disk-permission").join("catalog.sqlite");
    let catalog = sample(&path);
    let permit = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    permit(0o000);
    if fs::File::open(&path).is_ok() {
        return without_override("no_permission_is_no_damage");
    }
    assert!(refusal(&path).contains("no permission to read"));
    permit(0o444);
    assert_eq!(Disk::read(&path).unwrap(), catalog);
    assert!(Disk::open(&path).unwrap_err().to_string().contains("no permission to write"));
}
