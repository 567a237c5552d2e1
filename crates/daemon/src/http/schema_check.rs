//! Whether a JSON value is what a schema says: the part of JSON Schema that request bodies use.
//!
//! Limits are written once, at the fields of the types in `arles_api`; the schemas come from there, and so does this check. serde alone would let
//! an array stand for a struct and `{"admin": null}` for `"admin"`, and knows no limits. A keyword that is not known here is
//! reported by [`unknown_keywords`], and a test asks it about every route.

use serde_json::Value;

/// Checks, and says what is wrong where.
pub(super) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    at(schema, value, "")
}

fn at(schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    if let Some(any) = list(schema, "anyOf").or_else(|| list(schema, "oneOf")) {
        // Of several complaints the first is about the real alternative; the other is `null`.
        let mut complaints = any.iter().map(|one| at(one, value, path).err());
        let first = complaints.next().flatten();
        if first.is_some() && complaints.all(|other| other.is_some()) {
            return Err(first.unwrap_or_default());
        }
    }
    kind(schema, value, path)?;
    if let Some(all) = list(schema, "enum")
        && !all.contains(value)
    {
        let all: Vec<String> = all.iter().map(Value::to_string).collect();
        return Err(format!("{} is {}; expected one of {}", name(path), quoted(value), all.join(", ")));
    }
    if let Some(only) = schema.get("const")
        && only != value
    {
        return Err(format!("{} is {}; expected {only}", name(path), quoted(value)));
    }
    match value {
        Value::Number(number) => within(schema, number.as_f64(), ("minimum", "maximum"), path, ""),
        Value::String(text) => {
            let length = text.chars().count();
            within(schema, Some(length as f64), ("minLength", "maxLength"), path, "characters")
        }
        Value::Array(items) => {
            within(schema, Some(items.len() as f64), ("minItems", "maxItems"), path, "entries")?;
            let Some(each) = schema.get("items") else { return Ok(()) };
            items.iter().enumerate().try_for_each(|(i, item)| at(each, item, &format!("{path}[{i}]")))
        }
        Value::Object(fields) => object(schema, fields, path),
        _ => Ok(()),
    }
}

fn object(schema: &Value, fields: &serde_json::Map<String, Value>, path: &str) -> Result<(), String> {
    for needed in list(schema, "required").into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(needed) {
            return Err(format!("{} has no field {needed}", name(path)));
        }
    }
    for (field, value) in fields {
        let inner = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
        match schema.get("properties").and_then(|all| all.get(field)) {
            Some(property) => at(property, value, &inner)?,
            None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                return Err(format!("unknown field {inner} in {}", name(path)));
            }
            // Maps: names of the sender's own, values of one type.
            None => {
                if let Some(each @ Value::Object(_)) = schema.get("additionalProperties") {
                    at(each, value, &inner)?;
                }
            }
        }
    }
    Ok(())
}

fn kind(schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    let is = |kind: &str| match (kind, value) {
        ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("number", Value::Number(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => true,
        ("integer", Value::Number(number)) => !number.is_f64() || number.as_f64().is_some_and(|x| x.fract() == 0.0),
        _ => false,
    };
    let fits = match schema.get("type") {
        Some(Value::String(one)) => is(one),
        Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    if fits {
        return Ok(());
    }
    let wanted = match &schema["type"] {
        Value::Array(some) => some.iter().filter_map(Value::as_str).map(word).collect::<Vec<_>>().join(" or "),
        one => word(one.as_str().unwrap_or_default()).to_owned(),
    };
    // Whoever writes a date has to hear that a moment is a number here.
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let moment = if about.contains(MOMENT) { format!(" of {MOMENT}") } else { String::new() };
    Err(format!("{} is {}; expected {wanted}{moment}", name(path), quoted(value)))
}

/// How descriptions of fields say that they are moments.
const MOMENT: &str = "seconds since 1970";

/// A type of JSON Schema, as one says it.
fn word(kind: &str) -> &str {
    match kind {
        "boolean" => "true or false",
        "number" => "a number",
        "integer" => "a whole number",
        "string" => "a string",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

/// Checks a number, or how many `units` there are, against the limits under `keys`.
fn within(schema: &Value, size: Option<f64>, keys: (&str, &str), path: &str, units: &str) -> Result<(), String> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let (least, most) = (bound(keys.0), bound(keys.1));
    let Some(size) = size else { return Ok(()) };
    if least.is_none_or(|least| size >= least) && most.is_none_or(|most| size <= most) {
        return Ok(());
    }
    let range = match (least, most) {
        (Some(least), Some(most)) if units.is_empty() => format!("a number from {least} to {most}"),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => String::new(),
    };
    match units {
        "" if size.abs() >= 1e16 => Err(format!("{} is {size:e}; expected {range}", name(path))),
        "" => Err(format!("{} is {size}; expected {range}", name(path))),
        units => Err(format!("{} has {size} {units}; expected {range}", name(path))),
    }
}

fn list<'a>(schema: &'a Value, key: &str) -> Option<&'a Vec<Value>> {
    schema.get(key).and_then(Value::as_array)
}

fn name(path: &str) -> &str {
    if path.is_empty() { "the body" } else { path }
}

fn quoted(value: &Value) -> String {
    super::params::short(&value.to_string())
}

/// Writes 4.0 as 4, everywhere.
pub(super) fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            // All whole numbers up to here are exact.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            let whole = number.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < EXACT);
            if let Some(x) = whole {
                *value = Value::from(x as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(fields) => fields.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// Keywords of a schema that this module would pass over although they forbid something.
#[cfg(test)]
fn unknown_keywords(schema: &Value, unknown: &mut Vec<String>) {
    const KNOWN: [&str; 22] = [
        "type",
        "enum",
        "const",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "items",
        "required",
        "properties",
        "additionalProperties",
        "anyOf",
        "oneOf",
        "description",
        "title",
        "default",
        "format",
        "$schema",
        "examples",
        "$defs",
    ];
    let Value::Object(fields) = schema else { return };
    for (key, inner) in fields {
        if !KNOWN.contains(&key.as_str()) {
            unknown.push(key.clone());
        }
        match (key.as_str(), inner) {
            ("properties", Value::Object(all)) => all.values().for_each(|one| unknown_keywords(one, unknown)),
            ("anyOf" | "oneOf", Value::Array(all)) => all.iter().for_each(|one| unknown_keywords(one, unknown)),
            ("items" | "additionalProperties", one) => unknown_keywords(one, unknown),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ROUTES;
    use serde_json::json;

    fn limits(path: &str) -> &'static Value {
        let route =
            ROUTES.iter().find(|route| route.path == path && route.body.is_some()).expect("a route with a body");
        route.limits().expect("limits")
    }

    #[test]
    fn every_keyword_of_every_body_is_checked() {
        for route in ROUTES.iter().filter(|route| route.body.is_some()) {
            let mut unknown = Vec::new();
            unknown_keywords(route.limits().expect("limits"), &mut unknown);
            assert!(unknown.is_empty(), "{}: schema_check.rs does not check {unknown:?}", route.path);
        }
    }

    #[test]
    fn limits_are_those_of_the_fields() {
        let job = |patch: Value| {
            let mut job = json!({"workload": "resnet50", "steps": 10});
            job.as_object_mut().unwrap().extend(patch.as_object().unwrap().clone());
            check(limits("/v1/jobs"), &job)
        };
        assert_eq!(job(json!({})), Ok(()));
        assert_eq!(job(json!({"steps": null, "name": "x", "gang": 8, "kinds": ["a100"]})), Ok(()));
        assert_eq!(job(json!({"gang": 0})).unwrap_err(), "gang is 0; expected a number from 1 to 1000000");
        for wrong in [
            json!({"gang": 1.5}),
            json!({"gang": -1}),
            json!({"weight": 0}),
            json!({"weight": 1e7}),
            json!({"steps": -1}),
            json!({"steps": 1e16}),
            json!({"steps": "ten"}),
            json!({"name": "x".repeat(201)}),
            json!({"tenant": ""}),
            json!({"workload": ""}),
            json!({"workload": 7}),
            json!({"kinds": vec!["a"; 65]}),
            json!({"kinds": [1]}),
            json!({"colour": "red"}),
            json!({"program": {"command": "python"}}),
            json!({"program": {"environment": {"A": 1}}}),
            json!({"program": {"script": {"name": "a.sh"}}}),
            json!({"program": {"colour": "red"}}),
            json!({"needs": {"cpus_per_gpu": -1}}),
            json!({"profile": {"precision": "fp17"}}),
            json!({"after": [{"job": 0, "outcome": "ok"}]}),
            json!({"after": [{"job": 1, "outcome": "maybe"}]}),
            json!({"array": {"from": -1, "to": 2}}),
            json!({"time_limit_seconds": 0}),
            json!({"retries": -1}),
            json!({"held": "yes"}),
        ] {
            assert!(job(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(check(limits("/v1/jobs"), &json!(["resnet50"])).unwrap_err().contains("expected an object"));
        let program = json!({"command": ["python"], "environment": {"A": "1"}, "script": null});
        assert_eq!(check(limits("/v1/jobs"), &json!({"program": program, "array": {"indices": [1, 2]}})), Ok(()));
        assert_eq!(check(limits("/v1/policy"), &json!({})).unwrap_err(), "the body has no field policy");
        let prices = |price: Value| check(limits("/v1/prices"), &json!({"prices": [price]}));
        let wrong = prices(json!({"from": 0, "per_kwh": "cheap"})).unwrap_err();
        assert_eq!(wrong, "prices[0].per_kwh is \"cheap\"; expected a number");
        let wrong = prices(json!({"from": "2026-01-01", "per_kwh": 1})).unwrap_err();
        assert_eq!(wrong, "prices[0].from is \"2026-01-01\"; expected a number of seconds since 1970");
        let wrong = prices(json!({"from": 1e300, "per_kwh": 1})).unwrap_err();
        assert_eq!(wrong, "prices[0].from is 1e300; expected a number from 0 to 253402300799");
        assert!(check(limits("/v1/tokens"), &json!({"name": "ci", "scope": {"admin": null}})).is_err());
        assert!(check(limits("/v1/tokens"), &json!({"name": "ci", "scope": "admin"})).is_ok());
    }
}
