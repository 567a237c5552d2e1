//! The cluster of the configuration that a daemon last ran with.
//!
//! The journal's cluster changes by its entries. A configuration that has changed since the last start is the difference of two
//! configurations, not of a configuration and the cluster: nodes that operators added or removed meanwhile are left alone.

use super::{Done, Store, StoreError, parsed};
use arles_core::Cluster;
use rusqlite::OptionalExtension;

const KEY: &str = "configured";

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
}
