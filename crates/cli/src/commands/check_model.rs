//! `arles check-model`: how far the built-in performance model is from a table of measured rates.

use crate::fault::EXIT_CODES;
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity::percent;
use anyhow::{Result, anyhow};
use arles_core::Library;
use arles_core::model::{Errors, Fit, Measured, fit};
use arles_sim::rates::RateTable;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// Compare the performance model with measured rates
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CheckModel {
    /// Measured rates (Gavel's JSON)
    #[arg(long, value_name = "FILE")]
    rates: PathBuf,
    /// Exclude cells: names that begin with WORKLOAD, on KIND; * matches anything
    #[arg(long, value_name = "WORKLOAD@KIND")]
    exclude: Vec<String>,
    /// Baseline kind for speed-ups [default: the oldest in the table]
    #[arg(long, value_name = "KIND")]
    baseline: Option<String>,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Serialize)]
struct FitDocument {
    cells: usize,
    excluded: usize,
    baseline: String,
    #[serde(flatten)]
    fit: Fit,
}

impl CheckModel {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let table = RateTable::from_file(&self.rates)?;
        let all = cells(&table);
        let (kept, excluded) = self.without_excluded(all)?;
        let baseline = match &self.baseline {
            Some(name) => Library::builtin().kind(name)?.name.clone(),
            None => oldest(&table)?,
        };
        let fit = fit(Library::builtin(), &baseline, &kept)?;
        let report = FitDocument { cells: kept.len(), excluded, baseline, fit };
        output::print(out, self.output.output, &tabled(&report.fit), &report)?;
        if self.output.output == Format::Table {
            remarks(out, &report)?;
        }
        Ok(())
    }

    fn without_excluded(&self, mut cells: Vec<Measured>) -> Result<(Vec<Measured>, usize)> {
        let before = cells.len();
        for pattern in &self.exclude {
            let (workload, kind) = pattern.rsplit_once('@').ok_or_else(|| {
                anyhow!(
                    "--exclude: '{pattern}' is not WORKLOAD@KIND; expected WORKLOAD@KIND such as Recommendation@v100"
                )
            })?;
            let had = cells.len();
            cells.retain(|cell| !(matches(&format!("{workload}*"), &cell.workload) && matches(kind, &cell.kind)));
            if cells.len() == had {
                return Err(anyhow!(
                    "--exclude: '{pattern}' matches no cell of this table; check its workload and kind names"
                ));
            }
        }
        let excluded = before - cells.len();
        Ok((cells, excluded))
    }
}

fn cells(table: &RateTable) -> Vec<Measured> {
    let workload = |index: u32| table.workloads()[index as usize].clone();
    table
        .cells()
        .map(|cell| Measured {
            workload: workload(cell.workload),
            kind: table.kinds()[usize::from(cell.kind)].clone(),
            gang: cell.gang,
            spread: cell.spread,
            partner: cell.partner.map(|(partner, _)| workload(partner)),
            rate: cell.rate,
        })
        .collect()
}

fn oldest(table: &RateTable) -> Result<String> {
    let mut oldest: Option<(u16, String)> = None;
    for name in table.kinds() {
        let kind = Library::builtin().kind(name)?;
        if oldest.as_ref().is_none_or(|(year, _)| kind.year < *year) {
            oldest = Some((kind.year, kind.name.clone()));
        }
    }
    oldest.map(|(_, name)| name).ok_or_else(|| anyhow!("there is no kind in this table of rates"))
}

/// Whether a name fits a pattern, case apart; `*` stands for any run of characters.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = pattern.split('*').skip(1).last() else { return rest.is_empty() };
    for part in parts.take(pattern.matches('*').count() - 1) {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn tabled(fit: &Fit) -> Table {
    let mut table = Table::new(vec![
        Column::left("ratio", "ratio"),
        Column::left("kind", "kind"),
        Column::right("cells", "cells"),
        Column::right("mean\nerror %", "mean"),
        Column::right("median\nerror %", "median"),
        Column::right("p90\nerror %", "p90"),
    ]);
    let mut block = |ratio: &str, by_kind: &BTreeMap<String, Errors>, all: Option<&Errors>| {
        if by_kind.is_empty() {
            return;
        }
        table.gap();
        for (kind, errors) in by_kind.iter().map(|(kind, e)| (kind.as_str(), e)).chain(all.map(|e| ("all", e))) {
            let mut row: Vec<Cell> = vec![ratio.into(), kind.into(), errors.count.into()];
            row.extend([errors.mean, errors.median, errors.p90].map(|error| Cell::number(percent(error), error)));
            table.row(row);
        }
    };
    block("speed-up over the baseline", &fit.speedups, None);
    block("beside a partner over alone", &fit.pairs_by_kind, Some(&fit.pairs));
    block("gang over one GPU", &fit.scaling, None);
    block("spread gang over one GPU", &fit.spread_scaling, None);
    table
}

fn remarks(out: &mut dyn Write, report: &FitDocument) -> Result<()> {
    let FitDocument { cells, excluded, baseline, fit } = report;
    let memory = &fit.memory;
    let right = memory.fits + memory.too_large;
    let all = right + memory.falsely_fits + memory.falsely_too_large;
    let text = format!(
        "{cells} cells compared, {excluded} excluded; speed-ups are over {baseline}. Of two kinds, the model names the faster \
         one in {} % of cases. Absolute rates alone on one GPU are off by a factor of {:.2} (median). Memory: right in \
         {right} of {all} cells; {} said to fit that do not, {} said not to fit that do.",
        percent(fit.rank_agreement),
        fit.rate_factor,
        memory.falsely_fits,
        memory.falsely_too_large
    );
    output::paragraph(out, &text)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        let check = |pattern, name, expect| assert_eq!(matches(pattern, name), expect, "{pattern} {name}");
        check("v100", "V100", true);
        check("v100", "v100x", false);
        check("recommendation*", "Recommendation (batch size 512)", true);
        check("*size 5*", "LM (batch size 5)", true);
        check("*5)", "LM (batch size 5)", true);
        check("*5)", "LM (batch size 50)", false);
        check("*", "", true);
        check("a*b*c", "a-b-c", true);
        check("a*b*c", "a-c-b", false);
    }
}
