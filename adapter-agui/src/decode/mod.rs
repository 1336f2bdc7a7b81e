//! AG-UI as a source: decodes the events of an upstream agent into canonical source events.
//!
//! A [`Decoder`] only decodes payloads (SSE data or protobuf frames, 1.0 and 0.0.x): the stream machine opens, closes and
//! repairs blocks. For a stream without a terminal event the decoder emits no end, and the stream machine fails the run.
//!
//! A *tag* is the `subagentRunId` of an event: it selects the lane, and an event without a tag belongs to the root lane.
//!
//! | AG-UI | canonical |
//! |---|---|
//! | `TEXT_MESSAGE_*`, `_CHUNK` | text, each message with its id; on the main track, or on a track of its own while another message of the lane is open |
//! | `REASONING_MESSAGE_*`, `THINKING_*` | thinking; inside a reasoning span the end is held until the span ends, because the encrypted form may arrive late |
//! | a thinking message of one delta whose text equals that of a thinking block which ended since the last tool call | nothing (`repeat.rs`) |
//! | `REASONING_ENCRYPTED_VALUE` | the encrypted form of a thinking block; for another message or a call a custom block `SEALED` |
//! | `TOOL_CALL_*` | tool use; `_RESULT`: tool result |
//! | `SUBAGENT_*` | lanes; content with an unknown tag opens a lane as well |
//! | `STEP_*`, `STATE_*` | steps, state snapshots and state deltas |
//! | `ACTIVITY_*`, `RAW`, unknown events | custom blocks under their well-known names |
//! | `CUSTOM` | a custom block under its own name; `on_interrupt` is an interrupt as well, if the run then finishes without an outcome or with success |
//! | `MESSAGES_SNAPSHOT` | nothing if it only restates streamed or input content, under any ids; otherwise the new or corrected content (`restate.rs`) |
//! | `RUN_FINISHED`, `RUN_ERROR` | usage, interrupts, then the reported end; a code `cancelled` is a cancellation |

mod aliases;
mod compare;
mod content;
mod frame;
mod frames;
mod interrupt;
mod legacy;
mod open;
mod repeat;
mod restate;
mod run;
mod seen;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use aqueduct_core::update::Details;
use aqueduct_core::{ByteString, ContentBlock, Metadata, SourceEvent, Update, wellknown};
use foldhash::fast::RandomState;
use serde_json::{Value, json};

pub(crate) use content::output as tool_output;
pub use frame::read_payload;
pub use frames::ProtoFrames;

use crate::chunks::ChunkExpander;
use crate::config::Dialect;
use crate::error::Error;
use crate::wire::{Base, Event, RunAgentInput};
use open::{Call, EndedText, Key, Lanes, Message};
use seen::Seen;

/// The source name of events without canonical form.
pub(crate) const SOURCE_NAME: &str = "ag-ui";

/// The most `on_interrupt` events of one run that become interrupts; further ones are only custom blocks.
const MAX_INTERRUPTS: usize = 256;

aqueduct_core::with_defaults! {
    /// Decodes the events of one run into source events.
    ///
    /// # Examples
    ///
    /// ```
    /// use aqueduct_adapter_agui::decode::Decoder;
    /// use aqueduct_core::SourceEvent;
    ///
    /// let mut decoder = Decoder::new();
    /// let payload = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hello"}"#;
    /// decoder.handle_payload(&payload.into())?;
    /// assert!(matches!(decoder.poll_event(), Some(SourceEvent::Update(_))));
    /// # Ok::<(), aqueduct_adapter_agui::error::Error>(())
    /// ```
    #[derive(Debug)]
    pub struct Decoder {
        /// Sources of both dialects are accepted, so chunks follow the more lenient one.
        chunks: ChunkExpander = ChunkExpander::new(Dialect::V0_0_59),
        thinking: legacy::Thinking,
        lanes: Lanes,
        open: HashMap<Key, Message, RandomState>,
        calls: HashMap<ByteString, Call, RandomState>,
        /// Ended texts that have a tag or were not on the main track, for the tool calls that belong to them.
        ended_texts: HashMap<ByteString, EndedText, RandomState>,
        seen: Seen,
        aliases: aliases::Aliases,
        /// Set once a snapshot grouped text and calls differently from the events.
        regroups: bool,
        /// The `on_interrupt` events so far: tag, value, and the framework's own event (`rawEvent`).
        on_interrupts: Vec<(Option<ByteString>, Value, Option<Value>)>,
        /// The buffer for expanded chunk events; empty between calls.
        expanded: Vec<Event>,
        /// Decoded events that were not polled yet.
        out: VecDeque<SourceEvent>,
        ended: bool,
    }
}

impl Decoder {
    /// Returns a decoder for a run whose input is not known. See [`with_input`](Self::with_input).
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the input of the run: messages and calls of the input that the source repeats are not emitted again.
    pub fn with_input(mut self, input: &RunAgentInput) -> Self {
        self.seen.declare_input(input);
        self
    }

    /// Decodes one JSON payload.
    ///
    /// # Errors
    ///
    /// Returns an error if the payload is not an event. If [`Error::can_continue`] returns `true`, the next payload can be
    /// decoded.
    pub fn handle_payload(&mut self, payload: &ByteString) -> Result<(), Error> {
        self.handle_event(read_payload(payload)?)
    }

    /// Decodes one JSON payload from bytes. Text and ids of the source events are slices of `payload`, not copies.
    ///
    /// # Errors
    ///
    /// As [`handle_payload`](Self::handle_payload).
    pub fn handle_bytes(&mut self, payload: bytes::Bytes) -> Result<(), Error> {
        let payload = ByteString::try_from(payload).map_err(|_| Error::Utf8)?;
        self.handle_payload(&payload)
    }

    /// Decodes one protobuf frame, given without its length prefix.
    ///
    /// # Errors
    ///
    /// As [`handle_payload`](Self::handle_payload).
    #[cfg(feature = "proto")]
    pub fn handle_frame(&mut self, frame: bytes::Bytes) -> Result<(), Error> {
        self.handle_event(crate::proto::decode_event(frame)?)
    }

    /// Handles one wire event.
    ///
    /// # Errors
    ///
    /// As [`handle_payload`](Self::handle_payload).
    pub fn handle_event(&mut self, event: Event) -> Result<(), Error> {
        if self.ended {
            return Err(Error::AfterEnd(event.kind().to_owned()));
        }
        let event = self.thinking.upgrade(event)?;
        if self.chunks.passes(&event) {
            self.apply(event);
            return Ok(());
        }
        let mut expanded = std::mem::take(&mut self.expanded);
        let result = self.chunks.handle_event(event, &mut expanded);
        expanded.drain(..).for_each(|event| self.apply(event));
        self.expanded = expanded;
        result
    }

    /// Returns the next source event. Returns `None` until more input arrives.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        self.out.pop_front()
    }

    /// Returns `true` once the source has reported the end of the run.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Decodes one expanded event: custom content here, other content in `content.rs`, the rest in `run.rs`.
    fn apply(&mut self, event: Event) {
        match event {
            Event::TextMessageStart(_)
            | Event::TextMessageContent(_)
            | Event::TextMessageEnd(_)
            | Event::ReasoningStart(_)
            | Event::ReasoningEnd(_)
            | Event::ReasoningMessageStart(_)
            | Event::ReasoningMessageContent(_)
            | Event::ReasoningMessageEnd(_)
            | Event::ReasoningEncryptedValue(_)
            | Event::ToolCallStart(_)
            | Event::ToolCallArgs(_)
            | Event::ToolCallEnd(_)
            | Event::ToolCallResult(_) => self.apply_content(event),
            Event::ActivitySnapshot(activity) => {
                let mut value = Metadata::new();
                value.insert("type".to_owned(), Value::from(&*activity.activity_type));
                value.insert("content".to_owned(), Value::Object(activity.content));
                if let Some(replace) = activity.replace {
                    value.insert("replace".to_owned(), Value::Bool(replace));
                }
                let value = Value::Object(value);
                let tag = activity.subagent_run_id.as_ref();
                self.seen.add_card(&activity.message_id, tag);
                self.custom(wellknown::ACTIVITY, value, Some(&activity.message_id), tag, activity.base);
            }
            Event::ActivityDelta(activity) => {
                let value = json!({ "type": &*activity.activity_type, "patch": activity.patch });
                let card = self.seen.card_tag(&activity.message_id);
                let tag = activity.subagent_run_id.or(card);
                self.custom(
                    wellknown::ACTIVITY_DELTA,
                    value,
                    Some(&activity.message_id),
                    tag.as_ref(),
                    activity.base,
                );
            }
            Event::Raw(raw) => {
                let mut value = Metadata::from_iter([("event".to_owned(), raw.event)]);
                if let Some(source) = &raw.source {
                    value.insert("source".to_owned(), Value::from(&**source));
                }
                self.custom(
                    wellknown::RAW,
                    Value::Object(value),
                    None,
                    raw.subagent_run_id.as_ref(),
                    raw.base,
                );
            }
            Event::Custom(custom) => {
                if custom.name == interrupt::ON_INTERRUPT && self.on_interrupts.len() < MAX_INTERRUPTS {
                    let raw = custom.base.raw_event().cloned();
                    self.on_interrupts.push((custom.subagent_run_id.clone(), custom.value.clone(), raw));
                }
                let tag = custom.subagent_run_id.as_ref();
                self.custom_named(custom.name, custom.value, None, tag, custom.base);
            }
            Event::Unknown { value, .. } => {
                let value = json!({ "event": *value, "source": SOURCE_NAME });
                self.custom(wellknown::RAW, value, None, None, Base::default());
            }
            event => self.apply_run(event),
        }
    }

    fn emit(&mut self, event: impl Into<SourceEvent>) {
        self.out.push_back(event.into());
    }

    /// Emits a custom block under a well-known name.
    fn custom(
        &mut self,
        name: &'static str,
        value: Value,
        id: Option<&ByteString>,
        tag: Option<&ByteString>,
        base: Base,
    ) {
        self.custom_named(ByteString::from_static(name), value, id, tag, base);
    }

    /// Emits a custom block under any name, on the lane of `tag`.
    fn custom_named(
        &mut self,
        name: ByteString,
        value: Value,
        id: Option<&ByteString>,
        tag: Option<&ByteString>,
        base: Base,
    ) {
        let mut update = Update::new(ContentBlock::custom(name, value)).from_source(&self.lanes.source(tag));
        update.message_id = id.cloned().map(Into::into);
        update.created_at = base.timestamp.map(aqueduct_core::Timestamp);
        update.details = details(base);
        self.emit(update);
    }
}

/// Returns the optional data of an event as metadata: its metadata, its `rawEvent`, and members that the protocol does not
/// declare. Returns `None` if there are none.
fn details(base: Base) -> Option<Box<Details>> {
    let rare = base.rare?;
    let mut metadata: Metadata = rare.metadata.map(Arc::unwrap_or_clone).unwrap_or_default();
    if let Some(raw) = rare.raw_event {
        metadata.entry("rawEvent").or_insert(raw);
    }
    for (name, value) in rare.extra {
        metadata.entry(name).or_insert(value);
    }
    let metadata = Some(metadata).filter(|metadata| !metadata.is_empty())?;
    Some(Box::new(Details { metadata: Some(metadata.into()), ..Details::default() }))
}
