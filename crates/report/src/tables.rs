//! The numbers behind the charts, as tables.
//!
//! A column has one unit, chosen by its largest value and named in its head, so that its cells compare at a glance. The
//! best cells of a column are marked, all of those that read the same; a column where all read the same has no best.

use std::fmt::Write;

use super::text::{self, escape};
use super::{completion_seconds, theme};
use crate::record::{JobRecord, RunRecord, TenantRecord};

/// Tenants listed per policy.
const MOST_TENANTS: usize = 100;
/// Slowest jobs listed per policy.
const MOST_JOBS: usize = 20;
const JOULES_PER_KWH: f64 = 3.6e6;

/// What a column counts.
#[derive(Clone, Copy)]
enum Unit {
    Time,
    Energy,
    Percent,
    /// Percentage points, with their sign.
    Points,
    Count,
    GpuHours,
    Plain,
}

/// Which end of a column is good.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    Less,
    More,
    Neither,
}

struct Column {
    head: &'static str,
    unit: &'static str,
    numeric: bool,
    /// Markup, the value to sort by, and whether it is among the best.
    cells: Vec<(String, Option<f64>, bool)>,
}

impl Column {
    /// Names, already markup.
    fn names(head: &'static str, cells: impl Iterator<Item = String>) -> Column {
        Column { head, unit: "", numeric: false, cells: cells.map(|c| (c, None, false)).collect() }
    }

    /// Numbers, told in the unit that fits the largest.
    fn numbers(head: &'static str, unit: Unit, better: Better, values: impl Iterator<Item = f64>) -> Column {
        let values: Vec<f64> = values.collect();
        let largest = largest(values.iter().copied());
        Column::like(largest, head, unit, better, values.into_iter())
    }

    /// Numbers, told in the unit that fits `size`: columns that are compared share one.
    fn like(size: f64, head: &'static str, unit: Unit, better: Better, values: impl Iterator<Item = f64>) -> Column {
        let values: Vec<f64> = values.collect();
        let (unit, say) = unit.told(size);
        let texts: Vec<String> = values.iter().map(|v| say(*v)).collect();
        let finite = values.iter().enumerate().filter(|(_, v)| v.is_finite());
        let best = match better {
            Better::Less => finite.min_by(|a, b| a.1.total_cmp(b.1)),
            Better::More => finite.max_by(|a, b| a.1.total_cmp(b.1)),
            Better::Neither => None,
        };
        let best = best.map(|(i, _)| texts[i].clone()).filter(|best| texts.iter().any(|t| t != best));
        let cell = |(text, value): (String, f64)| {
            let marked = best.as_ref() == Some(&text);
            (text, Some(value).filter(|v| v.is_finite()), marked)
        };
        let cells = texts.clone().into_iter().zip(values).map(cell).collect();
        Column { head, unit, numeric: true, cells }
    }
}

fn smallest(values: impl Iterator<Item = f64>) -> f64 {
    let least = values.filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.map(f64::abs).filter(|v| v.is_finite()).fold(0.0, f64::max)
}

impl Unit {
    /// The unit's name for a column whose largest value this is, and how to write a value in it.
    fn told(self, largest: f64) -> (&'static str, Box<dyn Fn(f64) -> String>) {
        let scaled = |(name, size): text::Unit| -> (&'static str, Box<dyn Fn(f64) -> String>) {
            (name, Box::new(move |v| text::figures(v / size)))
        };
        match self {
            Unit::Time => scaled(text::time_unit(largest)),
            Unit::Energy => scaled(text::energy_unit(largest)),
            Unit::GpuHours => ("GPU h", Box::new(|v| text::figures(v / 3600.0))),
            Unit::Percent => ("%", Box::new(text::percent_figures)),
            Unit::Points => ("points", Box::new(points)),
            Unit::Count => ("", Box::new(text::thousands)),
            Unit::Plain => ("", Box::new(text::brief)),
        }
    }
}

/// A difference of percentages with its sign.
fn points(difference: f64) -> String {
    let size = text::percent_figures(difference.abs());
    match difference {
        d if !d.is_finite() || size == "0" => size,
        d if d < 0.0 => format!("−{size}"),
        _ => format!("+{size}"),
    }
}

/// A table of columns of equal length, and a note below it.
fn table(note: &str, columns: &[Column]) -> String {
    let mut out = String::from("<div class=\"sheet\"><div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>");
    for column in columns {
        let class = if column.numeric { " class=\"n\"" } else { "" };
        let unit = if column.unit.is_empty() { String::new() } else { format!("<small>{}</small>", column.unit) };
        let _ = write!(out, "<th scope=\"col\"{class}>{}{unit}</th>", column.head);
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in 0..columns.first().map_or(0, |c| c.cells.len()) {
        out.push_str("<tr>");
        for (i, column) in columns.iter().enumerate() {
            let (text, value, best) = &column.cells[row];
            let value = value.map(|v| format!(" data-v=\"{v}\"")).unwrap_or_default();
            let class = match (column.numeric, best) {
                (true, true) => " class=\"n best\"",
                (true, false) => " class=\"n\"",
                _ => "",
            };
            let mark = if *best { "<span class=\"sr\"> (best)</span>" } else { "" };
            let tag = if i == 0 { "th scope=\"row\"" } else { "td" };
            let _ = write!(out, "<{tag}{class}{value}>{text}{mark}</{}>", &tag[..2]);
        }
        out.push_str("</tr>\n");
    }
    // The note stands outside what scrolls, or a narrow window would cut it.
    let _ = write!(out, "</tbody></table></div>\n<p class=\"note\">{note}</p></div>\n");
    out
}

/// A policy's name with its colour.
pub(super) fn badge(index: usize, name: &str) -> String {
    format!("<span class=\"key {}\"></span>{}", theme::policy(index), escape(name))
}

/// One row per policy.
pub(super) fn summary(runs: &[RunRecord]) -> String {
    use Better::{Less, More, Neither};
    let all = || runs.iter().map(|r| &r.summary);
    // The smallest of what is compared decides the unit, so that no column is all zeros and dots.
    let jct = smallest(all().map(|s| s.mean_jct_seconds));
    let kwh = smallest(all().flat_map(|s| [s.energy_active_kwh, s.energy_idle_kwh]));
    let promised = runs.iter().flat_map(|r| &r.jobs).any(|j| j.due_seconds > 0.0);
    let mut columns = vec![
        Column::names("Policy", runs.iter().enumerate().map(|(i, r)| badge(i, &r.summary.policy))),
        Column::numbers("Jobs done", Unit::Count, More, all().map(|s| s.jobs_completed as f64)),
        Column::like(jct, "Mean JCT", Unit::Time, Less, all().map(|s| s.mean_jct_seconds)),
        Column::like(jct, "Median JCT", Unit::Time, Less, all().map(|s| s.p50_jct_seconds)),
        Column::like(jct, "p99 JCT", Unit::Time, Less, all().map(|s| s.p99_jct_seconds)),
        Column::numbers("Makespan", Unit::Time, Less, all().map(|s| s.makespan_seconds)),
        Column::numbers("Utilisation", Unit::Percent, More, all().map(|s| s.utilisation_ratio)),
        Column::like(kwh, "Energy", Unit::Energy, Less, all().map(|s| s.energy_kwh)),
        Column::like(kwh, "Active", Unit::Energy, Less, all().map(|s| s.energy_active_kwh)),
        Column::like(kwh, "Idle", Unit::Energy, Less, all().map(|s| s.energy_idle_kwh)),
        Column::like(kwh, "Lost to restarts", Unit::Energy, Less, all().map(|s| s.energy_restart_kwh)),
        Column::numbers("Migrations", Unit::Count, Less, all().map(|s| s.migrations as f64)),
        Column::numbers("Mixed gangs", Unit::Count, Less, all().map(|s| s.mixed_gangs as f64)),
        Column::numbers("Rounds", Unit::Count, Neither, all().map(|s| s.rounds as f64)),
    ];
    if promised {
        let broken = Column::numbers("Below promise", Unit::Percent, Less, all().map(|s| s.sla_violation_ratio));
        columns.insert(7, broken);
    }
    let note = "JCT: time from submission to completion, over completed jobs. Active energy includes restarts. Shaded: best \
        value of the column.";
    table(note, &columns)
}

/// One row per tenant of a run.
pub(super) fn tenants(run: &RunRecord) -> String {
    let deviation = |t: &TenantRecord| t.share_ratio - t.entitlement_ratio;
    let mut listed: Vec<&TenantRecord> = run.summary.tenants.iter().collect();
    let all = listed.len();
    let mut note = "Deviation: share minus entitlement.".to_owned();
    if all > MOST_TENANTS {
        listed.sort_by(|a, b| deviation(b).abs().total_cmp(&deviation(a).abs()).then(a.name.cmp(&b.name)));
        listed.truncate(MOST_TENANTS);
        note = format!(
            "{note} Shown are the {MOST_TENANTS} of {} tenants furthest from their entitlement.",
            text::count(all as u64)
        );
    }
    let all = || listed.iter();
    let columns = [
        Column::names("Tenant", all().map(|t| escape(&t.name))),
        Column::numbers("Weight", Unit::Plain, Better::Neither, all().map(|t| t.weight)),
        Column::numbers("Entitlement", Unit::Percent, Better::Neither, all().map(|t| t.entitlement_ratio)),
        Column::numbers("Share", Unit::Percent, Better::Neither, all().map(|t| t.share_ratio)),
        Column::numbers("Deviation", Unit::Points, Better::Neither, all().map(|t| deviation(t))),
        Column::numbers("GPU time", Unit::GpuHours, Better::Neither, all().map(|t| t.gpu_seconds)),
        Column::numbers("Jobs done", Unit::Count, Better::Neither, all().map(|t| t.jobs_completed as f64)),
        Column::numbers("Mean JCT", Unit::Time, Better::Neither, all().map(|t| t.mean_jct_seconds)),
        Column::numbers("Energy", Unit::Energy, Better::Neither, all().map(|t| t.energy_kwh)),
    ];
    table(&note, &columns)
}

/// One row per policy and kind.
pub(super) fn kinds(runs: &[RunRecord]) -> String {
    let all = || runs.iter().enumerate().flat_map(|(i, run)| run.kinds.iter().map(move |kind| (i, run, kind)));
    let columns = [
        Column::names("Policy", all().map(|(i, run, _)| badge(i, &run.summary.policy))),
        Column::names("Kind", all().map(|(.., kind)| escape(&kind.name))),
        Column::numbers("GPUs", Unit::Count, Better::Neither, all().map(|(.., k)| f64::from(k.gpus))),
        Column::numbers("Utilisation", Unit::Percent, Better::Neither, all().map(|(.., k)| k.utilisation_ratio)),
        Column::numbers("Active", Unit::Energy, Better::Neither, all().map(|(.., k)| k.active_kwh)),
        Column::numbers("Idle", Unit::Energy, Better::Neither, all().map(|(.., k)| k.idle_kwh)),
    ];
    table("Utilisation: GPU time with a job over GPU time available.", &columns)
}

/// The jobs of a run that took longest from submission to completion.
pub(super) fn slowest(run: &RunRecord) -> String {
    let mut done: Vec<(f64, &JobRecord)> =
        run.jobs.iter().filter_map(|j| completion_seconds(j).map(|seconds| (seconds, j))).collect();
    let unfinished = run.jobs.len() - done.len();
    done.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.id.cmp(&b.1.id)));
    done.truncate(MOST_JOBS);
    let tenant = |j: &JobRecord| run.summary.tenants.get(j.tenant as usize).map_or(text::NONE, |t| t.name.as_str());
    let workload = |j: &JobRecord| run.workloads.get(j.workload as usize).map_or(text::NONE, String::as_str);
    let note = match unfinished {
        0 => "All jobs completed.".to_owned(),
        n => format!("{} of {} jobs did not complete.", text::count(n as u64), text::count(run.jobs.len() as u64)),
    };
    let wait = |j: &JobRecord| j.start_seconds.map_or(f64::NAN, |start| start - j.arrival_seconds);
    let kwh = |j: &JobRecord| (j.active_joules + j.idle_joules + j.restart_joules) / JOULES_PER_KWH;
    let all = || done.iter().map(|(_, job)| *job);
    let columns = [
        Column::names("Job", all().map(|j| j.id.to_string())),
        Column::names("Tenant", all().map(|j| escape(tenant(j)))),
        Column::names("Workload", all().map(|j| escape(workload(j)))),
        Column::numbers("Gang", Unit::Count, Better::Neither, all().map(|j| f64::from(j.gang))),
        Column::numbers("Submitted", Unit::Time, Better::Neither, all().map(|j| j.arrival_seconds)),
        Column::numbers("JCT", Unit::Time, Better::Neither, done.iter().map(|d| d.0)),
        Column::numbers("Wait", Unit::Time, Better::Neither, all().map(wait)),
        Column::numbers("Restarts", Unit::Count, Better::Neither, all().map(|j| f64::from(j.restarts))),
        Column::numbers("GPU time", Unit::GpuHours, Better::Neither, all().map(|j| j.gpu_seconds)),
        Column::numbers("Energy", Unit::Energy, Better::Neither, all().map(kwh)),
    ];
    table(&format!("JCT: submission to end. Wait: submission to first start. {note}"), &columns)
}
