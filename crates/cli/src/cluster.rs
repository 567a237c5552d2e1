//! Clusters and outages as users write them: `v100:36,p100:36` and `v100-003@1h..2h`.

use crate::moment::Moment;
use crate::quantity;
use arles_core::{Cluster, Kind, Library, NodeId};
use arles_sim::scenario::NodeEvent;

/// GPUs by kind, in the order given; the kinds by the library's names.
pub(crate) type Counts = Vec<(String, u32)>;

/// Most GPUs a cluster may have; more is a slip of the finger.
const MOST_GPUS: u64 = 10_000_000;

/// Reads `v100:36,p100:36`; also Slurm's `gpu:v100:36`.
pub(crate) fn counts(text: &str) -> Result<Counts, String> {
    counts_among(text, &[])
}

/// The kind of this name: one that was described, or one of the library.
fn kind(name: &str, described: &[Kind]) -> Result<Kind, String> {
    let bare = name.trim();
    let own = |kind: &&Kind| std::iter::once(&kind.name).chain(&kind.aliases).any(|n| n.eq_ignore_ascii_case(bare));
    match described.iter().find(own) {
        Some(kind) => Ok(kind.clone()),
        None => Library::builtin().any_kind(name).map_err(|e| format!("{e}; 'arles kinds' lists all")),
    }
}

/// The same where some kinds are described by the configuration.
pub(crate) fn counts_among(text: &str, described: &[Kind]) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for part in text.split(',').map(str::trim) {
        let bare = part.strip_prefix("gpu:").unwrap_or(part);
        let (name, count) = bare
            .rsplit_once(':')
            .ok_or_else(|| format!("'{part}' has no GPU count; expected KIND:COUNT such as v100:36"))?;
        let kind = kind(name, described)?;
        if kind.is_mode() {
            return Err(format!(
                "'{name}' is a kind under a power limit; count the GPUs of its kind, and give the limit with --power-limits"
            ));
        }
        let count: u32 = count.trim().parse().map_err(|_| {
            format!("'{count}' in '{part}' is not a number of GPUs; expected a whole number such as {name}:36")
        })?;
        if counts.iter().any(|(known, _)| *known == kind.name) {
            return Err(format!("kind '{}' is listed twice in '{text}'; add its counts up", kind.name));
        }
        counts.push((kind.name.clone(), count));
    }
    match counts.iter().map(|(_, count)| u64::from(*count)).sum() {
        0 => Err(format!("'{text}' is a cluster with no GPUs; give at least one, for instance v100:4")),
        n if n > MOST_GPUS => Err(format!("'{text}' has {n} GPUs; expected at most {MOST_GPUS}")),
        _ => Ok(counts),
    }
}

/// A cluster of equal nodes. Kinds of which there are no GPUs are left out.
pub(crate) fn build(counts: &Counts, per_node: u32, described: &[Kind]) -> Result<Cluster, String> {
    let there = counts.iter().filter(|(_, count)| *count > 0);
    let (names, counts): (Vec<&String>, Vec<u32>) = there.map(|(name, count)| (name, *count)).unzip();
    let kinds = names.iter().map(|name| kind(name, described));
    let kinds = kinds.collect::<Result<_, _>>()?;
    Cluster::uniform(kinds, &counts, per_node).map_err(|e| e.to_string())
}

/// The same cluster where every job has its GPUs to itself.
pub(crate) fn unshared(cluster: &Cluster) -> Result<Cluster, String> {
    let kinds = cluster.kinds().iter().map(|kind| Kind { max_jobs: 1, ..kind.clone() }).collect();
    let nodes = cluster.nodes().iter().map(|node| (node.name.clone(), node.kind, node.gpu_range().len() as u32));
    Cluster::new(kinds, nodes).map_err(|e| e.to_string())
}

/// The same with `nodes` nodes of a kind to a rack, in order; none for 0. Racks are called v100-rack-00, v100-rack-01, ...
pub(crate) fn in_racks(cluster: Cluster, nodes: u32) -> Result<Cluster, String> {
    if nodes == 0 {
        return Ok(cluster);
    }
    let mut seen = vec![0; cluster.kinds().len()];
    let place = |(_, node): (_, &arles_core::Node)| {
        let at = &mut seen[node.kind.index()];
        let rack = format!("{}-rack-{:02}", cluster.kind(node.kind).name, *at / nodes);
        *at += 1;
        (node.name.clone(), rack)
    };
    let places: Vec<(String, String)> = cluster.present().map(place).collect();
    let places = places.iter().map(|(node, rack)| (node.as_str(), rack.as_str()));
    cluster.clone().with_racks(places).map_err(|e| e.to_string())
}

/// A limit that GPUs of a kind may be run under.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PowerLimit {
    kind: String,
    watts: f64,
}

/// Reads `h200@400W,h200@300W`; nothing is no limit.
pub(crate) fn power_limits(text: &str) -> Result<Vec<PowerLimit>, String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(power_limit).collect()
}

fn power_limit(text: &str) -> Result<PowerLimit, String> {
    let form = || format!("'{text}' is not a power limit; expected KIND@WATTS such as h200@400W");
    let (kind, watts) = text.rsplit_once('@').ok_or_else(form)?;
    let watts = watts.strip_suffix(['W', 'w']).unwrap_or(watts).trim().parse::<f64>().map_err(|_| form())?;
    if !(watts.is_finite() && watts > 0.0) {
        return Err(form());
    }
    Ok(PowerLimit { kind: kind.trim().to_owned(), watts })
}

/// The same cluster, whose GPUs may be run under these limits.
pub(crate) fn limited(cluster: Cluster, limits: &[PowerLimit]) -> Result<Cluster, String> {
    let mut modes = Vec::new();
    for PowerLimit { kind, watts } in limits {
        let names =
            |known: &Kind| std::iter::once(&known.name).chain(&known.aliases).any(|n| n.eq_ignore_ascii_case(kind));
        let here = cluster.kinds().iter().find(|known| names(known)).ok_or_else(|| {
            let kinds: Vec<&str> = cluster.kinds().iter().map(|kind| kind.name.as_str()).collect();
            format!("the cluster has no '{kind}' to run under {watts} W; it has {}", kinds.join(", "))
        })?;
        modes.push(here.limited_to(*watts).map_err(|e| e.to_string())?);
    }
    cluster.with_modes(&modes).map_err(|e| e.to_string())
}

/// "36 × v100, 36 × p100 on 18 nodes".
pub(crate) fn in_words(cluster: &Cluster) -> String {
    let kinds = cluster.kinds().iter().zip(cluster.counts()).filter(|(kind, _)| !kind.is_mode());
    let parts: Vec<String> = kinds.map(|(kind, n)| format!("{n} × {}", kind.name)).collect();
    let modes: Vec<&str> = cluster.modes().iter().map(|(mode, _)| cluster.kind(*mode).name.as_str()).collect();
    let limits = if modes.is_empty() { String::new() } else { format!(", which may run as {}", modes.join(", ")) };
    let nodes = cluster.present().count();
    format!("{} on {nodes} node{}{limits}", parts.join(", "), if nodes == 1 { "" } else { "s" })
}

/// A node that is away for a while.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Outage {
    node: String,
    from_seconds: f64,
    until_seconds: f64,
}

/// Reads `v100-003@1h..2h,p100-000@30m..45m`.
///
/// Every outage ends: a node that never came back could leave jobs that wait for ever.
pub(crate) fn outages(text: &str) -> Result<Vec<Outage>, String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(outage).collect()
}

fn outage(text: &str) -> Result<Outage, String> {
    let form = || format!("'{text}' is not an outage; expected NODE@FROM..UNTIL such as v100-003@1h..2h");
    let (node, span) = text.rsplit_once('@').ok_or_else(form)?;
    let (from, until) = span.split_once("..").ok_or_else(form)?;
    let outage = Outage {
        node: node.trim().to_owned(),
        from_seconds: quantity::seconds(from)?,
        until_seconds: quantity::seconds(until)?,
    };
    if outage.until_seconds <= outage.from_seconds {
        return Err(format!("'{text}' ends before it begins; expected a later time after the dots"));
    }
    Ok(outage)
}

/// Reads `12kW,8kW@6h,none@12h` or `1.2MW@06:00,0.8MW@18:00`: what all GPUs together may draw, from when on.
pub(crate) fn budgets(text: &str) -> Result<Vec<(Moment, Option<f64>)>, String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(budget).collect()
}

fn budget(text: &str) -> Result<(Moment, Option<f64>), String> {
    let (amount, from) = text.rsplit_once('@').unwrap_or((text, "0s"));
    let from = Moment::read(from)?;
    let watts = if amount.trim() == "none" { None } else { Some(quantity::power(amount)?) };
    Ok((from, watts))
}

/// The events of outages on the nodes of a cluster.
pub(crate) fn script(outages: &[Outage], cluster: &Cluster) -> Result<Vec<NodeEvent>, String> {
    let mut events = Vec::new();
    for (i, outage) in outages.iter().enumerate() {
        let at = cluster.nodes().iter().position(|node| node.name == outage.node);
        let node = NodeId(at.ok_or_else(|| no_such_node(&outage.node, cluster))? as u32);
        let meets = |o: &Outage| {
            o.node == outage.node && o.from_seconds < outage.until_seconds && outage.from_seconds < o.until_seconds
        };
        if outages[..i].iter().any(meets) {
            return Err(format!("two outages of node '{}' overlap; make them one", outage.node));
        }
        events.push(NodeEvent { at_seconds: outage.from_seconds, node, up: false });
        events.push(NodeEvent { at_seconds: outage.until_seconds, node, up: true });
    }
    Ok(events)
}

fn no_such_node(name: &str, cluster: &Cluster) -> String {
    let names = || cluster.nodes().iter().map(|node| node.name.as_str());
    let near = arles_core::library::nearest(name, names()).or_else(|| names().next()).unwrap_or_default();
    format!("there is no node '{name}' in this cluster; nodes are called KIND-NUMBER, for instance {near}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_read() {
        assert_eq!(counts("v100:2, gpu:k80:1").unwrap(), [("v100".to_owned(), 2), ("k80".to_owned(), 1)]);
        let cluster = build(&counts("v100:5,k80:0,t4:1").unwrap(), 4, &[]).unwrap();
        assert_eq!(in_words(&cluster), "5 × v100, 1 × t4 on 3 nodes");
        let racks = in_racks(build(&counts("v100:20,t4:1").unwrap(), 4, &[]).unwrap(), 2).unwrap();
        let names: Vec<_> = racks.present().map(|(node, _)| racks.rack_of(node).unwrap()).collect();
        let expected = ["v100-rack-00", "v100-rack-00", "v100-rack-01", "v100-rack-01", "v100-rack-02", "t4-rack-00"];
        assert_eq!(names, expected);
        for wrong in ["", "v100", "v100:x", "v100:-1", "v101:3", "v100:0", "v100:1,Tesla-V100:1", "v100:4000000000"] {
            assert!(counts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn outages_are_read_and_placed() {
        let cluster = build(&counts("v100:5").unwrap(), 4, &[]).unwrap();
        let events = script(&outages("v100-001@1h..2h, v100-000@5..6").unwrap(), &cluster).unwrap();
        assert_eq!(events.len(), 4);
        assert_eq!((events[0].node, events[0].at_seconds, events[0].up), (NodeId(1), 3600.0, false));
        for wrong in ["v100-001", "v100-001@1h", "v100-001@2h..1h", "v100-001@x..1h"] {
            assert!(outages(wrong).is_err(), "{wrong}");
        }
        for wrong in ["v100-009@1..2", "v100-000@1..5,v100-000@4..6"] {
            assert!(script(&outages(wrong).unwrap(), &cluster).is_err(), "{wrong}");
        }
    }
}
