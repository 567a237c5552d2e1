//! The state machine: scheduler, book and idempotency keys, driven by journal entries alone.
//!
//! Live or recovering, an entry does the same: [`StateMachine::step`] gives it to the scheduler, [`StateMachine::publish`] to the book. Between
//! the two lies the sync of the journal.

use crate::read::book::{Book, HeldGpus, Workloads};
use crate::service::keys::Keys;
use crate::store::entry::{self, Entry, JournalHeader, ProgressReport, Resumed};
use crate::store::{JournalRecord, Store, StoreError};
use arles_api::JobState;
use arles_core::allocate::{Problem, find_policy};
use arles_core::scheduler::{JobPhase, NodeStatus, TenantUse};
use arles_core::{Input, JobId, JobSpec, Output, Round, Scheduler, TenantId, Time};
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// A job that an entry may have changed, as the scheduler sees it after the entry. A copy, because the book takes it in after the
/// sync, when later entries of the batch have changed the scheduler again.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct JobUpdate {
    pub(crate) job: JobId,
    pub(crate) state: JobState,
    pub(crate) held: Option<HeldGpus>,
    pub(crate) steps_done: f64,
    pub(crate) first_started: Option<Time>,
    pub(crate) failures: u32,
    pub(crate) estimated_rate: Option<f64>,
}

/// What followed from an entry.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Effects {
    pub(crate) outputs: Vec<Output>,
    /// Live jobs that the entry may have changed.
    pub(crate) changed_jobs: Vec<JobUpdate>,
    pub(crate) round: Round,
    /// The problem that an allocation answered.
    pub(crate) answered: Option<Arc<Problem>>,
    /// A job that was taken in, as the scheduler has it.
    pub(crate) spec: Option<Arc<JobSpec>>,
    /// Nodes, where the entry may have changed them.
    pub(crate) nodes: Option<Vec<NodeStatus>>,
    /// Quotas and use of all tenants, where the entry may have changed them.
    pub(crate) tenant_uses: Option<Vec<TenantUse>>,
}

/// All but the book, which readers share.
#[derive(Serialize, Deserialize)]
pub(crate) struct StateMachine {
    pub(crate) scheduler: Scheduler,
    pub(crate) keys: Keys,
    pub(crate) next_job: u64,
    /// As the book has them once the entries are published; a request may need one that came just before it.
    #[serde(skip)]
    pub(crate) workloads: Arc<Workloads>,
}

/// All that a snapshot holds.
#[derive(Serialize)]
pub(crate) struct SavedRef<'a> {
    pub(crate) machine: &'a StateMachine,
    pub(crate) book: &'a Book,
}

#[derive(Deserialize)]
pub(crate) struct Saved {
    machine: StateMachine,
    book: Book,
}

/// The same, read to see whether it can be: one half after the other, and neither is kept.
#[derive(Deserialize)]
pub(crate) struct Readable {
    #[serde(rename = "machine", deserialize_with = "read_and_drop::<StateMachine, _>")]
    _machine: (),
    #[serde(rename = "book", deserialize_with = "read_and_drop::<Book, _>")]
    _book: (),
}

fn read_and_drop<'de, T: Deserialize<'de>, D: Deserializer<'de>>(input: D) -> Result<(), D::Error> {
    T::deserialize(input).map(drop)
}

impl Saved {
    /// Makes whole what a snapshot leaves out.
    fn restored(self, seq: u64, header: &Arc<JournalHeader>) -> (u64, StateMachine, Book) {
        let Self { mut machine, mut book } = self;
        let now = machine.scheduler.now();
        machine.keys.index(now);
        book.keep_old_sightings();
        book.cluster = Some(Arc::new(machine.scheduler.cluster().clone()));
        Arc::make_mut(&mut book.workloads).attach(header);
        machine.workloads = Arc::clone(&book.workloads);
        book.nodes = machine.scheduler.node_statuses().collect();
        book.tenant_uses = machine.tenant_uses();
        book.share_specs(&machine.scheduler);
        book.count_reasons();
        book.add_up_watts();
        (seq, machine, book)
    }
}

/// Recovers; whatever a damaged journal brings about, it ends in a sentence.
fn guarded<T>(store: &Store, recover: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    // What was being built when it panicked is dropped, and the store is only read.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(recover)).unwrap_or_else(|_| {
        Err(StoreError::Refused(format!(
            "{} cannot be replayed: an entry or a snapshot in it makes no sense to this arles; 'arles verify' says more, and 'arles restore' \
             brings a backup back",
            store.path().display()
        )))
    })
}

/// A machine and its book, and the number of the last entry in them.
pub(crate) struct Recovered {
    pub(crate) machine: StateMachine,
    /// What readers see.
    pub(crate) book: Book,
    /// Number of the last entry.
    pub(crate) seq: u64,
    /// Entries that were replayed on top of the snapshot.
    pub(crate) replayed: u64,
    /// Entries whose digest was another: this program decides otherwise than the one that wrote them.
    pub(crate) differing: u64,
}

impl StateMachine {
    pub(crate) fn new(header: &JournalHeader) -> Result<Self, StoreError> {
        let policy = find_policy(&header.policy).ok_or_else(|| {
            StoreError::Refused(format!("this arles has no policy '{}'; 'arles policies' lists them", header.policy))
        })?;
        let (cluster, tenants) = (header.cluster.clone(), header.tenants.clone());
        let scheduler = Scheduler::new(cluster, tenants, policy, header.settings);
        let mut workloads = Workloads::default();
        workloads.attach(header);
        let workloads = Arc::new(workloads);
        Ok(Self { scheduler, keys: Keys::default(), next_job: 1, workloads })
    }

    /// The state as of the last entry of a journal.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub(crate) fn recover(
        store: &Store,
        header: &Arc<JournalHeader>,
        remark: &mut dyn FnMut(String),
    ) -> Result<Recovered, StoreError> {
        store.shortfall().remarks.iter().for_each(|text| remark(text.clone()));
        guarded(store, || {
            let (seq, machine, book) = match store.snapshot::<Saved>(remark)? {
                None => (0, Self::new(header)?, Book::new(header)),
                Some((seq, saved)) => saved.restored(seq, header),
            };
            Self::follow(store, seq, u64::MAX, machine, book)
        })
    }

    /// The state as of the newest snapshot, as it is and as the older one and the entries between lead to it; `None` unless there are two.
    ///
    /// # Errors
    /// When one of them or an entry cannot be read.
    pub(crate) fn recover_twice(
        store: &Store,
        header: &Arc<JournalHeader>,
    ) -> Result<Option<(Recovered, Recovered)>, StoreError> {
        let rows = store.snapshots()?;
        let [newest, older, ..] = rows.as_slice() else { return Ok(None) };
        let (newest, older) = (*newest, *older);
        guarded(store, || {
            let read = |row| store.snapshot_state::<Saved>(row)?.map_err(StoreError::Refused);
            let (seq, machine, book) = read(&newest)?.restored(newest.seq, header);
            let kept = Recovered { machine, book, seq, replayed: 0, differing: 0 };
            let (seq, machine, book) = read(&older)?.restored(older.seq, header);
            Ok(Some((kept, Self::follow(store, seq, newest.seq, machine, book)?)))
        })
    }

    /// The same from the very first entry, whatever snapshots there are: what a daemon that was never interrupted would have made of it.
    pub(crate) fn retrace(store: &Store, header: &Arc<JournalHeader>) -> Result<Recovered, StoreError> {
        if store.first_entry()?.is_some_and(|first| first != 1) {
            return Err(StoreError::Refused(
                "the first entries of this journal were dropped after a snapshot; 'arles serve --keep-journal' keeps them all".into(),
            ));
        }
        guarded(store, || Self::follow(store, 0, u64::MAX, Self::new(header)?, Book::new(header)))
    }

    /// Replays what came after entry `seq`, up to entry `last`.
    fn follow(
        store: &Store,
        mut seq: u64,
        last: u64,
        mut machine: Self,
        mut book: Book,
    ) -> Result<Recovered, StoreError> {
        let (mut replayed, mut differing) = (0, 0);
        store.entries(seq, |JournalRecord { seq: number, at, entry, digest, .. }| {
            if number > last {
                return Ok(());
            }
            if number != seq + 1 {
                return Err(StoreError::Refused(format!(
                    "entry {} is missing from the journal; restore a copy made by 'arles backup'",
                    seq + 1
                )));
            }
            seq = number;
            replayed += 1;
            book.check_entry(&entry).map_err(|why| {
                StoreError::Refused(format!(
                    "entry {number} of the journal makes no sense: {why}; 'arles verify' says more, and 'arles restore' brings a backup back"
                ))
            })?;
            let effects = machine.step(at, &entry);
            differing += u64::from(entry::digest(&effects.outputs) != digest);
            book.record(at, &entry, &effects);
            Ok(())
        })?;
        Ok(Recovered { machine, book, seq, replayed, differing })
    }

    /// Whether the solver has a problem of this round to answer.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.scheduler.open_problem().is_some()
    }

    /// Gives an entry to the scheduler. Nothing that follows may be done before the entry is safe.
    pub(crate) fn step(&mut self, at: Time, entry: &Entry) -> Effects {
        let input = match entry {
            Entry::Submit(submission) => {
                self.next_job = self.next_job.max(submission.spec.id.0.saturating_add(1));
                if let Some(key) = &submission.key {
                    self.keys.put(submission.spec.tenant, key, submission.spec.id, at);
                }
                &Input::Submit(submission.spec.clone())
            }
            Entry::Workload(workload) => {
                Arc::make_mut(&mut self.workloads).add(workload);
                return Effects { round: self.scheduler.round(), ..Effects::default() };
            }
            Entry::Input(input) => input,
            Entry::Progress(reports) => match checkpointed(reports) {
                Some(input) => &{ input },
                None => return self.no_effects(),
            },
            Entry::Resumed(Resumed { next_job, .. }) => {
                self.next_job = self.next_job.max(*next_job);
                return self.no_effects();
            }
            Entry::Meters(_) | Entry::Dismissed(..) | Entry::RollCall(_) | Entry::Measured(_) => {
                return self.no_effects();
            }
        };
        let answered = match input {
            // The one that the scheduler waits for, and no other: what readers see must not depend on who was there when it was asked.
            Input::Allocated(round, _) => {
                self.scheduler.open_problem().filter(|problem| problem.round == *round).cloned()
            }
            _ => None,
        };
        if matches!(input, Input::Tick) {
            self.keys.expire(at);
        }
        let uses_may_change = matches!(
            input,
            Input::Tick | Input::Quota(..) | Input::RemoveTenant { .. } | Input::Tenant(_) | Input::Energy(_)
        );
        let nodes_may_change = matches!(input, Input::Surveyed(_) | Input::Tick | Input::Cluster(_));
        let mut jobs = input.jobs();
        if let Input::Cluster(_) = input {
            // Gangs go on where a kind is corrected, without an order that would name them.
            let runs = |job: &JobId| self.scheduler.job_status(*job).is_some_and(|status| status.gang.is_some());
            jobs.extend(self.scheduler.live().filter(runs));
        }
        let outputs = self.scheduler.step(at, input);
        for output in &outputs {
            jobs.extend(output.job());
        }
        jobs.sort_unstable();
        jobs.dedup();
        let changed_jobs = jobs.into_iter().filter_map(|job| self.job_update(job)).collect();
        let nodes = nodes_may_change.then(|| self.scheduler.node_statuses().collect());
        let tenant_uses = uses_may_change.then(|| self.tenant_uses());
        let spec = match input {
            Input::Submit(spec) => self.scheduler.spec(spec.id).filter(|known| ***known == *spec).cloned(),
            _ => None,
        };
        Effects { outputs, changed_jobs, round: self.scheduler.round(), answered, spec, nodes, tenant_uses }
    }

    /// A copy for a snapshot: with what a snapshot holds.
    pub(crate) fn copy(&self) -> Self {
        Self {
            scheduler: self.scheduler.clone(),
            keys: self.keys.unindexed(),
            next_job: self.next_job,
            workloads: Arc::clone(&self.workloads),
        }
    }

    /// Quotas and use of all tenants, by id.
    fn tenant_uses(&self) -> Vec<TenantUse> {
        let tenants = (0..self.scheduler.tenants().len() as u32).map(TenantId);
        tenants.filter_map(|tenant| self.scheduler.tenant_use(tenant)).collect()
    }

    fn no_effects(&self) -> Effects {
        Effects { round: self.scheduler.round(), ..Effects::default() }
    }

    fn job_update(&self, job: JobId) -> Option<JobUpdate> {
        let job_status = self.scheduler.job_status(job)?;
        let held = job_status.gang.map(|gang| HeldGpus {
            kind: gang.kind,
            gpus: gang.gpus.iter().map(|gpu| gpu.0).collect(),
            spread: gang.spread,
        });
        Some(JobUpdate {
            job,
            state: match job_status.phase {
                JobPhase::Waiting => JobState::Waiting,
                JobPhase::Starting => JobState::Starting,
                JobPhase::Running => JobState::Running,
                JobPhase::Stopping => JobState::Stopping,
            },
            held,
            steps_done: job_status.steps_done,
            first_started: job_status.first_started,
            failures: job_status.failures,
            estimated_rate: (job_status.rate > 0.0).then_some(job_status.rate),
        })
    }
}

/// What the scheduler is told of progress reports: the steps that are safe.
fn checkpointed(reports: &[ProgressReport]) -> Option<Input> {
    let safe: Vec<(JobId, f64)> = reports.iter().filter_map(|r| Some((r.job, r.safe_steps?))).collect();
    (!safe.is_empty()).then_some(Input::Checkpointed(safe))
}
