//! Counts while a run goes on, and turns the counts into a [`RunRecord`].

use crate::trace::Trace;
use crate::world::{SimJob, World};
use arles_core::allocate::{Allocation, Members, Problem};
use arles_core::meter::Charge;
use arles_core::scheduler::Order;
use arles_core::{Cluster, GpuId, JobId, Prices, Time, Work};
use arles_report::record::{
    GanttSpan, JobRecord, KindRecord, LearningSample, RunRecord, Sample, Summary, TenantRecord,
};
use std::collections::BTreeMap;

/// Samples of the timeline are thinned to at most this many.
const MOST_SAMPLES: usize = 2000;
/// Spans of the Gantt chart are recorded up to this many.
const MOST_SPANS: usize = 100_000;
/// The Gantt chart has all GPUs of a cluster of this size, and a sample spread over every kind of a larger one: as many rows as
/// a reader can follow.
const GANTT_GPUS: usize = 160;
const JOULES_PER_KWH: f64 = 3.6e6;

#[derive(Clone, Default)]
struct TenantTotals {
    gpu_seconds: f64,
    granted_gpu_seconds: f64,
    /// GPUs that the allocation in force grants it.
    granted_gpus: f64,
    completed: u64,
    jct_seconds: f64,
    joules: f64,
}

/// What is counted while a run goes on.
pub(crate) struct RunRecorder {
    policy: &'static str,
    kinds: Vec<(String, u32)>,
    tenants: Vec<(String, f64)>,
    workloads: Vec<String>,
    by_tenant: Vec<TenantTotals>,
    jct_seconds: Vec<f64>,
    jobs: Option<Vec<JobRecord>>,
    over: u64,
    last_end: Time,
    granted_until: Time,
    charge: Charge,
    due_seconds: f64,
    violated_seconds: f64,
    /// What was drawn so far, and what it cost: joules, money and kilograms.
    paid: (f64, f64, f64),
    missed_deadlines: u64,
    deadlines: u64,
    migrations: u64,
    mixed_gangs: u64,
    unanswered: u64,
    rounds: u64,
    peak_live: usize,
    timeline: Vec<Sample>,
    learning: Vec<LearningSample>,
    stride: u64,
    gantt: Vec<GanttSpan>,
    gantt_open: BTreeMap<(u32, JobId), (Time, u32)>,
    /// By GPU number, ascending.
    gantt_labels: Vec<(u32, String)>,
    gantt_until: Option<Time>,
}

impl RunRecorder {
    pub(crate) fn new(policy: &'static str, cluster: &Cluster, trace: &Trace, details: bool) -> Self {
        let kinds = cluster.kinds().iter().zip(cluster.counts());
        Self {
            policy,
            kinds: kinds.map(|(k, n)| (k.name.clone(), n)).collect(),
            tenants: trace.tenants.iter().map(|t| (t.name.clone(), t.weight)).collect(),
            workloads: trace.workloads.clone(),
            by_tenant: vec![TenantTotals::default(); trace.tenants.len()],
            jct_seconds: Vec::new(),
            jobs: details.then(Vec::new),
            over: 0,
            last_end: Time::ZERO,
            granted_until: Time::ZERO,
            charge: Charge::default(),
            due_seconds: 0.0,
            violated_seconds: 0.0,
            paid: (0.0, 0.0, 0.0),
            missed_deadlines: 0,
            deadlines: 0,
            migrations: 0,
            mixed_gangs: 0,
            unanswered: 0,
            rounds: 0,
            peak_live: 0,
            timeline: Vec::new(),
            learning: Vec::new(),
            stride: 1,
            gantt: Vec::new(),
            gantt_open: BTreeMap::new(),
            gantt_labels: if details { gantt_labels(cluster) } else { Vec::new() },
            gantt_until: None,
        }
    }

    /// Jobs that are over.
    pub(crate) fn over(&self) -> u64 {
        self.over
    }

    /// The policy had no usable answer.
    pub(crate) fn no_allocation(&mut self) {
        self.unanswered += 1;
    }

    /// Pays for what was drawn since the last time, which no change of price lies in between.
    pub(crate) fn pay(&mut self, from: Time, until: Time, world: &World, prices: &Prices) {
        if prices.is_empty() || until <= from {
            return;
        }
        let drawn = world.joules_at(until);
        let (money, kg) = prices.charge(from, until, drawn - self.paid.0);
        self.paid = (drawn, self.paid.1 + money, self.paid.2 + kg);
    }

    /// A new allocation is in force from now on; none grants nothing.
    pub(crate) fn granted(&mut self, now: Time, answer: Option<(&Problem, &Allocation)>) {
        let seconds = now.since(self.granted_until);
        self.granted_until = now;
        for tenant in &mut self.by_tenant {
            tenant.granted_gpu_seconds += seconds * tenant.granted_gpus;
            tenant.granted_gpus = 0.0;
        }
        let Some((problem, allocation)) = answer else { return };
        let mut grant = |user: u32, gpus: f64| {
            self.by_tenant[problem.users[user as usize].tenant.index()].granted_gpus += gpus;
        };
        for g in allocation.grants() {
            match g.members {
                Members::One(u) => grant(u, g.gangs * f64::from(problem.users[u as usize].gang)),
                // As with the energy of idle GPUs: each has half.
                Members::Two(u, v) => [u, v].into_iter().for_each(|u| grant(u, g.gangs / 2.0)),
            }
        }
    }

    /// A round has been decided. `learning` says what the estimator knows, where there is one that learns.
    pub(crate) fn sample(&mut self, now: Time, world: &World, learning: Option<&dyn Fn() -> LearningSample>) {
        self.rounds += 1;
        self.peak_live = self.peak_live.max(world.known());
        if self.jobs.is_none() || !self.rounds.is_multiple_of(self.stride) {
            return;
        }
        let waiting = world.known() as u32 - world.running();
        let busy = world.busy().to_vec();
        self.timeline.push(Sample {
            at_seconds: now.seconds(),
            busy,
            waiting,
            running: world.running(),
            watts: world.watts(),
            energy_kwh: world.joules_at(now) / JOULES_PER_KWH,
        });
        self.learning.extend(learning.map(|sample| sample()));
        if self.timeline.len() >= MOST_SAMPLES {
            thin(&mut self.timeline);
            thin(&mut self.learning);
            self.stride *= 2;
        }
    }

    /// An order is about to be carried out.
    pub(crate) fn before_order(&mut self, now: Time, order: &Order, world: &World) {
        if let Order::Start(start) = order {
            let mixed =
                start.gpus.iter().any(|&gpu| world.cluster().kind_of(gpu) != world.cluster().sold_as(start.kind));
            self.mixed_gangs += u64::from(mixed);
        }
        if self.jobs.is_none() || self.gantt_until.is_some() {
            return;
        }
        if self.gantt.len() >= MOST_SPANS {
            self.gantt_until = Some(now);
            let open: Vec<(u32, JobId)> = self.gantt_open.keys().copied().collect();
            open.into_iter().for_each(|(gpu, job)| self.close_spans(now, job, &[GpuId(gpu)]));
            return;
        }
        match order {
            Order::Start(start) => {
                let tenant = world.life(start.job).map_or(0, |l| l.spec.tenant.0);
                for &gpu in &start.gpus {
                    if self.in_gantt(gpu) {
                        self.gantt_open.entry((gpu.0, start.job)).or_insert((now, tenant));
                    }
                }
            }
            Order::Stop { job, .. } => {
                let gpus = world.held(*job).map(|(_, gpus)| gpus.to_vec()).unwrap_or_default();
                self.close_spans(now, *job, &gpus);
            }
        }
    }

    fn in_gantt(&self, gpu: GpuId) -> bool {
        self.gantt_labels.binary_search_by_key(&gpu.0, |(g, _)| *g).is_ok()
    }

    fn close_spans(&mut self, now: Time, job: JobId, gpus: &[GpuId]) {
        for gpu in gpus {
            if let Some((from, tenant)) = self.gantt_open.remove(&(gpu.0, job)) {
                let beside = (gpu.0, JobId(0))..=(gpu.0, JobId(u64::MAX));
                let shared = self.gantt_open.range(beside).next().is_some();
                self.push_span(GanttSpan {
                    gpu: gpu.0,
                    job: job.0,
                    tenant,
                    from_seconds: from.seconds(),
                    until_seconds: now.seconds(),
                    shared,
                });
            }
        }
    }

    fn push_span(&mut self, span: GanttSpan) {
        // A job that comes back to the GPU it just left continues its span.
        let before = self.gantt.iter_mut().rev().take(64).find(|s| s.gpu == span.gpu);
        match before {
            Some(b) if b.job == span.job && b.until_seconds == span.from_seconds && b.shared == span.shared => {
                b.until_seconds = span.until_seconds;
            }
            _ => self.gantt.push(span),
        }
    }

    /// A job is over.
    pub(crate) fn over_with(&mut self, now: Time, sim_job: &SimJob, completed: bool) {
        self.over += 1;
        let spec = &sim_job.spec;
        self.last_end = self.last_end.max(now);
        self.migrations += u64::from(sim_job.migrations);
        self.charge.add(&sim_job.charge);
        let jct = now.since(spec.arrived);
        self.deadlines += u64::from(spec.before.is_some());
        self.missed_deadlines += u64::from(spec.before.is_some_and(|before| now > before));
        let tenant = &mut self.by_tenant[spec.tenant.index()];
        tenant.gpu_seconds += sim_job.gpu_seconds;
        tenant.joules += sim_job.charge.total();
        if completed {
            tenant.completed += 1;
            tenant.jct_seconds += jct;
            self.jct_seconds.push(jct);
        }
        let (due, violated) = promise(now, sim_job);
        self.due_seconds += due;
        self.violated_seconds += violated;
        if self.jobs.is_none() {
            return;
        }
        let open: Vec<GpuId> = self.gantt_open.keys().filter(|(_, j)| *j == spec.id).map(|(g, _)| GpuId(*g)).collect();
        self.close_spans(now, spec.id, &open);
        let record = JobRecord {
            id: spec.id.0,
            tenant: spec.tenant.0,
            workload: spec.workload.0,
            gang: spec.gang,
            arrival_seconds: spec.arrived.seconds(),
            start_seconds: sim_job.started.map(Time::seconds),
            end_seconds: Some(now.seconds()),
            completed,
            restarts: sim_job.restarts,
            gpu_seconds: sim_job.gpu_seconds,
            due_seconds: due,
            violated_seconds: violated,
            active_joules: sim_job.charge.active_joules,
            idle_joules: sim_job.charge.idle_joules,
            restart_joules: sim_job.charge.restart_joules,
        };
        if let Some(jobs) = &mut self.jobs {
            jobs.push(record);
        }
    }

    /// The record of the run that ended at `now`.
    pub(crate) fn finish(mut self, now: Time, mut world: World, estimator: &str, observations: u64) -> RunRecord {
        world.close_books(now);
        self.granted(now, None);
        // Every joule that used GPUs drew is charged to one job.
        let used: f64 = world.used_joules().iter().map(|draw| draw.active_joules + draw.idle_joules).sum();
        let charged = self.charge.total() + world.lives().map(|sim_job| sim_job.charge.total()).sum::<f64>();
        assert!((used - charged).abs() <= 1e-6 * used.max(1.0), "{used} J drawn, {charged} J charged");
        let seconds = now.seconds().max(f64::MIN_POSITIVE);
        let gpus: f64 = self.kinds.iter().map(|(_, n)| f64::from(*n)).sum();
        let kinds: Vec<KindRecord> = (0..self.kinds.len())
            .map(|j| {
                let (name, count) = self.kinds[j].clone();
                let draw = world.used_joules()[j];
                KindRecord {
                    name,
                    gpus: count,
                    utilisation_ratio: ratio(world.busy_gpu_seconds()[j], f64::from(count) * seconds),
                    active_kwh: draw.active_joules / JOULES_PER_KWH,
                    idle_kwh: (draw.idle_joules + world.unused_joules()[j]) / JOULES_PER_KWH,
                }
            })
            .collect();
        let active: f64 = kinds.iter().map(|k| k.active_kwh).sum();
        let idle: f64 = kinds.iter().map(|k| k.idle_kwh).sum();
        self.jct_seconds.sort_by(f64::total_cmp);
        let jct = &self.jct_seconds;
        let busy: f64 = world.busy_gpu_seconds().iter().sum();
        let (priced, missed) = (self.paid.0 > 0.0, self.missed_deadlines as f64);
        let summary = Summary {
            policy: self.policy.to_owned(),
            estimator: estimator.to_owned(),
            mean_jct_seconds: ratio(jct.iter().sum(), jct.len() as f64),
            p50_jct_seconds: percentile(jct, 0.5),
            p99_jct_seconds: percentile(jct, 0.99),
            makespan_seconds: self.last_end.seconds(),
            utilisation_ratio: ratio(busy, gpus * seconds),
            utilisation_by_kind: kinds.iter().map(|k| (k.name.clone(), k.utilisation_ratio)).collect(),
            energy_kwh: active + idle,
            energy_active_kwh: active,
            energy_idle_kwh: idle,
            energy_unused_kwh: world.unused_joules().iter().sum::<f64>() / JOULES_PER_KWH,
            energy_restart_kwh: self.charge.restart_joules / JOULES_PER_KWH,
            cost: priced.then_some(self.paid.1),
            carbon_kg: priced.then_some(self.paid.2),
            deadlines_missed_ratio: (self.deadlines > 0).then(|| missed / self.deadlines as f64),
            sla_violation_ratio: ratio(self.violated_seconds, self.due_seconds),
            jobs_completed: jct.len() as u64,
            rounds: self.rounds,
            peak_live_jobs: self.peak_live as u64,
            migrations: self.migrations,
            mixed_gangs: self.mixed_gangs,
            rounds_unanswered: self.unanswered,
            observations,
            tenants: self.tenant_records(),
            wall_seconds: 0.0,
        };
        RunRecord {
            summary,
            kinds,
            workloads: self.workloads,
            jobs: by_arrival(self.jobs.unwrap_or_default()),
            timeline: self.timeline,
            learning: self.learning,
            nodes: world.cluster().nodes().len() as u32,
            gantt: self.gantt,
            gantt_labels: self.gantt_labels,
            gantt_until_seconds: self.gantt_until.map(Time::seconds),
        }
    }

    fn tenant_records(&self) -> Vec<TenantRecord> {
        let weights: f64 = self.tenants.iter().map(|(_, w)| w).sum();
        let held: f64 = self.by_tenant.iter().map(|t| t.gpu_seconds).sum();
        let record = |((name, weight), recorder): (&(String, f64), &TenantTotals)| TenantRecord {
            name: name.clone(),
            weight: *weight,
            entitlement_ratio: ratio(*weight, weights),
            share_ratio: ratio(recorder.gpu_seconds, held),
            gpu_seconds: recorder.gpu_seconds,
            granted_gpu_seconds: recorder.granted_gpu_seconds,
            jobs_completed: recorder.completed,
            mean_jct_seconds: ratio(recorder.jct_seconds, recorder.completed as f64),
            energy_kwh: recorder.joules / JOULES_PER_KWH,
        };
        self.tenants.iter().zip(&self.by_tenant).map(record).collect()
    }
}

fn by_arrival(mut jobs: Vec<JobRecord>) -> Vec<JobRecord> {
    jobs.sort_by(|a, b| a.arrival_seconds.total_cmp(&b.arrival_seconds).then(a.id.cmp(&b.id)));
    jobs
}

/// The GPUs of the Gantt chart with their nodes' names, by GPU number.
fn gantt_labels(cluster: &Cluster) -> Vec<(u32, String)> {
    let kinds = cluster.kinds().len();
    let most = if cluster.gpus() <= GANTT_GPUS { GANTT_GPUS } else { (GANTT_GPUS / kinds.max(1)).max(1) };
    let mut labels: Vec<(u32, String)> = Vec::new();
    for j in 0..kinds {
        let nodes = cluster.nodes().iter().filter(|n| n.kind.index() == j);
        let all: Vec<(u32, &String)> = nodes.flat_map(|n| n.gpu_range().map(|g| (g, &n.name))).collect();
        // Spread over all of them: a placer that fills nodes from one end would leave the first ones blank.
        let shown = all.len().min(most);
        labels.extend((0..shown).map(|i| all[i * all.len() / shown]).map(|(gpu, node)| (gpu, node.clone())));
    }
    // Nodes of different kinds may stand in any order.
    labels.sort_unstable_by_key(|(gpu, _)| *gpu);
    labels
}

/// Seconds for which a job's promise was due, and of these the ones in which it was not kept.
///
/// A service is owed its rate at every moment from arrival to end. A training job is owed its rate on
/// average: what counts is the part of the promised steps that was missing.
fn promise(now: Time, sim_job: &SimJob) -> (f64, f64) {
    let Some(floor) = sim_job.spec.floor else { return (0.0, 0.0) };
    let due = now.since(sim_job.spec.arrived);
    let violated = match sim_job.spec.work {
        Work::Period(_) => (due - sim_job.kept_seconds).max(0.0),
        Work::Steps(_) | Work::Open(_) => {
            due * (1.0 - sim_job.steps / (floor * due).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        }
    };
    (due, violated)
}

/// Drops every other one.
fn thin<T>(samples: &mut Vec<T>) {
    let mut keep = false;
    samples.retain(|_| {
        keep = !keep;
        keep
    });
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Nearest-rank percentile of sorted numbers.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).or(sorted.last()).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::{KindId, Library};

    fn cluster(nodes: &[(usize, u32)]) -> Cluster {
        let kinds = ["v100", "k80"].map(|name| Library::builtin().kind(name).unwrap().clone()).to_vec();
        let nodes = nodes.iter().enumerate().map(|(i, (kind, gpus))| (format!("n{i}"), KindId(*kind as u16), *gpus));
        Cluster::new(kinds, nodes.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_gantt_chart_has_every_gpu_of_a_small_cluster_whatever_the_order_of_its_nodes() {
        let labels = gantt_labels(&cluster(&[(0, 4), (1, 4), (0, 4), (1, 2)]));
        assert_eq!(labels.iter().map(|l| l.0).collect::<Vec<_>>(), (0..14).collect::<Vec<_>>());
        assert_eq!((labels[4].1.as_str(), labels[13].1.as_str()), ("n1", "n3"));
    }

    #[test]
    fn the_gantt_chart_samples_every_kind_of_a_large_cluster() {
        let labels = gantt_labels(&cluster(&[(1, 4), (0, 200), (1, 100)]));
        assert_eq!(labels.len(), GANTT_GPUS);
        assert_eq!(labels.iter().filter(|l| l.1 == "n1").count(), GANTT_GPUS / 2);
        assert!(labels.is_sorted_by_key(|l| l.0) && labels.last().is_some_and(|l| l.0 > 300));
    }
}
