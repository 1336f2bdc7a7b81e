//! Decoding of text, thinking, tool calls and their results.
//!
//! | event | becomes |
//! |---|---|
//! | start of a message | nothing: the first content opens the block |
//! | content | an appending update; content of a message without a start opens the message, so that nothing is lost |
//! | end of a message | an update with `last`, if the message had content |
//! | end of a reasoning message inside a reasoning span | held until the span ends: the encrypted form may still arrive |
//! | start, arguments, end of a call | updates of the call; a call that repeats one of the input is held and compared first ([`repeat`](super::repeat)) |
//! | result | a complete tool result, on the lane of its call unless the result has a tag |
//!
//! Parallel messages of one agent are on tracks of their own ([`open`](super::open)), so that none ends another. At most
//! [`REMEMBERED`] open messages and as many calls have state; content beyond it is emitted without state.

use aqueduct_core::block::{Text, Thinking, ToolOutput, ToolResult, ToolUse};
use aqueduct_core::{
    ByteString, ContentBlock, MessageId, Role, Source, Timestamp, ToolCallId, Track, Update, wellknown,
};
use serde_json::Value;

use super::open::{Call, EndedText, Key, Kind, Message};
use super::repeat::Thought;
use super::seen::{REMEMBERED, detached};
use super::{Decoder, details};
use crate::convert::{META_AUTHOR, META_IS_ERROR};
use crate::wire::{
    Base, Content, EncryptedSubtype, Event, ReasoningEncryptedValue, TextMessageStart, TextRole,
    ToolCallResult, ToolCallStart,
};

/// The track of messages that started when [`REMEMBERED`] messages were open.
const STRAY_TRACK: &str = "stray";

/// The track of tool calls that must not end the text that is open at the same time.
const CALLS_TRACK: &str = "calls";

impl Decoder {
    /// Decodes an event of text, reasoning, tool calls or results.
    pub(super) fn apply_content(&mut self, event: Event) {
        match event {
            Event::TextMessageContent(content) => {
                let tag = content.subagent_run_id.as_ref();
                self.append_text(Kind::Text, content.message_id, tag, content.delta, content.base);
            }
            Event::TextMessageStart(start) => self.start_text(start),
            Event::TextMessageEnd(end) => self.end_message(&(Kind::Text, end.message_id)),
            Event::ReasoningMessageContent(content) => {
                let tag = content.subagent_run_id.as_ref();
                self.append_text(Kind::Thought, content.message_id, tag, content.delta, content.base);
            }
            Event::ReasoningMessageStart(start) => {
                let tag = start.subagent_run_id.as_ref();
                self.release_held(tag);
                self.start_message(Kind::Thought, &start.message_id, tag, None, Role::Assistant, start.base);
            }
            Event::ReasoningMessageEnd(end) => self.end_thought(end.message_id),
            // Spans are counted per lane, not matched by id: only whether one is open matters.
            Event::ReasoningStart(start) => self.lanes.get(start.subagent_run_id.as_ref(), None).spans += 1,
            Event::ReasoningEnd(end) => {
                let tag = end.subagent_run_id.as_ref();
                let lane = self.lanes.get(tag, None);
                lane.spans = lane.spans.saturating_sub(1);
                if lane.spans == 0 {
                    self.release_held(tag);
                }
            }
            Event::ReasoningEncryptedValue(value) => self.handle_encrypted(value),
            Event::ToolCallStart(start) => self.start_call(start),
            Event::ToolCallArgs(args) => {
                let tag = args.subagent_run_id.as_ref();
                self.continue_call(&args.tool_call_id, tag, args.delta, false, args.base);
            }
            Event::ToolCallEnd(end) => {
                let tag = end.subagent_run_id.as_ref();
                self.continue_call(&end.tool_call_id, tag, ByteString::new(), true, end.base);
            }
            Event::ToolCallResult(result) => self.handle_result(*result),
            _ => {}
        }
    }

    /// Opens a text message. The author's name names the lane of a tagged message, and is metadata of an untagged one.
    fn start_text(&mut self, start: TextMessageStart) {
        let role = match start.role.unwrap_or_default() {
            TextRole::Assistant => Role::Assistant,
            TextRole::User => Role::User,
            TextRole::System => Role::System,
            TextRole::Developer => Role::Developer,
        };
        let (tag, mut base) = (start.subagent_run_id.as_ref(), start.base);
        self.release_held(tag);
        // Inside a lane the author is the lane's agent; elsewhere only the name is known.
        if let Some(name) = start.name.as_ref().filter(|_| tag.is_none()) {
            base.metadata_mut().entry(META_AUTHOR).or_insert_with(|| Value::from(&**name));
        }
        self.start_message(Kind::Text, &start.message_id, tag, start.name.as_ref(), role, base);
    }

    /// Opens a message on a free track, within the limit of open messages.
    fn start_message(
        &mut self,
        kind: Kind,
        id: &ByteString,
        tag: Option<&ByteString>,
        name: Option<&ByteString>,
        role: Role,
        base: Base,
    ) {
        let key = (kind, detached(id));
        // A message that starts again was not ended; the second start adds nothing.
        if self.open.contains_key(&key) || self.open.len() >= REMEMBERED {
            return;
        }
        // Ids are detached from the payload: the state of an open message must not keep its frame alive.
        let lane = self.lanes.get(tag, name);
        let message = Message {
            tag: tag.map(detached),
            source: lane.source.clone(),
            track: lane.take_track(&key),
            id: MessageId::new(key.1.clone()),
            role,
            created_at: base.timestamp.map(Timestamp),
            details: details(base),
            has_content: false,
            is_held: false,
            thought: Thought::default(),
        };
        self.open.insert(key, message);
    }

    /// Appends content to a message. The first content of a message without start opens it, so no content is lost.
    fn append_text(
        &mut self,
        kind: Kind,
        id: ByteString,
        tag: Option<&ByteString>,
        delta: ByteString,
        mut base: Base,
    ) {
        let key = (kind, id);
        if !self.open.contains_key(&key) {
            self.start_message(kind, &key.1, tag, None, Role::Assistant, Base::default());
        }
        if kind == Kind::Thought && self.is_repeat(&key, &delta, &mut base) {
            return;
        }
        let Some(message) = self.open.get_mut(&key) else { return self.append_stray(&key, tag, delta) };
        self.seen.add_text(kind, &key.1, &delta, &message.track);
        // An empty delta is emitted only if it carries metadata.
        if delta.is_empty() && base.rare.is_none() {
            return;
        }
        message.has_content |= !delta.is_empty();
        let mut update = message.update(kind, delta);
        update.created_at = base.timestamp.map(Timestamp).or(message.created_at);
        // The metadata of the start travels with the first content: a start emits no update.
        update.details = message.details.take().or_else(|| details(base));
        self.emit(update);
    }

    /// Emits content of a message that has no state, because [`REMEMBERED`] messages are open: a complete block per delta.
    fn append_stray(&mut self, key: &Key, tag: Option<&ByteString>, delta: ByteString) {
        let block = match key.0 {
            Kind::Text => ContentBlock::text(delta),
            Kind::Thought => ContentBlock::thinking(delta),
        };
        let mut update = Update::new(block).from_source(&self.lanes.source(tag)).last();
        update.message_id = Some(MessageId::new(key.1.clone()));
        update.track = Track::new(STRAY_TRACK);
        self.emit(update);
    }

    /// Ends a message, and releases its track.
    fn end_message(&mut self, key: &Key) {
        let Some(message) = self.open.remove(key) else { return };
        match key.0 {
            Kind::Text => self.seen.texts.end(&key.1),
            Kind::Thought => self.seen.thoughts.end(&key.1),
        }
        let lane = self.lanes.get(message.tag.as_ref(), None);
        lane.release(key);
        if key.0 == Kind::Thought {
            lane.thoughts.end(&message.thought);
        }
        // A later tool call whose parent is this message goes on the same lane and track.
        let is_plain = message.tag.is_none() && message.track == Track::MAIN;
        if key.0 == Kind::Text && !is_plain && self.ended_texts.len() < REMEMBERED {
            let ended = EndedText { tag: message.tag.clone(), track: message.track.clone() };
            self.ended_texts.insert(message.id.as_bytes().clone(), ended);
        }
        if message.has_content {
            let update = message.update(key.0, ByteString::new()).last();
            self.emit(update);
        }
    }

    /// Ends a reasoning message. Inside a span the end waits, because the encrypted form may still arrive.
    fn end_thought(&mut self, id: ByteString) {
        let key = (Kind::Thought, id);
        let Some(message) = self.open.get_mut(&key) else { return };
        let lane = self.lanes.get(message.tag.as_ref(), None);
        if lane.spans > 0 {
            // A second end of the same message adds nothing.
            if !std::mem::replace(&mut message.is_held, true) {
                lane.held.push(message.id.as_bytes().clone());
            }
        } else {
            self.end_message(&key);
        }
    }

    /// Ends the reasoning messages of a lane whose ends are held until their span ends.
    /// Called at the end of the span, and before a new message or call of the lane, which would otherwise precede the held ends.
    fn release_held(&mut self, tag: Option<&ByteString>) {
        let Some(lane) = self.lanes.find(tag) else { return };
        for id in std::mem::take(&mut lane.held) {
            self.end_message(&(Kind::Thought, id));
        }
    }

    /// Handles an encrypted value. The value of a thinking block is added to the block; the value of a message or call becomes
    /// a block of its own.
    fn handle_encrypted(&mut self, value: ReasoningEncryptedValue) {
        let id = &value.entity_id;
        let key = (Kind::Thought, id.clone());
        // The subtype `message` does not distinguish thinking from text. An unknown id is treated as that of a thinking block
        // whose start was lost or never sent.
        let is_other = self.seen.knows_text(id) || self.seen.is_result(id) || self.seen.is_history(id);
        let of_thought = value.subtype == EncryptedSubtype::Message
            && (self.open.contains_key(&key) || self.seen.thoughts.knows(id) || !is_other);
        if !of_thought {
            return self.emit_sealed(value);
        }
        let is_open = self.open.contains_key(&key);
        if !is_open {
            let tag = value.subagent_run_id.as_ref();
            self.start_message(Kind::Thought, &key.1, tag, None, Role::Assistant, Base::default());
        }
        self.release_repeat(&key);
        if let Some(message) = self.open.get_mut(&key) {
            message.has_content = true;
            let mut update = message.update(Kind::Thought, ByteString::new());
            update.details = message.details.take().or_else(|| details(value.base));
            if let ContentBlock::Thinking(thinking) = &mut update.block {
                thinking.encrypted = Some(Box::new(value.encrypted_value));
            }
            self.emit(update);
        }
        if !is_open {
            self.end_message(&key);
        }
    }

    /// Emits the encrypted value of a message or call as a custom block: the canonical blocks have no field for it.
    fn emit_sealed(&mut self, value: ReasoningEncryptedValue) {
        let subtype = serde_json::to_value(value.subtype).unwrap_or_default();
        let sealed = serde_json::json!({
            "subtype": subtype, "id": &*value.entity_id, "value": &*value.encrypted_value,
        });
        self.custom(wellknown::SEALED, sealed, None, value.subagent_run_id.as_ref(), value.base);
    }

    /// Starts a tool call. A call that repeats one of the input emits nothing until its arguments can be compared.
    fn start_call(&mut self, start: ToolCallStart) {
        let parent = start.parent_message_id.as_ref();
        let tag = start.subagent_run_id.clone().or_else(|| self.tag_of_text(parent));
        let tag = tag.as_ref();
        self.release_held(tag);
        // Thinking is compared for repetition only since the last tool call.
        self.lanes.get(tag, None).thoughts.forget();
        if let Some(call) = self.seen.open_call_mut(&start.tool_call_id) {
            call.again = Some((detached(&start.tool_call_name), String::new()));
            return;
        }
        let (source, track) = self.lane_and_track_of_call(tag, parent);
        self.seen.add_call(&start.tool_call_id, &source, parent);
        let parent = parent.map(|id| MessageId::new(detached(id)));
        let call = Call { source, track, parent };
        let mut update = call.update(&start.tool_call_id, ByteString::new());
        if let ContentBlock::ToolUse(tool) = &mut update.block {
            tool.name = Some(start.tool_call_name);
        }
        update.created_at = start.base.timestamp.map(Timestamp);
        update.details = details(start.base);
        if self.calls.len() < REMEMBERED {
            self.calls.insert(detached(&start.tool_call_id), call);
        }
        self.emit(update);
    }

    /// Returns the tag of a text, open or ended. A call without a tag belongs to the lane of its parent message.
    fn tag_of_text(&self, id: Option<&ByteString>) -> Option<ByteString> {
        let id = id?;
        match self.open.get(&(Kind::Text, id.clone())) {
            Some(open) => open.tag.clone(),
            None => self.ended_texts.get(id)?.tag.clone(),
        }
    }

    /// Returns the source and the track of a call on the lane of `tag`. The track is that of its parent message, so that the
    /// stream machine relates the two, unless the call would end an open message on that track.
    fn lane_and_track_of_call(
        &mut self,
        tag: Option<&ByteString>,
        parent: Option<&ByteString>,
    ) -> (Source, Track) {
        let is_open = parent.is_some_and(|id| self.open.contains_key(&(Kind::Text, id.clone())));
        let ended = parent.and_then(|id| self.ended_texts.get(id));
        let track = ended.map(|ended| ended.track.clone()).unwrap_or_default();
        let lane = self.lanes.get(tag, None);
        let free = !is_open && (track != Track::MAIN || lane.is_quiet());
        (lane.source.clone(), if free { track } else { Track::new(CALLS_TRACK) })
    }

    /// Emits arguments or the end of a call. A call without a start is on the track [`CALLS_TRACK`].
    fn continue_call(
        &mut self,
        id: &ByteString,
        tag: Option<&ByteString>,
        arguments: ByteString,
        last: bool,
        base: Base,
    ) {
        if arguments.is_empty() && !last || self.continue_repeated(id, &arguments, last) {
            return;
        }
        let call = match self.calls.get(id) {
            Some(call) => call.clone(),
            None => Call { source: self.lanes.source(tag), track: Track::new(CALLS_TRACK), parent: None },
        };
        self.seen.add_arguments(id, &arguments);
        let mut update = call.update(id, arguments);
        update.last = last;
        update.details = details(base);
        self.emit(update);
    }

    /// Emits the result of a call, on the lane of the call if the result has no tag. AG-UI does not mark errors: the result is
    /// an error only if its metadata has the mark that this crate's converter writes.
    fn handle_result(&mut self, result: ToolCallResult) {
        let source = match self.calls.remove(&result.tool_call_id) {
            Some(call) if result.subagent_run_id.is_none() => call.source,
            _ => self.lanes.source(result.subagent_run_id.as_ref()),
        };
        let error = result.base.metadata().and_then(|metadata| metadata.get(META_IS_ERROR));
        let is_error = error == Some(&Value::Bool(true));
        self.seen.add_result(&result.tool_call_id, &result.message_id, &result.content, is_error);
        let block = ContentBlock::from(ToolResult {
            is_error,
            id: Some(ToolCallId::new(result.tool_call_id)),
            name: None,
            output: output(result.content),
        });
        let mut update = Update::new(block).from_source(&source).last();
        update.message_id = Some(MessageId::new(result.message_id));
        update.role = Role::Tool;
        update.created_at = result.base.timestamp.map(Timestamp);
        update.details = details(result.base);
        self.emit(update);
    }
}

/// Converts the content of a result. Multimodal parts stay JSON: canonical output has no form for them, and the AG-UI
/// converter restores them.
pub(crate) fn output(content: Content) -> ToolOutput {
    match content {
        Content::Text(text) => ToolOutput::Text(text),
        Content::Parts(parts) => ToolOutput::Json(serde_json::to_value(parts).unwrap_or_default()),
    }
}

impl Message {
    /// Returns an update that appends `text` to the message.
    pub(super) fn update(&self, kind: Kind, text: ByteString) -> Update {
        let block = match kind {
            Kind::Text => ContentBlock::Text(Text { text }),
            Kind::Thought => ContentBlock::Thinking(Thinking { text, encrypted: None }),
        };
        let mut update = Update::new(block).from_source(&self.source);
        update.track = self.track.clone();
        update.message_id = Some(self.id.clone());
        update.role = self.role;
        update
    }
}

impl Call {
    /// Returns an update that appends `arguments` to the call.
    fn update(&self, id: &ByteString, arguments: ByteString) -> Update {
        let id = Some(ToolCallId::new(id.clone()));
        let block = ContentBlock::from(ToolUse { id, name: None, arguments });
        let mut update = Update::new(block).from_source(&self.source);
        update.track = self.track.clone();
        update.message_id.clone_from(&self.parent);
        update
    }
}
