//! Parameters and body of a request, parsed as its route says.
//!
//! Everything is checked here against the same table that the OpenAPI file is made of. A parameter nobody knows is refused rather
//! than ignored: whoever misspells `limit` should hear of it.

use super::parameter::{ParameterType, Value};
use super::routes::{Parameter, Place, Route};
use super::schema_check;
use crate::Refusal;
use crate::service::desk::{EnergyBy, JobsQuery, LogQuery, LogsQuery, Page};
use arles_core::engine::OutputStream;
use arles_core::library::suggestion;
use bytes::Bytes;
use hyper::HeaderMap;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// The parts of a request that its route may ask for.
pub struct Params {
    values: Vec<(&'static str, Value)>,
    body: Bytes,
    limits: Option<&'static serde_json::Value>,
}

impl Params {
    /// Reads path, query and headers; the body is only read when the handler asks for it.
    pub(super) fn read(
        route: &'static Route,
        segment: Option<&str>,
        query: Option<&str>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Self, Refusal> {
        let mut params = Self { values: Vec::new(), body, limits: route.limits() };
        for parameter in route.parameters {
            match parameter.place {
                Place::Path => params.read_segment(parameter, segment.unwrap_or_default())?,
                Place::Header => {
                    if let Some(value) = headers.get(parameter.name) {
                        let text = value.to_str().map_err(|_| wrong(parameter, "(not ASCII)"))?;
                        params.put(parameter, text)?;
                    }
                }
                Place::Query => {}
            }
        }
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            params.read_pair(route, pair)?;
        }
        Ok(params)
    }

    fn read_segment(&mut self, parameter: &'static Parameter, segment: &str) -> Result<(), Refusal> {
        let text = decode(segment, false)?;
        if matches!(parameter.kind, ParameterType::Choice(_)) && parameter.kind.read(&text).is_none() {
            return Err(Refusal::not_found(
                "no-such-path",
                format!("no such {}: '{}'", parameter.name, short(&text)),
                parameter.kind.expected(),
            ));
        }
        self.put(parameter, &text)
    }

    fn read_pair(&mut self, route: &'static Route, pair: &str) -> Result<(), Refusal> {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, text) = (decode(name, true)?, decode(text, true)?);
        let of_query = || route.parameters.iter().filter(|parameter| parameter.place == Place::Query);
        let Some(parameter) = of_query().find(|parameter| parameter.name == name) else {
            let names: Vec<&str> = of_query().map(|parameter| parameter.name).collect();
            let near = suggestion(&name, names.iter().copied());
            let hint = match names.as_slice() {
                [] => "this path has no parameters".to_owned(),
                _ => format!("expected one of {}", names.join(", ")),
            };
            let message = format!("unknown parameter '{}'{near}", short(&name));
            return Err(Refusal::bad_request("unknown-parameter", message, hint));
        };
        if self.find(parameter.name).is_some() {
            let message = format!("parameter {} is given twice", parameter.name);
            return Err(Refusal::bad_request("repeated-parameter", message, "give it once"));
        }
        self.put(parameter, &text)
    }

    fn put(&mut self, parameter: &'static Parameter, text: &str) -> Result<(), Refusal> {
        let value = parameter.kind.read(text).ok_or_else(|| wrong(parameter, text))?;
        self.values.push((parameter.name, value));
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The job in the path.
    pub(super) fn id(&self) -> u64 {
        self.integer("id").unwrap_or(0)
    }

    pub(super) fn integer(&self, name: &str) -> Option<u64> {
        match self.find(name)? {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match self.find(name)? {
            Value::Number(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.find(name)? {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(super) fn choice(&self, name: &str) -> Option<&'static str> {
        match self.find(name)? {
            Value::Choice(word) => Some(word),
            _ => None,
        }
    }

    /// A name in the path.
    pub(super) fn name(&self) -> String {
        self.text("name").unwrap_or_default()
    }

    pub(super) fn page(&self) -> Page {
        Page { cursor: self.text("cursor"), limit: self.integer("limit").and_then(|limit| u32::try_from(limit).ok()) }
    }

    pub(super) fn log(&self) -> LogQuery {
        let Page { cursor, limit } = self.page();
        LogQuery {
            tenant: self.text("tenant"),
            job: self.integer("job"),
            by: self.text("by"),
            kind: self.choice("kind").map(str::to_owned),
            from: self.number("from"),
            to: self.number("to"),
            oldest_first: self.choice("order") == Some("oldest"),
            cursor,
            limit,
        }
    }

    pub(super) fn jobs(&self) -> JobsQuery {
        let states = match self.find("state") {
            Some(Value::Choices(words)) => {
                arles_api::JobState::ALL.into_iter().filter(|state| words.contains(&state.name())).collect()
            }
            _ => Vec::new(),
        };
        let Page { cursor, limit } = self.page();
        JobsQuery {
            states,
            tenant: self.text("tenant"),
            workload: self.text("workload"),
            name: self.text("name"),
            oldest_first: self.choice("order") == Some("oldest"),
            cursor,
            limit,
        }
    }

    pub(super) fn logs(&self) -> LogsQuery {
        let stream = match self.choice("stream") {
            Some("stderr") => OutputStream::Stderr,
            _ => OutputStream::Stdout,
        };
        LogsQuery { stream, from: self.integer("from"), bytes: self.integer("bytes") }
    }

    pub(super) fn energy_by(&self) -> EnergyBy {
        match self.choice("by") {
            Some("job") => EnergyBy::Job,
            Some("kind") => EnergyBy::Kind,
            _ => EnergyBy::Tenant,
        }
    }

    /// The body, which must be what the route's schema says.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let hint = "/openapi.json describes what this path accepts";
        let unreadable = |error: &serde_json::Error| {
            Refusal::bad_request("bad-json", format!("the body cannot be parsed: {}", short(&error.to_string())), hint)
        };
        // The typed reading knows lines, columns and repetitions; the schema knows limits, and is stricter about shapes.
        let typed: Result<T, _> = serde_json::from_slice(&self.body);
        let mut plain: serde_json::Value = serde_json::from_slice(&self.body).map_err(|error| unreadable(&error))?;
        let checked = self.limits.map_or(Ok(()), |schema| schema_check::check(schema, &plain));
        match (typed, checked) {
            (Ok(value), Ok(())) => Ok(value),
            (Ok(_), Err(text)) => Err(Refusal::unprocessable("out-of-range", text, hint)),
            // 4.0 is whole to JSON Schema, and not to serde.
            (Err(error), Ok(())) if !error.to_string().starts_with("duplicate field") => {
                let as_it_was = plain.clone();
                schema_check::make_whole(&mut plain);
                // What is still wrong then is what was wrong; where nothing was made whole, the first reading knows the place.
                let told = |still: serde_json::Error, same: bool| unreadable(if same { &error } else { &still });
                let same = plain == as_it_was;
                serde_json::from_value(plain).map_err(|still| told(still, same))
            }
            // serde names types of Rust where the schema names the field.
            (Err(error), Err(text)) if error.to_string().starts_with("invalid ") => {
                let place = format!("line {} column {}", error.line(), error.column());
                Err(Refusal::bad_request("bad-json", format!("{text} ({place})"), hint))
            }
            (Err(error), _) => Err(unreadable(&error)),
        }
    }
}

fn wrong(parameter: &Parameter, text: &str) -> Refusal {
    let message = format!("{} is '{}'; {}", parameter.name, short(text), parameter.kind.expected());
    Refusal::bad_request("bad-parameter", message, "/openapi.json describes what this path accepts")
}

/// As much of somebody's text as fits a sentence, without what would break a terminal.
pub(super) fn short(text: &str) -> String {
    let mut out = arles_core::name::harmless(&text.chars().take(200).collect::<String>()).into_owned();
    if text.chars().nth(200).is_some() {
        out.push('…');
    }
    out
}

/// Undoes percent-encoding; in a query a plus is a space.
fn decode(text: &str, query: bool) -> Result<String, Refusal> {
    let refusal = |what: &str| {
        let message = format!("'{}' {what}", short(text));
        Refusal::bad_request(
            "bad-encoding",
            message,
            "encode every byte outside of ASCII as % and two hexadecimal digits",
        )
    };
    // The library leaves a stray % as it is; whoever sends one made a mistake.
    let encoded = |rest: &str| matches!(rest.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(encoded) {
        return Err(refusal("has a % without two hexadecimal digits"));
    }
    let spaced = if query { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| refusal("is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_undone_or_refused() {
        assert_eq!(decode("a%20b+c%C3%A4", true).unwrap(), "a b cä");
        assert_eq!(decode("a+b", false).unwrap(), "a+b");
        for wrong in ["%", "%4", "%zz", "%ff", "a%C3"] {
            assert_eq!(decode(wrong, true).unwrap_err().code, "bad-encoding", "{wrong}");
        }
    }

    #[test]
    fn what_is_quoted_is_short_and_harmless() {
        assert_eq!(short("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(short(&"x".repeat(5000)).chars().count(), 201);
    }
}
