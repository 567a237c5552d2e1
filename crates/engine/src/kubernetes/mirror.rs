//! All objects of one kind, as the API server has them: listed once, and followed from there by a watch.
//!
//! Level-triggered: readers look at what is there, and never miss anything that still matters. A watch that ends is opened again where it
//! ended; one that the server has forgotten about (410 Gone, after a compaction) is begun anew with a list; one on which nothing was heard for longer
//! than the server may be silent is given up. One that goes stale while the server answers everything else is found out by what this engine did itself: a change
//! that the server took must come by the watch soon, and if it does not, everything is listed anew. Nothing is asked for each object.
//!
//! Objects of others' making ([`Mirror::follow_if_there`]) may have no place in a cluster: then there are none of them, until somebody installs them.
//!
//! Must never: show half a list. Until the first list is whole nothing is shown; a later one replaces everything at once.

use super::client::{ApiError, Call, Client, Server, refused};
use super::object::{Meta, Object};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Objects of one page of a list.
const PAGE: usize = 500;
/// The server ends a watch after this many seconds, and sends a bookmark before.
const WATCH_SECONDS: u64 = 60;
/// A watch that was silent for longer is dead, whatever TCP says.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 15);
/// A change that the server took and that its watch does not show for longer means that the watch is stale.
const OVERDUE: Duration = Duration::from_secs(10);
/// Pause between two looks at whether a silent watch is still good.
const TICK: Duration = Duration::from_secs(1);
/// Pause before somebody looks again whether objects have a place in the cluster.
const ABSENT: Duration = Duration::from_secs(60);
/// Shortest and longest pause before the server is asked again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Longest line of a watch: an object has at most 1.5 MB.
const MOST_BYTES: usize = 1 << 24;

/// What a mirror holds.
struct Held<T> {
    objects: BTreeMap<String, Arc<T>>,
    /// Changes so far; nothing is shown before the first list.
    changes: u64,
    is_listed: bool,
    /// Changes of ours that the watch has not shown yet, by the object's name.
    awaited: BTreeMap<String, Instant>,
    /// When the server was last heard, and why it is not now.
    heard: Instant,
    trouble: Option<String>,
}

struct Shared<T> {
    held: Mutex<Held<T>>,
    changed: Condvar,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces everything at once.
    fn show(&self, objects: BTreeMap<String, Arc<T>>) {
        let mut held = self.lock();
        (held.objects, held.is_listed, held.trouble, held.heard) = (objects, true, None, Instant::now());
        held.awaited.clear();
        held.changes += 1;
        self.changed.notify_all();
    }

    /// A change of ours that the watch should have shown by now.
    fn overdue(&self) -> Option<String> {
        let held = self.lock();
        held.awaited.iter().find(|(_, since)| since.elapsed() >= OVERDUE).map(|(key, _)| key.clone())
    }
}

/// A copy of all objects of one kind.
pub(super) struct Mirror<T> {
    shared: Arc<Shared<T>>,
    path: String,
}

impl<T: Object> Mirror<T> {
    /// Begins to follow; ends with the mirror.
    pub(super) fn follow(client: &Client, path: &str) -> Self {
        Self::begin(client, path.to_owned(), None)
    }

    /// The same for objects of a group that a cluster may not have.
    pub(super) fn follow_if_there(client: &Client, group: &'static str, resource: &'static str) -> Self {
        Self::begin(client, format!("{resource}.{group}"), Some((group, resource)))
    }

    fn begin(client: &Client, path: String, optional: Option<(&'static str, &'static str)>) -> Self {
        let held = Held {
            objects: BTreeMap::new(),
            changes: 0,
            is_listed: false,
            awaited: BTreeMap::new(),
            heard: Instant::now(),
            trouble: None,
        };
        let shared = Arc::new(Shared { held: Mutex::new(held), changed: Condvar::new() });
        let (server, weak) = (Arc::clone(&client.server), Arc::downgrade(&shared));
        client.runtime.spawn(Follower { server, path: path.clone(), optional, shared: weak }.run());
        Self { shared, path }
    }

    /// Changes so far: another number means that something may have changed.
    pub(super) fn changes(&self) -> u64 {
        self.shared.lock().changes
    }

    /// Everything that is there.
    pub(super) fn objects(&self) -> Vec<Arc<T>> {
        self.shared.lock().objects.values().cloned().collect()
    }

    /// Takes an object as the server just answered it, unless the watch was faster.
    pub(super) fn take(&self, object: T) {
        let mut held = self.shared.lock();
        let key = object.meta().key();
        let older = held.objects.get(&key).is_none_or(|known| {
            known.meta().uid != object.meta().uid || known.meta().version() < object.meta().version()
        });
        if older {
            held.awaited.insert(key.clone(), Instant::now());
            held.objects.insert(key, Arc::new(object));
            held.changes += 1;
        }
    }

    /// Puts a change that was just made into the copy, until the watch says it.
    pub(super) fn amend(&self, object: T) {
        let mut held = self.shared.lock();
        let key = object.meta().key();
        if held.objects.get(&key).is_some_and(|known| known.meta().resource_version == object.meta().resource_version) {
            held.awaited.insert(key.clone(), Instant::now());
            held.objects.insert(key, Arc::new(object));
            held.changes += 1;
        }
    }

    /// Waits until the first list is there, and says why the server is not heard any more.
    ///
    /// # Errors
    /// When nothing was heard for longer than `patience`.
    pub(super) fn check(&self, patience: Duration) -> Result<(), ApiError> {
        let mut held = self.shared.lock();
        let until = Instant::now() + patience;
        while !held.is_listed && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            held = self.shared.changed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let silent = held.heard.elapsed();
        if held.is_listed && (held.trouble.is_none() || silent < patience) && silent < SILENCE + patience {
            return Ok(());
        }
        let why = held.trouble.clone().unwrap_or_else(|| "nothing is heard of it".into());
        Err(ApiError::Unreachable(format!("{} cannot be followed: {why}", self.path)))
    }
}

/// The task that keeps a mirror up to date.
struct Follower<T> {
    server: Arc<Server>,
    path: String,
    /// Group and resource, where the version to ask for is to be found out, and there may be none.
    optional: Option<(&'static str, &'static str)>,
    shared: Weak<Shared<T>>,
}

#[derive(Deserialize)]
struct List<T> {
    metadata: Meta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    what: String,
    object: Value,
}

/// How a watch ended.
enum End {
    /// By itself: it goes on from here.
    Over,
    /// The server does not know that version any more, or does not tell what has happened since.
    Gone,
    /// Nobody needs it.
    Unwanted,
}

impl<T: Object> Follower<T> {
    async fn run(mut self) {
        let mut pause = BACKOFF.0;
        let mut version: Option<String> = None;
        loop {
            let tried = match version.take() {
                None if !self.find().await => {
                    let Some(shared) = self.shared.upgrade() else { return };
                    shared.show(BTreeMap::new());
                    drop(shared);
                    tokio::time::sleep(ABSENT).await;
                    continue;
                }
                None => self.list().await.map(Some),
                Some(from) => self.watch(from).await,
            };
            match tried {
                Ok(next) => {
                    if self.shared.strong_count() == 0 {
                        return;
                    }
                    pause = BACKOFF.0;
                    version = next;
                }
                Err((error, from)) => {
                    let Some(shared) = self.shared.upgrade() else { return };
                    shared.lock().trouble = Some(error.to_string());
                    version = from;
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BACKOFF.1);
                }
            }
        }
    }

    /// Finds out where its objects are; `false` where there are none, or they are nobody's business here. A server that does not answer is asked for its list, and
    /// says why then.
    async fn find(&mut self) -> bool {
        let Some((group, resource)) = self.optional else { return true };
        let found = match self.server.ask(&Call::get(format!("/apis/{group}"))).await {
            Ok(found) => found,
            Err(error) => return !error.is(404),
        };
        let Some(version) = found["preferredVersion"]["version"].as_str() else { return false };
        self.path = format!("/apis/{group}/{version}/{resource}");
        let first = self.server.ask(&Call::get(format!("{}?limit=1", self.path))).await;
        !first.is_err_and(|error| error.is(404) || error.is(403))
    }

    /// Lists everything, in pages; the version to watch from.
    async fn list(&self) -> Result<String, (ApiError, Option<String>)> {
        let (mut found, mut next) = (BTreeMap::new(), String::new());
        loop {
            let path = format!("{}?limit={PAGE}&continue={next}", self.path);
            let answer = self.server.ask(&Call::get(path)).await.map_err(|error| (error, None))?;
            let list: List<T> = serde_json::from_value(answer)
                .map_err(|error| (ApiError::Unreachable(format!("an answer makes no sense: {error}")), None))?;
            found.extend(list.items.into_iter().map(|object| (object.meta().key(), Arc::new(object))));
            next = list.metadata.next.unwrap_or_default();
            if !next.is_empty() {
                continue;
            }
            if let Some(shared) = self.shared.upgrade() {
                shared.show(found);
            }
            return Ok(list.metadata.resource_version);
        }
    }

    /// Follows changes until the watch ends; the version to go on from, none if it must be listed anew.
    async fn watch(&self, from: String) -> Result<Option<String>, (ApiError, Option<String>)> {
        let mut version = from;
        match self.watch_from(&mut version).await {
            Ok(End::Over) => Ok(Some(version)),
            Ok(End::Gone | End::Unwanted) => Ok(None),
            Err(error) if error.is(410) => Ok(None),
            Err(error) => Err((error, Some(version))),
        }
    }

    async fn watch_from(&self, version: &mut String) -> Result<End, ApiError> {
        let lost = |why: &dyn std::fmt::Display| ApiError::Unreachable(format!("the watch broke: {why}"));
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}",
            self.path
        );
        // The connection ends with the watch: it is not given back.
        let opened = tokio::time::timeout(SILENCE, self.server.open(&Call::get(path))).await;
        let (status, _sender, mut body) = opened.map_err(|_| lost(&"no answer"))??;
        if status != 200 {
            return Err(refused(status, &Value::Null, b"the watch was refused"));
        }
        // A server that takes the question is there, even if it has nothing to say until the watch ends.
        if let Some(shared) = self.shared.upgrade() {
            let mut held = shared.lock();
            (held.heard, held.trouble) = (Instant::now(), None);
        }
        let (mut text, mut heard) = (Vec::new(), Instant::now());
        loop {
            let Some(shared) = self.shared.upgrade() else { return Ok(End::Unwanted) };
            if let Some(key) = shared.overdue() {
                tracing::warn!("the watch of {} does not show what was done to {key}; all is listed anew", self.path);
                return Ok(End::Gone);
            }
            drop(shared);
            let Ok(frame) = tokio::time::timeout(TICK, body.frame()).await else {
                if heard.elapsed() >= SILENCE {
                    return Err(lost(&"it is silent"));
                }
                continue;
            };
            heard = Instant::now();
            let Some(frame) = frame else { return Ok(End::Over) };
            let Ok(piece) = frame.map_err(|error| lost(&error))?.into_data() else { continue };
            text.extend_from_slice(&piece);
            let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else {
                if text.len() > MOST_BYTES {
                    return Err(lost(&"a line has no end"));
                }
                continue;
            };
            let Some(shared) = self.shared.upgrade() else { return Ok(End::Unwanted) };
            let mut held = shared.lock();
            (held.heard, held.trouble) = (Instant::now(), None);
            for line in text[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let event: Event = serde_json::from_slice(line).map_err(|error| lost(&error))?;
                if event.what == "ERROR" {
                    let code = event.object["code"].as_u64().unwrap_or(0);
                    return if code == 410 { Ok(End::Gone) } else { Err(lost(&event.object["message"])) };
                }
                let seen = event.object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
                held.change(event).map_err(|error| lost(&error))?;
                *version = seen.unwrap_or_else(|| std::mem::take(version));
            }
            text.drain(..=end);
        }
    }
}

impl<T: Object> Held<T> {
    fn change(&mut self, event: Event) -> Result<(), serde_json::Error> {
        if event.what == "BOOKMARK" {
            return Ok(());
        }
        let object: T = serde_json::from_value(event.object)?;
        let key = object.meta().key();
        self.awaited.remove(&key);
        match event.what.as_str() {
            "DELETED" => drop(self.objects.remove(&key)),
            _ => drop(self.objects.insert(key, Arc::new(object))),
        }
        self.changes += 1;
        Ok(())
    }
}
