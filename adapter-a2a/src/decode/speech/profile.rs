//! Profiles of frameworks: how each of them streams, detected from the first token.
//!
//! | framework | mark | status texts and messages |
//! |---|---|---|
//! | Google ADK | event metadata `adk_event_id` | texts of one event id are pieces of one text, then the whole of it |
//! | `LangGraph` | task id `<context>:<run>` | each text is the whole so far |
//! | Agno | message metadata `agno_content_category` | messages of one id are deltas |
//!
//! Strands has no mark before its artifact `agent_response`; its status texts are classified by their white space.

use std::borrow::Cow;

use aqueduct_core::Metadata;
use serde_json::Value;

use super::super::metadata;
use super::utterance::{Reading, Shape};
use crate::config::StreamShape;
use crate::wire::{Message, Raw};

/// Certainly fragments.
pub(super) const PIECES: Reading = Reading::Known(Shape::Pieces);

/// Whether a text that repeats its whole utterance is a restatement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restates {
    /// It is one more fragment that happens to be equal.
    Never,
    /// If it is too long for a coincidence.
    IfLong,
    /// However short it is.
    Always,
}

/// A framework that is known by the metadata of its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Framework<'a> {
    Agno,
    /// Google ADK, with the id of the event.
    Adk(Cow<'a, str>),
    /// Metadata without a known key.
    Unknown,
}

impl Framework<'static> {
    /// Returns the framework that the metadata of a message (`own`) or of its event (`beside`) name.
    pub(in super::super) fn read(own: Option<&Raw<'_>>, beside: Option<&Metadata>) -> Self {
        if has_key(own, "agno_content_category") {
            return Self::Agno;
        }
        beside.and_then(adk_event).map_or(Self::Unknown, |event| Self::Adk(Cow::Owned(event)))
    }
}

impl Framework<'_> {
    /// Returns the same without a copy.
    pub(in super::super) fn borrowed(&self) -> Framework<'_> {
        match self {
            Self::Agno => Framework::Agno,
            Self::Adk(event) => Framework::Adk(Cow::Borrowed(event)),
            Self::Unknown => Framework::Unknown,
        }
    }
}

/// What is known about a status text or message before it is decoded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Marks<'a> {
    pub(super) reading: Reading,
    pub(super) restates: Restates,
    /// Texts of another group belong to another utterance.
    pub(super) group: Option<Cow<'a, str>>,
    /// Set if the text is certainly part of the answer.
    pub(super) is_answer: bool,
}

impl<'a> Marks<'a> {
    fn of(reading: Reading, restates: Restates, is_answer: bool) -> Self {
        Self { reading, restates, group: None, is_answer }
    }

    /// Returns marks without any information.
    pub(super) fn unknown() -> Self {
        Self::of(Reading::Inferred, Restates::IfLong, false)
    }

    /// Returns what the setting or, with `StreamShape::Auto`, the framework's marks determine about a text.
    ///
    /// `task` and `context` are the ids of the task; `is_bare` is set for a message that is not a status. With `Auto`
    /// the first of these decides: the metadata of Agno, a bare message, the form of `LangGraph`'s task ids, the
    /// event id of Google ADK.
    pub(super) fn read(
        setting: StreamShape,
        message: &Message<'a>,
        framework: &Framework<'a>,
        (task, context): (&str, &str),
        is_bare: bool,
    ) -> Self {
        let mut marks = match setting {
            StreamShape::Fragments => Self::of(PIECES, Restates::IfLong, true),
            StreamShape::Deltas => Self::of(PIECES, Restates::Never, true),
            StreamShape::Cumulative => Self::of(Reading::Known(Shape::Grows), Restates::Never, true),
            StreamShape::Answer | StreamShape::Notices => {
                Self::of(Reading::Inferred, Restates::IfLong, is_bare)
            }
            StreamShape::Auto if *framework == Framework::Agno => Self::of(PIECES, Restates::Never, true),
            StreamShape::Auto if is_bare => Self::of(Reading::Together, Restates::IfLong, true),
            StreamShape::Auto if is_langgraph(task, context) => {
                Self::of(Reading::Known(Shape::Grows), Restates::Never, true)
            }
            StreamShape::Auto => match framework {
                Framework::Adk(event) => {
                    Self { group: Some(event.clone()), ..Self::of(PIECES, Restates::Always, false) }
                }
                _ => Self::unknown(),
            },
        };
        if is_bare {
            marks.group = message.message_id.set().map(|_| message.message_id.0.clone());
        }
        marks
    }
}

/// Returns `true` if metadata contain a key. The JSON text is searched without parsing; a value that contains the key
/// matches as well.
fn has_key(metadata: Option<&Raw<'_>>, key: &str) -> bool {
    metadata.is_some_and(|raw| raw.as_str().contains(key))
}

/// Returns `true` for ids of the form that the server of `LangGraph` makes: the id of the task is `<context>:<run>`.
fn is_langgraph(task: &str, context: &str) -> bool {
    let run = task.strip_prefix(context).and_then(|rest| rest.strip_prefix(':'));
    !context.is_empty() && run.is_some_and(|run| !run.is_empty())
}

/// Returns the event id of google-adk, which groups the fragments of one text.
fn adk_event(beside: &Metadata) -> Option<String> {
    let event = beside.get(metadata::EVENT)?.get("adk_event_id")?;
    Value::as_str(event).map(str::to_owned)
}
