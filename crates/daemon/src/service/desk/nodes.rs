//! Changes of the cluster that an operator asks for, and kinds that the library lacks.

use super::Desk;
use crate::Refusal;
use crate::access::Caller;
use crate::service::Change;
use arles_api as api;
use arles_core::library::suggestion;
use arles_core::{Cluster, ClusterChange, Kind, KindId, Library, Node, NodeSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nodes and kinds that one cluster may ever have had: their numbers are never used again.
const MOST_NODES: usize = 1_000_000;
const MOST_KINDS: usize = 1000;

impl Desk {
    /// A node gets no new jobs until it is undrained.
    ///
    /// # Errors
    /// When there is no such node, or the service cannot take the request now.
    pub async fn drain(&self, who: &Caller, node: &str, request: api::DrainRequest) -> Result<api::Node, Refusal> {
        self.check_node(node)?;
        let seconds = request.deadline_seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        let deadline = seconds.map(|seconds| self.shared.clock.now().after(seconds.min(1e9)));
        let why = text("why", &request.why)?;
        self.change_nodes(who, ClusterChange::Drain { node: node.to_owned(), why, deadline }).await?;
        self.node(who, node)
    }

    /// A drained node gets jobs again.
    ///
    /// # Errors
    /// When there is no such node, it is not drained, or the service cannot take the request now.
    pub async fn undrain(&self, who: &Caller, node: &str) -> Result<api::Node, Refusal> {
        self.check_node(node)?;
        if self.node(who, node)?.drain.is_none() {
            let message = format!("node '{}' is not drained", node.escape_debug());
            return Err(Refusal::conflict("not-drained", message, "'arles nodes' shows the nodes and their states"));
        }
        self.change_nodes(who, ClusterChange::Undrain { node: node.to_owned() }).await?;
        self.node(who, node)
    }

    /// A node leaves for good; the answer is how it was.
    ///
    /// # Errors
    /// When there is no such node, or the service cannot take the request now.
    pub async fn remove_node(&self, who: &Caller, node: &str) -> Result<api::Node, Refusal> {
        self.check_node(node)?;
        let before = self.node(who, node)?;
        let why = format!("removed by {}", who.name);
        self.change_nodes(who, ClusterChange::Remove { node: node.to_owned(), why }).await?;
        Ok(before)
    }

    /// A node joins; one of the same name with other GPUs leaves.
    ///
    /// # Errors
    /// When the request is invalid, or the service cannot take it now.
    pub async fn add_node(&self, who: &Caller, request: api::NodeRequest) -> Result<api::Node, Refusal> {
        let name = text("name", &request.name)?;
        let kind = self.kind(&request.kind, request.specification.as_ref())?;
        let (nodes, kinds) = {
            let cluster = Arc::clone(self.shared.book().cluster());
            (cluster.nodes().len(), cluster.kinds().len())
        };
        if nodes >= MOST_NODES || kinds >= MOST_KINDS {
            let message = format!("the limit of {MOST_NODES} nodes and {MOST_KINDS} kinds is reached");
            return Err(Refusal::conflict("nodes", message, "begin a new journal with 'arles serve --state'"));
        }
        let (cpus, memory_gib) = (request.cpus, request.memory_gib);
        let spec = NodeSpec { name: name.clone(), kind, gpus: request.gpus, cpus, memory_gib, rack: request.rack };
        self.change_nodes(who, ClusterChange::Join(spec)).await?;
        self.node(who, &name)
    }

    /// The GPUs of a node are of another kind than was thought.
    ///
    /// # Errors
    /// When there is no such node or kind, or the service cannot take the request now.
    pub async fn correct_kind(
        &self,
        who: &Caller,
        node: &str,
        request: api::KindCorrection,
    ) -> Result<api::Node, Refusal> {
        self.check_node(node)?;
        let kind = self.kind(&request.kind, request.specification.as_ref())?;
        self.change_nodes(who, ClusterChange::CorrectKind { node: node.to_owned(), kind }).await?;
        self.node(who, node)
    }

    /// Makes a change of the cluster, as a configuration that changed asks for it.
    ///
    /// # Errors
    /// When it makes no sense, or the service cannot take it now.
    pub async fn change_cluster(&self, change: ClusterChange) -> Result<(), Refusal> {
        self.change_nodes(&Caller::configuration(), change).await
    }

    async fn change_nodes(&self, who: &Caller, change: ClusterChange) -> Result<(), Refusal> {
        self.change(who, Change::Cluster(Box::new(change))).await.map(|_| ())
    }

    /// Kinds, nodes and GPUs as of the last entry of the journal.
    #[must_use]
    pub fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(self.shared.book().cluster())
    }

    /// Follows a configuration: makes the changes between the one of the last start and this one, and remembers it. Nodes that operators
    /// added or removed meanwhile stay as they are. Says what was done.
    ///
    /// # Errors
    /// When a change makes no sense, or the journal cannot be written.
    pub async fn follow_configuration(&self, cluster: &Cluster) -> Result<Vec<String>, Refusal> {
        let broken = |error: crate::store::StoreError| {
            crate::store::log_error(&error);
            Refusal::unavailable("journal", "the configured cluster cannot be read or written", "see the server's log")
        };
        let tokens = || self.shared.tokens.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let kept = tokens().configured_cluster().map_err(broken)?;
        let last = kept.unwrap_or_else(|| self.shared.header.cluster.clone());
        if last == *cluster {
            return Ok(Vec::new());
        }
        let mut done = Vec::new();
        for change in differences(&last, cluster) {
            let text = match &change {
                ClusterChange::Join(spec) => format!("{} joins with {} × {}", spec.name, spec.gpus, spec.kind.name),
                // It may have left already: a start that was interrupted is begun again.
                ClusterChange::Remove { node, .. } if self.cluster().find(node).is_none() => continue,
                ClusterChange::Remove { node, .. } => format!("{node} leaves"),
                ClusterChange::AddMode { mode, .. } => format!("GPUs may be run as {}", mode.name),
                _ => continue,
            };
            self.change_cluster(change).await?;
            done.push(text);
        }
        tokens().set_configured_cluster(cluster).map_err(broken)?;
        Ok(done)
    }

    fn node(&self, who: &Caller, name: &str) -> Result<api::Node, Refusal> {
        self.view(who).node(name).ok_or_else(|| self.no_node(name))
    }

    fn check_node(&self, name: &str) -> Result<(), Refusal> {
        self.cluster().find(name).map(|_| ()).ok_or_else(|| self.no_node(name))
    }

    fn no_node(&self, name: &str) -> Refusal {
        let cluster = self.cluster();
        let names = cluster.present().map(|(_, node)| node.name.as_str());
        let message = format!("there is no node '{}'{}", name.escape_debug(), suggestion(name, names));
        Refusal::not_found("no-such-node", message, "'arles nodes' lists them")
    }

    /// A kind by any of its names, or described.
    fn kind(&self, name: &str, described: Option<&api::KindSpec>) -> Result<Kind, Refusal> {
        let cluster = self.cluster();
        let known = kind_at(cluster.kinds(), name).map(|at| &cluster.kinds()[at]);
        match (described, known) {
            (Some(spec), known) => {
                let kind = described_kind(name, spec).map_err(|sentence| {
                    Refusal::unprocessable("kind", sentence, "'arles kinds' lists the kinds that need no description")
                })?;
                match known.filter(|known| **known != kind) {
                    Some(known) => Err(Refusal::conflict(
                        "kind-known",
                        format!("kind '{}' is known with other figures", known.name),
                        "leave the specification out, or use another name",
                    )),
                    None => Ok(kind),
                }
            }
            (None, Some(known)) => Ok(known.clone()),
            (None, None) => Library::builtin().any_kind(name).map_err(|error| {
                let hint = "'arles kinds' lists them; describe another with \"specification\"";
                Refusal::unprocessable("no-such-kind", error, hint)
            }),
        }
    }
}

/// What turns one configured cluster into another. Nodes join before others leave, so that there are always some.
fn differences(last: &Cluster, now: &Cluster) -> Vec<ClusterChange> {
    let same = |a: &Node, b: &Node| {
        let racks = (a.rack.map(|rack| &last.racks()[rack.index()]), b.rack.map(|rack| &now.racks()[rack.index()]));
        a.gpus == b.gpus
            && last.kind(a.kind) == now.kind(b.kind)
            && (a.cpus, a.memory_gib) == (b.cpus, b.memory_gib)
            && racks.0 == racks.1
    };
    let named = |cluster: &Cluster| -> BTreeMap<String, Node> {
        cluster.present().map(|(_, node)| (node.name.clone(), node.clone())).collect()
    };
    let (before, after) = (named(last), named(now));
    let joins = now.present().filter(|(_, node)| before.get(&node.name).is_none_or(|before| !same(before, node)));
    let join = |(_, node): (_, &Node)| {
        ClusterChange::Join(NodeSpec {
            name: node.name.clone(),
            kind: now.kind(node.kind).clone(),
            gpus: node.gpus,
            cpus: node.cpus,
            memory_gib: node.memory_gib,
            rack: node.rack.map(|rack| now.racks()[rack.index()].clone()),
        })
    };
    let gone = last.present().filter(|(_, node)| !after.contains_key(&node.name));
    let leave = |(_, node): (_, &Node)| ClusterChange::Remove {
        node: node.name.clone(),
        why: "no longer in the configuration".into(),
    };
    let new = |(mode, _): &&(KindId, KindId)| !last.kinds().iter().any(|kind| kind.name == now.kind(*mode).name);
    let offer = |&(mode, base): &(KindId, KindId)| {
        let (_, node) = now.present().find(|(_, node)| node.kind == base)?;
        Some(ClusterChange::AddMode { node: node.name.clone(), mode: now.kind(mode).clone() })
    };
    let offers = now.modes().iter().filter(new).filter_map(offer);
    joins.map(join).chain(gone.map(leave)).chain(offers).collect()
}

/// A line of text that somebody wrote.
fn text(field: &'static str, text: &str) -> Result<String, Refusal> {
    super::name(field, field, text, 500)
}

/// The kind that goes by this name among those of a cluster: its own name, one of its aliases, or any name that the library knows it by.
pub(super) fn kind_at(kinds: &[Kind], name: &str) -> Option<usize> {
    let own = |kind: &Kind| kind.name == name || kind.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name));
    kinds.iter().position(own).or_else(|| {
        let known = Library::builtin().any_kind(name).ok()?;
        kinds.iter().position(|kind| kind.name == known.name)
    })
}

/// A kind from the figures that somebody gives.
///
/// # Errors
/// A sentence with the figure, what was expected, and for names that mean something else already.
pub fn described_kind(name: &str, spec: &api::KindSpec) -> Result<Kind, String> {
    let sound = |text: &str| {
        !text.is_empty()
            && text.chars().count() <= 100
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' '))
    };
    for name in std::iter::once(name).chain(spec.aliases.iter().map(String::as_str)) {
        if !sound(name) {
            let name = name.escape_debug();
            return Err(format!("'{name}' is not a name for a kind; use letters, digits, '-', '_' and '.'"));
        }
        if let Ok(known) = Library::builtin().any_kind(name) {
            return Err(format!("'{name}' already stands for {} in the library; use another name", known.product));
        }
    }
    let within = |field: &str, value: f64, least: f64, most: f64| match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(format!("{field} of kind '{name}' is {value}; expected a number from {least} to {most}")),
    };
    let fp32_tflops = within("fp32_tflops", spec.fp32_tflops, 0.01, 1e6)?;
    let idle_watts = within("idle_watts", spec.idle_watts, 0.0, 1e5)?;
    let max_watts = within("max_watts", spec.max_watts, 1.0, 1e5)?;
    if max_watts < idle_watts {
        return Err(format!("max_watts of kind '{name}' is {max_watts}; expected at least idle_watts, {idle_watts}"));
    }
    let tf32 = spec.tf32_tflops.unwrap_or(fp32_tflops);
    Ok(Kind {
        name: name.to_owned(),
        product: spec.product.clone().unwrap_or_else(|| name.to_owned()),
        year: spec.year.unwrap_or(0),
        memory_gib: within("memory_gib", spec.memory_gib, 0.1, 1e5)?,
        bandwidth_gbps: within("bandwidth_gbps", spec.bandwidth_gbps, 1.0, 1e7)?,
        fp32_tflops,
        tf32_tflops: within("tf32_tflops", tf32, 0.01, 1e6)?,
        fp16_tflops: within("fp16_tflops", spec.fp16_tflops.unwrap_or(tf32), 0.01, 1e6)?,
        int8_tops: within("int8_tops", spec.int8_tops.unwrap_or(0.0), 0.0, 1e6)?,
        link_gbps: within("link_gbps", spec.link_gbps.unwrap_or(16.0), 0.1, 1e6)?,
        idle_watts,
        max_watts,
        power_limit: None,
        hourly_usd: within("hourly_usd", spec.hourly_usd.unwrap_or(1.0), 1e-6, 1e6)?,
        max_jobs: match spec.max_jobs.unwrap_or(2) {
            jobs @ 1..=2 => jobs,
            jobs => return Err(format!("max_jobs of kind '{name}' is {jobs}; expected 1 or 2")),
        },
        aliases: spec.aliases.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> api::KindSpec {
        serde_json::from_str(
            r#"{"memory_gib": 96, "bandwidth_gbps": 1800, "fp32_tflops": 120, "idle_watts": 30, "max_watts": 600,
                "aliases": ["RTX 6000 Blackwell"]}"#,
        )
        .expect("figures")
    }

    #[test]
    fn a_described_kind_has_all_figures() {
        let kind = described_kind("rtx6000b", &spec()).expect("a kind");
        assert_eq!((kind.tf32_tflops, kind.fp16_tflops, kind.int8_tops, kind.link_gbps), (120.0, 120.0, 0.0, 16.0));
        let kinds = [kind];
        assert_eq!(kind_at(&kinds, "rtx 6000 blackwell"), Some(0));
        assert_eq!(kind_at(&kinds, "v100"), None);
    }

    #[test]
    fn a_changed_configuration_is_joins_and_removals() {
        let cluster = |counts: &[(&str, u32)]| {
            let kinds = counts.iter().map(|(name, _)| Library::builtin().kind(name).expect("known").clone()).collect();
            let counts: Vec<u32> = counts.iter().map(|(_, count)| *count).collect();
            Cluster::uniform(kinds, &counts, 4).expect("a cluster")
        };
        let (small, large) = (cluster(&[("v100", 8), ("k80", 4)]), cluster(&[("v100", 10), ("t4", 4)]));
        let words = |changes: Vec<ClusterChange>| -> Vec<String> {
            let word = |change: ClusterChange| match change {
                ClusterChange::Join(spec) => format!("+{} {}", spec.name, spec.gpus),
                ClusterChange::Remove { node, .. } => format!("-{node}"),
                other => format!("{other:?}"),
            };
            changes.into_iter().map(word).collect()
        };
        assert_eq!(words(differences(&small, &large)), ["+v100-002 2", "+t4-000 4", "-k80-000"]);
        assert!(differences(&small, &small).is_empty());
    }

    #[test]
    fn wrong_figures_are_told() {
        let wrong = |name: &str, change: fn(&mut api::KindSpec)| {
            let mut spec = spec();
            change(&mut spec);
            described_kind(name, &spec).expect_err(name)
        };
        assert!(wrong("Tesla-V100", |_| {}).contains("already stands for"));
        assert!(wrong("a/b", |_| {}).contains("is not a name for a kind"));
        assert!(wrong("mine", |spec| spec.memory_gib = f64::NAN).contains("memory_gib of kind 'mine' is NaN"));
        assert!(wrong("mine", |spec| spec.max_watts = 10.0).contains("expected at least idle_watts, 30"));
        assert!(wrong("mine", |spec| spec.max_jobs = Some(9)).contains("expected 1 or 2"));
        assert!(wrong("mine", |spec| spec.aliases = vec!["a100".into()]).contains("already stands for"));
    }
}
