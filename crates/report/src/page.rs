//! The page: head, findings, tables and charts, with style and script inside.

use std::fmt::Write;

use super::svg::Figure;
use super::text::{self, escape};
use super::{ReportHead, tables, theme};
use crate::record::{RunRecord, Summary};

/// Nothing may be loaded, from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
pub(super) fn page(head: &ReportHead, runs: &[RunRecord]) -> String {
    let mut out = open(head, &tab_rules(runs.len()));
    out.push_str(&header(head));
    if runs.is_empty() {
        out.push_str("<p>No run to report.</p>\n");
    } else {
        out.push_str(&findings(runs));
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

/// The page up to its first word; `rules` are added to its style.
pub(super) fn open(head: &ReportHead, rules: &str) -> String {
    let title = escape(&head.title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{}{STYLE}{rules}</style>\n</head>\n<body>\n<main>\n",
        theme::page_sheet(),
    )
}

/// The page from its last word on.
pub(super) fn close(out: &mut String, head: &ReportHead) {
    let _ = write!(out, "<footer>{} · seed {}</footer>\n</main>\n", escape(&head.version), head.seed);
    let _ = write!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
}

pub(super) fn section(out: &mut String, title: &str, body: &str) {
    if !body.is_empty() {
        let _ = write!(out, "<section>\n<h2>{title}</h2>\n{body}</section>\n");
    }
}

pub(super) fn header(head: &ReportHead) -> String {
    let mut out = format!("<header>\n<h1>{}</h1>\n<dl>\n", escape(&head.title));
    for (name, value) in [("Cluster", &head.cluster), ("Trace", &head.trace)] {
        if !value.is_empty() {
            let _ = writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
        }
    }
    if !head.command.is_empty() {
        let _ = writeln!(out, "<div><dt>Reproduce</dt><dd><code>{}</code></dd></div>", escape(&head.command));
    }
    out.push_str("</dl>\n</header>\n");
    out
}

/// A number worth a card: its name, its value in a summary, how it is said, and whether more is better.
type Finding = (&'static str, fn(&Summary) -> f64, fn(f64) -> String, bool);

/// The first things a reader asks.
const FINDINGS: [Finding; 4] = [
    ("Shortest mean completion time", |s| s.mean_jct_seconds, text::duration, false),
    ("Shortest 99th percentile", |s| s.p99_jct_seconds, text::duration, false),
    ("Least energy", |s| s.energy_kwh, text::energy, false),
    ("Highest utilisation", |s| s.utilisation_ratio, text::percent, true),
];

/// The same, where there is nothing to compare with.
const ALONE: [&str; 4] = ["Mean completion time", "99th percentile", "Energy", "Utilisation"];

/// One card per finding: the best policy, its value, and how far the next and the last are.
fn findings(runs: &[RunRecord]) -> String {
    let mut out = String::from("<div class=\"cards\">\n");
    for (i, (name, value, say, more)) in FINDINGS.iter().enumerate() {
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
            "<p class=\"caution\">The policies did not complete the same jobs: \
             completion times and energy are those of different work. Compare them with care.</p>\n"
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

/// Charts in two columns of about equal height. On a narrow page they fall into one, in the order given.
pub(super) fn columns(figures: &[Figure]) -> String {
    let mut sides = [(0.0, String::new()), (0.0, String::new())];
    for (order, figure) in figures.iter().enumerate() {
        let side = usize::from(sides[1].0 < sides[0].0);
        // Heading, reading line and margins take about 120 pixels.
        sides[side].0 += figure.size.1 + 120.0;
        sides[side].1.push_str(&card(figure, order));
    }
    let [(_, left), (_, right)] = sides;
    format!("<div class=\"columns\">\n<div>\n{left}</div>\n<div>\n{right}</div>\n</div>\n")
}

pub(super) fn card(figure: &Figure, order: usize) -> String {
    let (title, reading) = (escape(&figure.title), escape(&figure.reading));
    format!(
        "<figure class=\"card\" style=\"order:{order}\">\n<h3>{title}</h3>\n{}<figcaption>{reading}</figcaption>\n</figure>\n",
        figure.inline()
    )
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
