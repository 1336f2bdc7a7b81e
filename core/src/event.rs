//! The output of the stream machine: [`BlockEvent`], balanced and in order.
//!
//! Invariants, kept by [`StreamContext`](crate::StreamContext) and checked by
//! `testing::InvariantChecker`:
//!
//! * the first event is `RunStarted`, the last is `RunFinished` or `RunFailed`, and neither occurs elsewhere in the run;
//! * every `BlockStarted`, `LaneOpened` and `StepStarted` has exactly one end, before the end of the lane that contains it;
//! * a delta lies between the start and the end of its block;
//! * no two blocks, results or lanes have the same id; only the changes of one progress card share an id;
//! * an event carries all that its conversion needs (the head of its block, its lane), so converters keep no state and a
//!   watcher can start anywhere.
//!
//! This module does not decide how an event is written in a protocol.

mod end;

pub use end::{PendingInterrupt, RunFailed, RunFinished};
use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use crate::Metadata;
use crate::block::{BlockKind, ToolOutput};
use crate::id::{BlockId, LaneId, MessageId, ResponseId, ToolCallId};
use crate::run::{LaneOutcome, RunInfo, Usage};
use crate::source::Source;
use crate::update::{Channel, Role, Timestamp, Track};

/// One step of a balanced stream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BlockEvent {
    /// The run started.
    RunStarted(Arc<RunInfo>),
    /// The lane of a sub-agent opened. The root lane is open from the start and has no such event.
    LaneOpened(Arc<Lane>),
    /// The lane of a sub-agent closed. The blocks, steps and sub-lanes of the lane ended before.
    LaneClosed {
        /// The lane that closed.
        lane: Arc<Lane>,
        /// How the sub-agent ended.
        outcome: Box<LaneOutcome>,
    },
    /// A text, thinking or tool use block started.
    BlockStarted(Arc<BlockHead>),
    /// A fragment of an open block: text, or arguments of a tool call. Never empty.
    BlockDelta {
        /// The open block.
        block: Arc<BlockHead>,
        /// The text to append.
        delta: ByteString,
    },
    /// The encrypted form of an open thinking block.
    ThinkingEncrypted {
        /// The thinking block.
        block: Arc<BlockHead>,
        /// The value to return unchanged to the provider in the next turn.
        value: ByteString,
    },
    /// A block ended.
    BlockEnded {
        /// The block that ended.
        block: Arc<BlockHead>,
        /// Why the block ended.
        reason: EndReason,
    },
    /// The result of a tool call. The call started and ended before, in this run or an earlier one.
    ToolResult(Box<ToolResultEvent>),
    /// Content of any other kind, identified by a name.
    Custom(Box<CustomEvent>),
    /// A named phase of work started. The name is unique among the lane's open steps.
    StepStarted {
        /// The lane that does the work.
        lane: Arc<Lane>,
        /// The name of the step.
        name: ByteString,
    },
    /// A named phase of work ended.
    StepFinished {
        /// The lane that did the work.
        lane: Arc<Lane>,
        /// The name of the step.
        name: ByteString,
    },
    /// The complete shared state.
    StateSnapshot {
        /// The lane that reported the state.
        lane: Arc<Lane>,
        /// The state.
        state: Value,
    },
    /// A change of the shared state.
    StateDelta {
        /// The lane that reported the change.
        lane: Arc<Lane>,
        /// RFC 6902 operations.
        patch: Vec<Value>,
    },
    /// Tokens spent, as reported by the source. The terminal event carries the sum.
    Usage {
        /// The lane that spent the tokens.
        lane: Arc<Lane>,
        /// The token counts.
        usage: Box<Usage>,
    },
    /// The agent waits for a reply of a human. [`RunFinished::interrupts`] repeats all open interrupts.
    InterruptRequested(Box<PendingInterrupt>),
    /// The run ended without failure. No event follows.
    RunFinished(Box<RunFinished>),
    /// The run failed. No event follows.
    RunFailed(Box<RunFailed>),
}

impl BlockEvent {
    /// Returns the kind by which a [`ConverterSet`](crate::ConverterSet) selects the converter.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::BlockStarted(block)
            | Self::BlockDelta { block, .. }
            | Self::ThinkingEncrypted { block, .. }
            | Self::BlockEnded { block, .. } => match block.kind {
                SpanKind::Text => EventKind::Text,
                SpanKind::Thinking => EventKind::Thinking,
                SpanKind::ToolUse => EventKind::ToolUse,
            },
            Self::ToolResult(_) => EventKind::ToolResult,
            Self::Custom(_) => EventKind::Custom,
            Self::LaneOpened(_) | Self::LaneClosed { .. } => EventKind::Lane,
            Self::StepStarted { .. } | Self::StepFinished { .. } => EventKind::Step,
            Self::StateSnapshot { .. } | Self::StateDelta { .. } => EventKind::State,
            Self::Usage { .. } => EventKind::Usage,
            Self::InterruptRequested(_) => EventKind::Interrupt,
            Self::RunStarted(_) | Self::RunFinished(_) | Self::RunFailed(_) => EventKind::Run,
        }
    }

    /// Returns the block that the event starts, continues or ends. Returns `None` for all other events.
    pub fn block(&self) -> Option<&Arc<BlockHead>> {
        match self {
            Self::BlockStarted(block)
            | Self::BlockDelta { block, .. }
            | Self::ThinkingEncrypted { block, .. }
            | Self::BlockEnded { block, .. } => Some(block),
            _ => None,
        }
    }

    /// Returns the lane of the event. Returns `None` for events of the run as a whole.
    pub fn lane(&self) -> Option<&Arc<Lane>> {
        match self {
            Self::BlockStarted(block)
            | Self::BlockDelta { block, .. }
            | Self::ThinkingEncrypted { block, .. }
            | Self::BlockEnded { block, .. } => Some(&block.lane),
            Self::LaneOpened(lane)
            | Self::LaneClosed { lane, .. }
            | Self::StepStarted { lane, .. }
            | Self::StepFinished { lane, .. }
            | Self::StateSnapshot { lane, .. }
            | Self::StateDelta { lane, .. }
            | Self::Usage { lane, .. } => Some(lane),
            Self::ToolResult(result) => Some(&result.lane),
            Self::Custom(custom) => Some(&custom.lane),
            Self::InterruptRequested(pending) => Some(&pending.lane),
            Self::RunStarted(_) | Self::RunFinished(_) | Self::RunFailed(_) => None,
        }
    }

    /// Returns `true` for the last event of a run.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunFinished(_) | Self::RunFailed(_))
    }
}

/// The kinds of [`BlockEvent`] that have a converter of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are those of the events")]
pub enum EventKind {
    Text,
    Thinking,
    ToolUse,
    ToolResult,
    Custom,
    Lane,
    Step,
    State,
    Usage,
    Interrupt,
    Run,
}

impl EventKind {
    /// Every kind, in the order of their discriminants.
    pub const ALL: [Self; 11] = [
        Self::Text,
        Self::Thinking,
        Self::ToolUse,
        Self::ToolResult,
        Self::Custom,
        Self::Lane,
        Self::Step,
        Self::State,
        Self::Usage,
        Self::Interrupt,
        Self::Run,
    ];
}

/// The kinds of block that have a beginning and an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of `ContentBlock`")]
pub enum SpanKind {
    Text,
    Thinking,
    ToolUse,
}

impl From<SpanKind> for BlockKind {
    fn from(kind: SpanKind) -> Self {
        match kind {
            SpanKind::Text => Self::Text,
            SpanKind::Thinking => Self::Thinking,
            SpanKind::ToolUse => Self::ToolUse,
        }
    }
}

/// One invocation of one agent.
#[derive(Debug, PartialEq)]
pub struct Lane {
    /// The id of the lane, unique in the thread.
    pub id: LaneId,
    /// The agent that works in the lane.
    pub source: Source,
    /// The lane of the calling agent; `None` for the root.
    pub parent: Option<Arc<Lane>>,
    /// The emitted id of the parent's tool call that started the lane, if that call is known.
    pub parent_call: Option<ToolCallId>,
}

impl Lane {
    /// Returns `true` for the lane of the agent that the run was started for.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Returns the agent's name; empty for the root.
    pub fn name(&self) -> &str {
        self.source.name()
    }
}

/// The properties of a block that are fixed at its start. Every event of the block carries them.
#[derive(Debug, PartialEq)]
pub struct BlockHead {
    /// The id of the block, unique in the thread. For a tool use it is the emitted tool call id.
    pub id: BlockId,
    /// The kind of content.
    pub kind: SpanKind,
    /// The lane of the block.
    pub lane: Arc<Lane>,
    /// Whether the block is part of the answer or of the work on it.
    pub channel: Channel,
    /// The author of the content.
    pub role: Role,
    /// The name of the tool; empty for text and thinking.
    pub tool_name: ByteString,
    /// For a tool call: the latest answer text of the same source message. For a message without text, where message ids
    /// are emitted unchanged: the message's own id, or the first call of the message.
    pub parent: Option<BlockId>,
    /// The interrupted block whose text this block continues.
    pub continues: Option<BlockId>,
    /// The block whose text or arguments this block replaces.
    pub replaces: Option<BlockId>,
    /// The ids, time and metadata that the source gave the block.
    pub origin: Origin,
}

impl BlockHead {
    /// Returns the emitted tool call id of a tool use block.
    pub fn tool_call_id(&self) -> ToolCallId {
        ToolCallId::new(self.id.as_bytes().clone())
    }
}

/// The source's own ids, time and metadata of a block, kept so that events can be traced back to the source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Origin {
    /// The source's message id.
    pub message_id: Option<MessageId>,
    /// The source's response id.
    pub response_id: Option<ResponseId>,
    /// The source's tool call id.
    pub tool_call_id: Option<ToolCallId>,
    /// The parallel output of the agent that the block belongs to.
    pub track: Track,
    /// The time at which the source created the block.
    pub created_at: Option<Timestamp>,
    /// The source's metadata.
    pub metadata: Option<Arc<Metadata>>,
}

/// Why a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// The source ended the block, or the result of the tool call arrived.
    Complete,
    /// Other content started that ends this block (see [`stream`](crate::stream)).
    Interrupted,
    /// The lane or the run ended.
    Closed,
    /// Another block replaces the text or arguments of this one.
    Replaced,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResultEvent {
    /// The id of the result, unique in the thread.
    pub id: BlockId,
    /// The lane that made the call.
    pub lane: Arc<Lane>,
    /// The emitted id of the call.
    pub call_id: ToolCallId,
    /// The name of the tool; empty if unknown.
    pub tool_name: ByteString,
    /// The output of the tool.
    pub output: ToolOutput,
    /// Set if the tool failed or its use was rejected.
    pub is_error: bool,
    /// The ids, time and metadata that the source gave the result.
    pub origin: Origin,
}

/// Content without a [`SpanKind`] of its own, emitted as one event.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomEvent {
    /// The id of the block, unique in the thread. All changes of one progress card have the same id.
    pub id: BlockId,
    /// The lane of the content.
    pub lane: Arc<Lane>,
    /// A name of [`wellknown`](crate::wellknown) or the source's own.
    pub name: ByteString,
    /// The content.
    pub value: Value,
    /// Whether the content is part of the answer or of the work on it.
    pub channel: Channel,
    /// The ids, time and metadata that the source gave the content.
    pub origin: Origin,
}
