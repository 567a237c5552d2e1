//! How jobs say that they are arles' and what they are, and how arles writes down what it did with them.
//!
//! A job's *comment* is its user's: `arles` as its first word gives the job to arles, and the words after it say what it is
//! (`arles workload=resnet50-64 steps=20000`). The *admin comment* is the operator's, and users cannot write it: `arles` as its first word, set by
//! `job_submit.lua`, means the same. Once arles has the job, its [`Mark`] is there: so that whatever is known of a job can be read again from
//! Slurm alone, by a daemon that was killed a moment ago.

use crate::intake::Wishes;
use arles_core::scheduler::Fence;
use arles_core::{GpuId, JobId};

/// The word that gives a job to arles.
pub(crate) const WORD: &str = "arles";
/// Most characters of what a user's words may say: a comment is theirs, and is read at every look.
const MOST_WORDS: usize = 64;

/// What arles wrote into a job's admin comment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) job: JobId,
    /// The journal that the job's number is of.
    pub(crate) journal: String,
    /// The term of the leader that wrote it; 0 where one daemon has its state folder to itself.
    pub(crate) term: u64,
    /// The gang that the job was released for.
    pub(crate) gang: Option<MarkedGang>,
}

/// A gang as a mark shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MarkedGang {
    pub(crate) fence: Fence,
    pub(crate) gpus: Vec<GpuId>,
    /// How often Slurm had restarted the job when it was released: more means that this gang is over.
    pub(crate) restarts: u64,
}

impl Mark {
    pub(crate) fn write(&self) -> String {
        let mut text = format!("{WORD} job={} of={}", self.job.0, self.journal);
        if self.term > 0 {
            text.push_str(&format!(" term={}", self.term));
        }
        if let Some(MarkedGang { fence, gpus, restarts }) = &self.gang {
            let gpus: Vec<String> = gpus.iter().map(|gpu| gpu.0.to_string()).collect();
            text.push_str(&format!(" fence={} gpus={} restarts={restarts}", fence.0, gpus.join("+")));
        }
        text
    }

    /// The mark in an admin comment, if arles has the job.
    pub(crate) fn read(admin_comment: &str) -> Option<Self> {
        let words = pairs(admin_comment)?;
        let word = |key: &str| words.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let gang = || {
            let gpus = word("gpus")?.split('+').map(|gpu| gpu.parse().map(GpuId)).collect::<Result<_, _>>().ok()?;
            let (fence, restarts) = (Fence(word("fence")?.parse().ok()?), word("restarts")?.parse().ok()?);
            Some(MarkedGang { fence, gpus, restarts })
        };
        let term = word("term").and_then(|term| term.parse().ok()).unwrap_or(0);
        Some(Self { job: JobId(word("job")?.parse().ok()?), journal: word("of")?.to_owned(), term, gang: gang() })
    }
}

/// What else an admin comment of arles' can say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// Not arles' at all.
    None,
    /// It is given to arles, and nobody has taken it yet.
    Offered,
    /// It has a [`Mark`].
    Taken,
    /// It was given back to Slurm, and is never taken again.
    Released,
    /// It cannot be what it says it is; it stays held, and its user reads why in the admin comment.
    Refused,
}

/// Whose a job is by its comments.
pub(crate) fn claim(comment: &str, admin_comment: &str) -> Claim {
    match pairs(admin_comment) {
        None if pairs(comment).is_some() => Claim::Offered,
        None => Claim::None,
        Some(words) => match words.first() {
            Some(("released", _)) => Claim::Released,
            Some(("refused:", _)) => Claim::Refused,
            Some(("job", _)) if Mark::read(admin_comment).is_some() => Claim::Taken,
            _ => Claim::Offered,
        },
    }
}

pub(crate) fn released() -> String {
    format!("{WORD} released")
}

pub(crate) fn refused(why: &str) -> String {
    let why: String = why.chars().filter(|c| !c.is_control()).take(400).collect();
    format!("{WORD} refused: {why}")
}

/// Words after `arles`, split at their equals signs; nothing if the text does not begin with it.
fn pairs(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut words = text.split_whitespace();
    (words.next()? == WORD)
        .then(|| words.take(MOST_WORDS).map(|word| word.split_once('=').unwrap_or((word, ""))).collect())
}

/// What a job says of itself, in its comment and in what `job_submit.lua` found in its script; what stands in the comment counts.
pub(super) fn read_wishes(comment: &str, admin_comment: &str) -> Wishes {
    let mut wishes = Wishes::default();
    for (key, value) in pairs(admin_comment).into_iter().chain(pairs(comment)).flatten() {
        // Slurm says how many GPUs a gang has; the word is accepted so that scripts can be shared with other engines.
        let ours = ["gang", "job", "of", "term", "fence", "gpus", "restarts", "held-by"].contains(&key);
        if !wishes.take(key, value) && !ours {
            wishes.wrong.push(format!("'{key}' is not a key; expected {}", Wishes::KEYS));
        }
    }
    wishes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let gang = MarkedGang { fence: Fence(9), gpus: vec![GpuId(3), GpuId(4)], restarts: 2 };
        for (gang, term) in [(None, 0), (Some(gang), 7)] {
            let mark = Mark { job: JobId(12), journal: "ab12".into(), term, gang };
            assert_eq!(Mark::read(&mark.write()), Some(mark.clone()));
            assert_eq!(claim("", &mark.write()), Claim::Taken);
        }
        assert_eq!(Mark::read("arles job=x of=y"), None);
    }

    #[test]
    fn whose_a_job_is_follows_from_its_comments() {
        for (comment, admin, expected) in [
            ("", "", Claim::None),
            ("please hurry", "", Claim::None),
            ("arlesian", "", Claim::None),
            ("arles", "", Claim::Offered),
            ("arles steps=4", "", Claim::Offered),
            ("", "arles", Claim::Offered),
            ("", "arles workload=x", Claim::Offered),
            ("arles", "arles released", Claim::Released),
            ("arles", "arles refused: no such kind", Claim::Refused),
            ("arles", "nightly", Claim::Offered),
            // A user cannot pretend that arles has taken a job: only the admin comment says so.
            ("arles job=3 of=ab", "", Claim::Offered),
        ] {
            assert_eq!(claim(comment, admin), expected, "{comment:?} {admin:?}");
        }
    }

    #[test]
    fn wishes_are_read_and_what_is_wrong_is_said() {
        let wishes = read_wishes("arles steps=2e4 kinds=v100,p100 held", "arles workload=resnet50-64 steps=5");
        assert_eq!(wishes.workload.as_deref(), Some("resnet50-64"));
        assert_eq!((wishes.steps, wishes.held), (Some(2e4), true));
        assert_eq!(wishes.kinds, ["v100", "p100"]);
        assert!(wishes.wrong.is_empty());
        let wrong = read_wishes("arles steps=many colour=red", "").wrong;
        assert_eq!(wrong.len(), 2);
        assert!(wrong[0].contains("many") && wrong[1].contains("workload, steps"), "{wrong:?}");
    }
}
