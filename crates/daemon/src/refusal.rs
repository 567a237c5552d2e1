//! The one error of the API.

use arles_api::{Fault, FaultBody};
use std::fmt;

/// Why a request is not done. Nothing has changed because of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// For programs; stable.
    pub code: &'static str,
    /// For people: what was given and what was expected.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// Whoever was too fast, or too early, may try again after so many seconds.
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
    /// The request makes no sense.
    bad_request => 400,
    /// Nobody knows who is asking.
    unauthorized => 401,
    /// The caller may not do this.
    forbidden => 403,
    /// There is no such thing, or none that the caller may see.
    not_found => 404,
    /// The path is right and the method is not.
    method_not_allowed => 405,
    /// It does not go with what is already there.
    conflict => 409,
    /// The body is larger than allowed.
    too_large => 413,
    /// The body is not JSON.
    not_json => 415,
    /// The request can be read and asks for something impossible.
    unprocessable => 422,
    /// The caller is too fast.
    too_many => 429,
    /// The server cannot do it now.
    unavailable => 503,
}

impl Refusal {
    /// The same with a time to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: f64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// As the API says it.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault {
            error: FaultBody { code: self.code.to_owned(), message: self.message.clone(), hint: self.hint.clone() },
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.hint)
    }
}

impl std::error::Error for Refusal {}
