//! Whose GPUs are worth most to somebody, without a look at everybody's.
//!
//! Most users hold one kind only, and of those whoever has more of it is wanted more by everybody. With any prices `b > 0` of kinds, what `i` holds of several, `z_i` per
//! weight, is worth no more to `l` than `max_j (a_lj/b_j) · b·z_i`. So whoever goes through each kind's holders in the order of `z`, most first, and through those of several in
//! the order of `b·z`, may stop as soon as what is left is less than what it has found. The prices only say how soon: they are what a GPU brings to those who hold it, as a
//! part of what they have, which in a market is its price.
//!
//! It must never leave out anybody that counts: tested against a look at everybody.

/// Everybody who holds anything.
pub(crate) struct Wanted {
    /// By kind, most first: who holds nothing else, and how much of it per weight.
    single: Vec<Vec<(f64, usize)>>,
    prices: Vec<f64>,
    /// All others, dearest first.
    mixed: Vec<Holder>,
    /// `(kind, GPUs per weight)`, holder by holder.
    held: Vec<(usize, f64)>,
}

/// Somebody who holds several kinds.
struct Holder {
    cost: f64,
    user: usize,
    /// Its part of what is held.
    from: usize,
    to: usize,
}

/// Sums in another order may differ by so much.
pub(crate) const ROUNDING: f64 = 1.0 + 1e-9;

impl Wanted {
    /// Of GPUs, users × kinds; `brings` says what a GPU of a kind brings to a user, as a part of what it has per weight.
    pub(crate) fn new(x: &[f64], weight: &[f64], brings: impl Fn(usize, usize) -> f64) -> Self {
        let k = x.len() / weight.len().max(1);
        let (mut held, mut mixed, mut single) = (Vec::new(), Vec::new(), vec![Vec::new(); k]);
        let (mut sum, mut gpus, mut is_held) = (vec![0.0; k], vec![0.0; k], vec![false; k]);
        for (l, (row, weight)) in x.chunks_exact(k.max(1)).zip(weight).enumerate() {
            let from = held.len();
            for (j, x) in row.iter().enumerate().filter(|(_, x)| **x > 0.0) {
                held.push((j, x / weight));
                is_held[j] = true;
                let part = brings(l, j);
                if part.is_finite() && part > 0.0 {
                    sum[j] += x * part;
                    gpus[j] += x;
                }
            }
            match held.len() - from {
                0 => {}
                1 => {
                    let (j, z) = held.remove(from);
                    single[j].push((z, l));
                }
                _ => mixed.push(Holder { cost: 0.0, user: l, from, to: held.len() }),
            }
        }
        // Of what is held, but nobody says what it brings, nothing is known; what nobody holds is worth nothing in anybody's hands.
        let price = |j: usize| match (gpus[j] > 0.0, is_held[j]) {
            (true, _) => sum[j] / gpus[j],
            (false, true) => f64::MIN_POSITIVE,
            (false, false) => f64::INFINITY,
        };
        let prices: Vec<f64> = (0..k).map(price).collect();
        for list in &mut single {
            list.sort_by(|a: &(f64, usize), b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        for holder in &mut mixed {
            holder.cost = held[holder.from..holder.to].iter().map(|(j, z)| prices[*j] * z).sum();
        }
        mixed.sort_by(|a, b| b.cost.total_cmp(&a.cost).then(a.user.cmp(&b.user)));
        Self { single, prices, mixed, held }
    }

    /// Calls with holders and what theirs, per weight, is worth to somebody who values GPUs at `a`, as long as that may be `least` or more; a call returns the next `least`.
    pub(crate) fn each(&self, a: &[f64], mut least: f64, mut call: impl FnMut(usize, f64) -> f64) {
        let value = a.iter().zip(&self.prices).map(|(a, b)| a / b).fold(0.0, f64::max) * ROUNDING;
        for (a, list) in a.iter().zip(&self.single) {
            for (z, user) in list {
                if a * z * ROUNDING < least {
                    break;
                }
                least = call(*user, a * z);
            }
        }
        for holder in &self.mixed {
            if value * holder.cost < least {
                return;
            }
            let worth = self.held[holder.from..holder.to].iter().map(|&(j, z)| a[j] * z).sum();
            least = call(holder.user, worth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Wanted;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The most that anybody's is worth is what a look at everybody finds, and nobody whose is worth more than a bound is left out, whatever GPUs bring.
        #[test]
        fn nobody_who_counts_is_left_out(
            k in 1usize..5,
            cells in prop::collection::vec(prop_oneof![3 => Just(0.0), 2 => 0.0..3.0f64], 5..250),
            weight in prop::collection::vec(0.5..3.0f64, 250),
            a in prop::collection::vec(prop_oneof![1 => Just(0.0), 3 => 0.1..3.0f64], 5),
            brings in prop::collection::vec(prop_oneof![1 => Just(0.0), 1 => Just(f64::NAN), 4 => 0.1..3.0f64], 250),
            bound in 0.0..4.0f64,
        ) {
            let n = cells.len() / k;
            let (x, weight, a) = (&cells[..n * k], &weight[..n], &a[..k]);
            let wanted = Wanted::new(x, weight, |l, j| brings[(l * 7 + j) % brings.len()]);
            let worth = |i: usize| a.iter().zip(&x[i * k..]).map(|(a, x)| a * x).sum::<f64>() / weight[i];
            let all: Vec<f64> = (0..n).map(worth).collect();
            let most = all.iter().copied().fold(0.0, f64::max);
            let mut found = 0.0f64;
            wanted.each(a, 0.0, |_, worth| { found = found.max(worth); found });
            prop_assert!((found - most).abs() <= 1e-12 * most, "{found} instead of {most}");
            let mut above = Vec::new();
            wanted.each(a, bound, |i, worth| { if worth > bound { above.push(i) } bound });
            above.sort_unstable();
            let expected: Vec<usize> = (0..n).filter(|&i| all[i] > bound * (1.0 + 1e-12)).collect();
            prop_assert!(expected.iter().all(|i| above.binary_search(i).is_ok()), "{expected:?} of {above:?}");
        }
    }
}
