//! Jobs, live and past.

use super::{Source, View, cursor, end, energy_of, limit};
use crate::Refusal;
use crate::access::Scope;
use crate::read::book::{Book, NEXT_ROUND, Record};
use crate::read::views::{JobsQuery, Page};
use crate::service::desk::no_job;
use crate::store::PastFilter;
use arles_api::{self as api, JobState};
use arles_core::place::Standing;
use arles_core::scheduler::Verdict;
use arles_core::{Dependency, GpuId, JobId, Library, Outcome, Program, Time, Work};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Records that a list looks at, and shows, in one hold of the book: whatever happens waits for whoever reads, and everybody else behind it. A list
/// may so be of several moments; every line of it is of one.
const LOOKED_AT: usize = 512;
const SHOWN_AT_ONCE: usize = 16;
/// A list of more than this pauses between two holds, so that it never keeps a processor from a short request for long.
const PAUSED_FROM: usize = 100;
const PAUSE: Duration = Duration::from_micros(100);

impl View<'_> {
    /// One job.
    ///
    /// # Errors
    /// When there is none to see.
    pub fn job(&self, id: u64) -> Result<api::Job, Refusal> {
        if let Some(job) = self.book(|book| Some(self.shown_whole(book, book.jobs.get(&JobId(id))?))) {
            return if self.who.sees(&job.tenant) { Ok(job) } else { Err(no_job(id)) };
        }
        let past: Option<Record> = self.history(|store| store.past_job(id))?;
        let job = past.map(|record| self.book(|book| self.shown_whole(book, &record)));
        job.filter(|job| self.who.sees(&job.tenant)).ok_or_else(|| no_job(id))
    }

    /// Jobs by number, live and past alike.
    ///
    /// # Errors
    /// When the query is invalid.
    pub fn jobs(&self, query: &JobsQuery) -> Result<api::Jobs, Refusal> {
        let limit = limit(&Page { limit: query.limit, cursor: None })?;
        let beyond = cursor(query.cursor.as_deref())?;
        let workload = query.workload.as_deref().map(known_workload);
        let tenant = self.who.tenant.clone().or_else(|| query.tenant.clone());
        // A tenant that asks for another's jobs gets an empty list.
        let nobody = query.tenant.as_deref().is_some_and(|tenant| !self.who.sees(tenant));
        let mut found: BTreeMap<u64, api::Job> = BTreeMap::new();
        if !nobody {
            let fits = |book: &Book, record: &Record| {
                (query.states.is_empty() || query.states.contains(&record.state))
                    && tenant.as_ref().is_none_or(|name| book.tenants[record.spec.tenant.index()].name == *name)
                    && workload.is_none_or(|name| book.workloads.name(record.spec.workload) == name)
                    && (query.name.is_none() || record.name == query.name)
            };
            let live = self.live_records(beyond, query.oldest_first, limit, fits);
            found.extend(self.shown_in_parts(&live).into_iter().map(|job| (job.id, job)));
        }
        let over: Vec<&'static str> =
            query.states.iter().filter(|state| state.over()).map(|state| state.name()).collect();
        if !nobody && (query.states.is_empty() || !over.is_empty()) {
            let filter = PastFilter {
                tenant,
                workload: workload.map(str::to_owned),
                name: query.name.clone(),
                states: over,
                oldest_first: query.oldest_first,
                beyond,
                most: limit,
            };
            let past: Vec<Record> = self.history(|store| store.past_jobs(&filter))?;
            for job in self.shown_in_parts(&past) {
                found.entry(job.id).or_insert(job);
            }
        }
        let full = found.len() >= limit;
        let jobs: Vec<api::Job> = match query.oldest_first {
            true => found.into_values().take(limit).collect(),
            false => found.into_values().rev().take(limit).collect(),
        };
        let next = jobs.last().filter(|_| full).map(|job| job.id.to_string());
        Ok(api::Jobs { jobs, next, live: self.book(|book| self.live(book)) })
    }

    /// Records of the book that fit, in the order asked for.
    fn live_records(
        &self,
        beyond: Option<u64>,
        oldest_first: bool,
        most: usize,
        fits: impl Fn(&Book, &Record) -> bool,
    ) -> Vec<Arc<Record>> {
        let mut found = Vec::new();
        self.each_live(beyond, oldest_first, |book, record| {
            if fits(book, record) {
                found.push(Arc::clone(record));
            }
            found.len() < most
        });
        found
    }

    /// Looks at records of the book, some in each hold of it, for as long as `look` says to go on.
    pub(super) fn each_live(
        &self,
        beyond: Option<u64>,
        oldest_first: bool,
        mut look: impl FnMut(&Book, &Arc<Record>) -> bool,
    ) {
        let (mut last, mut more) = (beyond.map(JobId), true);
        while more {
            let mut enough = false;
            self.book(|book| {
                let after = last.map_or(Bound::Unbounded, Bound::Excluded);
                let mut looked_at = 0;
                let mut next = |(id, record): (&JobId, &Arc<Record>)| {
                    (looked_at, last) = (looked_at + 1, Some(*id));
                    enough = !look(book, record);
                    !enough && looked_at < LOOKED_AT
                };
                more = match oldest_first {
                    true => !book.jobs.range((after, Bound::Unbounded)).all(&mut next),
                    false => !book.jobs.range((Bound::Unbounded, after)).rev().all(&mut next),
                };
            });
            more &= !enough;
        }
    }

    fn shown_in_parts<R: Borrow<Record>>(&self, records: &[R]) -> Vec<api::Job> {
        let part = |part: &[R]| {
            if records.len() > PAUSED_FROM {
                std::thread::sleep(PAUSE);
            }
            self.book(|book| part.iter().map(|r| self.shown(book, r.borrow())).collect::<Vec<_>>())
        };
        records.chunks(SHOWN_AT_ONCE).flat_map(part).collect()
    }

    /// Live jobs by state, of the tenants that the caller may see.
    fn live(&self, book: &Book) -> Vec<api::StateCount> {
        let count = |&state: &JobState| api::StateCount {
            state,
            jobs: self.visible_tenants(book).map(|(_, line)| line.live[state as usize]).sum(),
        };
        JobState::ALL[..4].iter().map(count).collect()
    }

    /// Jobs that wait, oldest first.
    ///
    /// # Errors
    /// When the query is invalid.
    pub fn queue(&self, page: &Page) -> Result<api::Queue, Refusal> {
        let (limit, beyond) = (limit(page)?, cursor(page.cursor.as_deref())?);
        let (mut found, mut last) = (Vec::new(), JobId(beyond.unwrap_or(0)));
        let mut more = true;
        while more && found.len() < limit {
            self.book(|book| {
                let mut looked_at = 0;
                let waiting = match self.own_tenant(book) {
                    None => Some(&book.waiting),
                    Some(own) => own.and_then(|own| book.waiting_of.get(&own.0)),
                };
                let Some(waiting) = waiting else {
                    more = false;
                    return;
                };
                more = !waiting.range((Bound::Excluded(last), Bound::Unbounded)).all(|(&id, ())| {
                    (looked_at, last) = (looked_at + 1, id);
                    let record = book.jobs.get(&id);
                    let visible = |r: &&Arc<Record>| self.who.sees(&book.tenants[r.spec.tenant.index()].name);
                    found.extend(record.filter(visible).map(Arc::clone));
                    found.len() < limit && looked_at < LOOKED_AT
                });
            });
        }
        let jobs = self.shown_in_parts(&found);
        let next = jobs.last().filter(|_| jobs.len() == limit).map(|job| job.id.to_string());
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        self.book(|book| {
            for ((tenant, code), jobs) in &book.reasons {
                if self.who.sees(&book.tenants[*tenant as usize].name) {
                    *reasons.entry(code).or_default() += jobs;
                }
            }
        });
        let count = |(code, jobs): (&str, u64)| api::ReasonCount { code: code.into(), jobs };
        Ok(api::Queue { jobs, next, reasons: reasons.into_iter().map(count).collect() })
    }

    /// Why a live job is where it is.
    pub(crate) fn explain(
        &self,
        id: u64,
        verdict: Option<&Verdict>,
        standing: &[Standing],
        now: Time,
    ) -> Result<api::Explanation, Refusal> {
        let job = self.job(id)?;
        let cluster = self.book(|book| Arc::clone(book.cluster()));
        let reason = match verdict {
            Some(Verdict::Unknown) => return Ok(self.explain_past(&job)),
            Some(verdict) => reason_of(verdict),
            None => job.reason.clone().unwrap_or_else(|| {
                let text = format!("is {}", job.state.name());
                api::Reason { code: job.state.name().into(), text, seconds: None }
            }),
        };
        let standing = standing.iter().map(|s| api::Standing {
            kind: cluster.kind(s.kind).name.clone(),
            gangs: s.gangs,
            owed: s.credit,
        });
        Ok(api::Explanation {
            id,
            state: job.state,
            starts_at: reason.seconds.map(|seconds| now.seconds() + seconds),
            reason,
            standing: standing.collect(),
            rates: self.rates_of(&job),
        })
    }

    /// How a job that is over ended.
    pub(crate) fn explain_past(&self, job: &api::Job) -> api::Explanation {
        let text = format!("job {} has ended: {}", job.id, job.state.name());
        let reason = job.reason.clone().unwrap_or(api::Reason { code: job.state.name().into(), text, seconds: None });
        let (id, state) = (job.id, job.state);
        api::Explanation { id, state, reason, starts_at: None, standing: Vec::new(), rates: Vec::new() }
    }

    /// With all of its program, as its tenant and operators may see it.
    fn shown_whole(&self, book: &Book, record: &Record) -> api::Job {
        let mut job = self.shown(book, record);
        if let (Some(shown), Some(program)) = (&mut job.program, &record.spec.program) {
            // Who may only read has no business with what people put into an environment.
            let all = self.who.scope != Scope::Read;
            shown.full = Some(program_of(program, all));
        }
        job
    }

    fn shown(&self, book: &Book, record: &Record) -> api::Job {
        let spec = &record.spec;
        let (steps, period_seconds) = match spec.work {
            Work::Steps(steps) => (Some(steps), None),
            Work::Period(seconds) => (None, Some(seconds)),
            Work::Open(_) => (None, None),
        };
        let (eta, promise) = end::of(book, record, self.now());
        api::Job {
            id: spec.id.0,
            name: record.name.clone(),
            tenant: book.tenants[spec.tenant.index()].name.clone(),
            workload: book.workloads.name(spec.workload).to_owned(),
            gang: record.gang(),
            smallest_gang: spec.is_elastic().then_some(spec.gang),
            largest_gang: spec.is_elastic().then(|| spec.most_gpus()),
            steps,
            period_seconds,
            floor: spec.floor,
            weight: spec.weight,
            restart_seconds: spec.restart_seconds,
            kinds: spec.kinds.iter().map(|&kind| book.cluster().kind(kind).name.clone()).collect(),
            state: record.state,
            reason: reason_shown(book, record),
            place: self.place(book, record),
            submitted_at: spec.arrived.seconds(),
            started_at: record.started.map(Time::seconds),
            ended_at: record.ended.map(Time::seconds),
            steps_done: record.steps,
            done_ratio: record.done_ratio(),
            rate: record.rate,
            estimated_rate: book.expected_rate(record),
            restarts: record.starts.saturating_sub(1),
            failures: record.failures,
            gpu_seconds: record.gpu_seconds,
            energy: energy_of(&record.charge),
            reported: self.reported(record),
            program: spec.program.as_ref().map(|program| api::JobProgram { line: line_of(program), full: None }),
            open: matches!(spec.work, Work::Open(_)),
            expected_seconds: match spec.work {
                Work::Open(expected) => expected,
                _ => None,
            },
            eta,
            promise,
            exit_code: record.exit_code,
            held: record.on_hold,
            after: spec.after.iter().map(dependency_of).collect(),
            array: spec.array.map(|task| api::JobArray {
                first_job: task.array.0,
                tasks: record.tasks,
                index: task.index,
                at_most: task.at_most,
            }),
            time_limit_seconds: spec.time_limit_seconds,
            retries: spec.most_failures.map(|failures| failures.saturating_sub(1)),
            needs: api::Needs {
                cpus_per_gpu: spec.needs.cpus_per_gpu,
                memory_gib_per_gpu: spec.needs.memory_gib_per_gpu,
                gpu_memory_gib: spec.needs.gpu_memory_gib,
            },
        }
    }

    /// What the job's own code said last, whether it is journalled yet or not.
    fn reported(&self, record: &Record) -> Option<api::Progress> {
        let newest = match self.source {
            Source::Live(shared) => shared.progress.get(record.spec.id).map(|r| (r.steps, r.rate, r.safe_steps)),
            Source::Archive(_) => None,
        };
        let (steps, rate, safe) =
            newest.or_else(|| record.said.map(|said| (said.steps, said.rate, said.safe_steps)))?;
        Some(api::Progress { steps, rate, checkpointed: safe == Some(steps) })
    }

    fn place(&self, book: &Book, record: &Record) -> Option<api::Place> {
        let (held, cluster) = (record.held.as_ref()?, book.cluster());
        let mut nodes: Vec<String> =
            held.gpus.iter().map(|&gpu| cluster.node(cluster.node_of(GpuId(gpu))).name.clone()).collect();
        nodes.dedup();
        let other =
            held.gpus.iter().flat_map(|&gpu| book.seats[gpu as usize]).find(|&job| job != 0 && job != record.spec.id.0);
        let visible = |id: &u64| {
            let partner = book.jobs.get(&JobId(*id));
            partner.is_some_and(|partner| self.who.sees(&book.tenants[partner.spec.tenant.index()].name))
        };
        Some(api::Place {
            kind: cluster.kind(held.kind).name.clone(),
            gpus: held.gpus.clone(),
            nodes,
            spread: held.spread.apart(),
            shared: other.is_some(),
            partner: other.filter(visible),
        })
    }
}

/// Why a job waits or failed, as far as that is known.
fn reason_shown(book: &Book, record: &Record) -> Option<api::Reason> {
    let waits = book.reason_of(record).map(|reason| api::Reason {
        code: reason.code().into(),
        text: reason.to_string(),
        seconds: reason.seconds(),
    });
    let failed = || record.why.clone().map(|text| api::Reason { code: "gave-up".into(), text, seconds: None });
    let fresh = || {
        let text = match record.started {
            None => "waiting for the next scheduling round".to_owned(),
            Some(_) => "preempted; waiting for the next scheduling round".to_owned(),
        };
        (record.state == JobState::Waiting).then(|| api::Reason { code: NEXT_ROUND.into(), text, seconds: None })
    };
    waits.or_else(failed).or_else(fresh)
}

/// Longest line that a program is shown in.
const LINE: usize = 120;

/// A program in one line.
fn line_of(program: &Program) -> String {
    let script = program.script.iter().map(|script| script.name.as_str());
    let words = script.chain(program.command.iter().map(String::as_str));
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(LINE).map(|c| if arles_core::name::is_hidden(c) { ' ' } else { c }));
        if line.chars().count() > LINE {
            return line.chars().take(LINE - 1).chain(['…']).collect();
        }
    }
    line
}

fn program_of(program: &Program, environment: bool) -> api::Program {
    let script = program.script.as_ref();
    api::Program {
        command: program.command.clone(),
        script: script.map(|script| api::Script { name: script.name.clone(), text: script.text.clone() }),
        environment: if environment { program.environment.clone() } else { BTreeMap::new() },
        directory: program.directory.clone(),
        image: program.image.clone(),
        stdout: program.stdout.clone(),
        stderr: program.stderr.clone(),
    }
}

fn dependency_of(dependency: &Dependency) -> api::Dependency {
    let outcome = match dependency.outcome {
        Outcome::Ok => api::Outcome::Ok,
        Outcome::NotOk => api::Outcome::NotOk,
        Outcome::Any => api::Outcome::Any,
    };
    api::Dependency { job: dependency.job.0, outcome }
}

/// A verdict as the API reports it.
fn reason_of(verdict: &Verdict) -> api::Reason {
    let (code, text, seconds) = match verdict {
        Verdict::Waits(reason) => (reason.code(), reason.to_string(), reason.seconds()),
        Verdict::Runs { .. } => ("runs", verdict.to_string(), None),
        Verdict::Starts => ("starts", verdict.to_string(), None),
        Verdict::Stops => ("stops", verdict.to_string(), None),
        Verdict::Unknown => ("unknown", verdict.to_string(), None),
    };
    api::Reason { code: code.into(), text, seconds }
}

/// The library's name for a workload, or the name as given.
pub(super) fn known_workload(name: &str) -> &str {
    Library::builtin().workload(name).map_or(name, |workload| workload.name.as_str())
}
