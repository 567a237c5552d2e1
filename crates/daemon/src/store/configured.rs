//! The cluster of the configuration that a daemon last ran with.
//!
//! The journal's cluster changes by its entries. A configuration that has changed since the last start is the difference of two
//! configurations, not of a configuration and the cluster: nodes that operators added or removed meanwhile are left alone.

use super::{Done, Store, parsed};
use arles_core::Cluster;

const KEY: &str = "configured";

impl Store {
    /// The cluster of the last configuration; `None` if no other than the header's was ever given.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn configured_cluster(&self) -> Done<Option<Cluster>> {
        self.meta(KEY)?.map(|text| parsed(&text, "the configured cluster")).transpose()
    }

    /// Remembers the cluster of a configuration whose changes are made.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_configured_cluster(&mut self, cluster: &Cluster) -> Done<()> {
        self.set_meta(KEY, &serde_json::to_string(cluster).expect("plain data"))
    }
}
