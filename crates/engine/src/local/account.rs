//! The account of energy and service: everything that the cards draw belongs to a job or to nobody.

use super::{GpuTrouble, Local};
use arles_core::meter::{self as energy, Draw, Resident};
use arles_core::{JobId, Time};

impl Local {
    /// Energy counts from here on: what counters show now is nobody's.
    fn begin_counting(&mut self) {
        for (_, node) in self.cluster.present() {
            for gpu in node.gpu_range() {
                let (at, kind) = (gpu as usize, self.cluster.kind(node.kind));
                match self.meter.read(&self.devices[at], kind, false) {
                    Ok(reading) => {
                        self.watts[at] = reading.watts as f32;
                        self.counters[at] = reading.joules;
                    }
                    Err(GpuTrouble::Lost(why)) => drop(self.lost.insert(gpu, why)),
                    Err(GpuTrouble::Unreadable(_)) => {}
                }
            }
        }
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
        for (_, node) in self.cluster.present() {
            for gpu in node.gpu_range() {
                let (at, kind) = (gpu as usize, self.cluster.kind(node.kind));
                let held = &holders[at];
                // A device that cannot be read is counted as it was: a gap in the account would be charged to nobody. One that is gone draws nothing.
                let said = self.meter.read(&self.devices[at], kind, !held.is_empty());
                let gone = matches!(&said, Err(GpuTrouble::Lost(_)));
                match &said {
                    Err(GpuTrouble::Lost(why)) => drop(self.lost.insert(gpu, why.clone())),
                    Err(GpuTrouble::Unreadable(_)) => {}
                    Ok(_) => drop(self.lost.remove(&gpu)),
                }
                if gone {
                    self.watts[at] = 0.0;
                }
                let reading = said.ok();
                let watts = reading.map_or(f64::from(self.watts[at]), |reading| reading.watts);
                self.watts[at] = watts as f32;
                let counter = reading.and_then(|reading| reading.joules);
                let counted =
                    counter.zip(self.counters[at]).map(|(new, old)| new - old).filter(|joules| *joules >= 0.0);
                self.counters[at] = counter.or(self.counters[at]);
                let joules = counted.unwrap_or(watts * seconds);
                let idle = (kind.idle_watts * seconds).min(joules);
                let draw = Draw { idle_joules: idle, active_joules: joules - idle };
                let meter = &mut self.kinds[node.kind.index()];
                if held.is_empty() {
                    meter.unused_joules += joules;
                    continue;
                }
                meter.used.idle_joules += draw.idle_joules;
                meter.used.active_joules += draw.active_joules;
                meter.busy_gpu_seconds += seconds;
                let residents: Vec<Resident> = held
                    .iter()
                    .map(|&job| Resident { job, activity: 1.0, restarting: false, alone_joules: None })
                    .collect();
                let jobs = &mut self.jobs;
                energy::divide(draw, &residents, |job, charge| {
                    if let Some(job) = jobs.get_mut(&job) {
                        job.charge.add(&charge);
                        job.gpu_seconds += seconds;
                    }
                });
            }
        }
    }
}
