//! A map by number of job that is copied in no time: numbers that lie together are in one chunk, and a copy shares every chunk with the original until one
//! of the two changes it. A daemon copies what it knows for snapshots, dry runs and the reasons of all who wait, and nobody's request should wait for that.

use crate::JobId;
use std::collections::BTreeMap;
use std::ops::{Bound, Index, RangeBounds};
use std::sync::Arc;

/// Numbers of a chunk, as a power of two: few enough that making it one's own takes a microsecond.
const CHUNK_BITS: u32 = 6;

/// The chunk that a job is in.
fn chunk_of(id: JobId) -> u64 {
    id.0 >> CHUNK_BITS
}

/// Values by number of job, in order.
#[derive(Clone, Debug)]
pub struct SharedMap<V> {
    /// By the upper bits of the numbers; none is empty.
    chunks: BTreeMap<u64, Arc<Vec<(JobId, V)>>>,
    len: usize,
}

impl<V> Default for SharedMap<V> {
    fn default() -> Self {
        Self { chunks: BTreeMap::new(), len: 0 }
    }
}

impl<V: Clone> SharedMap<V> {
    /// Jobs in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a job.
    #[must_use]
    pub fn get(&self, id: &JobId) -> Option<&V> {
        let chunk = self.chunks.get(&chunk_of(*id))?;
        chunk.binary_search_by_key(id, |entry| entry.0).ok().map(|at| &chunk[at].1)
    }

    /// The value of a job, to be changed: from then on its chunk is not shared.
    pub fn get_mut(&mut self, id: &JobId) -> Option<&mut V> {
        let chunk = self.chunks.get_mut(&chunk_of(*id))?;
        let at = chunk.binary_search_by_key(id, |entry| entry.0).ok()?;
        Arc::make_mut(chunk).get_mut(at).map(|entry| &mut entry.1)
    }

    /// Puts a job in, or another value in its place; returns what was there.
    pub fn insert(&mut self, id: JobId, value: V) -> Option<V> {
        let chunk = Arc::make_mut(self.chunks.entry(chunk_of(id)).or_default());
        match chunk.binary_search_by_key(&id, |entry| entry.0) {
            Ok(at) => Some(std::mem::replace(&mut chunk[at].1, value)),
            Err(at) => {
                chunk.insert(at, (id, value));
                self.len += 1;
                None
            }
        }
    }

    /// Takes a job out.
    pub fn remove(&mut self, id: &JobId) -> Option<V> {
        let chunk = self.chunks.get_mut(&chunk_of(*id))?;
        let at = chunk.binary_search_by_key(id, |entry| entry.0).ok()?;
        self.len -= 1;
        let (_, value) = Arc::make_mut(chunk).remove(at);
        if chunk.is_empty() {
            self.chunks.remove(&chunk_of(*id));
        }
        Some(value)
    }

    /// Jobs and their values, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&JobId, &V)> {
        self.range((Bound::Unbounded, Bound::Unbounded))
    }

    /// Those in a range, in order.
    pub fn range(&self, range: (Bound<JobId>, Bound<JobId>)) -> impl DoubleEndedIterator<Item = (&JobId, &V)> {
        // Bounds of chunks are wider, and never in the wrong order where those of jobs are not.
        let chunk = |bound: Bound<JobId>| match bound {
            Bound::Included(id) | Bound::Excluded(id) => Bound::Included(chunk_of(id)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let chunks = self.chunks.range((chunk(range.0), chunk(range.1)));
        let entries = chunks.flat_map(|(_, chunk)| chunk.iter());
        entries.filter(move |(id, _)| range.contains(id)).map(|(id, value)| (id, value))
    }

    /// Numbers, in order.
    pub fn ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.iter().map(|(id, _)| *id)
    }

    /// Values, in the order of their jobs.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// All values, to be changed: nothing is shared any more.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.chunks.values_mut().flat_map(|chunk| Arc::make_mut(chunk).iter_mut().map(|(_, value)| value))
    }
}

impl<V: Clone> Index<&JobId> for SharedMap<V> {
    type Output = V;

    fn index(&self, id: &JobId) -> &V {
        self.get(id).expect("the job is in the map")
    }
}

impl<V: Clone> FromIterator<(JobId, V)> for SharedMap<V> {
    fn from_iter<I: IntoIterator<Item = (JobId, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (id, value) in entries {
            map.insert(id, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bound() -> impl Strategy<Value = Bound<JobId>> {
        prop_oneof![
            Just(Bound::Unbounded),
            (0u64..701).prop_map(|id| Bound::Included(JobId(id))),
            (0u64..701).prop_map(|id| Bound::Excluded(JobId(id))),
        ]
    }

    /// A plain map panics where a range ends before it begins.
    fn plain(map: &BTreeMap<JobId, u32>, range: (Bound<JobId>, Bound<JobId>)) -> Vec<(JobId, u32)> {
        map.iter().filter(|(id, _)| range.contains(id)).map(|(id, value)| (*id, *value)).collect()
    }

    proptest! {
        /// A map and every copy of it say what a plain map and its copies say.
        #[test]
        fn a_map_and_its_copies_are_maps(
            deeds in prop::collection::vec((0u8..6, 0u64..700, any::<u32>()), 1..400),
            ranges in prop::collection::vec((bound(), bound()), 6),
        ) {
            let (mut map, mut other) = (SharedMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for (deed, id, value) in deeds {
                let id = JobId(id);
                match deed {
                    0 => prop_assert_eq!(map.remove(&id), other.remove(&id)),
                    1 => {
                        map.get_mut(&id).into_iter().for_each(|held| *held = value);
                        other.get_mut(&id).into_iter().for_each(|held| *held = value);
                    }
                    2 if id.0 < 9 => {
                        map.values_mut().for_each(|held| *held = held.wrapping_add(1));
                        other.values_mut().for_each(|held| *held = held.wrapping_add(1));
                    }
                    3 if id.0 < 20 => copies.push((map.clone(), other.clone())),
                    _ => prop_assert_eq!(map.insert(id, value), other.insert(id, value)),
                }
            }
            copies.push((map, other));
            for (map, other) in copies {
                prop_assert_eq!((map.len(), map.is_empty()), (other.len(), other.is_empty()));
                prop_assert!(map.iter().eq(other.iter()) && map.ids().eq(other.keys().copied()));
                prop_assert!((0..701).all(|id| map.get(&JobId(id)) == other.get(&JobId(id))));
                for &range in &ranges {
                    let ordered = match (range.0, range.1) {
                        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a <= b,
                        _ => true,
                    };
                    if ordered {
                        let found: Vec<_> = map.range(range).map(|(id, value)| (*id, *value)).collect();
                        prop_assert_eq!(&found, &plain(&other, range));
                        let mut back: Vec<_> = map.range(range).rev().map(|(id, value)| (*id, *value)).collect();
                        back.reverse();
                        prop_assert_eq!(back, found);
                    }
                }
            }
        }
    }
}
