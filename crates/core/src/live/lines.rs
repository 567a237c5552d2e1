//! Those who wait under a policy that serves whoever came first: in lines, one for jobs that are alike in all but their arrival. Of a
//! line only those at its front can be served, so a round looks at the fronts and counts the rest.

use super::{ClassKey, Jobs, Slot};
use crate::allocate::ClassId;
use crate::{JobId, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The number of a line, from 1 on.
pub(crate) type LineId = u32;

/// A job's place in its line: who came first is first.
pub(super) type Turn = (LineId, Time, JobId, ClassId, Slot);

/// The lines that live jobs belong to, whether they wait or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    /// What makes jobs of a line alike, its number, and how many jobs belong to it.
    known: BTreeMap<ClassKey, (LineId, u32)>,
    last: LineId,
}

impl Lines {
    /// The line of one more job.
    pub(crate) fn enter(&mut self, key: ClassKey) -> LineId {
        let line = self.known.entry(key).or_insert_with(|| {
            self.last += 1;
            (self.last, 0)
        });
        line.1 += 1;
        line.0
    }

    /// One job fewer.
    pub(crate) fn leave(&mut self, key: &ClassKey) {
        if let Some(line) = self.known.get_mut(key) {
            line.1 -= 1;
            if line.1 == 0 {
                self.known.remove(key);
            }
        }
    }
}

/// Those of a line that wait for GPUs and may be given some now.
pub(crate) struct Line {
    pub(crate) jobs: usize,
    /// How many of them are at its front: [`Jobs::fronts`] says which.
    pub(crate) in_front: usize,
    /// The first behind those.
    pub(crate) behind: Option<Slot>,
}

impl Jobs {
    /// How many jobs wait in lines.
    pub(crate) fn in_lines(&self) -> usize {
        self.index.in_lines()
    }

    /// Everybody who waits in a line and may be given GPUs now, at a time when so many are free: the lines, and whom of all of them could be
    /// served. `shape` says of a line's first job how many GPUs a gang has and on which kinds it may run, if on any.
    ///
    /// Whoever does not fit is passed over, and then nobody of the same shape fits who comes later, since free GPUs only become fewer. So the
    /// first of each shape are enough, as many as there are GPUs for.
    pub(crate) fn fronts(
        &self,
        now: Time,
        free_gpus: u32,
        shape: impl Fn(Slot) -> Option<(u32, Vec<bool>)>,
    ) -> (Vec<Line>, Vec<Slot>) {
        let mut pausing: BTreeMap<LineId, usize> = BTreeMap::new();
        let pauses = self.index.pausing.iter().map(|slot| self.get(slot)).filter(|job| job.not_before > now);
        pauses.for_each(|job| *pausing.entry(job.line).or_default() += 1);
        let ready = |turn: &Turn| self.get(turn.4).not_before <= now;
        let (mut lines, mut shapes) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for id in self.index.lines() {
            let mut turns = self.index.line(id).filter(ready);
            let Some(first) = turns.next() else { continue };
            let Some(shape) = shape(first.4) else { continue };
            let jobs = self.index.line_len(id) - pausing.get(&id).copied().unwrap_or(0);
            shapes.entry(shape).or_default().push((lines.len(), first, turns));
            lines.push(Line { jobs, in_front: 0, behind: Some(first.4) });
        }
        let mut fronts = Vec::new();
        for ((gang, _), mut members) in shapes {
            let by_arrival = |at: usize, turn: Turn| Reverse((turn.1, turn.2, turn.3, turn.4, at));
            let mut heap: BinaryHeap<_> = members.iter().zip(0..).map(|(m, at)| by_arrival(at, m.1)).collect();
            for _ in 0..free_gpus / gang.max(1) {
                let Some(Reverse((.., slot, at))) = heap.pop() else { break };
                let (line, _, turns) = &mut members[at];
                let next = turns.next();
                fronts.push(slot);
                lines[*line].in_front += 1;
                lines[*line].behind = next.map(|turn| turn.4);
                heap.extend(next.map(|turn| by_arrival(at, turn)));
            }
        }
        (lines, fronts)
    }
}
