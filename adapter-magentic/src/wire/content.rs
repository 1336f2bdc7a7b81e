//! `Content`: the framework's one flat class for 26 types of content.

use std::fmt;

use serde::de::{Deserialize, Deserializer};

use super::object::{Json, Text, wire_object};

/// The relation of a fragment to earlier ones. In the framework since core 1.22.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MergeMode {
    /// The fragment follows the earlier ones.
    #[default]
    Append,
    /// The fragment is the whole content and replaces the earlier ones.
    Replace,
}

impl<'de> Deserialize<'de> for MergeMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Text::deserialize(deserializer)?;
        Ok(if &*word == "replace" { Self::Replace } else { Self::Append })
    }
}

macro_rules! content_types {
    ($($variant:ident = $name:literal,)*) => {
        /// The known types of content.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are the framework's")]
        pub enum ContentType {
            $($variant,)*
        }

        impl ContentType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the type of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

content_types! {
    Text = "text",
    TextReasoning = "text_reasoning",
    Data = "data",
    Uri = "uri",
    Error = "error",
    FunctionCall = "function_call",
    FunctionResult = "function_result",
    Usage = "usage",
    HostedFile = "hosted_file",
    HostedVectorStore = "hosted_vector_store",
    CodeInterpreterToolCall = "code_interpreter_tool_call",
    CodeInterpreterToolResult = "code_interpreter_tool_result",
    ImageGenerationToolCall = "image_generation_tool_call",
    ImageGenerationToolResult = "image_generation_tool_result",
    McpServerToolCall = "mcp_server_tool_call",
    McpServerToolResult = "mcp_server_tool_result",
    SearchToolCall = "search_tool_call",
    SearchToolResult = "search_tool_result",
    ShellToolCall = "shell_tool_call",
    ShellToolResult = "shell_tool_result",
    ShellCommandOutput = "shell_command_output",
    ComputerToolCall = "computer_tool_call",
    ComputerToolResult = "computer_tool_result",
    FunctionApprovalRequest = "function_approval_request",
    FunctionApprovalResponse = "function_approval_response",
    OauthConsentRequest = "oauth_consent_request",
}

impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

wire_object! {
    /// One content object. Its fields depend on its type; the rarer ones are in `unknown`.
    pub struct Content {
        /// The type: a name of [`ContentType`], or one that is newer than this crate.
        kind: Text<'de> = "type",
        /// Of `text` and `text_reasoning`.
        text: Option<Text<'de>> = "text",
        /// Of `text_reasoning`: the encrypted form.
        protected_data: Option<Text<'de>> = "protected_data",
        /// Of `data` (a `data:` URL) and `uri`.
        uri: Option<Text<'de>> = "uri",
        /// Of `data`, `uri`, `hosted_file`.
        media_type: Option<Text<'de>> = "media_type",
        /// Of `error`.
        message: Option<Text<'de>> = "message",
        /// Of `error`.
        error_code: Option<Text<'de>> = "error_code",
        /// Of `error`.
        error_details: Option<Text<'de>> = "error_details",
        /// Of `usage`.
        usage_details: Option<Json<'de>> = "usage_details",
        /// Of calls and results: matches the two.
        call_id: Option<Text<'de>> = "call_id",
        /// The framework's own id; of requests: the id in the reply.
        id: Option<Text<'de>> = "id",
        /// Of `function_call`; empty on all fragments but the first. Of files: their name.
        name: Option<Text<'de>> = "name",
        /// Of hosted calls.
        tool_name: Option<Text<'de>> = "tool_name",
        /// Of calls: JSON text (or a fragment of it), or an object.
        arguments: Option<Json<'de>> = "arguments",
        /// Of `function_result`: the joined text of its items, or any value.
        result: Option<Json<'de>> = "result",
        /// Of `function_result`: the tool's return value, as contents.
        items: Option<Json<'de>> = "items",
        /// Of hosted results.
        outputs: Option<Json<'de>> = "outputs",
        /// Of hosted results.
        output: Option<Json<'de>> = "output",
        /// Of results: the class of the exception that the tool raised.
        exception: Option<Text<'de>> = "exception",
        /// Of approval requests and replies: the call.
        function_call: Option<Box<Content<'de>>> = "function_call",
        /// Of approval replies.
        approved: Option<bool> = "approved",
        /// Set if a human must reply.
        user_input_request: Option<bool> = "user_input_request",
        /// The relation to earlier content.
        merge_mode: MergeMode = "merge_mode",
        /// Citations.
        annotations: Option<Json<'de>> = "annotations",
        /// Set if a provider executes the tool.
        hosted: Option<bool> = "hosted",
        /// The status of a provider's item. Bookkeeping of the client.
        status: Option<Text<'de>> = "status",
        /// Further properties.
        additional_properties: Option<Json<'de>> = "additional_properties",
    }
}

impl Content<'_> {
    /// Returns the type, if it is known.
    pub fn content_type(&self) -> Option<ContentType> {
        ContentType::from_name(&self.kind)
    }

    /// Returns `true` for a call of any tool.
    pub fn is_call(&self) -> bool {
        &*self.kind == "function_call" || self.kind.ends_with("_tool_call")
    }

    /// Returns `true` for `text`.
    pub fn is_text(&self) -> bool {
        &*self.kind == "text"
    }
}

wire_object! {
    /// An annotation of a text.
    pub struct Annotation {
        /// The kind, usually `citation`.
        kind: Option<Text<'de>> = "type",
        /// The title of the cited document.
        title: Option<Text<'de>> = "title",
        /// The URL of the cited document.
        url: Option<Text<'de>> = "url",
        /// The cited text.
        snippet: Option<Text<'de>> = "snippet",
    }
}
