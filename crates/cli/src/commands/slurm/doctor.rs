//! `arles slurm doctor`: what of a cluster's configuration keeps arles from working well, and what to change.

use crate::commands::findings::{self, Finding, State, finding};
use crate::engines::{slurm_kinds, slurm_options};
use crate::fault::EXIT_CODES;
use crate::output::OutputFlag;
use crate::settings::{SLURM, SettingFlags};
use anyhow::Result;
use arles_engine::slurm::tools;
use clap::Args;
use std::io::Write;

/// Check a Slurm cluster's configuration and say what to change, and why
///
/// Asks Slurm for its configuration and its nodes; changes nothing. It ends with exit code 1 if something must be changed.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Doctor {
    #[command(flatten)]
    flags: SettingFlags<SLURM>,
    #[command(flatten)]
    output: OutputFlag,
}

impl Doctor {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let settings = self.flags.settings()?;
        let mut found = Vec::new();
        match tools::configuration() {
            Err(error) => {
                let text = format!("{error}; arles must run where Slurm's commands reach slurmctld");
                found.push(finding("controller", State::Wrong, text));
            }
            Ok(lines) => {
                let value =
                    |name: &str| lines.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
                found.push(finding("controller", State::Ok, format!("Slurm {} answers", value("SLURM_VERSION"))));
                found.extend(of_configuration(value, settings.serve.survey_seconds));
                let options = slurm_options(&settings);
                found.push(match (&options.rest, tools::rest_version(&options)) {
                    (None, _) => finding(
                        "slurmrestd",
                        State::Advice,
                        "not configured, so squeue --json is run at every look; set slurm.rest to spare the controller work",
                    ),
                    (Some(_), Ok(version)) => finding("slurmrestd", State::Ok, format!("answers, API {version}")),
                    (Some(_), Err(error)) => finding("slurmrestd", State::Wrong, format!("{error}; squeue --json is used instead")),
                });
                let nodes = tools::find_nodes(options.rest.as_deref(), options.token, &slurm_kinds(&settings));
                if let Ok(nodes) = &nodes {
                    found.push(of_shards(value, nodes, settings.serve.slurm_shards));
                }
                found.extend(of_nodes(nodes));
            }
        }
        findings::print(out, self.output.output, &found)
    }
}

/// Whole seconds in values such as `30 sec`.
fn seconds(value: &str) -> Option<f64> {
    value.split_whitespace().next()?.parse().ok()
}

fn of_configuration<'v>(value: impl Fn(&str) -> &'v str, survey_seconds: f64) -> Vec<Finding> {
    let mut found = Vec::new();
    let number = |name: &str| seconds(value(name));
    found.push(match value("JobRequeue") {
        "1" => finding("JobRequeue", State::Ok, "jobs may be requeued, so arles can preempt them"),
        other => finding(
            "JobRequeue",
            State::Wrong,
            format!("is {other}: a job without --requeue cannot be preempted; set JobRequeue=1 in slurm.conf"),
        ),
    });
    let kill_wait = number("KillWait").unwrap_or(0.0);
    found.push(match kill_wait {
        wait if wait >= 30.0 => {
            finding("KillWait", State::Ok, format!("a preempted job has {wait} s to save a checkpoint"))
        }
        wait => finding(
            "KillWait",
            State::Advice,
            format!("a preempted job is killed {wait} s after SIGTERM; checkpoints may need more"),
        ),
    });
    let age = number("MinJobAge").unwrap_or(0.0);
    found.push(match age {
        age if age >= 2.0 * survey_seconds => finding("MinJobAge", State::Ok, format!("ended jobs are shown for {age} s")),
        age => finding(
            "MinJobAge",
            State::Wrong,
            format!("ended jobs are shown for {age} s only, and arles looks at everything every {survey_seconds} s: how a job ended could be missed; set MinJobAge={}", (2.5 * survey_seconds).ceil()),
        ),
    });
    let expire =
        value("AuthInfo").split(',').find_map(|part| part.trim().strip_prefix("cred_expire=")).and_then(seconds);
    let expire = expire.unwrap_or(120.0);
    found.push(finding(
        "cred_expire",
        if expire > 30.0 { State::Advice } else { State::Ok },
        format!("a job that lost its node waits {expire} s before it may start there again (AuthInfo=cred_expire=SECONDS); moved jobs do not wait"),
    ));
    let holds = value("RequeueExitHold").split(',').any(|code| code.trim() == "85");
    found.push(match holds {
        true => {
            finding("RequeueExitHold", State::Ok, "a program that makes room by itself (exit code 85) is queued again")
        }
        false => finding(
            "RequeueExitHold",
            State::Advice,
            "85 is not among its codes: a program that makes room by itself counts as failed; set RequeueExitHold=85",
        ),
    });
    found.push(match value("JobSubmitPlugins").contains("lua") {
        true => finding("job_submit.lua", State::Ok, "loaded; packaging/slurm has the one that marks jobs"),
        false => finding(
            "job_submit.lua",
            State::Advice,
            "not loaded: only jobs submitted with --hold and --comment=arles are taken; set JobSubmitPlugins=lua",
        ),
    });
    found.push(rights(value("SlurmUser")));
    found
}

/// Whether this user may release, requeue and update others' jobs.
fn rights(slurm_user: &str) -> Finding {
    let own = rustix_uid();
    let number = slurm_user.split_once('(').and_then(|(_, rest)| rest.trim_end_matches(')').parse::<u32>().ok());
    match own {
        Some(uid) if uid == 0 || Some(uid) == number => finding("rights", State::Ok, "this user may operate Slurm"),
        _ => finding(
            "rights",
            State::Advice,
            "this user is not SlurmUser, so it must be an administrator of Slurm's: sacctmgr modify user NAME set adminlevel=Admin (an Operator may not write admin comments)",
        ),
    }
}

fn rustix_uid() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").ok().map(|meta| meta.uid())
}

/// Whether two jobs can be put on one GPU, where that is wanted.
fn of_shards<'v>(value: impl Fn(&str) -> &'v str, nodes: &tools::FoundNodes, wanted: bool) -> Finding {
    let shard = |state, text: String| finding("shards", state, text);
    let without: Vec<&str> =
        nodes.shards.iter().filter(|(_, count)| *count < 2).map(|(node, _)| node.as_str()).collect();
    let some = without.len() < nodes.shards.len();
    if !wanted {
        let text = match some {
            true => {
                "there are some; every job has its GPU to itself. For two jobs on one GPU set shards = true in section [slurm]"
            }
            false => "there are none: every job has its GPU to itself",
        };
        return shard(State::Ok, text.into());
    }
    if value("SelectTypeParameters").contains("LL_SHARED_GRES") {
        let text = "SelectTypeParameters has LL_SHARED_GRES, which spreads shards over GPUs: two jobs could not be put on one; remove it";
        return shard(State::Wrong, text.into());
    }
    if !some {
        let text = "shards = true in section [slurm], and no node has two or more to a GPU: set GresTypes=gpu,shard, add shard:COUNT to each \
                    node's Gres and 'Name=shard Count=COUNT File=...' with the files of its GPUs to gres.conf";
        return shard(State::Wrong, text.into());
    }
    if !without.is_empty() {
        let text = format!("not on {}: kinds with such nodes are not shared by two jobs", without.join(", "));
        return shard(State::Advice, text);
    }
    let lua = match value("JobSubmitPlugins").contains("lua") {
        true => "set shards_per_gpu in job_submit.lua, so that single-GPU jobs ask for them",
        false => "single-GPU jobs must ask for them (--gres=shard:COUNT): job_submit.lua can do that for them",
    };
    shard(State::Ok, format!("two jobs may share a GPU; {lua}"))
}

fn of_nodes(nodes: Result<tools::FoundNodes, arles_core::engine::EngineError>) -> Vec<Finding> {
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(error) => return vec![finding("nodes", State::Wrong, error.to_string())],
    };
    let gpus: u32 = nodes.nodes.iter().map(|node| node.gpus).sum();
    let text = format!("{} nodes with {gpus} GPUs of known kinds", nodes.nodes.len());
    let state = if nodes.nodes.is_empty() { State::Wrong } else { State::Ok };
    let mut found = vec![finding("nodes", state, text)];
    found.extend(nodes.unknown.into_iter().map(|(node, kind)| {
        let text = format!(
            "{node} has GPUs with {kind}, so it is left out; give them a Type in gres.conf that 'arles kinds' lists, or describe it in [[kind]]"
        );
        finding("GRES type", State::Wrong, text)
    }));
    found
}
