//! The machines: kinds, nodes and their GPUs. Made by [`Cluster::new`] and changed by [`Cluster::apply`], which check them.
//!
//! Numbers are given out once. A node that leaves stays in the list, marked; its number and those of its GPUs never name another, so
//! an old order, report or journal line can never be read as one about a newer machine.

use crate::{GpuId, Kind, KindId, NodeId, RackId, Time};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

mod change;

pub use change::Applied;

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
    /// The rack it stands in, or whatever its network is fast within; nodes of no rack stand together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<RackId>,
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
    /// Name of the rack it stands in, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
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
        /// By its name: one of the nodes that are there.
        node: String,
        /// For whoever asks later.
        why: String,
    },
    /// A node gets no new gangs. Those that run may go on until a round before the deadline; then they are stopped with a checkpoint
    /// and moved. Without a deadline they may go on until they end.
    Drain {
        /// By its name: one of the nodes that are there.
        node: String,
        /// For whoever asks later.
        why: String,
        /// By when it must be empty, on the driver's clock.
        deadline: Option<Time>,
    },
    /// A drained node gets gangs again.
    Undrain {
        /// By its name: one of the nodes that are there.
        node: String,
    },
    /// Single GPUs of a node cannot be used.
    GpusLost {
        /// By its name: one of the nodes that are there.
        node: String,
        /// Counted from 0 on the node.
        gpus: Vec<u32>,
        /// For whoever asks later.
        why: String,
    },
    /// They can be used again.
    GpusBack {
        /// By its name: one of the nodes that are there.
        node: String,
        /// Counted from 0 on the node.
        gpus: Vec<u32>,
    },
    /// The GPUs of a node are, and always were, of another kind. They keep their numbers.
    CorrectKind {
        /// By its name: one of the nodes that are there.
        node: String,
        /// What they really are.
        kind: Kind,
    },
    /// GPUs of a node's kind may be run under a power limit, on all nodes, from now on.
    AddMode {
        /// By its name: one of the nodes that are there.
        node: String,
        /// Its kind under the limit.
        mode: Kind,
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
    /// Names of racks, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    racks: Vec<String>,
    /// Kinds under a power limit, each with the kind whose GPUs it takes; in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    modes: Vec<(KindId, KindId)>,
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
    /// A node's rack is not in the list of racks.
    UnknownRack(String),
    /// The GPUs of a node are not numbered after those of the node before.
    Misnumbered(String),
    /// A change names a node that is not there.
    UnknownNode(String),
    /// A node, a rack or a kind has a name that cannot be used.
    BadName(String),
    /// A node has no GPUs, or more than a node can have.
    BadCount(String, u32),
    /// An amount of a node (what, value) is no number of 0 or more.
    BadAmount(String, &'static str, String),
    /// A figure of a kind (what, value) cannot be.
    BadFigure(String, &'static str, String),
    /// A change names a GPU that the node does not have (which, of how many).
    UnknownGpu(String, u32, u32),
    /// A change names no GPU.
    NoGpuNamed(String),
    /// A mode of a kind that is not in the list.
    UnknownBase(String),
    /// A node is said to be of a mode: its GPUs are of a kind, and may be run in modes.
    NodeOfMode(String),
    /// There are no numbers left.
    Full,
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGpus => write!(f, "the cluster has no GPUs; give at least one, for instance v100:4"),
            Self::DuplicateNode(name) => write!(f, "two nodes are called '{name}'; every node needs a name of its own"),
            Self::DuplicateKind(name) => write!(f, "kind '{name}' is listed twice; add its counts up"),
            Self::UnknownKind(node) => write!(f, "node '{node}' has a kind that is not in the cluster's list of kinds"),
            Self::UnknownRack(node) => write!(f, "node '{node}' has a rack that is not in the cluster's list of racks"),
            Self::Misnumbered(node) => write!(f, "the GPUs of node '{node}' are not numbered in order"),
            Self::UnknownNode(node) => {
                write!(f, "there is no node '{node}'; see 'arles nodes' for those that there are")
            }
            Self::BadName(name) => write!(
                f,
                "'{name}' is no name for a node, a rack or a kind; use 1 to {} characters without blanks",
                change::MAX_NAME
            ),
            Self::BadCount(node, gpus) => {
                write!(f, "node '{node}' has {gpus} GPUs; give it 1 to {}", change::MAX_GPUS_PER_NODE)
            }
            Self::BadAmount(node, what, value) => {
                write!(f, "node '{node}' has {value} {what}; give a number of 0 or more, or none if nobody counts it")
            }
            Self::BadFigure(kind, what, value) => {
                write!(f, "kind '{kind}' has {what} = {value}; see 'arles check-config' for what a kind must say")
            }
            Self::UnknownGpu(node, gpu, gpus) => {
                write!(f, "node '{node}' has no GPU {gpu}; its {gpus} GPUs are counted from 0")
            }
            Self::NoGpuNamed(node) => write!(f, "no GPU of node '{node}' is named; name at least one, counted from 0"),
            Self::UnknownBase(mode) => {
                write!(f, "'{mode}' is a power limit of a kind that the cluster does not have; name one that it has")
            }
            Self::NodeOfMode(node) => {
                write!(
                    f,
                    "node '{node}' is of a kind with a power limit; name its kind as sold, and the limit as a mode"
                )
            }
            Self::Full => {
                write!(f, "the cluster has no numbers left for more nodes, GPUs or kinds; begin a new journal")
            }
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
            checked.push(Node {
                name,
                kind,
                first_gpu,
                gpus,
                cpus: None,
                memory_gib: None,
                rack: None,
                removed: false,
            });
        }
        if gpu_node.is_empty() {
            return Err(ClusterError::NoGpus);
        }
        let modes = modes(&kinds)?;
        if let Some(node) = checked.iter().find(|node| kinds[node.kind.index()].is_mode()) {
            return Err(ClusterError::NodeOfMode(node.name.clone()));
        }
        Ok(Self { kinds, nodes: checked, gpu_node, racks: Vec::new(), modes })
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

    /// The same with nodes in racks: the rack of each node that is named, and nothing new of the others.
    ///
    /// # Errors
    /// When a node is not there, or a name cannot be used.
    pub fn with_racks<'n>(mut self, racks: impl IntoIterator<Item = (&'n str, &'n str)>) -> Result<Self, ClusterError> {
        for (node, rack) in racks {
            let id = self.find(node).ok_or_else(|| ClusterError::UnknownNode(node.to_owned()))?;
            self.nodes[id.index()].rack = self.rack_or_new(Some(rack))?;
        }
        Ok(self)
    }

    /// The same whose GPUs may also be run in these modes.
    ///
    /// # Errors
    /// When one is no mode of a kind of this cluster, or its figures make no sense.
    pub fn with_modes<'k>(mut self, modes: impl IntoIterator<Item = &'k Kind>) -> Result<Self, ClusterError> {
        for mode in modes {
            self.offer(mode)?;
        }
        Ok(self)
    }

    /// The kind whose GPUs a kind takes: another one for a mode, itself for any other.
    #[must_use]
    pub fn sold_as(&self, kind: KindId) -> KindId {
        match self.modes.binary_search_by_key(&kind, |(mode, _)| *mode) {
            Ok(at) => self.modes[at].1,
            Err(_) => kind,
        }
    }

    /// The modes of all kinds, each with the kind whose GPUs it takes.
    #[must_use]
    pub fn modes(&self) -> &[(KindId, KindId)] {
        &self.modes
    }

    /// Names of all racks, by id.
    #[must_use]
    pub fn racks(&self) -> &[String] {
        &self.racks
    }

    /// Name of the rack that a node stands in, where that is known.
    #[must_use]
    pub fn rack_of(&self, node: NodeId) -> Option<&str> {
        self.node(node).rack.and_then(|rack| self.racks.get(rack.index())).map(String::as_str)
    }

    /// All kinds, by id.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// All nodes that there ever were, by id: those that have left too ([`Node::removed`]).
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

    /// Nodes that have not left, in the order of their ids.
    pub fn present(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().zip(0..).filter(|(node, _)| !node.removed).map(|(node, n)| (NodeId(n), node))
    }

    /// The node of this name that has not left.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.present().find(|(_, node)| node.name == name).map(|(id, _)| id)
    }

    /// GPUs of nodes that have not left.
    #[must_use]
    pub fn present_gpus(&self) -> usize {
        self.present().map(|(_, node)| node.gpus as usize).sum()
    }

    /// How many GPUs there ever were: every [`GpuId`] is less.
    #[must_use]
    pub fn gpus(&self) -> usize {
        self.gpu_node.len()
    }

    /// GPUs of each kind, by id, on nodes that have not left.
    #[must_use]
    pub fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.kinds.len()];
        for (_, node) in self.present() {
            counts[node.kind.index()] += node.gpus;
        }
        counts
    }
}

/// The kinds that are modes, each with the kind whose GPUs it takes.
fn modes(kinds: &[Kind]) -> Result<Vec<(KindId, KindId)>, ClusterError> {
    let base = |mode: &Kind| kinds.iter().zip(0..).find(|(kind, _)| !kind.is_mode() && kind.name == mode.sold_as());
    let of = |(mode, j): (&Kind, u16)| match base(mode) {
        Some((_, base)) => Ok((KindId(j), KindId(base))),
        None => Err(ClusterError::UnknownBase(mode.name.clone())),
    };
    kinds.iter().zip(0..).filter(|(kind, _)| kind.is_mode()).map(of).collect()
}
