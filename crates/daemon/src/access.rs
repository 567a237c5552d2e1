//! Who may do what: scopes and tokens.
//!
//! A token is 256 random bits; what is kept is its SHA-256. (A password would need a slow hash; 256 random bits cannot be guessed.) Scopes form
//! two ladders: admin ⊃ operator ⊃ read over everything, and tenant over what is its own.

pub use arles_api::Scope;

use crate::store::entry::Actor;
use std::net::IpAddr;

/// Scope that a route requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// No token: health, the OpenAPI file, the files of the dashboard.
    Nobody,
    /// Any token. What belongs to other tenants is left out of the answer for a tenant's.
    Anybody,
    /// `read`, `operator` or `admin`.
    Read,
    /// `tenant` (for its own), `operator` or `admin`.
    Submit,
    /// `operator` or `admin`.
    Operate,
    /// `admin`.
    Administer,
}

impl Need {
    /// Whether a scope is enough.
    #[must_use]
    pub fn met_by(self, scope: Scope) -> bool {
        match self {
            Self::Nobody | Self::Anybody => true,
            Self::Read => scope >= Scope::Read,
            Self::Submit => scope == Scope::Tenant || scope >= Scope::Operator,
            Self::Operate => scope >= Scope::Operator,
            Self::Administer => scope >= Scope::Admin,
        }
    }
}

/// An authenticated caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Name of the token; `loopback` where none was asked for.
    pub name: String,
    /// What tells it from later tokens of the same name.
    pub id: String,
    /// Scope of the token.
    pub scope: Scope,
    /// Tenant of the token, for the scope `tenant`.
    pub tenant: Option<String>,
    /// Where the request came from, if it came over a network.
    pub address: Option<IpAddr>,
    /// The job whose own code this is: it may report that job's progress and nothing else.
    pub job: Option<u64>,
}

impl Caller {
    /// A caller on this machine, where no token is required.
    #[must_use]
    pub fn loopback() -> Self {
        Self {
            name: "loopback".into(),
            id: "loopback".into(),
            scope: Scope::Admin,
            tenant: None,
            address: None,
            job: None,
        }
    }

    /// The daemon's own configuration, which changes things at a start.
    #[must_use]
    pub fn configuration() -> Self {
        Self { name: "configuration".into(), id: "configuration".into(), ..Self::loopback() }
    }

    /// Who it is, for the journal and the log of changes.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor { name: self.name.clone(), from: self.address.map(|address| address.to_canonical().to_string()) }
    }

    /// The user that runs the daemon, or root, through the socket in the state folder.
    #[must_use]
    pub fn local() -> Self {
        Self { name: "local".into(), id: "local".into(), scope: Scope::Admin, tenant: None, address: None, job: None }
    }

    /// Whether no token stands behind it. No token has these names.
    #[must_use]
    pub fn is_tokenless(name: &str) -> bool {
        matches!(name, "loopback" | "local")
    }

    /// Whose requests are queued and counted together: those of a tenant, and those of everybody who is of none.
    pub(crate) fn lane(&self) -> &str {
        self.tenant.as_deref().unwrap_or("")
    }

    /// Whether things of this tenant may be seen.
    #[must_use]
    pub fn sees(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }
}

/// Why a secret is of no use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadToken {
    /// It never was one, or its token was revoked.
    Unknown,
    /// Its token has expired.
    Expired {
        /// Name of the token.
        name: String,
        /// How long ago.
        seconds: i64,
    },
    /// Its token has another secret now.
    Replaced {
        /// Name of the token.
        name: String,
        /// How long ago this one ended.
        seconds: i64,
    },
}

/// A new random secret.
///
/// # Panics
/// If the system has no randomness to give.
#[must_use]
pub fn new_secret() -> String {
    format!("arles_{}", random_hex(32))
}

/// So many random bytes, in hexadecimal digits.
pub(crate) fn random_hex(bytes: usize) -> String {
    use ring::rand::SecureRandom;
    let mut random = vec![0_u8; bytes];
    ring::rand::SystemRandom::new().fill(&mut random).expect("the system has a source of random bytes");
    hex(&random)
}

/// The hash that is stored of a secret.
#[must_use]
pub fn hash(secret: &str) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, secret.as_bytes()).as_ref())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
