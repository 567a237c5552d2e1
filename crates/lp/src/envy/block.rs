//! A block: a set of users whose rows towards all others, and whose capacity rows, are priced out by duals.
//!
//! Let `p` be prices, `Y_l` the sum of the duals of user `l` of the block `C` over its rows against bundles outside `C`,
//! and `y_iC` the dual of an outsider `i` not to envy `C`. The block's program is
//!
//! ```text
//! R = max Σ_{l∈C} ((π_l + Y_l) w_l − π_l p)·z_l − Σ_i y_iC t_i
//!     s.t.  w_l·z_l ≥ w_l·z_i  (l, i ∈ C),   w_i·z_l ≤ t_i  (i outside, l ∈ C),   Σ_{l∈C} π_l z_l ≤ 1
//! ```
//!
//! The block of all users, at zero prices, is the whole program. Solve any block's program restricted to a partition
//! into parts, and make each part a block at the duals found. The bundle that a part holds has the value `R₀` there.
//! If `R = R₀` for all parts, their duals together with those of the rows between them are feasible duals of the block,
//! and prove the partition optimal. If `R > R₀` somewhere, that part should be split. This is column generation in which
//! the generated object is a finer partition instead of a column.

use super::restricted::Restricted;
use super::scaled::{Scaled, dot};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) members: Vec<u32>,
    /// `Y_l`, in the order of `members`.
    pub(super) outflow: Vec<f64>,
    /// `(i, y_iC)`.
    pub(super) inflow: Vec<(u32, f64)>,
    pub(super) prices: Vec<f64>,
}

impl Block {
    /// All users.
    pub(super) fn all(scaled: &Scaled) -> Self {
        let n = scaled.users();
        Self {
            members: (0..n as u32).collect(),
            outflow: vec![0.0; n],
            inflow: Vec::new(),
            prices: vec![0.0; scaled.k],
        }
    }

    /// `R₀`: the block's objective if everybody holds `bundle`.
    pub(super) fn value_of(&self, scaled: &Scaled, bundle: &[f64]) -> f64 {
        let spent = dot(&self.prices, bundle);
        let mut value = 0.0;
        for (&l, &outflow) in self.members.iter().zip(&self.outflow) {
            let weight = scaled.weight[l as usize];
            value += (weight + outflow) * scaled.worth(l as usize, bundle) - weight * spent;
        }
        value - self.inflow.iter().map(|&(i, y)| y * scaled.worth(i as usize, bundle)).sum::<f64>()
    }

    /// The classes (unions of parts, given by the class of every part) as blocks at the duals of `restricted`.
    pub(super) fn children(&self, restricted: &Restricted, class_of: &[u32], classes: usize) -> Vec<Block> {
        let mut prices = self.prices.clone();
        prices.iter_mut().zip(&restricted.prices).for_each(|(p, q)| *p += q);
        let mut children = vec![Block { prices, ..Block::default() }; classes];
        let mut home = vec![(0u32, 0u32); self.members.len()];
        for (part, &class) in restricted.parts.iter().zip(class_of) {
            let child = &mut children[class as usize];
            for &at in part {
                home[at as usize] = (class, child.members.len() as u32);
                child.members.push(self.members[at as usize]);
                child.outflow.push(self.outflow[at as usize]);
            }
        }
        let of_means = restricted
            .means
            .iter()
            .flat_map(|&(c, h, y)| restricted.crowds[c as usize].mean.iter().map(move |&(at, part)| (at, h, y * part)));
        for (at, h, y) in restricted.envy.iter().copied().chain(of_means) {
            let ((class, place), other) = (home[at as usize], class_of[h as usize]);
            if class != other {
                children[class as usize].outflow[place as usize] += y;
                children[other as usize].receive(self.members[at as usize], y);
            }
        }
        for &(o, h, y) in &restricted.inflow {
            children[class_of[h as usize] as usize].receive(self.inflow[o as usize].0, y);
        }
        children
    }

    fn receive(&mut self, i: u32, y: f64) {
        match self.inflow.iter_mut().find(|f| f.0 == i) {
            Some(known) => known.1 += y,
            None => self.inflow.push((i, y)),
        }
    }

    /// Parts of about `size` users with similar rates, or of the same label where they have one (`u32::MAX` is none); a
    /// user with `Y_l > 0` is alone.
    pub(super) fn clusters(&self, scaled: &Scaled, size: usize, label: &[u32], together: &[u32]) -> Vec<Vec<u32>> {
        let mut parts = Vec::new();
        parts.extend((!together.is_empty()).then(|| together.to_vec()));
        let mut apart = vec![true; self.members.len()];
        together.iter().for_each(|&at| apart[at as usize] = false);
        let (mut labelled, mut rest) = (Vec::new(), Vec::new());
        for (at, (&outflow, &l)) in self.outflow.iter().zip(&self.members).enumerate().filter(|t| apart[t.0]) {
            match label[l as usize] {
                _ if outflow > 0.0 => parts.push(vec![at as u32]),
                u32::MAX => rest.push(at as u32),
                label => labelled.push((label, at as u32)),
            }
        }
        labelled.sort_unstable();
        for same in labelled.chunk_by(|a, b| a.0 == b.0) {
            // A cluster of a larger block may be all of this one: it must be split all the same.
            let limit = if same.len() > 2 * size { size } else { same.len() };
            self.bisect(scaled, limit, same.iter().map(|t| t.1).collect(), &mut parts);
        }
        // Users with the same zero rates go together where there are enough of them: a part is given only what all its
        // members can use.
        let pattern = |at: u32| scaled.rates(self.members[at as usize] as usize).iter().map(|&w| w > 0.0);
        rest.sort_by(|&a, &b| pattern(a).cmp(pattern(b)).then(a.cmp(&b)));
        let mut others = Vec::new();
        for alike in rest.chunk_by(|&a, &b| pattern(a).eq(pattern(b))) {
            if 2 * alike.len() >= size {
                self.bisect(scaled, size, alike.to_vec(), &mut parts);
            } else {
                others.extend_from_slice(alike);
            }
        }
        self.bisect(scaled, size, others, &mut parts);
        parts
    }

    /// Bisects along the normalised rate that varies most, until parts are small.
    pub(super) fn bisect(&self, scaled: &Scaled, size: usize, users: Vec<u32>, parts: &mut Vec<Vec<u32>>) {
        let rate = |at: u32, j: usize| {
            let l = self.members[at as usize] as usize;
            scaled.rates(l)[j] / scaled.top[l]
        };
        let mut open = vec![users];
        while let Some(mut part) = open.pop() {
            if part.len() <= size {
                parts.extend((!part.is_empty()).then_some(part));
                continue;
            }
            let spread = |j: usize| {
                let range = part.iter().map(|&at| rate(at, j));
                let (low, high) = range.fold((1.0f64, 0.0f64), |(a, b), t| (a.min(t), b.max(t)));
                high - low
            };
            let widest = (0..scaled.k).map(|j| (spread(j), j)).max_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |t| t.1);
            part.sort_by(|&a, &b| rate(a, widest).total_cmp(&rate(b, widest)).then(a.cmp(&b)));
            let upper = part.split_off(part.len() / 2);
            open.push(upper);
            open.push(part);
        }
    }
}
