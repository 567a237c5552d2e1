//! Who envies whom.
//!
//! The whole matrix E has n² entries; [`Audit::envy`] and [`Audit::envy_row`] give them one at a time. What is wanted of
//! many users is each one's worst, and for that users l with the same w and the same d/π are one: for them
//!
//!   v_l(x_i π_l/π_i) = π_l · v(x_i/π_i)      with v the value of a user of weight 1 and cap d_l/π_l,
//!
//! so whom they would rather be is the same, and only what they have themselves (u_l/π_l) differs.

use super::{Audit, over};
use crate::wanted::{ROUNDING, Wanted};
use std::collections::BTreeMap;

/// One user's envy of another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Envy {
    /// l, who envies.
    pub envier: usize,
    /// i, who is envied.
    pub envied: usize,
    /// E_li = v_l(x_i π_l/π_i)/u_l; 1 is indifference.
    pub ratio: f64,
}

impl Audit {
    /// E_li: what `l` would have with the GPUs of `i`, scaled by entitlement, over what it has.
    #[must_use]
    pub fn envy(&self, l: usize, i: usize) -> f64 {
        over(self.claims.value(l, self.held(i), self.claims.pi[l] / self.claims.pi[i]), self.u[l])
    }

    /// E_l of one user: its envy of everybody, itself included.
    pub fn envy_row(&self, l: usize) -> impl Iterator<Item = f64> + '_ {
        (0..self.u.len()).map(move |i| self.envy(l, i))
    }

    /// Every user's strongest envy of another, in the order of users; empty with fewer than two. Never stores the matrix.
    #[must_use]
    pub fn envies(&self) -> Vec<Envy> {
        if self.u.len() < 2 {
            return Vec::new();
        }
        let claims = &self.claims;
        let wanted = Wanted::new(&self.x, &claims.pi, |l, j| claims.w[l * claims.k + j] * claims.pi[l] / self.u[l]);
        let mut alike: BTreeMap<Vec<u64>, [usize; 2]> = BTreeMap::new();
        let strongest = |l: usize| {
            let relative_cap = self.claims.d[l] / self.claims.pi[l];
            let key = self.claims.speedups(l).iter().chain([&relative_cap]).map(|x| x.to_bits()).collect();
            let [first, second] = *alike.entry(key).or_insert_with(|| self.two_most_wanted(l, &wanted));
            let envied = if first == l { second } else { first };
            Envy { envier: l, envied, ratio: self.envy(l, envied) }
        };
        (0..self.u.len()).map(strongest).collect()
    }

    /// The strongest envy of all, of the first user that feels it.
    #[must_use]
    pub fn worst_envy(&self) -> Option<Envy> {
        self.envies().into_iter().reduce(|worst, other| if other.ratio > worst.ratio { other } else { worst })
    }

    /// The two users whose GPUs, per entitlement, are worth most to `l`, the first ones on ties.
    fn two_most_wanted(&self, l: usize, wanted: &Wanted) -> [usize; 2] {
        let (w, pi) = (self.claims.speedups(l), &self.claims.pi);
        let mut best: [(f64, usize); 2] = [(f64::NEG_INFINITY, usize::MAX); 2];
        let mut look = |i: usize, most: f64| {
            // Uncapped, a bundle is worth no less; few need the exact value.
            if most * pi[l] * ROUNDING >= best[1].0 && best.iter().all(|known| known.1 != i) {
                let value = self.claims.value(l, self.held(i), pi[l] / pi[i]);
                let is_more = |than: (f64, usize)| value > than.0 || (value == than.0 && i < than.1);
                if is_more(best[0]) {
                    best = [(value, i), best[0]];
                } else if is_more(best[1]) {
                    best[1] = (value, i);
                }
            }
            best[1].0 / pi[l] / ROUNDING
        };
        wanted.each(w, f64::NEG_INFINITY, &mut look);
        let second = look(usize::MAX, f64::NEG_INFINITY);
        if second <= 0.0 {
            // Then who holds nothing is as much worth as others, and it goes by their order.
            (0..pi.len()).for_each(|i| {
                look(i, f64::INFINITY);
            });
        }
        best.map(|(_, i)| i)
    }
}
