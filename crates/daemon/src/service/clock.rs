//! The scheduler's clock: wall-clock time, or a faster one.
//!
//! Times are microseconds since 1970. At speed 1 the clock is the system's, and time passes while the daemon is down. At any other
//! speed it starts at the system's time and diverges; a restart continues where it stopped.

use arles_core::Time;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The scheduler's clock: a base time and a speed relative to the system clock.
#[derive(Clone, Copy, Debug)]
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

impl Clock {
    /// A clock that goes on after `last`, or begins now.
    #[must_use]
    pub fn resume(last: Option<Time>, speed: f64) -> Self {
        let base = match last {
            Some(last) if speed == 1.0 => last.max(wall()),
            Some(last) => last,
            None => wall(),
        };
        Self { base, started: Instant::now(), speed }
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
