//! A world whose cluster changes: who goes on, who is gone, and that every joule is in somebody's account.

use super::*;
use arles_core::{ClusterChange, Kind, Library, Needs, NodeSpec, Work};

fn kind(name: &str) -> Kind {
    Library::builtin().kind(name).unwrap().clone()
}

fn spec(name: &str, of: &str, gpus: u32) -> NodeSpec {
    NodeSpec { name: name.into(), kind: kind(of), gpus, cpus: None, memory_gib: None, rack: None }
}

fn at(seconds: f64) -> Time {
    Time::from_seconds(seconds)
}

/// Two nodes of two v100 each.
fn cluster() -> Cluster {
    Cluster::new(vec![kind("v100")], [("n0".to_owned(), KindId(0), 2), ("n1".to_owned(), KindId(0), 2)]).unwrap()
}

fn world(options: WorldOptions) -> World {
    let names = ["resnet50-b64".to_owned(), "resnet18-b16".to_owned()];
    let truth = Arc::new(Truth::new(cluster().kinds(), &names, None).unwrap());
    let mut world = World::new(cluster(), truth, options);
    for (id, gang) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
        let workload = WorkloadId((id % 2) as u32);
        let rate = world.truth.reference_rate(workload, gang, None).unwrap();
        let (id, work) = (JobId(id), Work::Steps(1000.0 * rate));
        world.admit(JobSpec { id, gang, workload, work, restart_seconds: 5.0, ..JobSpec::default() });
    }
    world
}

fn start(job: u64, fence: u64, kind: u16, gpus: &[u32]) -> Order {
    let gpus = gpus.iter().map(|&g| GpuId(g)).collect();
    let (job, fence, kind) = (JobId(job), Fence(fence), KindId(kind));
    Order::Start(Start { job, fence, kind, gpus, spread: Spread::Packed, lease_seconds: 240.0 })
}

fn change(world: &mut World, now: f64, change: &ClusterChange) -> Vec<GangReport> {
    let mut cluster = world.cluster().clone();
    cluster.apply(change).unwrap();
    let told = world.set_cluster(at(now), &cluster).unwrap();
    assert_eq!(world.set_cluster(at(now), &cluster), Ok(Vec::new()), "twice is once");
    told
}

fn remove(node: &str) -> ClusterChange {
    ClusterChange::Remove { node: node.into(), why: String::new() }
}

/// Charges and idle energy are what the power was, integrated from outside; and the power is what the GPUs draw.
fn add_up(world: &mut World, now: f64) -> f64 {
    let seen = world.joules_at(at(now));
    world.close_books(at(now));
    let charged: f64 = world.lives().map(|job| job.charge.total()).sum();
    let booked = charged + world.unused_joules().iter().sum::<f64>();
    assert!((booked - seen).abs() < 1e-9 * seen, "{booked} J are booked of {seen} J");
    let shown: f64 = world.gpu_watts(at(now)).iter().map(|&w| f64::from(w)).sum();
    assert!((shown - world.watts()).abs() < 1e-3, "{shown} W are shown of {} W", world.watts());
    booked
}

#[test]
fn a_node_that_joins_is_up_idle_and_takes_gangs() {
    let mut world = world(WorldOptions::default());
    world.apply(at(0.0), &start(1, 1, 0, &[0])).unwrap();
    let before = add_up(&mut world, 50.0);
    assert!(world.apply(at(50.0), &start(3, 2, 1, &[4])).is_err(), "not there yet");
    change(&mut world, 50.0, &ClusterChange::Join(spec("n2", "a100-40gb", 1)));
    let watts = world.watts();
    world.apply(at(50.0), &start(3, 3, 1, &[4])).unwrap();
    assert!(world.watts() > watts);
    let job = |world: &World, id| world.life(JobId(id)).unwrap().steps;
    let after = add_up(&mut world, 150.0);
    assert!(after > before && job(&world, 3) > 0.0);
    assert_eq!(world.survey(at(150.0), |_| true).nodes.len(), 3);
    assert_eq!((world.busy().len(), world.busy()[1]), (2, 1));
}

#[test]
fn a_node_that_leaves_takes_its_gangs_along_and_draws_nothing() {
    let options = WorldOptions { checkpoint_every_seconds: 60.0, ..WorldOptions::default() };
    let mut world = world(options);
    world.apply(at(0.0), &start(1, 1, 0, &[0])).unwrap();
    world.apply(at(0.0), &start(2, 2, 0, &[1, 2])).unwrap();
    world.apply(at(0.0), &start(3, 3, 0, &[3])).unwrap();
    change(&mut world, 100.0, &remove("n1"));
    assert_eq!(world.holders().collect::<Vec<_>>(), [JobId(1)]);
    let Length::Steps(all) = world.life(JobId(3)).unwrap().length() else { unreachable!("it has steps") };
    let saved = world.life(JobId(3)).unwrap().steps / all * 1000.0;
    assert!((saved - 60.0).abs() < 1e-6, "back to the checkpoint at 60 s: {saved}");
    let survey = world.survey(at(100.0), |_| true);
    assert_eq!((survey.nodes.len(), survey.gangs.len()), (1, 1));
    let stopped = world.apply(at(101.0), &Order::Stop { job: JobId(3), fence: Fence(3) }).unwrap();
    assert!(matches!(stopped.map(|told| told.event), Some(GangEvent::Stopped(steps)) if steps > 0.0));
    assert!(world.apply(at(101.0), &start(3, 4, 0, &[3])).unwrap_err().contains("has left"));
    world.restore_node(at(101.0), NodeId(1));
    assert!(!world.is_up(NodeId(1)), "it never comes back under its old number");
    add_up(&mut world, 300.0);
    // One that comes back with other GPUs is another node.
    change(&mut world, 300.0, &ClusterChange::Join(spec("n1", "k80", 4)));
    world.apply(at(300.0), &start(3, 5, 1, &[4])).unwrap();
    add_up(&mut world, 400.0);
}

#[test]
fn a_node_out_of_reach_goes_on_until_it_is_reached() {
    let mut world = world(WorldOptions::default());
    world.apply(at(0.0), &start(3, 1, 0, &[3])).unwrap();
    let mut cluster = world.cluster().clone();
    cluster.apply(&remove("n1")).unwrap();
    world.follow(at(10.0), &cluster, |node| node != NodeId(1)).unwrap();
    assert!(world.held(JobId(3)).is_some());
    assert!(world.apply(at(10.0), &start(4, 2, 0, &[2])).is_err());
    add_up(&mut world, 20.0);
    world.follow(at(20.0), &cluster, |_| true).unwrap();
    assert!(world.held(JobId(3)).is_none());
    add_up(&mut world, 30.0);
}

#[test]
fn a_corrected_kind_changes_pace_and_power_from_then_on() {
    for unused_off in [false, true] {
        let mut world = world(WorldOptions { unused_off, ..WorldOptions::default() });
        world.apply(at(0.0), &start(1, 1, 0, &[0])).unwrap();
        world.apply(at(0.0), &start(3, 3, 0, &[0])).unwrap();
        world.apply(at(0.0), &start(2, 2, 0, &[1, 2])).unwrap();
        let rate = |world: &World, id| world.job_meter(at(100.0), JobId(id)).unwrap().rate;
        let fast = rate(&world, 1);
        add_up(&mut world, 100.0);
        let steps = world.life(JobId(2)).unwrap().steps;
        let told = change(&mut world, 100.0, &ClusterChange::CorrectKind { node: "n0".into(), kind: kind("k80") });
        assert!(told.is_empty());
        assert!(rate(&world, 1) < fast, "a k80 is slower");
        assert!(world.held(JobId(2)).is_none(), "it would be on two kinds");
        assert_eq!(world.life(JobId(2)).unwrap().steps, steps, "and has saved its state");
        assert_eq!(world.busy(), [0, 1]);
        add_up(&mut world, 200.0);
        world.apply(at(200.0), &Order::Stop { job: JobId(1), fence: Fence(1) }).unwrap();
        world.apply(at(200.0), &Order::Stop { job: JobId(3), fence: Fence(3) }).unwrap();
        add_up(&mut world, 300.0);
    }
}

#[test]
fn whoever_does_not_fit_the_right_kind_fails() {
    let mut world = world(WorldOptions::default());
    let mut alone = kind("k80");
    alone.max_jobs = 1;
    world.jobs.get_mut(&JobId(4)).unwrap().spec.needs.gpu_memory_gib = 14.0;
    for (job, gpu) in [(1, 0), (3, 0), (4, 1)] {
        world.apply(at(0.0), &start(job, job, 0, &[gpu])).unwrap();
    }
    let told = change(&mut world, 100.0, &ClusterChange::CorrectKind { node: "n0".into(), kind: alone });
    assert_eq!(told.iter().map(|report| report.job.0).collect::<Vec<_>>(), [1, 4]);
    assert!(told.iter().all(|report| matches!(report.event, GangEvent::Failed(..))));
    assert_eq!(world.holders().collect::<Vec<_>>(), [JobId(3)]);
    add_up(&mut world, 200.0);
}

#[test]
fn a_lost_gpu_breaks_its_gang_and_draws_nothing() {
    let mut world = world(WorldOptions::default());
    world.apply(at(0.0), &start(2, 1, 0, &[0, 1])).unwrap();
    let watts = world.watts();
    let told = world.lose_gpu(at(50.0), GpuId(1));
    assert_eq!(told.len(), 1);
    assert!(world.lose_gpu(at(51.0), GpuId(1)).is_empty());
    assert!(world.watts() < watts);
    assert!(world.apply(at(52.0), &start(2, 2, 0, &[0, 1])).unwrap_err().contains("does not work"));
    add_up(&mut world, 60.0);
    // Its node going down and coming back does not mend it.
    world.fail_node(at(60.0), NodeId(0));
    world.restore_node(at(70.0), NodeId(0));
    assert!(!world.is_on(GpuId(1)) && world.is_on(GpuId(0)));
    add_up(&mut world, 80.0);
    world.return_gpu(at(80.0), GpuId(1));
    world.apply(at(81.0), &start(2, 3, 0, &[0, 1])).unwrap();
    add_up(&mut world, 90.0);
}

#[test]
fn a_node_without_room_for_a_gang_is_an_incident() {
    let mut world = world(WorldOptions::default());
    let joined = NodeSpec { cpus: Some(8.0), memory_gib: Some(100.0), ..spec("n2", "v100", 4) };
    change(&mut world, 0.0, &ClusterChange::Join(joined));
    for (job, cpus_per_gpu, memory_gib_per_gpu) in [(1, 3.0, 0.0), (2, 2.5, 0.0), (3, 4.0, 10.0), (4, 0.0, 95.0)] {
        let needs = Needs { cpus_per_gpu, memory_gib_per_gpu, gpu_memory_gib: 0.0 };
        world.jobs.get_mut(&JobId(job)).unwrap().spec.needs = needs;
    }
    world.apply(at(1.0), &start(2, 1, 0, &[4, 5])).unwrap();
    assert_eq!(world.promised(NodeId(2)), [5.0, 0.0]);
    world.apply(at(2.0), &start(1, 2, 0, &[6])).unwrap();
    assert!(world.take_incidents().is_empty());
    assert!(world.apply(at(3.0), &start(3, 3, 0, &[7])).unwrap_err().contains("few CPUs"));
    world.apply(at(4.0), &start(4, 4, 0, &[7])).unwrap();
    world.apply(at(5.0), &Order::Stop { job: JobId(1), fence: Fence(2) }).unwrap();
    world.apply(at(5.0), &Order::Stop { job: JobId(2), fence: Fence(1) }).unwrap();
    assert!(world.apply(at(6.0), &start(3, 5, 0, &[6])).unwrap_err().contains("little memory"));
    let node = NodeId(2);
    let expected = [3, 5].map(|fence| Incident::NoRoom { node, newcomer: JobId(3), ordered: Fence(fence) });
    assert_eq!(world.take_incidents(), expected);
    // Where nobody counts, there is room.
    world.apply(at(7.0), &start(3, 6, 0, &[0])).unwrap();
}

#[test]
fn another_cluster_is_not_followed() {
    let mut world = world(WorldOptions::default());
    let renamed =
        Cluster::new(vec![kind("v100")], [("n0".to_owned(), KindId(0), 2), ("m1".to_owned(), KindId(0), 2)]).unwrap();
    let shorter = Cluster::new(vec![kind("v100")], [("n0".to_owned(), KindId(0), 2)]).unwrap();
    for other in [renamed, shorter] {
        let why = world.set_cluster(at(1.0), &other).unwrap_err();
        assert!(why.contains("another than"), "{why}");
    }
    assert_eq!(world.cluster(), &cluster());
}
