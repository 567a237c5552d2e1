//! Cards in the modes that their gangs are to run in.
//!
//! Which limit a card should be under is said by who is on it: the mode of its gang, the stricter of two, none where nobody is. It is looked at
//! anew at every call and set where it is another, so a limit that could not be set is tried again, one that a killed engine left is put
//! right by the next, and a card that nobody holds is as sold.
//!
//! Must never: let a rate that was measured under one limit count as measured under another.

use super::{Local, PowerLimit};
use arles_core::{GpuId, KindId};
use std::collections::BTreeMap;

/// Sets power limits of GPUs.
pub trait PowerLimiter: Send {
    /// Puts a GPU, by its name as `CUDA_VISIBLE_DEVICES` takes it, under a limit, or back to what it was before the first.
    ///
    /// # Errors
    /// A sentence, when that cannot be done.
    fn limit(&mut self, device: &str, watts: Option<f64>) -> Result<(), String>;
}

/// The NVIDIA cards of this machine. What was in force comes back when this is dropped, or at the next start if it was killed.
#[derive(Default)]
pub struct CardLimits {
    held: BTreeMap<String, PowerLimit>,
}

impl CardLimits {
    /// Makes sure that these limits can be set on a card, by setting the one that is in force.
    ///
    /// # Errors
    /// A sentence about the first that cannot be set, or what this process may not.
    pub fn try_on(device: &str, watts: impl IntoIterator<Item = f64>) -> Result<(), String> {
        let mut card = PowerLimit::hold(device)?;
        card.set(card.before_watts())?;
        watts.into_iter().try_for_each(|watts| card.can_be(watts))
    }
}

impl PowerLimiter for CardLimits {
    fn limit(&mut self, device: &str, watts: Option<f64>) -> Result<(), String> {
        let Some(watts) = watts else {
            self.held.remove(device);
            return Ok(());
        };
        if !self.held.contains_key(device) {
            self.held.insert(device.to_owned(), PowerLimit::hold(device)?);
        }
        self.held.get_mut(device).map_or(Ok(()), |card| card.set(watts))
    }
}

/// Power limits of a machine's GPUs, as they are and as they could not be.
pub(super) struct Tuning {
    limiter: Option<Box<dyn PowerLimiter>>,
    /// By GPU number; none for those that are as sold.
    in_force: BTreeMap<u32, f64>,
    /// What was last said of a GPU whose limit could not be set, so that it is said once.
    complaint: BTreeMap<u32, String>,
}

impl Tuning {
    pub(super) fn new(limiter: Option<Box<dyn PowerLimiter>>) -> Self {
        Self { limiter, in_force: BTreeMap::new(), complaint: BTreeMap::new() }
    }

    fn set(&mut self, gpu: u32, device: &str, watts: Option<f64>) {
        let Some(limiter) = &mut self.limiter else { return };
        match limiter.limit(device, watts) {
            Ok(()) => {
                self.complaint.remove(&gpu);
                match watts {
                    Some(watts) => self.in_force.insert(gpu, watts),
                    None => self.in_force.remove(&gpu),
                };
            }
            Err(why) => {
                if self.complaint.get(&gpu) != Some(&why) {
                    tracing::warn!("GPU {gpu} is not under the power limit that it should be: {why}");
                    self.complaint.insert(gpu, why);
                }
            }
        }
    }
}

impl Local {
    /// Puts every GPU under the limit that its gangs are to run under.
    pub(super) fn tune(&mut self) {
        if self.tuning.limiter.is_none() {
            return;
        }
        let mut wanted: BTreeMap<u32, f64> = BTreeMap::new();
        for gang in self.jobs.values().filter_map(|job| job.running()) {
            let record = &gang.process.record;
            let Some(watts) = self.cluster.kinds().get(record.kind.index()).and_then(|kind| kind.power_limit) else {
                continue;
            };
            for gpu in &record.gpus {
                wanted.entry(gpu.0).and_modify(|least| *least = least.min(watts)).or_insert(watts);
            }
        }
        for gpu in 0..self.devices.len() as u32 {
            let watts = wanted.get(&gpu).copied();
            if self.tuning.in_force.get(&gpu).copied() != watts {
                self.tuning.set(gpu, &self.devices[gpu as usize], watts);
            }
        }
    }

    /// The kind or mode that GPUs really are in, where somebody is to run on them in `mode`; none while they differ.
    pub(super) fn mode_in_force(&self, mode: KindId, gpus: &[GpuId]) -> Option<KindId> {
        let limit = |gpu: &GpuId| self.tuning.in_force.get(&gpu.0).copied();
        let first = limit(gpus.first()?);
        if gpus.iter().any(|gpu| limit(gpu) != first) {
            return None;
        }
        let base = self.cluster.sold_as(mode);
        let same = |(of, sold_as): &&(KindId, KindId)| *sold_as == base && self.cluster.kind(*of).power_limit == first;
        match first {
            None => Some(base),
            Some(_) => self.cluster.modes().iter().find(same).map(|(mode, _)| *mode),
        }
    }
}
