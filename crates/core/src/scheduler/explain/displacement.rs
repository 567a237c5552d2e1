//! For whom a gang makes room, and about when its job is back: what the users of a job that is told to go want to know.

use super::outlook::Outlook;
use super::*;

/// Why a gang is told to go, though its job is to go on later.
#[derive(Clone, PartialEq, Debug)]
pub struct Displacement {
    /// Jobs that are to start on its GPUs; none if the policy wants these free.
    pub by: Vec<JobId>,
    /// The policy that wants it so.
    pub policy: &'static str,
    /// Whether it is given other GPUs at once.
    pub moves: bool,
    /// About how long it waits, if that can be said.
    pub seconds: Option<f64>,
}

impl fmt::Display for Displacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.moves { "moved to other GPUs" } else { "preempted" })?;
        match &self.by[..] {
            [] => {}
            [one] => write!(f, " for {one}")?,
            [one, more @ ..] => write!(f, " for {one} and {} more", more.len())?,
        }
        write!(f, " by {}", self.policy)?;
        match self.seconds.filter(|_| !self.moves) {
            Some(seconds) => write!(f, "; back in about {}", span(seconds)),
            None => Ok(()),
        }
    }
}

impl Scheduler {
    /// Why the gang of a job that was just told to go has to; nothing for a job that keeps its GPUs, or leaves for good.
    #[must_use]
    pub fn displacement(&self, job: JobId) -> Option<Displacement> {
        let slot = self.jobs.slot(job)?;
        let Phase::Stopping(gang, _, AfterStop::Wait) = &self.jobs.get(slot).phase else { return None };
        let next = gang.gpus.iter().flat_map(|gpu| &self.awaiting[gpu.index()]).filter(|&&other| other != slot);
        let by: BTreeSet<JobId> = next.map(|&slot| self.jobs.get(slot).spec.id).collect();
        let seconds = Outlook::of_one(self).seconds_away(slot);
        let moves = self.jobs.get(slot).target.is_some();
        Some(Displacement { by: by.into_iter().collect(), policy: self.policy.name, moves, seconds })
    }
}
