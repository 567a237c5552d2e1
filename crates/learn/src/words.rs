//! Where a number comes from, in words.

use crate::ground::{Ground, Seen};
use crate::shift;
use crate::solo;
use crate::table::Setting;
use arles_core::WorkloadId;
use arles_core::estimate::RateQuery;

/// So many like workloads are named.
const NAMED: usize = 2;

/// A clause that says where an estimator's number for `ask` on the `kind`-th kind of the setting comes from.
#[must_use]
pub fn whence(setting: &Setting<'_>, estimator: &str, ask: &RateQuery, kind: usize) -> String {
    let ground = Ground::new(setting);
    let (thing, partner) = (ask.workload.index(), ask.partner.map(WorkloadId::index));
    let known = |t: usize| t < ground.subjects();
    if !known(thing) || !partner.is_none_or(known) || kind >= ground.kinds().len() {
        return "not a question that can be asked here".into();
    }
    if let Some(cell) = ground.measured(&Seen { thing, partner, kind, gang: ask.gang }) {
        return match cell.observations {
            0 | 1 => "measured once".into(),
            n => format!("measured {n} times"),
        };
    }
    let Source { like, of } = source(&ground, thing, partner, kind);
    let place = &ground.kinds()[kind].name;
    let mut words = match (estimator, like.as_slice()) {
        ("stated", _) => "what was stated; where nothing was, every kind alike".to_owned(),
        ("model", _) | (_, []) if of == 0 || estimator == "model" => {
            let why =
                if estimator == "model" { String::new() } else { format!("; nothing like it was measured on {place}") };
            format!("from the performance model{why}")
        }
        ("mean" | "completion", _) | (_, []) => format!("the mean of {of} measured workloads"),
        ("nearest", [first, ..]) => format!("a copy of {first}, the most alike of {of} measured workloads"),
        (_, like) => {
            format!("from {}, the most alike of {of} measured workloads", listed(&like[..like.len().min(NAMED)]))
        }
    };
    let own = own(&ground, thing, partner);
    if !own.is_empty() && estimator != "model" && estimator != "stated" {
        words += &format!(", corrected by what was measured of it {}", listed(&own[..own.len().min(NAMED)]));
    }
    if ask.gang > 1 {
        words += "; a gang scales as the model says, corrected by measured gangs";
    }
    words
}

struct Source {
    /// Names, most alike first.
    like: Vec<String>,
    /// Of so many.
    of: usize,
}

/// Who was measured where it is asked about, most alike first: relatives, then by distance.
fn source(ground: &Ground, thing: usize, partner: Option<usize>, kind: usize) -> Source {
    let (newcomer, there): (usize, Box<dyn Fn(usize) -> bool>) = match partner {
        None => (thing, Box::new(|k| ground.alone(k, kind).is_finite())),
        Some(other) => {
            let (role, newcomer, other) = shift::roles(ground, thing, other);
            (newcomer, Box::new(move |k| shift::relative(ground, role, k, other, kind).is_finite()))
        }
    };
    let of = (0..ground.things().len()).filter(|&k| k != newcomer && there(k)).count();
    let mut like: Vec<usize> = ground.near(newcomer).iter().map(|&(k, _)| k).filter(|&k| there(k)).collect();
    like.sort_by_key(|&k| !solo::related(ground, newcomer, k));
    Source { like: like.iter().map(|&k| ground.things()[k].name.clone()).collect(), of }
}

/// What was measured of a workload: "on k80", or "beside a3c-b4 on k80".
fn own(ground: &Ground, thing: usize, partner: Option<usize>) -> Vec<String> {
    let kinds = ground.kinds().iter().enumerate();
    match partner {
        None => {
            kinds.filter(|(a, _)| ground.alone(thing, *a).is_finite()).map(|(_, k)| format!("on {}", k.name)).collect()
        }
        Some(other) => {
            let (role, newcomer, _) = shift::roles(ground, thing, other);
            let beside = |(a, k): (usize, &arles_core::Kind)| {
                let measured = (0..ground.things().len())
                    .filter(|&p| shift::relative(ground, role, newcomer, p, a).is_finite())
                    .map(|p| format!("beside {} on {}", ground.things()[p].name, k.name));
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
