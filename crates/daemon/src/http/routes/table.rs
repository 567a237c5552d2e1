//! The lines of the table.

use super::{Body, Content, Parameter, Place, RateQuery, Route, Verb, of};
use crate::access::Need;
use crate::desk::EnergyBy;
use crate::http::assets;
use crate::http::backend::Question;
use crate::http::shape::Shape;
use arles_api as api;

/// Whole numbers that every JSON reader keeps exactly.
const MOST: u64 = (1 << 53) - 1;
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

const fn parameter(name: &'static str, place: Place, shape: Shape, description: &'static str) -> Parameter {
    Parameter { name, place, shape, description }
}

const JOB: Parameter =
    parameter("id", Place::Path, Shape::Integer { least: 1, most: MOST }, "Number of the job, as its submission told.");
const NAME: Parameter = parameter("name", Place::Path, Shape::Text { most: 200 }, "Its name.");
const TOKEN: Parameter = parameter("name", Place::Path, Shape::Text { most: 100 }, "Name of the token.");
const FILE: Parameter = parameter("file", Place::Path, Shape::Choice(assets::NAMES), "Name of the file.");
const STATE: Parameter = parameter(
    "state",
    Place::Query,
    Shape::Choices(&["waiting", "starting", "running", "stopping", "completed", "failed", "cancelled"]),
    "Only jobs in one of these states.",
);
const TENANT: Parameter = parameter("tenant", Place::Query, Shape::Text { most: 200 }, "Only jobs of this tenant.");
const WORKLOAD: Parameter = parameter("workload", Place::Query, Shape::Text { most: 200 }, "Only this workload.");
const ORDER: Parameter =
    parameter("order", Place::Query, Shape::Choice(&["newest", "oldest"]), "Which come first; `newest` if not given.");
const LIMIT: Parameter =
    parameter("limit", Place::Query, Shape::Integer { least: 1, most: 1000 }, "At most so many; 100 if not given.");
const CURSOR: Parameter = parameter(
    "cursor",
    Place::Query,
    Shape::Visible { most: 400 },
    "`next` of the answer before: where to go on. Keep the other parameters as they were.",
);
const MOMENT: Shape = Shape::Number { least: 0.0, most: 1e11 };
const FROM: Parameter =
    parameter("from", Place::Query, MOMENT, "Beginning of the window, in seconds since 1970 on the scheduler's clock.");
const TO: Parameter = parameter("to", Place::Query, MOMENT, "End of the window; now if not given.");
const BY: Parameter = parameter(
    "by",
    Place::Query,
    Shape::Choice(&["job", "tenant", "kind"]),
    "What is added up; `tenant` if not given.",
);
const AFTER: Parameter = parameter(
    "after",
    Place::Query,
    Shape::Integer { least: 0, most: MOST },
    "Number of the last event that is known already; without it the stream begins now.",
);
const LAST_EVENT: Parameter = parameter(
    "Last-Event-ID",
    Place::Header,
    Shape::Integer { least: 0, most: MOST },
    "The same as `after`, and stronger: what a listener that lost its connection sends.",
);
const KEY: Parameter = parameter(
    "Idempotency-Key",
    Place::Header,
    Shape::Visible { most: 200 },
    "Made up by the client. A second request with the same key submits nothing and gets the job of the first.",
);

const JOB_EXAMPLE: &str =
    r#"{"name": "nightly", "tenant": "vision", "workload": "resnet50-b64", "gang": 4, "steps": 90000}"#;

/// A read that any token may do; lines of the table say how they differ.
const READ: Route = Route {
    id: "",
    verb: Verb::Get,
    path: "",
    need: Need::Anybody,
    summary: "",
    description: "",
    parameters: &[],
    body: None,
    statuses: &[200],
    content: Content::AnyJson,
    faults: &[],
    ask: |_| Ok(RateQuery::OpenApi),
};

macro_rules! desk {
    ($question:expr) => {
        Ok(RateQuery::Desk(Box::new($question)))
    };
}

/// Every way in.
pub const ROUTES: &[Route] = &[
    Route {
        id: "getHealth",
        path: "/healthz",
        need: Need::Nobody,
        summary: "Whether the process is alive",
        description: "200 if so, 503 with the same JSON and the trouble in words if not.",
        content: Content::Json(of::<api::Health>),
        ask: |_| Ok(RateQuery::Health),
        ..READ
    },
    Route {
        id: "getReadiness",
        path: "/readyz",
        need: Need::Nobody,
        summary: "Whether the server takes requests",
        description: "200 if so, 503 with the same JSON and the trouble in words if not.",
        content: Content::Json(of::<api::Health>),
        ask: |_| Ok(RateQuery::Ready),
        ..READ
    },
    Route {
        id: "getOpenApi",
        path: "/openapi.json",
        need: Need::Nobody,
        summary: "This description",
        description: "OpenAPI 3.1, made from the table that also routes requests.",
        ..READ
    },
    Route {
        id: "getDashboard",
        path: "/",
        need: Need::Nobody,
        summary: "The dashboard",
        description: "An empty page and its script; what it shows it asks for with a token.",
        content: Content::Text(&["text/html; charset=utf-8"]),
        ask: |_| Ok(RateQuery::Asset("index.html")),
        ..READ
    },
    Route {
        id: "getDashboardFile",
        path: "/dashboard/{file}",
        need: Need::Nobody,
        summary: "A file of the dashboard",
        description: "Scripts and styles.",
        parameters: &[FILE],
        content: Content::Text(assets::TYPES),
        faults: &[404],
        ask: |params| Ok(RateQuery::Asset(params.choice("file").unwrap_or("index.html"))),
        ..READ
    },
    Route {
        id: "getMetrics",
        path: "/metrics",
        need: Need::Read,
        summary: "Measurements for Prometheus",
        description: "Prometheus text format 0.0.4.",
        content: Content::Text(&[PLAIN]),
        ask: |_| Ok(RateQuery::Metrics),
        ..READ
    },
    Route {
        id: "getServer",
        path: "/v1/server",
        summary: "The server, and who is asking",
        description: "Version, clock, policy, size, and the scope of the caller's token.",
        content: Content::Json(of::<api::Server>),
        ask: |_| desk!(Question::Server),
        ..READ
    },
    Route {
        id: "listJobs",
        path: "/v1/jobs",
        summary: "Jobs, live and past",
        description: "Page by page. A tenant's token sees its own.",
        parameters: &[STATE, TENANT, WORKLOAD, ORDER, LIMIT, CURSOR],
        content: Content::Json(of::<api::Jobs>),
        ask: |params| desk!(Question::Jobs(params.jobs())),
        ..READ
    },
    Route {
        id: "submitJob",
        verb: Verb::Post,
        path: "/v1/jobs",
        need: Need::Submit,
        summary: "Submit a job",
        description: "Answered when the job is safe on disk: 201, or 200 where the same key brought it before.",
        parameters: &[KEY],
        body: Some(Body { schema: of::<api::JobRequest>, example: JOB_EXAMPLE }),
        statuses: &[201, 200],
        content: Content::Json(of::<api::Job>),
        faults: &[404, 409],
        ask: |params| desk!(Question::Submit(params.text("Idempotency-Key"), params.json()?)),
    },
    Route {
        id: "getJob",
        path: "/v1/jobs/{id}",
        summary: "One job",
        description: "Where it stands, where it runs, what it has done and drawn.",
        parameters: &[JOB],
        content: Content::Json(of::<api::Job>),
        faults: &[404],
        ask: |params| desk!(Question::Job(params.id())),
        ..READ
    },
    Route {
        id: "cancelJob",
        verb: Verb::Delete,
        path: "/v1/jobs/{id}",
        need: Need::Submit,
        summary: "Cancel a job",
        description: "Answered when that is safe on disk. Its gang is stopped afterwards.",
        parameters: &[JOB],
        content: Content::Json(of::<api::Job>),
        faults: &[404, 409],
        ask: |params| desk!(Question::Cancel(params.id())),
        ..READ
    },
    Route {
        id: "explainJob",
        path: "/v1/jobs/{id}/explain",
        summary: "Why a job is where it is",
        description: "The scheduler's own reason, what the job is owed, and how fast it would be where.",
        parameters: &[JOB],
        content: Content::Json(of::<api::Explanation>),
        faults: &[404, 409],
        ask: |params| desk!(Question::Explain(params.id())),
        ..READ
    },
    Route {
        id: "reportProgress",
        verb: Verb::Post,
        path: "/v1/jobs/{id}/progress",
        need: Need::Submit,
        summary: "Tell what a job's code has done",
        description: "Answered with what it should do: go on, or save everything and end.",
        parameters: &[JOB],
        body: Some(Body {
            schema: of::<api::Progress>,
            example: r#"{"steps": 1200, "rate": 3.5, "checkpointed": true}"#,
        }),
        content: Content::Json(of::<api::Instruction>),
        faults: &[404, 409],
        ask: |params| desk!(Question::Progress(params.id(), params.json()?)),
        ..READ
    },
    Route {
        id: "getQueue",
        path: "/v1/queue",
        summary: "Jobs that wait, and why",
        description: "Oldest first, page by page.",
        parameters: &[LIMIT, CURSOR],
        content: Content::Json(of::<api::Queue>),
        ask: |params| desk!(Question::Queue(params.page())),
        ..READ
    },
    Route {
        id: "listNodes",
        path: "/v1/nodes",
        summary: "Hosts",
        description: "By number of their first GPU, page by page.",
        parameters: &[LIMIT, CURSOR],
        content: Content::Json(of::<api::Nodes>),
        ask: |params| desk!(Question::Nodes(params.page())),
        ..READ
    },
    Route {
        id: "getGpus",
        path: "/v1/gpus",
        summary: "All GPUs at once",
        description: "In columns: the n-th entry of each is GPU n.",
        content: Content::Json(of::<api::Gpus>),
        ask: |_| desk!(Question::Gpus),
        ..READ
    },
    Route {
        id: "listKinds",
        path: "/v1/kinds",
        summary: "GPU models of the cluster",
        description: "How many there are, how many are held, what they draw.",
        content: Content::Json(of::<api::Kinds>),
        ask: |_| desk!(Question::Kinds),
        ..READ
    },
    Route {
        id: "listWorkloads",
        path: "/v1/workloads",
        summary: "What can be submitted",
        description: "Names.",
        content: Content::Json(of::<api::Workloads>),
        ask: |_| desk!(Question::Workloads),
        ..READ
    },
    Route {
        id: "listTenants",
        path: "/v1/tenants",
        summary: "Tenants: what they are owed and hold",
        description: "A tenant's token sees its own line.",
        content: Content::Json(of::<api::Tenants>),
        ask: |_| desk!(Question::Tenants),
        ..READ
    },
    Route {
        id: "setTenant",
        verb: Verb::Put,
        path: "/v1/tenants/{name}",
        need: Need::Administer,
        summary: "Set a tenant's entitlement",
        description: "Makes the tenant if there is none of that name.",
        parameters: &[NAME],
        body: Some(Body { schema: of::<api::TenantRequest>, example: r#"{"weight": 2.0}"# }),
        content: Content::Json(of::<api::Tenant>),
        faults: &[409],
        ask: |params| desk!(Question::SetTenant(params.name(), params.json()?)),
        ..READ
    },
    Route {
        id: "listPolicies",
        path: "/v1/policies",
        summary: "Ways to divide GPUs",
        description: "What each promises, and which is in force.",
        content: Content::Json(of::<api::Policies>),
        ask: |_| desk!(Question::Policies),
        ..READ
    },
    Route {
        id: "setPolicy",
        verb: Verb::Put,
        path: "/v1/policy",
        need: Need::Operate,
        summary: "Switch the policy",
        description: "In force from the next round on.",
        body: Some(Body { schema: of::<api::PolicyRequest>, example: r#"{"policy": "max-min-fairness"}"# }),
        content: Content::Json(of::<api::Policy>),
        faults: &[404, 409],
        ask: |params| desk!(Question::SetPolicy(params.json()?)),
        ..READ
    },
    Route {
        id: "listEstimates",
        path: "/v1/estimates",
        summary: "Rates that the scheduler reckons with",
        description: "Beside what was measured, page by page.",
        parameters: &[WORKLOAD, LIMIT, CURSOR],
        content: Content::Json(of::<api::Estimates>),
        faults: &[404],
        ask: |params| desk!(Question::Estimates(params.text("workload"), params.page())),
        ..READ
    },
    Route {
        id: "getAllocation",
        path: "/v1/allocation",
        summary: "The decision in force",
        description: "Who was granted what, how fair that is, and what changed lately.",
        content: Content::Json(of::<api::Allocation>),
        ask: |_| desk!(Question::Allocation),
        ..READ
    },
    Route {
        id: "getAudit",
        path: "/v1/audit",
        summary: "Who got how much, and whether that was fair",
        description: "Over a window; all that is known if none is given.",
        parameters: &[FROM, TO],
        content: Content::Json(of::<api::Audit>),
        faults: &[422],
        ask: |params| desk!(Question::Audit(params.number("from"), params.number("to"))),
        ..READ
    },
    Route {
        id: "getEnergy",
        path: "/v1/energy",
        summary: "Energy accounts",
        description: "By job, tenant or kind over a window, page by page.",
        parameters: &[BY, FROM, TO, LIMIT, CURSOR],
        content: Content::Json(of::<api::EnergyAccount>),
        faults: &[422],
        ask: |params| {
            let by = match params.choice("by") {
                Some("job") => EnergyBy::Job,
                Some("kind") => EnergyBy::Kind,
                _ => EnergyBy::Tenant,
            };
            desk!(Question::Energy(by, params.number("from"), params.number("to"), params.page()))
        },
        ..READ
    },
    Route {
        id: "forecastJob",
        verb: Verb::Post,
        path: "/v1/dry-run/job",
        summary: "When and where a job would run",
        description: "Played ahead on a copy; nothing is submitted.",
        body: Some(Body { schema: of::<api::JobRequest>, example: JOB_EXAMPLE }),
        content: Content::Json(of::<api::Forecast>),
        faults: &[404, 409],
        ask: |params| desk!(Question::ForecastJob(params.json()?)),
        ..READ
    },
    Route {
        id: "forecastPolicy",
        verb: Verb::Post,
        path: "/v1/dry-run/policy",
        need: Need::Read,
        summary: "What another policy would change",
        description: "Played ahead on a copy; nothing is switched.",
        body: Some(Body { schema: of::<api::PolicyRequest>, example: r#"{"policy": "oef-coop"}"# }),
        content: Content::Json(of::<api::PolicyForecast>),
        faults: &[404, 409],
        ask: |params| desk!(Question::ForecastPolicy(params.json()?)),
        ..READ
    },
    Route {
        id: "listen",
        path: "/v1/events",
        summary: "What happens, as it happens",
        description: "Server-sent events: `id` is the event's number, `event` its `what`, `data` its JSON (schema `Event`). \
                      `event: reset` means that some were forgotten: read everything anew, and go on from its `id`. \
                      A comment comes every 15 seconds.",
        parameters: &[AFTER, LAST_EVENT],
        content: Content::Text(&["text/event-stream"]),
        ask: |params| Ok(RateQuery::Events(params.integer("Last-Event-ID").or_else(|| params.integer("after")))),
        ..READ
    },
    Route {
        id: "listTokens",
        path: "/v1/tokens",
        need: Need::Administer,
        summary: "Keys to the API",
        description: "Without their secrets, which are kept nowhere.",
        content: Content::Json(of::<api::Tokens>),
        ask: |_| desk!(Question::Tokens),
        ..READ
    },
    Route {
        id: "makeToken",
        verb: Verb::Post,
        path: "/v1/tokens",
        need: Need::Administer,
        summary: "Make a key",
        description: "The answer has the secret; nothing else ever will.",
        body: Some(Body {
            schema: of::<api::TokenRequest>,
            example: r#"{"name": "vision-ci", "scope": "tenant", "tenant": "vision"}"#,
        }),
        statuses: &[201],
        content: Content::Json(of::<api::Token>),
        faults: &[404, 409],
        ask: |params| desk!(Question::MakeToken(params.json()?)),
        ..READ
    },
    Route {
        id: "dropToken",
        verb: Verb::Delete,
        path: "/v1/tokens/{name}",
        need: Need::Administer,
        summary: "End a key",
        description: "From now on it opens nothing.",
        parameters: &[TOKEN],
        content: Content::Json(of::<api::Token>),
        faults: &[404, 409],
        ask: |params| desk!(Question::DropToken(params.name())),
        ..READ
    },
];
