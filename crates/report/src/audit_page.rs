//! The page of an audit: the verdict in words, then who envies whom, then the figures of every party.

use super::page::{card, close, header, open, section};
use super::study_charts;
use super::text::escape;
use super::{ReportHead, envy_map};
use crate::audit::{AuditRecord, PartyRecord};
use crate::finding::{Plot, Style};
use std::fmt::Write;

/// What this page needs beyond the style of all reports.
const STYLE: &str = "\
.verdict { max-width: 95ch; font-size: 17px; margin: 0 0 14px }
.broad { overflow-x: auto; margin-bottom: 16px }
.broad .card { width: fit-content; max-width: 100% }
.broad .chart { min-width: 420px }
.wrap td { white-space: normal; min-width: 12ch }
.kept, .broken, .open { font-weight: 650; white-space: nowrap }
.broken { color: var(--lost) }
.open { color: var(--dim) }
";

/// Parties whose figures are listed.
const MOST_LISTED: usize = 500;
/// Bars of a chart.
const MOST_BARS: usize = 40;

/// The whole page.
pub(super) fn page(head: &ReportHead, audit: &AuditRecord) -> String {
    let mut out = open(head, STYLE);
    out.push_str(&header(head));
    let mut body = format!("<p class=\"verdict\">{}</p>\n", escape(&audit.verdict));
    body.push_str(&verdicts(audit));
    section(&mut out, "Verdict", &body);
    if let Some(figure) = envy_map::figure(audit) {
        section(&mut out, "Envy", &format!("<div class=\"broad\">\n{}</div>\n", card(&figure, 0)));
    }
    if let Some(figure) = sharing(audit) {
        section(&mut out, "Sharing incentive", &format!("<div class=\"broad\">\n{}</div>\n", card(&figure, 0)));
    }
    section(&mut out, "Everybody", &parties(audit));
    close(&mut out, head);
    out
}

/// Utility over that of an equal division, everybody's.
fn sharing(audit: &AuditRecord) -> Option<super::svg::Figure> {
    let bar = |party: &PartyRecord| Some((party.name.clone(), party.sharing_ratio?, None));
    let mut bars: Vec<_> = audit.parties.iter().filter_map(bar).collect();
    if bars.is_empty() {
        return None;
    }
    bars.sort_by(|a, b| a.1.total_cmp(&b.1));
    bars.truncate(MOST_BARS);
    let plot = Plot::Bars {
        name: "sharing",
        title: "Beside an equal division".to_owned(),
        caption: "Utility over what an equal part of every kind would give. Bars to the left are worse off than with their own part of the cluster.".to_owned(),
        unit: "utility over that of an equal division",
        style: Style::Plain(2),
        base: 1.0,
        bars,
    };
    Some(study_charts::figure(&plot, &|_| 0))
}

fn verdicts(audit: &AuditRecord) -> String {
    let mut out = String::from("<div class=\"wrap scroll\" tabindex=\"0\"><table>\n<tbody>\n");
    for verdict in &audit.verdicts {
        let (class, word) = match verdict.holds {
            Some(true) => ("kept", "holds"),
            Some(false) => ("broken", "FAILS"),
            None => ("open", "not looked at"),
        };
        let (property, words) = (escape(verdict.property), escape(&verdict.words));
        let _ = writeln!(out, "<tr><td>{property}</td><td class=\"{class}\">{word}</td><td>{words}</td></tr>");
    }
    out + "</tbody>\n</table></div>\n"
}

fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => format!("{value:.3}"),
        Some(value) if value > 0.0 => "∞".to_owned(),
        _ => "–".to_owned(),
    }
}

/// A row for every party; columns that nobody has are left out.
fn parties(audit: &AuditRecord) -> String {
    type Field = (&'static str, fn(&PartyRecord) -> Option<f64>);
    let fields: [Field; 6] = [
        ("sharing ratio", |party| party.sharing_ratio),
        ("worst envy", |party| party.worst_envy),
        ("finish time", |party| party.finish_time_ratio),
        ("worst job's", |party| party.worst_finish_time_ratio),
        ("beside the policy", |party| party.beside_policy_ratio),
        ("best lie", |party| party.best_lie.as_ref().map(|lie| lie.gain)),
    ];
    let known: Vec<&Field> =
        fields.iter().filter(|(_, of)| audit.parties.iter().any(|party| of(party).is_some())).collect();
    let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Name</th>");
    out.push_str("<th scope=\"col\">claim</th>");
    for kind in &audit.kinds {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(kind));
    }
    known.iter().for_each(|(title, _)| {
        let _ = write!(out, "<th scope=\"col\">{title}</th>");
    });
    out.push_str("</tr></thead>\n<tbody>\n");
    for party in audit.parties.iter().take(MOST_LISTED) {
        let _ = write!(out, "<tr><td>{}</td><td>{:.1} %</td>", escape(&party.name), party.entitlement_ratio * 100.0);
        party.gpus.iter().for_each(|gpus| {
            let _ = write!(out, "<td>{gpus:.2}</td>");
        });
        known.iter().for_each(|(_, of)| {
            let _ = write!(out, "<td>{}</td>", number(of(party)));
        });
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    if audit.parties.len() > MOST_LISTED {
        let _ = writeln!(out, "<p>{} more are not listed.</p>", audit.parties.len() - MOST_LISTED);
    }
    out
}
