//! The requests that the client plans.

use std::time::Duration;

use crate::call::Call;
use crate::version::Version;

/// The purpose of a request, which is passed in again with the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Sends the message that starts the turn.
    Send,
    /// Subscribes to a task whose stream was lost.
    Subscribe,
    /// Reads the task.
    Get,
    /// Cancels the task.
    Cancel,
}

/// A request to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The purpose of the request.
    pub purpose: Purpose,
    /// The request.
    pub call: Call,
    /// The pause before the request is sent.
    pub after: Duration,
    /// The version of the request, if it is not that of the endpoint.
    pub version: Option<Version>,
}
