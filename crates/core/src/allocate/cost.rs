//! Most throughput for the money (Gavel's cost policy with SLOs, OSDI '20).
//!
//! Gavel's paper maximises Σ throughput / Σ cost, and that ratio alone is largest with the one best job on the one best
//! kind and nobody else served. What its policy does, and this one, is to add everybody's throughput per dollar:
//!
//!   v_lj = (r_lj / r_l,slowest) / c_j        c_j the hourly cost of a GPU of kind j
//!
//! with `sum.rs`'s program around it: promised rates first, then every GPU hour where it buys most, and no GPU left idle
//! while a job could use it, since every v is positive. What it saves, it saves by who runs where.

use super::sum::Sum;
use super::{AllocateError, Allocation, Policy, PolicyEntry, Problem, Promise};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "min-cost",
    summary: "Gavel's: promised rates (floors) first, then the largest total speed-up per dollar; not fair",
    objective_degree: Some(2),
    promises: &[Promise::ScaleFree, Promise::FloorsKept, Promise::Optimal],
    make: || Box::new(MinCost),
    ..PolicyEntry::DIVIDES
};

pub(super) struct MinCost;

impl Policy for MinCost {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let mut values = problem.speedups();
        for row in values.chunks_exact_mut(problem.kinds().max(1)) {
            row.iter_mut().zip(&problem.hourly_cost).for_each(|(v, c)| *v /= c);
        }
        // Couples are not for this policy: it never asks for pairs.
        Sum::new(problem, &values).allocate()
    }
}
