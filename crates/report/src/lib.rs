//! The report of a simulation: one HTML file that needs nothing else, charts as SVG, and every job as CSV.
//!
//! The page loads nothing: no script, font, style or picture from anywhere, and it says so to the browser by a content
//! security policy. It is readable without its script, which only adds exact values under the pointer and sorting. Its
//! bytes depend on the runs alone, so the wall-clock time of a simulation is left out. Long runs are thinned (see
//! `downsample`) and tables are cut, each saying so, so that the page stays below two megabytes.
//!
//! A report never computes a result: what [`Summary`](crate::record::Summary) holds is printed, not derived anew.

pub mod audit;
mod audit_page;
mod axis;
mod csv;
mod downsample;
mod envy_map;
pub mod finding;
pub mod frontier;
mod frontier_page;
mod gantt;
mod heat_map;
mod mean_interval;
mod page;
pub mod record;
mod run_bar_charts;
mod run_line_charts;
mod run_page;
mod stacked_bar_chart;
mod study_charts;
mod study_page;
mod svg;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod theme;
mod trend_chart;

use std::collections::BTreeMap;

use crate::audit::AuditRecord;
use crate::finding::ExperimentReport;
use crate::frontier::FrontierRecord;
use crate::record::{JobRecord, RunRecord};
pub use mean_interval::MeanInterval;

/// Blocks that all Gantt charts of a page may draw together; they are the bulk of its bytes.
const GANTT_BLOCKS: usize = 6000;

/// What stands above a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportHead {
    /// Heading.
    pub title: String,
    /// The cluster in a few words: "8 × v100, 8 × p100, 8 × k80 on 6 nodes".
    pub cluster: String,
    /// The trace in a few words.
    pub trace: String,
    /// The command line that makes this report again.
    pub command: String,
    /// Seed of the run.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
}

/// A chart that stands alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chart {
    /// File name without ending: lower-case letters, digits and hyphens; no two charts of a report have the same.
    pub name: String,
    /// A complete SVG document.
    pub svg: String,
}

/// The whole report as one HTML page.
pub fn html(head: &ReportHead, runs: &[RunRecord]) -> String {
    run_page::page(head, runs)
}

/// The findings of experiments as one HTML page.
pub fn study_html(head: &ReportHead, chapters: &[ExperimentReport], policies: &[&str]) -> String {
    study_page::page(head, chapters, policies)
}

/// An audit as one HTML page.
pub fn audit_html(head: &ReportHead, audit: &AuditRecord) -> String {
    audit_page::page(head, audit)
}

/// Who envies whom, as a file of its own; nothing where there is no matrix.
pub fn envy_svg(audit: &AuditRecord) -> Option<String> {
    envy_map::figure(audit).map(|figure| figure.standalone())
}

/// A frontier as one HTML page.
pub fn frontier_html(head: &ReportHead, frontier: &FrontierRecord) -> String {
    frontier_page::page(head, frontier)
}

/// A frontier's curve as a file of its own.
pub fn frontier_svg(frontier: &FrontierRecord) -> String {
    frontier_page::figure(frontier).standalone()
}

/// Every chart of the report as a file of its own.
pub fn charts(runs: &[RunRecord]) -> Vec<Chart> {
    let all = figures(runs).into_iter().chain(gantts(runs).into_iter().map(|(_, figure)| figure));
    all.map(|figure| Chart { svg: figure.standalone(), name: figure.name }).collect()
}

/// Every job of a run as RFC 4180 CSV, a header first.
pub fn jobs_csv(run: &RunRecord) -> String {
    csv::jobs(run)
}

/// The charts that compare all runs, the most telling first.
fn figures(runs: &[RunRecord]) -> Vec<svg::Figure> {
    if runs.is_empty() {
        return Vec::new();
    }
    let optional = [
        run_line_charts::queue(runs),
        run_line_charts::utilisation(runs),
        run_bar_charts::energy(runs),
        run_bar_charts::shares(runs),
        run_line_charts::power(runs),
        run_bar_charts::promises(runs),
    ];
    let optional = optional.into_iter().chain(run_line_charts::errors(runs));
    std::iter::once(run_line_charts::completion(runs)).chain(optional.flatten()).collect()
}

/// The Gantt charts of the runs that recorded one, each with its run's index.
fn gantts(runs: &[RunRecord]) -> Vec<(usize, svg::Figure)> {
    let tenant_totals = tenant_totals(runs);
    let stage = gantt::GanttScale {
        horizon: run_line_charts::horizon(runs),
        tenants: tenant_totals.iter().map(|o| (o.name.as_str(), o)).collect(),
        blocks: GANTT_BLOCKS / runs.len().max(1),
    };
    let mut charts: Vec<(usize, svg::Figure)> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let mut name = format!("gantt-{}", text::slug(&run.summary.policy)).trim_end_matches('-').to_owned();
        // Two policies may differ in nothing that a file name can hold.
        if charts.iter().any(|(_, other)| other.name == name) {
            name = format!("{name}-run-{}", i + 1);
        }
        charts.extend(gantt::gantt(run, &name, &stage).map(|figure| (i, figure)));
    }
    charts
}

/// End minus arrival of a completed job.
fn completion_seconds(job: &JobRecord) -> Option<f64> {
    let seconds = job.end_seconds.filter(|_| job.completed)? - job.arrival_seconds;
    Some(seconds).filter(|s| s.is_finite())
}

/// A tenant over all runs.
struct TenantTotals {
    name: String,
    /// Place by GPU time over all runs; decides its colour.
    rank: usize,
    entitlement: f64,
    /// Its share in each run, where it took part.
    shares: Vec<Option<f64>>,
    gpu_seconds: f64,
}

impl TenantTotals {
    /// The furthest it is from its entitlement in any run.
    fn deviation(&self) -> f64 {
        self.shares.iter().flatten().map(|s| (s - self.entitlement).abs()).filter(|d| d.is_finite()).fold(0.0, f64::max)
    }

    /// How much more than its entitlement it got, over all runs.
    fn excess(&self) -> f64 {
        self.shares.iter().flatten().map(|s| s - self.entitlement).filter(|d| d.is_finite()).sum()
    }
}

/// Tenants of all runs, in order of appearance. Runs are matched by name: indices need not agree.
fn tenant_totals(runs: &[RunRecord]) -> Vec<TenantTotals> {
    let mut tenant_totals: Vec<TenantTotals> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, run) in runs.iter().enumerate() {
        for tenant in &run.summary.tenants {
            let place = *index.entry(&tenant.name).or_insert(tenant_totals.len());
            if place == tenant_totals.len() {
                let (name, entitlement) = (tenant.name.clone(), tenant.entitlement_ratio);
                tenant_totals.push(TenantTotals {
                    name,
                    rank: 0,
                    entitlement,
                    shares: vec![None; runs.len()],
                    gpu_seconds: 0.0,
                });
            }
            tenant_totals[place].shares[i] = Some(tenant.share_ratio);
            tenant_totals[place].gpu_seconds += if tenant.gpu_seconds.is_finite() { tenant.gpu_seconds } else { 0.0 };
        }
    }
    let mut order: Vec<usize> = (0..tenant_totals.len()).collect();
    order.sort_by(|a, b| tenant_totals[*b].gpu_seconds.total_cmp(&tenant_totals[*a].gpu_seconds).then(a.cmp(b)));
    for (rank, totals) in order.into_iter().enumerate() {
        tenant_totals[totals].rank = rank;
    }
    tenant_totals
}
