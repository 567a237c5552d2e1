//! A cluster that changes: nodes join, leave, drain and return; GPUs are lost and found; a kind is corrected.

use super::*;
use crate::ClusterChange;

impl Scheduler {
    pub(super) fn change_cluster(&mut self, _change: &ClusterChange, _out: &mut Vec<Output>) {}
}
