//! [`CallWatch`]: what a host attaches to the calls of a client: limits, retries of connects, measures, trace context.
//!
//! ```text
//! request ──► begin ── refused ──► ClientError::NotSent
//!               └ CallGuard ──► connect (again after `retry_connect`) ──► head: handle_head ──► body ──► guard dropped
//!                                                                            └ failed: handle_failure ──┘
//! ```
//!
//! A guard lives as long as its call: for a stream, until the stream is dropped or has ended. A client without a watch pays
//! nothing.

use std::fmt;
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use http::StatusCode;
use http::request::Parts;

use crate::error::ClientError;

/// Watches the calls of a client.
pub trait CallWatch: fmt::Debug + Send + Sync + 'static {
    /// Returns the guard of a call that may be sent, perhaps after a wait. May change its headers.
    ///
    /// # Errors
    ///
    /// The call is not sent.
    fn begin<'a>(&'a self, head: &'a mut Parts) -> BoxFuture<'a, Result<Box<dyn CallGuard>, CallRefused>>;

    /// The addresses of the upstream's name were found, or not, after `took`. An address needs no look-up.
    fn handle_lookup(&self, _took: Duration, _is_found: bool) {}

    /// A connection was made, or could not be made, after `took`.
    fn handle_connect(&self, _took: Duration, _is_made: bool) {}

    /// Returns the pause before a connection that failed is tried again, `attempt` being counted from 1; `None` if it is
    /// not. Nothing of the request was sent.
    fn retry_connect(&self, _attempt: u32) -> Option<Duration> {
        None
    }
}

/// One call that was sent.
pub trait CallGuard: fmt::Debug + Send + Sync {
    /// The head of the answer has arrived.
    fn handle_head(&mut self, _status: StatusCode) {}

    /// The call failed, before or after its head.
    fn handle_failure(&mut self, _error: &ClientError) {}
}

/// A call that its watch did not let pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRefused {
    /// A stable word.
    pub code: &'static str,
    /// A sentence: why, and what to do.
    pub reason: String,
}
