//! Errors where a policy chooses what is measured: `arles learn eval --chosen-by gogh`.
//!
//! **The loop.** Half of the workloads (or of the families) are known from the catalog, the others are new. [`JOBS`] jobs share [`GPUS`] GPUs of
//! every kind; each runs a random workload, is promised a part of its best rate, and leaves after a round with probability 1/8 for another.
//! The rates alone of all workloads are known, so the question is about pairs only. Every round the policy gets the estimates and their standard errors, and its
//! allocation is run: a cell that ran for 1, 2, 4, 8, ... rounds is measured, with an error of [`NOISE`], and the estimator is told. Who arrives and
//! leaves depends on the seed alone, so all estimators face the same jobs. The table has no watts: every GPU draws the same, and least energy is fewest GPUs.
//!
//! **Scores.** *Open* cells are those with a new workload that no estimator observed: the same cells for all, asked about before the first round, after a
//! quarter, a half, and at the end. *Chosen* cells are those that were about to run and had not been measured: a policy takes what looks good, so an estimator
//! that is right on average and no more is too high there. *Lost* is what the plan does less, in rates over the best rate alone, than that of the same
//! policy told the truth, and *GPUs* what it takes more for the same work.

use super::score::percent_mean;
use super::{Evaluation, FoldTask, Split};
use crate::rng::Rng;
use crate::table::{EstimatorError, Setting};
use arles_core::allocate::{ClassId, Members, PairPower, PairRates, PolicyEntry, Power, Problem, User, UserPower};
use arles_core::estimate::{Estimator, Observation, RateQuery};
use arles_core::{KindId, Round, Spread, TenantId, Time, WorkloadId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds (a few in tests: a policy solves two programs in each), jobs at once, and GPUs of each kind.
const ROUNDS: u32 = if cfg!(test) { 8 } else { 40 };
const JOBS: usize = 30;
const GPUS: u32 = 8;
/// Runs of the loop.
pub const LOOPS: u64 = if cfg!(test) { 1 } else { 3 };
/// A job leaves after a round with this probability.
const LEAVES: f64 = 0.125;
/// Relative standard error of a measurement.
const NOISE: f64 = 0.03;
const ROUND_SECONDS: f64 = 360.0;
/// Promised parts of the best rate alone.
const FLOORS: [f64; 4] = [0.3, 0.4, 0.5, 0.6];
/// A 90 % interval is so many standard errors wide, to either side.
const NINETY: f64 = 1.645;
/// When open cells are asked about.
const MOMENTS: [u32; 4] = [0, ROUNDS / 4, ROUNDS / 2, ROUNDS];

/// How an estimator did where a policy chose. Errors in per cent of the truth.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ChosenScore {
    /// Its name.
    pub estimator: &'static str,
    /// Who chose.
    pub chosen_by: &'static str,
    /// What was new: half of the workloads, or of the families.
    pub split: Split,
    /// Mean error of open cells before the first round, after a quarter, a half and all of them.
    pub open_mape_percent: [f64; 4],
    /// Mean of estimate over truth, less 1, of open cells at the end.
    pub open_bias_percent: f64,
    /// Share of open cells inside the 90 % interval at the end.
    pub open_coverage90_ratio: f64,
    /// Mean error of cells as they were chosen.
    pub chosen_mape_percent: f64,
    /// The same of estimate over truth, less 1: what the policy was promised too much.
    pub chosen_bias_percent: f64,
    /// Share of them inside the 90 % interval.
    pub chosen_coverage90_ratio: f64,
    /// Work lost to the policy with true rates.
    pub lost_percent: f64,
    /// GPUs for the same work, more than with true rates.
    pub gpus_percent: f64,
    /// Pairs measured in a loop, on average.
    pub pairs_measured: f64,
    /// Open cells in all loops together.
    pub open_count: usize,
    /// Chosen cells.
    pub chosen_count: usize,
}

/// A directed pair on a kind.
type Pair = (usize, usize, usize);
/// (rate, standard error) by kind, of a workload beside another or alone.
type Row = Vec<Option<(f64, f64)>>;

/// What one loop of one estimator leaves.
struct Loop {
    /// Estimate over truth and standard error of every pair with a new workload, at each of [`MOMENTS`].
    told: Vec<BTreeMap<Pair, (f64, f64)>>,
    measured: BTreeSet<Pair>,
    /// Estimate over truth and standard error.
    chosen: Vec<(f64, f64)>,
    /// Work and GPUs, as it ran and as the oracle would have.
    work: [f64; 2],
    gpus: [f64; 2],
}

/// A live job.
#[derive(Clone, Copy)]
struct Job {
    number: u32,
    workload: usize,
    floor: f64,
    since: u32,
}

/// Runs the loops of every estimator; `progress` is told which part is done.
pub(super) fn chosen(
    evaluation: &Evaluation<'_>,
    policy: &'static PolicyEntry,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<ChosenScore>, EstimatorError> {
    let options = evaluation.options;
    let splits: Vec<Split> = options.splits.iter().copied().filter(|s| *s != Split::LeaveKindOut).collect();
    let (mut scores, mut done) = (Vec::new(), 0.0);
    let all = (splits.len() * options.estimators.len()) as f64 * LOOPS as f64;
    for split in splits {
        let mut loops: Vec<Vec<Loop>> = options.estimators.iter().map(|_| Vec::new()).collect();
        for run in 0..LOOPS {
            for (e, entry) in options.estimators.iter().enumerate() {
                let world = World::new(evaluation, split, options.seed.wrapping_add(run));
                loops[e].push(world.run(entry.make, policy)?);
                done += 1.0;
                progress(done / all);
            }
        }
        // Only cells that nobody observed are open.
        let observed: Vec<BTreeSet<Pair>> = (0..LOOPS as usize)
            .map(|run| loops.iter().flat_map(|of| of[run].measured.iter().copied()).collect())
            .collect();
        for (entry, loops) in options.estimators.iter().zip(&loops) {
            scores.push(score(entry.name, policy.name, split, loops, &observed));
        }
    }
    Ok(scores)
}

fn score(
    estimator: &'static str,
    chosen_by: &'static str,
    split: Split,
    loops: &[Loop],
    observed: &[BTreeSet<Pair>],
) -> ChosenScore {
    let open = |moment: usize| -> Vec<(f64, f64)> {
        let of = |(l, observed): (&Loop, &BTreeSet<Pair>)| -> Vec<(f64, f64)> {
            l.told[moment].iter().filter(|(pair, _)| !observed.contains(pair)).map(|(_, told)| *told).collect()
        };
        loops.iter().zip(observed).flat_map(of).collect()
    };
    let last = open(MOMENTS.len() - 1);
    let chosen: Vec<(f64, f64)> = loops.iter().flat_map(|l| l.chosen.iter().copied()).collect();
    let mape = |of: &[(f64, f64)]| percent_mean(of.iter().map(|(ratio, _)| (ratio - 1.0).abs()));
    let bias = |of: &[(f64, f64)]| percent_mean(of.iter().map(|(ratio, _)| ratio - 1.0));
    let cover = |of: &[(f64, f64)]| {
        let inside = of.iter().filter(|(ratio, sd)| ratio.ln().abs() <= NINETY * sd).count();
        inside as f64 / of.len() as f64
    };
    let sum = |of: fn(&Loop) -> f64| loops.iter().map(of).sum::<f64>();
    let (work, oracle) = (sum(|l| l.work[0]), sum(|l| l.work[1]));
    let (gpus, oracle_gpus) = (sum(|l| l.gpus[0]), sum(|l| l.gpus[1]));
    ChosenScore {
        estimator,
        chosen_by,
        split,
        open_mape_percent: std::array::from_fn(|moment| mape(&open(moment))),
        open_bias_percent: bias(&last),
        open_coverage90_ratio: cover(&last),
        chosen_mape_percent: mape(&chosen),
        chosen_bias_percent: bias(&chosen),
        chosen_coverage90_ratio: cover(&chosen),
        lost_percent: 100.0 * (1.0 - work / oracle),
        gpus_percent: 100.0 * ((gpus / work) / (oracle_gpus / oracle) - 1.0),
        pairs_measured: loops.iter().map(|l| l.measured.len()).sum::<usize>() as f64 / 2.0 / loops.len() as f64,
        open_count: last.len(),
        chosen_count: chosen.len(),
    }
}

/// One loop: who is new, and who comes and goes.
struct World<'e> {
    evaluation: &'e Evaluation<'e>,
    new: Vec<usize>,
    seed: u64,
}

impl<'e> World<'e> {
    fn new(evaluation: &'e Evaluation<'e>, split: Split, seed: u64) -> Self {
        let mut random = Rng::new(seed, "known");
        let mut groups: Vec<Vec<usize>> = match split {
            Split::LeaveFamilyOut => {
                let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
                for i in 0..evaluation.subjects.len() {
                    families.entry(evaluation.family(i)).or_default().push(i);
                }
                families.into_values().collect()
            }
            _ => (0..evaluation.subjects.len()).map(|i| vec![i]).collect(),
        };
        random.shuffle(&mut groups);
        let new = groups.into_iter().enumerate().filter(|(at, _)| at % 2 == 1).flat_map(|(_, group)| group).collect();
        Self { evaluation, new, seed }
    }

    fn run(
        &self,
        make: fn(&Setting<'_>) -> Result<Box<dyn Estimator>, EstimatorError>,
        policy: &PolicyEntry,
    ) -> Result<Loop, EstimatorError> {
        let evaluation = self.evaluation;
        let task = FoldTask { estimator: 0, split: Split::LeaveWorkloadOut, held: self.new.clone(), kind: None };
        let catalog = evaluation.without(&task);
        let setting = Setting {
            kinds: evaluation.options.kinds,
            workloads: &evaluation.subjects,
            catalog: &catalog,
            seed: evaluation.options.seed,
            progress: &|_| {},
        };
        let mut estimator = make(&setting)?;
        for &i in &self.new {
            for kind in 0..setting.kinds.len() {
                if let Some(rate) = evaluation.truth(i, None, kind) {
                    estimator.observe(&observation(i, None, kind, rate, 0));
                }
            }
        }
        let mut left = Loop {
            told: vec![self.told(estimator.as_ref())],
            measured: BTreeSet::new(),
            chosen: Vec::new(),
            work: [0.0; 2],
            gpus: [0.0; 2],
        };
        let (mut random, mut jobs, mut next) = (Rng::new(self.seed, "jobs"), Vec::new(), 0);
        let mut noise = Rng::new(self.seed, "noise");
        let mut rounds: BTreeMap<Pair, u32> = BTreeMap::new();
        for round in 0..ROUNDS {
            jobs.retain(|_: &Job| random.uniform() >= LEAVES);
            while jobs.len() < JOBS {
                jobs.push(self.arrival(&mut random, next, round));
                next += 1;
            }
            let plan = self.plan(&jobs, policy, round, &|i, j| row(estimator.as_ref(), i, j))?;
            let oracle = self.plan(&jobs, policy, round, &|i, j| self.exact(i, j))?;
            for (at, plan) in [&plan, &oracle].into_iter().enumerate() {
                left.work[at] += plan.iter().map(|p| self.work(&jobs, *p)).sum::<f64>();
                left.gpus[at] += plan.len() as f64;
            }
            for (kind, members) in plan {
                let Members::Two(one, two) = members else { continue };
                let [one, two] = [one, two].map(|user| jobs[user as usize].workload);
                self.ran(estimator.as_mut(), &mut left, (one, two, kind), &mut rounds, (round, &mut noise));
            }
            if MOMENTS.contains(&(round + 1)) {
                left.told.push(self.told(estimator.as_ref()));
            }
        }
        Ok(left)
    }

    fn arrival(&self, random: &mut Rng, number: u32, round: u32) -> Job {
        loop {
            let workload = random.below(self.evaluation.subjects.len());
            let part = FLOORS[random.below(FLOORS.len())];
            let best = self.best(workload);
            if best > 0.0 {
                return Job { number, workload, floor: part * best, since: round };
            }
        }
    }

    fn best(&self, workload: usize) -> f64 {
        let kinds = 0..self.evaluation.options.kinds.len();
        kinds.filter_map(|a| self.evaluation.truth(workload, None, a)).fold(0.0, f64::max)
    }

    /// Two ran side by side: they may be measured.
    fn ran(
        &self,
        estimator: &mut dyn Estimator,
        left: &mut Loop,
        (one, two, kind): Pair,
        rounds: &mut BTreeMap<Pair, u32>,
        (round, noise): (u32, &mut Rng),
    ) {
        let truth = |i: usize, j: usize| self.evaluation.truth(i, Some(j), kind);
        let (Some(first), Some(second)) = (truth(one, two), truth(two, one)) else { return };
        let new = |t: usize| self.new.contains(&t);
        let count = rounds.entry((one.min(two), one.max(two), kind)).or_default();
        *count += 1;
        let mut told = Vec::new();
        for (i, j, rate) in [(one, two, first), (two, one, second)] {
            if *count == 1
                && (new(i) || new(j))
                && let Some((said, standard_error)) = row(estimator, i, Some(j))[kind]
            {
                left.chosen.push((said / rate, standard_error));
            }
            // About N(0, 1).
            let draw = (0..12).map(|_| noise.uniform()).sum::<f64>() - 6.0;
            told.push(observation(i, Some(j), kind, rate * (NOISE * draw).exp(), round + 1));
            left.measured.insert((i, j, kind));
        }
        if count.is_power_of_two() {
            told.iter().take(if one == two { 1 } else { 2 }).for_each(|seen| {
                estimator.observe(seen);
            });
        }
    }

    /// Estimates of all pairs with a new workload, over the truth.
    fn told(&self, estimator: &dyn Estimator) -> BTreeMap<Pair, (f64, f64)> {
        let mut told = BTreeMap::new();
        let subjects = 0..self.evaluation.subjects.len();
        let is_new: Vec<bool> = subjects.clone().map(|t| self.new.contains(&t)).collect();
        for i in subjects.clone() {
            for j in subjects.clone().filter(|&j| is_new[i] || is_new[j]) {
                for (kind, said) in row(estimator, i, Some(j)).into_iter().enumerate() {
                    if let (Some((rate, sd)), Some(truth)) = (said, self.evaluation.truth(i, Some(j), kind)) {
                        told.insert((i, j, kind), (rate / truth, sd));
                    }
                }
            }
        }
        told
    }

    /// What is true, as an oracle would tell it.
    fn exact(&self, i: usize, j: Option<usize>) -> Row {
        let kinds = 0..self.evaluation.options.kinds.len();
        kinds.map(|kind| Some((self.evaluation.truth(i, j, kind)?, 0.0))).collect()
    }

    fn work(&self, jobs: &[Job], (kind, members): (usize, Members)) -> f64 {
        let of = |user: u32, other: Option<u32>| {
            let (job, other) = (jobs[user as usize], other.map(|o| jobs[o as usize].workload));
            self.evaluation.truth(job.workload, other, kind).unwrap_or(0.0) / self.best(job.workload)
        };
        match members {
            Members::One(user) => of(user, None),
            Members::Two(one, two) => of(one, Some(two)) + of(two, Some(one)),
        }
    }

    /// What the policy makes of these rates: what runs, and on which kind.
    fn plan(
        &self,
        jobs: &[Job],
        policy: &PolicyEntry,
        round: u32,
        told: &dyn Fn(usize, Option<usize>) -> Row,
    ) -> Result<Vec<(usize, Members)>, EstimatorError> {
        let fail = |what: String| EstimatorError(format!("{} gave no allocation: {what}", policy.name));
        let problem = self.problem(jobs, round, told).map_err(fail)?;
        let allocation = (policy.make)().allocate(&problem).map_err(|e| fail(e.to_string()))?;
        let mut plan = Vec::new();
        for grant in allocation.grants() {
            for _ in 0..grant.gangs.round() as u32 {
                plan.push((grant.kind.index(), grant.members));
            }
        }
        Ok(plan)
    }

    fn problem(&self, jobs: &[Job], round: u32, told: &dyn Fn(usize, Option<usize>) -> Row) -> Result<Problem, String> {
        let now = Time::from_seconds(f64::from(round) * ROUND_SECONDS);
        let user = |job: &Job| User {
            class: ClassId(job.number),
            tenant: TenantId(0),
            tenant_weight: 1.0,
            workload: WorkloadId(job.workload as u32),
            gang: 1,
            jobs: 1,
            job_weight: 1.0,
            parts: 1,
            floor: Some(job.floor),
            job: None,
            arrived: Time::from_seconds(f64::from(job.since) * ROUND_SECONDS),
            attained_gpu_seconds: 0.0,
            steps_done: 0.0,
            steps_left: self.best(job.workload) * ROUND_SECONDS / LEAVES,
            held: None,
        };
        let alone: Vec<Row> = jobs.iter().map(|job| told(job.workload, None)).collect();
        let rates = alone.iter().flatten().map(|e| e.map_or(0.0, |(rate, _)| rate)).collect();
        let pairs = self.pairs(jobs, told);
        let capacity = vec![f64::from(GPUS); self.evaluation.options.kinds.len()];
        let problem = Problem::new(Round(u64::from(round)), capacity, jobs.iter().map(user).collect(), rates);
        let rates = pairs.iter().map(|(rates, _)| *rates).collect();
        let problem = problem.and_then(|p| p.at(now).with_pairs(rates)).map_err(|e| e.to_string())?;
        let mut power = Power::uniform(&problem);
        for (user, alone) in power.users.iter_mut().zip(&alone) {
            let standard_errors = alone.iter().map(|e| e.map_or(0.0, |(_, sd)| sd)).collect();
            let watts = alone.iter().map(|e| f64::from(u8::from(e.is_some()))).collect();
            *user = UserPower { standard_errors, watts, ..user.clone() };
        }
        for (pair, (_, standard_error)) in power.pairs.iter_mut().zip(&pairs) {
            *pair = PairPower { watts: 1.0, standard_error: *standard_error };
        }
        problem.with_power(power).map_err(|e| e.to_string())
    }

    /// What is told of all pairs of live workloads, in the order of a problem, each with its standard error.
    fn pairs(&self, jobs: &[Job], told: &dyn Fn(usize, Option<usize>) -> Row) -> Vec<(PairRates, f64)> {
        let mut workloads: Vec<usize> = jobs.iter().map(|job| job.workload).collect();
        workloads.sort_unstable();
        workloads.dedup();
        let mut pairs = Vec::new();
        for (at, &one) in workloads.iter().enumerate() {
            for &two in &workloads[at..] {
                let (first, second) = (told(one, Some(two)), told(two, Some(one)));
                // Nobody is asked about two that do not fit: that is known beforehand.
                let fits = [self.exact(one, Some(two)), self.exact(two, Some(one))];
                for kind in 0..first.len() {
                    if let (Some((rate_a, a)), Some((rate_b, b))) = (first[kind], second[kind])
                        && fits.iter().all(|row| row[kind].is_some())
                    {
                        let (one, two) = (WorkloadId(one as u32), WorkloadId(two as u32));
                        let rates = PairRates { a: one, b: two, kind: KindId(kind as u16), rate_a, rate_b };
                        pairs.push((rates, a.max(b)));
                    }
                }
            }
        }
        pairs
    }
}

fn ask(subject: usize, partner: Option<usize>) -> RateQuery {
    RateQuery { workload: WorkloadId(subject as u32), gang: 1, partner: partner.map(|p| WorkloadId(p as u32)) }
}

fn row(estimator: &dyn Estimator, i: usize, j: Option<usize>) -> Row {
    let cells = estimator.estimate(&ask(i, j)).cells;
    cells.into_iter().map(|e| e.map(|e| (e.rate, e.standard_error))).collect()
}

fn observation(i: usize, j: Option<usize>, kind: usize, rate: f64, round: u32) -> Observation {
    Observation {
        ask: ask(i, j),
        kind: KindId(kind as u16),
        spread: Spread::Packed,
        rate,
        watts: 0.0,
        at: Time::from_seconds(ROUND_SECONDS * f64::from(round + 1)),
        job: None,
    }
}
