//! What is said between [`serve`](super::serve) and [`Remote`](super::Remote): a line of JSON each way for every call of an engine.

use arles_core::engine::{Enrolled, JobMeter, Sighting, Told};
use arles_core::scheduler::{Order, Report};
use arles_core::{JobId, NodeId, Time};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A question. Every one says what time it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request<'a> {
    pub(super) now: Time,
    pub(super) call: Call<'a>,
}

/// One for each method.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Call<'a> {
    Roll(Cow<'a, [Enrolled]>),
    Enrol(Cow<'a, Enrolled>),
    Dismiss(JobId),
    Apply(Cow<'a, Order>),
    News,
    Survey { asked_at: Time },
    FailNode(NodeId),
    RestoreNode(NodeId),
}

/// An answer. Every one says when something will next happen, since that is asked without waiting.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) next_event: Option<Time>,
    pub(super) reply: Result<Reply, String>,
}

/// What comes back, by kind of call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Meters(Vec<JobMeter>),
    Meter(Option<JobMeter>),
    Done,
    Told(Told),
    News(Vec<Report>),
    Sighting(Box<Sighting>),
}
