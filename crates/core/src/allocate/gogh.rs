//! GOGH's program (arXiv 2510.15652): least power with every promise kept.
//!
//! x[a,c] is how many GPUs of kind a run the combination c: a gang alone, or two single-GPU jobs side by side. With the costs c and
//! kept parts p of `tariff.rs`, n_l jobs of user l and m_a GPUs of kind a:
//!
//! ```text
//! minimise  Σ c[a,c]·x[a,c]  +  M Σ_jobs (1 − p)  +  U Σ_jobs [waits]  −  Σ_{l,a} saving_la · min(held_la, gangs of l on a)
//! s.t.      Σ_c size_c·x[a,c] ≤ m_a,      every job in one bundle or waiting,      x whole
//! ```
//!
//! M is far above what any bundle costs, so power is saved only where promises allow it; what is missing of a promise is the slack
//! that GOGH reports as violation. A job that waits breaks its whole promise, and its price U grows with the time it has
//! waited, so that nobody waits for good. Two jobs share a GPU only where the kind allows it, their memory fits (else
//! there is no such pair) and it pays. In GOGH a job may hold up to D_j GPUs of any mixture; in arles a gang is whole and of
//! one kind, so that D_j is the gang; how large that of an elastic job is was chosen before (`scheduler/elastic.rs`).
//!
//! **While jobs wait**, what is cheap to run now says little: all of it is to be run in the end. `gogh/queue.rs` divides the whole queue into
//! bundles first, and the program chooses among these whose turn it is.
//!
//! **Modes.** Whatever runs on a GPU, in whatever mode, takes that GPU: which mode is best for a bundle on a kind depends on nothing but the
//! bundle. So the program knows kinds only, each bundle in the mode that costs it least there, broken promises included.
//!
//! **Exploring.** A cost that is only estimated is a random number C, log-normal with the estimate's standard error. Whoever tries that kind
//! for a time t finds out, and goes back to its next best, c₀, if that is less. Over the time T that the job lasts this costs
//!
//! ```text
//! t·E C + (T − t)·E min(C, c₀)  =  T·E C − (T − t)·E max(0, C − c₀)       and perhaps a second restart
//! ```
//!
//! so one gang of the user on a kind where it was not measured alone is credited with the last term, over T. The trial runs for real and
//! is charged like everything else. Where the promise would be kept only with probability q, as far as anybody can say, M alone would
//! forbid the trial for ever: a service that was never measured on its frugal kind stays on another for life (one of twelve hours on two GPUs
//! was a tenth of the energy of 80 jobs). But a trial breaks a promise for t at the most, and who fails goes back:
//!
//! ```text
//! t/T·E C + (1 − t/T)·(q·E C + (1 − q)·c₀) + (1 − q)·(t/T)·R·c₀       R = 10
//! ```
//!
//! is what it costs, T being all the time that is left, and the credit makes up the difference to what the program counts. Beside a partner nobody finds out how fast it is alone, and a credit for pairs would be paid round after round: only a gang that
//! runs alone has it.

mod queue;

use super::tariff::{Tariff, normal_cdf};
use super::{
    AllocateError, Allocation, Certificate, FreeGpus, Grant, Members, Policy, PolicyEntry, Problem, Promise, Proposal,
    kind_id, user_index,
};
use arles_lp::cover::{self, Alone, Class, Cover, Effort, Pair, Solution, Stay};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "gogh",
    summary: "GOGH's integer program: weighs power against missed floors and waiting jobs; two jobs may share a GPU; tries out unmeasured kinds",
    pairs: true,
    energy_aware: true,
    free_gpus: FreeGpus::Kept,
    modes: true,
    objective_degree: None,
    promises: &[Promise::Whole],
    make: || Box::<Gogh>::default(),
    ..PolicyEntry::DIVIDES
};

#[derive(Default)]
pub(super) struct Gogh;

/// M over the largest cost of a bundle.
const PROMISE: f64 = 100.0;
/// U over M, for a job that was promised something and for one that was not, when it arrives.
const WAITING: f64 = 0.5;
const WAITING_UNPROMISED: f64 = 0.1;
/// M for a job that was promised nothing, over M.
const SLOW_UNPROMISED: f64 = 0.05;
/// U doubles after this time.
const IMPATIENT_AFTER_SECONDS: f64 = 3600.0;
/// Standard error below which a rate is as good as measured.
const LEAST_STANDARD_ERROR: f64 = 0.05;
/// Time that a trial takes from a job.
const TRIAL_SECONDS: f64 = 600.0;
/// Price of the part of a promise that a trial may break, over what the job costs elsewhere.
const RISK: f64 = 10.0;
/// Work that an answer is worth.
const EFFORT: Effort = Effort { programs: 30, ruins: 20_000, nodes: 100_000, gap: 1e-3 };

impl Policy for Gogh {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        if problem.users.is_empty() || problem.kinds() == 0 {
            return Allocation::check(problem, Proposal::default());
        }
        let tariff = Tariff::new(problem);
        let mut program = Program::new(problem, &tariff);
        let mut answer = cover::solve(&program.with_trials(), &EFFORT)?;
        if answer.unserved.iter().any(|&jobs| jobs > 0)
            && !(program.question.pairs.is_empty() && problem.sold_as.is_empty())
        {
            program = queue::in_turn(problem, &tariff.with_queue())?;
            answer = cover::solve(&program.with_trials(), &EFFORT)?;
        }
        // The program minimises; an objective here is maximised.
        let certificate = Certificate { lower: -answer.cost, upper: -answer.bound };
        let proposal = Proposal {
            grants: program.grants(&answer),
            objective: Some(-answer.cost),
            certificate: Some(certificate),
            ..Proposal::default()
        };
        Allocation::check(problem, proposal)
    }
}

/// The program in the words of `lp`: users are classes, kinds are resources. Modes have no units of their own.
struct Program {
    question: Cover,
    /// M.
    promise: f64,
    /// The mode of every bundle, alone and in pairs, in the order of the question's.
    alone_modes: Vec<usize>,
    pair_modes: Vec<usize>,
    /// By user and kind: what stays credit each of so many gangs with for finding out.
    trials: Vec<Trial>,
}

/// A part of the credit of a [`Stay`].
#[derive(Clone, Copy)]
struct Trial {
    credit: f64,
    gangs: u32,
}

impl Program {
    fn new(problem: &Problem, tariff: &Tariff<'_>) -> Self {
        let k = problem.kinds();
        let promise = PROMISE * tariff.largest_cost();
        let capacity = problem.capacity.iter().map(|m| m.floor() as u32).collect();
        let question = Cover { capacity, ..Cover::default() };
        let (alone_modes, pair_modes, trials) = (Vec::new(), Vec::new(), Vec::new());
        let mut program = Self { question, promise, alone_modes, pair_modes, trials };
        for (u, user) in problem.users.iter().enumerate() {
            let promised = user.floor.is_some_and(|floor| floor > 0.0);
            let waited = problem.now.since(user.arrived) / IMPATIENT_AFTER_SECONDS;
            let class = Class {
                count: user.jobs,
                size: user.gang,
                short_price: promise * if promised { 1.0 } else { SLOW_UNPROMISED },
                unserved_price: promise * (1.0 + waited) * if promised { WAITING } else { WAITING_UNPROMISED },
            };
            program.question.classes.push(class);
            for j in 0..k {
                let bill = |mode: &usize| {
                    let Some(offer) = tariff.alone(u, *mode) else { return f64::INFINITY };
                    offer.cost() + class.short_price * (1.0 - offer.kept[0])
                        - worth_knowing(problem, tariff, u, *mode, class.short_price)
                };
                let mode = cheapest(problem, j, bill);
                let offer = mode.and_then(|mode| tariff.alone(u, mode));
                program.question.alone.push(offer.map(|offer| Alone { cost: offer.cost(), part: offer.kept[0] }));
                let held = tariff.held(u, j);
                let worth = mode.map_or(0.0, |mode| worth_knowing(problem, tariff, u, mode, class.short_price));
                let trial = Trial { credit: worth / f64::from(held.max(1)), gangs: held.max(1) };
                let saving = trial.credit + if held > 0 && mode.is_some() { tariff.saving(u, j) } else { 0.0 };
                if saving > 0.0 {
                    program.question.stays.push(Stay { class: u, resource: j, held: trial.gangs, saving });
                }
                program.alone_modes.push(mode.unwrap_or(j));
                program.trials.push(trial);
            }
        }
        program.add_pairs(problem, tariff);
        program
    }

    /// Adds the pairs of users for whom it can pay.
    fn add_pairs(&mut self, problem: &Problem, tariff: &Tariff<'_>) {
        let singles: Vec<usize> = (0..problem.users.len()).filter(|&u| problem.users[u].gang == 1).collect();
        for (i, &u) in singles.iter().enumerate() {
            for &v in &singles[i..] {
                if u == v && problem.users[u].jobs < 2 {
                    continue;
                }
                let short = [u, v].map(|user| self.question.classes[user].short_price);
                for j in 0..problem.kinds() {
                    let bill = |mode: &usize| {
                        let Some(offer) = tariff.together(u, v, *mode) else { return f64::INFINITY };
                        offer.cost() + short[0] * (1.0 - offer.kept[0]) + short[1] * (1.0 - offer.kept[1])
                    };
                    let Some(mode) = cheapest(problem, j, bill) else { continue };
                    let Some(offer) = tariff.together(u, v, mode) else { continue };
                    let [part_a, part_b] = offer.kept;
                    self.question.pairs.push(Pair { a: u, b: v, resource: j, cost: offer.cost(), part_a, part_b });
                    self.pair_modes.push(mode);
                }
            }
        }
    }

    /// The question as it is solved. Stays count everybody who is there, so a pair costs more by what a trial is credited with: in one nobody finds out
    /// what it is alone.
    fn with_trials(&self) -> Cover {
        let mut question = self.question.clone();
        let k = question.capacity.len();
        for pair in &mut question.pairs {
            let [one, two] = [pair.a, pair.b].map(|user| self.trials[user * k + pair.resource]);
            let twice = one.credit * f64::from(one.gangs.min(2));
            pair.cost += if pair.a == pair.b { twice } else { one.credit + two.credit };
        }
        question
    }

    fn grants(&self, answer: &Solution) -> Vec<Grant> {
        let k = self.question.capacity.len();
        let alone = answer.alone.iter().enumerate().filter(|(_, gangs)| **gangs > 0).map(|(i, &gangs)| Grant {
            kind: kind_id(self.alone_modes[i]),
            members: Members::One(user_index(i / k)),
            gangs: f64::from(gangs),
        });
        let pairs = self.question.pairs.iter().zip(&self.pair_modes).zip(&answer.pairs);
        let together = pairs.filter(|(_, units)| **units > 0).map(|((pair, &mode), &units)| Grant {
            kind: kind_id(mode),
            members: Members::Two(user_index(pair.a), user_index(pair.b)),
            gangs: f64::from(units),
        });
        alone.chain(together).collect()
    }
}

/// The mode of kind `j`, itself among them, with the least bill; none if it is a mode itself or nothing fits.
fn cheapest(problem: &Problem, j: usize, bill: impl Fn(&usize) -> f64) -> Option<usize> {
    if problem.sold_as(j) != j {
        return None;
    }
    let modes = (0..problem.kinds()).filter(|&mode| problem.sold_as(mode) == j);
    let billed = modes.map(|mode| (bill(&mode), mode)).filter(|(bill, _)| bill.is_finite());
    billed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, mode)| mode)
}

/// What finding out about kind `j` is worth to user `u`, if anything.
fn worth_knowing(problem: &Problem, tariff: &Tariff<'_>, u: usize, j: usize, short_price: f64) -> f64 {
    if tariff.standard_error(u, j) < LEAST_STANDARD_ERROR {
        return 0.0;
    }
    let worth = match tariff.likely_kept(u, j) {
        Some(likely) => hope(problem, tariff, (u, j), likely, short_price),
        None => curiosity(problem, tariff, u, j),
    };
    worth.map_or(0.0, |worth| worth.max(0.0))
}

/// What trying kind `j` is worth to user `u`, in watts at its pace.
fn curiosity(problem: &Problem, tariff: &Tariff<'_>, u: usize, j: usize) -> Option<f64> {
    let here = tariff.alone(u, j)?.cost();
    let best = cheapest_elsewhere(problem, tariff, u, j, 0.0)?;
    let lasts = tariff.lasts_seconds(u, problem.rates(u)[j]);
    let rest = (1.0 - TRIAL_SECONDS / lasts).max(0.0);
    Some(rest * avoided_loss(here, tariff.standard_error(u, j), best) - tariff.saving(u, j))
}

/// The same where the promise is kept there with this probability only: what the program counts for it as broken, less what a trial costs.
fn hope(problem: &Problem, tariff: &Tariff<'_>, (u, j): (usize, usize), likely: f64, short_price: f64) -> Option<f64> {
    let offer = tariff.alone(u, j)?;
    let (here, best) = (offer.cost(), cheapest_elsewhere(problem, tariff, u, j, 1.0)?);
    let trial = (TRIAL_SECONDS / tariff.work_seconds(u)).min(1.0);
    let afterwards = likely * here + (1.0 - likely) * best;
    let risk = RISK * best * trial * (1.0 - likely);
    let tried = trial * here + (1.0 - trial) * afterwards + risk + tariff.saving(u, j);
    Some(short_price * (1.0 - offer.kept[0]) + here - tried)
}

/// The least cost of user `u` alone on another kind where at least this part of its promise is kept.
fn cheapest_elsewhere(problem: &Problem, tariff: &Tariff<'_>, u: usize, j: usize, kept: f64) -> Option<f64> {
    let others = (0..problem.kinds()).filter(|&i| i != j).filter_map(|i| tariff.alone(u, i));
    others.filter(|offer| offer.kept[0] >= kept).map(|offer| offer.cost()).min_by(f64::total_cmp)
}

/// E max(0, C − best) for ln C ~ N(ln here, σ²).
fn avoided_loss(here: f64, standard_error: f64, best: f64) -> f64 {
    let d = (here / best).ln() / standard_error;
    here * (standard_error * standard_error / 2.0).exp() * normal_cdf(d + standard_error) - best * normal_cdf(d)
}
