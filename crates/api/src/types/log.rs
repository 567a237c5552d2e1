//! The log of changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kinds of changes, as the log names them.
pub const CHANGE_KINDS: &[&str] =
    &["submit", "cancel", "hold", "release", "policy", "tenant", "node", "token-create", "token-revoke", "change"];

/// A change that somebody asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoggedChange {
    /// Number of the change; later ones are larger.
    pub id: u64,
    /// Time of the change.
    pub at: f64,
    /// Name of the token; `loopback` where none was required, `configuration` for what the configuration changed at a start.
    pub by: String,
    /// Address that the request came from. A tenant sees only those of its own token.
    pub from: Option<String>,
    /// `submit`, `cancel`, `hold`, `release`, `policy`, `tenant`, `node`, `token-create`, `token-revoke` or `change`.
    pub kind: String,
    /// Tenant that the change is about, if any.
    pub tenant: Option<String>,
    /// Job that the change is about, if any; of an array, its first.
    pub job: Option<u64>,
    /// Human-readable text.
    pub text: String,
}

/// A page of the log of changes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// Changes in the requested order.
    pub changes: Vec<LoggedChange>,
    /// Cursor of the next page; `null` on the last.
    pub next: Option<String>,
}
