//! What the commands print, kept in files.

#[path = "support/golden.rs"]
mod golden;
#[path = "support/arles.rs"]
mod support;

use golden::check;
use std::path::Path;
use support::{arles, folder};

const TRACE: &str = "\
job_id,tenant,weight,workload,gang,arrival_seconds,steps,period_seconds,floor_fraction
1,vision,2,resnet50-b64,1,0,20000,,
2,vision,2,resnet50-b64,2,60,20000,,
3,search,1,lm-b20,1,120,,3600,0.5
4,search,1,lm-b20,1,600,50000,,
";

const QUESTION: &str = r#"{"kinds": [{"name": "v100", "count": 2}, {"name": "k80", "count": 2}],
 "users": [{"name": "ann", "weight": 2, "rates": [4, 1]}, {"name": "bob", "rates": [2, 1], "gpus_max": 1.5}]}"#;

const USERS: &str = "\
user,tenant,weight,gang,jobs,v100,k80
gpus,,,,,4,2
ann,vision,2,1,2,4,1
eve,vision,,2,1,3,1
bob,,,1,3,2,1
";

fn stdout(folder: &Path, command: &str, input: &str) -> String {
    let ran = arles(folder, &command.split_whitespace().collect::<Vec<_>>(), input);
    assert_eq!(ran.code, 0, "arles {command}\n{}", ran.stderr);
    ran.stdout
}

#[test]
fn help_texts() {
    let folder = folder("golden-help");
    check("help.txt", &stdout(&folder, "--help", ""));
    let commands = [
        "demo",
        "serve",
        "world",
        "submit",
        "queue",
        "show",
        "explain",
        "cancel",
        "nodes",
        "tenants",
        "policy",
        "budget",
        "audit",
        "energy",
        "token",
        "log",
        "backup",
        "restore",
        "verify",
        "top",
        "run",
        "simulate",
        "compare",
        "allocate",
        "frontier",
        "fleet",
        "generate",
        "import",
        "slurm",
        "kubernetes",
        "replay",
        "reproduce",
        "estimate",
        "learn",
        "policies",
        "estimators",
        "kinds",
        "workloads",
        "check-model",
        "check-config",
    ];
    for command in commands {
        check(&format!("help-{command}.txt"), &stdout(&folder, &format!("{command} --help"), ""));
    }
    for command in ["eval", "train"] {
        check(&format!("help-learn-{command}.txt"), &stdout(&folder, &format!("learn {command} --help"), ""));
    }
    for command in ["doctor", "release"] {
        for system in ["slurm", "kubernetes"] {
            let shown = stdout(&folder, &format!("{system} {command} --help"), "");
            check(&format!("help-{system}-{command}.txt"), &shown);
        }
    }
    for system in ["slurm", "kubernetes"] {
        check(&format!("help-{system}-shadow.txt"), &stdout(&folder, &format!("{system} shadow --help"), ""));
    }
    check("help-kubernetes-webhook.txt", &stdout(&folder, "kubernetes webhook --help", ""));
}

#[test]
fn tables() {
    let folder = folder("golden-tables");
    check("settings.toml", &stdout(&folder, "check-config --default", ""));
    check("policies.txt", &stdout(&folder, "policies", ""));
    check("policies.json", &stdout(&folder, "policies -o json", ""));
    check("estimators.txt", &stdout(&folder, "estimators", ""));
    check("kind.txt", &stdout(&folder, "kinds v100", ""));
    check("workload.txt", &stdout(&folder, "workloads resnet50-b64 --kind v100", ""));
}

#[test]
fn a_tiny_simulation() {
    let folder = folder("golden-simulate");
    std::fs::write(folder.join("trace.csv"), TRACE).unwrap();
    let command = "simulate --trace trace.csv --cluster v100:2,k80:2 --gpus-per-node 2 --policy fifo --round 1m";
    check("simulate.txt", &stdout(&folder, command, ""));
    let json = stdout(&folder, &format!("{command} -o json"), "");
    let timeless: String =
        json.lines().filter(|line| !line.contains("wall_seconds")).map(|line| format!("{line}\n")).collect();
    check("simulate.json", &timeless);
}

/// The flat end of the curve is one line; a user that is alone is not worse off than anybody.
#[test]
fn a_frontier() {
    let folder = folder("golden-frontier");
    std::fs::write(folder.join("two.csv"), TRACE).unwrap();
    std::fs::write(folder.join("one.csv"), TRACE.split_inclusive('\n').take(2).collect::<String>()).unwrap();
    let limits = "--power-limits v100@200W,v100@150W --unused off";
    check("frontier.txt", &stdout(&folder, &format!("frontier --trace two.csv --cluster v100:4,k80:4 {limits}"), ""));
    let one = "frontier --trace one.csv --cluster v100:4,k80:4";
    check("frontier-one.txt", &stdout(&folder, &format!("{one} {limits} --sweep budget"), ""));
    check("frontier-nothing.txt", &stdout(&folder, one, ""));
    let all = stdout(&folder, &format!("{one} -o csv"), "");
    assert_eq!(all.lines().count(), 21, "a program gets every point");
}

#[test]
fn an_allocation() {
    let folder = folder("golden-allocate");
    check("allocate.txt", &stdout(&folder, "allocate -o table --explain", QUESTION));
    check("allocate-users.txt", &stdout(&folder, "allocate -o table --policy las --explain=eve,bob", USERS));
    check(
        "allocate-users.csv",
        &stdout(&folder, "allocate -o csv --gpus v100:4,k80:2", &USERS.replace("gpus,,,,,4,2\n", "")),
    );
    check("allocate-fifo.json", &stdout(&folder, "allocate --policy fifo", QUESTION));
}

#[test]
fn an_estimate() {
    let folder = folder("golden-estimate");
    let alone = "estimate --workload resnet50-b64 --kind k80,v100,a100 --estimator model";
    check("estimate.txt", &stdout(&folder, alone, ""));
    check("estimate.csv", &stdout(&folder, &format!("{alone} --beside lm-b20 -o csv"), ""));
    check(
        "estimate.json",
        &stdout(&folder, "estimate --workload lm-b20 --gang 4 --kind v100 --estimator model -o json", ""),
    );
}

#[test]
fn worked_examples() {
    let folder = folder("golden-reproduce");
    check("reproduce-examples.txt", &stdout(&folder, "reproduce oef --only examples", ""));
}
