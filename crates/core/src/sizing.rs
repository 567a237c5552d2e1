//! How many GPUs elastic jobs should hold: whole numbers, chosen for all of them at once.
//!
//! A job i does r_i(n) steps per second on n GPUs, with n between its fewest and its most. GPUs are divided as the policy in force owes them: every *pool* (a
//! tenant, or a single job, whichever the policy is fair to) has a part of them by its weight, as far as it can use it,
//!
//! ```text
//! part_p = min(demand_p, λ π_p),      Σ part_p = GPUs
//! ```
//!
//! and within its part the sizes that serve its jobs most, by the sum of the logarithms of their rates (so that twice the speed is worth the same to a fast and to a
//! slow job, and nobody is starved for another):
//!
//! ```text
//! maximise  Σ_i w_i ln r_i(n_i)      s.t.  Σ_i n_i ≤ part_p
//! ```
//!
//! Everybody begins with its fewest GPUs; then, step by step, whoever gains most for a GPU gets more. Where ln r is concave (a GPU more is worth less, the more there
//! are) and steps are of one GPU, that is the optimum, whatever the weights. Otherwise a step may be of several GPUs at once, whichever gains most for each.
//! What parts leave over, being whole numbers, is given out by the same rule without regard to parts, if nobody waits for GPUs. A pool that has more jobs than GPUs keeps all of them at
//! their fewest GPUs, where a GPU does most, and they take turns.
//!
//! A gang is of one kind. So every job is given a seat on a kind while sizes are chosen, its own if it holds GPUs, else the fastest with room; nobody grows beyond
//! what its kind has left, unless another kind has room for all of it. The seats are forgotten afterwards: which kinds are whose is the policy's to say.

use std::collections::BinaryHeap;

/// A job, and the sizes that it may have.
#[derive(Clone, PartialEq, Debug)]
pub struct Sizable {
    /// Who is owed what it holds.
    pub pool: usize,
    /// Whose hard limit it counts against.
    pub tenant: usize,
    /// Its importance in its pool; positive.
    pub weight: f64,
    /// Sizes, smallest first; at least one.
    pub sizes: Vec<u32>,
    /// Rates, sizes × kinds; 0 where a gang of that size does not fit.
    pub rates: Vec<f64>,
    /// The kind that it is on now.
    pub home: Option<usize>,
}

/// What there is, and who is owed what of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Supply {
    /// GPUs of every kind.
    pub gpus: Vec<u32>,
    /// Weight of every pool.
    pub weights: Vec<f64>,
    /// The most that every tenant may hold.
    pub limits: Vec<u32>,
}

/// λ-filling: what every pool is owed of `amount`, by weight, as far as it can use it.
fn parts(amount: f64, weights: &[f64], demands: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..weights.len()).filter(|&p| weights[p] > 0.0 && demands[p] > 0.0).collect();
    order.sort_by(|&a, &b| (demands[a] * weights[b]).total_cmp(&(demands[b] * weights[a])).then(a.cmp(&b)));
    let (mut left, mut weight) = (amount, order.iter().map(|&p| weights[p]).sum::<f64>());
    let mut owed = vec![0.0; weights.len()];
    for p in order {
        owed[p] = demands[p].min(left * weights[p] / weight);
        left = (left - owed[p]).max(0.0);
        weight -= weights[p];
    }
    owed
}

/// A larger size for a job: what it gains for a GPU, which size, on which kind.
#[derive(Clone, Copy)]
struct Step {
    gain: f64,
    size: usize,
    kind: usize,
}

/// A job in the order of what it gains; of equals, the first.
#[derive(Clone, Copy)]
struct Turn(f64, usize);

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == std::cmp::Ordering::Equal
    }
}

impl Eq for Turn {}

/// Sizes while they are chosen.
struct Division<'a> {
    jobs: &'a [Sizable],
    kinds: usize,
    /// GPUs left, by kind, by pool and by tenant.
    free: Vec<u32>,
    owed: Vec<f64>,
    limits: Vec<u32>,
    /// Each job's kind and size, by its place in the list of sizes; none without a seat.
    seats: Vec<Option<(usize, usize)>>,
}

/// The size of every job, by its place in its list: see the module's head. A job for which there is no room has its smallest.
#[must_use]
pub fn choose(supply: &Supply, jobs: &[Sizable]) -> Vec<usize> {
    let mut demands = vec![0.0; supply.weights.len()];
    for job in jobs {
        demands[job.pool] += job.sizes.last().copied().map_or(0.0, f64::from);
    }
    let all: u32 = supply.gpus.iter().sum();
    let owed = parts(f64::from(all), &supply.weights, &demands);
    let (free, limits, seats) = (supply.gpus.clone(), supply.limits.clone(), vec![None; jobs.len()]);
    let mut division = Division { jobs, kinds: supply.gpus.len(), free, owed, limits, seats };
    // First what everybody is owed, then what is left over.
    for within in [true, false] {
        division.seat(within);
        division.grow(within);
    }
    division.seats.iter().map(|seat| seat.map_or(0, |(size, _)| size)).collect()
}

impl Division<'_> {
    fn rate(&self, job: usize, size: usize, kind: usize) -> f64 {
        self.jobs[job].rates[size * self.kinds + kind]
    }

    /// Whether a job's pool and tenant may have so many GPUs more.
    fn allowed(&self, job: usize, more: u32, within: bool) -> bool {
        let Sizable { pool, tenant, .. } = self.jobs[job];
        // Sums of parts that are whole in exact arithmetic may be off by a little.
        more <= self.limits[tenant] && (!within || f64::from(more) <= self.owed[pool] + 1e-6)
    }

    /// Gives jobs without a seat one for their fewest GPUs: those first that hold some already.
    fn seat(&mut self, within: bool) {
        let (here, elsewhere): (Vec<usize>, Vec<usize>) =
            (0..self.jobs.len()).filter(|&i| self.seats[i].is_none()).partition(|&i| self.jobs[i].home.is_some());
        for i in here.into_iter().chain(elsewhere) {
            let gpus = self.jobs[i].sizes[0];
            if !self.allowed(i, gpus, within) {
                continue;
            }
            let room = |kind: &usize| self.free[*kind] >= gpus && self.rate(i, 0, *kind) > 0.0;
            let fastest = |a: &usize, b: &usize| self.rate(i, 0, *a).total_cmp(&self.rate(i, 0, *b)).then(b.cmp(a));
            let kind = self.jobs[i].home.filter(room).or_else(|| (0..self.kinds).filter(room).max_by(fastest));
            if let Some(kind) = kind {
                self.take(i, Step { gain: 0.0, size: 0, kind });
            }
        }
    }

    /// Sets a job's size and seat.
    fn take(&mut self, job: usize, step: Step) {
        let Sizable { pool, tenant, ref sizes, .. } = self.jobs[job];
        let gpus = sizes[step.size];
        let before = self.seats[job].map_or(0, |(size, kind)| {
            self.free[kind] += sizes[size];
            sizes[size]
        });
        self.free[step.kind] -= gpus;
        self.owed[pool] -= f64::from(gpus - before);
        self.limits[tenant] -= gpus - before;
        self.seats[job] = Some((step.size, step.kind));
    }

    /// The larger size that gains a job most for each GPU, if there is one that it may have.
    fn step(&self, job: usize, within: bool) -> Option<Step> {
        let (at, home) = self.seats[job]?;
        let Sizable { weight, sizes, .. } = &self.jobs[job];
        let now = self.rate(job, at, home);
        let mut best: Option<Step> = None;
        for size in at + 1..sizes.len() {
            let more = sizes[size] - sizes[at];
            if !self.allowed(job, more, within) {
                break;
            }
            let room =
                |kind: usize| if kind == home { self.free[kind] >= more } else { self.free[kind] >= sizes[size] };
            // It stays on its kind while that has room.
            let others = (0..self.kinds).filter(|&kind| kind != home && room(kind));
            let faster =
                |a: &usize, b: &usize| self.rate(job, size, *a).total_cmp(&self.rate(job, size, *b)).then(b.cmp(a));
            let kind = Some(home)
                .filter(|&kind| room(kind) && self.rate(job, size, kind) > 0.0)
                .or_else(|| others.max_by(faster));
            let Some(kind) = kind.filter(|&kind| self.rate(job, size, kind) > now) else { continue };
            let gain = weight * (self.rate(job, size, kind) / now).ln() / f64::from(more);
            if best.is_none_or(|best| gain > best.gain) {
                best = Some(Step { gain, size, kind });
            }
        }
        best
    }

    /// Gives GPUs to whoever gains most for each, until nobody does. Where a job has no seat, nobody of its pool grows: they take turns, and GPUs do more for the
    /// one that waits.
    fn grow(&mut self, within: bool) {
        let mut waits = vec![false; self.owed.len()];
        for (job, _) in self.jobs.iter().zip(&self.seats).filter(|(_, seat)| seat.is_none()) {
            waits[job.pool] = true;
        }
        if !within && waits.contains(&true) {
            return;
        }
        let may_grow = (0..self.jobs.len()).filter(|&i| !waits[self.jobs[i].pool]);
        let turns = may_grow.filter_map(|i| self.step(i, within).map(|step| Turn(step.gain, i)));
        let mut turns: BinaryHeap<Turn> = turns.collect();
        while let Some(Turn(gain, i)) = turns.pop() {
            let Some(step) = self.step(i, within) else { continue };
            if step.gain < gain {
                // Somebody took what it was to have: it waits for its turn again.
                turns.push(Turn(step.gain, i));
                continue;
            }
            self.take(i, step);
            turns.extend(self.step(i, within).map(|next| Turn(next.gain, i)));
        }
    }
}

/// The size with which a step takes least energy among those that keep the promised rate, or come nearest to it: for policies that save power and
/// leave GPUs free. `rates` and `joules` (for a step of the whole gang) are by size, on the kind where that size is best; 0 where it does not fit.
#[must_use]
pub fn most_frugal(rates: &[f64], joules: &[f64], floor: f64) -> usize {
    let kept = |at: usize| (rates[at] / floor.max(f64::MIN_POSITIVE)).min(1.0);
    let better =
        |a: &usize, b: &usize| kept(*b).total_cmp(&kept(*a)).then(joules[*a].total_cmp(&joules[*b])).then(a.cmp(b));
    (0..rates.len()).filter(|&at| rates[at] > 0.0).min_by(better).unwrap_or(0)
}
