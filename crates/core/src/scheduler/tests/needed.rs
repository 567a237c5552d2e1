//! The rate that a job still needs so that its promise is kept on average from arrival to end.

use super::*;

/// What the policy is told of a job that was promised half a step a second, after it waited so long.
fn needed(work: Work, waited: f64) -> Option<f64> {
    let mut bench = Bench::new(&[1]);
    bench.tell(Input::Policy("gogh".into()));
    let arrived = bench.clock;
    bench.tell(Input::Submit(JobSpec { floor: Some(0.5), work, arrived, ..job(1, 1) }));
    bench.submit(2, 1);
    bench.wait(waited);
    bench.tell(Input::Tick);
    let problem = bench.scheduler.problem();
    let user = problem.users.iter().position(|user| user.floor.is_some()).unwrap();
    problem.power.unwrap().users[user].needed
}

#[test]
fn whoever_waited_needs_more_than_was_promised() {
    let steps = Work::Steps(1000.0);
    assert_eq!(needed(steps, 0.0), Some(0.5));
    // Of 2000 s that it may take 400 are over.
    assert_eq!(needed(steps, 400.0), Some(1000.0 / 1600.0));
    assert_eq!(needed(steps, 1999.0), Some(1.0), "twice as fast at the most");
    assert_eq!(needed(steps, 1e6), Some(1.0));
    assert_eq!(needed(Work::Period(1000.0), 400.0), None, "a service makes up for nothing");
}
