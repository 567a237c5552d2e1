//! Findings as Markdown: every table with the command that makes it.

use super::Paper;
use arles_report::finding::{ExperimentReport, Judgement, Sheet, Value};
use std::fmt::Write;

/// The whole page.
pub(super) fn page(paper: &Paper, command: &str, chapters: &[ExperimentReport]) -> String {
    let (title, origin) = (paper.title, paper.origin);
    let timed: Vec<String> =
        (paper.experiments)().into_iter().filter(|(_, timed)| *timed).map(|(name, _)| format!("*{name}*")).collect();
    let mut out = format!(
        "# {title}, reproduced\n\nWritten by `{}`: what is stated about {title} ({origin}) beside what arles measures. \
         Intervals are Student's at 95 % over the seeds. Except for {}, the same command writes the same bytes.\n",
        escaped_code(command),
        timed.join(", ")
    );
    out.push_str(&overview(chapters));
    for chapter in chapters {
        out.push_str(&section(chapter));
    }
    out
}

/// Every verdict, so that a difference cannot be overlooked.
fn overview(chapters: &[ExperimentReport]) -> String {
    let all = || chapters.iter().flat_map(|c| c.finding.verdicts.iter().map(move |v| (c, v)));
    let count = |judgement| all().filter(|(_, v)| v.judgement == judgement).count();
    let (agree, differ, open) = (count(Judgement::Agrees), count(Judgement::Differs), count(Judgement::Open));
    let mut out =
        format!("\n## In short\n\n{agree} statements agree, {differ} differ, {open} cannot be compared directly.\n\n");
    if differ > 0 {
        out.push_str("| where they differ | stated | measured |\n| --- | --- | --- |\n");
        for (chapter, v) in all().filter(|(_, v)| v.judgement == Judgement::Differs) {
            let place = chapter.testbed.as_ref().map_or(String::new(), |ground| format!(" ({ground})"));
            let cells = [format!("{}: {}{place}", chapter.name, v.about), v.stated.clone(), v.measured.clone()];
            let _ = writeln!(out, "| {} |", cells.map(|cell| escaped(&cell)).join(" | "));
        }
    }
    out
}

fn section(chapter: &ExperimentReport) -> String {
    let ground = chapter.testbed.as_ref().map_or(String::new(), |ground| format!(", {ground}"));
    let mut out = format!("\n## {}{}\n\n", chapter.title, escaped(&ground));
    let _ = write!(out, "*Claim.* {}\n\n{}\n\n", escaped(chapter.claim), escaped(&chapter.finding.method));
    let _ = writeln!(out, "    {}", chapter.command);
    for sheet in &chapter.finding.sheets {
        out.push_str(&table(sheet));
    }
    if !chapter.finding.verdicts.is_empty() {
        out.push_str("\n| about | stated | measured | |\n| --- | --- | --- | --- |\n");
        for v in &chapter.finding.verdicts {
            let cells = [v.about.as_str(), &v.stated, &v.measured].map(escaped);
            let word = match v.judgement {
                Judgement::Differs => "**differs**",
                judgement => judgement.word(),
            };
            let _ = writeln!(out, "| {} | {word} |", cells.join(" | "));
        }
    }
    for trouble in &chapter.finding.warnings {
        let _ = writeln!(out, "\nTrouble: {}", escaped(trouble));
    }
    if !chapter.missing_policies.is_empty() {
        let _ = writeln!(
            out,
            "\nWithout {}: the arles that wrote this has no such policy.",
            chapter.missing_policies.join(", ")
        );
    }
    out
}

fn table(sheet: &Sheet) -> String {
    let mut out = format!("\n**{}**\n\n", escaped(&sheet.title));
    let titles: Vec<String> = sheet.columns.iter().map(|column| escaped(&column.title.replace('\n', " "))).collect();
    let _ = writeln!(out, "| {} |", titles.join(" | "));
    let numeric = |j: usize| sheet.rows.iter().all(|row| !matches!(row[j], Value::Text(_)));
    let rules: Vec<&str> = (0..titles.len()).map(|j| if numeric(j) { "---:" } else { "---" }).collect();
    let _ = writeln!(out, "| {} |", rules.join(" | "));
    for row in &sheet.rows {
        let cells: Vec<String> = row.iter().map(|value| escaped(&value.to_string())).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    if !sheet.note.is_empty() {
        let _ = writeln!(out, "\n{}", escaped(&sheet.note));
    }
    out
}

/// Text in which nothing is markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '*' | '_' | '<' | '`' | '[' | '\\') {
            out.push('\\');
        }
        out.push(if c == '\n' { ' ' } else { c });
    }
    out
}

fn escaped_code(text: &str) -> String {
    text.replace('`', "'")
}
