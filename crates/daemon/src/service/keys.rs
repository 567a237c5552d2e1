//! Idempotency keys: requests that were already made, so that one that is sent twice is processed once.
//!
//! A key belongs to the token that used it (its id: a name may come to mean another token) and is counted against the tenant of its job. It is kept
//! for a day of the scheduler's clock. A tenant has room for so many; when that is full its own oldest go, but none before [`LEAST_SECONDS`]:
//! until then the tenant is asked to wait. What one tenant does never costs another a key.

use crate::store::entry::Key;
use arles_core::{JobId, TenantId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How long a key is kept, by the scheduler's clock.
const KEPT_SECONDS: f64 = 86_400.0;
/// How long it is kept at least, however many its tenant uses.
const LEAST_SECONDS: f64 = 600.0;
/// Keys of one tenant.
pub(crate) const MOST_OF_TENANT: usize = 100_000;
/// In the place of a tenant, for keys of snapshots that did not say whose they are.
const ANYBODY: TenantId = TenantId(u32::MAX);

/// A key that was used.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct UsedKey {
    key: Key,
    job: JobId,
    at: Time,
}

/// Requests that were already made under an idempotency key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Keys {
    /// What older snapshots have: one list for everybody, without times. Taken over by [`Keys::index`].
    #[serde(default, skip_serializing)]
    order: VecDeque<(Key, JobId)>,
    /// By tenant, oldest first; shared with copies.
    #[serde(default)]
    kept: BTreeMap<TenantId, VecDeque<Arc<UsedKey>>>,
    #[serde(skip)]
    known: BTreeMap<(String, String), (u64, JobId)>,
}

/// What tells keys of different callers apart: the token's id, or its name where only that was written down.
fn index_of(key: &Key) -> (String, String) {
    let owner = key.token.clone().unwrap_or_else(|| format!("named {}", key.owner));
    (owner, key.word.clone())
}

impl Keys {
    /// The request and the job under the same key of the same caller.
    pub(crate) fn find(&self, key: &Key) -> Option<(u64, JobId)> {
        let by_name = Key { token: None, ..key.clone() };
        self.known.get(&index_of(key)).or_else(|| self.known.get(&index_of(&by_name))).copied()
    }

    /// How many seconds a tenant has to wait until there is room for another key.
    pub(crate) fn full(&self, tenant: TenantId, now: Time) -> Option<f64> {
        let kept = self.kept.get(&tenant).filter(|kept| kept.len() >= MOST_OF_TENANT)?;
        let oldest = kept.front()?.at.after(LEAST_SECONDS);
        (oldest > now).then(|| oldest.since(now))
    }

    pub(crate) fn put(&mut self, tenant: TenantId, key: &Key, job: JobId, at: Time) {
        if self.kept.get(&tenant).is_some_and(|kept| kept.len() >= MOST_OF_TENANT) {
            self.drop_oldest(tenant);
        }
        self.known.insert(index_of(key), (key.request, job));
        self.kept.entry(tenant).or_default().push_back(Arc::new(UsedKey { key: key.clone(), job, at }));
    }

    /// Forgets keys that are a day old.
    pub(crate) fn expire(&mut self, now: Time) {
        let tenants: Vec<TenantId> = self.kept.keys().copied().collect();
        for tenant in tenants {
            let old = |kept: &VecDeque<Arc<UsedKey>>| kept.front().is_some_and(|key| key.at.after(KEPT_SECONDS) <= now);
            while self.kept.get(&tenant).is_some_and(old) {
                self.drop_oldest(tenant);
            }
            if self.kept.get(&tenant).is_some_and(VecDeque::is_empty) {
                self.kept.remove(&tenant);
            }
        }
    }

    fn drop_oldest(&mut self, tenant: TenantId) {
        let Some(old) = self.kept.get_mut(&tenant).and_then(VecDeque::pop_front) else { return };
        let index = index_of(&old.key);
        if self.known.get(&index).is_some_and(|(_, job)| *job == old.job) {
            self.known.remove(&index);
        }
    }

    /// A copy for a snapshot, which nobody looks anything up in: the index of a hundred thousand keys takes long to copy.
    pub(crate) fn unindexed(&self) -> Self {
        Self { order: VecDeque::new(), kept: self.kept.clone(), known: BTreeMap::new() }
    }

    /// Makes what was read from a snapshot ready for use.
    pub(crate) fn index(&mut self, now: Time) {
        let old = std::mem::take(&mut self.order);
        if !old.is_empty() {
            let used = old.into_iter().map(|(key, job)| Arc::new(UsedKey { key, job, at: now }));
            self.kept.entry(ANYBODY).or_default().extend(used);
        }
        let entry = |used: &Arc<UsedKey>| (index_of(&used.key), (used.key.request, used.job));
        self.known = self.kept.values().flatten().map(entry).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(token: Option<&str>, word: &str) -> Key {
        Key { owner: "ci".into(), token: token.map(str::to_owned), word: word.into(), request: 7 }
    }

    #[test]
    fn one_tenant_never_costs_another_a_key() {
        let (a, b, now) = (TenantId(0), TenantId(1), Time::from_seconds(1e6));
        let mut keys = Keys::default();
        keys.put(b, &key(Some("b"), "precious"), JobId(1), now);
        for n in 0..MOST_OF_TENANT as u64 {
            assert_eq!(keys.full(a, now), None);
            keys.put(a, &key(Some("a"), &n.to_string()), JobId(n + 2), now);
        }
        assert!(keys.full(a, now).is_some_and(|wait| wait > 500.0), "the tenant itself has to wait");
        assert_eq!(keys.full(b, now), None);
        let later = now.after(LEAST_SECONDS);
        assert_eq!(keys.full(a, later), None);
        keys.put(a, &key(Some("a"), "one more"), JobId(9_999_999), later);
        assert_eq!(keys.find(&key(Some("a"), "0")), None, "its own oldest went");
        assert_eq!(keys.find(&key(Some("b"), "precious")), Some((7, JobId(1))));
        keys.expire(now.after(KEPT_SECONDS - 1.0));
        assert_eq!(keys.find(&key(Some("b"), "precious")), Some((7, JobId(1))));
        keys.expire(now.after(KEPT_SECONDS));
        assert_eq!(keys.find(&key(Some("b"), "precious")), None, "a day is over");
        assert_eq!(keys.find(&key(Some("a"), "one more")), Some((7, JobId(9_999_999))));
    }

    #[test]
    fn a_new_token_of_an_old_name_has_keys_of_its_own() {
        let mut keys = Keys::default();
        keys.put(TenantId(0), &key(Some("first"), "x"), JobId(1), Time(1));
        assert_eq!(keys.find(&key(Some("second"), "x")), None);
        assert_eq!(keys.find(&key(Some("first"), "x")), Some((7, JobId(1))));
    }

    #[test]
    fn keys_of_older_snapshots_are_kept_for_a_day() {
        let old = r#"{"order": [[{"owner": "ci", "word": "x", "request": 7}, 5]]}"#;
        let mut keys: Keys = serde_json::from_str(old).unwrap();
        let now = Time::from_seconds(1e6);
        keys.index(now);
        assert_eq!(keys.find(&key(Some("any"), "x")), Some((7, JobId(5))), "by the name of the token");
        let mut again: Keys = serde_json::from_str(&serde_json::to_string(&keys).unwrap()).unwrap();
        again.index(now.after(60.0));
        assert_eq!(again.find(&key(Some("any"), "x")), Some((7, JobId(5))));
        again.expire(now.after(KEPT_SECONDS));
        assert_eq!(again.find(&key(Some("any"), "x")), None);
    }
}
