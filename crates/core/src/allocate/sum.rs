//! The largest sum: what `max-throughput` and `min-cost` have in common.
//!
//! One GPU of kind j in the hands of user l is worth v_lj. Single-GPU jobs of two users may share a GPU where that is known to
//! pay; together they are worth v_c, each the part of its own v that it keeps. With x_lj GPUs held alone and y_c GPUs
//! shared by the pair c = {l, l'} on kind j:
//!
//!   maximise  Σ v_lj x_lj + Σ v_c y_c − M Σ_l s_l
//!   s.t.      Σ_l x_lj + Σ_{c on j} y_c ≤ m_j                       capacity
//!             Σ_j x_lj + Σ_{c ∋ l} y_c ≤ d_l                        no more gangs than jobs
//!             Σ_j f_lj x_lj + Σ_{c ∋ l} f_lc y_c + s_l ≥ n_l         floors: f_lj is how many promises one GPU keeps
//!             x, y, s ≥ 0
//!
//! An unkept promise s costs M, a thousand times what the GPUs that would keep it could be worth elsewhere, or more where that is not
//! enough: promises come before everything else, and where not all can be kept as much of them as possible is. The objective says
//! so: a large negative number is a broken promise. Nobody without a floor has a row for it.
//!
//! Pairs that do less together than they would by taking turns, r_l/alone_l + r_l'/alone_l' ≤ 1, are left out: they cannot
//! help. The others are brought in as the prices ask for them (column generation): a pair is worth a column while
//! v_c + z_l f_lc + z_l' f_l'c > π_j + u_l + u_l'. For any π, u, z ≥ 0 with z ≤ M and u large enough for all columns,
//!
//!   Σ m_j π_j + Σ d_l u_l − Σ n_l z_l
//!
//! is above every sum that can be had. That is the certificate, computed from the problem and these prices alone.

use super::program::Served;
use super::{AllocateError, Allocation, Certificate, Grant, Members, Problem, Proposal, kind_id, user_index};
use arles_lp::{Budget, Clarabel, ColumnId, Model, ModelError, Solver, Vertex};

/// Reduced value at which a pair is worth a column, relative to the largest value.
const WORTH_A_COLUMN: f64 = 1e-7;
/// Times that pairs are brought in, at most.
const MOST_PASSES: u32 = 25;
/// Pairs that are brought in at a time, for each user.
const PAIRS_PER_USER: usize = 2;
/// GPUs below this part of what there is are the solver's rounding.
const DUST: f64 = 1e-9;
/// A GPU counts for at most this many times all of a user's promises: more makes the program ill-conditioned.
const MOST_PROMISES: f64 = 1e4;
/// M, over what the GPUs that keep a promise could be worth elsewhere, and M at most: beyond that the solver's rounding of
/// promises would blur the sum.
const PROMISE: f64 = 1e3;
const MOST_PRICE: f64 = 1e5;

/// A relative gap above this is the price of promises that blurs the interior point's answer: then a vertex is looked for, too...
const GAP: f64 = 1e-6;
/// ...for as many users as that takes some milliseconds for.
const MOST_EXACT: usize = 150;

/// Promises that count as kept, in jobs.
const UNKEPT: f64 = 1e-6;
/// Where fewer promises need be broken than are, M is too small for what one GPU does for a promise in the place of another: it is
/// raised by this factor, so many times at most.
const RAISE: f64 = 32.0;
const MOST_RAISES: u32 = 4;

/// The program for one problem.
#[derive(Clone)]
pub(super) struct Sum<'p> {
    problem: &'p Problem,
    served: Served,
    /// v over the largest of them, served users × kinds; 0 where a gang does not fit.
    v: Vec<f64>,
    largest: f64,
    /// f, likewise; empty rows (all 0) without a floor.
    f: Vec<f64>,
    /// n where there is a floor, else 0.
    promises: Vec<f64>,
    /// d.
    most: Vec<f64>,
    /// M, over the largest v.
    price: f64,
}

/// Two users on one GPU.
#[derive(Clone, Copy)]
struct UserPair {
    users: [usize; 2],
    kind: usize,
    value: f64,
    kept: [f64; 2],
}

/// Primal and dual values that the solver found, in the letters above.
struct LpSolution {
    x: Vec<f64>,
    y: Vec<f64>,
    pi: Vec<f64>,
    u: Vec<f64>,
    z: Vec<f64>,
}

/// What one solver makes of the program.
struct Answer {
    grants: Vec<Grant>,
    prices: Vec<f64>,
    bounds: Certificate,
    /// Promises that it breaks.
    unkept: f64,
}

impl<'p> Sum<'p> {
    /// `values` is users × kinds, for all users of the problem: what one GPU is worth.
    pub(super) fn new(problem: &'p Problem, values: &[f64]) -> Self {
        let k = problem.kinds();
        let served = Served::new(problem);
        let mut v: Vec<f64> = served.users.iter().flat_map(|&u| values[u * k..(u + 1) * k].iter().copied()).collect();
        let largest = v.iter().copied().fold(0.0, f64::max);
        v.iter_mut().for_each(|v| *v /= largest);
        let (mut f, mut promises) = (Vec::with_capacity(v.len()), Vec::with_capacity(served.users.len()));
        for &u in &served.users {
            let floor = problem.users[u].floor.filter(|floor| *floor > 0.0);
            let jobs = f64::from(problem.users[u].jobs);
            promises.push(if floor.is_some() { jobs } else { 0.0 });
            let most = MOST_PROMISES * jobs;
            f.extend(problem.gpu_rates(u).map(|r| floor.map_or(0.0, |floor| (r / floor).min(most))));
        }
        let gpus_to_keep_one = f.chunks_exact(k.max(1)).map(|f| f.iter().copied().fold(0.0, f64::max).recip());
        let dearest = gpus_to_keep_one.filter(|gpus| gpus.is_finite()).fold(1.0, f64::max);
        let price = (PROMISE * dearest).min(MOST_PRICE);
        let all: f64 = problem.capacity.iter().sum();
        // Two to a GPU is the most there can be.
        let most = served.caps.iter().map(|d| d.min(2.0 * all)).collect();
        Self { problem, served, v, largest, f, promises, most, price }
    }

    pub(super) fn allocate(mut self) -> Result<Allocation, AllocateError> {
        if self.served.users.is_empty() {
            return Allocation::check(self.problem, Proposal::default());
        }
        let mut pairs = Vec::new();
        let mut answer = self.answer(&mut pairs, &Clarabel)?;
        let small = self.served.users.len() <= MOST_EXACT;
        if small && answer.bounds.gap() > GAP {
            let exact = self.answer(&mut pairs, &Vertex)?;
            let bounds = answer.bounds.tightened(exact.bounds);
            answer = Answer { bounds, ..if exact.bounds.lower >= answer.bounds.lower { exact } else { answer } };
        }
        if small && answer.unkept > UNKEPT {
            let least = self.least_unkept()?;
            for _ in 0..MOST_RAISES {
                if answer.unkept <= least + UNKEPT * least.max(1.0) {
                    break;
                }
                self.price *= RAISE;
                answer = self.answer(&mut pairs, &Vertex)?;
            }
        }
        let Answer { grants, prices, bounds, .. } = answer;
        let (objective, certificate) = (Some(bounds.lower), Some(bounds));
        Allocation::check(self.problem, Proposal { grants, objective, certificate, prices, ..Proposal::default() })
    }

    /// The fewest promises that must be broken: the program without any other aim.
    fn least_unkept(&self) -> Result<f64, AllocateError> {
        let promises = Self { v: vec![0.0; self.v.len()], price: 1.0, ..self.clone() };
        Ok(promises.answer(&mut Vec::new(), &Vertex)?.unkept)
    }

    /// The answer of one solver, with the pairs that it has to be told of.
    fn answer(&self, pairs: &mut Vec<UserPair>, solver: &dyn Solver) -> Result<Answer, AllocateError> {
        let solution = self.solve(pairs, solver)?;
        let (x, y) = self.repaired(pairs, &solution);
        let (value, unkept) = self.value(&x, pairs, &y);
        let lower = self.largest * (value - self.price * unkept);
        let upper = (self.largest * self.bound(&solution)).max(lower);
        let grants = self.grants(&x, pairs, &y);
        Ok(Answer { grants, prices: self.prices(&solution), bounds: Certificate { lower, upper }, unkept })
    }

    /// What one more GPU of each kind is worth. A cap that is only there because of how many GPUs there are grows by two with
    /// each of them.
    fn prices(&self, solution: &LpSolution) -> Vec<f64> {
        let capped = (0..self.most.len()).filter(|&l| self.most[l] < self.served.caps[l]);
        let grown: f64 = capped.map(|l| 2.0 * solution.u[l]).sum();
        solution.pi.iter().map(|pi| (pi + grown) * self.largest).collect()
    }

    /// Solves, bringing in `pairs` until none is missing.
    fn solve(&self, pairs: &mut Vec<UserPair>, solver: &dyn Solver) -> Result<LpSolution, AllocateError> {
        let failed = |error: ModelError| AllocateError::NoAnswer { status: error.to_string() };
        let mut solution = self.solve_once(pairs, solver).map_err(failed)?;
        for _ in 0..MOST_PASSES {
            let mut missing: Vec<(f64, UserPair)> = (self.user_pairs())
                .map(|pair| (self.reduced(&pair, &solution), pair))
                .filter(|(gain, _)| *gain > WORTH_A_COLUMN)
                .collect();
            if missing.is_empty() {
                break;
            }
            missing.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1.users, a.1.kind).cmp(&(b.1.users, b.1.kind))));
            missing.truncate(PAIRS_PER_USER * self.served.users.len());
            pairs.extend(missing.into_iter().map(|(_, pair)| pair));
            solution = self.solve_once(pairs, solver).map_err(failed)?;
        }
        Ok(solution)
    }

    /// Solves over the given pairs.
    fn solve_once(&self, pairs: &[UserPair], solver: &dyn Solver) -> Result<LpSolution, ModelError> {
        let (n, k) = (self.served.users.len(), self.problem.kinds());
        let mut model = Model::maximise();
        let (mut kinds, mut users, mut floors) = (vec![Vec::new(); k], vec![Vec::new(); n], vec![Vec::new(); n]);
        let mut alone: Vec<Option<ColumnId>> = vec![None; n * k];
        for at in (0..n * k).filter(|&at| self.served.w[at] > 0.0) {
            let column = model.add_column(0.0, f64::INFINITY, self.v[at])?;
            alone[at] = Some(column);
            kinds[at % k].push((column, 1.0));
            users[at / k].push((column, 1.0));
            floors[at / k].push((column, self.f[at]));
        }
        let mut shared = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let column = model.add_column(0.0, f64::INFINITY, pair.value)?;
            shared.push(column);
            kinds[pair.kind].push((column, 1.0));
            for (&user, &kept) in pair.users.iter().zip(&pair.kept) {
                users[user].push((column, 1.0));
                floors[user].push((column, kept));
            }
        }
        for (terms, m) in kinds.iter().zip(&self.problem.capacity) {
            model.add_row(f64::NEG_INFINITY, *m, terms)?;
        }
        for (terms, d) in users.iter().zip(&self.most) {
            model.add_row(f64::NEG_INFINITY, *d, terms)?;
        }
        let mut floor_rows = vec![None; n];
        for (l, mut terms) in floors.into_iter().enumerate().filter(|(l, _)| self.promises[*l] > 0.0) {
            terms.push((model.add_column(0.0, f64::INFINITY, -self.price)?, 1.0));
            floor_rows[l] = Some(model.add_row(self.promises[l], f64::INFINITY, &terms)?);
        }
        let outcome = solver.solve(&model, Budget::default());
        let sound = |value: f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
        let at = |column: ColumnId| sound(outcome.x[column.index()]);
        Ok(LpSolution {
            x: alone.iter().map(|column| column.map_or(0.0, at)).collect(),
            y: shared.iter().map(|&column| at(column)).collect(),
            pi: outcome.row_duals[..k].iter().map(|&dual| sound(dual)).collect(),
            u: outcome.row_duals[k..k + n].iter().map(|&dual| sound(dual)).collect(),
            z: floor_rows.iter().map(|row| row.map_or(0.0, |row| sound(-outcome.row_duals[row.index()]))).collect(),
        })
    }

    /// All pairs that may pay, over kinds that are there.
    fn user_pairs(&self) -> impl Iterator<Item = UserPair> + '_ {
        let n = if self.problem.pairs.is_empty() { 0 } else { self.served.users.len() };
        let single = move |&l: &usize| self.problem.users[self.served.users[l]].gang == 1;
        let partners = move |a: usize| (a..n).filter(single).map(move |b| [a, b]);
        let kinds = move |users| (0..self.problem.kinds()).filter_map(move |kind| self.user_pair(users, kind));
        (0..n).filter(single).flat_map(partners).flat_map(kinds)
    }

    fn user_pair(&self, users: [usize; 2], kind: usize) -> Option<UserPair> {
        let [a, b] = users.map(|l| self.served.users[l]);
        let [first, second] = [a, b].map(|u| &self.problem.users[u]);
        if a == b && first.jobs < 2 {
            return None;
        }
        let at = users.map(|l| l * self.problem.kinds() + kind);
        if at.iter().any(|&at| self.served.w[at] <= 0.0) {
            return None;
        }
        let together = self.problem.together(first.workload, second.workload, kind_id(kind))?;
        // Company makes nobody faster.
        let part = |u: usize, rate: f64| (rate / self.problem.rates(u)[kind]).min(1.0);
        let parts = [part(a, together.0), part(b, together.1)];
        if parts[0] + parts[1] <= 1.0 {
            return None;
        }
        let value = self.v[at[0]] * parts[0] + self.v[at[1]] * parts[1];
        Some(UserPair { users, kind, value, kept: [self.f[at[0]] * parts[0], self.f[at[1]] * parts[1]] })
    }

    fn reduced(&self, pair: &UserPair, solution: &LpSolution) -> f64 {
        let each = |i: usize| solution.z[pair.users[i]] * pair.kept[i] - solution.u[pair.users[i]];
        pair.value + each(0) + each(1) - solution.pi[pair.kind]
    }

    /// The solution without the solver's rounding: nothing negligible, nothing oversold; and what is left over given away.
    fn repaired(&self, pairs: &[UserPair], solution: &LpSolution) -> (Vec<f64>, Vec<f64>) {
        let k = self.problem.kinds();
        let all: f64 = self.problem.capacity.iter().sum();
        let clean = |gpus: &f64| if *gpus > DUST * all { *gpus } else { 0.0 };
        let mut x: Vec<f64> = solution.x.iter().map(clean).collect();
        let mut y: Vec<f64> = solution.y.iter().map(clean).collect();
        let mut used: Vec<f64> = (0..k).map(|j| x.iter().skip(j).step_by(k).sum()).collect();
        let mut held: Vec<f64> = x.chunks_exact(k).map(|row| row.iter().sum()).collect();
        for (pair, y) in pairs.iter().zip(&y) {
            used[pair.kind] += y;
            pair.users.iter().for_each(|&l| held[l] += y);
        }
        let fit = |most: f64, have: f64| if have > most { most / have } else { 1.0 };
        let by_kind: Vec<f64> = used.iter().zip(&self.problem.capacity).map(|(have, most)| fit(*most, *have)).collect();
        let by_user: Vec<f64> = held.iter().zip(&self.most).map(|(have, most)| fit(*most, *have)).collect();
        for (at, x) in x.iter_mut().enumerate() {
            *x *= by_kind[at % k].min(by_user[at / k]);
        }
        let (mut busy, mut shared) = (vec![0.0; k], vec![0.0; held.len()]);
        for (pair, y) in pairs.iter().zip(&mut y) {
            *y *= by_kind[pair.kind].min(by_user[pair.users[0]]).min(by_user[pair.users[1]]);
            busy[pair.kind] += *y;
            pair.users.iter().for_each(|&l| shared[l] += *y);
        }
        self.served.top_up_beside(self.problem, &mut x, &busy, &shared);
        (x, y)
    }

    /// The sum, over the largest v, and the promises that are not kept.
    fn value(&self, x: &[f64], pairs: &[UserPair], y: &[f64]) -> (f64, f64) {
        let k = self.problem.kinds();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut kept: Vec<f64> = x.chunks_exact(k).zip(self.f.chunks_exact(k)).map(|(x, f)| dot(x, f)).collect();
        let mut value = dot(x, &self.v);
        for (pair, y) in pairs.iter().zip(y) {
            value += pair.value * y;
            pair.users.iter().zip(pair.kept).for_each(|(&l, part)| kept[l] += part * y);
        }
        (value, self.promises.iter().zip(&kept).map(|(n, kept)| (n - kept).max(0.0)).sum())
    }

    /// No sum is above this, whatever π, u and z are: u is raised until no column is worth more than it costs.
    fn bound(&self, solution: &LpSolution) -> f64 {
        let k = self.problem.kinds();
        let pi = &solution.pi;
        let z: Vec<f64> = solution.z.iter().map(|z| z.min(self.price)).collect();
        let worth = |l: usize, j: usize| self.v[l * k + j] + z[l] * self.f[l * k + j] - pi[j];
        let mut u: Vec<f64> =
            (solution.u.iter().enumerate()).map(|(l, &u)| (0..k).map(|j| worth(l, j)).fold(u, f64::max)).collect();
        for pair in self.user_pairs() {
            let [a, b] = pair.users;
            let gain = pair.value + z[a] * pair.kept[0] + z[b] * pair.kept[1] - pi[pair.kind];
            let lacking = (gain - u[a] - u[b]).max(0.0);
            u[a] += 0.5 * lacking;
            u[b] += 0.5 * lacking;
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        dot(pi, &self.problem.capacity) + dot(&u, &self.most) - dot(&z, &self.promises)
    }

    fn grants(&self, x: &[f64], pairs: &[UserPair], y: &[f64]) -> Vec<Grant> {
        let mut grants = self.served.grants(self.problem, x);
        for (pair, &gangs) in pairs.iter().zip(y).filter(|(_, y)| **y > 0.0) {
            let [first, second] = pair.users.map(|l| user_index(self.served.users[l]));
            let kind = kind_id(pair.kind);
            grants.push(Grant { kind, members: Members::Two(first, second), gangs });
        }
        grants
    }
}
