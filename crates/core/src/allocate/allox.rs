//! AlloX (EuroSys '20): jobs to kinds by min-cost matching, for the least mean completion time.
//!
//! On one machine, a job that is p-th from the end delays itself and the p − 1 after it by its own time, so it adds p·τ to
//! the sum of completion times, whatever the others are. Kind j is m_j alike machines; τ_ij is how long job i still takes
//! there. Least Σ completion times is therefore a matching of jobs to places (kind j, position p), m_j jobs to a place:
//!
//!   minimise  Σ p · τ_ij · z_ijp     s.t.   Σ_jp z_ijp = 1,   Σ_i z_ijp ≤ m_j,   z ≥ 0        (integral at its corners)
//!
//! solved by shortest augmenting paths, job after job. A place that is not full has price 0, and position p + 1 of a kind
//! is no use before position p is full, so few places are looked at. The shortest of the jobs matched to a kind run now,
//! as many as fit; the others wait for that kind, even if another has a GPU free (what stays free the placer gives away).
//! Solved anew every round with the time that is left: a shorter job preempts a longer one, and under constant
//! overload the longest wait for ever; that is the price of the least mean.
//!
//! AlloX knows jobs of one GPU. A gang of g counts as one machine busy for g·τ, the same GPU time: exact for g = 1, a
//! relaxation otherwise. Time on a kind other than the one it holds counts [`MOVE`] times, since moving costs a restart.
//!
//! Certificate: for any prices π ≥ 0 of the places, Σ_i min_jp (p·τ_ij + π_jp) − Σ m_j π_jp is below every sum. The objective
//! is the negative sum, in seconds.

use super::program::{self, Served};
use super::{
    AllocateError, Allocation, Certificate, Grant, Members, Policy, PolicyEntry, Problem, Promise, Proposal, kind_id,
    user_index,
};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "allox",
    summary: "AlloX: jobs matched to kinds and queue positions for the lowest mean completion time; favours short jobs",
    every_round: true,
    promises: &[Promise::Optimal, Promise::Whole],
    make: || Box::new(AlloX),
    ..PolicyEntry::ORDERS_JOBS
};

pub(super) struct AlloX;

/// What a move must gain at least, as a factor of time.
const MOVE: f64 = 1.05;
/// Jobs that are matched at most, those that came first.
const MOST_JOBS: usize = 2000;

impl Policy for AlloX {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let served = Served::new(problem);
        let mut jobs = program::units(problem, &served);
        jobs.sort_by_key(|&i| (problem.users[served.users[i]].arrived, i));
        jobs.truncate(MOST_JOBS);
        let mut matching = Matching::new(problem, times(problem, &served, &jobs));
        (0..jobs.len()).for_each(|job| matching.add(job));
        let grants = matching.running(problem, &served, &jobs);
        if jobs.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let (lower, upper) = (-matching.cost(), -matching.bound());
        let certificate = Some(Certificate { lower, upper: upper.max(lower) });
        Allocation::check(
            problem,
            Proposal { grants, objective: Some(lower), certificate, prices: Vec::new(), ..Proposal::default() },
        )
    }
}

/// GPU seconds of each job on each kind; infinite where it does not fit.
fn times(problem: &Problem, served: &Served, jobs: &[usize]) -> Vec<f64> {
    let mut times = Vec::with_capacity(jobs.len() * problem.kinds());
    for &i in jobs {
        let user = &problem.users[served.users[i]];
        let left = served.steps_left(problem, i) / f64::from(user.jobs);
        let moved = |j: usize| user.held.is_some_and(|held| held.index() != j);
        let rates = problem.gpu_rates(served.users[i]).enumerate();
        times.extend(rates.map(|(j, r)| left / r * if moved(j) { MOVE } else { 1.0 }));
    }
    times
}

/// m_j machines of one kind, p from the end of their queues.
struct Place {
    kind: usize,
    position: f64,
    price: f64,
    jobs: Vec<usize>,
}

struct Matching {
    kinds: usize,
    /// τ, jobs × kinds.
    times: Vec<f64>,
    machines: Vec<usize>,
    /// Full places, and one that is not for every kind.
    places: Vec<Place>,
}

/// How a place is reached: the cost, and who moves there from where; nobody moves into the first.
#[derive(Clone, Copy)]
struct Way {
    cost: f64,
    mover: usize,
    from: Option<usize>,
    done: bool,
}

impl Matching {
    fn new(problem: &Problem, times: Vec<f64>) -> Self {
        let machines: Vec<usize> = problem.capacity.iter().map(|m| m.floor() as usize).collect();
        let first = |kind| Place { kind, position: 1.0, price: 0.0, jobs: Vec::new() };
        let places = (0..machines.len()).filter(|&j| machines[j] > 0).map(first).collect();
        Self { kinds: problem.kinds(), times, machines, places }
    }

    /// p·τ plus the price.
    fn charge(&self, job: usize, place: &Place) -> f64 {
        place.position * self.times[job * self.kinds + place.kind] + place.price
    }

    fn is_full(&self, place: &Place) -> bool {
        place.jobs.len() >= self.machines[place.kind]
    }

    /// Matches one more job, along the cheapest way to a place with room.
    fn add(&mut self, job: usize) {
        let way = |place| Way { cost: self.charge(job, place), mover: job, from: None, done: false };
        let mut ways: Vec<Way> = self.places.iter().map(way).collect();
        let end = loop {
            let open = (0..ways.len()).filter(|&at| !ways[at].done);
            let Some(at) = open.min_by(|&a, &b| ways[a].cost.total_cmp(&ways[b].cost)) else { return };
            if !self.is_full(&self.places[at]) || !ways[at].cost.is_finite() {
                break at;
            }
            ways[at].done = true;
            for &mover in &self.places[at].jobs {
                let base = ways[at].cost - self.charge(mover, &self.places[at]);
                for (way, place) in ways.iter_mut().zip(&self.places).filter(|(way, _)| !way.done) {
                    let cost = base + self.charge(mover, place);
                    if cost < way.cost {
                        *way = Way { cost, mover, from: Some(at), done: false };
                    }
                }
            }
        };
        let least = ways[end].cost;
        if !least.is_finite() {
            return;
        }
        for (place, way) in self.places.iter_mut().zip(&ways).filter(|(_, way)| way.done) {
            place.price += least - way.cost;
        }
        let mut at = end;
        loop {
            let Way { mover, from, .. } = ways[at];
            self.places[at].jobs.push(mover);
            let Some(from) = from else { break };
            self.places[from].jobs.retain(|&other| other != mover);
            at = from;
        }
        if self.is_full(&self.places[end]) {
            let Place { kind, position, .. } = self.places[end];
            self.places.push(Place { kind, position: position + 1.0, price: 0.0, jobs: Vec::new() });
        }
    }

    /// Σ p·τ.
    fn cost(&self) -> f64 {
        let cost = |place: &Place| place.jobs.iter().map(|&job| self.charge(job, place) - place.price).sum::<f64>();
        self.places.iter().map(cost).sum()
    }

    /// No matching of the same jobs costs less than this.
    fn bound(&self) -> f64 {
        let matched = self.places.iter().flat_map(|place| &place.jobs);
        let least = |&job: &usize| self.places.iter().map(|p| self.charge(job, p)).fold(f64::INFINITY, f64::min);
        let paid: f64 = self.places.iter().map(|p| p.price * self.machines[p.kind] as f64).sum();
        matched.map(least).sum::<f64>() - paid
    }

    /// Of each kind's jobs, the shortest that fit together.
    fn running(&self, problem: &Problem, served: &Served, jobs: &[usize]) -> Vec<Grant> {
        let mut grants = Vec::new();
        for (kind, &machines) in self.machines.iter().enumerate() {
            let here = self.places.iter().filter(|place| place.kind == kind);
            let mut queue: Vec<usize> = here.flat_map(|place| place.jobs.iter().copied()).collect();
            let time = |job: usize| self.times[job * self.kinds + kind];
            queue.sort_by(|&a, &b| time(a).total_cmp(&time(b)).then(a.cmp(&b)));
            let mut free = machines;
            for job in queue {
                let u = served.users[jobs[job]];
                let gang = problem.users[u].gang as usize;
                if gang <= free {
                    free -= gang;
                    grants.push(Grant { kind: kind_id(kind), members: Members::One(user_index(u)), gangs: 1.0 });
                }
            }
        }
        grants
    }
}
