//! Where the jobs are that a round asks about, so that none of its steps looks at every job: behind a long queue nearly all of them wait, and nothing has
//! changed for them.
//!
//! For each class the jobs that wait for GPUs, in the order of their turns: whoever has received least service first, then the smaller slot. (A job's
//! service does not grow while it waits.) Of all others, by slot, those of which something is true that is rarely true of a job.
//!
//! All of it follows from the jobs. A job is changed through a [`JobMut`] only, which puts its places right when it is let go.

use super::lines::{self, LineId};
use super::shared_set::SharedSet;
use super::slot_set::SlotSet;
use super::{Job, Phase, Slot};
use crate::allocate::ClassId;
use crate::{JobId, Time};
use std::ops::{Deref, DerefMut};

/// A job's turn in its class: the class, the service received, the slot.
type Turn = (ClassId, i64, Slot);

/// Service as a number that has the order of [`f64::total_cmp`].
fn ordered(service: f64) -> i64 {
    let bits = service.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

const FIRST_TURN: lines::Turn = beginning(0);

/// No place in the line is before this one.
const fn beginning(line: LineId) -> lines::Turn {
    (line, Time::ZERO, JobId(0), ClassId(0), 0)
}

/// What is true of a job: its places in the sets of a [`JobIndex`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Places {
    holds: bool,
    placed: bool,
    overtime: bool,
    elastic: bool,
    deferrable: bool,
    pauses: bool,
    turn: Option<Turn>,
    in_line: Option<lines::Turn>,
}

impl Places {
    fn of(slot: Slot, job: &Job) -> Self {
        let queues = job.queues();
        Self {
            holds: job.phase != Phase::Waiting,
            placed: job.target.is_some(),
            overtime: job.is_overtime(),
            elastic: job.size.is_some(),
            deferrable: job.spec.before.is_some() || job.cheaper_at.is_some(),
            pauses: queues && job.not_before > Time::ZERO,
            turn: queues.then(|| (job.class, ordered(job.virtual_seconds), slot)),
            in_line: (queues && job.line > 0).then(|| (job.line, job.spec.arrived, job.spec.id, job.class, slot)),
        }
    }
}

/// Jobs by what is true of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobIndex {
    /// GPUs are not free because of them.
    pub(super) holding: SlotSet,
    /// The last plan gave them a place that they do not have yet.
    pub(super) placed: SlotSet,
    /// They have run for as long as they may.
    pub(super) overtime: SlotSet,
    /// The scheduler chooses their size.
    pub(super) elastic: SlotSet,
    /// They may wait for cheaper electricity.
    pub(super) deferrable: SlotSet,
    /// They wait for GPUs and were given a pause, which may be over.
    pub(super) pausing: SlotSet,
    /// Those that wait for GPUs, by class and turn.
    turns: SharedSet<Turn>,
    /// The same jobs by line and arrival, where the policy serves whoever came first.
    lines: SharedSet<lines::Turn>,
}

impl JobIndex {
    #[cfg(test)]
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        let sets = |index: &Self| {
            let Self { holding, placed, overtime, elastic, deferrable, pausing, .. } = index;
            [holding, placed, overtime, elastic, deferrable, pausing].map(|set| set.iter().collect::<Vec<_>>())
        };
        let first = (ClassId(0), i64::MIN, 0);
        let same_lines = self.lines.from(FIRST_TURN).eq(other.lines.from(FIRST_TURN));
        sets(self) == sets(other) && self.turns.from(first).eq(other.turns.from(first)) && same_lines
    }

    /// A job that is new.
    pub(super) fn enter(&mut self, slot: Slot, job: &Job) {
        self.move_from(slot, Places::default(), Places::of(slot, job));
    }

    /// A job that is no more.
    pub(super) fn leave(&mut self, slot: Slot, job: &Job) {
        self.move_from(slot, Places::of(slot, job), Places::default());
    }

    fn move_from(&mut self, slot: Slot, before: Places, now: Places) {
        if before == now {
            return;
        }
        let sets = [
            (&mut self.holding, before.holds, now.holds),
            (&mut self.placed, before.placed, now.placed),
            (&mut self.overtime, before.overtime, now.overtime),
            (&mut self.elastic, before.elastic, now.elastic),
            (&mut self.deferrable, before.deferrable, now.deferrable),
            (&mut self.pausing, before.pauses, now.pauses),
        ];
        for (set, before, now) in sets {
            if before != now {
                set.set(slot, now);
            }
        }
        if before.turn != now.turn {
            before.turn.iter().for_each(|turn| self.turns.remove(turn));
            now.turn.into_iter().for_each(|turn| self.turns.insert(turn));
        }
        if before.in_line != now.in_line {
            before.in_line.iter().for_each(|turn| self.lines.remove(turn));
            now.in_line.into_iter().for_each(|turn| self.lines.insert(turn));
        }
    }

    /// Jobs of a class that wait for GPUs, in turn.
    pub(super) fn queue(&self, class: ClassId) -> impl Iterator<Item = Slot> + Clone + '_ {
        self.turns.from((class, i64::MIN, 0)).take_while(move |turn| turn.0 == class).map(|turn| turn.2)
    }

    /// How many they are.
    pub(super) fn queued(&self, class: ClassId) -> usize {
        self.turns.count((class, i64::MIN, 0), (ClassId(class.0.saturating_add(1)), i64::MIN, 0))
    }

    /// Lines in which anybody waits.
    pub(super) fn lines(&self) -> impl Iterator<Item = LineId> + '_ {
        let next = |after: LineId| self.lines.from(beginning(after)).next().map(|turn| turn.0);
        std::iter::successors(next(0), move |&line| next(line + 1))
    }

    /// Who waits in a line, in order.
    pub(super) fn line(&self, line: LineId) -> impl Iterator<Item = lines::Turn> + Clone + '_ {
        self.lines.from(beginning(line)).take_while(move |turn| turn.0 == line)
    }

    /// How many they are.
    pub(super) fn line_len(&self, line: LineId) -> usize {
        self.lines.count(beginning(line), beginning(line + 1))
    }

    /// How many wait in all lines together.
    pub(super) fn in_lines(&self) -> usize {
        self.lines.count(FIRST_TURN, beginning(LineId::MAX))
    }

    /// Whether any job waits for GPUs.
    pub(super) fn any_queues(&self) -> bool {
        !self.turns.is_empty()
    }
}

/// A job that may be changed. When it is let go its places are put right.
pub(crate) struct JobMut<'a> {
    job: &'a mut Job,
    slot: Slot,
    before: Places,
    index: &'a mut JobIndex,
}

impl<'a> JobMut<'a> {
    pub(super) fn new(slot: Slot, job: &'a mut Job, index: &'a mut JobIndex) -> Self {
        Self { before: Places::of(slot, job), job, slot, index }
    }
}

impl Deref for JobMut<'_> {
    type Target = Job;

    fn deref(&self) -> &Job {
        self.job
    }
}

impl DerefMut for JobMut<'_> {
    fn deref_mut(&mut self) -> &mut Job {
        self.job
    }
}

impl Drop for JobMut<'_> {
    fn drop(&mut self) {
        self.index.move_from(self.slot, self.before, Places::of(self.slot, self.job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Service as a number has the order of service.
        #[test]
        fn service_keeps_its_order(a in any::<f64>(), b in any::<f64>()) {
            prop_assert_eq!(ordered(a).cmp(&ordered(b)), a.total_cmp(&b));
        }
    }
}
