//! Which devices of a node Slurm gave to whom.
//!
//! Orders name GPUs, and Slurm picks the devices. For most purposes it is enough that as many are taken; meters are of devices, and so are
//! dashboards. Here is the way from one to the other, as of the last look.

use super::Slurm;
use super::record::{JobRecord, Stage, hosts, indices};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

impl Slurm {
    /// Finds out again which device each GPU of the cluster is, and tells dcgm-exporter who has which.
    pub(super) fn find_devices(&mut self) {
        let mut devices: Vec<Option<u32>> = vec![None; self.cluster.gpus()];
        for entry in self.jobs.values() {
            let Some((gang, record)) = entry.running().zip(self.record(entry)) else { continue };
            for (node, numbers) in held(record) {
                let here = |gpu: &&arles_core::GpuId| self.cluster.node(self.cluster.node_of(**gpu)).name == node;
                for (gpu, number) in gang.gpus.iter().filter(here).zip(numbers) {
                    devices[gpu.index()] = Some(number);
                }
            }
        }
        // The others are whatever is left of their node, in order.
        for (_, node) in self.cluster.present() {
            let range = node.gpu_range();
            let taken: BTreeSet<u32> = range.clone().filter_map(|gpu| devices[gpu as usize]).collect();
            let mut left = (0..range.len() as u32).filter(|number| !taken.contains(number));
            for gpu in range {
                let device = &mut devices[gpu as usize];
                *device = device.or_else(|| left.next());
            }
        }
        self.devices = devices.into_iter().map(|device| Some(device.unwrap_or_default())).collect();
        if let Some(folder) = &self.options.job_mapping {
            let users = users(&self.queue.records);
            if users != self.mapped {
                write_mapping(folder, &self.mapped, &users);
                self.mapped = users;
            }
        }
    }
}

/// Nodes of a job with the numbers of its devices there.
fn held(record: &JobRecord) -> impl Iterator<Item = (String, Vec<u32>)> {
    hosts(&record.nodes).into_iter().zip(record.gres_detail.iter().map(|detail| indices(detail)))
}

/// Who has which device: jobs of Slurm by node and number, arles' and everybody else's.
pub(super) type DeviceUsers = BTreeMap<(String, u32), BTreeSet<u64>>;

fn users(records: &[JobRecord]) -> DeviceUsers {
    let mut users = DeviceUsers::new();
    for record in records.iter().filter(|record| matches!(record.stage(), Stage::Running | Stage::Completing)) {
        for (node, numbers) in held(record) {
            for number in numbers {
                users.entry((node.clone(), number)).or_default().insert(record.job_id);
            }
        }
    }
    users
}

/// A folder for each node, in it a file for each GPU by number, in it the number of a job on each line: what dcgm-exporter reads with
/// `--hpc-job-mapping-dir`. A file that cannot be written is no reason to stop anything.
fn write_mapping(folder: &Path, before: &DeviceUsers, now: &DeviceUsers) {
    let path = |(node, number): &(String, u32)| folder.join(node).join(number.to_string());
    for (device, jobs) in now.iter().filter(|(device, jobs)| before.get(*device) != Some(*jobs)) {
        let path = path(device);
        let text: String = jobs.iter().map(|job| format!("{job}\n")).collect();
        let new = path.with_extension("new");
        let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let written = parent.and_then(|()| std::fs::write(&new, text)).and_then(|()| std::fs::rename(&new, &path));
        if let Err(error) = written {
            tracing::warn!("who has which GPU cannot be written to {}: {error}", path.display());
        }
    }
    for device in before.keys().filter(|device| !now.contains_key(*device)) {
        let _ = std::fs::remove_file(path(device));
    }
}

/// Removes what an earlier daemon wrote: whoever had those devices may have left meanwhile.
pub(super) fn clear_mapping(folder: &Path) {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    for node in entries(folder) {
        for file in entries(&node.path()) {
            if file.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(job_id: u64, nodes: &str, detail: &[&str]) -> JobRecord {
        JobRecord {
            job_id,
            job_state: vec!["RUNNING".into()],
            nodes: nodes.into(),
            gres_detail: detail.iter().map(|&text| text.to_owned()).collect(),
            ..JobRecord::default()
        }
    }

    #[test]
    fn every_device_says_whose_it_is_and_nobody_else_does() {
        let folder = std::env::temp_dir().join(format!("arles-mapping-{}", std::process::id()));
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let first = users(&[
            running(7, "n[0-1]", &["gpu:v100:2(IDX:0-1)", "gpu:v100:1(IDX:3)"]),
            running(8, "n2", &["shard:1(IDX:0)"]),
            running(9, "n2", &["shard:1(IDX:0)"]),
        ]);
        write_mapping(&folder, &DeviceUsers::new(), &first);
        assert_eq!(read("n0/0").as_deref(), Some("7\n"));
        assert_eq!(read("n1/3").as_deref(), Some("7\n"));
        assert_eq!(read("n2/0").as_deref(), Some("8\n9\n"));
        write_mapping(&folder, &first, &users(&[running(9, "n2", &["shard:1(IDX:0)"])]));
        assert_eq!((read("n0/0"), read("n2/0").as_deref()), (None, Some("9\n")));
        clear_mapping(&folder);
        assert_eq!(read("n2/0"), None);
        let _ = std::fs::remove_dir_all(folder);
    }
}
