//! A trade-off as it is drawn: power saved, speed kept by all together, and by whoever keeps least.

use serde::Serialize;

/// One answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FrontierPoint {
    /// What was asked for, in words: "5 %" given up, or a budget of "8 kW".
    pub asked: String,
    /// What all GPUs draw.
    pub watts: f64,
    /// The part of the power of the first point that is saved.
    pub saved_ratio: f64,
    /// The part of all speed of the first point that is kept.
    pub kept_ratio: f64,
    /// The part of its own speed that is kept by whoever keeps least.
    pub worst_off_kept_ratio: f64,
    /// By how much more than its own somebody would have of another's GPUs, at worst; 0 where nobody envies anybody.
    pub envy_ratio: f64,
    /// Tenant and workload, as the trace calls them.
    pub worst_off: String,
}

/// The whole curve.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FrontierRecord {
    /// What is asked for: "given up" or "budget".
    pub swept: &'static str,
    /// Point by point, from no sacrifice on.
    pub points: Vec<FrontierPoint>,
    /// Where more costs more than it saves, if there is such a point.
    pub knee: Option<usize>,
    /// What the curve says.
    pub words: String,
}
