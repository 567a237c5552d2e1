//! Runs that look like real ones: a toy cluster that starts waiting jobs in an order that stands for a policy. No claim is
//! made about the policies it borrows names from.

use std::collections::BTreeMap;

use crate::record::{GanttSpan, JobRecord, KindRecord, RunRecord, Sample, Summary, TenantRecord};

/// Random numbers that are the same everywhere (splitmix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }
}

/// How large a sample is.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) jobs: usize,
    pub(crate) tenants: usize,
    pub(crate) gpus_per_kind: usize,
}

const KINDS: [(&str, f64, f64, f64); 3] =
    [("v100", 1.0, 250.0, 40.0), ("p100", 0.6, 200.0, 30.0), ("k80", 0.25, 120.0, 25.0)];
const NAMES: [&str; 6] = ["fifo", "las", "gavel-max-min", "oef-coop", "gogh", "fair-energy"];
const LABS: [&str; 6] = ["vision", "speech", "language", "robotics", "graphics", "biology"];

struct Task {
    tenant: usize,
    gang: usize,
    arrival: f64,
    work: f64,
}

fn trace(size: Size) -> Vec<Task> {
    let mut dice = Dice(7);
    let mut clock = 0.0;
    let mean_gap = 2600.0 * 24.0 / (size.gpus_per_kind * 3) as f64;
    let task = |_| {
        clock += -mean_gap * (1.0 - dice.unit()).ln();
        // A few tenants submit most of the work.
        let tenant = (dice.unit() * dice.unit() * size.tenants as f64) as usize;
        let gang = [1, 1, 1, 1, 2, 2, 4][dice.below(7)];
        Task { tenant, gang, arrival: clock, work: (6.0 + 1.4 * (dice.unit() + dice.unit() + dice.unit()) * 1.6).exp() }
    };
    (0..size.jobs).map(task).collect()
}

struct Running {
    job: usize,
    gpus: Vec<usize>,
    from: f64,
    until: f64,
}

/// Six runs of one trace.
pub(crate) fn runs(size: Size) -> Vec<RunRecord> {
    let tasks = trace(size);
    (0..NAMES.len()).map(|policy| Toy::new(policy, size, &tasks).run()).collect()
}

struct Toy<'a> {
    policy: usize,
    size: Size,
    tasks: &'a [Task],
    /// Jobs on each GPU.
    load: Vec<Vec<usize>>,
    used: Vec<f64>,
    waiting: Vec<usize>,
    running: Vec<Running>,
    ended: Vec<Running>,
    samples: Vec<Sample>,
}

impl<'a> Toy<'a> {
    fn new(policy: usize, size: Size, tasks: &'a [Task]) -> Toy<'a> {
        let gpus = size.gpus_per_kind * KINDS.len();
        let (load, used) = (vec![Vec::new(); gpus], vec![0.0; size.tenants]);
        let (waiting, running, ended, samples) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Toy { policy, size, tasks, load, used, waiting, running, ended, samples }
    }

    fn kind(&self, gpu: usize) -> usize {
        gpu / self.size.gpus_per_kind
    }

    fn run(mut self) -> RunRecord {
        let mut next = 0;
        loop {
            let arrival = self.tasks.get(next).map_or(f64::INFINITY, |t| t.arrival);
            let end = self.running.iter().map(|r| r.until).fold(f64::INFINITY, f64::min);
            let now = arrival.min(end);
            if now.is_infinite() {
                return self.record();
            }
            if arrival <= end {
                self.waiting.push(next);
                next += 1;
            } else if let Some(i) = self.running.iter().position(|r| r.until <= now) {
                let done = self.running.swap_remove(i);
                done.gpus.iter().for_each(|g| self.load[*g].retain(|j| *j != done.job));
                self.ended.push(done);
            }
            self.start(now);
            self.sample(now);
        }
    }

    fn start(&mut self, now: f64) {
        let (tasks, used) = (self.tasks, self.used.clone());
        match self.policy {
            0 => {}
            1 => self.waiting.sort_by(|a, b| tasks[*a].work.total_cmp(&tasks[*b].work)),
            _ => self.waiting.sort_by(|a, b| used[tasks[*a].tenant].total_cmp(&used[tasks[*b].tenant]).then(a.cmp(b))),
        }
        for job in std::mem::take(&mut self.waiting) {
            let blocked = self.policy == 0 && !self.waiting.is_empty();
            match if blocked { None } else { self.room(self.tasks[job].gang) } {
                Some(gpus) => self.launch(job, gpus, now),
                None => self.waiting.push(job),
            }
        }
    }

    fn room(&self, gang: usize) -> Option<Vec<usize>> {
        let most = if self.policy >= 4 && gang == 1 { 2 } else { 1 };
        let fits = |g: &usize| {
            let load = &self.load[*g];
            load.len() < most && load.iter().all(|j| self.tasks[*j].gang == 1)
        };
        let nodes = self.load.len() / 4;
        let node_gpus = |n: usize| (4 * n..4 * n + 4).filter(fits).take(gang).collect::<Vec<_>>();
        let full = |gpus: &Vec<usize>| gpus.len() == gang;
        if self.policy == 5 { (0..nodes).rev().map(node_gpus).find(full) } else { (0..nodes).map(node_gpus).find(full) }
    }

    fn launch(&mut self, job: usize, gpus: Vec<usize>, now: f64) {
        let task = &self.tasks[job];
        let crowd = if self.load[gpus[0]].is_empty() { 1.0 } else { 0.7 };
        let boost = [1.0, 1.0, 1.12, 1.25, 1.3, 1.2][self.policy];
        let seconds = task.work / (KINDS[self.kind(gpus[0])].1 * crowd * boost);
        self.used[task.tenant] += seconds * gpus.len() as f64;
        gpus.iter().for_each(|g| self.load[*g].push(job));
        self.running.push(Running { job, gpus, from: now, until: now + seconds });
    }

    fn sample(&mut self, now: f64) {
        let n = self.size.gpus_per_kind;
        let busy: Vec<u32> = self.load.chunks(n).map(|c| c.iter().filter(|l| !l.is_empty()).count() as u32).collect();
        let watts = busy.iter().zip(KINDS).map(|(b, k)| f64::from(*b) * (k.2 - k.3) + n as f64 * k.3).sum();
        let (waiting, running) = (self.waiting.len() as u32, self.running.len() as u32);
        self.samples.push(Sample { at_seconds: now, busy, waiting, running, watts, energy_kwh: 0.0 });
    }

    fn record(self) -> RunRecord {
        let makespan = self.samples.last().map_or(0.0, |s| s.at_seconds);
        let jobs = self.jobs();
        let kinds = self.kinds(makespan);
        let summary = self.summary(makespan, &jobs, &kinds);
        let gpus = (0..KINDS.len())
            .flat_map(|k| k * self.size.gpus_per_kind..k * self.size.gpus_per_kind + 16.min(self.size.gpus_per_kind));
        let gantt_labels = gpus
            .map(|g| (g as u32, format!("{}-{}", KINDS[self.kind(g)].0, g % self.size.gpus_per_kind / 4)))
            .collect();
        let workloads = ["resnet50", "lstm", "transformer", "cyclegan"].map(str::to_owned).to_vec();
        RunRecord {
            summary,
            kinds,
            workloads,
            jobs,
            gantt: self.gantt(),
            timeline: self.samples,
            learning: Vec::new(),
            nodes: (KINDS.len() * self.size.gpus_per_kind.div_ceil(4)) as u32,
            gantt_labels,
            gantt_until_seconds: None,
        }
    }

    fn jobs(&self) -> Vec<JobRecord> {
        let mut dice = Dice(self.policy as u64);
        let mut ended: Vec<&Running> = self.ended.iter().collect();
        ended.sort_by_key(|r| r.job);
        let record = |r: &&Running| {
            let task = &self.tasks[r.job];
            let gpu_seconds = (r.until - r.from) * task.gang as f64;
            let due = if r.job.is_multiple_of(3) { r.until - r.from } else { 0.0 };
            let restarts = if self.policy > 1 { dice.below(4) as u32 } else { 0 };
            JobRecord {
                id: r.job as u64,
                tenant: task.tenant as u32,
                workload: (r.job % 4) as u32,
                gang: task.gang as u32,
                arrival_seconds: task.arrival,
                start_seconds: Some(r.from),
                end_seconds: Some(r.until),
                completed: true,
                restarts,
                gpu_seconds,
                due_seconds: due,
                violated_seconds: if dice.unit() < 0.2 { due * dice.unit() * 0.5 } else { 0.0 },
                active_joules: gpu_seconds * 140.0,
                idle_joules: gpu_seconds * 30.0,
                restart_joules: f64::from(restarts) * 4e5,
            }
        };
        ended.iter().map(record).collect()
    }

    fn kinds(&self, makespan: f64) -> Vec<KindRecord> {
        let pairs = self.samples.windows(2);
        let busy = |k: usize| {
            pairs.clone().map(|w| f64::from(w[0].busy[k]) * (w[1].at_seconds - w[0].at_seconds)).sum::<f64>()
        };
        let gpus = self.size.gpus_per_kind as u32;
        let record = |(k, (name, _, peak, idle)): (usize, &(&str, f64, f64, f64))| KindRecord {
            name: (*name).to_owned(),
            gpus,
            utilisation_ratio: busy(k) / (makespan * f64::from(gpus)),
            active_kwh: busy(k) * (peak - idle) / 3.6e6,
            idle_kwh: makespan * f64::from(gpus) * idle / 3.6e6,
        };
        KINDS.iter().enumerate().map(record).collect()
    }

    fn summary(&self, makespan: f64, jobs: &[JobRecord], kinds: &[KindRecord]) -> Summary {
        let mut jct: Vec<f64> = jobs.iter().filter_map(super::super::completion_seconds).collect();
        jct.sort_by(f64::total_cmp);
        let at = |q: f64| jct.get((q * jct.len() as f64) as usize).copied().unwrap_or(f64::NAN);
        let sum = |f: fn(&JobRecord) -> f64| jobs.iter().map(f).sum::<f64>();
        let (active, idle) =
            (kinds.iter().map(|k| k.active_kwh).sum::<f64>(), kinds.iter().map(|k| k.idle_kwh).sum::<f64>());
        Summary {
            estimator: "oracle".to_owned(),
            observations: 0,
            energy_unused_kwh: 0.0,
            policy: NAMES[self.policy].to_owned(),
            mean_jct_seconds: jct.iter().sum::<f64>() / jct.len() as f64,
            p50_jct_seconds: at(0.5),
            p99_jct_seconds: at(0.99),
            makespan_seconds: makespan,
            utilisation_ratio: kinds.iter().map(|k| k.utilisation_ratio).sum::<f64>() / kinds.len() as f64,
            utilisation_by_kind: BTreeMap::new(),
            energy_kwh: active + idle,
            energy_active_kwh: active,
            energy_idle_kwh: idle,
            energy_restart_kwh: sum(|j| j.restart_joules) / 3.6e6,
            cost: None,
            carbon_kg: None,
            deadlines_missed_ratio: None,
            sla_violation_ratio: sum(|j| j.violated_seconds) / sum(|j| j.due_seconds),
            jobs_completed: jobs.len() as u64,
            rounds: self.samples.len() as u64,
            migrations: sum(|j| f64::from(j.restarts)) as u64,
            peak_live_jobs: 0,
            mixed_gangs: 0,
            rounds_unanswered: 0,
            tenants: self.tenants(jobs),
            wall_seconds: 123.456,
        }
    }

    fn tenants(&self, jobs: &[JobRecord]) -> Vec<TenantRecord> {
        let all: f64 = jobs.iter().map(|j| j.gpu_seconds).sum();
        let weight = |t: usize| if t.is_multiple_of(3) { 2.0 } else { 1.0 };
        let weights: f64 = (0..self.size.tenants).map(weight).sum();
        let record = |t: usize| {
            let own: Vec<&JobRecord> = jobs.iter().filter(|j| j.tenant as usize == t).collect();
            let gpu_seconds: f64 = own.iter().map(|j| j.gpu_seconds).sum();
            let mean = own.iter().filter_map(|j| super::super::completion_seconds(j)).sum::<f64>() / own.len() as f64;
            let lab = LABS[t % LABS.len()];
            TenantRecord {
                name: if t < LABS.len() { lab.to_owned() } else { format!("{lab}-{}", t / LABS.len() + 1) },
                weight: weight(t),
                entitlement_ratio: weight(t) / weights,
                share_ratio: gpu_seconds / all,
                gpu_seconds,
                granted_gpu_seconds: gpu_seconds,
                jobs_completed: own.len() as u64,
                mean_jct_seconds: mean,
                energy_kwh: own.iter().map(|j| j.active_joules + j.idle_joules + j.restart_joules).sum::<f64>() / 3.6e6,
            }
        };
        (0..self.size.tenants).map(record).collect()
    }

    /// Stretches of the first GPUs of every kind, cut wherever a partner comes or goes.
    fn gantt(&self) -> Vec<GanttSpan> {
        let mut out = Vec::new();
        for gpu in (0..self.load.len()).filter(|g| g % self.size.gpus_per_kind < 16) {
            let here: Vec<&Running> = self.ended.iter().filter(|r| r.gpus.contains(&gpu)).collect();
            for r in &here {
                let mut cuts: Vec<f64> = here.iter().flat_map(|o| [o.from, o.until]).collect();
                cuts.retain(|c| (r.from..=r.until).contains(c));
                cuts.sort_by(f64::total_cmp);
                cuts.dedup();
                for (from, until) in cuts.iter().zip(&cuts[1..]).map(|(a, b)| (*a, *b)) {
                    let shared = here.iter().any(|o| o.job != r.job && o.from <= from && o.until >= until);
                    let (tenant, job) = (self.tasks[r.job].tenant as u32, r.job as u64);
                    out.push(GanttSpan {
                        gpu: gpu as u32,
                        job,
                        tenant,
                        from_seconds: from,
                        until_seconds: until,
                        shared,
                    });
                }
            }
        }
        out
    }
}
