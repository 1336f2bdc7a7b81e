//! What an adapter decoded: [`Update`] (a fragment of a block, with who, where and how) and [`SourceEvent`]
//! (an update or a step in the life of the run).
//!
//! An adapter says what the source *said* and nothing more: it does not open, close or order blocks. That is
//! the [`StreamContext`](crate::StreamContext)'s work.

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use crate::Metadata;
use crate::agent::Checkpoint;
use crate::block::ContentBlock;
use crate::id::{MessageId, ResponseId};
use crate::run::{Interrupt, LaneOutcome, RunFailure, RunOutcome, Usage};
use crate::source::Source;

/// Milliseconds since the Unix epoch. Enters with the data; nothing here reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

/// One of several outputs that an agent writes at the same time (interleaved A2A artifacts, for example).
/// Tracks of a lane do not interrupt each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Track(ByteString);

impl Track {
    /// The track of an agent that says one thing at a time.
    pub const MAIN: Self = Self(ByteString::from_static(""));

    /// A track by name.
    pub fn new(name: impl Into<ByteString>) -> Self {
        Self(name.into())
    }

    /// The name; empty for [`Track::MAIN`].
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn detached(&self) -> Self {
        if self.0.is_empty() { Self::MAIN } else { Self(crate::id::detach(&self.0)) }
    }
}

/// Who a message is from, in the sense of a chat history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// The agent.
    #[default]
    Assistant,
    /// The human.
    User,
    /// The operator of the agent.
    System,
    /// The developer of the application.
    Developer,
    /// A tool.
    Tool,
}

/// What a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Channel {
    /// What the run is for.
    #[default]
    Answer,
    /// The work on the way to it.
    Intermediate,
}

/// How a fragment relates to what came before it under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Mode {
    /// It follows what came before.
    #[default]
    Append,
    /// It is the whole text so far, and contains what came before.
    Snapshot,
    /// It is the whole text, and what came before no longer counts.
    Replace,
}

/// One decoded fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The agent it comes from.
    pub source: Source,
    /// Which of the agent's parallel outputs it belongs to.
    pub track: Track,
    /// The fragment.
    pub block: ContentBlock,
    /// The source's message id.
    pub message_id: Option<MessageId>,
    /// The source's response id.
    pub response_id: Option<ResponseId>,
    /// When the source made it.
    pub created_at: Option<Timestamp>,
    /// Whose words they are.
    pub role: Role,
    /// What they are for.
    pub channel: Channel,
    /// How they relate to what came before.
    pub mode: Mode,
    /// True if nothing more follows for this block. Its content still counts.
    pub last: bool,
    /// What most fragments do not have.
    pub details: Option<Box<Details>>,
}

/// The rarer parts of an [`Update`], boxed so that a text delta stays small and allocates nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    /// Tokens spent, as reported with this fragment.
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub finish_reason: Option<ByteString>,
    /// The source's own metadata, untouched.
    pub metadata: Option<Arc<Metadata>>,
}

impl Update {
    /// A fragment of the root agent's answer.
    pub fn new(block: ContentBlock) -> Self {
        Self {
            source: Source::root(),
            track: Track::MAIN,
            block,
            message_id: None,
            response_id: None,
            created_at: None,
            role: Role::Assistant,
            channel: Channel::Answer,
            mode: Mode::Append,
            last: false,
            details: None,
        }
    }

    /// A text fragment of the root agent's answer.
    pub fn text(text: impl Into<ByteString>) -> Self {
        Self::new(ContentBlock::text(text))
    }

    /// A thought of the root agent on the way to its answer.
    pub fn thinking(text: impl Into<ByteString>) -> Self {
        Self::new(ContentBlock::thinking(text))
    }

    /// A whole tool call of the root agent. `arguments` are written as JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use aqueduct_core::Update;
    /// let call = Update::tool_use("call_1", "search", serde_json::json!({ "query": "rust" }));
    /// assert!(call.last);
    /// ```
    pub fn tool_use(
        id: impl Into<ByteString>,
        name: impl Into<ByteString>,
        arguments: impl Into<Value>,
    ) -> Self {
        Self::new(ContentBlock::tool_use(id, name, arguments.into().to_string())).last()
    }

    /// The result of a tool call.
    pub fn tool_result(call_id: impl Into<ByteString>, text: impl Into<ByteString>) -> Self {
        Self::new(ContentBlock::tool_result(call_id, text))
    }

    /// Content without a kind of its own, under one of the names of [`wellknown`](crate::wellknown) or a name of the
    /// caller's choice.
    pub fn custom(name: impl Into<ByteString>, value: impl Into<Value>) -> Self {
        Self::new(ContentBlock::custom(name, value.into()))
    }

    /// The same, from that agent.
    pub fn from_source(mut self, source: &Source) -> Self {
        self.source = source.clone();
        self
    }

    /// The same, on that track.
    pub fn on_track(mut self, track: impl Into<ByteString>) -> Self {
        self.track = Track::new(track);
        self
    }

    /// The same, in that message.
    pub fn in_message(mut self, id: impl Into<ByteString>) -> Self {
        self.message_id = Some(MessageId::new(id));
        self
    }

    /// The same, in that response.
    pub fn in_response(mut self, id: impl Into<ByteString>) -> Self {
        self.response_id = Some(ResponseId::new(id));
        self
    }

    /// The same, with the reason why the model stopped.
    pub fn finishing(mut self, reason: impl Into<ByteString>) -> Self {
        self.details_mut().finish_reason = Some(reason.into());
        self
    }

    /// The same, made at that time.
    pub fn at(mut self, milliseconds: i64) -> Self {
        self.created_at = Some(Timestamp(milliseconds));
        self
    }

    /// The same, on the way to the answer.
    pub fn intermediate(mut self) -> Self {
        self.channel = Channel::Intermediate;
        self
    }

    /// The same, as the whole text so far.
    pub fn snapshot(mut self) -> Self {
        self.mode = Mode::Snapshot;
        self
    }

    /// The same, as the whole text whatever came before.
    pub fn replace(mut self) -> Self {
        self.mode = Mode::Replace;
        self
    }

    /// The same, as the last of its block.
    pub fn last(mut self) -> Self {
        self.last = true;
        self
    }

    /// The rarer parts, made on first use.
    pub fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    /// Some sources send an empty id where they have none.
    pub(crate) fn drop_empty_ids(&mut self) {
        self.message_id.take_if(|id| id.as_str().is_empty());
        self.response_id.take_if(|id| id.as_str().is_empty());
        match &mut self.block {
            ContentBlock::ToolUse(tool) => tool.id.take_if(|id| id.as_str().is_empty()),
            ContentBlock::ToolResult(result) => result.id.take_if(|id| id.as_str().is_empty()),
            _ => None,
        };
    }

    /// The source's own metadata.
    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.details.as_ref()?.metadata.as_ref()
    }
}

/// Everything an adapter can tell the stream machine.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SourceEvent {
    /// A fragment of content.
    Update(Update),
    /// A sub-agent started. Optional: the first update of a source opens its lane as well.
    LaneOpened(Source),
    /// A sub-agent ended.
    LaneClosed {
        /// Which one.
        source: Source,
        /// How.
        outcome: LaneOutcome,
    },
    /// A named phase of work began.
    StepStarted {
        /// Whose work.
        source: Source,
        /// Its name.
        name: ByteString,
    },
    /// A named phase of work ended.
    StepFinished {
        /// Whose work.
        source: Source,
        /// Its name.
        name: ByteString,
    },
    /// The shared state, whole.
    StateSnapshot {
        /// Who says so.
        source: Source,
        /// The state.
        state: Value,
    },
    /// A change of the shared state.
    StateDelta {
        /// Who says so.
        source: Source,
        /// RFC 6902 operations.
        patch: Vec<Value>,
    },
    /// Tokens spent, reported apart from content. Counts on top of what was reported before.
    Usage {
        /// Who spent them.
        source: Source,
        /// How many.
        usage: Usage,
    },
    /// The agent waits for a human.
    InterruptRequested {
        /// Who asks.
        source: Source,
        /// What for.
        interrupt: Interrupt,
    },
    /// The run ended, as the source says.
    Finished {
        /// How.
        outcome: RunOutcome,
        /// The run's value, where it has one beside its text.
        result: Option<Value>,
    },
    /// The run failed.
    Failed(RunFailure),
    /// Where the agent's work is found again. The host keeps it with the run; it is no content.
    Checkpoint(Checkpoint),
}

impl SourceEvent {
    /// The run succeeded.
    pub fn finished() -> Self {
        Self::Finished { outcome: RunOutcome::Success, result: None }
    }

    /// The run failed, with a stable code for programs and a sentence for people.
    pub fn failed(code: impl Into<ByteString>, message: impl Into<ByteString>) -> Self {
        Self::Failed(RunFailure::new(code, message))
    }

    /// The agent waits for a reply to `interrupt`.
    pub fn interrupt(interrupt: Interrupt) -> Self {
        Self::InterruptRequested { source: Source::root(), interrupt }
    }
}

impl From<Update> for SourceEvent {
    fn from(update: Update) -> Self {
        Self::Update(update)
    }
}
