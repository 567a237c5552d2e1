//! The question of `arles allocate`, read with a sentence for everything that can be wrong in it.

use arles_core::library::nearest;
use serde_json::{Map, Value};

/// GPUs to divide, and among whom.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) kinds: Vec<Kind>,
    pub(super) users: Vec<User>,
}

#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) count: u32,
}

#[derive(Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) weight: f64,
    pub(super) rates: Vec<f64>,
    pub(super) gpus_max: Option<f64>,
}

/// Most GPUs of all kinds; beyond this, parts of them would no longer be counted exactly.
const MOST_GPUS: u32 = 1_000_000;
/// A GPU can be divided into this many parts.
const MOST_PARTS: f64 = 1000.0;

/// Rates and weights beyond this cannot be told from 0, or from each other, in the digits that there are.
const RANGE: std::ops::RangeInclusive<f64> = 1e-9..=1e12;

type Read<T> = Result<T, String>;

impl Question {
    /// Reads and checks a question.
    pub(super) fn read(text: &str) -> Read<Self> {
        let value: Value = serde_json::from_str(text).map_err(|error| not_json(&error, text))?;
        let fields = object(&value, "the question", &["kinds", "users"])?;
        let kinds =
            list(fields, "kinds")?.iter().enumerate().map(|(i, kind)| Kind::read(kind, i)).collect::<Read<Vec<_>>>()?;
        let users = list(fields, "users")?
            .iter()
            .enumerate()
            .map(|(i, user)| User::read(user, i, &kinds))
            .collect::<Read<_>>()?;
        let question = Self { kinds, users };
        question.check()?;
        Ok(question)
    }

    fn check(&self) -> Read<()> {
        unique("kind", self.kinds.iter().map(|kind| kind.name.as_str()))?;
        unique("user", self.users.iter().map(|user| user.name.as_str()))?;
        match self.kinds.iter().map(|kind| u64::from(kind.count)).sum::<u64>() {
            0 => return Err("there are no GPUs; give at least one kind a count of 1 or more".into()),
            n if n > u64::from(MOST_GPUS) => return Err(format!("there are {n} GPUs; expected at most {MOST_GPUS}")),
            _ => {}
        }
        for user in &self.users {
            if !self.kinds.iter().zip(&user.rates).any(|(kind, rate)| kind.count > 0 && *rate > 0.0) {
                let name = &user.name;
                return Err(format!(
                    "user '{name}' has a rate of 0 on every kind of which there is a GPU; give one above 0, or leave the user out"
                ));
            }
        }
        Ok(())
    }

    /// The fewest equal parts of a GPU (1, 10, 100 or 1000) in which every `gpus_max` is whole.
    pub(super) fn parts(&self) -> f64 {
        let whole = |parts: f64| self.users.iter().filter_map(|user| user.gpus_max).all(|most| is_whole(most * parts));
        [1.0, 10.0, 100.0].into_iter().find(|&parts| whole(parts)).unwrap_or(MOST_PARTS)
    }
}

impl Kind {
    fn read(value: &Value, index: usize) -> Read<Self> {
        let what = format!("kinds[{index}]");
        let fields = object(value, &what, &["name", "count"])?;
        let name = name(fields, &what)?;
        let what = format!("the count of kind '{name}'");
        let count = number(required(fields, "count", &what)?, &what)?;
        if count < 0.0 || !is_whole(count) || count > f64::from(MOST_GPUS) {
            return Err(format!("{what} is {count}; expected a whole number from 0 to {MOST_GPUS}"));
        }
        Ok(Self { name, count: count as u32 })
    }
}

impl User {
    fn read(value: &Value, index: usize, kinds: &[Kind]) -> Read<Self> {
        let what = format!("users[{index}]");
        let fields = object(value, &what, &["name", "weight", "rates", "gpus_max"])?;
        let name = name(fields, &what)?;
        let optional = |field: &str| -> Read<Option<(f64, String)>> {
            let what = format!("{field} of user '{name}'");
            let given = fields.get(field).filter(|value| !value.is_null());
            given.map(|value| Ok((number(value, &what)?, what))).transpose()
        };
        let weight = match optional("weight")? {
            Some((weight, what)) if !RANGE.contains(&weight) => {
                let (least, most) = (RANGE.start(), RANGE.end());
                return Err(format!("{what} is {weight}; expected a number above 0, from {least:e} to {most:e}"));
            }
            given => given.map_or(1.0, |(weight, _)| weight),
        };
        let gpus_max = match optional("gpus_max")? {
            Some((most, what)) if most <= 0.0 => return Err(format!("{what} is {most}; expected a number above 0")),
            Some((most, what)) if !is_whole(most * MOST_PARTS) => {
                return Err(format!("{what} is {most}; expected at most 3 decimals"));
            }
            given => given.map(|(most, _)| most),
        };
        let what = format!("rates of user '{name}'");
        let rates = rates(required(fields, "rates", &what)?, &what, kinds)?;
        Ok(Self { name, weight, rates, gpus_max })
    }
}

fn rates(value: &Value, what: &str, kinds: &[Kind]) -> Read<Vec<f64>> {
    let Value::Array(list) = value else {
        return Err(format!("{what} is {value}; expected a list with a number for each kind"));
    };
    if list.len() != kinds.len() {
        return Err(format!(
            "{what} has {} numbers for {} kinds; expected one for each, in their order",
            list.len(),
            kinds.len()
        ));
    }
    let rate = |(value, kind): (&Value, &Kind)| {
        let what = format!("{what} on '{}'", kind.name);
        match number(value, &what)? {
            rate if rate == 0.0 || RANGE.contains(&rate) => Ok(rate),
            _ => {
                Err(format!("{what} is {value}; expected 0, or a number from {:e} to {:e}", RANGE.start(), RANGE.end()))
            }
        }
    };
    list.iter().zip(kinds).map(rate).collect()
}

fn object<'v>(value: &'v Value, what: &str, known: &[&str]) -> Read<&'v Map<String, Value>> {
    let Value::Object(fields) = value else {
        return Err(format!("{what} is {}; expected an object with {}", brief(value), known.join(", ")));
    };
    for field in fields.keys() {
        if !known.contains(&field.as_str()) {
            let near =
                nearest(field, known.iter().copied()).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            return Err(format!("{what} has an unknown field '{field}'{near}; expected {}", known.join(", ")));
        }
    }
    Ok(fields)
}

fn required<'v>(fields: &'v Map<String, Value>, field: &str, what: &str) -> Read<&'v Value> {
    fields.get(field).ok_or_else(|| format!("{what} is missing; give \"{field}\""))
}

fn list<'v>(fields: &'v Map<String, Value>, field: &str) -> Read<&'v Vec<Value>> {
    match required(fields, field, &format!("the list of {field}"))? {
        Value::Array(list) if !list.is_empty() => Ok(list),
        other => Err(format!("{field} is {}; expected a list with at least one entry", brief(other))),
    }
}

fn name(fields: &Map<String, Value>, what: &str) -> Read<String> {
    match required(fields, "name", &format!("the name of {what}"))? {
        Value::String(name) if !name.is_empty() => Ok(name.clone()),
        other => Err(format!("the name of {what} is {}; expected a text", brief(other))),
    }
}

fn number(value: &Value, what: &str) -> Read<f64> {
    value
        .as_f64()
        .filter(|number| number.is_finite())
        .ok_or_else(|| format!("{what} is {}; expected a number", brief(value)))
}

fn is_whole(number: f64) -> bool {
    (number - number.round()).abs() < 1e-6
}

fn unique<'n>(what: &str, names: impl Iterator<Item = &'n str>) -> Read<()> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("two {what}s are called '{name}'; give every {what} a name of its own"));
        }
    }
    Ok(())
}

/// A value, cut where it is long.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 { text } else { text.chars().take(37).collect::<String>() + "..." }
}

/// A sentence about text that is not JSON; NaN and its like, which other languages write, are called by their names.
fn not_json(error: &serde_json::Error, text: &str) -> String {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let around = line.char_indices().filter(|(i, _)| *i + 1 + 9 >= error.column()).map(|(_, c)| c).collect::<String>();
    let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| around.contains(word));
    match word {
        Some(word) => format!(
            "line {}: {word} is no number in JSON; write a number, 0 for a rate where a user does not fit",
            error.line()
        ),
        None => format!("this is no JSON ({error}); see 'arles allocate --help' for the form of a question"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Question::read(text).unwrap_err()
    }

    fn with_user(user: &str) -> String {
        wrong(&format!(r#"{{"kinds":[{{"name":"v100","count":2}},{{"name":"k80","count":0}}],"users":[{user}]}}"#))
    }

    fn with_kind(kind: &str) -> String {
        wrong(&format!(r#"{{"kinds":[{kind}],"users":[{{"name":"a","rates":[1]}}]}}"#))
    }

    #[test]
    fn wrong_users_are_sentences() {
        let check = |user: &str, expect: &str| assert_eq!(with_user(user), expect);
        check(
            r#"{"name":"a","rates":[1]}"#,
            "rates of user 'a' has 1 numbers for 2 kinds; expected one for each, in their order",
        );
        check(
            r#"{"name":"a","rates":[1,-2]}"#,
            "rates of user 'a' on 'k80' is -2; expected 0, or a number from 1e-9 to 1e12",
        );
        check(
            r#"{"name":"a","weight":0,"rates":[1,1]}"#,
            "weight of user 'a' is 0; expected a number above 0, from 1e-9 to 1e12",
        );
        check(
            r#"{"name":"a","wieght":1,"rates":[1,1]}"#,
            "users[0] has an unknown field 'wieght' (did you mean weight?); expected name, weight, rates, gpus_max",
        );
        check(
            r#"{"name":"a","rates":[1,1],"gpus_max":0.0001}"#,
            "gpus_max of user 'a' is 0.0001; expected at most 3 decimals",
        );
        check(r#"{"name":"a","rates":[1,1],"gpus_max":"x"}"#, "gpus_max of user 'a' is \"x\"; expected a number");
        check(r#"{"rates":[1,1]}"#, "the name of users[0] is missing; give \"name\"");
        check(
            r#"{"name":"a","rates":[1,1]},{"name":"a","rates":[1,1]}"#,
            "two users are called 'a'; give every user a name of its own",
        );
        assert!(
            with_user(r#"{"name":"a","rates":[0,1]}"#).contains("a rate of 0 on every kind of which there is a GPU")
        );
        assert!(with_user(r#"{"name":"a","rates":[NaN,1]}"#).contains("NaN is no number in JSON"));
        assert!(with_user(r#"{"name":"a","rates":[1e999,1]}"#).contains("number out of range"));
    }

    #[test]
    fn wrong_kinds_are_sentences() {
        assert_eq!(
            with_kind(r#"{"name":"v100","count":-1}"#),
            "the count of kind 'v100' is -1; expected a whole number from 0 to 1000000"
        );
        assert_eq!(
            with_kind(r#"{"name":"v100","count":0}"#),
            "there are no GPUs; give at least one kind a count of 1 or more"
        );
        assert_eq!(with_kind(r#"{"name":"v100"}"#), "the count of kind 'v100' is missing; give \"count\"");
        assert!(wrong("[]").starts_with("the question is []"));
        assert!(wrong("{").starts_with("this is no JSON"));
        assert!(wrong(r#"{"kinds":[],"users":[]}"#).starts_with("kinds is []"));
    }

    #[test]
    fn fractions_are_counted_in_parts() {
        let parts = |most: &str| {
            let text = format!(
                r#"{{"kinds":[{{"name":"v100","count":2}}],"users":[{{"name":"a","rates":[1],"gpus_max":{most}}}]}}"#
            );
            Question::read(&text).unwrap().parts()
        };
        assert_eq!((parts("2"), parts("1.5"), parts("0.25"), parts("0.125")), (1.0, 10.0, 100.0, 1000.0));
    }
}
