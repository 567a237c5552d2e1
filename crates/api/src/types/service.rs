//! The server itself: status, health, tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Server status, and the caller's scope.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// Version of arles.
    pub version: String,
    /// Execution backend, such as `virtual`.
    pub engine: String,
    /// Speed of the scheduler's clock relative to wall-clock time.
    pub speed: f64,
    /// Current time on the scheduler's clock.
    pub now: f64,
    /// Current round.
    pub round: u64,
    /// Seconds between scheduling rounds.
    pub round_seconds: f64,
    /// Current policy.
    pub policy: String,
    /// Throughput estimator.
    pub estimator: String,
    /// GPUs of the cluster.
    pub gpus: u32,
    /// Jobs that are not in a terminal state.
    pub live_jobs: u64,
    /// Scope of the caller's token: `admin`, `operator`, `read` or `tenant`.
    pub scope: String,
    /// Tenant of the caller's token, for the scope `tenant`.
    pub tenant: Option<String>,
    /// Number of the latest event, to start a stream from.
    pub last_event: u64,
    /// Current power draw of the cluster in watts.
    pub watts: f64,
}

/// An API token. The secret is returned once, when it is made, and is not stored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Token name; unique.
    pub name: String,
    /// `admin`, `operator`, `read` or `tenant`.
    pub scope: String,
    /// Tenant, for the scope `tenant`.
    pub tenant: Option<String>,
    /// Time of creation in wall-clock time.
    pub created_at: f64,
    /// When it expires, in wall-clock time; `null` for never.
    #[serde(default)]
    pub expires_at: Option<f64>,
    /// When its secret was last replaced, in wall-clock time.
    #[serde(default)]
    pub rotated_at: Option<f64>,
    /// When it was last used, in wall-clock time; after a crash of the server up to a minute too early.
    #[serde(default)]
    pub last_used_at: Option<f64>,
    /// The secret; only in the response that created or replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// All API tokens.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// Tokens by name.
    pub tokens: Vec<Token>,
}

/// A token to create.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// Token name; unique.
    #[schemars(length(min = 1, max = 100))]
    pub name: String,
    /// Scope of the token.
    pub scope: crate::Scope,
    /// Tenant, for the scope `tenant`.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub tenant: Option<String>,
    /// Seconds until it expires; without it, never.
    #[serde(default)]
    #[schemars(range(min = 1.0, max = 1e9))]
    pub expires_seconds: Option<f64>,
}

/// How a token's secret is replaced.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateRequest {
    /// Seconds for which the old secret still works.
    #[serde(default = "an_hour")]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub overlap_seconds: f64,
    /// Seconds until the new secret expires; without it as long as the old one was made for, or never.
    #[serde(default)]
    #[schemars(range(min = 1.0, max = 1e9))]
    pub expires_seconds: Option<f64>,
}

fn an_hour() -> f64 {
    3600.0
}

/// Health of the server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Whether the check passed.
    pub ok: bool,
    /// Failed checks.
    pub trouble: Vec<String>,
}
