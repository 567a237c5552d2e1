//! Sets of slots that are gone through in order: one bit for each slot. A million slots are 125 kB, copied in microseconds.

use super::Slot;

const BITS: usize = u64::BITS as usize;

/// Slots, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotSet {
    words: Vec<u64>,
}

impl SlotSet {
    /// Puts a slot in, or takes it out.
    pub(crate) fn set(&mut self, slot: Slot, there: bool) {
        let (word, bit) = (slot as usize / BITS, 1_u64 << (slot as usize % BITS));
        if there && self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        match self.words.get_mut(word) {
            Some(word) if there => *word |= bit,
            Some(word) => *word &= !bit,
            None => {}
        }
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| slots_of(at, word))
    }

    /// Slots that are in this set or in the other, in order.
    pub(crate) fn union<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Slot> + 'a {
        let word = |set: &Self, at: usize| set.words.get(at).copied().unwrap_or(0);
        let words = self.words.len().max(other.words.len());
        (0..words).flat_map(move |at| slots_of(at, word(self, at) | word(other, at)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }
}

/// The slots of one word.
fn slots_of(at: usize, mut word: u64) -> impl Iterator<Item = Slot> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < u64::BITS).then(|| (at * BITS) as Slot + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Two sets, and both together, are what plain sets are.
        #[test]
        fn slots_are_sets(deeds in prop::collection::vec((any::<bool>(), 0u32..300, any::<bool>()), 0..200)) {
            let (mut sets, mut plain) = ([SlotSet::default(), SlotSet::default()], [BTreeSet::new(), BTreeSet::new()]);
            for (which, slot, there) in deeds {
                sets[usize::from(which)].set(slot, there);
                match there {
                    true => plain[usize::from(which)].insert(slot),
                    false => plain[usize::from(which)].remove(&slot),
                };
            }
            for (set, plain) in sets.iter().zip(&plain) {
                prop_assert!(set.iter().eq(plain.iter().copied()));
                prop_assert_eq!(set.is_empty(), plain.is_empty());
            }
            prop_assert!(sets[0].union(&sets[1]).eq(plain[0].union(&plain[1]).copied()));
        }
    }
}
