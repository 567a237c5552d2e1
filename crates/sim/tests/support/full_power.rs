//! What frugal divisions are measured against.

use arles_core::KindId;
use arles_core::allocate::{Grant, Members, Problem, find_policy};

/// `oef-coop` with every GPU in its fastest mode, as grants in those modes.
pub(crate) fn at_full_power(problem: &Problem) -> Vec<Grant> {
    let k = problem.kinds();
    let best = |u: usize, base: usize| {
        let modes = (0..k).filter(|&j| problem.sold_as(j) == base);
        modes.max_by(|&a, &b| problem.rates(u)[a].total_cmp(&problem.rates(u)[b])).expect("itself at least")
    };
    let mut plain = problem.clone();
    for (u, row) in plain.rates.chunks_exact_mut(k).enumerate() {
        let told: Vec<f64> =
            (0..k).map(|j| if problem.sold_as(j) == j { problem.rates(u)[best(u, j)] } else { 0.0 }).collect();
        row.copy_from_slice(&told);
    }
    (plain.power, plain.pairs) = (None, Vec::new());
    let answer = (find_policy("oef-coop").expect("in the table").make)().allocate(&plain).expect("an answer");
    let in_mode = |grant: &Grant| {
        let Members::One(u) = grant.members else { unreachable!("nobody shares here") };
        Grant { kind: KindId(best(u as usize, grant.kind.index()) as u16), ..*grant }
    };
    answer.grants().iter().map(in_mode).collect()
}
