//! The table of routes as an OpenAPI 3.1 file, and as a table for people.
//!
//! Schemas come from the types. What is answered is described as it is written (every field is there), what is taken as it is read
//! (what has a default may be left out); a type that is both gets a second name for the latter.

use super::authorize::scopes;
use super::routes::{Body, Content, FAULT, Parameter, Place, ROUTES, Route, answer_of};
use crate::access::Need;
use schemars::SchemaGenerator;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value, json};

const SCHEMAS: &str = "#/components/schemas/";
const RESPONSES: &str = "#/components/responses/";

/// The file, as `/openapi.json` serves it.
#[must_use]
pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    text.push('\n');
    text
}

/// The table of routes for `docs/api.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from("| method | path | token scope | |\n| --- | --- | --- | --- |\n");
    for route in ROUTES {
        let (verb, path, scope) = (route.verb.name(), route.path, scopes(route.need));
        text.push_str(&format!("| {verb} | `{path}` | {scope} | {} |\n", route.summary));
    }
    text
}

fn generator(contract: Contract) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        settings.contract = contract;
    });
    settings.into_generator()
}

fn document() -> Value {
    let mut written = generator(Contract::Serialize);
    let mut read = generator(Contract::Deserialize);
    let mut paths = Map::new();
    let failures = common_failures(&mut written);
    written.subschema_for::<arles_api::Event>();
    for route in ROUTES {
        let operation = operation(route, &mut written, &mut read);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.verb.name().to_ascii_lowercase()] = operation;
    }
    let mut schemas = written.take_definitions(true);
    merge(&mut schemas, read.take_definitions(true), &mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "arles",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Schedules machine-learning jobs on clusters with different kinds of GPUs. Times are seconds since 1970 on the \
                            scheduler's clock, durations are seconds, energy is in joules, power in watts, rates in steps per second.",
            "license": {"name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT"},
        },
        "servers": [{"url": "/", "description": "This server"}],
        "tags": [
            {"name": "jobs", "description": "Submit, list, explain and cancel jobs."},
            {"name": "cluster", "description": "Nodes, GPUs, kinds and workloads."},
            {"name": "fairness", "description": "Tenants, policies, shares and energy."},
            {"name": "access", "description": "API tokens."},
            {"name": "server", "description": "The server itself."},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": failures,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token that an admin created."},
            },
        },
    })
}

/// Adds the schemas of requests to those of answers. Where both have a name and differ, in themselves or in what they refer to, the former becomes `…Request`.
fn merge(schemas: &mut Map<String, Value>, read: Map<String, Value>, paths: &mut Map<String, Value>) {
    let renaming = |name: &String| (format!("{SCHEMAS}{name}"), format!("{SCHEMAS}{name}Request"));
    let differs = |(name, schema): &(&String, &Value)| schemas.get(*name).is_some_and(|there| there != *schema);
    let mut renamed: Vec<_> = read.iter().filter(differs).map(|(name, _)| renaming(name)).collect();
    loop {
        let more = |(name, schema): &(&String, &Value)| {
            let news = schemas.contains_key(*name) && !renamed.contains(&renaming(name));
            news && rename(&mut (*schema).clone(), &renamed)
        };
        let more: Vec<_> = read.iter().filter(more).map(|(name, _)| renaming(name)).collect();
        if more.is_empty() {
            break;
        }
        renamed.extend(more);
    }
    for (name, mut schema) in read {
        rename(&mut schema, &renamed);
        let name = if renamed.contains(&renaming(&name)) { format!("{name}Request") } else { name };
        schemas.entry(name).or_insert(schema);
    }
    let bodies = paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut);
    for body in bodies.filter_map(|operation| operation.get_mut("requestBody")) {
        rename(body, &renamed);
    }
}

/// Gives references their new names; whether there were any.
fn rename(value: &mut Value, renamed: &[(String, String)]) -> bool {
    let mut any = false;
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get_mut("$ref")
                && let Some((_, new)) = renamed.iter().find(|(old, _)| old == target)
            {
                target.clone_from(new);
                any = true;
            }
            fields.values_mut().for_each(|inner| any |= rename(inner, renamed));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| any |= rename(inner, renamed)),
        _ => {}
    }
    any
}

fn operation(route: &Route, written: &mut SchemaGenerator, read: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "description": format!("{}\n\nToken scope: {}.", route.description, scopes(route.need)),
        "tags": [tag(route)],
        "security": if route.need == Need::Nobody { json!([]) } else { json!([{"token": []}]) },
        "responses": responses(route, written),
    });
    if !route.parameters.is_empty() {
        operation["parameters"] = route.parameters.iter().map(parameter).collect();
    }
    if let Some(Body { schema, example }) = route.body {
        let example: Value = serde_json::from_str(example).unwrap_or_default();
        let content = json!({"schema": schema(read), "example": example});
        operation["requestBody"] = json!({"required": true, "content": {"application/json": content}});
    }
    operation
}

fn tag(route: &Route) -> &'static str {
    let path = route.path.strip_prefix("/v1/").unwrap_or_default();
    match path.split('/').next().unwrap_or_default() {
        "jobs" | "queue" | "dry-run" => "jobs",
        "nodes" | "gpus" | "kinds" | "workloads" | "estimates" => "cluster",
        "tenants" | "policies" | "policy" | "allocation" | "audit" | "energy" => "fairness",
        "tokens" => "access",
        _ => "server",
    }
}

fn parameter(parameter: &Parameter) -> Value {
    let place = match parameter.place {
        Place::Path => "path",
        Place::Query => "query",
        Place::Header => "header",
    };
    let mut out = json!({
        "name": parameter.name,
        "in": place,
        "required": parameter.place == Place::Path,
        "description": parameter.description,
        "schema": parameter.kind.schema(),
    });
    if parameter.place == Place::Query {
        // Lists are written with commas.
        out["style"] = "form".into();
        out["explode"] = false.into();
    }
    out
}

fn responses(route: &Route, written: &mut SchemaGenerator) -> Value {
    let content = match route.content {
        Content::Json(schema) => json!({"application/json": {"schema": schema(written)}}),
        Content::AnyJson => json!({"application/json": {"schema": {"type": "object"}}}),
        Content::Text(types) => {
            let essence = |full: &&str| full.split(';').next().unwrap_or_default().to_owned();
            types.iter().map(|full| (essence(full), json!({"schema": {"type": "string"}}))).collect()
        }
    };
    let mut all = Map::new();
    for &status in route.statuses {
        let mut response = json!({"description": success(status), "content": content.clone()});
        if route.statuses.len() > 1 {
            let schema = json!({"type": "string"});
            response["headers"] = json!({"Location": {"description": "URL of the job.", "schema": schema}});
        }
        all.insert(status.to_string(), response);
    }
    for status in route.failures() {
        all.insert(status.to_string(), failure(route, status, written));
    }
    Value::Object(all)
}

/// A failure looks the same wherever it happens; only health is told in the words of its success.
fn failure(route: &Route, status: u16, written: &mut SchemaGenerator) -> Value {
    match answer_of(route.content) {
        Some(schema) if status == 503 && route.need == Need::Nobody => {
            let schema = json!({"anyOf": [schema(written), FAULT(written)]});
            json!({"description": failure_words(status), "content": {"application/json": {"schema": schema}}})
        }
        _ => json!({"$ref": format!("{RESPONSES}{}", name(status))}),
    }
}

fn common_failures(written: &mut SchemaGenerator) -> Value {
    let mut statuses: Vec<u16> = ROUTES.iter().flat_map(Route::failures).collect();
    statuses.sort_unstable();
    statuses.dedup();
    let mut all = Map::new();
    for status in statuses {
        let content = json!({"application/json": {"schema": FAULT(written)}});
        let mut response = json!({"description": failure_words(status), "content": content});
        let header = |text: &str, schema: Value| json!({"description": text, "schema": schema});
        match status {
            401 => {
                let schema = json!({"type": "string", "enum": ["Bearer"]});
                response["headers"] =
                    json!({"WWW-Authenticate": header("The expected authentication scheme.", schema)});
            }
            429 | 503 => {
                let schema = json!({"type": "integer", "minimum": 1});
                response["headers"] = json!({"Retry-After": header("Seconds to wait, if known.", schema)});
            }
            _ => {}
        }
        all.insert(name(status), response);
    }
    Value::Object(all)
}

fn name(status: u16) -> String {
    format!("Fault{status}")
}

fn success(status: u16) -> &'static str {
    match status {
        201 => "Created",
        _ => "OK",
    }
}

fn failure_words(status: u16) -> &'static str {
    match status {
        400 => "The request is malformed",
        401 => "A valid token is required",
        403 => "The token's scope does not allow this",
        404 => "Not found, or not visible to the caller",
        408 => "The body was not received in time",
        409 => "The request conflicts with the current state",
        413 => "The body is too large",
        415 => "The body is not declared as JSON",
        422 => "The request is well-formed but invalid",
        429 => "Rate limit exceeded",
        500 => "Internal server error",
        _ => "The service is unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|inner| refs(inner, found));
            }
            Value::Array(items) => items.iter().for_each(|inner| refs(inner, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_everything_is_described() {
        let document = document();
        let mut found = Vec::new();
        refs(&document, &mut found);
        assert!(found.len() > 50);
        for target in found {
            let pointer = target.strip_prefix('#').unwrap_or_else(|| panic!("{target} leads out of the file"));
            assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
        }
        for route in ROUTES {
            let operation = &document["paths"][route.path][route.verb.name().to_ascii_lowercase()];
            assert_eq!(operation["operationId"], route.id);
            assert!(!route.summary.is_empty() && !route.description.is_empty(), "{}", route.path);
            let described = operation["responses"].as_object().expect("responses");
            assert!(described.contains_key("429") && described.contains_key("500"), "{}", route.path);
            assert_eq!(described.contains_key("401"), route.need != Need::Nobody);
        }
    }

    #[test]
    fn what_is_read_may_leave_out_more_than_what_is_written() {
        let document = document();
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["ProgressRequest"]["required"], json!(["steps"]));
        assert_eq!(schemas["Progress"]["required"], json!(["steps", "rate", "checkpointed"]));
        let body = &document["paths"]["/v1/jobs/{id}/progress"]["post"]["requestBody"];
        assert_eq!(body["content"]["application/json"]["schema"]["$ref"], "#/components/schemas/ProgressRequest");
        assert_eq!(schemas["JobRequest"]["additionalProperties"], false);
        // What differs may be what is referred to.
        let prices = &schemas["ElectricityPricesRequest"]["properties"]["prices"];
        assert_eq!(prices["items"]["$ref"], "#/components/schemas/ElectricityPriceRequest");
    }
}
