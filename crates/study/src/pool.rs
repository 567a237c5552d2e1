//! Many small things at once, their results in order.

use super::Plan;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// `work` for every item, on the plan's threads. What comes back stands in the order of the items, so threads change
/// nothing but the time it takes.
///
/// # Panics
/// If `work` does.
pub(super) fn each<T: Sync, R: Send>(plan: &Plan<'_>, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let cells: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                while let Some((i, item)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?)))
                {
                    let result = work(item);
                    *cells[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    (plan.progress)(done as f64 / items.len() as f64);
                }
            });
        }
    });
    let results = cells.into_iter().map(|cell| cell.into_inner().unwrap_or_else(PoisonError::into_inner));
    results.map(|result| result.expect("every item was worked on")).collect()
}
