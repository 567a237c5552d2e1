//! What can go wrong on the way to a server and back.

use crate::FaultBody;
use std::fmt;

/// Why there is no answer, or not the one hoped for.
#[derive(Clone, PartialEq, Debug)]
pub enum ClientError {
    /// Nothing was sent: address, token or file are of no use.
    Setup(String),
    /// Nobody was there, or they went away.
    Unreachable(String),
    /// The server is there and refused.
    Refused {
        /// HTTP status.
        status: u16,
        /// What and why, in the server's words.
        fault: FaultBody,
        /// When to try again.
        retry_after_seconds: Option<f64>,
    },
    /// Something answered that does not speak as arles does.
    Garbled(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(text) | Self::Unreachable(text) | Self::Garbled(text) => f.write_str(text),
            Self::Refused { fault, .. } => write!(f, "{}; {}", fault.message, fault.hint),
        }
    }
}

impl std::error::Error for ClientError {}
