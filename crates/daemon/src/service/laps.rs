//! Where the time of a pass of the event loop goes. Whoever waits for the loop waits for the longest of them, so one that took long says what it did.

use std::time::{Duration, Instant};

/// A pass that took longer is told in the log, at level `debug`: submits are answered within milliseconds otherwise.
const LONG_PASS: Duration = Duration::from_millis(20);
/// And one that took longer than this as a warning: everybody noticed it.
const HALT: Duration = Duration::from_millis(500);

/// The parts of one pass, in the order in which they first came.
pub(super) struct Laps {
    began: Instant,
    last: Instant,
    parts: Vec<(&'static str, Duration)>,
}

impl Laps {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { began: now, last: now, parts: Vec::new() }
    }

    /// A pass begins.
    pub(super) fn begin(&mut self) {
        self.began = Instant::now();
        self.last = self.began;
        self.parts.clear();
    }

    /// What was done since the last part ended.
    pub(super) fn part(&mut self, name: &'static str) {
        let now = Instant::now();
        let took = now - self.last;
        self.last = now;
        match self.parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += took,
            None => self.parts.push((name, took)),
        }
    }

    /// The pass is over; how long it took.
    pub(super) fn end(&mut self) -> Duration {
        let took = self.began.elapsed();
        if took >= HALT {
            tracing::warn!("one pass of the event loop took {}", self.told(took));
        } else if took >= LONG_PASS {
            tracing::debug!("one pass of the event loop took {}", self.told(took));
        }
        took
    }

    /// "132.0 ms: journal 120.1, publish 8.2"; parts of less than a millisecond are left out.
    fn told(&self, took: Duration) -> String {
        let milliseconds = |took: Duration| 1e3 * took.as_secs_f64();
        let long = self.parts.iter().filter(|(_, took)| *took >= Duration::from_millis(1));
        let parts: Vec<String> = long.map(|(name, took)| format!("{name} {:.1}", milliseconds(*took))).collect();
        format!("{:.1} ms: {}", milliseconds(took), parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_name_are_one_and_short_ones_are_left_out() {
        let mut laps = Laps::new();
        laps.begin();
        laps.parts = vec![("journal", Duration::from_millis(120)), ("act", Duration::from_micros(20))];
        laps.part("journal");
        assert_eq!(laps.parts.len(), 2);
        laps.parts[0].1 = Duration::from_millis(120);
        assert_eq!(laps.told(Duration::from_millis(132)), "132.0 ms: journal 120.0");
        laps.begin();
        assert!(laps.parts.is_empty());
    }
}
