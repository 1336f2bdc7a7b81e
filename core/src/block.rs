//! The canonical content: [`ContentBlock`] and its five kinds.
//!
//! The same type holds a fragment (inside an [`Update`](crate::Update)) and a whole block (inside a merged
//! [`Message`](crate::Message)): a fragment of a text is a shorter text. Whatever has no kind of its own (files,
//! data parts, plans, citations) is [`Custom`] under a name of [`wellknown`](crate::wellknown).
//!
//! Text is [`ByteString`]: a slice of the buffer it was read from, so passing a delta on copies nothing.

use bytestring::ByteString;
use serde_json::Value;

use crate::id::ToolCallId;

/// One piece of what an agent says or does.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock {
    /// Words for the reader.
    Text(Text),
    /// Words on the way to them.
    Thinking(Thinking),
    /// A call of a tool.
    ToolUse(ToolUse),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// Everything else, by name.
    Custom(Custom),
}

/// Payload of [`ContentBlock::Text`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// The text or a fragment of it.
    pub text: ByteString,
}

/// Payload of [`ContentBlock::Thinking`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Thinking {
    /// The thought or a fragment of it; may be empty where a provider sends only the sealed form.
    pub text: ByteString,
    /// The provider's sealed form (signature, protected data), to be handed back unread in the next turn.
    pub encrypted: Option<ByteString>,
}

/// Payload of [`ContentBlock::ToolUse`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolUse {
    /// The source's id of the call. Some sources have none.
    pub id: Option<ToolCallId>,
    /// The tool's name. Often only the first fragment carries it.
    pub name: Option<ByteString>,
    /// The arguments as JSON text, or a fragment of that text.
    pub arguments: ByteString,
}

/// Payload of [`ContentBlock::ToolResult`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// The source's id of the call that is answered. Some sources have none.
    pub id: Option<ToolCallId>,
    /// The tool's name, where the result tells it.
    pub name: Option<ByteString>,
    /// What the tool answered.
    pub output: ToolOutput,
    /// True if the tool failed or was refused.
    pub is_error: bool,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    /// Plain text, whole.
    Text(ByteString),
    /// Anything structured: an object, or a list of content parts.
    Json(Value),
    /// A sign of life while the tool still works: shown at once, and not the answer.
    Progress(ByteString),
}

impl Default for ToolOutput {
    fn default() -> Self {
        Self::Text(ByteString::new())
    }
}

impl ToolOutput {
    /// The output as one text: as it is, or as compact JSON.
    pub fn to_text(&self) -> ByteString {
        match self {
            Self::Text(text) | Self::Progress(text) => text.clone(),
            Self::Json(Value::String(text)) => ByteString::from(text.as_str()),
            Self::Json(value) => ByteString::from(value.to_string()),
        }
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) | Self::Progress(text) if text.is_empty())
    }
}

/// Payload of [`ContentBlock::Custom`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Custom {
    /// What it is: a name of [`wellknown`](crate::wellknown) or the source's own.
    pub name: ByteString,
    /// The content.
    pub value: Value,
}

impl ContentBlock {
    /// A text (fragment).
    pub fn text(text: impl Into<ByteString>) -> Self {
        Self::Text(Text { text: text.into() })
    }

    /// A thought (fragment).
    pub fn thinking(text: impl Into<ByteString>) -> Self {
        Self::Thinking(Thinking { text: text.into(), encrypted: None })
    }

    /// A tool call with its id, name and arguments (or their first fragment).
    pub fn tool_use(
        id: impl Into<ByteString>,
        name: impl Into<ByteString>,
        arguments: impl Into<ByteString>,
    ) -> Self {
        Self::ToolUse(ToolUse {
            id: Some(ToolCallId::new(id)),
            name: Some(name.into()),
            arguments: arguments.into(),
        })
    }

    /// A further fragment of a tool call's arguments.
    pub fn tool_arguments(id: impl Into<ByteString>, arguments: impl Into<ByteString>) -> Self {
        Self::ToolUse(ToolUse { id: Some(ToolCallId::new(id)), name: None, arguments: arguments.into() })
    }

    /// A tool's answer as text.
    pub fn tool_result(id: impl Into<ByteString>, output: impl Into<ByteString>) -> Self {
        Self::ToolResult(ToolResult {
            id: Some(ToolCallId::new(id)),
            output: ToolOutput::Text(output.into()),
            ..ToolResult::default()
        })
    }

    /// Anything else, by name.
    pub fn custom(name: impl Into<ByteString>, value: Value) -> Self {
        Self::Custom(Custom { name: name.into(), value })
    }

    /// Which of the five kinds it is.
    pub fn kind(&self) -> BlockKind {
        match self {
            Self::Text(_) => BlockKind::Text,
            Self::Thinking(_) => BlockKind::Thinking,
            Self::ToolUse(_) => BlockKind::ToolUse,
            Self::ToolResult(_) => BlockKind::ToolResult,
            Self::Custom(_) => BlockKind::Custom,
        }
    }
}

/// The five kinds of content, as a discriminant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of `ContentBlock`")]
pub enum BlockKind {
    Text,
    Thinking,
    ToolUse,
    ToolResult,
    Custom,
}
