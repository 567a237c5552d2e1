//! A week of a cluster under load: nodes join, drain, fail and come back with other GPUs, GPUs are lost, kinds are corrected, jobs are
//! held, wait for each other and come in arrays; messages are lost and the daemon is killed in the middle of changes. Every rule of the
//! fault simulation must hold at every moment, and everybody who can run must be done in the end.

use arles_sim::faults::{self, Fault};

const SEED: u64 = 12;

#[test]
fn a_week_of_changes_under_load_keeps_every_rule() {
    let outcome = faults::week(SEED, std::env::var_os("ARLES_CHAOS_VERBOSE").is_some());
    outcome.log.iter().for_each(|line| println!("{line}"));
    let [completed, given_up, cancelled] = outcome.ends;
    println!("{}", outcome.counts);
    println!(
        "{:.1} days under {}: {completed} jobs completed, {given_up} given up, {cancelled} cancelled",
        outcome.seconds / 86_400.0,
        outcome.policy
    );
    if let Some(violation) = outcome.violation {
        panic!("at {}: {}", violation.at, violation.what);
    }
    assert!(outcome.seconds >= 7.0 * 86_400.0);
    assert!(completed > 800, "{completed} jobs completed");
    let often = [
        (Fault::NodeJoined, 5),
        (Fault::NodeReplaced, 5),
        (Fault::NodeRemoved, 5),
        (Fault::NodeDrained, 5),
        (Fault::NodeDrainedByDeadline, 5),
        (Fault::NodeUndrained, 5),
        (Fault::NodeDied, 5),
        (Fault::NodeReturned, 5),
        (Fault::GpuLost, 5),
        (Fault::GpuReturned, 5),
        (Fault::KindCorrected, 3),
        (Fault::NodeResized, 3),
        (Fault::JobHeld, 5),
        (Fault::JobReleased, 5),
        (Fault::KilledInChange, 5),
        (Fault::RestoredFromSnapshot, 5),
        (Fault::ArrayOfJobs, 1),
    ];
    for (fault, least) in often {
        let times = outcome.counts.of(fault);
        assert!(times >= least, "{} happened {times} times; a week should have {least}", fault.name());
    }
}
