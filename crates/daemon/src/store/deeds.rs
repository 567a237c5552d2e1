//! Who changed what: a row for every change that somebody asked for, written in the commit of its entry.
//!
//! Entries go when snapshots make them needless; these rows stay for as long as the log is kept ([`Retention`](super::Retention)).

use super::{Done, Store, StoreError};
use arles_core::Time;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use serde::{Deserialize, Serialize};

/// A change that somebody asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Deed {
    /// Number of the row; 0 until it is written.
    pub id: u64,
    /// Number of the journal's entry; tokens have none.
    pub seq: Option<u64>,
    /// When, on the scheduler's clock.
    pub at: Time,
    /// Name of the token.
    pub name: String,
    /// Where the request came from.
    pub address: Option<String>,
    /// What kind of change, in one word.
    pub kind: String,
    /// The tenant it is about, if it is about one.
    pub tenant: Option<String>,
    /// The job it is about, if it is about one.
    pub job: Option<u64>,
    /// The change in words.
    pub text: String,
}

/// Which changes to list.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeedFilter {
    /// Only those about this tenant.
    pub tenant: Option<String>,
    /// Only those about this job.
    pub job: Option<u64>,
    /// Only those of the token with this name.
    pub by: Option<String>,
    /// Only those of this kind.
    pub kind: Option<String>,
    /// Only those from this moment on.
    pub from: Time,
    /// Only those before this moment.
    pub to: Time,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
    /// Only rows after this number, in the requested order.
    pub beyond: Option<u64>,
    /// Maximum number of rows.
    pub most: usize,
}

pub(super) fn write(connection: &Connection, deed: &Deed) -> rusqlite::Result<()> {
    let sql =
        "INSERT INTO deed (seq, at, name, address, kind, tenant, job, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let (seq, job) = (deed.seq.map(|seq| seq as i64), deed.job.map(|job| job as i64));
    let values = params![seq, deed.at.0 as i64, deed.name, deed.address, deed.kind, deed.tenant, job, deed.text];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Deed> {
    Ok(Deed {
        id: row.get::<_, i64>(0)? as u64,
        seq: row.get::<_, Option<i64>>(1)?.map(|seq| seq as u64),
        at: Time(row.get::<_, i64>(2)? as u64),
        name: row.get(3)?,
        address: row.get(4)?,
        kind: row.get(5)?,
        tenant: row.get(6)?,
        job: row.get::<_, Option<i64>>(7)?.map(|job| job as u64),
        text: row.get(8)?,
    })
}

impl Store {
    /// Notes a change that no entry of the journal stands for.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_deed(&mut self, deed: &Deed) -> Done<()> {
        write(&self.connection, deed).map_err(StoreError::sqlite("writing the log of changes"))
    }

    /// Changes, page by page.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn deeds(&self, filter: &DeedFilter) -> Done<Vec<Deed>> {
        let doing = StoreError::sqlite("reading the log of changes");
        let moment = |time: Time| Value::from(i64::try_from(time.0).unwrap_or(i64::MAX));
        let mut conditions = vec!["at >= ?".to_owned(), "at < ?".to_owned()];
        let mut values = vec![moment(filter.from), moment(filter.to)];
        for (column, text) in [("tenant", &filter.tenant), ("name", &filter.by), ("kind", &filter.kind)] {
            if let Some(text) = text {
                conditions.push(format!("{column} = ?"));
                values.push(text.clone().into());
            }
        }
        if let Some(job) = filter.job {
            conditions.push("job = ?".into());
            values.push(i64::try_from(job).unwrap_or(i64::MAX).into());
        }
        if let Some(beyond) = filter.beyond {
            conditions.push(format!("id {} ?", if filter.oldest_first { '>' } else { '<' }));
            values.push(i64::try_from(beyond).unwrap_or(i64::MAX).into());
        }
        let order = if filter.oldest_first { "ASC" } else { "DESC" };
        let sql = format!(
            "SELECT id, seq, at, name, address, kind, tenant, job, text FROM deed WHERE {} ORDER BY id {order} LIMIT {}",
            conditions.join(" AND "),
            filter.most
        );
        let mut select = self.connection.prepare_cached(&sql).map_err(&doing)?;
        let rows = select.query_map(params_from_iter(values), read);
        rows.and_then(Iterator::collect).map_err(doing)
    }
}
