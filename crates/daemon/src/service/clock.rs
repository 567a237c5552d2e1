//! The scheduler's clock: wall-clock time, or a faster one.
//!
//! Times are microseconds since 1970. At speed 1 the clock is the system's, and time passes while the daemon is down. At any other
//! speed it starts at the system's time and diverges; a restart continues where it stopped.

use arles_core::Time;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The scheduler's clock: a base time and a speed relative to the system clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clock {
    base: Time,
    started: Instant,
    speed: f64,
}

/// Names a shift of the wall's clock in seconds, for tests of what a wrong clock does.
const SHIFT: &str = "ARLES_TEST_CLOCK_SHIFT";

/// Current wall-clock time.
#[must_use]
pub fn wall() -> Time {
    static SHIFTED: OnceLock<i64> = OnceLock::new();
    let shift = *SHIFTED.get_or_init(|| std::env::var(SHIFT).ok().and_then(|text| text.parse().ok()).unwrap_or(0));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time((since.as_micros() as u64).saturating_add_signed(shift.saturating_mul(1_000_000)))
}

/// A journal whose last entry is so far ahead of the machine's clock was written with a wrong one, or this one is wrong.
const MOST_AHEAD: f64 = 86_400.0;
/// A machine's clock that is so far ahead of the journal's last entry is probably wrong.
const MOST_BEHIND: f64 = 90.0 * 86_400.0;
/// A lead of the journal that is worth a line in the log.
const REMARKABLE: f64 = 60.0;

/// How a clock goes on after a journal's last entry.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Resumption {
    /// From the later of the two; with a sentence where that is remarkable.
    Goes(Clock, Option<String>),
    /// From the machine's clock, as somebody accepted: the journal must be told.
    Set(Clock),
}

impl Clock {
    /// A clock that goes on after `last`, or begins now. `accept` takes the machine's clock for right, however far it is from `last`.
    ///
    /// # Errors
    /// A sentence, when the two are so far apart that one of them must be wrong.
    pub(crate) fn resume(last: Option<Time>, speed: f64, accept: bool) -> Result<Resumption, String> {
        Self::resume_at(last, speed, accept, wall())
    }

    fn resume_at(last: Option<Time>, speed: f64, accept: bool, wall: Time) -> Result<Resumption, String> {
        let begin = |base| Self { base, started: Instant::now(), speed };
        let Some(last) = last else { return Ok(Resumption::Goes(begin(wall), None)) };
        if accept {
            return Ok(Resumption::Set(begin(wall)));
        }
        if speed != 1.0 {
            return Ok(Resumption::Goes(begin(last), None));
        }
        let (ahead, behind) = (last.since(wall), wall.since(last));
        let moments =
            format!("{} by this machine's clock, and the journal's last entry is of {}", shown(wall), shown(last));
        if ahead > MOST_AHEAD || behind > MOST_BEHIND {
            return Err(format!(
                "it is {moments}: one of the two is wrong. Set the machine's clock right and start again; if it is right now, start once with \
                 --accept-clock: jobs then go on as if no time had passed"
            ));
        }
        let remark = (ahead > REMARKABLE).then(|| format!("it is {moments}: the scheduler's clock goes on from there"));
        Ok(Resumption::Goes(begin(last.max(wall)), remark))
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.base.0 + (self.started.elapsed().as_secs_f64() * self.speed * 1e6) as u64)
    }

    /// Seconds of this clock in one of the wall's.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// How long to sleep until it is `then`.
    #[must_use]
    pub fn until(&self, then: Time) -> Duration {
        let seconds = then.since(self.now()) / self.speed;
        Duration::from_secs_f64(seconds.clamp(0.0, 3600.0))
    }
}

fn shown(time: Time) -> String {
    crate::store::copies::moment(time.0 / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: f64 = 86_400.0;

    fn resumed(last: f64, speed: f64, accept: bool) -> Result<Resumption, String> {
        Clock::resume_at(Some(Time::from_seconds(last)), speed, accept, Time::from_seconds(20_000.0 * DAY))
    }

    #[test]
    fn a_clock_that_cannot_be_right_is_refused() {
        let ahead = resumed(23_650.0 * DAY, 1.0, false).expect_err("ten years ahead");
        assert!(
            ahead.contains("--accept-clock") && ahead.contains("2034-10-02") && ahead.contains("2024-10-04"),
            "{ahead}"
        );
        let behind = resumed(19_800.0 * DAY, 1.0, false).expect_err("the machine is 200 days ahead");
        assert!(behind.contains("--accept-clock"), "{behind}");
        assert!(
            matches!(resumed(23_650.0 * DAY, 1.0, true), Ok(Resumption::Set(clock)) if clock.base.seconds() == 20_000.0 * DAY)
        );
    }

    #[test]
    fn a_clock_that_may_be_right_goes_on() {
        let base = |last: f64, speed: f64| match resumed(last, speed, false).expect("it goes on") {
            Resumption::Goes(clock, remark) => (clock.base.seconds() / DAY, remark.is_some()),
            Resumption::Set(_) => panic!("nobody set it"),
        };
        assert_eq!(base(19_990.0 * DAY, 1.0), (20_000.0, false), "it was down for ten days");
        assert_eq!(base(20_000.0 * DAY + 30.0, 1.0), (20_000.0 + 30.0 / DAY, false));
        assert_eq!(base(20_000.5 * DAY, 1.0), (20_000.5, true), "half a day ahead is told");
        assert_eq!(base(30_000.0 * DAY, 60.0), (30_000.0, false), "a faster clock is ahead, and may be");
    }
}
