//! Jobs that an engine finds in another system's queue: brought to the desk, like anybody's.
//!
//! What the engine saw last is compared with what the daemon knows, again and again, so that a restart of either loses nothing. A job's name in the
//! other queue is its idempotency key: it is taken once, however often it is seen. One that is over here and waits there again, because Kubernetes took its word
//! back or its user scaled it there and back, is taken under its name with the number of its life.

use arles_api::{DrainRequest, JobRequest, JobState, Needs, Program, Quota, Tenant, TenantRequest};
use arles_core::JobId;
use arles_daemon::Refusal;
use arles_daemon::access::Caller;
use arles_daemon::desk::{Desk, LogQuery, Page};
use arles_engine::intake::{Arrival, Entitlement, Intake, Seen};
use arles_engine::slurm::share_weights;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Time between two comparisons.
const PAUSE: Duration = Duration::from_millis(300);
/// Jobs that are taken in one comparison: others' requests come in between.
const AT_ONCE: usize = 500;
/// Times that a job of one name is taken.
const LIVES: u32 = 100;
/// Pages of the log of changes that are read for who is held.
const LOG_PAGES: usize = 20;
/// Time between two looks at the shares of accounts: operators change them now and then.
const SHARES_EVERY: Duration = Duration::from_secs(60);

/// Who asks, in the journal and in the log of changes.
fn caller(system: &str) -> Caller {
    let name = system.to_lowercase();
    Caller { name: name.clone(), id: name, ..Caller::loopback() }
}

/// Where it is written what tenants are owed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OwedBy {
    /// Here alone.
    Nobody,
    /// Slurm's database, by the accounts' shares.
    Slurm,
    /// Kueue, by its ClusterQueues.
    Queues,
}

/// Follows what the engine sees until the service ends.
pub(super) async fn follow(desk: Desk, intake: Intake, owed_by: OwedBy) {
    let (who, mut looks) = (caller(intake.system()), 0);
    let mut held = held_before(&desk, &who);
    let (mut put_off, mut ended) = (BTreeMap::new(), BTreeSet::new());
    let mut shares = Shares::default();
    loop {
        tokio::time::sleep(PAUSE).await;
        let seen = intake.seen();
        if owed_by == OwedBy::Slurm && seen.looks > 0 {
            shares.ask_slurm(&desk, &who).await;
        }
        if seen.looks == looks {
            continue;
        }
        looks = seen.looks;
        if owed_by == OwedBy::Queues {
            shares.follow(&desk, &who, seen.entitlements.clone(), "its ClusterQueue in Kueue").await;
        }
        for (&job, why) in &seen.over {
            if desk.cancel(&who, job.0).await.is_ok() {
                tracing::info!("job {} is cancelled: {why}", job.0);
                ended.insert(job.0);
            }
        }
        for arrival in seen.arrivals.iter().take(AT_ONCE) {
            take(&desk, &who, &intake, &shares, arrival, &ended).await;
        }
        for (job, why) in seen.put_off.iter().filter(|(job, why)| put_off.get(*job) != Some(*why)) {
            tracing::warn!("job {} was not started: {why}", job.0);
        }
        put_off.clone_from(&seen.put_off);
        follow_holds(&desk, &who, &seen, &mut held).await;
        follow_drains(&desk, &who, &seen, intake.system()).await;
    }
}

/// What tenants are owed by the other system's word.
#[derive(Default)]
struct Shares {
    owed: BTreeMap<String, Entitlement>,
    asked: Option<Instant>,
    trouble: Option<String>,
}

/// A share of nothing is no weight that a tenant can have; it is served when nobody else wants to be.
fn weight_of(owed: &Entitlement) -> f64 {
    owed.weight.max(arles_core::job::MIN_WEIGHT)
}

impl Shares {
    /// Asks Slurm's database for the shares of accounts, now and then.
    async fn ask_slurm(&mut self, desk: &Desk, who: &Caller) {
        if self.asked.is_some_and(|asked| asked.elapsed() < SHARES_EVERY) {
            return;
        }
        self.asked = Some(Instant::now());
        match tokio::task::spawn_blocking(|| share_weights(None)).await {
            Ok(Ok(weights)) => {
                self.trouble = None;
                let owed = weights.into_iter().map(|(name, weight)| (name, Entitlement { weight, gpus: None }));
                self.follow(desk, who, owed.collect(), "its share in Slurm's database").await;
            }
            Ok(Err(error)) => {
                let text = error.to_string();
                if self.trouble.as_ref() != Some(&text) {
                    tracing::warn!("shares of accounts cannot be read, and stay as they were: {text}");
                }
                self.trouble = Some(text);
            }
            Err(_) => {}
        }
    }

    /// Gives tenants what they are owed where that is new or has changed. What was set here stays until then.
    async fn follow(&mut self, desk: &Desk, who: &Caller, owed: BTreeMap<String, Entitlement>, by: &str) {
        if self.owed == owed {
            return;
        }
        let before = std::mem::replace(&mut self.owed, owed);
        let tenants = desk.view(who).tenants().tenants;
        for tenant in tenants {
            let (Some(now), before) = (self.owed.get(&tenant.name), before.get(&tenant.name)) else { continue };
            let weight = weight_of(now);
            let is_new = before.is_none_or(|before| before.weight != now.weight) && weight != tenant.weight;
            if is_new && desk.set_tenant(who, &tenant.name, TenantRequest { weight }).await.is_ok() {
                tracing::info!("tenant {} weighs {weight}, by {by}", tenant.name);
            }
            // A system that limits nobody leaves the limits that were set here alone.
            let limited = before.map_or(now.gpus.is_some(), |before| before.gpus != now.gpus);
            if limited && tenant.quota.gpus != now.gpus {
                limit(desk, who, &tenant, now.gpus, by).await;
            }
        }
    }
}

async fn limit(desk: &Desk, who: &Caller, tenant: &Tenant, gpus: Option<u32>, by: &str) {
    let quota = Quota { gpus, ..tenant.quota };
    match desk.set_quota(who, &tenant.name, quota).await {
        Ok(_) => match gpus {
            Some(gpus) => tracing::info!("tenant {} may have {gpus} GPUs at once, by {by}", tenant.name),
            None => tracing::info!("tenant {} may have any number of GPUs, by {by}", tenant.name),
        },
        Err(refusal) => tracing::warn!("tenant {} keeps its quota: {}", tenant.name, refusal.message),
    }
}

/// Takes a job that waits there. `ended` are those that were cancelled here because of what was done there: they may come back, while what a user cancelled
/// here stays cancelled.
async fn take(desk: &Desk, who: &Caller, intake: &Intake, shares: &Shares, arrival: &Arrival, ended: &BTreeSet<u64>) {
    if let Some(wrong) = arrival.wishes.wrong.first() {
        return intake.refuse(arrival, wrong);
    }
    let known = desk.view(who).tenants().tenants.iter().any(|tenant| tenant.name == arrival.tenant);
    if !known {
        let owed = shares.owed.get(&arrival.tenant);
        let weight = owed.map_or(1.0, weight_of);
        match desk.set_tenant(who, &arrival.tenant, TenantRequest { weight }).await {
            Err(refusal) => return refused(intake, arrival, &refusal),
            Ok(tenant) => {
                if let Some(gpus) = owed.and_then(|owed| owed.gpus) {
                    limit(desk, who, &tenant, Some(gpus), "its ClusterQueue in Kueue").await;
                }
            }
        }
    }
    for life in 1..=LIVES {
        let name = if life == 1 { arrival.external.clone() } else { format!("{}~{life}", arrival.external) };
        match desk.adopt(who, name, request(arrival, intake.system())).await {
            Ok((job, true)) => {
                tracing::info!("{}'s job {} is job {} of {}", intake.system(), arrival.shown, job.id, job.tenant);
                return;
            }
            // Names in Slurm have the time of their submission in them: whoever comes back there has another.
            Ok((job, false))
                if arrival.external.starts_with("kubernetes:")
                    && (job.state == JobState::Completed || ended.contains(&job.id)) => {}
            Ok((_, false)) => return,
            Err(refusal) => return refused(intake, arrival, &refusal),
        }
    }
}

/// A job that can never be taken is told so; one that cannot be taken now is seen again.
fn refused(intake: &Intake, arrival: &Arrival, refusal: &Refusal) {
    if matches!(refusal.status, 400 | 422) {
        let (system, shown) = (intake.system(), &arrival.shown);
        tracing::warn!("{system}'s job {shown} is not taken: {}; {}", refusal.message, refusal.hint);
        intake.refuse(arrival, &format!("{}; {}", refusal.message, refusal.hint));
    }
}

fn request(arrival: &Arrival, system: &str) -> JobRequest {
    let wishes = &arrival.wishes;
    let kinds = if wishes.kinds.is_empty() { arrival.kinds.clone() } else { wishes.kinds.clone() };
    let words = [arrival.command.to_owned(), arrival.shown.clone()];
    JobRequest {
        name: Some(format!("{} {} {}", system.to_lowercase(), arrival.shown, arrival.name)),
        tenant: Some(arrival.tenant.clone()),
        workload: Some(wishes.workload.clone().unwrap_or_else(|| arrival.name.clone())),
        program: Some(Program { command: words.to_vec(), ..Program::default() }),
        gang: arrival.gang,
        steps: wishes.steps,
        floor: wishes.floor,
        weight: wishes.weight.unwrap_or(1.0),
        restart_seconds: wishes.restart_seconds,
        kinds: kinds.clone(),
        needs: Some(Needs {
            cpus_per_gpu: arrival.cpus_per_gpu,
            memory_gib_per_gpu: arrival.memory_gib_per_gpu,
            gpu_memory_gib: 0.0,
        }),
        // A job that fails there has failed: its user decides whether it is submitted again.
        retries: Some(0),
        held: wishes.held,
        ..JobRequest::default()
    }
}

/// Jobs that are held since before the daemon started because they are held in the other queue, by the log of changes: what was held here is not released
/// there.
fn held_before(desk: &Desk, who: &Caller) -> BTreeSet<JobId> {
    let (view, mut found, mut cursor) = (desk.view(who), BTreeSet::new(), None);
    for _ in 0..LOG_PAGES {
        let (by, kind) = (Some(who.name.clone()), Some("hold".to_owned()));
        let query = LogQuery { by, kind, cursor, limit: Some(1000), ..LogQuery::default() };
        let Ok(page) = view.log(&query) else { break };
        found.extend(page.changes.iter().filter_map(|change| change.job));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let is_held = |job: &u64| view.job(*job).is_ok_and(|job| job.held && !job.state.over());
    // Its user may have released it here, and held it again.
    let by_them = |job: &u64| {
        let query = LogQuery { job: Some(*job), limit: Some(1000), ..LogQuery::default() };
        let changes = view.log(&query).map_or_else(|_| Vec::new(), |page| page.changes);
        changes.iter().find(|change| change.kind == "hold").is_some_and(|hold| hold.by == who.name)
    };
    found.into_iter().filter(|job| is_held(job) && by_them(job)).map(JobId).collect()
}

/// Holds and releases what was held and released in the other queue. What was held here stays held.
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

/// Nodes that the other system's operator drained are drained here, and back when they are back there.
async fn follow_drains(desk: &Desk, who: &Caller, seen: &Seen, system: &str) {
    let page = Page { limit: Some(1000), ..Page::default() };
    let Ok(nodes) = desk.view(who).nodes(&page) else { return };
    for node in nodes.nodes {
        match (seen.drained.get(&node.name), &node.drain) {
            (Some(why), None) => {
                let request = DrainRequest { why: why.clone(), deadline_seconds: None };
                let _ = desk.drain(who, &node.name, request).await;
            }
            (None, Some(drain)) if drain.why.starts_with(&format!("{system} says")) => {
                let _ = desk.undrain(who, &node.name).await;
            }
            _ => {}
        }
    }
}
