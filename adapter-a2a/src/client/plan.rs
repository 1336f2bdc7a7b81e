//! What the machine wants sent.

use std::time::Duration;

use crate::call::Call;
use crate::version::Version;

/// What a request is for; its answer is told with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The message that starts the turn.
    Send,
    /// The stream of a task that was lost.
    Subscribe,
    /// A look at the task.
    Get,
    /// The end of the task.
    Cancel,
}

/// A request to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// What it is for.
    pub purpose: Purpose,
    /// What to send.
    pub call: Call,
    /// How long to wait before.
    pub after: Duration,
    /// The version to send it in, if not the endpoint's.
    pub version: Option<Version>,
}
