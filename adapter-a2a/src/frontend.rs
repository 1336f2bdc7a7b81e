//! Data that a frontend sends to an A2A agent beside the user's message, and the data that the agent returns:
//! `docs/a2a.md` §9 has the names.
//!
//! ```text
//! state, context, tools, forwarded properties ──► metadata `ag-ui` of the message and of the request
//! results of tools that the frontend ran ───────► data parts `tool-result`, to the task that asked
//! A2UI actions and capabilities ────────────────► a data part; metadata `a2uiClientCapabilities`
//!
//! metadata `ag-ui`: {"state"} or {"stateDelta"}, data parts `state` and `state-delta` ──► state of the run
//! input-required with `tool-call` parts for tools that the frontend offered ─────────────► tool calls of the run
//! ```
//!
//! An agent that knows none of these names receives metadata that it may ignore.

#[cfg(any(feature = "server", test))]
use aqueduct_core::message::ToolSpec;
use aqueduct_core::{ByteString, ContentBlock, Message, Metadata, Role, RunInput};
use serde_json::{Map, Value, json};

use crate::recognise::{Recogniser, Sign};
use crate::wire::{Content, Part, Text};

/// The metadata key of the data of a frontend, and of the state that the agent returns.
pub const KEY: &str = "ag-ui";

/// The URI of the A2A extension that an agent declares in its card if it reads [`KEY`].
pub const EXTENSION: &str = "urn:aqueduct:a2a:frontend:v1";

/// The metadata key by which A2UI clients declare what they can show.
pub const A2UI_CAPABILITIES: &str = "a2uiClientCapabilities";

/// The prefix of the URIs of A2UI's extensions.
pub const A2UI_EXTENSIONS: &str = "https://a2ui.org/";

/// The media type of A2UI's data parts since 1.0.
const A2UI_MEDIA_TYPE: &str = "application/a2ui+json";

/// The member in which a frontend sends the user's action on an A2UI surface.
const A2UI_ACTION: &str = "a2uiAction";

/// Returns the metadata for the message of a run; empty if the frontend sends nothing beside the message.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_a2a::frontend::outgoing_metadata;
/// use aqueduct_core::RunInput;
/// use serde_json::json;
///
/// let mut input = RunInput::prompt("thread", "run", "Hi");
/// assert!(outgoing_metadata(&input).is_empty());
/// input.state = json!({"city": "Paris"});
/// assert_eq!(outgoing_metadata(&input)["ag-ui"]["state"]["city"], "Paris");
/// ```
pub fn outgoing_metadata(input: &RunInput) -> Metadata {
    let mut given = Map::new();
    if !is_nothing(&input.state) {
        given.insert("state".to_owned(), input.state.clone());
    }
    if !input.context.is_empty() {
        let facts =
            input.context.iter().map(|(name, value)| json!({"description": &**name, "value": &**value}));
        given.insert("context".to_owned(), facts.collect());
    }
    if !input.tools.is_empty() {
        let tools = input.tools.iter().map(|tool| {
            json!({"name": &*tool.name, "description": &*tool.description, "parameters": tool.parameters})
        });
        given.insert("tools".to_owned(), tools.collect());
    }
    let mut forwarded = input.forwarded.clone();
    if let Some(members) = forwarded.as_object_mut() {
        // The metadata that an A2A caller sent beside its message are for this server, and not for the agent.
        members.shift_remove("a2a");
    }
    if !is_nothing(&forwarded) {
        given.insert("forwardedProps".to_owned(), forwarded);
    }
    let mut metadata = Metadata::new();
    if !given.is_empty() {
        metadata.insert(KEY.to_owned(), Value::Object(given));
    }
    if let Some(capabilities) = input.forwarded.get(A2UI_CAPABILITIES) {
        metadata.insert(A2UI_CAPABILITIES.to_owned(), capabilities.clone());
    }
    metadata
}

/// Returns `true` for `null` and `{}`, which frontends send for "no state".
fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// Returns the names of the data that a frontend sends, for a notice about an agent that may ignore them.
pub fn given_names(input: &RunInput) -> Vec<String> {
    let metadata = outgoing_metadata(input);
    let given = metadata.get(KEY).and_then(Value::as_object);
    given.map(|given| given.keys().cloned().collect()).unwrap_or_default()
}

/// Adds the data of a frontend to the input of a run: the inverse of [`outgoing_metadata`].
#[cfg(any(feature = "server", test))]
pub(crate) fn take_given(input: &mut RunInput, metadata: &Metadata) {
    let Some(given) = metadata.get(KEY).and_then(Value::as_object) else { return };
    if let Some(state) = given.get("state") {
        input.state = state.clone();
    }
    let list = |key: &str| given.get(key).and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value, key: &str| {
        ByteString::from(value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned())
    };
    input.context = list("context").map(|fact| (text(fact, "description"), text(fact, "value"))).collect();
    let tool = |tool: &Value| ToolSpec {
        name: text(tool, "name"),
        description: text(tool, "description"),
        parameters: tool.get("parameters").filter(|parameters| !parameters.is_null()).cloned(),
        metadata: None,
    };
    input.tools = list("tools").map(tool).filter(|tool| !tool.name.is_empty()).collect();
    if let Some(Value::Object(forwarded)) = given.get("forwardedProps") {
        let mut all = forwarded.clone();
        if let Some(own) = input.forwarded.as_object() {
            all.extend(own.clone());
        }
        input.forwarded = Value::Object(all);
    }
}

/// Returns the tool results at the end of the input: those of tools that the frontend executed.
pub fn tool_results(input: &RunInput) -> Vec<Part<'static>> {
    let is_result = |message: &&Message| message.role == Role::Tool;
    let mut results: Vec<Part<'static>> = input
        .messages
        .iter()
        .rev()
        .take_while(is_result)
        .flat_map(|message| message.contents.iter().rev())
        .filter_map(tool_result)
        .collect();
    results.reverse();
    results
}

/// Converts the result of a tool into a data part:
///
/// ```text
/// {"type": "tool-result", "toolCallId": "c2", "payload": "ok", "isError": true}      `isError` only for failures
/// ```
fn tool_result(block: &ContentBlock) -> Option<Part<'static>> {
    let ContentBlock::ToolResult(result) = block else { return None };
    let mut value = json!({
        "type": "tool-result",
        "toolCallId": result.id.as_ref().map(|id| id.as_str().to_owned()),
        "payload": &*result.output.to_text(),
    });
    if let (true, Some(members)) = (result.is_error, value.as_object_mut()) {
        members.insert("isError".to_owned(), true.into());
    }
    Some(Part::data(&value))
}

/// Returns the user's action on an A2UI surface, as a part for the agent. An action without a wrapper is wrapped
/// as `userAction`.
pub(crate) fn a2ui_action(input: &RunInput) -> Option<Part<'static>> {
    let action = input.forwarded.get(A2UI_ACTION).filter(|action| action.is_object())?;
    let is_wrapped = action.get("userAction").is_some() || action.get("action").is_some();
    let message = if is_wrapped { action.clone() } else { json!({ "userAction": action }) };
    let mut part = Part::data(&message);
    part.media_type = Text::new(A2UI_MEDIA_TYPE);
    Some(part)
}

/// A change of the state that an agent shares with a frontend.
#[derive(Debug, Clone, PartialEq)]
pub enum StateChange {
    /// The complete state.
    Snapshot(Value),
    /// A JSON patch (RFC 6902).
    Delta(Vec<Value>),
}

impl StateChange {
    /// Parses `{"state": …}` or `{"stateDelta": […]}`; `delta` is the name of the second member. A complete state
    /// takes precedence.
    fn of(members: &Map<String, Value>, delta: &str) -> Option<Self> {
        match (members.get("state"), members.get(delta)) {
            (Some(state), _) => Some(Self::Snapshot(state.clone())),
            (None, Some(Value::Array(patch))) => Some(Self::Delta(patch.clone())),
            _ => None,
        }
    }

    /// Returns the patch that sets top-level members, or `None` if there are none. `~` and `/` in names are
    /// escaped (RFC 6901).
    pub(crate) fn of_members(members: &Map<String, Value>) -> Option<Self> {
        let set = |(name, value): (&String, &Value)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            json!({"op": "add", "path": format!("/{name}"), "value": value})
        };
        (!members.is_empty()).then(|| Self::Delta(members.iter().map(set).collect()))
    }
}

/// Recognises the state that an agent returns.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrontendState;

impl Recogniser for FrontendState {
    fn state(&self, metadata: &Metadata) -> Option<(String, StateChange)> {
        let change = StateChange::of(metadata.get(KEY)?.as_object()?, "stateDelta")?;
        Some((String::new(), change))
    }

    fn part(&self, part: &Part<'_>) -> Option<Sign> {
        let Content::Data(raw) = &part.content else { return None };
        // Cheap: most data parts are not parsed for this.
        if !raw.as_str().contains("\"state") {
            return None;
        }
        let Value::Object(data) = raw.to_value() else { return None };
        let kind = data.get("type").and_then(Value::as_str)?;
        let is_state = matches!(kind, "state" | "state-snapshot" | "state-delta" | "state-patch");
        let change =
            is_state.then(|| StateChange::of(&data, "delta").or_else(|| StateChange::of(&data, "patch")));
        change.flatten().map(Sign::State)
    }
}

/// Returns the names of the tools that a frontend offers.
pub fn offered_tools(input: &RunInput) -> Vec<ByteString> {
    input.tools.iter().map(|tool| tool.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use aqueduct_core::block::{ToolOutput, ToolResult};

    use super::*;

    #[test]
    fn results_at_the_end_go_back_and_earlier_ones_do_not() {
        let mut input = RunInput::prompt("t", "r", "Hi");
        let result = |id: &'static str| {
            let mut message = Message::new(Role::Tool);
            message.contents.push(ContentBlock::from(ToolResult {
                id: Some(id.into()),
                name: None,
                output: ToolOutput::Text("ok".into()),
                is_error: id == "c3",
            }));
            message
        };
        input.messages.insert(0, result("c1"));
        assert!(tool_results(&input).is_empty(), "the user has said something since");
        input.messages.extend([result("c2"), result("c3")]);
        let parts: Vec<Value> =
            tool_results(&input).iter().map(|part| part.to_json(crate::wire::Dialect::V1)).collect();
        assert_eq!(parts[0]["data"], json!({"type": "tool-result", "toolCallId": "c2", "payload": "ok"}));
        assert_eq!(parts[1]["data"]["isError"], true);
    }

    #[test]
    fn what_a_caller_said_over_a2a_is_not_passed_on() {
        let mut input = RunInput::prompt("t", "r", "Hi");
        input.forwarded = json!({"a2a": {"tenant": "x"}});
        assert!(outgoing_metadata(&input).is_empty());
        input.forwarded = json!({"a2a": {}, "theme": "dark", "a2uiClientCapabilities": {"v": 1}});
        let metadata = outgoing_metadata(&input);
        assert_eq!(metadata[KEY]["forwardedProps"]["theme"], "dark");
        assert_eq!(metadata[A2UI_CAPABILITIES], json!({"v": 1}));
        assert_eq!(given_names(&input), ["forwardedProps"]);
    }

    #[test]
    fn what_is_given_arrives_as_it_was() {
        let mut input = RunInput::prompt("t", "r", "Hi");
        input.state = json!({"city": "Paris"});
        input.context = vec![("user".into(), "Ada".into())];
        input.tools = vec![ToolSpec {
            name: "paint".into(),
            description: "Paints.".into(),
            parameters: Some(json!({"type": "object"})),
            metadata: None,
        }];
        input.forwarded = json!({"theme": "dark"});
        let mut arrived = RunInput::prompt("t", "r", "Hi");
        take_given(&mut arrived, &outgoing_metadata(&input));
        assert_eq!(arrived, input);
    }

    #[test]
    fn state_comes_back_in_metadata_and_in_parts() {
        let metadata = |value: Value| match json!({ KEY: value }) {
            Value::Object(metadata) => metadata,
            _ => Metadata::new(),
        };
        let read = |value| FrontendState.state(&metadata(value)).map(|(_, change)| change);
        assert_eq!(read(json!({"state": {"a": 1}})), Some(StateChange::Snapshot(json!({"a": 1}))));
        let patch = vec![json!({"op": "add", "path": "/a", "value": 1})];
        assert_eq!(read(json!({"stateDelta": patch})), Some(StateChange::Delta(patch.clone())));
        assert_eq!(read(json!({"tools": []})), None);
        let part = |value: Value| FrontendState.part(&Part::data(&value));
        assert_eq!(
            part(json!({"type": "state-delta", "delta": patch})),
            Some(Sign::State(StateChange::Delta(patch)))
        );
        assert_eq!(part(json!({"state": "of the art"})), None, "data without a type is data");
    }
}
