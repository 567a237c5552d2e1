//! The program that a job runs, as its submitter gave it.
//!
//! Core carries it from the submission to the engine and never looks into it: nothing here may change a decision.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an engine starts on a job's GPUs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Program {
    /// The command and its arguments. With a script, the interpreter's arguments are in the script's first line and these are the script's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A script that travels with the job, so that editing the file afterwards changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<Script>,
    /// Environment variables, on top of what the engine sets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Container image, where the engine runs containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// File for standard output; `%j` is the job, `%a` the array index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// File for standard error; the same file as standard output if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// What the job is called in another system's queue, where it came from there: the engine finds it by this name. Never taken from a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
}

/// A script, with its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// File name, without its folder.
    pub name: String,
    /// What it says, first line included.
    pub text: String,
}
