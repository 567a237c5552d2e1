//! One look of an engine at its cluster, as the loop takes it in: cut into entries of about a thousand GPUs.
//!
//! What ten thousand gangs do is megabytes of journal; as one entry, everybody's requests would wait until it is written and shown.

use crate::read::book::Book;
use crate::store::entry::Entry;
use arles_core::engine::{EngineReport, LostGpu, Meters};
use arles_core::{Cluster, Input, NodeSpec};

/// GPUs, or jobs on them, in one entry.
const IN_ONE_ENTRY: usize = 1024;

/// A report of an engine, in entries.
pub(crate) struct Look {
    /// In the order in which they are journalled: nodes and gangs, what the meters show, what was measured.
    pub(crate) entries: Vec<Entry>,
    pub(crate) inventory: Option<Vec<NodeSpec>>,
    pub(crate) lost_gpus: Option<Vec<LostGpu>>,
}

impl Look {
    /// A report that was mended.
    pub(crate) fn new(report: EngineReport, cluster: &Cluster, book: &Book) -> Self {
        let EngineReport { survey, meters, observations, inventory, lost_gpus } = report;
        let surveys = survey.in_parts(cluster, IN_ONE_ENTRY).into_iter();
        let mut entries: Vec<Entry> = surveys.map(|part| Entry::Input(Input::Surveyed(part))).collect();
        if meters != Meters::default() {
            entries.extend(meters.in_parts(IN_ONE_ENTRY).into_iter().map(Entry::Meters));
        }
        let measured = observations.chunks(IN_ONE_ENTRY);
        entries.extend(measured.map(|seen| Entry::Measured(book.heard_from_engine(seen.to_vec()))));
        Self { entries, inventory, lost_gpus }
    }
}
