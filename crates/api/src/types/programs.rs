//! Programs: what a job runs, what is known of it, what it needs, and when it may start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A program: a command, or a script that travels with the job.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Program {
    /// The command and its arguments; with a script, the script's own arguments.
    #[schemars(length(max = 4096))]
    pub command: Vec<String>,
    /// Script, with its text, so that editing the file afterwards changes nothing.
    pub script: Option<Script>,
    /// Environment variables, on top of what the engine sets; at most 1000.
    pub environment: BTreeMap<String, String>,
    /// Working directory.
    #[schemars(length(min = 1, max = 4096))]
    pub directory: Option<String>,
    /// Container image, where the engine runs containers.
    #[schemars(length(min = 1, max = 1000))]
    pub image: Option<String>,
    /// File for standard output; `%j` is the job, `%a` the array index.
    #[schemars(length(min = 1, max = 4096))]
    pub stdout: Option<String>,
    /// File for standard error; the same file as standard output if not given.
    #[schemars(length(min = 1, max = 4096))]
    pub stderr: Option<String>,
}

/// A script that travels with the job, so that editing the file afterwards changes nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// File name, without its folder.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// Its text, at most 1 MiB. The first line names the interpreter: `#!/bin/bash`.
    #[schemars(length(min = 1, max = 1_048_576))]
    pub text: String,
}

/// A job's program as it is shown.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobProgram {
    /// The program in one line, shortened.
    pub line: String,
    /// All of it, where one job is asked for. The environment is shown to its tenant and to operators only.
    #[serde(default)]
    pub full: Option<Program>,
}

/// Training or inference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Runs a number of steps.
    Training,
    /// Serves at a rate.
    Inference,
}

/// The arithmetic that most of the work is done in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floating point.
    Fp32,
    /// 32-bit storage, reduced mantissa.
    Tf32,
    /// 16-bit floating point.
    Fp16,
    /// 8-bit arithmetic.
    Int8,
}

/// What is known of a workload that is not in the library; every part is optional. It counts when the workload is first used.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// A workload of the library that it is, or is much like.
    #[schemars(length(min = 1, max = 200))]
    pub like: Option<String>,
    /// `vision`, `language`, `speech`, `recommendation`, `diffusion` or `reinforcement`.
    #[schemars(length(min = 1, max = 40))]
    pub domain: Option<String>,
    /// Training or inference.
    pub mode: Option<Mode>,
    /// Arithmetic of the matrix work.
    pub precision: Option<Precision>,
    /// Samples per step on one GPU.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub batch: Option<u32>,
    /// Parameters.
    #[schemars(range(min = 1.0, max = 1e15))]
    pub params: Option<f64>,
    /// Device memory needed on one GPU.
    #[schemars(range(min = 0.001, max = 100_000.0))]
    pub memory_gib: Option<f64>,
    /// Share of the time in which the GPU had something to do, as seen in a run.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gpu_utilisation: Option<f64>,
    /// Share of peak memory bandwidth, as seen in a run.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub bandwidth_utilisation: Option<f64>,
}

/// What a job needs besides GPUs. CPUs and memory are for each of its GPUs, so that a gang can be spread over nodes.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// CPUs for each GPU; 0 for whatever is left.
    #[schemars(range(min = 0.0, max = 100_000.0))]
    pub cpus_per_gpu: f64,
    /// Host memory in GiB for each GPU; 0 for whatever is left.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub memory_gib_per_gpu: f64,
    /// Device memory in GiB on each GPU; kinds with less are not used.
    #[schemars(range(min = 0.0, max = 100_000.0))]
    pub gpu_memory_gib: f64,
}

/// How an earlier job must have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It completed.
    Ok,
    /// It failed or was cancelled.
    NotOk,
    /// It is over, however it ended.
    Any,
}

impl Outcome {
    /// In the order in which the API names them.
    pub const ALL: [Self; 3] = [Self::Ok, Self::NotOk, Self::Any];

    /// As the API writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotOk => "not-ok",
            Self::Any => "any",
        }
    }
}

/// A job that must be over before another may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dependency {
    /// The earlier job.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub job: u64,
    /// How it must end.
    pub outcome: Outcome,
}

/// An array: one job for every index, submitted at once. Give either `indices`, or `from` and `to`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArrayRequest {
    /// First index.
    #[schemars(range(min = 0, max = 4_000_000_000_u32))]
    pub from: Option<u32>,
    /// Last index.
    #[schemars(range(min = 0, max = 4_000_000_000_u32))]
    pub to: Option<u32>,
    /// Distance between two indices; 1 if not given.
    #[schemars(range(min = 1, max = 4_000_000_000_u32))]
    pub step: Option<u32>,
    /// The indices themselves.
    #[schemars(length(max = 10_000), inner(range(min = 0, max = 4_000_000_000_u32)))]
    pub indices: Vec<u32>,
    /// Tasks that may run at once; 0 for all.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub at_most: u32,
}

/// The array that a job is a task of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobArray {
    /// First job of the array.
    pub first_job: u64,
    /// Number of its jobs.
    pub tasks: u32,
    /// Index of this task, as its program is told.
    pub index: u32,
    /// Tasks that may run at once; 0 for all.
    pub at_most: u32,
}
