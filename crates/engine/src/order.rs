//! Orders that make sense: what every engine that runs programs asks of a start before it asks who else is there.

use arles_core::Cluster;
use arles_core::engine::LiveJob;
use arles_core::scheduler::Start;

/// Why a job cannot be started by an engine whose gangs are as large as somebody else's queue says.
pub(crate) fn elastic(live: &LiveJob) -> Option<String> {
    live.spec.is_elastic().then(|| {
        let (job, gpus) = (live.spec.id.0, live.spec.gpus_in_words());
        format!(
            "job {job} asks for {gpus} GPUs, and this engine cannot change the size of a job; submit it with one number"
        )
    })
}

/// Why a gang cannot be started on this cluster, whoever else is on it. `submit` says how a program is submitted to this engine.
pub(crate) fn nonsense(start: &Start, live: &LiveJob, cluster: &Cluster, submit: &str) -> Option<String> {
    let (job, kinds) = (start.job.0, cluster.kinds().len());
    if start.kind.index() >= kinds {
        return Some(format!("job {job} was ordered onto {}, and there are {kinds} kinds here", start.kind));
    }
    if live.spec.program.is_none() {
        return Some(format!("job {job} has no program; {submit}"));
    }
    if live.steps_done.is_nan() || live.steps_done < 0.0 {
        return Some(format!("job {job} is to go on from {} steps; expected 0 or more", live.steps_done));
    }
    if start.gpus.is_empty() || !live.spec.takes(start.gpus.len()) {
        let (gang, ordered) = (live.spec.gpus_in_words(), start.gpus.len());
        return Some(format!("job {job} needs a gang of {gang} and was ordered onto {ordered} GPUs"));
    }
    start.gpus.iter().enumerate().find_map(|(i, &gpu)| {
        if gpu.index() >= cluster.gpus() || cluster.node(cluster.node_of(gpu)).removed {
            return Some(format!("{gpu} was ordered for job {job} and is not here"));
        }
        let wrong = cluster.kind_of(gpu) != cluster.sold_as(start.kind) || start.gpus[..i].contains(&gpu);
        wrong.then(|| format!("{gpu} was ordered for job {job} twice, or is of another kind than {}", start.kind))
    })
}
