//! Slots of jobs by id, copied in no time as [`SharedSlots`](super::shared_slots::SharedSlots) are: ids that lie together are in one chunk.

use super::Slot;
use crate::JobId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ids of a chunk, as a power of two.
const CHUNK_BITS: u32 = 7;

/// Slots by id, in order of id.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedIndex {
    /// By the upper bits of the ids; none is empty.
    chunks: BTreeMap<u64, Arc<Vec<(JobId, Slot)>>>,
    len: usize,
}

impl SharedIndex {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, id: JobId) -> Option<Slot> {
        let chunk = self.chunks.get(&(id.0 >> CHUNK_BITS))?;
        chunk.binary_search_by_key(&id, |entry| entry.0).ok().map(|at| chunk[at].1)
    }

    /// Puts an id in, or in its place.
    pub(crate) fn insert(&mut self, id: JobId, slot: Slot) {
        let chunk = Arc::make_mut(self.chunks.entry(id.0 >> CHUNK_BITS).or_default());
        match chunk.binary_search_by_key(&id, |entry| entry.0) {
            Ok(at) => chunk[at].1 = slot,
            Err(at) => {
                chunk.insert(at, (id, slot));
                self.len += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, id: JobId) {
        let Some(chunk) = self.chunks.get_mut(&(id.0 >> CHUNK_BITS)) else { return };
        let Ok(at) = chunk.binary_search_by_key(&id, |entry| entry.0) else { return };
        self.len -= 1;
        if chunk.len() == 1 {
            self.chunks.remove(&(id.0 >> CHUNK_BITS));
        } else {
            Arc::make_mut(chunk).remove(at);
        }
    }

    /// In order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.chunks.values().flat_map(|chunk| chunk.iter().map(|entry| entry.0))
    }
}

impl FromIterator<(JobId, Slot)> for SharedIndex {
    fn from_iter<I: IntoIterator<Item = (JobId, Slot)>>(entries: I) -> Self {
        let mut index = Self::default();
        entries.into_iter().for_each(|(id, slot)| index.insert(id, slot));
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// An index and every copy of it say what a plain map and its copies say.
        #[test]
        fn an_index_and_its_copies_are_maps(deeds in prop::collection::vec((0u8..4, 0u64..700, any::<u32>()), 1..400)) {
            let (mut index, mut map) = (SharedIndex::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for (deed, id, slot) in deeds {
                match deed {
                    0 => {
                        index.remove(JobId(id));
                        map.remove(&JobId(id));
                    }
                    3 if id < 20 => copies.push((index.clone(), map.clone())),
                    _ => {
                        index.insert(JobId(id), slot);
                        map.insert(JobId(id), slot);
                    }
                }
            }
            copies.push((index, map));
            for (index, map) in copies {
                prop_assert_eq!(index.len(), map.len());
                prop_assert!(index.ids().eq(map.keys().copied()));
                prop_assert!((0..701).all(|id| index.get(JobId(id)) == map.get(&JobId(id)).copied()));
            }
        }
    }
}
