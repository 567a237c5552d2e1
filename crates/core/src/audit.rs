//! A fairness audit of any allocation: who envies whom, who would have done better with an equal division, how much
//! everybody could gain at once, and what a lie would have brought.
//!
//! The letters are those of the fairness programs. For users l and kinds j:
//!
//!   w_lj   speed-up of l on one GPU of j over the slowest kind that it fits on ([`Problem::speedups`])
//!   π_l    what l is owed relative to the others ([`Entitlement::weights`])
//!   d_l    the most GPUs that l can use: jobs · gang
//!   m_j    usable GPUs of kind j
//!   x_lj   GPUs of kind j that l holds, on average over time
//!
//! and from these
//!
//!   u_l      = w_l·x_l                             utility
//!   v_l(z)   = max { w_l·y : 0 ≤ y ≤ z, Σ_j y_j ≤ d_l }   value of a bundle z: fastest first, up to d_l GPUs
//!   E_li     = v_l(x_i π_l/π_i) / u_l              envy: above 1, l would rather have what i got, per entitlement
//!   S_l      = u_l / v_l(m π_l/Σπ)                 sharing ratio: below 1, an equal division would have been better
//!
//! Nobody that fits on no kind takes part in Σπ: it could not use its part. Where nothing is compared with nothing
//! both ratios are 1; who holds nothing and could use something envies infinitely.
//!
//! A GPU under a power limit is a GPU: whoever looks at another's GPUs values them in its own best mode, and has itself what its own modes give it.
//!
//! On a GPU that two jobs share, a user is counted with the part f = (its rate there)/(its rate alone), so that w_l·x_l
//! stays the speed at which it works. The two parts may sum to more than one GPU.
//!
//! An audit must never ask the policy what it meant to do: everything here follows from the problem and from who holds
//! what. It therefore also judges averages over a past window ([`Audit::of_holdings`]).

mod envy;
mod lies;
mod pareto;

use crate::allocate::{AllocateError, Allocation, Entitlement, Grant, Members, Problem};
use std::fmt;

pub use arles_lp::Budget;
pub use envy::Envy;
pub use lies::{BestLie, Lie, Slant, best_lie, single_lies, utility_after};
pub use pareto::Pareto;

/// Why there is no audit.
#[derive(Clone, PartialEq, Debug)]
pub enum AuditError {
    /// Holdings that do not fit the problem.
    Shape {
        /// Numbers given.
        given: usize,
        /// Users × kinds.
        expected: usize,
    },
    /// A holding that is no amount.
    Holding {
        /// Index of the user that holds it.
        user: usize,
        /// Index of the kind.
        kind: usize,
        /// What was given.
        gpus: f64,
    },
    /// A user that is not in the problem.
    NoSuchUser {
        /// Its index.
        user: usize,
        /// How many there are.
        users: usize,
    },
    /// A lie that is none: a factor too many or too few, or one that is no amount.
    Lie {
        /// What is wrong with it.
        what: String,
    },
    /// The policy that was lied to had no answer.
    NoAnswer(AllocateError),
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { given, expected } => {
                write!(f, "there are {given} holdings; expected {expected}, one for each user and kind")
            }
            Self::Holding { user, kind, gpus } => {
                write!(f, "user {user} holds {gpus} GPUs of kind {kind}; expected 0 or more")
            }
            Self::NoSuchUser { user, users } => {
                write!(f, "there is no user {user}; expected an index below {users}")
            }
            Self::Lie { what } => write!(f, "{what}"),
            Self::NoAnswer(error) => write!(f, "the policy has no answer to the lie: {error}"),
        }
    }
}

impl std::error::Error for AuditError {}

impl From<AllocateError> for AuditError {
    fn from(error: AllocateError) -> Self {
        Self::NoAnswer(error)
    }
}

/// What everybody is owed and can use: w, π, d and m of a problem.
#[derive(Clone, PartialEq, Debug)]
pub struct Claims {
    k: usize,
    w: Vec<f64>,
    pi: Vec<f64>,
    d: Vec<f64>,
    m: Vec<f64>,
    /// Kinds of each user, fastest first.
    fastest: Vec<usize>,
    /// Σπ of all who can use something.
    pi_all: f64,
}

impl Claims {
    /// The claims of a problem's users, as an entitlement weighs them.
    #[must_use]
    pub fn of(problem: &Problem, entitlement: Entitlement) -> Self {
        let (n, k) = (problem.users.len(), problem.kinds());
        let w = problem.speedups();
        let pi = entitlement.weights(problem);
        let d = (0..n).map(|l| problem.most_gpus(l)).collect();
        let mut fastest = Vec::with_capacity(n * k);
        let mut pi_all = 0.0;
        for l in 0..n {
            let row = &w[l * k..(l + 1) * k];
            fastest.extend(0..k);
            fastest[l * k..].sort_by(|&a, &b| row[b].total_cmp(&row[a]));
            pi_all += if row.iter().any(|&w| w > 0.0) { pi[l] } else { 0.0 };
        }
        Self { k, w, pi, d, m: problem.capacity.clone(), fastest, pi_all }
    }

    /// How many users there are.
    #[must_use]
    pub fn users(&self) -> usize {
        self.pi.len()
    }

    /// How many kinds there are.
    #[must_use]
    pub fn kinds(&self) -> usize {
        self.k
    }

    /// w_l: speed-ups of a user, by kind.
    #[must_use]
    pub fn speedups(&self, l: usize) -> &[f64] {
        &self.w[l * self.k..(l + 1) * self.k]
    }

    /// π_l, in no particular unit.
    #[must_use]
    pub fn weight(&self, l: usize) -> f64 {
        self.pi[l]
    }

    /// π_l/Σπ: the part of every kind that an equal division gives to a user; 0 if it can use none.
    #[must_use]
    pub fn part(&self, l: usize) -> f64 {
        if self.speedups(l).iter().any(|&w| w > 0.0) { self.pi[l] / self.pi_all } else { 0.0 }
    }

    /// d_l: the most GPUs that a user can use.
    #[must_use]
    pub fn most_gpus(&self, l: usize) -> f64 {
        self.d[l]
    }

    /// v_l(scale · z): the best that a user can make of a bundle of GPUs by kind.
    #[must_use]
    pub fn value(&self, l: usize, z: &[f64], scale: f64) -> f64 {
        let w = self.speedups(l);
        let (mut value, mut left) = (0.0, self.d[l]);
        for &j in &self.fastest[l * self.k..(l + 1) * self.k] {
            if w[j] <= 0.0 || left <= 0.0 {
                break;
            }
            let used = (z[j] * scale).min(left);
            value += w[j] * used;
            left -= used;
        }
        value
    }

    /// v_l(m π_l/Σπ): what an equal division of every kind would be worth to a user.
    #[must_use]
    pub fn equal_division(&self, l: usize) -> f64 {
        self.value(l, &self.m, self.part(l))
    }
}

/// Two users on shared GPUs.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Shared {
    members: [usize; 2],
    kind: usize,
    gpus: f64,
    /// f of each: rate there over rate alone.
    parts: [f64; 2],
}

/// u of everybody, by the modes that its GPUs are in.
fn utilities(problem: &Problem, grants: &[Grant]) -> Vec<f64> {
    let mut u = vec![0.0; problem.users.len()];
    let slowest: Vec<f64> = (0..u.len()).map(|l| problem.slowest_rate(l)).collect();
    for grant in grants {
        match grant.members {
            Members::One(l) => {
                let (l, gang) = (l as usize, problem.users[l as usize].gang);
                let speedup = problem.gpu_rates(l).nth(grant.kind.index()).unwrap_or(0.0) * f64::from(gang);
                u[l] += grant.gangs * f64::from(gang) * over_positive(speedup, slowest[l]);
            }
            Members::Two(a, b) => {
                let members = [a as usize, b as usize];
                let [first, second] = members.map(|l| problem.users[l].workload);
                let (ra, rb) = problem.together(first, second, grant.kind).unwrap_or_default();
                for (l, rate) in members.into_iter().zip([ra, rb]) {
                    u[l] += grant.gangs * over_positive(rate, slowest[l]);
                }
            }
        }
    }
    u
}

/// A rate over one that may be infinite: of somebody that fits nowhere.
fn over_positive(rate: f64, slowest: f64) -> f64 {
    if slowest.is_finite() && slowest > 0.0 { rate / slowest } else { 0.0 }
}

/// Who holds what, users × kinds as sold. See [`Audit::of`] for shared GPUs.
fn holdings(problem: &Problem, grants: &[Grant]) -> (Vec<f64>, Vec<Shared>) {
    let k = problem.kinds();
    let mut x = vec![0.0; problem.users.len() * k];
    let mut shared = Vec::new();
    for grant in grants {
        let j = grant.kind.index();
        match grant.members {
            Members::One(l) => {
                let l = l as usize;
                x[l * k + problem.sold_as(j)] += grant.gangs * f64::from(problem.users[l].gang);
            }
            Members::Two(a, b) => {
                let members = [a as usize, b as usize];
                let [first, second] = members.map(|l| problem.users[l].workload);
                let (ra, rb) = problem.together(first, second, grant.kind).unwrap_or_default();
                let part = |l: usize, rate: f64| match problem.rates(l)[j] {
                    alone if alone > 0.0 => rate / alone,
                    _ => 0.0,
                };
                let parts = [part(members[0], ra), part(members[1], rb)];
                for (l, f) in members.into_iter().zip(parts) {
                    x[l * k + problem.sold_as(j)] += grant.gangs * f;
                }
                shared.push(Shared { members, kind: problem.sold_as(j), gpus: grant.gangs, parts });
            }
        }
    }
    (x, shared)
}

/// An allocation, or the average over a window, beside what everybody is owed.
#[derive(Clone, PartialEq, Debug)]
pub struct Audit {
    claims: Claims,
    x: Vec<f64>,
    shared: Vec<Shared>,
    u: Vec<f64>,
}

/// The figures of an audit that fit on a line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The strongest envy of one user of another; `None` with fewer than two users.
    pub worst_envy: Option<Envy>,
    /// Who has least compared with an equal division, and its ratio S.
    pub least_sharing: Option<(usize, f64)>,
    /// [`Audit::jain`].
    pub jain: f64,
    /// [`Audit::total_over_equal`].
    pub total_over_equal: f64,
}

/// A ratio where nothing over nothing is indifference.
fn over(value: f64, measure: f64) -> f64 {
    match (value > 0.0, measure > 0.0) {
        (false, false) => 1.0,
        (_, true) => value / measure,
        (true, false) => f64::INFINITY,
    }
}

impl Audit {
    /// Audits a policy's answer to a problem. A member of a pair is counted with the part of the GPU that it gets
    /// out of it: its rate together over its rate alone.
    #[must_use]
    pub fn of(problem: &Problem, entitlement: Entitlement, allocation: &Allocation) -> Self {
        Self::of_claims(Claims::of(problem, entitlement), problem, allocation)
    }

    /// As [`Self::of`], of claims that are known already: those of the same users on the same kinds.
    pub(crate) fn of_claims(claims: Claims, problem: &Problem, allocation: &Allocation) -> Self {
        let (x, shared) = holdings(problem, allocation.grants());
        let mut audit = Self::new(claims, x, shared);
        if !problem.sold_as.is_empty() {
            audit.u = utilities(problem, allocation.grants());
        }
        audit
    }

    /// Audits any holdings: GPUs by user and kind, row by row. More than there are is not refused.
    ///
    /// # Errors
    /// When they do not fit the problem or one is no amount.
    pub fn of_holdings(problem: &Problem, entitlement: Entitlement, x: Vec<f64>) -> Result<Self, AuditError> {
        let k = problem.kinds();
        let expected = problem.users.len() * k;
        if x.len() != expected {
            return Err(AuditError::Shape { given: x.len(), expected });
        }
        match x.iter().position(|gpus| !(gpus.is_finite() && *gpus >= 0.0)) {
            Some(at) => Err(AuditError::Holding { user: at / k, kind: at % k, gpus: x[at] }),
            None if problem.sold_as.is_empty() => Ok(Self::new(Claims::of(problem, entitlement), x, Vec::new())),
            None => {
                let (w, mut folded) = (problem.mode_speedups(), vec![0.0; expected]);
                x.iter().enumerate().for_each(|(at, x)| folded[at / k * k + problem.sold_as(at % k)] += x);
                let mut audit = Self::new(Claims::of(problem, entitlement), folded, Vec::new());
                let rows = w.chunks_exact(k).zip(x.chunks_exact(k));
                audit.u = rows.map(|(w, x)| w.iter().zip(x).map(|(w, x)| w * x).sum()).collect();
                Ok(audit)
            }
        }
    }

    fn new(claims: Claims, x: Vec<f64>, shared: Vec<Shared>) -> Self {
        let dot = |l: usize| claims.speedups(l).iter().zip(&x[l * claims.k..]).map(|(w, x)| w * x).sum();
        let u = (0..claims.users()).map(dot).collect();
        Self { claims, x, shared, u }
    }

    /// What everybody is owed and can use.
    #[must_use]
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// x_l: GPUs that a user holds, by kind.
    #[must_use]
    pub fn held(&self, l: usize) -> &[f64] {
        &self.x[l * self.claims.k..(l + 1) * self.claims.k]
    }

    /// u_l of every user.
    #[must_use]
    pub fn utilities(&self) -> &[f64] {
        &self.u
    }

    /// u_l/π_l of a user.
    #[must_use]
    pub fn per_entitlement(&self, l: usize) -> f64 {
        self.u[l] / self.claims.pi[l]
    }

    /// S_l: utility over that of an equal division; 1 or more for everybody is the sharing incentive.
    #[must_use]
    pub fn sharing(&self, l: usize) -> f64 {
        over(self.u[l], self.claims.equal_division(l))
    }

    /// Who has least compared with an equal division.
    #[must_use]
    pub fn least_sharing(&self) -> Option<(usize, f64)> {
        (0..self.u.len()).map(|l| (l, self.sharing(l))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Jain's index of a_l = u_l/π_l:  (Σ a)² / (n Σ a²); 1 when all are alike, 1/n when one has everything.
    #[must_use]
    pub fn jain(&self) -> f64 {
        let a = || (0..self.u.len()).map(|l| self.per_entitlement(l));
        // Over the largest, so that squares neither overflow nor vanish.
        let most = a().fold(0.0, f64::max);
        if most <= 0.0 {
            return 1.0;
        }
        let (sum, squares) = a().map(|a| a / most).fold((0.0, 0.0), |(sum, squares), a| (sum + a, squares + a * a));
        sum * sum / (self.u.len() as f64 * squares)
    }

    /// Σ u_l over the same sum under an equal division.
    #[must_use]
    pub fn total_over_equal(&self) -> f64 {
        over(self.u.iter().sum(), (0..self.u.len()).map(|l| self.claims.equal_division(l)).sum())
    }

    /// The figures that need no linear program.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            worst_envy: self.worst_envy(),
            least_sharing: self.least_sharing(),
            jain: self.jain(),
            total_over_equal: self.total_over_equal(),
        }
    }
}
