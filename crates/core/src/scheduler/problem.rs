//! The problem that a policy is asked to solve, as it stands.

use super::Scheduler;
use crate::allocate::{ClassId, Grouping, PairPower, PairRates, Power, Problem, User, UserPower};
use crate::estimate::{Estimate, RateQuery};
use crate::live::{Class, ClassKey, Job, Slot};
use crate::{GpuId, KindId, Time, Work, WorkloadId};
use std::collections::{BTreeMap, BTreeSet};

/// Nobody needs to be faster than so many times its promise, however late it is.
const MOST_CATCHING_UP: f64 = 2.0;

/// What became of the jobs of a class so far.
#[derive(Default)]
struct Past {
    arrived: Time,
    attained_gpu_seconds: f64,
    steps_done: f64,
    steps_left: f64,
}

impl Scheduler {
    /// The problem as it stands: classes with estimates, usable GPUs. Of classes it counts those who wait and looks at those who hold GPUs; only for
    /// policies that reckon with progress does it look at every job.
    pub(super) fn problem(&self) -> Problem {
        let usable = self.usable();
        let mut capacity = vec![0.0; self.cluster.kinds().len()];
        for node in self.cluster.nodes() {
            let gpus = node.gpu_range().filter(|&g| usable[g as usize]).count();
            capacity[node.kind.index()] += gpus as f64;
        }
        let hourly_cost = self.cluster.kinds().iter().map(|kind| kind.hourly_usd).collect();
        let sold_as = match self.cluster.modes() {
            [] => Vec::new(),
            _ => (0..capacity.len() as u16).map(|j| self.cluster.sold_as(KindId(j))).collect(),
        };
        let mut problem =
            Problem { round: self.round, now: self.now, capacity, sold_as, hourly_cost, ..Problem::default() };
        let single = self.policy.grouping == Grouping::Single;
        let progress_counts = single || self.policy.energy_aware;
        let asking = self.asking(&usable, &problem.capacity);
        problem.users.reserve(asking.len());
        problem.rates.reserve(asking.len() * self.cluster.kinds().len());
        let mut families: Vec<Option<ClassKey>> = Vec::with_capacity(asking.len());
        for (class_id, class, plannable) in asking {
            let first = self.jobs.get(class.jobs.first());
            let alone = single && plannable == 1;
            let past = if progress_counts && (alone || !single) {
                self.past(class)
            } else {
                Past { arrived: first.spec.arrived, ..Past::default() }
            };
            problem.users.push(User {
                class: class_id,
                tenant: first.spec.tenant,
                tenant_weight: self.tenants[first.spec.tenant.index()].weight,
                workload: first.spec.workload,
                gang: class.gang,
                jobs: plannable,
                job_weight: first.spec.weight,
                parts: 1,
                floor: first.spec.floor,
                job: single.then_some(first.spec.id),
                arrived: past.arrived,
                attained_gpu_seconds: past.attained_gpu_seconds,
                steps_done: past.steps_done,
                steps_left: past.steps_left,
                held: if single { first.phase.held().map(|g| g.kind) } else { None },
            });
            problem.rates.extend_from_slice(&class.rates);
            families.push(class.key.family());
        }
        count_parts(&mut problem.users, &families);
        self.entitle(&mut problem);
        if self.policy.pairs {
            problem.pairs = self.pair_rates(&problem);
        }
        if self.policy.energy_aware {
            problem.power = Some(self.power(&problem, &usable));
        }
        problem
    }

    /// Whom the policy is told of: classes, in order, and how many of their jobs a plan may give GPUs. Behind a long queue that is served in order of
    /// arrival a class stands for all of its line who cannot be served now, too.
    fn asking(&self, usable: &[bool], capacity: &[f64]) -> Vec<(ClassId, &Class, u32)> {
        let held = self.held_by_class(usable);
        let free_gpus = self.looks_at_fronts().then(|| self.free_gpus(&held, capacity)).flatten();
        let Some(free_gpus) = free_gpus else {
            let ready = self.jobs.ready(self.now);
            let plannable = |id: ClassId, class: &Class| ready(id, &class.jobs) + held.get(&id).copied().unwrap_or(0);
            let asking = self.classes.iter().map(|(&id, class)| (id, class, plannable(id, class)));
            return asking.filter(|(_, class, jobs)| *jobs > 0 && class.best_rate() > 0.0).collect();
        };
        let (lines, fronts) = self.jobs.fronts(self.now, free_gpus, self.shape());
        let class = |slot: Slot| self.jobs.get(slot).class;
        let behind = lines.iter().filter_map(|line| Some((class(line.behind?), (line.jobs - line.in_front) as u32)));
        let mut jobs: Vec<(ClassId, u32)> = held.into_iter().collect();
        jobs.extend(fronts.into_iter().map(|slot| (class(slot), 1)).chain(behind));
        jobs.sort_unstable();
        let asking = jobs.into_iter().map(|(id, jobs)| (id, &self.classes[&id], jobs));
        asking.filter(|(_, class, _)| class.best_rate() > 0.0).collect()
    }

    /// GPUs that nobody holds; none where somebody holds GPUs that there are not.
    fn free_gpus(&self, held: &BTreeMap<ClassId, u32>, capacity: &[f64]) -> Option<u32> {
        let mut free = capacity.to_vec();
        for id in held.keys() {
            let job = self.jobs.get(self.classes[id].jobs.first());
            free[job.phase.held()?.kind.index()] -= f64::from(job.gang());
        }
        free.iter().all(|&gpus| gpus >= 0.0).then(|| free.iter().sum::<f64>() as u32)
    }

    /// A job's gang and the kinds that it may run on; none where it may on none.
    fn shape(&self) -> impl Fn(Slot) -> Option<(u32, Vec<bool>)> + '_ {
        |slot| self.classes[&self.jobs.get(slot).class].shape()
    }

    /// Jobs of each class that hold GPUs which a plan may give them, and may run.
    fn held_by_class(&self, usable: &[bool]) -> BTreeMap<ClassId, u32> {
        let mut held = BTreeMap::new();
        let counts = |job: &&Job| job.phase.held().is_some() && job.may_run() && job.plannable(self.now, usable);
        let jobs = self.jobs.holding().map(|(_, job)| job).filter(counts);
        jobs.for_each(|job| *held.entry(job.class).or_default() += 1);
        held
    }

    /// What was done, and is left, of all jobs of a class that may run.
    fn past(&self, class: &Class) -> Past {
        let jobs = class.jobs.iter().map(|s| self.jobs.get(s)).filter(|j| j.may_run());
        let (steps_done, steps_left) = progress(jobs.clone(), class.best_rate());
        Past {
            arrived: jobs.clone().map(|j| j.spec.arrived).min().unwrap_or_default(),
            attained_gpu_seconds: jobs.map(|j| j.attained_gpu_seconds).sum(),
            steps_done,
            steps_left,
        }
    }

    /// The rate that jobs of a class need from now on so that each has its promised one on average from arrival to end: n = L / ((D + L)/f − E), all jobs
    /// together. None where they were promised nothing, or end by the clock.
    fn needed(&self, class: &Class) -> Option<f64> {
        let first = &self.jobs.get(class.jobs.first()).spec;
        let floor = first.floor.filter(|floor| *floor > 0.0 && !matches!(first.work, Work::Period(_)))?;
        let jobs = class.jobs.iter().map(|s| self.jobs.get(s)).filter(|j| j.may_run());
        let (left, seconds_left) = jobs.fold((0.0, 0.0), |(left, seconds_left), job| {
            let (done, to_do) = job.progress(class.best_rate());
            (left + to_do, seconds_left + (done + to_do) / floor - self.now.since(job.spec.arrived))
        });
        (left > 0.0).then(|| left / seconds_left.max(left / (MOST_CATCHING_UP * floor)))
    }

    fn pair_rates(&self, problem: &Problem) -> Vec<PairRates> {
        let singles: BTreeSet<WorkloadId> = problem.users.iter().filter(|u| u.gang == 1).map(|u| u.workload).collect();
        let mut pairs = Vec::new();
        for &a in &singles {
            for &b in singles.range(a..) {
                for (j, kind) in self.cluster.kinds().iter().enumerate() {
                    let at = KindId(j as u16);
                    if kind.max_jobs >= 2
                        && let Some((rate_a, rate_b)) = self.estimates.together(a, b, at)
                    {
                        pairs.push(PairRates { a, b, kind: at, rate_a, rate_b });
                    }
                }
            }
        }
        pairs
    }

    /// What everybody in `problem` draws, and what stands where.
    fn power(&self, problem: &Problem, usable: &[bool]) -> Power {
        let kinds = self.cluster.kinds();
        let mut held: BTreeMap<ClassId, Vec<u32>> = BTreeMap::new();
        for (_, job) in self.jobs.holding().filter(|(_, job)| job.plannable(self.now, usable)) {
            if let Some(gang) = job.phase.held() {
                held.entry(job.class).or_insert_with(|| vec![0; kinds.len()])[gang.kind.index()] += 1;
            }
        }
        let user = |user: &User| {
            let class = &self.classes[&user.class];
            let first = &self.jobs.get(class.jobs.first()).spec;
            let row = self.estimates.row(&RateQuery { workload: user.workload, gang: user.gang, partner: None });
            let by_kind = |of: fn(&Estimate) -> f64| {
                let cell = |j: usize| row.and_then(|row| row.cells.get(j).copied().flatten());
                (0..kinds.len()).map(|j| cell(j).map_or(0.0, |e| of(&e))).collect()
            };
            UserPower {
                watts: by_kind(|e| e.watts),
                standard_errors: by_kind(|e| e.standard_error),
                held: held.get(&user.class).cloned().unwrap_or_else(|| vec![0; kinds.len()]),
                needed: self.needed(class),
                restart_seconds: first.restart_seconds,
                by_the_clock: matches!(first.work, Work::Period(_)),
            }
        };
        let pair = |pair: &PairRates| {
            let row = self.estimates.row(&RateQuery { workload: pair.a, gang: 1, partner: Some(pair.b) });
            let cell = row.and_then(|row| row.cells.get(pair.kind.index()).copied().flatten());
            cell.map_or(PairPower { watts: 0.0, standard_error: 0.0 }, |e| PairPower {
                watts: e.watts,
                standard_error: e.standard_error,
            })
        };
        Power {
            idle_watts: kinds.iter().map(|kind| kind.idle_watts).collect(),
            unused_off: self.settings.unused_off,
            epsilon: self.settings.epsilon,
            budget_watts: self.power_budget,
            users: problem.users.iter().map(user).collect(),
            pairs: problem.pairs.iter().map(pair).collect(),
            sharing_now: self.sharing_now(problem),
        }
    }

    /// Users of `problem` whose jobs share a GPU.
    fn sharing_now(&self, problem: &Problem) -> Vec<(u32, u32, KindId)> {
        let user = |slot| {
            let class = self.jobs.get(slot).class;
            problem.users.binary_search_by_key(&class, |user| user.class).ok().map(|u| u as u32)
        };
        let mut pairs = Vec::new();
        for gpu in (0..self.cluster.gpus() as u32).map(GpuId) {
            let mut seated = self.seats.on(gpu).filter_map(user);
            if let (Some(u), Some(v)) = (seated.next(), seated.next()) {
                pairs.push((u.min(v), u.max(v), self.cluster.kind_of(gpu)));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// Tells users of elastic jobs how many they are: jobs that differ in their present size only are owed what they would be owed as one.
fn count_parts(users: &mut [User], families: &[Option<ClassKey>]) {
    let mut parts: BTreeMap<&ClassKey, u32> = BTreeMap::new();
    families.iter().flatten().for_each(|family| *parts.entry(family).or_default() += 1);
    for (user, family) in users.iter_mut().zip(families) {
        user.parts = family.as_ref().map_or(1, |family| parts[family]);
    }
}

/// Steps that jobs of one class have done and have left. `best_rate` is the class's on its fastest kind.
fn progress<'j>(jobs: impl Iterator<Item = &'j Job>, best_rate: f64) -> (f64, f64) {
    jobs.fold((0.0, 0.0), |(done, left), job| {
        let (so_far, to_do) = job.progress(best_rate);
        (done + so_far, left + to_do)
    })
}
