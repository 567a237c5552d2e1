//! Rate limits: token buckets.
//!
//! A bucket holds `burst` requests and fills at `rate` requests per second; a request takes one out. A full bucket says nothing that
//! a new one would not, so full ones are forgotten when there are many, and memory is bounded.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// RateLimiter that are kept at most.
const MOST_BUCKETS: usize = 4096;

struct Bucket {
    level: f64,
    at: Instant,
}

/// Buckets by whatever identifies callers.
pub(super) struct RateLimiter<K> {
    rate: f64,
    burst: f64,
    buckets: Mutex<HashMap<K, Bucket>>,
}

impl<K: Eq + Hash> RateLimiter<K> {
    pub(super) fn new(rate: f64, burst: f64) -> Self {
        Self { rate, burst, buckets: Mutex::new(HashMap::new()) }
    }

    /// Takes one out of a bucket, or says how many seconds later there will be one.
    pub(super) fn take<Q>(&self, key: &Q, now: Instant) -> Result<(), f64>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        if self.rate.is_infinite() {
            return Ok(());
        }
        let mut buckets = self.lock();
        if !buckets.contains_key(key) {
            self.make_room(&mut buckets, now);
            buckets.insert(key.to_owned(), Bucket { level: self.burst, at: now });
        }
        let Some(bucket) = buckets.get_mut(key) else { return Ok(()) };
        bucket.level = self.level(bucket, now);
        bucket.at = now;
        if bucket.level < 1.0 {
            return Err((1.0 - bucket.level) / self.rate);
        }
        bucket.level -= 1.0;
        Ok(())
    }

    fn level(&self, bucket: &Bucket, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.level + seconds * self.rate).min(self.burst)
    }

    fn make_room(&self, buckets: &mut HashMap<K, Bucket>, now: Instant) {
        if buckets.len() < MOST_BUCKETS {
            return;
        }
        buckets.retain(|_, bucket| self.level(bucket, now) < self.burst);
        // Thousands of callers at once, none of them idle: all begin anew rather than anybody being kept for ever.
        if buckets.len() >= MOST_BUCKETS {
            buckets.clear();
        }
    }

    /// A bucket is right after every statement above, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What tells peers apart: an IPv4 address, or the network of an IPv6 one, of which its owner has 2^64 addresses.
pub(super) fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_then_a_rate() {
        let buckets: RateLimiter<String> = RateLimiter::new(10.0, 3.0);
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(buckets.take("a", start), Ok(()));
        }
        let wait = buckets.take("a", start).unwrap_err();
        assert!((wait - 0.1).abs() < 1e-9);
        assert_eq!(buckets.take("b", start), Ok(()), "others are not held up");
        assert_eq!(buckets.take("a", start + Duration::from_millis(101)), Ok(()));
        assert!(buckets.take("a", start + Duration::from_millis(102)).is_err());
    }

    #[test]
    fn memory_is_bounded() {
        let buckets: RateLimiter<u32> = RateLimiter::new(1.0, 2.0);
        let start = Instant::now();
        for i in 0..100_000_u32 {
            let _ = buckets.take(&i, start + Duration::from_micros(u64::from(i)));
            assert!(buckets.lock().len() <= MOST_BUCKETS);
        }
    }

    #[test]
    fn a_network_is_one_peer() {
        let peer = |text: &str| super::peer(text.parse().unwrap());
        assert_eq!(peer("2001:db8:1:2::3"), peer("2001:db8:1:2:ffff::4"));
        assert_ne!(peer("2001:db8:1:2::3"), peer("2001:db8:1:3::3"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
    }
}
