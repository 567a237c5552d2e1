//! Judges an answer from the question alone, with code that shares nothing with the solver.

use super::{Answer, Cover, Slot};
use std::collections::BTreeMap;
use std::fmt;

/// What is wrong with an answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Flaw {
    /// A list has the wrong length, or names something that is not there.
    Shape(&'static str),
    /// More units than there are.
    Units {
        /// Of which resource.
        resource: usize,
        /// How many are used.
        used: u64,
    },
    /// Patterns hold other slots than are paid for.
    Slots(Slot),
    /// A class whose patterns do not add up to its demands.
    Demands(usize),
    /// A pattern with more slots than one demand may hold.
    Long(usize),
    /// A pattern that has more of a couple of its own class than the others can be partners in.
    Itself(usize),
    /// The cost, or what is short, is not what is written.
    Sum {
        /// What was found.
        found: f64,
        /// What was written.
        written: f64,
    },
    /// The bound is above the cost.
    Bound,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(what) => write!(f, "{what} do not fit the question; check an answer with its own question"),
            Self::Units { resource, used } => {
                write!(f, "{used} units of resource {resource} are used, more than exist")
            }
            Self::Slots(slot) => write!(f, "{slot:?} is held by more or fewer demands than it is paid for"),
            Self::Demands(class) => write!(f, "the patterns of class {class} are not all its demands"),
            Self::Long(class) => write!(f, "a demand of class {class} holds more slots than it may"),
            Self::Itself(class) => write!(f, "a demand of class {class} would be its own partner"),
            Self::Sum { found, written } => write!(f, "{written} is written where {found} was found"),
            Self::Bound => write!(f, "the bound is above the cost"),
        }
    }
}

impl std::error::Error for Flaw {}

/// How far sums may be apart, relative to their terms.
const ROUNDING: f64 = 1e-9;

/// Recomputes cost and feasibility of an answer.
pub fn check(cover: &Cover, answer: &Answer) -> Result<(), Flaw> {
    let (n, k) = (cover.classes.len(), cover.capacity.len());
    if answer.alone.len() != n * k || answer.couples.len() != cover.couples.len() || answer.short.len() != n {
        return Err(Flaw::Shape("slots, couples or classes"));
    }
    let (mut cost, mut terms) = units(cover, answer)?;
    let held = held(cover, answer)?;
    let paid_alone = answer.alone.iter().enumerate().map(|(at, &x)| ((at / k, Slot::Alone(at % k)), x));
    let paid_first = answer.couples.iter().enumerate().map(|(at, &x)| ((cover.couples[at].a, Slot::First(at)), x));
    let paid_second = answer.couples.iter().enumerate().map(|(at, &x)| ((cover.couples[at].b, Slot::Second(at)), x));
    let paid: BTreeMap<(usize, Slot), u64> =
        paid_alone.chain(paid_first).chain(paid_second).filter(|x| x.1 > 0).map(|(s, x)| (s, u64::from(x))).collect();
    if paid != held {
        let differs = |(key, x): (&(usize, Slot), &u64)| (held.get(key) != Some(x)).then_some(key.1);
        let slot = paid.iter().find_map(differs).or(held.keys().find(|key| !paid.contains_key(key)).map(|key| key.1));
        return Err(Flaw::Slots(slot.unwrap_or(Slot::Alone(0))));
    }
    let shortages = shortages(cover, answer)?;
    cost += shortages;
    terms += shortages;
    for stay in &cover.stays {
        let here = |(&(class, slot), &x): (&(usize, Slot), &u64)| {
            let resource = match slot {
                Slot::Alone(j) => j,
                Slot::First(at) | Slot::Second(at) => cover.couples[at].resource,
            };
            if (class, resource) == (stay.class, stay.resource) { x } else { 0 }
        };
        let slots: u64 = held.iter().map(here).sum();
        let saved = stay.saving * slots.min(u64::from(stay.held)) as f64;
        cost -= saved;
        terms += saved;
    }
    same(cost, answer.cost, terms)?;
    if answer.bound > answer.cost + ROUNDING * terms { Err(Flaw::Bound) } else { Ok(()) }
}

fn same(found: f64, written: f64, terms: f64) -> Result<(), Flaw> {
    let near = (found - written).abs() <= ROUNDING * terms.abs().max(f64::MIN_POSITIVE);
    if near { Ok(()) } else { Err(Flaw::Sum { found, written }) }
}

/// What the columns cost, twice, if there are units for them.
fn units(cover: &Cover, answer: &Answer) -> Result<(f64, f64), Flaw> {
    let k = cover.capacity.len();
    let mut used = vec![0u64; k];
    let mut cost = 0.0;
    for (at, &x) in answer.alone.iter().enumerate().filter(|(_, x)| **x > 0) {
        let slot = cover.alone[at].ok_or(Flaw::Shape("slots alone"))?;
        used[at % k] += u64::from(x) * u64::from(cover.classes[at / k].size);
        cost += f64::from(x) * slot.cost;
    }
    for (couple, &x) in cover.couples.iter().zip(&answer.couples) {
        used[couple.resource] += u64::from(x);
        cost += f64::from(x) * couple.cost;
    }
    match (0..k).find(|&j| used[j] > u64::from(cover.capacity[j])) {
        Some(resource) => Err(Flaw::Units { resource, used: used[resource] }),
        None => Ok((cost, cost)),
    }
}

/// Which slots the demands hold.
fn held(cover: &Cover, answer: &Answer) -> Result<BTreeMap<(usize, Slot), u64>, Flaw> {
    let mut held = BTreeMap::new();
    let mut demands = vec![0u64; cover.classes.len()];
    for pattern in &answer.patterns {
        let class = cover.classes.get(pattern.class).ok_or(Flaw::Shape("classes"))?;
        demands[pattern.class] += u64::from(pattern.demands);
        if pattern.slots.len() > class.most as usize {
            return Err(Flaw::Long(pattern.class));
        }
        let mut own: BTreeMap<usize, u32> = BTreeMap::new();
        for &slot in &pattern.slots {
            *held.entry((pattern.class, slot)).or_insert(0) += u64::from(pattern.demands);
            if let Slot::First(at) | Slot::Second(at) = slot {
                let couple = cover.couples.get(at).ok_or(Flaw::Shape("couples"))?;
                if couple.a == couple.b {
                    *own.entry(at).or_insert(0) += 1;
                }
            }
        }
        // The other sides of its units are held by others: together at most as many as there are units.
        if pattern.demands > 0 && own.iter().any(|(&at, &times)| times > answer.couples[at]) {
            return Err(Flaw::Itself(pattern.class));
        }
    }
    held.retain(|_, x| *x > 0);
    match (0..demands.len()).find(|&l| demands[l] != u64::from(cover.classes[l].count)) {
        Some(class) => Err(Flaw::Demands(class)),
        None => Ok(held),
    }
}

/// What is short and unserved costs.
fn shortages(cover: &Cover, answer: &Answer) -> Result<f64, Flaw> {
    let (n, k) = (cover.classes.len(), cover.capacity.len());
    let (mut short, mut unserved) = (vec![0.0; n], vec![0u32; n]);
    for pattern in &answer.patterns {
        let mut covered = 0.0;
        for &slot in &pattern.slots {
            covered += match slot {
                Slot::Alone(j) => cover.alone.get(pattern.class * k + j).copied().flatten().map_or(0.0, |a| a.part),
                Slot::First(at) => cover.couples[at].part_a,
                Slot::Second(at) => cover.couples[at].part_b,
            };
        }
        short[pattern.class] += f64::from(pattern.demands) * f64::max(0.0, 1.0 - covered);
        unserved[pattern.class] += if pattern.slots.is_empty() { pattern.demands } else { 0 };
    }
    let mut cost = 0.0;
    for (l, class) in cover.classes.iter().enumerate() {
        same(short[l], answer.short[l], f64::from(class.count))?;
        if answer.unserved.get(l) != Some(&unserved[l]) {
            return Err(Flaw::Shape("unserved demands"));
        }
        cost += short[l] * class.short_price + f64::from(unserved[l]) * class.unserved_price;
    }
    Ok(cost)
}
