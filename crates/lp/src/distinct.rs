//! Equal rows of numbers, found by a hash table with open addressing. Rows are equal if all their numbers are.

const EMPTY: u32 = u32::MAX;

/// The positions of distinct rows; the rows themselves belong to the caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct DistinctRows {
    slots: Vec<u32>,
}

impl DistinctRows {
    /// Empties the table, and makes room for `n` rows. Half of the slots stay free.
    pub(crate) fn reset(&mut self, n: usize) {
        self.slots.clear();
        self.slots.resize((2 * n).next_power_of_two(), EMPTY);
    }

    /// The position of `row` among the distinct `rows`, and whether it is new: then it was appended to them.
    pub(crate) fn insert(&mut self, rows: &mut Vec<f64>, row: &[f64]) -> (u32, bool) {
        let k = row.len();
        let mask = self.slots.len() - 1;
        let mut slot = hash(row) as usize & mask;
        loop {
            let at = self.slots[slot];
            if at == EMPTY {
                let new = (rows.len() / k) as u32;
                self.slots[slot] = new;
                rows.extend_from_slice(row);
                return (new, true);
            }
            if rows[at as usize * k..][..k] == *row {
                return (at, false);
            }
            slot = (slot + 1) & mask;
        }
    }
}

fn hash(row: &[f64]) -> u64 {
    let mut hash = 0u64;
    for value in row {
        hash = (hash ^ value.to_bits()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    }
    hash
}
