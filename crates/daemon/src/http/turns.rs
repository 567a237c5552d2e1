//! A tenant's requests take turns: a few are worked on at once, and of long ones (lists, dry runs) one, with a rest after it.
//!
//! Requests that come in by the dozen would otherwise be worked on in one wave, and everybody else's wait until it has passed. A page of a thousand jobs
//! or a dry run takes a thread for milliseconds: whoever asks for it again and again would have a core to itself, so a tenant's long requests rest seven
//! times as long as the last one took, and never take more than an eighth of a core. Others never wait for a tenant's turn; callers of no tenant do not
//! wait at all.

use crate::access::Caller;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests of one tenant that are worked on at once. Enough to keep the loop's commits full at any disk's pace.
const AT_ONCE: usize = 4;
/// How long a tenant's long requests rest for the time that one took, and at most.
const REST: u32 = 7;
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Whose turn it is, by tenant.
#[derive(Default)]
pub(super) struct Turns {
    by_tenant: Mutex<BTreeMap<String, Queues>>,
}

#[derive(Clone)]
struct Queues {
    requests: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Default for Queues {
    fn default() -> Self {
        Self { requests: Arc::new(Semaphore::new(AT_ONCE)), long: Arc::new(Semaphore::new(1)) }
    }
}

impl Queues {
    /// Whether somebody works, rests or waits here.
    fn in_use(&self) -> bool {
        Arc::strong_count(&self.requests) > 1 || Arc::strong_count(&self.long) > 1
    }
}

/// Held while a request is worked on.
pub(super) struct Turn {
    _request: Option<OwnedSemaphorePermit>,
    long: Option<OwnedSemaphorePermit>,
    began: Instant,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let rest = (self.began.elapsed() * REST).min(LONGEST_REST);
        // Where no runtime is left, nobody waits either.
        if let (Some(long), Ok(runtime)) = (self.long.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                tokio::time::sleep(rest).await;
                drop(long);
            });
        }
    }
}

impl Turns {
    /// Waits for the caller's turn with a request, which may be one that takes long.
    pub(super) async fn wait(&self, who: &Caller, takes_long: bool) -> Turn {
        let Some(tenant) = &who.tenant else { return Turn { _request: None, long: None, began: Instant::now() } };
        let queues = {
            let mut all = self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody waits in are as good as new.
            all.retain(|_, queues| queues.in_use());
            all.entry(tenant.clone()).or_default().clone()
        };
        // A long one waits for its turn before it takes one of the tenant's few places, so that it never holds up what is short.
        let long = if takes_long { queues.long.acquire_owned().await.ok() } else { None };
        let request = queues.requests.acquire_owned().await.ok();
        Turn { _request: request, long, began: Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Scope;

    fn of(tenant: Option<&str>) -> Caller {
        let scope = if tenant.is_some() { Scope::Tenant } else { Scope::Read };
        Caller { name: "x".into(), id: "x".into(), scope, tenant: tenant.map(str::to_owned), address: None, job: None }
    }

    fn block_on(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(test);
    }

    async fn waits(turns: &Turns, who: &Caller, takes_long: bool) -> bool {
        tokio::time::timeout(Duration::from_millis(50), turns.wait(who, takes_long)).await.is_err()
    }

    #[test]
    fn long_requests_of_one_tenant_wait_for_each_other_and_for_nobody_else() {
        block_on(async {
            let (turns, a, b, operator) = (Turns::default(), of(Some("a")), of(Some("b")), of(None));
            let first = turns.wait(&a, true).await;
            assert!(waits(&turns, &a, true).await, "the second waits");
            assert!(!waits(&turns, &a, false).await, "what is short does not");
            assert!(!waits(&turns, &b, true).await);
            let (one, two) = (turns.wait(&operator, true).await, turns.wait(&operator, true).await);
            drop((one, two, first));
            drop(turns.wait(&a, true).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(turns.wait(&b, false).await);
            assert!(turns.by_tenant.lock().expect("nobody panics").len() <= 1, "nothing is kept of those who left");
        });
    }

    #[test]
    fn a_tenant_has_a_few_requests_worked_on_at_once() {
        block_on(async {
            let (turns, a) = (Turns::default(), of(Some("a")));
            let mut held = Vec::new();
            for _ in 0..AT_ONCE {
                held.push(turns.wait(&a, false).await);
            }
            assert!(waits(&turns, &a, false).await);
            assert!(!waits(&turns, &of(Some("b")), false).await && !waits(&turns, &of(None), false).await);
            held.pop();
            assert!(!waits(&turns, &a, false).await);
        });
    }
}
