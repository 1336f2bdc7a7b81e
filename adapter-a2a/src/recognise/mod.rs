//! Meaning in what is only words: tool notices, plans, final results, thoughts.
//!
//! A2A has no event for a tool call or a plan, so agents say them in status texts, artifact names and data parts,
//! by conventions of their framework. A [`Recogniser`] knows one convention; [`Recognisers`] is the list that is
//! asked, in order, and the first answer counts. Lists can be replaced, extended or emptied: then everything is
//! plain text, and nothing else changes.
//!
//! A recogniser only *says* what it sees. It keeps no state and emits nothing; starts and ends are related by the
//! decoder.

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

/// What a recogniser saw.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Sign {
    /// A tool was called.
    ToolStarted(ToolStart),
    /// A tool answered or failed.
    ToolEnded(ToolEnd),
    /// What a tool printed; the call it belongs to is the latest.
    ToolOutput(String),
    /// What follows are thoughts, not words for the reader.
    Thinking,
    /// Words on the way, although an artifact says them.
    Intermediate,
    /// The whole answer once more: it is compared with what was streamed, and only what differs is shown.
    Final,
    /// The task has failed, whatever its state will say. Holds what the agent says about it.
    Failure(String),
    /// A plan, as the value of `aqueduct.plan`.
    Plan(Value),
    /// The form that goes with the next question to the user.
    InputForm(Value),
    /// The state that the agent shares with a frontend.
    State(StateChange),
    /// Several things in one part.
    Several(Vec<Sign>),
    /// One more operation on a progress card.
    Card {
        /// The type of the card.
        kind: &'static str,
        /// Which card of that type.
        key: String,
        /// The operation.
        operation: Value,
    },
}

/// A tool was called.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolStart {
    /// The tool.
    pub name: String,
    /// The agent that called it, where that is said.
    pub agent: Option<String>,
    /// The call's id, where there is one.
    pub call_id: Option<String>,
    /// Its arguments as JSON text; empty if they are not told.
    pub arguments: String,
}

/// A tool answered or failed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolEnd {
    /// The tool, where that is said.
    pub name: Option<String>,
    /// The agent that called it, where that is said.
    pub agent: Option<String>,
    /// The call's id, where there is one.
    pub call_id: Option<String>,
    /// True if it failed.
    pub failed: bool,
    /// What it answered; absent if only the fact is told.
    pub output: Option<ToolOutput>,
    /// True if it may be something else that merely ends: then it counts only if such a call is open.
    pub uncertain: bool,
}

/// Knows one convention.
pub trait Recogniser: fmt::Debug + Send + Sync {
    /// What a status text says, notice by notice; nothing if it is not made of notices.
    fn status_text(&self, text: &str, metadata: Option<&Metadata>) -> Vec<Sign> {
        let _ = (text, metadata);
        Vec::new()
    }

    /// What an artifact is, by its name, its description or its metadata. Asked once per artifact, and again
    /// whenever it is replaced.
    fn artifact(&self, artifact: &Artifact<'_>) -> Option<Sign> {
        let _ = artifact;
        None
    }

    /// Whose an artifact is, if an agent passes it on from one of its own.
    fn sub_agent(&self, artifact: &Artifact<'_>) -> Option<String> {
        let _ = artifact;
        None
    }

    /// What a message is, by its metadata: [`Sign::Thinking`] if all its words are thoughts.
    fn message(&self, message: &Message<'_>) -> Option<Sign> {
        let _ = message;
        None
    }

    /// Tokens that the metadata of an event or artifact reports, with what they were spent on: one and the same is
    /// counted once.
    fn usage(&self, metadata: &Metadata) -> Option<(String, Usage)> {
        let _ = metadata;
        None
    }

    /// A change of the shared state that the metadata of an event or artifact tells, with the event that it is of, where
    /// that is known: one and the same is told once.
    fn state(&self, metadata: &Metadata) -> Option<(String, StateChange)> {
        let _ = metadata;
        None
    }

    /// Who speaks by the metadata of an event or artifact (empty if that is not said), and the name of the agent itself
    /// where it is said.
    fn author(&self, metadata: &Metadata) -> Option<(String, Option<String>)> {
        let _ = metadata;
        None
    }

    /// What a part is. Asked for data parts, and for text parts that have metadata.
    fn part(&self, part: &Part<'_>) -> Option<Sign> {
        let _ = part;
        None
    }
}

/// All that are known here, in the order they are asked.
static KNOWN: [&dyn Recogniser; 9] = [
    &AdkMarks,
    &FrontendState,
    &ToolDataParts,
    &ThoughtParts,
    &A2uiParts,
    &LangGraphData,
    &CaipeArtifacts,
    &AgnoEvents,
    &StatusNotices,
];

/// The recognisers that are asked, in order. Cheap to make and to clone: every task has its own.
#[derive(Debug, Clone)]
pub struct Recognisers {
    /// They are asked first.
    own: Arc<[Arc<dyn Recogniser>]>,
    /// Those that are known here.
    known: &'static [&'static dyn Recogniser],
}

impl Default for Recognisers {
    /// All that are known here.
    fn default() -> Self {
        Self { own: Arc::default(), known: &KNOWN }
    }
}

impl Recognisers {
    /// These, in this order.
    pub fn new(list: impl IntoIterator<Item = Arc<dyn Recogniser>>) -> Self {
        Self { own: list.into_iter().collect(), known: &[] }
    }

    /// None: everything is what it looks like.
    pub fn none() -> Self {
        Self::new([])
    }

    /// The same list with one more, which is asked first.
    pub fn with_first(&self, recogniser: impl Recogniser + 'static) -> Self {
        let first = std::iter::once(Arc::new(recogniser) as Arc<dyn Recogniser>);
        Self { own: first.chain(self.own.iter().cloned()).collect(), known: self.known }
    }

    fn all(&self) -> impl Iterator<Item = &dyn Recogniser> {
        self.own.iter().map(|own| &**own).chain(self.known.iter().copied())
    }

    pub(crate) fn status_text(&self, text: &str, metadata: Option<&Metadata>) -> Vec<Sign> {
        let mut answers = self.all().map(|recogniser| recogniser.status_text(text, metadata));
        answers.find(|signs| !signs.is_empty()).unwrap_or_default()
    }

    pub(crate) fn artifact(&self, artifact: &Artifact<'_>) -> Option<Sign> {
        self.all().find_map(|recogniser| recogniser.artifact(artifact))
    }

    pub(crate) fn sub_agent(&self, artifact: &Artifact<'_>) -> Option<String> {
        self.all().find_map(|recogniser| recogniser.sub_agent(artifact))
    }

    pub(crate) fn message(&self, message: &Message<'_>) -> Option<Sign> {
        self.all().find_map(|recogniser| recogniser.message(message))
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
