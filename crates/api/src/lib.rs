//! The API of the daemon: the types of its requests and responses, and a client.
//!
//! No server, no database and no scheduler in here, so that whoever only talks to a daemon builds only this.

pub mod client;
pub mod pem;
mod scope;
pub mod socket;
mod types;

pub use scope::Scope;
pub use types::*;
