//! GPUs of a job that ends go to the next of its class at once, where the settings say so; nobody else's plan changes.

use super::*;

/// Three jobs of a class on two GPUs, two of them running.
fn three_on_two(refill: bool) -> (Bench, Vec<Start>) {
    let mut bench = Bench::new(&[1, 1]);
    bench.scheduler.settings.refill = refill;
    bench.tell(Input::Policy("oef-coop".into()));
    (1..=3).for_each(|id| bench.submit(id, 1));
    let started = bench.round();
    assert_eq!(started.len(), 2);
    for start in &started {
        bench.report(start.job.0, start.fence, GangEvent::Started);
    }
    (bench, started)
}

fn waiting(bench: &Bench) -> u64 {
    bench.scheduler.waiting().next().expect("one of three waits").0
}

#[test]
fn the_next_of_a_class_takes_the_place_of_one_that_ends() {
    for event in [GangEvent::Finished, GangEvent::Failed(0.0, "broken".into())] {
        let (mut bench, started) = three_on_two(true);
        bench.scheduler.settings.most_failures = 1;
        let (next, ended) = (waiting(&bench), &started[0]);
        let out = bench.report(ended.job.0, ended.fence, event).to_vec();
        let [start] = &starts(&out)[..] else { panic!("one starts: {out:?}") };
        assert_eq!((start.job, &start.gpus, start.kind), (JobId(next), &ended.gpus, ended.kind));
        assert!(start.fence > started[1].fence);
        // It is the class's gang still: the next plan leaves everybody where they are.
        bench.report(next, start.fence, GangEvent::Started);
        assert_eq!(bench.round(), []);
    }
}

#[test]
fn without_the_setting_gpus_wait_for_the_next_round() {
    let (mut bench, started) = three_on_two(false);
    let out = bench.report(started[0].job.0, started[0].fence, GangEvent::Finished).to_vec();
    assert_eq!(starts(&out), []);
    assert_eq!(bench.round().len(), 1);
}

#[test]
fn nobody_takes_a_place_that_a_plan_could_not_give() {
    // Its user holds the one that waits.
    let (mut bench, started) = three_on_two(true);
    bench.tell(Input::Hold(JobId(waiting(&bench))));
    let out = bench.report(started[0].job.0, started[0].fence, GangEvent::Finished).to_vec();
    assert_eq!(starts(&out), []);
    // The node is being emptied.
    let (mut bench, started) = three_on_two(true);
    let node = bench.scheduler.cluster.node_of(started[0].gpus[0]);
    bench.scheduler.nodes[node.index()].drain = Some(Drain { why: "fan".into(), deadline: None, since: bench.clock });
    let out = bench.report(started[0].job.0, started[0].fence, GangEvent::Finished).to_vec();
    assert_eq!(starts(&out), []);
    // It is of another class.
    let (mut bench, started) = three_on_two(true);
    bench.tell(Input::Cancel(JobId(waiting(&bench))));
    let other = JobSpec { weight: 2.0, ..job(9, 1) };
    bench.tell(Input::Submit(other));
    let out = bench.report(started[0].job.0, started[0].fence, GangEvent::Finished).to_vec();
    assert_eq!(starts(&out), []);
    assert!(bench.waits(9));
}
