//! Changes in words, for the log of who did what. Made before the change is, while what it is about is still there.

use super::state_machine::StateMachine;
use crate::store::Deed;
use crate::store::entry::{Actor, Entry, Submission};
use arles_core::{ClusterChange, Input, JobId, TenantId, Time};

/// Characters of a change that has no words of its own.
const MOST_CHARACTERS: usize = 200;

/// What a change is called, and what it is about.
struct Words {
    kind: &'static str,
    tenant: Option<String>,
    job: Option<u64>,
    text: String,
}

/// The row for an entry that somebody asked for; `None` where another entry of the same request says it.
pub(super) fn describe(machine: &StateMachine, at: Time, seq: u64, entry: &Entry, by: &Actor) -> Option<Deed> {
    let Words { kind, tenant, job, text } = words(machine, entry)?;
    let (name, address) = (by.name.clone(), by.from.clone());
    Some(Deed { id: 0, seq: Some(seq), at, name, address, kind: kind.to_owned(), tenant, job, text })
}

fn words(machine: &StateMachine, entry: &Entry) -> Option<Words> {
    let about_job = |kind, job: JobId, verb: &str| {
        let tenant = machine.scheduler.job_status(job).and_then(|status| tenant(machine, status.spec.tenant));
        Words { kind, tenant, job: Some(job.0), text: format!("{verb} job {}", job.0) }
    };
    let about_all = |kind, text| Words { kind, tenant: None, job: None, text };
    Some(match entry {
        Entry::Submit(submission) => return submitted(machine, submission),
        Entry::Workload(_) => return None,
        Entry::Input(Input::Cancel(job)) => about_job("cancel", *job, "cancelled"),
        Entry::Input(Input::Hold(job)) => about_job("hold", *job, "held"),
        Entry::Input(Input::Release(job)) => about_job("release", *job, "released"),
        Entry::Input(Input::Policy(name)) => {
            let from = machine.scheduler.policy().name;
            about_all("policy", format!("switched the policy from {from} to {name}"))
        }
        Entry::Input(Input::Tenant(set)) => {
            let known = machine.scheduler.tenants().iter().find(|known| known.name == set.name);
            let text = match known {
                Some(known) => {
                    format!("changed the weight of tenant {} from {} to {}", set.name, known.weight, set.weight)
                }
                None => format!("added tenant {} with weight {}", set.name, set.weight),
            };
            Words { tenant: Some(set.name.clone()), ..about_all("tenant", text) }
        }
        Entry::Input(Input::Quota(name, quota)) => {
            let text = format!("set the quota of tenant {name}: {}", quota.words());
            Words { tenant: Some(name.clone()), ..about_all("tenant", text) }
        }
        Entry::Input(Input::RemoveTenant { name, cancel }) => {
            let and = if *cancel { " and cancelled its jobs" } else { "" };
            Words { tenant: Some(name.clone()), ..about_all("tenant", format!("removed tenant {name}{and}")) }
        }
        Entry::Input(Input::RackBudget { rack, watts }) => {
            let text = match watts {
                Some(watts) => format!("limited the GPUs of {rack} to {watts} W"),
                None => format!("lifted the power budget of {rack}"),
            };
            about_all("power-budget", text)
        }
        Entry::Input(Input::PowerBudget(watts)) => {
            let text = match watts {
                Some(watts) => format!("limited all GPUs together to {watts} W"),
                None => "lifted the power budget".to_owned(),
            };
            about_all("power-budget", text)
        }
        Entry::Input(Input::Prices(prices)) => {
            about_all("prices", format!("set {} prices of electricity", prices.bands().len()))
        }
        Entry::Input(Input::Cluster(change)) => about_all("node", node(change)),
        other => {
            let text = serde_json::to_string(other).unwrap_or_default();
            about_all("change", text.chars().take(MOST_CHARACTERS).collect())
        }
    })
}

fn tenant(machine: &StateMachine, id: TenantId) -> Option<String> {
    machine.scheduler.tenants().get(id.index()).map(|tenant| tenant.name.clone())
}

/// One row for a job, and one for all of an array.
fn submitted(machine: &StateMachine, submission: &Submission) -> Option<Words> {
    let spec = &submission.spec;
    if spec.array.is_some_and(|task| task.array != spec.id) {
        return None;
    }
    let workload = match machine.workloads.len() > spec.workload.index() {
        true => machine.workloads.name(spec.workload),
        false => "a new workload",
    };
    let gpus = if spec.most_gpus() == 1 { "1 GPU".to_owned() } else { format!("{} GPUs", spec.gpus_in_words()) };
    let text = match submission.tasks {
        0 => format!("submitted job {}: {workload} on {gpus}", spec.id.0),
        tasks => format!(
            "submitted jobs {} to {}, an array: {workload} on {gpus} each",
            spec.id.0,
            spec.id.0 + u64::from(tasks) - 1
        ),
    };
    Some(Words { kind: "submit", tenant: tenant(machine, spec.tenant), job: Some(spec.id.0), text })
}

fn node(change: &ClusterChange) -> String {
    match change {
        ClusterChange::Join(spec) => format!("added node {} with {} × {}", spec.name, spec.gpus, spec.kind.name),
        ClusterChange::Remove { node, .. } => format!("removed node {node}"),
        ClusterChange::Drain { node, why, .. } => format!("drained node {node}: {why}"),
        ClusterChange::Undrain { node } => format!("undrained node {node}"),
        ClusterChange::AddMode { node, mode } => format!("allowed node {node} to be run as {}", mode.name),
        ClusterChange::CorrectKind { node, kind } => format!("corrected the kind of node {node} to {}", kind.name),
        ClusterChange::GpusLost { node, .. } => format!("took GPUs of node {node} out of use"),
        ClusterChange::GpusBack { node, .. } => format!("put GPUs of node {node} back into use"),
    }
}
