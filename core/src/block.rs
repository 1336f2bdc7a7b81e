//! The canonical content: [`ContentBlock`] and its five kinds.
//!
//! The same type holds a fragment (inside an [`Update`](crate::Update)) and a whole block (inside a merged
//! [`Message`](crate::Message)): a fragment of a text is a shorter text. Content without a kind of its own (files, data
//! parts, plans, citations) is [`Custom`] under a name of [`wellknown`](crate::wellknown).
//!
//! Text is [`ByteString`]: a slice of the buffer it was read from, so passing a delta on copies nothing. This module does
//! not decide when a block opens or ends; that is [`stream`](crate::stream).

use bytestring::ByteString;
use serde_json::Value;

use crate::id::ToolCallId;

/// One piece of an agent's output, or a fragment of one.
///
/// The larger and less frequent kinds are boxed: every text delta is moved through the queues of a run at the size of the
/// largest kind.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock {
    /// Text for the reader.
    Text(Text),
    /// Reasoning of the model.
    Thinking(Thinking),
    /// A call of a tool.
    ToolUse(Box<ToolUse>),
    /// The result of a tool call.
    ToolResult(Box<ToolResult>),
    /// Content of any other kind, identified by a name.
    Custom(Box<Custom>),
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
    /// The reasoning text or a fragment of it. Empty where a provider sends only the encrypted form.
    pub text: ByteString,
    /// The provider's encrypted form (signature, protected data), returned unchanged to the provider in the next turn.
    pub encrypted: Option<Box<ByteString>>,
}

/// Payload of [`ContentBlock::ToolUse`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolUse {
    /// The source's id of the call. `None` for sources without call ids.
    pub id: Option<ToolCallId>,
    /// The tool's name. Often only the first fragment carries it.
    pub name: Option<ByteString>,
    /// The arguments as JSON text, or a fragment of that text.
    pub arguments: ByteString,
}

/// Payload of [`ContentBlock::ToolResult`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolResult {
    /// The source's id of the call that the result belongs to. `None` for sources without call ids.
    pub id: Option<ToolCallId>,
    /// The name of the tool, if the result carries it.
    pub name: Option<ByteString>,
    /// The output of the tool.
    pub output: ToolOutput,
    /// Set if the tool failed or its use was rejected.
    pub is_error: bool,
}

/// The output of a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput {
    /// Plain text, whole.
    Text(ByteString),
    /// Structured output: an object, or a list of content parts.
    Json(Value),
    /// A progress report of a tool that still runs. Shown at once; not the result.
    Progress(ByteString),
}

impl Default for ToolOutput {
    fn default() -> Self {
        Self::Text(ByteString::new())
    }
}

impl ToolOutput {
    /// Returns the output as one text: plain text unchanged, JSON in its compact form.
    pub fn to_text(&self) -> ByteString {
        match self {
            Self::Text(text) | Self::Progress(text) => text.clone(),
            Self::Json(Value::String(text)) => ByteString::from(text.as_str()),
            Self::Json(value) => ByteString::from(value.to_string()),
        }
    }

    /// Returns `true` if the output has no text. JSON output is never empty.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) | Self::Progress(text) if text.is_empty())
    }
}

/// Payload of [`ContentBlock::Custom`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Custom {
    /// A name of [`wellknown`](crate::wellknown), or the source's own name for the content.
    pub name: ByteString,
    /// The content.
    pub value: Value,
}

impl ContentBlock {
    /// Returns a text block or a fragment of one.
    pub fn text(text: impl Into<ByteString>) -> Self {
        Self::Text(Text { text: text.into() })
    }

    /// Returns a thinking block or a fragment of one, without encrypted form.
    pub fn thinking(text: impl Into<ByteString>) -> Self {
        Self::Thinking(Thinking { text: text.into(), encrypted: None })
    }

    /// Returns a tool call with its arguments or their first fragment.
    pub fn tool_use(
        id: impl Into<ByteString>,
        name: impl Into<ByteString>,
        arguments: impl Into<ByteString>,
    ) -> Self {
        Self::from(ToolUse {
            id: Some(ToolCallId::new(id)),
            name: Some(name.into()),
            arguments: arguments.into(),
        })
    }

    /// Returns a further fragment of the arguments of call `id`.
    pub fn tool_arguments(id: impl Into<ByteString>, arguments: impl Into<ByteString>) -> Self {
        Self::from(ToolUse { id: Some(ToolCallId::new(id)), name: None, arguments: arguments.into() })
    }

    /// Returns a successful tool result with plain text.
    pub fn tool_result(id: impl Into<ByteString>, output: impl Into<ByteString>) -> Self {
        Self::from(ToolResult {
            id: Some(ToolCallId::new(id)),
            output: ToolOutput::Text(output.into()),
            ..ToolResult::default()
        })
    }

    /// Returns content of any other kind under `name`.
    pub fn custom(name: impl Into<ByteString>, value: Value) -> Self {
        Self::from(Custom { name: name.into(), value })
    }

    /// Returns the kind of the block.
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

impl From<ToolUse> for ContentBlock {
    fn from(call: ToolUse) -> Self {
        Self::ToolUse(Box::new(call))
    }
}

impl From<ToolResult> for ContentBlock {
    fn from(result: ToolResult) -> Self {
        Self::ToolResult(Box::new(result))
    }
}

impl From<Custom> for ContentBlock {
    fn from(content: Custom) -> Self {
        Self::Custom(Box::new(content))
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
