//! Recognises meaning in plain text: tool notices, plans, final results, thinking.
//!
//! A2A has no event for a tool call or a plan, so agents send them in status texts, artifact names and data parts, by
//! conventions of their framework. A [`Recogniser`] knows one convention; [`Recognisers`] is the list that is consulted
//! in order, and the first match counts. Lists can be replaced, extended or emptied: then everything is plain text, and
//! nothing else changes.
//!
//! A recogniser keeps no state and emits nothing; the decoder matches starts and ends.

mod a2ui;
mod adk;
mod agno;
mod caipe;
mod data;
mod langgraph;
mod notice;
mod thought;

use std::fmt;
use std::sync::Arc;

use aqueduct_core::block::ToolOutput;
use aqueduct_core::{Metadata, Usage};
use serde_json::Value;

pub use a2ui::A2uiParts;
pub use adk::AdkMarks;
pub use agno::AgnoEvents;
pub use caipe::CaipeArtifacts;
pub use data::ToolDataParts;
pub use langgraph::LangGraphData;
pub use notice::StatusNotices;
pub use thought::ThoughtParts;

use crate::frontend::{FrontendState, StateChange};
use crate::wire::{Artifact, Message, Part};

/// What a recogniser found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Sign {
    /// A tool was called. Emitted as a tool call that is complete.
    ToolStarted(ToolStart),
    /// A tool returned or failed. The decoder matches it to the start.
    ToolEnded(ToolEnd),
    /// Output of a tool, which belongs to the latest call.
    ToolOutput(String),
    /// The text that follows is thinking.
    Thinking,
    /// Intermediate text, although it is an artifact.
    Intermediate,
    /// The complete answer once more: it is compared with the streamed text, and only the difference is shown.
    Final,
    /// The task has failed, whatever its state will be. Contains the agent's message.
    Failure(String),
    /// A plan, as the value of `aqueduct.plan`.
    Plan(Value),
    /// The form of the next interrupt.
    InputForm(Value),
    /// The state that the agent shares with a frontend.
    State(StateChange),
    /// Several signs in one part.
    Several(Vec<Sign>),
    /// One more operation on a progress card.
    Card {
        /// The type of the card.
        kind: &'static str,
        /// The key of the card among those of its type.
        key: String,
        /// The operation.
        operation: Value,
    },
}

/// A tool was called.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolStart {
    /// The name of the tool.
    pub name: String,
    /// The agent that called it, if known.
    pub agent: Option<String>,
    /// The id of the call, if there is one.
    pub call_id: Option<String>,
    /// The arguments as JSON text; empty if they are not reported.
    pub arguments: String,
}

/// A tool returned or failed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolEnd {
    /// The name of the tool, if known.
    pub name: Option<String>,
    /// The agent that called it, if known.
    pub agent: Option<String>,
    /// The id of the call, if there is one.
    pub call_id: Option<String>,
    /// Set if the tool failed.
    pub failed: bool,
    /// The output; absent if only the end is reported.
    pub output: Option<ToolOutput>,
    /// Set if the text may be about something else that ended: then it counts only if such a call is open.
    pub uncertain: bool,
}

/// Recognises one convention. Every method has a default that recognises nothing, so a recogniser implements only
/// what its convention uses.
///
/// Methods may be called for every event: search for a word before parsing JSON.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_a2a::recognise::{Recogniser, Recognisers, Sign};
/// use aqueduct_adapter_a2a::wire::Artifact;
///
/// /// Artifacts named `narration` are not part of the answer.
/// #[derive(Debug)]
/// struct Narration;
///
/// impl Recogniser for Narration {
///     fn artifact(&self, artifact: &Artifact<'_>) -> Option<Sign> {
///         (artifact.name.as_str() == "narration").then_some(Sign::Intermediate)
///     }
/// }
///
/// let recognisers = Recognisers::default().with_first(Narration);
/// # let _ = recognisers;
/// ```
pub trait Recogniser: fmt::Debug + Send + Sync {
    /// Returns the notices of a status text; none if it is not made of notices.
    fn status_text(&self, _text: &str, _metadata: Option<&Metadata>) -> Vec<Sign> {
        Vec::new()
    }

    /// Returns what an artifact is, by its name, its description or its metadata. Called once per artifact, and again
    /// whenever it is replaced.
    fn artifact(&self, _artifact: &Artifact<'_>) -> Option<Sign> {
        None
    }

    /// Returns the sub-agent from which an agent forwards an artifact.
    fn sub_agent(&self, _artifact: &Artifact<'_>) -> Option<String> {
        None
    }

    /// Returns what a message is, by its metadata: [`Sign::Thinking`] if all its text is thinking.
    fn message(&self, _message: &Message<'_>) -> Option<Sign> {
        None
    }

    /// Returns the token usage in the metadata of an event or artifact, with a key: usage with the same key is counted
    /// once.
    fn usage(&self, _metadata: &Metadata) -> Option<(String, Usage)> {
        None
    }

    /// Returns a change of the shared state in the metadata of an event or artifact, with the key of the event, if
    /// known: a change with the same key is emitted once.
    fn state(&self, _metadata: &Metadata) -> Option<(String, StateChange)> {
        None
    }

    /// Returns the speaking agent in the metadata of an event or artifact (empty if unknown), and the name of the agent
    /// itself, if known.
    fn author(&self, _metadata: &Metadata) -> Option<(String, Option<String>)> {
        None
    }

    /// Returns what a part is. Called for data parts, and for text parts that have metadata.
    fn part(&self, _part: &Part<'_>) -> Option<Sign> {
        None
    }
}

/// Recognisers of this crate, in the order in which they are consulted.
#[derive(Debug)]
struct Known {
    all: &'static [&'static dyn Recogniser],
    /// Those of `all` that implement [`Recogniser::status_text`] or [`Recogniser::message`]: both are called for every
    /// text of a stream, and nine calls that recognise nothing are 200 instructions.
    of_texts: &'static [&'static dyn Recogniser],
}

/// All recognisers of this crate. Google ADK's comes before [`ToolDataParts`], so that a request to the user is not
/// taken for a tool call; [`StatusNotices`], which reads any text, comes last.
static KNOWN: Known = Known {
    all: &[
        &AdkMarks,
        &FrontendState,
        &ToolDataParts,
        &ThoughtParts,
        &A2uiParts,
        &LangGraphData,
        &CaipeArtifacts,
        &AgnoEvents,
        &StatusNotices,
    ],
    of_texts: &[&AgnoEvents, &StatusNotices],
};

/// No recogniser of this crate.
static NONE: Known = Known { all: &[], of_texts: &[] };

/// The recognisers that are consulted, in order. Cheap to create and to clone: every task has its own list.
#[derive(Debug, Clone)]
pub struct Recognisers {
    /// Recognisers of the caller, which are consulted first.
    own: Arc<[Arc<dyn Recogniser>]>,
    /// Recognisers of this crate.
    known: &'static Known,
}

impl Default for Recognisers {
    /// Returns all recognisers of this crate.
    fn default() -> Self {
        Self { own: Arc::default(), known: &KNOWN }
    }
}

impl Recognisers {
    /// Returns a list with these recognisers, in this order.
    pub fn new(list: impl IntoIterator<Item = Arc<dyn Recogniser>>) -> Self {
        Self { own: list.into_iter().collect(), known: &NONE }
    }

    /// Returns an empty list: nothing is recognised.
    pub fn none() -> Self {
        Self::new([])
    }

    /// Returns the list with one more recogniser, which is consulted first.
    pub fn with_first(&self, recogniser: impl Recogniser + 'static) -> Self {
        let first = std::iter::once(Arc::new(recogniser) as Arc<dyn Recogniser>);
        Self { own: first.chain(self.own.iter().cloned()).collect(), known: self.known }
    }

    /// Returns the recognisers in the order in which they are consulted: those of the caller first.
    fn all(&self) -> impl Iterator<Item = &dyn Recogniser> {
        self.own.iter().map(|own| &**own).chain(self.known.all.iter().copied())
    }

    /// As [`all`](Self::all), without those that never recognise anything in a text.
    fn of_texts(&self) -> impl Iterator<Item = &dyn Recogniser> {
        self.own.iter().map(|own| &**own).chain(self.known.of_texts.iter().copied())
    }

    /// Returns the notices of the first recogniser that finds any. The other methods do the same for their kind of
    /// input.
    pub(crate) fn status_text(&self, text: &str, metadata: Option<&Metadata>) -> Vec<Sign> {
        let mut answers = self.of_texts().map(|recogniser| recogniser.status_text(text, metadata));
        answers.find(|signs| !signs.is_empty()).unwrap_or_default()
    }

    pub(crate) fn artifact(&self, artifact: &Artifact<'_>) -> Option<Sign> {
        self.all().find_map(|recogniser| recogniser.artifact(artifact))
    }

    pub(crate) fn sub_agent(&self, artifact: &Artifact<'_>) -> Option<String> {
        self.all().find_map(|recogniser| recogniser.sub_agent(artifact))
    }

    pub(crate) fn message(&self, message: &Message<'_>) -> Option<Sign> {
        self.of_texts().find_map(|recogniser| recogniser.message(message))
    }

    pub(crate) fn usage(&self, metadata: &Metadata) -> Option<(String, Usage)> {
        self.all().find_map(|recogniser| recogniser.usage(metadata))
    }

    pub(crate) fn state(&self, metadata: &Metadata) -> Option<(String, StateChange)> {
        self.all().find_map(|recogniser| recogniser.state(metadata))
    }

    pub(crate) fn author(&self, metadata: &Metadata) -> Option<(String, Option<String>)> {
        self.all().find_map(|recogniser| recogniser.author(metadata))
    }

    pub(crate) fn part(&self, part: &Part<'_>) -> Option<Sign> {
        self.all().find_map(|recogniser| recogniser.part(part))
    }
}

#[cfg(test)]
mod tests;
