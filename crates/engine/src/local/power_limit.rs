//! Power limits that are put back.
//!
//! A limit outlives the process that set it, and a card that stays capped is slow for everybody after. So the limit that was in force is noted in a file
//! before the first change, put back when the [`PowerLimit`] is dropped, and, where its process was killed, by whoever looks next
//! ([`put_back_left_over`]). Notes are under `/run`, which a restart of the machine empties, as it undoes the limits.

use super::tree::Identity;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

const NOTES: &str = "/run/arles/power-limits";

/// What is to be put back, and by whom.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Note {
    uuid: String,
    milliwatts: u32,
    by: Identity,
}

/// A card whose power limit is changed for a while.
pub struct PowerLimit {
    nvml: Nvml,
    before: Note,
    note: PathBuf,
    /// Least and largest limit, in milliwatts.
    range: (u32, u32),
}

impl PowerLimit {
    /// Notes the limit in force of a card. Nothing is changed yet.
    ///
    /// # Errors
    /// A sentence, when there is no such card, it has no limit to set, the note cannot be written, or another process that runs has changed the limit.
    pub fn hold(uuid: &str) -> Result<Self, String> {
        put_back_left_over();
        let nvml = Nvml::init().map_err(|error| format!("the NVIDIA driver does not answer: {error}"))?;
        let (limit, range) = {
            let device = nvml.device_by_uuid(uuid).map_err(|error| format!("GPU {uuid} cannot be read: {error}"))?;
            let none = |error: NvmlError| format!("GPU {uuid} has no power limit to set: {error}");
            let range = device.power_management_limit_constraints().map_err(none)?;
            (device.power_management_limit().map_err(none)?, (range.min_limit, range.max_limit))
        };
        let by = Identity::of(std::process::id()).ok_or("this process cannot be found in /proc")?;
        let before = Note { uuid: uuid.to_owned(), milliwatts: limit, by };
        let note = Path::new(NOTES).join(uuid);
        if let Some(other) = read(&note) {
            return Err(format!(
                "process {} holds the power limit of GPU {uuid}; wait until it has ended",
                other.by.pid
            ));
        }
        write(&note, &before).map_err(|error| {
            format!(
                "the power limit in force cannot be noted in {}: {error}; setting limits takes root",
                note.display()
            )
        })?;
        Ok(Self { nvml, before, note, range })
    }

    /// The limit that was in force, which [`Drop`] puts back.
    #[must_use]
    pub fn before_watts(&self) -> f64 {
        f64::from(self.before.milliwatts) / 1e3
    }

    /// Sets another limit.
    ///
    /// # Errors
    /// A sentence, when the card cannot be given that limit, or this process may not.
    pub fn set(&mut self, watts: f64) -> Result<(), String> {
        self.can_be(watts)?;
        set(&self.nvml, &self.before.uuid, (watts * 1e3).round() as u32)
    }

    /// Whether the card has such a limit.
    ///
    /// # Errors
    /// A sentence, when it has not.
    pub fn can_be(&self, watts: f64) -> Result<(), String> {
        let (least, most) = (f64::from(self.range.0) / 1e3, f64::from(self.range.1) / 1e3);
        match (least..=most).contains(&watts) {
            true => Ok(()),
            false => Err(format!("{watts} W is no power limit of this card; expected {least} W to {most} W")),
        }
    }
}

impl Drop for PowerLimit {
    fn drop(&mut self) {
        // Where that fails the note stays, and the next who looks tries again.
        if set(&self.nvml, &self.before.uuid, self.before.milliwatts).is_ok() {
            let _ = fs::remove_file(&self.note);
        }
    }
}

/// Puts back the limits that processes left behind which were killed; says what was put back, in sentences.
pub fn put_back_left_over() -> Vec<String> {
    let Ok(notes) = fs::read_dir(NOTES) else { return Vec::new() };
    let left = notes.flatten().filter_map(|entry| Some((entry.path(), read(&entry.path())?)));
    let dead = left.filter(|(_, note)| !note.by.alive());
    let put_back = |(path, note): (PathBuf, Note)| {
        let nvml = Nvml::init().ok()?;
        set(&nvml, &note.uuid, note.milliwatts).ok()?;
        let _ = fs::remove_file(path);
        let watts = f64::from(note.milliwatts) / 1e3;
        Some(format!(
            "the power limit of GPU {} is {watts} W again: process {} ended without putting it back",
            note.uuid, note.by.pid
        ))
    };
    dead.filter_map(put_back).collect()
}

fn set(nvml: &Nvml, uuid: &str, milliwatts: u32) -> Result<(), String> {
    let device = nvml.device_by_uuid(uuid);
    device.and_then(|mut device| device.set_power_management_limit(milliwatts)).map_err(|error| match error {
        NvmlError::NoPermission => "setting a power limit takes root; run as root, or leave limits alone".to_owned(),
        error => format!("the power limit of GPU {uuid} cannot be set: {error}"),
    })
}

fn read(note: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(note).ok()?).ok()
}

/// Whole or not at all: a note that is cut short would put back nothing.
fn write(path: &Path, note: &Note) -> std::io::Result<()> {
    fs::create_dir_all(NOTES)?;
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(note)?)?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_is_not_there_is_refused_in_a_sentence() {
        let refused = PowerLimit::hold("GPU-none").err().expect("there is no such card");
        assert!(refused.contains("GPU-none") || refused.contains("driver"), "{refused}");
    }
}
