//! Whatever is asked of an engine and in whatever order: it does not panic, counters only grow, and at every look the charges of
//! all jobs ever add up to what the GPUs drew while they were held.

#[path = "support/engine.rs"]
mod support;

use arles_core::engine::Engine;
use arles_core::scheduler::Order;
use arles_core::{NodeId, Time};
use arles_sim::world::Habits;
use proptest::collection::vec;
use proptest::prelude::*;
use support::{Call, Ledger, cluster, job, start, stop, world};

fn call() -> impl Strategy<Value = Call> {
    let id = 0..8u64;
    let gang = |id: u64| if id < 5 { 1 } else { 2 };
    let enrolled = move |id: u64, seconds: f64| job(id, gang(id), seconds);
    prop_oneof![
        2 => (id.clone(), 1.0..300.0).prop_map(move |(id, s)| Call::Enrol(enrolled(id, s))),
        1 => vec((id.clone(), 1.0..300.0), 0..8)
            .prop_map(move |jobs| Call::Roll(jobs.into_iter().map(|(id, s)| enrolled(id, s)).collect())),
        1 => id.clone().prop_map(Call::Dismiss),
        9 => (id.clone(), 0..40u64, 0..11u32).prop_map(move |(id, fence, gpu)| {
            let gpus: Vec<u32> = (gpu..gpu + gang(id)).collect();
            Call::Apply(start(id, fence, &gpus))
        }),
        3 => (id, 0..40u64).prop_map(|(id, fence)| Call::Apply(stop(id, fence))),
        1 => Just(Call::News),
        3 => Just(Call::Survey),
    ]
}

fn habits() -> impl Strategy<Value = Habits> {
    let seconds = prop_oneof![Just(0.0), 1.0..20.0];
    (seconds, 10.0..100.0, any::<bool>()).prop_map(|(checkpoint_seconds, every, unused_off)| Habits {
        checkpoint_seconds,
        checkpoint_every_seconds: every,
        unused_off,
        ..Habits::default()
    })
}

/// Calls with the seconds before them, some negative; and now and then a node that falls or returns.
fn calls() -> impl Strategy<Value = Vec<(f64, Call, Option<u32>)>> {
    vec((-5.0..30.0, call(), proptest::option::weighted(0.1, 0..4u32)), 1..120)
}

/// Fences that grow are the rule; the ones drawn are as often as not old.
fn renew(call: &mut Call, i: usize) {
    if let Call::Apply(Order::Start(start)) = call
        && start.fence.0 % 4 != 0
    {
        start.fence.0 = 40 + i as u64;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn charges_add_up_at_every_look(habits in habits(), calls in calls(), origin in prop_oneof![Just(0.0), 0.0..1e9]) {
        let (mut engine, mut ledger, mut seconds) = (world(habits), Ledger::default(), origin);
        let mut latest = seconds;
        let origin = Time::from_seconds(origin);
        engine.news(origin).unwrap();
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
        let sighting = engine.survey(Time::ZERO, Time::ZERO).unwrap();
        // Two on one GPU hold it both.
        let busy: f64 = sighting.meters.kinds.iter().map(|k| k.busy_gpu_seconds).sum();
        prop_assert!(busy <= held * (1.0 + 1e-9) + 1e-6, "{busy} {held}");
        let drawn: f64 =
            sighting.meters.kinds.iter().map(|k| k.used.idle_joules + k.used.active_joules + k.unused_joules).sum();
        let latest = engine.world().joules_at(Time::from_seconds(latest));
        prop_assert!((drawn - latest).abs() <= 1e-9 * latest, "{drawn} {latest}");
        prop_assert_eq!(sighting.meters.gpu_watts.len(), cluster().gpus());
    }
}
