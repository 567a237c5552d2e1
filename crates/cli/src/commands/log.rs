//! `arles log`: who changed what, when and from where.

use crate::commands::audit::moment;
use crate::fault::remark;
use crate::jobs::{harmless, shortened};
use crate::output::{self, Cell, Column, Table};
use crate::server::{EXIT_CODES, ReadFlags, Source};
use anyhow::{Result, anyhow};
use arles_api::{CHANGE_KINDS, Log as Changes};
use arles_daemon::desk::LogQuery;
use arles_daemon::store::copies;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::io::Write;

/// Most changes of one request.
const PAGE: u32 = 1000;

/// Show who changed what: jobs, policy, tenants, nodes, tokens
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Log {
    /// Only changes about this tenant
    #[arg(short, long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only changes about this job
    #[arg(short, long, value_name = "JOB", value_parser = clap::value_parser!(u64).range(1..))]
    job: Option<u64>,
    /// Only changes by the token of this name
    #[arg(long, value_name = "TOKEN")]
    by: Option<String>,
    /// Only changes since then: an age (2h, 1d) or a Unix time
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only changes until then, likewise
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only changes of this kind
    #[arg(short, long, value_name = "KIND", value_parser = PossibleValuesParser::new(CHANGE_KINDS))]
    kind: Option<String>,
    /// Show at most N changes, the newest
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    #[command(flatten)]
    read: ReadFlags,
}

impl Log {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let source = self.read.open()?;
        let (log, more) = self.changes(&source)?;
        if more {
            remark(format_args!("older changes are not shown; a larger --limit shows more"));
        }
        if log.changes.is_empty() {
            remark(format_args!("no changes are in the log that fit"));
        }
        output::print(out, self.read.format(), &table(&log), &log)
    }

    /// The newest changes, oldest of them first, and whether there are more.
    fn changes(&self, source: &Source) -> Result<(Changes, bool)> {
        let now = if self.since.is_some() || self.until.is_some() { source.server()?.now } else { 0.0 };
        let end = |flag: &str, text: &Option<String>| {
            text.as_deref().map(|text| moment(text, now).map_err(|e| anyhow!("{flag}: {e}"))).transpose()
        };
        let mut query = LogQuery {
            tenant: self.tenant.clone(),
            job: self.job,
            by: self.by.clone(),
            kind: self.kind.clone(),
            from: end("--since", &self.since)?,
            to: end("--until", &self.until)?,
            oldest_first: false,
            cursor: None,
            limit: Some(PAGE.min(self.limit)),
        };
        let mut all = source.log(&query)?;
        while let Some(next) = all.next.take() {
            let left = (self.limit as usize).saturating_sub(all.changes.len());
            if left == 0 {
                all.changes.reverse();
                return Ok((all, true));
            }
            query.cursor = Some(next);
            query.limit = Some(PAGE.min(left as u32));
            let page = source.log(&query)?;
            all.changes.extend(page.changes);
            all.next = page.next;
        }
        all.changes.reverse();
        Ok((all, false))
    }
}

fn table(log: &Changes) -> Table {
    let mut table = Table::new(vec![
        Column::left("time", "at"),
        Column::left("by", "by"),
        Column::left("from", "from"),
        Column::left("kind", "kind"),
        Column::left("tenant", "tenant"),
        Column::hidden("job"),
        Column::prose("what", "text"),
    ]);
    for change in &log.changes {
        let cut = |text: &str, most: usize| {
            let text = harmless(text);
            Cell::named(&shortened(&text, most), &text)
        };
        table.row(vec![
            Cell::number(copies::moment(change.at as u64).replace(" UTC", ""), change.at),
            cut(&change.by, 20),
            cut(change.from.as_deref().unwrap_or("-"), 24),
            change.kind.as_str().into(),
            cut(change.tenant.as_deref().unwrap_or("-"), 16),
            change.job.map_or(String::new(), |job| job.to_string()).into(),
            harmless(&change.text).into(),
        ]);
    }
    table
}
