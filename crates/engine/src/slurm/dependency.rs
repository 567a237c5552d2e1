//! What a held job waits for, by Slurm's rules.
//!
//! Slurm does not look at the dependencies of a job that is held, and those of arles' jobs are: they would seem to wait for ever. So they are worked
//! out here, from the same queue. A job whose dependency is met is taken; one whose dependency can never be met any more is given back, and
//! Slurm says so of it, or cancels it, as it would without arles. What is left to Slurm altogether: jobs of other clusters, burst buffers.

use super::record::{JobRecord, Stage};

/// How a job stands with those it depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dependency {
    /// It may start.
    Met,
    /// Others must start or end first.
    Open,
    /// It can never start: a job that it needs to succeed has failed, say.
    Never,
}

/// How a job stands with those it depends on, by the last look. `now` in Unix seconds.
pub(super) fn dependency(record: &JobRecord, records: &[JobRecord], now: u64) -> Dependency {
    let any = record.dependency.contains('?');
    let parts = record.dependency.split([',', '?']).filter(|part| !part.is_empty());
    let found: Vec<Dependency> = parts.flat_map(|part| each(part, record, records, now)).collect();
    let all = |wanted| found.iter().all(|at| *at == wanted);
    let some = |wanted| found.contains(&wanted);
    match any {
        _ if all(Dependency::Met) => Dependency::Met,
        true if some(Dependency::Met) => Dependency::Met,
        true if all(Dependency::Never) => Dependency::Never,
        false if some(Dependency::Never) => Dependency::Never,
        _ => Dependency::Open,
    }
}

/// One part, such as `afterok:12(unfulfilled):13_2+5` or `singleton`: one answer for each job that it names.
fn each(part: &str, record: &JobRecord, records: &[JobRecord], now: u64) -> Vec<Dependency> {
    let Some((sort, list)) = part.split_once(':') else {
        return vec![if part.starts_with("singleton") { singleton(record, records) } else { Dependency::Met }];
    };
    let of = |item: &str| {
        if item.ends_with("(failed)") {
            return Dependency::Never;
        }
        let item = item.split('(').next().unwrap_or(item);
        let (name, minutes) = item.split_once('+').unwrap_or((item, "0"));
        let others = named(name, record, sort, records);
        // Nobody remembers it: Slurm knows, and says so when the job is released.
        let stands = others.iter().map(|other| after(sort, other, now, minutes.parse().unwrap_or(0)));
        let stands: Vec<Dependency> = stands.collect();
        match stands.iter().find(|at| **at == Dependency::Never).or(stands.iter().find(|at| **at == Dependency::Open)) {
            Some(worst) => *worst,
            None => Dependency::Met,
        }
    };
    list.split(':').map(of).collect()
}

/// The jobs that a name stands for: a job, a task, or all tasks of an array; with `aftercorr` the task of the same number.
fn named<'r>(name: &str, record: &JobRecord, sort: &str, records: &'r [JobRecord]) -> Vec<&'r JobRecord> {
    let name = name.trim_end_matches("_*");
    let task = record.array_task_id.filter(|_| sort == "aftercorr").map(|task| format!("{name}_{task}"));
    let number = name.parse::<u64>().unwrap_or(0);
    let is_it = |other: &&JobRecord| match &task {
        Some(task) => other.slurm_name() == *task,
        None => other.slurm_name() == name || (number > 0 && other.array_job_id == number),
    };
    records.iter().filter(is_it).collect()
}

fn after(sort: &str, other: &JobRecord, now: u64, minutes: u64) -> Dependency {
    let stage = other.stage();
    let over = matches!(stage, Stage::Completed | Stage::Cancelled | Stage::Failed);
    let waits = matches!(stage, Stage::Held | Stage::Queued);
    match sort {
        // It must have begun, and so many minutes ago.
        "after" => {
            let begun = over || (!waits && now >= other.start_time.saturating_add(60 * minutes));
            if begun { Dependency::Met } else { Dependency::Open }
        }
        "afterok" | "aftercorr" | "afternotok" if over => {
            let wanted = (stage == Stage::Completed) == (sort != "afternotok");
            if wanted { Dependency::Met } else { Dependency::Never }
        }
        "afterok" | "aftercorr" | "afternotok" | "afterany" if !over => Dependency::Open,
        _ => Dependency::Met,
    }
}

/// One job of a name and user at a time, the first that came first.
fn singleton(record: &JobRecord, records: &[JobRecord]) -> Dependency {
    let alike = |other: &&JobRecord| {
        other.name == record.name && other.user_id == record.user_id && other.job_id != record.job_id
    };
    let before = |other: &JobRecord| match other.stage() {
        Stage::Running | Stage::Completing => true,
        Stage::Held | Stage::Queued => other.job_id < record.job_id,
        Stage::Completed | Stage::Cancelled | Stage::Failed => false,
    };
    if records.iter().filter(alike).any(before) { Dependency::Open } else { Dependency::Met }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(job_id: u64, state: &str, dependency: &str) -> JobRecord {
        JobRecord {
            job_id,
            job_state: vec![state.into()],
            priority: Some(1.0),
            name: "train".into(),
            user_id: Some(7.0),
            start_time: 1000,
            dependency: dependency.into(),
            ..JobRecord::default()
        }
    }

    #[test]
    fn dependencies_mean_what_slurm_says() {
        use Dependency::{Met, Never, Open};
        let array = |job_id, task, state| JobRecord {
            array_job_id: 20,
            array_task_id: Some(task),
            name: "other".into(),
            ..job(job_id, state, "")
        };
        let records = [
            job(1, "COMPLETED", ""),
            job(2, "FAILED", ""),
            job(3, "RUNNING", ""),
            job(4, "PENDING", ""),
            array(20, 0.0, "COMPLETED"),
            array(21, 1.0, "RUNNING"),
        ];
        for (text, expected) in [
            ("", Met),
            ("afterok:1(unfulfilled)", Met),
            ("afterok:2(unfulfilled)", Never),
            ("afterok:9(failed)", Never),
            ("afternotok:1", Never),
            ("afternotok:2", Met),
            ("afterany:2(unfulfilled)", Met),
            ("afterany:3", Open),
            ("afterok:1:3", Open),
            ("afterok:2:3", Never),
            ("afterok:2?afterok:1", Met),
            ("afterok:2?afterok:3", Open),
            ("afterok:2?afternotok:1", Never),
            ("afterok:1,afterany:3", Open),
            ("after:3", Met),
            ("after:3+5", Open),
            ("after:4", Open),
            ("afterok:20_*(unfulfilled)", Open),
            ("afterok:20_0", Met),
            // Jobs that Slurm has forgotten: it will say what came of them.
            ("afterok:77", Met),
            ("singleton(unfulfilled)", Open),
        ] {
            assert_eq!(dependency(&job(9, "PENDING", text), &records, 1100), expected, "{text}");
        }
        let alone = JobRecord { name: "alone".into(), ..job(9, "PENDING", "singleton") };
        assert_eq!(dependency(&alone, &records, 1100), Met);
        let task = JobRecord { array_task_id: Some(0.0), ..job(9, "PENDING", "aftercorr:20_*") };
        assert_eq!(dependency(&task, &records, 1100), Met);
    }
}
