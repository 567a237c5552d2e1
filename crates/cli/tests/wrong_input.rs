//! Every wrong input gets a sentence, exit code 2, and leaves nothing behind.

#[path = "support/arles.rs"]
mod support;

use support::{arles, folder};

const HEADER: &str = "job_id,workload,arrival_seconds,steps\n";

/// Files that are there when a wrong command runs.
fn files() -> Vec<(&'static str, String)> {
    vec![
        ("good.csv", format!("{HEADER}1,resnet50-b64,0,100\n")),
        ("number.csv", format!("{HEADER}1,resnet50-b64,soon,100\n")),
        ("twice.csv", format!("{HEADER}1,resnet50-b64,0,100\n1,resnet50-b64,5,100\n")),
        ("back.csv", format!("{HEADER}1,resnet50-b64,60,100\n2,resnet50-b64,5,100\n")),
        ("workload.csv", format!("{HEADER}1,resnet51-b64,0,100\n")),
        ("column.csv", "job_id,workload,arival_seconds,steps\n1,resnet50-b64,0,100\n".into()),
        ("big.csv", "job_id,workload,gang,arrival_seconds,steps\n7,resnet50-b64,64,0,100\n".into()),
        ("fat.csv", format!("{HEADER}7,gpt2-xl-b1,0,100\n")),
        ("empty.csv", String::new()),
        ("jobless.csv", HEADER.into()),
        ("endless.csv", format!("{HEADER}5,resnet50-b64,0,1e300\n")),
        ("never.csv", format!("{HEADER}5,resnet50-b64,1e300,1\n")),
        ("odd.csv", "hello\n".into()),
        ("bytes.csv", "\u{0}\u{1}".into()),
        ("nan.json", r#"{"v100": {"('A3C', 1)": {"null": NaN}}}"#.into()),
        ("minus.json", r#"{"v100": {"('A3C', 1)": {"null": -1.0}}}"#.into()),
        ("none.json", "{}".into()),
        ("cut.json", "{\"v100\":\n  }".into()),
        ("strange.json", r#"{"v100": {"('Mine', 1)": {"null": 1.0}}}"#.into()),
        ("few.json", r#"{"v100": {"('A3C', 1)": {"null": 1.0}}}"#.into()),
        ("key.toml", "[simulation]\nruond = \"6m\"\n".into()),
        ("section.toml", "[simulations]\n".into()),
        ("value.toml", "[cluster]\ngpus-per-node = 0\n".into()),
        ("type.toml", "[simulation]\nseed = 1979-05-27\n".into()),
        ("broken.toml", "[simulation\n".into()),
        ("journal.jsonl", "{}\n".into()),
        ("nothing.jsonl", String::new()),
        ("ragged.csv", "user,v100,k80\ngpus,2,2\na,1,1\nb,1\n".into()),
        ("stray.csv", "user,wieght,v100\ngpus,,2\na,1,1\n".into()),
        ("tenants.csv", "user,tenant,weight,v100\ngpus,,,2\na,t,1,1\nb,t,2,1\n".into()),
        ("unserved.csv", "user,gang,v100\ngpus,,2\na,8,1\n".into()),
        ("sound.csv", "user,v100\ngpus,2\na,1\n".into()),
        ("crowd.csv", "user,v100\ngpus,1000000\na,1\n".into()),
        ("key.sh", "#!/bin/bash\n#ARLES gpsu=2\n".into()),
        ("value.sh", "#!/bin/bash\n\n# more\n#ARLES time-limit=soon\n".into()),
        ("bare.sh", "python train.py\n".into()),
        ("kind.toml", "[[kind]]\nname = \"mine\"\nmemory = 96\n".into()),
        ("outages.txt", "v100-000@1h..2h\nv100-000@soon..3h\n".into()),
    ]
}

/// The command, and what its sentence must say.
const CASES: &[(&str, &str)] = &[
    // Usage.
    ("", "Usage: arles <COMMAND>"),
    ("simulte", "unrecognized subcommand 'simulte'"),
    ("simulate --polcy fifo", "unexpected argument '--polcy'"),
    ("simulate -o yaml", "invalid value 'yaml'"),
    ("simulate --trace good.csv --generate jobs=3", "cannot be used with"),
    // Files.
    ("simulate --trace missing.csv", "missing.csv: cannot read this file"),
    ("simulate --trace empty.csv", "empty.csv: this file is empty"),
    ("simulate --trace odd.csv", "odd.csv:1:1: the first line fits no trace format"),
    ("simulate --trace bytes.csv", "bytes.csv:1:1: the first line fits no trace format"),
    ("simulate --trace good.csv --rates missing.json", "missing.json: cannot read this file as a rate table"),
    ("simulate --config missing.toml", "missing.toml: cannot read this file"),
    ("simulate --node-events missing.txt", "missing.txt: cannot read this file"),
    ("import missing.csv", "missing.csv: cannot read this file"),
    ("replay missing.jsonl", "missing.jsonl: cannot read this file"),
    ("allocate missing.json", "missing.json: cannot read this file"),
    (
        "simulate --trace good.csv --rates cut.json",
        "cut.json:2:3: this is no JSON from here on (expected value); expected a table in Gavel's form",
    ),
    ("cancel nightly", "'nightly' is not a job number; expected a whole number from 1 on"),
    ("check-config", "arles.toml: cannot read this file"),
    ("check-model --rates missing.json", "missing.json: cannot read this file"),
    // Submissions that no server is asked about.
    ("submit", "required arguments were not provided"),
    ("submit train.py --steps 3", "there is no file 'train.py'"),
    ("submit key.sh", "key.sh:2: there is no key 'gpsu' (did you mean gpus?)"),
    ("submit value.sh", "value.sh:4: invalid value 'soon' for '--time-limit <TIME>'"),
    ("submit bare.sh", "bare.sh:1: a script begins with a line that names its interpreter"),
    ("submit resnet50-b64", "a workload of the library needs a length"),
    ("submit resnet50-b64 --steps 3 --env A=1", "--env is about a program, and there is none"),
    ("submit resnet50-b64 --steps 3 -- --lr 1", "there is no script 'resnet50-b64' for the arguments after --"),
    ("submit --steps 3 --period 1h -- python x.py", "cannot be used with"),
    ("submit --array 9-1 -- python x.py", "'9-1' is not a list of indices"),
    ("submit --array 1-3 --count 2 -- python x.py", "cannot be used with"),
    ("submit --after maybe:3 -- python x.py", "'maybe' in 'maybe:3' is not an outcome"),
    ("submit --memory 64 -- python x.py", "'64' is not an amount of memory"),
    ("submit --profile parms=1 -- python x.py", "did you mean params?"),
    ("submit --time-limit 0 -- python x.py", "'0' is too short"),
    ("hold", "required arguments were not provided"),
    ("nodes drain n1", "--why <TEXT>"),
    ("nodes add n1 --gpus v100", "expected KIND:COUNT such as v100:4"),
    ("kinds --config kind.toml", "kind.toml:3: [[kind]] has no key 'memory'"),
    // Traces.
    ("simulate --trace number.csv", "number.csv:2:16: arrival_seconds"),
    ("simulate --trace twice.csv", "twice.csv:3:1: job_id 1 occurs twice"),
    ("simulate --trace back.csv", "back.csv:3:16: job 2 arrives at 5 s, before the job above it (60 s)"),
    (
        "simulate --trace column.csv",
        "column.csv:1:17: there is no column 'arival_seconds' (did you mean arrival_seconds?)",
    ),
    ("simulate --trace jobless.csv", "there is no job in this trace"),
    ("simulate --trace endless.csv", "job 5 (resnet50-b64) would take more than 30 years"),
    ("simulate --trace never.csv", "job 5 (resnet50-b64) arrives after more than 30 years"),
    ("simulate --trace workload.csv", "no workload is called 'resnet51-b64'; the nearest names are resnet50-b64"),
    ("simulate --trace big.csv --cluster v100:8", "job 7 (resnet50-b64) fits no kind of this cluster: a gang of 64"),
    ("simulate --trace fat.csv --cluster k80:8", "job 7 (gpt2-xl-b1) fits no kind of this cluster: it needs"),
    ("simulate --trace good.csv --format gavle", "--format: there is no trace format 'gavle' (did you mean gavel?)"),
    ("simulate --trace good.csv --tenants robin:3", "--tenants: 'robin:3' is not known"),
    ("simulate --tenants round-robin:3", "--tenants is about the import of a trace"),
    ("import twice.csv -o out.csv", "twice.csv:3:1: job_id 1 occurs twice"),
    ("import number.csv -o out.csv", "number.csv:2:16:"),
    // Rates.
    ("simulate --rates nan.json", "nan.json:1:34: NaN is no number in JSON"),
    ("simulate --rates minus.json", "minus.json:1:"),
    ("simulate --rates none.json", "none.json: there is no rate in this table"),
    (
        "simulate --trace good.csv --rates few.json --cluster v100:4",
        "workload 'resnet50-b64' is not among the 1 of the rate table",
    ),
    ("simulate --rates few.json --cluster t4:4 --generate workloads=A3C", "kind 't4' is not in the rate table"),
    ("check-model --rates few.json --exclude Recommendation", "--exclude: 'Recommendation' is not WORKLOAD@KIND"),
    ("check-model --rates few.json --exclude LM@k80", "--exclude: 'LM@k80' matches no cell"),
    // Clusters.
    ("simulate --cluster v101:4", "--cluster: no kind is called 'v101'; the nearest names are v100"),
    ("simulate --cluster v100:0", "--cluster: 'v100:0' is a cluster with no GPUs"),
    ("simulate --cluster v100", "--cluster: 'v100' has no GPU count"),
    ("simulate --cluster v100:-4", "--cluster: '-4' in 'v100:-4' is not a number of GPUs"),
    ("simulate --cluster v100:4,v100:4", "--cluster: kind 'v100' is listed twice"),
    ("simulate --gpus-per-node 0", "--gpus-per-node: '0' cannot be used; expected a whole number, 1 or more"),
    ("simulate --reference t4", "--reference: there is no t4 in this cluster"),
    ("simulate --fail v100-000@2h..1h", "--fail: 'v100-000@2h..1h' ends before it begins"),
    ("simulate --fail v100-999@1h..2h", "--fail: there is no node 'v100-999'"),
    ("simulate --node-events outages.txt", "outages.txt:2: 'soon' is not a duration"),
    // Policies and numbers.
    (
        "simulate --policy max-min-fairnes",
        "--policy: there is no policy 'max-min-fairnes' (did you mean max-min-fairness?)",
    ),
    ("simulate --policy fifo,fifo", "--policy: policy 'fifo' is listed twice"),
    ("simulate --round 0s", "--round: '0s' is too short; expected a second or more"),
    ("simulate --round 1e300", "--round: '1e300' is too long"),
    ("simulate --round six", "--round: 'six' is not a duration"),
    ("simulate --restart -3s", "unexpected argument '-3'"),
    ("simulate --restart=-3s", "--restart: '-3s' is not a duration"),
    ("simulate --seed NaN", "--seed: 'NaN' cannot be used; expected a whole number"),
    ("simulate --generate load=NaN", "--generate load: 'NaN' cannot be used"),
    ("simulate --generate jbos=3", "--generate: [generate] has no key 'jbos' (did you mean jobs?)"),
    ("simulate --generate jobs=0", "--generate jobs: '0' cannot be used; expected a whole number, 1 or more"),
    ("simulate --generate jobs=5,gangs=0:1", "a gang of 0 GPUs cannot run"),
    ("simulate --generate tenants=a,a", "tenant 'a' occurs twice"),
    ("simulate --generate workloads=resnet51-b64", "no workload is called 'resnet51-b64'"),
    ("generate jobs=ten -o out.csv", "generate jobs: 'ten' cannot be used"),
    ("simulate --journal out.jsonl", "policies were asked for"),
    ("compare --baseline fif", "--baseline: there is no policy 'fif' (did you mean fifo?)"),
    ("compare --trace good.csv --seeds 3", "this trace is the same for every seed"),
    // Names.
    ("kinds v101", "no kind is called 'v101'; the nearest names are v100"),
    ("workloads resnet51-b64", "no workload is called 'resnet51-b64'; the nearest names are resnet50-b64"),
    ("workloads --kind v101", "no kind is called 'v101'"),
    // Estimates.
    ("estimate", "the following required arguments were not provided"),
    ("estimate --workload lm-b20", "--kind: no kinds were measured"),
    (
        "estimate --workload lm-b2O --kind v100",
        "--workload: no workload is called 'lm-b2O'; the nearest names are lm-b20",
    ),
    ("estimate --workload lm-b20 --kind v101", "--kind: no kind is called 'v101'; the nearest names are v100"),
    ("estimate --workload lm-b20 --kind v100 --beside lm-b2O", "--beside: no workload is called 'lm-b2O'"),
    (
        "estimate --workload lm-b20 --kind v100 --beside a3c-b4 --gang 2",
        "--beside: only single GPUs are shared, not gangs of 2",
    ),
    (
        "estimate --workload lm-b20 --kind v100 --gang 0",
        "--gang: '0' cannot be used; expected a whole number, 1 or more",
    ),
    ("estimate --workload lm-b20 --kind v100 --seed x", "--seed: 'x' cannot be used"),
    (
        "estimate --workload lm-b20 --kind v100 --estimator learnt",
        "--estimator: there is no estimator 'learnt' (did you mean learned?)",
    ),
    (
        "estimate --workload gpt2-xl-b1 --kind k80",
        "gpt2-xl-b1 needs 30.7 GiB and k80 has 11.2; take a kind with more memory",
    ),
    (
        "estimate --workload resnet50-b128 --kind k80 --beside resnet50-b16",
        "resnet50-b128 and resnet50-b16 need 13.5 GiB together and k80 has 11.2",
    ),
    ("estimate --workload lm-b20 --rates missing.json", "missing.json: cannot read this file as a rate table"),
    ("estimate --workload lm-b20 --rates nan.json", "nan.json:1:34: NaN is no number in JSON"),
    ("estimate --workload lm-b20 --rates few.json --catalog x.sqlite", "cannot be used with"),
    ("estimate --workload lm-b20 --catalog missing.sqlite", "missing.sqlite"),
    ("learn", "Usage: arles learn <COMMAND>"),
    ("learn eval", "the following required arguments were not provided"),
    ("learn eval --rates few.json", "there are 1 workloads with a measured rate alone"),
    (
        "learn eval --rates few.json --split leave-family",
        "--split: there is no split 'leave-family' (did you mean leave-family-out?)",
    ),
    (
        "learn eval --rates few.json --observe 3",
        "--observe: '3' is not a number of observations; expected any of 0,1,2,4,4s,8",
    ),
    (
        "learn eval --rates few.json --estimators nearst",
        "--estimators: there is no estimator 'nearst' (did you mean nearest?)",
    ),
    ("learn eval --rates few.json --threads 0", "--threads: '0' cannot be used"),
    ("learn train --kind v101", "--kind: no kind is called 'v101'"),
    ("learn train --rates none.json --out out.json", "none.json: there is no rate in this table"),
    // Configuration.
    ("simulate --config key.toml", "key.toml:2: [simulation] has no key 'ruond' (did you mean round?)"),
    ("check-config section.toml", "section.toml:1: there is no section [simulations] (did you mean simulation?)"),
    ("check-config value.toml", "value.toml:2: cluster.gpus-per-node: '0' cannot be used"),
    ("check-config type.toml", "type.toml:2: simulation.seed cannot be used; expected a text, a number"),
    ("check-config broken.toml", "broken.toml:1:12: this is not TOML"),
    // Journals.
    ("replay journal.jsonl", "journal.jsonl: line 1: this is not the head of a journal"),
    ("replay nothing.jsonl", "nothing.jsonl: line 1: the journal is empty"),
    // Questions to a policy, from an empty stdin.
    ("allocate", "standard input: there is nothing in it"),
    ("allocate empty.csv", "empty.csv: there is nothing in it; expected JSON, or CSV with a header"),
    ("allocate ragged.csv", "ragged.csv: line 4: there are 2 cells under 3 columns"),
    ("allocate ragged.csv --gpus v100", "error: --gpus: 'v100' names no number of GPUs"),
    ("allocate stray.csv", "stray.csv: column 'wieght' (did you mean weight?) is no field of a user"),
    ("allocate tenants.csv", "tenants.csv: tenant 't' has weight 1 (user 'a') and 2 (user 'b')"),
    ("allocate unserved.csv", "user 'a' runs gangs of 8 GPUs and there are at most 2 of a kind that it fits on"),
    ("allocate sound.csv --explain=bob", "--explain: there is no user 'bob'"),
    ("allocate sound.csv --gpus v100:2", "--gpus: there is a line 'gpus' in the file too"),
    ("allocate crowd.csv --policy fifo", "fifo orders jobs one by one, and these users could run 1000000 at once"),
    ("allocate --policy oef", "--policy: there is no policy 'oef'"),
];

#[test]
fn every_wrong_input_gets_a_sentence() {
    let folder = folder("wrong-input");
    for (name, text) in files() {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let listing = || {
        let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = listing();
    let mut faults = Vec::new();
    for (command, sentence) in CASES {
        let mut words: Vec<&str> = command.split_whitespace().collect();
        // Wherever a command could leave a file, ask for one.
        if ["simulate", "compare"].contains(words.first().unwrap_or(&"")) {
            words.extend(["--report", "out.html", "--jobs-csv", "jobs.csv"]);
        }
        let ran = arles(&folder, &words, "");
        let mut wrong = |what: &str| faults.push(format!("arles {command}\n  {what}\n  {}", ran.stderr));
        if ran.code != 2 {
            wrong(&format!("ended in {}", ran.code));
        }
        if !ran.stderr.contains(sentence) {
            wrong(&format!("expected: {sentence}"));
        }
        if ran.stderr.contains("panicked") {
            wrong("panicked");
        }
        if !ran.stdout.is_empty() {
            wrong("printed a result");
        }
        assert_eq!(listing(), before, "arles {command} left a file behind");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn wrong_questions_get_a_sentence() {
    let kinds = r#""kinds":[{"name":"v100","count":2},{"name":"k80","count":2}]"#;
    let user = |user: &str| format!("{{{kinds},\"users\":[{user}]}}");
    let cases = [
        (user(r#"{"name":"a","rates":[1,NaN]}"#), "NaN is no number in JSON"),
        (user(r#"{"name":"a","rates":[1e300,1]}"#), "rates of user 'a' on 'v100' is 1e+300; expected 0, or"),
        (user(r#"{"name":"a","rates":[1]}"#), "has 1 numbers for 2 kinds"),
        (user(r#"{"name":"a","rates":[0,0]}"#), "has a rate of 0 on every kind"),
        (user(r#"{"name":"a","rates":[1,1],"weight":0}"#), "weight of user 'a' is 0; expected a number above 0"),
        (user(r#"{"name":"a","rates":[1,1],"gang":3}"#), "user 'a' runs gangs of 3 GPUs and there are at most 2"),
        (user(r#"{"name":"a","rates":[1,1]},{"name":"a","rates":[1,1]}"#), "two users are called 'a'"),
        (user(r#"{"name":"a","tenant":7,"rates":[1,1]}"#), "tenant of user 'a' is 7; expected a text"),
        ("user,v100\ngpus,2\na,NaN\n".into(), "line 3: rates of user 'a' on 'v100' is 'NaN'"),
        (user(r#"{"name":"a","rate":[1,1]}"#), "unknown field 'rate' (did you mean rates?)"),
        (r#"{"kinds":[{"name":"v100","count":-2}],"users":[]}"#.into(), "the count of kind 'v100' is -2"),
        (r#"{"kinds":[{"name":"v100","count":0}],"users":[{"name":"a","rates":[1]}]}"#.into(), "there are no GPUs"),
    ];
    let folder = folder("wrong-questions");
    for (question, sentence) in cases {
        let ran = arles(&folder, &["allocate"], &question);
        assert_eq!(ran.code, 2, "{question}\n{}", ran.stderr);
        assert!(
            ran.stderr.starts_with("error: standard input: ") && ran.stderr.contains(sentence),
            "{question}\n{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("panicked") && ran.stdout.is_empty(), "{question}\n{}", ran.stderr);
    }
}

#[test]
fn work_that_fails_is_told_apart_from_wrong_input() {
    let folder = folder("failed-work");
    let ran = arles(&folder, &["simulate", "--generate", "jobs=3", "--report", "no/such/folder/out.html"], "");
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: cannot write 'no/such/folder/out.html'"), "{}", ran.stderr);
    let ran = arles(&folder, &["demo", "--report", "."], "");
    assert_eq!(ran.code, 1, "{}", ran.stderr);
}
