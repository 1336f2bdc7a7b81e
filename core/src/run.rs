//! Outcomes, failures, interrupts and token usage of a run: everything about a run that is not content.
//!
//! These types hold data only: [`stream`](crate::stream) decides when a run ends and how.

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use crate::Metadata;
use crate::id::{InterruptId, RunId, ThreadId, ToolCallId};

/// The ids of a run, and the name of its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInfo {
    /// The thread of the run.
    pub thread_id: ThreadId,
    /// The id of the run.
    pub run_id: RunId,
    /// The run this one branches from.
    pub parent_run_id: Option<RunId>,
    /// The display name of the agent that the run was started for.
    pub agent: Option<ByteString>,
}

impl RunInfo {
    /// Returns the ids of a run without parent and agent name.
    pub fn new(thread_id: impl Into<ByteString>, run_id: impl Into<ByteString>) -> Self {
        Self {
            thread_id: ThreadId::new(thread_id),
            run_id: RunId::new(run_id),
            parent_run_id: None,
            agent: None,
        }
    }
}

/// How a run without failure ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The run completed.
    Success,
    /// The run waits for replies to its interrupts.
    Interrupted,
    /// A caller, the host or the source cancelled the run.
    Cancelled,
}

/// How a sub-agent ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LaneOutcome {
    /// The sub-agent completed; with its return value, if it has one beside its text.
    Success(Option<Value>),
    /// The sub-agent waits for a human.
    Suspended,
    /// The sub-agent was cancelled.
    Cancelled,
    /// The sub-agent failed. The run may continue.
    Failed(RunFailure),
}

/// Why a run or a lane failed.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFailure {
    /// A stable code for programs, e.g. [`RunFailure::UPSTREAM_ENDED`].
    pub code: ByteString,
    /// A message for people: what failed, where, and what to do.
    pub message: ByteString,
    /// Further data from the source.
    pub details: Option<Value>,
}

impl RunFailure {
    /// The source's stream ended without reporting the end of the run.
    pub const UPSTREAM_ENDED: &'static str = "upstream_ended";
    /// The source sent data that cannot be decoded.
    pub const UPSTREAM_INVALID: &'static str = "upstream_invalid";
    /// The source reported a failure.
    pub const AGENT_FAILED: &'static str = "agent_failed";
    /// A limit of the stream machine was exceeded.
    pub const LIMIT_EXCEEDED: &'static str = "limit_exceeded";
    /// The run was cancelled. Used for peers whose protocol has no cancelled outcome.
    pub const CANCELLED: &'static str = "cancelled";

    /// Returns a failure with a code and a message.
    pub fn new(code: impl Into<ByteString>, message: impl Into<ByteString>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }
}

/// A question to a human. The agent continues only after the reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Interrupt {
    /// Identifies the interrupt in the reply. Chosen by the agent; must be unique in the thread.
    pub id: InterruptId,
    /// The reason: `tool_call`, `input_required`, `auth_required`, `confirmation`, or `<framework>:<name>`.
    pub reason: ByteString,
    /// The text of the question.
    pub message: Option<ByteString>,
    /// The tool call that waits, under the source's id. The stream machine replaces it by the emitted id.
    pub tool_call_id: Option<ToolCallId>,
    /// JSON Schema of the reply.
    pub response_schema: Option<Value>,
    /// The time at which the interrupt expires (ISO 8601).
    pub expires_at: Option<ByteString>,
    /// Metadata of the source.
    pub metadata: Option<Arc<Metadata>>,
}

impl Interrupt {
    /// Returns an interrupt with an id and a reason.
    pub fn new(id: impl Into<ByteString>, reason: impl Into<ByteString>) -> Self {
        Self {
            id: InterruptId::new(id),
            reason: reason.into(),
            message: None,
            tool_call_id: None,
            response_schema: None,
            expires_at: None,
            metadata: None,
        }
    }
}

/// The reply to an [`Interrupt`].
#[derive(Debug, Clone, PartialEq)]
pub struct InterruptReply {
    /// The interrupt that is replied to.
    pub id: InterruptId,
    /// `false` if the human declined.
    pub resolved: bool,
    /// The content of the reply.
    pub payload: Option<Value>,
}

/// Token counts. An absent count was not reported; it is not zero. `input` and `output` are totals, the other counts are
/// parts of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// The provider of the model.
    pub provider: Option<ByteString>,
    /// The model.
    pub model: Option<ByteString>,
    /// Input tokens.
    pub input: Option<u64>,
    /// Output tokens.
    pub output: Option<u64>,
    /// Input and output tokens, as reported.
    pub total: Option<u64>,
    /// Output tokens spent on reasoning.
    pub reasoning: Option<u64>,
    /// Input tokens read from a cache.
    pub cached_input: Option<u64>,
    /// Input tokens written to a cache.
    pub cache_write_input: Option<u64>,
}

impl Usage {
    /// Returns `true` if both are for the same provider and model.
    pub fn same_account(&self, other: &Self) -> bool {
        self.provider == other.provider && self.model == other.model
    }

    /// Adds the counts of `other`. A count that neither reports stays absent.
    pub fn add(&mut self, other: &Self) {
        fn sum(into: &mut Option<u64>, more: Option<u64>) {
            if let Some(more) = more {
                *into = Some(into.unwrap_or(0).saturating_add(more));
            }
        }
        sum(&mut self.input, other.input);
        sum(&mut self.output, other.output);
        sum(&mut self.total, other.total);
        sum(&mut self.reasoning, other.reasoning);
        sum(&mut self.cached_input, other.cached_input);
        sum(&mut self.cache_write_input, other.cache_write_input);
    }
}
