//! The input of the stream machine: [`Update`] (a fragment of a block, with agent, track and mode) and [`SourceEvent`] (an
//! update or a step in the life of the run).
//!
//! An adapter decodes the source's output and nothing more: it does not open, close or order blocks. The
//! [`StreamContext`](crate::StreamContext) does.

use std::fmt;
use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use crate::Metadata;
use crate::agent::Checkpoint;
use crate::block::ContentBlock;
use crate::id::{MessageId, ResponseId};
use crate::run::{Interrupt, LaneOutcome, RunFailure, RunOutcome, Usage};
use crate::source::Source;

/// Milliseconds since the Unix epoch. Passed in with the data; this crate reads no clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

/// One of several parallel outputs of an agent (interleaved A2A artifacts, for example). Tracks of a lane do not interrupt
/// each other.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Track(Option<Arc<str>>);

impl Track {
    /// The track of agents with a single output.
    pub const MAIN: Self = Self(None);

    /// Copies the name of a track.
    pub fn new(name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        Self((!name.is_empty()).then(|| Arc::from(name)))
    }

    /// Returns the name; empty for [`Track::MAIN`].
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Track").field(&self.as_str()).finish()
    }
}

/// The author of a message, as in a chat history.
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

/// The purpose of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Channel {
    /// The answer of the run.
    #[default]
    Answer,
    /// Work on the way to the answer.
    Intermediate,
}

/// The relation of a fragment to earlier fragments under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Mode {
    /// The fragment follows the earlier ones.
    #[default]
    Append,
    /// The fragment is the whole text so far, including the earlier ones.
    Snapshot,
    /// The fragment is the whole text and replaces the earlier ones.
    Replace,
}

/// One decoded fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The agent that sent the fragment.
    pub source: Source,
    /// The parallel output of the agent that the fragment belongs to.
    pub track: Track,
    /// The content.
    pub block: ContentBlock,
    /// The source's message id.
    pub message_id: Option<MessageId>,
    /// The source's response id.
    pub response_id: Option<ResponseId>,
    /// The time at which the source created the fragment.
    pub created_at: Option<Timestamp>,
    /// The author of the content.
    pub role: Role,
    /// Whether the content is part of the answer or of the work on it.
    pub channel: Channel,
    /// The relation to earlier fragments under the same id.
    pub mode: Mode,
    /// Set if no further fragment of the block follows. The content of this fragment still counts.
    pub last: bool,
    /// Rarely used properties.
    pub details: Option<Box<Details>>,
}

/// The rarely used properties of an [`Update`], boxed so that a text delta stays small and allocates nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    /// Token counts reported with this fragment.
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub finish_reason: Option<ByteString>,
    /// Metadata of the source, unchanged.
    pub metadata: Option<Arc<Metadata>>,
}

impl Update {
    /// Returns a fragment of the root agent's answer.
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

    /// Returns a text fragment of the root agent's answer.
    pub fn text(text: impl Into<ByteString>) -> Self {
        Self::new(ContentBlock::text(text))
    }

    /// Returns a thinking fragment of the root agent.
    pub fn thinking(text: impl Into<ByteString>) -> Self {
        Self::new(ContentBlock::thinking(text))
    }

    /// Returns a whole tool call of the root agent. `arguments` are serialized as JSON.
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

    /// Returns the result of a tool call, as text.
    pub fn tool_result(call_id: impl Into<ByteString>, text: impl Into<ByteString>) -> Self {
        Self::new(ContentBlock::tool_result(call_id, text))
    }

    /// Returns content without a kind of its own, under a name of [`wellknown`](crate::wellknown) or any other name.
    pub fn custom(name: impl Into<ByteString>, value: impl Into<Value>) -> Self {
        Self::new(ContentBlock::custom(name, value.into()))
    }

    /// Sets the agent.
    pub fn from_source(mut self, source: &Source) -> Self {
        self.source = source.clone();
        self
    }

    /// Sets the track.
    pub fn on_track(mut self, track: impl AsRef<str>) -> Self {
        self.track = Track::new(track);
        self
    }

    /// Sets the source's message id.
    pub fn in_message(mut self, id: impl Into<ByteString>) -> Self {
        self.message_id = Some(MessageId::new(id));
        self
    }

    /// Sets the source's response id.
    pub fn in_response(mut self, id: impl AsRef<str>) -> Self {
        self.response_id = Some(ResponseId::new(id));
        self
    }

    /// Sets the reason why the model stopped.
    pub fn finishing(mut self, reason: impl Into<ByteString>) -> Self {
        self.details_mut().finish_reason = Some(reason.into());
        self
    }

    /// Sets the time of creation, in milliseconds since the Unix epoch.
    pub fn at(mut self, milliseconds: i64) -> Self {
        self.created_at = Some(Timestamp(milliseconds));
        self
    }

    /// Marks the fragment as work on the way to the answer.
    pub fn intermediate(mut self) -> Self {
        self.channel = Channel::Intermediate;
        self
    }

    /// Marks the fragment as the whole text so far.
    pub fn snapshot(mut self) -> Self {
        self.mode = Mode::Snapshot;
        self
    }

    /// Marks the fragment as the whole text that replaces the earlier one.
    pub fn replace(mut self) -> Self {
        self.mode = Mode::Replace;
        self
    }

    /// Marks the fragment as the last of its block.
    pub fn last(mut self) -> Self {
        self.last = true;
        self
    }

    /// Returns the rarely used properties, created on first use.
    pub fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    /// Removes empty ids: some sources send an empty id instead of none.
    pub(crate) fn drop_empty_ids(&mut self) {
        self.message_id.take_if(|id| id.as_str().is_empty());
        self.response_id.take_if(|id| id.as_str().is_empty());
        match &mut self.block {
            ContentBlock::ToolUse(tool) => tool.id.take_if(|id| id.as_str().is_empty()),
            ContentBlock::ToolResult(result) => result.id.take_if(|id| id.as_str().is_empty()),
            _ => None,
        };
    }

    /// Returns the metadata of the source, if it has any.
    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.details.as_ref()?.metadata.as_ref()
    }
}

/// An event of a source: the input of the stream machine.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SourceEvent {
    /// A fragment of content.
    Update(Update),
    /// A sub-agent started. Optional: the first update of a source opens its lane as well.
    LaneOpened(Source),
    /// A sub-agent ended.
    LaneClosed {
        /// The sub-agent.
        source: Source,
        /// How it ended.
        outcome: LaneOutcome,
    },
    /// A named phase of work started.
    StepStarted {
        /// The agent that does the work.
        source: Source,
        /// The name of the step.
        name: ByteString,
    },
    /// A named phase of work ended.
    StepFinished {
        /// The agent that did the work.
        source: Source,
        /// The name of the step.
        name: ByteString,
    },
    /// The complete shared state.
    StateSnapshot {
        /// The agent that reported the state.
        source: Source,
        /// The state.
        state: Value,
    },
    /// A change of the shared state.
    StateDelta {
        /// The agent that reported the change.
        source: Source,
        /// RFC 6902 operations.
        patch: Vec<Value>,
    },
    /// Token counts reported without content. They are added to earlier reports.
    Usage {
        /// The agent that spent the tokens.
        source: Source,
        /// The token counts.
        usage: Box<Usage>,
    },
    /// The agent waits for a human.
    InterruptRequested {
        /// The agent that waits.
        source: Source,
        /// The question to the human.
        interrupt: Box<Interrupt>,
    },
    /// The run ended without failure.
    Finished {
        /// How the run ended.
        outcome: RunOutcome,
        /// The run's value, where it has one beside its text.
        result: Option<Value>,
    },
    /// The run failed.
    Failed(RunFailure),
    /// The position of the agent's work, for a takeover. The host stores it with the run; it is not content.
    Checkpoint(Checkpoint),
    /// The position of the source in its own stream, after the events before it, in a form that only the source reads. The
    /// host stores the events since the last position together with this one, so that a takeover continues exactly
    /// after it ([`Takeover::position`](crate::agent::Takeover::position)). A source that sends positions sends null before
    /// its first content, and is ready with the next one after every event. It is not content.
    Position(Value),
}

impl SourceEvent {
    /// Returns the successful end of a run without return value.
    pub fn finished() -> Self {
        Self::Finished { outcome: RunOutcome::Success, result: None }
    }

    /// Returns the failure of a run, with a stable code for programs and a message for people.
    pub fn failed(code: impl Into<ByteString>, message: impl Into<ByteString>) -> Self {
        Self::Failed(RunFailure::new(code, message))
    }

    /// Returns an interrupt of the root agent.
    pub fn interrupt(interrupt: Interrupt) -> Self {
        Self::InterruptRequested { source: Source::root(), interrupt: Box::new(interrupt) }
    }
}

// Every event of a run is moved through the queues of its source and its driver at the size of the largest variant. A member
// that makes it larger belongs into a box.
const _: () = assert!(size_of::<SourceEvent>() <= 152);

impl From<Update> for SourceEvent {
    fn from(update: Update) -> Self {
        Self::Update(update)
    }
}
