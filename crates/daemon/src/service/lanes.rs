//! Requests that wait for the loop, a lane for every tenant and one for everybody who is of none.
//!
//! The loop takes from the lanes in turn, a few from each for every batch, so whoever asks little never waits behind all that another has
//! asked. What takes long (an array of jobs, a copy of the scheduler) counts as many, and a lane that has taken more than its part sits out
//! while others wait.

use super::{Change, LoopRequest};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests that may wait in one lane, and in all.
const MOST_IN_LANE: usize = 4000;
const MOST: usize = 20_000;
/// What a lane is given for each batch, in plain requests.
const PART: i64 = 64;
/// What a copy of the scheduler counts as.
const COPY: i64 = 64;

/// Why a request is not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unqueued {
    Full,
    Closed,
}

#[derive(Default)]
pub(crate) struct Lanes {
    inner: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    by_tenant: BTreeMap<String, Lane>,
    waiting: usize,
    closed: bool,
    /// Whose lane was served last.
    last: String,
}

#[derive(Default)]
struct Lane {
    queue: VecDeque<LoopRequest>,
    /// What it may still take; below 0 if its last request was a large one.
    credit: i64,
}

impl Lanes {
    /// Queues a request; says whether nothing waited before, so that somebody must wake the loop.
    pub(crate) fn push(&self, lane: &str, request: LoopRequest) -> Result<bool, Unqueued> {
        let mut queues = self.lock();
        if queues.closed {
            return Err(Unqueued::Closed);
        }
        if queues.waiting >= MOST {
            return Err(Unqueued::Full);
        }
        if !queues.by_tenant.contains_key(lane) {
            queues.by_tenant.insert(lane.to_owned(), Lane::default());
        }
        if let Some(lane) = queues.by_tenant.get_mut(lane) {
            if lane.queue.len() >= MOST_IN_LANE {
                return Err(Unqueued::Full);
            }
            lane.queue.push_back(request);
        }
        queues.waiting += 1;
        Ok(queues.waiting == 1)
    }

    /// The next batch, and whether more wait.
    pub(crate) fn take(&self) -> (Vec<LoopRequest>, bool) {
        let mut queues = self.lock();
        let mut taken = Vec::new();
        if queues.waiting == 0 {
            return (taken, false);
        }
        let after = |name: &String| *name > queues.last;
        let names: Vec<String> = queues.by_tenant.keys().cloned().collect();
        let begin = names.iter().position(after).unwrap_or(0);
        for name in names[begin..].iter().chain(&names[..begin]) {
            let Some(lane) = queues.by_tenant.get_mut(name) else { continue };
            lane.credit = (lane.credit + PART).min(PART);
            let before = taken.len();
            while lane.credit > 0
                && let Some(request) = lane.queue.pop_front()
            {
                lane.credit -= cost(&request);
                taken.push(request);
            }
            // A lane that owes something is remembered; any other is as good as new.
            if lane.queue.is_empty() && lane.credit >= 0 {
                queues.by_tenant.remove(name);
            }
            if taken.len() > before {
                queues.last.clone_from(name);
            }
        }
        queues.waiting -= taken.len();
        (taken, queues.waiting > 0)
    }

    /// Everything that waits.
    pub(crate) fn take_all(&self) -> Vec<LoopRequest> {
        let mut queues = self.lock();
        queues.waiting = 0;
        std::mem::take(&mut queues.by_tenant).into_values().flat_map(|lane| lane.queue).collect()
    }

    /// Takes no more, and drops what waits: whoever asked is told that the service is gone.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        drop(self.take_all());
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cost(request: &LoopRequest) -> i64 {
    match request {
        LoopRequest::Change(Change::Submit(job), ..) => {
            job.array.as_ref().map_or(1, |(indices, _)| i64::try_from(indices.len()).unwrap_or(i64::MAX / 2)).max(1)
        }
        LoopRequest::Change(..) | LoopRequest::Inspect(_) => 1,
        LoopRequest::Copy(_) => COPY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A request that counts its tenant when it is dropped.
    fn request() -> LoopRequest {
        LoopRequest::Inspect(Box::new(|_| {}))
    }

    #[test]
    fn whoever_asks_little_never_waits_behind_all_of_another() {
        let lanes = Lanes::default();
        for n in 0..1000 {
            assert_eq!(lanes.push("greedy", request()), Ok(n == 0), "only the first wakes the loop");
        }
        assert_eq!(lanes.push("modest", request()), Ok(false));
        let (batch, more) = lanes.take();
        assert_eq!((batch.len(), more), (PART as usize + 1, true), "a part of the one, and all of the other");
        let mut rest = 0;
        while let (batch, true) = lanes.take() {
            rest += batch.len();
        }
        assert!(rest > 800);
        assert_eq!(lanes.push("modest", request()), Ok(true));
    }

    #[test]
    fn a_lane_that_took_much_sits_out() {
        let lanes = Lanes::default();
        let copy = || LoopRequest::Copy(Box::new(|_| {}));
        for _ in 0..4 {
            lanes.push("dry", copy()).unwrap();
        }
        assert_eq!(lanes.take().0.len(), 1, "one copy is a whole part");
        lanes.push("other", request()).unwrap();
        assert_eq!(lanes.take().0.len(), 2);
    }

    #[test]
    fn a_full_lane_is_its_tenants_own() {
        let lanes = Lanes::default();
        for _ in 0..MOST_IN_LANE {
            lanes.push("greedy", request()).unwrap();
        }
        assert_eq!(lanes.push("greedy", request()), Err(Unqueued::Full));
        assert_eq!(lanes.push("modest", request()), Ok(false));
    }

    #[test]
    fn what_waits_when_the_loop_ends_is_dropped() {
        struct Counted(Arc<AtomicU64>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (lanes, dropped) = (Lanes::default(), Arc::new(AtomicU64::new(0)));
        let counted = Counted(Arc::clone(&dropped));
        let held = LoopRequest::Inspect(Box::new(move |_| drop(counted)));
        lanes.push("a", held).unwrap();
        lanes.close();
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        assert_eq!(lanes.push("a", request()), Err(Unqueued::Closed));
    }
}
