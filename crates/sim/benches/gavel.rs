//! arles beside Gavel's own simulator, on the same traces in the same run: completion times, CPU and their ratios.
//!
//! `cargo bench -p arles-sim --bench gavel -- --python PYTHON --gavel FOLDER [--between SECONDS] [--paid] [--only TEXT] [--trace FILE --cluster V:P:K]`
//!
//! PYTHON has cvxpy and ecos (`pip install cvxpy ecos matplotlib pandas psutil`), FOLDER is a checkout of Gavel's repository. `--between` is the least
//! time between two of Gavel's solves (1920, its default; 0 for every round, as arles does), `--paid` has its
//! round mechanism pay what it owes (`gavel/drive.py` says how), `--only` picks rows by a part of their trace or policy, and `--trace` with
//! `--cluster` runs another trace than the three beside the checkout. The two take turns: arles, Gavel, arles, each alone on its thread; CPU
//! of Gavel counts from when its modules are loaded.

#[path = "../tests/support/gavel.rs"]
mod gavel;

use gavel::{Setting, cpu_seconds_so_far};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs of ours before and after each of Gavel's.
const RUNS: usize = 5;
/// Our name of a policy, and Gavel's.
const POLICIES: [(&str, &str); 4] = [
    ("fifo", "fifo_perf"),
    ("max-min-agnostic", "max_min_fairness"),
    ("max-min-fairness", "max_min_fairness_perf"),
    ("finish-time-fairness", "finish_time_fairness_perf"),
];
/// Gavel's does not end on gangs of different sizes.
const PACKED: (&str, &str) = ("max-min-packed", "max_min_fairness_packed");

struct Arguments {
    python: String,
    gavel: PathBuf,
    between: String,
    paid: bool,
    only: Option<String>,
    trace: Option<(PathBuf, [u32; 3])>,
}

impl Arguments {
    fn read() -> Result<Self, String> {
        let given: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
        let value = |name: &str| {
            let at = given.iter().position(|argument| argument == name)?;
            given.get(at + 1).cloned()
        };
        let needed =
            |name: &str| value(name).ok_or(format!("{name} is missing: give it, or see the head of this bench"));
        let cluster = match value("--cluster") {
            Some(text) => Some(counts(&text).ok_or(format!("--cluster {text}: expected three counts, as 36:36:36"))?),
            None => None,
        };
        Ok(Self {
            python: needed("--python")?,
            gavel: needed("--gavel")?.into(),
            between: value("--between").unwrap_or_else(|| "1920".into()),
            paid: given.iter().any(|argument| argument == "--paid"),
            only: value("--only"),
            trace: value("--trace").map(|path| (path.into(), cluster.unwrap_or([36; 3]))),
        })
    }
}

fn counts(text: &str) -> Option<[u32; 3]> {
    let counts: Vec<u32> = text.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    counts.try_into().ok()
}

fn main() -> ExitCode {
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("skipped: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let Some(folder) = gavel::folder() else { return ExitCode::SUCCESS };
    println!(
        "{:<12} {:<21} {:>10} {:>10} {:>7} {:>9} {:>9} {:>6}",
        "trace", "policy", "arles JCT", "Gavel JCT", "differ", "arles CPU", "Gavel CPU", "ratio"
    );
    let traces = match &arguments.trace {
        Some(trace) => vec![trace.clone()],
        None => ["single-400", "multi-300", "gangs-500"]
            .map(|name| (folder.join(format!("anchor/{name}.trace")), [36; 3]))
            .to_vec(),
    };
    for (trace, counts) in &traces {
        let name = trace.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let packed = if name.starts_with("single") { Some(PACKED) } else { None };
        for (ours, theirs) in POLICIES.into_iter().chain(packed) {
            let picked = |only: &String| name.contains(only.as_str()) || ours.contains(only.as_str());
            if arguments.only.as_ref().is_none_or(picked) {
                compare(&arguments, &folder, &name, trace, *counts, (ours, theirs));
            }
        }
    }
    ExitCode::SUCCESS
}

fn compare(arguments: &Arguments, folder: &Path, name: &str, trace: &Path, counts: [u32; 3], policies: (&str, &str)) {
    let (ours, theirs) = policies;
    let setting = Setting { folder, trace, counts, policy: ours, round_seconds: 360.0 };
    let mut cpu = Vec::new();
    let mut run = || {
        let mut jct = 0.0;
        for _ in 0..RUNS {
            let begin = cpu_seconds_so_far();
            jct = gavel::run(&setting).mean_jct_seconds;
            cpu.push(cpu_seconds_so_far() - begin);
        }
        jct
    };
    run();
    let peer = peer(arguments, folder, trace, counts, theirs);
    let jct = run();
    let cpu = cpu.iter().sum::<f64>() / cpu.len() as f64;
    match peer {
        Ok((their_jct, their_cpu)) => println!(
            "{name:<12} {ours:<21} {jct:>9.0}s {their_jct:>9.0}s {:>+6.1}% {:>7.1}ms {their_cpu:>8.2}s {:>5.0}x",
            100.0 * (jct / their_jct - 1.0),
            cpu * 1e3,
            their_cpu / cpu,
        ),
        Err(why) => println!("{name:<12} {ours:<21} {jct:>9.0}s {why:>10} {:>7} {:>7.1}ms", "", cpu * 1e3),
    }
}

/// Mean completion time and CPU of Gavel's simulator, in seconds.
fn peer(
    arguments: &Arguments,
    folder: &Path,
    trace: &Path,
    counts: [u32; 3],
    policy: &str,
) -> Result<(f64, f64), String> {
    let cluster = counts.map(|count| count.to_string()).join(":");
    let output = Command::new(&arguments.python)
        .args(["-c", include_str!("gavel/drive.py")])
        .args([&arguments.gavel, trace, Path::new(policy), &folder.join("simulation_throughputs.json")])
        .args([&cluster, &arguments.between])
        .args(arguments.paid.then_some("paid"))
        .output()
        .map_err(|error| format!("no: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = printed.lines().last().unwrap_or_default().split_whitespace().collect();
    match words[..] {
        ["jct", jct, "cpu", cpu] => jct.parse().ok().zip(cpu.parse().ok()).ok_or_else(|| "no number".into()),
        _ => Err("failed".into()),
    }
}
