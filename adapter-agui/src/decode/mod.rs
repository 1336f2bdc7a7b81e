//! AG-UI as a source: the events of an agent upstream, as canonical source events.
//!
//! A [`Decoder`] takes payloads (SSE data or protobuf frames, 1.0 and 0.0.x) and says what the source said, nothing
//! more: it does not open, close or repair blocks. A stream that ends without a terminal event gives no end from
//! here; the stream machine makes a failure of it.
//!
//! | AG-UI | canonical |
//! |---|---|
//! | `TEXT_MESSAGE_*`, `_CHUNK` | text, each message with its id; on the main track, or its own where messages interleave |
//! | `REASONING_MESSAGE_*`, `THINKING_*` | thinking; the end waits for the end of the span, because the sealed form may come late |
//! | a thought that repeats an ended one since the last tool call, word for word, as one delta | nothing (`repeat.rs`) |
//! | `REASONING_ENCRYPTED_VALUE` | the sealed form of a thinking block; that of another message or of a call as `SEALED` |
//! | `TOOL_CALL_*` | tool use; `_RESULT`: tool result |
//! | `SUBAGENT_*` | lanes; a tag alone is a lane as well |
//! | `STEP_*`, `STATE_*` | the same |
//! | `ACTIVITY_*`, `RAW`, unknown events | custom blocks under their well-known names |
//! | `CUSTOM` | a custom block under its own name; `on_interrupt` before an end without outcome is a question, too |
//! | `MESSAGES_SNAPSHOT` | nothing if it only restates what was streamed or sent in, under whatever ids; else what is new or corrected (`restate.rs`) |
//! | `RUN_FINISHED`, `RUN_ERROR` | usage, interrupts, then the end as the source says it; a code `cancelled` is a cancellation |

mod aliases;
mod compare;
mod content;
mod frame;
mod frames;
mod legacy;
mod open;
mod question;
mod repeat;
mod restate;
mod run;
mod seen;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use aqueduct_core::update::Details;
use aqueduct_core::{ByteString, ContentBlock, Metadata, SourceEvent, Track, Update, wellknown};
use foldhash::fast::RandomState;
use serde_json::{Value, json};

pub(crate) use content::output as tool_output;
pub use frame::read_payload;
pub use frames::ProtoFrames;

use crate::chunks::ChunkExpander;
use crate::config::Dialect;
use crate::error::DecodeError;
use crate::wire::{Base, Event, RunAgentInput};
use open::{Call, Key, Lanes, Message};
use seen::Seen;

/// Where an event that has no canonical form comes from.
const SOURCE_NAME: &str = "ag-ui";

/// How many `on_interrupt` events of one run are taken for questions; the stream machine has its own limit.
const MAX_ASKED: usize = 256;

/// Turns the events of one run into source events.
#[derive(Debug)]
pub struct Decoder {
    chunks: ChunkExpander,
    thinking: legacy::Thinking,
    lanes: Lanes,
    open: HashMap<Key, Message, RandomState>,
    calls: HashMap<ByteString, Call, RandomState>,
    /// Tracks of ended texts that were not on the main one, for the tool calls that belong to them.
    tracks: HashMap<ByteString, Track, RandomState>,
    seen: Seen,
    aliases: aliases::Aliases,
    /// True once a snapshot grouped text and calls otherwise than the events did.
    regroups: bool,
    /// Questions of `on_interrupt` events: tag, value, the framework's event.
    asked: Vec<(Option<ByteString>, Value, Option<Value>)>,
    expanded: Vec<Event>,
    out: VecDeque<SourceEvent>,
    ended: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            // Sources of both dialects are understood, so chunks are taken as the more forgiving one does.
            chunks: ChunkExpander::new(Dialect::V0_0_59),
            thinking: legacy::Thinking::default(),
            lanes: Lanes::default(),
            open: HashMap::default(),
            calls: HashMap::default(),
            tracks: HashMap::default(),
            seen: Seen::default(),
            aliases: aliases::Aliases::default(),
            regroups: false,
            asked: Vec::new(),
            expanded: Vec::new(),
            out: VecDeque::new(),
            ended: false,
        }
    }
}

impl Decoder {
    /// A decoder for a run of which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares what was sent to the agent: a restated history then adds nothing.
    pub fn with_input(mut self, input: &RunAgentInput) -> Self {
        self.seen.know_input(input);
        self
    }

    /// Takes one JSON payload.
    ///
    /// # Errors
    ///
    /// An error if the payload is no event; the stream can go on with the next one where the error says so.
    pub fn handle_payload(&mut self, payload: &ByteString) -> Result<(), DecodeError> {
        self.handle_event(read_payload(payload)?)
    }

    /// Takes one JSON payload as bytes. Text and ids that leave share them.
    ///
    /// # Errors
    ///
    /// As [`handle_payload`](Self::handle_payload).
    pub fn handle_bytes(&mut self, payload: bytes::Bytes) -> Result<(), DecodeError> {
        let payload = ByteString::try_from(payload).map_err(|_| DecodeError::Utf8)?;
        self.handle_payload(&payload)
    }

    /// Takes one protobuf frame, without its length.
    ///
    /// # Errors
    ///
    /// As [`handle_payload`](Self::handle_payload).
    #[cfg(feature = "proto")]
    pub fn handle_frame(&mut self, frame: bytes::Bytes) -> Result<(), DecodeError> {
        self.handle_event(crate::proto::decode_event(frame)?)
    }

    /// Takes one event.
    ///
    /// # Errors
    ///
    /// As [`handle_payload`](Self::handle_payload).
    pub fn handle_event(&mut self, event: Event) -> Result<(), DecodeError> {
        if self.ended {
            return Err(DecodeError::AfterEnd(event.kind().to_owned()));
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
        Ok(result?)
    }

    /// The next source event; none until more input arrives.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        self.out.pop_front()
    }

    /// True once the source has said how the run ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

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
                self.seen.hear_card(&activity.message_id, tag);
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
                if custom.name == question::ON_INTERRUPT && self.asked.len() < MAX_ASKED {
                    let raw = custom.base.raw_event().cloned();
                    self.asked.push((custom.subagent_run_id.clone(), custom.value.clone(), raw));
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

/// What an event said beside its content: its metadata, the framework's event, members that no rule knows.
fn details(base: Base) -> Option<Box<Details>> {
    let rare = base.rare?;
    let mut metadata: Metadata = rare.metadata.unwrap_or_default();
    if let Some(raw) = rare.raw_event {
        metadata.entry("rawEvent").or_insert(raw);
    }
    for (name, value) in rare.extra {
        metadata.entry(name).or_insert(value);
    }
    let metadata = Some(metadata).filter(|metadata| !metadata.is_empty())?;
    Some(Box::new(Details { metadata: Some(metadata.into()), ..Details::default() }))
}
