//! Nodes that join, leave, drain and return, each change as small as it can be told.

use super::*;
use crate::{ClusterChange, NodeSpec};

fn kind(name: &str) -> crate::Kind {
    Library::builtin().kind(name).expect("in the library").clone()
}

fn join(name: &str, of: &str, gpus: u32) -> ClusterChange {
    ClusterChange::Join(NodeSpec { name: name.into(), kind: kind(of), gpus, cpus: None, memory_gib: None, rack: None })
}

fn drain(name: &str, deadline: Option<Time>) -> ClusterChange {
    ClusterChange::Drain { node: name.into(), why: "new kernel".into(), deadline }
}

fn remove(name: &str) -> ClusterChange {
    ClusterChange::Remove { node: name.into(), why: "sold".into() }
}

fn lost(name: &str, gpus: &[u32]) -> ClusterChange {
    ClusterChange::GpusLost { node: name.into(), gpus: gpus.to_vec(), why: String::new() }
}

fn stops(outputs: &[Output]) -> Vec<(JobId, Fence)> {
    let stop = |o: &Output| if let Output::Order(Order::Stop { job, fence }) = o { Some((*job, *fence)) } else { None };
    outputs.iter().filter_map(stop).collect()
}

fn said(outputs: &[Output]) -> Vec<String> {
    let what = |o: &Output| match o {
        Output::Note(Event::ClusterChanged { node, what }) => Some(format!("{node} {what}")),
        Output::Note(Event::Refused { why } | Event::Requeued { why, .. }) => Some(why.clone()),
        _ => None,
    };
    outputs.iter().filter_map(what).collect()
}

impl Bench {
    fn change(&mut self, change: ClusterChange) -> Vec<Output> {
        self.tell(Input::Cluster(change)).to_vec()
    }

    fn node(&mut self, node: usize) -> NodeStatus {
        self.scheduler.node_statuses().nth(node).expect("it is there")
    }
}

#[test]
fn a_node_joins_and_is_used_once_it_is_seen() {
    let mut bench = Bench::new(&[1]);
    bench.running(1, 1);
    bench.submit(2, 2);
    assert!(bench.round().is_empty());
    let out = bench.change(join("big", "v100", 2));
    assert!(matches!(&out[0], Output::Cluster(cluster) if cluster.present_gpus() == 3), "{out:?}");
    assert_eq!(said(&out), ["big joined with 2 × v100"]);
    assert!(bench.round().is_empty(), "nobody has seen it");
    bench.survey(&[0, 1], Vec::new());
    let starts = bench.round();
    assert_eq!(starts.iter().find(|s| s.job == JobId(2)).expect("there is room").gpus, [GpuId(1), GpuId(2)]);
}

#[test]
fn a_new_kind_is_asked_for_before_anybody_goes_there() {
    let mut bench = Bench::new(&[1]);
    bench.submit(1, 1);
    let out = bench.change(join("other", "a100-40gb", 1));
    let ask = RateQuery { workload: WorkloadId(0), gang: 1, partner: None };
    assert_eq!(out[1], Output::Estimate(ask), "{out:?}");
    let cell = Estimate {
        rate: 9.0,
        spread_rate: 9.0,
        racks_rate: 0.0,
        partner_rate: 0.0,
        watts: 100.0,
        standard_error: 0.0,
        source: Source::Measured,
    };
    bench.survey(&[0, 1], Vec::new());
    assert_eq!(bench.scheduler.classes[&ClassId(0)].rates, [1.0, 0.0]);
    // An answer that was on its way says nothing of the new kind, and does not close the question.
    let slow = Estimate { rate: 2.0, spread_rate: 2.0, ..cell };
    bench.tell(Input::Estimated(vec![RateRow { ask, cells: vec![Some(slow)] }]));
    assert_eq!(bench.scheduler.classes[&ClassId(0)].rates, [2.0, 0.0]);
    assert!(bench.scheduler.asked.contains_key(&ask));
    bench.tell(Input::Estimated(vec![RateRow { ask, cells: vec![Some(slow), Some(cell)] }]));
    bench.tell(Input::Estimated(vec![RateRow { ask, cells: vec![Some(slow)] }]));
    assert_eq!(bench.scheduler.classes[&ClassId(0)].rates, [2.0, 9.0], "a late short answer takes nothing back");
    assert_eq!(bench.round()[0].kind, KindId(1));
}

#[test]
fn a_drained_node_gets_nothing_new_and_keeps_what_runs() {
    let mut bench = Bench::new(&[2]);
    let one = bench.running(1, 1);
    let out = bench.change(drain("n0", None));
    assert_eq!((said(&out), stops(&out)), (vec!["n0 drains: new kernel".to_owned()], vec![]));
    assert!(!matches!(out[0], Output::Cluster(_)), "the cluster is the same");
    bench.submit(2, 1);
    for _ in 0..4 {
        bench.survey(&[0], vec![seen(&one)]);
        assert!(bench.round().is_empty());
        assert!(stops(&bench.out).is_empty());
    }
    assert_eq!(
        bench.scheduler.explain(JobId(2)).to_string(),
        "waits: needs 1 GPU, only 0 × v100 usable (2 GPUs on nodes that drain); starts when nodes return"
    );
    assert_eq!(
        bench.scheduler.explain(JobId(1)).to_string(),
        "runs on 1 × v100 on 1 node; its node 'n0' drains (new kernel): may run to its end there"
    );
    assert_eq!(bench.node(0).drain.expect("it drains").why, "new kernel");
    let undrain = ClusterChange::Undrain { node: "n0".into() };
    assert_eq!(said(&bench.change(undrain.clone())), ["n0 takes jobs again"]);
    assert_eq!(said(&bench.change(undrain)), ["node 'n0' is not drained; there is nothing to undo"]);
    bench.survey(&[0], vec![seen(&one)]);
    assert_eq!(bench.round().len(), 1);
}

#[test]
fn gangs_leave_a_round_before_the_deadline() {
    let mut bench = Bench::new(&[1, 1]);
    let one = bench.running(1, 1);
    let node = one.gpus[0].0;
    let deadline = bench.clock.after(5.5 * ROUND);
    bench.change(drain(&format!("n{node}"), Some(deadline)));
    let mut left = None;
    for _ in 0..6 {
        bench.survey(&[0, 1], vec![seen(&one)]);
        bench.round();
        if let [stop] = stops(&bench.scheduler.again())[..] {
            assert_eq!(stop, (JobId(1), one.fence));
            left = Some(bench.clock);
            break;
        }
    }
    let left = left.expect("it was stopped");
    assert!(left.after(ROUND) <= deadline && left.after(2.0 * ROUND) > deadline, "{left} for {deadline}");
    let out = bench.report(1, one.fence, GangEvent::Stopped(50.0)).to_vec();
    assert_eq!(said(&out), [format!("its node 'n{node}' drains: new kernel")]);
    let start = bench.round().pop().expect("the other node is free");
    assert_ne!(start.gpus, one.gpus);
    assert_eq!(bench.scheduler.job_status(JobId(1)).expect("it is live").failures, 0);
}

#[test]
fn what_was_only_ordered_is_called_back_from_a_drained_node() {
    let mut bench = Bench::new(&[1]);
    bench.submit(1, 1);
    let start = bench.round().pop().expect("there is room");
    let out = bench.change(drain("n0", None));
    assert_eq!(stops(&out), [(JobId(1), start.fence)]);
    for _ in 0..4 {
        assert!(bench.round().is_empty(), "it is not sent again");
    }
}

#[test]
fn a_removed_node_is_left_and_its_job_goes_elsewhere() {
    let mut bench = Bench::new(&[1, 1]);
    let one = bench.running(1, 1);
    let node = one.gpus[0].0;
    let out = bench.change(remove(&format!("n{node}")));
    assert!(matches!(out[0], Output::Cluster(_)));
    assert_eq!(stops(&out), [(JobId(1), one.fence)]);
    assert!(bench.round().is_empty(), "it may still run there");
    bench.report(1, one.fence, GangEvent::Stopped(7.0));
    bench.survey(&[1 - node], Vec::new());
    let again = bench.round().pop().expect("the other node is free");
    assert_eq!(again.gpus, [GpuId(1 - node)]);
    // Whoever still shows the old gang is told to stop it, and nobody's GPU is blocked by it.
    let out = bench.survey(&[0, 1], vec![seen(&one), seen(&again)]);
    assert_eq!(stops(&out), [(JobId(1), one.fence)]);
    assert!(bench.scheduler.strangers.is_empty());
    assert!(bench.node(node as usize).removed && !bench.node(node as usize).reachable);
}

#[test]
fn a_removed_node_that_does_not_answer_is_waited_for_as_long_as_its_lease() {
    let mut bench = Bench::new(&[1, 1]);
    let one = bench.running(1, 1);
    let node = one.gpus[0].0;
    bench.change(remove(&format!("n{node}")));
    let mut rounds = 0;
    while bench.round().is_empty() {
        rounds += 1;
        bench.survey(&[1 - node], Vec::new());
        assert!(rounds < 20, "it is never given up");
    }
    let patience = bench.scheduler.settings.loss_seconds() / ROUND;
    assert!(f64::from(rounds) >= patience - 1.0, "after {rounds} rounds of {patience}");
    // One that still answers is not: the gang could be running.
    let mut bench = Bench::new(&[1, 1]);
    let one = bench.running(1, 1);
    bench.change(remove(&format!("n{}", one.gpus[0].0)));
    for _ in 0..20 {
        bench.survey(&[0, 1], vec![seen(&one)]);
        assert!(bench.round().is_empty());
    }
}

#[test]
fn a_node_that_returns_with_other_gpus_is_another() {
    let mut bench = Bench::new(&[2]);
    let one = bench.running(1, 2);
    bench.change(drain("n0", None));
    let out = bench.change(join("n0", "v100", 4));
    assert_eq!(said(&out), ["n0 joined with 4 × v100; it had 2 × v100"]);
    assert_eq!(stops(&out), [(JobId(1), one.fence)]);
    assert_eq!((bench.node(0).removed, bench.node(1).drain), (true, None));
    bench.report(1, one.fence, GangEvent::Stopped(7.0));
    bench.survey(&[1], Vec::new());
    assert_eq!(bench.round()[0].gpus, [GpuId(2), GpuId(3)]);
    assert!(bench.change(join("n0", "v100", 4)).is_empty(), "once more is nothing new");
}

#[test]
fn a_lost_gpu_takes_its_gang_along_and_no_other() {
    let mut bench = Bench::new(&[2]);
    let (one, two) = (bench.running(1, 1), bench.running(2, 1));
    let out = bench.change(lost("n0", &[one.gpus[0].0]));
    assert_eq!(said(&out), [format!("n0 lost GPU {}", one.gpus[0].0)]);
    assert_eq!(stops(&out), [(JobId(1), one.fence)]);
    bench.report(1, one.fence, GangEvent::Failed(0.0, "the device is gone".into()));
    assert_eq!(bench.scheduler.job_status(JobId(1)).expect("it is live").failures, 0, "it is not the job's fault");
    bench.survey(&[0], vec![seen(&two)]);
    assert!(bench.round().is_empty());
    assert_eq!(
        bench.scheduler.explain(JobId(1)).to_string(),
        "waits: next in the queue; needs 1 GPU, 0 free; starts in ~11.6 d"
    );
    assert_eq!(bench.node(0).lost_gpus, one.gpus.iter().map(|g| g.0).collect::<Vec<_>>());
    bench.change(ClusterChange::GpusBack { node: "n0".into(), gpus: vec![0, 1] });
    bench.survey(&[0], vec![seen(&two)]);
    assert_eq!(bench.round()[0].gpus, one.gpus);
}

#[test]
fn a_corrected_kind_stops_only_gangs_that_would_be_on_two() {
    let mut bench = Bench::new(&[2, 2]);
    let (wide, small) = (bench.running(1, 3), bench.running(2, 1));
    let right = ClusterChange::CorrectKind { node: "n0".into(), kind: kind("p100") };
    let out = bench.change(right);
    assert_eq!(said(&out), ["n0 has p100 GPUs, not v100"]);
    assert_eq!(stops(&out), [(JobId(1), wide.fence)]);
    let snapshot = serde_json::to_string(&bench.scheduler).expect("a snapshot");
    serde_json::from_str::<Scheduler>(&snapshot).expect("a gang on two kinds that is being stopped");
    let there = bench.scheduler.job_status(JobId(2)).expect("it is live").gang.expect("it runs").kind;
    assert_eq!(there, bench.scheduler.cluster().kind_of(small.gpus[0]));
    let out = bench.report(1, wide.fence, GangEvent::Stopped(1.0)).to_vec();
    assert_eq!(said(&out), ["the GPUs of its nodes are of different kinds"]);
}

#[test]
fn an_answer_to_a_question_from_before_a_change_is_safe() {
    let mut bench = Bench::new(&[2, 2]);
    (1..=4).for_each(|id| bench.submit(id, 1));
    bench.wait(ROUND);
    bench.tell(Input::Tick);
    let problem = bench.scheduler.outstanding.clone().expect("it has asked");
    bench.change(remove("n0"));
    bench.change(join("new", "p100", 1));
    let answer = (bench.scheduler.policy.make)().allocate(&problem);
    let out = bench.tell(Input::Allocated(problem.round, answer)).to_vec();
    let gpus: Vec<GpuId> = starts(&out).into_iter().flat_map(|start| start.gpus).collect();
    assert_eq!(gpus, [GpuId(2), GpuId(3)], "{out:?}");
}
