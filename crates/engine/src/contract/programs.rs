//! What an engine owes a driver whose jobs are programs.

use super::{Trial, gang};
use arles_core::engine::{LiveJob, OrderReply};
use arles_core::scheduler::{GangEvent, GangState};

impl Trial<'_> {
    /// A program with work for so many units on the first kind.
    fn program(&self, id: u64, units: f64, exit_code: i32) -> LiveJob {
        self.bed.program(id, 1, units * self.bed.unit_seconds(), exit_code)
    }
}

pub(super) fn a_program_that_fails_says_its_exit_code(t: &mut Trial<'_>) {
    for (id, exit_code) in [(1, 0), (2, 3)] {
        let job = t.program(id, 20.0, exit_code);
        t.add(&job);
        assert!(t.starts(id, id, &[id as u32 - 1]));
        let told = t.report(id, id);
        assert_eq!(told.exit_code, Some(exit_code));
        let seen = t.survey();
        let state = &gang(&seen, id).expect("its record stays").state;
        match exit_code {
            0 => assert_eq!((&told.event, state), (&GangEvent::Finished, &GangState::Finished)),
            code => {
                let GangEvent::Failed(_, why) = &told.event else { panic!("it failed: {told:?}") };
                assert!(why.contains(&code.to_string()), "{why}");
                assert_eq!(state, &GangState::Failed(why.clone()));
            }
        }
        // The first answer may have been lost.
        for _ in 0..2 {
            assert_eq!(t.stop_report(id, id), told);
        }
    }
    let job = t.program(3, 500.0, 0);
    t.add(&job);
    assert!(t.starts(3, 3, &[0]));
    t.wait(5.0);
    assert_eq!(t.stop_report(3, 3).exit_code, None, "it did not end by itself");
}

/// A driver that was killed before it heard of a start orders it again, and the gang may be over by then. A refusal would make it start the
/// job anew.
pub(super) fn a_start_that_is_ordered_again_after_its_end_is_not_done_again(t: &mut Trial<'_>) {
    let job = t.program(1, 5.0, 0);
    t.add(&job);
    assert!(t.starts(1, 1, &[0]));
    let told = t.report(1, 1);
    assert_eq!(told.event, GangEvent::Finished);
    let again = t.order_start(1, 1, &[0]);
    let reply = t.apply(&again);
    assert!(matches!(reply, OrderReply::Reported(_)), "{reply:?}");
    let seen = t.survey();
    assert!(gang(&seen, 1).is_none_or(|gang| gang.state == GangState::Finished));
    assert_eq!(t.stop_report(1, 1), told);
}

pub(super) fn a_stopped_program_goes_on_from_its_safe_steps(t: &mut Trial<'_>) {
    let job = t.program(1, 60.0, 0);
    t.add(&job);
    assert!(t.starts(1, 1, &[0]));
    t.wait(40.0);
    let GangEvent::Stopped(safe) = t.stop(1, 1) else { panic!("it ran") };
    assert!(safe > 0.0);
    assert!(t.starts(1, 2, &[1]));
    t.wait(1.0);
    let seen = t.survey();
    assert!(gang(&seen, 1).expect("it runs").steps_done >= safe);
    let began = t.bed.now();
    let told = t.report(1, 2);
    assert_eq!((told.event, told.exit_code), (GangEvent::Finished, Some(0)));
    // A third was left, and the restart of three units.
    let units = t.bed.now().since(began) / t.bed.unit_seconds();
    assert!(!t.bed.exact() || units < 30.0, "{units}");
}
