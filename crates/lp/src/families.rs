//! Families of max-min instances on which solvers are measured and tested, from a seed and nothing else.

use crate::maxmin::MaxMin;

/// How an instance's rates look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Later resources are faster for everybody: 1, then exponential increments.
    Rand,
    /// Log-normal rates without order.
    Iid,
    /// As `Rand`, with three rates in ten zero (every user keeps at least one).
    Zeros,
    /// One parameter per user: `c_j^θ`.
    Ord,
    /// Every user is a mix of three bottlenecks that faster resources relieve to different degrees.
    Mixed,
    /// As `Mixed`, with 26 mixes in all and rates to three decimals: many users are alike.
    Few,
}

impl Family {
    /// Every family, for benches that try them all.
    pub const ALL: [Self; 6] = [Self::Rand, Self::Iid, Self::Zeros, Self::Ord, Self::Mixed, Self::Few];
}

/// What an instance is made of; see [`Instance::new`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Recipe {
    /// How the rates look.
    pub family: Family,
    /// Rows of the instance.
    pub users: usize,
    /// Columns of the instance.
    pub resources: usize,
    /// Capacity per unit demanded: 1 is about 0.6, 0.1 about 0.06.
    pub load: f64,
    /// Users without a cap, as a fraction.
    pub uncapped: f64,
    /// Rates are multiplied, user by user, by up to ten to this power either way.
    pub spread: f64,
    /// Everything else.
    pub seed: u64,
}

/// An instance that owns its numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// Rates, users × resources, row by row.
    pub w: Vec<f64>,
    /// Targets.
    pub beta: Vec<f64>,
    /// Caps per user; infinite for none.
    pub caps: Vec<f64>,
    /// Capacity per resource.
    pub capacity: Vec<f64>,
}

impl Instance {
    /// Draws an instance. Targets `beta` are a weight 1 to 4 times the rate of an equal share, as in max-min
    /// fairness; caps are 1, 2, 4 or 8.
    #[must_use]
    pub fn new(recipe: &Recipe) -> Self {
        let (n, k) = (recipe.users, recipe.resources);
        let mut draw = Draw(recipe.seed);
        let base: Vec<f64> = (0..k).map(|j| 1.0 + j as f64 + draw.uniform()).collect();
        let mut w = Vec::with_capacity(n * k);
        for _ in 0..n {
            let size = 10f64.powf(recipe.spread * (2.0 * draw.uniform() - 1.0));
            let row = draw.rates(recipe.family, &base);
            w.extend(row.into_iter().map(|rate| rate * size));
        }
        let caps: Vec<f64> = (0..n)
            .map(|_| {
                let cap = f64::from(1u32 << draw.below(4));
                if draw.uniform() < recipe.uncapped { f64::INFINITY } else { cap }
            })
            .collect();
        let demand: f64 = caps.iter().map(|&d| if d.is_finite() { d } else { 4.0 }).sum();
        let mut capacity: Vec<f64> = (0..k).map(|_| 0.5 + draw.uniform()).collect();
        let unit = 0.6 * recipe.load * demand / capacity.iter().sum::<f64>();
        capacity.iter_mut().for_each(|m| *m *= unit);
        let total: f64 = capacity.iter().sum();
        let beta = (0..n)
            .map(|l| {
                let weight = 1.0 + draw.below(4) as f64;
                let equal: f64 = (0..k).map(|j| w[l * k + j] * capacity[j] / total).sum();
                weight * equal
            })
            .collect();
        Self { w, beta, caps, capacity }
    }

    /// The instance as a problem.
    #[must_use]
    pub fn problem(&self) -> MaxMin<'_> {
        MaxMin { w: &self.w, beta: &self.beta, caps: &self.caps, capacity: &self.capacity }
    }
}

/// SplitMix64: small, well mixed, and the same bytes everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In [0, 1).
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// One user's rates.
    fn rates(&mut self, family: Family, base: &[f64]) -> Vec<f64> {
        let k = base.len();
        match family {
            Family::Rand => self.rising(k),
            Family::Iid => (0..k).map(|_| self.normal().exp()).collect(),
            Family::Zeros => {
                let mut rates = self.rising(k);
                let kept = self.below(k as u64) as usize;
                for (j, rate) in rates.iter_mut().enumerate() {
                    if self.uniform() < 0.3 && j != kept {
                        *rate = 0.0;
                    }
                }
                rates
            }
            Family::Ord => {
                let theta = 2.0 * self.uniform();
                base.iter().map(|c| c.powf(theta)).collect()
            }
            Family::Mixed => self.mixed(k),
            Family::Few => {
                let mut rates = Self(self.below(26)).mixed(k);
                rates.iter_mut().for_each(|rate| *rate = (*rate * 1000.0).round() / 1000.0);
                rates
            }
        }
    }

    /// Rates over the first resource's, of work that spends its time in three places of which each resource relieves
    /// one more than another.
    fn mixed(&mut self, k: usize) -> Vec<f64> {
        let times = [self.exponential(), self.exponential(), 0.5 * self.exponential()];
        let last = k.max(2) as f64 - 1.0;
        let rate = |j: usize| {
            let far = j as f64 / last;
            let bend = if j.is_multiple_of(2) { 1.3 } else { 0.8 };
            1.0 / (times[0] / 20f64.powf(far) + times[1] / 13f64.powf(far * bend) + times[2] / 3f64.powf(far))
        };
        (0..k).map(|j| rate(j) / rate(0)).collect()
    }

    fn rising(&mut self, k: usize) -> Vec<f64> {
        let mut rate = 1.0;
        (0..k)
            .map(|j| {
                rate += if j == 0 { 0.0 } else { 0.5 * self.exponential() };
                rate
            })
            .collect()
    }
}
