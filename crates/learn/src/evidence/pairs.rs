//! Numbers by (workload, kind, other workload), most of them absent: what was measured of pairs.
//!
//! With n workloads there are n² pairs on every kind, of which a cluster ever measures a few for each workload. A row, of one
//! workload on one kind, is a sorted list; where it holds more than one in [`DENSE`] of its span it is a plain array, so that a
//! table in which everything was measured is read as fast as a matrix. A row is never longer than `DENSE` times what it holds.
//!
//! Rows are shared between copies until one of them is written: a copy costs one pointer a row.

use std::sync::Arc;

/// A row is an array where at least one in so many of its places is taken.
const DENSE: usize = 8;
/// Shorter rows stay lists.
const LEAST_DENSE: usize = 8;

/// One row: numbers by other workload. NaN where there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct PairRow {
    /// Sorted by workload; empty where `dense` is not.
    sparse: Vec<(u32, f32)>,
    dense: Vec<f32>,
    /// How many places of `dense` are taken.
    taken: usize,
}

impl PairRow {
    /// The number of `other`, NaN where there is none.
    pub(crate) fn get(&self, other: usize) -> f32 {
        if self.dense.is_empty() {
            let found = self.sparse.binary_search_by_key(&other, |&(at, _)| at as usize);
            found.map_or(f32::NAN, |i| self.sparse[i].1)
        } else {
            self.dense.get(other).copied().unwrap_or(f32::NAN)
        }
    }

    /// What there is, in order of the other workload.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, f32)> + '_ {
        let listed = self.sparse.iter().map(|&(at, value)| (at as usize, value));
        listed.chain(self.dense.iter().copied().enumerate()).filter(|(_, value)| !value.is_nan())
    }

    fn set(&mut self, other: usize, value: f32) {
        if !self.dense.is_empty() && other >= self.dense.len() {
            if other < DENSE * (self.taken + 1) {
                self.dense.resize(other + 1, f32::NAN);
            } else {
                self.sparse = self.iter().map(|(at, value)| (at as u32, value)).collect();
                (self.dense, self.taken) = (Vec::new(), 0);
            }
        }
        if self.dense.is_empty() {
            match self.sparse.binary_search_by_key(&other, |&(at, _)| at as usize) {
                Ok(i) => self.sparse[i].1 = value,
                Err(i) => self.sparse.insert(i, (other as u32, value)),
            }
            self.spread_out();
        } else {
            self.taken += usize::from(self.dense[other].is_nan());
            self.dense[other] = value;
        }
    }

    /// Makes an array of a list that is full enough.
    fn spread_out(&mut self) {
        let span = self.sparse.last().map_or(0, |&(at, _)| at as usize + 1);
        if self.sparse.len() >= LEAST_DENSE && span <= DENSE * self.sparse.len() {
            self.dense = vec![f32::NAN; span];
            for (at, value) in std::mem::take(&mut self.sparse) {
                self.dense[at as usize] = value;
                self.taken += 1;
            }
        }
    }
}

/// Rows by (workload, kind).
#[derive(Clone, Debug, Default)]
pub(crate) struct PairTable {
    kinds: usize,
    rows: Vec<Arc<PairRow>>,
}

impl PairTable {
    pub(crate) fn new(workloads: usize, kinds: usize) -> Self {
        let empty = Arc::new(PairRow::default());
        Self { kinds, rows: vec![empty; workloads * kinds] }
    }

    pub(crate) fn row(&self, workload: usize, kind: usize) -> &PairRow {
        &self.rows[workload * self.kinds + kind]
    }

    pub(crate) fn get(&self, workload: usize, kind: usize, other: usize) -> f32 {
        self.row(workload, kind).get(other)
    }

    pub(crate) fn set(&mut self, workload: usize, kind: usize, other: usize, value: f32) {
        Arc::make_mut(&mut self.rows[workload * self.kinds + kind]).set(other, value);
    }

    /// One workload more, with nothing known.
    pub(crate) fn add_workload(&mut self) {
        self.rows.extend(std::iter::repeat_n(Arc::new(PairRow::default()), self.kinds));
    }

    /// One kind more, with nothing known.
    pub(crate) fn add_kind(&mut self, workloads: usize) {
        let mut wider = Self::new(workloads, self.kinds + 1);
        for (at, row) in self.rows.iter().enumerate() {
            wider.rows[at / self.kinds * (self.kinds + 1) + at % self.kinds] = Arc::clone(row);
        }
        *self = wider;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_row_is_a_map(places in prop::collection::vec((0usize..400, -5i32..5), 0..120), kinds in 1usize..4) {
            let (mut table, mut map) = (PairTable::new(3, kinds), BTreeMap::new());
            for (other, value) in places {
                let before = table.clone();
                table.set(1, kinds - 1, other, value as f32);
                prop_assert_eq!(before.row(1, kinds - 1).iter().collect::<BTreeMap<_, _>>(), map.clone());
                map.insert(other, value as f32);
            }
            table.add_kind(3);
            table.add_workload();
            for other in 0..401 {
                let found = table.get(1, kinds - 1, other);
                prop_assert!(map.get(&other).map_or(found.is_nan(), |v| *v == found));
                prop_assert!(table.get(1, kinds, other).is_nan() && table.get(3, 0, other).is_nan());
            }
            prop_assert!(table.row(1, kinds - 1).iter().eq(map.into_iter()));
            let row = table.row(1, kinds - 1);
            prop_assert!(row.dense.len() <= DENSE * row.taken.max(1));
        }
    }
}
