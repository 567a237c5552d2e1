//! The channel between scheduler and world, on which messages are lost, late, doubled and out of order.
//!
//! Two things are promised, as a real network and its driver would promise them: nothing arrives later than
//! [`LATEST_SECONDS`] (connections time out), and while it is quiet everything arrives within a second.

use super::counts::{Fault, FaultCounts};
use crate::rng::Rng;
use std::ops::Range;

/// No message is on its way for longer: with rounds of 60 s the last start may go to a node 150 s after it was seen, its
/// gangs are given up 360 s after, and a jump of the clock may take a round off that.
pub(super) const LATEST_SECONDS: f64 = 140.0;

/// Delay of a message that meets no fault.
const USUAL_SECONDS: Range<f64> = 0.01..1.0;

/// Kinds of messages, each with faults of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Channel {
    Order,
    Answer,
    Report,
    Question,
    Survey,
    Solver,
    Estimator,
}

impl Channel {
    const COUNT: usize = 7;

    /// The names of a lost, a late and a repeated message on this channel.
    fn faults(self) -> [Fault; 3] {
        match self {
            Self::Order => [Fault::OrderLost, Fault::OrderLate, Fault::OrderRepeated],
            Self::Answer => [Fault::AnswerLost, Fault::AnswerLate, Fault::AnswerRepeated],
            Self::Report => [Fault::ReportLost, Fault::ReportLate, Fault::ReportRepeated],
            Self::Question => [Fault::QuestionLost, Fault::QuestionLate, Fault::QuestionRepeated],
            Self::Survey => [Fault::SurveyLost, Fault::SurveyLate, Fault::SurveyRepeated],
            Self::Solver => [Fault::SolverLost, Fault::SolverLate, Fault::SolverRepeated],
            Self::Estimator => [Fault::EstimateLost, Fault::EstimateLate, Fault::EstimateRepeated],
        }
    }
}

/// How likely a message is lost, late or repeated.
#[derive(Clone, Copy, Debug, Default)]
struct FaultRates {
    lost: f64,
    late: f64,
    repeated: f64,
}

/// The link of one run.
pub(super) struct Link {
    rng: Rng,
    rates: [FaultRates; Channel::COUNT],
    pub(super) quiet: bool,
}

impl Link {
    /// Draws the rates of each channel: none, high, or anything between, all of it so many times as likely.
    pub(super) fn new(mut rng: Rng, times: f64) -> Self {
        let mut odds = |most: f64| if rng.chance(0.3) { 0.0 } else { times * most * rng.uniform().powi(2) };
        let rates = std::array::from_fn(|_| FaultRates { lost: odds(0.4), late: odds(0.5), repeated: odds(0.4) });
        Self { rng, rates, quiet: false }
    }

    /// The delays, in seconds, after which copies of a message arrive: none, one or two of them.
    pub(super) fn send(&mut self, channel: Channel, counts: &mut FaultCounts) -> Vec<f64> {
        let [lost, late, repeated] = channel.faults();
        let rates = if self.quiet { FaultRates::default() } else { self.rates[channel as usize] };
        if self.rng.chance(rates.lost) {
            counts.count(lost);
            return Vec::new();
        }
        let copies = if self.rng.chance(rates.repeated) {
            counts.count(repeated);
            2
        } else {
            1
        };
        let mut delay = || {
            if self.rng.chance(rates.late) {
                counts.count(late);
                self.rng.uniform_in(USUAL_SECONDS.end, LATEST_SECONDS)
            } else {
                self.rng.uniform_in(USUAL_SECONDS.start, USUAL_SECONDS.end)
            }
        };
        (0..copies).map(|_| delay()).collect()
    }
}
