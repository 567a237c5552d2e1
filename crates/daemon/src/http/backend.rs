//! The desk as the server knows it: by [`Backend`] only, so that the server is tested without a service.

use super::call::{ApiCall, ApiReply, blocking};
use super::routes::Route;
use crate::Refusal;
use crate::access::{BadToken, Caller};
use crate::service::desk::Desk;
use arles_api as api;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Comes back when something is over.
pub type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What answers the server's requests: the desk, or a fake in tests.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Why nothing but health is answered here, on a daemon that stands by.
    fn standby(&self) -> Option<Refusal> {
        None
    }
    /// The caller that a secret belongs to.
    ///
    /// # Errors
    /// Why it is of no use.
    fn caller(&self, secret: &str) -> Result<Caller, BadToken>;
    /// Comes back when a secret that was good is no longer: revoked, expired or replaced.
    fn token_ended(&self, _secret: &str) -> Ending {
        Box::pin(std::future::pending())
    }
    /// Answers a request of a caller whose scope the route accepts.
    fn answer(
        &self,
        who: Caller,
        route: &'static Route,
        call: ApiCall,
    ) -> impl Future<Output = Result<ApiReply, Refusal>> + Send;
    /// Whether the process is alive.
    fn health(&self) -> api::Health;
    /// Whether it accepts requests.
    fn ready(&self) -> api::Health;
    /// Prometheus text.
    fn metrics(&self) -> impl Future<Output = String> + Send;
    /// As [`Desk::events`].
    fn events(&self, who: &Caller, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)>;
    /// Number of the newest event.
    fn last_event(&self, who: &Caller) -> u64;
    /// Waits until there is an event with a number above `after`.
    fn wait_for_event(&self, after: u64) -> impl Future<Output = ()> + Send;
    /// Is told of every response: its status, and how long it took to make.
    fn answered(&self, _status: u16, _took: Duration) {}
    /// Is told how many listen to events, whenever that changes.
    fn listeners(&self, _listeners: u64) {}
}

impl Backend for Desk {
    fn caller(&self, secret: &str) -> Result<Caller, BadToken> {
        Self::caller(self, secret)
    }

    fn token_ended(&self, secret: &str) -> Ending {
        Box::pin(Self::token_ended(self, secret))
    }

    async fn answer(&self, who: Caller, _route: &'static Route, call: ApiCall) -> Result<ApiReply, Refusal> {
        call.run(self.clone(), who).await
    }

    fn health(&self) -> api::Health {
        Self::health(self)
    }

    fn ready(&self) -> api::Health {
        Self::ready(self)
    }

    async fn metrics(&self) -> String {
        let desk = self.clone();
        blocking(move || Self::metrics(&desk)).await
    }

    fn events(&self, who: &Caller, after: u64, most: usize) -> Option<(Vec<api::Event>, u64)> {
        Self::events(self, who, after, most)
    }

    fn last_event(&self, who: &Caller) -> u64 {
        self.view(who).server().last_event
    }

    async fn wait_for_event(&self, after: u64) {
        Self::wait_for_event(self, after).await;
    }

    fn answered(&self, status: u16, took: Duration) {
        let gauges = self.gauges();
        gauges.request.add(took);
        if let Some(class) = gauges.answers.get(usize::from(status / 100).saturating_sub(1)) {
            class.add(1);
        }
    }

    fn listeners(&self, listeners: u64) {
        self.gauges().listeners.set(listeners);
    }
}
