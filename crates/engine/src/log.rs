//! What a virtual cluster did, as a log that depends on nobody's word: one JSON object a line, in the order of the deeds.

use arles_core::Time;
use arles_core::scheduler::{GangReport, Order};
use serde::{Deserialize, Serialize};

/// One thing that happened to the cluster.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LogLine {
    /// When, in the world's time.
    pub at: Time,
    /// Written flat into the line.
    #[serde(flatten)]
    pub deed: LogEvent,
}

/// What was done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogEvent {
    /// An order was done, or had been done before, or is being done (a gang that saves before it stops).
    Done(Order),
    /// An order was not done, and never will be.
    Refused(Order, String),
    /// A gang left its GPUs.
    Ended(GangReport),
    /// From here on this term is obeyed.
    Led(u64),
    /// An order of this term came after a later one was obeyed, and was not done.
    Late(u64, Order),
}
