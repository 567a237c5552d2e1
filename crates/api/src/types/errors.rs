//! What a failed request returns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error response.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// What went wrong, for programs and for people.
    pub error: FaultBody,
}

/// An error, and what to do about it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FaultBody {
    /// Machine-readable code; stable across versions.
    pub code: String,
    /// Human-readable message: what was given and what was expected.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}
