//! GPUs under power limits: another mode is no other place.

use super::*;

const FULL: KindId = KindId(0);
const LIMITED: KindId = KindId(1);

/// A v100 that may be run at 150 W, under a policy that chooses limits.
fn bench(policy: &str) -> Bench {
    let mut bench = Bench::new(&[1, 1]);
    let mode = Library::builtin().any_kind("v100@150W").unwrap();
    bench.tell(Input::Policy(policy.into()));
    bench.tell(Input::Cluster(ClusterChange::AddMode { node: "n0".into(), mode }));
    bench
}

/// Says how fast the job is, and what it draws, at full power and under the limit.
fn estimate(bench: &mut Bench, cells: [(f64, f64); 2]) {
    let cell = |(rate, watts)| {
        Some(Estimate {
            rate,
            spread_rate: rate,
            racks_rate: 0.0,
            partner_rate: 0.0,
            watts,
            standard_error: 0.0,
            source: Source::Measured,
        })
    };
    let ask = RateQuery { workload: WorkloadId(0), gang: 1, partner: None };
    bench.tell(Input::Estimated(vec![RateRow { ask, cells: cells.map(cell).to_vec() }]));
}

fn running(bench: &mut Bench, cells: [(f64, f64); 2]) -> Start {
    bench.tell(Input::Submit(job(1, 1)));
    estimate(bench, cells);
    let start = bench.round().pop().expect("there is room");
    bench.report(1, start.fence, GangEvent::Started);
    start
}

fn kind_of_job_1(bench: &Bench) -> (KindId, bool) {
    let job = bench.scheduler.jobs.get(bench.scheduler.jobs.slot(JobId(1)).unwrap());
    (job.phase.held().expect("it holds GPUs").kind, matches!(job.phase, Phase::Running(_)))
}

#[test]
fn a_job_starts_in_the_mode_that_costs_least() {
    let mut bench = bench("gogh");
    assert_eq!(running(&mut bench, [(1.0, 250.0), (0.9, 150.0)]).kind, LIMITED);
}

#[test]
fn a_policy_that_does_not_know_modes_never_sees_them() {
    for policy in crate::allocate::POLICIES.iter().filter(|policy| !policy.modes) {
        let mut bench = bench(policy.name);
        // Faster where there is a limit, which cannot be: nobody may notice.
        assert_eq!(running(&mut bench, [(1.0, 250.0), (2.0, 150.0)]).kind, FULL, "{}", policy.name);
    }
}

#[test]
fn another_mode_is_the_same_gang() {
    let mut bench = bench("gogh");
    let start = running(&mut bench, [(1.0, 250.0), (0.9, 150.0)]);
    estimate(&mut bench, [(1.0, 250.0), (0.3, 150.0)]);
    let orders = bench.round();
    let [again] = orders.as_slice() else { panic!("{orders:?}") };
    assert_eq!((again.kind, again.fence, &again.gpus), (FULL, start.fence, &start.gpus));
    assert!(!bench.out.iter().any(|o| matches!(o, Output::Order(Order::Stop { .. }))), "nothing stops");
    assert_eq!(kind_of_job_1(&bench), (FULL, true));
    assert!(
        bench.scheduler.again().iter().any(|o| matches!(o, Output::Order(Order::Start(_)))),
        "until it is answered"
    );
    bench.report(1, start.fence, GangEvent::Started);
    assert!(!bench.scheduler.again().iter().any(|o| matches!(o, Output::Order(_))), "it is answered");
}

#[test]
fn an_unanswered_change_of_mode_costs_nobody_its_place() {
    let mut bench = bench("gogh");
    let start = running(&mut bench, [(1.0, 250.0), (0.9, 150.0)]);
    estimate(&mut bench, [(1.0, 250.0), (0.3, 150.0)]);
    assert_eq!(bench.round().len(), 1);
    for _ in 0..20 {
        let there = ObservedGang {
            job: JobId(1),
            fence: start.fence,
            gpus: start.gpus.clone(),
            steps_done: 0.0,
            state: GangState::Running,
        };
        let told = bench.survey(&[0, 1], vec![there]);
        assert!(!told.iter().any(|o| matches!(o, Output::Order(Order::Stop { .. }))), "{told:?}");
        bench.round();
        assert!(!bench.out.iter().any(|o| matches!(o, Output::Order(Order::Stop { .. }))), "{:?}", bench.out);
    }
    assert!(!bench.waits(1));
}

#[test]
fn a_drained_node_leaves_a_gang_whose_mode_changes_where_it_is() {
    let mut bench = bench("gogh");
    let start = running(&mut bench, [(1.0, 250.0), (0.9, 150.0)]);
    estimate(&mut bench, [(1.0, 250.0), (0.3, 150.0)]);
    bench.round();
    let node = format!("n{}", bench.scheduler.cluster.node_of(start.gpus[0]).0);
    let out = bench.tell(Input::Cluster(ClusterChange::Drain { node, why: "repair".into(), deadline: None }));
    assert!(!out.iter().any(|o| matches!(o, Output::Order(_))), "{out:?}");
    assert!(kind_of_job_1(&bench).1, "it runs");
}
