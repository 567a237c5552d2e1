//! The same program for a general solver: the fallback when the structured one stalls, and the reference that it is
//! tested against. Rates are scaled as in [`super::start`], because general solvers prefer rows of similar size.

use super::bound::certify;
use super::start::Scaling;
use super::{MaxMin, Solution};
use crate::{Budget, ColumnId, InputError, Model, ModelError, Outcome, Solver};

/// The program as a [`Model`], and where its pieces are.
#[derive(Clone, Debug)]
pub struct General {
    model: Model,
    shares: Vec<(usize, ColumnId)>,
    scaling: Scaling,
}

impl General {
    /// Writes the problem out: one column per usable (user, resource), one for `t`; rows for users, then for
    /// resources, then for the caps.
    pub fn new(problem: &MaxMin<'_>) -> Result<Self, InputError> {
        problem.check()?;
        let mut scaling = Scaling::default();
        scaling.measure(problem)?;
        let mut general = Self { model: Model::maximise(), shares: Vec::new(), scaling };
        // Checked numbers make legal columns and rows, unless scaling overflows.
        general.write(problem).map_err(InputError::Scale)?;
        Ok(general)
    }

    fn write(&mut self, problem: &MaxMin<'_>) -> Result<(), ModelError> {
        let k = problem.capacity.len();
        let (model, scaling) = (&mut self.model, &self.scaling);
        let t = model.add_column(f64::NEG_INFINITY, f64::INFINITY, 1.0)?;
        let mut users = vec![Vec::new(); scaling.rate.len()];
        let mut resources = vec![Vec::new(); k];
        for (at, &w) in problem.w.iter().enumerate().filter(|&(_, &w)| w > 0.0) {
            let (l, j) = (at / k, at % k);
            if problem.capacity[j] > 0.0 {
                let x = model.add_column(0.0, f64::INFINITY, 0.0)?;
                self.shares.push((at, x));
                users[l].push((x, w / scaling.rate[l]));
                resources[j].push((x, 1.0));
            }
        }
        for (l, terms) in users.iter_mut().enumerate() {
            terms.push((t, -problem.beta[l] * scaling.level / scaling.rate[l]));
            model.add_row(0.0, f64::INFINITY, terms)?;
        }
        for (terms, &m) in resources.iter().zip(problem.capacity) {
            model.add_row(f64::NEG_INFINITY, m, terms)?;
        }
        for (terms, &d) in users.iter_mut().zip(problem.caps) {
            terms.pop();
            terms.iter_mut().for_each(|term| term.1 = 1.0);
            model.add_row(f64::NEG_INFINITY, d, terms)?;
        }
        Ok(())
    }

    /// The program.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Reads a solution of [`Self::model`], and certifies it as if the structured solver had found it.
    #[must_use]
    pub fn read(&self, problem: &MaxMin<'_>, outcome: &Outcome) -> Solution {
        let (n, k) = (problem.beta.len(), problem.capacity.len());
        let mut solution = Solution { x: vec![0.0; n * k], iterations: outcome.iterations, ..Solution::default() };
        for &(at, x) in &self.shares {
            solution.x[at] = outcome.x[x.index()];
        }
        let rates = &self.scaling.rate;
        solution.duals = (0..n).map(|l| outcome.row_duals[l].abs() / rates[l]).collect();
        solution.prices = outcome.row_duals[n..n + k].iter().map(|p| p.abs()).collect();
        certify(problem, &mut solution, &mut Vec::new());
        solution
    }

    /// Solves with any solver.
    pub fn solve(&self, problem: &MaxMin<'_>, solver: &impl Solver, budget: Budget) -> Solution {
        self.read(problem, &solver.solve(&self.model, budget))
    }
}
