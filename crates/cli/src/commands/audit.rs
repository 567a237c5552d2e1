//! `arles audit`: who got how much, and whether that was fair.

use crate::jobs::{harmless, shortened};
use crate::output::{self, Cell, Column, Format, Table};
use crate::quantity::{percent, shown, span};
use crate::server::{EXIT_CODES, ReadFlags, Source};
use anyhow::{Result, anyhow};
use arles_api as api;
use clap::Args;
use std::io::Write;

/// Audit fairness over a time window: shares, sharing ratios, envy
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Audit {
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    read: ReadFlags,
}

/// A window of the scheduler's time.
#[derive(Args)]
pub(crate) struct Window {
    /// Start of the window: an age (2h, 1d) or a Unix time [default: the journal's start]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End of the window, likewise [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

impl Window {
    /// Its ends in seconds since 1970.
    pub(crate) fn ends(&self, source: &Source) -> Result<(Option<f64>, Option<f64>)> {
        if self.from.is_none() && self.to.is_none() {
            return Ok((None, None));
        }
        let now = source.server()?.now;
        let end = |flag: &str, text: &Option<String>| {
            text.as_deref().map(|text| moment(text, now).map_err(|e| anyhow!("{flag}: {e}"))).transpose()
        };
        Ok((end("--from", &self.from)?, end("--to", &self.to)?))
    }
}

/// A plain number is a moment; a number with a unit is so long ago.
pub(crate) fn moment(text: &str, now: f64) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(at) if (0.0..=1e11).contains(&at) => Ok(at),
        Ok(_) => Err(format!("'{text}' is not a time; expected a Unix time, or an age such as 2h")),
        Err(_) => crate::quantity::seconds(text).map(|ago| (now - ago).max(0.0)),
    }
}

/// Tenants whose envy of one another is printed; more do not fit a terminal.
const MOST_COLUMNS: usize = 8;

impl Audit {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let source = self.read.open()?;
        let (from, to) = self.window.ends(&source)?;
        let audit = source.audit(from, to)?;
        output::print(out, self.read.format(), &shares(&audit), &audit)?;
        if self.read.format() == Format::Table {
            envy(out, &audit)?;
            output::paragraph(out, &summary(&audit))?;
            for share in audit.shares.iter().filter(|share| !share.notes.is_empty()) {
                output::prose(out, &format!("{}: {}.", harmless(&share.tenant), share.notes.join("; ")))?;
            }
        }
        Ok(())
    }
}

fn shares(audit: &api::Audit) -> Table {
    let mut table = Table::new(vec![
        Column::left("tenant", "tenant"),
        Column::right("share\n%", "entitlement_ratio"),
        Column::right("granted\n%", "granted_ratio"),
        Column::right("received\nGPUs", "received"),
        Column::right("sharing\nratio", "sharing_ratio"),
        Column::prose("GPUs by kind", "gpus"),
    ]);
    for share in &audit.shares {
        let name = harmless(&share.tenant);
        let kinds = audit.kinds.iter().zip(&share.gpus).filter(|(_, gpus)| **gpus >= 0.005);
        let gpus: Vec<String> = kinds.map(|(kind, gpus)| format!("{} {kind}", shown(*gpus, 3))).collect();
        let sharing = share.sharing_ratio.unwrap_or(f64::NAN);
        table.row(vec![
            Cell::named(&shortened(&name, 20), &name),
            Cell::number(percent(share.entitlement_ratio), share.entitlement_ratio),
            Cell::number(percent(share.granted_ratio), share.granted_ratio),
            Cell::number(shown(share.received.iter().sum(), 3), share.received.iter().sum()),
            Cell::number(shown(sharing, 3), sharing),
            gpus.join(", ").into(),
        ]);
    }
    table
}

/// Who would rather have whose share: above 1 the row envies the column.
fn envy(out: &mut dyn Write, audit: &api::Audit) -> Result<()> {
    let n = audit.shares.len();
    if !(2..=MOST_COLUMNS).contains(&n) {
        return Ok(());
    }
    let name = |i: usize| shortened(&harmless(&audit.tenants[i]), 10);
    let wide = (0..n.min(audit.tenants.len())).map(|i| name(i).chars().count()).max().unwrap_or(0).max(6);
    writeln!(out, "\nenvy: value of the column's allocation to the row's tenant, over the value of its own")?;
    let heads: Vec<String> = (0..n.min(audit.tenants.len())).map(|i| format!("{:>wide$}", name(i))).collect();
    writeln!(out, "{:<wide$}  {}", "", heads.join("  "))?;
    for share in &audit.shares {
        let cells: Vec<String> = (share.envy.iter())
            .map(|envy| format!("{:>wide$}", envy.map_or("-".into(), |envy| shown(envy, 3))))
            .collect();
        writeln!(out, "{:<wide$}  {}", shortened(&harmless(&share.tenant), 10), cells.join("  "))?;
    }
    Ok(())
}

fn summary(audit: &api::Audit) -> String {
    if audit.seconds <= 0.0 {
        return "Nothing was allocated in this window.".into();
    }
    let envy = match audit.worst_envy {
        Some(envy) if envy > 1.0 + 1e-6 => format!("largest envy {}", shown(envy, 4)),
        Some(_) => "no tenant envies another".into(),
        None => "envy unknown".into(),
    };
    let sharing = match audit.least_sharing {
        Some(least) if least < 1.0 - 1e-6 => {
            format!(
                "a tenant would be better off with its own part of the cluster (smallest sharing ratio {})",
                shown(least, 4)
            )
        }
        Some(_) => "every tenant is at least as well off as with its own part of the cluster".into(),
        None => "sharing ratios unknown".into(),
    };
    format!("Over {} under {}: {envy}; {sharing}.", span(audit.seconds), audit.policies.join(", "))
}
