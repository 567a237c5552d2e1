//! Units in several ways: time, iterations and gap of the market with a limit, of floors, of floors without envy and of thrift alone, by size;
//! beside the general solver on the floors' program, in the same run.
//!
//! `cargo bench -p arles-lp --bench ways` for all of it, `-- 1000` for up to 1,000 users, `-- sweep` for twenty sacrifices one after the other, `-- near` for
//! the search near the least draw without envy alone, seeds 1 to 5; `seed=2` for other numbers. Times are the processor's, of one run each, one after the other.

use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::ways::{
    Envious, Limit, NearWorkspace, Nearly, TURNS, Ways, equal_incomes, least_draw, least_draw_without_envy,
    nearly_least_draw_without_envy, thrift,
};
use arles_lp::{Budget, Clarabel, Model, Solver};

const SIZES: [(usize, usize); 6] = [(50, 5), (100, 5), (200, 5), (1_000, 3), (1_000, 10), (10_000, 10)];
/// Ways of each resource: what is left of the draw.
const MODES: [f64; 4] = [1.0, 0.75, 0.6, 0.45];
const EPSILON: f64 = 0.05;
/// Beyond this the general solver takes minutes.
const GENERAL: usize = 1_000;
/// Beyond this many users nobody waits for the last row.
const ENVY: usize = 200;
/// The gap at which the search near the least draw without envy stops.
const NEAR: f64 = 0.01;
/// Seeds that it is looked at on.
const SEEDS: u64 = 5;
const PIVOTS: Budget = Budget::iterations(60_000);

fn main() {
    let most = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(usize::MAX);
    if std::env::args().any(|a| a == "sweep") {
        return SIZES
            .into_iter()
            .filter(|size| (ENVY..=GENERAL.min(most)).contains(&size.0))
            .for_each(|(n, k)| sweep(n, k));
    }
    if std::env::args().any(|a| a == "near") {
        return SIZES.into_iter().filter(|size| size.0 <= most).for_each(|(n, k)| near(n, k));
    }
    println!(
        "     n   k  modes | market, 70 %  its      gap | floors, 5 %  its      gap  saves | Clarabel  ratio | thrift  saves | near    turns   gap  saves | no envy  saves"
    );
    for (n, k) in SIZES.into_iter().filter(|size| size.0 <= most) {
        row(n, k);
    }
}

/// Near the least draw without envy at many sacrifices, each going on from the others: ends first, then what lies between.
fn sweep(n: usize, k: usize) {
    let sample = Sample::new(n, k, seed());
    let problem = sample.ways();
    let (fair, _) = sample.fair();
    let best: Vec<f64> = (0..n).flat_map(|l| problem.best_rates(l)).collect();
    let equal: Vec<f64> = (0..n).map(|l| (0..k).map(|j| best[l * k + j] * fair[l * k + j]).sum()).collect();
    let mut workspace = NearWorkspace::default();
    let (mut all, mut first) = (0.0, 0.0);
    println!("{n:>6} {k:>3}: epsilon  turns      gap   seconds |  alone      gap   seconds    draws more");
    for (at, i) in [1, 20, 10, 5, 15, 3, 8, 13, 18, 2, 4, 6, 7, 9, 11, 12, 14, 16, 17, 19].into_iter().enumerate() {
        let epsilon = 0.015 * f64::from(i);
        let floors: Vec<f64> = equal.iter().map(|f| f * (1.0 - epsilon)).collect();
        let asked = Nearly { floors: &floors, part: 1.0 - epsilon, units: &fair, gap: NEAR };
        let (near, seconds) = timed(|| workspace.solve(&problem, &asked, TURNS).expect("sound"));
        let (cold, alone) = timed(|| nearly_least_draw_without_envy(&problem, &asked, TURNS).expect("sound"));
        print!("            {epsilon:>7.3} {:>6} {:>7.2}% {seconds:>9.3}", near.turns, 100.0 * near.bound.gap());
        let more = near.bound.upper / cold.bound.upper - 1.0;
        println!(" | {:>6} {:>7.2}% {alone:>9.3} {:>7.2}%", cold.turns, 100.0 * cold.bound.gap(), 100.0 * more);
        *if at == 0 { &mut first } else { &mut all } += seconds;
    }
    println!("            first {first:.3} s, the others {all:.3} s");
}

/// The search alone, on several seeds.
fn near(n: usize, k: usize) {
    for seed in 1..=SEEDS {
        let sample = Sample::new(n, k, seed);
        let problem = sample.ways();
        let (fair, drawn) = sample.fair();
        let best: Vec<f64> = (0..n).flat_map(|l| problem.best_rates(l)).collect();
        let speed = |l: usize| (0..k).map(|j| best[l * k + j] * fair[l * k + j]).sum::<f64>();
        let floors: Vec<f64> = (0..n).map(|l| (1.0 - EPSILON) * speed(l)).collect();
        let asked = Nearly { floors: &floors, part: 1.0 - EPSILON, units: &fair, gap: NEAR };
        let (near, seconds) = timed(|| nearly_least_draw_without_envy(&problem, &asked, TURNS).expect("sound"));
        let (gap, saved) = (100.0 * near.bound.gap(), 100.0 * (1.0 - near.bound.upper / drawn));
        let most = 100.0 * (1.0 - near.bound.lower / drawn);
        println!(
            "{n:>6} {k:>3} seed {seed}: {seconds:>6.3} s {:>3} turns, gap {gap:>5.2}%, saves {saved:>5.2}% of {most:>5.2}%",
            near.turns
        );
    }
}

/// The seed that was asked for.
fn seed() -> u64 {
    std::env::args().find_map(|a| a.strip_prefix("seed=")?.parse().ok()).unwrap_or(1)
}

struct Sample {
    w: Vec<f64>,
    draw: Vec<f64>,
    resource: Vec<usize>,
    weight: Vec<f64>,
    caps: Vec<f64>,
    capacity: Vec<f64>,
}

impl Sample {
    /// Rates rise with draw to a power between 0.2 and 0.8, another for every user and resource.
    fn new(n: usize, k: usize, seed: u64) -> Self {
        let recipe =
            Recipe { family: Family::Mixed, users: n, resources: k, load: 1.0, uncapped: 1.0, spread: 0.0, seed };
        let instance = Instance::new(&recipe);
        let (mut w, mut draw) = (Vec::new(), Vec::new());
        for (at, rate) in instance.w.iter().enumerate() {
            let (l, j) = (at / k, at % k);
            let bend = 0.2 + 0.6 * ((l * 7919 + j * 104_729) % 1000) as f64 / 1000.0;
            let watts = (150.0 + 60.0 * j as f64) * (0.6 + 0.4 * ((l * 31 + j) % 97) as f64 / 97.0);
            for part in MODES {
                w.push(rate * part.powf(bend));
                draw.push(watts * part);
            }
        }
        let resource = (0..k * MODES.len()).map(|a| a / MODES.len()).collect();
        let weight = (0..n).map(|l| 1.0 + (l * 7 % 4) as f64).collect();
        Self { w, draw, resource, weight, caps: vec![f64::INFINITY; n], capacity: instance.capacity }
    }

    fn ways(&self) -> Ways<'_> {
        let Self { w, draw, resource, weight, caps, capacity } = self;
        Ways { w, draw, resource, weight, caps, capacity }
    }

    /// The division to start from, the market in everybody's best ways, and what it draws.
    fn fair(&self) -> (Vec<f64>, f64) {
        let problem = self.ways();
        let best: Vec<f64> = (0..problem.users()).flat_map(|l| problem.best_rates(l)).collect();
        let full: Vec<f64> = self.draw.chunks(MODES.len()).map(|p| p[0]).collect();
        let each: Vec<usize> = (0..problem.capacity.len()).collect();
        let plain = Ways { w: &best, draw: &full, resource: &each, ..problem };
        let fair = equal_incomes(&plain, &[], Budget::default()).expect("a sound problem");
        let drawn = fair.x.iter().zip(&full).map(|(x, p)| x * p).sum();
        (fair.x, drawn)
    }
}

/// The processor's seconds of this thread, which do not depend on what else the machine does; the clock's where nobody counts them.
fn seconds() -> f64 {
    let own = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = own.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let clock = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64());
    nanoseconds.map_or_else(clock, |nanoseconds| 1e-9 * nanoseconds)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let from = seconds();
    let done = work();
    (done, seconds() - from)
}

fn row(n: usize, k: usize) {
    let sample = Sample::new(n, k, seed());
    let problem = sample.ways();
    let ways = problem.ways();
    let best: Vec<f64> = (0..n).flat_map(|l| problem.best_rates(l)).collect();
    let (fair, drawn) = sample.fair();
    let utility = |l: usize| (0..k).map(|j| best[l * k + j] * fair[l * k + j]).sum::<f64>();
    let floors: Vec<f64> = (0..n).map(|l| (1.0 - EPSILON) * utility(l)).collect();
    let limits = [Limit { most: 0.7 * drawn, resources: (0..k).collect() }];
    let (market, market_s) = timed(|| equal_incomes(&problem, &limits, Budget::default()).expect("sound"));
    let (floor, floor_s) = timed(|| least_draw(&problem, &[], &floors, Budget::default()).expect("sound"));
    let (known, thrift_s) =
        timed(|| (0..n).flat_map(|l| thrift(&problem, l, &fair[l * k..][..k], floors[l])).collect::<Vec<f64>>());
    let saves = |draw: f64| 100.0 * (1.0 - draw / drawn);
    let thrifty: f64 = known.iter().zip(&sample.draw).map(|(x, p)| x * p).sum();
    print!(
        "{n:>6} {k:>3} {:>6} | {market_s:>9.4} s {:>7} {:>8.0e}",
        MODES.len(),
        market.iterations,
        market.welfare.width()
    );
    print!(" | {floor_s:>8.4} s {:>5} {:>8.0e} {:>5.1}%", floor.iterations, floor.bound.gap(), saves(floor.draw));
    if n <= GENERAL {
        let (found, seconds) = timed(|| general(&problem, &floors));
        assert!((found - floor.draw).abs() <= 1e-4 * found, "{found} against {}", floor.draw);
        print!(" | {seconds:>6.2} s {:>5.0}x", seconds / floor_s);
    } else {
        print!(" |        -      -");
    }
    print!(" | {:>5.1} ms {:>4.1}%", 1e3 * thrift_s, saves(thrifty));
    if n <= GENERAL {
        let asked = Nearly { floors: &floors, part: 1.0 - EPSILON, units: &fair, gap: NEAR };
        let (near, seconds) = timed(|| nearly_least_draw_without_envy(&problem, &asked, TURNS).expect("sound"));
        let (gap, saved) = (100.0 * near.bound.gap(), saves(near.bound.upper));
        print!(" | {seconds:>5.2} s {:>5} {gap:>4.2}% {saved:>4.1}%", near.turns);
    } else {
        print!(" |       -     -     -     -");
    }
    if n <= ENVY {
        let asked = Envious { floors: &floors, part: 1.0 - EPSILON, rents: &[], together: &[], known: &known };
        let (envy, seconds) = timed(|| least_draw_without_envy(&problem, &asked, PIVOTS));
        match envy {
            Some(envy) => println!(" | {seconds:>5.2} s {:>4.1}%", saves(envy.draw)),
            None => println!(" | {seconds:>5.2} s     -"),
        }
    } else {
        println!(" |       -     -");
    }
    assert_eq!(known.len(), n * ways);
}

/// The floors' program, for the general solver.
fn general(problem: &Ways<'_>, floors: &[f64]) -> f64 {
    let mut model = Model::minimise();
    let unit = problem.draw.iter().copied().fold(0.0, f64::max);
    let mut resources = vec![Vec::new(); problem.capacity.len()];
    for (l, &floor) in floors.iter().enumerate() {
        let mut own = Vec::with_capacity(problem.ways());
        for (_, j, w, p) in problem.useful(l) {
            let column = model.add_column(0.0, f64::INFINITY, p / unit).expect("finite");
            own.push((column, w));
            resources[j].push((column, 1.0));
        }
        model.add_row(floor, f64::INFINITY, &own).expect("finite");
    }
    for (terms, &m) in resources.iter().zip(problem.capacity) {
        model.add_row(f64::NEG_INFINITY, m, terms).expect("finite");
    }
    Clarabel.solve(&model, Budget::default()).objective * unit
}
