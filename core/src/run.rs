//! The life of a run beside its content: outcomes, failures, interrupts, usage.

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use crate::Metadata;
use crate::id::{InterruptId, RunId, ThreadId, ToolCallId};

/// Which run of which conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInfo {
    /// The conversation.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
    /// The run this one branches from.
    pub parent_run_id: Option<RunId>,
    /// The name of the agent that the run is about, for readers.
    pub agent: Option<ByteString>,
}

impl RunInfo {
    /// A run without parent or name.
    pub fn new(thread_id: impl Into<ByteString>, run_id: impl Into<ByteString>) -> Self {
        Self {
            thread_id: ThreadId::new(thread_id),
            run_id: RunId::new(run_id),
            parent_run_id: None,
            agent: None,
        }
    }
}

/// How a run ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunOutcome {
    /// It did what it was for.
    Success,
    /// It waits for answers to its interrupts.
    Interrupted,
    /// Somebody stopped it.
    Cancelled,
}

/// How a sub-agent ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LaneOutcome {
    /// It did what it was for; with its value, where it has one beside its text.
    Success(Option<Value>),
    /// It waits for a human.
    Suspended,
    /// Somebody stopped it.
    Cancelled,
    /// It failed. The run need not.
    Failed(RunFailure),
}

/// Why a run or a lane failed.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFailure {
    /// A stable word for programs, e.g. [`RunFailure::UPSTREAM_ENDED`].
    pub code: ByteString,
    /// A sentence for people: what failed, where, and what to do.
    pub message: ByteString,
    /// What the source told beside it.
    pub details: Option<Value>,
}

impl RunFailure {
    /// The source ended without saying how the run ended.
    pub const UPSTREAM_ENDED: &'static str = "upstream_ended";
    /// The source sent something that cannot be read.
    pub const UPSTREAM_INVALID: &'static str = "upstream_invalid";
    /// The source said that it failed.
    pub const AGENT_FAILED: &'static str = "agent_failed";
    /// A limit of the stream machine was reached.
    pub const LIMIT_EXCEEDED: &'static str = "limit_exceeded";
    /// Somebody stopped the run, told to a peer whose protocol has no cancelled outcome.
    pub const CANCELLED: &'static str = "cancelled";

    /// A failure with a code and a sentence.
    pub fn new(code: impl Into<ByteString>, message: impl Into<ByteString>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }
}

/// A request to a human, without whose answer the agent does not go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Interrupt {
    /// Identifies it in the answer. Must be unique in the thread: the asker chooses it.
    pub id: InterruptId,
    /// Why: `tool_call`, `input_required`, `auth_required`, `confirmation`, or `<framework>:<name>`.
    pub reason: ByteString,
    /// The question.
    pub message: Option<ByteString>,
    /// The tool call that waits, under the source's id; the stream machine turns it into the outgoing one.
    pub tool_call_id: Option<ToolCallId>,
    /// JSON Schema of the answer.
    pub response_schema: Option<Value>,
    /// When the question lapses (ISO 8601).
    pub expires_at: Option<ByteString>,
    /// What the source told beside it.
    pub metadata: Option<Arc<Metadata>>,
}

impl Interrupt {
    /// An interrupt with id and reason.
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

/// The answer to an [`Interrupt`].
#[derive(Debug, Clone, PartialEq)]
pub struct InterruptReply {
    /// The interrupt.
    pub id: InterruptId,
    /// False if the human declined to answer.
    pub resolved: bool,
    /// The answer.
    pub payload: Option<Value>,
}

/// Tokens spent. Absent means "not reported", never zero. Input and output are totals; the rest are parts of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Who was paid.
    pub provider: Option<ByteString>,
    /// For what model.
    pub model: Option<ByteString>,
    /// Tokens in.
    pub input: Option<u64>,
    /// Tokens out.
    pub output: Option<u64>,
    /// Both, as reported.
    pub total: Option<u64>,
    /// Tokens out that were thought, not said.
    pub reasoning: Option<u64>,
    /// Tokens in that were read from a cache.
    pub cached_input: Option<u64>,
    /// Tokens in that were written to a cache.
    pub cache_write_input: Option<u64>,
}

impl Usage {
    /// True if both count for one provider and model.
    pub fn same_account(&self, other: &Self) -> bool {
        self.provider == other.provider && self.model == other.model
    }

    /// Adds what `other` reports; a count that neither reports stays absent.
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
