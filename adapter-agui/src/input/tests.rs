//! Inputs both ways; each id once; both spellings of files; what is malformed is refused with a place.

use aqueduct_core::block::{ToolOutput, ToolResult};
use aqueduct_core::{ContentBlock, Message, Role, RunInput, ToolCallId, wellknown};
use serde_json::{Value, json};

use super::{read_input, run_agent_input, run_input};
use crate::config::Dialect;

fn input(messages: &Value) -> RunInput {
    let body = json!({"threadId": "t", "runId": "r", "messages": messages});
    run_input(read_input(body.to_string().as_bytes()).unwrap())
}

fn there_and_back(body: &Value) -> Value {
    let canonical = run_input(read_input(body.to_string().as_bytes()).unwrap());
    serde_json::to_value(run_agent_input(&canonical, Dialect::V1_0)).unwrap()
}

#[test]
fn the_least_input_is_enough() {
    let input = input(&json!([]));
    assert_eq!((input.state, input.forwarded), (json!({}), Value::Null));
    assert!(input.tools.is_empty() && input.context.is_empty() && input.resume.is_empty());
}

#[test]
fn nulls_and_unknown_members_are_taken() {
    let body = r#"{"threadId":"t","runId":"r","parentRunId":null,"state":null,"messages":[
        {"id":"a","role":"assistant","content":null,"toolCalls":null,"name":null,"mood":"good"}],
        "tools":null,"context":null,"forwardedProps":null,"resume":null,"future":1}"#;
    let input = run_input(read_input(body.as_bytes()).unwrap());
    assert_eq!(input.state, json!({}));
    assert_eq!(input.messages[0].metadata.as_ref().unwrap()["mood"], "good");
}

#[test]
fn what_is_malformed_is_refused_with_its_place() {
    for (body, place) in [
        (json!({"runId": "r", "messages": []}), "RunAgentInput.threadId"),
        (json!({"threadId": "t", "runId": "r"}), "RunAgentInput.messages"),
        (
            json!({"threadId": "t", "runId": "r", "messages": [{"id": "a", "role": "user"}]}),
            "RunAgentInput.messages[0].content",
        ),
        (
            json!({"threadId": "t", "runId": "r", "messages": [], "resume": [{"interruptId": "i", "status": "maybe"}]}),
            "RunAgentInput.resume[0].status",
        ),
    ] {
        let error = read_input(body.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{place}:")), "{error}");
    }
    assert!(read_input(b"{").is_err());
    assert!(read_input(&[0xff]).is_err());
}

#[test]
fn each_id_counts_once_with_its_latest_content() {
    let input = input(&json!([
        {"id": "1", "role": "user", "content": "a"},
        {"id": "2", "role": "assistant", "content": "half"},
        {"id": "1", "role": "user", "content": "a"},
        {"id": "2", "role": "assistant", "content": "whole"},
        {"id": "", "role": "user", "content": "x"},
        {"id": "", "role": "user", "content": "y"},
    ]));
    let texts: Vec<_> = input.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["a", "whole", "x", "y"]);
}

#[test]
fn calls_results_and_replies_are_recognised() {
    let body = json!({"threadId": "t", "runId": "r", "messages": [
        {"id": "1", "role": "assistant", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"id": "2", "role": "tool", "toolCallId": "c", "content": "found"},
        {"id": "3", "role": "tool", "toolCallId": "d", "content": [{"type": "text", "text": "x"}], "error": "broke"},
    ], "resume": [{"interruptId": "i", "status": "resolved", "payload": {"ok": true}},
        {"interruptId": "j", "status": "cancelled"}]});
    let input = run_input(read_input(body.to_string().as_bytes()).unwrap());
    assert_eq!(input.known_calls().map(ToolCallId::as_str).collect::<Vec<_>>(), ["c"]);
    let results: Vec<_> = input.messages.iter().flat_map(|message| &message.contents).collect();
    let ContentBlock::ToolResult(found) = results[1] else { panic!() };
    assert!(!found.is_error && input.messages[1].role == Role::Tool);
    let ContentBlock::ToolResult(broken) = results[2] else { panic!() };
    assert!(broken.is_error && broken.output == ToolOutput::Json(json!([{"type": "text", "text": "x"}])));
    assert!(input.resume[0].resolved && input.resume[0].payload == Some(json!({"ok": true})));
    assert!(!input.resume[1].resolved);
}

#[test]
fn files_of_both_spellings() {
    let input = input(&json!([{"id": "1", "role": "user", "content": [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "url", "value": "u", "mimeType": "image/png"}},
        {"type": "binary", "mimeType": "image/png", "url": "u"},
        {"type": "binary", "mimeType": "application/pdf", "data": "AA==", "filename": "f.pdf"},
        {"type": "binary", "mimeType": "audio/wav", "id": "h"},
        {"type": "document", "source": {"type": "file", "value": "f", "provider": "p"}, "metadata": {"filename": "g"}},
        {"type": "smell", "v": 1},
    ]}]));
    let customs: Vec<_> = input.messages[0]
        .contents
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Custom(custom) => Some((&*custom.name, custom.value.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(
        customs,
        [
            (wellknown::FILE, json!({"url": "u", "mediaType": "image/png", "kind": "image"})),
            (
                wellknown::FILE,
                json!({"data": "AA==", "mediaType": "application/pdf", "name": "f.pdf", "kind": "document"})
            ),
            (wellknown::FILE, json!({"handle": "h", "mediaType": "audio/wav", "kind": "audio"})),
            (
                wellknown::FILE,
                json!({"handle": "f", "provider": "p", "name": "g", "kind": "document", "metadata": {"filename": "g"}})
            ),
            (wellknown::RAW, json!({"event": {"type": "smell", "v": 1}, "source": "ag-ui"})),
        ]
    );
}

#[test]
fn everything_comes_back() {
    let body = json!({"threadId": "t", "runId": "r", "parentRunId": "p", "state": {"n": 1}, "messages": [
        {"id": "1", "role": "system", "content": "be kind"},
        {"id": "2", "role": "developer", "content": "be brief", "name": "dev"},
        {"id": "3", "role": "user", "content": [{"type": "text", "text": "look"},
            {"type": "image", "source": {"type": "url", "value": "u", "mimeType": "image/png"}, "id": "x", "metadata": {"a": 1}},
            {"type": "smell", "v": 1}], "metadata": {"k": null}},
        {"id": "4", "role": "reasoning", "content": "hm", "encryptedValue": "e"},
        {"id": "5", "role": "assistant", "content": "I look", "name": "planner", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}, "encryptedValue": "e", "metadata": {"q": 1}}],
            "encryptedValue": "f", "metadata": {"m": 1}},
        {"id": "6", "role": "tool", "toolCallId": "c", "content": [{"type": "text", "text": "x"}], "error": "broke"},
        {"id": "7", "role": "assistant", "content": "sub", "name": "helper", "subagentRunId": "s"},
        {"id": "8", "role": "activity", "activityType": "plan", "content": {"a": 1}},
        {"id": "9", "role": "oracle", "x": 1},
        {"id": "10", "role": "user", "content": "thanks", "name": "ann"},
    ], "tools": [{"name": "n", "description": "d", "parameters": {"type": "object"}, "metadata": {"a": 1}}],
    "context": [{"description": "d", "value": "v"}], "forwardedProps": {"f": 1},
    "resume": [{"interruptId": "i", "status": "resolved", "payload": 1}], "protocolVersion": "1.0"});
    assert_eq!(there_and_back(&body), body);
}

#[test]
fn recorded_inputs_come_back() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/agui");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".req.json") {
            let body: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let canonical = run_input(read_input(body.to_string().as_bytes()).unwrap());
            let back = serde_json::to_value(run_agent_input(&canonical, Dialect::V0_0_59)).unwrap();
            assert_eq!(back, body, "{}", path.display());
        }
    }
}

#[test]
fn a_canonical_message_of_several_kinds_becomes_several() {
    let mut message = Message::new(Role::Assistant);
    message.contents = vec![
        ContentBlock::thinking("hm"),
        ContentBlock::text("I "),
        ContentBlock::text("look"),
        ContentBlock::tool_use("c", "look", "{}"),
        ContentBlock::tool_result("c", "found"),
        ContentBlock::text("done"),
    ];
    let mut input = RunInput::prompt("t", "r", "go");
    input.messages.push(message);
    let back = serde_json::to_value(run_agent_input(&input, Dialect::V0_0_59)).unwrap();
    assert_eq!(
        back,
        json!({"threadId": "t", "runId": "r", "state": {}, "messages": [
        {"role": "user", "id": "r/input/0", "content": "go"},
        {"role": "reasoning", "id": "r/input/1", "content": "hm"},
        {"role": "assistant", "id": "r/input/1/2", "content": "I look", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "id": "r/input/1/3", "content": "found", "toolCallId": "c"},
        {"role": "assistant", "id": "r/input/1/4", "content": "done"},
    ], "tools": [], "context": [], "forwardedProps": {}})
    );
}

/// The client of agent-framework posts Python's spelling, and members of its own.
#[test]
fn both_spellings_are_read_and_unknown_members_go_on() {
    let snake = json!({
        "thread_id": "t", "run_id": "r", "parent_run_id": "p", "protocol_version": "1.0",
        "state": {"snake_key": 1}, "forwarded_props": {"some_key": true}, "availableInterrupts": [1],
        "messages": [
            {"id": "1", "role": "user", "content": [
                {"type": "image", "source": {"type": "data", "value": "AA==", "mime_type": "image/png"}}]},
            {"id": "2", "role": "assistant", "encrypted_value": "e", "subagent_run_id": "s", "mood": "good",
                "tool_calls": [{"id": "c", "type": "function", "encrypted_value": "f",
                    "function": {"name": "look", "arguments": "{}"}}]},
            {"id": "3", "role": "tool", "tool_call_id": "c", "content": "21"},
        ],
        "tools": [{"name": "n", "description": "d", "parameters": {"type": "object"}, "strict": true}],
        "resume": [{"interrupt_id": "i", "status": "resolved", "payload": {"is_ok": true}}],
    });
    let camel = there_and_back(&snake);
    assert_eq!(
        camel,
        json!({
            "threadId": "t", "runId": "r", "parentRunId": "p", "protocolVersion": "1.0",
            "state": {"snake_key": 1}, "forwardedProps": {"some_key": true}, "context": [], "availableInterrupts": [1],
            "messages": [
                {"id": "1", "role": "user", "content": [
                    {"type": "image", "source": {"type": "data", "value": "AA==", "mimeType": "image/png"}}]},
                {"id": "2", "role": "assistant", "encryptedValue": "e", "subagentRunId": "s", "mood": "good",
                    "toolCalls": [{"id": "c", "type": "function", "encryptedValue": "f",
                        "function": {"name": "look", "arguments": "{}"}}]},
                {"id": "3", "role": "tool", "toolCallId": "c", "content": "21"},
            ],
            "tools": [{"name": "n", "description": "d", "parameters": {"type": "object"}, "strict": true}],
            "resume": [{"interruptId": "i", "status": "resolved", "payload": {"is_ok": true}}],
        })
    );
    assert_eq!(there_and_back(&camel), camel);
}

/// What is unknown is told apart by where it was, not by its members: a part may have a role, too.
#[test]
fn unknown_parts_and_messages_stay_what_they_are() {
    let messages = json!([
        {"id": "1", "role": "user", "content": [{"type": "poll", "id": "p", "role": "user", "text": "?"}]},
        {"id": "2", "role": "moderator", "verdict": "fine"},
        {"id": "3", "role": "user", "content": "go on"},
    ]);
    let body = json!({"threadId": "t", "runId": "r", "messages": messages});
    assert_eq!(there_and_back(&body)["messages"], messages);
}

/// Raw content of another protocol, or without the members by which an agent reads it, is text.
#[test]
fn raw_content_of_other_protocols_is_text() {
    let raw = |source: &str| json!({"event": {"role": "judge", "id": "x", "type": "poll"}, "source": source});
    let written = |role: Role, raw: Value| {
        let mut input = input(&json!([]));
        let mut message = Message::new(role);
        message.contents.push(ContentBlock::custom(wellknown::RAW, raw));
        input.messages.push(message);
        let upstream = serde_json::to_value(run_agent_input(&input, Dialect::V1_0)).unwrap();
        read_input(upstream.to_string().as_bytes()).unwrap();
        let message = &upstream["messages"][0];
        (message["role"].clone(), message["content"].is_string())
    };
    assert_eq!(written(Role::Assistant, raw("ag-ui")), (json!("judge"), false));
    assert_eq!(written(Role::User, raw("ag-ui")), (json!("user"), false));
    let bare = json!({"event": {"text": "hi"}, "source": "ag-ui"});
    for raw in [raw("a2a"), bare] {
        assert_eq!(written(Role::Assistant, raw.clone()), (json!("assistant"), true));
        assert_eq!(written(Role::User, raw), (json!("user"), true));
    }
}

#[test]
fn an_id_that_is_too_long_is_refused_with_its_place() {
    let long = "x".repeat(1025);
    let call = json!([{"id": long, "type": "function", "function": {"name": "n", "arguments": ""}}]);
    for (member, value, place) in [
        ("threadId", json!(long), "RunAgentInput.threadId"),
        ("runId", json!(long), "RunAgentInput.runId"),
        ("messages", json!([{"id": long, "role": "user", "content": ""}]), "RunAgentInput.messages[0].id"),
        (
            "messages",
            json!([{"id": "a", "role": "assistant", "toolCalls": call}]),
            "RunAgentInput.messages[0].toolCalls[0].id",
        ),
        (
            "messages",
            json!([{"id": "a", "role": "tool", "toolCallId": long, "content": ""}]),
            "RunAgentInput.messages[0].toolCallId",
        ),
        (
            "resume",
            json!([{"interruptId": long, "status": "resolved"}]),
            "RunAgentInput.resume[0].interruptId",
        ),
    ] {
        let mut body = json!({"threadId": "t", "runId": "r", "messages": []});
        body[member] = value;
        let error = read_input(body.to_string().as_bytes()).unwrap_err().to_string();
        assert_eq!(error, format!("{place}: expected an id of at most 1024 bytes, found 1025 bytes"));
    }
}

/// Custom content that lacks what its AG-UI form needs reaches the agent as text.
#[test]
fn content_without_a_form_becomes_text() {
    let written = |role: Role, name: &'static str, value: Value| {
        let mut message = Message::new(role);
        message.contents = vec![ContentBlock::text("a "), ContentBlock::custom(name, value)];
        let mut input = RunInput::prompt("t", "r", "");
        input.messages = vec![message];
        let all = serde_json::to_value(run_agent_input(&input, Dialect::V1_0).messages).unwrap();
        assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
        all[0]["content"].clone()
    };
    for (role, name, value) in [
        (Role::Assistant, wellknown::ACTIVITY, json!({"type": "plan"})),
        (Role::Assistant, wellknown::ACTIVITY, json!({"content": {}})),
        (Role::Assistant, wellknown::RAW, json!({"event": "text"})),
        (Role::Assistant, wellknown::RAW, json!({"event": {"type": "smell"}})),
        (Role::User, wellknown::RAW, json!({"source": "ag-ui"})),
        (Role::User, wellknown::FILE, json!({"name": "a.png"})),
    ] {
        let text = format!("a {value}");
        assert_eq!(written(role, name, value), text, "{name}");
    }
}

/// The result of a tool consists of parts only if a 1.0 agent accepts each of them.
#[test]
fn a_result_with_foreign_parts_is_text() {
    let written = |output: &Value| {
        let mut message = Message::new(Role::Tool);
        let result = ToolResult {
            id: Some("c".into()),
            output: ToolOutput::Json(output.clone()),
            ..Default::default()
        };
        message.contents = vec![ContentBlock::from(result)];
        let mut input = RunInput::prompt("t", "r", "");
        input.messages = vec![message];
        serde_json::to_value(run_agent_input(&input, Dialect::V1_0).messages).unwrap()[0]["content"].clone()
    };
    let parts = json!([{"type": "text", "text": "Hi"}]);
    assert_eq!(written(&parts), parts);
    for output in [json!([]), json!([{"type": "smell"}]), json!([{"type": "text", "text": "Hi"}, 3])] {
        assert_eq!(written(&output), output.to_string());
    }
}
