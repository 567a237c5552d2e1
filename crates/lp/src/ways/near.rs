//! Floors without envy for more users than the simplex of `ways/envy.rs` can serve: near the least draw, with a bound that says how near.
//!
//! The program is that of `ways/envy.rs` without pairs and caps. Prices make it one of each user alone, from both sides:
//!
//! | | |
//! | --- | --- |
//! | `near/level.rs`, `near/master.rs` | a division, and its prices: the best in which nobody has more than its floor |
//! | `near/turns.rs` | duals, user by user, at these prices |
//! | `near/own.rs`, `near/small.rs` | one user's program: some tens of columns, a few rows, microseconds |
//! | `near/sample.rs` | the first prices: those of some of the users |
//! | `near/proof.rs` | a bound out of any duals, and a division that keeps every row out of any units. Neither asks where they come from |
//!
//! *Again.* Any duals prove something of any problem of this size, and any units become a division. Where answers to the same problem at κ on either side are known, the
//! mean of their units and the mean of their duals are mostly all that is needed; else they are where the search begins.

mod crowd;
mod incomes;
mod level;
mod master;
mod own;
mod proof;
mod sample;
mod small;
mod table;
mod turns;

use super::Ways;
use crate::{Budget, Certificate, InputError};
use incomes::Memory;
use level::{Level, Leveling};
use own::Own;
use proof::Envy;
use turns::{Found, Turns};

/// What is asked besides the problem, whose caps are not looked at.
#[derive(Clone, Copy, Debug)]
pub struct Nearly<'a> {
    /// f: everybody's floor; positive.
    pub floors: &'a [f64],
    /// κ: the part of another's units that counts; below 1.
    pub part: f64,
    /// Units, users × resources, of a division without envy in which everybody reaches its floor: whatever is found is mixed with it as far as rows need.
    pub units: &'a [f64],
    /// The relative gap that will do.
    pub gap: f64,
}

/// A use without envy, and a bound.
#[derive(Clone, PartialEq, Debug)]
pub struct Near {
    /// Use, users × ways, row by row; keeps every row to rounding.
    pub x: Vec<f64>,
    /// Bounds of the least draw; the upper one is what `x` draws.
    pub bound: Certificate,
    /// How often all users were asked.
    pub turns: u32,
}

/// Turns until a gap that has not closed is left as it is.
pub const TURNS: Budget = Budget::iterations(64);
/// The gap at which a division with nobody above its floor will do, as a part of what was asked for, alone and between other answers; and turns for it at most.
const LEVEL: f64 = 0.1;
const BETWEEN: f64 = 0.25;
const LEVELING: u32 = 30;
/// Duals are looked for until the gap is this part of what was asked for; or until so many turns have not taken so large a part off it, where it will do and where not.
const WELL: f64 = 0.6;
const ENOUGH: f64 = 0.04;
const WELL_ENOUGH: u32 = 2;
const PATIENT: u32 = 12;
/// Another κ than this is too far away for its duals to say anything.
const FAR: f64 = 0.04;
/// Answers on either side are asked if no more than this lies between them.
const APART: f64 = 0.2;
/// Answers at other κ that are kept.
const MOST_KNOWN: usize = 16;

/// What a search leaves for the next: where only floors, κ and the gap differ, that one starts from its answers.
#[derive(Clone, Debug, Default)]
pub struct NearWorkspace {
    memory: Memory,
    /// Answers, in order of κ.
    known: Vec<Known>,
}

/// An answer to the same problem at another κ.
#[derive(Clone, Debug)]
struct Known {
    part: f64,
    /// Users × resources.
    units: Vec<f64>,
    found: Found,
}

/// Looks for a division near the least draw; stops when its gap will do, or after as many turns as `budget` has iterations.
///
/// # Errors
/// When the problem makes no sense.
pub fn nearly_least_draw_without_envy(
    problem: &Ways<'_>,
    asked: &Nearly<'_>,
    budget: Budget,
) -> Result<Near, InputError> {
    NearWorkspace::default().solve(problem, asked, budget)
}

impl NearWorkspace {
    /// See [`nearly_least_draw_without_envy`].
    ///
    /// # Errors
    /// When the problem makes no sense.
    pub fn solve(&mut self, problem: &Ways<'_>, asked: &Nearly<'_>, budget: Budget) -> Result<Near, InputError> {
        problem.check(&[])?;
        let k = problem.capacity.len();
        let here: Vec<usize> = (0..k).filter(|&j| problem.capacity[j] > 0.0).collect();
        if here.len() + 1 >= k {
            return self.search(problem, asked, budget);
        }
        // Everything is looked at by everybody for everybody: what is not there is left out first. Ways of what is not there keep one resource that is not there.
        let place = |j: usize| here.binary_search(&j).unwrap_or(here.len());
        let resource: Vec<usize> = problem.resource.iter().map(|&j| place(j)).collect();
        let capacity: Vec<f64> = here.iter().map(|&j| problem.capacity[j]).chain([0.0]).collect();
        let units = |row: &[f64]| here.iter().map(|&j| row[j]).chain([0.0]).collect::<Vec<f64>>();
        let units: Vec<f64> = asked.units.chunks_exact(k).flat_map(units).collect();
        let inner = Ways { resource: &resource, capacity: &capacity, ..*problem };
        self.search(&inner, &Nearly { units: &units, ..*asked }, budget)
    }

    fn search(&mut self, problem: &Ways<'_>, asked: &Nearly<'_>, budget: Budget) -> Result<Near, InputError> {
        let best: Vec<f64> = (0..problem.users()).flat_map(|l| problem.best_rates(l)).collect();
        if !self.memory.knows(problem, &best) {
            self.known.clear();
        }
        let prices = self.memory.prices(problem, &best)?;
        let envy = Envy { problem, floors: asked.floors, part: asked.part, best: &best, prices: &prices };
        let mut search = Search::new(&envy, asked, budget.iterations);
        let found = match (self.between(asked.part), self.nearest(asked.part)) {
            (Some(between), _) => search.between(&between),
            (None, Some(known)) => search.begin(&known.found),
            (None, None) => search.begin(&Found::at(sample::prices(&envy, asked), Vec::new())),
        };
        self.keep(Known { part: asked.part, units: units_of(problem, &search.near.x), found });
        Ok(search.near)
    }

    /// The answer at the nearest κ, if it is near.
    fn nearest(&self, part: f64) -> Option<&Known> {
        let apart = |known: &Known| (known.part - part).abs();
        let near = self.known.iter().filter(|known| apart(known) <= FAR);
        near.min_by(|a, b| apart(a).total_cmp(&apart(b)))
    }

    /// The answers next to κ on either side.
    fn between(&self, part: f64) -> Option<Between<'_>> {
        let above = self.known.partition_point(|known| known.part < part);
        if let Some(same) = self.known.get(above).filter(|known| known.part == part) {
            return Some(Between { low: same, high: same, part: 0.0 });
        }
        let [low, high] = [self.known.get(above.checked_sub(1)?)?, self.known.get(above)?];
        let between = Between { low, high, part: (part - low.part) / (high.part - low.part) };
        (high.part - low.part <= APART).then_some(between)
    }

    fn keep(&mut self, known: Known) {
        let at = self.known.partition_point(|other| other.part < known.part);
        if self.known.get(at).is_some_and(|other| other.part == known.part) {
            self.known[at] = known;
        } else if self.known.len() < MOST_KNOWN {
            self.known.insert(at, known);
        }
    }
}

/// A place between two answers.
#[derive(Clone, Copy)]
struct Between<'a> {
    low: &'a Known,
    high: &'a Known,
    /// How far from the first to the second.
    part: f64,
}

impl Between<'_> {
    /// The mean of both.
    fn units(&self) -> Vec<f64> {
        let all = self.low.units.iter().zip(&self.high.units);
        all.map(|(low, high)| low + self.part * (high - low)).collect()
    }

    fn found(&self) -> Found {
        Found::mean(&self.low.found, &self.high.found, self.part)
    }
}

/// Units by user and resource of a use.
fn units_of(problem: &Ways<'_>, x: &[f64]) -> Vec<f64> {
    let (ways, k) = (problem.ways(), problem.capacity.len());
    let mut units = vec![0.0; problem.users() * k];
    x.iter().enumerate().for_each(|(at, x)| units[at / ways * k + problem.resource[at % ways]] += x);
    units
}

/// A problem, and the best that is known of it so far: its bound only ever narrows.
struct Search<'a> {
    envy: &'a Envy<'a>,
    asked: &'a Nearly<'a>,
    own: Own<'a>,
    near: Near,
    /// Turns at most.
    most: u32,
}

impl<'a> Search<'a> {
    fn new(envy: &'a Envy<'a>, asked: &'a Nearly<'a>, most: u32) -> Self {
        let near = Near { x: Vec::new(), bound: Certificate { lower: 0.0, upper: f64::INFINITY }, turns: 0 };
        Self { envy, asked, own: Own::new(envy.problem, asked.floors, asked.part, envy.best), near, most }
    }

    /// From the answers on either side.
    fn between(&mut self, between: &Between<'_>) -> Found {
        let found = between.found();
        self.offer(&between.units());
        let turns = Turns::new(&self.own, self.asked, found.clone());
        self.prove(&turns);
        if self.near.bound.gap() <= self.asked.gap {
            return found;
        }
        let level = self.level(&found, BETWEEN);
        self.turns(Found::at(level.prices, level.limited_by))
    }

    /// From prices, and perhaps duals.
    fn begin(&mut self, from: &Found) -> Found {
        self.offer(self.asked.units);
        let level = self.level(from, LEVEL);
        self.turns(Found::at(level.prices, level.limited_by))
    }

    /// A division in which nobody has more than its floor.
    fn level(&mut self, from: &Found, gap: f64) -> Level {
        let most = LEVELING.min(self.most - self.near.turns);
        let limited_by = from.limited_by.clone();
        let leveling = Leveling::new(&mut self.own, self.asked.floors, &self.near.x, &from.prices, limited_by);
        let level = leveling.solve(gap * self.asked.gap, most);
        self.near.turns += level.turns;
        self.offer(&level.units);
        level
    }

    /// Turns until the gap will do, they are spent or nothing is gained.
    fn turns(&mut self, from: Found) -> Found {
        let mut turns = Turns::new(&self.own, self.asked, from);
        let (mut before, mut in_vain) = (f64::INFINITY, 0);
        while self.near.turns < self.most {
            turns.turn(&mut self.own);
            self.near.turns += 1;
            self.prove(&turns);
            let gap = self.near.bound.gap();
            if gap <= (1.0 - ENOUGH) * before {
                (before, in_vain) = (gap, 0);
            } else {
                in_vain += 1;
            }
            if gap <= WELL * self.asked.gap || in_vain >= if gap <= self.asked.gap { WELL_ENOUGH } else { PATIENT } {
                break;
            }
        }
        turns.found
    }

    /// Takes the bound that the duals found so far prove, if it is higher.
    fn prove(&mut self, turns: &Turns<'_>) {
        let Near { bound, .. } = &mut self.near;
        bound.lower = bound.lower.max(self.envy.prove(turns.duals(&self.own)).min(bound.upper));
    }

    /// Takes what these units become when every row is kept, if that draws less.
    fn offer(&mut self, units: &[f64]) {
        self.take(self.envy.settle(units, self.asked.units));
    }

    /// Takes a use that keeps every row, if it draws less.
    fn take(&mut self, x: Vec<f64>) {
        let (draw, Near { bound, .. }) = (self.envy.draw(&x), &mut self.near);
        if draw < bound.upper {
            *bound = Certificate { lower: bound.lower.min(draw), upper: draw };
            self.near.x = x;
        }
    }
}
