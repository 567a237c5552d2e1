//! How long the policy under test takes, how sure its answers are, and what they cost beside a greedy one.
//!
//! Problems are those of the third decision in runs of growing clusters, each with about two jobs for a GPU that all came at the beginning:
//! by then jobs hold GPUs, and moving them has a price. An allocation is valued by code that no policy uses:
//!
//! ```text
//! cost = Σ over GPUs   P · mean over the jobs on it of ρ/r        ρ: the promised rate (the best where none was promised)
//! ```
//!
//! which is the power at the promised pace; a job that ends by the clock counts with ρ/r = 1. Beside it stand the jobs that got
//! nothing, and the jobs below their promised rate.

use super::GoghSetup;
use arles_core::allocate::{
    Allocation, Grant, Grouping, Members, PolicyEntry, Power, Problem, User, UserPower, find_policy,
};
use arles_core::{JobId, KindId, Time};
use arles_report::finding::{Finding, Plot, Series, Sheet, Style, Value};
use arles_sim::scenario::{RunHooks, RunObserver, Scenario};
use arles_sim::world::World;

/// The policy to compare with.
const GREEDY: &str = "energy-greedy";
/// Which decision of a run is looked at.
const DECISION: usize = 3;

/// Keeps the last problem, and ends the run.
#[derive(Default)]
struct Snapshot {
    problem: Option<Problem>,
    decisions: usize,
}

impl RunObserver for Snapshot {
    fn allocated(&mut self, _: Time, problem: &Problem, _: &Allocation) {
        self.problem = Some(problem.clone());
    }

    fn decided(&mut self, _: Time, _: &World) -> bool {
        self.decisions += 1;
        self.decisions < DECISION
    }
}

/// What an allocation is worth.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct AllocationValue {
    watts: f64,
    /// Jobs with nothing.
    idle: f64,
    /// Jobs with less than their promise, those with nothing included.
    below: f64,
}

fn value(problem: &Problem, answer: &Allocation) -> AllocationValue {
    let mut worth = AllocationValue::default();
    let (mut held, mut kept) = (vec![0.0; problem.users.len()], vec![0.0; problem.users.len()]);
    for grant in answer.grants().iter().filter(|grant| grant.gangs > 1e-9) {
        let (watts, members) = bundle(problem, grant);
        let pace = |(u, rate): &(usize, f64)| stretch(problem, *u, *rate);
        worth.watts += grant.gangs * watts * members.iter().map(pace).sum::<f64>() / members.len() as f64;
        for (u, rate) in members {
            held[u] += grant.gangs;
            kept[u] += if rate >= problem.users[u].floor.unwrap_or(0.0) { grant.gangs } else { 0.0 };
        }
    }
    for (u, user) in problem.users.iter().enumerate() {
        worth.idle += (f64::from(user.jobs) - held[u]).max(0.0);
        worth.below += if user.floor.is_some() { (f64::from(user.jobs) - kept[u]).max(0.0) } else { 0.0 };
    }
    worth
}

/// Power of a gang or of a shared GPU, and the rate of each job in it.
fn bundle(problem: &Problem, grant: &Grant) -> (f64, Vec<(usize, f64)>) {
    let j = grant.kind.index();
    match grant.members {
        Members::One(u) => {
            let u = u as usize;
            let watts = problem.power.as_ref().map_or(1.0, |power| power.users[u].watts[j]);
            (watts * f64::from(problem.users[u].gang), vec![(u, problem.rates(u)[j])])
        }
        Members::Two(u, v) => {
            let (u, v) = (u as usize, v as usize);
            let (x, y) = (problem.users[u].workload, problem.users[v].workload);
            let at = problem.pairs.iter().position(|p| (p.a, p.b, p.kind) == (x.min(y), x.max(y), grant.kind));
            let watts = at.and_then(|at| Some(problem.power.as_ref()?.pairs[at].watts)).unwrap_or(1.0);
            let (first, second) = problem.together(x, y, grant.kind).unwrap_or((0.0, 0.0));
            (watts, vec![(u, first), (v, second)])
        }
    }
}

/// ρ/r.
fn stretch(problem: &Problem, u: usize, rate: f64) -> f64 {
    if rate <= 0.0 || problem.power.as_ref().is_some_and(|power| power.users[u].by_the_clock) {
        return 1.0;
    }
    let best = problem.rates(u).iter().copied().fold(0.0, f64::max);
    problem.users[u].floor.unwrap_or(best) / rate
}

/// A timed solution.
struct Answer {
    seconds: f64,
    gap: Option<f64>,
    worth: AllocationValue,
}

/// Asks a policy, three times unless it takes long, and keeps the least time.
fn ask(setup: &GoghSetup<'_>, policy: &'static PolicyEntry, problem: &Problem) -> Result<Answer, String> {
    let asked = (policy.make)();
    let (mut seconds, mut last) = (f64::INFINITY, None);
    for _ in 0..3 {
        let begun = (setup.plan.stopwatch)();
        let answer = asked.allocate(problem).map_err(|error| error.to_string())?;
        let took = (setup.plan.stopwatch)() - begun;
        seconds = seconds.min(took);
        last = Some(answer);
        if took > 0.5 {
            break;
        }
    }
    let answer = last.ok_or("it was not asked")?;
    let gap = answer.certificate().map(|certificate| certificate.gap());
    Ok(Answer { seconds: seconds.max(1e-9), gap, worth: value(problem, &answer) })
}

/// The problem of a late decision in a run.
fn problem(scenario: &Scenario, policy: &'static PolicyEntry) -> Result<Problem, String> {
    let mut snapshot = Snapshot::default();
    let hooks = RunHooks { observer: Some(&mut snapshot), ..RunHooks::default() };
    scenario.run(policy, hooks, &mut |_| {}).map_err(|error| error.to_string())?;
    snapshot.problem.ok_or_else(|| "there was nothing to decide".to_owned())
}

/// The same problem with every job as a user of its own; those that hold GPUs come first.
fn singles(problem: &Problem) -> Result<Problem, String> {
    let power = problem.power.clone().unwrap_or_else(|| Power::uniform(problem));
    let (mut users, mut rates, mut watts): (Vec<User>, Vec<f64>, Vec<UserPower>) = Default::default();
    for (u, (user, own)) in problem.users.iter().zip(&power.users).enumerate() {
        let held = own.held.iter().enumerate().flat_map(|(j, n)| (0..*n).map(move |_| KindId(j as u16)));
        let mut held = held.take(user.jobs as usize);
        let part = 1.0 / f64::from(user.jobs.max(1));
        for _ in 0..user.jobs {
            let at = held.next();
            users.push(User {
                jobs: 1,
                job: Some(JobId(users.len() as u64)),
                held: at,
                attained_gpu_seconds: user.attained_gpu_seconds * part,
                steps_done: user.steps_done * part,
                steps_left: user.steps_left * part,
                ..user.clone()
            });
            rates.extend(problem.rates(u));
            let holds = |j: usize| u32::from(at.is_some_and(|kind| kind.index() == j));
            watts.push(UserPower { held: (0..problem.kinds()).map(holds).collect(), ..own.clone() });
        }
    }
    let power = Power { users: watts, ..power };
    let expanded = Problem::new(problem.round, problem.capacity.clone(), users, rates)
        .and_then(|expanded| expanded.at(problem.now).with_pairs(problem.pairs.clone()))
        .and_then(|expanded| expanded.with_power(power));
    expanded.map_err(|error| error.to_string())
}

/// Times the policy under test, and a greedy one.
#[must_use]
pub fn program(setup: &GoghSetup<'_>) -> Finding {
    let mut finding = Finding::by(format!(
        "The problem of the third round in runs on clusters of increasing size, with two jobs per GPU, all submitted at \
            the start; {}. Minimum of three timings on one thread of this machine, from the problem to the verified \
            allocation. These numbers differ from run to run.",
        setup.plan.testbed.title
    ));
    let tested = find_policy(setup.tested).filter(|policy| policy.name != GREEDY);
    let policies: Vec<&'static PolicyEntry> = tested.into_iter().chain(find_policy(GREEDY)).collect();
    let columns = [
        ("problem", "problem"),
        ("policy", "policy"),
        ("time", "seconds"),
        ("gap", "gap"),
        ("power at the\npromised pace, kW", "kilowatts"),
        ("jobs with\nnothing", "idle_jobs"),
        ("below their\npromise", "below_promise"),
    ];
    let mut sheet = Sheet::new("program", "One decision", &columns);
    let mut lines: Vec<Series> =
        policies.iter().map(|policy| Series { name: policy.name.to_owned(), points: Vec::new() }).collect();
    for (done, (title, scenario)) in setup.sizes.iter().enumerate() {
        let asked = match policies.first().map(|policy| problem(scenario, policy)) {
            Some(Ok(problem)) => problem,
            Some(Err(why)) => {
                finding.warn(format!("{title}: {why}"));
                continue;
            }
            None => break,
        };
        let jobs: u32 = asked.users.iter().map(|user| user.jobs).sum();
        let title = format!("{title}, {jobs} jobs in {} classes", asked.users.len());
        for (policy, line) in policies.iter().zip(&mut lines) {
            // Both are asked the same; whoever wants every job by itself gets it so.
            let own = if policy.grouping == Grouping::Single { singles(&asked) } else { Ok(asked.clone()) };
            match own.and_then(|own| ask(setup, policy, &own)) {
                Ok(answer) => {
                    line.points.push((f64::from(jobs), answer.seconds, None));
                    sheet.row(row(&title, policy.name, &answer));
                }
                Err(why) => finding.warn(format!("{}, {title}: {why}", policy.name)),
            }
        }
        (setup.plan.progress)((done + 1) as f64 / setup.sizes.len() as f64);
    }
    finding.sheets.push(sheet.note(
        "Gap: optimality gap left by the program's own bound. Power at the promised pace counts a job that runs faster \
            than promised only for the shorter time that it needs; jobs that get nothing cost nothing, so compare only \
            where equally many jobs run.",
    ));
    finding.plots.push(Plot::Lines {
        name: "program-time",
        title: "Time of one decision".to_owned(),
        caption: "Both axes are logarithmic: a straight line is a power law in the number of jobs.".to_owned(),
        x_label: "jobs",
        y_label: "time to allocate",
        log: true,
        lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
    });
    finding
}

fn row(title: &str, policy: &str, answer: &Answer) -> Vec<Value> {
    vec![
        title.into(),
        policy.into(),
        Value::number(answer.seconds, Style::Seconds),
        answer.gap.map_or(Value::Empty, |gap| Value::number(gap, Style::Percent(2))),
        Value::number(answer.worth.watts / 1e3, Style::Plain(2)),
        Value::number(answer.worth.idle, Style::Plain(0)),
        Value::number(answer.worth.below, Style::Plain(0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::Round;
    use arles_core::allocate::{ClassId, Proposal};
    use arles_core::{TenantId, WorkloadId};

    /// Three jobs of one class on two kinds, one of them on the second.
    fn small() -> Problem {
        let user = User {
            class: ClassId(0),
            tenant: TenantId(0),
            tenant_weight: 1.0,
            workload: WorkloadId(0),
            gang: 1,
            jobs: 3,
            job_weight: 1.0,
            parts: 1,
            floor: Some(2.0),
            job: None,
            arrived: Time::ZERO,
            attained_gpu_seconds: 6.0,
            steps_done: 3.0,
            steps_left: 9.0,
            held: None,
        };
        let problem = Problem::new(Round(1), vec![2.0, 2.0], vec![user], vec![4.0, 1.0]).unwrap();
        let mut power = Power::uniform(&problem);
        power.users[0].held = vec![0, 1];
        power.users[0].watts = vec![100.0, 50.0];
        problem.with_power(power).unwrap()
    }

    #[test]
    fn every_job_by_itself_is_the_same_problem() {
        let singles = singles(&small()).unwrap();
        assert_eq!(singles.users.len(), 3);
        assert_eq!(singles.users.iter().map(|user| user.held).collect::<Vec<_>>(), [Some(KindId(1)), None, None]);
        assert_eq!(singles.users.iter().map(|user| user.steps_left).sum::<f64>(), 9.0);
        assert_eq!(singles.power.as_ref().unwrap().users[1].held, [0, 0]);
    }

    #[test]
    fn an_allocation_is_valued_at_the_promised_pace() {
        let problem = small();
        let grant = |kind, gangs| Grant { members: Members::One(0), kind: KindId(kind), gangs };
        let proposal = Proposal { grants: vec![grant(0, 1.0), grant(1, 1.0)], ..Proposal::default() };
        let worth = value(&problem, &Allocation::check(&problem, proposal).unwrap());
        // 100 W at twice the promised rate, and 50 W at half of it.
        assert_eq!(worth, AllocationValue { watts: 100.0 * 0.5 + 50.0 * 2.0, idle: 1.0, below: 2.0 });
    }
}
