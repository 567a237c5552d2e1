//! What users are told of a gang that must go.

use super::*;

#[test]
fn a_gang_that_makes_room_hears_for_whom_and_when_it_is_back() {
    let mut bench = Bench::new(&[1]);
    bench.scheduler.policy = find_policy("oef-coop").unwrap();
    let first = bench.running(1, 1);
    bench.submit(2, 1);
    assert_eq!(bench.scheduler.displacement(JobId(1)), None, "it keeps its place");
    let is_stop = |output: &Output| matches!(output, Output::Order(Order::Stop { job: JobId(1), .. }));
    for _ in 0..100 {
        bench.survey(&[0], vec![seen(&first)]);
        bench.round();
        if bench.out.iter().any(is_stop) {
            break;
        }
    }
    let why = bench.scheduler.displacement(JobId(1)).expect("it was told to go");
    assert_eq!((&why.by[..], why.policy, why.moves), (&[JobId(2)][..], "oef-coop", false));
    assert!(why.seconds.is_some_and(|seconds| seconds > 0.0), "{why:?}");
    let text = why.to_string();
    assert!(text.starts_with("preempted for job-2 by oef-coop; back in about "), "{text}");
    bench.report(1, first.fence, GangEvent::Stopped(10.0));
    assert_eq!(bench.scheduler.displacement(JobId(1)), None, "it waits, and 'explain' says why");
}

#[test]
fn what_is_not_known_is_not_said() {
    let why = Displacement { by: vec![JobId(7), JobId(9)], policy: "gogh", moves: false, seconds: None };
    assert_eq!(why.to_string(), "preempted for job-7 and 1 more by gogh");
    assert_eq!(
        Displacement { by: Vec::new(), seconds: Some(1320.0), ..why.clone() }.to_string(),
        "preempted by gogh; back in about 22 min"
    );
    assert_eq!(
        Displacement { moves: true, seconds: Some(60.0), ..why }.to_string(),
        "moved to other GPUs for job-7 and 1 more by gogh"
    );
}
