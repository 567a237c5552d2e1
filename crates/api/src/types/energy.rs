//! Energy accounts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Energy by what it was used for.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Energy {
    /// Energy used for computing.
    pub active_joules: f64,
    /// Idle power of GPUs while they were held.
    pub idle_joules: f64,
    /// Energy lost to restarts; missing for kinds, where it is among what was used for computing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_joules: Option<f64>,
}

impl Energy {
    /// The sum; energy that is missing counts as none.
    #[must_use]
    pub fn joules(&self) -> f64 {
        self.active_joules + self.idle_joules + self.restart_joules.unwrap_or(0.0)
    }
}

/// Energy of a job, tenant or GPU kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EnergyRow {
    /// Job number, tenant or kind.
    pub name: String,
    /// Energy of GPUs held by jobs.
    pub energy: Energy,
    /// Energy of unused GPUs; for kinds only, and missing for a kind under a power limit, since an unused GPU is under none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_joules: Option<f64>,
    /// GPU seconds held.
    pub gpu_seconds: f64,
    /// What it cost, in the money of the prices that were known then; missing where none were, and for jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Kilograms of CO₂ that it emitted, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carbon_kg: Option<f64>,
}

/// Energy accounts over a time window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EnergyAccount {
    /// Grouping: `job`, `tenant` or `kind`.
    pub by: String,
    /// Start of the window, as precisely as it is recorded.
    pub from: f64,
    /// End of the window, as precisely as it is recorded.
    pub to: f64,
    /// Accounts; jobs live and ended, newest first.
    pub rows: Vec<EnergyRow>,
    /// Energy of the whole cluster, unused GPUs included; a tenant's token sees its own total.
    pub total_joules: f64,
    /// Where the figures come from: measured by what, estimated, or simulated. Empty where that is not known.
    #[serde(default)]
    pub source: String,
    /// `cursor` of the next page; `null` on the last one.
    pub next: Option<String>,
}
