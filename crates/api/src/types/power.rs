//! The power budget.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What all GPUs together may draw.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerBudget {
    /// Most watts, by the estimates; null for no limit.
    #[schemars(range(min = 0))]
    pub watts: Option<f64>,
}
