//! [`CallWatch`]: a host's hook into the calls of a client: limits, retries of connects, measurements, trace context.
//!
//! ```text
//! request ──► begin ── refused ──► Error::NotSent
//!               └ CallGuard ──► connect (again after `retry_connect`) ──► head: handle_head ──► body ──► guard dropped
//!                                                                            └ failed: handle_failure ──┘
//! ```
//!
//! A guard lives as long as its call: for a stream, until the stream ends or is dropped. A client without a watch has no
//! cost.

use std::fmt;
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use http::StatusCode;
use http::request::Parts;

use crate::error::Error;

/// Watches the calls of a client.
pub trait CallWatch: fmt::Debug + Send + Sync + 'static {
    /// Returns the guard of a call, possibly after a wait. May change the headers of the request.
    ///
    /// # Errors
    ///
    /// Returns a refusal if the call must not be sent.
    fn begin<'a>(&'a self, head: &'a mut Parts) -> BoxFuture<'a, Result<Box<dyn CallGuard>, CallRefused>>;

    /// The addresses of the upstream's name were found, or not, after `took`. An address needs no look-up.
    fn handle_lookup(&self, _took: Duration, _is_found: bool) {}

    /// A connection was made, or could not be made, after `took`.
    fn handle_connect(&self, _took: Duration, _is_made: bool) {}

    /// Returns the pause before a failed connect is retried, or `None` for no retry. `attempt` starts at 1. No byte of the
    /// request was sent.
    fn retry_connect(&self, _attempt: u32) -> Option<Duration> {
        None
    }
}

/// A call in progress.
pub trait CallGuard: fmt::Debug + Send + Sync {
    /// Handles the head of the response.
    fn handle_head(&mut self, _status: StatusCode) {}

    /// Handles the failure of the call, before or after its head.
    fn handle_failure(&mut self, _error: &Error) {}
}

/// A call that its watch refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRefused {
    /// A stable code for programs.
    pub code: &'static str,
    /// A message: why, and what to do.
    pub reason: String,
}
