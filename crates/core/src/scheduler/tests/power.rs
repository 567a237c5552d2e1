//! A power budget: what runs is brought below it, by limits before anybody stops, and nothing is lost.

use super::*;

/// A v100 draws 300 W at most and 40 W or so without anything on it; here unused ones are switched off.
fn bench(gpus: &[u32], modes: bool, jobs: u64) -> Bench {
    let mut bench = Bench::new(gpus);
    // Nobody looks again, and nobody is missed.
    let patient = Settings { survey_seconds: 1e9, lease_seconds: 1e9, ..Settings::with_round(ROUND) };
    bench.scheduler.settings = Settings { unused_off: true, ..patient };
    if modes {
        let mode = Library::builtin().any_kind("v100@150W").unwrap();
        bench.tell(Input::Cluster(ClusterChange::AddMode { node: "n0".into(), mode }));
    }
    for id in 1..=jobs {
        bench.tell(Input::Submit(job(id, 1)));
    }
    let cell = |rate, watts| {
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
    let cells = if modes { vec![cell(1.0, 250.0), cell(0.9, 150.0)] } else { vec![cell(1.0, 250.0)] };
    bench.tell(Input::Estimated(vec![RateRow { ask, cells }]));
    for start in bench.round() {
        bench.report(start.job.0, start.fence, GangEvent::Started);
    }
    bench
}

fn stops(outputs: &[Output]) -> usize {
    outputs.iter().filter(|o| matches!(o, Output::Order(Order::Stop { .. }))).count()
}

fn over(outputs: &[Output]) -> Option<(f64, f64, String)> {
    outputs.iter().find_map(|output| match output {
        Output::Note(Event::OverBudget { watts, budget, why }) => Some((*watts, *budget, why.clone())),
        _ => None,
    })
}

#[test]
fn limits_come_before_stops() {
    let mut bench = bench(&[2, 2], true, 4);
    // 1000 W are drawn; three GPUs under their limit draw 700 W.
    let out = bench.tell(Input::PowerBudget(Some(700.0))).to_vec();
    let told = starts(&out);
    assert_eq!((told.len(), stops(&out)), (3, 0), "{out:?}");
    assert!(told.iter().all(|start| start.kind == KindId(1)), "each goes on as it is, under its limit");
    let ids: Vec<u64> = told.iter().map(|start| start.fence.0).collect();
    assert_eq!(over(&out), None);
    // The next rounds keep to it, and nobody is told twice once it is done.
    told.iter().for_each(|start| {
        bench.report(start.job.0, start.fence, GangEvent::Started);
    });
    for _ in 0..5 {
        let again = bench.round();
        assert!(again.is_empty() && stops(&bench.out) == 0, "{ids:?} {again:?}");
    }
    // Without a budget all go back to full power.
    bench.tell(Input::PowerBudget(None));
    let back: Vec<Start> = (0..3).flat_map(|_| bench.round()).collect();
    assert!(back.iter().filter(|start| start.kind == KindId(0)).count() >= 3, "{back:?}");
}

#[test]
fn who_has_to_stop_waits_and_comes_back() {
    let mut bench = bench(&[2, 2], false, 4);
    let out = bench.tell(Input::PowerBudget(Some(600.0))).to_vec();
    assert_eq!((starts(&out).len(), stops(&out)), (0, 2), "{out:?}");
    for output in &out {
        if let Output::Order(Order::Stop { job, fence }) = output {
            bench.report(job.0, *fence, GangEvent::Stopped(17.0));
        }
    }
    assert_eq!(bench.scheduler.waiting().count(), 2, "they wait");
    assert!((0..4).all(|_| bench.round().is_empty()), "as long as the budget lasts");
    bench.tell(Input::PowerBudget(None));
    let mut back: Vec<Start> = Vec::new();
    for _ in 0..3 {
        for start in bench.round() {
            bench.report(start.job.0, start.fence, GangEvent::Started);
            back.push(start);
        }
    }
    assert_eq!(back.len(), 2, "{back:?}");
    let safe = |start: &Start| bench.scheduler.jobs.get(bench.scheduler.jobs.slot(start.job).unwrap()).steps_done;
    assert!(back.iter().all(|start| safe(start) == 17.0), "with what was saved");
}

/// Idle GPUs that nobody can switch off draw more than there is: it is said by how much, and why.
#[test]
fn what_cannot_be_kept_is_said() {
    let mut bench = bench(&[2, 2], false, 4);
    bench.scheduler.settings.unused_off = false;
    let idle = 4.0 * bench.scheduler.cluster.kind(KindId(0)).idle_watts;
    let out = bench.tell(Input::PowerBudget(Some(idle - 30.0))).to_vec();
    assert_eq!(stops(&out), 4);
    let (watts, budget, why) = over(&out).expect("it is said");
    assert_eq!((watts, budget), (idle, idle - 30.0));
    assert!(why.contains("with nothing on them") && why.contains("switched off"), "{why}");
}

#[test]
fn a_budget_that_makes_no_sense_is_refused() {
    for watts in [-1.0, f64::NAN, f64::INFINITY] {
        let mut bench = bench(&[1], false, 1);
        let out = bench.tell(Input::PowerBudget(Some(watts))).to_vec();
        let refused = |o: &Output| matches!(o, Output::Note(Event::Refused { why }) if why.contains("0 or more"));
        assert!(out.iter().any(refused), "{out:?}");
        assert_eq!(bench.scheduler.power_budget(), None);
    }
}

/// Two nodes a rack, two racks a row.
fn racked(jobs: u64) -> Bench {
    let mut bench = bench(&[2, 2, 2, 2], true, jobs);
    let names = ["n0", "n1", "n2", "n3"].into_iter().zip(["a/1", "a/1", "a/2", "b/1"]);
    bench.scheduler.cluster = bench.scheduler.cluster.clone().with_racks(names).expect("racks");
    bench
}

/// What runs in a rack or below a name, by the estimates of these tests, after what was ordered is done.
fn drawn(bench: &Bench, rack: &str) -> f64 {
    let scheduler = &bench.scheduler;
    let inside = |gpu: &GpuId| {
        let own = scheduler.cluster.rack_of(scheduler.cluster.node_of(*gpu)).unwrap_or_default();
        rack.is_empty() || own == rack || own.starts_with(&format!("{rack}/"))
    };
    let gangs = scheduler.jobs.iter().filter_map(|(_, job)| job.phase.held());
    gangs.map(|gang| if gang.kind == KindId(0) { 250.0 } else { 150.0 } * gang.gpus.iter().filter(|g| inside(g)).count() as f64).sum()
}

#[test]
fn a_racks_budget_is_about_its_own_gpus_alone() {
    let mut bench = racked(8);
    assert_eq!((drawn(&bench, ""), drawn(&bench, "a/1")), (2000.0, 1000.0));
    let out = bench.tell(Input::RackBudget { rack: "a/1".into(), watts: Some(700.0) }).to_vec();
    assert_eq!((starts(&out).len(), stops(&out)), (3, 0), "{out:?}");
    assert!(starts(&out).iter().all(|start| start.gpus[0].0 < 4), "nobody elsewhere is touched");
    assert_eq!((drawn(&bench, "a/1"), drawn(&bench, "a/2"), drawn(&bench, "b")), (700.0, 500.0, 500.0));
}

#[test]
fn budgets_of_rows_and_of_the_site_hold_beside_those_of_racks() {
    let mut bench = racked(8);
    for (rack, watts) in [("a", 900.0), ("a/1", 300.0), ("b/1", 400.0)] {
        let out = bench.tell(Input::RackBudget { rack: rack.into(), watts: Some(watts) }).to_vec();
        finish(&mut bench, &out);
    }
    let out = bench.tell(Input::PowerBudget(Some(1000.0))).to_vec();
    finish(&mut bench, &out);
    for _ in 0..6 {
        let (a, one, b, all) = (drawn(&bench, "a"), drawn(&bench, "a/1"), drawn(&bench, "b"), drawn(&bench, ""));
        assert!(a <= 900.0 && one <= 300.0 && b <= 400.0 && all <= 1000.0, "{a} {one} {b} {all}");
        bench.round();
        let out = bench.out.clone();
        finish(&mut bench, &out);
    }
    assert!(drawn(&bench, "") >= 850.0, "no more is saved than must be: {}", drawn(&bench, ""));
}

/// Everything that was ordered is done.
fn finish(bench: &mut Bench, out: &[Output]) {
    for output in out {
        match output {
            Output::Order(Order::Stop { job, fence }) => {
                bench.report(job.0, *fence, GangEvent::Stopped(1.0));
            }
            Output::Order(Order::Start(start)) => {
                bench.report(start.job.0, start.fence, GangEvent::Started);
            }
            _ => {}
        }
    }
}

#[test]
fn a_rack_that_is_not_there_gets_no_budget() {
    let mut bench = racked(1);
    for rack in ["c", "a/", "a/11", ""] {
        let out = bench.tell(Input::RackBudget { rack: rack.into(), watts: Some(1.0) }).to_vec();
        let refused = |o: &Output| matches!(o, Output::Note(Event::Refused { why }) if why.contains("'arles nodes'"));
        assert!(out.iter().any(refused), "{rack}: {out:?}");
        assert!(bench.scheduler.rack_budgets().is_empty());
    }
    bench.tell(Input::RackBudget { rack: "a".into(), watts: Some(500.0) });
    bench.tell(Input::RackBudget { rack: "a".into(), watts: None });
    assert!(bench.scheduler.rack_budgets().is_empty());
}
