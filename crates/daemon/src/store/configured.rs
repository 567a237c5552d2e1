//! The cluster and the quotas of the configuration that a daemon last ran with.
//!
//! The journal's cluster changes by its entries. A configuration that has changed since the last start is the difference of two
//! configurations, not of a configuration and the cluster: nodes that operators added or removed meanwhile are left alone.

use super::{Done, Store, parsed};
use arles_core::{Cluster, Quota};
use std::collections::BTreeMap;

const KEY: &str = "configured";
const QUOTAS: &str = "configured-quotas";

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

    /// The quotas of the last configuration, by tenant.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn configured_quotas(&self) -> Done<BTreeMap<String, Quota>> {
        Ok(self.meta(QUOTAS)?.map(|text| parsed(&text, "the configured quotas")).transpose()?.unwrap_or_default())
    }

    /// Remembers the quotas of a configuration whose changes are made.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn set_configured_quotas(&mut self, quotas: &BTreeMap<String, Quota>) -> Done<()> {
        self.set_meta(QUOTAS, &serde_json::to_string(quotas).expect("plain data"))
    }
}
