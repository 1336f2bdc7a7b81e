//! Interrupts of frameworks: their text, and the shape in which each framework expects the reply.
//!
//! | framework | asks with | expects |
//! |---|---|---|
//! | Google ADK | data part of a long-running function call | the function's response, as data part |
//! | Strands | data part `{"interrupts": [{"interruptId", "name", "reason"}]}` | `{"interruptResponse": {"interruptId", "response"}}` |
//! | `LangGraph` | artifact `Interrupt` with `{"id", "value"}` | text, or `{"resume": value}` |
//! | Agent Framework | data part `function_approval_request` | `function_approval_response` |
//! | others | text, or any data | text, or any data |
//!
//! The shape is part of the interrupt's id ([`Shape::id`]): a reply names its interrupt, so any replica that receives
//! the reply can encode it without further knowledge of the task.

use aqueduct_core::InterruptReply;
use serde_json::{Map, Value, json};

use crate::wire::{Part, Raw};

/// The shape in which the reply is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Text, or data unchanged.
    Words,
    /// The response of a function of Google ADK.
    AdkFunction { name: String, call: String },
    /// The response to an interrupt of Strands.
    Strands { interrupt: String },
    /// The value that `LangGraph` resumes with.
    LangGraph { interrupt: String },
    /// The approval of a function call of Agent Framework.
    Approval { request: String },
}

/// One interrupt of a framework, found in the data of an `input-required` message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// The shape of the reply. It is stored in the id of the interrupt.
    pub(crate) shape: Shape,
    /// The text to show to the user; `None` if the data contains none.
    pub(crate) words: Option<String>,
    /// The JSON schema of the reply, for frontends that show a form.
    pub(crate) schema: Option<Value>,
}

/// The marks of the shapes in the ids of interrupts: `{task}:adk={function}={call}`, `{task}:strands={interrupt}`
/// and so on. Ids of frameworks may contain `=` and `:`: all behind a mark belongs to the framework.
const ADK: &str = ":adk=";
const STRANDS: &str = ":strands=";
const LANGGRAPH: &str = ":langgraph=";
const APPROVAL: &str = ":approval=";
/// The function of ADK that asks the user for a confirmation.
const ADK_CONFIRMATION: &str = "adk_request_confirmation";
/// Members of data that contain the text of an interrupt, best first.
const WORDS: [&str; 9] =
    ["question", "message", "prompt", "hint", "reason", "text", "title", "description", "value"];

impl Shape {
    /// Returns the id of an interrupt of that task, or `None` if the shape needs no id of its own.
    /// [`Shape::of_id`] is the inverse.
    pub(crate) fn id(&self, task: &str) -> Option<String> {
        match self {
            Self::Words => None,
            Self::AdkFunction { name, call } => Some(format!("{task}{ADK}{name}={call}")),
            Self::Strands { interrupt } => Some(format!("{task}{STRANDS}{interrupt}")),
            Self::LangGraph { interrupt } => Some(format!("{task}{LANGGRAPH}{interrupt}")),
            Self::Approval { request } => Some(format!("{task}{APPROVAL}{request}")),
        }
    }

    /// Returns the shape that an interrupt's id names. An id without a mark, also of another adapter, expects
    /// plain text or data.
    pub(crate) fn of_id(id: &str) -> Self {
        let after = |mark: &str| id.split_once(mark).map(|(_, rest)| rest.to_owned());
        if let Some((name, call)) = after(ADK).as_deref().and_then(|rest| rest.split_once('=')) {
            return Self::AdkFunction { name: name.to_owned(), call: call.to_owned() };
        }
        after(STRANDS)
            .map(|interrupt| Self::Strands { interrupt })
            .or_else(|| after(LANGGRAPH).map(|interrupt| Self::LangGraph { interrupt }))
            .or_else(|| after(APPROVAL).map(|request| Self::Approval { request }))
            .unwrap_or(Self::Words)
    }
}

/// Returns the interrupts in the parts of an `input-required` message. Only if they contain none, those in `form`
/// are returned: the artifact with which `LangGraph` asks precedes the message.
pub(crate) fn questions(parts: &[Part<'_>], form: Option<&Value>) -> Vec<Question> {
    let mut found: Vec<Question> = parts.iter().flat_map(of_part).collect();
    if found.is_empty() {
        found = form.and_then(Value::as_array).into_iter().flatten().filter_map(of_langgraph).collect();
    }
    found
}

/// Returns the text of an interrupt that consists of data only: that of the first data part, or else of the form.
pub(crate) fn words_of_data(parts: &[Part<'_>], form: Option<&Value>) -> Option<String> {
    parts.iter().find_map(Part::data_value).as_ref().or(form).map(words_of)
}

/// Returns the interrupts in one part. Strands can ask several questions in one part, the others ask one.
fn of_part(part: &Part<'_>) -> Vec<Question> {
    let Some(data) = part.data_value() else { return Vec::new() };
    let metadata = part.metadata.as_ref().and_then(Raw::to_object).unwrap_or_default();
    if let Some(question) = of_adk(&data, &metadata).or_else(|| of_approval(&data)) {
        return vec![question];
    }
    let interrupts = data.get("interrupts").and_then(Value::as_array);
    interrupts.into_iter().flatten().filter_map(of_strands).collect()
}

/// Returns a non-empty string member.
fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Recognises a long-running function call of Google ADK. Other function calls, which end by themselves, are no
/// interrupts.
///
/// ```text
/// {"data":{"id":"adk-1","name":"adk_request_confirmation","args":{"toolConfirmation":{"hint":"Delete?"}}},
///  "metadata":{"adk_type":"function_call","adk_is_long_running":true}}
/// ► shape AdkFunction { name: "adk_request_confirmation", call: "adk-1" }, words "Delete?"
/// ```
fn of_adk(data: &Value, metadata: &Map<String, Value>) -> Option<Question> {
    let is_call = metadata.get("adk_type").and_then(Value::as_str) == Some("function_call");
    let waits = metadata.get("adk_is_long_running") == Some(&Value::Bool(true));
    let (name, call) = (text(data, "name")?, text(data, "id")?);
    if !is_call || !waits {
        return None;
    }
    let args = data.get("args").cloned().unwrap_or_default();
    let hint = args.get("toolConfirmation").and_then(|confirmation| text(confirmation, "hint"));
    // A confirmation asks about another call; without a hint, that call is the text: `delete({"id":1})`.
    let asked = args.get("originalFunctionCall").unwrap_or(data);
    let words = hint.or_else(|| text(&args, "question")).unwrap_or_else(|| {
        let args = asked.get("args").unwrap_or(&Value::Null);
        format!("{}({args})", asked.get("name").and_then(Value::as_str).unwrap_or(&name))
    });
    let schema = (name == ADK_CONFIRMATION).then(|| {
        json!({"type": "object", "properties": {"confirmed": {"type": "boolean"}}, "required": ["confirmed"]})
    });
    Some(Question { shape: Shape::AdkFunction { name, call }, words: Some(words), schema })
}

/// Recognises the approval request of Agent Framework, in both of its spellings.
fn of_approval(data: &Value) -> Option<Question> {
    let kind = text(data, "type").or_else(|| text(data, "$type"))?;
    if !matches!(kind.as_str(), "function_approval_request" | "functionApprovalRequest") {
        return None;
    }
    let request = text(data, "id")?;
    let call = data.get("function_call").or_else(|| data.get("functionCall")).unwrap_or(&Value::Null);
    let arguments = call.get("arguments").unwrap_or(&Value::Null);
    let words = text(call, "name").map(|name| format!("{name}({arguments})"));
    let schema =
        json!({"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]});
    Some(Question { shape: Shape::Approval { request }, words, schema: Some(schema) })
}

/// Recognises one interrupt of Strands. The reason is the text; it can be any JSON.
fn of_strands(interrupt: &Value) -> Option<Question> {
    let id = text(interrupt, "interruptId").or_else(|| text(interrupt, "id"))?;
    let words = match interrupt.get("reason") {
        None | Some(Value::Null) => text(interrupt, "name"),
        Some(reason) => Some(words_of(reason)),
    };
    Some(Question { shape: Shape::Strands { interrupt: id }, words, schema: None })
}

/// Recognises one interrupt in the artifact of `LangGraph`: `{"id", "value", "response_schema"}`.
fn of_langgraph(data: &Value) -> Option<Question> {
    let words = words_of(data.get("value")?);
    let schema = data.get("response_schema").filter(|schema| schema.is_object()).cloned();
    Some(Question { shape: Shape::LangGraph { interrupt: text(data, "id")? }, words: Some(words), schema })
}

/// Returns the text in a value; as a last resort, the value as JSON.
fn words_of(value: &Value) -> String {
    match value {
        Value::String(words) => words.clone(),
        Value::Object(_) => {
            WORDS.iter().find_map(|key| text(value, key)).unwrap_or_else(|| value.to_string())
        }
        _ => value.to_string(),
    }
}

/// Encodes replies in the shape that each interrupt expects, in their order. Several replies for `LangGraph`
/// become one part, because a graph is resumed once, with a value per interrupt.
pub(crate) fn reply_parts(replies: &[InterruptReply]) -> Vec<Part<'static>> {
    let resumed: Vec<_> = replies.iter().filter(|reply| is_langgraph(reply)).collect();
    let mut parts: Vec<Part<'static>> = Vec::new();
    if resumed.len() > 1 {
        // One value for all of them, by interrupt.
        let values: Map<String, Value> = resumed.iter().filter_map(|reply| by_interrupt(reply)).collect();
        parts.push(Part::data(&json!({ "resume": values })));
    }
    let rest = replies.iter().filter(|reply| resumed.len() < 2 || !is_langgraph(reply));
    parts.extend(rest.flat_map(reply_part));
    parts
}

/// Returns `true` if the reply is for `LangGraph`.
fn is_langgraph(reply: &InterruptReply) -> bool {
    matches!(Shape::of_id(reply.id.as_str()), Shape::LangGraph { .. })
}

/// Returns the interrupt of `LangGraph` and the value to resume it with.
fn by_interrupt(reply: &InterruptReply) -> Option<(String, Value)> {
    let Shape::LangGraph { interrupt } = Shape::of_id(reply.id.as_str()) else { return None };
    Some((interrupt, answer(reply)))
}

/// Encodes one reply.
fn reply_part(reply: &InterruptReply) -> Vec<Part<'static>> {
    match Shape::of_id(reply.id.as_str()) {
        Shape::Words => plain_parts(reply),
        Shape::AdkFunction { name, call } => {
            let response =
                if name == ADK_CONFIRMATION { confirmation(reply) } else { function_response(reply) };
            let mut part = Part::data(&json!({"id": call, "name": name, "response": response}));
            part.metadata = Some(Raw::from_value(&json!({"adk_type": "function_response"})));
            vec![part]
        }
        Shape::Strands { interrupt } => {
            let response = json!({"interruptId": interrupt, "response": answer(reply)});
            vec![Part::data(&json!({ "interruptResponse": response }))]
        }
        Shape::LangGraph { .. } => match answer(reply) {
            Value::String(words) => vec![Part::text(words)],
            value => vec![Part::data(&json!({ "resume": value }))],
        },
        Shape::Approval { request } => {
            // An unclear answer approves nothing.
            let approved = is_yes(reply).unwrap_or(false);
            let kind = "function_approval_response";
            vec![Part::data(&json!({"type": kind, "id": request, "approved": approved}))]
        }
    }
}

/// Encodes a reply without a shape: text as text, anything else as data; a refusal in both.
fn plain_parts(reply: &InterruptReply) -> Vec<Part<'static>> {
    if !reply.resolved {
        let mut part = Part::text("The user declined to answer.".to_owned());
        part.metadata = Some(Raw::from_value(&json!({"declined": true})));
        return vec![part];
    }
    match answer(reply) {
        Value::Null => vec![Part::text(String::new())],
        Value::String(words) => vec![Part::text(words)],
        value => vec![Part::data(&value)],
    }
}

/// Returns the user's answer; a form with nothing but text is the text, and a refusal is "no".
fn answer(reply: &InterruptReply) -> Value {
    match &reply.payload {
        _ if !reply.resolved => "no".into(),
        None => Value::Null,
        Some(Value::Object(object)) if object.len() == 1 => match object.get("text") {
            Some(Value::String(words)) => words.as_str().into(),
            _ => Value::Object(object.clone()),
        },
        Some(value) => value.clone(),
    }
}

/// Returns whether the user agreed, or `None` if that is not clear. Users of text frontends type words, also in
/// other languages.
fn is_yes(reply: &InterruptReply) -> Option<bool> {
    if !reply.resolved {
        return Some(false);
    }
    match answer(reply) {
        Value::Bool(agreed) => Some(agreed),
        Value::Object(object) => ["confirmed", "approved", "accepted", "approve"]
            .iter()
            .find_map(|key| object.get(*key)?.as_bool()),
        Value::String(words) => {
            let word = words.trim().trim_end_matches(['.', '!']).to_lowercase();
            match word.as_str() {
                "yes" | "y" | "ok" | "okay" | "true" | "approve" | "approved" | "confirm" | "confirmed"
                | "accept" | "sure" | "ja" | "oui" | "si" | "sí" | "1" => Some(true),
                "no" | "n" | "false" | "reject" | "rejected" | "deny" | "denied" | "decline" | "declined"
                | "cancel" | "nein" | "non" | "0" => Some(false),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the response of an ADK confirmation. Text that is neither yes nor no is passed on and confirms nothing.
fn confirmation(reply: &InterruptReply) -> Value {
    let confirmed = is_yes(reply);
    match answer(reply) {
        Value::Object(mut object) if reply.resolved => {
            object.insert("confirmed".to_owned(), confirmed.unwrap_or(false).into());
            Value::Object(object)
        }
        value if confirmed.is_none() && !value.is_null() => json!({"confirmed": false, "payload": value}),
        _ => json!({"confirmed": confirmed.unwrap_or(false)}),
    }
}

/// Returns the response of any other ADK function: an object.
fn function_response(reply: &InterruptReply) -> Value {
    match answer(reply) {
        Value::Object(object) => Value::Object(object),
        value => json!({ "result": value }),
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::InterruptId;

    use super::*;
    use crate::wire::Dialect;

    fn reply(shape: &Shape, payload: Value) -> Value {
        let id = InterruptId::from(shape.id("context:run").unwrap().as_str());
        let resolved = !payload.is_null();
        let reply = InterruptReply { id, resolved, payload: Some(payload) };
        let parts = reply_parts(&[reply]);
        assert_eq!(parts.len(), 1);
        parts[0].to_json(Dialect::V1)
    }

    #[test]
    fn shapes_survive_the_id() {
        for shape in [
            Shape::AdkFunction { name: "adk_request_confirmation".into(), call: "adk-1".into() },
            Shape::Strands { interrupt: "v1:tool_call:call_1:u".into() },
            Shape::LangGraph { interrupt: "i".into() },
            Shape::Approval { request: "r=1".into() },
        ] {
            assert_eq!(Shape::of_id(&shape.id("context:run").unwrap()), shape);
        }
        assert_eq!(Shape::of_id("task:message"), Shape::Words);
    }

    #[test]
    fn a_confirmation_of_google_adk_is_the_response_of_its_function() {
        let shape = Shape::AdkFunction { name: ADK_CONFIRMATION.into(), call: "adk-1".into() };
        for (payload, response) in [
            (json!("yes"), json!({"confirmed": true})),
            (json!({"text": "Yes."}), json!({"confirmed": true})),
            (json!("no"), json!({"confirmed": false})),
            (json!(true), json!({"confirmed": true})),
            (
                json!({"confirmed": true, "payload": {"days": 2}}),
                json!({"confirmed": true, "payload": {"days": 2}}),
            ),
            (json!({"approved": true}), json!({"approved": true, "confirmed": true})),
            (json!("only two days"), json!({"confirmed": false, "payload": "only two days"})),
            (Value::Null, json!({"confirmed": false})),
        ] {
            assert_eq!(
                reply(&shape, payload.clone()),
                json!({"data": {"id": "adk-1", "name": "adk_request_confirmation", "response": response},
                    "metadata": {"adk_type": "function_response"}}),
                "{payload}"
            );
        }
        let other = Shape::AdkFunction { name: "ask".into(), call: "c".into() };
        assert_eq!(reply(&other, json!("blue"))["data"]["response"], json!({"result": "blue"}));
    }

    #[test]
    fn strands_langgraph_and_agent_framework_get_their_shapes() {
        let strands = Shape::Strands { interrupt: "i".into() };
        assert_eq!(
            reply(&strands, json!("yes")),
            json!({"data": {"interruptResponse": {"interruptId": "i", "response": "yes"}}})
        );
        let langgraph = Shape::LangGraph { interrupt: "i".into() };
        assert_eq!(reply(&langgraph, json!("yes")), json!({"text": "yes"}));
        assert_eq!(reply(&langgraph, json!({"n": 1})), json!({"data": {"resume": {"n": 1}}}));
        let approval = Shape::Approval { request: "r".into() };
        assert_eq!(
            reply(&approval, json!("ok")),
            json!({"data": {"type": "function_approval_response", "id": "r", "approved": true}})
        );
    }

    #[test]
    fn several_questions_of_langgraph_are_answered_together() {
        let replies = ["a", "b"].map(|interrupt| {
            let shape = Shape::LangGraph { interrupt: interrupt.into() };
            let id = InterruptId::from(shape.id("t").unwrap().as_str());
            InterruptReply { id, resolved: true, payload: Some(json!(interrupt.to_uppercase())) }
        });
        let parts = reply_parts(&replies);
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].to_json(Dialect::V1), json!({"data": {"resume": {"a": "A", "b": "B"}}}));
    }
}
