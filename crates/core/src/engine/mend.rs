//! What an engine says, looked at before it is believed.
//!
//! Counters are finite and never below zero, nodes and kinds are those of the cluster. A journal cannot even hold a number that is none. What
//! does not pass is left out or set to zero, with a sentence: the next look shows it again, and counters miss nothing by that.

use super::{EngineReport, JobMeter, KindMeter, Meters};
use crate::Cluster;
use crate::scheduler::{GangEvent, GangReport};

fn amount(x: f64) -> bool {
    x.is_finite() && x >= 0.0
}

impl JobMeter {
    /// Whether all its counters are amounts.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let charge = &self.charge;
        let joules = [charge.active_joules, charge.idle_joules, charge.restart_joules];
        joules.into_iter().chain([self.gpu_seconds, self.steps, self.rate]).all(amount)
    }
}

impl KindMeter {
    fn is_sound(&self) -> bool {
        [self.used.active_joules, self.used.idle_joules, self.unused_joules, self.busy_gpu_seconds]
            .into_iter()
            .all(amount)
    }
}

impl GangReport {
    /// The same with a number of steps; says what was wrong with it.
    #[must_use]
    pub fn mended(mut self) -> (Self, Option<String>) {
        let (job, mut said) = (self.job, None);
        if let GangEvent::Stopped(steps) | GangEvent::Failed(steps, _) = &mut self.event
            && !amount(*steps)
        {
            said = Some(format!("the engine says that {steps} steps of {job} are safe; it is taken for 0"));
            *steps = 0.0;
        }
        (self, said)
    }
}

impl EngineReport {
    /// The same without what cannot be; says of everything what was wrong.
    #[must_use]
    pub fn mended(mut self, cluster: &Cluster) -> (Self, Vec<String>) {
        let mut said = Vec::new();
        let (nodes, kinds) = (cluster.nodes().len(), cluster.kinds().len());
        self.survey.nodes.retain(|seen| {
            let known = seen.node.index() < nodes;
            if !known {
                said.push(format!("the engine shows {}, and there are {nodes} nodes; it is left out", seen.node));
            }
            known
        });
        for gang in &mut self.survey.gangs {
            if !amount(gang.steps_done) {
                said.push(format!(
                    "the engine says that {} steps of {} are safe; it is taken for 0",
                    gang.steps_done, gang.job
                ));
                gang.steps_done = 0.0;
            }
        }
        for lost in self.lost_gpus.iter_mut() {
            lost.retain(|lost| {
                let known = lost.gpu.index() < cluster.gpus();
                if !known {
                    said.push(format!(
                        "the engine lost {}, and there are {} GPUs; it is left out",
                        lost.gpu,
                        cluster.gpus()
                    ));
                }
                known
            });
        }
        self.mend_meters(kinds, &mut said);
        self.observations.retain(|seen| {
            let sound = amount(seen.rate) && amount(seen.watts) && seen.kind.index() < kinds;
            if !sound {
                let (rate, watts, kind) = (seen.rate, seen.watts, seen.kind);
                said.push(format!("the engine measured {rate} steps/s and {watts} W on {kind}; that is left out"));
            }
            sound
        });
        (self, said)
    }

    fn mend_meters(&mut self, kinds: usize, said: &mut Vec<String>) {
        self.meters.jobs.retain(|meter| {
            let sound = meter.is_sound();
            if !sound {
                said.push(format!("the meter of {} shows {meter:?}; expected amounts: it is left out", meter.job));
            }
            sound
        });
        if self.meters.kinds.len() > kinds || !self.meters.kinds.iter().all(KindMeter::is_sound) {
            said.push(format!(
                "the meters of kinds show {:?}; expected amounts for {kinds} kinds: they are left out",
                self.meters.kinds
            ));
            // All of them, with those of jobs: what is missing now is in the next reading, of both alike.
            self.meters = Meters::default();
        }
        for watts in &mut self.meters.gpu_watts {
            if !amount(f64::from(*watts)) {
                said.push(format!("a GPU draws {watts} W; it is taken for 0"));
                *watts = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Meters;
    use crate::estimate::{Observation, RateQuery};
    use crate::meter::Charge;
    use crate::scheduler::{Fence, GangState, ObservedGang, ObservedNode, Survey};
    use crate::{GpuId, JobId, KindId, Library, NodeId, Spread, Time, WorkloadId};

    fn meter(job: u64, gpu_seconds: f64) -> JobMeter {
        JobMeter { job: JobId(job), charge: Charge::default(), gpu_seconds, steps: 1.0, rate: 1.0 }
    }

    fn report() -> EngineReport {
        let ask = RateQuery { workload: WorkloadId(0), gang: 1, partner: None };
        let seen = |rate, kind| Observation {
            ask,
            kind: KindId(kind),
            spread: Spread::Packed,
            rate,
            watts: 1.0,
            at: Time(1),
            job: None,
        };
        let gang = |steps_done| ObservedGang {
            job: JobId(1),
            fence: Fence(1),
            gpus: vec![GpuId(0)],
            steps_done,
            state: GangState::Running,
        };
        let node = |node| ObservedNode { node: NodeId(node), up: true };
        EngineReport {
            survey: Survey { at: Time(1), nodes: vec![node(0), node(7)], gangs: vec![gang(5.0), gang(f64::NAN)] },
            meters: Meters {
                boot: 1,
                jobs: vec![meter(1, 3.0), meter(2, f64::NAN), meter(3, -1.0)],
                kinds: vec![KindMeter::default()],
                gpu_watts: vec![100.0, f32::NAN],
            },
            observations: vec![seen(1.0, 0), seen(f64::INFINITY, 0), seen(1.0, 9)],
            inventory: None,
            lost_gpus: None,
        }
    }

    #[test]
    fn what_cannot_be_is_left_out_and_told() {
        let kind = Library::builtin().kind("v100").unwrap().clone();
        let cluster = Cluster::uniform(vec![kind], &[2], 2).unwrap();
        let (mended, said) = report().mended(&cluster);
        assert_eq!(mended.survey.nodes.len(), 1);
        assert_eq!(mended.survey.gangs[1].steps_done, 0.0);
        assert_eq!(mended.meters.jobs, [meter(1, 3.0)]);
        assert_eq!(mended.meters.gpu_watts, [100.0, 0.0]);
        assert_eq!(mended.observations.len(), 1);
        assert_eq!(said.len(), 7, "{said:?}");
        let (again, said) = mended.clone().mended(&cluster);
        assert!(again == mended && said.is_empty(), "what is right stays as it is");
        let mut mad = report();
        mad.meters.kinds[0].unused_joules = f64::NAN;
        assert_eq!(mad.mended(&cluster).0.meters, Meters::default(), "no reading is better than half of one");
        let stopped = GangReport::new(JobId(1), Fence(1), GangEvent::Stopped(f64::NAN));
        assert_eq!(stopped.mended().0.event, GangEvent::Stopped(0.0));
    }
}
