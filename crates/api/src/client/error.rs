//! Errors of the client.

use crate::FaultBody;

/// Why a request failed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing was sent: address, token or certificate file cannot be used.
    #[error("{0}")]
    Setup(String),
    /// The server does not respond, or closed the connection.
    #[error("{0}")]
    Unreachable(String),
    /// The server refused the request.
    #[error("{}; {}", fault.message, fault.hint)]
    Refused {
        /// HTTP status.
        status: u16,
        /// The server's error.
        fault: FaultBody,
        /// Seconds after which to retry.
        retry_after_seconds: Option<f64>,
    },
    /// The response is not one of arles.
    #[error("{0}")]
    Garbled(String),
}
