//! Whatever is asked of an engine and in whatever order: it does not panic, counters only grow, and at every look the charges of
//! all jobs ever add up to what the GPUs drew while they were held.

#[path = "support/engine.rs"]
mod support;

use arles_core::engine::Engine;
use arles_core::{JobId, NodeId, Time};
use arles_engine::Virtual;
use arles_sim::world::WorldOptions;
use proptest::prelude::*;
use support::{Call, Ledger, at, calls, cluster, job, renew, start, stop, world, world_options};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn charges_add_up_at_every_look(world_options in world_options(), calls in calls(), origin in prop_oneof![Just(0.0), 0.0..1e9]) {
        let (mut engine, mut ledger, mut seconds) = (world(world_options), Ledger::default(), origin);
        let mut latest = seconds;
        let origin = Time::from_seconds(origin);
        engine.poll(origin).unwrap();
        for (i, (pause, mut call, node)) in calls.into_iter().enumerate() {
            seconds = f64::max(seconds + pause, 0.0);
            latest = latest.max(seconds);
            let now = Time::from_seconds(seconds);
            renew(&mut call, i);
            call.ask(&mut engine, now, &mut ledger);
            if let Some(node) = node.map(NodeId) {
                let up = engine.world().is_up(node);
                let done = if up { engine.fail_node(now, node) } else { engine.restore_node(now, node) };
                prop_assert!(done.is_ok());
            }
        }
        Call::Survey.ask(&mut engine, Time::from_seconds(seconds), &mut ledger);
        let held: f64 = ledger.jobs.values().map(|meter| meter.gpu_seconds).sum();
        let report = engine.survey(Time::ZERO, Time::ZERO).unwrap();
        // Two on one GPU hold it both.
        let busy: f64 = report.meters.kinds.iter().map(|k| k.busy_gpu_seconds).sum();
        prop_assert!(busy <= held * (1.0 + 1e-9) + 1e-6, "{busy} {held}");
        let drawn: f64 =
            report.meters.kinds.iter().map(|k| k.used.idle_joules + k.used.active_joules + k.unused_joules).sum();
        let latest = engine.world().joules_at(Time::from_seconds(latest));
        prop_assert!((drawn - latest).abs() <= 1e-9 * latest, "{drawn} {latest}");
        prop_assert_eq!(report.meters.gpu_watts.len(), cluster().gpus());
    }
}

#[test]
fn a_driver_that_was_killed_asks_again_and_loses_nothing() {
    let mut engine = world(WorldOptions::default());
    engine.add_job(at(0.0), &job(1, 1, 500.0)).unwrap();
    engine.add_job(at(0.0), &job(2, 1, 500.0)).unwrap();
    engine.apply(at(0.0), &start(1, 1, &[0])).unwrap();
    engine.apply(at(0.0), &start(2, 2, &[1])).unwrap();
    engine.apply(at(9.0), &stop(2, 2)).unwrap();
    let last = engine.remove_job(at(10.0), JobId(1)).unwrap();
    assert!(last.is_some_and(|meter| meter.charge.total() > 0.0));
    assert_eq!(engine.remove_job(at(20.0), JobId(1)).unwrap(), last, "the answer may have been lost");
    // So may the look that showed the second job; a roll call says that its driver is in doubt.
    let shown = |engine: &mut Virtual| engine.survey(at(30.0), at(30.0)).unwrap().meters.jobs.len();
    assert_eq!((shown(&mut engine), shown(&mut engine)), (1, 0));
    engine.sync_jobs(at(30.0), &[job(2, 1, 500.0)]).unwrap();
    assert_eq!((shown(&mut engine), shown(&mut engine)), (1, 0));
}
