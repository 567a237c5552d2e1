//! The trade-off of speed against power: what `fair-energy` answers for every ε, or `fair-power` for every budget, and where more of it stops paying.

use crate::KindId;
use crate::allocate::{AllocateError, Allocation, Entitlement, Members, Power, Problem, ProblemError, find_policy};
use crate::audit::{Audit, Claims};
use std::fmt;

/// One ε, or one budget.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The part of its fair speed that everybody may be asked to give up.
    pub epsilon: f64,
    /// What all GPUs together may draw, where that is what is changed.
    pub budget_watts: Option<f64>,
    /// What all GPUs draw, idle ones too where they stay on.
    pub watts: f64,
    /// No division that keeps the promises draws less, where that is known.
    pub least_watts: Option<f64>,
    /// Everybody's speed-up, all its GPUs together, in the order of the problem's users.
    pub speeds: Vec<f64>,
    /// The strongest envy of one user of another, 1 for none; in one's own best modes.
    pub envy: f64,
}

/// All of them, from no sacrifice on.
#[derive(Clone, PartialEq, Debug)]
pub struct Frontier {
    /// In order of ε; the first is 0.
    pub points: Vec<Point>,
}

/// Why there is no frontier.
#[derive(Clone, PartialEq, Debug)]
pub enum FrontierError {
    /// A problem without power, or with an ε that makes no sense.
    Problem(String),
    /// The policy had no answer.
    NoAnswer(AllocateError),
}

impl fmt::Display for FrontierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem(why) => f.write_str(why),
            Self::NoAnswer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FrontierError {}

impl From<ProblemError> for FrontierError {
    fn from(error: ProblemError) -> Self {
        Self::Problem(error.to_string())
    }
}

impl From<AllocateError> for FrontierError {
    fn from(error: AllocateError) -> Self {
        Self::NoAnswer(error)
    }
}

impl Frontier {
    /// The answers to a problem for ε = 0 and these, which rise. One policy answers all, so that each starts from the last.
    ///
    /// # Errors
    /// When nobody says what is drawn, an ε makes no sense, or the policy has no answer.
    pub fn of(problem: &Problem, epsilons: &[f64]) -> Result<Self, FrontierError> {
        let Some(power) = &problem.power else {
            return Err(FrontierError::Problem(
                "it is not known what anything draws; give the problem its power".into(),
            ));
        };
        let entry = find_policy("fair-energy").expect("in the table");
        let policy = (entry.make)();
        let idle: f64 = power.idle_watts.iter().zip(&problem.capacity).map(|(idle, m)| idle * m).sum();
        let idle = if power.unused_off { 0.0 } else { idle };
        // What everybody is owed and can use is the same at every point.
        let claims = Claims::of(problem, Entitlement::Tenants);
        let point = |epsilon: f64| -> Result<Point, FrontierError> {
            let asked = problem.clone().with_power(Power { epsilon, budget_watts: None, ..power.clone() })?;
            let answer = policy.allocate(&asked)?;
            let audit = Audit::of_claims(claims.clone(), &asked, &answer);
            let drawn = -answer.objective().unwrap_or(0.0);
            let least = -answer.certificate().map_or(0.0, |certificate| certificate.upper);
            Ok(Point {
                epsilon,
                budget_watts: None,
                watts: idle + drawn,
                least_watts: Some(idle + least),
                speeds: audit.utilities().to_vec(),
                envy: audit.worst_envy().map_or(1.0, |envy| envy.ratio.max(1.0)),
            })
        };
        let all: Vec<f64> =
            std::iter::once(0.0).chain(epsilons.iter().copied().filter(|epsilon| *epsilon > 0.0)).collect();
        let mut points = vec![None; all.len()];
        for at in ends_first(all.len()) {
            points[at] = Some(point(all[at])?);
        }
        Ok(Self { points: points.into_iter().flatten().collect() })
    }

    /// The answers of equal incomes over GPUs and watts without a budget, and with each of these parts of what that draws. One policy answers all.
    ///
    /// # Errors
    /// As [`Frontier::of`].
    pub fn of_budgets(problem: &Problem, parts: &[f64]) -> Result<Self, FrontierError> {
        let Some(power) = &problem.power else {
            return Err(FrontierError::Problem(
                "it is not known what anything draws; give the problem its power".into(),
            ));
        };
        let policy = (find_policy("fair-power").expect("in the table").make)();
        let claims = Claims::of(problem, Entitlement::Tenants);
        let point = |budget_watts: Option<f64>| -> Result<Point, FrontierError> {
            let asked = problem.clone().with_power(Power { epsilon: 0.0, budget_watts, ..power.clone() })?;
            let answer = policy.allocate(&asked)?;
            let audit = Audit::of_claims(claims.clone(), &asked, &answer);
            Ok(Point {
                epsilon: 0.0,
                budget_watts,
                watts: drawn(&asked, power, &answer),
                least_watts: None,
                speeds: audit.utilities().to_vec(),
                envy: audit.worst_envy().map_or(1.0, |envy| envy.ratio.max(1.0)),
            })
        };
        let full = point(None)?;
        let budgets = parts.iter().map(|part| Some(part * full.watts)).collect::<Vec<_>>();
        let rest = budgets.into_iter().map(point).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { points: std::iter::once(full).chain(rest).collect() })
    }

    /// The part of the power at ε = 0 that a point saves.
    #[must_use]
    pub fn saved(&self, point: &Point) -> f64 {
        1.0 - point.watts / self.points[0].watts.max(f64::MIN_POSITIVE)
    }

    /// The part of all speed at ε = 0 that a point keeps.
    #[must_use]
    pub fn kept(&self, point: &Point) -> f64 {
        point.speeds.iter().sum::<f64>() / self.points[0].speeds.iter().sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// Who keeps least of what it had at ε = 0, and that part.
    #[must_use]
    pub fn worst_off(&self, point: &Point) -> Option<(usize, f64)> {
        let before = self.points[0].speeds.iter();
        let kept = point.speeds.iter().zip(before).enumerate().filter(|(_, (_, before))| **before > 0.0);
        kept.map(|(l, (now, before))| (l, now / before)).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The point farthest above the line from the first to the last, in part saved over part given up: more costs more than it saves from there on.
    /// None where the line is as good everywhere.
    #[must_use]
    pub fn knee(&self) -> Option<usize> {
        let last = self.points.last()?;
        let (saved, given) = (self.saved(last), 1.0 - self.kept(last));
        if saved <= 0.0 || given <= 0.0 {
            return None;
        }
        let above = |point: &Point| self.saved(point) / saved - (1.0 - self.kept(point)) / given;
        let best = self.points.iter().enumerate().map(|(i, point)| (i, above(point)));
        best.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).filter(|(_, above)| *above > 0.02).map(|(i, _)| i)
    }

    /// The first point that saves this part of the power.
    #[must_use]
    pub fn first_saving(&self, part: f64) -> Option<&Point> {
        self.points.iter().find(|point| self.saved(point) >= part)
    }
}

/// The places of a list: the first two and the last, and then what is in the middle of those that are known. An answer between two others is had for less.
fn ends_first(len: usize) -> Vec<usize> {
    let mut order: Vec<usize> = [0, 1, len.saturating_sub(1)].into_iter().filter(|at| *at < len).collect();
    order.dedup();
    let mut spans = std::collections::VecDeque::from([(1, len.saturating_sub(1))]);
    while let Some((from, to)) = spans.pop_front() {
        let middle = usize::midpoint(from, to);
        if middle > from && middle < to {
            order.push(middle);
            spans.extend([(from, middle), (middle, to)]);
        }
    }
    order
}

/// What all GPUs draw under an answer, idle ones too where they stay on.
fn drawn(problem: &Problem, power: &Power, answer: &Allocation) -> f64 {
    let mut idle: Vec<f64> = problem.capacity.clone();
    let mut watts = 0.0;
    for grant in answer.grants() {
        let kind: KindId = grant.kind;
        let gpus = match grant.members {
            Members::One(l) => {
                let gpus = grant.gangs * f64::from(problem.users[l as usize].gang);
                watts += gpus * power.users[l as usize].watts[kind.index()];
                gpus
            }
            Members::Two(a, b) => {
                let [a, b] = [a, b].map(|l| problem.users[l as usize].workload);
                let of = |pair: &crate::allocate::PairRates| {
                    pair.kind == kind && [(a, b), (b, a)].contains(&(pair.a, pair.b))
                };
                let pair = problem.pairs.iter().position(of).and_then(|at| power.pairs.get(at));
                watts += grant.gangs * pair.map_or(0.0, |pair| pair.watts);
                grant.gangs
            }
        };
        idle[problem.sold_as(kind.index())] -= gpus;
    }
    let unused: f64 = idle.iter().zip(&power.idle_watts).map(|(gpus, watts)| gpus.max(0.0) * watts).sum();
    watts + if power.unused_off { 0.0 } else { unused }
}

#[cfg(test)]
mod tests {
    use super::ends_first;

    #[test]
    fn every_place_is_met_once() {
        for len in 1..40 {
            let mut order = ends_first(len);
            assert_eq!(order[0], 0);
            order.sort_unstable();
            assert_eq!(order, (0..len).collect::<Vec<_>>());
        }
        assert_eq!(ends_first(8), [0, 1, 7, 4, 2, 5, 3, 6]);
    }
}
