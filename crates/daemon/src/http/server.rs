//! One request, one response.
//!
//! The order of things: is there such a route, may the caller, is the request well formed, what does the desk say. A panic on the
//! way becomes a response with status 500 and a line in the log, and the connection goes on.

use super::authorize::Authorizer;
use super::backend::Backend;
use super::call::ApiReply;
use super::params::{Params, short};
use super::remote::Remote;
use super::routes::{self, Route, RouteMatch, Target};
use super::seats::Ticket;
use super::turns::Turns;
use super::{Options, assets, authorize, internal, openapi, stream};
use crate::Refusal;
use crate::access::Caller;
use crate::service::seats::{SeatLimits, Seats, Taken};
use arles_api as api;
use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    LOCATION, REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Request, Response, StatusCode};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a body that is too large is still read.
const DRAIN_LIMIT: usize = 1 << 20;

/// How long a caller waits to hear that it asks too fast.
const REFUSAL_PAUSE: Duration = Duration::from_millis(200);

const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const CONTENT_RULES: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                             form-action 'self'; frame-ancestors 'none'";

pub(super) type HttpResponse = Response<Either<Full<Bytes>, stream::Frames>>;

/// What all connections share.
pub(super) struct Server<B> {
    backend: B,
    authorizer: Authorizer,
    body_limit: usize,
    log_requests: bool,
    openapi: Bytes,
    listeners: Arc<Seats>,
    turns: Turns,
    stop: watch::Receiver<bool>,
    /// Number of the last request, for the log and whoever wants to find a request in it.
    requests: AtomicU64,
}

impl<B: Backend> Server<B> {
    pub(super) fn new(backend: B, options: &Options, stop: watch::Receiver<bool>) -> Self {
        Self {
            backend,
            authorizer: Authorizer::new(options),
            body_limit: options.body_limit,
            log_requests: options.log_requests,
            openapi: openapi::text().into(),
            listeners: Seats::new(listener_limits(options.listeners)),
            turns: Turns::default(),
            stop,
            requests: AtomicU64::new(0),
        }
    }

    /// Responds, whatever happens.
    pub(super) async fn serve(&self, request: Request<Incoming>, from: Remote, ticket: &Ticket) -> HttpResponse {
        let began = Instant::now();
        ticket.begin();
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let line = self.log_requests.then(|| (request.method().clone(), request.uri().path().to_owned()));
        let mut name = None;
        let answered = caught(Box::pin(self.answer(request, from, ticket, &mut name))).await;
        let mut answer = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(refusal)) => refused(&refusal),
            Err(()) => refused(&internal("a request panicked")),
        };
        answer.headers_mut().insert(HeaderName::from_static("x-request-id"), HeaderValue::from(number));
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            // Whoever asks too fast and does not wait as it is told gets the next refusal no sooner: refusing must cost less than asking.
            tokio::time::sleep(REFUSAL_PAUSE).await;
        }
        self.backend.answered(answer.status().as_u16(), began.elapsed());
        if let Some((method, path)) = line {
            let (status, name) = (answer.status().as_u16(), name.as_deref().unwrap_or("-"));
            let ms = (began.elapsed().as_secs_f64() * 1e4).round() / 10.0;
            let path = short(&path);
            tracing::info!(id = number, remote = %from, token = name, %method, path, status, ms, "request");
        }
        // A stream goes on for as long as its connection does.
        if matches!(answer.body(), Either::Left(_)) {
            ticket.end();
        }
        answer
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        from: Remote,
        ticket: &Ticket,
        name: &mut Option<String>,
    ) -> Result<HttpResponse, Refusal> {
        let (head, body) = request.into_parts();
        // Before tokens: a daemon that stands by knows none.
        if !matches!(head.uri.path(), "/healthz" | "/readyz")
            && let Some(refusal) = self.backend.standby()
        {
            return Err(refusal);
        }
        let (route, segment) = match routes::find(&head.method, head.uri.path()) {
            RouteMatch::Found(route, segment) => (route, segment),
            RouteMatch::WrongMethod(allowed) => {
                self.authorizer.admit_anonymous(from)?;
                return Ok(wrong_method(&head.method, head.uri.path(), &allowed));
            }
            RouteMatch::NotFound => {
                self.authorizer.admit_anonymous(from)?;
                return Err(not_found(head.uri.path()));
            }
        };
        if ticket.is_spare() && !route.is_health() {
            return Err(no_seat());
        }
        let who = self.authorizer.authorize(&self.backend, route, &head.headers, from)?;
        let who = who.map(|who| Caller { address: from.network_address(), ..who });
        if let Some(who) = &who {
            ticket.know();
            *name = Some(who.name.clone());
        }
        let body = if route.body.is_some() { self.read(&head.headers, body).await? } else { Bytes::new() };
        let params = Params::read(route, segment, head.uri.query(), &head.headers, body)?;
        let target = (route.handler)(&params)?;
        let _turn = match &who {
            Some(who) if matches!(target, Target::Call(_)) => Some(self.turns.wait(who, route.takes_long()).await),
            _ => None,
        };
        let mut answer = self.ask(route, who, target).await?;
        if let (Either::Right(frames), Some(secret)) = (answer.body_mut(), authorize::bearer(&head.headers)) {
            frames.end_with(self.backend.token_ended(secret));
        }
        Ok(answer)
    }

    async fn ask(&self, route: &'static Route, who: Option<Caller>, ask: Target) -> Result<HttpResponse, Refusal> {
        match ask {
            Target::Health => health(&self.backend.health()),
            Target::Ready => health(&self.backend.ready()),
            Target::OpenApi => Ok(respond(StatusCode::OK, JSON, self.openapi.clone())),
            Target::Asset(name) => asset(name),
            Target::Metrics => {
                let text = self.backend.metrics().await;
                Ok(respond(StatusCode::OK, PROMETHEUS, text.into()))
            }
            Target::Events(after) => self.listen(known(route, who)?, after),
            Target::Call(call) => Ok(replied(self.backend.answer(known(route, who)?, route, call).await?)),
        }
    }

    fn listen(&self, who: Caller, after: Option<u64>) -> Result<HttpResponse, Refusal> {
        let seat = self.listeners.take(&who).map_err(|taken| {
            let poll = "close some, or poll every few seconds instead";
            match taken {
                Taken::All => {
                    let message = "the limit of open event streams is reached";
                    let hint = "try again later, or poll every few seconds instead";
                    Refusal::unavailable("too-many-listeners", message, hint)
                }
                Taken::Tenant(most) => {
                    let message = format!("a tenant may have {most} event streams open at once");
                    Refusal::too_many("too-many-listeners", message, poll)
                }
                Taken::Token(most) => {
                    let message = format!("a token may have {most} event streams open at once");
                    Refusal::too_many("too-many-listeners", message, poll)
                }
            }
            .retry_after(10.0)
        })?;
        let listeners = Arc::clone(&self.listeners);
        let count = move || listeners.taken() as u64;
        let frames = stream::listen(self.backend.clone(), who, after, self.stop.clone(), seat, count);
        let mut answer = Response::new(Either::Right(frames));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // Proxies that buffer would keep events to themselves.
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        Ok(answer)
    }

    async fn read(&self, headers: &HeaderMap, body: Incoming) -> Result<Bytes, Refusal> {
        let media_type = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
        if !media_type.is_some_and(is_json) {
            let message = match media_type {
                Some(other) => format!("the body has type '{}'; expected application/json", short(other)),
                None => "the body has no Content-Type; expected application/json".to_owned(),
            };
            return Err(Refusal::not_json("not-json", message, "send JSON with 'Content-Type: application/json'"));
        }
        let limit = self.body_limit;
        let too_large = || {
            let message = format!("the body is larger than {limit} bytes");
            Refusal::too_large("too-large", message, "send a smaller body")
        };
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > limit as u64) {
            drain(body).await;
            return Err(too_large());
        }
        match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, limit).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(_)) => {
                let message = "the body is incomplete, or its framing is invalid";
                Err(Refusal::bad_request("broken-body", message, "send it again"))
            }
            Err(_) => Err(Refusal {
                status: 408,
                code: "slow-body",
                message: format!("the body was not received within {} s", BODY_TIMEOUT.as_secs()),
                hint: "check the connection and send the request again".into(),
                retry_after_seconds: None,
            }),
        }
    }
}

/// Of so many event streams an eighth is never a tenant's; a tenant has an eighth, and a token of it half of that.
fn listener_limits(all: usize) -> SeatLimits {
    let tenant = (all / 8).max(1);
    SeatLimits {
        all,
        tenants: (all - all / 8).max(1),
        tenant,
        token: (tenant / 2).max(1),
        other_token: (all / 2).max(1),
    }
}

fn known(route: &Route, who: Option<Caller>) -> Result<Caller, Refusal> {
    who.ok_or_else(|| internal(&format!("{} was authorized without a caller", route.id)))
}

fn no_seat() -> Refusal {
    let message = "the limit of open connections is reached";
    Refusal::unavailable("too-many-connections", message, "try again in a second, and reuse connections")
        .retry_after(1.0)
}

/// Reads a part of a body that is refused. A connection that is closed with bytes unread is reset, and the sender would never see why.
async fn drain(mut body: Incoming) {
    let mut left = DRAIN_LIMIT;
    let drained = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), drained).await;
}

fn is_json(media_type: &str) -> bool {
    let (essence, parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
    let utf8 = |parameter: &str| {
        parameter.trim().split_once('=').is_none_or(|(name, value)| {
            !name.eq_ignore_ascii_case("charset") || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
    };
    essence.trim().eq_ignore_ascii_case(JSON) && parameters.split(';').all(utf8)
}

fn health(health: &api::Health) -> Result<HttpResponse, Refusal> {
    Ok(replied(ApiReply::json(health)?.status(if health.ok { 200 } else { 503 })))
}

fn asset(name: &str) -> Result<HttpResponse, Refusal> {
    let file = assets::find(name).ok_or_else(|| not_found(name))?;
    let mut answer = respond(StatusCode::OK, file.media_type, Bytes::from_static(file.bytes));
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_RULES));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    Ok(answer)
}

fn not_found(path: &str) -> Refusal {
    let message = format!("no such path: '{}'", short(path));
    Refusal::not_found("no-such-path", message, "/openapi.json lists all paths")
}

fn wrong_method(method: &hyper::Method, path: &str, allowed: &[&str]) -> HttpResponse {
    let message = format!("method {} is not allowed for '{}'", short(method.as_str()), short(path));
    let allowed = allowed.join(", ");
    let hint = format!("expected one of {allowed}");
    let mut answer = refused(&Refusal::method_not_allowed("wrong-method", message, hint));
    if let Ok(value) = HeaderValue::try_from(allowed) {
        answer.headers_mut().insert(ALLOW, value);
    }
    answer
}

fn respond(status: StatusCode, media_type: &'static str, body: Bytes) -> HttpResponse {
    let mut answer = Response::new(Either::Left(Full::new(body)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

fn replied(reply: ApiReply) -> HttpResponse {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = respond(status, JSON, reply.body);
    if let Some(location) = reply.location.and_then(|location| HeaderValue::try_from(location).ok()) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

/// A refusal as a response.
pub(super) fn refused(refusal: &Refusal) -> HttpResponse {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(&refusal.fault()).unwrap_or_default();
    let mut answer = respond(status, JSON, body.into());
    let headers = answer.headers_mut();
    if let Some(seconds) = refusal.retry_after_seconds {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds.ceil().clamp(1.0, 86_400.0) as u64));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    answer
}

/// Runs a future to its end or to its panic.
async fn caught<T>(mut future: Pin<Box<impl Future<Output = T>>>) -> Result<T, ()> {
    std::future::poll_fn(move |context| {
        // Whatever a handler was changing when it panicked is behind the desk, which looks after itself.
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Err(_) => Poll::Ready(Err(())),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_json() {
        for yes in ["application/json", "Application/JSON; charset=utf-8", "application/json;charset=\"UTF-8\"; v=1"] {
            assert!(is_json(yes), "{yes}");
        }
        for no in ["", "text/plain", "application/jsonx", "application/json; charset=latin-1", "application/x-json"] {
            assert!(!is_json(no), "{no}");
        }
    }
}
