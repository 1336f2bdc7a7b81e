//! Conversion of content objects to canonical updates, in the context of their message.
//!
//! The module does not handle executors, responses or orchestrations.

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

/// The common properties of a message's updates.
#[derive(Debug, Clone)]
pub(super) struct MessageHead {
    pub(super) source: Source,
    pub(super) channel: Channel,
    pub(super) role: Role,
    /// `None` if the framework sent no message id: content is then matched by agent and channel alone.
    pub(super) message_id: Option<ByteString>,
    pub(super) response_id: Option<ByteString>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) metadata: Option<Arc<Metadata>>,
}

impl MessageHead {
    /// Returns the head with the metadata of a content object added. Returns `None` if the object has no metadata, or is a
    /// custom block or hosted call, whose value already contains the metadata.
    fn with_metadata_of(&self, content: &Content<'_>) -> Option<Self> {
        let plain = matches!(&*content.kind, "text" | "text_reasoning" | "function_call" | "function_result");
        let mut merged = metadata(content.additional_properties, &content.unknown).filter(|_| plain);
        if let Some(class) = &content.exception {
            Arc::make_mut(merged.get_or_insert_default())
                .insert("exception".to_owned(), Value::from(&**class));
        }
        let mut merged = merged?;
        if let Some(known) = &self.metadata {
            let fields = Arc::make_mut(&mut merged);
            known.iter().for_each(|(key, value)| {
                fields.entry(key.clone()).or_insert_with(|| value.clone());
            });
        }
        Some(Self { metadata: Some(merged), ..self.clone() })
    }

    /// Returns an update with the properties of the message.
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

/// Returns the metadata of an object: its properties and its unknown fields.
pub(super) fn metadata(properties: Option<Json<'_>>, unknown: &Unknown<'_>) -> Option<Arc<Metadata>> {
    let properties = properties.filter(|properties| !properties.is_empty()).map(Json::value);
    let mut fields = match properties {
        Some(Value::Object(fields)) => fields,
        _ => Metadata::new(),
    };
    fields.extend(unknown.iter().map(|(key, value)| ((**key).to_owned(), value.value())));
    (!fields.is_empty()).then(|| Arc::new(fields))
}

/// The relation of a content object to earlier content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A fragment, or content with a merge mode of its own.
    Fragment,
    /// The complete content, sent by its author.
    Whole,
    /// The complete content, sent by another executor than its author.
    Gathered,
    /// A repetition of a message that has ended.
    Restated,
}

/// How a content object is handled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) form: Form,
    /// The merge mode of the framework's update that contains the object.
    pub(super) merge: MergeMode,
    /// Set if no more content follows in the message of the object.
    pub(super) is_last: bool,
}

impl Terms {
    /// Returns `true` if the object is complete content.
    fn is_whole(self) -> bool {
        self.form != Form::Fragment
    }

    /// Returns `true` if the object repeats a message that has ended.
    fn is_restated(self) -> bool {
        self.form == Form::Restated
    }
}

impl Run {
    /// Handles a content object. `line` is the text that the object was parsed from: texts of the emitted updates are
    /// slices of it. `turn` is the id of the executor to which usage is charged.
    pub(super) fn handle_content(
        &mut self,
        line: &ByteString,
        turn: &str,
        head: &MessageHead,
        content: &Content<'_>,
        terms: Terms,
    ) {
        if self.handle_request_call(&head.source, content) {
            return;
        }
        let replace = replaces(content, terms.merge);
        match piece(content, line) {
            Piece::Nothing => {}
            Piece::Usage(details) => self.report_usage(turn, &head.source, details, replace),
            Piece::Request(content) => self.handle_request_content(&head.source, content),
            Piece::Block { block, whole } => {
                let merged = head.with_metadata_of(content);
                let head = merged.as_ref().unwrap_or(head);
                self.emit_citations(head, content);
                match block {
                    ContentBlock::Text(text) => self.handle_text(head, text, replace, terms),
                    ContentBlock::Thinking(thought) => {
                        let id = content.id.as_ref().map(|id| id.share(line));
                        self.handle_thinking(head, thought, id, replace, terms);
                    }
                    block => self.handle_block(head, block, whole || terms.is_whole(), replace, terms),
                }
            }
        }
    }

    /// Emits a text, unless it repeats a message that has ended.
    fn handle_text(&mut self, head: &MessageHead, text: TextBlock, replace: bool, terms: Terms) {
        if terms.is_restated() {
            return;
        }
        let id = head.message_id.as_deref();
        if replace {
            self.history.replace(&head.source, head.channel, id, &text.text);
        } else {
            self.history.push(&head.source, head.channel, id, &text.text);
        }
        let mode = if replace { Mode::Replace } else { Mode::Append };
        self.append(head, ContentBlock::Text(text), mode, replace || terms.is_last);
    }

    /// Emits thinking, unless it repeats emitted thinking, on whatever channel.
    fn handle_thinking(
        &mut self,
        head: &MessageHead,
        thought: Thinking,
        content_id: Option<ByteString>,
        replace: bool,
        terms: Terms,
    ) {
        let message_id = head.message_id.clone().or(content_id);
        let (thoughts, id) = (&mut self.thoughts, message_id.as_deref());
        let known = thoughts.has_text(&head.source, Channel::Intermediate, &thought.text);
        if terms.is_restated() || terms.form == Form::Gathered && known {
            return;
        }
        if replace || terms.is_whole() {
            thoughts.replace(&head.source, Channel::Intermediate, id, &thought.text);
        } else {
            thoughts.push(&head.source, Channel::Intermediate, id, &thought.text);
        }
        let mode = match (replace, terms.is_whole() && id.is_some()) {
            (true, _) => Mode::Replace,
            (false, true) => Mode::Snapshot,
            (false, false) => Mode::Append,
        };
        let mut update = head.update(ContentBlock::Thinking(thought), mode, replace || terms.is_whole());
        update.message_id = message_id.map(MessageId::new);
        self.emit_update(update);
    }

    /// Emits a call, a result or a custom block. A repeated custom block is suppressed.
    fn handle_block(
        &mut self,
        head: &MessageHead,
        block: ContentBlock,
        whole: bool,
        replace: bool,
        terms: Terms,
    ) {
        let (mode, last) = match &block {
            ContentBlock::ToolUse(call) => {
                self.record_call(call.id.as_ref(), &head.source);
                if !terms.is_whole() {
                    self.history.push(&head.source, head.channel, head.message_id.as_deref(), "");
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
                let new = self.history.custom(&head.source, head.channel, &custom.name, &value);
                if terms.is_restated() && !new {
                    return;
                }
                (Mode::Append, true)
            }
            ContentBlock::Text(_) | ContentBlock::Thinking(_) => return,
        };
        self.append(head, block, mode, last);
    }

    /// Emits the citations of a text, each once.
    pub(super) fn emit_citations(&mut self, head: &MessageHead, content: &Content<'_>) {
        for citation in citations(content) {
            if let ContentBlock::Custom(custom) = &citation
                && self.history.custom(&head.source, head.channel, &custom.name, &custom.value.to_string())
            {
                self.append(head, citation, Mode::Append, true);
            }
        }
    }

    /// Ends the message `id`. An end is emitted if the message is open or a finish reason must be reported.
    pub(super) fn end_message(
        &mut self,
        head: &MessageHead,
        id: Option<&str>,
        finish_reason: Option<ByteString>,
    ) {
        let open = self.history.is_open(&head.source, head.channel, id);
        self.history.finish(&head.source, head.channel, id);
        self.thoughts.finish_all(&head.source);
        if open || finish_reason.is_some() {
            let mut end = head.update(ContentBlock::text(""), Mode::Append, true);
            end.message_id = id.map(MessageId::from);
            end.role = if head.role == Role::Tool { Role::Assistant } else { head.role };
            if finish_reason.is_some() {
                end.details_mut().finish_reason = finish_reason;
            }
            self.emit(end.into());
        }
    }

    /// Emits a block of a message.
    pub(super) fn append(&mut self, head: &MessageHead, block: ContentBlock, mode: Mode, last: bool) {
        self.emit_update(head.update(block, mode, last));
    }

    /// Emits an update. An empty text that does not end its message is dropped.
    fn emit_update(&mut self, update: Update) {
        let empty = matches!(&update.block, ContentBlock::Text(TextBlock { text }) if text.is_empty());
        self.produced |= update.channel == Channel::Answer && !empty;
        if !empty || update.last {
            self.emit(update.into());
        }
    }

    /// Emits token usage. If `details` is a total (`replace`), only the part that was not emitted yet in the turn is
    /// emitted.
    fn report_usage(&mut self, turn: &str, source: &Source, details: Json<'_>, replace: bool) {
        let usage = usage(details);
        let new = if replace { self.spending.total(turn, &usage) } else { self.spending.add(turn, usage) };
        if let Some(usage) = new {
            self.emit(SourceEvent::Usage { source: source.clone(), usage: Box::new(usage) });
        }
    }
}
