//! Stands for `crates/core/src/allocate.rs`: a policy's file names what it needs by `super`, as it would there.

use arles_core::allocate::{
    AllocateError, Allocation, Policy, PolicyEntry, Problem, Promise, Proposal, serve_in_order,
};

mod newest;

pub(crate) static POLICIES: &[PolicyEntry] = &[newest::ENTRY];
