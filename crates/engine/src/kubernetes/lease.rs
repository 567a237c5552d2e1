//! Who leads, by a Lease at the API server: of several daemons one acts.
//!
//! The state folder decides who leads among daemons that share one (`docs/ha.md`), and the Lease `arles` in arles' own namespace is where Kubernetes itself hears of
//! it. It names the holder, its journal and its term, and every change of it is made under its `resourceVersion`.
//!
//! - A daemon of the same journal takes it at once, if its term is not lower: the folder has settled who is next. One of another journal takes it when it
//!   was given up, or was not renewed for its duration, counted by the taker's own clock.
//! - Whoever acts has renewed it within [`WINDOW`] before, counted from when the renewal was sent. Whoever took it from a holder that may be alive waits
//!   that long before its first act. A renewal that was sent after the taking fails, and then the old holder does nothing any more, for good.
//!
//! Kubernetes cannot change two objects together. So a process that is stopped between its look at the clock and its call may still send one batch when it
//! wakes up. The server refuses to bind a pod twice, a full node's kubelet (or the default scheduler) refuses what does not fit, and whatever has a place by a
//! mark that the new leader did not write is told to go by it.

use super::Kubernetes;
use super::client::{ApiError, Call, Client, Server};
use arles_core::engine::{EngineError, Mandate};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

/// The Lease's name.
const NAME: &str = "arles";
/// After a renewal was sent, calls may be made for this long.
const WINDOW: Duration = Duration::from_secs(2);
/// Whose journal the holder has, and its term.
const JOURNAL: &str = "arles/journal";
const TERM: &str = "arles/term";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The Lease as this daemon knows it.
#[derive(Default)]
struct Known {
    /// The object as it was last written or read by this daemon, if it holds it.
    held: Option<Value>,
    /// When the last renewal that succeeded was sent.
    renewed: Option<Instant>,
    /// The version of another's Lease, and since when it has been that.
    other: Option<(String, Instant)>,
    /// Who took it from this daemon.
    lost_to: Option<String>,
}

/// A daemon's part in the election.
struct Candidate {
    folder: String,
    seconds: f64,
    identity: String,
    mandate: Mutex<Mandate>,
    known: Mutex<Known>,
}

impl Candidate {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Lease with this daemon as its holder, on top of what was read.
    fn claim(&self, read: &Value) -> Value {
        let mandate = self.mandate.lock().unwrap_or_else(PoisonError::into_inner);
        let before = read["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
        let is_ours = read["spec"]["holderIdentity"] == self.identity.as_str();
        let at = moment(SystemTime::now());
        let acquired = if is_ours { read["spec"]["acquireTime"].clone() } else { json!(at) };
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": NAME,
                "resourceVersion": read["metadata"]["resourceVersion"],
                "annotations": {JOURNAL: mandate.journal, TERM: mandate.term.to_string()},
            },
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self.seconds.ceil().max(1.0) as u64,
                "leaseTransitions": if is_ours { before } else { before + 1 },
                "acquireTime": acquired,
                "renewTime": at,
            },
        })
    }

    fn item(&self) -> String {
        format!("{}/{NAME}", self.folder)
    }

    /// Renews what is held. A conflict means that somebody changed it: another look says who holds it.
    async fn renew(&self, server: &Server) -> Result<(), ApiError> {
        let Some(held) = self.lock().held.clone() else { return Ok(()) };
        let sent = Instant::now();
        let mut answer = server.ask(&Call::put(self.item(), self.claim(&held))).await;
        if answer.as_ref().is_err_and(|error| error.is(409)) {
            let now = server.ask(&Call::get(self.item())).await?;
            if now["spec"]["holderIdentity"] != self.identity.as_str() {
                let mut known = self.lock();
                (known.held, known.renewed) = (None, None);
                known.lost_to = Some(now["spec"]["holderIdentity"].as_str().unwrap_or("nobody").to_owned());
                return Ok(());
            }
            answer = server.ask(&Call::put(self.item(), self.claim(&now))).await;
        }
        if answer.as_ref().is_err_and(|error| error.is(404)) {
            answer = server.ask(&Call::post(&self.folder, self.claim(&Value::Null))).await;
        }
        let mut known = self.lock();
        (known.held, known.renewed) = (Some(answer?), Some(sent));
        Ok(())
    }

    /// Takes the Lease if it may be taken: how long to wait before the first act, or who holds it.
    async fn take(&self, server: &Server) -> Result<Result<Duration, String>, ApiError> {
        let (sent, read) = (Instant::now(), server.ask(&Call::get(self.item())).await);
        let (call, pause) = match read {
            Err(error) if error.is(404) => (Call::post(&self.folder, self.claim(&Value::Null)), Duration::ZERO),
            Err(error) => return Err(error),
            Ok(read) => match self.may_take(&read) {
                Ok(pause) => (Call::put(self.item(), self.claim(&read)), pause),
                Err(holder) => return Ok(Err(holder)),
            },
        };
        match server.ask(&call).await {
            Ok(held) => {
                let mut known = self.lock();
                *known = Known { held: Some(held), renewed: Some(sent), ..Known::default() };
                Ok(Ok(pause))
            }
            // Somebody else was faster.
            Err(error) if error.is(409) => Ok(Err("somebody who was faster".into())),
            Err(error) => Err(error),
        }
    }

    /// Whether another's Lease may be taken, and how long its holder may still act.
    fn may_take(&self, read: &Value) -> Result<Duration, String> {
        let holder = read["spec"]["holderIdentity"].as_str().unwrap_or("");
        if holder.is_empty() || holder == self.identity {
            return Ok(Duration::ZERO);
        }
        let seconds = read["spec"]["leaseDurationSeconds"].as_f64().unwrap_or(self.seconds);
        let version = read["metadata"]["resourceVersion"].as_str().unwrap_or("").to_owned();
        let mut known = self.lock();
        let since = known.other.as_ref().filter(|(seen, _)| *seen == version).map_or_else(Instant::now, |(_, at)| *at);
        known.other = Some((version, since));
        if since.elapsed().as_secs_f64() >= seconds {
            return Ok(Duration::ZERO);
        }
        let note = |key: &str| read["metadata"]["annotations"][key].as_str().unwrap_or("");
        let mandate = self.mandate.lock().unwrap_or_else(PoisonError::into_inner);
        let is_next =
            note(JOURNAL) == mandate.journal && note(TERM).parse().is_ok_and(|term: u64| term <= mandate.term);
        if is_next { Ok(WINDOW) } else { Err(holder.to_owned()) }
    }
}

/// What an engine holds of the election; the Lease is kept for as long as it lives.
pub(super) struct Tenure {
    candidate: Arc<Candidate>,
}

impl Tenure {
    pub(super) fn new(namespace: &str, seconds: f64) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let candidate = Candidate {
            folder: format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
            seconds,
            identity: format!("{}_{}-{number}-{began:x}", host.trim(), std::process::id()),
            mandate: Mutex::default(),
            known: Mutex::default(),
        };
        Self { candidate: Arc::new(candidate) }
    }

    pub(super) fn set_mandate(&self, mandate: &Mandate) {
        *self.candidate.mandate.lock().unwrap_or_else(PoisonError::into_inner) = mandate.clone();
    }

    pub(super) fn is_lost(&self) -> bool {
        self.candidate.lock().lost_to.is_some()
    }

    /// Makes sure that this daemon leads: takes the Lease if it has none. To act it must be held for sure, so it is renewed if that was too long ago.
    ///
    /// # Errors
    /// When another daemon holds it, or the server cannot be asked.
    fn secure(&self, client: &Client, to_act: bool) -> Result<(), EngineError> {
        let held = self.candidate.lock().held.is_some();
        if held && to_act {
            let fresh = self.candidate.lock().renewed.is_some_and(|sent| sent.elapsed() < WINDOW);
            if !fresh {
                client.runtime.block_on(self.candidate.renew(&client.server))?;
            }
        }
        if let Some(other) = self.candidate.lock().lost_to.clone() {
            return Err(EngineError(format!(
                "{other} leads by the Lease {}; this daemon was followed and does nothing any more",
                self.candidate.item()
            )));
        }
        if held { Ok(()) } else { self.acquire(client) }
    }

    fn acquire(&self, client: &Client) -> Result<(), EngineError> {
        match client.runtime.block_on(self.candidate.take(&client.server))? {
            Err(holder) => Err(EngineError(format!(
                "{holder} leads by the Lease {}; this daemon waits until it is given up or not renewed",
                self.candidate.item()
            ))),
            Ok(pause) => {
                client.runtime.spawn(keep(Arc::downgrade(&self.candidate), Arc::clone(&client.server)));
                std::thread::sleep(pause);
                // The wait has used the window up.
                if pause.is_zero() { Ok(()) } else { self.secure(client, true) }
            }
        }
    }
}

/// Renews a Lease until it is lost or nobody needs it.
async fn keep(candidate: Weak<Candidate>, server: Arc<Server>) {
    loop {
        let Some(pause) = candidate.upgrade().map(|candidate| candidate.seconds / 3.0) else { return };
        tokio::time::sleep(Duration::from_secs_f64(pause)).await;
        let Some(candidate) = candidate.upgrade() else { return };
        if candidate.lock().held.is_none() {
            return;
        }
        if let Err(error) = candidate.renew(&server).await {
            tracing::debug!("the Lease was not renewed: {error}");
        }
    }
}

impl Kubernetes {
    /// Whether this engine's driver leads, as far as is known.
    pub(super) fn obey(&self) -> Result<(), EngineError> {
        self.tenure.as_ref().map_or(Ok(()), |tenure| tenure.secure(&self.client, false))
    }

    /// Makes calls that change something.
    pub(super) fn act(&self, calls: Vec<Call>) -> Result<Vec<Result<Value, ApiError>>, EngineError> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(tenure) = &self.tenure {
            tenure.secure(&self.client, true)?;
        }
        Ok(self.client.send_all(calls))
    }
}

/// RFC 3339 with microseconds, as Leases have it.
fn moment(at: SystemTime) -> String {
    let at = time::OffsetDateTime::from(at);
    let (date, time) = (at.date(), at.time());
    let (month, day) = (u8::from(date.month()), date.day());
    let (hour, minute, second, micros) = (time.hour(), time.minute(), time.second(), time.microsecond());
    format!("{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z", date.year())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(journal: &str, term: u64) -> Candidate {
        let tenure = Tenure::new("arles", 15.0);
        tenure.set_mandate(&Mandate { journal: journal.into(), term, ..Mandate::default() });
        Arc::into_inner(tenure.candidate).expect("nobody else has it")
    }

    #[test]
    fn who_may_follow_whom() {
        let mut first = candidate("a", 4).claim(&Value::Null);
        first["metadata"]["resourceVersion"] = json!("7");
        assert_eq!(first["spec"]["leaseTransitions"], 1);
        for (journal, term, expected) in
            [("a", 5, Some(WINDOW)), ("a", 4, Some(WINDOW)), ("a", 3, None), ("b", 9, None)]
        {
            assert_eq!(candidate(journal, term).may_take(&first).ok(), expected, "{journal} {term}");
        }
        first["spec"]["leaseDurationSeconds"] = json!(0);
        assert_eq!(candidate("b", 0).may_take(&first), Ok(Duration::ZERO), "it was not renewed for its duration");
        first["spec"] = json!({"holderIdentity": ""});
        assert_eq!(candidate("b", 0).may_take(&first), Ok(Duration::ZERO), "it was given up");
    }
}
