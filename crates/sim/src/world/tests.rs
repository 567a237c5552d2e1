//! What faults once broke in the world. The seeds that found them are in the history.

use super::*;
use arles_core::{Library, TenantId, Work, WorkloadId};

/// One GPU and one job of 100 s.
fn world(world_options: WorldOptions) -> World {
    let kind = Library::builtin().kind("v100").unwrap().clone();
    let cluster = Cluster::new(vec![kind], [("n0".to_owned(), KindId(0), 1)]).unwrap();
    let name = Library::builtin().workloads()[0].name.clone();
    let truth = Arc::new(Truth::new(cluster.kinds(), &[name], None).unwrap());
    let rate = truth.reference_rate(WorkloadId(0), 1, None).unwrap();
    let mut world = World::new(cluster, truth, world_options);
    world.admit(JobSpec {
        id: JobId(1),
        tenant: TenantId(0),
        workload: WorkloadId(0),
        gang: 1,
        work: Work::Steps(100.0 * rate),
        floor: None,
        weight: 1.0,
        restart_seconds: 0.0,
        kinds: Vec::new(),
        arrived: Time::ZERO,
        ..JobSpec::default()
    });
    world
}

fn start(fence: u64) -> Order {
    let (job, fence, gpus) = (JobId(1), Fence(fence), vec![GpuId(0)]);
    Order::Start(Start { job, fence, kind: KindId(0), gpus, spread: Spread::Packed, lease_seconds: 240.0 })
}

fn stop(fence: u64) -> Order {
    Order::Stop { job: JobId(1), fence: Fence(fence) }
}

fn at(seconds: f64) -> Time {
    Time::from_seconds(seconds)
}

#[test]
fn a_late_copy_of_a_start_brings_no_stopped_gang_back() {
    let mut world = world(WorldOptions::default());
    assert!(world.apply(at(0.0), &start(1)).is_ok());
    assert!(world.apply(at(10.0), &stop(1)).is_ok());
    assert!(world.apply(at(20.0), &start(1)).is_err());
    assert_eq!(world.running(), 0);
}

#[test]
fn a_stop_that_overtakes_its_start_is_answered_and_holds() {
    let mut world = world(WorldOptions::default());
    let told = world.apply(at(0.0), &stop(1)).unwrap().expect("it is not there, and that is an answer");
    assert_eq!(told.event, GangEvent::Stopped(0.0));
    assert!(world.apply(at(1.0), &start(1)).is_err());
    assert!(world.apply(at(2.0), &start(2)).is_ok());
}

#[test]
fn a_refused_start_stays_refused() {
    let mut world = world(WorldOptions::default());
    world.fail_node(at(0.0), NodeId(0));
    assert!(world.apply(at(1.0), &start(1)).is_err());
    world.restore_node(at(2.0), NodeId(0));
    assert!(world.apply(at(3.0), &start(1)).is_err());
}

#[test]
fn the_stop_of_a_finished_gang_says_that_it_finished() {
    let mut world = world(WorldOptions::default());
    assert!(world.apply(at(0.0), &start(1)).is_ok());
    assert!(world.advance(at(200.0)).is_some());
    assert_eq!(world.apply(at(200.0), &stop(1)).unwrap().map(|told| told.event), Some(GangEvent::Finished));
}

/// A daemon that was killed between the answer and its journal asks again. It used to hear "stopped", and ran the job a second time.
#[test]
fn the_second_stop_of_an_ended_gang_says_what_the_first_said() {
    let mut world = world(WorldOptions::default());
    assert!(world.apply(at(0.0), &start(1)).is_ok());
    assert!(world.crash(at(10.0), JobId(1), "it broke").is_some());
    let broken = world.apply(at(11.0), &stop(1)).unwrap();
    assert!(matches!(broken.as_ref().map(|told| &told.event), Some(GangEvent::Failed(..))));
    assert_eq!(world.apply(at(12.0), &stop(1)).unwrap(), broken);
    assert!(world.apply(at(20.0), &start(2)).is_ok());
    assert!(world.advance(at(200.0)).is_some());
    for _ in 0..3 {
        assert_eq!(world.apply(at(201.0), &stop(2)).unwrap().map(|told| told.event), Some(GangEvent::Finished));
    }
}

#[test]
fn a_broken_gang_whose_record_remains_does_not_bar_the_next() {
    let mut world = world(WorldOptions::default());
    assert!(world.apply(at(0.0), &start(1)).is_ok());
    assert!(world.crash(at(10.0), JobId(1), "it broke").is_some());
    assert!(world.apply(at(20.0), &start(2)).is_ok());
    assert!(world.take_incidents().is_empty());
}

#[test]
fn a_second_gang_of_a_running_job_is_an_incident() {
    let mut world = world(WorldOptions::default());
    assert!(world.apply(at(0.0), &start(1)).is_ok());
    assert!(world.apply(at(1.0), &start(2)).is_err());
    assert_eq!(world.take_incidents().len(), 1);
}

#[test]
fn a_gang_that_saves_works_until_then_and_leaves_whatever_its_pace() {
    let mut world = world(WorldOptions { checkpoint_seconds: 5.0, ..WorldOptions::default() });
    assert!(world.apply(at(0.0), &start(1)).is_ok());
    assert_eq!(world.apply(at(50.0), &stop(1)), Ok(None));
    world.set_health(at(52.0), JobId(1), 0.5);
    let told = world.advance(at(55.0)).expect("it has saved");
    let Work::Steps(total) = world.life(JobId(1)).unwrap().spec.work else { unreachable!("it has steps") };
    let GangEvent::Stopped(steps) = told.event else { panic!("{told:?}") };
    assert!((steps - total / 2.0).abs() < 1e-6 * total, "{steps} of {total}");
}

/// A long run after a short restart used to count the whole as running, and restarts seemed to cost nothing.
#[test]
fn the_energy_of_a_restart_is_told_from_that_of_the_run_after_it() {
    let mut world = world(WorldOptions { restart_activity: 0.5, ..WorldOptions::default() });
    world.jobs.get_mut(&JobId(1)).unwrap().spec.restart_seconds = 20.0;
    assert!(world.apply(at(0.0), &start(1)).is_ok());
    assert!(world.apply(at(10.0), &stop(1)).is_ok());
    assert!(world.apply(at(10.0), &start(2)).is_ok());
    world.close_books(at(70.0));
    let charge = world.life(JobId(1)).unwrap().charge;
    let active_watts = charge.active_joules / 50.0;
    assert!((charge.restart_joules - 0.5 * active_watts * 20.0).abs() < 1e-6 * charge.restart_joules, "{charge:?}");
    assert!(charge.restart_joules > 0.0);
}
