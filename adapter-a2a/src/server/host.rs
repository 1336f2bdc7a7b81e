//! [`Host`]: the environment of the server. It provides time, randomness, tasks and identities, so that nothing in this
//! crate reads a clock, spawns or knows a runtime.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::Timestamp;
use aqueduct_core::service::{BoxFuture, Caller, ServiceError};

use super::log::TaskLog;
use super::push::PushSender;

/// The environment of a server.
pub trait Host: Send + Sync + 'static {
    /// Spawns `work`, which runs to its end.
    fn spawn(&self, work: BoxFuture<'static, ()>);

    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Returns an id that is unique and cannot be guessed: a client that knows a context can add to it.
    fn new_id(&self) -> String;

    /// Returns the owner for the tasks of a caller: the same text for the same principal, for as long as tasks are
    /// kept. Tasks are visible only to the owner that started them. Empty for an agent without credentials.
    fn identify(&self, caller: &Caller) -> Result<String, ServiceError>;

    /// Returns the sender of push notifications, or `None` if this server sends none.
    fn push_sender(&self) -> Option<Arc<dyn PushSender>> {
        None
    }

    /// Returns the log of the runs, in which tasks are found that this server does not hold. Returns `None` if the
    /// server knows only its own tasks.
    fn task_log(&self) -> Option<Arc<dyn TaskLog>> {
        None
    }
}
