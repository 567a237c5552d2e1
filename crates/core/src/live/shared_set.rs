//! An ordered set that is copied in no time, as [`SharedSlots`](super::shared_slots::SharedSlots) are: its members lie in chunks, in order, and a copy
//! shares every chunk until one of the two changes it.

use std::sync::Arc;

/// Members of a chunk, at most.
const CHUNK: usize = 128;

/// Members in order.
#[derive(Clone, Debug)]
pub(crate) struct SharedSet<K> {
    /// None is empty.
    chunks: Vec<Arc<Vec<K>>>,
}

impl<K> Default for SharedSet<K> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<K: Ord + Copy> SharedSet<K> {
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The chunk that a member is in if it is there, or would be; one beyond the last if it is larger than all.
    fn chunk_of(&self, key: &K) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last < key))
    }

    pub(crate) fn insert(&mut self, key: K) {
        if self.chunks.is_empty() {
            return self.chunks.push(Arc::new(vec![key]));
        }
        let at = self.chunk_of(&key).min(self.chunks.len() - 1);
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        let Err(place) = chunk.binary_search(&key) else { return };
        chunk.insert(place, key);
        if chunk.len() > CHUNK {
            // Members that come in order leave full chunks behind them.
            let from = if place == CHUNK { CHUNK } else { CHUNK / 2 };
            let rest = chunk.split_off(from);
            self.chunks.insert(at + 1, Arc::new(rest));
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let at = self.chunk_of(key);
        let Some(place) = self.chunks.get(at).and_then(|chunk| chunk.binary_search(key).ok()) else { return };
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        chunk.remove(place);
        let left = chunk.len();
        if left == 0 {
            self.chunks.remove(at);
        } else if left < CHUNK / 4 && self.chunks.get(at + 1).is_some_and(|next| next.len() + left <= CHUNK / 2) {
            let next = self.chunks.remove(at + 1);
            Arc::make_mut(&mut self.chunks[at]).extend_from_slice(&next);
        }
    }

    /// Members that are not less than `from`, in order.
    pub(crate) fn from(&self, from: K) -> impl Iterator<Item = K> + Clone + '_ {
        let at = self.chunk_of(&from);
        let (first, rest) = self.chunks[at..].split_at(usize::from(at < self.chunks.len()));
        let place = first.first().map_or(0, |chunk| chunk.partition_point(|key| *key < from));
        let first = first.iter().flat_map(move |chunk| chunk[place..].iter().copied());
        first.chain(rest.iter().flat_map(|chunk| chunk.iter().copied()))
    }

    /// How many members are not less than `from` and less than `to`.
    pub(crate) fn count(&self, from: K, to: K) -> usize {
        let (first, last) = (self.chunk_of(&from), self.chunk_of(&to));
        let below = |at: usize, key: K| self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(|k| *k < key));
        let whole: usize = self.chunks[first..last.max(first)].iter().map(|chunk| chunk.len()).sum();
        (whole + below(last, to)).saturating_sub(below(first, from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// A set and every copy of it are what a plain set and its copies are.
        #[test]
        fn a_set_and_its_copies_are_sets(
            deeds in prop::collection::vec((0u8..8, 0u32..900), 1..1500),
            bounds in prop::collection::vec((0u32..950, 0u32..950), 8),
        ) {
            let (mut set, mut plain) = (SharedSet::default(), BTreeSet::new());
            let mut copies = Vec::new();
            for (deed, key) in deeds {
                match deed {
                    0 if key < 9 => copies.push((set.clone(), plain.clone())),
                    0..=2 => {
                        set.remove(&key);
                        plain.remove(&key);
                    }
                    _ => {
                        set.insert(key);
                        plain.insert(key);
                    }
                }
            }
            copies.push((set, plain));
            for (set, plain) in copies {
                prop_assert_eq!(set.is_empty(), plain.is_empty());
                prop_assert!(set.from(0).eq(plain.iter().copied()));
                prop_assert!(set.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
                for &(a, b) in &bounds {
                    prop_assert!(set.from(a).eq(plain.range(a..).copied()));
                    let (from, to) = (a.min(b), a.max(b));
                    prop_assert_eq!(set.count(from, to), plain.range(from..to).count());
                }
            }
        }

        /// Members that come in order fill their chunks.
        #[test]
        fn chunks_are_full_where_members_come_in_order(n in 1u32..2000) {
            let mut set = SharedSet::default();
            (0..n).for_each(|key| set.insert(key));
            prop_assert_eq!(set.chunks.len(), (n as usize).div_ceil(CHUNK));
        }
    }
}
