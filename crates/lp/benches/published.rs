//! The two programs of OEF and CEEI beside what the published systems solve them with, on the same instance in the same
//! run: Clarabel (Rust, the whole program, writing it included) and cvxpy on top of ECOS (Python, building it included).
//!
//!     cargo bench -p arles-lp --bench published -- --python python3
//!
//! where that Python has cvxpy and ecos (`pip install cvxpy ecos`); without `--python` that column is empty. Ours is the
//! median of several whole solves, certificate included; the rivals are solved once. All answers are compared.

use arles_lp::families::{Family, Instance, Recipe};
use arles_lp::maxmin::{General, MaxMin};
use arles_lp::{Budget, Clarabel, Model, ModelError, Solver, envy, market};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Program {
    EqualLevel,
    Nash,
    EnvyFree,
}

/// Program, users, resources, and whether Clarabel, then ECOS, ends in reasonable time.
const ROWS: [(Program, usize, usize, bool, bool); 14] = [
    (Program::EqualLevel, 50, 3, true, true),
    (Program::EqualLevel, 200, 5, true, true),
    (Program::EqualLevel, 1_000, 10, true, true),
    (Program::EqualLevel, 10_000, 10, true, true),
    (Program::EqualLevel, 1_000_000, 10, false, false),
    (Program::Nash, 50, 3, false, true),
    (Program::Nash, 200, 5, false, true),
    (Program::Nash, 1_000, 10, false, true),
    (Program::EnvyFree, 20, 3, true, true),
    (Program::EnvyFree, 50, 3, true, true),
    (Program::EnvyFree, 100, 5, true, true),
    (Program::EnvyFree, 200, 5, true, true),
    (Program::EnvyFree, 1_000, 3, false, false),
    (Program::EnvyFree, 1_000, 10, false, false),
];

struct Solved {
    seconds: f64,
    objective: f64,
}

fn main() {
    let mut arguments = std::env::args().skip_while(|a| a != "--python").skip(1);
    let python = arguments.next();
    println!(
        "program             n   k        ours       gap     Clarabel   ratio   cvxpy+ECOS   ratio  answers agree to"
    );
    for (program, users, resources, clarabel, ecos) in ROWS {
        let recipe = Recipe { family: Family::Rand, users, resources, load: 0.1, uncapped: 1.0, spread: 0.0, seed: 1 };
        let mut instance = Instance::new(&recipe);
        instance.beta = (0..users).map(|l| 1.0 + ((l * 7 + l / 3) % 4) as f64).collect();
        let (ours, gap) = ours(program, &instance);
        let clarabel = clarabel.then(|| by_clarabel(program, &instance)).flatten();
        let ecos = python.as_ref().filter(|_| ecos).and_then(|python| by_ecos(python, program, &instance));
        print!("{:11} {users:9} {resources:3} {:>11} {gap:9.0e}", format!("{program:?}"), time(ours.seconds));
        for rival in [&clarabel, &ecos] {
            match rival {
                Some(rival) => print!(" {:>12} {:6.0}x", time(rival.seconds), rival.seconds / ours.seconds),
                None => print!(" {:>12} {:>7}", "-", "-"),
            }
        }
        let distance = |rival: &Solved| (rival.objective / ours.objective - 1.0).abs();
        let worst = [&clarabel, &ecos].into_iter().flatten().map(distance).fold(f64::NAN, f64::max);
        println!("  {:>9}", if worst.is_nan() { "-".to_owned() } else { format!("{worst:.0e}") });
    }
}

/// Our answer and its certified gap.
fn ours(program: Program, instance: &Instance) -> (Solved, f64) {
    let Instance { w, beta, capacity, .. } = instance;
    let asked = market::Market { w, weight: beta, capacity };
    let repetitions = (3_000_000 / w.len()).clamp(3, 501);
    let mut workspace = market::Workspace::new();
    let (mut objective, mut gap) = (0.0, 0.0);
    let seconds = median(repetitions, || match program {
        Program::EqualLevel => {
            let level = workspace.equal_level(&asked, None, market::STEPS).expect("a good question");
            (objective, gap) = (level.t, level.bound.gap());
        }
        Program::Nash => {
            let equilibrium = workspace.equilibrium(&asked, None, market::STEPS).expect("a good question");
            let spread = equilibrium.welfare.upper - equilibrium.welfare.lower;
            (objective, gap) = (equilibrium.welfare.lower, spread);
        }
        Program::EnvyFree => {
            let asked = envy::EnvyFree { w, weight: beta, capacity };
            let division = envy::solve(&asked, envy::PIVOTS).expect("a good question");
            (objective, gap) = (division.objective, division.bound.gap());
        }
    });
    (Solved { seconds, objective }, gap)
}

fn by_clarabel(program: Program, instance: &Instance) -> Option<Solved> {
    let Instance { w, beta, caps, capacity } = instance;
    let start = Instant::now();
    let objective = match program {
        Program::EqualLevel => {
            let asked = MaxMin { w, beta, caps, capacity };
            General::new(&asked).ok()?.solve(&asked, &Clarabel, Budget::default()).t
        }
        Program::EnvyFree => Clarabel.solve(&all_rows(instance).ok()?, Budget::default()).objective,
        Program::Nash => return None,
    };
    Some(Solved { seconds: start.elapsed().as_secs_f64(), objective })
}

/// The envy-free program with all its rows.
fn all_rows(instance: &Instance) -> Result<Model, ModelError> {
    let Instance { w, beta, capacity, .. } = instance;
    let (n, k) = (beta.len(), capacity.len());
    let mut model = Model::maximise();
    let mut x = Vec::with_capacity(n * k);
    for &rate in w {
        x.push(model.add_column(0.0, f64::INFINITY, rate)?);
    }
    for (j, &m) in capacity.iter().enumerate() {
        let row: Vec<_> = (0..n).map(|l| (x[l * k + j], 1.0)).collect();
        model.add_row(f64::NEG_INFINITY, m, &row)?;
    }
    for l in 0..n {
        for i in (0..n).filter(|&i| i != l) {
            let own = (0..k).map(|j| (x[l * k + j], w[l * k + j] / beta[l]));
            let other = (0..k).map(|j| (x[i * k + j], -w[l * k + j] / beta[i]));
            let row: Vec<_> = own.chain(other).collect();
            model.add_row(0.0, f64::INFINITY, &row)?;
        }
    }
    Ok(model)
}

/// Asks `published.py`; `None`, with a word on stderr, where it has no answer.
fn by_ecos(python: &str, program: Program, instance: &Instance) -> Option<Solved> {
    let name = match program {
        Program::EqualLevel => "equal-level",
        Program::Nash => "nash",
        Program::EnvyFree => "envy-free",
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/published.py");
    let mut child = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.take()?.write_all(question(name, instance).as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |key: &str| {
        let from = text.find(&format!("\"{key}\": "))? + key.len() + 4;
        text[from..].split([',', '}']).next()?.trim().parse::<f64>().ok()
    };
    let (Some(seconds), Some(objective)) = (number("seconds"), number("objective")) else {
        eprintln!("{python} {script} gave no answer to {name}: {text}");
        return None;
    };
    // Ours are a level per weight and a mean logarithm; the script's are the sums.
    let weights: f64 = instance.beta.iter().sum();
    let objective = if program == Program::EnvyFree { objective } else { objective / weights };
    Some(Solved { seconds, objective })
}

fn question(program: &str, instance: &Instance) -> String {
    let list = |numbers: &[f64]| {
        let numbers: Vec<String> = numbers.iter().map(|v| format!("{v:e}")).collect();
        format!("[{}]", numbers.join(","))
    };
    let rows: Vec<String> = instance.w.chunks(instance.capacity.len()).map(list).collect();
    let (weight, capacity) = (list(&instance.beta), list(&instance.capacity));
    format!("{{\"program\":\"{program}\",\"w\":[{}],\"weight\":{weight},\"capacity\":{capacity}}}", rows.join(","))
}

/// The median time of one call, in seconds.
fn median(repetitions: usize, mut call: impl FnMut()) -> f64 {
    let began = Instant::now();
    let mut seconds = Vec::new();
    while seconds.is_empty() || (seconds.len() < repetitions && began.elapsed().as_secs_f64() < 5.0) {
        let start = Instant::now();
        call();
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
