//! Scheduling policies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A scheduling policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Policy name.
    pub name: String,
    /// What it optimises.
    pub summary: String,
    /// Properties that it guarantees, as `arles policies` lists them.
    pub promises: Vec<String>,
    /// Whether this is the current policy.
    pub current: bool,
}

/// All scheduling policies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Policies {
    /// Policies in the order of `arles policies`.
    pub policies: Vec<Policy>,
}

/// A policy to switch to, or to try in a dry run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// Policy name.
    #[schemars(length(min = 1, max = 200))]
    pub policy: String,
}
