//! Calls: a request of the API with its arguments parsed, and the function that answers it.
//!
//! A route's handler reads its parameters and returns a call made by [`read`], [`read_blocking`], [`read_page`], [`run`] or [`run_raw`]; the server runs it on the
//! desk. Nothing here knows a route: what there is to call is in the table of routes alone.

use super::internal;
use super::routes::Target;
use crate::Refusal;
use crate::access::Caller;
use crate::service::aside;
use crate::service::desk::Desk;
use crate::views::View;
use bytes::Bytes;
use serde::Serialize;
use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;

/// Entries of a page that is made in no time.
const SHORT_PAGE: u32 = 100;
/// And up to so many are made where they were asked for.
const FEW_LINES: u32 = 32;

/// A JSON response, ready to be sent.
#[derive(Clone, PartialEq, Debug)]
pub struct ApiReply {
    /// HTTP status.
    pub status: u16,
    /// The JSON document.
    pub body: Bytes,
    /// URL of the created resource.
    pub location: Option<String>,
}

impl ApiReply {
    /// An answer as JSON.
    ///
    /// # Errors
    /// If it cannot be written as JSON, which is nobody's fault but ours.
    pub fn json<T: Serialize>(value: &T) -> Result<Self, Refusal> {
        let body = serde_json::to_vec(value).map_err(|error| super::internal(&error.to_string()))?;
        Ok(Self { status: 200, body: body.into(), location: None })
    }

    /// The same with another status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

type Reply = Pin<Box<dyn Future<Output = Result<ApiReply, Refusal>> + Send>>;

/// A parsed request of the API, to be run once. Its `Debug` shows the arguments.
pub struct ApiCall(Box<dyn Call>);

trait Call: Debug + Send {
    fn run(self: Box<Self>, desk: Desk, who: Caller) -> Reply;
}

struct Parsed<A, F> {
    arguments: A,
    answer: F,
}

impl<A: Debug, F> Debug for Parsed<A, F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.arguments.fmt(out)
    }
}

impl<A, F, R> Call for Parsed<A, F>
where
    A: Debug + Send,
    F: FnOnce(Desk, Caller, A) -> R + Send,
    R: Future<Output = Result<ApiReply, Refusal>> + Send + 'static,
{
    fn run(self: Box<Self>, desk: Desk, who: Caller) -> Reply {
        Box::pin((self.answer)(desk, who, self.arguments))
    }
}

impl Debug for ApiCall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl ApiCall {
    pub(super) async fn run(self, desk: Desk, who: Caller) -> Result<ApiReply, Refusal> {
        self.0.run(desk, who).await
    }
}

/// Runs a function of the desk that makes the reply itself: its status, its headers.
pub(super) fn run_raw<A, F, R>(arguments: A, answer: F) -> Result<Target, Refusal>
where
    A: Debug + Send + 'static,
    F: FnOnce(Desk, Caller, A) -> R + Send + 'static,
    R: Future<Output = Result<ApiReply, Refusal>> + Send + 'static,
{
    Ok(Target::Call(ApiCall(Box::new(Parsed { arguments, answer }))))
}

/// Runs a function of the desk and answers with what it returns, as JSON.
pub(super) fn run<A, F, R, T>(arguments: A, answer: F) -> Result<Target, Refusal>
where
    A: Debug + Send + 'static,
    F: FnOnce(Desk, Caller, A) -> R + Send + 'static,
    R: Future<Output = Result<T, Refusal>> + Send + 'static,
    T: Serialize,
{
    run_raw(arguments, |desk, who, arguments| async { ApiReply::json(&answer(desk, who, arguments).await?) })
}

/// A method of a view.
pub(super) type ViewFn<A, T> = fn(&View<'_>, A) -> Result<T, Refusal>;

/// Reads a view, at once: for answers that are short and in memory.
pub(super) fn read<A, T>(arguments: A, answer: ViewFn<A, T>) -> Result<Target, Refusal>
where
    A: Debug + Send + 'static,
    T: Serialize + 'static,
{
    run(arguments, move |desk, who, arguments| async move { answer(&desk.view(&who), arguments) })
}

/// Reads a view on a thread of its own: for answers that go to the disk, or take long to serialise.
pub(super) fn read_blocking<A, T>(arguments: A, answer: ViewFn<A, T>) -> Result<Target, Refusal>
where
    A: Debug + Send + 'static,
    T: Serialize + 'static,
{
    run_raw(arguments, move |desk, who, arguments| {
        blocking(move || ApiReply::json(&answer(&desk.view(&who), arguments)?))
    })
}

/// Reads a page of a list as [`read_blocking`] does; of a long one, what is made of it steps back behind everybody's short requests. What is read does not:
/// a thread that has stepped back may be kept from its processor for as long as anybody else wants it, and if it holds the book just then the event loop
/// waits for it, and everybody for the loop.
pub(super) fn read_page<A, T>(limit: Option<u32>, arguments: A, answer: ViewFn<A, T>) -> Result<Target, Refusal>
where
    A: Debug + Send + 'static,
    T: Serialize + Send + 'static,
{
    if limit.is_none_or(|limit| limit <= SHORT_PAGE) {
        return read_blocking(arguments, answer);
    }
    run_raw(arguments, move |desk, who, arguments| async move {
        let page = blocking(move || answer(&desk.view(&who), arguments)).await?;
        let shown = aside::run(move || ApiReply::json(&page)).await;
        shown.unwrap_or_else(|| Err(internal("a list was not made")))
    })
}

/// Reads a page of a list that is in memory: a few lines at once, where handing them to another thread and back takes longer than making them; more as
/// [`read_page`] does.
pub(super) fn read_page_in_memory<A, T>(
    limit: Option<u32>,
    arguments: A,
    answer: ViewFn<A, T>,
) -> Result<Target, Refusal>
where
    A: Debug + Send + 'static,
    T: Serialize + Send + 'static,
{
    match limit.is_some_and(|limit| limit <= FEW_LINES) {
        true => read(arguments, answer),
        false => read_page(limit, arguments, answer),
    }
}

/// Runs what takes long beside the threads that serve connections. A panic there goes on here.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    }
}
