//! A question as JSON.

use super::{Given, Kind, NUMBERS, Pair, Read, count_of, rate};
use arles_core::library::suggestion;
use serde_json::{Map, Value};

/// Kinds, users and pairs as they are written.
pub(super) fn read(text: &str, counts: Option<&[Kind]>) -> Read<(Vec<Kind>, Vec<Given>, Vec<Pair>)> {
    let value: Value = serde_json::from_str(text).map_err(|error| not_json(&error, text))?;
    let fields = object(&value, "the question", &["kinds", "users", "pairs"])?;
    let kinds = list(fields, "kinds")?.iter().enumerate().map(|(i, kind)| read_kind(kind, i, counts));
    let kinds = kinds.collect::<Read<Vec<_>>>()?;
    if let Some(other) = counts.and_then(|counts| counts.iter().find(|kind| count_of(&kinds, &kind.name).is_none())) {
        return Err(format!("--gpus: there is no kind '{}' in the question; give a kind that is", other.name));
    }
    let users = list(fields, "users")?.iter().enumerate().map(|(i, user)| read_user(user, i, &kinds));
    let users = users.collect::<Read<Vec<Given>>>()?;
    let pairs = match fields.get("pairs").filter(|value| !value.is_null()) {
        None => Vec::new(),
        Some(Value::Array(list)) => {
            list.iter().enumerate().map(|(i, pair)| read_pair(pair, i, &kinds, &users)).collect::<Read<_>>()?
        }
        Some(other) => return Err(format!("pairs is {}; expected a list", brief(other))),
    };
    Ok((kinds, users, pairs))
}

fn read_pair(value: &Value, index: usize, kinds: &[Kind], users: &[Given]) -> Read<Pair> {
    let what = format!("pairs[{index}]");
    let fields = object(value, &what, &["users", "kind", "rates"])?;
    let two = |field: &str, of: &str| match required(fields, field, &format!("{field} of {what}"))? {
        Value::Array(list) => <&[Value; 2]>::try_from(list.as_slice())
            .map_err(|_| format!("{field} of {what} has {} entries; expected two {of}", list.len())),
        other => Err(format!("{field} of {what} is {}; expected a list of two {of}", brief(other))),
    };
    let find = |value: &Value, list: &str, names: &mut dyn Iterator<Item = &str>| {
        let names: Vec<&str> = names.collect();
        let name = value.as_str().ok_or_else(|| format!("{what} names {}; expected a text", brief(value)))?;
        names.iter().position(|known| *known == name).ok_or_else(|| {
            let near = suggestion(name, names.iter().copied());
            format!("{what} names '{name}'{near}; expected one of the {list} of the question")
        })
    };
    let user = |value: &Value| find(value, "users", &mut users.iter().map(|user| user.name.as_str()));
    let [first, second] = two("users", "names")?;
    let members = [user(first)?, user(second)?];
    let kind = required(fields, "kind", &format!("kind of {what}"))?;
    let kind = find(kind, "kinds", &mut kinds.iter().map(|kind| kind.name.as_str()))?;
    let [first, second] = two("rates", "numbers")?;
    let read = |value: &Value, member: usize| {
        let (user, kind) = (&users[member].name, &kinds[kind].name);
        rate(number(value, &format!("rates of {what}"))?, value, user, kind)
    };
    Ok(Pair { users: members, kind, rates: [read(first, members[0])?, read(second, members[1])?] })
}

fn read_kind(value: &Value, index: usize, counts: Option<&[Kind]>) -> Read<Kind> {
    let what = format!("kinds[{index}]");
    let fields = object(value, &what, &["name", "count", "hourly_cost"])?;
    let name = name(fields, &what)?;
    let what = format!("the count of kind '{name}'");
    let count = match counts.and_then(|counts| count_of(counts, &name)) {
        Some(kind) => f64::from(kind.count),
        None => number(required(fields, "count", &what)?, &what)?,
    };
    let cost = optional(fields, "hourly_cost", &format!("hourly_cost of kind '{name}'"))?;
    Kind::new(name, count, cost)
}

fn read_user(value: &Value, index: usize, kinds: &[Kind]) -> Read<Given> {
    let what = format!("users[{index}]");
    let known: Vec<&str> = ["name", "tenant", "rates"].into_iter().chain(NUMBERS).collect();
    let fields = object(value, &what, &known)?;
    let name = name(fields, &what)?;
    let tenant = match fields.get("tenant").filter(|value| !value.is_null()) {
        None => None,
        Some(Value::String(tenant)) if !tenant.is_empty() => Some(tenant.clone()),
        Some(other) => return Err(format!("tenant of user '{name}' is {}; expected a text", brief(other))),
    };
    let mut numbers = [None; NUMBERS.len()];
    for (number, field) in numbers.iter_mut().zip(NUMBERS) {
        *number = optional(fields, field, &format!("{field} of user '{name}'"))?;
    }
    let what = format!("rates of user '{name}'");
    let rates = read_rates(required(fields, "rates", &what)?, &what, &name, kinds)?;
    Ok(Given { name, tenant, numbers, rates })
}

fn read_rates(value: &Value, what: &str, user: &str, kinds: &[Kind]) -> Read<Vec<f64>> {
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
    let read = |(value, kind): (&Value, &Kind)| {
        rate(number(value, &format!("{what} on '{}'", kind.name))?, value, user, &kind.name)
    };
    list.iter().zip(kinds).map(read).collect()
}

fn object<'v>(value: &'v Value, what: &str, known: &[&str]) -> Read<&'v Map<String, Value>> {
    let Value::Object(fields) = value else {
        return Err(format!("{what} is {}; expected an object with {}", brief(value), known.join(", ")));
    };
    for field in fields.keys() {
        if !known.contains(&field.as_str()) {
            let near = suggestion(field, known.iter().copied());
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

fn optional(fields: &Map<String, Value>, field: &str, what: &str) -> Read<Option<f64>> {
    fields.get(field).filter(|value| !value.is_null()).map(|value| number(value, what)).transpose()
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
