//! A seeded source of random numbers, for traces and faults.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, 2019), its state filled by splitmix64 from one 64-bit
//! seed: four words of state, no tables, and a period no simulation will see the end of. It is written here
//! rather than taken from a library because a trace must stay the same to the byte for as long as its seed is
//! written in somebody's report, and libraries do not promise that between versions.
//!
//! It is not for secrets, and it never looks at the clock or the machine.

/// A stream of random numbers, fully determined by its seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rng {
    seed: u64,
    state: [u64; 4],
}

impl Rng {
    /// The stream that belongs to a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut walk = seed;
        let state = std::array::from_fn(|_| {
            walk = walk.wrapping_add(GOLDEN);
            mix(walk)
        });
        Self { seed, state }
    }

    /// A stream of its own for one purpose, by the seed and the label alone: how much was drawn before does not
    /// matter, so a new purpose leaves the numbers of all others as they were.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        let seed = label.bytes().fold(mix(self.seed ^ GOLDEN), |hash, byte| mix(hash ^ u64::from(byte)));
        Self::new(seed)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * 2f64.powi(-53)
    }

    /// Uniform in [low, high).
    pub fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Uniform among 0, 1, ..., n - 1, each exactly as likely; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // Lemire's multiplication: the high word is the answer. The low words that would favour small answers
        // are drawn again.
        let reject = n.wrapping_neg().checked_rem(n).unwrap_or(0);
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(n);
            if wide as u64 >= reject {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Exponential with this mean: the time between events that happen at random.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// exp(mu + sigma N): median exp(mu), mean exp(mu + sigma^2 / 2).
    pub fn log_normal(&mut self, mu: f64, sigma: f64) -> f64 {
        (mu + sigma * self.normal()).exp()
    }

    /// An index, in proportion to its weight; `None` if no weight is positive.
    pub fn weighted(&mut self, weights: &[f64]) -> Option<usize> {
        let positive = |w: &f64| if *w > 0.0 { *w } else { 0.0 };
        let total: f64 = weights.iter().map(positive).sum();
        let mut left = total * self.uniform();
        // The last positive one catches what rounding leaves over.
        let last = weights.iter().rposition(|w| *w > 0.0)?;
        for (i, weight) in weights[..last].iter().enumerate() {
            left -= positive(weight);
            if left < 0.0 {
                return Some(i);
            }
        }
        Some(last)
    }
}

/// 2^64 over the golden ratio: splitmix64's step.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// splitmix64's finisher: every input bit changes every output bit with probability one half.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(n: usize, mut draw: impl FnMut() -> f64) -> f64 {
        (0..n).map(|_| draw()).sum::<f64>() / n as f64
    }

    #[test]
    fn the_stream_is_xoshiro256_plus_plus() {
        // First outputs of the reference algorithm for the state 1, 2, 3, 4.
        let mut rng = Rng { seed: 0, state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn the_seed_decides_and_forks_do_not_depend_on_draws() {
        let draw = |mut rng: Rng| (0..5).map(|_| rng.next_u64()).collect::<Vec<_>>();
        assert_eq!(draw(Rng::new(7)), draw(Rng::new(7)));
        assert_ne!(draw(Rng::new(7)), draw(Rng::new(8)));
        let fresh = Rng::new(7);
        let mut used = fresh.clone();
        used.next_u64();
        assert_eq!(draw(fresh.fork("arrivals")), draw(used.fork("arrivals")));
        assert_ne!(draw(fresh.fork("arrivals")), draw(fresh.fork("lengths")));
        assert_ne!(draw(fresh.fork("")), draw(fresh));
    }

    #[test]
    fn means_are_as_promised() {
        let mut rng = Rng::new(1);
        let n = 200_000;
        let near =
            |found: f64, expected: f64| assert!((found - expected).abs() < 0.02 * expected, "{found} {expected}");
        near(mean(n, || rng.uniform()), 0.5);
        near(mean(n, || rng.uniform_in(10.0, 30.0)), 20.0);
        near(mean(n, || rng.below(7) as f64), 3.0);
        near(mean(n, || rng.exponential(42.0)), 42.0);
        near(mean(n, || rng.normal().powi(2)), 1.0);
        near(mean(n, || rng.log_normal(2.0, 0.5)), (2.0f64 + 0.125).exp());
        near(mean(n, || f64::from(u8::from(rng.chance(0.3)))), 0.3);
        near(mean(n, || rng.weighted(&[1.0, 0.0, 3.0]).unwrap() as f64), 1.5);
    }

    #[test]
    fn edges_do_not_panic() {
        let mut rng = Rng::new(3);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
        assert!(rng.below(u64::MAX) < u64::MAX);
        assert_eq!(rng.weighted(&[]), None);
        assert_eq!(rng.weighted(&[0.0, -1.0, f64::NAN]), None);
        assert_eq!(rng.weighted(&[0.0, 2.0, 0.0]), Some(1));
    }
}
