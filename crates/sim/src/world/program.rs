//! How a job is played: the workload that it runs like, how long it really is, and how its program ends.
//!
//! Nobody outside may see any of it but by letting the job run: what a submitter or an earlier run says of a job ([`Work::Open`]'s number)
//! never decides how long it is. A program may say in its environment what it is to be played as:
//!
//! ```text
//! ARLES_VIRTUAL_WORKLOAD   a workload of the library; else the job's own, if the truth knows it; else one that its hash decides
//! ARLES_VIRTUAL_STEPS      how many steps it makes; else what the job asks for; else 10 to 60 minutes on its fastest kind, by its hash
//! ARLES_VIRTUAL_EXIT       the exit code at its end; else 0
//! ```
//!
//! The hash is of the image, the script and the first two words of the command (`python train.py`), not of arguments that vary: a
//! second run is like the first.

use crate::truth::Truth;
use arles_core::program::Program;
use arles_core::{Fingerprint, JobSpec, Work, WorkloadId};
use std::sync::Arc;

/// Words of a command that say what runs: an interpreter and its file.
const ENTRY_WORDS: usize = 2;
/// How long an open job is on its fastest kind, in seconds: at the least, and at the most.
const OPEN_SECONDS: [f64; 2] = [600.0, 3600.0];

/// How much a job really has to do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Length {
    /// Steps, however long they take.
    Steps(f64),
    /// Seconds in service.
    Seconds(f64),
}

/// How a job is played.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Part {
    /// What it runs like, for the truth.
    pub(super) plays: WorkloadId,
    pub(super) length: Length,
    /// What its program ends with, if it has one.
    pub(super) exit_code: Option<i32>,
}

impl Part {
    /// The part of a job.
    ///
    /// # Errors
    /// A sentence, when there is nothing to play it by.
    pub(super) fn of(spec: &JobSpec, truth: &mut Arc<Truth>) -> Result<Self, String> {
        let (id, program) = (spec.id.0, spec.program.as_deref());
        let hash = program.map_or_else(|| Fingerprint::of(&id.to_le_bytes()), entry_hash);
        let set = |name: &str| program.and_then(|p| p.environment.get(name)).map(String::as_str);
        let plays = match set("ARLES_VIRTUAL_WORKLOAD") {
            Some(name) => role(truth, name).map_err(|why| format!("ARLES_VIRTUAL_WORKLOAD of job {id}: {why}"))?,
            None if truth.knows(spec.workload) => spec.workload,
            None if program.is_some() => {
                let name = truth.some_workload(hash).ok_or_else(|| format!("there is nothing to play job {id} by"))?;
                role(truth, &name)?
            }
            None => return Err(format!("{} of job {id} is not known here", spec.workload)),
        };
        let steps = set("ARLES_VIRTUAL_STEPS").map(|text| number(text, "ARLES_VIRTUAL_STEPS", id)).transpose()?;
        let length = match (steps, spec.work) {
            (Some(steps), _) | (None, Work::Steps(steps)) => Length::Steps(steps),
            (None, Work::Period(seconds)) => Length::Seconds(seconds),
            (None, Work::Open(_)) => {
                // Another part of the hash than the one that chose the workload.
                let part = (hash.rotate_left(29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 * 2f64.powi(-53);
                let seconds = OPEN_SECONDS[0] + part * (OPEN_SECONDS[1] - OPEN_SECONDS[0]);
                Length::Steps(seconds * truth.reference_rate(plays, spec.gang, None).unwrap_or(1.0))
            }
        };
        let exit_code = match set("ARLES_VIRTUAL_EXIT") {
            Some(text) => Some(text.parse().map_err(|_| {
                format!("ARLES_VIRTUAL_EXIT of job {id} is '{text}'; expected an exit code, a whole number")
            })?),
            None => program.map(|_| 0),
        };
        Ok(Self { plays, length, exit_code })
    }
}

fn role(truth: &mut Arc<Truth>, name: &str) -> Result<WorkloadId, String> {
    Arc::make_mut(truth).role(name).map_err(|error| error.to_string())
}

fn number(text: &str, name: &str, id: u64) -> Result<f64, String> {
    let steps = text.parse().ok().filter(|steps: &f64| steps.is_finite() && *steps >= 0.0);
    steps.ok_or_else(|| format!("{name} of job {id} is '{text}'; expected a number of 0 or more"))
}

fn entry_hash(program: &Program) -> u64 {
    let mut print = Fingerprint::default();
    let script = program.script.as_ref().map(|script| script.text.as_str());
    let words = program.command.iter().take(ENTRY_WORDS).map(String::as_str);
    for part in [program.image.as_deref(), script].into_iter().map(Option::unwrap_or_default).chain(words) {
        print.update(part.as_bytes());
        print.update(&[0]);
    }
    print.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::{JobId, Library};

    fn truth() -> Arc<Truth> {
        let kinds = ["v100", "m60"].map(|name| Library::builtin().kind(name).unwrap().clone());
        let names = ["resnet50-b64".to_owned()];
        Arc::new(Truth::new(&kinds, &names, None).unwrap())
    }

    fn job(id: u64, command: &[&str], environment: &[(&str, &str)]) -> JobSpec {
        let command = command.iter().map(|&word| word.to_owned()).collect();
        let environment = environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let program = Some(Arc::new(Program { command, environment, ..Program::default() }));
        JobSpec { id: JobId(id), workload: WorkloadId(77), program, ..JobSpec::default() }
    }

    #[test]
    fn one_program_is_one_part_whatever_its_arguments_and_its_number() {
        let mut truth = truth();
        let mut of = |id, command: &[&str]| Part::of(&job(id, command, &[]), &mut truth).unwrap();
        let first = of(1, &["python", "train.py", "--lr", "1"]);
        assert_eq!(first, of(2, &["python", "train.py", "--lr", "2"]));
        assert_ne!(first, of(3, &["python", "other.py"]));
        assert_eq!(first.exit_code, Some(0));
        let rate = truth.reference_rate(first.plays, 1, None).expect("it fits on the smallest kinds");
        let Length::Steps(steps) = first.length else { panic!("{first:?}") };
        assert!((600.0..3600.0).contains(&(steps / rate)), "{}", steps / rate);
        assert!(!truth.knows(first.plays), "nobody else may know it by that number");
    }

    #[test]
    fn what_is_expected_of_an_open_job_does_not_decide_its_length() {
        let mut truth = truth();
        let open = |expected| JobSpec { id: JobId(4), work: Work::Open(expected), ..JobSpec::default() };
        let parts = [None, Some(1.0), Some(1e9)].map(|expected| Part::of(&open(expected), &mut truth).unwrap());
        assert_eq!((parts[0], parts[0]), (parts[1], parts[2]));
        assert_eq!(parts[0].exit_code, None);
    }

    #[test]
    fn the_environment_decides_where_it_says_something() {
        let mut truth = truth();
        let mut of = |environment: &[(&str, &str)]| Part::of(&job(1, &["a"], environment), &mut truth);
        let lm = of(&[("ARLES_VIRTUAL_WORKLOAD", "LM (batch size 5)"), ("ARLES_VIRTUAL_STEPS", "12")]).unwrap();
        assert_eq!(lm.length, Length::Steps(12.0));
        assert_eq!(of(&[("ARLES_VIRTUAL_WORKLOAD", "lm-b5")]).unwrap().plays, lm.plays);
        assert_eq!(of(&[("ARLES_VIRTUAL_EXIT", "3")]).unwrap().exit_code, Some(3));
        for (name, value) in
            [("ARLES_VIRTUAL_WORKLOAD", "lm-b6"), ("ARLES_VIRTUAL_STEPS", "-1"), ("ARLES_VIRTUAL_EXIT", "x")]
        {
            let why = of(&[(name, value)]).unwrap_err();
            assert!(why.contains(name) && why.contains(value), "{why}");
        }
    }

    #[test]
    fn a_job_without_a_program_needs_a_workload_that_is_known() {
        let spec = JobSpec { workload: WorkloadId(77), ..JobSpec::default() };
        assert_eq!(Part::of(&spec, &mut truth()).unwrap_err(), "workload-77 of job 0 is not known here");
    }
}
