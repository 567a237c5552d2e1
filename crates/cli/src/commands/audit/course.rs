//! The audit of a simulated run, from its journal.
//!
//! Every decision is judged by the policy's own users, entitlements and estimates of its round, as a daemon judges its own; of a tenant's classes the worst-off
//! counts, and figures are means over the time in which the tenant wanted anything. What came of it in the end is judged by finish times: how long each job
//! took, over how long it would have taken had its class had an equal division's part of the cluster at every moment of its life,
//!
//!   ρ = (end − arrival) / (own end − arrival),      own end: when ∫ own rate dt reaches the job's steps,
//!
//! with the own rate at the end continued where a job ended before its own end. The Pareto gap and lies are looked at in a sample of the decisions, spread evenly.

use super::lies;
use anyhow::{Result, anyhow};
use arles_core::allocate::{Allocation, PolicyEntry, Problem, find_policy};
use arles_core::audit::{Audit, Budget, Lie, utility_after};
use arles_core::scheduler::Event;
use arles_core::{Input, JobId, Output, TenantId, Time, Work, WorkloadId};
use arles_report::audit::{AuditRecord, LieRecord, PartyRecord};
use arles_sim::journal;
use arles_sim::rng::Rng;
use arles_sim::scenario::RunObserver;
use arles_sim::world::World;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

/// What infinite envy counts as in means.
const MOST_ENVY: f64 = 10.0;
/// Decisions of which the Pareto gap is computed, and those that lies are told in.
const GAPS: usize = 60;
const LIED_TO: usize = 3;
/// With more users than this a decision is not lied to: every lie is a solve.
const MOST_USERS: usize = 60;

/// A class of jobs, as jobs and users both know it.
type Key = (TenantId, WorkloadId, u32);

/// A tenant's sums.
#[derive(Clone, Default)]
struct Sums {
    seconds: f64,
    sharing: f64,
    gpus: Vec<f64>,
    envy: BTreeMap<usize, f64>,
    finish: Vec<f64>,
    lie: Option<LieRecord>,
}

/// A job that is not over.
struct Life {
    key: Key,
    steps: f64,
    arrived: Time,
    /// Steps that it would have done with its own part.
    own_steps: f64,
    own_end: Option<Time>,
    own_rate: f64,
}

/// What a tenant has of a decision: its least sharing ratio, GPUs by kind, and its envy of others.
type TenantPart = (f64, Vec<f64>, BTreeMap<usize, f64>);

/// What is in force.
struct Decision {
    tenants: BTreeMap<usize, TenantPart>,
    own_rates: BTreeMap<Key, f64>,
}

pub(in crate::commands) struct Course {
    policy: &'static PolicyEntry,
    problem: Option<Arc<Problem>>,
    decision: Option<Decision>,
    since: Time,
    jobs: BTreeMap<JobId, Life>,
    tenants: Vec<Sums>,
    seconds: f64,
    decisions: usize,
    stride: usize,
    gaps: Vec<(f64, f64)>,
    lied_to: Vec<Arc<Problem>>,
    lie_stride: usize,
}

/// Audits the run of a journal; at most `most_lies` lies are tried for each user that is looked at.
pub(super) fn audit(path: &Path, most_lies: usize, seed: u64) -> Result<(AuditRecord, &'static PolicyEntry)> {
    let open = || {
        let file = File::open(path).map_err(|error| anyhow!("{}: cannot read this file ({error})", path.display()))?;
        anyhow::Ok(BufReader::new(file))
    };
    let (policy, answers) = first_look(open()?)?;
    let mut course = Course::new(policy, answers);
    let watch = |at: Time, input: &Input, outputs: &[Output]| course.see(at, input, outputs);
    let (_, scheduler) =
        journal::replay(open()?, None, watch).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    course.settle(scheduler.now());
    course.tell_lies(most_lies, seed);
    let kinds = scheduler.cluster().kinds().iter().map(|kind| kind.name.clone()).collect();
    let names: Vec<(String, f64)> = scheduler.tenants().iter().map(|t| (t.name.clone(), t.weight)).collect();
    Ok((course.record(format!("the run of {}", path.display()), kinds, &names), policy))
}

/// The policy of a journal, and how many answers it has.
fn first_look(lines: impl BufRead) -> Result<(&'static PolicyEntry, usize)> {
    let (mut policy, mut answers) = (None, 0);
    for (i, line) in lines.lines().enumerate() {
        let line = line?;
        if i == 0 {
            let head: journal::Head = serde_json::from_str(&line).map_err(|e| {
                anyhow!("this is not the head of a journal ({e}); write one with 'arles simulate --journal FILE'")
            })?;
            policy = find_policy(&head.policy);
        }
        answers += usize::from(line.contains("\"allocated\""));
    }
    let policy =
        policy.ok_or_else(|| anyhow!("the journal's policy is not known to this arles; see 'arles policies'"))?;
    Ok((policy, answers))
}

/// Fairness of a run in a few figures: means over time, or over a sample of decisions.
#[derive(Clone, Copy, Default)]
pub(in crate::commands) struct Means {
    /// Of the tenant with the least.
    pub(in crate::commands) least_sharing: Option<f64>,
    /// Of the most envious tenant for the most envied.
    pub(in crate::commands) worst_envy: Option<f64>,
    pub(in crate::commands) pareto_gap: Option<f64>,
}

/// One decision in so many has its Pareto gap computed while a run goes on.
const WATCHED_STRIDE: usize = 20;

impl RunObserver for Course {
    fn allocated(&mut self, now: Time, problem: &Problem, answer: &Allocation) {
        self.settle(now);
        self.decide(&Arc::new(problem.clone()), answer);
    }

    fn decided(&mut self, now: Time, _: &World) -> bool {
        self.settle(now);
        true
    }
}

impl Course {
    /// Looks on while a run goes on.
    pub(in crate::commands) fn watching(policy: &'static PolicyEntry) -> Self {
        Self { stride: WATCHED_STRIDE, lie_stride: usize::MAX, ..Self::new(policy, 0) }
    }

    /// What was seen.
    pub(in crate::commands) fn means(&self) -> Means {
        let there = || self.tenants.iter().filter(|sums| sums.seconds > 0.0);
        let envies = there().flat_map(|sums| sums.envy.values().map(move |sum| sum / sums.seconds));
        Means {
            least_sharing: there().map(|sums| sums.sharing / sums.seconds).reduce(f64::min),
            worst_envy: envies.reduce(f64::max),
            pareto_gap: (!self.gaps.is_empty())
                .then(|| self.gaps.iter().map(|gap| gap.0).sum::<f64>() / self.gaps.len() as f64),
        }
    }

    fn new(policy: &'static PolicyEntry, answers: usize) -> Self {
        Self {
            policy,
            problem: None,
            decision: None,
            since: Time::ZERO,
            jobs: BTreeMap::new(),
            tenants: Vec::new(),
            seconds: 0.0,
            decisions: 0,
            stride: answers.div_ceil(GAPS).max(1),
            gaps: Vec::new(),
            lied_to: Vec::new(),
            lie_stride: (answers / (LIED_TO + 1)).max(1),
        }
    }

    fn see(&mut self, at: Time, input: &Input, outputs: &[Output]) {
        match input {
            Input::Submit(spec) => {
                if let Work::Steps(steps) = spec.work {
                    let key = (spec.tenant, spec.workload, spec.gang);
                    let life = Life { key, steps, arrived: spec.arrived, own_steps: 0.0, own_end: None, own_rate: 0.0 };
                    self.jobs.insert(spec.id, life);
                }
            }
            Input::Policy(name) => self.policy = find_policy(name).unwrap_or(self.policy),
            Input::Allocated(round, Ok(allocation)) => {
                if let Some(problem) = self.problem.take_if(|problem| problem.round == *round) {
                    self.settle(at);
                    self.decide(&problem, allocation);
                }
            }
            _ => {}
        }
        for output in outputs {
            match output {
                Output::Solve(problem) => self.problem = Some(Arc::clone(problem)),
                Output::Note(event) => self.ended(at, event),
                _ => {}
            }
        }
    }

    fn ended(&mut self, at: Time, event: &Event) {
        let Some(job) = event.ends() else { return };
        self.settle(at);
        let Some(life) = self.jobs.remove(&job) else { return };
        if !matches!(event, Event::Completed { .. }) {
            return;
        }
        let own = match life.own_end {
            Some(end) => end.since(life.arrived),
            None if life.own_rate > 0.0 => at.since(life.arrived) + (life.steps - life.own_steps) / life.own_rate,
            None => return,
        };
        if own > 0.0 {
            self.sums(life.key.0.index()).finish.push(at.since(life.arrived) / own);
        }
    }

    fn sums(&mut self, tenant: usize) -> &mut Sums {
        self.tenants.resize(self.tenants.len().max(tenant + 1), Sums::default());
        &mut self.tenants[tenant]
    }

    /// Counts the time until now.
    fn settle(&mut self, at: Time) {
        let seconds = at.since(self.since);
        let began = self.since;
        self.since = self.since.max(at);
        let Some(decision) = self.decision.take() else { return };
        if seconds > 0.0 {
            self.seconds += seconds;
            for (&tenant, (sharing, gpus, envy)) in &decision.tenants {
                let sums = self.sums(tenant);
                sums.seconds += seconds;
                sums.sharing += seconds * sharing;
                sums.gpus.resize(gpus.len().max(sums.gpus.len()), 0.0);
                sums.gpus.iter_mut().zip(gpus).for_each(|(sum, gpus)| *sum += seconds * gpus);
                envy.iter().for_each(|(other, ratio)| *sums.envy.entry(*other).or_default() += seconds * ratio);
            }
            for life in self.jobs.values_mut() {
                let Some(&rate) = decision.own_rates.get(&life.key) else { continue };
                let before = life.own_steps;
                life.own_rate = rate;
                life.own_steps += rate * seconds;
                if life.own_end.is_none() && life.own_steps >= life.steps && rate > 0.0 {
                    life.own_end = Some(began.after((life.steps - before).max(0.0) / rate));
                }
            }
        }
        self.decision = Some(decision);
    }

    /// Judges a decision and puts it in force.
    fn decide(&mut self, problem: &Arc<Problem>, allocation: &Allocation) {
        let audit = Audit::of(problem, self.policy.entitlement, allocation);
        let (n, k) = (problem.users.len(), problem.kinds());
        let mut decision = Decision { tenants: BTreeMap::new(), own_rates: BTreeMap::new() };
        let mut jobs: BTreeMap<Key, f64> = BTreeMap::new();
        for (l, user) in problem.users.iter().enumerate() {
            let (tenant, gpus) = (user.tenant.index(), audit.held(l));
            let (sharing, held, envy) =
                decision.tenants.entry(tenant).or_insert_with(|| (MOST_ENVY, vec![0.0; k], BTreeMap::new()));
            *sharing = sharing.min(audit.sharing(l));
            held.iter_mut().zip(gpus).for_each(|(sum, gpus)| *sum += gpus);
            for i in (0..n).filter(|&i| problem.users[i].tenant != user.tenant) {
                let cell = envy.entry(problem.users[i].tenant.index()).or_insert(0.0);
                *cell = cell.max(audit.envy(l, i).min(MOST_ENVY));
            }
            let key = (user.tenant, user.workload, user.gang);
            *decision.own_rates.entry(key).or_default() += own_rate(problem, &audit, l);
            *jobs.entry(key).or_default() += f64::from(user.jobs);
        }
        for (key, rate) in &mut decision.own_rates {
            // No job runs faster than a gang on the best kind, whatever is left.
            let best = |l: usize| problem.rates(l).iter().copied().fold(0.0, f64::max);
            let users =
                (0..n).filter(|&l| (problem.users[l].tenant, problem.users[l].workload, problem.users[l].gang) == *key);
            *rate = (*rate / jobs[key].max(1.0)).min(users.map(best).fold(0.0, f64::max));
        }
        if n > 1 && self.decisions.is_multiple_of(self.stride) {
            let pareto = audit.pareto(Budget::default());
            self.gaps.push((pareto.gap(), pareto.most()));
        }
        let next = (self.lied_to.len() + 1).saturating_mul(self.lie_stride);
        let due = next <= self.decisions && self.lied_to.len() < LIED_TO;
        if due && decision.tenants.len() > 1 && n <= MOST_USERS {
            self.lied_to.push(Arc::clone(problem));
        }
        self.decisions += 1;
        self.decision = Some(decision);
    }

    /// Tries lies in the decisions that were kept for it, one class of each tenant at a time.
    fn tell_lies(&mut self, most: usize, seed: u64) {
        if most == 0 {
            return;
        }
        let rng = Rng::new(seed);
        for (at, problem) in std::mem::take(&mut self.lied_to).into_iter().enumerate() {
            let mut told: Vec<TenantId> = Vec::new();
            for (l, user) in problem.users.iter().enumerate() {
                // Its first class speaks for a tenant.
                if told.contains(&user.tenant) {
                    continue;
                }
                told.push(user.tenant);
                let k = problem.kinds();
                let after = |factors: &[f64]| {
                    let lie = Lie::new(factors.to_vec()).ok()?;
                    utility_after(self.policy, &problem, l, &lie).ok()
                };
                let Some(honest) = after(&vec![1.0; k]).filter(|honest| *honest > 0.0) else { continue };
                let mut rng = rng.fork(&format!("{at} {l}"));
                let found =
                    lies::search(problem.rates(l), most, &mut rng, &mut |factors| Some(after(factors)? / honest));
                let tried = found.tried;
                let sums = self.sums(user.tenant.index());
                let before = sums.lie.as_ref().map_or(0, |lie| lie.tried);
                if sums.lie.as_ref().is_none_or(|lie| found.gain > lie.gain) {
                    sums.lie = Some(found);
                }
                if let Some(lie) = &mut sums.lie {
                    lie.tried = before + tried;
                }
            }
        }
    }

    fn record(&self, subject: String, kinds: Vec<String>, names: &[(String, f64)]) -> AuditRecord {
        let there: Vec<usize> = (0..self.tenants.len()).filter(|&i| self.tenants[i].seconds > 0.0).collect();
        let all: f64 = names.iter().map(|(_, weight)| weight).sum();
        let cell = |i: usize, j: usize| {
            let sums = &self.tenants[i];
            if i == j { Some(1.0) } else { sums.envy.get(&j).map(|sum| sum / sums.seconds) }
        };
        let party = |&i: &usize| {
            let sums = &self.tenants[i];
            let envied = there.iter().filter(|&&j| j != i).filter_map(|&j| Some((j, cell(i, j)?)));
            let worst = envied.reduce(|most, other| if other.1 > most.1 { other } else { most });
            let ends = &sums.finish;
            PartyRecord {
                name: names[i].0.clone(),
                entitlement_ratio: names[i].1 / all,
                gpus: sums.gpus.iter().map(|sum| sum / sums.seconds).collect(),
                sharing_ratio: Some(sums.sharing / sums.seconds),
                worst_envy: worst.map(|(_, ratio)| ratio),
                envied: worst.map(|(j, _)| names[j].0.clone()),
                finish_time_ratio: (!ends.is_empty()).then(|| ends.iter().sum::<f64>() / ends.len() as f64),
                worst_finish_time_ratio: ends.iter().copied().reduce(f64::max),
                beside_policy_ratio: None,
                best_lie: sums.lie.clone(),
            }
        };
        let mean = |of: fn(&(f64, f64)) -> f64| {
            (!self.gaps.is_empty()).then(|| self.gaps.iter().map(of).sum::<f64>() / self.gaps.len() as f64)
        };
        AuditRecord {
            subject,
            policy: Some(self.policy.name.to_owned()),
            kinds,
            parties: there.iter().map(party).collect(),
            envy: there.iter().map(|&i| there.iter().map(|&j| cell(i, j)).collect()).collect(),
            pareto_gap_ratio: mean(|gap| gap.0),
            pareto_bound_ratio: mean(|gap| gap.1),
            jain_index: None,
            verdicts: Vec::new(),
            verdict: String::new(),
        }
    }
}

/// Steps a second of a class with an equal division's part of the cluster.
fn own_rate(problem: &Problem, audit: &Audit, l: usize) -> f64 {
    let claims = audit.claims();
    let fastest = (0..problem.kinds()).filter(|&j| claims.speedups(l)[j] > 0.0);
    let unit = fastest.map(|j| problem.rates(l)[j] / claims.speedups(l)[j]).fold(0.0, f64::max);
    claims.equal_division(l) * unit / f64::from(problem.users[l].gang)
}
