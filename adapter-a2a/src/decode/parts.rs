//! Decodes parts into updates: text, thinking, files, data, tool calls, and unknown parts.
//!
//! | part | becomes |
//! |---|---|
//! | text | a text block; thinking if its metadata mark it so |
//! | bytes, address | custom block `aqueduct.file` |
//! | data that a recogniser knows | a tool call or result, a plan, state, a card, the form of the next interrupt |
//! | other data | custom block `aqueduct.data` |
//! | unknown | custom block `aqueduct.raw`, with all members |
//!
//! Metadata, media type, file name and unknown members of a text or data part become metadata of its update; so do
//! metadata and unknown members of a file. The metadata of the message or artifact around the parts go to the first update only.

use aqueduct_core::fingerprint::hash_text;
use aqueduct_core::{
    ByteString, Channel, ContentBlock, MessageId, Metadata, Mode, Role, Source, Timestamp, Track, Update,
    wellknown,
};
use serde_json::{Map, Value, json};

use super::sink::Sink;
use super::{Decoder, metadata};
use crate::recognise::Sign;
use crate::wire::{Content, Dialect, Part, Text};

/// The place of the parts of one message or artifact in the stream: agent, message, track and channel.
pub(super) struct UpdateTarget {
    /// The agent, or the sub-agent that an artifact or status names.
    pub(super) source: Source,
    /// The id of the message or the key of the artifact. Text with the same id is joined by the stream machine.
    pub(super) message_id: ByteString,
    /// The main track for messages; each artifact has its own, because artifacts grow in parallel.
    pub(super) track: Track,
    pub(super) channel: Channel,
    /// The time of the status. Artifacts have none.
    pub(super) created_at: Option<Timestamp>,
    /// Metadata for the first update, which takes them out of here.
    pub(super) metadata: Metadata,
    /// Set if no more text follows.
    pub(super) last: bool,
}

/// The member of a card that contains the operations on it, as frontends of A2UI expect it.
const OPERATIONS: &str = "a2ui_operations";

impl Decoder {
    /// Returns an update with agent, message id, track, channel and time of a place. Its mode is `Append`.
    pub(super) fn update_at(&self, place: &UpdateTarget, block: ContentBlock) -> Update {
        Update {
            source: place.source.clone(),
            track: place.track.clone(),
            block,
            message_id: Some(MessageId::new(place.message_id.clone())),
            response_id: self.response_id(),
            created_at: place.created_at,
            role: Role::Assistant,
            channel: place.channel,
            mode: Mode::Append,
            last: false,
            details: None,
        }
    }

    /// Emits every part in its order, text as consecutive fragments. `skip_text` omits text that was recognised as
    /// notices.
    ///
    /// If the place is the last of its text, the last text part ends the block.
    pub(super) fn emit_parts(
        &mut self,
        parts: Vec<Part<'_>>,
        place: &mut UpdateTarget,
        skip_text: bool,
        sink: &mut Sink<'_>,
    ) {
        let is_text = |part: &Part<'_>| part.as_text().is_some() && !skip_text;
        let mut texts_left = parts.iter().filter(|part| is_text(part)).count();
        let mut parts = parts.into_iter().peekable();
        while let Some(part) = parts.next() {
            if !is_text(&part) {
                if part.as_text().is_none() {
                    self.emit_other(&part, place, sink);
                }
                continue;
            }
            texts_left -= 1;
            // The metadata of a thinking part are its mark, and are not passed on.
            let thinking = self.is_thought(&part);
            let mut beside = std::mem::take(&mut place.metadata);
            if !thinking {
                metadata::put_part(&mut beside, &part);
            }
            let Content::Text(text) = part.content else { continue };
            // Texts around a file are not joined: the text before it ends, so that the file stands between two
            // blocks.
            let is_cut = parts.peek().is_some_and(|next| next.as_text().is_none());
            let last = (place.last && texts_left == 0) || is_cut;
            self.emit_words(sink.share(text), thinking, Mode::Append, last, beside, place, sink);
        }
    }

    /// Emits the complete text of an artifact or message again: the stream machine shows only the difference.
    ///
    /// The text parts are joined, because the machine compares whole texts; thinking and text are two blocks,
    /// thinking first. Other parts are not emitted here.
    pub(super) fn emit_whole(
        &mut self,
        parts: &[Part<'_>],
        mode: Mode,
        place: &mut UpdateTarget,
        sink: &mut Sink<'_>,
    ) {
        for thinking in [true, false] {
            let mut texts = parts
                .iter()
                .filter(|part| part.as_text().is_some() && self.is_thought(part) == thinking)
                .filter_map(Part::as_text)
                .peekable();
            let Some(first) = texts.next() else { continue };
            let whole = if texts.peek().is_none() {
                sink.share_str(first)
            } else {
                std::iter::once(first).chain(texts).map(Text::as_str).collect::<String>().into()
            };
            let beside = std::mem::take(&mut place.metadata);
            self.emit_words(whole, thinking, mode, place.last, beside, place, sink);
        }
    }

    /// Emits text or thinking, with the metadata of its first fragment.
    #[expect(clippy::too_many_arguments, reason = "one fragment has these many sides")]
    pub(super) fn emit_words(
        &mut self,
        text: ByteString,
        thinking: bool,
        mode: Mode,
        last: bool,
        beside: Metadata,
        place: &UpdateTarget,
        sink: &mut Sink<'_>,
    ) {
        if thinking {
            self.note_thought(&text);
        } else {
            self.note_answer(place.channel, &text);
        }
        let block = if thinking { ContentBlock::thinking(text) } else { ContentBlock::text(text) };
        sink.push(Update { mode, last, details: metadata::details(beside), ..self.update_at(place, block) });
    }

    /// Records that the answer was shown, if the text is not blank. A task without any is completed with its last
    /// status text.
    pub(super) fn note_answer(&mut self, channel: Channel, text: &str) {
        self.answer_shown =
            self.answer_shown || (channel == Channel::Answer && !text.trim_start().is_empty());
    }

    /// Emits a part that is not text: as what a recogniser found in it, otherwise as custom content.
    pub(super) fn emit_other(&mut self, part: &Part<'_>, place: &mut UpdateTarget, sink: &mut Sink<'_>) {
        match self.config.recognisers.part(part) {
            Some(Sign::Several(signs)) => {
                for sign in signs {
                    if let Sign::Card { kind, key, operation } = &sign {
                        self.emit_card(kind, key, operation, place, sink);
                        continue;
                    }
                    // A call without an id of its own gets one that no other part of the message has.
                    let id = ByteString::from(format!("{}#{}", place.message_id, self.memory.next()));
                    let beside = std::mem::take(&mut place.metadata);
                    self.emit_sign(sign, "", &id, beside, place, sink);
                }
            }
            Some(
                sign @ (Sign::ToolStarted(_)
                | Sign::ToolEnded(_)
                | Sign::ToolOutput(_)
                | Sign::Plan(_)
                | Sign::InputForm(_)),
            ) => {
                let id = ByteString::from(format!("{}#{}", place.message_id, self.memory.next()));
                let mut beside = std::mem::take(&mut place.metadata);
                metadata::put_own(&mut beside, part);
                self.emit_sign(sign, "", &id, beside, place, sink);
            }
            Some(Sign::State(change)) => self.emit_state(change, sink),
            Some(Sign::Card { kind, key, operation }) => self.emit_card(kind, &key, &operation, place, sink),
            _ => self.emit_custom(part, place, sink),
        }
    }

    /// Emits a part without a kind of its own as custom content, with all of its members:
    ///
    /// ```text
    /// {"url": "https://x/a.png", "mediaType": "image/png"} ──► aqueduct.file, the same members
    /// {"data": [1, 2]}                                     ──► aqueduct.data [1, 2]
    /// {"kind": "video", "frames": 3}                       ──► aqueduct.raw {"event": <the part>, "source": "a2a"}
    /// ```
    fn emit_custom(&mut self, part: &Part<'_>, place: &mut UpdateTarget, sink: &mut Sink<'_>) {
        let mut beside = std::mem::take(&mut place.metadata);
        let (name, value) = match &part.content {
            Content::Bytes(data) => (wellknown::FILE, file_value("data", data, part)),
            Content::Url(url) => (wellknown::FILE, file_value("url", url, part)),
            Content::Data(raw) => (wellknown::DATA, raw.to_value()),
            Content::Text(_) | Content::Unknown(_) => {
                (wellknown::RAW, json!({"event": part.to_json(Dialect::V1), "source": "a2a"}))
            }
        };
        // Name and media type of a file are in its value; those of data have no other place than the metadata.
        // Unknown parts contain theirs.
        match &part.content {
            Content::Data(_) => metadata::put_part(&mut beside, part),
            Content::Unknown(_) => {}
            _ => metadata::put_own(&mut beside, part),
        }
        self.answer_shown |= place.channel == Channel::Answer;
        let mut update = self.update_at(place, ContentBlock::custom(ByteString::from_static(name), value));
        metadata::attach(&mut update, beside);
        sink.push(update);
    }

    /// Emits operations on a card: the first creates it, the others are added to it as a JSON patch.
    ///
    /// All operations of a card have its key as message id (`<kind>:<key>`), by which frontends find the card. Cards
    /// are remembered for one turn.
    fn emit_card(
        &mut self,
        kind: &str,
        key: &str,
        operation: &Value,
        place: &mut UpdateTarget,
        sink: &mut Sink<'_>,
    ) {
        let id = ByteString::from(format!("{kind}:{key}"));
        let (name, value) = if self.memory.note_card(&id, &self.config.limits) {
            (wellknown::ACTIVITY, json!({"type": kind, "content": {OPERATIONS: [operation]}}))
        } else {
            let patch = json!([{"op": "add", "path": format!("/{OPERATIONS}/-"), "value": operation}]);
            (wellknown::ACTIVITY_DELTA, json!({"type": kind, "patch": patch}))
        };
        self.answer_shown |= place.channel == Channel::Answer;
        let mut update =
            self.update(ContentBlock::custom(ByteString::from_static(name), value), place.channel);
        update.message_id = Some(MessageId::new(id));
        metadata::attach(&mut update, std::mem::take(&mut place.metadata));
        sink.push(update);
    }

    /// Returns `true` if the metadata of a part mark it as thinking. Parts without metadata, which are most, are not
    /// passed to the recognisers.
    pub(super) fn is_thought(&self, part: &Part<'_>) -> bool {
        part.metadata.is_some() && self.config.recognisers.part(part) == Some(Sign::Thinking)
    }

    /// Emits recognised content on the intermediate channel. `text` is the original text, `id` the id of a call
    /// without one.
    ///
    /// A failure and a form are not emitted: they are recorded for the end of the turn and for the next interrupt.
    /// Kinds of text, state and cards are handled by the callers, and have no effect here.
    pub(super) fn emit_sign(
        &mut self,
        sign: Sign,
        text: &str,
        id: &ByteString,
        beside: Metadata,
        place: &UpdateTarget,
        sink: &mut Sink<'_>,
    ) {
        let block = match sign {
            Sign::ToolStarted(start) => self.calls.start(start, id.clone(), self.config.limits.open_calls),
            Sign::ToolEnded(end) => self.calls.end(end, text, id.clone()),
            Sign::ToolOutput(output) => self.calls.output(output),
            Sign::Plan(plan) => ContentBlock::custom(ByteString::from_static(wellknown::PLAN), plan),
            Sign::Failure(words) => {
                self.failure = Some(words);
                return;
            }
            Sign::InputForm(form) => {
                self.form = Some(form);
                return;
            }
            Sign::Thinking
            | Sign::Intermediate
            | Sign::Final
            | Sign::State(_)
            | Sign::Card { .. }
            | Sign::Several(_) => {
                return;
            }
        };
        let is_call = matches!(block, ContentBlock::ToolUse(_));
        let mut update = self.update(block, Channel::Intermediate);
        update.source = place.source.clone();
        update.message_id = Some(MessageId::new(place.message_id.clone()));
        update.created_at = place.created_at;
        // A notice has the complete call: no arguments follow.
        update.last = is_call;
        metadata::attach(&mut update, beside);
        sink.push(update);
    }
}

/// Returns the value of a file: its bytes (`data`, base64) or address (`url`), media type and name; empty ones are
/// left out.
pub(super) fn file_value(key: &str, content: &Text<'_>, part: &Part<'_>) -> Value {
    let mut value = Map::new();
    value.insert(key.to_owned(), content.as_str().into());
    for (key, text) in [("mediaType", &part.media_type), ("name", &part.filename)] {
        if let Some(text) = text.set() {
            value.insert(key.to_owned(), text.into());
        }
    }
    Value::Object(value)
}

/// Returns a hash of a part that is not text, by its content and file name: the same file may arrive in a chunk and
/// again in a snapshot. Parts that differ only in metadata or media type count as equal.
pub(super) fn part_number(part: &Part<'_>) -> u64 {
    let content = match &part.content {
        Content::Text(text) | Content::Bytes(text) | Content::Url(text) | Content::Unknown(text) => {
            text.as_str()
        }
        Content::Data(raw) => raw.as_str(),
    };
    hash_text(content).wrapping_add(hash_text(&part.filename))
}
