//! Running scenarios, several at a time.
//!
//! A run depends on nothing but its scenario and policy, and results stand in the order of the tasks; so the number of
//! threads and who is first to end change no byte of what is printed.

use crate::estimation::Tutor;
use crate::fault::Failed;
use crate::progress::Progress;
use anyhow::{Context, Result};
use arles_core::allocate::PolicyEntry;
use arles_report::record::RunRecord;
use arles_sim::scenario::{RunHooks, RunObserver, Scenario};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// One run to do.
#[derive(Clone, Copy)]
pub(crate) struct Task<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) policy: &'static PolicyEntry,
    /// Who tells the policy how fast everything is; an oracle if nobody.
    pub(crate) tutor: Option<&'s Tutor>,
    /// Jobs of the trace, for the progress bar.
    pub(crate) jobs: u64,
}

/// Does all tasks, `threads` at a time (0: as many as there are cores).
pub(crate) fn run_all(tasks: &[Task<'_>], threads: usize) -> Result<Vec<RunRecord>> {
    each(tasks, threads, &|task, progress| run(task, RunHooks::default(), progress))
}

/// Does all tasks while somebody looks on: what `observer` makes for a task sees its run, and `seen` says what of it is kept.
pub(crate) fn watch_all<O: RunObserver, T: Send>(
    tasks: &[Task<'_>],
    threads: usize,
    observer: impl Fn(&'static PolicyEntry) -> O + Sync,
    seen: impl Fn(RunRecord, O) -> T + Sync,
) -> Result<Vec<T>> {
    each(tasks, threads, &|task, progress| {
        let mut watching = observer(task.policy);
        let hooks = RunHooks { observer: Some(&mut watching), ..RunHooks::default() };
        let record = run(task, hooks, progress)?;
        Ok(seen(record, watching))
    })
}

/// What is done with a task, telling how many jobs are over.
type Work<'w, T> = &'w (dyn Fn(Task<'_>, &mut dyn FnMut(u64)) -> Result<T> + Sync);

fn each<T: Send>(tasks: &[Task<'_>], threads: usize, work_on: Work<'_, T>) -> Result<Vec<T>> {
    let progress = bar(tasks);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores } else { threads }.min(tasks.len());
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Result<T>>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        let work = || {
            while let Some((i, task)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, tasks.get(i)?)))
            {
                let result = work_on(*task, &mut |jobs| progress.at(i, jobs));
                *done[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // A worker that panicked has said so on stderr; its task has no result, which is reported below.
        workers.into_iter().for_each(|worker| drop(worker.join()));
    });
    let results = done.into_iter().zip(tasks).map(|(cell, task)| {
        let result = cell.into_inner().unwrap_or_else(PoisonError::into_inner);
        result.unwrap_or_else(|| {
            Err(Failed(format!("the run of {} ended in an internal error of arles", task.policy.name)).into())
        })
    });
    results.collect()
}

/// Does one task and writes its journal.
pub(crate) fn run_with_journal<'s>(task: Task<'s>, journal: &'s mut dyn Write) -> Result<RunRecord> {
    let progress = bar(&[task]);
    run(task, RunHooks { journal: Some(journal), ..RunHooks::default() }, &mut |jobs| progress.at(0, jobs))
}

fn bar(tasks: &[Task<'_>]) -> Progress {
    let label = if tasks.len() == 1 { "1 run".to_owned() } else { format!("{} runs", tasks.len()) };
    Progress::new(&label, &tasks.iter().map(|task| task.jobs).collect::<Vec<_>>())
}

fn run<'s>(task: Task<'s>, hooks: RunHooks<'s>, progress: &mut dyn FnMut(u64)) -> Result<RunRecord> {
    let clock = Clock::start();
    let hooks = RunHooks { estimator: task.tutor.map(Tutor::guess), ..hooks };
    let mut record = task.scenario.run(task.policy, hooks, progress).context("cannot write the journal")?;
    record.summary.wall_seconds = clock.seconds();
    Ok(record)
}

/// Time that this thread has spent on a processor; where that is not to be had, time.
struct Clock {
    cpu: Option<u64>,
    wall: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { cpu: cpu_nanoseconds(), wall: Instant::now() }
    }

    fn seconds(&self) -> f64 {
        match (self.cpu, cpu_nanoseconds()) {
            (Some(from), Some(until)) => until.saturating_sub(from) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

fn cpu_nanoseconds() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}
