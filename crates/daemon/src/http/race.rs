//! Whichever of two comes first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Which of two came first.
pub(super) enum First<L, R> {
    Left(L),
    Right(R),
}

/// Waits for the first of two; the other is dropped. The left one goes first where both are there.
pub(super) async fn first<L, R>(left: impl Future<Output = L>, right: impl Future<Output = R>) -> First<L, R> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(move |context| {
        if let Poll::Ready(value) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(value));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}
