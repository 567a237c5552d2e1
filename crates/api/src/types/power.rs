//! Power budgets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What GPUs may draw: all together, and those of racks.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PowerBudget {
    /// Most watts of all GPUs together, by the estimates; null for no limit.
    pub watts: Option<f64>,
    /// Most watts of racks, or of what racks stand in.
    #[serde(default)]
    pub racks: Vec<RackBudget>,
}

/// What the GPUs of a rack may draw together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RackBudget {
    /// Name of the rack, or of what racks stand in: `row-1` is above `row-1/rack-3`.
    pub rack: String,
    /// Most watts, by the estimates.
    pub watts: f64,
}

/// A power budget that is to be set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerBudgetRequest {
    /// Most watts, by the estimates; null for no limit.
    #[schemars(range(min = 0))]
    pub watts: Option<f64>,
    /// The rack that it is for, or what racks stand in; all GPUs if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
}

/// Electricity by the hour, as the scheduler knows it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ElectricityPrices {
    /// In order of time; the first also holds before it begins, the last until others are set. Empty: not known.
    pub prices: Vec<ElectricityPrice>,
}

/// What electricity costs from a moment on, until the next begins.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ElectricityPrice {
    /// Since when, in seconds since 1970.
    #[schemars(range(min = 0, max = 253_402_300_799_i64))]
    pub from: f64,
    /// Price of a kilowatt-hour, in whatever money; it may be below 0.
    pub per_kwh: f64,
    /// Kilograms of CO₂ that a kilowatt-hour emits.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub kg_per_kwh: f64,
}
