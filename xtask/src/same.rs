//! `cargo xtask same BEFORE AFTER`: the same commands with two binaries, each in a folder of its own, compared byte by byte: exit
//! code, stdout, stderr and every file that was written. It shows that a change changed nothing, or what it changed.
//!
//! What may differ by rule, and is made equal before comparing (`outcome.rs`):
//! - the value of `"wall_seconds"` in JSON, which is CPU time;
//! - the path of the folder, and the port of the daemon;
//! - the bytes of SQLite files: what is in them is compared by the commands that read them.
//!
//! A daemon runs on the wall's clock, so of most of its answers only the shape is compared ([`Compare::Shape`]): the keys of
//! objects and the types of values, where `null` and an empty list fit any type.
//!
//! An expected difference is listed in the file of `--expect`, a line `command-name: reason` each; the reason is printed.

mod daemon;
mod inputs;
mod json;
mod outcome;

use outcome::{Binary, Outcome};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) const USAGE: &str = "cargo xtask same BEFORE AFTER [--scratch DIR] [--expect FILE]";

/// How two outcomes are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compare {
    /// To the byte.
    Exact,
    /// Keys and types of the JSON on stdout; the exit code.
    Shape,
    /// The first line of stdout, which heads a CSV; the exit code.
    Header,
}

/// One command.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// The words after `arles`; quotes keep words together, `{shared}` is the data beside the checkout.
    line: &'static str,
    compare: Compare,
}

const fn exact(name: &'static str, line: &'static str) -> Case {
    Case { name, line, compare: Compare::Exact }
}

const fn shape(name: &'static str, line: &'static str) -> Case {
    Case { name, line, compare: Compare::Shape }
}

const fn header(name: &'static str, line: &'static str) -> Case {
    Case { name, line, compare: Compare::Header }
}

/// Commands that need no daemon, in order: later ones read what earlier ones wrote. `inputs.rs` has the files they begin with.
const CASES: &[Case] = &[
    exact(
        "simulate-table",
        "simulate --trace trace.csv --cluster v100:2,k80:2 --gpus-per-node 2 --policy fifo --round 1m",
    ),
    exact("simulate-json", "simulate --generate jobs=80,load=0.8 --cluster v100:8,k80:8 --policy all -o json --seed 3"),
    exact("simulate-csv", "simulate --generate jobs=80,load=1.2 --policy oef-coop,max-min-fairness,gogh -o csv"),
    exact("simulate-jobs-csv", "simulate --generate jobs=60 --policy las,fifo-packed --jobs-csv jobs.csv -o csv"),
    exact("simulate-report", "simulate --generate jobs=60 --policy fifo,oef-noncoop --report report.html"),
    exact("simulate-journal", "simulate --generate jobs=50 --policy max-min-fairness --journal run.jsonl -o json"),
    exact("simulate-journal-packed", "simulate --generate jobs=40 --policy gogh --journal gogh.jsonl -o json"),
    exact("simulate-learned", "simulate --generate jobs=60 --policy gogh --estimator learned --deviation 0.2 -o json"),
    exact(
        "simulate-mean",
        "simulate --generate jobs=60 --policy oef-coop --estimator mean --noise 0.1 --deviation 0.2 -o json",
    ),
    exact("simulate-nearest", "simulate --generate jobs=60 --policy fifo --estimator nearest --deviation 0.3 -o csv"),
    exact("simulate-model", "simulate --generate jobs=60 --policy allox,sia --estimator model --deviation 0.1 -o json"),
    exact(
        "simulate-outage",
        "simulate --generate jobs=60 --policy las --cluster v100:8,k80:8 --fail v100-000@1h..3h -o json",
    ),
    exact("simulate-off", "simulate --generate jobs=60 --policy energy-greedy --unused off -o json"),
    exact(
        "simulate-times",
        "simulate --generate jobs=40 --policy las --round 2m --restart 90s --checkpoint 20s --checkpoint-every 10m -o json",
    ),
    exact("simulate-config", "simulate --config config.toml -o json"),
    exact(
        "simulate-gavel",
        "simulate --trace {shared}/data/gavel/anchor/single-400.trace --rates {shared}/data/gavel/simulation_throughputs.json \
         --cluster v100:36,p100:36,k80:36 --gpus-per-node 4 --round 360s --policy max-min-fairness,fifo -o json",
    ),
    exact("replay", "replay run.jsonl"),
    exact("replay-events", "replay run.jsonl --events -o json"),
    exact("replay-queue", "replay gogh.jsonl --queue-at 5h"),
    exact("compare-table", "compare --generate jobs=60,load=1 --policy fifo,max-min-fairness --seeds 3"),
    exact("compare-json", "compare --generate jobs=60 --policy oef-coop,gandiva-fair --baseline las --seeds 2 -o json"),
    exact(
        "compare-csv",
        "compare --generate jobs=40 --policy ceei --seeds 2 -o csv --jobs-csv compared.csv --report compared.html",
    ),
    exact("demo-config", "demo --print-config"),
    exact("allocate-default", "allocate question.json"),
    exact("allocate-explain", "allocate question.json -o table --explain"),
    exact("allocate-csv-question", "allocate users.csv -o table --explain=eve,bob"),
    exact("allocate-csv", "allocate users.csv -o csv --policy oef-coop"),
    exact("allocate-gpus", "allocate bare.csv --gpus v100:4,k80:2 --policy ceei"),
    exact("allocate-oef-coop", "allocate question.json --policy oef-coop"),
    exact("allocate-oef-noncoop", "allocate question.json --policy oef-noncoop"),
    exact("allocate-gandiva", "allocate users.csv --policy gandiva-fair"),
    exact("allocate-packed", "allocate users.csv --policy max-min-packed"),
    exact("allocate-agnostic", "allocate users.csv --policy max-min-agnostic"),
    exact("allocate-finish-time", "allocate users.csv --policy finish-time-fairness"),
    exact("allocate-makespan", "allocate users.csv --policy min-makespan"),
    exact("allocate-throughput", "allocate users.csv --policy max-throughput"),
    exact("allocate-cost", "allocate users.csv --policy min-cost"),
    exact("allocate-gogh", "allocate users.csv --policy gogh"),
    exact("allocate-greedy", "allocate users.csv --policy energy-greedy -o table"),
    exact("allocate-allox", "allocate users.csv --policy allox"),
    exact("allocate-sia", "allocate users.csv --policy sia"),
    exact("allocate-las", "allocate users.csv --policy las"),
    exact("allocate-fifo", "allocate users.csv --policy fifo -o csv"),
    exact(
        "reproduce-oef",
        "reproduce oef --quick --only examples,properties,throughput,gangs,robustness -o json --html oef.html",
    ),
    exact("reproduce-oef-lying", "reproduce oef --quick --only lying,completion -o csv --markdown oef.md"),
    exact("reproduce-gogh", "reproduce gogh --quick --only estimates,energy -o json --html gogh.html"),
    exact("generate", "generate jobs=200 load=0.7 --seed 5"),
    exact("generate-file", "generate jobs=50 --cluster v100:4,a100:4 -o generated.csv"),
    exact("import-own", "import generated.csv --tenants round-robin:3 -o dealt.csv"),
    exact("import-gavel", "import {shared}/data/gavel/anchor/multi-300.trace --tenants seeded:4 --seed 2"),
    exact("policies", "policies"),
    exact("policies-json", "policies -o json"),
    exact("kinds", "kinds"),
    exact("kinds-csv", "kinds -o csv"),
    exact("kind", "kinds Tesla-V100-SXM2-16GB"),
    exact("workloads-json", "workloads -o json"),
    exact("workload", "workloads resnet50-b64 --kind a100 --gang 2"),
    exact("estimators", "estimators -o json"),
    exact("estimate", "estimate --workload lm-b20 --beside resnet50-b32 --rates rates.json --kind v100,k80 -o json"),
    exact("estimate-gang", "estimate --workload bert-base-b32 --gang 4 --kind v100,a100 --estimator model"),
    exact(
        "learn-eval",
        "learn eval --rates {shared}/data/gavel/simulation_throughputs.json --split leave-family-out --observe 0,1 --estimators mean,nearest,completion,model -o json",
    ),
    exact("catalog-import", "catalog import rates.json --at 2026-11-14 --catalog c.sqlite"),
    exact("catalog-list", "catalog list --as-of 2026-11-15 --catalog c.sqlite"),
    exact("catalog-show", "catalog show lm-b5 --as-of 2026-11-15 -o json --catalog c.sqlite"),
    exact("catalog-export", "catalog export -o cells.csv --catalog c.sqlite"),
    exact("catalog-export-json", "catalog export --format json --catalog c.sqlite"),
    exact("estimate-catalog", "estimate --workload lm-b5 --catalog c.sqlite --estimator nearest -o csv"),
    exact("check-model", "check-model --rates {shared}/data/gavel/simulation_throughputs.json -o json"),
    exact("check-config-default", "check-config --default"),
    exact("check-config", "check-config config.toml"),
    exact("wrong-policy", "simulate --policy max-min-fairnes"),
    exact("wrong-cluster", "simulate --cluster v100:0 --policy fifo"),
    exact("wrong-file", "simulate --trace missing.csv"),
    exact("wrong-line", "simulate --trace broken.csv --policy fifo"),
    exact("wrong-config", "check-config broken.toml"),
    exact("wrong-question", "allocate broken.json"),
    exact("wrong-journal", "replay trace.csv"),
    exact("wrong-key", "generate jobz=3"),
    exact("wrong-flag", "queue --nothing"),
    exact("wrong-server", "queue --server http://127.0.0.1:1"),
];

/// What the file of `--expect` says: names with reasons.
type Expected = BTreeMap<String, String>;

struct Arguments {
    before: PathBuf,
    after: PathBuf,
    scratch: PathBuf,
    expected: Expected,
}

fn arguments(args: &[String]) -> Result<Arguments, String> {
    let (mut binaries, mut scratch, mut expected) = (Vec::new(), None, Expected::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value; usage: {USAGE}"));
        match arg.as_str() {
            "--scratch" => scratch = Some(PathBuf::from(value()?)),
            "--expect" => expected = read_expected(Path::new(value()?))?,
            flag if flag.starts_with('-') => return Err(format!("'{flag}' is not an option; usage: {USAGE}")),
            binary => binaries.push(PathBuf::from(binary)),
        }
    }
    let [before, after] =
        <[PathBuf; 2]>::try_from(binaries).map_err(|_| format!("two binaries are needed; usage: {USAGE}"))?;
    let whole = |path: PathBuf| path.canonicalize().map_err(|e| format!("cannot find {}: {e}", path.display()));
    let scratch = scratch.unwrap_or_else(|| std::env::temp_dir().join(format!("arles-same-{}", std::process::id())));
    Ok(Arguments { before: whole(before)?, after: whole(after)?, scratch, expected })
}

fn read_expected(path: &Path) -> Result<Expected, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    parse_expected(&text).map_err(|line| format!("{}: '{line}' is not 'command-name: reason'", path.display()))
}

fn parse_expected(text: &str) -> Result<Expected, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, reason) = line.split_once(':').filter(|(_, reason)| !reason.trim().is_empty()).ok_or(line)?;
            Ok((name.trim().to_owned(), reason.trim().to_owned()))
        })
        .collect()
}

/// Lines printed so far, by verdict.
#[derive(Default)]
struct Report {
    same: usize,
    expected: usize,
    skipped: usize,
    different: Vec<String>,
}

impl Report {
    /// Compares what one command left behind, and prints the verdict.
    fn add(&mut self, case: (&str, Compare), one: &Outcome, two: &Outcome, expected: &Expected) {
        let (name, compare) = case;
        match (outcome::difference(one, two, compare), expected.get(name)) {
            (None, _) => {
                self.same += 1;
                let code = one.code.filter(|&code| code != 0 && code != 200);
                println!("same      {name}{}", code.map(|code| format!(" (both {code})")).unwrap_or_default());
            }
            (Some(difference), Some(reason)) => {
                self.expected += 1;
                println!("expected  {name}: {reason}\n          {difference}");
            }
            (Some(difference), None) => {
                self.different.push(name.to_owned());
                println!("DIFFERS   {name}: {difference}");
            }
        }
    }

    fn skip(&mut self, name: &str) {
        self.skipped += 1;
        println!("skipped   {name}: there is no ../shared beside the checkout");
    }
}

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let arguments = arguments(args)?;
    let began = std::time::Instant::now();
    let shared = crate::cargo::root().join("../shared").canonicalize().ok();
    // Names of one length: tables are wrapped by width before paths are made equal.
    let before = Binary::new(&arguments.before, &arguments.scratch.join("1st"), shared.as_deref())?;
    let after = Binary::new(&arguments.after, &arguments.scratch.join("2nd"), shared.as_deref())?;
    let mut report = Report::default();
    for case in CASES {
        if case.line.contains("{shared}") && shared.is_none() {
            report.skip(case.name);
            continue;
        }
        let (one, two) = outcome::both(&before, &after, |binary| binary.run(case.line));
        report.add((case.name, case.compare), &one?, &two?, &arguments.expected);
    }
    daemon::compare(&before, &after, &mut report, &arguments.expected)?;
    let Report { same, expected, skipped, different } = report;
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{same} same, {} differ, {expected} differ as expected, {skipped} skipped; {seconds:.0} s",
        different.len()
    );
    if different.is_empty() {
        return Ok(());
    }
    Err(format!("different: {}; both folders are below {}", different.join(", "), arguments.scratch.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_many_commands_of_different_names() {
        let mut names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() == CASES.len() && names.len() >= 45, "{}", names.len());
    }

    #[test]
    fn expected_differences_have_reasons() {
        let expected = parse_expected("# why\n\nallocate-csv: prices were wrong: fixed\n").unwrap();
        assert_eq!(expected["allocate-csv"], "prices were wrong: fixed");
        assert_eq!(parse_expected("allocate-csv:\n"), Err("allocate-csv:".to_owned()));
        assert_eq!(parse_expected("allocate-csv\n"), Err("allocate-csv".to_owned()));
    }
}
