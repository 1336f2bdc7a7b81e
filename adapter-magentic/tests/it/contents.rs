//! Every type of content has a place, and types that are newer than the crate, too.

use aqueduct_adapter_magentic::wire::ContentType;
use aqueduct_core::SourceEvent;
use aqueduct_core::block::{ContentBlock, ToolOutput};
use serde_json::{Value, json};

use crate::support::{run_of, status, update};

/// What one content becomes, in a line.
fn becomes(content: &Value) -> String {
    let run = run_of(&[update("output", "a", &json!({"contents": [content]})), status("IDLE")]);
    let asked = run.said.iter().find(|event| matches!(event, SourceEvent::InterruptRequested { .. }));
    match asked.unwrap_or(&run.said[0]) {
        SourceEvent::Update(update) => match &update.block {
            ContentBlock::Text(text) => format!("text {}", text.text),
            ContentBlock::Thinking(thought) => {
                format!("thinking {} {:?}", thought.text, thought.encrypted.as_deref())
            }
            ContentBlock::ToolUse(call) => {
                let id = call.id.as_ref().map_or("-", |id| id.as_str());
                format!("call {id} {} {}", call.name.as_deref().unwrap_or("-"), call.arguments)
            }
            ContentBlock::ToolResult(result) => {
                let id = result.id.as_ref().map_or("-", |id| id.as_str());
                let form = if matches!(result.output, ToolOutput::Json(_)) { "json" } else { "text" };
                format!(
                    "result {id} {form} {}{}",
                    result.output.to_text(),
                    if result.is_error { " ERROR" } else { "" }
                )
            }
            ContentBlock::Custom(custom) => format!("custom {} {}", custom.name, custom.value),
        },
        SourceEvent::Usage { usage, .. } => format!("usage {:?}", usage.input),
        SourceEvent::InterruptRequested { interrupt, .. } => {
            format!("interrupt {} {} {:?}", interrupt.id, interrupt.reason, interrupt.message.as_deref())
        }
        other => panic!("{other:?}"),
    }
}

#[rustfmt::skip]
fn table() -> Vec<(Value, &'static str)> {
    let file = json!({"type": "hosted_file", "file_id": "f1"});
    vec![
        (json!({"type": "text", "text": "hi"}), "text hi"),
        (json!({"type": "text_reasoning", "text": "hm", "protected_data": "xyz"}), "thinking hm Some(\"xyz\")"),
        (json!({"type": "text_reasoning", "text": "", "protected_data": "xyz"}), "thinking  Some(\"xyz\")"),
        (json!({"type": "data", "uri": "data:image/png;base64,AAAA", "media_type": "image/png"}), r#"custom aqueduct.file {"data":"AAAA","mediaType":"image/png"}"#),
        (json!({"type": "uri", "uri": "https://x.test/a", "media_type": "text/html"}), r#"custom aqueduct.file {"url":"https://x.test/a","mediaType":"text/html"}"#),
        (json!({"type": "error", "message": "boom", "error_code": "E7"}), r#"custom aqueduct.notice {"text":"boom","level":"error","code":"E7"}"#),
        (json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\":1}"}), r#"call c f {"a":1}"#),
        (json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}}), r#"call c f {"a":1}"#),
        (json!({"type": "function_result", "call_id": "c", "result": "ok", "items": [{"type": "text", "text": "ok"}]}), "result c text ok"),
        (json!({"type": "function_result", "call_id": "c", "result": "Error: Function failed.", "exception": "E"}), "result c text Error: Function failed. ERROR"),
        (json!({"type": "function_result", "call_id": "c", "result": "Error: Tool call invocation was rejected by user."}), "result c text Error: Tool call invocation was rejected by user. ERROR"),
        (json!({"type": "function_result", "call_id": "c", "result": {"a": 1}}), r#"result c json {"a":1}"#),
        (json!({"type": "function_result", "call_id": "c", "result": "", "items": [file]}), r#"result c json [{"type":"hosted_file","file_id":"f1"}]"#),
        (json!({"type": "usage", "usage_details": {"input_token_count": 3}}), "usage Some(3)"),
        (json!({"type": "hosted_file", "file_id": "f1", "name": "a.txt"}), r#"custom magentic.hosted_file {"name":"a.txt","file_id":"f1"}"#),
        (json!({"type": "hosted_vector_store", "vector_store_id": "v"}), r#"custom magentic.hosted_vector_store {"vector_store_id":"v"}"#),
        (json!({"type": "code_interpreter_tool_call", "call_id": "c", "inputs": [{"type": "text", "text": "1+1"}]}), r#"call c code_interpreter {"inputs":[{"type":"text","text":"1+1"}]}"#),
        (json!({"type": "code_interpreter_tool_result", "call_id": "c", "outputs": [{"type": "text", "text": "2"}]}), r#"result c json [{"type":"text","text":"2"}]"#),
        (json!({"type": "image_generation_tool_call", "image_id": "i", "id": "c"}), r#"call c image_generation {"id":"c","image_id":"i"}"#),
        (json!({"type": "image_generation_tool_result", "id": "c", "outputs": {"uri": "u"}}), r#"result c json {"uri":"u"}"#),
        (json!({"type": "mcp_server_tool_call", "call_id": "c", "tool_name": "find", "server_name": "s", "arguments": {"q": 1}}), r#"call c find {"q":1}"#),
        (json!({"type": "mcp_server_tool_result", "call_id": "c", "output": "found"}), "result c text found"),
        (json!({"type": "search_tool_call", "call_id": "c", "tool_name": "web_search", "arguments": "{\"q\":1}"}), r#"call c web_search {"q":1}"#),
        (json!({"type": "search_tool_result", "call_id": "c", "items": [1]}), "result c json [1]"),
        (json!({"type": "shell_tool_call", "call_id": "c", "commands": ["ls"]}), r#"call c shell {"commands":["ls"]}"#),
        (json!({"type": "shell_tool_result", "call_id": "c", "outputs": []}), "result c json []"),
        (json!({"type": "shell_command_output", "call_id": "c", "stdout": "x", "exit_code": 0}), r#"result c json {"stdout":"x","exit_code":0}"#),
        (json!({"type": "computer_tool_call", "call_id": "c", "action": {"type": "click"}}), r#"call c computer {"action":{"type":"click"}}"#),
        (json!({"type": "computer_tool_result", "call_id": "c", "output": {"image": "u"}}), r#"result c json {"image":"u"}"#),
        (json!({"type": "function_approval_request", "id": "r", "function_call": {"type": "function_call", "call_id": "c", "name": "rm"}}), "interrupt r tool_call Some(\"approve the call of rm?\")"),
        (json!({"type": "function_approval_response", "id": "r", "approved": true}), r#"custom magentic.function_approval_response {"id":"r","approved":true}"#),
        (json!({"type": "oauth_consent_request", "id": "o", "consent_link": "https://x.test"}), "interrupt o auth_required Some(\"consent is needed: https://x.test\")"),
        (json!({"type": "hologram", "depth": 3}), r#"custom magentic.hologram {"depth":3}"#),
    ]
}

#[test]
fn every_content_has_its_place() {
    for (content, expected) in table() {
        assert_eq!(becomes(&content), expected, "{content}");
    }
}

#[test]
fn the_table_has_all_types() {
    let table = table();
    assert_eq!(ContentType::ALL.len(), 26);
    for kind in ContentType::ALL {
        assert!(table.iter().any(|(content, _)| content["type"] == kind.as_str()), "{kind}");
        assert_eq!(ContentType::from_name(kind.as_str()), Some(*kind));
    }
}

#[test]
fn citations_are_told_once_beside_their_text() {
    let cited = json!({"type": "text", "text": "It rains.", "annotations": [{"type": "citation", "url": "https://x.test", "title": "X", "snippet": "rain"}]});
    let mut again = cited.clone();
    again["merge_mode"] = json!("replace");
    let run = run_of(&[
        update("output", "a", &json!({"contents": [cited]})),
        update("output", "a", &json!({"contents": [again]})),
        status("IDLE"),
    ]);
    let citations = crate::support::customs(&run, "aqueduct.citation");
    assert_eq!(
        citations,
        [&json!({"type": "citation", "url": "https://x.test", "title": "X", "text": "rain"})]
    );
}

#[test]
fn what_an_update_says_about_itself_stays_with_it() {
    let run = run_of(&[
        update(
            "output",
            "a",
            &json!({"contents": [{"type": "text", "text": "hi", "newer_content_field": true}], "newer_field": "x", "additional_properties": {"trace": 7}, "created_at": "2026-01-01T00:00:01.500000Z"}),
        ),
        status("IDLE"),
    ]);
    let Some(SourceEvent::Update(update)) = run.said.first() else { panic!("no update") };
    assert_eq!(update.metadata().unwrap()["trace"], 7);
    assert_eq!(update.metadata().unwrap()["newer_field"], "x");
    assert_eq!(update.metadata().unwrap()["newer_content_field"], true);
    assert_eq!(update.created_at.unwrap().0, 1_767_225_601_500);
}
