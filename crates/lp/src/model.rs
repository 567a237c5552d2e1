//! A sparse linear program, built column by column and row by row.
//!
//! ```text
//! minimise or maximise   c·x     subject to   row.lower ≤ A x ≤ row.upper,   column.lower ≤ x ≤ column.upper
//! ```
//!
//! Infinite bounds mean "none"; equal bounds mean equality. A lower bound above its upper bound is a legal model
//! that happens to be infeasible: judging that is the solver's business.

/// Which way the objective is pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sense {
    /// Smaller is better.
    Minimise,
    /// Larger is better.
    Maximise,
}

/// Names a column of one [`Model`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ColumnId(usize);

/// Names a row of one [`Model`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RowId(usize);

impl ColumnId {
    /// Position in [`Model::columns`] and in an outcome's `x` and `reduced_costs`.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

impl RowId {
    /// Position in [`Model::rows`] and in an outcome's `row_duals`.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// One variable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Column {
    /// Least value, or minus infinity.
    pub lower: f64,
    /// Greatest value, or infinity.
    pub upper: f64,
    /// Its coefficient in the objective.
    pub objective: f64,
}

/// One constraint, as seen through [`Model::rows`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row<'a> {
    /// Least value of the row, or minus infinity.
    pub lower: f64,
    /// Greatest value of the row, or infinity.
    pub upper: f64,
    /// The coefficients. A column named twice counts with the sum.
    pub terms: &'a [(ColumnId, f64)],
}

impl Row<'_> {
    /// The row's value at `x`.
    #[must_use]
    pub fn value(&self, x: &[f64]) -> f64 {
        self.terms.iter().map(|&(column, a)| a * x[column.0]).sum()
    }
}

/// Why a column or row was refused.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ModelError {
    /// A coefficient that is not a finite number.
    #[error("coefficient {0} is not finite; give every coefficient a finite number")]
    Coefficient(f64),
    /// A bound that is not a number, a lower bound of +∞ or an upper bound of −∞.
    #[error("bound {0} excludes every value; give a number, or -inf below and inf above for no bound")]
    Bound(f64),
    /// A column that this model does not have.
    #[error("column {} is not in this model; use ids that its add_column returned", .0.0)]
    UnknownColumn(ColumnId),
}

/// A linear program.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    sense: Sense,
    columns: Vec<Column>,
    bounds: Vec<(f64, f64)>,
    /// `terms[ends[i - 1]..ends[i]]` are row `i`'s.
    ends: Vec<usize>,
    terms: Vec<(ColumnId, f64)>,
}

impl Model {
    /// An empty program.
    #[must_use]
    pub fn new(sense: Sense) -> Self {
        Self { sense, columns: Vec::new(), bounds: Vec::new(), ends: Vec::new(), terms: Vec::new() }
    }

    /// An empty program whose objective is to be made large.
    #[must_use]
    pub fn maximise() -> Self {
        Self::new(Sense::Maximise)
    }

    /// An empty program whose objective is to be made small.
    #[must_use]
    pub fn minimise() -> Self {
        Self::new(Sense::Minimise)
    }

    /// Adds a variable.
    pub fn add_column(&mut self, lower: f64, upper: f64, objective: f64) -> Result<ColumnId, ModelError> {
        check_bounds(lower, upper)?;
        check_coefficient(objective)?;
        self.columns.push(Column { lower, upper, objective });
        Ok(ColumnId(self.columns.len() - 1))
    }

    /// Adds a constraint over columns that are already there.
    pub fn add_row(&mut self, lower: f64, upper: f64, terms: &[(ColumnId, f64)]) -> Result<RowId, ModelError> {
        check_bounds(lower, upper)?;
        for &(column, value) in terms {
            check_coefficient(value)?;
            if column.0 >= self.columns.len() {
                return Err(ModelError::UnknownColumn(column));
            }
        }
        self.terms.extend_from_slice(terms);
        self.ends.push(self.terms.len());
        self.bounds.push((lower, upper));
        Ok(RowId(self.bounds.len() - 1))
    }

    /// Which way the objective is pushed.
    #[must_use]
    pub fn sense(&self) -> Sense {
        self.sense
    }

    /// All variables, in the order they were added.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// All constraints, in the order they were added.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.bounds.iter().enumerate().map(|(i, &(lower, upper))| {
            let start = if i == 0 { 0 } else { self.ends[i - 1] };
            Row { lower, upper, terms: &self.terms[start..self.ends[i]] }
        })
    }

    /// The objective at `x`.
    #[must_use]
    pub fn objective(&self, x: &[f64]) -> f64 {
        self.columns.iter().zip(x).map(|(column, x)| column.objective * x).sum()
    }
}

fn check_bounds(lower: f64, upper: f64) -> Result<(), ModelError> {
    if lower.is_nan() || lower == f64::INFINITY {
        return Err(ModelError::Bound(lower));
    }
    if upper.is_nan() || upper == f64::NEG_INFINITY {
        return Err(ModelError::Bound(upper));
    }
    Ok(())
}

fn check_coefficient(value: f64) -> Result<(), ModelError> {
    if value.is_finite() { Ok(()) } else { Err(ModelError::Coefficient(value)) }
}
