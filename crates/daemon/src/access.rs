//! Who may do what.
//!
//! A token is 256 random bits; what is kept is its SHA-256. (A password would need a slow hash; nobody can guess this.) Scopes form
//! two ladders: admin ⊃ operator ⊃ read over everything, and tenant over what is its own.

pub use arles_api::Scope;

/// What a route asks of its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Nothing: health, the OpenAPI file, the dashboard's empty page.
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

/// Who is asking.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Name of the token; `loopback` where none was asked for.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// Whose it is, for the scope `tenant`.
    pub tenant: Option<String>,
}

impl Caller {
    /// Somebody on this machine, where that is enough.
    #[must_use]
    pub fn loopback() -> Self {
        Self { name: "loopback".into(), scope: Scope::Admin, tenant: None }
    }

    /// Whether things of this tenant may be seen.
    #[must_use]
    pub fn sees(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }
}

/// A fresh secret.
///
/// # Panics
/// If the system has no randomness to give.
#[must_use]
pub fn new_secret() -> String {
    use ring::rand::SecureRandom;
    let mut bytes = [0_u8; 32];
    ring::rand::SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    format!("arles_{}", hex(&bytes))
}

/// What is kept of a secret.
#[must_use]
pub fn hash(secret: &str) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, secret.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
