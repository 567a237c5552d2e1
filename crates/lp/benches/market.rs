//! Markets from a thousand to a million users: time, steps, certified gap, growth, the general solver beside it in the
//! same run, and a warm start after one user in a hundred has changed
//! (and now lies halfway between two others).
//!
//! `cargo bench -p arles-lp --bench market` compares with Clarabel up to 10⁴ users; `-- --long` up to 10⁵, where one
//! solve of Clarabel takes about a minute. Both times include reading the problem (Clarabel's: writing the model) and
//! ours its certificate. `-- equilibrium-Rand-10` runs the rows that begin so, `-- nash` the
//! welfare with caps. Growth is the time over that of a tenth of the users. Visits are looks at one user's rates.

#[path = "timing/median.rs"]
mod timing;

use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::market::{Effort, Market, STEPS, Workspace};
use arles_lp::maxmin::{General, MaxMin};
use arles_lp::nash::{self, Nash};
use arles_lp::{Budget, Clarabel};
use timing::{median, time};

const USERS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn main() {
    let long = std::env::args().any(|argument| argument == "--long");
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if chosen.first().is_some_and(|name| name == "nash") {
        return capped();
    }
    let head = "time    steps visits/n      gap  growth        warm  speedup";
    println!("goal         family   k       n  {head}     Clarabel    ratio");
    for level in [true, false] {
        for resources in [3, 10] {
            for family in Family::ALL {
                let mut before = None;
                let name = format!("{}-{family:?}-{resources}", if level { "level" } else { "equilibrium" });
                if !chosen.iter().all(|prefix| name.starts_with(prefix.as_str())) {
                    continue;
                }
                for users in USERS {
                    let general = level && (users <= 10_000 || (long && users == 100_000 && family == Family::Rand));
                    before = Some(row(family, users, resources, level, general, before));
                }
            }
        }
    }
}

/// Nash welfare with caps, at a load where caps matter.
fn capped() {
    println!("\nNash welfare with caps\nfamily   k       n load        time iterations      gap  growth");
    for family in Family::ALL {
        for load in [0.3, 3.0] {
            let mut before = None;
            for users in [1_000, 10_000, 100_000] {
                let recipe = Recipe { family, users, resources: 10, load, uncapped: 0.1, spread: 0.0, seed: 1 };
                let Instance { w, caps, capacity, .. } = Instance::new(&recipe);
                let weight: Vec<f64> = (0..users).map(|l| 1.0 + (l % 4) as f64).collect();
                let problem = Nash { w: &w, weight: &weight, caps: &caps, capacity: &capacity };
                let mut workspace = nash::Workspace::new();
                let (mut gap, mut iterations) = (0.0, 0);
                let seconds = median(if users < 100_000 { 5 } else { 1 }, || {
                    let answer = workspace.solve(&problem, Budget::default()).expect("families make good questions");
                    (gap, iterations) = (answer.welfare.width(), answer.iterations);
                });
                print!("{:6}  10 {users:7} {load:4} {:>11} {iterations:10}", format!("{family:?}"), time(seconds));
                let growth = before.map_or(String::new(), |before| format!("{:.1}x", seconds / before));
                println!(" {gap:8.0e} {growth:>7}");
                before = Some(seconds);
            }
        }
    }
}

fn instance(family: Family, users: usize, resources: usize, seed: u64) -> Instance {
    Instance::new(&Recipe { family, users, resources, load: 0.3, uncapped: 0.0, spread: 0.0, seed })
}

/// Prints one row; returns the seconds taken.
fn row(family: Family, users: usize, resources: usize, level: bool, general: bool, before: Option<f64>) -> f64 {
    let old = instance(family, users, resources, 1);
    let mut new = old.clone();
    for l in (0..users).step_by(100) {
        for j in 0..resources {
            let other = |far: usize| old.w[(l + far) % users * resources + j];
            new.w[l * resources + j] = 0.5 * (other(users / 3) + other(users / 2));
        }
    }
    let mut workspace = Workspace::new();
    let (_, _, start) = solve(&mut workspace, &market(&old), level, None);
    let market = market(&new);
    let repetitions = (1_000_000 / users).clamp(5, 101);
    let mut gap = 0.0;
    let mut effort = Effort::default();
    let cold = median(repetitions, || (gap, effort, _) = solve(&mut workspace, &market, level, None));
    let warm = median(repetitions, || _ = solve(&mut workspace, &market, level, Some(&start)));
    let goal = if level { "equal level" } else { "equilibrium" };
    print!("{goal}  {:6} {resources:3} {users:7}", format!("{family:?}"));
    print!(" {:>10} {:6} {:8.2} {gap:8.0e}", time(cold), effort.steps, effort.visits as f64 / users as f64);
    print!(" {:>7}", before.map_or(String::new(), |before| format!("{:.1}x", cold / before)));
    print!(" {:>11} {:7.1}x", time(warm), cold / warm);
    if general {
        let rival = rival(&market, if users <= 1_000 { 5 } else { 1 });
        print!(" {:>12} {:7.0}x", time(rival), rival / cold);
    }
    println!();
    cold
}

fn market(instance: &Instance) -> Market<'_> {
    Market { w: &instance.w, weight: &instance.caps, capacity: &instance.capacity }
}

/// Solves; returns gap, effort and prices.
fn solve(
    workspace: &mut Workspace,
    market: &Market<'_>,
    level: bool,
    start: Option<&[f64]>,
) -> (f64, Effort, Vec<f64>) {
    let families = "families make good questions";
    if level {
        let answer = workspace.equal_level(market, start, STEPS).expect(families);
        (answer.bound.gap(), answer.effort, answer.prices.clone())
    } else {
        let answer = workspace.equilibrium(market, start, STEPS).expect(families);
        (answer.welfare.width(), answer.effort, answer.prices.clone())
    }
}

/// Clarabel's seconds for the equal level.
fn rival(market: &Market<'_>, repetitions: usize) -> f64 {
    let caps = vec![f64::INFINITY; market.weight.len()];
    let problem = MaxMin { w: market.w, beta: market.weight, caps: &caps, capacity: market.capacity };
    median(repetitions, || {
        let general = General::new(&problem).expect("families make good questions");
        general.solve(&problem, &Clarabel, Budget::default());
    })
}
