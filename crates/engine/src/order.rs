//! Orders that make sense: what every engine that runs programs asks of a start before it asks who else is there.

use arles_core::Cluster;
use arles_core::engine::LiveJob;
use arles_core::scheduler::Start;

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
    if start.gpus.is_empty() || start.gpus.len() != live.spec.gang as usize {
        let (gang, ordered) = (live.spec.gang, start.gpus.len());
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
