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

/// Which changes to list, and which page of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LogQuery {
    /// Only changes about this tenant.
    pub tenant: Option<String>,
    /// Only changes about this job.
    pub job: Option<u64>,
    /// Only changes by the token of this name.
    pub by: Option<String>,
    /// Only changes of this kind.
    pub kind: Option<String>,
    /// Start of the window, in seconds since 1970.
    pub from: Option<f64>,
    /// End of the window.
    pub to: Option<f64>,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Changes on a page (1 to 1000; 100 if not given).
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
