//! The page of a simulation: headlines, tables and charts of all its runs.

use std::fmt::Write;

use super::page::{card, close, columns, header, open, section};
use super::svg::Figure;
use super::text::{self, escape};
use super::{ReportHead, tables};
use crate::record::{RunRecord, Summary};

/// The whole page.
pub(super) fn page(head: &ReportHead, runs: &[RunRecord]) -> String {
    let mut out = open(head, &tab_rules(runs.len()));
    out.push_str(&header(head));
    if runs.is_empty() {
        out.push_str("<p>No run to report.</p>\n");
    } else {
        out.push_str(&headlines(runs));
        section(&mut out, "Results", &format!("{}{}", tables::summary(runs), caution(runs)));
        section(&mut out, "Charts", &columns(&super::figures(runs)));
        section(&mut out, "Who held which GPU", &timelines(runs));
        section(&mut out, "Tenants", &per_policy("tenants", runs, tables::tenants));
        section(&mut out, "Kinds", &tables::kinds(runs));
        section(&mut out, "Slowest jobs", &per_policy("slowest", runs, tables::slowest));
    }
    close(&mut out, head);
    out
}

/// A number worth a card: its name, its value in a summary, how it is said, and whether more is better.
type Headline = (&'static str, fn(&Summary) -> f64, fn(f64) -> String, bool);

/// The first things a reader asks.
const HEADLINES: [Headline; 4] = [
    ("Shortest mean completion time", |s| s.mean_jct_seconds, text::duration, false),
    ("Shortest 99th percentile", |s| s.p99_jct_seconds, text::duration, false),
    ("Least energy", |s| s.energy_kwh, text::energy, false),
    ("Highest utilisation", |s| s.utilisation_ratio, text::percent, true),
];

/// The same, where there is nothing to compare with.
const ALONE: [&str; 4] = ["Mean completion time", "99th percentile", "Energy", "Utilisation"];

/// One card per headline: the best policy, its value, and how far the next and the last are.
fn headlines(runs: &[RunRecord]) -> String {
    let mut out = String::from("<div class=\"cards\">\n");
    for (i, (name, value, say, more)) in HEADLINES.iter().enumerate() {
        let mut order: Vec<(usize, f64)> = runs.iter().map(|r| value(&r.summary)).enumerate().collect();
        order.retain(|(_, v)| v.is_finite());
        order.sort_by(|a, b| if *more { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
        let Some((best, top)) = order.first().copied() else { continue };
        let badge = tables::badge(best, &runs[best].summary.policy);
        let rest = match order[1..] {
            [] => String::new(),
            [(next, second)] => format!("then {}: {}", name_of(runs, next), say(second)),
            [(next, second), .., (last, worst)] => {
                format!("then {}: {}; last {}: {}", name_of(runs, next), say(second), name_of(runs, last), say(worst))
            }
        };
        let name = if runs.len() > 1 { *name } else { ALONE[i] };
        let value = say(top);
        let _ = writeln!(
            out,
            "<div class=\"card\"><h3>{name}</h3><p class=\"value\">{value}</p><p>{badge}</p><p class=\"rest\">{rest}</p></div>"
        );
    }
    out.push_str("</div>\n");
    out
}

fn name_of(runs: &[RunRecord], index: usize) -> String {
    escape(&runs[index].summary.policy)
}

/// Says so when policies did not do the same work.
fn caution(runs: &[RunRecord]) -> String {
    let done = || runs.iter().map(|r| r.summary.jobs_completed);
    let jobs = runs.iter().map(|r| r.jobs.len() as u64).max().unwrap_or(0);
    match (done().min(), done().max()) {
        (Some(least), Some(most)) if least < most => {
            "<p class=\"caution\">The policies completed different sets of jobs, \
             so completion times and energy refer to different work. Compare them with care.</p>\n"
                .to_owned()
        }
        (Some(least), _) if least < jobs => {
            format!(
                "<p class=\"caution\">{} of {} jobs did not complete.</p>\n",
                text::count(jobs - least),
                text::count(jobs)
            )
        }
        _ => String::new(),
    }
}

/// The Gantt charts behind tabs.
fn timelines(runs: &[RunRecord]) -> String {
    let pane = |(run, figure): &(usize, Figure)| {
        (tables::badge(*run, &runs[*run].summary.policy), card(figure, 0).replacen("card", "card wide", 1))
    };
    tabs("gantt", &super::gantts(runs).iter().map(pane).collect::<Vec<_>>())
}

fn per_policy(group: &str, runs: &[RunRecord], body: fn(&RunRecord) -> String) -> String {
    let pane = |(i, run): (usize, &RunRecord)| (tables::badge(i, &run.summary.policy), body(run));
    tabs(group, &runs.iter().enumerate().map(pane).collect::<Vec<_>>())
}

/// Panes of which one shows, chosen by radio buttons: arrow keys work, and no script is needed. In print, all show.
fn tabs(group: &str, panes: &[(String, String)]) -> String {
    if let [(_, body)] = panes {
        return body.clone();
    }
    if panes.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"tabs\">\n");
    for (i, (label, _)) in panes.iter().enumerate() {
        let checked = if i == 0 { " checked" } else { "" };
        let _ = writeln!(
            out,
            "<input type=\"radio\" name=\"{group}\" id=\"{group}-{i}\"{checked}><label for=\"{group}-{i}\">{label}</label>"
        );
    }
    out.push_str("<div class=\"panes\">\n");
    for (label, body) in panes {
        let _ = write!(out, "<div><p class=\"of\">{label}</p>\n{body}</div>\n");
    }
    out.push_str("</div>\n</div>\n");
    out
}

/// Which pane shows for which button.
fn tab_rules(number: usize) -> String {
    let rule = |i| format!(".tabs > input:nth-of-type({i}):checked ~ .panes > :nth-child({i})");
    let rules: Vec<String> = (1..=number).map(rule).collect();
    if rules.is_empty() { String::new() } else { format!("{} {{ display: block }}\n", rules.join(",\n")) }
}
