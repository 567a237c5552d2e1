//! What a gang's program is started with: its words, its environment, its files and its limits.

use super::cgroup::HostLimits;
use super::mps::{Mps, Sharing};
use super::output::{self, Stream};
use super::process::{self, Process, Record};
use super::processors::{THREADS_VARIABLE, threads_each};
use super::shim::Task;
use super::{Local, tree};
use arles_core::engine::OutputStream;
use arles_core::scheduler::{Fence, Start};
use arles_core::{JobId, Program, Time};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Local {
    pub(super) fn launch(&self, now: Time, start: &Start) -> Result<Process, String> {
        let job = &self.jobs[&start.job];
        let spec = &job.live.spec;
        let program = spec.program.as_deref().ok_or_else(|| format!("job {} has no program", start.job.0))?;
        let folder = self.options.state.join(format!("{}-{}", start.job.0, start.fence.0));
        // Nothing is left of a start that failed.
        let cannot = |error: std::io::Error| {
            let _ = std::fs::remove_dir_all(&folder);
            format!("job {} cannot be started: {error}", start.job.0)
        };
        let words = process::words(&folder, program).map_err(cannot)?;
        let (stdout, stderr) = self.outputs(start.job, program);
        let mut environment = program.environment.clone();
        environment.extend(self.environment(start));
        if std::env::var_os(THREADS_VARIABLE).is_none() {
            environment.entry(THREADS_VARIABLE.into()).or_insert_with(|| self.threads(start).to_string());
        }
        if let ([gpu], Sharing::Mps) = (start.gpus.as_slice(), self.options.sharing)
            && self.cluster.kind(start.kind).max_jobs >= 2
        {
            let service = Mps::new(&self.group_prefix());
            environment.extend(service.serve(gpu.0, &self.devices[gpu.index()]).map_err(cannot)?);
        }
        let steps = process::steps_file(&folder);
        environment.insert("ARLES_STEPS_FILE".into(), steps.to_string_lossy().into_owned());
        let needs = spec.needs;
        let gpus = start.gpus.len() as f64;
        let limits = HostLimits { cpus: needs.cpus_per_gpu * gpus, memory_gib: needs.memory_gib_per_gpu * gpus };
        let group = self.cgroups.make(&self.group_name(start.job, start.fence), limits).map_err(cannot)?;
        let record = Record {
            job: start.job,
            fence: start.fence,
            kind: start.kind,
            gpus: start.gpus.clone(),
            spread: start.spread,
            started: now,
            process: None,
            boot: tree::boot(),
            cgroup: group.clone(),
        };
        let task = Task {
            words,
            directory: program.directory.as_ref().map(PathBuf::from),
            environment,
            stdout,
            stderr,
            limits: self.options.output,
            cgroup: group,
        };
        Process::start(folder.clone(), record, &self.options.shim, &task).map_err(cannot)
    }

    /// Threads of a program that computes on processors, too: as many as it asked for, or its GPUs' part of the machine.
    fn threads(&self, start: &Start) -> usize {
        let asked = self.jobs[&start.job].live.spec.needs.cpus_per_gpu * start.gpus.len() as f64;
        let sharing = if self.cluster.kind(start.kind).max_jobs >= 2 { 2 } else { 1 };
        if asked > 0.0 { asked.ceil() as usize } else { threads_each(start.gpus.len(), self.cluster.gpus(), sharing) }
    }

    /// The name of a gang's control group. Several engines may have theirs in one place.
    pub(super) fn group_name(&self, job: JobId, fence: Fence) -> String {
        format!("{}-{}-{}", self.group_prefix(), job.0, fence.0)
    }

    pub(super) fn group_prefix(&self) -> String {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.options.state.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// Files for a program's output. `%j` is the job and `%a` its index in an array.
    fn outputs(&self, job: JobId, program: &Program) -> (Stream, Option<Stream>) {
        let index = self.jobs[&job].live.spec.array.map_or(0, |task| task.index);
        let logs = &self.options.logs;
        let stream = |path: PathBuf, of| Stream { path, index: output::index_path(logs, job, of) };
        let named = |name: &String| {
            let name = name.replace("%j", &job.0.to_string()).replace("%a", &index.to_string());
            program.directory.as_ref().map_or(logs.as_path(), Path::new).join(name)
        };
        let out = program.stdout.as_ref().map_or_else(|| logs.join(format!("job-{}.log", job.0)), named);
        let err = program.stderr.as_ref().map(named).filter(|err| *err != out);
        (stream(out, OutputStream::Stdout), err.map(|err| stream(err, OutputStream::Stderr)))
    }

    fn environment(&self, start: &Start) -> BTreeMap<String, String> {
        let job = &self.jobs[&start.job];
        let devices: Vec<&str> = start.gpus.iter().map(|gpu| self.devices[gpu.index()].as_str()).collect();
        let mut environment = self.options.environment.clone();
        environment.insert("CUDA_VISIBLE_DEVICES".into(), devices.join(","));
        environment.insert("ARLES_JOB".into(), start.job.0.to_string());
        environment.insert("ARLES_GPUS".into(), start.gpus.len().to_string());
        environment.insert("ARLES_KIND".into(), self.cluster.kind(start.kind).name.clone());
        environment.insert("ARLES_STEPS_DONE".into(), job.steps.to_string());
        if let Some(task) = job.live.spec.array {
            environment.insert("ARLES_ARRAY_INDEX".into(), task.index.to_string());
        }
        environment
    }
}
