//! Programs that were submitted through arles, as batch jobs.
//!
//! A batch job is submitted once, held, and may run many times on other nodes. What changes from run to run (how far it got, on which kind it is) is in a
//! file that is written before each release and read by the job's first lines; so the folder must be where the nodes see it.
//!
//! - `environment`: what the program is told, as shell assignments;
//! - `script`: the program's own script, if it is one;
//! - `steps`: the number of steps that are safe, if the program writes any.

use super::entry::Entry;
use super::gang::Gang;
use super::mark::{Mark, WORD};
use arles_core::{Cluster, JobId, Program};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where a job's files are.
pub(crate) fn folder(root: &Path, job: JobId) -> PathBuf {
    root.join(format!("job-{}", job.0))
}

/// Steps that a program says are safe, and when it said so.
pub(crate) fn steps(root: &Path, job: JobId) -> Option<(f64, SystemTime)> {
    let path = folder(root, job).join("steps");
    let steps: f64 = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
    let at = fs::metadata(&path).and_then(|meta| meta.modified()).ok()?;
    (steps.is_finite() && steps >= 0.0).then_some((steps, at))
}

/// Options of sbatch and the script that it is given, for so many nodes and what is asked for on each.
pub(super) fn batch(
    root: &Path,
    logs: &Path,
    entry: &Entry,
    journal: &str,
    shape: (u32, &str),
) -> io::Result<(Vec<String>, String)> {
    let ((nodes, gres), spec, nothing) = (shape, &entry.live.spec, Program::default());
    let program = spec.program.as_deref().unwrap_or(&nothing);
    let folder = folder(root, spec.id);
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(logs)?;
    let mark = Mark { job: spec.id, journal: journal.to_owned(), term: 0, gang: None };
    let named = |name: &String| {
        let index = spec.array.map_or(0, |task| task.index);
        let name = name.replace("%j", &spec.id.0.to_string()).replace("%a", &index.to_string());
        program.directory.as_ref().map_or_else(|| logs.to_owned(), PathBuf::from).join(name)
    };
    let stdout = program.stdout.as_ref().map_or_else(|| logs.join(format!("job-{}.log", spec.id.0)), named);
    let mut options = vec![
        format!("--job-name={WORD}-{}", spec.id.0),
        format!("--comment={}", mark.write()),
        format!("--nodes={nodes}"),
        format!("--gres={gres}"),
        "--requeue".into(),
        "--open-mode=append".into(),
        "--export=PATH,HOME,USER,LANG".into(),
        format!("--output={}", stdout.display()),
        format!("--chdir={}", program.directory.as_deref().unwrap_or("/")),
    ];
    options.extend(program.stderr.as_ref().map(|name| format!("--error={}", named(name).display())));
    let needs = &spec.needs;
    if needs.cpus_per_gpu > 0.0 {
        options.push(format!("--cpus-per-task={}", (needs.cpus_per_gpu * f64::from(spec.gang)).ceil()));
    }
    if needs.memory_gib_per_gpu > 0.0 {
        options.push(format!("--mem={}M", (needs.memory_gib_per_gpu * f64::from(spec.gang) * 1024.0).ceil()));
    }
    let mut words: Vec<String> = Vec::new();
    if let Some(script) = &program.script {
        let path = folder.join("script");
        fs::write(&path, &script.text)?;
        let first = script.text.lines().next().unwrap_or("");
        // Run by what its first line names, so that a folder on which nothing may be executed will do.
        let interpreter = first.strip_prefix("#!").map_or("/bin/sh", str::trim);
        words.extend(interpreter.split_whitespace().map(str::to_owned));
        words.push(path.display().to_string());
    }
    words.extend(program.command.iter().cloned());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let environment = quoted(&folder.join("environment").display().to_string());
    Ok((options, format!("#!/bin/sh\n. {environment} || exit 125\nexec {}\n", words.join(" "))))
}

/// Writes what the next run is told.
pub(super) fn write_environment(
    root: &Path,
    entry: &Entry,
    gang: &Gang,
    cluster: &Cluster,
    common: impl Iterator<Item = (String, String)>,
) -> io::Result<()> {
    let spec = &entry.live.spec;
    let folder = folder(root, spec.id);
    let own = spec.program.iter().flat_map(|program| program.environment.clone());
    let mut told: Vec<(String, String)> = common.chain(own).collect();
    told.push(("ARLES_JOB".into(), spec.id.0.to_string()));
    told.push(("ARLES_GPUS".into(), gang.gpus.len().to_string()));
    told.push(("ARLES_KIND".into(), cluster.kind(gang.kind).name.clone()));
    told.push(("ARLES_STEPS_DONE".into(), entry.steps.to_string()));
    told.push(("ARLES_STEPS_FILE".into(), folder.join("steps").display().to_string()));
    told.extend(spec.array.map(|task| ("ARLES_ARRAY_INDEX".into(), task.index.to_string())));
    let sound = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let lines = told.iter().filter(|(name, _)| sound(name));
    let text: String = lines.map(|(name, value)| format!("export {name}={}\n", quoted(value))).collect();
    let new = folder.join("environment.new");
    fs::write(&new, text)?;
    fs::rename(new, folder.join("environment"))
}

/// One word for a shell, whatever is in it.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
