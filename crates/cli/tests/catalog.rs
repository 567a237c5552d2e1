//! `arles catalog`: what it prints, kept in files, and what it refuses.

#[path = "support/golden.rs"]
mod golden;
#[path = "support/arles.rs"]
mod support;

use golden::check;
use std::path::Path;
use std::process::Command;
use support::{Ran, arles, folder};

const CELLS: &str = "\
workload,kind,gang,partner,rate_steps_per_second,watts,source,observations,at,doubt
a3c-b4,v100,1,lm-b5,5.5,,measured,1,2026-11-01T00:00:00Z,0.03
lm-b5,k80,1,,21.5,121.25,measured,12,2026-11-14T12:30:00Z,0.01
lm-b5,v100,1,,61.4,180,measured,3,2026-11-15T16:00:00.250000Z,0.02
lm-b5,v100,4,,200,,stated,0,2025-01-01T00:00:00Z,0.3
lm-b5,v100,1,a3c-b4,40.125,205.5,measured,1,2026-11-01T00:00:00Z,0.03
lm-b5,v100,1,lm-b5,33,,refined,0,2026-11-15T16:46:00Z,0.12
own-net,p100,1,,0,,measured,1,2020-06-01T00:00:00Z,0.03
";

const FEATURES: &str = "\
name,family,domain,mode,precision,batch,params,flops_per_step,bytes_per_step,synced_bytes,kernels_per_step,memory_gib,host_seconds,aliases
own-net,own,vision,training,fp16,8,25600000,1000000000,2000000000,102400000,500,6.5,0.01,Own Net;net
";

const RATES: &str = r#"{"v100": {"('LM (batch size 5)', 1)": {"null": 61.4, "('A3C', 1)": [40.1, 3.2], "('CycleGAN', 1)": [0.0, 0.0]},
  "('A3C', 1)": {"null": 5.0, "('LM (batch size 5)', 1)": [3.25, 40.0]}, "('LM (batch size 5)', 4)": {"null": 200.0},
  "('CycleGAN', 1)": {"null": 0.0}},
 "v100_unconsolidated": {"('LM (batch size 5)', 4)": {"null": 30.0}}}"#;

fn catalog(folder: &Path, command: &str) -> Ran {
    let words = ["catalog", "--catalog", "c.sqlite"].into_iter().chain(command.split_whitespace());
    arles(folder, &words.collect::<Vec<_>>(), "")
}

fn stdout(folder: &Path, command: &str) -> String {
    let ran = catalog(folder, command);
    assert_eq!(ran.code, 0, "arles catalog {command}\n{}", ran.stderr);
    ran.stdout
}

fn filled(name: &str) -> std::path::PathBuf {
    let folder = folder(name);
    for (name, text) in [("cells.csv", CELLS), ("features.csv", FEATURES), ("rates.json", RATES)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let ran = catalog(&folder, "import cells.csv --features features.csv");
    assert_eq!(ran.stderr, "catalog: c.sqlite (new)\ncells.csv: 7 cells: 7 new, 0 changed\nworkload features: 1\n");
    folder
}

#[test]
fn help_texts() {
    let folder = folder("catalog-help");
    check("help-catalog.txt", &stdout(&folder, "--help"));
    for command in ["list", "show", "import", "export"] {
        check(&format!("help-catalog-{command}.txt"), &stdout(&folder, &format!("{command} --help")));
    }
}

#[test]
fn tables() {
    let folder = filled("catalog-tables");
    let now = "--as-of 2026-11-15T16:47:06Z";
    check("catalog-list.txt", &stdout(&folder, &format!("list {now}")));
    check("catalog-show.txt", &stdout(&folder, &format!("show lm-b5 {now}")));
    check("catalog-show.json", &stdout(&folder, "show net -o json"));
    let some = stdout(&folder, "list --workload lm-b5 --kind V100-SXM2-16GB --source measured -o csv");
    assert_eq!(some.lines().count(), 3, "{some}");
    assert!(CELLS.contains(some.lines().nth(1).unwrap()), "{some}");
    let none = catalog(&folder, "list --source initial -o csv");
    assert_eq!((none.code, none.stderr.contains("none of 7 cells match")), (0, true), "{}", none.stderr);
}

#[test]
fn what_is_exported_and_imported_is_the_same_to_the_byte() {
    let folder = filled("catalog-export");
    stdout(&folder, "export -o out.csv --features out-features.csv");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let sorted = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    assert_eq!((sorted(&read("out.csv")), read("out-features.csv")), (sorted(CELLS), FEATURES.into()));
    let again = ["catalog", "--catalog", "d.sqlite", "import", "out.csv", "--features", "out-features.csv"];
    assert_eq!(arles(&folder, &again, "").code, 0);
    let export = arles(&folder, &["catalog", "--catalog", "d.sqlite", "export"], "");
    assert_eq!(export.stdout, read("out.csv"));
    check("catalog-export.json", &stdout(&folder, "export --format json"));
}

#[test]
fn gavels_measurements() {
    let folder = filled("catalog-gavel");
    let ran = catalog(&folder, "import rates.json --at 2026-11-14");
    let expect = "catalog: c.sqlite\nrates.json: 8 cells: 4 new, 3 changed, 1 skipped (better or later cells exist), \
                  1 more of spread gangs left out\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (0, expect));
    let cells = stdout(&folder, "list -o csv");
    for line in [
        "a3c-b4,v100,1,lm-b5,3.25,,measured,1,2026-11-14T00:00:00Z,0.03",
        "cyclegan-b1,v100,1,,0,,measured,1,2026-11-14T00:00:00Z,0.03",
        "cyclegan-b1,v100,1,lm-b5,0,,measured,1,2026-11-14T00:00:00Z,0.03",
        "lm-b5,v100,1,a3c-b4,40.1,,measured,1,2026-11-14T00:00:00Z,0.03",
        "lm-b5,v100,1,,61.4,180,measured,3,2026-11-15T16:00:00.250000Z,0.02",
    ] {
        assert!(cells.lines().any(|found| found == line), "{line}\n{cells}");
    }
    let again = catalog(&folder, "import rates.json --at 2026-11-14");
    assert!(again.stderr.contains("8 cells: 0 new, 0 changed, 7 unchanged, 1 skipped"), "{}", again.stderr);
}

#[test]
fn the_published_table_goes_in_and_out() {
    let Some(table) = arles_testing::shared("data/gavel/simulation_throughputs.json") else { return };
    let folder = folder("catalog-published");
    let ran = arles(&folder, &["catalog", "--catalog", "c.sqlite", "import", table.to_str().unwrap()], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    println!("{}", ran.stderr);
    assert!(!ran.stderr.contains("without features"), "{}", ran.stderr);
    stdout(&folder, "export -o out.csv");
    let same = catalog(&folder, "import out.csv");
    assert!(same.stderr.contains("0 new, 0 changed"), "{}", same.stderr);
}

#[test]
fn names_that_nobody_knows_are_told() {
    let folder = folder("catalog-names");
    std::fs::write(folder.join("a.csv"), "workload,kind,rate_steps_per_second\nresnet51-b64,v100,3\nzzz,v100,3\n")
        .unwrap();
    let ran = catalog(&folder, "import a.csv");
    let expect = "without features: 'resnet51-b64' (did you mean resnet50-b64?), 'zzz'; give them with";
    assert!(ran.code == 0 && ran.stderr.contains(expect), "{}", ran.stderr);
    assert!(stdout(&folder, "show zzz").starts_with("zzz: without features\n"));
    let many: String = (0..20).map(|i| format!("zzz{i},v100,3\n")).collect();
    std::fs::write(folder.join("b.csv"), format!("workload,kind,rate_steps_per_second\n{many}")).unwrap();
    let ran = catalog(&folder, "import b.csv");
    assert!(ran.code == 0 && ran.stderr.contains("'zzz15', and 12 more; give"), "{}", ran.stderr);
}

#[test]
fn the_file_is_found_by_flag_variable_or_data_folder() {
    let folder = folder("catalog-place");
    std::fs::write(folder.join("a.csv"), "workload,kind,rate_steps_per_second\nlm-b5,v100,3\n").unwrap();
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arles"));
        command.args(["catalog", "import", "a.csv"]).current_dir(&folder);
        for name in ["ARLES_CATALOG", "XDG_DATA_HOME", "HOME"] {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let home = folder.join("home").display().to_string();
    let (code, said) = run(&[("ARLES_CATALOG", "v.sqlite"), ("HOME", &home)]);
    assert!(code == Some(0) && said.starts_with("catalog: v.sqlite (new)\n"), "{said}");
    let (code, said) = run(&[("ARLES_CATALOG", ""), ("HOME", &home)]);
    assert!(
        code == Some(0) && said.starts_with(&format!("catalog: {home}/.local/share/arles/catalog.sqlite (new)")),
        "{said}"
    );
    let (code, said) = run(&[("XDG_DATA_HOME", &home), ("HOME", "/nonexistent")]);
    assert!(code == Some(0) && said.starts_with(&format!("catalog: {home}/arles/catalog.sqlite (new)")), "{said}");
    let (code, said) = run(&[]);
    assert!(code == Some(2) && said.contains("cannot tell where the catalog is"), "{said}");
}

/// Files that are there when a wrong command runs.
const WRONG_FILES: &[(&str, &str)] = &[
    ("zero.csv", "workload,kind,rate_steps_per_second\nlm-b5,v100,0\n"),
    ("minus.csv", "workload,kind,rate_steps_per_second\nlm-b5,v100,1\nlm-b5,k80,-1\n"),
    ("nan.csv", "workload,kind,rate_steps_per_second\nlm-b5,v100,NaN\n"),
    ("column.csv", "workload,kind,rate_steps_per_secnd\nlm-b5,v100,1\n"),
    ("kind.csv", "workload,kind,rate_steps_per_second\nlm-b5,v101,1\n"),
    ("gang.csv", "workload,kind,gang,partner,rate_steps_per_second\nlm-b5,v100,2,a3c-b4,1\n"),
    ("source.csv", "workload,kind,rate_steps_per_second,source\nlm-b5,v100,1,guess\n"),
    ("twice.csv", "workload,kind,rate_steps_per_second\nlm-b5,v100,1\nLM (batch size 5),V100-SXM2-16GB,1\n"),
    ("at.csv", "workload,kind,rate_steps_per_second,at\nlm-b5,v100,1,2026-02-30\n"),
    ("empty.csv", ""),
    ("broken.json", "{\"v100\": "),
    ("kind.json", r#"{"v101": {"('A3C', 1)": {"null": 1.0}}}"#),
    ("alias.json", r#"{"v100": {"('A3C', 1)": {"null": 1.0}, "('a3c', 1)": {"null": 2.0}}}"#),
    ("features.csv", "name,family\nx,y\n"),
    ("text.sqlite", "hello"),
    ("empty.sqlite", ""),
];

/// The command, its exit code, and what its sentence must say.
const WRONG: &[(&str, i32, &str)] = &[
    ("", 2, "Usage: arles catalog"),
    ("lst", 2, "unrecognized subcommand 'lst'"),
    ("import", 2, "required arguments were not provided"),
    ("import missing.csv", 2, "missing.csv: cannot read this file"),
    ("import good.csv missing.csv", 2, "missing.csv: cannot read this file"),
    (
        "import good.csv minus.csv",
        2,
        "minus.csv:3: rate_steps_per_second is '-1'; expected steps per second, more than 0",
    ),
    ("import zero.csv", 2, "zero.csv:2: rate_steps_per_second is '0'; expected more than 0, or 0 and a source"),
    ("import nan.csv", 2, "nan.csv:2: rate_steps_per_second is 'NaN'"),
    (
        "import column.csv",
        2,
        "column.csv:1: there is no column 'rate_steps_per_secnd' (did you mean rate_steps_per_second?)",
    ),
    ("import kind.csv", 2, "kind.csv:2: no kind is called 'v101'; the nearest names are v100"),
    ("import gang.csv", 2, "gang.csv:2: gang is '2' beside partner 'a3c-b4'; only single GPUs are shared"),
    ("import source.csv", 2, "source.csv:2: source is 'guess'; expected one of stated, initial, refined, measured"),
    ("import twice.csv", 2, "twice.csv:3: lm-b5 on 1x v100 is in line 2 already"),
    ("import at.csv", 2, "at.csv:2: at: '2026-02-30' is no moment"),
    ("import empty.csv", 2, "empty.csv: this file is empty"),
    ("import broken.json", 2, "broken.json:1:"),
    ("import kind.json", 2, "kind.json: no kind is called 'v101'"),
    ("import alias.json", 2, "alias.json: two names of this table both mean a3c-b4 on 1x v100, at 1 and 2 steps/s"),
    ("import good.csv --features features.csv", 2, "features.csv:1: column 'domain' is missing"),
    ("import good.csv --at soon", 2, "--at: 'soon' is no moment; expected a moment in UTC such as 2026-11-15"),
    ("import good.csv --catalog text.sqlite", 2, "text.sqlite: this is no catalog but a file of a few bytes"),
    ("import good.csv --catalog empty.sqlite", 2, "empty.sqlite: this is no catalog but an empty file"),
    ("import good.csv --catalog .", 2, ".: this is no catalog but a folder"),
    ("import good.csv --catalog no/such/c.sqlite", 1, "no/such/c.sqlite: cannot make this catalog"),
    ("list", 2, "c.sqlite: there is no catalog here"),
    ("export", 2, "c.sqlite: there is no catalog here"),
    ("list --catalog good.sqlite --kind v101", 2, "no kind is called 'v101'"),
    ("list --catalog good.sqlite --source guess", 2, "invalid value 'guess'"),
    ("list --catalog good.sqlite --workload lm-b6", 2, "the catalog has no workload 'lm-b6' (did you mean lm-b5?)"),
    ("list --catalog good.sqlite --as-of noon", 2, "--as-of: 'noon' is no moment"),
    ("show --catalog good.sqlite zzz", 2, "the catalog has no workload 'zzz'; 'arles catalog list' shows all"),
    ("export --catalog good.sqlite -o no/such/file.csv", 1, "cannot write 'no/such/file.csv'"),
];

#[test]
fn every_wrong_input_gets_a_sentence() {
    let folder = folder("catalog-wrong");
    for (name, text) in WRONG_FILES {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(folder.join("good.csv"), "workload,kind,rate_steps_per_second\nlm-b5,v100,1\n").unwrap();
    assert_eq!(arles(&folder, &["catalog", "import", "good.csv", "--catalog", "good.sqlite"], "").code, 0);
    let listing = || {
        let read = |path: std::path::PathBuf| (std::fs::read(&path).unwrap_or_default(), path);
        let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| read(entry.unwrap().path())).collect();
        files.sort();
        files
    };
    let before = listing();
    let mut faults = Vec::new();
    for (command, code, sentence) in WRONG {
        let mut words = vec!["catalog"];
        words.extend(command.split_whitespace());
        if !words.contains(&"--catalog") && words.len() > 1 {
            words.extend(["--catalog", "c.sqlite"]);
        }
        let ran = arles(&folder, &words, "");
        if ran.code != *code
            || !ran.stderr.contains(sentence)
            || !ran.stdout.is_empty()
            || ran.stderr.contains("panicked")
        {
            faults.push(format!(
                "arles catalog {command}\n  expected {code}: {sentence}\n  {}: {}",
                ran.code, ran.stderr
            ));
        }
        assert!(listing() == before, "arles catalog {command} changed a file or left one behind");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
