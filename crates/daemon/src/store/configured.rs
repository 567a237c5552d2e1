//! The cluster and the quotas of the configuration that a daemon last ran with.
//!
//! The journal's cluster changes by its entries. A configuration that has changed since the last start is the difference of two
//! configurations, not of a configuration and the cluster: nodes that operators added or removed meanwhile are left alone.

use super::{Done, Store, StoreError, parsed};
use arles_core::{Cluster, Quota};
use rusqlite::OptionalExtension;
use std::collections::BTreeMap;

const KEY: &str = "configured";
const QUOTAS: &str = "configured-quotas";

impl Store {
    /// The cluster of the last configuration; `None` if no other than the header's was ever given.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn configured_cluster(&self) -> Done<Option<Cluster>> {
        let text: Option<String> = self
            .connection
            .query_row("SELECT value FROM meta WHERE key = ?1", [KEY], |row| row.get(0))
            .optional()
            .map_err(StoreError::sqlite("reading the configured cluster"))?;
        text.map(|text| parsed(&text, "the configured cluster")).transpose()
    }

    /// Remembers the cluster of a configuration whose changes are made.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_configured_cluster(&mut self, cluster: &Cluster) -> Done<()> {
        let text = serde_json::to_string(cluster).expect("plain data");
        self.connection
            .execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", [KEY, &text])
            .map_err(StoreError::sqlite("writing the configured cluster"))?;
        Ok(())
    }

    /// The quotas of the last configuration, by tenant.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn configured_quotas(&self) -> Done<BTreeMap<String, Quota>> {
        let text: Option<String> = self
            .connection
            .query_row("SELECT value FROM meta WHERE key = ?1", [QUOTAS], |row| row.get(0))
            .optional()
            .map_err(StoreError::sqlite("reading the configured quotas"))?;
        Ok(text.map(|text| parsed(&text, "the configured quotas")).transpose()?.unwrap_or_default())
    }

    /// Remembers the quotas of a configuration whose changes are made.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn set_configured_quotas(&mut self, quotas: &BTreeMap<String, Quota>) -> Done<()> {
        let text = serde_json::to_string(quotas).expect("plain data");
        self.connection
            .execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", [QUOTAS, &text])
            .map_err(StoreError::sqlite("writing the configured quotas"))?;
        Ok(())
    }
}
