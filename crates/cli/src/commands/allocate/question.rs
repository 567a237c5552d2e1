//! The question of `arles allocate`, read with a sentence for everything that can be wrong in it.
//!
//! JSON and CSV are two spellings of the same fields: [`json`] and [`csv`] find them, and what they may be is decided here,
//! once.

mod csv;
mod json;

use arles_core::Library;
use std::collections::BTreeMap;

/// GPUs to divide, and among whom.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) kinds: Vec<Kind>,
    pub(super) users: Vec<User>,
    /// What is known of two users' jobs on one GPU.
    pub(super) pairs: Vec<Pair>,
}

/// Jobs of two users (or two of one) on one GPU, by index.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) users: [usize; 2],
    pub(super) kind: usize,
    /// Steps a second of each.
    pub(super) rates: [f64; 2],
}

#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) hourly_cost: f64,
}

#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    /// Whose weight it has a part of; its own name unless given.
    pub(super) tenant: String,
    /// The tenant's weight.
    pub(super) weight: f64,
    /// How many users the tenant has: each has an equal part of the weight.
    pub(super) siblings: u32,
    /// Steps a second on one GPU, by kind.
    pub(super) rates: Vec<f64>,
    pub(super) gpus_max: Option<f64>,
    pub(super) gang: u32,
    pub(super) jobs: Option<u32>,
    /// Steps a second that it was promised, all jobs together.
    pub(super) floor: Option<f64>,
    pub(super) steps_left: Option<f64>,
}

/// How a question is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spelling {
    Json,
    Csv,
}

/// The fields of a user that are numbers.
const NUMBERS: [&str; 6] = ["weight", "gpus_max", "gang", "jobs", "floor", "steps_left"];

/// A user as it was written.
struct Given {
    name: String,
    tenant: Option<String>,
    /// In the order of [`NUMBERS`].
    numbers: [Option<f64>; 6],
    rates: Vec<f64>,
}

/// Most GPUs of all kinds; beyond this, parts of them would no longer be counted exactly.
const MOST_GPUS: u32 = 1_000_000;
/// A GPU can be divided into this many parts.
const MOST_PARTS: f64 = 1000.0;
/// Steps left unless given: the same for everybody.
pub(super) const STEPS_LEFT: f64 = 1000.0;

/// Rates and weights beyond this cannot be told from 0, or from each other, in the digits that there are.
const RANGE: std::ops::RangeInclusive<f64> = 1e-9..=1e12;

type Read<T> = Result<T, String>;

impl Question {
    /// Reads and checks a question; `counts` are GPUs given apart from it.
    pub(super) fn read(text: &str, spelling: Spelling, counts: Option<&str>) -> Read<Self> {
        if text.trim().is_empty() {
            return Err(format!("there is nothing in it; {}", csv::EXPECTED));
        }
        let counts = counts.map(read_counts).transpose()?;
        let (kinds, given, pairs) = match spelling {
            Spelling::Json => json::read(text, counts.as_deref())?,
            Spelling::Csv => csv::read(text, counts.as_deref()).map(|(kinds, given)| (kinds, given, Vec::new()))?,
        };
        one_each("kind", kinds.iter().map(|kind| kind.name.as_str()), |name| known_as(name).to_owned())?;
        one_each("user", given.iter().map(|user| user.name.as_str()), str::to_owned)?;
        let weights = tenant_weights(&given)?;
        let mut users = given.into_iter().map(User::new).collect::<Read<Vec<_>>>()?;
        for user in &mut users {
            let (weight, siblings) = weights[&user.tenant];
            (user.weight, user.siblings) = (weight, siblings);
        }
        let question = Self { kinds, users, pairs };
        question.check()?;
        Ok(question)
    }

    fn check(&self) -> Read<()> {
        match self.kinds.iter().map(|kind| u64::from(kind.count)).sum::<u64>() {
            0 => return Err("there are no GPUs; give at least one kind a count of 1 or more".into()),
            n if n > u64::from(MOST_GPUS) => return Err(format!("there are {n} GPUs; expected at most {MOST_GPUS}")),
            _ => {}
        }
        for User { name, rates, gang, gpus_max, .. } in &self.users {
            let fits = self.kinds.iter().zip(rates).filter(|(kind, rate)| kind.count > 0 && **rate > 0.0);
            match fits.map(|(kind, _)| kind.count).max() {
                None => {
                    return Err(format!(
                        "user '{name}' has a rate of 0 on every kind of which there is a GPU; give one above 0, or leave the user out"
                    ));
                }
                Some(most) if most < *gang => {
                    return Err(format!(
                        "user '{name}' runs gangs of {gang} GPUs and there are at most {most} of a kind that it fits on; give a smaller gang"
                    ));
                }
                Some(_) => {}
            }
            if let Some(most) = gpus_max.filter(|most| *gang > 1 && *most < f64::from(*gang)) {
                return Err(format!(
                    "gpus_max of user '{name}' is {most}, less than one gang of {gang}; give at least {gang}"
                ));
            }
        }
        self.check_pairs()
    }

    fn check_pairs(&self) -> Read<()> {
        for (i, Pair { users, kind, rates }) in self.pairs.iter().enumerate() {
            let same = |other: &Pair| {
                let sorted = |[a, b]: [usize; 2]| [a.min(b), a.max(b)];
                other.kind == *kind && sorted(other.users) == sorted(*users)
            };
            if self.pairs[..i].iter().any(same) {
                return Err(format!("pairs[{i}] is given twice; give every two users once on each kind"));
            }
            for (&user, rate) in users.iter().zip(rates) {
                let (user, kind) = (&self.users[user], (&self.kinds[*kind].name, *kind));
                if user.gang > 1 {
                    return Err(format!(
                        "pairs[{i}]: user '{}' runs gangs of {} GPUs; only jobs of one GPU can share it",
                        user.name, user.gang
                    ));
                }
                let alone = user.rates[kind.1];
                if *rate > alone {
                    return Err(format!(
                        "pairs[{i}]: user '{}' has rate {rate} on a shared {}; expected at most its rate alone, {alone}",
                        user.name, kind.0
                    ));
                }
            }
        }
        Ok(())
    }

    /// The fewest equal parts of a GPU (1, 10, 100 or 1000) in which every `gpus_max` is whole.
    pub(super) fn parts(&self) -> f64 {
        let most = || self.users.iter().filter(|user| user.is_divisible()).filter_map(|user| user.gpus_max);
        let whole = |parts: f64| most().all(|most| is_whole(most * parts));
        [1.0, 10.0, 100.0].into_iter().find(|&parts| whole(parts)).unwrap_or(MOST_PARTS)
    }
}

impl Kind {
    fn new(name: String, count: f64, hourly_cost: Option<f64>) -> Read<Self> {
        if count < 0.0 || !is_whole(count) || count > f64::from(MOST_GPUS) {
            return Err(format!(
                "the count of kind '{name}' is {count}; expected a whole number from 0 to {MOST_GPUS}"
            ));
        }
        let hourly_cost = hourly_cost.unwrap_or(1.0);
        if !RANGE.contains(&hourly_cost) {
            return Err(format!("hourly_cost of kind '{name}' is {hourly_cost}; expected a number above 0"));
        }
        Ok(Self { name, count: count.round() as u32, hourly_cost })
    }
}

impl User {
    fn new(given: Given) -> Read<Self> {
        let Given { name, tenant, numbers: [_, gpus_max, gang, jobs, floor, steps_left], rates } = given;
        let what = |field: &str| format!("{field} of user '{name}'");
        match gpus_max {
            Some(most) if most <= 0.0 => {
                return Err(format!("{} is {most}; expected a number above 0", what("gpus_max")));
            }
            Some(most) if !is_whole(most * MOST_PARTS) => {
                return Err(format!("{} is {most}; expected at most 3 decimals", what("gpus_max")));
            }
            _ => {}
        }
        let whole = |field: &str, value: Option<f64>| match value {
            Some(n) if n < 1.0 || !is_whole(n) || n > f64::from(MOST_GPUS) => {
                Err(format!("{} is {n}; expected a whole number from 1 to {MOST_GPUS}", what(field)))
            }
            value => Ok(value.map(|n| n.round() as u32)),
        };
        let amount = |field: &str, value: Option<f64>| match value {
            Some(n) if n != 0.0 && !RANGE.contains(&n) => Err(format!("{} is {n}; expected 0 or more", what(field))),
            value => Ok(value),
        };
        Ok(Self {
            tenant: tenant.unwrap_or_else(|| name.clone()),
            weight: 1.0,
            siblings: 1,
            gpus_max,
            gang: whole("gang", gang)?.unwrap_or(1),
            jobs: whole("jobs", jobs)?,
            floor: amount("floor", floor)?,
            steps_left: amount("steps_left", steps_left)?,
            rates,
            name,
        })
    }

    /// Whether it can hold parts of a GPU at once: it has neither gangs nor a number of jobs.
    pub(super) fn is_divisible(&self) -> bool {
        self.gang == 1 && self.jobs.is_none()
    }

    /// Its part of its tenant's weight.
    pub(super) fn claim(&self) -> f64 {
        self.weight / f64::from(self.siblings)
    }
}

/// A rate that can be reckoned with.
fn rate(rate: f64, written: impl std::fmt::Display, user: &str, kind: &str) -> Read<f64> {
    if rate == 0.0 || RANGE.contains(&rate) {
        return Ok(rate);
    }
    let (least, most) = (RANGE.start(), RANGE.end());
    Err(format!("rates of user '{user}' on '{kind}' is {written}; expected 0, or a number from {least:e} to {most:e}"))
}

/// Weight and number of users of every tenant.
fn tenant_weights(users: &[Given]) -> Read<BTreeMap<String, (f64, u32)>> {
    type Said<'u> = Option<(f64, &'u str)>;
    let mut tenants: BTreeMap<String, (Said<'_>, u32)> = BTreeMap::new();
    for user in users {
        let tenant = user.tenant.as_ref().unwrap_or(&user.name);
        let (known, siblings) = tenants.entry(tenant.clone()).or_default();
        *siblings += 1;
        let Some(weight) = user.numbers[0] else { continue };
        let name = user.name.as_str();
        if !RANGE.contains(&weight) {
            let (least, most) = (RANGE.start(), RANGE.end());
            return Err(format!(
                "weight of user '{name}' is {weight}; expected a number above 0, from {least:e} to {most:e}"
            ));
        }
        match known {
            Some((other, whose)) if *other != weight => {
                return Err(format!(
                    "tenant '{tenant}' has weight {other} (user '{whose}') and {weight} (user '{name}'); its users share one weight: give the same, or give it once"
                ));
            }
            _ => *known = Some((weight, name)),
        }
    }
    Ok(tenants.into_iter().map(|(t, (weight, n))| (t, (weight.map_or(1.0, |(weight, _)| weight), n))).collect())
}

/// The library's name of a kind where it has one, else the name itself.
fn known_as(name: &str) -> &str {
    Library::builtin().kind(name).map_or(name, |kind| kind.name.as_str())
}

/// Reads `v100:8,k80:8`, or the same with equals signs.
fn read_counts(text: &str) -> Read<Vec<Kind>> {
    let kind = |part: &str| {
        let (name, count) = part
            .rsplit_once([':', '='])
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| format!("--gpus: '{part}' names no number of GPUs; expected KIND:COUNT such as v100:8"))?;
        let (name, count) = (name.trim().to_owned(), count.trim());
        let number = count.parse().map_err(|_| format!("--gpus: '{count}' in '{part}' is no number of GPUs"))?;
        Kind::new(name, number, None).map_err(|e| format!("--gpus: {e}"))
    };
    let kinds = text.split(',').map(|part| kind(part.trim())).collect::<Read<Vec<_>>>()?;
    one_each("kind", kinds.iter().map(|kind| kind.name.as_str()), |name| known_as(name).to_owned())
        .map_err(|e| format!("--gpus: {e}"))?;
    Ok(kinds)
}

/// The count given apart for a kind, by any of its names.
fn count_of<'c>(counts: &'c [Kind], name: &str) -> Option<&'c Kind> {
    counts.iter().find(|kind| known_as(&kind.name) == known_as(name))
}

fn is_whole(number: f64) -> bool {
    (number - number.round()).abs() < 1e-6
}

/// No two of the names mean the same.
fn one_each<'n>(what: &str, names: impl Iterator<Item = &'n str>, fold: impl Fn(&str) -> String) -> Read<()> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for name in names {
        match seen.insert(fold(name), name) {
            Some(other) if other == name => {
                return Err(format!("two {what}s are called '{name}'; give every {what} a name of its own"));
            }
            Some(other) => return Err(format!("'{other}' and '{name}' are the same {what}; give it once")),
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
