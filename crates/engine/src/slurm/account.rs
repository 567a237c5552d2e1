//! Who used how much: energy and GPU time, by what the meters show and who held the GPUs.

use crate::local::{DeviceUser, GpuMeter};
use arles_core::engine::KindMeter;
use arles_core::meter::{self, Charge, Draw, Resident};
use arles_core::{Cluster, JobId, Time};

/// Counters of all GPUs since this process began.
pub(crate) struct Account {
    meter: Box<dyn GpuMeter>,
    pub(crate) kinds: Vec<KindMeter>,
    pub(crate) watts: Vec<f32>,
    counted_until: Option<Time>,
}

impl Account {
    pub(crate) fn new(meter: Box<dyn GpuMeter>, cluster: &Cluster) -> Self {
        let mut account = Self { meter, kinds: Vec::new(), watts: Vec::new(), counted_until: None };
        account.resize(cluster);
        account
    }

    pub(crate) fn measures(&self) -> bool {
        self.meter.measures()
    }

    /// Who has which device, where the meters know.
    pub(crate) fn device_users(&self) -> Vec<DeviceUser> {
        self.meter.device_users()
    }

    /// Follows a cluster that has changed. What nodes that left have drawn stays counted.
    pub(crate) fn resize(&mut self, cluster: &Cluster) {
        self.kinds.resize(cluster.kinds().len(), KindMeter::default());
        self.watts.resize(cluster.gpus(), 0.0);
        for node in cluster.nodes().iter().filter(|node| node.removed) {
            node.gpu_range().for_each(|gpu| self.watts[gpu as usize] = 0.0);
        }
    }

    /// Everything since the last call belongs to whoever held the GPUs in that time: `holders` by GPU, and by GPU which device of its node it
    /// is: its own number where nothing is said, and no reading is of a GPU of which it is not known. Time never goes back.
    pub(crate) fn count(
        &mut self,
        now: Time,
        cluster: &Cluster,
        devices: &[Option<u32>],
        holders: &[Vec<JobId>],
        mut charge: impl FnMut(JobId, Charge, f64),
    ) -> Time {
        let since = self.counted_until.unwrap_or(now);
        let now = now.max(since);
        self.counted_until = Some(now);
        let seconds = now.since(since);
        for (_, node) in cluster.present() {
            let kind = cluster.kind(node.kind);
            for (gpu, own_number) in node.gpu_range().zip(0..) {
                let (at, held) = (gpu as usize, &holders[gpu as usize]);
                let number = devices.get(at).copied().unwrap_or(Some(own_number));
                let device =
                    number.map_or_else(|| format!("{}:?", node.name), |number| format!("{}:{number}", node.name));
                // A device that cannot be read is counted as it was: a gap in the account would be charged to nobody.
                let read = self.meter.read(&device, kind, !held.is_empty()).ok();
                let watts = read.map_or(f64::from(self.watts[at]), |reading| reading.watts);
                self.watts[at] = watts as f32;
                let joules = watts * seconds;
                let idle_joules = (kind.idle_watts * seconds).min(joules);
                let draw = Draw { idle_joules, active_joules: joules - idle_joules };
                self.kinds[node.kind.index()].count(!held.is_empty(), draw, seconds);
                if held.is_empty() {
                    continue;
                }
                let residents: Vec<Resident> = held
                    .iter()
                    .map(|&job| Resident { job, activity: 1.0, restarting: false, alone_joules: None })
                    .collect();
                meter::divide(draw, &residents, |job, part| charge(job, part, seconds));
            }
        }
        now
    }
}
