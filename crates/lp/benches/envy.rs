//! Envy-free optima: time, size and gap by family and number of users; against the general solver on the whole program
//! where that ends within patience; again from the last answer after one user in a hundred changed.
//!
//! `cargo bench -p arles-lp --bench envy` for all of it, `-- 500 1000` for 500 to 1,000 users only, `-- 500 1000 Zeros` for one family of them. Clarabel's time
//! includes writing the model. All times are of one run each, on the same instance, one after the other: the processor's, where the
//! system says what that is.

use arles_lp::envy::{self, EnvyFree, PIVOTS, Solution};
use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::{Budget, Clarabel, Model, Solver};
use std::time::Instant;

const SIZES: [(usize, usize); 8] =
    [(50, 3), (100, 5), (200, 5), (1_000, 2), (500, 3), (1_000, 3), (500, 10), (1_000, 10)];
/// The whole program has n² rows; beyond this many users one solve takes minutes, and beyond half as many it is
/// asked of one family only.
const GENERAL: usize = 200;
/// Sizes at which the search is cut short, and the bound is by relays.
const CROWDS: [(usize, usize); 4] = [(2_500, 3), (5_000, 3), (10_000, 3), (10_000, 10)];
/// Pivots for sizes at which nobody waits for the optimum.
const ANYTIME: Budget = Budget::iterations(10_000);
/// Seconds below which the system's count of the processor's is too coarse.
const COUNTED: f64 = 0.02;

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let wanted = numbers.first().copied().unwrap_or(0)..=numbers.get(1).copied().unwrap_or(usize::MAX);
    let families = || {
        let named = Family::ALL.into_iter().filter(|f| std::env::args().any(|arg| arg == format!("{f:?}")));
        let named: Vec<Family> = named.collect();
        if named.is_empty() { Family::ALL.to_vec() } else { named }
    };
    println!("     n   k  family      time  bundles   pivots      gap     envy     again   Clarabel    ratio");
    for (n, k) in SIZES.into_iter().filter(|s| wanted.contains(&s.0)) {
        for family in families() {
            let recipe = Recipe { family, users: n, resources: k, load: 1.0, uncapped: 1.0, spread: 0.0, seed: 1 };
            row(&format!("{family:?}"), &mut Owned::new(&recipe), PIVOTS);
        }
    }
    for (n, k) in CROWDS.into_iter().filter(|s| wanted.contains(&s.0)) {
        for family in families().into_iter().filter(|&family| family != Family::Few) {
            let recipe = Recipe { family, users: n, resources: k, load: 1.0, uncapped: 1.0, spread: 0.0, seed: 1 };
            row(&format!("{family:?}*"), &mut Owned::new(&recipe), ANYTIME);
        }
    }
    for n in [10_000, 100_000, 1_000_000].into_iter().filter(|n| wanted.contains(n)) {
        row("Kinds", &mut Owned::kinds(n, 10), PIVOTS);
    }
    println!("*: stopped after {} pivots. Kinds: users of 26 different kinds.", ANYTIME.iterations);
}

/// An instance with weights 1 to 4.
struct Owned {
    instance: Instance,
    weight: Vec<f64>,
}

impl Owned {
    fn new(recipe: &Recipe) -> Self {
        let weight = (0..recipe.users).map(|l| 1.0 + (l * 7 % 4) as f64).collect();
        Self { instance: Instance::new(recipe), weight }
    }

    /// Many users of 26 kinds.
    fn kinds(n: usize, k: usize) -> Self {
        let recipe =
            Recipe { family: Family::Rand, users: 26, resources: k, load: 1.0, uncapped: 1.0, spread: 0.0, seed: 1 };
        let mut owned = Self::new(&recipe);
        let w = &owned.instance.w;
        owned.instance.w = (0..n).flat_map(|l| w[l * 7919 % 26 * k..][..k].to_vec()).collect();
        owned.instance.caps = vec![f64::INFINITY; n];
        owned.weight = (0..n).map(|l| 1.0 + (l * 7 % 4) as f64).collect();
        owned
    }

    fn question(&self) -> EnvyFree<'_> {
        let Instance { w, capacity, .. } = &self.instance;
        EnvyFree { w, weight: &self.weight, capacity }
    }
}

fn row(family: &str, owned: &mut Owned, budget: Budget) {
    let (n, k) = (owned.weight.len(), owned.instance.capacity.len());
    let (division, seconds) = timed(|| envy::solve(&owned.question(), budget).expect("families make good questions"));
    print!("{n:6} {k:3}  {family:6} {:>10} {:7}", time(seconds), division.bundles.len() / k);
    print!(" {:8} {:8.1e} {:8.0e}", division.iterations, division.bound.gap(), division.largest_envy);
    let asked = n <= GENERAL / 2 || n <= GENERAL && family == "Rand";
    let general = asked.then(|| timed(|| general(&owned.question())).1);
    print!(" {:>10}", time(again(owned, &division, budget)));
    match general {
        Some(general) => println!(" {:>10} {:7.0}x", time(general), general / seconds),
        None => println!(),
    }
}

/// One user in a hundred becomes a little faster on one resource.
fn again(owned: &mut Owned, last: &Solution, budget: Budget) -> f64 {
    let (n, k) = (owned.weight.len(), owned.instance.capacity.len());
    for l in (0..n).step_by(100) {
        owned.instance.w[l * k + l / 100 % k] *= 1.1;
    }
    timed(|| envy::solve_again(&owned.question(), last, budget).expect("families make good questions")).1
}

/// The whole program by the general solver.
fn general(asked: &EnvyFree<'_>) {
    let (n, k) = (asked.weight.len(), asked.capacity.len());
    let mut model = Model::maximise();
    let column = |model: &mut Model, w: f64| model.add_column(0.0, if w > 0.0 { f64::INFINITY } else { 0.0 }, w);
    let columns: Vec<_> = asked.w.iter().map(|&w| column(&mut model, w).expect("rates are finite")).collect();
    for j in 0..k {
        let terms: Vec<_> = (0..n).map(|l| (columns[l * k + j], 1.0)).collect();
        model.add_row(f64::NEG_INFINITY, asked.capacity[j], &terms).expect("capacities are finite");
    }
    for (l, rates) in asked.w.chunks_exact(k).enumerate() {
        for i in (0..n).filter(|&i| i != l) {
            let own = rates.iter().enumerate().map(|(j, w)| (columns[l * k + j], w / asked.weight[l]));
            let other = rates.iter().enumerate().map(|(j, w)| (columns[i * k + j], -w / asked.weight[i]));
            let terms: Vec<_> = own.chain(other).filter(|t| t.1 != 0.0).collect();
            model.add_row(0.0, f64::INFINITY, &terms).expect("rates are finite");
        }
    }
    Clarabel.solve(&model, Budget::default());
}

/// Seconds of the processor that this thread has had, where the system says so.
fn processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds * 1e-9)
}

/// The processor's seconds for `run`; those of the clock where there are too few for the system to count.
fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let (start, busy) = (Instant::now(), processor());
    let answer = run();
    let passed = start.elapsed().as_secs_f64();
    let busy = busy.zip(processor()).map(|(from, to)| to - from);
    (answer, busy.filter(|_| passed > COUNTED).unwrap_or(passed))
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}
