//! Control groups (version 2), where this process may make them: a gang's processes are ended together whatever they forked, and get no
//! more memory and processor time than the job asked for.
//!
//! Groups are made below the one that this process is in; under systemd that takes `Delegate=yes`. The kernel gives a group's controllers to groups
//! below it only if no process is in it, so this process moves one level down, as systemd documents for services that manage groups themselves.
//! Without controllers groups have no limits, and still end everything at once; without groups the shim and the mark in the environment
//! must do.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What groups of this machine can do for gangs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cgroups {
    /// Groups below this folder, with limits.
    Limits(PathBuf),
    /// Groups below this folder, which only end what is in them.
    Kill(PathBuf),
    /// None, for this reason.
    None(String),
}

/// What a gang may use; 0 is all that there is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct HostLimits {
    pub(super) cpus: f64,
    pub(super) memory_gib: f64,
}

impl Cgroups {
    /// Finds out what this process may do.
    pub(super) fn find() -> Self {
        let own = match own_folder() {
            Ok(own) => own,
            Err(why) => return Self::None(why),
        };
        let base = own.join("arles-jobs");
        if let Err(error) = fs::create_dir_all(&base) {
            return Self::None(format!(
                "{} cannot be written ({error}); systemd allows it with Delegate=yes",
                own.display()
            ));
        }
        if !base.join("cgroup.kill").exists() {
            return Self::None("this kernel cannot end a control group; Linux 5.14 can".into());
        }
        match give_controllers(&own).and_then(|()| fs::write(base.join("cgroup.subtree_control"), "+memory +cpu")) {
            Ok(()) => Self::Limits(base),
            Err(_) => Self::Kill(base),
        }
    }

    /// What to tell an operator, once.
    pub(super) fn remark(&self) -> String {
        match self {
            Self::Limits(base) => {
                format!("jobs get the memory and CPUs that they asked for, by control groups below {}", base.display())
            }
            Self::Kill(base) => format!(
                "jobs are in control groups below {}, without limits on memory and CPUs: its controllers are not given to groups below it",
                base.display()
            ),
            Self::None(why) => format!("jobs are in no control groups and have no limits on memory and CPUs: {why}"),
        }
    }

    /// Ends and removes groups of this prefix that belong to no gang that is known: an engine that was killed may have left some.
    pub(super) fn sweep(&self, prefix: &str, owned: &BTreeSet<String>) {
        let (Self::Limits(base) | Self::Kill(base)) = self else { return };
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(prefix) && !owned.contains(&name) {
                kill(&entry.path());
                remove(&entry.path());
            }
        }
    }

    /// Makes a group for a gang; `None` where there are none.
    pub(super) fn make(&self, name: &str, limits: HostLimits) -> io::Result<Option<PathBuf>> {
        let base = match self {
            Self::Limits(base) | Self::Kill(base) => base,
            Self::None(_) => return Ok(None),
        };
        let group = base.join(name);
        fs::create_dir_all(&group)?;
        if matches!(self, Self::Limits(_)) {
            if limits.memory_gib > 0.0 {
                let bytes = (limits.memory_gib * (1u64 << 30) as f64) as u64;
                fs::write(group.join("memory.max"), bytes.to_string())?;
                // A job over its limit would not be slowed down by the disk instead of ended.
                let _ = fs::write(group.join("memory.swap.max"), "0");
            }
            if limits.cpus > 0.0 {
                fs::write(group.join("cpu.max"), format!("{} 100000", (limits.cpus * 1e5).ceil() as u64))?;
            }
        }
        Ok(Some(group))
    }
}

/// Ends all that is in a group.
pub(super) fn kill(group: &Path) {
    let _ = fs::write(group.join("cgroup.kill"), "1");
}

/// Whether anything is in a group, or in groups that were made below it.
pub(super) fn populated(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.events")).is_ok_and(|text| text.lines().any(|line| line == "populated 1"))
}

/// Whether the kernel ended something in a group for want of memory.
pub(super) fn out_of_memory(group: &Path) -> bool {
    let text = fs::read_to_string(group.join("memory.events")).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
}

/// Removes an empty group, with those that a program may have made in it.
pub(super) fn remove(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

/// The group that this process is in, as a folder.
fn own_folder() -> Result<PathBuf, String> {
    let unreadable = |what: &str| format!("{what} cannot be read");
    let groups = fs::read_to_string("/proc/self/cgroup").map_err(|_| unreadable("/proc/self/cgroup"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|_| unreadable("/proc/self/mountinfo"))?;
    folder_of(&groups, &mounts).ok_or_else(|| "control groups of version 2 are not mounted".to_owned())
}

/// From the line `0::/path` of the process, and where that hierarchy is mounted.
fn folder_of(groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounted = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        after.starts_with("cgroup2 ").then_some((root, point))
    })?;
    // In a container the mount may show a part of the hierarchy, and the process its whole path.
    let below = path.strip_prefix(mounted.0.trim_end_matches('/')).unwrap_or(path);
    let own = below.trim_start_matches('/');
    // A daemon that moved itself one level down, in an earlier life of the same service.
    let own = own.strip_suffix("arles-daemon").unwrap_or(own).trim_end_matches('/');
    Some(if own.is_empty() { PathBuf::from(mounted.1) } else { Path::new(mounted.1).join(own) })
}

/// Lets groups below this one have limits.
fn give_controllers(own: &Path) -> io::Result<()> {
    let control = own.join("cgroup.subtree_control");
    if fs::write(&control, "+memory +cpu").is_ok() {
        return Ok(());
    }
    // Where there are no such controllers, moving would gain nothing.
    let offered = fs::read_to_string(own.join("cgroup.controllers"))?;
    if !["memory", "cpu"].iter().all(|wanted| offered.split_whitespace().any(|name| name == *wanted)) {
        return Err(io::Error::other("it has no controllers of memory and CPU"));
    }
    let leaf = own.join("arles-daemon");
    fs::create_dir_all(&leaf)?;
    fs::write(leaf.join("cgroup.procs"), std::process::id().to_string())?;
    fs::write(control, "+memory +cpu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_where_it_is_mounted() {
        let check = |groups: &str, mounts: &str, folder: Option<&str>| {
            assert_eq!(folder_of(groups, mounts), folder.map(PathBuf::from), "{groups} {mounts}");
        };
        let unified = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        check("0::/system.slice/arles.service\n", unified, Some("/sys/fs/cgroup/system.slice/arles.service"));
        check(
            "0::/system.slice/arles.service/arles-daemon\n",
            unified,
            Some("/sys/fs/cgroup/system.slice/arles.service"),
        );
        check("9:pids:/\n0::/\n", unified, Some("/sys/fs/cgroup"));
        check(
            "0::/docker/abc\n",
            "29 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
            Some("/sys/fs/cgroup"),
        );
        check("9:pids:/\n", unified, None);
        check("0::/\n", "29 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", None);
    }
}
