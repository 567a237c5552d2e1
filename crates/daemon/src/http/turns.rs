//! Long lists of one tenant are made one at a time.
//!
//! A page of a thousand jobs takes a thread of the server for milliseconds. Whoever asks for it again and again, on many connections, would have
//! all threads to itself; so a tenant's own lists wait for each other, and everybody else's requests only for one of them.

use crate::access::Caller;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whose turn it is, by tenant.
#[derive(Default)]
pub(super) struct Turns {
    by_tenant: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// Held while a list is made.
pub(super) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Waits until no other list is made for the caller's tenant; callers of no tenant do not wait.
    pub(super) async fn wait(&self, who: &Caller) -> Turn {
        let Some(tenant) = &who.tenant else { return Turn { _permit: None } };
        let queue = {
            let mut queues = self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody waits in are as good as new.
            queues.retain(|_, queue| Arc::strong_count(queue) > 1);
            Arc::clone(queues.entry(tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        Turn { _permit: queue.acquire_owned().await.ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Scope;
    use std::time::Duration;

    fn of(tenant: Option<&str>) -> Caller {
        let scope = if tenant.is_some() { Scope::Tenant } else { Scope::Read };
        Caller { name: "x".into(), id: "x".into(), scope, tenant: tenant.map(str::to_owned), address: None, job: None }
    }

    #[test]
    fn lists_of_one_tenant_wait_for_each_other_and_for_nobody_else() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let turns = Turns::default();
            let first = turns.wait(&of(Some("a"))).await;
            let soon = Duration::from_millis(50);
            assert!(tokio::time::timeout(soon, turns.wait(&of(Some("a")))).await.is_err(), "the second waits");
            drop(turns.wait(&of(Some("b"))).await);
            let (one, two) = (turns.wait(&of(None)).await, turns.wait(&of(None)).await);
            drop((one, two, first));
            drop(turns.wait(&of(Some("a"))).await);
            assert!(turns.by_tenant.lock().expect("nobody panics").len() <= 1, "nothing is kept of those who left");
        });
    }
}
