//! [`RunExtension`]: behaviour that a host attaches to a run, without the engine knowing it (tee, telemetry).
//!
//! ```text
//! RunExtensions::attach ──► RunExtension ── begin ──► CallContext of the agent's calls
//!                              │  observe: every source event; observe_events: every canonical event before it is
//!                              │  logged; handle_appended: how long the log took
//!                              │  lanes of sub-agents: RunHandle::lanes (a channel, made on first use)
//!                              └  handle_message: control messages that other replicas send to the owner of the run
//! ```
//!
//! A run without extension, or whose extension never sends a lane event, has no channel for lanes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::agent::CallContext;
use aqueduct_core::service::{BoxFuture, Caller};
use aqueduct_core::{BlockEvent, InterruptReply, Principal, RunInput, SourceEvent, ThreadId};
use serde_json::Value;

use crate::handle::RunHandle;

/// The member of a run's checkpoint and of its recorded input that contains the value of the run's extension
/// ([`RunExtension::checkpoint`]).
pub const OF_EXTENSION: &str = "aqueduct/extension";

/// Attaches extensions to runs.
pub trait RunExtensions: fmt::Debug + Send + Sync + 'static {
    /// Returns the extension of a run that this engine starts to drive. Returns `None` for a run without extension.
    fn attach(&self, run: &Arc<RunHandle>, origin: &RunOrigin<'_>) -> Option<Arc<dyn RunExtension>>;
}

/// How this engine came to drive a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunOrigin<'a> {
    /// The name of the agent.
    pub agent: &'a str,
    /// The thread of the run.
    pub thread_id: &'a ThreadId,
    /// The surface of the caller's or publisher's request ([`Caller::surface`]); empty for a takeover.
    pub surface: &'static str,
    /// Set for a takeover: the value that the former owner's extension stored ([`RunExtension::checkpoint`]), or null.
    pub takeover: Option<Value>,
}

impl<'a> RunOrigin<'a> {
    /// Returns the origin of a new run.
    pub(crate) fn new(agent: &'a str, thread_id: &'a ThreadId, surface: &'static str) -> Self {
        Self { agent, thread_id, surface, takeover: None }
    }
}

/// A run that a caller starts.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunStart<'a> {
    /// The input of the run.
    pub input: &'a RunInput,
    /// The caller that starts the run.
    pub caller: &'a Caller,
    /// The principal of the caller, to which the run belongs.
    pub principal: &'a Principal,
    /// Headers of the caller that the agent receives.
    pub headers: Vec<(String, String)>,
}

/// Behaviour that a host attaches to one run.
pub trait RunExtension: fmt::Debug + Send + Sync + 'static {
    /// Returns the context of the agent's calls. Awaited before the agent is called, for runs that a caller starts.
    fn begin(self: Arc<Self>, start: RunStart<'_>) -> BoxFuture<'_, Arc<dyn CallContext>>;

    /// Observes an event of the agent or of a lane, before it is logged.
    fn observe(&self, _event: &SourceEvent) {}

    /// Observes canonical events before they are appended to the log.
    fn observe_events(&self, _events: &[BlockEvent]) {}

    /// Handles the completion of an append, which took `took`.
    fn handle_appended(&self, _took: Duration) {}

    /// Returns the value that is stored with the agent's checkpoint, for the replica that takes the run over, and with
    /// the input of a run that a caller starts, for lookups. Called after [`begin`](Self::begin).
    fn checkpoint(&self) -> Option<Value> {
        None
    }

    /// Returns a lane event in the form in which the run emits it.
    fn place_lane(&self, event: SourceEvent) -> SourceEvent {
        event
    }

    /// Returns a future that completes once lane events that precede the agent's next event have been sent to the run.
    /// Returns `None` if there are none.
    fn catch_up(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// Handles a control message of another replica to the owner of the run.
    fn handle_message(self: Arc<Self>, _message: Value) {}

    /// Handles a lane event that the run dropped.
    fn handle_lane_dropped(&self) {}

    /// Handles the end of the run with interrupts that its lanes raised. The agent continues for the run that replies;
    /// events of its lanes belong to that run too, and [`handle_end`](Self::handle_end) follows when that run has
    /// ended.
    fn handle_suspended(&self) {}

    /// Handles replies to interrupts that lanes raised.
    fn handle_replies(&self, _replies: &[InterruptReply]) {}

    /// Handles the end of the run, or its takeover by another replica: no call follows.
    fn handle_end(&self) {}
}
