//! How fast a workload runs on a kind, and what it draws, computed from the two specifications alone.
//!
//! This is what arles believes before anything was measured, and what the simulator can take for the truth. It
//! is a roofline with overheads: a handful of constants for all kinds and workloads, no table of exceptions. It
//! must never look a name up, and it never knows a measured rate; [`fit()`] says how far it is from some.
//!
//! **One step on one GPU.** With F FLOPs, B bytes and K kernels, peak P and bandwidth W:
//!
//! ```text
//! gpu  = F / (η_c·y·P)  +  B / (η_b·√y·W)  +  K·λ          y = how well libraries use a kind of that year
//! step = √(gpu² + host²)                                   host work overlaps with the GPU, but not wholly
//! ```
//!
//! Compute and memory add up because a step is a sequence of kernels that are bound by one *or* the other. λ is the
//! least time of a kernel, whatever its size: this is why small steps cannot fill a large GPU. `busy = gpu/step`.
//!
//! **A gang** of g exchanges its gradients (S bytes) in a ring and then steps together:
//! `rate = g / (step + 2(g−1)/g·S/link)`, where the link is that inside a node or, spread, the network, which is half as fast between racks.
//!
//! **Two jobs on one GPU** take turns on it. Mean-value analysis of a closed queue with two customers gives
//! for each the time it finds the other being served; a job of long kernels holds the GPU longer per turn:
//!
//! ```text
//! step₁' = (step₁ − gpu₁)·(1 + γ·host₂/step₂)  +  gpu₁·(1 + busy₂·(τ₂/τ₁)^α)       τ = gpu/K
//! ```
//!
//! So two jobs that keep the GPU busy halve each other, and two that wait for their hosts hardly meet. The GPU
//! counts as *one* resource here: letting a compute-bound and a memory-bound job run truly at once was tried and
//! fitted the measurements worse.
//!
//! **Power** is `idle + (max − idle)·(ρ + (σ − ρ)·u)`, u the share of time in which arithmetic or memory are at work;
//! a GPU between kernels draws little.
//!
//! **A power limit** L below that draw P lowers the clock until the draw is L: `rate × √((L − idle)/(P − idle))`. The square root is between
//! what clock and voltage together give (a cube root) and what is left when the voltage can fall no further (a line). On 1,391 limits of
//! 218 configurations that Zeus measured (NSDI '23), with P as measured, the mean error of the rate is 5 % on V100, 3 % on P100, 7 % on
//! RTX 6000 and 13 % on A40, whose rates break down below half of P; not knowing of limits it would be 12, 4, 14 and 23 %.

mod fit;
mod step;

use crate::{Kind, Spread, Workload};
pub use fit::{Errors, Fit, Measured, Memory, fit};
use serde::Serialize;
use step::Step;

/// α: how much more of a shared GPU a job of longer kernels gets.
const TURN_EXPONENT: f64 = 0.2;
/// γ: how much a wholly host-bound partner slows a job's host work. Between the virtual machines of Gavel's table with
/// few cores (0.8 fits best) and a server with cores to spare (0).
const HOST_CONTENTION: f64 = 0.2;
/// Share of a link's peak that a ring all-reduce reaches.
const LINK_EFFICIENCY: f64 = 0.25;
/// GPUs that a node holds as a rule; larger gangs cross the network even when they are not spread.
const NODE_GPUS: u32 = 8;
/// Share of what the network carries inside a rack that it carries between racks: as a rule there are half as many uplinks as
/// downlinks. Measured on nobody's cluster yet.
const RACK_UPLINK: f64 = 0.5;
/// ρ: share of the power range that a resident process costs, however idle it is.
const RESIDENT_POWER: f64 = 0.04;
/// σ: share of the power range that steady full work costs.
const BUSY_POWER: f64 = 0.9;

/// Part of its speed that a GPU keeps under whatever limit.
const LEAST_SPEED: f64 = 0.01;

/// How a workload runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Performance {
    /// Steps per second of the whole gang; a step is one batch on one GPU.
    pub rate: f64,
    /// Draw of one GPU of the gang, idle power included.
    pub watts: f64,
    /// Share of time in which a GPU of the gang has something to do, 0 to 1.
    pub busy: f64,
}

/// How two workloads run side by side on one GPU.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Together {
    /// Steps per second of the first.
    pub own: f64,
    /// Steps per second of its partner.
    pub partner: f64,
    /// Draw of the GPU, idle power included.
    pub watts: f64,
    /// Share of time in which the GPU has something to do, 0 to 1.
    pub busy: f64,
}

/// How `w` runs on a gang of `gang` GPUs of kind `k`, with nobody else on them. `spread` says how far apart they are, beyond what
/// the gang needs. `None` when `w` does not fit in the memory of one GPU, or the gang is empty.
#[must_use]
pub fn alone(w: &Workload, k: &Kind, gang: u32, spread: Spread) -> Option<Performance> {
    if w.memory_gib > k.memory_gib || gang == 0 {
        return None;
    }
    let step = Step::of(w, k);
    let seconds = step.seconds() + exchange_seconds(w, k, gang, spread);
    let (speed, watts) = limited(k, watts(k, step.active_seconds() / seconds));
    Some(Performance { rate: speed * f64::from(gang) / seconds, watts, busy: step.gpu() / seconds })
}

/// How `w` and `partner` run together on one GPU of kind `k`. `None` when their memory does not fit or the kind does not
/// take two jobs.
#[must_use]
pub fn beside(w: &Workload, partner: &Workload, k: &Kind) -> Option<Together> {
    if k.max_jobs < 2 || w.memory_gib + partner.memory_gib > k.memory_gib {
        return None;
    }
    let (one, two) = (Step::of(w, k), Step::of(partner, k));
    let (own_seconds, partner_seconds) = (contended(&one, &two), contended(&two, &one));
    let both = |one: f64, two: f64| (one / own_seconds + two / partner_seconds).min(1.0);
    let (speed, watts) = limited(k, watts(k, both(one.active_seconds(), two.active_seconds())));
    Some(Together {
        own: speed / own_seconds,
        partner: speed / partner_seconds,
        watts,
        busy: both(one.gpu(), two.gpu()),
    })
}

/// What a kind's power limit makes of something that would draw `watts` without one: the part of its speed that is left, and its draw.
#[must_use]
pub fn limited(k: &Kind, watts: f64) -> (f64, f64) {
    match k.power_limit {
        Some(limit) if limit < watts => {
            let left = (limit - k.idle_watts).max(0.0) / (watts - k.idle_watts).max(f64::MIN_POSITIVE);
            (left.sqrt().max(LEAST_SPEED), limit)
        }
        _ => (1.0, watts),
    }
}

/// The rate that no implementation of `w` on one GPU of kind `k` exceeds: all units at their published peak, arithmetic
/// and memory traffic wholly overlapped, no host.
#[must_use]
pub fn roofline(w: &Workload, k: &Kind) -> f64 {
    let compute = w.flops_per_step / step::peak_flops(w.precision, k);
    let memory = w.bytes_per_step / (k.bandwidth_gbps * 1e9);
    1.0 / compute.max(memory)
}

/// Length of a step of `one` while `other` shares the GPU.
fn contended(one: &Step, other: &Step) -> f64 {
    let turn = (other.kernel_seconds() / one.kernel_seconds()).powf(TURN_EXPONENT);
    let host = HOST_CONTENTION * other.host / other.seconds();
    (one.seconds() - one.gpu()) * (1.0 + host) + one.gpu() * (1.0 + other.busy() * turn)
}

/// Time to sum the gradients of a gang in a ring: every GPU sends and receives 2(g−1)/g of them.
fn exchange_seconds(w: &Workload, k: &Kind, gang: u32, spread: Spread) -> f64 {
    let link = LINK_EFFICIENCY * k.link_gbps;
    let crosses = gang > 1 && (spread.apart() || gang > NODE_GPUS);
    let gbps = match spread {
        _ if !crosses => link,
        Spread::Racks => link.min(RACK_UPLINK * network_gbps(k)),
        Spread::Packed | Spread::Nodes => link.min(network_gbps(k)),
    };
    let g = f64::from(gang);
    2.0 * (g - 1.0) / g * w.synced_bytes / (gbps * 1e9)
}

/// What the network of a cluster of the kind's time carries for one gang, in GB/s: four fifths of 10 Gbit/s, since 2020
/// of 100 Gbit/s.
fn network_gbps(k: &Kind) -> f64 {
    if k.year < 2020 { 1.0 } else { 10.0 }
}

/// Draw of a GPU that is at work for `active` of the time.
fn watts(k: &Kind, active: f64) -> f64 {
    let range = RESIDENT_POWER + (BUSY_POWER - RESIDENT_POWER) * active;
    k.idle_watts + (k.max_watts - k.idle_watts) * range
}

#[cfg(test)]
mod tests;
