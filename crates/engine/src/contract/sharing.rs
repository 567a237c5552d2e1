//! What an engine owes a driver that puts two jobs on one GPU, where it can.

use super::{Trial, gang};
use arles_core::GpuId;
use arles_core::scheduler::{GangEvent, GangState};

/// Whether a job's gang is shown to run on a GPU.
fn runs_on(t: &mut Trial<'_>, job: u64, gpu: u32) -> bool {
    let seen = t.survey();
    gang(&seen, job).is_some_and(|gang| gang.state == GangState::Running && gang.gpus == [GpuId(gpu)])
}

/// Whoever was there first stays what it is, however the engine makes room for the second.
pub(super) fn two_jobs_share_a_gpu_and_no_third_does(t: &mut Trial<'_>) {
    if !t.bed.shares_gpus() {
        return;
    }
    for id in 1..=3 {
        t.add_new(id, 1, 500.0);
    }
    t.add_new(4, 2, 500.0);
    assert!(t.starts(1, 1, &[0]));
    assert!(t.starts(2, 2, &[0]), "there is room for two");
    assert!(runs_on(t, 1, 0) && runs_on(t, 2, 0));
    assert!(t.declines(3, 3, &[0]), "and not for three");
    assert!(t.declines(4, 4, &[0, 1]), "nor for a gang");
    t.wait(2.0);
    assert!(matches!(t.stop(1, 1), GangEvent::Stopped(_)));
    assert!(runs_on(t, 2, 0), "the other goes on");
    assert!(t.starts(3, 5, &[0]), "where another may join it");
    assert!(runs_on(t, 2, 0) && runs_on(t, 3, 0));
}
