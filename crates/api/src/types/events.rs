//! Events of the stream `/v1/events`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An event: the data of a server-sent event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Event number; increases by one with every event.
    pub id: u64,
    /// Time of the event.
    pub at: f64,
    /// `submitted`, `started`, `stopped`, `completed`, `failed`, `cancelled`, `requeued`, `round`, `policy`, `tenant`,
    /// `node`, `trouble`.
    pub what: String,
    /// Job that the event is about, if any.
    pub job: Option<u64>,
    /// Tenant of that job.
    pub tenant: Option<String>,
    /// Human-readable text.
    pub text: String,
}
