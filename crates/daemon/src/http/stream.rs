//! Server-sent events: `GET /v1/events`.
//!
//! One task a listener reads the desk's events a batch at a time and hands them to the connection through a short queue. A listener
//! that takes nothing for a while is dropped: it comes back with `Last-Event-ID` and misses nothing. So no listener ever holds more
//! than a few batches of memory, and nobody waits for one. A stream ends with the token that opened it.

use super::backend::{Backend, Ending};
use crate::access::Caller;
use crate::service::seats::Seat;
use arles_api::Event;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a listener may not read anything.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);
/// Events in a batch, and batches in the queue.
const BATCH: usize = 256;
const QUEUE: usize = 4;
/// Pause after a batch: where much happens, a listener hears of it twenty times a second and not once a commit.
const PAUSE: Duration = Duration::from_millis(50);

/// The body of the response: what the task sends, until it ends.
pub(super) struct Frames {
    queue: mpsc::Receiver<Bytes>,
    /// When this is over, so is the stream.
    until: Option<Ending>,
}

impl Frames {
    /// Ends the stream when something is over: the token of whoever listens.
    pub(super) fn end_with(&mut self, until: Ending) {
        self.until = Some(until);
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.until.as_mut().is_some_and(|until| until.as_mut().poll(context).is_ready()) {
            // The task hears of it by the queue that is closed; what still waits in it is nobody's any more.
            self.until = None;
            self.queue.close();
            return Poll::Ready(None);
        }
        self.queue.poll_recv(context).map(|batch| batch.map(|batch| Ok(Frame::data(batch))))
    }
}

/// Begins to listen for somebody. `count` tells how many listen.
pub(super) fn listen<B: Backend>(
    backend: B,
    who: Caller,
    after: Option<u64>,
    stop: watch::Receiver<bool>,
    seat: Seat,
    count: impl Fn() -> u64 + Send + 'static,
) -> Frames {
    let (sender, queue) = mpsc::channel(QUEUE);
    backend.listeners(count());
    tokio::spawn(async move {
        tokio::select! {
            () = tell(backend.clone(), who, after, &sender) => {}
            () = super::door::stopped(stop) => {}
        }
        drop(seat);
        backend.listeners(count());
    });
    Frames { queue, until: None }
}

async fn tell<B: Backend>(backend: B, who: Caller, after: Option<u64>, queue: &mpsc::Sender<Bytes>) {
    let mut after = after.unwrap_or_else(|| backend.last_event(&who));
    // Headers go out with the first bytes, so that a listener knows that it listens.
    let mut text = String::from("retry: 2000\n\n");
    loop {
        let more = match backend.events(&who, after, BATCH) {
            Some((events, newest)) if newest >= after => {
                events.iter().for_each(|event| write_event(&mut text, event));
                let full = events.len() >= BATCH;
                after = if full { events.last().map_or(newest, |event| event.id) } else { newest };
                full
            }
            // Forgotten, or from before the journal began anew.
            _ => {
                after = backend.last_event(&who);
                let _ = write!(text, "id: {after}\nevent: reset\ndata: {{}}\n\n");
                false
            }
        };
        if !text.is_empty() {
            if !send(queue, std::mem::take(&mut text)).await {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        if more {
            continue;
        }
        tokio::select! {
            () = backend.wait_for_event(after) => {}
            () = tokio::time::sleep(HEARTBEAT) => text.push_str(": keep-alive\n\n"),
            () = queue.closed() => return,
        }
    }
}

async fn send(queue: &mpsc::Sender<Bytes>, text: String) -> bool {
    matches!(tokio::time::timeout(SEND_TIMEOUT, queue.send(text.into())).await, Ok(Ok(())))
}

fn write_event(text: &mut String, event: &Event) {
    let data = serde_json::to_string(event).unwrap_or_else(|_| "{}".into());
    // A line break in `what` would end the field; no `what` has one.
    let _ = write!(text, "id: {}\nevent: {}\ndata: {data}\n\n", event.id, event.what.replace(['\r', '\n'], " "));
}
