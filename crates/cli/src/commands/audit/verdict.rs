//! What an audit's figures mean, in words.
//!
//! Every sentence has the figure that it rests on. Whether the policy promised what does not hold is said too: a broken promise is a defect, a property that
//! nobody promised is a choice.

use crate::quantity::shown;
use arles_core::allocate::{PolicyEntry, Promise};
use arles_report::audit::{AuditRecord, AuditVerdict, PartyRecord};

/// A ratio this near to 1 is 1: answers end in their last digits somewhere.
pub(crate) const LEVEL: f64 = 1e-4;
/// The same for means over time: rounds and whole gangs leave more.
pub(crate) const STEADY: f64 = 0.01;
/// A lie that gains less is not worth telling.
const WORTH_LYING: f64 = 1e-3;
/// Jobs of whole gangs take turns, so ends are that much apart anyway.
const LATE: f64 = 0.05;

/// Fills in the verdicts of an audit from its figures. `steady` is set where figures are means over time.
pub(crate) fn judge(record: &mut AuditRecord, policy: Option<&PolicyEntry>, steady: bool) {
    let level = if steady { STEADY } else { LEVEL };
    let parties = &record.parties;
    let mut verdicts = vec![envy(parties, policy, level), sharing(parties, policy, level)];
    verdicts.push(pareto(record, policy, level));
    verdicts.push(lies(parties));
    verdicts.push(finish(parties, if steady { LATE } else { level }));
    verdicts.extend(beside(parties, policy, level));
    record.verdict = summary(&verdicts);
    record.verdicts = verdicts;
}

fn promised(policy: Option<&PolicyEntry>, promise: Promise) -> String {
    match policy {
        Some(policy) if policy.promises(promise) => format!("; {} promises otherwise for plain problems", policy.name),
        Some(policy) => format!("; {} does not promise it", policy.name),
        None => String::new(),
    }
}

/// The party with the largest of a figure, and the figure.
fn worst(parties: &[PartyRecord], of: impl Fn(&PartyRecord) -> Option<f64>) -> Option<(&PartyRecord, f64)> {
    let known = parties.iter().filter_map(|party| of(party).filter(|x| !x.is_nan()).map(|x| (party, x)));
    known.reduce(|most, other| if other.1 > most.1 { other } else { most })
}

fn ratio(value: f64) -> String {
    if value.is_finite() { shown(value, 3) } else { "infinitely".into() }
}

fn envy(parties: &[PartyRecord], policy: Option<&PolicyEntry>, level: f64) -> AuditVerdict {
    let property = "envy-freeness";
    let Some((party, most)) = worst(parties, |party| party.worst_envy) else {
        let words = if parties.len() < 2 { "there is nobody to envy" } else { "envy was not looked at" };
        return AuditVerdict { property, holds: (parties.len() < 2).then_some(true), words: words.into() };
    };
    let envious = parties.iter().filter(|party| party.worst_envy.is_some_and(|envy| envy > 1.0 + level)).count();
    if envious == 0 {
        let words = format!("nobody would rather have another's GPUs (nearest: {} at {})", party.name, ratio(most));
        return AuditVerdict { property, holds: Some(true), words };
    }
    let whom = party.envied.as_deref().unwrap_or("somebody");
    let more = if most.is_finite() {
        format!("those GPUs, scaled to its claim, would give it {} %", shown((most - 1.0) * 100.0, 3)) + " more"
    } else {
        "it has nothing and could use them".to_owned()
    };
    let words = format!(
        "{envious} of {} would rather have another's GPUs; most of all {} those of {whom}: {more}{}",
        parties.len(),
        party.name,
        promised(policy, Promise::EnvyFree)
    );
    AuditVerdict { property, holds: Some(false), words }
}

fn sharing(parties: &[PartyRecord], policy: Option<&PolicyEntry>, level: f64) -> AuditVerdict {
    let property = "sharing incentive";
    let Some((party, least)) = worst(parties, |party| party.sharing_ratio.map(|ratio| -ratio)) else {
        return AuditVerdict { property, holds: None, words: "what anybody wanted is not known".into() };
    };
    let least = -least;
    let below = parties.iter().filter(|party| party.sharing_ratio.is_some_and(|ratio| ratio < 1.0 - level)).count();
    let words = match below {
        0 => format!(
            "everybody has {} (least: {} with {})",
            if least < 1.0 - LEVEL {
                format!("what an equal division would give, within {} %", shown(level * 100.0, 3))
            } else {
                "at least what an equal division would give".to_owned()
            },
            party.name,
            ratio(least)
        ),
        n => format!(
            "{n} of {} would be better off with their own part of the cluster; {} has {} of that{}",
            parties.len(),
            party.name,
            ratio(least),
            promised(policy, Promise::SharingIncentive)
        ),
    };
    AuditVerdict { property, holds: Some(below == 0), words }
}

fn pareto(record: &AuditRecord, policy: Option<&PolicyEntry>, level: f64) -> AuditVerdict {
    let property = "Pareto efficiency";
    let (Some(gap), Some(bound)) = (record.pareto_gap_ratio, record.pareto_bound_ratio) else {
        let words = "nothing was looked for: that takes the problem itself, which an allocation or a journal has";
        return AuditVerdict { property, holds: None, words: words.into() };
    };
    let per_cent = |part: f64| shown(part * 100.0, 3);
    if gap <= level {
        let words = format!("nothing is wasted: at most {} % more in all with nobody worse off", per_cent(bound));
        return AuditVerdict { property, holds: Some(true), words };
    }
    let words = format!(
        "{} % more in all would be had with nobody worse off (at most {} %){}",
        per_cent(gap),
        per_cent(bound),
        promised(policy, Promise::ParetoEfficient)
    );
    AuditVerdict { property, holds: Some(false), words }
}

fn lies(parties: &[PartyRecord]) -> AuditVerdict {
    let property = "no gain from lies";
    let Some((party, gain)) = worst(parties, |party| party.best_lie.as_ref().map(|lie| lie.gain)) else {
        return AuditVerdict {
            property,
            holds: None,
            words: "no lies were tried: that takes a policy to lie to".into(),
        };
    };
    let tried: usize = parties.iter().filter_map(|party| party.best_lie.as_ref()).map(|lie| lie.tried).sum();
    let paid = |party: &&PartyRecord| party.best_lie.as_ref().is_some_and(|lie| lie.gain > 1.0 + WORTH_LYING);
    let liars = parties.iter().filter(paid).count();
    if liars == 0 {
        let words = format!("none of {tried} lies gains anybody more than {} %", shown(WORTH_LYING * 100.0, 1));
        return AuditVerdict { property, holds: Some(true), words };
    }
    let slant = party.best_lie.as_ref().map_or("", |lie| lie.slant.as_str());
    let words = format!(
        "{liars} of {} gain by a lie; most of all {}, {} % by {} speed-ups ({tried} lies tried)",
        parties.len(),
        party.name,
        shown((gain - 1.0) * 100.0, 3),
        match slant {
            "inflated" => "inflated",
            "deflated" => "deflated",
            _ => "mixed",
        }
    );
    AuditVerdict { property, holds: Some(false), words }
}

fn finish(parties: &[PartyRecord], level: f64) -> AuditVerdict {
    let property = "finish-time fairness";
    let Some((party, most)) = worst(parties, |party| party.finish_time_ratio) else {
        return AuditVerdict { property, holds: None, words: "no job's end was seen".into() };
    };
    let words = match most <= 1.0 + level {
        true => format!(
            "nobody ends later than with its own part of the cluster (latest: {}, {} of that time)",
            party.name,
            ratio(most)
        ),
        false => format!("{} takes {} times as long as with its own part of the cluster", party.name, ratio(most)),
    };
    AuditVerdict { property, holds: Some(most <= 1.0 + level), words }
}

/// Whether an allocation is what the policy answers to the rates as they are; nothing where none was laid beside it.
fn beside(parties: &[PartyRecord], policy: Option<&PolicyEntry>, level: f64) -> Option<AuditVerdict> {
    let (more, most) = worst(parties, |party| party.beside_policy_ratio)?;
    let (less, least) = worst(parties, |party| party.beside_policy_ratio.map(|ratio| -ratio))?;
    let (least, name) = (-least, policy.map_or("the policy", |policy| policy.name));
    let (property, level) = ("as the policy answers", level.max(1e-3));
    if most <= 1.0 + level && least >= 1.0 - level {
        let words = format!("everybody has what {name} gives for these rates");
        return Some(AuditVerdict { property, holds: Some(true), words });
    }
    let words = format!(
        "this is not what {name} answers to these rates: {} has {} of what it would get and {} has {}; \
         somebody may have stated other rates",
        more.name,
        ratio(most),
        less.name,
        ratio(least)
    );
    Some(AuditVerdict { property, holds: Some(false), words })
}

fn summary(verdicts: &[AuditVerdict]) -> String {
    let named =
        |holds: bool| -> Vec<&str> { verdicts.iter().filter(|v| v.holds == Some(holds)).map(|v| v.property).collect() };
    let (kept, broken) = (named(true), named(false));
    match (kept.is_empty(), broken.is_empty()) {
        (_, true) if kept.is_empty() => "Nothing could be judged.".into(),
        (_, true) => format!("Fair in all that was looked at: {}.", listed(&kept)),
        (true, false) => format!("Not fair. What does not hold: {}.", listed(&broken)),
        (false, false) => format!("What does not hold: {}. What holds: {}.", listed(&broken), listed(&kept)),
    }
}

fn listed(parts: &[&str]) -> String {
    match parts {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => parts.concat(),
    }
}
