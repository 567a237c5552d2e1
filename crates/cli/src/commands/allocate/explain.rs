//! Why each user got what it got, in words with numbers.
//!
//! Nothing here is a template that is always true: each clause is there if its numbers say so, and what *would* happen
//! (one more GPU, more weight) was solved anew.

use super::answer::INDIFFERENT;
use super::question::Question;
use super::solve::{Solved, solve};
use crate::quantity::shown;
use anyhow::{Result, anyhow};
use arles_core::allocate::PolicyEntry;
use arles_core::library::suggestion;
use serde::Serialize;

/// The sentences about one user.
#[derive(Serialize)]
pub(super) struct Explanation {
    pub(super) user: String,
    pub(super) why: String,
}

/// More weight is tried out for at most this many users: each is a solve.
const MOST_TRIED: usize = 50;
/// How much more weight.
const MORE_WEIGHT: f64 = 1.1;

/// The users named, or all.
pub(super) fn asked(names: &str, question: &Question) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..question.users.len()).collect());
    }
    let find = |name: &str| {
        question.users.iter().position(|user| user.name == name).ok_or_else(|| {
            let users = question.users.iter().map(|user| user.name.as_str());
            let near = suggestion(name, users);
            anyhow!("--explain: there is no user '{name}'{near}; give users of the question, separated by commas")
        })
    };
    names.split(',').map(|name| find(name.trim())).collect()
}

/// Explains some users.
pub(super) fn explain(
    policy: &'static PolicyEntry,
    question: &Question,
    solved: &Solved,
    users: &[usize],
) -> Result<Vec<Explanation>> {
    let mut wider = Vec::new();
    for (j, kind) in question.kinds.iter().enumerate() {
        let mut more = question.clone();
        more.kinds[j].count += 1;
        wider.push((kind.name.as_str(), solve(policy, &more)?.utilities));
    }
    let story = Story { question, solved, wider };
    let mut told = Vec::new();
    for &l in users {
        let mut parts = vec![story.holds(l), story.equal(l)];
        parts.extend(story.market(l));
        parts.extend(story.filled(l));
        parts.extend(story.floor(l));
        parts.extend(story.envy(l));
        let heavier = match users.len() <= MOST_TRIED {
            true => Some(solve(policy, &heavier(question, l))?.utilities[l]),
            false => None,
        };
        parts.push(story.otherwise(l, heavier));
        told.push(Explanation { user: question.users[l].name.clone(), why: parts.join(" ") });
    }
    Ok(told)
}

/// The same with a tenth more weight for the tenant of a user.
fn heavier(question: &Question, l: usize) -> Question {
    let mut more = question.clone();
    let tenant = more.users[l].tenant.clone();
    more.users.iter_mut().filter(|user| user.tenant == tenant).for_each(|user| user.weight *= MORE_WEIGHT);
    more
}

struct Story<'s> {
    question: &'s Question,
    solved: &'s Solved,
    /// Utilities if there were one more GPU of a kind.
    wider: Vec<(&'s str, Vec<f64>)>,
}

impl Story<'_> {
    fn kind(&self, j: usize) -> &str {
        &self.question.kinds[j].name
    }

    /// Kinds that a user fits on, with its rates there.
    fn usable(&self, l: usize) -> impl Iterator<Item = (usize, f64)> + Clone {
        let speedups = self.solved.audit.claims().speedups(l).iter().zip(&self.question.users[l].rates).enumerate();
        speedups.filter(|(_, (w, _))| **w > 0.0).map(|(j, (_, rate))| (j, *rate))
    }

    /// What it has.
    fn holds(&self, l: usize) -> String {
        let name = &self.question.users[l].name;
        let held = self.solved.shares[l].iter().enumerate().filter(|(_, gpus)| **gpus > 5e-5);
        let held: Vec<String> = held.map(|(j, gpus)| format!("{} {}", shown(*gpus, 4), self.kind(j))).collect();
        if held.is_empty() {
            return format!("{name} holds nothing.");
        }
        format!("{name} holds {}: {} steps/s.", listed(&held), shown(self.solved.utilities[l], 4))
    }

    /// What an equal division would have given.
    fn equal(&self, l: usize) -> String {
        let claims = self.solved.audit.claims();
        // Steps a second of a speed-up of 1.
        let unit = self.usable(l).next().map_or(0.0, |(j, rate)| rate / claims.speedups(l)[j]);
        let other = shown(claims.equal_division(l) * unit / self.solved.parts, 4);
        let part = format!("An equal division ({} % of every kind) would have given it", rise(claims.part(l)));
        match 1.0 / self.solved.audit.sharing(l) - 1.0 {
            less if less < -INDIFFERENT => format!("{part} {other}, {} % less.", rise(-less)),
            more if more.is_infinite() => format!("{part} {other} steps/s."),
            more if more > INDIFFERENT => format!("{part} {other}, {} % more.", rise(more)),
            _ => format!("{part} as much."),
        }
    }

    /// Its speed-ups beside the prices, or beside those of the others.
    fn market(&self, l: usize) -> Option<String> {
        let usable = self.usable(l);
        if usable.clone().count() < 2 {
            let (j, _) = usable.clone().next()?;
            return Some(format!("It fits on no other kind than {}.", self.kind(j)));
        }
        if self.solved.prices.is_empty() {
            return self.beside_others(l);
        }
        let price = |j: usize| self.solved.prices[j];
        let free = |j: usize| self.solved.is_free(j, &self.question.kinds);
        let idle: Vec<String> =
            usable.clone().filter(|(j, _)| free(*j)).map(|(j, _)| self.kind(j).to_owned()).collect();
        if !idle.is_empty() {
            let verb = if idle.len() == 1 { "has" } else { "have" };
            return Some(format!("{} {verb} no price: more would not raise the objective.", listed(&idle)));
        }
        let mut buys: Vec<(usize, f64)> = usable.map(|(j, rate)| (j, rate / price(j))).collect();
        buys.sort_by(|a, b| b.1.total_cmp(&a.1));
        let ((best, most), (next, less)) = (buys[0], buys[1]);
        // Said of the faster of the two, so that the numbers are above 1.
        let rates = &self.question.users[l].rates;
        let (fast, slow) = if rates[best] >= rates[next] { (best, next) } else { (next, best) };
        let (worth, cost) = (shown(rates[fast] / rates[slow], 3), shown(price(fast) / price(slow), 3));
        let squeezed = self.is_filled(l) && self.solved.shares[l][fast] > 5e-5;
        let verdict = match less >= most * (1.0 - 1e-4) {
            true => "the two are equally good for it".to_owned(),
            false if best == slow && squeezed => {
                format!("{} is its better buy, but it can hold no more GPUs, only faster ones", self.kind(slow))
            }
            false => format!("{} is its better buy", self.kind(best)),
        };
        let (fast, slow) = (self.kind(fast), self.kind(slow));
        Some(format!("To it a {fast} is worth {worth} {slow}, and at the prices it costs {cost}: {verdict}."))
    }

    /// Its speed-up from its slowest to its fastest kind beside those of the others who fit both.
    fn beside_others(&self, l: usize) -> Option<String> {
        let by_rate = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
        let (fast, slow) = (self.usable(l).max_by(by_rate)?.0, self.usable(l).min_by(by_rate)?.0);
        let speedup = |i: usize| {
            let rates = &self.question.users[i].rates;
            (rates[fast] > 0.0 && rates[slow] > 0.0).then(|| rates[fast] / rates[slow])
        };
        let own = speedup(l)?;
        let others: Vec<f64> = (0..self.question.users.len()).filter(|i| *i != l).filter_map(speedup).collect();
        let (least, most) = others.iter().fold((f64::INFINITY, 0.0f64), |(a, b), s| (a.min(*s), b.max(*s)));
        let (fast, slow) = (self.kind(fast), self.kind(slow));
        let own_shown = shown(own, 3);
        Some(match others.len() {
            0 => format!("To it a {fast} is worth {own_shown} {slow}."),
            _ if own > most => format!(
                "To it a {fast} is worth {own_shown} {slow}, more than to anybody else (at most {}).",
                shown(most, 3)
            ),
            _ if own < least => format!(
                "To it a {fast} is worth {own_shown} {slow}, less than to anybody else (at least {}).",
                shown(least, 3)
            ),
            _ => format!(
                "To it a {fast} is worth {own_shown} {slow}, to the others {} to {}.",
                shown(least, 3),
                shown(most, 3)
            ),
        })
    }

    /// Whether it has reached a limit of its own.
    fn is_filled(&self, l: usize) -> bool {
        let user = &self.question.users[l];
        if user.gpus_max.is_none() && user.jobs.is_none() {
            return false;
        }
        let held: f64 = self.solved.audit.held(l).iter().sum();
        let most = self.solved.audit.claims().most_gpus(l);
        most > 0.0 && held >= most * (1.0 - 1e-6)
    }

    /// Whether it has all that it can use.
    fn filled(&self, l: usize) -> Option<String> {
        let user = &self.question.users[l];
        if self.is_filled(l) {
            return Some("That is all that it can use at once.".into());
        }
        let gpus: f64 = self.solved.shares[l].iter().sum();
        let limit = user.gpus_max.or(user.jobs.map(|jobs| f64::from(jobs) * f64::from(user.gang)))?;
        Some(format!("It could use {} GPUs more.", shown(limit - gpus, 3)))
    }

    fn floor(&self, l: usize) -> Option<String> {
        let floor = self.question.users[l].floor.filter(|floor| *floor > 0.0)?;
        let kept = self.solved.utilities[l] >= floor * (1.0 - INDIFFERENT);
        let missing = shown(floor - self.solved.utilities[l], 3);
        Some(match kept {
            true => format!("The {} steps/s that it was promised are kept.", shown(floor, 4)),
            false => format!("Of the {} steps/s that it was promised it lacks {missing}.", shown(floor, 4)),
        })
    }

    /// Whom it envies, or comes nearest to envying.
    fn envy(&self, l: usize) -> Option<String> {
        let audit = &self.solved.audit;
        let other = (0..self.question.users.len()).filter(|i| *i != l).map(|i| (i, audit.envy(l, i)));
        let (i, ratio) = other.reduce(|worst, other| if other.1 > worst.1 { other } else { worst })?;
        let name = &self.question.users[i].name;
        Some(match ratio {
            ratio if ratio.is_infinite() => format!("It envies {name}, whose GPUs it could use."),
            ratio if ratio > 1.0 + INDIFFERENT => {
                format!(
                    "It envies {name}: those GPUs, scaled to its weight, would give it {} % more.",
                    rise(ratio - 1.0)
                )
            }
            ratio if ratio > 1.0 - INDIFFERENT => {
                format!("The GPUs of {name}, scaled to its weight, would be worth just as much to it.")
            }
            _ => format!(
                "It envies nobody: nearest is {name}, whose GPUs, scaled to its weight, would give it {} % less.",
                rise(1.0 - ratio)
            ),
        })
    }

    /// What one more GPU, or more weight, would bring it.
    fn otherwise(&self, l: usize, heavier: Option<f64>) -> String {
        let now = self.solved.utilities[l];
        let wider = self.wider.iter().map(|(kind, then)| (format!("one more {kind}"), then[l]));
        let changes: Vec<(String, f64)> =
            wider.chain(heavier.map(|then| ("a tenth more weight".to_owned(), then))).collect();
        let same = |then: f64| (then - now).abs() <= INDIFFERENT * now.max(1e-9);
        if changes.iter().all(|(_, then)| same(*then)) {
            let weight = if heavier.is_some() { ", or a tenth more weight," } else { "" };
            return format!("One more GPU of any kind{weight} would change nothing for it.");
        }
        let change = |then: f64| match now > 0.0 {
            _ if same(then) => "nothing".to_owned(),
            true => format!("{}{} %", if then > now { '+' } else { '−' }, rise((then - now).abs() / now)),
            false => format!("{} steps/s", shown(then, 3)),
        };
        let told: Vec<String> = changes.iter().map(|(what, then)| format!("{what}: {}", change(*then))).collect();
        format!("What would change (solved anew): {}.", told.join("; "))
    }
}

/// A change as per cent.
fn rise(part: f64) -> String {
    shown(part * 100.0, 3)
}

/// "a, b and c".
fn listed(parts: &[String]) -> String {
    match parts {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => parts.concat(),
    }
}
