//! What a daemon that stands by answers: that it is alive, and who leads.

use super::backend::Backend;
use super::call::{ApiCall, ApiReply};
use super::routes::Route;
use crate::Refusal;
use crate::access::{BadToken, Caller};
use arles_api as api;
use std::sync::{Arc, PoisonError, RwLock};

/// Answers in the place of the desk.
#[derive(Clone, Default)]
pub struct Standby {
    leader: Arc<RwLock<Option<String>>>,
}

impl Standby {
    /// Notes where the leader can be reached, if one is known.
    pub fn set_leader(&self, url: Option<String>) {
        *self.leader.write().unwrap_or_else(PoisonError::into_inner) = url;
    }

    fn sentence(&self) -> String {
        match &*self.leader.read().unwrap_or_else(PoisonError::into_inner) {
            Some(url) => format!("standby; the leader is {url}"),
            None => "standby; there is no leader at the moment".to_owned(),
        }
    }
}

impl Backend for Standby {
    fn standby(&self) -> Option<Refusal> {
        let hint = "send the request there; clients that are given all addresses, separated by commas, find the leader";
        Some(Refusal::unavailable("standby", self.sentence(), hint).retry_after(1.0))
    }

    fn caller(&self, _: &str) -> Result<Caller, BadToken> {
        Err(BadToken::Unknown)
    }

    async fn answer(&self, _: Caller, _: &'static Route, _: ApiCall) -> Result<ApiReply, Refusal> {
        Err(self.standby().unwrap_or_else(|| super::internal("a standby leads")))
    }

    fn health(&self) -> api::Health {
        api::Health { ok: true, trouble: Vec::new() }
    }

    fn ready(&self) -> api::Health {
        api::Health { ok: false, trouble: vec![self.sentence()] }
    }

    async fn metrics(&self) -> String {
        String::new()
    }

    fn events(&self, _: &Caller, _: u64, _: usize) -> Option<(Vec<api::Event>, u64)> {
        None
    }

    fn last_event(&self, _: &Caller) -> u64 {
        0
    }

    async fn wait_for_event(&self, _: u64) {
        std::future::pending::<()>().await;
    }
}
