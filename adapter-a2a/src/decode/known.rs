//! Status texts and messages read by the [`Template`] of an earlier one, without parsing the frame.
//!
//! Frameworks that stream in status texts send the same frame again and again with another message id, another text
//! and another time, and up to a page of metadata around them. The template gives these three; everything else was
//! decoded with the frame that the template was learned from. From there on a text takes the general way
//! (`Decoder::stream_text`), so this module decides nothing about texts.
//!
//! ```text
//! {"statusUpdate": {"taskId": "t", "contextId": "c", "metadata": {…},
//!   "status": {"state": "TASK_STATE_WORKING", "timestamp": "<hole>",
//!              "message": {"messageId": "<hole>", "role": "ROLE_AGENT", "parts": [{"text": "<hole>"}]}}}}
//! ```
//!
//! Invariant: the events are those of the general way (property test in `known/tests.rs`). A frame is learned only if
//! it is a text of a task that works, with one part of plain text, and nothing that has an effect of its own beside
//! it.

use std::borrow::Cow;
use std::sync::Arc;

use aqueduct_core::{Metadata, Source, SourceEvent};

use super::sink::Sink;
use super::speech::{Framework, StatusText};
use super::{Decoder, metadata, shared};
use crate::mark::Mark;
use crate::wire::template::{Hole, HoleKind, Template};
use crate::wire::{Frame, Message, Part, Raw, StateClass, StreamItem, TaskState, Text};

/// Templates that are known at once: an agent and one of its sub-agents may speak in turns.
const KNOWN: usize = 2;
/// Bytes of a frame without its holes. Google ADK sends about 900.
const KNOWN_BYTES: usize = 4 * 1024;

/// The roles of the holes.
const ROLES: usize = 3;
/// The index of each role.
const TEXT: usize = 0;
const MESSAGE_ID: usize = 1;
const TIME: usize = 2;

/// The templates of the latest texts of a stream, in the order they were learned.
#[derive(Debug, Clone, Default)]
pub(super) struct Templates(Vec<Shape>);

/// A template, and what frames of it have in common.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    template: Template,
    fixed: Fixed,
}

/// What is decoded of a frame beside its holes.
#[derive(Debug, Clone)]
struct Fixed {
    /// Set for a message that is not a status.
    is_bare: bool,
    /// The metadata of the message, as JSON text and parsed.
    raw: Option<Raw<'static>>,
    own: Option<Arc<Metadata>>,
    /// The metadata of the event.
    beside: Option<Arc<Metadata>>,
    /// The framework that the metadata name.
    framework: Framework<'static>,
    /// The sub-agent whose text it is.
    speaker: Option<Source>,
}

impl Fixed {
    /// Returns the text that a frame has between these.
    fn with<'a>(
        &'a self,
        text: Cow<'a, str>,
        message_id: Cow<'a, str>,
        time: Cow<'a, str>,
    ) -> StatusText<'a> {
        let message = Message {
            message_id: Text(message_id),
            parts: vec![Part::text(Text(text))],
            metadata: self.raw.as_ref().map(Raw::borrowed),
            ..Message::default()
        };
        StatusText {
            message,
            own: self.own.clone(),
            beside: self.beside.clone(),
            framework: self.framework.borrowed(),
            time: Text(time),
            live: true,
            is_bare: self.is_bare,
        }
    }
}

impl Decoder {
    /// Handles a frame if it is of a known template: a text of a task that works, or a message on its stream. Returns
    /// `false`, without effect, if it is not.
    pub(crate) fn handle_known(&mut self, frame: Frame<'_>, out: &mut Vec<SourceEvent>) -> bool {
        if self.known.0.is_empty() || self.settled.is_some() || self.unread.is_some() {
            return false;
        }
        // An `event: error` is one whatever its payload looks like.
        if frame.event == Some("error") {
            return false;
        }
        // Moved out and back, so that a text can borrow what is fixed.
        let known = std::mem::take(&mut self.known);
        let mut sink = Sink::new(frame.data, out);
        let is_known = known.0.iter().any(|shape| self.handle_shape(shape, frame.data, &mut sink));
        self.known = known;
        is_known
    }

    /// Handles a frame if it is of that shape. Returns `false`, without effect, if it is not.
    fn handle_shape(&mut self, shape: &Shape, data: &str, sink: &mut Sink<'_>) -> bool {
        let Some(contents) = shape.template.read::<ROLES>(data) else { return false };
        let [Some(text), Some(message_id), Some(time)] = contents.map(|content| content.text(data)) else {
            return false;
        };
        let mut status_text = shape.fixed.with(text, message_id, time);
        if status_text.is_bare {
            self.message_on_task(&mut status_text, sink);
        } else {
            self.work_on(Some(&mut status_text), shape.fixed.speaker.clone(), sink);
        }
        true
    }

    /// Returns the template of an item, if further frames of it can be read here. Call it before the item is handled,
    /// and [`learn`](Self::learn) afterwards.
    pub(super) fn lesson(&self, item: &StreamItem<'_>, data: &str) -> Option<Shape> {
        // Items of gRPC have no text.
        if data.is_empty() {
            return None;
        }
        let (message, time, event) = match item {
            StreamItem::Status(update) if is_plain_state(&update.status.state) => {
                let is_plain = update.extra.is_empty() && update.status.extra.is_empty();
                let message = update.status.message.as_ref().filter(|_| is_plain)?;
                (message, update.status.timestamp.as_str(), update.metadata.as_ref())
            }
            StreamItem::Message(message) => (message, "", None),
            _ => return None,
        };
        let is_marked = self.reads_marks() && Mark::read(message.metadata.as_ref()).is_some();
        if self.is_first || self.memory.task_id.is_empty() || is_marked {
            return None;
        }
        let text = plain_text(message)?;
        let holes = [(text, TEXT), (message.message_id.as_str(), MESSAGE_ID), (time, TIME)];
        let holes = holes.into_iter().filter(|(content, _)| !content.is_empty());
        let holes = holes.map(|(content, role)| hole(data, content, role)).collect::<Option<Vec<Hole>>>()?;
        let mut beside = Metadata::new();
        metadata::put_event(&mut beside, event);
        if event.is_some_and(|event| self.has_effect(event)) {
            return None;
        }
        let is_bare = matches!(item, StreamItem::Message(_));
        let raw = message.metadata.clone().map(Raw::into_owned);
        let own = raw.as_ref().and_then(Raw::to_object).map(Arc::new);
        let framework = Framework::read(raw.as_ref(), Some(&beside));
        let fixed = Fixed { is_bare, raw, own, beside: shared(beside), framework, speaker: None };
        Some(Shape { template: Template::new(data, holes, KNOWN_BYTES, String::new())?, fixed })
    }

    /// Keeps the template of an item that was handled; beyond [`KNOWN`] templates the oldest is dropped. No effect
    /// once the turn has settled.
    pub(super) fn learn(&mut self, lesson: Option<Shape>) {
        let Some(mut shape) = lesson.filter(|_| self.settled.is_none()) else { return };
        if !shape.fixed.is_bare {
            let none = Metadata::new();
            let beside = shape.fixed.beside.clone();
            // The item has set the agent's own name, so every further answer is the same.
            shape.fixed.speaker = self.speaker(shape.fixed.raw.as_ref(), beside.as_deref().unwrap_or(&none));
        }
        if self.known.0.len() >= KNOWN {
            self.known.0.remove(0);
        }
        self.known.0.push(shape);
    }

    /// Returns the number of templates that were learned.
    #[cfg(test)]
    pub(crate) fn templates(&self) -> usize {
        self.known.0.len()
    }

    /// Returns `true` if the metadata of an event reports tokens or changes the shared state.
    fn has_effect(&self, event: &Raw<'_>) -> bool {
        let Some(event) = event.to_object() else { return false };
        let recognisers = &self.config.recognisers;
        recognisers.usage(&event).is_some() || recognisers.state(&event).is_some()
    }
}

/// Returns `true` for a known state of a task that works.
fn is_plain_state(state: &TaskState<'_>) -> bool {
    state.class() == StateClass::Active && !matches!(state, TaskState::Other(_))
}

/// Returns the text of a message that has one part of plain text and nothing else that could have an effect. Returns
/// `None` for every other message.
fn plain_text<'m>(message: &'m Message<'_>) -> Option<&'m str> {
    let [part] = message.parts.as_slice() else { return None };
    let text = part.as_text()?;
    let is_plain = message.extensions.is_empty()
        && message.reference_task_ids.is_empty()
        && message.extra.is_empty()
        && !message.parts_as_content
        && *part == Part::text(Text::new(text));
    (is_plain && !text.is_empty()).then_some(text)
}

/// Returns the hole of a content that is a slice of the frame. Returns `None` for a content with escapes, which is a
/// copy: its place in the frame is not known.
fn hole(data: &str, content: &str, role: usize) -> Option<Hole> {
    let start = content.as_ptr().addr().checked_sub(data.as_ptr().addr())?;
    let place = start..start + content.len();
    (data.get(place.clone())? == content).then_some(Hole { place, kind: HoleKind::Text, role })
}

#[cfg(test)]
mod tests;
