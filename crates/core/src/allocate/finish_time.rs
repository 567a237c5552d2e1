//! Finish-time fairness (the measure of Themis, NSDI '20; the program of Gavel, OSDI '20).
//!
//! Nobody shall be much later than it would be with a part of the cluster of its own. For a job m that came t_m seconds
//! ago, has left_m steps to go and thr_m = Σ_j r_mj X_mj:
//!
//!   ρ_m = (t_m + left_m / thr_m) / iso_m,     iso_m = (done_m + left_m) / (rate with its part of every kind)
//!
//! Its part is its weight over everybody's, of every kind that it fits on, and full time at most. The policy
//!
//!   minimises  ρ = max_m ρ_m    s.t.   Σ_j X_mj ≤ 1,   Σ_m g_m X_mj ≤ m_j,   X ≥ 0.
//!
//! A given ρ can be had iff everybody can have need_m(ρ) = left_m / (ρ·iso_m − t_m), that is, iff the max-min level of
//! these needs is at least 1. *Every* level solved bounds ρ from both sides. The x found attains max_m ρ_m(x). And for any
//! y, p ≥ 0 and q_m = max_j (w_mj y_m − p_j)⁺ weak duality says that no allocation has
//!
//!   Σ_m y_m β_m  >  Σ_j p_j m_j + Σ_m q_m d_m         (β = need over the best rate per GPU)
//!
//! so a ρ whose needs break this is out of reach. The left side falls with ρ and is convex, so Newton's steps from
//! below never overshoot: they end at the next ρ to try. A handful of levels closes the bracket.
//! The objective is 1/ρ, to be made large. What the worst-off do not need makes everybody else end as early as can be, level by level
//! (water-filling over the same needs): giving it away kind by kind would leave jobs on kinds that others are faster on.

use super::program::Served;
use super::{AllocateError, Allocation, Certificate, Entitlement, Policy, PolicyEntry, Problem, Promise, Proposal};
use arles_lp::maxmin::{self, FillWorkspace};
use std::sync::{Mutex, PoisonError};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "finish-time-fairness",
    summary: "Themis' metric, Gavel's program: minimises the largest ratio of finish time to finish time on a dedicated share of the cluster",
    every_round: true,
    objective_degree: Some(0),
    promises: &[Promise::Optimal],
    make: || Box::<FinishTime>::default(),
    ..PolicyEntry::ORDERS_JOBS
};

#[derive(Default)]
pub(super) struct FinishTime {
    /// Memory of water-filling, with the prices of the last answer.
    filling: Mutex<FillWorkspace>,
}

/// Relative width of the bracket that is good enough.
const GAP: f64 = 1e-7;
/// Levels that are solved at most.
const MOST_LEVELS: u32 = 40;
/// Newton's steps from one level to the next ρ, at most.
const MOST_STEPS: u32 = 60;

/// One user's way to its end.
struct Course {
    /// t, seconds.
    waited: f64,
    /// Steps.
    left: f64,
    /// Seconds.
    iso: f64,
}

impl Course {
    fn rho(&self, rate: f64) -> f64 {
        (self.waited + self.left / rate) / self.iso
    }

    /// Rate with which it ends at ρ.
    fn need(&self, rho: f64) -> f64 {
        self.left / (rho * self.iso - self.waited)
    }
}

impl Policy for FinishTime {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let served = Served::new(problem);
        if served.users.is_empty() {
            return Allocation::check(problem, Proposal::default());
        }
        let courses = courses(problem, &served);
        // Nobody can do better than with all its gangs on its best kind.
        let alone = courses.iter().enumerate().map(|(i, c)| c.rho(served.full_rate(i)));
        let mut lower = alone.fold(0.0, f64::max);
        let (mut upper, mut best) = (f64::INFINITY, Vec::new());
        let mut workspace = maxmin::Workspace::new();
        for _ in 0..MOST_LEVELS {
            let needs: Vec<f64> = courses.iter().map(|c| c.need(lower)).collect();
            let mut level = served.level(problem, &needs, &mut workspace)?;
            let attained = worst(problem, &served, &courses, &level.x);
            if attained < upper {
                (upper, best) = (attained, std::mem::take(&mut level.x));
            }
            let next = raise(problem, &served, &courses, &level, lower);
            if next <= lower || upper <= next * (1.0 + GAP) {
                lower = next.max(lower);
                break;
            }
            lower = next;
        }
        if best.is_empty() {
            return Err(AllocateError::NoAnswer { status: "no finish-time ratio could be attained".into() });
        }
        let needs: Vec<f64> = courses.iter().map(|c| c.need(upper)).collect();
        let mut filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(higher) = served.fill(problem, &needs, &mut filling)
            && worst(problem, &served, &courses, &higher) <= upper * (1.0 + GAP)
        {
            best = higher;
            upper = worst(problem, &served, &courses, &best);
        }
        served.top_up(problem, &mut best);
        let certificate = Certificate { lower: upper.recip(), upper: lower.min(upper).recip() };
        let grants = served.grants(problem, &best);
        let objective = Some(upper.recip());
        Allocation::check(
            problem,
            Proposal { grants, objective, certificate: Some(certificate), prices: Vec::new(), ..Proposal::default() },
        )
    }
}

fn courses(problem: &Problem, served: &Served) -> Vec<Course> {
    let k = problem.kinds();
    let weights = Entitlement::Jobs.weights(problem);
    let all: f64 = served.users.iter().map(|&u| weights[u]).sum();
    let course = |(i, &u): (usize, &usize)| {
        let user = &problem.users[u];
        let part: Vec<f64> = (problem.capacity.iter().zip(&served.w[i * k..(i + 1) * k]))
            .map(|(m, w)| if *w > 0.0 { m * weights[u] / all } else { 0.0 })
            .collect();
        let held: f64 = part.iter().sum();
        let rate = served.rate(i, &part) * (served.caps[i] / held).min(1.0);
        let left = served.steps_left(problem, i);
        Course { waited: problem.now.since(user.arrived), left, iso: (user.steps_done + left) / rate }
    };
    served.users.iter().enumerate().map(course).collect()
}

/// max_m ρ_m(x).
fn worst(problem: &Problem, served: &Served, courses: &[Course], x: &[f64]) -> f64 {
    let rows = x.chunks_exact(problem.kinds()).enumerate();
    rows.zip(courses).map(|((i, row), course)| course.rho(served.rate(i, row))).fold(0.0, f64::max)
}

/// The largest ρ that the level's duals prove to be a lower bound, from `rho`, which is one.
fn raise(problem: &Problem, served: &Served, courses: &[Course], level: &maxmin::Solution, mut rho: f64) -> f64 {
    let k = problem.kinds();
    let y: Vec<f64> = level.duals.iter().map(|y| y.max(0.0)).collect();
    let p: Vec<f64> = level.prices.iter().map(|p| p.max(0.0)).collect();
    let q = |i: usize| (0..k).map(|j| served.w[i * k + j] * y[i] - p[j]).fold(0.0, f64::max);
    let most = p.iter().zip(&problem.capacity).map(|(p, m)| p * m).sum::<f64>()
        + (0..y.len()).map(|i| q(i) * served.caps[i]).sum::<f64>();
    for _ in 0..MOST_STEPS {
        let (mut sum, mut slope) = (0.0, 0.0);
        for (i, course) in courses.iter().enumerate() {
            let term = y[i] * course.need(rho) / served.per_gpu[i];
            sum += term;
            slope += term * course.iso / (rho * course.iso - course.waited);
        }
        let step = (sum - most) / slope;
        if !(step > rho * f64::EPSILON && step.is_finite()) {
            break;
        }
        rho += step;
    }
    rho
}
