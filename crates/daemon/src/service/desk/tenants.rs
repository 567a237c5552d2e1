//! Tenants: adding, weighing, limiting and removing them, and what a tenant may ask for at once.

use super::{Desk, gone, weight};
use crate::Refusal;
use crate::access::Caller;
use crate::service::seats::{Seat, Taken};
use crate::service::{Change, Shared};
use arles_api as api;
use arles_core::{Quota, Tenant};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Tenants that one daemon keeps, those that left included.
const MOST_TENANTS: usize = 10_000;

/// Submissions that may come at once, where there is a quota on them, if that is more than in a second.
const SUBMIT_BURST: f64 = 10.0;

/// Dry runs of a tenant: seconds that they may take, of each second in the long run and at once.
const DRY_RUN_RATIO: f64 = 0.2;
const DRY_RUN_SECONDS: f64 = 2.0;

/// A dry run under way; it goes where the work is done, so that whoever hangs up keeps the seat until that ends. Its time is charged to the tenant then.
pub(super) struct DryRun {
    shared: Arc<Shared>,
    tenant: Option<String>,
    began: Instant,
    _seat: Seat,
}

impl Drop for DryRun {
    fn drop(&mut self) {
        if let Some(tenant) = &self.tenant {
            self.shared.forecast_pace.charge(tenant, self.began.elapsed().as_secs_f64());
        }
    }
}

impl Desk {
    /// Adds a tenant, or changes its weight.
    ///
    /// # Errors
    /// When name or weight are invalid, or the service cannot take the request now.
    pub async fn set_tenant(
        &self,
        who: &Caller,
        name: &str,
        request: api::TenantRequest,
    ) -> Result<api::Tenant, Refusal> {
        let weight = weight(request.weight)?;
        // A tenant that older versions let in under such a name can still be given another weight.
        let checked = match self.tenant(name) {
            Ok(_) => name.to_owned(),
            Err(_) => super::name("tenant-name", "tenant name", name, 200)?,
        };
        let name = checked.as_str();
        let (known, removed) = {
            let book = self.shared.book();
            let at = book.tenants.iter().position(|line| line.name == name);
            (at.map_or(book.tenants.len(), |_| 0), at.is_some_and(|at| book.has_left(at)))
        };
        if known >= MOST_TENANTS {
            let message = format!("the limit of {MOST_TENANTS} tenants is reached");
            return Err(Refusal::conflict("tenants", message, "reuse an existing tenant"));
        }
        if removed {
            // Whoever had a token then does not have one of the tenant that comes back.
            self.revoke_tokens_of(name)?;
        }
        self.change(who, Change::Tenant(Tenant { name: name.to_owned(), weight })).await?;
        self.tenant_shown(who, name)
    }

    /// Sets what a tenant may use.
    ///
    /// # Errors
    /// When there is no such tenant, an amount cannot be meant, or the service cannot take the request now.
    pub async fn set_quota(&self, who: &Caller, name: &str, quota: api::Quota) -> Result<api::Tenant, Refusal> {
        let api::Quota { gpus, jobs, gpu_hours, kwh, submits_per_second } = quota;
        let quota = Quota { gpus, jobs, gpu_hours, kwh, submits_per_second }.check().map_err(|sentence| {
            let (message, hint) = sentence.split_once("; ").unwrap_or((&sentence, "leave out what is not limited"));
            Refusal::unprocessable("quota", message, hint)
        })?;
        self.tenant(name).map_err(|refusal| Refusal { status: 404, ..refusal })?;
        self.change(who, Change::Quota(name.to_owned(), quota)).await?;
        self.tenant_shown(who, name)
    }

    /// Removes a tenant and revokes its tokens. Its history stays.
    ///
    /// # Errors
    /// When there is no such tenant, it has live jobs and they are not to be cancelled, or the service cannot take the request now.
    pub async fn remove_tenant(&self, who: &Caller, name: &str, cancel: bool) -> Result<api::Tenant, Refusal> {
        let last = self.tenant_shown(who, name).ok();
        self.change(who, Change::RemoveTenant { name: name.to_owned(), cancel }).await?;
        self.revoke_tokens_of(name)?;
        last.ok_or_else(gone)
    }

    fn tenant_shown(&self, who: &Caller, name: &str) -> Result<api::Tenant, Refusal> {
        let found = self.view(who).tenants().tenants.into_iter().find(|tenant| tenant.name == name);
        found.ok_or_else(gone)
    }

    fn revoke_tokens_of(&self, tenant: &str) -> Result<(), Refusal> {
        let mut store = self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = store.tokens().map_err(|error| super::tokens::not_written(&error))?;
        for token in tokens.iter().filter(|token| token.tenant.as_deref() == Some(tenant)) {
            store.drop_token(&token.name).map_err(|error| super::tokens::not_written(&error))?;
        }
        drop(store);
        self.shared.load_tokens().map_err(|error| super::tokens::not_written(&error))
    }

    /// Keeps submissions to the quota of the tenant that they are for.
    pub(super) fn keep_pace(&self, who: &Caller, job: &api::JobRequest) -> Result<(), Refusal> {
        let Some(name) = who.tenant.as_ref().or(job.tenant.as_ref()) else { return Ok(()) };
        let rate = {
            let book = self.shared.book();
            let used = |(i, _): (usize, _)| book.tenant_uses.get(i);
            let used = book.present_tenants().find(|(_, line)| line.name == *name).and_then(used);
            used.and_then(|used| used.quota.submits_per_second)
        };
        let Some(rate) = rate else { return Ok(()) };
        self.shared.submit_pace.take(name, rate, rate.max(SUBMIT_BURST), 1.0, Instant::now()).map_err(|seconds| {
            Refusal::too_many(
                "quota-submits",
                format!("tenant {name} may submit {rate} times per second"),
                format!("try again in {:.1} s, or submit an array, which counts once", seconds.max(0.1)),
            )
            .retry_after(seconds)
        })
    }

    /// A seat for a dry run, if there is one and the caller's tenant has not had too much lately.
    pub(super) fn begin_dry_run(&self, who: &Caller) -> Result<DryRun, Refusal> {
        let too_many = |message: &str, seconds: f64| {
            let hint = format!("try again in {:.0} s", seconds.ceil().max(1.0));
            Refusal::too_many("dry-runs", message, hint).retry_after(seconds)
        };
        if let Some(tenant) = &who.tenant {
            let pace = &self.shared.forecast_pace;
            let ready = pace.take(tenant, DRY_RUN_RATIO, DRY_RUN_SECONDS, 0.0, Instant::now());
            ready.map_err(|seconds| too_many(&format!("tenant {tenant} has had many dry runs lately"), seconds))?;
        }
        let seat = self.shared.forecasts.take(who).map_err(|taken| match taken {
            Taken::All => too_many("too many dry runs at once", 2.0),
            Taken::Tenant(most) => too_many(&format!("a tenant may have {most} dry run at once"), 2.0),
            Taken::Token(most) => too_many(&format!("a token may have {most} dry run at once"), 2.0),
        })?;
        Ok(DryRun { shared: Arc::clone(&self.shared), tenant: who.tenant.clone(), began: Instant::now(), _seat: seat })
    }
}
