//! What `arles allocate` prints.

use super::explain::Explanation;
use super::question::Question;
use super::solve::Solved;
use crate::output::{self, Cell, Column, Table};
use crate::quantity::{percent, shown};
use anyhow::Result;
use arles_core::allocate::PolicyEntry;
use arles_core::audit::{Budget, Envy};
use serde::Serialize;
use std::io::Write;

/// The answer; lists stand in the order of the question. A ratio over nothing is null.
#[derive(Serialize)]
pub(super) struct Answer {
    policy: &'static str,
    kinds: Vec<String>,
    users: Vec<String>,
    /// Whose weight each user has a part of.
    tenants: Vec<String>,
    /// Each user's part of all claims.
    entitlements: Vec<f64>,
    /// GPUs that each user holds of each kind, on average over time; of a shared one, the part that is its rate there over its rate alone.
    shares: Vec<Vec<f64>>,
    /// GPUs that two users share, where the policy and the question have pairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shared_gpus: Vec<SharedGpus>,
    /// Σ rate · share, by user.
    utilities: Vec<f64>,
    /// Utility over claim · mean rate of the cluster's GPUs: what max-min-fairness makes as equal as it can.
    normalised_utilities: Vec<f64>,
    /// Utility over what an equal division of every kind, by claims, would give: 1 or more is the sharing incentive.
    equal_division_ratios: Vec<f64>,
    /// What each user (row) would have with the GPUs of another (column), scaled to its claim, over what it has: above 1 is
    /// envy. Of many users, none.
    envy: Option<Vec<Vec<f64>>>,
    /// Each user's strongest envy.
    worst_envies: Vec<Worst>,
    jain_index: f64,
    /// Σ utility in speed-ups over that of an equal division.
    total_over_equal_division: f64,
    /// How much the total could rise with nobody worse off.
    pareto: Gap,
    /// GPUs in use, by kind.
    capacity_used: Vec<f64>,
    /// What one more GPU of each kind is worth to the objective, where the policy says.
    prices: Option<Vec<f64>>,
    /// What the policy maximises, where it maximises something.
    objective: Option<f64>,
    certificate: Option<Bounds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) solve_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) explanations: Option<Vec<Explanation>>,
}

#[derive(Serialize)]
struct SharedGpus {
    users: [String; 2],
    kind: String,
    gpus: f64,
}

/// The objective lies between these.
#[derive(Serialize)]
struct Bounds {
    lower: f64,
    upper: f64,
    gap: f64,
}

/// As parts of the total; the truth lies between the two.
#[derive(Serialize)]
struct Gap {
    gap: f64,
    bound: f64,
}

#[derive(Serialize)]
struct Worst {
    user: String,
    of: String,
    ratio: f64,
}

/// The matrix of envy has an entry for each two users; of more than this, only the worst are given.
const MOST_IN_MATRIX: usize = 1000;
/// And this many fit on a terminal, under these titles.
const TITLES: [&str; 12] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"];
/// Envies that are shown where the matrix is not.
const WORST_SHOWN: usize = 5;
/// An envy this near to 1 is a matter of digits.
pub(super) const INDIFFERENT: f64 = 1e-5;

impl Answer {
    pub(super) fn new(policy: &'static PolicyEntry, question: &Question, solved: &Solved) -> Self {
        let (n, audit) = (question.users.len(), &solved.audit);
        let name = |l: usize| question.users[l].name.clone();
        let all: f64 = question.kinds.iter().map(|kind| f64::from(kind.count)).sum();
        let normalised = |l: usize| {
            let user = &question.users[l];
            let sum: f64 = question.kinds.iter().zip(&user.rates).map(|(kind, r)| f64::from(kind.count) * r).sum();
            solved.utilities[l] / (user.claim() * sum / all)
        };
        let matrix = || (0..n).map(|l| audit.envy_row(l).collect()).collect();
        let worst = |e: Envy| Worst { user: name(e.envier), of: name(e.envied), ratio: e.ratio };
        let pareto = audit.pareto(Budget::default());
        let shared = |&(users, kind, gpus): &([usize; 2], usize, f64)| SharedGpus {
            users: users.map(name),
            kind: question.kinds[kind].name.clone(),
            gpus,
        };
        Self {
            policy: policy.name,
            kinds: question.kinds.iter().map(|kind| kind.name.clone()).collect(),
            users: (0..n).map(name).collect(),
            tenants: question.users.iter().map(|user| user.tenant.clone()).collect(),
            entitlements: (0..n).map(|l| audit.claims().part(l)).collect(),
            utilities: solved.utilities.clone(),
            normalised_utilities: (0..n).map(normalised).collect(),
            equal_division_ratios: (0..n).map(|l| audit.sharing(l)).collect(),
            envy: (n <= MOST_IN_MATRIX).then(matrix),
            worst_envies: audit.envies().into_iter().map(worst).collect(),
            jain_index: audit.jain(),
            total_over_equal_division: audit.total_over_equal(),
            pareto: Gap { gap: pareto.gap(), bound: pareto.most() },
            capacity_used: solved.used.clone(),
            shared_gpus: solved.shared.iter().map(shared).collect(),
            shares: solved.shares.clone(),
            prices: Some(solved.prices.clone()).filter(|prices| !prices.is_empty()),
            objective: solved.objective,
            certificate: solved.certificate.map(|c| Bounds { lower: c.lower, upper: c.upper, gap: c.gap() }),
            solve_seconds: None,
            explanations: None,
        }
    }

    /// A line for each user and kind.
    pub(super) fn table(&self, question: &Question) -> Table {
        let several = question.users.iter().any(|user| user.tenant != user.name);
        let tenant = if several { Column::left("tenant", "tenant") } else { Column::hidden("tenant") };
        let mut columns = vec![
            Column::left("user", "user"),
            tenant,
            Column::right("weight", "weight"),
            Column::left("kind", "kind"),
            Column::right("rate", "rate"),
            Column::right("GPUs", "share"),
            Column::right("utility", "utility"),
            Column::right("normalised\nutility", "normalised_utility"),
            Column::right("of an equal\ndivision, %", "equal_division_ratio"),
        ];
        let hidden =
            ["entitlement", "price", "worst_envy", "worst_envied", "objective", "objective_lower", "objective_upper"];
        columns.extend(hidden.into_iter().map(Column::hidden));
        columns.extend(["pareto_gap", "pareto_bound", "jain_index", "total_over_equal_division"].map(Column::hidden));
        columns.extend(self.solve_seconds.map(|_| Column::hidden("solve_seconds")));
        columns.extend(self.explanations.as_ref().map(|_| Column::hidden("explanation")));
        let mut table = Table::new(columns);
        for (i, user) in question.users.iter().enumerate() {
            for (j, kind) in question.kinds.iter().enumerate() {
                let first = |text: String| if j == 0 { text } else { String::new() };
                let once = |value: f64| Cell::number(first(shown(value, 4)), value);
                let equal = self.equal_division_ratios[i];
                let mut cells = vec![
                    Cell::named(&first(user.name.clone()), &user.name),
                    Cell::named(&first(user.tenant.clone()), &user.tenant),
                    Cell::number(first(user.weight.to_string()), user.weight),
                    kind.name.as_str().into(),
                    user.rates[j].into(),
                    Cell::number(shown(self.shares[i][j], 4), self.shares[i][j]),
                    once(self.utilities[i]),
                    once(self.normalised_utilities[i]),
                    Cell::number(first(percent(equal)), equal),
                ];
                cells.extend(self.hidden(i, j));
                table.row(cells);
            }
        }
        table
    }

    /// What programs get besides.
    fn hidden(&self, i: usize, j: usize) -> Vec<Cell> {
        let number = |value: Option<f64>| Cell::number(String::new(), value.unwrap_or(f64::NAN));
        let worst = self.worst_envies.get(i);
        let bounds = self.certificate.as_ref();
        let mut cells = vec![
            number(Some(self.entitlements[i])),
            number(self.prices.as_ref().map(|prices| prices[j])),
            number(worst.map(|worst| worst.ratio)),
            worst.map_or("", |worst| worst.of.as_str()).into(),
            number(self.objective),
            number(bounds.map(|b| b.lower)),
            number(bounds.map(|b| b.upper)),
            number(Some(self.pareto.gap)),
            number(Some(self.pareto.bound)),
            number(Some(self.jain_index)),
            number(Some(self.total_over_equal_division)),
        ];
        cells.extend(self.solve_seconds.map(|seconds| number(Some(seconds))));
        if let Some(explanations) = &self.explanations {
            let of_user = explanations.iter().find(|explanation| explanation.user == self.users[i]);
            cells.push(of_user.map_or("", |explanation| explanation.why.as_str()).into());
        }
        cells
    }

    /// What people read below the table.
    pub(super) fn remarks(&self, out: &mut dyn Write, question: &Question, solved: &Solved) -> Result<()> {
        let width = output::terminal_width();
        writeln!(out, "\n{}", self.kinds_table(question).text(width))?;
        // With names if there is room; else by the users' numbers.
        let fitting = |names: bool| {
            let text = self.envy_table(names)?.text(width);
            text.lines().all(|line| line.chars().count() <= width).then_some(text)
        };
        match fitting(true).or_else(|| fitting(false)) {
            Some(text) => {
                writeln!(out, "Envy: what the user of a row would have with the GPUs of a column's,")?;
                writeln!(out, "scaled to its weight, over what it has. Above 1 it would rather have those.\n\n{text}")?;
            }
            None => self.worst_pairs(out)?,
        }
        let mut say = |line: String| -> Result<()> {
            for (i, part) in output::wrapped(&line, width.min(100)).into_iter().enumerate() {
                writeln!(out, "{}{part}", if i == 0 { "" } else { "  " })?;
            }
            Ok(())
        };
        for line in self.lines(solved) {
            say(line)?;
        }
        for explanation in self.explanations.iter().flatten() {
            output::paragraph(out, &explanation.why)?;
        }
        Ok(())
    }

    fn kinds_table(&self, question: &Question) -> Table {
        let mut columns =
            vec![Column::left("kind", "kind"), Column::right("GPUs", "count"), Column::right("in use", "used")];
        columns.extend(self.prices.as_ref().map(|_| Column::right("price", "price")));
        let mut table = Table::new(columns);
        for (j, kind) in question.kinds.iter().enumerate() {
            let mut cells: Vec<Cell> =
                vec![kind.name.as_str().into(), kind.count.into(), shown(self.capacity_used[j], 4).into()];
            cells.extend(self.prices.as_ref().map(|prices| Cell::from(shown(prices[j], 4))));
            table.row(cells);
        }
        table
    }

    fn envy_table(&self, names: bool) -> Option<Table> {
        let n = self.users.len();
        let matrix = self.envy.as_ref().filter(|_| (2..=TITLES.len()).contains(&n))?;
        let user = if names { Column::left("", "user") } else { Column::hidden("user") };
        let columns = [Column::right("", "number"), user];
        let mut table = Table::new(
            columns.into_iter().chain(TITLES[..n].iter().map(|title| Column::right(title, title))).collect(),
        );
        for (l, row) in matrix.iter().enumerate() {
            let cell = |(i, ratio): (usize, &f64)| Cell::from(if i == l { "·".into() } else { envy(*ratio) });
            let head = [Cell::from(TITLES[l]), Cell::from(&self.users[l])];
            table.row(head.into_iter().chain(row.iter().enumerate().map(cell)).collect());
        }
        Some(table)
    }

    fn worst_pairs(&self, out: &mut dyn Write) -> Result<()> {
        if self.worst_envies.is_empty() {
            return Ok(());
        }
        let mut worst: Vec<&Worst> = self.worst_envies.iter().collect();
        worst.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
        writeln!(out, "The strongest envies: what a user would have with another's GPUs,")?;
        writeln!(out, "scaled to its weight, over what it has. Above 1 it would rather have those.\n")?;
        let columns = [Column::left("user", "user"), Column::left("of", "of"), Column::right("envy", "envy")];
        let mut table = Table::new(columns.to_vec());
        for Worst { user, of, ratio } in worst.into_iter().take(WORST_SHOWN) {
            table.row(vec![user.into(), of.into(), envy(*ratio).into()]);
        }
        Ok(writeln!(out, "{}", table.text(output::terminal_width()))?)
    }

    /// The figures of the whole, one to a line.
    fn lines(&self, solved: &Solved) -> Vec<String> {
        let mut lines = Vec::new();
        let envious = self.worst_envies.iter().filter(|worst| worst.ratio > 1.0 + INDIFFERENT).count();
        let below = self.equal_division_ratios.iter().filter(|ratio| **ratio < 1.0 - INDIFFERENT).count();
        let n = self.users.len();
        let count = |few: usize| if few == 0 { "nobody".to_owned() } else { format!("{few} of {n} users") };
        let is = |few: usize| if few == 1 || few == 0 { count(few) + " is" } else { count(few) + " are" };
        let least = self.equal_division_ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let strongest = self.worst_envies.iter().map(|worst| worst.ratio).fold(0.0, f64::max);
        if n > 1 {
            lines.push(format!(
                "envy: {} would rather have another's GPUs (worst {})",
                count(envious),
                envy(strongest)
            ));
        }
        lines.push(format!("sharing incentive: {} below an equal division (least {} %)", is(below), percent(least)));
        lines.push(format!(
            "Pareto gap: {} % more in all with nobody worse off, at most {} %",
            small(self.pareto.gap * 100.0),
            small(self.pareto.bound * 100.0)
        ));
        let total = shown(self.total_over_equal_division, 4);
        lines.push(format!(
            "total speed-up: {total} of an equal division's; Jain's index {}",
            shown(self.jain_index, 4)
        ));
        if let Some(objective) = self.objective {
            let mut line = format!("objective {}", shown(objective, 6));
            if let Some(Bounds { lower, upper, gap }) = &self.certificate {
                let (lower, upper) = (shown(*lower, 6), shown(*upper, 6));
                line += &format!(", proved to lie between {lower} and {upper} (gap {gap:.1e})");
            }
            if solved.objective_parts > 1.0 {
                line += &format!(", with GPUs counted in parts of 1/{}", solved.objective_parts);
            }
            lines.push(line);
        }
        for SharedGpus { users: [a, b], kind, gpus } in &self.shared_gpus {
            lines.push(format!("shared: {a} and {b} on {} {kind}", shown(*gpus, 4)));
        }
        lines.extend(self.solve_seconds.map(|seconds| format!("solved in {} ms", shown(seconds * 1e3, 3))));
        lines
    }
}

/// A part in a hundred, with its power of ten where it would be shown as nothing.
fn small(percent: f64) -> String {
    if percent > 0.0 && percent < 1e-3 { format!("{percent:.0e}") } else { shown(percent, 3) }
}

/// An envy for people.
pub(super) fn envy(ratio: f64) -> String {
    match ratio {
        ratio if ratio.is_infinite() => "∞".into(),
        ratio if ratio >= 99.95 => ">99".into(),
        ratio => format!("{ratio:.2}"),
    }
}
