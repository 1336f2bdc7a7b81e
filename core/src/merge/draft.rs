//! A message under construction: fragments in, content blocks out.
//!
//! A fragment appends to its text; a whole text (`Snapshot`, `Replace`) adds only the missing part, or replaces the text.
//! A call is found by its id; a fragment without id belongs to the last call without id.

use bytestring::ByteString;

use crate::Metadata;
use crate::block::{ContentBlock, Custom, Text, Thinking, ToolResult, ToolUse};
use crate::id::{MessageId, ResponseId, ToolCallId};
use crate::message::Message;
use crate::source::Source;
use crate::update::{Channel, Mode, Role, Timestamp, Update};

/// A content block under construction.
#[derive(Debug)]
enum Part {
    Text(String),
    Thinking { text: String, encrypted: Option<Box<ByteString>> },
    ToolUse { id: Option<ToolCallId>, name: Option<ByteString>, arguments: String },
    ToolResult(Box<ToolResult>),
    Custom(Box<Custom>),
}

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) id: Option<MessageId>,
    pub(super) role: Role,
    pub(super) channel: Channel,
    pub(super) response: Option<ResponseId>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) metadata: Metadata,
    parts: Vec<Part>,
    /// Set once the source has ended the text: more text under the same id starts another message.
    text_ended: bool,
}

impl Draft {
    pub(super) fn new(update: &Update) -> Self {
        Self {
            id: update.message_id.as_ref().map(MessageId::detached),
            role: update.role,
            channel: update.channel,
            ..Self::default()
        }
    }

    /// Adds the content of an update.
    pub(super) fn take(&mut self, update: Update) {
        self.response = self.response.take().or(update.response_id);
        // The first timestamp of a message is the time of its creation.
        self.created_at = self.created_at.or(update.created_at);
        if let Some(metadata) = update.details.and_then(|details| details.metadata) {
            self.metadata.extend((*metadata).clone());
        }
        self.text_ended |= update.last && matches!(update.block, ContentBlock::Text(_));
        match update.block {
            ContentBlock::Text(part) => self.take_text(&part.text, update.mode),
            ContentBlock::Thinking(part) => self.take_thinking(part, update.mode),
            ContentBlock::ToolUse(call) => self.take_call(*call, update.mode),
            ContentBlock::ToolResult(result) => self.parts.push(Part::ToolResult(result)),
            ContentBlock::Custom(custom) => self.parts.push(Part::Custom(custom)),
        }
    }

    /// Prepends the parts of an earlier message.
    pub(super) fn fold_in(&mut self, earlier: Self) {
        self.created_at = earlier.created_at.or(self.created_at);
        let mut metadata = earlier.metadata;
        metadata.extend(std::mem::take(&mut self.metadata));
        self.metadata = metadata;
        let later = std::mem::replace(&mut self.parts, earlier.parts);
        for part in later {
            match (self.parts.last_mut(), part) {
                (Some(Part::Text(text)), Part::Text(more)) => text.push_str(&more),
                (_, part) => self.parts.push(part),
            }
        }
    }

    /// Returns `true` if the update starts another message: text after the end of the text.
    pub(super) fn is_over_for(&self, update: &Update) -> bool {
        let says_more = matches!(&update.block, ContentBlock::Text(part) if !part.text.is_empty());
        self.text_ended && update.mode == Mode::Append && says_more
    }

    pub(super) fn has_text(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Text(_)))
    }

    /// Returns `true` if the message contains a tool call or a result. Later messages may not be sorted before it.
    pub(super) fn has_tools(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::ToolUse { .. } | Part::ToolResult(_)))
    }

    /// Returns `true` if the message contains a result, which may not be sorted before its call.
    pub(super) fn has_results(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::ToolResult(_)))
    }

    /// Returns the finished message. Returns `None` if it has no content.
    pub(super) fn finish(self, source: Source) -> Option<Message> {
        let contents: Vec<ContentBlock> = self.parts.into_iter().filter_map(Part::finish).collect();
        (!contents.is_empty()).then(|| Message {
            id: self.id,
            role: self.role,
            source,
            channel: self.channel,
            created_at: self.created_at,
            contents,
            metadata: (!self.metadata.is_empty()).then(|| self.metadata.into()),
        })
    }

    fn take_text(&mut self, text: &str, mode: Mode) {
        let whole = match mode {
            Mode::Append => None,
            Mode::Snapshot | Mode::Replace => {
                Some(self.parts.iter().filter_map(Part::text).collect::<String>())
            }
        };
        let missing = match &whole {
            None => text,
            Some(held) if text.trim() == held.trim() => "",
            Some(held) => match text.strip_prefix(held.as_str()) {
                Some(rest) => rest,
                None => return self.replace_text(text),
            },
        };
        match self.parts.last_mut() {
            _ if missing.is_empty() => {}
            Some(Part::Text(held)) => held.push_str(missing),
            _ => self.parts.push(Part::Text(missing.to_owned())),
        }
    }

    fn replace_text(&mut self, text: &str) {
        let at = self.parts.iter().position(|part| part.text().is_some()).unwrap_or(self.parts.len());
        self.parts.retain(|part| part.text().is_none());
        self.parts.insert(at.min(self.parts.len()), Part::Text(text.to_owned()));
    }

    fn take_thinking(&mut self, thought: Thinking, mode: Mode) {
        if let Some(Part::Thinking { text, encrypted }) = self.parts.last_mut() {
            match mode {
                Mode::Append => text.push_str(&thought.text),
                Mode::Snapshot | Mode::Replace if !thought.text.is_empty() => {
                    *text = thought.text.to_string();
                }
                _ => {}
            }
            *encrypted = thought.encrypted.or_else(|| encrypted.take());
            return;
        }
        let repeats = |part: &Part| matches!(part, Part::Thinking { text, .. } if mode != Mode::Append && text.trim() == thought.text.trim());
        let says_something = !thought.text.is_empty() || thought.encrypted.is_some();
        if says_something && !self.parts.iter().any(repeats) {
            let part = Part::Thinking { text: thought.text.to_string(), encrypted: thought.encrypted };
            self.parts.push(part);
        }
    }

    fn take_call(&mut self, call: ToolUse, mode: Mode) {
        let given = call.id;
        let found = self.parts.iter_mut().rev().find_map(|part| match part {
            Part::ToolUse { id, name, arguments } if *id == given => Some((name, arguments)),
            _ => None,
        });
        let Some((name, arguments)) = found else {
            let arguments = call.arguments.to_string();
            return self.parts.push(Part::ToolUse { id: given, name: call.name, arguments });
        };
        *name = name.take().filter(|n| !n.is_empty()).or(call.name);
        match mode {
            Mode::Append => arguments.push_str(&call.arguments),
            Mode::Snapshot | Mode::Replace if !call.arguments.is_empty() => {
                *arguments = call.arguments.to_string();
            }
            _ => {}
        }
    }
}

impl Part {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the finished block. Returns `None` for a text of white space alone.
    fn finish(self) -> Option<ContentBlock> {
        Some(match self {
            Self::Text(text) if text.trim().is_empty() => return None,
            Self::Text(text) => ContentBlock::Text(Text { text: text.into() }),
            Self::Thinking { text, encrypted: None } if text.trim().is_empty() => return None,
            Self::Thinking { text, encrypted } => {
                ContentBlock::Thinking(Thinking { text: text.into(), encrypted })
            }
            Self::ToolUse { id, name, arguments } => {
                ContentBlock::from(ToolUse { id, name, arguments: arguments.into() })
            }
            Self::ToolResult(result) => ContentBlock::ToolResult(result),
            Self::Custom(custom) => ContentBlock::Custom(custom),
        })
    }
}
