//! Water-filling and sharing beside Clarabel on the same instance in the same run.
//!
//! `cargo bench -p arles-lp --bench fill`. Clarabel is given plain max-min only, the first of the programs that a filling by
//! general means would take, so the ratios are what a filling costs against a *single* general solve. Warm: the reservoir
//! has filled the same instance before one user in a hundred changed.

use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::maxmin::{self, FillWorkspace, Filling, General};
use arles_lp::sharing::{self, Pair, Sharing, User};
use arles_lp::{Budget, Clarabel, ColumnId, Model, ModelError, Solver};
use std::time::Instant;

const BUDGET: Budget = Budget::iterations(20_000);
/// (users, classes, resources)
const SHARINGS: [(usize, usize, usize); 6] =
    [(512, 26, 3), (4096, 26, 3), (64, 64, 3), (128, 128, 3), (256, 256, 3), (512, 512, 3)];

fn main() {
    // `-- sharing` leaves the filling out.
    if std::env::args().any(|argument| argument == "sharing") {
        return share();
    }
    println!("    n   k  family load       fill  stages  iterations     gap  one Clarabel   ratio  warm is faster by");
    for (users, resources) in [(50, 3), (200, 5), (1_000, 10), (10_000, 10)] {
        for (family, load) in [(Family::Rand, 1.0), (Family::Rand, 0.3), (Family::Zeros, 1.0), (Family::Iid, 1.0)] {
            fill_row(&Recipe { family, users, resources, load, uncapped: 0.0, spread: 0.0, seed: 1 });
        }
    }
    share();
}

fn share() {
    println!(
        "\n users classes   k    sharing  stages  iterations  programs  columns  of all     gap  one Clarabel over all   ratio"
    );
    for (users, classes, k) in SHARINGS {
        share_row(users, classes, k);
    }
}

fn fill_row(recipe: &Recipe) {
    let instance = Instance::new(recipe);
    let problem = instance.problem();
    let Recipe { family, users, resources, load, .. } = recipe;
    let repetitions = if *users < 1_000 { 21 } else { 3 };
    let mut filled = Filling::default();
    let cold = median(repetitions, || filled = maxmin::fill(&problem, BUDGET).expect("families make good questions"));
    let general = median(repetitions.min(3), || {
        let general = General::new(&problem).expect("families make good questions");
        general.solve(&problem, &Clarabel, Budget::default());
    });
    let changed = change(recipe, &instance);
    let mut reservoir = FillWorkspace::new();
    let mut spent = 0;
    let warm = median(repetitions, || {
        reservoir.fill(&problem, BUDGET).expect("families make good questions");
        let start = Instant::now();
        spent = reservoir.fill(&changed.problem(), BUDGET).expect("families make good questions").iterations;
        start.elapsed().as_secs_f64()
    });
    let anew = maxmin::fill(&changed.problem(), BUDGET).expect("families make good questions").iterations;
    let family = format!("{family:?}");
    print!("{users:5} {resources:3}  {family:6} {load:4} {:>10}", time(cold));
    print!(" {:7} {:11} {:7.0e} {:>13}", filled.bottlenecks.len(), filled.iterations, filled.gap, time(general));
    println!(" {:6.1}x  {:.2}x ({spent} iterations for {anew})", general / cold, cold / warm);
}

/// The instance with one user in a hundred replaced.
fn change(recipe: &Recipe, instance: &Instance) -> Instance {
    let other = Instance::new(&Recipe { seed: recipe.seed + 1, ..*recipe });
    let (mut changed, k) = (instance.clone(), recipe.resources);
    for l in (37..recipe.users).step_by(100) {
        changed.w[l * k..][..k].copy_from_slice(&other.w[l * k..][..k]);
        changed.beta[l] = other.beta[l];
        changed.caps[l] = other.caps[l];
    }
    changed
}

fn share_row(users: usize, classes: usize, k: usize) {
    let (users, rates, pairs) = crowd(users, classes, k);
    let capacity = vec![0.3 * users.len() as f64 / k as f64; k];
    let problem = Sharing { users: &users, rates: &rates, pairs: &pairs, capacity: &capacity };
    let mut shared = sharing::Filling::default();
    let ours = median(if classes < 256 { 3 } else { 1 }, || {
        shared = sharing::fill(&problem, BUDGET).expect("a good question");
    });
    let all = shared.groups.len() * k + pairs.len();
    print!("{:6} {classes:7} {k:3} {:>10} {:7}", users.len(), time(ours), shared.bottlenecks.len());
    print!(" {:11} {:9} {:8} {all:7}", shared.iterations, shared.rounds, shared.columns);
    print!(" {:7.0e}", shared.gap);
    if all > 30_000 || shared.groups.len() < users.len() {
        println!("      (groups of {} users)", users.len());
        return;
    }
    let general = median(1, || {
        everything(&problem).expect("a good program");
    });
    println!(" {:>23} {:6.1}x", time(general), general / ours);
}

/// Users of random classes, with rates that rise by kind and pairs that press on each other.
fn crowd(users: usize, classes: usize, k: usize) -> (Vec<User>, Vec<f64>, Vec<Pair>) {
    let mut state = 7u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let (mut rates, mut pressure) = (Vec::new(), Vec::new());
    for _ in 0..classes {
        let mut rate = 1.0;
        for _ in 0..k {
            rates.push(rate);
            rate *= 1.0 + uniform();
        }
        pressure.push(0.2 + 0.8 * uniform());
    }
    let mut pairs = Vec::new();
    for first in 0..classes {
        for second in first..classes {
            for resource in 0..k {
                let kept = 1.0 / (1.0 + pressure[first] * pressure[second] * (1.0 + 0.2 * resource as f64));
                let rates = (rates[first * k + resource] * kept, rates[second * k + resource] * kept);
                pairs.push(Pair { first, second, resource, rates });
            }
        }
    }
    let users = (0..users)
        .map(|i| {
            let class = if users == classes { i } else { (uniform() * classes as f64) as usize };
            let beta = rates[class * k..][..k].iter().sum::<f64>() / k as f64;
            User { class, beta, jobs: 1.0, need: 1.0 }
        })
        .collect();
    (users, rates, pairs)
}

/// Plain max-min over all columns by the general solver; users of one job, each of its own class.
fn everything(problem: &Sharing<'_>) -> Result<f64, ModelError> {
    let (n, k) = (problem.users.len(), problem.capacity.len());
    let mut model = Model::maximise();
    let t = model.add_column(f64::NEG_INFINITY, f64::INFINITY, 1.0)?;
    let mut rates: Vec<Vec<(ColumnId, f64)>> = problem.users.iter().map(|user| vec![(t, -user.beta)]).collect();
    let (mut jobs, mut units) = (vec![Vec::new(); n], vec![Vec::new(); k]);
    for (i, user) in problem.users.iter().enumerate() {
        for j in 0..k {
            let x = model.add_column(0.0, f64::INFINITY, 0.0)?;
            rates[i].push((x, problem.rates[user.class * k + j]));
            jobs[i].push((x, 1.0));
            units[j].push((x, 1.0));
        }
    }
    for pair in problem.pairs.iter().filter(|pair| pair.first != pair.second) {
        let x = model.add_column(0.0, f64::INFINITY, 0.0)?;
        for (i, rate) in [(pair.first, pair.rates.0), (pair.second, pair.rates.1)] {
            rates[i].push((x, rate));
            jobs[i].push((x, 1.0));
        }
        units[pair.resource].push((x, 1.0));
    }
    for i in 0..n {
        model.add_row(0.0, f64::INFINITY, &rates[i])?;
        model.add_row(f64::NEG_INFINITY, problem.users[i].jobs, &jobs[i])?;
    }
    for j in 0..k {
        model.add_row(f64::NEG_INFINITY, problem.capacity[j], &units[j])?;
    }
    Ok(Clarabel.solve(&model, Budget::default()).objective)
}

/// The median time of one call, in seconds: the call's own measure where it answers with one.
fn median<T: Measure>(repetitions: usize, mut call: impl FnMut() -> T) -> f64 {
    let mut seconds: Vec<f64> = (0..repetitions)
        .map(|_| {
            let start = Instant::now();
            let answer = call();
            answer.seconds(start.elapsed().as_secs_f64())
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[repetitions / 2]
}

trait Measure {
    fn seconds(self, whole: f64) -> f64;
}

impl Measure for () {
    fn seconds(self, whole: f64) -> f64 {
        whole
    }
}

impl Measure for f64 {
    fn seconds(self, _: f64) -> f64 {
        self
    }
}

fn time(seconds: f64) -> String {
    if seconds < 1e-3 { format!("{:.1} µs", seconds * 1e6) } else { format!("{:.2} ms", seconds * 1e3) }
}
