//! History: jobs that have ended, energy accounts and fairness over time.

use super::deeds::{self, Deed};
use super::{Done, Store, StoreError, parsed};
use arles_core::{JobId, Time};
use rusqlite::types::Value;
use rusqlite::{Transaction, params, params_from_iter};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A row of history. Written twice it is the same as once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryRow {
    /// A job that is over.
    Past {
        /// Job number.
        id: JobId,
        /// Tenant, by name.
        tenant: String,
        /// Workload, by name.
        workload: String,
        /// Terminal state.
        state: String,
        /// Time at which it ended.
        ended: Time,
        /// The whole record of the job, as JSON.
        record: String,
    },
    /// Energy counters at a moment.
    Sample {
        /// Time of the sample.
        at: Time,
        /// The counters, as JSON.
        totals: String,
    },
    /// Fairness over a period.
    Audit {
        /// Start of the period.
        at: Time,
        /// End of the period.
        until: Time,
        /// Sums over the period, as JSON.
        facts: String,
    },
    /// What the cluster did in a stretch of time.
    Point {
        /// Length of the stretch in seconds.
        resolution: u64,
        /// Start of the stretch.
        at: Time,
        /// Points of this resolution that are older than this many seconds are dropped.
        keep: u64,
        /// Sums over the stretch, as JSON.
        facts: String,
    },
    /// A change that somebody asked for. Unlike the others it is written once, with its entry.
    Deed(Deed),
}

/// Which ended jobs to list.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PastFilter {
    /// Only jobs of this tenant.
    pub tenant: Option<String>,
    /// Only jobs that ran this workload.
    pub workload: Option<String>,
    /// Only jobs in these terminal states; any if empty.
    pub states: Vec<&'static str>,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
    /// Only jobs after this number, in the requested order.
    pub beyond: Option<u64>,
    /// Maximum number of jobs.
    pub most: usize,
}

pub(super) fn write(transaction: &Transaction<'_>, rows: &[HistoryRow]) -> rusqlite::Result<()> {
    for row in rows {
        match row {
            HistoryRow::Past { id, tenant, workload, state, ended, record } => {
                let sql = "INSERT OR REPLACE INTO past (id, tenant, workload, state, ended, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let values = params![id.0 as i64, tenant, workload, state, ended.0 as i64, record];
                transaction.prepare_cached(sql)?.execute(values)?;
            }
            HistoryRow::Sample { at, totals } => {
                let sql = "INSERT OR REPLACE INTO sample (at, totals) VALUES (?1, ?2)";
                transaction.prepare_cached(sql)?.execute(params![at.0 as i64, totals])?;
            }
            HistoryRow::Audit { at, until, facts } => {
                let sql = "INSERT OR REPLACE INTO audit (at, until, facts) VALUES (?1, ?2, ?3)";
                transaction.prepare_cached(sql)?.execute(params![at.0 as i64, until.0 as i64, facts])?;
            }
            HistoryRow::Point { resolution, at, keep, facts } => {
                let sql = "INSERT OR REPLACE INTO point (resolution, at, facts) VALUES (?1, ?2, ?3)";
                transaction.prepare_cached(sql)?.execute(params![*resolution as i64, at.0 as i64, facts])?;
                let old = at.0.saturating_sub(keep * 1_000_000) as i64;
                let sql = "DELETE FROM point WHERE resolution = ?1 AND at < ?2";
                transaction.prepare_cached(sql)?.execute(params![*resolution as i64, old])?;
            }
            HistoryRow::Deed(deed) => deeds::write(transaction, deed)?,
        }
    }
    Ok(())
}

impl Store {
    /// A job that is over.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn past_job<T: DeserializeOwned>(&self, id: u64) -> Done<Option<T>> {
        let filter = PastFilter { beyond: Some(id.saturating_add(1)), most: 1, ..PastFilter::default() };
        let (found, jobs) = self.past_rows(&filter)?;
        match (found.first(), jobs.into_iter().next()) {
            (Some(&first), Some(text)) if first == id => parsed(&text, &format!("job {id}")).map(Some),
            _ => Ok(None),
        }
    }

    /// Jobs that are over, page by page.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn past_jobs<T: DeserializeOwned>(&self, filter: &PastFilter) -> Done<Vec<T>> {
        let (_, texts) = self.past_rows(filter)?;
        texts.iter().map(|text| parsed(text, "a past job")).collect()
    }

    fn past_rows(&self, filter: &PastFilter) -> Done<(Vec<u64>, Vec<String>)> {
        let doing = StoreError::sqlite("reading past jobs");
        let mut conditions = vec!["1".to_owned()];
        let mut values: Vec<Value> = Vec::new();
        let mut put = |text: String, value: Value| {
            conditions.push(text);
            values.push(value);
        };
        if let Some(tenant) = &filter.tenant {
            put("tenant = ?".into(), tenant.clone().into());
        }
        if let Some(workload) = &filter.workload {
            put("workload = ?".into(), workload.clone().into());
        }
        if let Some(beyond) = filter.beyond {
            let sign = if filter.oldest_first { '>' } else { '<' };
            put(format!("id {sign} ?"), i64::try_from(beyond).unwrap_or(i64::MAX).into());
        }
        if !filter.states.is_empty() {
            let marks = vec!["?"; filter.states.len()].join(", ");
            conditions.push(format!("state IN ({marks})"));
            values.extend(filter.states.iter().map(|state| Value::from((*state).to_owned())));
        }
        let order = if filter.oldest_first { "ASC" } else { "DESC" };
        let sql = format!(
            "SELECT id, record FROM past WHERE {} ORDER BY id {order} LIMIT {}",
            conditions.join(" AND "),
            filter.most
        );
        let mut select = self.connection.prepare_cached(&sql).map_err(&doing)?;
        let rows = select.query_map(params_from_iter(values), |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)));
        let rows = rows.and_then(Iterator::collect::<Result<Vec<(u64, String)>, _>>).map_err(doing)?;
        Ok(rows.into_iter().unzip())
    }

    /// The last counters at or before a moment, or the first of all.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn sample_at<T: DeserializeOwned>(&self, at: Time) -> Done<Option<(Time, T)>> {
        let doing = StoreError::sqlite("reading energy accounts");
        let mut select = self
            .connection
            .prepare_cached(
                "SELECT at, totals FROM (SELECT at, totals FROM sample WHERE at <= ?1 ORDER BY at DESC LIMIT 1)
                 UNION ALL SELECT at, totals FROM (SELECT at, totals FROM sample ORDER BY at LIMIT 1) LIMIT 1",
            )
            .map_err(&doing)?;
        let mut rows = select.query([at.0 as i64]).map_err(&doing)?;
        let Some(row) = rows.next().map_err(&doing)? else { return Ok(None) };
        let (at, text): (i64, String) = (row.get(0).map_err(&doing)?, row.get(1).map_err(&doing)?);
        Ok(Some((Time(at as u64), parsed(&text, "an energy account")?)))
    }

    /// Periods of fairness that overlap a window, oldest first, the newest `most` of them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn audits<T: DeserializeOwned>(&self, from: Time, to: Time, most: usize) -> Done<Vec<(Time, Time, T)>> {
        let doing = StoreError::sqlite("reading audits");
        let sql = "SELECT at, until, facts FROM audit WHERE until > ?1 AND at < ?2 ORDER BY at DESC LIMIT ?3";
        let mut select = self.connection.prepare_cached(sql).map_err(&doing)?;
        let mut rows =
            select.query(params![from.0 as i64, to.0.min(i64::MAX as u64) as i64, most as i64]).map_err(&doing)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(&doing)? {
            let (at, until, text): (i64, i64, String) =
                (row.get(0).map_err(&doing)?, row.get(1).map_err(&doing)?, row.get(2).map_err(&doing)?);
            found.push((Time(at as u64), Time(until as u64), parsed(&text, "an audit")?));
        }
        found.reverse();
        Ok(found)
    }

    /// Points of one resolution that begin in a window, oldest first, the newest `most` of them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn points<T: DeserializeOwned>(
        &self,
        resolution: u64,
        from: Time,
        to: Time,
        most: usize,
    ) -> Done<Vec<(Time, T)>> {
        let doing = StoreError::sqlite("reading the cluster's history");
        // The stretch that the window begins in counts.
        let from = from.0.saturating_sub(resolution * 1_000_000 - 1);
        let sql =
            "SELECT at, facts FROM point WHERE resolution = ?1 AND at >= ?2 AND at < ?3 ORDER BY at DESC LIMIT ?4";
        let mut select = self.connection.prepare_cached(sql).map_err(&doing)?;
        let values = params![resolution as i64, from as i64, to.0.min(i64::MAX as u64) as i64, most as i64];
        let mut rows = select.query(values).map_err(&doing)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(&doing)? {
            let (at, text): (i64, String) = (row.get(0).map_err(&doing)?, row.get(1).map_err(&doing)?);
            found.push((Time(at as u64), parsed(&text, "a point of the cluster's history")?));
        }
        found.reverse();
        Ok(found)
    }
}
