//! Two jobs on one GPU: brought together by an estimate, parted by what was measured.

use super::*;

/// Says how fast a job is alone, and each of two beside the other, at 250 W and 280 W.
fn estimate(bench: &mut Bench, beside: f64) {
    let row = |partner: Option<WorkloadId>, rate: f64, watts: f64| {
        let cell = Estimate {
            rate,
            spread_rate: rate,
            racks_rate: 0.0,
            partner_rate: rate,
            watts,
            standard_error: 0.0,
            source: Source::Measured,
        };
        RateRow { ask: RateQuery { workload: WorkloadId(0), gang: 1, partner }, cells: vec![Some(cell)] }
    };
    let rows = vec![row(None, 1.0, 250.0), row(Some(WorkloadId(0)), beside, 280.0)];
    bench.tell(Input::Estimated(rows));
}

/// Two jobs, with this floor each, on one GPU under `policy`, together by an estimate of 0.8; how many hold it once `beside` was measured.
fn left_together(policy: &str, floor: Option<f64>, beside: f64) -> usize {
    let mut bench = Bench::new(&[1]);
    bench.tell(Input::Policy(policy.into()));
    for id in [1, 2] {
        bench.tell(Input::Submit(JobSpec { floor, ..job(id, 1) }));
    }
    estimate(&mut bench, 0.8);
    let together = bench.round();
    assert_eq!(together.len(), 2, "{policy} puts them together");
    for start in &together {
        bench.report(start.job.0, start.fence, GangEvent::Started);
    }
    estimate(&mut bench, beside);
    bench.round();
    let stopped = bench.out.iter().filter(|out| matches!(out, Output::Order(Order::Stop { .. }))).count();
    together.len() - stopped
}

#[test]
fn a_pair_that_does_less_than_by_taking_turns_is_parted() {
    for policy in ["gogh", "energy-greedy"] {
        assert_eq!(left_together(policy, None, 0.7), 2, "{policy}: more than by turns");
        assert_eq!(left_together(policy, None, 0.3), 1, "{policy}: less than by turns");
    }
}

#[test]
fn a_pair_in_which_a_floor_is_missed_is_parted() {
    assert_eq!(left_together("gogh", Some(0.6), 0.7), 2, "both keep what they were promised");
    assert_eq!(left_together("gogh", Some(0.6), 0.4), 1, "neither does");
}
