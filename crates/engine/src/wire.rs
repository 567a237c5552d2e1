//! What is said between [`serve`](crate::serve) and [`Remote`](crate::Remote): a line of JSON each way for every call of an engine.

use arles_core::engine::{EngineReport, JobMeter, LiveJob, OrderReply};
use arles_core::scheduler::{GangReport, Order};
use arles_core::{Cluster, JobId, NodeId, Time};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A question. Every one says what time it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    pub(crate) now: Time,
    pub(crate) call: Call<'a>,
}

/// One for each method.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Call<'a> {
    SetCluster(Cow<'a, Cluster>),
    Roll(Cow<'a, [LiveJob]>),
    Enrol(Cow<'a, LiveJob>),
    Dismiss(JobId),
    Apply(Cow<'a, Order>),
    News,
    Survey { asked_at: Time },
    FailNode(NodeId),
    RestoreNode(NodeId),
}

/// An answer. Every one says when something will next happen, since that is asked without waiting.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) next_event: Option<Time>,
    pub(crate) reply: Result<Reply, String>,
}

/// What comes back, by kind of call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    Meters(Vec<JobMeter>),
    Meter(Option<JobMeter>),
    Done,
    OrderReply(OrderReply),
    News(Vec<GangReport>),
    EngineReport(Box<EngineReport>),
}
