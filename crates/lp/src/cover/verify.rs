//! Verifies a solution from the problem alone, with code that shares nothing with the solver.

use super::{Cover, Slot, Solution};
use std::collections::BTreeMap;

/// What is wrong with a solution.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Violation {
    /// A list has the wrong length, or refers to something that does not exist.
    #[error("{0} do not fit the problem; check a solution with its own problem")]
    Shape(&'static str),
    /// More units than there are.
    #[error("{used} units of resource {resource} are used, more than exist")]
    Units {
        /// The resource that is oversold.
        resource: usize,
        /// How many are used.
        used: u64,
    },
    /// Patterns hold other slots than are paid for.
    #[error("{0:?} is held by more or fewer demands than it is paid for")]
    Slots(Slot),
    /// A class whose patterns do not add up to its demands.
    #[error("the patterns of class {0} are not all its demands")]
    Demands(usize),
    /// A pattern with more slots than one demand may hold.
    #[error("a demand of class {0} holds more slots than it may")]
    Long(usize),
    /// A pattern that has more of a pair of its own class than the others can be partners in.
    #[error("a demand of class {0} would be its own partner")]
    Itself(usize),
    /// The cost, or what is short, is not what is written.
    #[error("{written} is written where {found} was found")]
    Sum {
        /// What was found.
        found: f64,
        /// What was written.
        written: f64,
    },
    /// The bound is above the cost.
    #[error("the bound is above the cost")]
    Bound,
}

/// How far sums may be apart, relative to their terms.
const ROUNDING: f64 = 1e-9;

/// Recomputes cost and feasibility of a solution.
pub fn check(cover: &Cover, solution: &Solution) -> Result<(), Violation> {
    let (n, k) = (cover.classes.len(), cover.capacity.len());
    if solution.alone.len() != n * k || solution.pairs.len() != cover.pairs.len() || solution.short.len() != n {
        return Err(Violation::Shape("slots, pairs or classes"));
    }
    let (mut cost, mut terms) = units(cover, solution)?;
    let held = held(cover, solution)?;
    let paid_alone = solution.alone.iter().enumerate().map(|(at, &x)| ((at / k, Slot::Alone(at % k)), x));
    let paid_first = solution.pairs.iter().enumerate().map(|(at, &x)| ((cover.pairs[at].a, Slot::First(at)), x));
    let paid_second = solution.pairs.iter().enumerate().map(|(at, &x)| ((cover.pairs[at].b, Slot::Second(at)), x));
    let paid: BTreeMap<(usize, Slot), u64> =
        paid_alone.chain(paid_first).chain(paid_second).filter(|x| x.1 > 0).map(|(s, x)| (s, u64::from(x))).collect();
    if paid != held {
        let differs = |(key, x): (&(usize, Slot), &u64)| (held.get(key) != Some(x)).then_some(key.1);
        let slot = paid.iter().find_map(differs).or(held.keys().find(|key| !paid.contains_key(key)).map(|key| key.1));
        return Err(Violation::Slots(slot.unwrap_or(Slot::Alone(0))));
    }
    let shortages = shortages(cover, solution)?;
    cost += shortages;
    terms += shortages;
    for stay in &cover.stays {
        let here = |(&(class, slot), &x): (&(usize, Slot), &u64)| {
            let resource = match slot {
                Slot::Alone(j) => j,
                Slot::First(at) | Slot::Second(at) => cover.pairs[at].resource,
            };
            if (class, resource) == (stay.class, stay.resource) { x } else { 0 }
        };
        let slots: u64 = held.iter().map(here).sum();
        let saved = stay.saving * slots.min(u64::from(stay.held)) as f64;
        cost -= saved;
        terms += saved;
    }
    same(cost, solution.cost, terms)?;
    if solution.bound > solution.cost + ROUNDING * terms { Err(Violation::Bound) } else { Ok(()) }
}

fn same(found: f64, written: f64, terms: f64) -> Result<(), Violation> {
    let near = (found - written).abs() <= ROUNDING * terms.abs().max(f64::MIN_POSITIVE);
    if near { Ok(()) } else { Err(Violation::Sum { found, written }) }
}

/// What the columns cost, twice, if there are units for them.
fn units(cover: &Cover, solution: &Solution) -> Result<(f64, f64), Violation> {
    let k = cover.capacity.len();
    let mut used = vec![0u64; k];
    let mut cost = 0.0;
    for (at, &x) in solution.alone.iter().enumerate().filter(|(_, x)| **x > 0) {
        let slot = cover.alone[at].ok_or(Violation::Shape("slots alone"))?;
        used[at % k] += u64::from(x) * u64::from(cover.classes[at / k].size);
        cost += f64::from(x) * slot.cost;
    }
    for (pair, &x) in cover.pairs.iter().zip(&solution.pairs) {
        used[pair.resource] += u64::from(x);
        cost += f64::from(x) * pair.cost;
    }
    match (0..k).find(|&j| used[j] > u64::from(cover.capacity[j])) {
        Some(resource) => Err(Violation::Units { resource, used: used[resource] }),
        None => Ok((cost, cost)),
    }
}

/// Which slots the demands hold.
fn held(cover: &Cover, solution: &Solution) -> Result<BTreeMap<(usize, Slot), u64>, Violation> {
    let mut held = BTreeMap::new();
    let mut demands = vec![0u64; cover.classes.len()];
    for pattern in &solution.patterns {
        *demands.get_mut(pattern.class).ok_or(Violation::Shape("classes"))? += u64::from(pattern.demands);
        if pattern.slots.len() > 1 {
            return Err(Violation::Long(pattern.class));
        }
        let mut own: BTreeMap<usize, u32> = BTreeMap::new();
        for &slot in &pattern.slots {
            *held.entry((pattern.class, slot)).or_insert(0) += u64::from(pattern.demands);
            if let Slot::First(at) | Slot::Second(at) = slot {
                let pair = cover.pairs.get(at).ok_or(Violation::Shape("pairs"))?;
                if pair.a == pair.b {
                    *own.entry(at).or_insert(0) += 1;
                }
            }
        }
        // The other sides of its units are held by others: together at most as many as there are units.
        if pattern.demands > 0 && own.iter().any(|(&at, &times)| times > solution.pairs[at]) {
            return Err(Violation::Itself(pattern.class));
        }
    }
    held.retain(|_, x| *x > 0);
    match (0..demands.len()).find(|&l| demands[l] != u64::from(cover.classes[l].count)) {
        Some(class) => Err(Violation::Demands(class)),
        None => Ok(held),
    }
}

/// What is short and unserved costs.
fn shortages(cover: &Cover, solution: &Solution) -> Result<f64, Violation> {
    let (n, k) = (cover.classes.len(), cover.capacity.len());
    let (mut short, mut unserved) = (vec![0.0; n], vec![0u32; n]);
    for pattern in &solution.patterns {
        let mut covered = 0.0;
        for &slot in &pattern.slots {
            covered += match slot {
                Slot::Alone(j) => cover.alone.get(pattern.class * k + j).copied().flatten().map_or(0.0, |a| a.part),
                Slot::First(at) => cover.pairs[at].part_a,
                Slot::Second(at) => cover.pairs[at].part_b,
            };
        }
        short[pattern.class] += f64::from(pattern.demands) * f64::max(0.0, 1.0 - covered);
        unserved[pattern.class] += if pattern.slots.is_empty() { pattern.demands } else { 0 };
    }
    let mut cost = 0.0;
    for (l, class) in cover.classes.iter().enumerate() {
        same(short[l], solution.short[l], f64::from(class.count))?;
        if solution.unserved.get(l) != Some(&unserved[l]) {
            return Err(Violation::Shape("unserved demands"));
        }
        cost += short[l] * class.short_price + f64::from(unserved[l]) * class.unserved_price;
    }
    Ok(cost)
}
