//! What programs print.

use super::jobs::JobState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stretch of what a job printed. Bytes are counted from the first that the job ever printed, those that are no longer kept included.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobLogs {
    /// Job number.
    pub job: u64,
    /// Its state. Of a job that is over nothing follows after `end`.
    pub state: JobState,
    /// The first byte that is still kept.
    pub oldest: u64,
    /// The first byte of `text`: what was asked for, or later if that is not kept.
    pub from: u64,
    /// What was printed. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Where to ask from next.
    pub next: u64,
    /// How many bytes were printed so far.
    pub end: u64,
}
