//! Prices and power budgets that a daemon follows by the calendar, from files.
//!
//! The files say what should hold; what holds is what the journal says, and there each change becomes an input like any other. A file is read again when it
//! changes. A budget that an operator sets by hand stays until the file's next line begins.

use crate::hourly::{Hourly, Price};
use crate::settings::Settings;
use anyhow::Result;
use arles_api::PowerBudgetRequest;
use arles_daemon::access::Caller;
use arles_daemon::desk::Desk;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often the clock and the files are looked at.
const LOOK: Duration = Duration::from_millis(500);
const DAY_SECONDS: f64 = 86_400.0;

/// A file and what was last read from it.
struct Followed<T> {
    path: PathBuf,
    changed: Option<SystemTime>,
    lines: T,
}

impl<T> Followed<T> {
    fn open(path: &Path, read: fn(&Path) -> Result<T>) -> Result<Self> {
        Ok(Self { path: path.to_owned(), changed: stamp(path), lines: read(path)? })
    }

    /// Reads the file again if it has changed; a file that makes no sense changes nothing.
    fn look(&mut self, read: fn(&Path) -> Result<T>) -> bool {
        let changed = stamp(&self.path);
        if changed.is_none() || changed == self.changed {
            return false;
        }
        self.changed = changed;
        match read(&self.path) {
            Ok(lines) => self.lines = lines,
            Err(error) => tracing::warn!("{error}; what was read before stays in force"),
        }
        true
    }
}

fn stamp(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn read_prices(path: &Path) -> Result<Hourly<Price>> {
    Hourly::prices(path)?.needs_calendar().map_err(|sentence| anyhow::anyhow!("{}: {sentence}", path.display()))
}

fn read_budgets(path: &Path) -> Result<Hourly<Option<f64>>> {
    Hourly::budgets(path)?.needs_calendar().map_err(|sentence| anyhow::anyhow!("{}: {sentence}", path.display()))
}

/// What is followed.
pub(super) struct Schedule {
    prices: Option<Followed<Hourly<Price>>>,
    budgets: Option<Followed<Hourly<Option<f64>>>>,
}

impl Schedule {
    /// Reads the files, so that what is wrong with them is known before anything runs.
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let prices = settings.prices.as_deref().map(|path| Followed::open(path, read_prices)).transpose()?;
        let budgets = settings.budget_events.as_deref().map(|path| Followed::open(path, read_budgets)).transpose()?;
        Ok(Self { prices, budgets })
    }

    /// Tells the scheduler what changes, when it does.
    pub(super) async fn follow(mut self, desk: Desk) {
        let who = Caller::loopback();
        let (mut priced_day, mut budget): (Option<f64>, Option<Option<f64>>) = (None, None);
        while self.prices.is_some() || self.budgets.is_some() {
            let now = desk.view(&who).server().now;
            if let Some(file) = &mut self.prices {
                let (changed, day) = (file.look(read_prices), (now / DAY_SECONDS).floor());
                if changed || priced_day != Some(day) {
                    priced_day = tell_prices(&desk, &who, &file.lines, now).await.then_some(day);
                }
            }
            if let Some(file) = &mut self.budgets {
                file.look(read_budgets);
                let due = file.lines.at(now);
                if let Some(watts) = due.filter(|_| due != budget) {
                    match desk.set_power_budget(&who, PowerBudgetRequest { watts, rack: None }).await {
                        Ok(_) => budget = due,
                        Err(refusal) => tracing::warn!("the power budget is not changed: {refusal}"),
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

async fn tell_prices(desk: &Desk, who: &Caller, lines: &Hourly<Price>, now: f64) -> bool {
    let prices = match lines.of_calendar(now) {
        Ok(prices) => prices,
        Err(sentence) => {
            tracing::warn!("prices are not changed: {sentence}");
            return true;
        }
    };
    match desk.set_prices(who, prices).await {
        Ok(()) => true,
        Err(refusal) => {
            tracing::warn!("prices are not changed: {refusal}");
            false
        }
    }
}
