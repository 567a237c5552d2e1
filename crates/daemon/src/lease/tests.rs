//! Candidates and terms, with folders in the place of daemons.

use super::*;

const LEASE: Duration = Duration::from_millis(60);

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("arles-lease-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn candidate(&self, url: &str) -> Candidate {
        Candidate::new(&self.0, url, LEASE).expect("the folder can be used")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Takes the lead, however long that needs.
fn lead(candidate: &mut Candidate) -> Arc<Term> {
    loop {
        if candidate.look().expect("readable") == Outlook::Vacant
            && let Some(term) = candidate.take().expect("writable")
        {
            return term;
        }
        std::thread::sleep(candidate.pause());
    }
}

#[test]
fn of_two_that_see_the_same_one_leads() {
    let folder = Folder::new("race");
    let (mut first, mut second) = (folder.candidate("http://a"), folder.candidate("http://b"));
    assert_eq!((first.look().unwrap(), second.look().unwrap()), (Outlook::Vacant, Outlook::Vacant));
    let term = first.take().unwrap().expect("it was faster");
    assert!(second.take().unwrap().is_none(), "it was slower");
    assert_eq!(second.look().unwrap(), Outlook::Wait(Some("http://a".to_owned())));
    assert!(term.check().is_ok());
    term.release();
    assert_eq!(second.look().unwrap(), Outlook::Vacant, "nobody need wait for one that has ended");
}

#[test]
fn a_leader_that_is_silent_is_followed_and_finds_out_whatever_it_does_next() {
    let folder = Folder::new("silent");
    let mut next = folder.candidate("http://b");
    let first = lead(&mut folder.candidate("http://a"));
    // Its count stands still, as if the process had been paused.
    first.fall_silent();
    fs::write(first.folder().join("journal.db"), "one\n").unwrap();
    let second = lead(&mut next);
    assert_eq!((first.number(), second.number()), (1, 2));
    let why = first.check().expect_err("it is over").to_string();
    assert!(why.contains("term 1 of this daemon is over (term 2 began)"), "{why}");
    assert!(first.is_lost() && second.check().is_ok());
    // Whatever it still writes is in a file of its own.
    fs::write(first.folder().join("journal.db"), "one\ntwo\n").unwrap();
    assert_eq!(fs::read_to_string(second.folder().join("journal.db")).unwrap(), "one\n");
    assert_eq!(newest_journal(&folder.0), second.folder());
}

#[test]
fn a_term_that_never_led_is_passed_over_and_cannot_begin() {
    let folder = Folder::new("passed");
    fs::write(folder.0.join("journal.db"), "plain").unwrap();
    let first = lead(&mut folder.candidate("http://a"));
    first.release();
    // One that died after it had made its folder, and one that is held up at the same point.
    fs::create_dir(folder_of(&folder.0, 2)).unwrap();
    let third = lead(&mut folder.candidate("http://c"));
    assert_eq!(third.number(), 3);
    assert_eq!(fs::read_to_string(third.folder().join("journal.db")).unwrap(), "plain");
    let late = Term::begin(2, folder_of(&folder.0, 2), "http://b", LEASE).unwrap();
    assert!(late.is_none(), "its seal was there before it");
}

#[test]
fn a_candidate_of_long_ago_does_not_lead() {
    let folder = Folder::new("ago");
    lead(&mut folder.candidate("http://a")).release();
    let mut held_up = folder.candidate("http://b");
    held_up.look().unwrap();
    for _ in 0..5 {
        lead(&mut folder.candidate("http://a")).release();
    }
    assert_eq!(terms(&folder.0).unwrap(), [4, 5, 6], "old ones are removed");
    assert!(held_up.take().unwrap().is_none());
    assert_eq!(terms(&folder.0).unwrap(), [4, 5, 6], "and nothing is left of the attempt");
}

#[test]
fn a_folder_is_shared_or_it_is_not() {
    let folder = Folder::new("shared");
    assert!(refuse_shared(&folder.0).is_ok());
    let lock = File::create(folder.0.join("lock")).unwrap();
    lock.try_lock().unwrap();
    let why = folder.candidate("http://a").take().expect_err("a daemon has the folder to itself").to_string();
    assert!(why.contains("a daemon without --standby is using"), "{why}");
    assert!(refuse_shared(&folder.0).is_ok(), "that daemon can be started again");
    drop(lock);
    let _term = lead(&mut folder.candidate("http://a"));
    let why = refuse_shared(&folder.0).expect_err("it is shared").to_string();
    assert!(why.contains("use --standby here too") && why.contains("term-000001"), "{why}");
}
