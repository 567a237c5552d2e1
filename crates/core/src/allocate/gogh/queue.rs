//! Who goes beside whom, while jobs wait for GPUs.
//!
//! The program of one round would run what is cheap now, light jobs beside light ones, and be left in the end with heavy jobs that slow each
//! other down. All jobs are to be run in the end, so the whole queue is divided into bundles first, as if every GPU were there s times over,
//! s the least number with room for everybody alone:
//!
//! ```text
//! minimise  Σ c[a,c]·y[a,c] + promises      s.t.  Σ_c size_c·y[a,c] ≤ s·m_a,    every job in one bundle,    y whole
//! ```
//!
//! with the costs of `tariff.rs` in which a GPU's time counts. Who has how much work left does not matter: when one of a pair is done, the other
//! gets the next partner. Two that share a GPU are parted only for a plan that is better by more than a restart.
//!
//! Then the program of the round chooses whose turn it is: pairs are those of the plan, and a job that waits costs later what it costs in the
//! plan. So all bundles of the plan are equally good now, and promises, the time that jobs have waited and who is there already decide.
//! Nobody is stopped whose end is nearer than two starts, of whoever comes in its place and of itself when it is back.
//! On what was measured on an H200 for twelve jobs this takes 0.88 of the energy and 0.65 of the time of one job at a time; the cheapest pair first
//! took 0.96 and 0.85 on an earlier table, where this took 0.91 and 0.66 (`core/tests/queue.rs`).

use super::super::{AllocateError, Problem};
use super::{PROMISE, Program, Tariff};
use arles_lp::cover::{self, Cover, Effort, Solution};

/// Work that a plan is worth: it is made anew every round.
const EFFORT: Effort = Effort { programs: 20, ruins: 5_000, nodes: 20_000, gap: 5e-3 };

/// A pair costs at least this part of what it would cost if it had to be brought together.
const LEAST_COST: f64 = 1e-3;

/// The program of the round, with the pairs and the prices of the plan.
pub(super) fn in_turn(problem: &Problem, tariff: &Tariff<'_>) -> Result<Program, AllocateError> {
    let mut program = Program::new(problem, tariff);
    let plan = cover::solve(&over_rounds(problem, tariff, &program), &EFFORT)?;
    let later = later(problem, tariff, &program, &plan);
    program.question.classes.iter_mut().zip(later).for_each(|(class, later)| class.unserved_price += later);
    // Two others who could come in its place would have waited longer for their start than for its end.
    for stay in program.question.stays.iter_mut().filter(|stay| tariff.is_nearly_done(stay.class)) {
        stay.saving += 2.0 * program.question.classes[stay.class].unserved_price;
    }
    let mut planned = plan.pairs.iter().map(|&units| units > 0);
    program.pair_modes.retain({
        let mut planned = planned.clone();
        move |_| planned.next().unwrap_or(false)
    });
    program.question.pairs.retain(|_| planned.next().unwrap_or(false));
    Ok(program)
}

/// The program of the whole queue: who is there stays there unless that costs more than a restart.
fn over_rounds(problem: &Problem, tariff: &Tariff<'_>, program: &Program) -> Cover {
    let k = problem.kinds();
    let mut queue = Cover { stays: Vec::new(), ..program.question.clone() };
    for (i, alone) in queue.alone.iter_mut().enumerate() {
        let (u, j) = (i / k, i % k);
        // Who is there and would go on alone gives way to two others, and has to come back.
        let back = if tariff.held(u, j) > 0 { tariff.coming_back(u, j) } else { 0.0 };
        alone.iter_mut().for_each(|alone| alone.cost += back);
    }
    for pair in &mut queue.pairs {
        let parting = tariff.parting(pair.a, pair.b, pair.resource);
        pair.cost = (pair.cost - parting).max(LEAST_COST * pair.cost);
    }
    let columns = queue.alone.iter().flatten().map(|alone| alone.cost).chain(queue.pairs.iter().map(|pair| pair.cost));
    let promise = PROMISE * columns.fold(1.0, f64::max);
    for class in &mut queue.classes {
        class.short_price *= promise / program.promise;
        class.unserved_price = promise;
    }
    let wanted: u64 = queue.classes.iter().map(|class| u64::from(class.count) * u64::from(class.size)).sum();
    let there: u64 = queue.capacity.iter().map(|&gpus| u64::from(gpus)).sum();
    let rounds = u32::try_from(wanted.div_ceil(there.max(1))).unwrap_or(u32::MAX);
    queue.capacity.iter_mut().for_each(|gpus| *gpus = gpus.saturating_mul(rounds));
    queue
}

/// What a job of each class costs in the plan, in watts at its pace.
fn later(problem: &Problem, tariff: &Tariff<'_>, program: &Program, plan: &Solution) -> Vec<f64> {
    let k = problem.kinds();
    let mut bill = vec![(0.0, 0u32); problem.users.len()];
    let mut add = |u: usize, cost: f64, jobs: u32| {
        bill[u].0 += cost * f64::from(jobs);
        bill[u].1 += jobs;
    };
    for (i, (&gangs, alone)) in plan.alone.iter().zip(&program.question.alone).enumerate() {
        if let Some(alone) = alone.filter(|_| gangs > 0) {
            add(i / k, alone.cost, gangs);
        }
    }
    for ((pair, &mode), &units) in program.question.pairs.iter().zip(&program.pair_modes).zip(&plan.pairs) {
        if units > 0
            && let Some(offer) = tariff.together(pair.a, pair.b, mode)
        {
            add(pair.a, offer.costs[0], units);
            add(pair.b, offer.costs[1], units);
        }
    }
    bill.into_iter().map(|(cost, jobs)| if jobs > 0 { cost / f64::from(jobs) } else { 0.0 }).collect()
}
