//! Tokens: creating, listing and revoking them.

use super::Desk;
use crate::access::{self, Caller, Scope};
use crate::store::{Deed, Store, StoreError, StoredToken};
use crate::{Refusal, clock};
use arles_api as api;
use std::sync::PoisonError;

impl Desk {
    /// Creates a token; the response is the only place where its secret appears.
    ///
    /// # Errors
    /// When the name is taken or the tenant is not known.
    pub fn make_token(&self, request: api::TokenRequest) -> Result<api::Token, Refusal> {
        let name = &request.name;
        if name.is_empty() || name.len() > 100 || name.chars().any(char::is_control) {
            return Err(Refusal::unprocessable(
                "token-name",
                format!("'{}' is not a valid token name", name.escape_debug()),
                "use 1 to 100 printable characters",
            ));
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
        let (token, secret) = fresh_token(&request.name, request.scope, request.tenant);
        let kept = self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner).put_token(&token);
        let kept = kept.map_err(|error| not_written(&error))?;
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
        if who.name == name && (Caller { address: None, ..who.clone() }) != Caller::loopback() {
            return Err(Refusal::conflict(
                "own-token",
                format!("'{}' is the token that this request uses", name.escape_debug()),
                "revoke it with another admin token, so that nobody is locked out",
            ));
        }
        let mut store = self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let all = store.tokens().map_err(|error| not_written(&error))?;
        let Some(token) = all.into_iter().find(|token| token.name == name) else {
            return Err(Refusal::not_found(
                "no-such-token",
                format!("there is no token named '{}'", name.escape_debug()),
                "GET /v1/tokens lists them",
            ));
        };
        store.drop_token(name).map_err(|error| not_written(&error))?;
        self.shared.leads()?;
        drop(store);
        self.shared.load_tokens().map_err(|error| not_written(&error))?;
        Ok(shown(token))
    }

    /// Notes in the log of changes that somebody created or revoked a token.
    pub fn note_token(&self, who: &Caller, kind: &str, token: &api::Token) {
        let what = if kind == "token-create" { "created" } else { "revoked" };
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
        let noted = self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner).note_deed(&deed);
        if let Err(error) = noted {
            crate::store::log_error(&error);
        }
    }

    /// All tokens, without their secrets.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn tokens(&self) -> Result<api::Tokens, Refusal> {
        let tokens = self.shared.history(Store::tokens)?;
        Ok(api::Tokens { tokens: tokens.into_iter().map(shown).collect() })
    }
}

fn not_written(error: &StoreError) -> Refusal {
    crate::store::log_error(error);
    Refusal::unavailable("journal", "the journal cannot be written", "see the server's log")
}

/// A new token and its secret.
#[must_use]
pub fn fresh_token(name: &str, scope: Scope, tenant: Option<String>) -> (StoredToken, String) {
    let secret = access::new_secret();
    let created = (clock::wall().0 / 1_000_000) as i64;
    let token = StoredToken {
        name: name.to_owned(),
        hash: access::hash(&secret),
        scope: scope.name().to_owned(),
        tenant,
        created,
    };
    (token, secret)
}

fn shown(token: StoredToken) -> api::Token {
    let StoredToken { name, scope, tenant, created, .. } = token;
    api::Token { name, scope, tenant, created_at: created as f64, secret: None }
}
