//! `arles audit`: who got how much, and whether that was fair: of a running cluster's past, of a simulated run, or of any division of GPUs.

pub(super) mod course;
pub(super) mod lies;
mod shown;
pub(super) mod verdict;

use super::allocate::audited::Asked;
use crate::fault::Hinted;
use crate::files::Draft;
use crate::jobs::{harmless, shortened};
use crate::output::{self, Cell, Column, Format, Table};
use crate::quantity::{percent, shown, span};
use crate::server::{ReadFlags, Source};
use anyhow::{Result, anyhow};
use arles_api as api;
use arles_core::allocate::find_policy;
use arles_report::audit::{AuditRecord, PartyRecord};
use clap::Args;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Audit fairness: envy, sharing incentive, waste, lies, finish times
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Audit {
    /// What to audit: a question as for 'arles allocate', or the journal of 'arles simulate --journal'; without it, a running cluster's past
    file: Option<String>,
    /// The policy whose answer to the question is audited, or that --allocation is laid beside
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// A division of the question's GPUs: the JSON of 'arles allocate', or a CSV of user and GPUs by kind
    #[arg(long, value_name = "FILE")]
    allocation: Option<PathBuf>,
    /// GPUs of each kind, for instance v100:8,k80:8, instead of the question's
    #[arg(long, value_name = "COUNTS")]
    gpus: Option<String>,
    /// Lies to try for each user; 0 tries none
    #[arg(long, value_name = "N", default_value = "60")]
    lies: usize,
    /// Seed of the lies that are drawn
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    /// Write a self-contained HTML report, with a map of who envies whom
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the map of who envies whom as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
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

const AFTER_HELP: &str = "Of a running cluster the daemon's own judgements of its decisions are averaged over the window; what is wasted and what lies would bring \
takes the problem itself, and is looked at in questions and journals. The search for lies proves nothing by finding none.

Exit codes: 0 success; 1 failure (server unreachable); 2 invalid usage or input, or refused by the server.";

impl Audit {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let drafts = self.drafts()?;
        let Some(file) = &self.file else {
            self.only_with_a_file()?;
            return self.run_window(out, drafts);
        };
        let policy = self.policy.as_deref().map(crate::settings::policy).transpose();
        let policy = policy.map_err(|e| anyhow!("--policy: {e}"))?;
        if file != "-" && is_journal(Path::new(file)) {
            if policy.is_some() || self.allocation.is_some() || self.gpus.is_some() {
                let hint = "leave --policy, --allocation and --gpus out: a journal says what was divided, and by whom";
                return Err(Hinted::new(format!("{file} is the journal of a run"), hint).into());
            }
            let (mut record, policy) = course::audit(Path::new(file), self.lies.min(MOST_LIES_IN_A_RUN), self.seed)?;
            verdict::judge(&mut record, Some(policy), true);
            drafts.write(&record, "", self.seed)?;
            return shown::print(out, self.read.format(), &record);
        }
        let (gpus, allocation) = (self.gpus.as_deref(), self.allocation.as_deref());
        let asked = Asked { file, gpus, policy, allocation, most_lies: self.lies, seed: self.seed };
        let (record, cluster) = asked.audit()?;
        drafts.write(&record, &cluster, self.seed)?;
        shown::print(out, self.read.format(), &record)
    }

    fn drafts(&self) -> Result<shown::Drafts> {
        let draft = |path: &Option<PathBuf>| path.as_deref().map(Draft::create).transpose();
        Ok(shown::Drafts { report: draft(&self.report)?, svg: draft(&self.svg)? })
    }

    /// Flags that mean nothing without a question.
    fn only_with_a_file(&self) -> Result<()> {
        let given = [
            ("--policy", self.policy.is_some()),
            ("--allocation", self.allocation.is_some()),
            ("--gpus", self.gpus.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                let sentence = format!("{flag} is about a question, and there is none");
                Err(Hinted::new(
                    sentence,
                    "name the file of the question, such as 'arles audit question.json --policy oef-coop'",
                )
                .into())
            }
            None => Ok(()),
        }
    }

    fn run_window(&self, out: &mut dyn Write, drafts: shown::Drafts) -> Result<()> {
        let source = self.read.open()?;
        let (from, to) = self.window.ends(&source)?;
        let audit = source.audit(from, to)?;
        let record = of_window(&audit);
        drafts.write(&record, "", self.seed)?;
        output::print(out, self.read.format(), &shares(&audit), &audit)?;
        if self.read.format() == Format::Table {
            envy(out, &audit)?;
            output::paragraph(out, &summary(&audit))?;
            if audit.seconds > 0.0 {
                shown::verdicts(out, &record)?;
            }
            for share in audit.shares.iter().filter(|share| !share.notes.is_empty()) {
                output::prose(out, &format!("{}: {}.", harmless(&share.tenant), share.notes.join("; ")))?;
            }
        }
        Ok(())
    }
}

/// Lies that are tried at most in each decision of a run: there are several decisions.
const MOST_LIES_IN_A_RUN: usize = 30;

/// Whether a file begins as a journal does.
fn is_journal(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut first = String::new();
    let read = BufReader::new(file).read_line(&mut first);
    read.is_ok() && first.starts_with('{') && first.contains("\"arles_journal\"")
}

/// A daemon's judgement as a record.
fn of_window(audit: &api::Audit) -> AuditRecord {
    let party = |share: &api::Share| {
        let envied = share.envy.iter().zip(&audit.tenants).filter(|(_, name)| **name != share.tenant);
        let known = envied.filter_map(|(envy, name)| Some(((*envy)?, name)));
        let worst = known.reduce(|most, other| if other.0 > most.0 { other } else { most });
        PartyRecord {
            name: harmless(&share.tenant),
            entitlement_ratio: share.entitlement_ratio,
            gpus: share.gpus.clone(),
            sharing_ratio: share.sharing_ratio,
            worst_envy: worst.map(|(envy, _)| envy),
            envied: worst.map(|(_, name)| harmless(name)),
            finish_time_ratio: None,
            worst_finish_time_ratio: None,
            beside_policy_ratio: None,
            best_lie: None,
        }
    };
    let policy = audit.policies.first().filter(|_| audit.policies.len() == 1);
    let mut record = AuditRecord {
        subject: format!("{} of a running cluster", span(audit.seconds)),
        policy: policy.cloned(),
        kinds: audit.kinds.clone(),
        parties: audit.shares.iter().map(party).collect(),
        envy: audit.shares.iter().map(|share| share.envy.clone()).collect(),
        pareto_gap_ratio: None,
        pareto_bound_ratio: None,
        jain_index: None,
        verdicts: Vec::new(),
        verdict: String::new(),
    };
    verdict::judge(&mut record, policy.and_then(|name| find_policy(name)), true);
    record
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
    // What is within the verdicts' tolerance is said to be, and how near to its edge.
    let within = format!("{} %", shown(verdict::STEADY * 100.0, 3));
    let envy = match audit.worst_envy {
        Some(envy) if envy > 1.0 + verdict::STEADY => format!("largest envy {}", shown(envy, 4)),
        Some(envy) if envy > 1.0 + verdict::LEVEL => {
            format!("no tenant envies another by more than {within} (largest envy {})", shown(envy, 4))
        }
        Some(_) => "no tenant envies another".into(),
        None => "envy unknown".into(),
    };
    let sharing = match audit.least_sharing {
        Some(least) if least < 1.0 - verdict::STEADY => {
            format!(
                "a tenant would be better off with its own part of the cluster (smallest sharing ratio {})",
                shown(least, 4)
            )
        }
        Some(least) if least < 1.0 - verdict::LEVEL => {
            format!(
                "every tenant is as well off as with its own part of the cluster, within {within} (smallest sharing ratio {})",
                shown(least, 4)
            )
        }
        Some(_) => "every tenant is at least as well off as with its own part of the cluster".into(),
        None => "sharing ratios unknown".into(),
    };
    format!("Over {} under {}: {envy}; {sharing}.", span(audit.seconds), audit.policies.join(", "))
}
