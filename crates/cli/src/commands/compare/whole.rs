//! All policies as rows, all metrics as columns: energy, throughput, completion times, and fairness by the audit. Figures are means over the seeds.

use crate::commands::audit::course::Means;
use crate::output::{Cell, Column, Table};
use crate::quantity::{hours, percent, shown};
use arles_core::allocate::PolicyEntry;
use arles_report::record::Summary;
use serde::Serialize;

/// One policy.
#[derive(Serialize)]
pub(super) struct Row {
    policy: &'static str,
    mean_jct_seconds: f64,
    p99_jct_seconds: f64,
    makespan_seconds: f64,
    /// Jobs completed in an hour of the run.
    jobs_per_hour: f64,
    utilisation_ratio: f64,
    energy_kwh: f64,
    kwh_per_job: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    carbon_kg: Option<f64>,
    sla_violation_ratio: f64,
    migrations: f64,
    /// Mean over time of the tenant that has least beside an equal division.
    least_sharing: Option<f64>,
    /// Mean over time of the strongest envy of one tenant for another; missing with one tenant.
    worst_envy: Option<f64>,
    /// Mean of a sample of decisions.
    pareto_gap_ratio: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct Document {
    seeds: Vec<u64>,
    policies: Vec<Row>,
}

/// A line for each policy; runs stand seed by seed, in the order of the policies.
pub(super) fn rows(policies: &[&'static PolicyEntry], runs: &[(Summary, Means)]) -> Vec<Row> {
    let row = |(p, policy): (usize, &&'static PolicyEntry)| {
        let own: Vec<&(Summary, Means)> = runs.iter().skip(p).step_by(policies.len()).collect();
        let mean = |of: &dyn Fn(&Summary) -> f64| own.iter().map(|(s, _)| of(s)).sum::<f64>() / own.len() as f64;
        let known = |of: &dyn Fn(&(Summary, Means)) -> Option<f64>| {
            let values: Vec<f64> = own.iter().filter_map(|run| of(run)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        Row {
            policy: policy.name,
            mean_jct_seconds: mean(&|s| s.mean_jct_seconds),
            p99_jct_seconds: mean(&|s| s.p99_jct_seconds),
            makespan_seconds: mean(&|s| s.makespan_seconds),
            jobs_per_hour: mean(&|s| s.jobs_completed as f64 / (s.makespan_seconds / 3600.0).max(f64::MIN_POSITIVE)),
            utilisation_ratio: mean(&|s| s.utilisation_ratio),
            energy_kwh: mean(&|s| s.energy_kwh),
            kwh_per_job: mean(&|s| s.energy_kwh / (s.jobs_completed as f64).max(1.0)),
            cost: known(&|run| run.0.cost),
            carbon_kg: known(&|run| run.0.carbon_kg),
            sla_violation_ratio: mean(&|s| s.sla_violation_ratio),
            migrations: mean(&|s| s.migrations as f64),
            least_sharing: known(&|run| run.1.least_sharing),
            worst_envy: known(&|run| run.1.worst_envy),
            pareto_gap_ratio: known(&|run| run.1.pareto_gap),
        }
    };
    policies.iter().enumerate().map(row).collect()
}

impl Document {
    pub(super) fn new(seeds: Vec<u64>, policies: Vec<Row>) -> Self {
        Self { seeds, policies }
    }

    /// Whether there is nobody else to be worse off than, or to envy.
    fn one_tenant(&self) -> bool {
        self.policies.iter().all(|row| row.worst_envy.is_none())
    }

    /// In 80 columns; what does not fit is in CSV.
    pub(super) fn table(&self) -> Table {
        let priced = self.policies.iter().any(|row| row.cost.is_some());
        let alone = self.one_tenant();
        let only = |title, name| if priced { Column::right(title, name) } else { Column::hidden(name) };
        let mut table = Table::new(vec![
            Column::left("policy", "policy"),
            Column::right("mean\nJCT h", "mean_jct_seconds"),
            Column::right("p99\nJCT h", "p99_jct_seconds"),
            Column::right("jobs\nan h", "jobs_per_hour"),
            Column::right("energy\nkWh", "energy_kwh"),
            only("cost\n", "cost"),
            only("CO2\nkg", "carbon_kg"),
            Column::right("late\n%", "sla_violation_ratio"),
            Column::hidden("migrations"),
            Column::right(if alone { "share\n" } else { "least\nshare" }, "least_sharing"),
            if alone { Column::hidden("worst_envy") } else { Column::right("worst\nenvy", "worst_envy") },
            Column::right("waste\n%", "pareto_gap_ratio"),
            Column::hidden("makespan_seconds"),
            Column::hidden("utilisation_ratio"),
            Column::hidden("kwh_per_job"),
        ]);
        for row in &self.policies {
            let number = |value: f64| Cell::number(shown(value, 3), value);
            let known = |value: Option<f64>| value.map_or(Cell::named("-", ""), number);
            table.row(vec![
                row.policy.into(),
                Cell::number(hours(row.mean_jct_seconds), row.mean_jct_seconds),
                Cell::number(hours(row.p99_jct_seconds), row.p99_jct_seconds),
                number(row.jobs_per_hour),
                number(row.energy_kwh),
                known(row.cost),
                known(row.carbon_kg),
                Cell::number(percent(row.sla_violation_ratio), row.sla_violation_ratio),
                number(row.migrations),
                known(row.least_sharing),
                known(row.worst_envy),
                row.pareto_gap_ratio.map_or(Cell::named("-", ""), |gap| Cell::number(percent(gap), gap)),
                number(row.makespan_seconds),
                number(row.utilisation_ratio),
                number(row.kwh_per_job),
            ]);
        }
        table
    }

    pub(super) fn legend(&self) -> String {
        let seeds = match self.seeds.len() {
            1 => "One seed".to_owned(),
            n => format!("Means over {n} seeds, the same for every policy"),
        };
        let (shares, judges) = if self.one_tenant() {
            ("Share: utility over that of an equal division.", "The two judge")
        } else {
            (
                "Least share: utility over that of an equal division, of the tenant that has least. Worst envy: of one tenant for another, above 1 if \
                 there is any.",
                "The three judge",
            )
        };
        format!(
            "{seeds}. {shares} Waste: how much more all could have in all with nobody worse off. {judges} what policies granted, over time."
        )
    }
}
