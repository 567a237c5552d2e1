//! What can be said of a job, on the command line or in the head of its script.

use super::parse::{self, Gang};
use crate::fault::Hinted;
use crate::quantity;
use anyhow::Result;
use arles_api as api;
use arles_core::job::{MAX_WEIGHT, MIN_WEIGHT};
use clap::Args;
use std::collections::BTreeMap;

/// The flags of `arles submit` that are about the job; `#ARLES` lines of a script have the same names.
#[derive(Args, Clone, Default)]
pub(super) struct JobFlags {
    /// Tenant; not needed with a tenant's own token
    #[arg(short, long, value_name = "NAME")]
    tenant: Option<String>,
    /// GPUs of the gang: 2, v100:2 or Slurm's gpu:v100:2; 1-4 lets the scheduler choose [default: 1]
    #[arg(short, long, value_name = "GPUS", value_parser = Gang::read)]
    gpus: Option<Gang>,
    /// Allowed GPU kinds, separated by commas [default: any]
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Training steps
    #[arg(short, long, value_name = "N", conflicts_with = "period", value_parser = |text: &str| quantity::number(text, 0.001, 1e15))]
    steps: Option<f64>,
    /// Duration of an inference job, such as 2h
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds)]
    period: Option<f64>,
    /// Minimum rate of the whole gang, in steps per second
    #[arg(long, value_name = "RATE", value_parser = |text: &str| quantity::number(text, 1e-9, 1e12))]
    floor: Option<f64>,
    /// Job name
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    /// Weight relative to the tenant's other jobs [default: 1]
    #[arg(long, value_name = "WEIGHT", value_parser = |text: &str| quantity::number(text, MIN_WEIGHT, MAX_WEIGHT))]
    weight: Option<f64>,
    /// Time lost at every restart [default: the server's]
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds)]
    restart: Option<f64>,
    /// One job for each index, such as 1-100, 1-9:2 or 1,5,7; %8 at the end lets 8 run at once
    #[arg(long, value_name = "INDICES", value_parser = parse::array)]
    array: Option<api::ArrayRequest>,
    /// Start after other jobs: ok:17 (completed), not-ok:17 (failed or cancelled), any:17; separated by commas
    #[arg(long, value_name = "JOBS", value_delimiter = ',', value_parser = parse::dependency)]
    after: Vec<api::Dependency>,
    /// Deadline, such as 2026-11-20T08:00 (UTC) or 12h from now: until then it may wait for cheaper electricity
    #[arg(long, value_name = "TIME", value_parser = crate::moment::deadline)]
    before: Option<f64>,
    /// Hold the job until 'arles release'
    #[arg(long)]
    hold: bool,
    /// Running time in all after which it is stopped, such as 2h
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_seconds)]
    time_limit: Option<f64>,
    /// Retries after failures [default: the server's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    retries: Option<u32>,
    /// CPUs for each GPU
    #[arg(long, visible_alias = "cpus-per-gpu", value_name = "N", help_heading = "Needs", value_parser = |text: &str| quantity::number(text, 0.0, 1e5))]
    cpus: Option<f64>,
    /// Host memory for each GPU, such as 64G
    #[arg(long, visible_alias = "mem-per-gpu", value_name = "SIZE", help_heading = "Needs", value_parser = quantity::gib)]
    memory: Option<f64>,
    /// Device memory on each GPU, such as 20G; kinds with less are not used
    #[arg(long, value_name = "SIZE", help_heading = "Needs", value_parser = quantity::gib)]
    gpu_memory: Option<f64>,
    /// Environment variable of the program; without a value, the one that is set here
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Program", value_parser = parse::variable)]
    env: Vec<(String, String)>,
    /// Working directory of the program [default: this one]
    #[arg(long, value_name = "DIR", help_heading = "Program")]
    chdir: Option<String>,
    /// Container image
    #[arg(long, value_name = "IMAGE", help_heading = "Program")]
    image: Option<String>,
    /// File for standard output; %j is the job, %a the array index
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    stdout: Option<String>,
    /// File for standard error [default: that of standard output]
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    stderr: Option<String>,
    /// Name that runs of this program are estimated under [default: made of image, script and entry point]
    #[arg(long = "workload", value_name = "NAME", help_heading = "Program")]
    workload_name: Option<String>,
    /// What is known of a new workload: like=resnet50-b64, or params=1.3e9,batch=32,precision=fp16,...
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Program", value_parser = parse::profile)]
    profile: Option<api::Profile>,
}

impl JobFlags {
    /// These, and what a script says where these say nothing.
    pub(super) fn over(self, script: Self) -> Self {
        // Work is one thing: whoever gives a period on the command line does not want the script's steps.
        let work = self.steps.is_some() || self.period.is_some();
        let list = |own: Vec<String>, other: Vec<String>| if own.is_empty() { other } else { own };
        Self {
            tenant: self.tenant.or(script.tenant),
            // A kind in either place is about the same GPUs.
            kinds: if self.gpus.as_ref().is_some_and(|gpus| gpus.kind.is_some()) {
                self.kinds
            } else {
                list(self.kinds, script.kinds)
            },
            gpus: self.gpus.or(script.gpus),
            steps: if work { self.steps } else { script.steps },
            period: if work { self.period } else { script.period },
            floor: self.floor.or(script.floor),
            name: self.name.or(script.name),
            weight: self.weight.or(script.weight),
            restart: self.restart.or(script.restart),
            array: self.array.or(script.array),
            after: if self.after.is_empty() { script.after } else { self.after },
            before: self.before.or(script.before),
            hold: self.hold || script.hold,
            time_limit: self.time_limit.or(script.time_limit),
            retries: self.retries.or(script.retries),
            cpus: self.cpus.or(script.cpus),
            memory: self.memory.or(script.memory),
            gpu_memory: self.gpu_memory.or(script.gpu_memory),
            env: script.env.into_iter().chain(self.env).collect(),
            chdir: self.chdir.or(script.chdir),
            image: self.image.or(script.image),
            stdout: self.stdout.or(script.stdout),
            stderr: self.stderr.or(script.stderr),
            workload_name: self.workload_name.or(script.workload_name),
            profile: self.profile.or(script.profile),
        }
    }

    /// Flags that mean nothing without a program.
    fn about_programs(&self) -> Option<&'static str> {
        let given = [
            (!self.env.is_empty(), "--env"),
            (self.chdir.is_some(), "--chdir"),
            (self.image.is_some(), "--image"),
            (self.stdout.is_some(), "--stdout"),
            (self.stderr.is_some(), "--stderr"),
            (self.workload_name.is_some(), "--workload"),
            (self.profile.is_some(), "--profile"),
        ];
        given.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }

    /// The program with what the flags say of it.
    fn complete(&self, mut program: api::Program) -> Result<api::Program> {
        program.environment = self.env.iter().cloned().collect::<BTreeMap<_, _>>();
        program.directory = match (&self.chdir, &self.image) {
            (Some(directory), _) => Some(directory.clone()),
            // Inside of an image, the folders of this machine mean nothing.
            (None, Some(_)) => None,
            (None, None) => {
                let here = std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok());
                let here = here.ok_or_else(|| {
                    Hinted::new("the name of this directory is not UTF-8", "name a working directory with --chdir DIR")
                })?;
                Some(here)
            }
        };
        program.image.clone_from(&self.image);
        program.stdout.clone_from(&self.stdout);
        program.stderr.clone_from(&self.stderr);
        Ok(program)
    }

    /// The request for a known workload or a program.
    pub(super) fn request(&self, workload: Option<&str>, program: Option<api::Program>) -> Result<api::JobRequest> {
        let (kind, gang) = self.gpus.as_ref().map_or((None, 1), |gang| (gang.kind.clone(), gang.gpus));
        let largest_gang = self.gpus.as_ref().and_then(|gang| gang.most);
        let kinds = match (kind, self.kinds.as_slice()) {
            (None, kinds) => kinds.to_vec(),
            (Some(kind), []) => vec![kind],
            (Some(kind), _) => {
                return Err(Hinted::new(
                    format!("--gpus names the kind {kind}, and --kinds names kinds too"),
                    "give a plain number with --gpus, or leave --kinds out",
                )
                .into());
            }
        };
        if program.is_none() {
            if let Some(flag) = self.about_programs() {
                let hint = "give a command after --, or a script; a workload of the library needs neither";
                return Err(Hinted::new(format!("{flag} is about a program, and there is none"), hint).into());
            }
            if self.steps.is_none() && self.period.is_none() {
                let hint = "give --steps N or --period TIME; only a program may run until it ends";
                return Err(Hinted::new("a workload of the library needs a length", hint).into());
            }
        }
        let needs = api::Needs {
            cpus_per_gpu: self.cpus.unwrap_or(0.0),
            memory_gib_per_gpu: self.memory.unwrap_or(0.0),
            gpu_memory_gib: self.gpu_memory.unwrap_or(0.0),
        };
        Ok(api::JobRequest {
            name: self.name.clone(),
            tenant: self.tenant.clone(),
            workload: workload.map(str::to_owned).or_else(|| self.workload_name.clone()),
            program: program.map(|program| self.complete(program)).transpose()?,
            profile: self.profile.clone(),
            gang,
            largest_gang,
            steps: self.steps,
            period_seconds: self.period,
            floor: self.floor,
            weight: self.weight.unwrap_or(1.0),
            restart_seconds: self.restart,
            kinds,
            needs: (needs != api::Needs::default()).then_some(needs),
            time_limit_seconds: self.time_limit,
            retries: self.retries,
            held: self.hold,
            after: self.after.clone(),
            before: self.before,
            array: self.array.clone(),
        })
    }
}
