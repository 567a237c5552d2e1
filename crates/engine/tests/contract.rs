//! What every engine owes its driver, whatever it is made of. A further engine is a further line of `ENGINES`.

#[path = "support/engine.rs"]
mod support;

use arles_core::engine::{Engine, EngineReport, OrderReply};
use arles_core::scheduler::{GangEvent, GangState, ObservedGang, Order};
use arles_core::{GpuId, JobId, Time, Work, WorkloadId};
use arles_sim::world::WorldOptions;
use support::{BOOT, Ledger, at, job, remote, start, stop, world};

type Make = fn(WorldOptions) -> Box<dyn Engine>;

/// Engines on the cluster of [`support::cluster`], empty.
const ENGINES: [(&str, Make); 2] = [("virtual", |h| Box::new(world(h))), ("remote", |h| Box::new(remote(h)))];

/// Stops take no time, or some.
const SAVING_SECONDS: [f64; 2] = [0.0, 4.0];

/// Runs a test for every engine, with stops that take no time and with such that do.
fn every(test: fn(&mut dyn Engine)) {
    for (name, make) in ENGINES {
        for checkpoint_seconds in SAVING_SECONDS {
            println!("{name}, {checkpoint_seconds} s to save");
            test(&mut *make(WorldOptions { checkpoint_seconds, ..WorldOptions::default() }));
        }
    }
}

fn gang(report: &EngineReport, id: u64) -> Option<&ObservedGang> {
    report.survey.gangs.iter().find(|gang| gang.job == JobId(id))
}

fn look(engine: &mut dyn Engine, seconds: f64) -> EngineReport {
    engine.survey(at(seconds), at(seconds)).unwrap()
}

fn started(told: &OrderReply) -> bool {
    matches!(told, OrderReply::Reported(report) if report.fate == GangEvent::Started)
}

fn refused(told: &OrderReply) -> bool {
    matches!(told, OrderReply::Refused(why) if !why.is_empty())
}

/// What a stop comes to, at once or within a minute.
fn stopped(engine: &mut dyn Engine, seconds: f64, order: &Order) -> GangEvent {
    let Order::Stop { job, fence } = order else { panic!("{order:?} is no stop") };
    let told = match engine.apply(at(seconds), order).unwrap() {
        OrderReply::Reported(report) => report,
        OrderReply::Refused(why) => panic!("a stop is never refused: {why}"),
        OrderReply::Later => {
            let mut news = (1..60).flat_map(|s| engine.poll(at(seconds + f64::from(s))).unwrap());
            news.find(|report| report.job == *job && report.fence == *fence).expect("a stop is always answered")
        }
    };
    assert_eq!((told.job, told.fence), (*job, *fence));
    told.fate
}

#[test]
fn an_order_done_twice_is_done_once() {
    every(|engine| {
        engine.add_job(at(0.0), &job(1, 2, 500.0)).unwrap();
        engine.add_job(at(0.0), &job(1, 2, 500.0)).unwrap();
        assert!(started(&engine.apply(at(1.0), &start(1, 1, &[0, 1])).unwrap()));
        let before = look(engine, 50.0);
        assert!(started(&engine.apply(at(50.0), &start(1, 1, &[0, 1])).unwrap()));
        assert_eq!(look(engine, 50.0).survey, before.survey);
        engine.add_job(at(50.0), &job(1, 2, 500.0)).unwrap();
        assert_eq!(look(engine, 50.0).survey, before.survey);
        let first = stopped(engine, 60.0, &stop(1, 1));
        assert_eq!(stopped(engine, 130.0, &stop(1, 1)), first);
        assert!(look(engine, 200.0).survey.gangs.is_empty());
    });
}

#[test]
fn a_stop_is_final_and_always_answered() {
    every(|engine| {
        engine.add_job(at(0.0), &job(1, 1, 500.0)).unwrap();
        assert_eq!(stopped(engine, 0.0, &stop(1, 3)), GangEvent::Stopped(0.0), "a gang that is not there");
        assert!(refused(&engine.apply(at(1.0), &start(1, 3, &[0])).unwrap()), "its start was overtaken");
        assert!(started(&engine.apply(at(2.0), &start(1, 4, &[0])).unwrap()));
        let GangEvent::Stopped(steps) = stopped(engine, 100.0, &stop(1, 4)) else { panic!("it ran") };
        assert!(steps > 0.0);
        assert!(refused(&engine.apply(at(170.0), &start(1, 4, &[0])).unwrap()));
        assert!(look(engine, 171.0).survey.gangs.is_empty());
        assert_eq!(stopped(engine, 172.0, &stop(9, 5)), GangEvent::Stopped(0.0), "a job that nobody enrolled");
        engine.add_job(at(173.0), &job(9, 1, 500.0)).unwrap();
        assert!(refused(&engine.apply(at(174.0), &start(9, 5, &[0])).unwrap()), "and it holds when the job comes");
        assert!(started(&engine.apply(at(175.0), &start(9, 6, &[0])).unwrap()));
    });
}

/// The answer to a stop may be lost with the driver that asked, and the next one asks again.
#[test]
fn a_gang_that_finished_is_told_as_finished_however_often_it_is_stopped() {
    every(|engine| {
        engine.add_job(at(0.0), &job(1, 1, 100.0)).unwrap();
        assert!(started(&engine.apply(at(0.0), &start(1, 1, &[0])).unwrap()));
        assert!(matches!(gang(&look(engine, 500.0), 1).map(|gang| &gang.state), Some(GangState::Finished)));
        for seconds in [500.0, 501.0] {
            assert_eq!(stopped(engine, seconds, &stop(1, 1)), GangEvent::Finished);
        }
        engine.sync_jobs(at(502.0), &[job(1, 1, 100.0)]).unwrap();
        assert_eq!(stopped(engine, 503.0, &stop(1, 1)), GangEvent::Finished);
    });
}

#[test]
fn a_refused_start_is_final() {
    every(|engine| {
        engine.add_job(at(0.0), &job(1, 4, 500.0)).unwrap();
        engine.add_job(at(0.0), &job(2, 2, 500.0)).unwrap();
        assert!(started(&engine.apply(at(1.0), &start(1, 1, &[0, 1, 2, 3])).unwrap()));
        assert!(refused(&engine.apply(at(2.0), &start(2, 2, &[3, 4])).unwrap()), "a GPU is taken");
        stopped(engine, 3.0, &stop(1, 1));
        assert!(refused(&engine.apply(at(70.0), &start(2, 2, &[3, 4])).unwrap()), "free now, and too late");
        assert!(started(&engine.apply(at(71.0), &start(2, 3, &[3, 4])).unwrap()));
        assert!(refused(&engine.apply(at(72.0), &start(8, 4, &[0])).unwrap()), "not enrolled");
        engine.add_job(at(73.0), &job(8, 1, 500.0)).unwrap();
        assert!(refused(&engine.apply(at(74.0), &start(8, 4, &[0])).unwrap()), "enrolled, and too late");
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    every(|engine| {
        engine.add_job(at(0.0), &job(1, 2, 500.0)).unwrap();
        let mut odd = job(2, 1, 500.0);
        odd.spec.workload = WorkloadId(999);
        odd.steps_done = -1.0;
        engine.add_job(at(0.0), &odd).unwrap();
        let mut absurd = start(1, 1, &[0, 1]);
        if let Order::Start(start) = &mut absurd {
            start.kind.0 = 77;
        }
        let lists: [&[u32]; 6] = [&[], &[0], &[0, 0], &[0, 6], &[0, 4_000_000], &[0, 1, 2]];
        assert!(refused(&engine.apply(at(1.0), &absurd).unwrap()));
        for (gpus, fence) in lists.iter().zip(2..) {
            assert!(refused(&engine.apply(at(1.0), &start(1, fence, gpus)).unwrap()), "{gpus:?}");
        }
        assert!(refused(&engine.apply(at(1.0), &start(2, 20, &[0])).unwrap()), "a workload that nobody knows");
        assert!(look(engine, 2.0).survey.gangs.is_empty());
    });
}

#[test]
fn old_fences_touch_nothing_newer() {
    every(|engine| {
        engine.add_job(at(0.0), &job(1, 1, 500.0)).unwrap();
        assert!(started(&engine.apply(at(0.0), &start(1, 1, &[0])).unwrap()));
        stopped(engine, 10.0, &stop(1, 1));
        assert!(started(&engine.apply(at(80.0), &start(1, 2, &[4])).unwrap()));
        stopped(engine, 81.0, &stop(1, 1));
        assert!(refused(&engine.apply(at(82.0), &start(1, 1, &[0])).unwrap()));
        let seen = look(engine, 90.0);
        let gang = gang(&seen, 1).expect("the newer one runs");
        assert_eq!((gang.fence.0, gang.state.clone()), (2, GangState::Running));
        assert_eq!(gang.gpus, [GpuId(4)]);
    });
}

#[test]
fn a_survey_shows_what_runs_and_what_has_ended() {
    every(|engine| {
        engine.add_job(at(0.0), &job(1, 1, 50.0)).unwrap();
        engine.add_job(at(0.0), &job(2, 2, 500.0)).unwrap();
        engine.add_job(at(0.0), &job(3, 2, 500.0)).unwrap();
        assert!(look(engine, 0.0).survey.gangs.is_empty());
        assert!(started(&engine.apply(at(0.0), &start(1, 1, &[0])).unwrap()));
        assert!(started(&engine.apply(at(0.0), &start(2, 2, &[1, 2])).unwrap()));
        let seen = engine.survey(at(20.0), at(17.0)).unwrap();
        assert_eq!(seen.survey.at, at(17.0), "as of the question");
        assert_eq!(seen.survey.nodes.len(), 4);
        assert!(seen.survey.nodes.iter().all(|node| node.up));
        assert_eq!(seen.survey.gangs.len(), 2);
        assert!(!seen.observations.is_empty(), "both ran undisturbed");
        let watts = &seen.meters.gpu_watts;
        assert!(watts[0] > watts[3] && watts[1] > watts[3] && watts[3] > 0.0, "{watts:?}");
        assert!(seen.meters.jobs.iter().all(|meter| meter.rate > 0.0 && meter.steps > 0.0));
        let due = engine.next_event().expect("the first job ends");
        let told: Vec<GangEvent> = engine.poll(due).unwrap().into_iter().map(|report| report.fate).collect();
        assert_eq!(told, [GangEvent::Finished]);
        assert!(engine.poll(due).unwrap().is_empty(), "told once");
        let seen = engine.survey(due, due).unwrap();
        assert_eq!(gang(&seen, 1).expect("its record stays").state, GangState::Finished);
        let meter = seen.meters.jobs.iter().find(|meter| meter.job == JobId(1)).expect("it ran since the last look");
        assert_eq!(Work::Steps(meter.steps), job(1, 1, 50.0).spec.work);
        assert_eq!(stopped(engine, due.seconds(), &stop(1, 1)), GangEvent::Finished);
        let seen = engine.survey(due, due).unwrap();
        assert!(gang(&seen, 1).is_none(), "until it is ordered to stop");
        assert!(seen.meters.jobs.iter().all(|meter| meter.job == JobId(2)));
    });
}

#[test]
fn a_roll_call_forgets_and_returns_meters() {
    every(|engine| {
        let jobs = [job(1, 1, 500.0), job(2, 1, 500.0), job(3, 1, 500.0)];
        assert!(engine.sync_jobs(at(0.0), &jobs).unwrap().is_empty());
        assert!(started(&engine.apply(at(0.0), &start(1, 1, &[0])).unwrap()));
        assert!(started(&engine.apply(at(0.0), &start(2, 2, &[1])).unwrap()));
        let meters = engine.sync_jobs(at(30.0), &jobs[1..]).unwrap();
        assert_eq!(meters.iter().map(|meter| meter.job).collect::<Vec<_>>(), [JobId(1)]);
        assert!((meters[0].gpu_seconds - 30.0).abs() < 1e-6 && meters[0].charge.total() > 0.0);
        let seen = look(engine, 30.0);
        assert!(gang(&seen, 1).is_none() && gang(&seen, 2).is_some());
        assert!(engine.sync_jobs(at(31.0), &jobs[1..]).unwrap().is_empty());
        let last = engine.remove_job(at(40.0), JobId(2)).unwrap().expect("it was known");
        assert!((last.gpu_seconds - 40.0).abs() < 1e-6);
        assert!(look(engine, 41.0).survey.gangs.is_empty());
        assert_eq!(engine.remove_job(at(42.0), JobId(77)).unwrap(), None);
        assert!(started(&engine.apply(at(43.0), &start(3, 3, &[0])).unwrap()), "its GPU is free");
        assert!(refused(&engine.apply(at(44.0), &start(2, 4, &[1])).unwrap()));
    });
}

#[test]
fn a_job_goes_on_where_its_driver_says() {
    every(|engine| {
        let mut half = job(1, 1, 100.0);
        let Work::Steps(total) = half.spec.work else { panic!("it has steps") };
        half.steps_done = total / 2.0;
        engine.add_job(at(0.0), &half).unwrap();
        assert!(started(&engine.apply(at(0.0), &start(1, 1, &[0])).unwrap()));
        let end = engine.next_event().expect("it ends").seconds();
        assert!((end - 53.0).abs() < 1e-3, "half of it, and the restart: {end}");
    });
}

#[test]
fn energy_adds_up_and_counters_only_grow() {
    every(|engine| {
        let mut ledger = Ledger::default();
        for id in 1..=4 {
            engine.add_job(at(0.0), &job(id, 1, 100.0)).unwrap();
        }
        // Two on one GPU, and one that comes back to it.
        engine.apply(at(1.0), &start(1, 1, &[0])).unwrap();
        engine.apply(at(5.0), &start(2, 2, &[0])).unwrap();
        engine.apply(at(5.0), &start(3, 3, &[7])).unwrap();
        for seconds in [6.0, 6.0, 20.0] {
            ledger.look(&look(engine, seconds).meters);
        }
        stopped(engine, 21.0, &stop(1, 1));
        engine.apply(at(90.0), &start(1, 4, &[0])).unwrap();
        engine.apply(at(91.0), &start(4, 5, &[1])).unwrap();
        ledger.look(&look(engine, 92.0).meters);
        let last = engine.remove_job(at(95.0), JobId(1)).unwrap().expect("it is known");
        ledger.take(&last);
        let seen = look(engine, 300.0);
        ledger.look(&seen.meters);
        assert_eq!(seen.meters.boot, BOOT);
        assert_eq!(ledger.jobs.len(), 4);
        assert!(ledger.jobs.values().all(|meter| meter.charge.total() > 0.0));
        assert!(seen.meters.kinds.iter().all(|kind| kind.unused_joules > 0.0));
        // A job that was forgotten and comes back brings its counters along.
        engine.add_job(at(301.0), &job(1, 1, 100.0)).unwrap();
        engine.apply(at(302.0), &start(1, 9, &[0])).unwrap();
        ledger.look(&look(engine, 310.0).meters);
    });
}

#[test]
fn time_never_goes_back() {
    every(|engine| {
        engine.add_job(at(100.0), &job(1, 1, 500.0)).unwrap();
        assert!(started(&engine.apply(at(100.0), &start(1, 1, &[0])).unwrap()));
        let late = look(engine, 200.0);
        let early = engine.survey(at(50.0), at(200.0)).unwrap();
        assert_eq!(early.survey, late.survey);
        assert_eq!(early.meters.kinds, late.meters.kinds);
        assert!(engine.survey(Time::ZERO, Time::ZERO).unwrap().observations.is_empty(), "no time has passed");
    });
}
