//! What is said between [`serve`](crate::serve) and [`Remote`](crate::Remote): a line of JSON each way for every call of an engine, after one
//! each way that says who is calling.

use arles_core::engine::{EngineReport, JobMeter, LiveJob, Mandate, OrderReply};
use arles_core::scheduler::{GangReport, Order};
use arles_core::{Cluster, JobId, NodeId, Time};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Changes whenever a line comes to mean something else.
pub(crate) const PROTOCOL: u32 = 2;

/// The first line of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello<'a> {
    pub(crate) protocol: u32,
    /// Tells one driver from another on the same mandate: its connections have it in common.
    pub(crate) session: Cow<'a, str>,
    pub(crate) mandate: Cow<'a, Mandate>,
}

/// Why somebody is not obeyed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Denial {
    pub(crate) why: String,
    /// A later term is obeyed: there is no use in asking again.
    pub(crate) deposed: bool,
}

/// The answer to it.
pub(crate) type Welcome = Result<(), Denial>;

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
    /// A later term is obeyed now.
    #[serde(default)]
    pub(crate) deposed: bool,
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
