//! What lists are asked for.

use arles_api::JobState;

/// Which jobs to list, and which page of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JobsQuery {
    /// Only jobs in these states; all states if empty.
    pub states: Vec<JobState>,
    /// Only jobs of this tenant.
    pub tenant: Option<String>,
    /// Only jobs that run this workload.
    pub workload: Option<String>,
    /// Only jobs of this name.
    pub name: Option<String>,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Jobs on a page (1 to 1000; 100 if not given).
    pub limit: Option<u32>,
}

/// A page of a long list.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Entries on a page (1 to 1000; 100 if not given).
    pub limit: Option<u32>,
}

/// What energy is grouped by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnergyBy {
    /// One account per job.
    Job,
    /// One account per tenant.
    Tenant,
    /// One account per GPU kind.
    Kind,
}
