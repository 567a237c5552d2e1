//! The account of energy and service: everything that the cards draw belongs to a job or to nobody.

use super::{GpuTrouble, Local};
use arles_core::meter::{self as energy, Draw, Resident};
use arles_core::{GpuId, JobId, KindId, Time};

/// Power over less time than this is more noise than power.
const TRUSTED_SECONDS: f64 = 0.5;

impl Local {
    /// Energy counts from here on: what counters show now is nobody's.
    fn begin_counting(&mut self) {
        for (gpu, kind) in self.present_gpus() {
            self.drawn(gpu, kind, false, 0.0);
        }
    }

    fn present_gpus(&self) -> Vec<(u32, KindId)> {
        self.cluster.present().flat_map(|(_, node)| node.gpu_range().map(|gpu| (gpu, node.kind))).collect()
    }

    /// Everything since the last call belongs to whoever held the GPUs in that time.
    pub(super) fn count(&mut self, now: Time) {
        let Some(since) = self.settled.replace(now) else { return self.begin_counting() };
        let seconds = now.since(since);
        if seconds <= 0.0 {
            return;
        }
        let mut holders: Vec<Vec<JobId>> = vec![Vec::new(); self.cluster.gpus()];
        for (&id, job) in &self.jobs {
            let gpus = job.running().map_or(&[][..], |gang| &gang.process.record.gpus);
            for gpu in gpus {
                holders[gpu.index()].push(id);
            }
        }
        for (gpu, kind) in self.present_gpus() {
            let held = &holders[gpu as usize];
            let joules = self.drawn(gpu, kind, !held.is_empty(), seconds);
            let idle = (self.cluster.kind(kind).idle_watts * seconds).min(joules);
            let draw = Draw { idle_joules: idle, active_joules: joules - idle };
            self.kinds[kind.index()].count(!held.is_empty(), draw, seconds);
            if !held.is_empty() {
                let mode = self.mode_in_force(kind, &[GpuId(gpu)]).unwrap_or(kind);
                self.charge(held, mode, draw, seconds);
            }
        }
    }

    /// Divides what a GPU drew among those who held it, and learns from those who held it alone.
    fn charge(&mut self, held: &[JobId], kind: KindId, draw: Draw, seconds: f64) {
        let spec = |job: &JobId| &self.jobs[job].live.spec;
        if let [job] = held
            && spec(job).gang == 1
            && self.meter.measures()
            && seconds >= TRUSTED_SECONDS
        {
            self.alone.see(spec(job).workload, kind, draw.active_joules / seconds);
        }
        let resident = |&job: &JobId| {
            let alone = self.alone.watts(spec(&job).workload, kind);
            let alone_joules = alone.map(|(watts, _)| watts * seconds);
            Resident { job, activity: 1.0, restarting: false, alone_joules }
        };
        let residents: Vec<Resident> = held.iter().map(resident).collect();
        let jobs = &mut self.jobs;
        energy::divide(draw, &residents, |job, charge| {
            if let Some(job) = jobs.get_mut(&job) {
                job.charge.add(&charge);
                job.gpu_seconds += seconds;
            }
        });
    }

    /// Reads a GPU: what it drew in this time, in joules.
    fn drawn(&mut self, gpu: u32, kind: KindId, busy: bool, seconds: f64) -> f64 {
        let at = gpu as usize;
        let counted = self.counters[at];
        let reading = match self.meter.read(&self.devices[at], self.cluster.kind(kind), busy) {
            Ok(reading) => reading,
            Err(trouble) => {
                if let GpuTrouble::Lost(why) = trouble {
                    self.lost.insert(gpu, why);
                    self.watts[at] = 0.0;
                }
                // What its counter shows later is from this time, too. Without one it goes on as it was: a gap would be charged to nobody.
                return if counted.is_some() { 0.0 } else { f64::from(self.watts[at]) * seconds };
            }
        };
        self.lost.remove(&gpu);
        self.watts[at] = reading.watts as f32;
        self.counters[at] = reading.joules;
        // A counter that begins anew says nothing of the time before.
        let grown = reading.joules.zip(counted).map(|(new, old)| new - old).filter(|joules| *joules >= 0.0);
        grown.unwrap_or(reading.watts * seconds)
    }
}
