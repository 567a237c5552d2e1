//! How fast a tenant may do something, by the wall's clock: buckets that fill at a rate. A tenant that has no bucket has a full one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Buckets that are kept at most.
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct Pace {
    buckets: Mutex<BTreeMap<String, (f64, Instant)>>,
}

impl Pace {
    /// Takes `amount` out of a bucket that holds `burst` and fills at `rate`, or says how many seconds later there will be as much. An amount of
    /// 0 asks whether the bucket owes nothing.
    pub(crate) fn take(&self, tenant: &str, rate: f64, burst: f64, amount: f64, now: Instant) -> Result<(), f64> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST {
            buckets.clear();
        }
        let (level, at) = buckets.entry(tenant.to_owned()).or_insert((burst, now));
        *level = (*level + now.saturating_duration_since(*at).as_secs_f64() * rate).min(burst);
        *at = now;
        if *level < amount {
            return Err((amount - *level) / rate);
        }
        *level -= amount;
        Ok(())
    }

    /// Takes out what something turned out to cost; the bucket may owe it.
    pub(crate) fn charge(&self, tenant: &str, amount: f64) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((level, _)) = buckets.get_mut(tenant) {
            *level -= amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_then_a_rate_and_debts_are_waited_for() {
        let (pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.take("a", 2.0, 2.0, 1.0, start), Ok(()));
        assert_eq!(pace.take("a", 2.0, 2.0, 1.0, start), Ok(()));
        assert_eq!(pace.take("a", 2.0, 2.0, 1.0, start), Err(0.5));
        assert_eq!(pace.take("b", 2.0, 2.0, 1.0, start), Ok(()), "others are not held up");
        pace.charge("b", 3.0);
        assert_eq!(pace.take("b", 2.0, 2.0, 0.0, start), Err(1.0));
        assert_eq!(pace.take("b", 2.0, 2.0, 0.0, start + Duration::from_secs(1)), Ok(()));
    }
}
