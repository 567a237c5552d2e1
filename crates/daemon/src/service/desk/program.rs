//! From a program, a profile, needs and an array as somebody sent them to those of core: every size is limited and every text checked.

use crate::Refusal;
use arles_api as api;
use arles_core::{Library, Mode, Needs, Precision, Profile, Program, Script};
use std::collections::BTreeSet;

/// Bytes of a script.
const MOST_SCRIPT: usize = 1 << 20;
/// Bytes of a command with its arguments.
const MOST_COMMAND: usize = 128 << 10;
/// Environment variables, and their bytes.
const MOST_VARIABLES: usize = 1000;
const MOST_ENVIRONMENT: usize = 256 << 10;
/// Jobs of one array.
const MOST_TASKS: usize = 10_000;
/// Bytes of the programs of one array: each of its jobs is journalled with its own.
const MOST_ARRAY: usize = 32 << 20;

fn refused(message: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal::unprocessable("program", message, hint)
}

/// Checks a program.
pub(super) fn program(from: &api::Program) -> Result<Program, Refusal> {
    let script = from.script.as_ref().map(script).transpose()?;
    if script.is_none() && from.command.first().is_none_or(|word| word.trim().is_empty()) {
        let what = "the program has neither a command nor a script";
        return Err(refused(what, "set \"command\" to what should run, for instance [\"python\", \"train.py\"]"));
    }
    let bytes: usize = from.command.iter().map(|word| word.len() + 1).sum();
    if bytes > MOST_COMMAND {
        let message = format!("the command and its arguments have {bytes} bytes; expected at most {MOST_COMMAND}");
        return Err(refused(message, "write long arguments into a file, or send a script"));
    }
    let mut texts: Vec<(&str, &str)> = from.command.iter().map(|word| ("the command", word.as_str())).collect();
    for (name, text) in
        [("directory", &from.directory), ("image", &from.image), ("stdout", &from.stdout), ("stderr", &from.stderr)]
    {
        texts.extend(text.as_deref().map(|text| (name, text)));
    }
    if let Some((name, _)) = texts.iter().find(|(_, text)| text.contains('\0')) {
        return Err(refused(format!("{name} contains a NUL character"), "remove it: no program can be given one"));
    }
    environment(from)?;
    Ok(Program {
        command: from.command.clone(),
        script,
        environment: from.environment.clone(),
        directory: from.directory.clone(),
        image: from.image.clone(),
        stdout: from.stdout.clone(),
        stderr: from.stderr.clone(),
        external: None,
    })
}

fn script(from: &api::Script) -> Result<Script, Refusal> {
    if from.name.is_empty() || from.name.contains(['/', '\0']) || matches!(from.name.as_str(), "." | "..") {
        let message = format!("'{}' is not a file name for a script", from.name.escape_debug());
        return Err(refused(message, "use the name of the file without its folder, for instance train.sh"));
    }
    if from.text.len() > MOST_SCRIPT {
        let message = format!("the script has {} bytes; expected at most {MOST_SCRIPT}", from.text.len());
        return Err(refused(message, "keep large files where the job runs, and let a short script use them"));
    }
    if !from.text.starts_with("#!") || from.text.contains('\0') {
        let message = format!("script {} does not begin with a line such as #!/bin/bash", from.name.escape_debug());
        return Err(refused(message, "name the interpreter in the first line"));
    }
    Ok(Script { name: from.name.clone(), text: from.text.clone() })
}

fn environment(from: &api::Program) -> Result<(), Refusal> {
    let variables = &from.environment;
    if variables.len() > MOST_VARIABLES {
        let message = format!("there are {} environment variables; expected at most {MOST_VARIABLES}", variables.len());
        return Err(refused(message, "set the others in a script"));
    }
    let bytes: usize = variables.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if bytes > MOST_ENVIRONMENT {
        let message = format!("the environment has {bytes} bytes; expected at most {MOST_ENVIRONMENT}");
        return Err(refused(message, "write long values into a file"));
    }
    let sound = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match variables.iter().find(|(name, value)| !sound(name) || value.contains('\0')) {
        None => Ok(()),
        Some((name, _)) => Err(refused(
            format!("'{}' is not an environment variable", name.escape_debug()),
            "use letters, digits and _ in the name, and no NUL character in the value",
        )),
    }
}

/// Checks what somebody knows of a workload.
pub(super) fn profile(from: &api::Profile) -> Result<Profile, Refusal> {
    let like = match &from.like {
        None => None,
        Some(name) => match Library::builtin().workload(name) {
            Ok(workload) => Some(workload.name.clone()),
            Err(error) => {
                return Err(Refusal::unprocessable("profile", error.to_string(), "'arles workloads' lists them"));
            }
        },
    };
    const DOMAINS: [&str; 6] = ["vision", "language", "speech", "recommendation", "diffusion", "reinforcement"];
    if let Some(domain) = from.domain.as_deref().filter(|domain| !DOMAINS.contains(domain)) {
        let message = super::unknown("domain", domain, DOMAINS);
        return Err(Refusal::unprocessable("profile", message, format!("expected one of {}", DOMAINS.join(", "))));
    }
    Ok(Profile {
        like,
        domain: from.domain.clone(),
        mode: from.mode.map(|mode| match mode {
            api::Mode::Training => Mode::Training,
            api::Mode::Inference => Mode::Inference,
        }),
        precision: from.precision.map(|precision| match precision {
            api::Precision::Fp32 => Precision::Fp32,
            api::Precision::Tf32 => Precision::Tf32,
            api::Precision::Fp16 => Precision::Fp16,
            api::Precision::Int8 => Precision::Int8,
        }),
        batch: from.batch,
        params: from.params,
        memory_gib: from.memory_gib,
        gpu_utilisation: from.gpu_utilisation,
        bandwidth_utilisation: from.bandwidth_utilisation,
    })
}

/// Checks what a job needs against the nodes that there are.
pub(super) fn needs(from: &api::Needs, gang: u32, cluster: &arles_core::Cluster) -> Result<Needs, Refusal> {
    let api::Needs { cpus_per_gpu, memory_gib_per_gpu, gpu_memory_gib } = *from;
    let sound = |x: f64| x.is_finite() && x >= 0.0;
    if !sound(cpus_per_gpu) || !sound(memory_gib_per_gpu) || !sound(gpu_memory_gib) {
        return Err(Refusal::unprocessable("needs", "a need is not a number", "expected numbers of 0 or more"));
    }
    let needs = Needs { cpus_per_gpu, memory_gib_per_gpu, gpu_memory_gib };
    let enough = |counted: Option<f64>, need: f64| counted.is_none_or(|there| there >= need);
    let fits = |node: &&arles_core::Node| {
        !node.removed
            && cluster.kind(node.kind).memory_gib >= gpu_memory_gib
            && enough(node.cpus, cpus_per_gpu)
            && enough(node.memory_gib, memory_gib_per_gpu)
    };
    // As many GPUs as the CPUs and the memory of each node allow.
    let room = |node: &arles_core::Node| {
        let most = |counted: Option<f64>, need: f64| match counted {
            Some(there) if need > 0.0 => (there / need).floor().min(f64::from(node.gpus)) as u32,
            _ => node.gpus,
        };
        most(node.cpus, cpus_per_gpu).min(most(node.memory_gib, memory_gib_per_gpu))
    };
    let mut by_kind = vec![0_u32; cluster.kinds().len()];
    for node in cluster.nodes().iter().filter(fits) {
        by_kind[node.kind.index()] += room(node);
    }
    if by_kind.iter().all(|&gpus| gpus < gang) {
        return Err(Refusal::unprocessable(
            "needs",
            format!(
                "no nodes of this cluster have {gang} GPUs of one kind with {cpus_per_gpu} CPUs, {memory_gib_per_gpu} GiB of memory \
                 and {gpu_memory_gib} GiB of device memory for each"
            ),
            "ask for less; 'arles nodes' shows what the nodes have",
        ));
    }
    Ok(needs)
}

/// The indices of an array, and how many tasks may run at once.
pub(super) fn array(from: &api::ArrayRequest, program: Option<&Program>) -> Result<(Vec<u32>, u32), Refusal> {
    let wrong = |message: String, hint: &str| Err(Refusal::unprocessable("array", message, hint));
    let indices: Vec<u32> = match (from.from, from.to, from.indices.as_slice()) {
        (Some(first), Some(last), []) if first <= last => {
            let step = from.step.unwrap_or(1).max(1);
            let tasks = u64::from((last - first) / step) + 1;
            if tasks > MOST_TASKS as u64 {
                return wrong(format!("the array has {tasks} tasks"), "expected at most 10000; submit several arrays");
            }
            (first..=last).step_by(step as usize).collect()
        }
        (None, None, [_, ..]) if from.step.is_none() => {
            let all: BTreeSet<u32> = from.indices.iter().copied().collect();
            if all.len() < from.indices.len() {
                return wrong("an index of the array is listed twice".into(), "list every index once");
            }
            all.into_iter().collect()
        }
        (Some(first), Some(last), []) => {
            return wrong(
                format!("the array goes from {first} to {last}"),
                "expected a first index that is not above the last",
            );
        }
        _ => {
            let what = "the array needs either 'from' and 'to', or 'indices'";
            return wrong(what.into(), "give one of them, for instance {\"from\": 1, \"to\": 100, \"at_most\": 8}");
        }
    };
    if indices.len() > MOST_TASKS {
        return wrong(
            format!("the array has {} tasks", indices.len()),
            "expected at most 10000; submit several arrays",
        );
    }
    let bytes = indices.len() * program.map_or(0, size);
    if bytes > MOST_ARRAY {
        return wrong(
            format!("the programs of the array's {} jobs have {} MiB together", indices.len(), bytes >> 20),
            "expected at most 32 MiB; let a short script call a file that is where the jobs run",
        );
    }
    Ok((indices, from.at_most))
}

/// About how many bytes a program takes.
fn size(program: &Program) -> usize {
    let words: usize = program.command.iter().map(|word| word.len() + 3).sum();
    let variables: usize = program.environment.iter().map(|(name, value)| name.len() + value.len() + 6).sum();
    words + variables + program.script.as_ref().map_or(0, |script| script.text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array_of(text: &str) -> Result<(Vec<u32>, u32), Refusal> {
        array(&serde_json::from_str(text).expect("JSON of an array"), None)
    }

    #[test]
    fn arrays_are_lists_of_indices() {
        assert_eq!(array_of(r#"{"from": 1, "to": 4, "at_most": 2}"#), Ok((vec![1, 2, 3, 4], 2)));
        assert_eq!(array_of(r#"{"from": 0, "to": 9, "step": 4}"#), Ok((vec![0, 4, 8], 0)));
        assert_eq!(array_of(r#"{"indices": [7, 3]}"#), Ok((vec![3, 7], 0)));
        assert_eq!(array_of(r#"{"from": 4000000000, "to": 4000000000}"#), Ok((vec![4_000_000_000], 0)));
        for wrong in [
            "{}",
            r#"{"from": 1}"#,
            r#"{"from": 2, "to": 1}"#,
            r#"{"from": 1, "to": 2, "indices": [3]}"#,
            r#"{"indices": [3, 3]}"#,
            r#"{"indices": [3], "step": 2}"#,
            r#"{"from": 0, "to": 4000000000}"#,
        ] {
            assert_eq!(array_of(wrong).expect_err(wrong).code, "array", "{wrong}");
        }
    }

    #[test]
    fn large_programs_are_not_multiplied() {
        let script = Some(Script { name: "x.sh".into(), text: format!("#!/bin/sh\n{}", "x".repeat(1 << 19)) });
        let program = Program { script, ..Program::default() };
        let tasks =
            |to| array(&api::ArrayRequest { from: Some(1), to: Some(to), ..Default::default() }, Some(&program));
        assert!(tasks(60).is_ok());
        assert!(tasks(100).expect_err("too much").message.contains("have 50 MiB together"));
    }

    #[test]
    fn programs_are_limited_and_told_why() {
        let check = |json: &str, expect: &str| {
            let from: api::Program = serde_json::from_str(json).expect("JSON of a program");
            match program(&from) {
                Ok(_) => assert_eq!(expect, "", "{json}"),
                Err(refusal) => assert!(!expect.is_empty() && refusal.message.contains(expect), "{json}: {refusal}"),
            }
        };
        check(r#"{"command": ["python", "train.py"]}"#, "");
        check(r##"{"script": {"name": "a.sh", "text": "#!/bin/sh\n"}}"##, "");
        check("{}", "neither a command nor a script");
        check(r#"{"command": [" "]}"#, "neither a command nor a script");
        check(r#"{"command": ["a\u0000b"]}"#, "NUL");
        check(r#"{"command": ["a"], "directory": "\u0000"}"#, "directory contains a NUL");
        check(r#"{"script": {"name": "a.sh", "text": "echo"}}"#, "#!/bin/bash");
        check(r##"{"script": {"name": "../a.sh", "text": "#!/bin/sh\n"}}"##, "not a file name");
        check(r#"{"command": ["a"], "environment": {"1A": "x"}}"#, "'1A' is not an environment variable");
        let long = api::Program { command: vec!["x".repeat(MOST_COMMAND)], ..Default::default() };
        assert!(program(&long).expect_err("too long").message.contains("expected at most 131072"));
        let variables = (0..=MOST_VARIABLES).map(|n| (format!("V{n}"), String::new())).collect();
        let many = api::Program { command: vec!["x".into()], environment: variables, ..Default::default() };
        assert!(program(&many).expect_err("too many").message.contains("expected at most 1000"));
    }
}
