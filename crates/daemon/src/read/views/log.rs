//! The log of changes: who did what.

use super::{View, cursor, limit, window};
use crate::Refusal;
use crate::read::views::{LogQuery, Page};
use crate::store::{Deed, DeedFilter};
use arles_api as api;

impl View<'_> {
    /// Changes that somebody asked for, newest first unless asked otherwise. A tenant sees those about itself, and no address but its own token's.
    ///
    /// # Errors
    /// When the window, the limit or the cursor is invalid.
    pub fn log(&self, query: &LogQuery) -> Result<api::Log, Refusal> {
        let (from, to) = window(query.from, query.to)?;
        let most = limit(&Page { cursor: None, limit: query.limit })?;
        let own = self.who.tenant.as_deref();
        if own.is_some_and(|own| query.tenant.as_deref().is_some_and(|asked| asked != own)) {
            return Ok(api::Log { changes: Vec::new(), next: None });
        }
        let filter = DeedFilter {
            tenant: own.map(str::to_owned).or_else(|| query.tenant.clone()),
            job: query.job,
            by: query.by.clone(),
            kind: query.kind.clone(),
            from,
            to,
            oldest_first: query.oldest_first,
            beyond: cursor(query.cursor.as_deref())?,
            most,
        };
        let deeds = self.history(|store| store.deeds(&filter))?;
        let next = (deeds.len() == most).then(|| deeds.last().map(|deed| deed.id.to_string())).flatten();
        Ok(api::Log { changes: deeds.into_iter().map(|deed| self.logged(deed)).collect(), next })
    }

    fn logged(&self, deed: Deed) -> api::LoggedChange {
        let hidden = self.who.tenant.is_some() && deed.name != self.who.name;
        api::LoggedChange {
            id: deed.id,
            at: deed.at.seconds(),
            by: deed.name,
            from: deed.address.filter(|_| !hidden),
            kind: deed.kind,
            tenant: deed.tenant,
            job: deed.job,
            text: deed.text,
        }
    }
}
