//! Jobs that wait as a whole: suspended, and without a pod.
//!
//! A Job with the label `arles/admission` and `suspend: true` costs the API server one object while it waits, however many pods it will have. arles lets it
//! go on with the gate in its template. So its pods are made behind the gate, and the rest is as for every gang: all of them are there and fit, or none
//! gets its node. The template has to be changed once, before the first start, when every version from 1.27 on allows it; afterwards only `suspend`
//! changes. (Up to 1.35 the template of a Job that has run cannot be changed even while it is suspended, and 1.36 wants its pods gone first. Pins in
//! the template would need that at every move, and could not say how many pods go to which node.)
//!
//! When the gang must go, its pods are evicted like all others, within their budgets; the Job is suspended again when none of them has a place.

use super::Kubernetes;
use super::client::{ApiError, Call};
use super::group::Group;
use super::mark::{GATE, RELEASED};
use super::object::{Job, Meta, Pod};
use arles_core::JobId;
use arles_core::engine::EngineError;
use serde_json::{Value, json};
use std::sync::Arc;

impl Job {
    /// Whether arles decides when it is suspended.
    pub(super) fn is_given(&self) -> bool {
        self.metadata.labels.get(GATE).is_some_and(|value| value != "false")
    }

    /// Whether it waits for arles without a pod.
    pub(super) fn waits_as_a_whole(&self) -> bool {
        let is_over = ["Complete", "Failed"].iter().any(|kind| self.condition(kind).is_some());
        self.is_given() && self.spec.suspend && !is_over && self.metadata.deletion_timestamp.is_none()
    }

    /// A pod as its template would make it, with what the Job says of itself.
    pub(super) fn sample(&self) -> Pod {
        let Meta { namespace, name, annotations, .. } = &self.metadata;
        let mut found = annotations.clone();
        found.extend(self.spec.template.metadata.annotations.clone());
        let metadata = Meta {
            namespace: namespace.clone(),
            name: name.clone(),
            annotations: found,
            labels: self.spec.template.metadata.labels.clone(),
            ..Meta::default()
        };
        Pod { metadata, spec: self.spec.template.spec.clone(), ..Pod::default() }
    }

    fn has_gated_template(&self) -> bool {
        self.spec.template.spec.scheduling_gates.iter().any(|gate| gate.name == GATE)
    }

    /// The call by which it goes on, its pods behind the gate. Another change in between is not overwritten.
    fn resumption(&self) -> Call {
        let meta = json!({"uid": self.metadata.uid, "resourceVersion": self.metadata.resource_version});
        let mut spec = json!({"suspend": false});
        if !self.has_gated_template() {
            spec["template"] = json!({"spec": {"schedulingGates": [{"name": GATE}]}});
        }
        Call::patch(self.path(), json!({"metadata": meta, "spec": spec}))
    }

    fn suspension(&self) -> Call {
        let meta = json!({"uid": self.metadata.uid, "resourceVersion": self.metadata.resource_version});
        Call::patch(self.path(), json!({"metadata": meta, "spec": {"suspend": true}}))
    }

    /// What gives it back to Kubernetes, without the gate in its template: the calls, in order. A Job that has run must forget when it began before
    /// its template can be changed.
    pub(super) fn release(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        let mut spec = json!({"suspend": false});
        if self.has_gated_template() {
            let body = json!({"status": {"startTime": Value::Null}});
            calls.push(Call::patch(format!("{}/status", self.path()), body));
            spec["template"] = json!({"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}});
        }
        let meta = json!({"uid": self.metadata.uid, "annotations": {RELEASED: "true"}});
        calls.push(Call::patch(self.path(), json!({"metadata": meta, "spec": spec})));
        calls
    }
}

impl Kubernetes {
    /// Lets a suspended Job go on: its pods are made, and wait behind the gate until all of them are there.
    pub(super) fn resume(&mut self, id: JobId, job: &Arc<Job>) -> Result<(), EngineError> {
        if !self.jobs.get_mut(&id).is_some_and(super::entry::Entry::may_send) {
            return Ok(());
        }
        let answer = self.act(vec![job.resumption()])?.remove(0);
        match answer {
            Err(ApiError::Unreachable(why)) => Err(EngineError(why)),
            // It was changed in between, or its last pods are not gone yet: the next look shows, and the gang's time-out ends it.
            Err(error) => {
                if let Some(entry) = self.jobs.get_mut(&id).filter(|_| !error.is(409)) {
                    entry.put_off = Some(format!("its Job cannot go on yet: {error}"));
                }
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// Suspends a Job that arles let go on and that has no place any more.
    pub(super) fn suspend(&mut self, id: JobId, group: &Group) -> Result<(), EngineError> {
        let Some(job) = group.job.as_ref().filter(|job| job.is_given() && !job.spec.suspend) else { return Ok(()) };
        let scheduler = &self.options.scheduler_name;
        let is_over = ["Complete", "Failed"].iter().any(|kind| job.condition(kind).is_some());
        let is_busy = group.pods.iter().any(|pod| pod.is_placed(scheduler) || pod.status.phase == "Succeeded");
        if is_over || is_busy || !job.has_gated_template() {
            return Ok(());
        }
        if !self.jobs.get_mut(&id).is_some_and(super::entry::Entry::may_send) {
            return Ok(());
        }
        self.tolerate(vec![job.suspension()])
    }
}

#[cfg(test)]
mod tests {
    use super::super::group::GroupKey;
    use super::*;

    fn job(labels: &Value, suspend: bool) -> Arc<Job> {
        let container = json!({"resources": {"limits": {"nvidia.com/gpu": "2"}}});
        let template = json!({"metadata": {"annotations": {"arles/steps": "10"}}, "spec": {"containers": [container]}});
        let meta = json!({"name": "train", "namespace": "team", "uid": "u", "labels": labels,
            "annotations": {"arles/workload": "lm-b20", "arles/steps": "5"}});
        let spec = json!({"suspend": suspend, "parallelism": 3, "template": template});
        Arc::new(serde_json::from_value(json!({"metadata": meta, "spec": spec})).expect("a Job"))
    }

    #[test]
    fn a_suspended_job_is_offered_as_a_whole() {
        let given = job(&json!({GATE: "true"}), true);
        let group = Group { key: GroupKey::of_job(&given), pods: Vec::new(), job: Some(given), ..Group::default() };
        let arrival = group.arrival("team", "arles").expect("it waits");
        assert_eq!((arrival.gang, arrival.external.as_str()), (6, "kubernetes:job/team/train@u#6"));
        assert_eq!((arrival.wishes.steps, arrival.wishes.workload.as_deref()), (Some(10.0), Some("lm-b20")));
        for (labels, suspend) in [(json!({}), true), (json!({GATE: "false"}), true), (json!({GATE: "true"}), false)] {
            let other = job(&labels, suspend);
            let group = Group { key: GroupKey::of_job(&other), pods: Vec::new(), job: Some(other), ..Group::default() };
            assert!(group.arrival("team", "arles").is_none(), "{labels} {suspend}");
        }
    }
}
