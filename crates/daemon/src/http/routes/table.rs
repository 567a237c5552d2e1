//! The routes.

use super::{Body, Content, Parameter, Place, Route, Target, Verb, of};
use crate::Refusal;
use crate::access::{Caller, Need};
use crate::http::assets;
use crate::http::call::{ApiReply, blocking, read, read_blocking, read_page, read_page_in_memory, run, run_raw};
use crate::http::parameter::ParameterType;
use crate::service::desk::{Desk, LogsQuery};
use arles_api as api;

/// Whole numbers that every JSON reader keeps exactly.
const MOST: u64 = (1 << 53) - 1;
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

const fn parameter(name: &'static str, place: Place, kind: ParameterType, description: &'static str) -> Parameter {
    Parameter { name, place, kind, description }
}

const WORDS: ParameterType = ParameterType::Text { most: 200 };
const ID: ParameterType = ParameterType::Integer { least: 1, most: MOST };
const JOB: Parameter = parameter("id", Place::Path, ID, "Job number, as returned on submission.");
const NAME: Parameter = parameter("name", Place::Path, ParameterType::Text { most: 200 }, "Tenant name.");
const CANCEL: Parameter = parameter(
    "cancel",
    Place::Query,
    ParameterType::Choice(&["true", "false"]),
    "Whether its live jobs are cancelled; default `false`: a tenant with live jobs is not removed.",
);
const NODE: Parameter = parameter("name", Place::Path, ParameterType::Text { most: 200 }, "Node name.");
const TOKEN: Parameter = parameter("name", Place::Path, ParameterType::Text { most: 100 }, "Token name.");
const FILE: Parameter = parameter("file", Place::Path, ParameterType::Choice(assets::NAMES), "File name.");
const STATE: Parameter = parameter(
    "state",
    Place::Query,
    ParameterType::Choices(&["waiting", "starting", "running", "stopping", "completed", "failed", "cancelled"]),
    "Only jobs in one of these states.",
);
const TENANT: Parameter = parameter("tenant", Place::Query, WORDS, "Only jobs of this tenant.");
const WORKLOAD: Parameter = parameter("workload", Place::Query, WORDS, "Only this workload.");
const JOB_NAME: Parameter = parameter("name", Place::Query, WORDS, "Only jobs of this name.");
const ORDER: Parameter =
    parameter("order", Place::Query, ParameterType::Choice(&["newest", "oldest"]), "Sort order; default `newest`.");
const LIMIT: Parameter = parameter(
    "limit",
    Place::Query,
    ParameterType::Integer { least: 1, most: 1000 },
    "Maximum number of entries; default 100.",
);
const CURSOR: Parameter = parameter(
    "cursor",
    Place::Query,
    ParameterType::Visible { most: 400 },
    "`next` of the previous page. Keep the other parameters unchanged.",
);
const LOG_TENANT: Parameter = parameter("tenant", Place::Query, WORDS, "Only changes about this tenant.");
const LOG_JOB: Parameter = parameter("job", Place::Query, ID, "Only changes about this job.");
const LOG_BY: Parameter =
    parameter("by", Place::Query, ParameterType::Text { most: 100 }, "Only changes by the token of this name.");
const LOG_KIND: Parameter =
    parameter("kind", Place::Query, ParameterType::Choice(api::CHANGE_KINDS), "Only changes of this kind.");
const STREAM: Parameter = parameter(
    "stream",
    Place::Query,
    ParameterType::Choice(&["stdout", "stderr"]),
    "Default `stdout`, which has standard error too unless the job has a file of its own for it.",
);
const FROM_BYTE: Parameter = parameter(
    "from",
    Place::Query,
    ParameterType::Integer { least: 0, most: MOST },
    "`next` of the previous answer; default the oldest byte that is kept.",
);
const BYTES: Parameter = parameter(
    "bytes",
    Place::Query,
    ParameterType::Integer { least: 1, most: LogsQuery::MOST_BYTES },
    "Maximum number of bytes; default 262144.",
);
const MOMENT: ParameterType = ParameterType::Number { least: 0.0, most: 1e11 };
const FROM: Parameter =
    parameter("from", Place::Query, MOMENT, "Start of the window, in seconds since 1970 on the scheduler's clock.");
const TO: Parameter = parameter("to", Place::Query, MOMENT, "End of the window; default now.");
const POINTS: Parameter = parameter(
    "points",
    Place::Query,
    ParameterType::Integer { least: 2, most: 2000 },
    "Maximum number of points; default 240. The resolution follows from it.",
);
const BY: Parameter =
    parameter("by", Place::Query, ParameterType::Choice(&["job", "tenant", "kind"]), "Grouping; default `tenant`.");
const AFTER: Parameter = parameter(
    "after",
    Place::Query,
    ParameterType::Integer { least: 0, most: MOST },
    "Number of the last event already received; without it the stream starts now.",
);
const LAST_EVENT: Parameter = parameter(
    "Last-Event-ID",
    Place::Header,
    ParameterType::Integer { least: 0, most: MOST },
    "Like `after`, and takes precedence: browsers send it when they reconnect.",
);
const KEY: Parameter = parameter(
    "Idempotency-Key",
    Place::Header,
    ParameterType::Visible { most: 200 },
    "Chosen by the client. A second request with the same key submits nothing and returns the job of the first.",
);

const JOB_EXAMPLE: &str =
    r#"{"name": "nightly", "tenant": "vision", "workload": "resnet50-b64", "gang": 4, "steps": 90000}"#;
const PROGRAM_EXAMPLE: &str = r#"{"tenant": "vision", "gang": 2, "program": {"command": ["python", "train.py", "--lr", "3e-4"], "directory": "/srv/ada/project"}, "needs": {"cpus_per_gpu": 4}, "time_limit_seconds": 7200, "array": {"from": 1, "to": 4, "at_most": 2}}"#;
const NODE_EXAMPLE: &str = r#"{"name": "v100-100", "kind": "v100", "gpus": 4, "cpus": 32, "memory_gib": 256}"#;

/// A GET that any token may do; the routes say how they differ.
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
    handler: |_| Ok(Target::OpenApi),
};

/// Where a new job is, besides the job itself; 200 if an earlier request with the same key submitted it.
async fn submit(desk: Desk, who: Caller, (key, job): (Option<String>, api::JobRequest)) -> Result<ApiReply, Refusal> {
    let (job, created) = desk.submit(&who, key, job).await?;
    let location = Some(format!("/v1/jobs/{}", job.id));
    Ok(ApiReply { location, ..ApiReply::json(&job)?.status(if created { 201 } else { 200 }) })
}

/// Routing, OpenAPI, the reference and the tests of access are made from this table.
#[allow(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of one View<'a> is not a function of every View<'_>"
)]
pub const ROUTES: &[Route] = &[
    Route {
        id: "getHealth",
        path: "/healthz",
        need: Need::Nobody,
        summary: "Whether the process is alive",
        description: "200 if so; 503 with the same JSON and the failed checks if not.",
        content: Content::Json(of::<api::Health>),
        handler: |_| Ok(Target::Health),
        ..READ
    },
    Route {
        id: "getReadiness",
        path: "/readyz",
        need: Need::Nobody,
        summary: "Whether the server accepts requests",
        description: "200 if so; 503 with the same JSON and the failed checks if not.",
        content: Content::Json(of::<api::Health>),
        handler: |_| Ok(Target::Ready),
        ..READ
    },
    Route {
        id: "getOpenApi",
        path: "/openapi.json",
        need: Need::Nobody,
        summary: "The OpenAPI document",
        description: "OpenAPI 3.1, generated from the routing table.",
        ..READ
    },
    Route {
        id: "getDashboard",
        path: "/",
        need: Need::Nobody,
        summary: "The dashboard",
        description: "A static page; its data is fetched from this API with a token.",
        content: Content::Text(&["text/html; charset=utf-8"]),
        handler: |_| Ok(Target::Asset("index.html")),
        ..READ
    },
    Route {
        id: "getDashboardFile",
        path: "/dashboard/{file}",
        need: Need::Nobody,
        summary: "A file of the dashboard",
        description: "Scripts and stylesheets.",
        parameters: &[FILE],
        content: Content::Text(assets::TYPES),
        faults: &[404],
        handler: |params| Ok(Target::Asset(params.choice("file").unwrap_or("index.html"))),
        ..READ
    },
    Route {
        id: "getMetrics",
        path: "/metrics",
        need: Need::Read,
        summary: "Prometheus metrics",
        description: "Prometheus text format 0.0.4.",
        content: Content::Text(&[PLAIN]),
        handler: |_| Ok(Target::Metrics),
        ..READ
    },
    Route {
        id: "getServer",
        path: "/v1/server",
        summary: "Server status and the caller's scope",
        description: "Version, clock, policy, cluster size, and the scope of the caller's token.",
        content: Content::Json(of::<api::Server>),
        handler: |_| read((), |view, ()| Ok(view.server())),
        ..READ
    },
    Route {
        id: "listJobs",
        path: "/v1/jobs",
        summary: "List jobs, live and ended",
        description: "Paginated. A tenant's token sees its own jobs.",
        parameters: &[STATE, TENANT, WORKLOAD, JOB_NAME, ORDER, LIMIT, CURSOR],
        content: Content::Json(of::<api::Jobs>),
        handler: |params| read_page(params.jobs().limit, params.jobs(), |view, query| view.jobs(&query)),
        ..READ
    },
    Route {
        id: "submitJob",
        verb: Verb::Post,
        path: "/v1/jobs",
        need: Need::Submit,
        summary: "Submit a job",
        description: "A known workload, or a program. Returns once the job is on disk: 201, or 200 if an earlier request with the same key \
                      submitted it. Of an array the first job is returned; `array.tasks` is how many there are, numbered one after another.",
        parameters: &[KEY],
        body: Some(Body { schema: of::<api::JobRequest>, example: PROGRAM_EXAMPLE }),
        statuses: &[201, 200],
        content: Content::Json(of::<api::Job>),
        faults: &[404, 409],
        handler: |params| run_raw((params.text("Idempotency-Key"), params.json()?), submit),
    },
    Route {
        id: "getJob",
        path: "/v1/jobs/{id}",
        summary: "Get a job",
        description: "State, placement, progress and energy.",
        parameters: &[JOB],
        content: Content::Json(of::<api::Job>),
        faults: &[404],
        handler: |params| read(params.id(), |view, id| view.job(id)),
        ..READ
    },
    Route {
        id: "cancelJob",
        verb: Verb::Delete,
        path: "/v1/jobs/{id}",
        need: Need::Submit,
        summary: "Cancel a job",
        description: "Returns once the cancellation is on disk. The gang is stopped afterwards.",
        parameters: &[JOB],
        content: Content::Json(of::<api::Job>),
        faults: &[404, 409],
        handler: |params| run(params.id(), |desk, who, id| async move { desk.cancel(&who, id).await }),
        ..READ
    },
    Route {
        id: "holdJob",
        verb: Verb::Post,
        path: "/v1/jobs/{id}/hold",
        need: Need::Submit,
        summary: "Hold a job",
        description: "It does not run until it is released; if it runs, it is stopped with a checkpoint.",
        parameters: &[JOB],
        content: Content::Json(of::<api::Job>),
        faults: &[404, 409],
        handler: |params| run(params.id(), |desk, who, id| async move { desk.hold(&who, id).await }),
        ..READ
    },
    Route {
        id: "releaseJob",
        verb: Verb::Post,
        path: "/v1/jobs/{id}/release",
        need: Need::Submit,
        summary: "Release a held job",
        description: "It waits for its turn like any other.",
        parameters: &[JOB],
        content: Content::Json(of::<api::Job>),
        faults: &[404, 409],
        handler: |params| run(params.id(), |desk, who, id| async move { desk.release(&who, id).await }),
        ..READ
    },
    Route {
        id: "explainJob",
        path: "/v1/jobs/{id}/explain",
        summary: "Explain a job's state",
        description: "The scheduler's reason, the share granted to the job, and its estimated rate on each kind.",
        parameters: &[JOB],
        content: Content::Json(of::<api::Explanation>),
        faults: &[404, 409],
        handler: |params| run(params.id(), |desk, who, id| async move { desk.explain(&who, id).await }),
        ..READ
    },
    Route {
        id: "getJobLogs",
        path: "/v1/jobs/{id}/logs",
        need: Need::Submit,
        summary: "Read what a job printed",
        description: "A stretch of it, from a byte on. To follow a job that runs, ask again from `next`; when its state is final and `next` is `end`, that was all. Conflict where the engine keeps no output.",
        parameters: &[JOB, STREAM, FROM_BYTE, BYTES],
        content: Content::Json(of::<api::JobLogs>),
        faults: &[404, 409, 503],
        handler: |params| {
            run_raw((params.id(), params.logs()), |desk, who, (id, query)| {
                blocking(move || ApiReply::json(&desk.logs(&who, id, query)?))
            })
        },
        ..READ
    },
    Route {
        id: "reportProgress",
        verb: Verb::Post,
        path: "/v1/jobs/{id}/progress",
        need: Need::Submit,
        summary: "Report progress of a job",
        description: "Sent by the job's own code; returns what to do next: continue, or checkpoint and stop, which is also told to code of jobs that were cancelled or have failed. Answered at once and journalled within about a second. A rate over an undisturbed stretch counts as a measurement.",
        parameters: &[JOB],
        body: Some(Body {
            schema: of::<api::Progress>,
            example: r#"{"steps": 1200, "rate": 3.5, "checkpointed": true}"#,
        }),
        content: Content::Json(of::<api::Instruction>),
        faults: &[404, 409],
        handler: |params| {
            run(
                (params.id(), params.json()?),
                |desk, who, (id, progress)| async move { desk.progress(&who, id, progress) },
            )
        },
        ..READ
    },
    Route {
        id: "getQueue",
        path: "/v1/queue",
        summary: "List waiting jobs and their reasons",
        description: "Oldest first, paginated.",
        parameters: &[LIMIT, CURSOR],
        content: Content::Json(of::<api::Queue>),
        handler: |params| read_page_in_memory(params.page().limit, params.page(), |view, page| view.queue(&page)),
        ..READ
    },
    Route {
        id: "listNodes",
        path: "/v1/nodes",
        summary: "List nodes",
        description: "By number of their first GPU, paginated.",
        parameters: &[LIMIT, CURSOR],
        content: Content::Json(of::<api::Nodes>),
        handler: |params| read_page(params.page().limit, params.page(), |view, page| view.nodes(&page)),
        ..READ
    },
    Route {
        id: "addNode",
        verb: Verb::Post,
        path: "/v1/nodes",
        need: Need::Operate,
        summary: "Add a node",
        description: "One of the same name with other GPUs leaves first. A kind that the library lacks is described by its figures.",
        body: Some(Body { schema: of::<api::NodeRequest>, example: NODE_EXAMPLE }),
        statuses: &[201],
        content: Content::Json(of::<api::Node>),
        faults: &[409],
        handler: |params| {
            run_raw(params.json()?, |desk, who, request| async move {
                Ok(ApiReply::json(&desk.add_node(&who, request).await?)?.status(201))
            })
        },
        ..READ
    },
    Route {
        id: "removeNode",
        verb: Verb::Delete,
        path: "/v1/nodes/{name}",
        need: Need::Operate,
        summary: "Remove a node",
        description: "Its jobs are stopped and wait again. Returns the node as it was.",
        parameters: &[NODE],
        content: Content::Json(of::<api::Node>),
        faults: &[404, 409],
        handler: |params| run(params.name(), |desk, who, name| async move { desk.remove_node(&who, &name).await }),
        ..READ
    },
    Route {
        id: "drainNode",
        verb: Verb::Post,
        path: "/v1/nodes/{name}/drain",
        need: Need::Operate,
        summary: "Drain a node",
        description: "It gets no new jobs. Those that run there may go on until shortly before the deadline; then they are checkpointed and moved.",
        parameters: &[NODE],
        body: Some(Body {
            schema: of::<api::DrainRequest>,
            example: r#"{"why": "replace a fan", "deadline_seconds": 7200}"#,
        }),
        content: Content::Json(of::<api::Node>),
        faults: &[404, 409],
        handler: |params| {
            run((params.name(), params.json()?), |desk, who, (name, request)| async move {
                desk.drain(&who, &name, request).await
            })
        },
        ..READ
    },
    Route {
        id: "undrainNode",
        verb: Verb::Post,
        path: "/v1/nodes/{name}/undrain",
        need: Need::Operate,
        summary: "Undrain a node",
        description: "It gets jobs again.",
        parameters: &[NODE],
        content: Content::Json(of::<api::Node>),
        faults: &[404, 409],
        handler: |params| run(params.name(), |desk, who, name| async move { desk.undrain(&who, &name).await }),
        ..READ
    },
    Route {
        id: "correctKind",
        verb: Verb::Post,
        path: "/v1/nodes/{name}/kind",
        need: Need::Operate,
        summary: "Correct the kind of a node's GPUs",
        description: "The GPUs keep their numbers; jobs that run on this node alone go on.",
        parameters: &[NODE],
        body: Some(Body { schema: of::<api::KindCorrection>, example: r#"{"kind": "a100-80gb"}"# }),
        content: Content::Json(of::<api::Node>),
        faults: &[404, 409],
        handler: |params| {
            run((params.name(), params.json()?), |desk, who, (name, request)| async move {
                desk.correct_kind(&who, &name, request).await
            })
        },
        ..READ
    },
    Route {
        id: "getGpus",
        path: "/v1/gpus",
        summary: "Get all GPUs",
        description: "In columns: entry n of each column is GPU n.",
        content: Content::Json(of::<api::Gpus>),
        handler: |_| read_blocking((), |view, ()| Ok(view.gpus())),
        ..READ
    },
    Route {
        id: "listKinds",
        path: "/v1/kinds",
        summary: "List GPU kinds",
        description: "Total, busy and unavailable GPUs, and power draw, by kind.",
        content: Content::Json(of::<api::Kinds>),
        handler: |_| read((), |view, ()| Ok(view.kinds())),
        ..READ
    },
    Route {
        id: "listWorkloads",
        path: "/v1/workloads",
        summary: "List workloads",
        description: "Names that a job's `workload` accepts.",
        content: Content::Json(of::<api::Workloads>),
        handler: |_| read_blocking((), |view, ()| Ok(view.workloads())),
        ..READ
    },
    Route {
        id: "listTenants",
        path: "/v1/tenants",
        summary: "List tenants",
        description: "Weights, shares, jobs and energy. A tenant's token sees itself only.",
        content: Content::Json(of::<api::Tenants>),
        handler: |_| read((), |view, ()| Ok(view.tenants())),
        ..READ
    },
    Route {
        id: "setTenant",
        verb: Verb::Put,
        path: "/v1/tenants/{name}",
        need: Need::Administer,
        summary: "Set a tenant's weight",
        description: "Creates the tenant if it does not exist.",
        parameters: &[NAME],
        body: Some(Body { schema: of::<api::TenantRequest>, example: r#"{"weight": 2.0}"# }),
        content: Content::Json(of::<api::Tenant>),
        faults: &[409],
        handler: |params| {
            run((params.name(), params.json()?), |desk, who, (name, request)| async move {
                desk.set_tenant(&who, &name, request).await
            })
        },
        ..READ
    },
    Route {
        id: "setQuota",
        verb: Verb::Put,
        path: "/v1/tenants/{name}/quota",
        need: Need::Administer,
        summary: "Set what a tenant may use",
        description: "Replaces its whole quota: whatever is left out is not limited. Submissions beyond `jobs` and `submits_per_second` are \
                      refused; jobs beyond the others wait, and say so.",
        parameters: &[NAME],
        body: Some(Body { schema: of::<api::Quota>, example: r#"{"gpus": 8, "jobs": 1000, "gpu_hours": 500}"# }),
        content: Content::Json(of::<api::Tenant>),
        faults: &[404, 409],
        handler: |params| {
            run((params.name(), params.json()?), |desk, who, (name, quota)| async move {
                desk.set_quota(&who, &name, quota).await
            })
        },
        ..READ
    },
    Route {
        id: "removeTenant",
        verb: Verb::Delete,
        path: "/v1/tenants/{name}",
        need: Need::Administer,
        summary: "Remove a tenant",
        description: "Its tokens are revoked and its history stays. A tenant of the same name that is set later is the same one.",
        parameters: &[NAME, CANCEL],
        content: Content::Json(of::<api::Tenant>),
        faults: &[404, 409],
        handler: |params| {
            run((params.name(), params.choice("cancel") == Some("true")), |desk, who, (name, cancel)| async move {
                desk.remove_tenant(&who, &name, cancel).await
            })
        },
        ..READ
    },
    Route {
        id: "listPolicies",
        path: "/v1/policies",
        summary: "List policies",
        description: "What each guarantees, and which one is current.",
        content: Content::Json(of::<api::Policies>),
        handler: |_| read((), |view, ()| Ok(view.policies())),
        ..READ
    },
    Route {
        id: "setPolicy",
        verb: Verb::Put,
        path: "/v1/policy",
        need: Need::Operate,
        summary: "Switch the policy",
        description: "Takes effect in the next round.",
        body: Some(Body { schema: of::<api::PolicyRequest>, example: r#"{"policy": "max-min-fairness"}"# }),
        content: Content::Json(of::<api::Policy>),
        faults: &[404, 409],
        handler: |params| run(params.json()?, |desk, who, request| async move { desk.set_policy(&who, request).await }),
        ..READ
    },
    Route {
        id: "showPowerBudget",
        path: "/v1/power-budget",
        summary: "Show the power budget",
        description: "What all GPUs together may draw, by the estimates (null for no limit), and what those of racks may.",
        content: Content::Json(of::<api::PowerBudget>),
        handler: |_| run((), |desk, who, ()| async move { desk.power_budget(&who).await }),
        ..READ
    },
    Route {
        id: "setPowerBudget",
        verb: Verb::Put,
        path: "/v1/power-budget",
        need: Need::Operate,
        summary: "Set the power budget",
        description: "Of all GPUs, or of those of a rack or a row of racks. What runs is brought below it at once: under power limits where the \
                      cluster has them, else by stopping jobs with a checkpoint. If that is not enough, an event says by how much and why.",
        body: Some(Body { schema: of::<api::PowerBudgetRequest>, example: r#"{"watts": 12000}"# }),
        content: Content::Json(of::<api::PowerBudget>),
        faults: &[409],
        handler: |params| {
            run(params.json()?, |desk, who, request| async move { desk.set_power_budget(&who, request).await })
        },
        ..READ
    },
    Route {
        id: "showPrices",
        path: "/v1/prices",
        summary: "Show prices of electricity",
        description: "What a kilowatt-hour costs and emits from when on; empty if nobody said.",
        content: Content::Json(of::<api::ElectricityPrices>),
        handler: |_| run((), |desk, who, ()| async move { desk.electricity_prices(&who).await }),
        ..READ
    },
    Route {
        id: "setPrices",
        verb: Verb::Put,
        path: "/v1/prices",
        need: Need::Operate,
        summary: "Set prices of electricity",
        description: "All of them, until a daemon with a file of prices reads it again: when it changes, or a day begins.",
        body: Some(Body {
            schema: of::<api::ElectricityPrices>,
            example: r#"{"prices": [{"from": 0, "per_kwh": 0.31}]}"#,
        }),
        content: Content::Json(of::<api::ElectricityPrices>),
        faults: &[409],
        handler: |params| run(params.json()?, |desk, who, request| async move { desk.put_prices(&who, request).await }),
        ..READ
    },
    Route {
        id: "listEstimates",
        path: "/v1/estimates",
        summary: "List throughput estimates",
        description: "Beside measured rates, paginated.",
        parameters: &[WORKLOAD, LIMIT, CURSOR],
        content: Content::Json(of::<api::Estimates>),
        faults: &[404],
        handler: |params| {
            read_blocking((params.text("workload"), params.page()), |view, (workload, page)| {
                view.estimates(workload.as_deref(), &page)
            })
        },
        ..READ
    },
    Route {
        id: "getAllocation",
        path: "/v1/allocation",
        summary: "Get the current allocation",
        description: "GPUs granted by tenant and kind, fairness, and recent changes.",
        content: Content::Json(of::<api::Allocation>),
        handler: |_| read_blocking((), |view, ()| Ok(view.allocation())),
        ..READ
    },
    Route {
        id: "getAudit",
        path: "/v1/audit",
        summary: "Audit fairness over a time window",
        description: "GPUs by tenant, envy and sharing incentive; everything recorded if no window is given.",
        parameters: &[FROM, TO],
        content: Content::Json(of::<api::Audit>),
        faults: &[422],
        handler: |params| {
            read_blocking((params.number("from"), params.number("to")), |view, (from, to)| view.audit(from, to))
        },
        ..READ
    },
    Route {
        id: "listChanges",
        path: "/v1/log",
        need: Need::Submit,
        summary: "List who changed what",
        description: "Changes that somebody asked for: submissions, cancellations, policies, tenants, nodes, tokens. A tenant's token sees those about its tenant.",
        parameters: &[LOG_TENANT, LOG_JOB, LOG_BY, LOG_KIND, FROM, TO, ORDER, LIMIT, CURSOR],
        content: Content::Json(of::<api::Log>),
        faults: &[422],
        handler: |params| read_blocking(params.log(), |view, query| view.log(&query)),
        ..READ
    },
    Route {
        id: "getSeries",
        path: "/v1/series",
        summary: "Get the cluster over time",
        description: "Utilisation, queue, power, shares and fairness: by the minute for the last hours, by the hour for the last year. The last six hours if no window is given.",
        parameters: &[FROM, TO, POINTS],
        content: Content::Json(of::<api::Series>),
        faults: &[422],
        handler: |params| {
            let window = (params.number("from"), params.number("to"));
            read_blocking((window, params.integer("points")), |view, ((from, to), points)| {
                view.series(from, to, points.map(|points| points.min(u64::from(u32::MAX)) as u32))
            })
        },
        ..READ
    },
    Route {
        id: "getEnergy",
        path: "/v1/energy",
        summary: "Get energy accounts",
        description: "By job, tenant or kind over a time window, paginated.",
        parameters: &[BY, FROM, TO, LIMIT, CURSOR],
        content: Content::Json(of::<api::EnergyAccount>),
        faults: &[422],
        handler: |params| {
            let window = (params.number("from"), params.number("to"));
            read_blocking((params.energy_by(), window, params.page()), |view, (by, (from, to), page)| {
                view.energy(by, from, to, &page)
            })
        },
        ..READ
    },
    Route {
        id: "forecastJob",
        verb: Verb::Post,
        path: "/v1/dry-run/job",
        summary: "Forecast when and where a job would run",
        description: "Simulated on a copy of the scheduler; nothing is submitted.",
        body: Some(Body { schema: of::<api::JobRequest>, example: JOB_EXAMPLE }),
        content: Content::Json(of::<api::Forecast>),
        faults: &[404, 409],
        handler: |params| run(params.json()?, |desk, who, job| async move { desk.forecast_job(&who, job).await }),
        ..READ
    },
    Route {
        id: "forecastPolicy",
        verb: Verb::Post,
        path: "/v1/dry-run/policy",
        need: Need::Read,
        summary: "Forecast what another policy would change",
        description: "Simulated on a copy of the scheduler; the policy stays as it is.",
        body: Some(Body { schema: of::<api::PolicyRequest>, example: r#"{"policy": "oef-coop"}"# }),
        content: Content::Json(of::<api::PolicyForecast>),
        faults: &[404, 409],
        handler: |params| {
            run(params.json()?, |desk, who, request| async move { desk.forecast_policy(&who, request).await })
        },
        ..READ
    },
    Route {
        id: "listen",
        path: "/v1/events",
        summary: "Stream events",
        description: "Server-sent events: `id` is the event's number, `event` its `what`, `data` its JSON (schema `Event`). \
                      `event: reset` means that some events were dropped: read everything again, and continue from its `id`. \
                      A comment is sent every 15 seconds.",
        parameters: &[AFTER, LAST_EVENT],
        content: Content::Text(&["text/event-stream"]),
        handler: |params| Ok(Target::Events(params.integer("Last-Event-ID").or_else(|| params.integer("after")))),
        ..READ
    },
    Route {
        id: "listTokens",
        path: "/v1/tokens",
        need: Need::Administer,
        summary: "List tokens",
        description: "Without their secrets, which are not stored.",
        content: Content::Json(of::<api::Tokens>),
        handler: |_| run((), |desk, _, ()| async move { desk.tokens() }),
        ..READ
    },
    Route {
        id: "makeToken",
        verb: Verb::Post,
        path: "/v1/tokens",
        need: Need::Administer,
        summary: "Create a token",
        description: "The response contains the secret, which is returned only here.",
        body: Some(Body {
            schema: of::<api::TokenRequest>,
            example: r#"{"name": "vision-ci", "scope": "tenant", "tenant": "vision"}"#,
        }),
        statuses: &[201],
        content: Content::Json(of::<api::Token>),
        faults: &[404, 409],
        handler: |params| {
            run_raw(params.json()?, |desk, who, request| async move {
                let token = desk.make_token(request)?;
                desk.note_token(&who, "token-create", &token);
                Ok(ApiReply::json(&token)?.status(201))
            })
        },
        ..READ
    },
    Route {
        id: "rotateToken",
        verb: Verb::Post,
        path: "/v1/tokens/{name}/rotate",
        need: Need::Administer,
        summary: "Replace a token's secret",
        description: "The response contains the new secret, which is returned only here. The old one works for the overlap.",
        parameters: &[TOKEN],
        body: Some(Body { schema: of::<api::RotateRequest>, example: r#"{"overlap_seconds": 3600}"# }),
        content: Content::Json(of::<api::Token>),
        faults: &[404, 409],
        handler: |params| {
            run(
                (params.name(), params.json()?),
                |desk, who, (name, request): (String, api::RotateRequest)| async move {
                    let token = desk.rotate_token(&who, &name, &request)?;
                    desk.note_token(&who, "token-rotate", &token);
                    Ok(token)
                },
            )
        },
        ..READ
    },
    Route {
        id: "dropToken",
        verb: Verb::Delete,
        path: "/v1/tokens/{name}",
        need: Need::Administer,
        summary: "Revoke a token",
        description: "Revoke a token immediately.",
        parameters: &[TOKEN],
        content: Content::Json(of::<api::Token>),
        faults: &[404, 409],
        handler: |params| {
            run(params.name(), |desk, who, name| async move {
                let token = desk.drop_token(&who, &name)?;
                desk.note_token(&who, "token-revoke", &token);
                Ok(token)
            })
        },
        ..READ
    },
];
