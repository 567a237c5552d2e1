//! What Slurm says of jobs and nodes, as far as arles needs it.
//!
//! The records come as JSON, from slurmrestd or from `squeue --json`, and not as the text of `scontrol`: names and comments are what users write, and a
//! job called `x JobState=RUNNING` must not be able to say what it is. Versions differ in shape (a number, or an object around it; a state, or a
//! list of states), so readers here take both.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A job in Slurm's queue, or one that ended lately.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JobRecord {
    #[serde(deserialize_with = "whole")]
    pub(crate) job_id: u64,
    #[serde(deserialize_with = "whole")]
    pub(crate) array_job_id: u64,
    #[serde(deserialize_with = "number")]
    pub(crate) array_task_id: Option<f64>,
    /// Tasks that have no record of their own yet, as `0,2-3%2`.
    #[serde(deserialize_with = "text")]
    pub(crate) array_task_string: String,
    #[serde(deserialize_with = "words")]
    pub(crate) job_state: Vec<String>,
    #[serde(deserialize_with = "text")]
    pub(crate) state_reason: String,
    #[serde(deserialize_with = "text")]
    pub(crate) state_description: String,
    #[serde(deserialize_with = "text")]
    pub(crate) name: String,
    #[serde(deserialize_with = "text")]
    pub(crate) account: String,
    #[serde(deserialize_with = "text")]
    pub(crate) user_name: String,
    #[serde(deserialize_with = "number")]
    pub(crate) user_id: Option<f64>,
    #[serde(deserialize_with = "text")]
    pub(crate) partition: String,
    #[serde(deserialize_with = "text")]
    pub(crate) comment: String,
    #[serde(deserialize_with = "text")]
    pub(crate) admin_comment: String,
    #[serde(deserialize_with = "text")]
    pub(crate) dependency: String,
    #[serde(deserialize_with = "text")]
    pub(crate) features: String,
    #[serde(deserialize_with = "text")]
    pub(crate) resv_name: String,
    /// Nodes that it names, or that arles has pinned it to.
    #[serde(deserialize_with = "text")]
    pub(crate) required_nodes: String,
    #[serde(deserialize_with = "text")]
    pub(crate) excluded_nodes: String,
    #[serde(deserialize_with = "text")]
    pub(crate) nodes: String,
    #[serde(deserialize_with = "whole")]
    pub(crate) submit_time: u64,
    #[serde(deserialize_with = "whole")]
    pub(crate) eligible_time: u64,
    /// Of its last run; that of one that waits may be a guess of Slurm's.
    #[serde(deserialize_with = "whole")]
    pub(crate) start_time: u64,
    /// Of its last run; of one that runs, when its time limit is over.
    #[serde(deserialize_with = "whole")]
    pub(crate) end_time: u64,
    #[serde(deserialize_with = "exit_status")]
    pub(crate) exit_code: i64,
    #[serde(deserialize_with = "number")]
    pub(crate) priority: Option<f64>,
    #[serde(deserialize_with = "whole")]
    pub(crate) restart_cnt: u64,
    #[serde(deserialize_with = "whole")]
    pub(crate) node_count: u64,
    #[serde(deserialize_with = "whole")]
    pub(crate) cpus: u64,
    #[serde(deserialize_with = "number")]
    pub(crate) memory_per_node: Option<f64>,
    #[serde(deserialize_with = "number")]
    pub(crate) memory_per_cpu: Option<f64>,
    #[serde(deserialize_with = "text")]
    pub(crate) tres_per_node: String,
    #[serde(deserialize_with = "text")]
    pub(crate) tres_per_job: String,
    #[serde(deserialize_with = "strings")]
    pub(crate) gres_detail: Vec<String>,
}

/// Where a job is in its life, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// It waits and cannot start before it is released.
    Held,
    /// It waits, and Slurm starts it when it can.
    Queued,
    /// It has GPUs.
    Running,
    /// It is over, or being ended, and still has its GPUs.
    Completing,
    /// It ended by itself with exit code 0.
    Completed,
    /// Somebody cancelled it.
    Cancelled,
    /// It is over in any other way.
    Failed,
}

impl JobRecord {
    /// What the job is called in commands: its number, or array and task.
    pub(crate) fn slurm_name(&self) -> String {
        match self.array_task_id {
            Some(task) if self.array_job_id > 0 => format!("{}_{task}", self.array_job_id),
            _ => self.job_id.to_string(),
        }
    }

    /// Tasks that this record stands for, each with its own name; one for an ordinary job. Also how many may run at once; 0 for all.
    pub(crate) fn tasks(&self) -> (Vec<String>, usize) {
        if self.array_job_id == 0 || self.array_task_id.is_some() || self.array_task_string.is_empty() {
            return (vec![self.slurm_name()], 0);
        }
        let (list, most) = self.array_task_string.split_once('%').unwrap_or((&self.array_task_string, "0"));
        let names = ranges(list).into_iter().map(|task| format!("{}_{task}", self.array_job_id)).collect();
        (names, most.parse().unwrap_or(0))
    }

    fn is(&self, state: &str) -> bool {
        self.job_state.iter().any(|word| word == state)
    }

    pub(crate) fn stage(&self) -> Stage {
        if self.is("COMPLETING") {
            return Stage::Completing;
        }
        // Slurm writes SPECIAL_EXIT for a job that asked to be queued again and held.
        if self.is("SPECIAL_EXIT") {
            return Stage::Held;
        }
        if self.is("PENDING") || self.is("REQUEUED") || self.is("REQUEUE_HOLD") {
            return if self.priority == Some(0.0) { Stage::Held } else { Stage::Queued };
        }
        if ["RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"]
            .iter()
            .any(|s| self.is(s))
        {
            return Stage::Running;
        }
        if self.is("COMPLETED") {
            return Stage::Completed;
        }
        if self.is("CANCELLED") { Stage::Cancelled } else { Stage::Failed }
    }

    /// Whether its user holds it. `scontrol requeuehold` gives the same reason, whoever sends it, and says so beside it.
    pub(crate) fn is_held_by_its_user(&self) -> bool {
        self.state_reason == "JobHeldUser" && !self.is_requeued_held()
    }

    /// Whether it is held because somebody, most often arles, requeued it so.
    pub(crate) fn is_requeued_held(&self) -> bool {
        self.state_reason == "JobHeldUser" && self.state_description.contains("requeued in held state")
    }

    /// GPUs that it wants on each node, and of which type if it says.
    pub(crate) fn wanted(&self) -> Option<GpuWish> {
        let nodes = self.node_count.max(1) as u32;
        if let Some((kind, count)) = gres(&self.tres_per_node, "gpu") {
            return Some(GpuWish { per_node: count, nodes, kind, sharded: false });
        }
        // Shards are of one GPU of a node, so however many there are, they are one.
        if let Some((kind, _)) = gres(&self.tres_per_node, "shard") {
            return Some(GpuWish { per_node: 1, nodes, kind, sharded: true });
        }
        let (kind, count) = gres(&self.tres_per_job, "gpu")?;
        let wish = GpuWish { per_node: count / nodes, nodes, kind, sharded: false };
        Some(wish).filter(|_| count.is_multiple_of(nodes))
    }

    /// Shards that it asks for on each node; 0 if it asks for none.
    pub(crate) fn shards(&self) -> u32 {
        gres(&self.tres_per_node, "shard").map_or(0, |(_, count)| count)
    }

    /// What it holds: nodes with how many GPUs there, and with the device that it has shards of.
    pub(crate) fn held_gpus(&self) -> Vec<(String, HeldGpus)> {
        let held = |text: &String| match gres(text, "gpu") {
            Some((_, count)) => Some(HeldGpus::Whole(count)).filter(|_| count > 0),
            None => gres(text, "shard").and_then(|_| indices(text).first().copied()).map(HeldGpus::Shards),
        };
        let nodes = hosts(&self.nodes).into_iter().zip(self.gres_detail.iter().map(held));
        nodes.filter_map(|(node, held)| Some((node, held?))).collect()
    }

    /// Whether it was given none of the GPUs that it asked for on one of its nodes.
    pub(crate) fn lacks_devices(&self) -> bool {
        let none =
            |text: &String| ["gpu", "shard"].iter().any(|name| gres(text, name).is_some_and(|(_, count)| count == 0));
        self.gres_detail.iter().any(none)
    }

    /// How it ended, in words and as the code that it left, if it left one.
    pub(crate) fn ending(&self) -> (String, Option<i32>) {
        let (code, signal) = ((self.exit_code >> 8) & 0xff, self.exit_code & 0x7f);
        let state = self.job_state.first().map_or("unknown", String::as_str).to_lowercase().replace('_', " ");
        match (signal, code) {
            // The signal is Slurm's own.
            _ if self.is("TIMEOUT") => ("Slurm says: timeout; its time limit was over".into(), None),
            (0, 0) => (format!("Slurm says: {state} ({})", self.state_reason), None),
            (0, code) => (format!("exit code {code}"), Some(code as i32)),
            (signal, _) => (format!("ended by signal {signal}"), Some(128 + signal as i32)),
        }
    }
}

/// GPUs that a job asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GpuWish {
    pub(crate) per_node: u32,
    pub(crate) nodes: u32,
    pub(crate) kind: Option<String>,
    /// Whether it asks for shards, so that it can be one of two.
    pub(crate) sharded: bool,
}

/// What a job has on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeldGpus {
    Whole(u32),
    /// Shards of the device of this number.
    Shards(u32),
}

/// A node of Slurm's.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeRecord {
    #[serde(deserialize_with = "text")]
    pub(crate) name: String,
    #[serde(deserialize_with = "words")]
    pub(crate) state: Vec<String>,
    #[serde(deserialize_with = "words")]
    pub(crate) state_flags: Vec<String>,
    #[serde(deserialize_with = "text")]
    pub(crate) reason: String,
    #[serde(deserialize_with = "text")]
    pub(crate) gres: String,
    #[serde(deserialize_with = "whole")]
    pub(crate) cpus: u64,
    /// In MiB.
    #[serde(deserialize_with = "whole")]
    pub(crate) real_memory: u64,
    #[serde(deserialize_with = "strings")]
    pub(crate) partitions: Vec<String>,
    /// Separated by commas.
    #[serde(deserialize_with = "listed")]
    pub(crate) active_features: String,
    /// As the node said when it registered; 0 if it has not since slurmctld started.
    #[serde(deserialize_with = "number")]
    pub(crate) slurmd_start_time: Option<f64>,
}

impl NodeRecord {
    fn is(&self, word: &str) -> bool {
        self.state.iter().chain(&self.state_flags).any(|state| state == word)
    }

    /// Whether what runs there can go on.
    pub(crate) fn up(&self) -> bool {
        !["DOWN", "ERROR", "FUTURE", "POWERED_DOWN", "POWERING_DOWN"].iter().any(|word| self.is(word))
    }

    /// Whether slurmctld has heard from it since it started, and so knows its devices.
    pub(crate) fn has_registered(&self) -> bool {
        self.slurmd_start_time != Some(0.0)
    }

    /// Why Slurm starts nothing there, although what runs goes on.
    pub(crate) fn drained(&self) -> Option<String> {
        let word =
            ["DRAIN", "FAIL", "MAINTENANCE", "RESERVED", "REBOOT_REQUESTED"].into_iter().find(|word| self.is(word))?;
        let reason = if self.reason.is_empty() { String::new() } else { format!(": {}", self.reason) };
        Some(format!("Slurm says {}{reason}", word.to_lowercase()))
    }

    /// Type and number of its GPUs; the first type, where it has several.
    pub(crate) fn gpus(&self) -> Option<(Option<String>, u32)> {
        gres(&self.gres, "gpu").filter(|(_, count)| *count > 0)
    }

    /// Shards that each of its GPUs is cut into; 0 where they are not, or not evenly.
    pub(crate) fn shards_per_gpu(&self) -> u32 {
        let (gpus, shards) = (self.gpus().map_or(0, |(_, count)| count), gres(&self.gres, "shard"));
        let shards = shards.map_or(0, |(_, count)| count);
        if gpus > 0 && shards.is_multiple_of(gpus) { shards / gpus } else { 0 }
    }
}

/// Type and count of a resource in texts such as `gres:gpu:v100:2`, `gpu:2(IDX:0-1),shard:4` or `gres/gpu=2`.
pub(crate) fn gres(text: &str, name: &str) -> Option<(Option<String>, u32)> {
    // Commas inside of brackets belong to a list of devices.
    let mut depth = 0;
    let parts = text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    for part in parts {
        let part = part.trim().trim_start_matches("gres:").trim_start_matches("gres/");
        let part = part.split('(').next().unwrap_or(part).replace('=', ":");
        let mut fields = part.split(':');
        if fields.next() != Some(name) {
            continue;
        }
        let rest: Vec<&str> = fields.collect();
        return match rest.as_slice() {
            [] => Some((None, 1)),
            [one] => Some(one.parse().map_or_else(|_| (Some((*one).to_owned()), 1), |count| (None, count))),
            [kind, .., count] => Some((Some((*kind).to_owned()), count.parse().ok()?)),
        };
    }
    None
}

/// Numbers of the devices in texts such as `gpu:v100:2(IDX:0-1),license:1`; of shared GPUs too.
pub(crate) fn indices(detail: &str) -> Vec<u32> {
    let lists = detail.split("(IDX:").skip(1).filter_map(|rest| rest.split(')').next());
    let found: std::collections::BTreeSet<u32> = lists.flat_map(ranges).collect();
    found.into_iter().collect()
}

/// Numbers in a list such as `0,2-3` or `0-10:5`; at most a million.
fn ranges(list: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for part in list.split(',') {
        let (span, step) = part.split_once(':').map_or((part, 1), |(span, step)| (span, step.parse().unwrap_or(1)));
        let (from, to) = span.split_once('-').unwrap_or((span, span));
        if let (Ok(from), Ok(to)) = (from.trim().parse::<u32>(), to.trim().parse::<u32>()) {
            found.extend((from..=to).step_by(std::cmp::max(step, 1)).take(1_000_000));
        }
    }
    found
}

/// Names in Slurm's short form: `n[0-2,7],login` is n0, n1, n2, n7 and login.
pub(crate) fn hosts(list: &str) -> Vec<String> {
    let (mut found, mut depth, mut part) = (Vec::new(), 0, String::new());
    for c in list.chars().chain([',']) {
        depth += i32::from(c == '[') - i32::from(c == ']');
        if c != ',' || depth > 0 {
            part.push(c);
            continue;
        }
        let whole = std::mem::take(&mut part);
        if whole.is_empty() {
            continue;
        }
        let Some((head, rest)) = whole.split_once('[') else {
            found.push(whole);
            continue;
        };
        let (inner, tail) = rest.split_once(']').unwrap_or((rest, ""));
        for span in inner.split(',') {
            let width = span.split('-').next().map_or(0, str::len);
            found.extend(ranges(span).into_iter().map(|n| format!("{head}{n:0width$}{tail}")));
        }
    }
    found
}

/// A number, also where it is written as `{"set": true, "infinite": false, "number": 3}`; nothing for what is not set.
fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        Value::Object(fields) => {
            let no = |key: &str, bad: bool| fields.get(key).and_then(Value::as_bool) == Some(bad);
            if no("set", false) || no("infinite", true) {
                return None;
            }
            fields.get("number").and_then(number_of)
        }
        _ => None,
    }
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(number_of(&Value::deserialize(deserializer)?))
}

fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(number_of(&Value::deserialize(deserializer)?).unwrap_or(0.0) as u64)
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer).ok().flatten().unwrap_or_default())
}

fn strings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Array(items) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        Value::String(text) if !text.is_empty() => text.split(',').map(str::to_owned).collect(),
        _ => Vec::new(),
    })
}

/// A list as one text, also where it is written as a list.
fn listed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(strings(deserializer)?.join(","))
}

/// One word or several, in capitals.
fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(strings(deserializer)?.iter().map(|word| word.to_uppercase()).collect())
}

/// A wait status, also where it is spelt out with a return code and a signal.
fn exit_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if let Some(code) = value.get("return_code").and_then(number_of) {
        let signal = value.get("signal").and_then(|signal| signal.get("id").or_else(|| signal.get("signal_id")));
        let signal = signal.and_then(number_of).unwrap_or(0.0);
        return Ok(((code as i64) << 8) | signal as i64);
    }
    Ok(number_of(&value).unwrap_or(0.0) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(json: &str) -> JobRecord {
        serde_json::from_str(json).expect("a record")
    }

    #[test]
    fn both_shapes_of_records_are_read() {
        let old = job(
            r#"{"job_id": 7, "job_state": "PENDING", "priority": 0, "submit_time": 9, "array_task_id": null, "exit_code": 768,
                          "tres_per_node": "gres:gpu:v100:2", "node_count": 2}"#,
        );
        let new = job(
            r#"{"job_id": 7, "job_state": ["PENDING"], "priority": {"set": true, "infinite": false, "number": 0},
                          "submit_time": {"set": true, "infinite": false, "number": 9}, "array_task_id": {"set": false, "number": 0},
                          "exit_code": {"status": ["ERROR"], "return_code": {"set": true, "infinite": false, "number": 3}},
                          "tres_per_node": "gres/gpu:v100:2", "node_count": {"set": true, "infinite": false, "number": 2}}"#,
        );
        for record in [old, new] {
            assert_eq!((record.slurm_name().as_str(), record.stage(), record.submit_time), ("7", Stage::Held, 9));
            assert_eq!(
                record.wanted(),
                Some(GpuWish { per_node: 2, nodes: 2, kind: Some("v100".into()), sharded: false })
            );
            assert_eq!(record.ending(), ("exit code 3".to_owned(), Some(3)));
        }
    }

    #[test]
    fn counts_of_gpus_are_read_however_they_are_written() {
        for (text, kind, count) in [
            ("gres:gpu:1", None, 1),
            ("gpu", None, 1),
            ("gpu:v100", Some("v100"), 1),
            ("gres/gpu=4", None, 4),
            ("gpu:a100:2(IDX:0,2),shard:4", Some("a100"), 2),
            ("shard:4,gpu:k80:3(S:0-1)", Some("k80"), 3),
        ] {
            assert_eq!(gres(text, "gpu"), Some((kind.map(str::to_owned), count)), "{text}");
        }
        assert_eq!(gres("", "gpu"), None);
        assert_eq!(indices("gpu:a100:3(IDX:0,2-3)"), [0, 2, 3]);
        assert_eq!(indices("shard:1(IDX:1)"), [1]);
        assert_eq!(indices("gpu:v100:0(IDX:N/A)"), Vec::<u32>::new());
        assert_eq!(gres("license:3", "gpu"), None);
    }

    #[test]
    fn a_job_that_slurm_gave_no_device_is_known_by_its_details() {
        for (detail, lacks) in [
            (r#"["gpu:v100:0(IDX:)"]"#, true),
            (r#"["gpu:v100:1(IDX:0)", "gpu:v100:0(IDX:)"]"#, true),
            (r#"["shard:0(IDX:)"]"#, true),
            (r#"["gpu:v100:1(IDX:0)"]"#, false),
            (r#"["shard:2(IDX:1)"]"#, false),
            ("[]", false),
        ] {
            assert_eq!(job(&format!(r#"{{"gres_detail": {detail}}}"#)).lacks_devices(), lacks, "{detail}");
        }
    }

    #[test]
    fn short_forms_of_names_and_tasks_are_written_out() {
        assert_eq!(hosts("n[0-2,7],login"), ["n0", "n1", "n2", "n7", "login"]);
        assert_eq!(hosts("gpu[08-10]-ib"), ["gpu08-ib", "gpu09-ib", "gpu10-ib"]);
        assert_eq!(hosts(""), Vec::<String>::new());
        let array = job(r#"{"job_id": 6, "array_job_id": 6, "array_task_string": "0,2-3%2"}"#);
        assert_eq!(array.tasks(), (vec!["6_0".into(), "6_2".into(), "6_3".into()], 2));
        let task = job(r#"{"job_id": 9, "array_job_id": 6, "array_task_id": 1}"#);
        assert_eq!(task.tasks(), (vec!["6_1".into()], 0));
    }

    #[test]
    fn nodes_say_what_can_be_done_with_them() {
        let node = |json: &str| serde_json::from_str::<NodeRecord>(json).expect("a record");
        let plain = node(r#"{"name": "a", "state": "mixed", "state_flags": [], "gres": "gpu:a100:2,shard:4"}"#);
        assert!(plain.up() && plain.drained().is_none());
        assert_eq!(plain.gpus(), Some((Some("a100".into()), 2)));
        assert_eq!(plain.shards_per_gpu(), 2);
        let typed = node(r#"{"name": "a", "gres": "gpu:a100:4(S:0-1),shard:a100:16(S:0-1)"}"#);
        assert_eq!(typed.shards_per_gpu(), 4);
        assert_eq!(node(r#"{"name": "a", "gres": "gpu:a100:4"}"#).shards_per_gpu(), 0);
        let drained = node(r#"{"name": "a", "state": ["IDLE", "DRAIN"], "reason": "fan"}"#);
        assert!(drained.up());
        assert_eq!(drained.drained().as_deref(), Some("Slurm says drain: fan"));
        assert!(!node(r#"{"name": "a", "state": "down", "state_flags": ["NOT_RESPONDING"]}"#).up());
        // Before a node registers, after a start of slurmctld; and where a version does not say.
        assert!(!node(r#"{"name": "a", "state": "mixed", "slurmd_start_time": 0}"#).has_registered());
        assert!(
            !node(r#"{"name": "a", "slurmd_start_time": {"set": true, "infinite": false, "number": 0}}"#)
                .has_registered()
        );
        assert!(node(r#"{"name": "a", "slurmd_start_time": 1795011012}"#).has_registered() && plain.has_registered());
    }
}
