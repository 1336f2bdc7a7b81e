//! The host of one agent's server: spawns tasks, and provides clock, identity and ids.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct_adapter_a2a::server::{Host, PushSender, TaskLog};
use aqueduct_core::Timestamp;
use aqueduct_core::service::{BoxFuture, Caller, ServiceError};

use super::Cards;
use super::push::Courier;

/// The host of the server of one agent.
pub(super) struct HostOf {
    pub(super) cards: Arc<dyn Cards>,
    /// The name of the agent, by which each request is authenticated: the agent's tokens may change while its tasks exist.
    pub(super) agent: String,
    pub(super) clock_and_ids: ClockAndIds,
    pub(super) log: Option<Arc<dyn TaskLog>>,
}

impl Host for HostOf {
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }

    fn now(&self) -> Timestamp {
        (self.clock_and_ids.clock)()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn new_id(&self) -> String {
        (self.clock_and_ids.ids)()
    }

    fn identify(&self, caller: &Caller) -> Result<String, ServiceError> {
        self.cards.authenticate(caller, &self.agent)
    }

    fn push_sender(&self) -> Option<Arc<dyn PushSender>> {
        self.cards.has_push().then(|| Arc::new(Courier) as Arc<dyn PushSender>)
    }

    fn task_log(&self) -> Option<Arc<dyn TaskLog>> {
        self.log.clone()
    }
}

/// The clock of the servers, and their generator of ids. All agents share them.
#[derive(Clone)]
pub(super) struct ClockAndIds {
    pub(super) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) ids: Arc<dyn Fn() -> String + Send + Sync>,
}

/// The clock of the system, and ids that cannot be guessed.
impl Default for ClockAndIds {
    fn default() -> Self {
        let ids = Ids::default();
        Self { clock: Arc::new(aqueduct_runs::now), ids: Arc::new(move || ids.next()) }
    }
}

/// A generator of unguessable ids: a counter, hashed with random keys of the system.
#[derive(Debug, Default)]
struct Ids {
    keys: (RandomState, RandomState),
    count: AtomicU64,
}

impl Ids {
    /// Returns the next id, of 128 bits.
    fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}{:016x}", self.keys.0.hash_one(count), self.keys.1.hash_one((count, "more")))
    }
}
