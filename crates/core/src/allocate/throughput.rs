//! Most throughput (Gavel's max-sum-throughput with SLOs, OSDI '20; the baseline of GOGH).
//!
//! The sum of everybody's throughput is as large as it can be, promised rates first. Throughputs of unlike workloads are
//! added as speed-ups: v_lj = r_lj / r_l,slowest, a GPU's rate over the user's rate on the slowest kind it fits on. So a gang
//! of g GPUs on its slowest kind counts g. `sum.rs` has the program. Nothing here is fair: whoever gains least
//! from a GPU waits while there are others.

use super::sum::Sum;
use super::{AllocateError, Allocation, Policy, PolicyEntry, Problem, Promise};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "max-throughput",
    summary: "Gavel's: promised rates (floors) first, then the largest total speed-up; two jobs may share a GPU; not fair",
    pairs: true,
    promises: &[Promise::ScaleFree, Promise::FloorsKept, Promise::Optimal],
    make: || Box::new(MaxThroughput),
    ..PolicyEntry::DIVIDES
};

pub(super) struct MaxThroughput;

impl Policy for MaxThroughput {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        Sum::new(problem, &problem.speedups()).allocate()
    }
}
