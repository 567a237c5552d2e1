//! Who a secret belongs to: all tokens in memory, read anew whenever one changes.
//!
//! When a token was last used is kept here, and written about once a minute by whoever has time: a request never waits for it, and a daemon that is
//! killed forgets a minute of it.

use crate::access::{self, BadToken, Caller, Scope};
use crate::clock;
use crate::store::{Store, StoreError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use tokio::sync::watch;

/// No wait for the end of a token is longer: the wall's clock may be set meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Now, in seconds since 1970.
pub(crate) fn now() -> i64 {
    (clock::wall().0 / 1_000_000) as i64
}

/// A secret's token.
#[derive(Clone)]
struct Credential {
    caller: Caller,
    /// When it ends: the token expires, or its overlap with the next secret is over.
    ends: Option<i64>,
    /// Whether the token has another secret now.
    replaced: bool,
    last_use: Arc<LastUse>,
}

/// When a token was last used, and what is written of that; 0 for never.
#[derive(Default)]
struct LastUse {
    used: AtomicI64,
    written: AtomicI64,
}

/// All secrets, by their hashes.
pub(crate) struct Credentials {
    by_hash: RwLock<BTreeMap<String, Credential>>,
    /// Counts changes.
    changes: watch::Sender<u64>,
}

impl Default for Credentials {
    fn default() -> Self {
        Self { by_hash: RwLock::default(), changes: watch::channel(0).0 }
    }
}

impl Credentials {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Credential>> {
        self.by_hash.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller that a secret belongs to; from now on it has been used.
    pub(crate) fn caller(&self, secret: &str) -> Result<Caller, BadToken> {
        let (hash, now) = (access::hash(secret), now());
        let credentials = self.read();
        let found = credentials.get(&hash).ok_or(BadToken::Unknown)?;
        match found.ends {
            Some(ends) if ends <= now => {
                let (name, seconds) = (found.caller.name.clone(), now - ends);
                Err(if found.replaced {
                    BadToken::Replaced { name, seconds }
                } else {
                    BadToken::Expired { name, seconds }
                })
            }
            _ => {
                found.last_use.used.fetch_max(now, Ordering::Relaxed);
                Ok(found.caller.clone())
            }
        }
    }

    /// Reads all tokens anew.
    pub(crate) fn load(&self, store: &Store) -> Result<(), StoreError> {
        let (tokens, old_secrets) = (store.tokens()?, store.old_secrets()?);
        let mut by_hash = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        let known: BTreeMap<&str, &Arc<LastUse>> =
            by_hash.values().map(|credential| (credential.caller.name.as_str(), &credential.last_use)).collect();
        let mut fresh = BTreeMap::new();
        for token in tokens {
            let Some(scope) = Scope::named(&token.scope) else { continue };
            let used = token.used.unwrap_or(0);
            let last_use = known.get(token.name.as_str()).map_or_else(
                || Arc::new(LastUse { used: AtomicI64::new(used), written: AtomicI64::new(used) }),
                |last_use| Arc::clone(last_use),
            );
            let caller =
                Caller { name: token.name, id: token.id, scope, tenant: token.tenant, address: None, job: None };
            for old in old_secrets.iter().filter(|old| old.name == caller.name) {
                let (caller, last_use) = (caller.clone(), Arc::clone(&last_use));
                let old_one = Credential { caller, ends: Some(old.until), replaced: true, last_use };
                fresh.insert(old.hash.clone(), old_one);
            }
            fresh.insert(token.hash, Credential { caller, ends: token.expires, replaced: false, last_use });
        }
        *by_hash = fresh;
        drop(by_hash);
        self.changes.send_modify(|changes| *changes += 1);
        Ok(())
    }

    /// When each token was last used, by name.
    pub(crate) fn last_use(&self) -> BTreeMap<String, i64> {
        let credentials = self.read();
        let used = |credential: &Credential| credential.last_use.used.load(Ordering::Relaxed);
        let all = credentials.values().map(|credential| (credential.caller.name.clone(), used(credential)));
        all.filter(|(_, used)| *used > 0).collect()
    }

    /// Writes when tokens were last used, where that is not written yet.
    pub(crate) fn write_last_use(&self, store: &mut Store) -> Result<(), StoreError> {
        let uses: BTreeMap<String, Arc<LastUse>> = self
            .read()
            .values()
            .map(|credential| (credential.caller.name.clone(), Arc::clone(&credential.last_use)))
            .filter(|(_, last)| last.used.load(Ordering::Relaxed) > last.written.load(Ordering::Relaxed))
            .collect();
        if uses.is_empty() {
            return Ok(());
        }
        let rows: Vec<(String, i64)> =
            uses.iter().map(|(name, last)| (name.clone(), last.used.load(Ordering::Relaxed))).collect();
        store.note_use(&rows)?;
        for (last, (_, used)) in uses.values().zip(rows) {
            last.written.fetch_max(used, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Comes back when a secret is no longer good.
    pub(crate) async fn ended(&self, hash: &str) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let left = match self.read().get(hash) {
                None => return,
                Some(Credential { ends: None, .. }) => LONGEST_WAIT,
                Some(Credential { ends: Some(ends), .. }) => match ends - now() {
                    ..=0 => return,
                    seconds => Duration::from_secs(seconds as u64).min(LONGEST_WAIT),
                },
            };
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}
