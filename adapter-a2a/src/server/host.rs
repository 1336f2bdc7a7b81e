//! What the server needs of the world: [`Host`]. Time, randomness, tasks and who a caller is come in here, so that
//! nothing in this crate reads a clock, spawns or knows a runtime.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::Timestamp;
use aqueduct_core::service::{BoxFuture, Caller, ServiceError};

use super::log::TaskLog;
use super::push::PushSender;

/// The world around a server.
pub trait Host: Send + Sync + 'static {
    /// Runs `work` beside everything else, to its end.
    fn spawn(&self, work: BoxFuture<'static, ()>);

    /// The time now.
    fn now(&self) -> Timestamp;

    /// Ends after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// An id that was never given out and cannot be guessed: a client that knows a context can add to it.
    fn new_id(&self) -> String;

    /// Who the caller is to this agent: the same text for the same person, for as long as tasks are kept. Tasks are
    /// seen only by the caller that started them. Empty for an agent that asks for no credentials.
    fn identify(&self, caller: &Caller) -> Result<String, ServiceError>;

    /// Who carries push notifications; `None` if this server sends none.
    fn push_sender(&self) -> Option<Arc<dyn PushSender>> {
        None
    }

    /// The log that holds the runs, where tasks are to be found again that this server does not hold; none if its tasks are
    /// its own.
    fn task_log(&self) -> Option<Arc<dyn TaskLog>> {
        None
    }
}
