//! Authentication, authorization and rate limits.
//!
//! Secrets come in the header `Authorization` and nowhere else: no cookies, so no page can borrow a browser's rights, and no query
//! strings, which end up in logs. Where somebody on this machine needs no token, a web page must not become that somebody: only
//! requests that were addressed to this machine by name are answered, and nothing is changed for a page from elsewhere.

use super::rate_limit::{RateLimiter, peer};
use super::remote::Remote;
use super::routes::{Route, Verb};
use super::{Backend, Options};
use crate::Refusal;
use crate::access::{BadToken, Caller, Need};
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use std::net::IpAddr;
use std::time::Instant;

/// Limits, and what is remembered for them.
pub(super) struct Authorizer {
    open_loopback: bool,
    by_token: RateLimiter<String>,
    by_peer: RateLimiter<IpAddr>,
    failures: RateLimiter<IpAddr>,
}

impl Authorizer {
    pub(super) fn new(options: &Options) -> Self {
        let (rate, burst) = (options.requests_per_second, options.burst);
        Self {
            open_loopback: options.open_loopback,
            by_token: RateLimiter::new(rate, burst),
            by_peer: RateLimiter::new(rate, burst),
            failures: RateLimiter::new(options.failures_per_second, (2.0 * options.failures_per_second).max(1.0)),
        }
    }

    /// Rate-limits requests without a token: the dashboard, unknown paths.
    pub(super) fn admit_anonymous(&self, from: Remote) -> Result<(), Refusal> {
        self.by_peer.take(&peer(from.address()), Instant::now()).map_err(rate_limited)
    }

    /// The caller of a request, if its route needs one and accepts it.
    pub(super) fn authorize<B: Backend>(
        &self,
        backend: &B,
        route: &Route,
        headers: &HeaderMap,
        from: Remote,
    ) -> Result<Option<Caller>, Refusal> {
        if self.open_loopback {
            check_host(headers)?;
            if route.verb != Verb::Get {
                check_origin(headers)?;
            }
        }
        if route.need == Need::Nobody {
            if !route.is_health() {
                self.admit_anonymous(from)?;
            }
            return Ok(None);
        }
        let who = self.identify(backend, headers, from)?;
        self.by_token.take(who.name.as_str(), Instant::now()).map_err(rate_limited)?;
        if !route.need.met_by(who.scope) {
            return Err(Refusal::forbidden(
                "scope-too-small",
                format!("a token of scope {} is not allowed to {} {}", who.scope, route.verb.name(), route.path),
                format!("use a token of scope {}", scopes(route.need)),
            ));
        }
        if who.job.is_some() && !route.for_jobs() {
            return Err(Refusal::forbidden(
                "job-token",
                format!("the token of {} is not allowed to {} {}", who.name, route.verb.name(), route.path),
                "a job's own token only reports its progress; use a user's token",
            ));
        }
        Ok(Some(who))
    }

    fn identify<B: Backend>(&self, backend: &B, headers: &HeaderMap, from: Remote) -> Result<Caller, Refusal> {
        let hint = "send 'Authorization: Bearer <token>'; an admin creates tokens with 'arles token'";
        let refusal = match headers.get(AUTHORIZATION) {
            None if from.is_owner() => return Ok(Caller::local()),
            None if self.open_loopback && from.is_loopback() => return Ok(Caller::loopback()),
            None => Refusal::unauthorized("no-token", "a token is required", hint),
            Some(_) => match bearer(headers).map(|secret| backend.caller(secret)) {
                Some(Ok(who)) => return Ok(who),
                Some(Err(bad)) => bad_token(&bad),
                None => Refusal::unauthorized("no-token", "the Authorization header is not 'Bearer <token>'", hint),
            },
        };
        // Only failures are counted, so nobody's bad guesses lock out a good token from the same address.
        self.failures.take(&peer(from.address()), Instant::now()).map_err(rate_limited)?;
        if headers.contains_key(AUTHORIZATION) {
            tracing::warn!(remote = %from, "authentication failed: {}", refusal.message);
        }
        Err(refusal)
    }
}

fn bad_token(bad: &BadToken) -> Refusal {
    match bad {
        BadToken::Unknown => Refusal::unauthorized(
            "no-token",
            "invalid or revoked token",
            "send 'Authorization: Bearer <token>'; an admin creates tokens with 'arles token'",
        ),
        BadToken::Expired { name, seconds } => Refusal::unauthorized(
            "token-expired",
            format!("token '{}' expired {} ago", name.escape_debug(), ago(*seconds)),
            "an admin gives it a new secret with 'arles token rotate'",
        ),
        BadToken::Replaced { name, seconds } => Refusal::unauthorized(
            "token-rotated",
            format!("this secret of token '{}' was replaced and ended {} ago", name.escape_debug(), ago(*seconds)),
            "use the new secret; an admin makes another with 'arles token rotate'",
        ),
    }
}

/// A span of time in its largest unit.
fn ago(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// The secret of a request, where it has one.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    secret(headers.get(AUTHORIZATION)?.as_bytes())
}

fn secret(header: &[u8]) -> Option<&str> {
    let (scheme, secret) = std::str::from_utf8(header).ok()?.split_once(' ')?;
    let secret = secret.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !secret.is_empty() && secret.len() <= 512).then_some(secret)
}

fn rate_limited(seconds: f64) -> Refusal {
    let message = "rate limit exceeded";
    Refusal::too_many("too-fast", message, format!("try again in {:.1} s", seconds.max(0.1))).retry_after(seconds)
}

/// Scopes that are enough, in words.
pub(super) fn scopes(need: Need) -> &'static str {
    match need {
        Need::Nobody => "none",
        Need::Anybody => "any",
        Need::Read => "read, operator or admin",
        Need::Submit => "tenant, operator or admin",
        Need::Operate => "operator or admin",
        Need::Administer => "admin",
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("(not ASCII)"))
}

fn check_host(headers: &HeaderMap) -> Result<(), Refusal> {
    let host = text(headers, HOST).unwrap_or_default();
    if is_loopback_name(host) {
        return Ok(());
    }
    Err(Refusal::forbidden(
        "foreign-host",
        format!("the Host header is '{}'; without tokens only requests to localhost are accepted", shown(host)),
        "use http://localhost or http://127.0.0.1, or configure the server with tokens",
    ))
}

fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = text(headers, ORIGIN) else { return Ok(()) };
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    if own.is_some_and(|own| Some(own) == text(headers, HOST) && is_loopback_name(own)) {
        return Ok(());
    }
    Err(Refusal::forbidden(
        "foreign-origin",
        format!("cross-origin request from '{}'; without tokens a page of another origin may only read", shown(origin)),
        "use the dashboard of this server, or configure the server with tokens",
    ))
}

fn shown(text: &str) -> String {
    super::params::short(text)
}

/// Whether a host, with or without a port, is this machine under a name that no other can take.
fn is_loopback_name(host: &str) -> bool {
    let bare = match host.rsplit_once(':') {
        Some((bare, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => bare,
        _ => host,
    };
    bare.eq_ignore_ascii_case("localhost") || bare == "127.0.0.1" || bare == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_ours() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080"] {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.nip.io:80", "localhost:", "::1", "localhost:80@x"]
        {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    #[test]
    fn bearer_and_a_secret() {
        assert_eq!(secret(b"Bearer abc"), Some("abc"));
        assert_eq!(secret(b"bearer  abc "), Some("abc"));
        for wrong in [&b"abc"[..], b"Bearer", b"Bearer ", b"Basic abc", b"Bearer \xff", b""] {
            assert_eq!(secret(wrong), None);
        }
    }
}
