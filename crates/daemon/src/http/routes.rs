//! The table of routes: all that the server knows of the API.
//!
//! Routing, the reading of parameters, the OpenAPI file, the list in `docs/api.md` and the tests of who may do what come from
//! [`ROUTES`]. A route is added by a row there, whose handler names the function that answers it.

use super::call::ApiCall;
use super::parameter::ParameterType;
use super::params::Params;
use crate::Refusal;
use crate::access::Need;
use arles_api as api;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use std::collections::BTreeMap;
use std::sync::LazyLock;

mod table;
pub use table::ROUTES;

/// HTTP method of a route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verb {
    /// Reads; `HEAD` is routed the same way.
    Get,
    /// Creates something, or reads with a body.
    Post,
    /// Sets; idempotent.
    Put,
    /// Removes or cancels; idempotent.
    Delete,
}

impl Verb {
    /// As HTTP writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    fn named(method: &hyper::Method) -> Option<Self> {
        match method.as_str() {
            "GET" | "HEAD" => Some(Self::Get),
            "POST" => Some(Self::Post),
            "PUT" => Some(Self::Put),
            "DELETE" => Some(Self::Delete),
            _ => None,
        }
    }
}

/// Where a parameter stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A segment of the path.
    Path,
    /// The query string.
    Query,
    /// A request header.
    Header,
}

/// A parameter of a request. Path parameters are required, others optional.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Parameter name.
    pub name: &'static str,
    /// Path, query or header.
    pub place: Place,
    /// Type and limits.
    pub kind: ParameterType,
    /// Description for the OpenAPI file.
    pub description: &'static str,
}

/// Makes the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

pub(super) fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Request body of a route.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    /// Schema of the body.
    pub schema: SchemaOf,
    /// A valid example.
    pub example: &'static str,
}

/// Response content of a route.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// JSON of this schema.
    Json(SchemaOf),
    /// Any JSON object: the OpenAPI file.
    AnyJson,
    /// Text of these media types.
    Text(&'static [&'static str]),
}

/// What a request leads to.
#[derive(Debug)]
pub enum Target {
    /// Whether the process is alive.
    Health,
    /// Whether it takes requests.
    Ready,
    /// The OpenAPI file.
    OpenApi,
    /// A file of the dashboard.
    Asset(&'static str),
    /// Prometheus text.
    Metrics,
    /// The event stream, after this event.
    Events(Option<u64>),
    /// A call of the desk, answered with JSON.
    Call(ApiCall),
}

/// One method on one path.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Its name for programs: `operationId`.
    pub id: &'static str,
    /// The method.
    pub verb: Verb,
    /// The path; a segment in braces is a parameter. At most one is.
    pub path: &'static str,
    /// Required scope.
    pub need: Need,
    /// One line for lists.
    pub summary: &'static str,
    /// A sentence or two.
    pub description: &'static str,
    /// Parameters that it accepts.
    pub parameters: &'static [Parameter],
    /// Request body, if any.
    pub body: Option<Body>,
    /// The statuses of success, the usual one first.
    pub statuses: &'static [u16],
    /// Response content.
    pub content: Content,
    /// Statuses of failure besides those that its need, its body and its parameters bring with them.
    pub faults: &'static [u16],
    /// Parses a request, and says what answers it.
    pub handler: fn(&Params) -> Result<Target, Refusal>,
}

/// What a path and a method lead to.
pub(super) enum RouteMatch<'p> {
    /// A route, with the path segment that is its parameter.
    Found(&'static Route, Option<&'p str>),
    /// The path exists for these other methods.
    WrongMethod(Vec<&'static str>),
    /// There is no such path.
    NotFound,
}

/// Finds the route.
pub(super) fn find<'p>(method: &hyper::Method, path: &'p str) -> RouteMatch<'p> {
    let verb = Verb::named(method);
    let mut allowed = Vec::new();
    for route in ROUTES {
        let Some(segment) = fits(route.path, path) else { continue };
        if Some(route.verb) == verb {
            return RouteMatch::Found(route, segment);
        }
        allowed.push(route.verb.name());
        if route.verb == Verb::Get {
            allowed.push("HEAD");
        }
    }
    if allowed.is_empty() { RouteMatch::NotFound } else { RouteMatch::WrongMethod(allowed) }
}

/// Whether a path is of a pattern, and if so the segment in the place of its parameter.
fn fits<'p>(pattern: &str, path: &'p str) -> Option<Option<&'p str>> {
    let Some((before, after)) = pattern.split_once('{') else {
        return (pattern == path).then_some(None);
    };
    let rest = path.strip_prefix(before)?;
    let after = after.split_once('}')?.1;
    let segment = rest.strip_suffix(after)?;
    (!segment.is_empty() && !segment.contains('/')).then_some(Some(segment))
}

static LIMITS: LazyLock<BTreeMap<&'static str, serde_json::Value>> = LazyLock::new(|| {
    let inline = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = |body: Body| (body.schema)(&mut inline.clone().into_generator()).to_value();
    ROUTES.iter().filter_map(|route| route.body.map(|body| (route.id, schema(body)))).collect()
});

impl Route {
    /// Whether it says how the server is: for whoever watches it, and so never refused for being one request too many.
    #[must_use]
    pub fn is_health(&self) -> bool {
        matches!(self.path, "/healthz" | "/readyz")
    }

    /// Whether a job's own code may ask for it, with the token in its environment.
    #[must_use]
    pub fn for_jobs(&self) -> bool {
        self.id == "reportProgress"
    }

    /// Whether its answer takes long to make: a page of a list, a dry run.
    pub(super) fn takes_long(&self) -> bool {
        let pages = self.verb == Verb::Get && self.parameters.iter().any(|parameter| parameter.name == "limit");
        pages || self.path.starts_with("/v1/dry-run/")
    }

    /// The schema of its body with everything in place, if it takes one.
    pub(super) fn limits(&self) -> Option<&'static serde_json::Value> {
        self.body.and_then(|_| LIMITS.get(self.id))
    }

    /// Statuses of failure that this route can answer with, in order.
    #[must_use]
    pub fn failures(&self) -> Vec<u16> {
        let mut all = vec![400, 403, 429, 500, 503];
        if self.need != Need::Nobody {
            all.push(401);
        }
        if self.body.is_some() {
            all.extend([408, 413, 415, 422]);
        }
        // Cursors are words of the server's own; one that it never said is understood by nobody.
        if self.parameters.iter().any(|parameter| parameter.name == "cursor") {
            all.push(422);
        }
        all.extend(self.faults);
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Schemas of answers are of what is written, those of requests of what is read; the difference is in what may be left out.
pub(super) fn answer_of(content: Content) -> Option<SchemaOf> {
    match content {
        Content::Json(schema) => Some(schema),
        Content::AnyJson | Content::Text(_) => None,
    }
}

/// What every failure looks like.
pub(super) const FAULT: SchemaOf = of::<api::Fault>;

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;

    #[test]
    fn every_route_is_found_by_its_own_path_and_only_there() {
        for route in ROUTES {
            let path = route.path.replace("{id}", "17").replace("{name}", "x%2Fy").replace("{file}", "app.js");
            let method: Method = route.verb.name().parse().unwrap();
            let RouteMatch::Found(found, segment) = find(&method, &path) else { panic!("{path} leads nowhere") };
            assert_eq!(found.id, route.id);
            assert_eq!(segment.is_some(), route.path.contains('{'));
            assert!(matches!(find(&Method::PATCH, &path), RouteMatch::WrongMethod(_)));
            assert!(matches!(find(&method, &format!("{path}/x/y")), RouteMatch::NotFound));
            let named = route.parameters.iter().filter(|parameter| parameter.place == Place::Path).count();
            assert_eq!(named, usize::from(segment.is_some()), "{path}");
        }
    }

    #[test]
    fn paths_are_exact() {
        for path in ["", "//", "/v1", "/v1/", "/v1/jobs/", "/v1/jobs//explain", "/V1/jobs", "/v1/jobs/1/2", "*"] {
            assert!(matches!(find(&Method::GET, path), RouteMatch::NotFound), "{path}");
        }
        let RouteMatch::WrongMethod(allowed) = find(&Method::OPTIONS, "/v1/jobs") else { panic!() };
        assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    }

    #[test]
    fn names_are_unique() {
        let mut ids: Vec<_> = ROUTES.iter().map(|route| route.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len());
    }

    #[test]
    fn examples_are_what_their_routes_take() {
        for route in ROUTES {
            let Some(body) = route.body else { continue };
            let example = serde_json::from_str(body.example).expect("JSON");
            assert_eq!(
                super::super::schema_check::check(route.limits().expect("limits"), &example),
                Ok(()),
                "{}",
                route.id
            );
        }
    }
}
