//! Policies that promise what they do not do. The suite must find out every one of them: a check that lets its liar pass checks
//! nothing.

use crate::suite::{Tally, run};
use arles_core::allocate::{
    AllocateError, Allocation, Certificate, Policy, PolicyEntry, Problem, Promise, Proposal, find_policy,
    serve_in_order,
};

/// What a liar does in place of what it promises.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Grants nothing.
    Nothing,
    /// All that the first user can hold.
    FirstOnly,
    /// Largest rates first, in whatever unit they are.
    LargestRate,
    /// Whoever arrived last first, whatever runs.
    NewestFirst,
    /// As the policy of that name says.
    As(&'static str),
    /// The same, but blind to floors.
    WithoutFloors(&'static str),
    /// The same without its certificate.
    NoCertificate(&'static str),
    /// The same with a certificate that proves little.
    WideCertificate(&'static str),
    /// The same with half of every share, and a certificate that says this is best.
    HalfProved(&'static str),
    /// The same with nothing granted, and its objective and certificate as they were.
    Unattained(&'static str),
}

struct Liar(Deed);

impl Policy for Liar {
    fn allocate(&self, problem: &Problem) -> Result<Allocation, AllocateError> {
        let grants = match self.0 {
            Deed::Nothing => Vec::new(),
            Deed::FirstOnly => serve_in_order(problem, &[0]).0,
            Deed::LargestRate => {
                let fastest = |u: u32| problem.rates(u as usize).iter().copied().fold(0.0, f64::max);
                let mut order: Vec<u32> = problem.user_indices().collect();
                order.sort_by(|&a, &b| fastest(b).total_cmp(&fastest(a)));
                serve_in_order(problem, &order).0
            }
            Deed::NewestFirst => {
                let mut unheld = problem.clone();
                unheld.users.iter_mut().for_each(|user| user.held = None);
                serve_in_order(&unheld, &problem.user_indices().rev().collect::<Vec<_>>()).0
            }
            Deed::As(name) => return ask(name, problem),
            Deed::WithoutFloors(name) => {
                let mut bare = problem.clone();
                bare.users.iter_mut().for_each(|user| user.floor = None);
                return ask(name, &bare);
            }
            Deed::NoCertificate(name)
            | Deed::WideCertificate(name)
            | Deed::HalfProved(name)
            | Deed::Unattained(name) => return self.forge(&ask(name, problem)?, problem),
        };
        Allocation::check(problem, Proposal { grants, ..Proposal::default() })
    }
}

impl Liar {
    fn forge(&self, honest: &Allocation, problem: &Problem) -> Result<Allocation, AllocateError> {
        let mut proposal = Proposal {
            grants: honest.grants().to_vec(),
            objective: honest.objective(),
            certificate: honest.certificate(),
            ..Proposal::default()
        };
        match self.0 {
            Deed::NoCertificate(_) => proposal.certificate = None,
            Deed::WideCertificate(_) => {
                let wide = |c: Certificate| Certificate { upper: c.upper + 1e-3 * c.upper.abs(), ..c };
                proposal.certificate = proposal.certificate.map(wide);
            }
            Deed::HalfProved(_) => {
                proposal.grants.iter_mut().for_each(|grant| grant.gangs /= 2.0);
                proposal.objective = proposal.objective.map(|value| value / 2.0);
                let half = proposal.objective.unwrap_or(0.0);
                proposal.certificate = Some(Certificate { lower: half, upper: half });
            }
            _ => proposal.grants.clear(),
        }
        Allocation::check(problem, proposal)
    }
}

fn ask(name: &str, problem: &Problem) -> Result<Allocation, AllocateError> {
    (find_policy(name).expect("in the table").make)().allocate(problem)
}

macro_rules! liar {
    ($like:expr, $promise:expr, $deed:expr) => {
        PolicyEntry { promises: &[$promise], make: || Box::new(Liar($deed)), ..copy($like) }
    };
}

/// The entry of a policy, whose name says what its objective is compared with.
fn copy(name: &str) -> PolicyEntry {
    PolicyEntry { ..*find_policy(name).expect("known") }
}

#[test]
fn every_liar_is_found_out() {
    let liars = [
        liar!("fifo", Promise::ScaleFree, Deed::LargestRate),
        liar!("fifo", Promise::WorkConserving, Deed::Nothing),
        liar!("gandiva-fair", Promise::SharingIncentive, Deed::FirstOnly),
        liar!("ceei", Promise::EnvyFree, Deed::FirstOnly),
        liar!("fair-energy", Promise::NearlyEnvyFree, Deed::FirstOnly),
        liar!("ceei", Promise::ParetoEfficient, Deed::Nothing),
        liar!("oef-noncoop", Promise::InflationProof, Deed::As("max-throughput")),
        liar!("max-throughput", Promise::FloorsKept, Deed::WithoutFloors("max-throughput")),
        liar!("min-cost", Promise::FloorsKept, Deed::WithoutFloors("min-cost")),
        liar!("fifo", Promise::NonPreemptive, Deed::NewestFirst),
        liar!("max-min-fairness", Promise::Whole, Deed::As("max-min-fairness")),
        liar!("max-min-fairness", Promise::MaxMin, Deed::Nothing),
        liar!("max-min-fairness", Promise::MaxMin, Deed::NoCertificate("max-min-fairness")),
        liar!("max-min-fairness", Promise::MaxMin, Deed::HalfProved("max-min-fairness")),
        liar!("oef-coop", Promise::Optimal, Deed::Nothing),
    ];
    let optima = ["oef-coop", "ceei", "finish-time-fairness", "min-makespan", "max-throughput", "min-cost"];
    let deeds: [fn(&'static str) -> Deed; 4] =
        [Deed::NoCertificate, Deed::WideCertificate, Deed::HalfProved, Deed::Unattained];
    let caught = |entry: &PolicyEntry| {
        let broken = run(std::slice::from_ref(entry), 60, &mut Tally::default());
        let promise = entry.promises[0];
        assert!(broken.is_err(), "the suite lets {} pass that breaks {}", entry.name, promise.name());
        promise
    };
    let mut promises: Vec<Promise> = liars.iter().map(caught).collect();
    promises.sort();
    promises.dedup();
    assert_eq!(promises, Promise::ALL, "every promise has a liar");
    for name in optima {
        for deed in deeds {
            found_out(name, deed(name));
        }
    }
}

/// One who forges the optimum of a policy; the entry's maker takes no argument, so the answer is judged by itself.
fn found_out(name: &'static str, deed: Deed) {
    use crate::draws::plain_problem;
    use crate::promises::check;
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let entry = copy(name);
    for _ in 0..20 {
        let problem = plain_problem().new_tree(&mut runner).expect("a problem").current();
        let answer = Liar(deed).allocate(&problem).expect("what it forges fits");
        if check(Promise::Optimal, &entry, &problem, &answer).is_err() {
            return;
        }
    }
    panic!("nobody finds out who forges {name}: {deed:?}");
}
