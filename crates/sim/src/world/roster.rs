//! Who is known here: jobs come, go, and come back.

use super::*;
use arles_core::engine::{JobMeter, KindMeter};

impl World {
    /// Makes a job known that has done nothing yet.
    pub fn admit(&mut self, spec: JobSpec) {
        self.admit_with(spec, 0.0, Fence(0));
    }

    /// Makes a job known that has done so many steps elsewhere, and of which no gang up to `fence` may start.
    pub fn admit_with(&mut self, spec: JobSpec, steps_done: f64, fence: Fence) {
        // Starts of a job that cannot be played are refused.
        let part = Part::of(&spec, &mut self.truth);
        let sim_job = SimJob {
            paces: part.as_ref().map_or_else(|_| Arc::from([]), |part| self.truth.alone(part.plays, spec.gang)),
            part,
            steps: if steps_done.is_finite() { steps_done.max(0.0) } else { 0.0 },
            served_seconds: 0.0,
            started: None,
            restarts: 0,
            migrations: 0,
            gpu_seconds: 0.0,
            kept_seconds: 0.0,
            charge: Charge::default(),
            last_gpus: Vec::new(),
            gang: None,
            fence,
            outcome: None,
            spec,
        };
        self.jobs.insert(sim_job.spec.id, Box::new(sim_job));
    }

    /// A job that was forgotten is known again, with everything that was known of it.
    pub fn readmit(&mut self, mut sim_job: SimJob) {
        sim_job.gang = None;
        // There may be kinds now that there were not when it left.
        sim_job.paces = sim_job.paces_by(&self.truth);
        self.jobs.insert(sim_job.spec.id, Box::new(sim_job));
    }

    /// Forgets a job that is over and holds nothing.
    pub fn dismiss(&mut self, job: JobId) -> Option<SimJob> {
        self.seated.remove(&job);
        self.jobs.remove(&job).map(|sim_job| *sim_job)
    }

    /// Forgets a job, and takes it off its GPUs first if it holds any. No gang of it up to the latest may start again.
    pub fn forget(&mut self, now: Time, job: JobId) -> Option<SimJob> {
        if self.held(job).is_some() {
            self.release(now, job);
        }
        self.dismiss(job)
    }

    /// Nothing has been drawn before `now`: for a world that is made later than its clock's origin.
    pub fn begin(&mut self, now: Time) {
        self.idle_since.fill(now);
    }

    /// What a job's meter shows, as of the last change.
    #[must_use]
    pub fn job_meter(&self, now: Time, job: JobId) -> Option<JobMeter> {
        self.jobs.get(&job).map(|sim_job| sim_job.meter(now))
    }

    /// What the kinds' meters show, as of the last change.
    pub fn kind_meters(&self) -> impl Iterator<Item = KindMeter> + '_ {
        (0..self.busy.len()).map(|k| KindMeter {
            used: self.used_joules[k],
            unused_joules: self.unused_joules[k],
            busy_gpu_seconds: self.busy_gpu_seconds[k],
        })
    }

    /// Present draw of every GPU: idle power, and the part of each gang on it.
    #[must_use]
    pub fn gpu_watts(&self, now: Time) -> Vec<f32> {
        let mut watts = vec![0.0f64; self.on_gpu.len()];
        for (node, _) in self.cluster.nodes().iter().zip(&self.up).filter(|(_, up)| **up) {
            let (idle, unused) = (self.cluster.kind(node.kind).idle_watts, self.unused_watts(node.kind));
            for g in node.gpu_range() {
                let empty = self.on_gpu[g as usize].iter().all(Option::is_none);
                watts[g as usize] = if self.lost[g as usize] { 0.0 } else { [idle, unused][usize::from(empty)] };
            }
        }
        for gang in self.seated.iter().filter_map(|id| self.jobs[id].gang.as_ref()).filter(|g| g.ended.is_none()) {
            let part = if gang.moves(now) { self.world_options.restart_activity } else { 1.0 };
            for gpu in &gang.gpus {
                watts[gpu.index()] += gang.watts * part / gang.gpus.len() as f64;
            }
        }
        watts.into_iter().map(|w| w as f32).collect()
    }
}

impl SimJob {
    /// Counters, as of the last change.
    #[must_use]
    pub fn meter(&self, now: Time) -> JobMeter {
        let gang = self.gang.as_ref().filter(|g| g.ended.is_none() && !g.moves(now));
        JobMeter {
            job: self.spec.id,
            charge: self.charge,
            gpu_seconds: self.gpu_seconds,
            steps: self.steps,
            rate: gang.map_or(0.0, |g| g.rate),
        }
    }

    /// The latest gang that was started, stopped or refused.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How this gang ended, if it ended by itself and was then ordered to stop.
    #[must_use]
    pub fn outcome_of(&self, fence: Fence) -> Option<GangReport> {
        self.outcome.clone().filter(|report| report.fence == fence)
    }

    /// How much it really has to do, whatever anybody expects of it.
    #[must_use]
    pub fn length(&self) -> Length {
        self.part.as_ref().map_or(Length::Steps(0.0), |part| part.length)
    }

    /// What it runs like, for the truth. Only jobs that can be played have gangs.
    #[must_use]
    pub fn plays(&self) -> WorkloadId {
        self.part.as_ref().map_or(self.spec.workload, |part| part.plays)
    }

    /// Its paces on all kinds that there are.
    pub(super) fn paces_by(&self, truth: &Truth) -> PaceRow {
        let gang = self.gang.as_ref().map_or(self.spec.gang, |gang| gang.gpus.len() as u32);
        self.part.as_ref().map_or_else(|_| Arc::from([]), |part| truth.alone(part.plays, gang))
    }

    /// The same, with no gang up to `fence` to start any more.
    #[must_use]
    pub fn barred_to(self, fence: Fence) -> Self {
        Self { fence: self.fence.max(fence), ..self }
    }
}

impl Running {
    /// Whether it loads, restores or saves: it holds its GPUs and makes no steps.
    fn moves(&self, now: Time) -> bool {
        self.stopping || now < self.productive_from
    }
}
