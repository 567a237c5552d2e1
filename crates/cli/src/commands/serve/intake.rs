//! Jobs that an engine finds in another system's queue: brought to the desk, like anybody's.
//!
//! What the engine saw last is compared with what the daemon knows, again and again, so that a restart of either loses nothing. A job's name in the
//! other queue is its idempotency key: it is taken once, however often it is seen.

use arles_api::{DrainRequest, JobRequest, Needs, Program, TenantRequest};
use arles_core::JobId;
use arles_daemon::Refusal;
use arles_daemon::access::Caller;
use arles_daemon::desk::{Desk, Page};
use arles_engine::slurm::{Arrival, Intake, Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time between two comparisons.
const PAUSE: Duration = Duration::from_millis(300);
/// Jobs that are taken in one comparison: others' requests come in between.
const AT_ONCE: usize = 500;
/// What reasons of drains that Slurm asked for begin with.
const SLURM_SAYS: &str = "Slurm says";

/// Who asks, in the journal and in the log of changes.
fn caller() -> Caller {
    Caller { name: "slurm".into(), id: "slurm".into(), ..Caller::loopback() }
}

/// Follows what the engine sees until the service ends.
pub(super) async fn follow(desk: Desk, intake: Intake) {
    let (who, mut held, mut looks) = (caller(), BTreeSet::new(), 0);
    let mut put_off = BTreeMap::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        let seen = intake.seen();
        if seen.looks == looks {
            continue;
        }
        looks = seen.looks;
        for (&job, why) in &seen.over {
            if desk.cancel(&who, job.0).await.is_ok() {
                tracing::info!("job {} is cancelled: {why}", job.0);
            }
        }
        for arrival in seen.arrivals.iter().take(AT_ONCE) {
            take(&desk, &who, &intake, arrival).await;
        }
        for (job, why) in seen.put_off.iter().filter(|(job, why)| put_off.get(*job) != Some(*why)) {
            tracing::warn!("job {} was not started: {why}", job.0);
        }
        put_off.clone_from(&seen.put_off);
        follow_holds(&desk, &who, &seen, &mut held).await;
        follow_drains(&desk, &who, &seen).await;
    }
}

async fn take(desk: &Desk, who: &Caller, intake: &Intake, arrival: &Arrival) {
    if let Some(wrong) = arrival.wishes.wrong.first() {
        return intake.refuse(&arrival.slurm, wrong);
    }
    let known = desk.view(who).tenants().tenants.iter().any(|tenant| tenant.name == arrival.account);
    if !known && let Err(refusal) = desk.set_tenant(who, &arrival.account, TenantRequest { weight: 1.0 }).await {
        return refused(intake, arrival, &refusal);
    }
    match desk.adopt(who, arrival.external(), request(arrival)).await {
        Ok((job, true)) => tracing::info!("Slurm's job {} is job {} of {}", arrival.slurm, job.id, job.tenant),
        Ok((_, false)) => {}
        Err(refusal) => refused(intake, arrival, &refusal),
    }
}

/// A job that can never be taken is told so; one that cannot be taken now is seen again.
fn refused(intake: &Intake, arrival: &Arrival, refusal: &Refusal) {
    if matches!(refusal.status, 400 | 422) {
        tracing::warn!("Slurm's job {} is not taken: {}; {}", arrival.slurm, refusal.message, refusal.hint);
        intake.refuse(&arrival.slurm, &format!("{}; {}", refusal.message, refusal.hint));
    }
}

fn request(arrival: &Arrival) -> JobRequest {
    let wishes = &arrival.wishes;
    let kinds = if wishes.kinds.is_empty() { arrival.kind.iter().cloned().collect() } else { wishes.kinds.clone() };
    let words = ["sbatch".to_owned(), arrival.slurm.clone()];
    JobRequest {
        name: Some(format!("slurm {} {}", arrival.slurm, arrival.name)),
        tenant: Some(arrival.account.clone()),
        workload: Some(wishes.workload.clone().unwrap_or_else(|| arrival.name.clone())),
        program: Some(Program { command: words.to_vec(), ..Program::default() }),
        gang: arrival.gang,
        steps: wishes.steps,
        floor: wishes.floor,
        weight: wishes.weight.unwrap_or(1.0),
        restart_seconds: wishes.restart_seconds,
        kinds,
        needs: Some(Needs {
            cpus_per_gpu: arrival.cpus_per_gpu,
            memory_gib_per_gpu: arrival.memory_gib_per_gpu,
            gpu_memory_gib: 0.0,
        }),
        // A job that fails in Slurm has failed: its user decides whether it is submitted again.
        retries: Some(0),
        held: wishes.held,
        ..JobRequest::default()
    }
}

/// Holds and releases what was held and released in Slurm. What was held here stays held.
async fn follow_holds(desk: &Desk, who: &Caller, seen: &Seen, held: &mut BTreeSet<JobId>) {
    let now: BTreeSet<JobId> = seen.held.iter().copied().collect();
    for job in now.difference(held) {
        let _ = desk.hold(who, job.0).await;
    }
    for job in held.difference(&now) {
        let _ = desk.release(who, job.0).await;
    }
    *held = now;
}

/// Nodes that Slurm's operator drained are drained here, and back when they are back there.
async fn follow_drains(desk: &Desk, who: &Caller, seen: &Seen) {
    let page = Page { limit: Some(1000), ..Page::default() };
    let Ok(nodes) = desk.view(who).nodes(&page) else { return };
    for node in nodes.nodes {
        match (seen.drained.get(&node.name), &node.drain) {
            (Some(why), None) => {
                let request = DrainRequest { why: why.clone(), deadline_seconds: None };
                let _ = desk.drain(who, &node.name, request).await;
            }
            (None, Some(drain)) if drain.why.starts_with(SLURM_SAYS) => {
                let _ = desk.undrain(who, &node.name).await;
            }
            _ => {}
        }
    }
}
