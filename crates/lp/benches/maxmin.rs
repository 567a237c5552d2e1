//! Structured against general on the same instance in the same run: medians, and how many times faster.
//!
//! `cargo bench -p arles-lp --bench maxmin`. Clarabel's time includes writing the model, as the structured time
//! includes reading the problem. Each row is one family of instances at one load (1 is about 0.6 of a resource unit
//! per unit demanded); where one solve of Clarabel takes more than a minute, later rows of that size skip it.

#[path = "timing/median.rs"]
mod timing;

use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::maxmin::{General, TOLERANCE, Workspace};
use arles_lp::{Budget, Clarabel};
use timing::{median, time};

const SIZES: [(usize, usize); 5] = [(30, 3), (60, 3), (200, 5), (1_000, 10), (10_000, 10)];
const CASES: [(Family, f64); 5] =
    [(Family::Rand, 1.0), (Family::Rand, 0.1), (Family::Iid, 0.1), (Family::Zeros, 0.1), (Family::Ord, 0.1)];
const TOO_LONG_SECONDS: f64 = 60.0;

fn main() {
    println!("    n   k  family load   structured  iterations      gap     Clarabel      gap    ratio");
    for (users, resources) in SIZES {
        let mut skip = false;
        for (family, load) in CASES {
            let recipe = Recipe { family, users, resources, load, uncapped: 0.0, spread: 0.0, seed: 1 };
            let seconds = row(&recipe, skip);
            skip |= seconds > TOO_LONG_SECONDS;
        }
    }
}

/// Prints one row; returns Clarabel's seconds.
fn row(recipe: &Recipe, skip: bool) -> f64 {
    let instance = Instance::new(recipe);
    let problem = instance.problem();
    let mut workspace = Workspace::new();
    let repetitions = (2_000_000 / (recipe.users * recipe.resources)).clamp(9, 2001);
    let structured = median(repetitions, || {
        workspace.solve(&problem, Budget::default(), TOLERANCE).expect("families make good questions");
    });
    let level = workspace.solve(&problem, Budget::default(), TOLERANCE).expect("families make good questions");
    let Recipe { family, users, resources, load, .. } = recipe;
    let family = format!("{family:?}");
    print!("{users:5} {resources:3}  {family:6} {load:4} {:>12} {:11}", time(structured), level.iterations);
    print!(" {:8.0e}", level.bound.gap());
    if skip {
        println!("      skipped: over {TOO_LONG_SECONDS} s a row earlier");
        return 0.0;
    }
    let mut gap = 0.0;
    let general = median(if *users < 1_000 { 21 } else { 3 }, || {
        let general = General::new(&problem).expect("families make good questions");
        gap = general.solve(&problem, &Clarabel, Budget::default()).bound.gap();
    });
    println!(" {:>12} {gap:8.0e} {:7.0}x", time(general), general / structured);
    general
}
