//! A crowd: users who are looked at by themselves, with everything that ties them to others paid for.
//!
//! Let `p` be prices, `Y_l` what user `l` of the crowd `C` pays over all its rows against bundles outside `C` (and its
//! floor), and `y_iC` what an outsider `i` pays not to envy `C`. The crowd's programme is
//!
//! ```text
//! R = max Σ_{l∈C} ((π_l + Y_l) w_l − π_l p)·z_l − Σ_i y_iC t_i
//!     s.t.  w_l·z_l ≥ w_l·z_i  (l, i ∈ C),   w_i·z_l ≤ t_i  (i outside, l ∈ C),   Σ_{l∈C} π_l z_l ≤ room,   caps
//! ```
//!
//! The crowd of all users, at no prices, is the whole programme. Take any crowd's programme over a partition into
//! parts, and make each part a crowd at the duals found (those of rows between parts are what is paid across their
//! borders). The bundle a part holds has a value `R₀` there. If `R = R₀` for all parts, their duals beside those of the
//! rows between them are feasible duals of the crowd, and prove that it was right to keep the parts together.
//! If `R > R₀` somewhere, that part should be told apart. It is column generation; what is generated is not a
//! column but a finer partition.

use super::grouped::Grouped;
use super::stage::{Stage, dot};

/// See the module. Places are positions in `members`.
#[derive(Clone, Debug, Default)]
pub(super) struct Crowd {
    pub(super) members: Vec<u32>,
    /// `Y_l`, by place.
    pub(super) outflow: Vec<f64>,
    /// `(i, y_iC)`.
    pub(super) inflow: Vec<(u32, f64)>,
    pub(super) prices: Vec<f64>,
    /// Whether floors are rows; they are paid for in every crowd but that of all users.
    pub(super) floors: bool,
}

impl Crowd {
    /// Everybody.
    pub(super) fn all(stage: &Stage) -> Self {
        let n = stage.users();
        Self {
            members: (0..n as u32).collect(),
            outflow: vec![0.0; n],
            inflow: Vec::new(),
            prices: vec![0.0; stage.k],
            floors: true,
        }
    }

    /// What the crowd's objective is when everybody holds `bundle`.
    pub(super) fn value_of(&self, stage: &Stage, bundle: &[f64]) -> f64 {
        let spent = dot(&self.prices, bundle);
        let mut value = 0.0;
        for (&l, &outflow) in self.members.iter().zip(&self.outflow) {
            let weight = stage.weight[l as usize];
            value += (weight + outflow) * stage.worth(l as usize, bundle) - weight * spent;
        }
        value - self.inflow.iter().map(|&(i, y)| y * stage.worth(i as usize, bundle)).sum::<f64>()
    }

    /// The classes (unions of parts, given by the class of every part) as crowds at the duals of `grouped`.
    pub(super) fn children(&self, grouped: &Grouped, class_of: &[u32], classes: usize) -> Vec<Crowd> {
        let mut prices = self.prices.clone();
        prices.iter_mut().zip(&grouped.prices).for_each(|(p, q)| *p += q);
        let mut children = vec![Crowd { prices, ..Crowd::default() }; classes];
        let mut home = vec![(0u32, 0u32); self.members.len()];
        for (part, &class) in grouped.parts.iter().zip(class_of) {
            let child = &mut children[class as usize];
            for &at in part {
                home[at as usize] = (class, child.members.len() as u32);
                child.members.push(self.members[at as usize]);
                child.outflow.push(self.outflow[at as usize]);
            }
        }
        for &(at, h, y) in &grouped.envy {
            let ((class, place), other) = (home[at as usize], class_of[h as usize]);
            if class != other {
                children[class as usize].outflow[place as usize] += y;
                children[other as usize].receive(self.members[at as usize], y);
            }
        }
        for &(o, h, y) in &grouped.inflow {
            children[class_of[h as usize] as usize].receive(self.inflow[o as usize].0, y);
        }
        for &(at, y) in &grouped.floor {
            let (class, place) = home[at as usize];
            children[class as usize].outflow[place as usize] += y;
        }
        children
    }

    fn receive(&mut self, i: u32, y: f64) {
        match self.inflow.iter_mut().find(|f| f.0 == i) {
            Some(known) => known.1 += y,
            None => self.inflow.push((i, y)),
        }
    }

    /// Parts of about `size` users of like taste, or of the same label where they have one (`u32::MAX` is none); whoever
    /// pays across the border is alone.
    pub(super) fn clusters(&self, stage: &Stage, size: usize, label: &[u32]) -> Vec<Vec<u32>> {
        let mut parts = Vec::new();
        let (mut labelled, mut rest) = (Vec::new(), Vec::new());
        for (at, (&outflow, &l)) in self.outflow.iter().zip(&self.members).enumerate() {
            match label[l as usize] {
                _ if outflow > 0.0 => parts.push(vec![at as u32]),
                u32::MAX => rest.push(at as u32),
                label => labelled.push((label, at as u32)),
            }
        }
        labelled.sort_unstable();
        let same = labelled.chunk_by(|a, b| a.0 == b.0);
        parts.extend(same.map(|chunk| chunk.iter().map(|t| t.1).collect::<Vec<u32>>()));
        self.bisect(stage, size, rest, &mut parts);
        parts
    }

    /// Halves along the taste that differs most, until halves are small.
    fn bisect(&self, stage: &Stage, size: usize, users: Vec<u32>, parts: &mut Vec<Vec<u32>>) {
        let taste = |at: u32, j: usize| {
            let l = self.members[at as usize] as usize;
            stage.rates(l)[j] / stage.top[l]
        };
        let mut open = vec![users];
        while let Some(mut part) = open.pop() {
            if part.len() <= size {
                parts.extend((!part.is_empty()).then_some(part));
                continue;
            }
            let spread = |j: usize| {
                let range = part.iter().map(|&at| taste(at, j));
                let (low, high) = range.fold((1.0f64, 0.0f64), |(a, b), t| (a.min(t), b.max(t)));
                high - low
            };
            let widest = (0..stage.k).map(|j| (spread(j), j)).max_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |t| t.1);
            part.sort_by(|&a, &b| taste(a, widest).total_cmp(&taste(b, widest)).then(a.cmp(&b)));
            let upper = part.split_off(part.len() / 2);
            open.push(upper);
            open.push(part);
        }
    }
}
