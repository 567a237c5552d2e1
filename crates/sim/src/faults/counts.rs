//! Which faults happened, and how often: a simulation of faults that never struck proves nothing.

use std::fmt;

macro_rules! faults {
    ($($fault:ident = $name:literal,)*) => {
        /// Everything that can go wrong.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[expect(missing_docs, reason = "the names in the table say what each is")]
        pub enum Fault { $($fault,)* }

        impl Fault {
            /// All of them, in order.
            pub const ALL: &'static [Fault] = &[$(Fault::$fault,)*];

            /// As printed.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Fault::$fault => $name,)* }
            }
        }
    };
}

faults! {
    OrderLost = "order lost",
    OrderLate = "order late",
    OrderRepeated = "order repeated",
    AnswerLost = "order done, answer lost",
    AnswerLate = "answer late",
    AnswerRepeated = "answer repeated",
    ReportLost = "report lost",
    ReportLate = "report late",
    ReportRepeated = "report repeated",
    QuestionLost = "survey not asked",
    QuestionLate = "survey asked late",
    QuestionRepeated = "survey asked twice",
    SurveyLost = "survey lost",
    SurveyLate = "survey late",
    SurveyRepeated = "survey repeated",
    SurveyPartial = "survey partial",
    NodeDied = "node died",
    NodeReturned = "node returned",
    NodeCutOff = "node cut off",
    NodeReached = "node reached again",
    LeaseExpired = "lease expired",
    GpuSlowed = "GPU slowed",
    JobCrashed = "job crashed",
    DaemonKilled = "daemon killed",
    ReplayedFromJson = "replayed from JSON",
    ClockForward = "clock forward",
    ClockBack = "clock back",
    SolverExhausted = "solver exhausted",
    SolverLost = "solver's answer lost",
    SolverLate = "solver late",
    SolverRepeated = "solver's answer repeated",
    SolverStale = "solver's answer to an old round",
    SolverMislabelled = "old answer under a new round",
    SolverStarves = "solver starves a user",
    SolverGivesNothing = "solver gives nothing",
    SolverBreaksRules = "solver breaks rules",
    EstimateTooHigh = "estimate ten times too high",
    EstimateTooLow = "estimate ten times too low",
    EstimateLost = "estimate lost",
    EstimateLate = "estimate late",
    EstimateRepeated = "estimate repeated",
    Burst = "burst of arrivals",
    PolicySwitched = "policy switched",
    SubmitRepeated = "submit repeated",
    CancelWaiting = "cancel of a waiting job",
    CancelStarting = "cancel of a starting job",
    CancelRunning = "cancel of a running job",
    CancelStopping = "cancel of a stopping job",
    CancelUnknown = "cancel of an unknown job",
    NodeJoined = "node joined",
    NodeReplaced = "node came back with other GPUs",
    NodeResized = "node with other CPUs and memory",
    NodeRemoved = "node removed",
    NodeRemovedUnreached = "node removed while out of reach",
    NodeDrained = "node drained",
    NodeDrainedByDeadline = "node drained by a deadline",
    NodeUndrained = "node undrained",
    GpuLost = "GPU lost",
    GpuReturned = "GPU returned",
    KindCorrected = "kind corrected",
    ChangeRefused = "change that makes no sense",
    KilledInChange = "daemon killed in a change",
    RestoredFromSnapshot = "restored from a snapshot before a change",
    JobHeld = "job held",
    JobReleased = "job released",
    OpenJob = "open job",
    ProgramJob = "job with a program",
    JobWithNeeds = "job that needs CPUs and memory",
    JobWithTimeLimit = "job with a time limit",
    JobAfterOthers = "job after others",
    ArrayOfJobs = "array of jobs",
}

/// How often each fault happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultCounts([u64; Fault::ALL.len()]);

impl Default for FaultCounts {
    fn default() -> Self {
        Self([0; Fault::ALL.len()])
    }
}

impl FaultCounts {
    /// Counts one occurrence of a fault.
    pub fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// How often it happened.
    #[must_use]
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &FaultCounts) {
        for (sum, n) in self.0.iter_mut().zip(&other.0) {
            *sum += n;
        }
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &fault in Fault::ALL {
            writeln!(f, "{:>8}  {}", self.of(fault), fault.name())?;
        }
        Ok(())
    }
}
