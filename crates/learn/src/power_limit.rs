//! What a power limit makes of a workload, from what it draws without one.
//!
//! With x the limit and d the draw, both over the limit as sold, and softmin_n(u, v) = (u⁻ⁿ + v⁻ⁿ)^(−1/n):
//!
//! ```text
//! speed = ((softmin_5(x, h·d) − f) / (softmin_5(1, h·d) − f))^γ          h = 0.58, f = 0.127, γ = 1.9
//! watts = limit as sold · d · softmin_8(x, h'·d) / softmin_8(1, h'·d)    h' = 1.14
//! ```
//!
//! The constants were found on 217 curves of six workloads on four kinds that Zeus measured (NSDI '23), one workload left out at a time: 6.7 % off in
//! speed (2.7 % above 60 % of the limit), 3.4 % in watts. f is 0.36·0.95 of the least limit that a card takes, here 37 % of that as sold.

use crate::evidence::Evidence;
use arles_core::{Kind, Spread, model};

const SPEED_ORDER: f64 = 5.0;
const SPEED_WIDTH: f64 = 0.58;
const FLOOR: f64 = 0.127;
const GAMMA: f64 = 1.9;
const WATTS_ORDER: f64 = 7.9;
const WATTS_WIDTH: f64 = 1.14;
/// Draw over the limit as sold where nobody knows anything.
const USUAL_DRAW: f64 = 0.65;

fn softmin(order: f64, u: f64, v: f64) -> f64 {
    (u.powf(-order) + v.powf(-order)).powf(-1.0 / order)
}

/// Part of its speed that is left of a workload that draws `d` of the limit as sold, under the part `x` of it.
fn speed(x: f64, d: f64) -> f64 {
    let over = |x: f64| (softmin(SPEED_ORDER, x, SPEED_WIDTH * d) - FLOOR).max(1e-3);
    (over(x) / over(1.0)).min(1.0).powf(GAMMA)
}

/// Draw under a limit of a workload that draws `watts` without one.
pub(crate) fn watts(kind: &Kind, watts: f64) -> f64 {
    let Some(limit) = kind.power_limit else { return watts };
    let (x, d) = (limit / kind.max_watts, (watts / kind.max_watts).max(1e-3));
    watts * softmin(WATTS_ORDER, x, WATTS_WIDTH * d) / softmin(WATTS_ORDER, 1.0, WATTS_WIDTH * d)
}

/// What a workload draws on a kind without a limit: measured there, seen in a run, by the model, or as usual.
pub(crate) fn unlimited_watts(evidence: &Evidence, workload: usize, kind: usize) -> f64 {
    let k = &evidence.kinds()[kind];
    let sold = evidence.kinds().iter().position(|other| other.name == k.sold_as());
    let measured = sold.map(|sold| evidence.alone_watts(workload, sold)).filter(|watts| watts.is_finite());
    let known = &evidence.workloads()[workload];
    let seen = || known.power_ratio.map(|part| part * k.max_watts);
    let modelled = || {
        let sold = Kind { power_limit: None, ..evidence.without_memory_limit(kind).clone() };
        Some(model::alone(known.features.as_ref()?, &sold, 1, Spread::Packed)?.watts)
    };
    measured.or_else(seen).or_else(modelled).unwrap_or(USUAL_DRAW * k.max_watts)
}

/// ln of the part of a workload's speed that a kind's power limit leaves; 0 without one.
pub(crate) fn ln_speed(evidence: &Evidence, workload: usize, kind: usize) -> f64 {
    let k = &evidence.kinds()[kind];
    let Some(limit) = k.power_limit else { return 0.0 };
    speed(limit / k.max_watts, (unlimited_watts(evidence, workload, kind) / k.max_watts).max(1e-3)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::Library;

    #[test]
    fn what_draws_little_keeps_its_speed_and_what_draws_much_loses_it() {
        assert!(speed(0.6, 0.2) > 0.99 && speed(0.6, 0.95) < 0.9 && speed(0.4, 0.95) < speed(0.6, 0.95));
        assert!(speed(1.0, 0.9) == 1.0);
    }

    #[test]
    fn nothing_draws_more_than_it_may() {
        let kind = Library::builtin().kind("v100").unwrap().limited_to(150.0).unwrap();
        assert!(watts(&kind, 280.0) < 151.0 && watts(&kind, 280.0) > 120.0, "{}", watts(&kind, 280.0));
        assert!((watts(&kind, 60.0) - 60.0).abs() < 2.0);
    }
}
