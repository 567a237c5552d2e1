//! Whole numbers in requests.

use serde::Deserialize;

/// A number of GPUs, also where it is written as `4.0`: JSON has one type of number, and JSON Schema calls that an integer.
pub(super) fn gpus<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = serde_json::Number::deserialize(from)?;
    let exact = number.as_u64().or_else(|| number.as_f64().filter(|v| v.fract() == 0.0 && *v >= 0.0).map(|v| v as u64));
    exact.and_then(|value| u32::try_from(value).ok()).ok_or_else(|| {
        serde::de::Error::custom(format!("{number} is not a number of GPUs; expected a whole number, 1 or more"))
    })
}
