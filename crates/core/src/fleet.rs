//! Many clusters, one organisation: what each tenant is worth in each region.
//!
//! One scheduler runs one cluster (a *region*). Above them there is only a broker, which from time to time hears how fast each tenant's jobs
//! run in each region, and answers with one number for each tenant and region: the tenant's weight there. Regions divide their GPUs by these weights
//! as they always do; if the broker is away they go on with the last ones.
//!
//! In the notation of `ceei`: tenant l has income π_l, region r has m_rj GPUs of kind j, and u_lr = Σ_j w_lrj x_lrj is what l gets in r. One market
//! for everything would maximise
//!
//!   N(x) = Σ_l π_l log Σ_r u_lr(x).
//!
//! With weights B_lr ≥ 0, Σ_r B_lr = π_l, Gibbs' inequality says  π log Σ_r u_r = max_B Σ_r B_r log(π u_r / B_r),  so that N is the best over
//! both x and B of
//!
//!   F(x, B) = Σ_lr B_lr log(u_lr / B_lr) + const,
//!
//! which is concave in both together. For fixed B its x belongs to the regions, each by itself: the market of r with incomes B_·r, which is `ceei`
//! there. For fixed x the best B is in proportion to what was had,
//!
//!   B_lr ← π_l u_lr / Σ_s u_ls,                                                   (rebalance)
//!
//! so every update raises N or leaves it. With G(B) = max_x Σ B log u, which is convex, and h(B) = Σ B log B, what is maximised is f = G − h, and the
//! update is a step of mirror ascent by h. As f + h is convex, f is smooth relative to h with constant 1, hence after t updates
//!
//!   N* − N_t ≤ Σ_lr B*_lr log(B*_lr / B⁰_lr) / t.
//!
//! Where everybody may run everywhere, rates of one kind are the same in all regions, and regions have the same mix of kinds, the first weights are the last.
//!
//! A tenant keeps a little weight ([`FOOTHOLD`]) wherever its jobs could run: without, no price that falls later would ever be noticed.

use arles_lp::{Budget, nash};
use std::fmt;

/// The part of its income that a tenant spends at least in every region it can use, together.
pub const FOOTHOLD: f64 = 1e-4;

/// Regions, and tenants that want them.
#[derive(Clone, PartialEq, Debug)]
pub struct Fleet {
    kinds: usize,
    /// Regions × kinds.
    capacity: Vec<f64>,
    /// Tenants × regions × kinds.
    rates: Vec<f64>,
    income: Vec<f64>,
}

/// A fleet that makes no sense, as a sentence.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetError(String);

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FleetError {}

/// What regions do with their weights.
#[derive(Clone, PartialEq, Debug)]
pub struct Division {
    /// Tenants × regions: the weights it was made by.
    pub weights: Vec<f64>,
    /// Tenants × regions: what each tenant gets there.
    pub speeds: Vec<f64>,
    /// Regions × kinds: what a GPU costs, in the currency of incomes.
    pub prices: Vec<f64>,
}

impl Division {
    /// What each tenant gets in all regions together.
    #[must_use]
    pub fn totals(&self, regions: usize) -> Vec<f64> {
        self.speeds.chunks_exact(regions).map(|by_region| by_region.iter().sum()).collect()
    }
}

impl Fleet {
    /// GPUs by region and kind, rates by tenant, region and kind (0 where it may not run), and the tenants' weights.
    ///
    /// # Errors
    /// Numbers that are none, shapes that do not fit, a tenant that cannot run anywhere.
    pub fn new(kinds: usize, capacity: Vec<f64>, rates: Vec<f64>, income: Vec<f64>) -> Result<Self, FleetError> {
        let wrong = |why: String| Err(FleetError(why));
        if kinds == 0 || capacity.is_empty() || !capacity.len().is_multiple_of(kinds) {
            return wrong(format!(
                "{} counts of GPUs cannot be divided into regions with {kinds} kinds each",
                capacity.len()
            ));
        }
        if rates.len() != income.len() * capacity.len() {
            let expected = income.len() * capacity.len();
            return wrong(format!("{} rates were given; expected {expected}: tenants × regions × kinds", rates.len()));
        }
        if let Some(odd) = capacity.iter().chain(&rates).find(|number| !(number.is_finite() && **number >= 0.0)) {
            return wrong(format!("{odd} is neither a count of GPUs nor a rate; expected 0 or more"));
        }
        if let Some(odd) = income.iter().find(|weight| !(weight.is_finite() && **weight > 0.0)) {
            return wrong(format!("{odd} is not a tenant's weight; expected more than 0"));
        }
        let fleet = Self { kinds, capacity, rates, income };
        match (0..fleet.tenants()).find(|&l| (0..fleet.regions()).all(|r| fleet.equal_speed(l, r) <= 0.0)) {
            Some(l) => wrong(format!(
                "tenant {l} cannot run anywhere: no region has GPUs on which its rate is above 0; add a region or a kind"
            )),
            None => Ok(fleet),
        }
    }

    /// How many regions there are.
    #[must_use]
    pub fn regions(&self) -> usize {
        self.capacity.len() / self.kinds
    }

    /// How many tenants there are.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.income.len()
    }

    /// The weights to begin with: by what an equal part of each region would be worth to a tenant.
    #[must_use]
    pub fn first_weights(&self) -> Vec<f64> {
        let regions = self.regions();
        let worth: Vec<f64> =
            (0..self.tenants()).flat_map(|l| (0..regions).map(move |r| self.equal_speed(l, r))).collect();
        self.rebalance(&worth)
    }

    /// The next weights, for what tenants got in the regions (tenants × regions).
    #[must_use]
    pub fn rebalance(&self, speeds: &[f64]) -> Vec<f64> {
        let regions = self.regions();
        let mut weights = Vec::with_capacity(speeds.len());
        for (l, got) in speeds.chunks_exact(regions).enumerate() {
            let usable = |r: usize| self.equal_speed(l, r) > 0.0;
            let open = (0..regions).filter(|&r| usable(r)).count() as f64;
            let all: f64 = got.iter().sum();
            weights.extend((0..regions).map(|r| match usable(r) {
                false => 0.0,
                true if all > 0.0 => self.income[l] * ((1.0 - FOOTHOLD) * got[r] / all + FOOTHOLD / open),
                // It got nothing anywhere, perhaps as it had nothing to run: it begins anew.
                true => self.income[l] / open,
            }));
        }
        weights
    }

    /// What the regions, each by itself, make of these weights (tenants × regions).
    ///
    /// # Errors
    /// When there are more kinds than the solver takes.
    pub fn divide(&self, weights: &[f64]) -> Result<Division, FleetError> {
        let (regions, kinds) = (self.regions(), self.kinds);
        let mut division = Division {
            weights: weights.to_vec(),
            speeds: vec![0.0; weights.len()],
            prices: vec![0.0; self.capacity.len()],
        };
        let mut workspace = nash::Workspace::new();
        for r in 0..regions {
            let here: Vec<usize> = (0..self.tenants()).filter(|&l| weights[l * regions + r] > 0.0).collect();
            if here.is_empty() {
                continue;
            }
            let rates: Vec<f64> = here.iter().flat_map(|&l| self.rates(l, r)).copied().collect();
            let income: Vec<f64> = here.iter().map(|&l| weights[l * regions + r]).collect();
            let found = market(&mut workspace, &rates, &income, &self.capacity[r * kinds..(r + 1) * kinds])?;
            for ((&l, x), w) in here.iter().zip(found.x.chunks_exact(kinds)).zip(rates.chunks_exact(kinds)) {
                division.speeds[l * regions + r] = x.iter().zip(w).map(|(x, w)| x * w).sum();
            }
            division.prices[r * kinds..(r + 1) * kinds].copy_from_slice(&found.prices);
        }
        Ok(division)
    }

    /// One market for everything: what each tenant would get, and what a GPU would cost by region and kind.
    ///
    /// # Errors
    /// When there are more kinds and regions than the solver takes at once.
    pub fn together(&self) -> Result<(Vec<f64>, Vec<f64>), FleetError> {
        let columns = self.capacity.len();
        let mut workspace = nash::Workspace::new();
        let found = market(&mut workspace, &self.rates, &self.income, &self.capacity)?;
        let rows = found.x.chunks_exact(columns).zip(self.rates.chunks_exact(columns));
        let speeds = rows.map(|(x, w)| x.iter().zip(w).map(|(x, w)| x * w).sum()).collect();
        Ok((speeds, found.prices.clone()))
    }

    /// Σ π log(speed) / Σ π, as a geometric mean: what the updates raise.
    #[must_use]
    pub fn welfare(&self, totals: &[f64]) -> f64 {
        let all: f64 = self.income.iter().sum();
        (self.income.iter().zip(totals).map(|(income, speed)| income * speed.ln()).sum::<f64>() / all).exp()
    }

    /// What each tenant would have of everything, divided by weights.
    #[must_use]
    pub fn equal_division(&self) -> Vec<f64> {
        let all: f64 = self.income.iter().sum();
        let worth = |l: usize| (0..self.regions()).map(|r| self.equal_speed(l, r)).sum::<f64>();
        (0..self.tenants()).map(|l| self.income[l] / all * worth(l)).collect()
    }

    fn rates(&self, tenant: usize, region: usize) -> &[f64] {
        let at = (tenant * self.regions() + region) * self.kinds;
        &self.rates[at..at + self.kinds]
    }

    /// What all GPUs of a region would be worth to a tenant.
    fn equal_speed(&self, tenant: usize, region: usize) -> f64 {
        let there = &self.capacity[region * self.kinds..(region + 1) * self.kinds];
        self.rates(tenant, region).iter().zip(there).map(|(rate, gpus)| rate * gpus).sum()
    }
}

fn market<'w>(
    workspace: &'w mut nash::Workspace,
    rates: &[f64],
    income: &[f64],
    capacity: &[f64],
) -> Result<&'w nash::Solution, FleetError> {
    let caps = vec![f64::INFINITY; income.len()];
    let asked = nash::Nash { w: rates, weight: income, caps: &caps, capacity };
    workspace.solve(&asked, Budget::default()).map_err(|error| FleetError(error.to_string()))
}
