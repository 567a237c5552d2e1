//! The files that every folder begins with.

/// Names and contents.
pub(super) const FILES: &[(&str, &str)] = &[
    ("trace.csv", TRACE),
    ("question.json", QUESTION),
    ("users.csv", USERS),
    ("bare.csv", "user,v100,k80\nann,4,1\nbob,2,1\n"),
    ("rates.json", RATES),
    ("config.toml", CONFIG),
    ("broken.csv", "job_id,tenant,workload,gang,arrival_seconds,steps\n1,a,resnet50-b64,one,0,5\n"),
    ("broken.toml", "[simulate]\npolicies = [\"fifo\"]\n"),
    ("broken.json", "{\"kinds\": [{\"name\": \"v100\", \"count\": -2}], \"users\": []}"),
];

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

/// Gavel's form of measured rates: a worker type, a job's type and gang, and its rate alone (`null`) or beside another.
const RATES: &str = r#"{
 "k80": {
  "('LM (batch size 20)', 1)": {"null": 11.5},
  "('LM (batch size 5)', 1)": {"null": 20.25},
  "('ResNet-50 (batch size 32)', 1)": {"null": 1.9},
  "('ResNet-18 (batch size 64)', 1)": {"null": 4.4}
 },
 "v100": {
  "('LM (batch size 20)', 1)": {"null": 60.5, "('ResNet-50 (batch size 32)', 1)": [41.0, 5.5]},
  "('LM (batch size 5)', 1)": {"null": 71.75},
  "('ResNet-50 (batch size 32)', 1)": {"null": 8.25, "('LM (batch size 20)', 1)": [5.5, 41.0]},
  "('ResNet-18 (batch size 64)', 1)": {"null": 22.5}
 }
}"#;

const CONFIG: &str = r#"
[simulation]
policies = "fifo,oef-coop"
seed = 4

[generate]
jobs = 40
load = 0.9
"#;
