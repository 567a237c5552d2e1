//! The machines: kinds, nodes and their GPUs. Made only by [`Cluster::new`], which checks them.

use crate::{GpuId, Kind, KindId, NodeId, Time};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// A host with GPUs of one kind. (A host with two kinds is two nodes.)
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// Kind of all its GPUs.
    pub kind: KindId,
    /// Number of its first GPU.
    pub first_gpu: GpuId,
    /// How many GPUs it has.
    pub gpus: u32,
    /// CPUs for jobs; `None` where nobody counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Host memory for jobs; `None` where nobody counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<f64>,
    /// Whether it has left for good. Its number and those of its GPUs are never given to others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// A node as somebody describes it: an engine that found it, or an operator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Unique among the nodes that are there.
    pub name: String,
    /// Kind of all its GPUs; it joins the cluster's kinds if it is new there.
    pub kind: Kind,
    /// How many GPUs it has; positive.
    pub gpus: u32,
    /// CPUs for jobs; `None` where nobody counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Host memory for jobs; `None` where nobody counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<f64>,
}

/// A change of the cluster. Nodes are named, because whoever asks for a change knows names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterChange {
    /// A node is there with these GPUs. One of the same name with other GPUs leaves first; one with the same GPUs only gets these CPUs and
    /// this memory.
    Join(NodeSpec),
    /// A node leaves for good. Its gangs are stopped, or given up if it cannot be reached.
    Remove {
        /// Which node.
        node: String,
        /// For whoever asks later.
        why: String,
    },
    /// A node gets no new gangs. Those that run may go on until a round before the deadline; then they are stopped with a checkpoint
    /// and moved. Without a deadline they may go on until they end.
    Drain {
        /// Which node.
        node: String,
        /// For whoever asks later.
        why: String,
        /// By when it must be empty.
        deadline: Option<Time>,
    },
    /// A drained node gets gangs again.
    Undrain {
        /// Which node.
        node: String,
    },
    /// Single GPUs of a node cannot be used.
    GpusLost {
        /// Which node.
        node: String,
        /// Counted from 0 on the node.
        gpus: Vec<u32>,
        /// For whoever asks later.
        why: String,
    },
    /// They can be used again.
    GpusBack {
        /// Which node.
        node: String,
        /// Counted from 0 on the node.
        gpus: Vec<u32>,
    },
    /// The GPUs of a node are, and always were, of another kind. They keep their numbers.
    CorrectKind {
        /// Which node.
        node: String,
        /// What they really are.
        kind: Kind,
    },
}

impl Node {
    /// GPUs are numbered through the cluster, those of a node without a gap.
    #[must_use]
    pub fn gpu_range(&self) -> Range<u32> {
        self.first_gpu.0..self.first_gpu.0 + self.gpus
    }
}

/// A set of nodes that can be scheduled: at least one GPU, every node of a known kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cluster {
    kinds: Vec<Kind>,
    nodes: Vec<Node>,
    gpu_node: Vec<NodeId>,
}

/// Why a list of nodes is no cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterError {
    /// There is nothing to schedule.
    NoGpus,
    /// Two nodes share a name.
    DuplicateNode(String),
    /// Two kinds share a name.
    DuplicateKind(String),
    /// A node's kind is not in the list of kinds.
    UnknownKind(String),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGpus => write!(f, "the cluster has no GPUs; give at least one, for instance v100:4"),
            Self::DuplicateNode(name) => write!(f, "two nodes are called '{name}'; every node needs a name of its own"),
            Self::DuplicateKind(name) => write!(f, "kind '{name}' is listed twice; add its counts up"),
            Self::UnknownKind(node) => write!(f, "node '{node}' has a kind that is not in the cluster's list of kinds"),
        }
    }
}

impl std::error::Error for ClusterError {}

impl Cluster {
    /// Numbers the GPUs of `nodes` (name, kind, count) in order and checks the whole.
    ///
    /// # Errors
    /// When there is no GPU at all, a name occurs twice, or a kind is unknown.
    pub fn new(kinds: Vec<Kind>, nodes: impl IntoIterator<Item = (String, KindId, u32)>) -> Result<Self, ClusterError> {
        let mut names = std::collections::BTreeSet::new();
        if let Some(kind) = kinds.iter().find(|k| !names.insert(k.name.clone())) {
            return Err(ClusterError::DuplicateKind(kind.name.clone()));
        }
        let (mut checked, mut gpu_node) = (Vec::new(), Vec::new());
        names.clear();
        for (name, kind, gpus) in nodes {
            if kind.index() >= kinds.len() {
                return Err(ClusterError::UnknownKind(name));
            }
            if !names.insert(name.clone()) {
                return Err(ClusterError::DuplicateNode(name));
            }
            let first_gpu = GpuId(gpu_node.len() as u32);
            gpu_node.extend(std::iter::repeat_n(NodeId(checked.len() as u32), gpus as usize));
            checked.push(Node { name, kind, first_gpu, gpus, cpus: None, memory_gib: None, removed: false });
        }
        if gpu_node.is_empty() {
            return Err(ClusterError::NoGpus);
        }
        Ok(Self { kinds, nodes: checked, gpu_node })
    }

    /// A cluster of equal nodes: `counts[j]` GPUs of kind `j`, at most `per_node` to a node.
    ///
    /// # Errors
    /// As [`Cluster::new`].
    pub fn uniform(kinds: Vec<Kind>, counts: &[u32], per_node: u32) -> Result<Self, ClusterError> {
        let per_node = per_node.max(1);
        let mut nodes = Vec::new();
        for (j, &count) in counts.iter().enumerate() {
            let kind = kinds.get(j).map_or_else(|| format!("kind{j}"), |k| k.name.clone());
            for (i, start) in (0..count).step_by(per_node as usize).enumerate() {
                nodes.push((format!("{kind}-{i:03}"), KindId(j as u16), per_node.min(count - start)));
            }
        }
        Self::new(kinds, nodes)
    }

    /// All kinds, by id.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// All nodes, by id.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The id must be of this cluster.
    #[must_use]
    pub fn kind(&self, id: KindId) -> &Kind {
        &self.kinds[id.index()]
    }

    /// The id must be of this cluster.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The node that holds a GPU.
    #[must_use]
    pub fn node_of(&self, gpu: GpuId) -> NodeId {
        self.gpu_node[gpu.index()]
    }

    /// The kind of a GPU.
    #[must_use]
    pub fn kind_of(&self, gpu: GpuId) -> KindId {
        self.nodes[self.gpu_node[gpu.index()].index()].kind
    }

    /// How many GPUs there are in all.
    #[must_use]
    pub fn gpus(&self) -> usize {
        self.gpu_node.len()
    }

    /// GPUs of each kind, by id.
    #[must_use]
    pub fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.kinds.len()];
        for node in &self.nodes {
            counts[node.kind.index()] += node.gpus;
        }
        counts
    }
}
