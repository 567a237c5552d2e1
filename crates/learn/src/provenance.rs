//! Explains in one clause where an estimate comes from.

use crate::evidence::{CellIndex, Evidence};
use crate::residual;
use crate::solo;
use crate::table::Setting;
use arles_core::WorkloadId;
use arles_core::estimate::RateQuery;

/// So many like workloads are named.
const NAMED: usize = 2;

/// A clause that says where an estimator's number for `ask` on the `kind`-th kind of the setting comes from.
#[must_use]
pub fn explain_source(setting: &Setting<'_>, estimator: &str, ask: &RateQuery, kind: usize) -> String {
    let evidence = Evidence::new(setting);
    let (workload, partner) = (ask.workload.index(), ask.partner.map(WorkloadId::index));
    let known = |t: usize| t < evidence.subjects();
    if !known(workload) || !partner.is_none_or(known) || kind >= evidence.kinds().len() {
        return "unknown workload or kind".into();
    }
    if let Some(cell) = evidence.measured(&CellIndex { workload, partner, kind, gang: ask.gang }) {
        return match cell.observations {
            0 | 1 => "measured once".into(),
            n => format!("measured {n} times"),
        };
    }
    let Source { like, of } = source(&evidence, workload, partner, kind);
    let place = &evidence.kinds()[kind].name;
    if partner.is_none() && estimator != "stated" && evidence.workloads()[workload].features.is_none() {
        return unknown(&evidence, workload, of, place);
    }
    let mut words = match (estimator, like.as_slice()) {
        ("stated", _) => "as stated by the submitter; kinds count as equal where nothing is stated".to_owned(),
        ("model", _) | (_, []) if of == 0 || estimator == "model" => {
            let why = if estimator == "model" {
                String::new()
            } else {
                format!("; no similar workload was measured on {place}")
            };
            format!("from the performance model{why}")
        }
        ("mean" | "completion", _) | (_, []) => format!("mean of {of} measured workloads"),
        ("nearest", [first, ..]) => format!("copy of {first}, the most similar of {of} measured workloads"),
        (_, like) => {
            format!("from {}, the most similar of {of} measured workloads", listed(&like[..like.len().min(NAMED)]))
        }
    };
    let own = own(&evidence, workload, partner);
    if !own.is_empty() && estimator != "model" && estimator != "stated" {
        words += &format!(", corrected by its own measurements {}", listed(&own[..own.len().min(NAMED)]));
    }
    if ask.gang > 1 {
        words += "; gang scaling by the model, corrected by measured gangs";
    }
    words
}

/// The clause about a workload of which nothing is known but its rates.
fn unknown(evidence: &Evidence, workload: usize, of: usize, place: &str) -> String {
    let own = own(evidence, workload, None);
    if !own.is_empty() {
        return format!(
            "its own measurements {}, carried over by the ratios between kinds of all measured workloads",
            listed(&own[..own.len().min(NAMED)])
        );
    }
    match of {
        0 => "from the performance model's median over the library; nothing is known of this workload".into(),
        _ => format!("mean of {of} workloads measured on {place}; nothing is known of this one"),
    }
}

struct Source {
    /// Names, most similar first.
    like: Vec<String>,
    /// How many measured workloads there are to choose from.
    of: usize,
}

/// Workloads measured on that kind (beside that partner), most similar first: relatives, then by distance.
fn source(evidence: &Evidence, workload: usize, partner: Option<usize>, kind: usize) -> Source {
    let (newcomer, there): (usize, Box<dyn Fn(usize) -> bool>) = match partner {
        None => (workload, Box::new(|k| evidence.alone(k, kind).is_finite())),
        Some(other) => {
            let (role, newcomer, other) = residual::roles(evidence, workload, other);
            (newcomer, Box::new(move |k| residual::relative(evidence, role, k, other, kind).is_finite()))
        }
    };
    let of = (0..evidence.workloads().len()).filter(|&k| k != newcomer && there(k)).count();
    let mut like: Vec<usize> = evidence.neighbours(newcomer).iter().map(|&(k, _)| k).filter(|&k| there(k)).collect();
    like.sort_by_key(|&k| !solo::related(evidence, newcomer, k));
    Source { like: like.iter().map(|&k| evidence.workloads()[k].name.clone()).collect(), of }
}

/// What was measured of a workload: "on k80", or "beside a3c-b4 on k80".
fn own(evidence: &Evidence, workload: usize, partner: Option<usize>) -> Vec<String> {
    let kinds = evidence.kinds().iter().enumerate();
    match partner {
        None => kinds
            .filter(|(a, _)| evidence.alone(workload, *a).is_finite())
            .map(|(_, k)| format!("on {}", k.name))
            .collect(),
        Some(other) => {
            let (role, newcomer, _) = residual::roles(evidence, workload, other);
            let beside = |(a, k): (usize, &arles_core::Kind)| {
                let measured = (0..evidence.workloads().len())
                    .filter(|&p| residual::relative(evidence, role, newcomer, p, a).is_finite())
                    .map(|p| format!("beside {} on {}", evidence.workloads()[p].name, k.name));
                measured.collect::<Vec<_>>()
            };
            kinds.flat_map(beside).collect()
        }
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
