//! Who holds most of what: what others' units are worth to somebody, without a look at all of them.
//!
//! Most users hold one resource only, and of those the one with most of it is all that matters. With `b_j` one over that, whoever holds `b·z ≤ 1` of several
//! is worth no more than `v_l = max_j a_lj/b_j` to `l`, which one of the former is worth: in the order of `b·z` one need only look as far as that.

/// Units per weight of everybody.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    k: usize,
    /// By resource, most first: who holds nothing else.
    single: Vec<Vec<(f64, u32)>>,
    /// b.
    prices: Vec<f64>,
    /// `(b·z, i)` of all others, most first, and their `z`: block by block, in it resource by resource.
    mixed: Vec<(f64, u32)>,
    units: Vec<f64>,
}

impl Crowd {
    /// Of units, users × resources.
    pub(super) fn new(units: &[f64], weight: &[f64], prices: &[f64]) -> Self {
        let k = prices.len();
        let mut crowd =
            Self { k, single: vec![Vec::new(); k], prices: prices.to_vec(), mixed: Vec::new(), units: Vec::new() };
        let mut several: Vec<u32> = Vec::new();
        for (i, row) in units.chunks_exact(k).enumerate() {
            let mut held = (0..k).filter(|&j| row[j] > 0.0);
            let (first, more) = (held.next(), held.next().is_some());
            match first {
                Some(j) if !more => crowd.single[j].push((row[j] / weight[i], i as u32)),
                Some(_) => several.push(i as u32),
                None => {}
            }
        }
        for list in &mut crowd.single {
            list.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        let cost = |i: u32| {
            let row = &units[i as usize * k..][..k];
            row.iter().zip(&crowd.prices).map(|(x, b)| x * b).sum::<f64>() / weight[i as usize]
        };
        crowd.mixed = several.into_iter().map(|i| (cost(i), i)).collect();
        crowd.mixed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        crowd.units = vec![0.0; crowd.mixed.len().next_multiple_of(BLOCK) * k];
        for (at, &(_, i)) in crowd.mixed.iter().enumerate() {
            let block = &mut crowd.units[at / BLOCK * BLOCK * k..];
            for (j, x) in units[i as usize * k..][..k].iter().enumerate() {
                block[j * BLOCK + at % BLOCK] = x / weight[i as usize];
            }
        }
        crowd
    }

    /// `v_l`, a little more than that for rounding.
    fn value(&self, a: &[f64]) -> f64 {
        let worth = a.iter().zip(&self.prices).map(|(a, b)| if *b > 0.0 { a / b } else { 0.0 });
        worth.fold(0.0, f64::max) * (1.0 + 1e-12)
    }

    /// The most that anybody's units but those of `l`, who values them at `a`, are worth.
    pub(super) fn most(&self, l: usize, a: &[f64]) -> f64 {
        let mut most = 0.0;
        for (a, list) in a.iter().zip(&self.single) {
            if let Some(first) = list.iter().find(|held| held.1 as usize != l) {
                most = f64::max(most, a * first.0);
            }
        }
        self.each_block(
            a,
            |held, worth, most| {
                let others = held.iter().zip(worth).filter(|(held, _)| held.1 as usize != l);
                others.for_each(|(_, worth)| *most = if *worth > *most { *worth } else { *most });
            },
            &mut most,
        );
        most
    }

    /// Everybody but `l` whose units are worth more than that to `l`, and what they are worth.
    pub(super) fn above(&self, l: usize, a: &[f64], least: f64, mut found: impl FnMut(usize, f64)) {
        for (a, list) in a.iter().zip(&self.single) {
            let dear = list.iter().take_while(|held| a * held.0 > least);
            dear.filter(|held| held.1 as usize != l).for_each(|held| found(held.1 as usize, a * held.0));
        }
        let mut least = least;
        self.each_block(
            a,
            |held, worth, least| {
                let dear = held.iter().zip(worth).filter(|(held, worth)| **worth > *least && held.1 as usize != l);
                dear.for_each(|(held, worth)| found(held.1 as usize, *worth));
            },
            &mut least,
        );
    }

    /// Calls with those who hold several, a block after the other, and what their units are worth, as long as any can be worth more than `least`.
    fn each_block(&self, a: &[f64], mut call: impl FnMut(&[(f64, u32)], &[f64; BLOCK], &mut f64), least: &mut f64) {
        let value = self.value(a);
        for (held, units) in self.mixed.chunks(BLOCK).zip(self.units.chunks_exact(BLOCK * self.k)) {
            if value * held[0].0 <= *least {
                return;
            }
            let mut worth = [0.0; BLOCK];
            for (a, units) in a.iter().zip(units.chunks_exact(BLOCK)) {
                worth.iter_mut().zip(units).for_each(|(worth, x)| *worth += a * x);
            }
            call(held, &worth, least);
        }
    }
}

/// Users that are looked at together.
const BLOCK: usize = 16;

#[cfg(test)]
fn worth(a: &[f64], z: &[f64]) -> f64 {
    a.iter().zip(z).map(|(a, z)| a * z).sum()
}

#[cfg(test)]
mod tests {
    use super::{Crowd, worth};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        /// What it finds is what a look at everybody finds, whatever the prices.
        #[test]
        fn the_crowd_hides_nobody(
            k in 1usize..5,
            cells in prop::collection::vec(prop_oneof![3 => Just(0.0), 2 => 0.0..3.0f64], 5..250),
            weight in prop::collection::vec(0.5..3.0f64, 250),
            a in prop::collection::vec(prop_oneof![1 => Just(0.0), 3 => 0.1..3.0f64], 5),
            prices in prop::collection::vec(0.1..3.0f64, 5),
            (l, least) in (0usize..250, 0.0..4.0f64),
        ) {
            let n = cells.len() / k;
            let (units, a, l) = (&cells[..n * k], &a[..k], l % n);
            let crowd = Crowd::new(units, &weight[..n], &prices[..k]);
            let worths: Vec<f64> = (0..n).map(|i| worth(a, &units[i * k..][..k]) / weight[i]).collect();
            let others = || worths.iter().enumerate().filter(|(i, _)| *i != l);
            let most = others().map(|(_, worth)| *worth).fold(0.0, f64::max);
            prop_assert!((crowd.most(l, a) - most).abs() <= 1e-9 * most, "{} against {most}", crowd.most(l, a));
            let mut found = Vec::new();
            crowd.above(l, a, least, |i, worth| found.push((i, worth)));
            found.sort_by_key(|t| t.0);
            found.dedup_by_key(|t| t.0);
            for (i, worth) in others() {
                let there = found.iter().any(|t| t.0 == i && (t.1 - worth).abs() <= 1e-9 * worth);
                prop_assert!(there == (*worth > least) || (worth - least).abs() <= 1e-9 * least, "{i}: {worth} beside {least}");
            }
        }
    }
}
