//! What a token may do. Scopes form two ladders: admin ⊃ operator ⊃ read over everything, and tenant over what is its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Scope of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Submits, sees and cancels jobs of one tenant.
    Tenant,
    /// Sees everything, changes nothing.
    Read,
    /// Also submits and cancels jobs of any tenant, and switches the policy.
    Operator,
    /// Also sets tenants and manages tokens.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Tenant, Self::Read, Self::Operator, Self::Admin];

    /// As the API writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Read => "read",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// The scope of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
