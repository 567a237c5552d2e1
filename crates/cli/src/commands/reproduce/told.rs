//! Findings on the terminal, and as CSV.

use crate::output::{self, Cell, Column, Table};
use anyhow::Result;
use arles_report::finding::{ExperimentReport, Sheet, Value, Verdict};
use std::io::Write;

/// Every chapter: claim, method, tables, and what is stated beside what was measured.
pub(super) fn print(out: &mut dyn Write, chapters: &[ExperimentReport]) -> Result<()> {
    let width = output::terminal_width();
    for (i, chapter) in chapters.iter().enumerate() {
        if i > 0 {
            writeln!(out, "\n")?;
        }
        let heading = match &chapter.testbed {
            Some(ground) => format!("{}: {}, {ground}", chapter.name, chapter.title),
            None => format!("{}: {}", chapter.name, chapter.title),
        };
        writeln!(out, "{heading}\n{}", "─".repeat(heading.chars().count().min(width)))?;
        output::prose(out, &format!("Claim. {}", chapter.claim))?;
        output::paragraph(out, &chapter.finding.method)?;
        for sheet in &chapter.finding.sheets {
            output::paragraph(out, &format!("{}.", sheet.title))?;
            out.write_all(table(sheet).text(width).as_bytes())?;
            if !sheet.note.is_empty() {
                output::prose(out, &sheet.note)?;
            }
        }
        if !chapter.finding.verdicts.is_empty() {
            writeln!(out)?;
            out.write_all(verdicts(&chapter.finding.verdicts).text(width).as_bytes())?;
        }
        for trouble in &chapter.finding.warnings {
            output::paragraph(out, &format!("Trouble: {trouble}"))?;
        }
        if !chapter.missing_policies.is_empty() {
            output::paragraph(
                out,
                &format!("Without {}: this arles has no such policy.", chapter.missing_policies.join(", ")),
            )?;
        }
    }
    Ok(())
}

/// A column is of numbers if nothing in it is text.
fn numeric(sheet: &Sheet, j: usize) -> bool {
    sheet.rows.iter().all(|row| !matches!(row[j], Value::Text(_)))
}

/// Names longer than this are broken into lines.
const MOST_WORDS: usize = 22;

fn table(sheet: &Sheet) -> Table {
    let columns = sheet.columns.iter().enumerate().map(|(j, column)| {
        if numeric(sheet, j) {
            Column::right(column.title, column.name)
        } else {
            Column::words(column.title, column.name, MOST_WORDS)
        }
    });
    let mut table = Table::new(columns.collect());
    for row in &sheet.rows {
        table.row(row.iter().map(|value| value.to_string().into()).collect());
    }
    table
}

fn verdicts(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(vec![
        Column::words("about", "about", 22),
        Column::words("stated", "stated", 22),
        Column::words("measured", "measured", 22),
        Column::left("", "judgement"),
    ]);
    for verdict in verdicts {
        let word = verdict.judgement.word();
        let cells = [&verdict.about, &verdict.stated, &verdict.measured].map(|text| Cell::from(text.as_str()));
        table.row(cells.into_iter().chain([word.into()]).collect());
    }
    table
}

/// Every number of every sheet on a line of its own: sheets have different columns, and one file has one header.
pub(super) fn csv(chapters: &[ExperimentReport]) -> String {
    let names = ["experiment", "ground", "sheet", "row", "column", "value", "half_width"];
    let mut table = Table::new(names.map(|name| Column::left(name, name)).to_vec());
    for chapter in chapters {
        let ground = chapter.testbed.as_deref().unwrap_or_default();
        for sheet in &chapter.finding.sheets {
            for row in &sheet.rows {
                let label: Vec<String> =
                    row.iter().filter(|value| matches!(value, Value::Text(_))).map(Value::to_string).collect();
                let numbers = row
                    .iter()
                    .zip(&sheet.columns)
                    .filter_map(|(value, column)| Some((value, column, value.as_number()?)));
                for (value, column, number) in numbers {
                    let half = value.half_width().map_or(String::new(), |half| half.to_string());
                    let cells = [chapter.name, ground, sheet.name, &label.join(" / "), column.name];
                    let cells = cells.into_iter().map(Cell::from).chain([number.into(), half.into()]);
                    table.row(cells.collect());
                }
            }
        }
    }
    table.csv()
}
