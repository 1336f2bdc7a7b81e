//! Conversion of one content object of the framework to its canonical form.
//!
//! | type | becomes |
//! |---|---|
//! | `text`, `text_reasoning` | `Text`, `Thinking` (`protected_data` as its encrypted form); annotations: citations |
//! | `function_call`, `*_tool_call` | `ToolUse`, matched by `call_id` |
//! | `function_result`, `*_tool_result`, `shell_command_output` | `ToolResult` |
//! | `data`, `uri` | the well-known file |
//! | `error` | the well-known notice, as an error |
//! | `usage` | usage |
//! | `function_approval_request`, `oauth_consent_request` | an interrupt |
//! | the rest, and types that are newer than this crate | `Custom` under `magentic.<type>` |
//!
//! The module knows neither the agent nor earlier content.

use aqueduct_core::block::{Custom, Thinking, ToolOutput, ToolResult, ToolUse};
use aqueduct_core::{ByteString, ContentBlock, ToolCallId, wellknown};
use serde_json::{Map, Value, json};

use crate::names;
use crate::wire::object::share;
use crate::wire::{Content, ContentType, Json, MergeMode};

/// The framework's result for a call that a human rejected; it has no exception field.
const REFUSED: &str = "Error: Tool call invocation was rejected by user.";

/// Details of a call that are the framework's bookkeeping, not arguments of the tool.
const NOT_ARGUMENTS: [&str; 6] = [
    "provider_hosted",
    "hosted_family",
    "hosted_provider",
    "informational_only",
    "provider_item_id",
    "retry_safety",
];

/// The canonical form of a content object.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// A block; `whole` if the fragment is the complete block.
    Block { block: ContentBlock, whole: bool },
    /// Token counts.
    Usage(Json<'a>),
    /// A request to a human.
    Request(&'a Content<'a>),
    /// An empty fragment.
    Nothing,
}

/// Converts a content object. Its strings are slices of the buffer `line`.
pub(super) fn piece<'a>(content: &'a Content<'a>, line: &ByteString) -> Piece<'a> {
    use ContentType as T;
    let Some(kind) = content.content_type() else { return other(content) };
    match kind {
        T::Text => match &content.text {
            Some(text) => Piece::Block { block: ContentBlock::text(text.share(line)), whole: false },
            None => Piece::Nothing,
        },
        T::TextReasoning => thinking(content, line),
        T::FunctionCall => call(content, line),
        T::CodeInterpreterToolCall
        | T::ImageGenerationToolCall
        | T::McpServerToolCall
        | T::SearchToolCall
        | T::ShellToolCall
        | T::ComputerToolCall => hosted_call(content, kind, line),
        T::FunctionResult => result(content, line),
        T::CodeInterpreterToolResult
        | T::ImageGenerationToolResult
        | T::McpServerToolResult
        | T::SearchToolResult
        | T::ShellToolResult
        | T::ShellCommandOutput
        | T::ComputerToolResult => hosted_result(content, kind, line),
        T::Data | T::Uri => file(content),
        T::Error => error(content),
        T::Usage => content.usage_details.map_or(Piece::Nothing, Piece::Usage),
        T::FunctionApprovalRequest | T::OauthConsentRequest => Piece::Request(content),
        T::HostedFile | T::HostedVectorStore | T::FunctionApprovalResponse => other(content),
    }
}

/// Returns the citations of a text.
pub(super) fn citations(content: &Content<'_>) -> Vec<ContentBlock> {
    let Some(annotations) = content.annotations.and_then(Json::list) else { return Vec::new() };
    let citation = |annotation: Json<'_>| {
        let mut value = annotation.value();
        if let Some(fields) = value.as_object_mut()
            && let Some(snippet) = fields.remove("snippet")
        {
            fields.insert("text".to_owned(), snippet);
        }
        ContentBlock::custom(wellknown::CITATION, value)
    };
    annotations.into_iter().map(citation).collect()
}

/// Returns thinking with its sealed form: providers require the seal unchanged when the text is sent back.
fn thinking<'a>(content: &Content<'_>, line: &ByteString) -> Piece<'a> {
    let text = content.text.as_ref().map(|text| text.share(line)).unwrap_or_default();
    let encrypted = content.protected_data.as_ref().map(|sealed| Box::new(sealed.share(line)));
    if text.is_empty() && encrypted.is_none() {
        return Piece::Nothing;
    }
    Piece::Block { block: ContentBlock::Thinking(Thinking { text, encrypted }), whole: false }
}

/// Returns a call of a function. Arguments that arrive as an object are complete; a string may be a fragment.
fn call<'a>(content: &Content<'_>, line: &ByteString) -> Piece<'a> {
    let (arguments, is_object) = arguments(content.arguments, line);
    let name = content.name.as_ref().filter(|name| !name.is_empty()).map(|name| name.share(line));
    let block = ContentBlock::from(ToolUse { id: call_id(content, line), name, arguments });
    // An object cannot be continued.
    Piece::Block { block, whole: is_object }
}

/// Converts a call that a provider executes. Its details are the arguments.
fn hosted_call<'a>(content: &Content<'_>, kind: ContentType, line: &ByteString) -> Piece<'a> {
    let (given, is_object) = arguments(content.arguments, line);
    let fragment = !given.is_empty() && !is_object;
    let arguments = if given.is_empty() { ByteString::from(details(content).to_string()) } else { given };
    let name = Some(hosted_name(content, kind, line));
    let block = ContentBlock::from(ToolUse { id: call_id(content, line), name, arguments });
    Piece::Block { block, whole: !fragment }
}

/// Converts a result: its items if they contain more than text, otherwise the joined text.
fn result<'a>(content: &Content<'_>, line: &ByteString) -> Piece<'a> {
    let text = content.result.and_then(Json::text);
    let is_error = content.exception.is_some() || text.as_deref() == Some(REFUSED);
    let items = content.items.filter(|items| has_more_than_text(*items));
    let output = match (items, &text, content.result) {
        (Some(items), ..) => ToolOutput::Json(items.value()),
        (None, Some(text), _) => ToolOutput::Text(text.share(line)),
        (None, None, Some(value)) => ToolOutput::Json(value.value()),
        (None, None, None) => ToolOutput::default(),
    };
    let result = ToolResult { id: call_id(content, line), name: None, output, is_error };
    Piece::Block { block: ContentBlock::from(result), whole: true }
}

/// Returns the result of a tool that the provider ran, from the first of the fields that the classes use.
fn hosted_result<'a>(content: &Content<'_>, kind: ContentType, line: &ByteString) -> Piece<'a> {
    let given = content.outputs.or(content.output).or(content.result).or(content.items);
    let output = match given {
        Some(value) => match value.text() {
            Some(text) => ToolOutput::Text(text.share(line)),
            None => ToolOutput::Json(value.value()),
        },
        None => ToolOutput::Json(details(content)),
    };
    let result = ToolResult {
        id: call_id(content, line),
        name: Some(hosted_name(content, kind, line)),
        output,
        is_error: content.exception.is_some(),
    };
    Piece::Block { block: ContentBlock::from(result), whole: true }
}

/// Converts a file. A `data:` URL is split; its bytes are kept as base64.
fn file<'a>(content: &Content<'_>) -> Piece<'a> {
    let Some(uri) = &content.uri else { return other(content) };
    let mut value = Map::new();
    let inline = uri.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((_, data)) => value.insert("data".to_owned(), json!(data)),
        None => value.insert("url".to_owned(), json!(&**uri)),
    };
    let media_type = inline.map(|(media_type, _)| media_type).filter(|kind| !kind.is_empty());
    if let Some(media_type) = content.media_type.as_deref().or(media_type) {
        value.insert("mediaType".to_owned(), json!(media_type));
    }
    if let Some(name) = content.name.as_deref() {
        value.insert("name".to_owned(), json!(name));
    }
    whole(ContentBlock::custom(wellknown::FILE, Value::Object(value)))
}

/// Returns an error that is content: the agent continues after it.
fn error<'a>(content: &Content<'_>) -> Piece<'a> {
    let mut value = Map::new();
    let text = content.message.as_deref().or(content.error_details.as_deref()).unwrap_or("unknown error");
    value.insert("text".to_owned(), json!(text));
    value.insert("level".to_owned(), json!("error"));
    for (key, field) in [("code", &content.error_code), ("details", &content.error_details)] {
        if let Some(field) = field {
            value.insert(key.to_owned(), json!(&**field));
        }
    }
    whole(ContentBlock::custom(wellknown::NOTICE, Value::Object(value)))
}

/// Converts content without canonical kind to a custom block.
fn other<'a>(content: &Content<'_>) -> Piece<'a> {
    let name = format!("{}{}", names::CONTENT_PREFIX, &*content.kind);
    whole(ContentBlock::from(Custom { name: name.into(), value: details(content) }))
}

/// Returns a block that no later fragment continues.
fn whole<'a>(block: ContentBlock) -> Piece<'a> {
    Piece::Block { block, whole: true }
}

/// Returns the id of the call that the content belongs to. Hosted tools use `id` instead of `call_id`.
fn call_id(content: &Content<'_>, line: &ByteString) -> Option<ToolCallId> {
    let given = content.call_id.as_ref().or(content.id.as_ref()).filter(|id| !id.is_empty());
    given.map(|id| ToolCallId::new(id.share(line)))
}

/// Returns arguments as JSON text, and whether they are a whole object instead of (a fragment of) that text.
pub(super) fn arguments(arguments: Option<Json<'_>>, line: &ByteString) -> (ByteString, bool) {
    let Some(arguments) = arguments else { return (ByteString::new(), false) };
    match arguments.text() {
        Some(text) => (text.share(line), false),
        None => (share(line, arguments.as_str()), true),
    }
}

/// Returns the name of a hosted tool, or the kind of the content if the framework sends none.
fn hosted_name(content: &Content<'_>, kind: ContentType, line: &ByteString) -> ByteString {
    let given = content.tool_name.as_ref().or(content.name.as_ref()).filter(|name| !name.is_empty());
    given.map_or_else(
        || {
            let name = kind.as_str();
            let name = name.strip_suffix("_tool_call").or_else(|| name.strip_suffix("_tool_result"));
            ByteString::from_static(name.unwrap_or("shell"))
        },
        |name| name.share(line),
    )
}

/// Returns `true` if the items of a result contain files or data, which a text would drop.
fn has_more_than_text(items: Json<'_>) -> bool {
    items.read::<Vec<Content<'_>>>().is_some_and(|items| items.iter().any(|item| !item.is_text()))
}

/// Returns the fields of a content object other than its type and ids.
fn details(content: &Content<'_>) -> Value {
    let mut value = Map::new();
    let texts = [
        ("id", &content.id),
        ("name", &content.name),
        ("text", &content.text),
        ("media_type", &content.media_type),
        ("message", &content.message),
        ("uri", &content.uri),
        ("status", &content.status),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            value.insert(key.to_owned(), json!(&**text));
        }
    }
    let values = [
        ("arguments", content.arguments),
        ("result", content.result),
        ("items", content.items),
        ("output", content.output),
        ("outputs", content.outputs),
        ("additional_properties", content.additional_properties.filter(|more| !more.is_empty())),
    ];
    for (key, json) in values {
        if let Some(json) = json {
            value.insert(key.to_owned(), json.value());
        }
    }
    if let Some(approved) = content.approved {
        value.insert("approved".to_owned(), json!(approved));
    }
    if let Some(call) = &content.function_call {
        value.insert("function_call".to_owned(), function_call(call));
    }
    for (key, json) in content.unknown.iter().filter(|(key, _)| !NOT_ARGUMENTS.contains(&&**key)) {
        value.insert((**key).to_owned(), json.value());
    }
    Value::Object(value)
}

/// Returns a call in the framework's form: a reply to an approval request must contain it.
pub(super) fn function_call(call: &Content<'_>) -> Value {
    let mut value = Map::new();
    value.insert("type".to_owned(), json!("function_call"));
    for (key, text) in [("call_id", &call.call_id), ("name", &call.name), ("id", &call.id)] {
        if let Some(text) = text {
            value.insert(key.to_owned(), json!(&**text));
        }
    }
    if let Some(arguments) = call.arguments {
        value.insert("arguments".to_owned(), arguments.value());
    }
    if let Some(hosted) = call.hosted {
        value.insert("hosted".to_owned(), json!(hosted));
    }
    for (key, json) in &call.unknown {
        value.insert((**key).to_owned(), json.value());
    }
    Value::Object(value)
}

/// Returns `true` if a fragment replaces the earlier ones.
pub(super) fn replaces(content: &Content<'_>, update: MergeMode) -> bool {
    content.merge_mode == MergeMode::Replace || update == MergeMode::Replace
}
