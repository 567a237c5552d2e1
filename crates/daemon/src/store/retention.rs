//! How long history is kept. What is older goes a little at a time, with commits that happen anyway.

use arles_core::Time;
use rusqlite::{Connection, params};

/// Rows of each table that go in one commit.
pub(crate) const PRUNED_AT_ONCE: usize = 500;

/// How long history is kept, in seconds of the scheduler's clock. Points of the cluster's history have their own rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Retention {
    /// Jobs that are over, from their end.
    pub jobs_seconds: f64,
    /// Energy accounts and fairness over time.
    pub samples_seconds: f64,
    /// Who changed what.
    pub log_seconds: f64,
}

impl Default for Retention {
    fn default() -> Self {
        let year = 366.0 * 86_400.0;
        Self { jobs_seconds: year, samples_seconds: year, log_seconds: year }
    }
}

/// Moments before which rows go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Of jobs that ended.
    pub jobs: Time,
    /// Of energy accounts and fairness.
    pub samples: Time,
    /// Of the log of changes.
    pub log: Time,
}

impl Retention {
    /// What may go as of `now`.
    #[must_use]
    pub fn bounds(&self, now: Time) -> Bounds {
        let before = |seconds: f64| Time(now.0.saturating_sub(Time::from_seconds(seconds).0));
        Bounds { jobs: before(self.jobs_seconds), samples: before(self.samples_seconds), log: before(self.log_seconds) }
    }
}

/// Removes some of what is too old; returns how many rows of the table that had most of them.
pub(super) fn prune(connection: &Connection, bounds: Bounds) -> rusqlite::Result<usize> {
    let statements = [
        ("DELETE FROM past WHERE id IN (SELECT id FROM past WHERE ended < ?1 ORDER BY ended LIMIT ?2)", bounds.jobs),
        // The last account before the bound stays: what was used since is its difference from the next.
        (
            "DELETE FROM sample WHERE at IN (SELECT at FROM sample WHERE at < (SELECT max(at) FROM sample WHERE at <= ?1) \
             ORDER BY at LIMIT ?2)",
            bounds.samples,
        ),
        ("DELETE FROM audit WHERE at IN (SELECT at FROM audit WHERE until < ?1 ORDER BY at LIMIT ?2)", bounds.samples),
        ("DELETE FROM deed WHERE id IN (SELECT id FROM deed WHERE at < ?1 ORDER BY at LIMIT ?2)", bounds.log),
    ];
    let mut most = 0;
    for (sql, bound) in statements {
        let bound = i64::try_from(bound.0).unwrap_or(i64::MAX);
        most = most.max(connection.prepare_cached(sql)?.execute(params![bound, PRUNED_AT_ONCE as i64])?);
    }
    Ok(most)
}
