//! The page of experiments: what is stated beside what was measured, then every experiment with its tables and charts.

use super::page::{card, close, columns, header, open, section};
use super::svg::WIDTH;
use super::text::escape;
use super::{ReportHead, study_charts, tables};
use crate::finding::{ExperimentReport, Finding, Judgement, Plot, Sheet, Value};
use std::fmt::Write;

/// What this page needs beyond the style of all reports.
const STYLE: &str = "\
.lead { max-width: 95ch; margin: 0 0 10px }
.claim { max-width: 95ch; margin: 0 0 10px; padding-left: 10px; border-left: 3px solid var(--axis) }
.sheet { margin: 0 0 16px }
.sheet h3 { padding: 8px 10px 0; margin: 0 }
.columns { margin-bottom: 16px }
.columns .sheet { margin: 0 }
.columns table { font-size: 13px }
.broad { overflow-x: auto; margin-bottom: 16px }
.broad .chart { max-width: 1180px; min-width: 840px }
.wrap td { white-space: normal; min-width: 14ch }
.agrees, .differs, .open { font-weight: 650; white-space: nowrap }
.differs { color: var(--lost) }
.open { color: var(--dim) }
nav { display: flex; flex-wrap: wrap; gap: 6px 16px; margin-top: 18px }
nav a { color: var(--p0) }
";

/// The whole page.
pub(super) fn page(head: &ReportHead, chapters: &[ExperimentReport], policies: &[&str]) -> String {
    let mut out = open(head, STYLE);
    out.push_str(&header(head));
    out.push_str(&cards(chapters));
    out.push_str(&contents(chapters));
    section(&mut out, "Claimed and measured", &all_verdicts(chapters));
    let palette = Palette { policies, guests: guests(chapters) };
    for (i, chapter) in chapters.iter().enumerate() {
        let title = format!("<span id=\"e{i}\">{}{}</span>", escape(chapter.title), escape(&on_testbed(chapter)));
        section(&mut out, &title, &body(chapter, &palette));
    }
    close(&mut out, head);
    out
}

/// ", the built-in model" after an experiment's name, where it has a testbed.
fn on_testbed(chapter: &ExperimentReport) -> String {
    chapter.testbed.as_ref().map_or(String::new(), |testbed| format!(", {testbed}"))
}

/// How many statements hold.
fn cards(chapters: &[ExperimentReport]) -> String {
    let all = || chapters.iter().flat_map(|c| &c.finding.verdicts);
    let count = |judgement| all().filter(|v| v.judgement == judgement).count();
    let cards = [
        ("Claims reproduced", count(Judgement::Agrees), "the measurement agrees with the claim"),
        ("Claims not reproduced", count(Judgement::Differs), "the measurement differs; listed first below"),
        ("Cannot be compared", count(Judgement::Open), "different data, or a system that is not available here"),
        ("Experiments", chapters.len(), "each with the command that repeats it"),
    ];
    let mut out = String::from("<div class=\"cards\">\n");
    for (name, value, rest) in cards {
        let _ = writeln!(
            out,
            "<div class=\"card\"><h3>{name}</h3><p class=\"value\">{value}</p><p class=\"rest\">{rest}</p></div>"
        );
    }
    out + "</div>\n"
}

fn contents(chapters: &[ExperimentReport]) -> String {
    let mut out = String::from("<nav>\n");
    for (i, chapter) in chapters.iter().enumerate() {
        let _ = writeln!(out, "<a href=\"#e{i}\">{}{}</a>", escape(chapter.name), escape(&on_testbed(chapter)));
    }
    out + "</nav>\n"
}

/// Verdicts of all chapters, those that differ first.
fn all_verdicts(chapters: &[ExperimentReport]) -> String {
    let mut rows: Vec<(&ExperimentReport, &crate::finding::Verdict)> =
        chapters.iter().flat_map(|c| c.finding.verdicts.iter().map(move |v| (c, v))).collect();
    rows.sort_by_key(|(_, v)| v.judgement != Judgement::Differs);
    let mut out = String::from(
        "<div class=\"sheet wrap\"><div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Experiment</th>\
         <th scope=\"col\">About</th><th scope=\"col\">Claimed</th><th scope=\"col\">Measured</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n",
    );
    for (chapter, v) in rows {
        let class = match v.judgement {
            Judgement::Agrees => "agrees",
            Judgement::Differs => "differs",
            Judgement::Open => "open",
        };
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}{}</th><td>{}</td><td>{}</td><td>{}</td><td><span class=\"{class}\">{class}</span></td></tr>",
            escape(chapter.name),
            escape(&on_testbed(chapter)),
            escape(&v.about),
            escape(&v.stated),
            escape(&v.measured)
        );
    }
    out + "</tbody></table></div></div>\n"
}

/// Names of the lines that are no policies: each has one colour on the whole page, by where it first appears.
fn guests(chapters: &[ExperimentReport]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for plot in chapters.iter().flat_map(|chapter| &chapter.finding.plots) {
        let Plot::Trends { lines, .. } = plot else { continue };
        for line in lines.iter().filter(|line| !names.contains(&line.name.as_str())).collect::<Vec<_>>() {
            names.push(&line.name);
        }
    }
    names
}

fn body(chapter: &ExperimentReport, palette: &Palette<'_>) -> String {
    let Finding { method, sheets, plots, warnings, .. } = &chapter.finding;
    let mut out =
        format!("<p class=\"claim\">{}</p>\n<p class=\"lead\">{}</p>\n", escape(chapter.claim), escape(method));
    let _ = writeln!(out, "<p class=\"lead\"><code>{}</code></p>", escape(&chapter.command));
    let colour = |name: &str| palette.of(name);
    let (figures, broad): (Vec<_>, Vec<_>) =
        plots.iter().map(|plot| study_charts::figure(plot, &colour)).partition(|figure| figure.size.0 <= WIDTH);
    for figure in &broad {
        out.push_str(&card(figure, 0).replacen("card", "card broad", 1));
    }
    match (&figures[..], &sheets[..]) {
        // A chart beside the numbers it is made of, and the rest below.
        ([figure], [first, rest @ ..]) => {
            let (chart, numbers) = (card(figure, 0), table(first, palette));
            let _ = write!(out, "<div class=\"columns\">\n<div>\n{chart}</div>\n<div>\n{numbers}</div>\n</div>\n");
            rest.iter().for_each(|sheet| out.push_str(&table(sheet, palette)));
        }
        (figures, sheets) => {
            if !figures.is_empty() {
                out.push_str(&columns(figures));
            }
            sheets.iter().for_each(|sheet| out.push_str(&table(sheet, palette)));
        }
    }
    for warn in warnings {
        let _ = writeln!(out, "<p class=\"caution\">{}</p>", escape(warn));
    }
    if !chapter.missing_policies.is_empty() {
        let names = escape(&chapter.missing_policies.join(", "));
        let _ =
            writeln!(out, "<p class=\"caution\">Not included: {names}. This build of arles has no such policy.</p>");
    }
    out
}

/// Which colour a name has on the whole page.
struct Palette<'a> {
    /// All policies there are; each has the colour of its place.
    policies: &'a [&'a str],
    /// Names of lines that are no policies.
    guests: Vec<&'a str>,
}

impl Palette<'_> {
    /// The colour of a line.
    fn of(&self, name: &str) -> usize {
        self.guests.iter().position(|guest| *guest == name).unwrap_or_else(|| self.of_policy(name))
    }

    /// The colour of a policy. What is said after its name does not change it.
    fn of_policy(&self, name: &str) -> usize {
        let name = name.split([',', ' ']).next().unwrap_or(name);
        self.policies.iter().position(|policy| *policy == name).unwrap_or(self.policies.len())
    }
}

fn table(sheet: &Sheet, palette: &Palette<'_>) -> String {
    let numeric = |j: usize| sheet.rows.iter().all(|row| !matches!(row[j], Value::Text(_)));
    let mut out = format!(
        "<div class=\"sheet\"><h3>{}</h3><div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>",
        escape(&sheet.title)
    );
    for (j, column) in sheet.columns.iter().enumerate() {
        let class = if numeric(j) { " class=\"n\"" } else { "" };
        let (head, unit) = column.title.split_once('\n').unwrap_or((column.title, ""));
        let unit = if unit.is_empty() { String::new() } else { format!("<small>{}</small>", escape(unit)) };
        let _ = write!(out, "<th scope=\"col\"{class}>{}{unit}</th>", escape(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &sheet.rows {
        out.push_str("<tr>");
        for (j, value) in row.iter().enumerate() {
            let class = if numeric(j) { " class=\"n\"" } else { "" };
            let sort = value.as_number().map_or(String::new(), |v| format!(" data-v=\"{v}\""));
            let said = value.to_string();
            // Runs of one policy with several estimators have no colour of their own, so only a column of policies has badges.
            let known = sheet.columns[j].title == "policy" && palette.policies.contains(&said.as_str());
            let text = if known { tables::badge(palette.of_policy(&said), &said) } else { escape(&said) };
            let tag = if j == 0 { "th scope=\"row\"" } else { "td" };
            let _ = write!(out, "<{tag}{class}{sort}>{text}</{}>", &tag[..2]);
        }
        out.push_str("</tr>\n");
    }
    let note =
        if sheet.note.is_empty() { String::new() } else { format!("<p class=\"note\">{}</p>", escape(&sheet.note)) };
    let _ = write!(out, "</tbody></table></div>\n{note}</div>\n");
    out
}
