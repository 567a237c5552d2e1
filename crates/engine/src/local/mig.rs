//! Cards that are divided into slices (NVIDIA's Multi-Instance GPU), made and unmade.
//!
//! Slices are made with the driver's own tool, `nvidia-smi`, and only on a card that nobody uses: dividing it ends whatever runs there. What was
//! made is noted under `/run`, which a restart of the machine empties, as it undoes slices. They go when their maker ends, unless programs are on
//! them; then the next engine finds them as they are, and whoever wants no slices unmakes them once nobody is on them
//! ([`unmake_left_over`]).
//!
//! Must never: change a card that somebody uses, or undo slices that somebody else made.

use super::nvidia::Nvidia;
use super::tree::Identity;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NOTES: &str = "/run/arles/mig";
const TOOL: &str = "nvidia-smi";

/// How cards of a kind are to be divided: `h200=3g.71gb+2g.35gb+1g.18gb+1g.18gb`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MigLayout {
    /// The kind, by the library's name.
    pub kind: String,
    /// Profiles of the slices.
    pub slices: Vec<String>,
}

/// How a card is divided now.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Division {
    /// Whether the card is in MIG mode: without slices it can run nothing then.
    pub(super) mig: bool,
    /// Profiles of its slices.
    pub(super) slices: Vec<String>,
    /// Processes on the card, or on slices of it.
    pub(super) users: Vec<u32>,
}

/// What dividing asks of a driver.
trait Driver: Send {
    /// UUIDs of the cards of a kind, divided or not.
    fn cards(&self, kind: &str) -> Result<Vec<String>, String>;
    fn division(&self, uuid: &str) -> Result<Division, String>;
    /// Runs the driver's tool with these words.
    fn tool(&self, words: &[&str]) -> Result<(), String>;
}

/// NVIDIA's. It is opened anew for every look: what it says of a card that was divided since is out of date.
struct NvidiaDriver;

impl Driver for NvidiaDriver {
    fn cards(&self, kind: &str) -> Result<Vec<String>, String> {
        Ok(Nvidia::open()?.whole_cards(kind))
    }

    fn division(&self, uuid: &str) -> Result<Division, String> {
        Nvidia::open()?.division(uuid)
    }

    fn tool(&self, words: &[&str]) -> Result<(), String> {
        let said = Command::new(TOOL).args(words).stdin(Stdio::null()).output();
        let said = said.map_err(|error| format!("{TOOL} cannot be run: {error}; it comes with the driver"))?;
        if said.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&said.stdout);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
        Err(format!("'{TOOL} {}' failed: {last}; dividing cards takes root", words.join(" ")))
    }
}

/// A card that was divided, and by whom.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Note {
    uuid: String,
    slices: Vec<String>,
    /// Whether the card was in MIG mode before.
    mig_before: bool,
    by: Identity,
}

/// Slices that are there as long as this is, and longer while programs are on them.
pub struct Slices {
    driver: Box<dyn Driver>,
    notes: PathBuf,
    made: Vec<Note>,
}

impl Slices {
    /// Divides every card of the layout's kind that is not divided that way already.
    ///
    /// # Errors
    /// A sentence, when there is no such card, somebody uses one, or the driver refuses. Cards that were divided before are whole again then.
    pub fn make(layout: &MigLayout) -> Result<Self, String> {
        Self::make_with(Box::new(NvidiaDriver), Path::new(NOTES), layout)
    }

    fn make_with(driver: Box<dyn Driver>, notes: &Path, layout: &MigLayout) -> Result<Self, String> {
        let cards = driver.cards(&layout.kind)?;
        if cards.is_empty() {
            return Err(format!("this machine has no {} to divide; 'arles gpus' lists what it has", layout.kind));
        }
        let mut slices = Self { driver, notes: notes.to_owned(), made: Vec::new() };
        cards.iter().try_for_each(|uuid| slices.divide(uuid, layout))?;
        Ok(slices)
    }

    fn divide(&mut self, uuid: &str, layout: &MigLayout) -> Result<(), String> {
        let Division { mig, slices: mut there, users } = self.driver.division(uuid)?;
        let mut wanted = layout.slices.clone();
        there.sort();
        wanted.sort();
        let by = Identity::of(std::process::id()).ok_or("this process cannot be found in /proc")?;
        let before = read(&self.notes.join(uuid));
        if let Some(other) = before.as_ref().filter(|note| note.by.alive() && note.by != by) {
            return Err(format!("process {} has divided GPU {uuid}; wait until it has ended", other.by.pid));
        }
        if there == wanted {
            // Left by an engine before, perhaps with programs on them: from here on they are ours. An operator's own are nobody's to unmake.
            if let Some(before) = before {
                self.note(Note { by, ..before })?;
            }
            return Ok(());
        }
        if let Some(pid) = users.first() {
            return Err(format!("process {pid} uses GPU {uuid}; a card is divided only while nobody uses it"));
        }
        if !there.is_empty() && before.is_none() {
            let there = there.join(" + ");
            return Err(format!(
                "GPU {uuid} is divided into {there} already, not by arles; unmake these slices first, or leave out --mig-layout"
            ));
        }
        let mig_before = before.map_or(mig, |note| note.mig_before);
        self.note(Note { uuid: uuid.to_owned(), slices: wanted, mig_before, by })?;
        if !there.is_empty() {
            clear(&*self.driver, uuid)?;
        }
        if !mig {
            self.driver.tool(&["-i", uuid, "-mig", "1"])?;
        }
        self.driver.tool(&["mig", "-i", uuid, "-cgi", &layout.slices.join(","), "-C"])
    }

    /// What is to be undone, on disk before it is done. Whole or not at all.
    fn note(&mut self, note: Note) -> Result<(), String> {
        let path = self.notes.join(&note.uuid);
        let new = path.with_extension("new");
        let text = serde_json::to_vec(&note).map_err(|error| error.to_string())?;
        let made = fs::create_dir_all(&self.notes);
        let written = made.and_then(|()| fs::write(&new, text)).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| {
            format!("what is divided cannot be noted in {}: {error}; dividing cards takes root", path.display())
        })?;
        self.made.push(note);
        Ok(())
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        for note in &self.made {
            if let Err(why) = unmake(&*self.driver, &self.notes, note) {
                tracing::warn!("GPU {} stays divided: {why}", note.uuid);
            }
        }
    }
}

/// Makes cards whole again that a process which was killed had divided, where nobody is on them; says so, in sentences.
pub fn unmake_left_over() -> Vec<String> {
    unmake_left_over_with(&NvidiaDriver, Path::new(NOTES))
}

fn unmake_left_over_with(driver: &dyn Driver, notes: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(notes) else { return Vec::new() };
    let left = entries.flatten().filter_map(|entry| read(&entry.path())).filter(|note| !note.by.alive());
    let unmade = left.filter_map(|note| {
        unmake(driver, notes, &note).ok()?;
        let Note { uuid, by, .. } = note;
        Some(format!("GPU {uuid} is whole again: process {} ended without undoing its slices", by.pid))
    });
    unmade.collect()
}

/// Makes a card whole again, unless somebody is on it: then its note stays, and the next who looks tries again.
fn unmake(driver: &dyn Driver, notes: &Path, note: &Note) -> Result<(), String> {
    let uuid = &note.uuid;
    let division = driver.division(uuid)?;
    if let Some(pid) = division.users.first() {
        return Err(format!("process {pid} uses it"));
    }
    if !division.slices.is_empty() {
        clear(driver, uuid)?;
    }
    if !note.mig_before {
        driver.tool(&["-i", uuid, "-mig", "0"])?;
    }
    let _ = fs::remove_file(notes.join(uuid));
    Ok(())
}

/// Removes all slices of a card.
fn clear(driver: &dyn Driver, uuid: &str) -> Result<(), String> {
    // A slice without a compute instance has none to remove, and the tool calls that an error.
    let _ = driver.tool(&["mig", "-i", uuid, "-dci"]);
    driver.tool(&["mig", "-i", uuid, "-dgi"])
}

fn read(path: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// One card that does what the driver's tool is told. It stands in for an H200, which the tests have not.
    #[derive(Clone, Default)]
    struct Stage(Arc<Mutex<Division>>);

    impl Driver for Stage {
        fn cards(&self, kind: &str) -> Result<Vec<String>, String> {
            Ok(if kind == "h200" { vec!["GPU-1".into()] } else { Vec::new() })
        }

        fn division(&self, _: &str) -> Result<Division, String> {
            Ok(self.0.lock().expect("nobody panics").clone())
        }

        fn tool(&self, words: &[&str]) -> Result<(), String> {
            let mut card = self.0.lock().expect("nobody panics");
            assert!(card.users.is_empty(), "a card in use was changed: {words:?}");
            match words {
                ["-i", "GPU-1", "-mig", on] => card.mig = *on == "1",
                ["mig", "-i", "GPU-1", "-cgi", profiles, "-C"] if card.mig => {
                    if *profiles == "7g.141gb,1g.18gb" {
                        return Err("Insufficient Resources".into());
                    }
                    card.slices = profiles.split(',').map(str::to_owned).collect();
                }
                ["mig", "-i", "GPU-1", "-dci"] => {}
                ["mig", "-i", "GPU-1", "-dgi"] => card.slices.clear(),
                _ => panic!("{words:?}"),
            }
            Ok(())
        }
    }

    impl Stage {
        fn card(&self) -> Division {
            self.0.lock().expect("nobody panics").clone()
        }

        fn users(&self, users: &[u32]) {
            self.0.lock().expect("nobody panics").users = users.to_vec();
        }
    }

    fn layout(slices: &[&str]) -> MigLayout {
        MigLayout { kind: "h200".into(), slices: slices.iter().map(|&s| s.to_owned()).collect() }
    }

    fn notes(of: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("arles-mig-{of}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    /// Makes the note look as if its maker had been killed.
    fn killed(slices: Slices, notes: &Path) {
        std::mem::forget(slices);
        let path = notes.join("GPU-1");
        let note = read(&path).expect("it was noted");
        let dead = Note { by: Identity { start_ticks: note.by.start_ticks + 1, ..note.by }, ..note };
        fs::write(path, serde_json::to_vec(&dead).expect("it is plain")).expect("ours");
    }

    #[test]
    fn slices_are_there_as_long_as_their_maker() {
        let (stage, notes) = (Stage::default(), notes("made"));
        let made = Slices::make_with(Box::new(stage.clone()), &notes, &layout(&["3g.71gb", "2g.35gb"])).expect("idle");
        assert_eq!(stage.card().slices, ["3g.71gb", "2g.35gb"]);
        drop(made);
        assert_eq!(stage.card(), Division::default(), "the card is whole again, and out of MIG mode");
        assert_eq!(fs::read_dir(&notes).expect("ours").count(), 0);
        fs::remove_dir_all(notes).expect("ours");
    }

    #[test]
    fn a_card_that_somebody_uses_is_not_divided() {
        let (stage, notes) = (Stage::default(), notes("used"));
        stage.users(&[4711]);
        let refused = Slices::make_with(Box::new(stage.clone()), &notes, &layout(&["3g.71gb"])).err();
        let sentence = "process 4711 uses GPU GPU-1; a card is divided only while nobody uses it";
        assert_eq!(refused.as_deref(), Some(sentence));
        assert!(!stage.card().mig);
    }

    #[test]
    fn slices_with_programs_on_them_outlive_their_maker_and_are_taken_over() {
        let (stage, notes) = (Stage::default(), notes("outlive"));
        let wanted = layout(&["2g.35gb", "2g.35gb"]);
        let made = Slices::make_with(Box::new(stage.clone()), &notes, &wanted).expect("idle");
        stage.users(&[4711]);
        killed(made, &notes);
        assert_eq!(unmake_left_over_with(&stage, &notes), [""; 0], "somebody is on them");
        let taken = Slices::make_with(Box::new(stage.clone()), &notes, &wanted).expect("as they are");
        drop(taken);
        assert_eq!(stage.card().slices.len(), 2, "somebody still is");
        let taken = Slices::make_with(Box::new(stage.clone()), &notes, &wanted).expect("as they are");
        killed(taken, &notes);
        stage.users(&[]);
        assert_eq!(unmake_left_over_with(&stage, &notes).len(), 1);
        assert_eq!(stage.card(), Division::default());
        fs::remove_dir_all(notes).expect("ours");
    }

    #[test]
    fn what_an_operator_divided_is_used_and_left_alone() {
        let (stage, notes) = (Stage::default(), notes("operator"));
        let theirs = Division { mig: true, slices: vec!["3g.71gb".into(), "1g.18gb".into()], users: Vec::new() };
        *stage.0.lock().expect("nobody panics") = theirs.clone();
        drop(Slices::make_with(Box::new(stage.clone()), &notes, &layout(&["1g.18gb", "3g.71gb"])).expect("it is so"));
        assert_eq!(stage.card(), theirs);
        let refused = Slices::make_with(Box::new(stage.clone()), &notes, &layout(&["7g.141gb"])).err();
        assert!(refused.is_some_and(|why| why.contains("divided into 1g.18gb + 3g.71gb already, not by arles")));
        assert_eq!(stage.card(), theirs);
    }

    #[test]
    fn a_layout_that_the_driver_refuses_leaves_the_card_whole() {
        let (stage, notes) = (Stage::default(), notes("refused"));
        let refused = Slices::make_with(Box::new(stage.clone()), &notes, &layout(&["7g.141gb", "1g.18gb"])).err();
        assert!(refused.is_some_and(|why| why.contains("Insufficient Resources")));
        assert_eq!(stage.card(), Division::default());
        fs::remove_dir_all(notes).expect("ours");
    }
}
