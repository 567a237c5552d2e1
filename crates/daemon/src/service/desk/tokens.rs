//! Tokens: creating, replacing, listing and revoking them.

use super::Desk;
use crate::Refusal;
use crate::access::{self, Caller, Scope};
use crate::service::credentials::now;
use crate::store::{Deed, Store, StoreError, StoredToken};
use arles_api as api;
use std::sync::{MutexGuard, PoisonError};

/// Least overlap of a caller's own token, in seconds: time to save the new secret, and to try again.
const OWN_OVERLAP: f64 = 60.0;

impl Desk {
    /// Creates a token; the response is the only place where its secret appears.
    ///
    /// # Errors
    /// When the name is taken or the tenant is not known.
    pub fn make_token(&self, request: api::TokenRequest) -> Result<api::Token, Refusal> {
        let name = super::name("token-name", "token name", &request.name, 100)?;
        if Caller::is_tokenless(&name) {
            let message = format!("'{name}' is what callers without a token are called");
            return Err(Refusal::unprocessable("token-name", message, "use another name"));
        }
        match (&request.tenant, request.scope) {
            (Some(tenant), Scope::Tenant) => drop(self.tenant(tenant)?),
            (None, Scope::Tenant) => {
                return Err(Refusal::unprocessable(
                    "tenant",
                    "a token of scope tenant needs a tenant",
                    "name the tenant",
                ));
            }
            (Some(_), scope) => {
                return Err(Refusal::unprocessable(
                    "tenant",
                    format!("a token of scope {scope} has no tenant"),
                    "leave the tenant out, or use the scope tenant",
                ));
            }
            (None, _) => {}
        }
        let (mut token, secret) = fresh_token(&name, request.scope, request.tenant);
        token.expires = request.expires_seconds.map(|seconds| token.created + seconds.ceil() as i64);
        let kept = self.token_store().put_token(&token).map_err(|error| not_written(&error))?;
        self.shared.leads()?;
        if !kept {
            return Err(Refusal::conflict(
                "token-exists",
                format!("a token named '{}' already exists", token.name),
                "use another name, or revoke the existing token first",
            ));
        }
        self.shared.load_tokens().map_err(|error| not_written(&error))?;
        Ok(api::Token { secret: Some(secret), ..shown(token) })
    }

    /// Revokes a token, at once.
    ///
    /// # Errors
    /// When there is none of that name, or it is the caller's own.
    pub fn drop_token(&self, who: &Caller, name: &str) -> Result<api::Token, Refusal> {
        if who.name == name && !Caller::is_tokenless(name) {
            return Err(Refusal::conflict(
                "own-token",
                format!("'{}' is the token that this request uses", name.escape_debug()),
                "revoke it with another admin token, so that nobody is locked out",
            ));
        }
        let mut store = self.token_store();
        let token = find(&store, name)?;
        store.drop_token(name).map_err(|error| not_written(&error))?;
        self.shared.leads()?;
        drop(store);
        self.shared.load_tokens().map_err(|error| not_written(&error))?;
        Ok(shown(token))
    }

    /// Notes in the log of changes that somebody created, replaced or revoked a token.
    pub fn note_token(&self, who: &Caller, kind: &str, token: &api::Token) {
        let what = match kind {
            "token-create" => "created",
            "token-rotate" => "replaced the secret of",
            _ => "revoked",
        };
        let of = token.tenant.as_ref().map_or(String::new(), |tenant| format!(" of tenant {tenant}"));
        let actor = who.actor();
        let deed = Deed {
            at: self.shared.clock.now(),
            name: actor.name,
            address: actor.from,
            kind: kind.to_owned(),
            tenant: token.tenant.clone(),
            text: format!("{what} token {} with scope {}{of}", token.name.escape_debug(), token.scope),
            ..Deed::default()
        };
        let noted = self.token_store().note_deed(&deed);
        if let Err(error) = noted {
            crate::store::log_error(&error);
        }
    }

    /// Gives a token a new secret, which only this response tells. The old one works for the overlap, and no longer than it would have.
    ///
    /// # Errors
    /// When there is none of that name, or it is the caller's own and would end before the caller can use the new one.
    pub fn rotate_token(&self, who: &Caller, name: &str, request: &api::RotateRequest) -> Result<api::Token, Refusal> {
        if who.name == name && !Caller::is_tokenless(name) && request.overlap_seconds < OWN_OVERLAP {
            return Err(Refusal::conflict(
                "own-token",
                format!("'{}' is the token that this request uses", name.escape_debug()),
                format!(
                    "give it an overlap of {OWN_OVERLAP} s or more, so that nobody is locked out if the response is lost"
                ),
            ));
        }
        let mut store = self.token_store();
        let old = find(&store, name)?;
        let (secret, now) = (access::new_secret(), now());
        // A token that was made for so long is made for as long again.
        let lifetime = old.expires.map(|expires| (expires - old.rotated.unwrap_or(old.created)).max(1));
        let expires = request.expires_seconds.map(|seconds| seconds.ceil() as i64).or(lifetime).map(|life| now + life);
        let until = now + request.overlap_seconds.ceil() as i64;
        let until = old.expires.map_or(until, |expires| expires.min(until));
        let hash = access::hash(&secret);
        store.rotate_token(&old, &hash, now, expires, until).map_err(|error| not_written(&error))?;
        drop(store);
        self.shared.leads()?;
        self.shared.load_tokens().map_err(|error| not_written(&error))?;
        Ok(api::Token { secret: Some(secret), ..shown(StoredToken { hash, expires, rotated: Some(now), ..old }) })
    }

    /// All tokens, without their secrets.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn tokens(&self) -> Result<api::Tokens, Refusal> {
        let tokens = self.shared.history(Store::tokens)?;
        let last_use = self.shared.credentials.last_use();
        let with_use = |token: StoredToken| {
            let used = last_use.get(&token.name).copied().or(token.used);
            shown(StoredToken { used, ..token })
        };
        Ok(api::Tokens { tokens: tokens.into_iter().map(with_use).collect() })
    }

    fn token_store(&self) -> MutexGuard<'_, Store> {
        self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token of a name.
fn find(store: &Store, name: &str) -> Result<StoredToken, Refusal> {
    let all = store.tokens().map_err(|error| not_written(&error))?;
    all.into_iter().find(|token| token.name == name).ok_or_else(|| {
        Refusal::not_found(
            "no-such-token",
            format!("there is no token named '{}'", name.escape_debug()),
            "GET /v1/tokens lists them",
        )
    })
}

pub(super) fn not_written(error: &StoreError) -> Refusal {
    crate::store::log_error(error);
    Refusal::unavailable("journal", "the journal cannot be written", "see the server's log")
}

/// A new token and its secret.
#[must_use]
pub fn fresh_token(name: &str, scope: Scope, tenant: Option<String>) -> (StoredToken, String) {
    let secret = access::new_secret();
    let token = StoredToken {
        name: name.to_owned(),
        hash: access::hash(&secret),
        scope: scope.name().to_owned(),
        tenant,
        created: now(),
        id: access::random_hex(8),
        expires: None,
        used: None,
        rotated: None,
    };
    (token, secret)
}

fn shown(token: StoredToken) -> api::Token {
    let StoredToken { name, scope, tenant, created, expires, used, rotated, .. } = token;
    let seconds = |time: Option<i64>| time.map(|time| time as f64);
    api::Token {
        name,
        scope,
        tenant,
        created_at: created as f64,
        expires_at: seconds(expires),
        rotated_at: seconds(rotated),
        last_used_at: seconds(used),
        secret: None,
    }
}
