//! The one error of the API.

use arles_api::{Fault, FaultBody};

/// Why a request was refused. It changed nothing.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{message}; {hint}")]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// Machine-readable code; stable across versions.
    pub code: &'static str,
    /// What was given and what was expected.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// Seconds after which a retry makes sense.
    pub retry_after_seconds: Option<f64>,
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident => $status:literal),* $(,)?) => {
        impl Refusal {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
                Self { status: $status, code, message: message.into(), hint: hint.into(), retry_after_seconds: None }
            })*
        }
    };
}

refusals! {
    /// The request is malformed.
    bad_request => 400,
    /// There is no valid token.
    unauthorized => 401,
    /// The caller is not allowed to do this.
    forbidden => 403,
    /// Not found, or not visible to the caller.
    not_found => 404,
    /// The path exists, but not for this method.
    method_not_allowed => 405,
    /// The request conflicts with the current state.
    conflict => 409,
    /// The body is larger than allowed.
    too_large => 413,
    /// The body is not JSON.
    not_json => 415,
    /// The request is well-formed but invalid.
    unprocessable => 422,
    /// The rate limit is exceeded.
    too_many => 429,
    /// The service cannot process the request now.
    unavailable => 503,
}

impl Refusal {
    /// The same with a time to retry after.
    #[must_use]
    pub fn retry_after(mut self, seconds: f64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// The response body.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault {
            error: FaultBody { code: self.code.to_owned(), message: self.message.clone(), hint: self.hint.clone() },
        }
    }
}
