//! The cluster over time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Utilisation, queue, power, shares and fairness over a window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Length of a point's stretch in seconds: finer for the last hours than for the last weeks.
    pub resolution_seconds: f64,
    /// GPU kinds; `busy` and `usable` of each point index them.
    pub kinds: Vec<String>,
    /// Tenants that the caller may see; `tenants` of each point indexes them.
    pub tenants: Vec<String>,
    /// Oldest first. Stretches in which the daemon did not run are missing.
    pub points: Vec<SeriesPoint>,
}

/// Averages over one stretch of time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SeriesPoint {
    /// Start of the stretch.
    pub at: f64,
    /// Seconds of it that were recorded.
    pub seconds: f64,
    /// GPUs in use, by kind.
    pub busy: Vec<f64>,
    /// GPUs that could be used, by kind.
    pub usable: Vec<f64>,
    /// Power draw of all GPUs.
    pub watts: f64,
    /// Jobs waiting.
    pub waiting: f64,
    /// Jobs holding GPUs.
    pub running: f64,
    /// GPUs held, by tenant.
    pub tenants: Vec<f64>,
    /// Strongest envy among tenants in the allocation in force, by the policy's own estimates; `null` if there was none.
    pub worst_envy: Option<f64>,
    /// Lowest sharing ratio among tenants, judged in the same way.
    pub least_sharing: Option<f64>,
}
