//! One agent's words: pieces of content to canonical updates, on the terms of the message they stand in.
//!
//! Nothing here knows of executors, responses or orchestrations.

use std::sync::Arc;

use aqueduct_core::block::{Text as TextBlock, Thinking};
use aqueduct_core::{
    ByteString, Channel, ContentBlock, MessageId, Metadata, Mode, ResponseId, Role, Source, SourceEvent,
    Timestamp, Update,
};

use serde_json::Value;

use super::content::{Piece, citations, piece, replaces};
use super::run::Run;
use super::usage::usage;
use crate::wire::{Content, Json, MergeMode, Unknown};

/// Who speaks, to whom, and as what.
#[derive(Debug, Clone)]
pub(super) struct Voice {
    pub(super) source: Source,
    pub(super) channel: Channel,
    pub(super) role: Role,
    pub(super) message_id: Option<ByteString>,
    pub(super) response_id: Option<ByteString>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) metadata: Option<Arc<Metadata>>,
}

impl Voice {
    /// The same voice with what a content says about itself; none if that is nothing. Custom blocks and hosted
    /// calls have it in their value already.
    fn noting(&self, content: &Content<'_>) -> Option<Self> {
        let plain = matches!(&*content.kind, "text" | "text_reasoning" | "function_call" | "function_result");
        let mut noted = metadata(content.additional_properties, &content.unknown).filter(|_| plain);
        if let Some(class) = &content.exception {
            Arc::make_mut(noted.get_or_insert_default())
                .insert("exception".to_owned(), Value::from(&**class));
        }
        let mut noted = noted?;
        if let Some(known) = &self.metadata {
            let fields = Arc::make_mut(&mut noted);
            known.iter().for_each(|(key, value)| {
                fields.entry(key.clone()).or_insert_with(|| value.clone());
            });
        }
        Some(Self { metadata: Some(noted), ..self.clone() })
    }

    fn update(&self, block: ContentBlock, mode: Mode, last: bool) -> Update {
        let mut update = Update {
            source: self.source.clone(),
            message_id: self.message_id.clone().map(MessageId::new),
            response_id: self.response_id.clone().map(ResponseId::new),
            created_at: self.created_at,
            role: self.role,
            channel: self.channel,
            mode,
            last,
            ..Update::new(block)
        };
        if let Some(metadata) = &self.metadata {
            update.details_mut().metadata = Some(Arc::clone(metadata));
        }
        update
    }
}

/// What an object says beside its known fields: its properties and the fields that no rule knows.
pub(super) fn metadata(properties: Option<Json<'_>>, unknown: &Unknown<'_>) -> Option<Arc<Metadata>> {
    let properties = properties.filter(|properties| !properties.is_empty()).map(Json::value);
    let mut fields = match properties {
        Some(Value::Object(fields)) => fields,
        _ => Metadata::new(),
    };
    fields.extend(unknown.iter().map(|(key, value)| ((**key).to_owned(), value.value())));
    (!fields.is_empty()).then(|| Arc::new(fields))
}

/// What a piece of content is to what was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// It follows, or says itself that it does not.
    Fragment,
    /// It is all there is of it, from its maker.
    Whole,
    /// It is all there is of it, from one who gathers what others made.
    Gathered,
    /// It repeats a message that is over.
    Restated,
}

/// How a piece of content is meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) form: Form,
    /// How its update relates to the message.
    pub(super) merge: MergeMode,
    /// Nothing more follows in its message.
    pub(super) is_last: bool,
}

impl Terms {
    fn is_whole(self) -> bool {
        self.form != Form::Fragment
    }

    fn is_restated(self) -> bool {
        self.form == Form::Restated
    }
}

impl Run {
    /// Takes a piece of content.
    pub(super) fn handle_content(
        &mut self,
        line: &ByteString,
        turn: &str,
        voice: &Voice,
        content: &Content<'_>,
        terms: Terms,
    ) {
        if self.handle_request_call(&voice.source, content) {
            return;
        }
        let replace = replaces(content, terms.merge);
        match piece(content, line) {
            Piece::Nothing => {}
            Piece::Usage(details) => self.spend(turn, &voice.source, details, replace),
            Piece::Request(content) => self.handle_request_content(&voice.source, content),
            Piece::Block { block, whole } => {
                let noted = voice.noting(content);
                let voice = noted.as_ref().unwrap_or(voice);
                self.cite(voice, content);
                match block {
                    ContentBlock::Text(text) => self.say_text(voice, text, replace, terms),
                    ContentBlock::Thinking(thought) => {
                        let id = content.id.as_ref().map(|id| id.share(line));
                        self.think(voice, thought, id, replace, terms);
                    }
                    block => self.act(voice, block, whole || terms.is_whole(), replace, terms),
                }
            }
        }
    }

    fn say_text(&mut self, voice: &Voice, text: TextBlock, replace: bool, terms: Terms) {
        if terms.is_restated() {
            return;
        }
        let id = voice.message_id.as_deref();
        if replace {
            self.said.replace(&voice.source, voice.channel, id, &text.text);
        } else {
            self.said.push(&voice.source, voice.channel, id, &text.text);
        }
        let mode = if replace { Mode::Replace } else { Mode::Append };
        self.say(voice, ContentBlock::Text(text), mode, replace || terms.is_last);
    }

    /// A thought has no channel of its own: what an aggregate repeats on another was thought before.
    fn think(
        &mut self,
        voice: &Voice,
        thought: Thinking,
        content_id: Option<ByteString>,
        replace: bool,
        terms: Terms,
    ) {
        let message_id = voice.message_id.clone().or(content_id);
        let (thoughts, id) = (&mut self.thoughts, message_id.as_deref());
        let known = thoughts.has_text(&voice.source, Channel::Intermediate, &thought.text);
        if terms.is_restated() || terms.form == Form::Gathered && known {
            return;
        }
        if replace || terms.is_whole() {
            thoughts.replace(&voice.source, Channel::Intermediate, id, &thought.text);
        } else {
            thoughts.push(&voice.source, Channel::Intermediate, id, &thought.text);
        }
        let mode = match (replace, terms.is_whole() && id.is_some()) {
            (true, _) => Mode::Replace,
            (false, true) => Mode::Snapshot,
            (false, false) => Mode::Append,
        };
        let mut update = voice.update(ContentBlock::Thinking(thought), mode, replace || terms.is_whole());
        update.message_id = message_id.map(MessageId::new);
        self.tell(update);
    }

    /// Takes a call, a result or a custom block.
    fn act(&mut self, voice: &Voice, block: ContentBlock, whole: bool, replace: bool, terms: Terms) {
        let (mode, last) = match &block {
            ContentBlock::ToolUse(call) => {
                self.called(call.id.as_ref(), &voice.source);
                if !terms.is_whole() {
                    self.said.push(&voice.source, voice.channel, voice.message_id.as_deref(), "");
                }
                match (replace, whole) {
                    (true, _) => (Mode::Replace, true),
                    (false, true) => (Mode::Snapshot, true),
                    (false, false) => (Mode::Append, terms.is_last),
                }
            }
            ContentBlock::ToolResult(result) => {
                if let Some(id) = &result.id {
                    self.calls.remove(id.as_str());
                }
                (if terms.is_whole() { Mode::Snapshot } else { Mode::Append }, true)
            }
            ContentBlock::Custom(custom) => {
                let value = custom.value.to_string();
                let new = self.said.custom(&voice.source, voice.channel, &custom.name, &value);
                if terms.is_restated() && !new {
                    return;
                }
                (Mode::Append, true)
            }
            ContentBlock::Text(_) | ContentBlock::Thinking(_) => return,
        };
        self.say(voice, block, mode, last);
    }

    /// Tells where the text says things were found, once.
    pub(super) fn cite(&mut self, voice: &Voice, content: &Content<'_>) {
        for citation in citations(content) {
            if let ContentBlock::Custom(custom) = &citation
                && self.said.custom(&voice.source, voice.channel, &custom.name, &custom.value.to_string())
            {
                self.say(voice, citation, Mode::Append, true);
            }
        }
    }

    /// Says that a message is over, if it was begun, and why.
    pub(super) fn end_message(&mut self, voice: &Voice, id: Option<&str>, finish_reason: Option<ByteString>) {
        let open = self.said.is_open(&voice.source, voice.channel, id);
        self.said.finish(&voice.source, voice.channel, id);
        self.thoughts.finish_all(&voice.source);
        if open || finish_reason.is_some() {
            let mut end = voice.update(ContentBlock::text(""), Mode::Append, true);
            end.message_id = id.map(MessageId::from);
            end.role = if voice.role == Role::Tool { Role::Assistant } else { voice.role };
            if finish_reason.is_some() {
                end.details_mut().finish_reason = finish_reason;
            }
            self.emit(end.into());
        }
    }

    pub(super) fn say(&mut self, voice: &Voice, block: ContentBlock, mode: Mode, last: bool) {
        self.tell(voice.update(block, mode, last));
    }

    fn tell(&mut self, update: Update) {
        let empty = matches!(&update.block, ContentBlock::Text(TextBlock { text }) if text.is_empty());
        self.produced |= update.channel == Channel::Answer && !empty;
        // An empty fragment that ends nothing is noise.
        if !empty || update.last {
            self.emit(update.into());
        }
    }

    fn spend(&mut self, turn: &str, source: &Source, details: Json<'_>, replace: bool) {
        let usage = usage(details);
        let new = if replace { self.spending.total(turn, &usage) } else { self.spending.add(turn, usage) };
        if let Some(usage) = new {
            self.emit(SourceEvent::Usage { source: source.clone(), usage });
        }
    }
}
