//! Changes of a cluster, checked before anything is changed: after an error it is what it was.

use super::{Cluster, ClusterChange, ClusterError, Node, NodeSpec};
use crate::{GpuId, Kind, KindId, NodeId, RackId};
use std::collections::BTreeSet;

/// Longest name of a node or a kind: that of a host in the domain name system.
pub(super) const MAX_NAME: usize = 253;
/// Most GPUs of one node. Far above any machine; a slip of the keyboard must not fill the memory.
pub(super) const MAX_GPUS_PER_NODE: u32 = 1024;

/// What a change came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Applied {
    /// The node that is meant: a node that joined, or one that was there.
    pub node: NodeId,
    /// The node of the same name that left for it.
    pub replaced: Option<NodeId>,
    /// Whether it is a node that was not there before.
    pub joined: bool,
    /// Whether the cluster has one more kind.
    pub new_kind: bool,
    /// Whether the cluster is another than before. Drains and lost GPUs leave it as it is: they are the scheduler's to know.
    pub changed: bool,
}

impl Cluster {
    /// Takes in a change.
    ///
    /// # Errors
    /// When it names what is not there or says what cannot be. The cluster is then as it was.
    pub fn apply(&mut self, change: &ClusterChange) -> Result<Applied, ClusterError> {
        let known = |name: &String| self.find(name).ok_or_else(|| ClusterError::UnknownNode(name.clone()));
        let same = |node| Applied { node, replaced: None, joined: false, new_kind: false, changed: false };
        match change {
            ClusterChange::Join(spec) => self.join(spec),
            ClusterChange::Remove { node, .. } => {
                let id = known(node)?;
                self.nodes[id.index()].removed = true;
                Ok(Applied { changed: true, ..same(id) })
            }
            ClusterChange::Drain { node, .. } | ClusterChange::Undrain { node } => Ok(same(known(node)?)),
            ClusterChange::GpusLost { node, gpus, .. } | ClusterChange::GpusBack { node, gpus } => {
                let id = known(node)?;
                let has = self.node(id).gpus;
                match gpus.iter().find(|&&gpu| gpu >= has) {
                    Some(&gpu) => Err(ClusterError::UnknownGpu(node.clone(), gpu, has)),
                    None if gpus.is_empty() => Err(ClusterError::NoGpuNamed(node.clone())),
                    None => Ok(same(id)),
                }
            }
            ClusterChange::CorrectKind { node, kind } => {
                let id = known(node)?;
                if kind.is_mode() {
                    return Err(ClusterError::NodeOfMode(node.clone()));
                }
                let (kind, new_kind) = self.kind_or_new(kind)?;
                let changed = std::mem::replace(&mut self.nodes[id.index()].kind, kind) != kind;
                Ok(Applied { new_kind, changed, ..same(id) })
            }
            ClusterChange::AddMode { node, mode } => self.add_mode(known(node)?, mode),
        }
    }

    fn add_mode(&mut self, node: NodeId, mode: &Kind) -> Result<Applied, ClusterError> {
        if self.kind(self.node(node).kind).name != mode.sold_as() {
            return Err(ClusterError::UnknownBase(mode.name.clone()));
        }
        let new_kind = self.offer(mode)?;
        Ok(Applied { node, replaced: None, joined: false, new_kind, changed: new_kind })
    }

    fn join(&mut self, spec: &NodeSpec) -> Result<Applied, ClusterError> {
        let NodeSpec { name, kind, gpus, cpus, memory_gib, rack } = spec;
        check_name(name)?;
        if !(1..=MAX_GPUS_PER_NODE).contains(gpus) {
            return Err(ClusterError::BadCount(name.clone(), *gpus));
        }
        check_amounts(name, *cpus, *memory_gib)?;
        rack.as_deref().map_or(Ok(()), check_name)?;
        if kind.is_mode() {
            return Err(ClusterError::NodeOfMode(name.clone()));
        }
        let there = self.find(name);
        if let Some(id) = there {
            let node = self.node(id);
            if node.gpus == *gpus && self.kind(node.kind).name == kind.name {
                let rack = self.rack_or_new(rack.as_deref())?;
                let node = &mut self.nodes[id.index()];
                let changed = (node.cpus, node.memory_gib, node.rack) != (*cpus, *memory_gib, rack);
                (node.cpus, node.memory_gib, node.rack) = (*cpus, *memory_gib, rack);
                return Ok(Applied { node: id, replaced: None, joined: false, new_kind: false, changed });
            }
        }
        let (first_gpu, id) = (self.gpu_node.len() as u32, self.nodes.len() as u32);
        if id == u32::MAX || first_gpu.checked_add(*gpus).is_none() {
            return Err(ClusterError::Full);
        }
        let (kind, new_kind) = self.kind_or_new(kind)?;
        let rack = self.rack_or_new(rack.as_deref())?;
        if let Some(old) = there {
            self.nodes[old.index()].removed = true;
        }
        self.gpu_node.extend(std::iter::repeat_n(NodeId(id), *gpus as usize));
        let (name, first_gpu) = (name.clone(), GpuId(first_gpu));
        let (cpus, memory_gib) = (*cpus, *memory_gib);
        self.nodes.push(Node { name, kind, first_gpu, gpus: *gpus, cpus, memory_gib, rack, removed: false });
        Ok(Applied { node: NodeId(id), replaced: there, joined: true, new_kind, changed: true })
    }

    /// The kind of this name, or one more. Kinds are known by their names: one that is there stays as it was described first.
    fn kind_or_new(&mut self, kind: &Kind) -> Result<(KindId, bool), ClusterError> {
        if let Some(j) = self.kinds.iter().position(|known| known.name == kind.name) {
            return Ok((KindId(j as u16), false));
        }
        check_kind(kind)?;
        if self.kinds.len() >= usize::from(u16::MAX) {
            return Err(ClusterError::Full);
        }
        self.kinds.push(kind.clone());
        Ok((KindId(self.kinds.len() as u16 - 1), true))
    }

    /// GPUs of a kind may be run in this mode too, from now on. Whether it is a new one.
    pub(super) fn offer(&mut self, mode: &Kind) -> Result<bool, ClusterError> {
        let known = |kind: &&Kind| !kind.is_mode() && kind.name == mode.sold_as();
        if !mode.is_mode() || !self.kinds.iter().any(|kind| known(&kind)) {
            return Err(ClusterError::UnknownBase(mode.name.clone()));
        }
        let new = self.kind_or_new(mode)?.1;
        if new {
            self.modes = super::modes(&self.kinds)?;
        }
        Ok(new)
    }

    /// The rack of this name, or one more.
    pub(super) fn rack_or_new(&mut self, rack: Option<&str>) -> Result<Option<RackId>, ClusterError> {
        let Some(name) = rack else { return Ok(None) };
        check_name(name)?;
        let known = self.racks.iter().position(|known| known == name);
        let at = known.unwrap_or_else(|| {
            self.racks.push(name.to_owned());
            self.racks.len() - 1
        });
        u32::try_from(at).map(|at| Some(RackId(at))).map_err(|_| ClusterError::Full)
    }

    /// Checks a cluster that was read: everything that [`Cluster::new`] and [`Cluster::apply`] make sure of.
    ///
    /// # Errors
    /// What is wrong first.
    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        let mut names = BTreeSet::new();
        if let Some(kind) = self.kinds.iter().find(|kind| !names.insert(&kind.name)) {
            return Err(ClusterError::DuplicateKind(kind.name.clone()));
        }
        if super::modes(&self.kinds)? != self.modes {
            return Err(ClusterError::UnknownBase("a mode".into()));
        }
        names.clear();
        let mut numbered = 0;
        for (node, n) in self.nodes.iter().zip(0..) {
            if node.kind.index() >= self.kinds.len() {
                return Err(ClusterError::UnknownKind(node.name.clone()));
            }
            if self.kind(node.kind).is_mode() {
                return Err(ClusterError::NodeOfMode(node.name.clone()));
            }
            if !node.removed && !names.insert(&node.name) {
                return Err(ClusterError::DuplicateNode(node.name.clone()));
            }
            check_amounts(&node.name, node.cpus, node.memory_gib)?;
            if node.rack.is_some_and(|rack| rack.index() >= self.racks.len()) {
                return Err(ClusterError::UnknownRack(node.name.clone()));
            }
            let next = numbered + node.gpus as usize;
            let whose = self.gpu_node.get(numbered..next);
            if node.first_gpu.index() != numbered || whose.is_none_or(|ids| ids.iter().any(|&id| id != NodeId(n))) {
                return Err(ClusterError::Misnumbered(node.name.clone()));
            }
            numbered = next;
        }
        match self.nodes.last() {
            _ if self.gpu_node.is_empty() => Err(ClusterError::NoGpus),
            Some(last) if numbered != self.gpu_node.len() => Err(ClusterError::Misnumbered(last.name.clone())),
            _ => Ok(()),
        }
    }
}

fn check_name(name: &str) -> Result<(), ClusterError> {
    let odd = |c: char| c.is_whitespace() || crate::name::is_hidden(c);
    match name.is_empty() || name.len() > MAX_NAME || name.contains(odd) {
        true => Err(ClusterError::BadName(name.chars().take(MAX_NAME).collect())),
        false => Ok(()),
    }
}

fn check_amounts(node: &str, cpus: Option<f64>, memory_gib: Option<f64>) -> Result<(), ClusterError> {
    for (what, amount) in [("CPUs", cpus), ("GiB of memory", memory_gib)] {
        if let Some(wrong) = amount.filter(|x| !(x.is_finite() && *x >= 0.0)) {
            return Err(ClusterError::BadAmount(node.to_owned(), what, wrong.to_string()));
        }
    }
    Ok(())
}

fn check_kind(kind: &Kind) -> Result<(), ClusterError> {
    check_name(&kind.name)?;
    let positive = [("memory_gib", kind.memory_gib), ("hourly_usd", kind.hourly_usd)];
    let amounts = [
        ("bandwidth_gbps", kind.bandwidth_gbps),
        ("fp32_tflops", kind.fp32_tflops),
        ("tf32_tflops", kind.tf32_tflops),
        ("fp16_tflops", kind.fp16_tflops),
        ("int8_tops", kind.int8_tops),
        ("link_gbps", kind.link_gbps),
        ("idle_watts", kind.idle_watts),
        ("max_watts", kind.max_watts),
    ];
    let none_or_less = positive.iter().find(|(_, x)| !(x.is_finite() && *x > 0.0));
    let negative = amounts.iter().find(|(_, x)| !(x.is_finite() && *x >= 0.0));
    if let Some((what, value)) = none_or_less.or(negative) {
        return Err(ClusterError::BadFigure(kind.name.clone(), what, value.to_string()));
    }
    match kind.max_jobs {
        0 => Err(ClusterError::BadFigure(kind.name.clone(), "max_jobs", "0".into())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
