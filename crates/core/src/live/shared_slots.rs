//! Slots that are copied in no time: a copy shares all values with the original until one of the two changes them.
//!
//! A daemon copies its scheduler for snapshots, dry runs and the reasons of all who wait, and nobody's request should wait for that. So values are kept
//! in chunks, a copy takes a reference to each chunk, and whoever changes a value first makes its chunk its own. A chunk is small enough that
//! making it one's own costs a few microseconds, and large enough that looking at all values is looking at them in a row.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// Slots of a chunk.
const CHUNK: usize = 16;

/// Values by slot; written down as a plain list.
#[derive(Clone, Debug)]
pub(crate) struct SharedSlots<T> {
    chunks: Vec<Arc<Vec<Option<T>>>>,
}

impl<T> Default for SharedSlots<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Clone> SharedSlots<T> {
    /// Slots in use and free.
    pub(crate) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&T> {
        self.chunks.get(slot / CHUNK)?.get(slot % CHUNK)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.entry(slot)?.as_mut()
    }

    /// Puts a value into a slot that is there, or takes it out.
    pub(crate) fn replace(&mut self, slot: usize, value: Option<T>) -> Option<T> {
        std::mem::replace(self.entry(slot)?, value)
    }

    fn entry(&mut self, slot: usize) -> Option<&mut Option<T>> {
        Arc::make_mut(self.chunks.get_mut(slot / CHUNK)?).get_mut(slot % CHUNK)
    }

    /// Adds a slot.
    pub(crate) fn push(&mut self, value: Option<T>) {
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => Arc::make_mut(last).push(value),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(value);
                self.chunks.push(Arc::new(chunk));
            }
        }
    }

    /// All slots in order, free ones too.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&T>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(Option::as_ref))
    }
}

impl<T: Clone> FromIterator<Option<T>> for SharedSlots<T> {
    fn from_iter<I: IntoIterator<Item = Option<T>>>(values: I) -> Self {
        let mut slots = Self::default();
        values.into_iter().for_each(|value| slots.push(value));
        slots
    }
}

impl<T: Clone + Serialize> Serialize for SharedSlots<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Clone + Deserialize<'de>> Deserialize<'de> for SharedSlots<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Option<T>>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is done to slots: by number, over however many there are.
    #[derive(Clone, Debug)]
    enum Deed {
        Push(Option<u32>),
        Replace(usize, Option<u32>),
        Add(usize),
        Copy,
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            4 => any::<Option<u32>>().prop_map(Deed::Push),
            2 => (any::<usize>(), any::<Option<u32>>()).prop_map(|(slot, value)| Deed::Replace(slot, value)),
            2 => any::<usize>().prop_map(Deed::Add),
            1 => Just(Deed::Copy),
        ]
    }

    proptest! {
        /// Slots and every copy of them hold what a plain list and its copies hold, and are written down like it.
        #[test]
        fn slots_and_their_copies_are_lists(deeds in prop::collection::vec(deed(), 1..120)) {
            let (mut slots, mut list) = (SharedSlots::<u32>::default(), Vec::<Option<u32>>::new());
            let mut copies = Vec::new();
            for deed in deeds {
                let at = |slot: usize| slot % list.len().max(1);
                match deed {
                    Deed::Push(value) => {
                        slots.push(value);
                        list.push(value);
                    }
                    Deed::Replace(slot, value) => {
                        let slot = at(slot);
                        let before = list.get_mut(slot).and_then(|entry| std::mem::replace(entry, value));
                        prop_assert_eq!(slots.replace(slot, value), before);
                    }
                    Deed::Add(slot) => {
                        let slot = at(slot);
                        slots.get_mut(slot).into_iter().for_each(|value| *value = value.wrapping_add(3));
                        list.get_mut(slot).into_iter().flatten().for_each(|value| *value = value.wrapping_add(3));
                    }
                    Deed::Copy => copies.push((slots.clone(), list.clone())),
                }
            }
            copies.push((slots, list));
            for (slots, list) in copies {
                prop_assert_eq!(slots.len(), list.len());
                prop_assert!(slots.iter().eq(list.iter().map(Option::as_ref)));
                prop_assert!((0..=list.len()).all(|slot| slots.get(slot) == list.get(slot).and_then(Option::as_ref)));
                let text = serde_json::to_string(&slots).expect("numbers");
                prop_assert_eq!(&text, &serde_json::to_string(&list).expect("numbers"));
                let read: SharedSlots<u32> = serde_json::from_str(&text).expect("what was written");
                prop_assert!(read.iter().eq(slots.iter()));
            }
        }
    }
}
