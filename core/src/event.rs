//! What leaves the stream machine: [`BlockEvent`], balanced and in order.
//!
//! Invariants, kept by [`StreamContext`](crate::StreamContext) and checked by
//! `testing::InvariantChecker`:
//!
//! * the first event is `RunStarted`, the last is `RunFinished` or `RunFailed`, and there is one of each;
//! * every `BlockStarted`, `LaneOpened` and `StepStarted` has exactly one end, before its lane's;
//! * a delta lies between its block's start and end; no id is used twice;
//! * an event carries all that is needed to translate it (its block's head, its lane), so converters keep no
//!   state and a watcher can start anywhere.
//!
//! What an event looks like in a protocol is not decided here.

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use crate::Metadata;
use crate::block::{BlockKind, ToolOutput};
use crate::id::{BlockId, LaneId, MessageId, ResponseId, ToolCallId};
use crate::run::{Interrupt, LaneOutcome, RunFailure, RunInfo, RunOutcome, Usage};
use crate::source::Source;
use crate::update::{Channel, Role, Timestamp, Track};

/// One step of a balanced stream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BlockEvent {
    /// The run began.
    RunStarted(Arc<RunInfo>),
    /// A sub-agent began. The root lane is there from the start and has no such event.
    LaneOpened(Arc<Lane>),
    /// A sub-agent ended; its blocks, steps and sub-agents ended before.
    LaneClosed {
        /// Which one.
        lane: Arc<Lane>,
        /// How.
        outcome: Box<LaneOutcome>,
    },
    /// A text, thinking or tool use block began.
    BlockStarted(Arc<BlockHead>),
    /// More of it: text, or a fragment of a tool call's arguments. Never empty.
    BlockDelta {
        /// The block.
        block: Arc<BlockHead>,
        /// What follows.
        delta: ByteString,
    },
    /// The sealed form of an open thinking block.
    ThinkingEncrypted {
        /// The block.
        block: Arc<BlockHead>,
        /// What the provider wants back, unread.
        value: ByteString,
    },
    /// It ended.
    BlockEnded {
        /// The block.
        block: Arc<BlockHead>,
        /// Why.
        reason: EndReason,
    },
    /// A tool answered. Its call has started and ended before, in this run or an earlier one.
    ToolResult(Box<ToolResultEvent>),
    /// Anything else, by name.
    Custom(Box<CustomEvent>),
    /// A named phase of work began. The name is unique among the lane's open steps.
    StepStarted {
        /// Whose work.
        lane: Arc<Lane>,
        /// Its name.
        name: ByteString,
    },
    /// A named phase of work ended.
    StepFinished {
        /// Whose work.
        lane: Arc<Lane>,
        /// Its name.
        name: ByteString,
    },
    /// The shared state, whole.
    StateSnapshot {
        /// Who says so.
        lane: Arc<Lane>,
        /// The state.
        state: Value,
    },
    /// A change of the shared state.
    StateDelta {
        /// Who says so.
        lane: Arc<Lane>,
        /// RFC 6902 operations.
        patch: Vec<Value>,
    },
    /// Tokens spent, as reported now. The sum is in the terminal event.
    Usage {
        /// Who spent them.
        lane: Arc<Lane>,
        /// How many.
        usage: Box<Usage>,
    },
    /// The agent waits for a human. All open ones are in [`RunFinished::interrupts`] again.
    InterruptRequested(Box<PendingInterrupt>),
    /// The run ended without failing. Nothing follows.
    RunFinished(Box<RunFinished>),
    /// The run failed. Nothing follows.
    RunFailed(Box<RunFailed>),
}

impl BlockEvent {
    /// The strategy that translates it.
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

    /// The block that it is a step of, if it is one.
    pub fn block(&self) -> Option<&Arc<BlockHead>> {
        match self {
            Self::BlockStarted(block)
            | Self::BlockDelta { block, .. }
            | Self::ThinkingEncrypted { block, .. }
            | Self::BlockEnded { block, .. } => Some(block),
            _ => None,
        }
    }

    /// The lane it belongs to; none for the run's own events.
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

    /// True for the last event of a run.
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
    /// Unique in the thread.
    pub id: LaneId,
    /// The agent.
    pub source: Source,
    /// The lane of the agent it works for; none for the root.
    pub parent: Option<Arc<Lane>>,
    /// The parent's tool call that started it, under its outgoing id, if that call is known.
    pub parent_call: Option<ToolCallId>,
}

impl Lane {
    /// True for the lane of the agent that the run is about.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// The agent's name; empty for the root.
    pub fn name(&self) -> &str {
        self.source.name()
    }
}

/// What is known of a block from its start on.
#[derive(Debug, PartialEq)]
pub struct BlockHead {
    /// Unique in the thread. For a tool use: the outgoing tool call id.
    pub id: BlockId,
    /// What it is.
    pub kind: SpanKind,
    /// Whose it is.
    pub lane: Arc<Lane>,
    /// What it is for.
    pub channel: Channel,
    /// Whose words they are.
    pub role: Role,
    /// The name of the tool; empty for text and thinking.
    pub tool_name: ByteString,
    /// The text block of the same source message, which a tool call belongs to.
    pub parent: Option<BlockId>,
    /// The block that this one continues after an interruption.
    pub continues: Option<BlockId>,
    /// The block whose text this one takes the place of.
    pub replaces: Option<BlockId>,
    /// What the source called it.
    pub origin: Origin,
}

impl BlockHead {
    /// The outgoing tool call id of a tool use block.
    pub fn tool_call_id(&self) -> ToolCallId {
        ToolCallId::new(self.id.as_bytes().clone())
    }
}

/// What the source said about a block, kept so that nothing is lost and the way back can be found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Origin {
    /// The source's message id.
    pub message_id: Option<MessageId>,
    /// The source's response id.
    pub response_id: Option<ResponseId>,
    /// The source's tool call id.
    pub tool_call_id: Option<ToolCallId>,
    /// Which of the agent's parallel outputs.
    pub track: Track,
    /// When the source made it.
    pub created_at: Option<Timestamp>,
    /// The source's metadata.
    pub metadata: Option<Arc<Metadata>>,
}

/// Why a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// The source said so, or a tool's result arrived.
    Complete,
    /// Something else began that ends it.
    Interrupted,
    /// Its lane or run ended.
    Closed,
    /// The block that starts next has its text instead.
    Replaced,
}

/// A tool's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResultEvent {
    /// Unique in the thread.
    pub id: BlockId,
    /// Whose call it was.
    pub lane: Arc<Lane>,
    /// The outgoing id of the call.
    pub call_id: ToolCallId,
    /// The name of the tool, if it is known.
    pub tool_name: ByteString,
    /// What the tool answered.
    pub output: ToolOutput,
    /// True if the tool failed or was refused.
    pub is_error: bool,
    /// What the source called it.
    pub origin: Origin,
}

/// Content of no other kind.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomEvent {
    /// Unique in the thread.
    pub id: BlockId,
    /// Whose it is.
    pub lane: Arc<Lane>,
    /// A name of [`wellknown`](crate::wellknown) or the source's own.
    pub name: ByteString,
    /// The content.
    pub value: Value,
    /// What it is for.
    pub channel: Channel,
    /// What the source called it.
    pub origin: Origin,
}

/// An interrupt and the lane that asks.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingInterrupt {
    /// Who asks.
    pub lane: Arc<Lane>,
    /// What for; `tool_call_id` is the outgoing one.
    pub interrupt: Interrupt,
}

/// The end of a run that did not fail.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunFinished {
    /// Which run.
    pub run: Arc<RunInfo>,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The run's value, where it has one beside its text.
    pub result: Option<Value>,
    /// What it waits for. Not empty if and only if the outcome is `Interrupted`.
    pub interrupts: Vec<PendingInterrupt>,
    /// Calls that nobody answered in this run (a frontend's own tools, for example).
    pub pending_calls: Vec<ToolCallId>,
    /// What it cost, by provider and model.
    pub usage: Vec<Usage>,
    /// Why the model stopped, where the source says so: the last reason given with the answer.
    pub finish_reason: Option<ByteString>,
}

impl RunFinished {
    /// Returns the end of `run` without value, interrupts, pending calls and usage.
    pub fn new(run: Arc<RunInfo>, outcome: RunOutcome) -> Self {
        Self {
            run,
            outcome,
            result: None,
            interrupts: Vec::new(),
            pending_calls: Vec::new(),
            usage: Vec::new(),
            finish_reason: None,
        }
    }
}

/// The end of a run that failed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunFailed {
    /// Which run.
    pub run: Arc<RunInfo>,
    /// Why.
    pub failure: RunFailure,
    /// What it cost, by provider and model.
    pub usage: Vec<Usage>,
}

impl RunFailed {
    /// Returns the failure of `run` without usage.
    pub fn new(run: Arc<RunInfo>, failure: RunFailure) -> Self {
        Self { run, failure, usage: Vec::new() }
    }
}
