//! What is recognised, and what only resembles it.

use serde_json::json;

use super::*;

fn status(text: &str) -> Vec<Sign> {
    Recognisers::default().status_text(text, None)
}

fn start(name: &str, agent: Option<&str>) -> Sign {
    Sign::ToolStarted(ToolStart { name: name.into(), agent: agent.map(Into::into), ..ToolStart::default() })
}

fn end(name: &str, agent: Option<&str>, failed: bool, uncertain: bool) -> Sign {
    let (name, agent) = (Some(name.into()), agent.map(Into::into));
    Sign::ToolEnded(ToolEnd { name, agent, failed, uncertain, ..ToolEnd::default() })
}

#[test]
fn status_notices_are_read() {
    assert_eq!(
        status("🔧 Calling tool: **version_service__version**"),
        [start("version_service__version", None)]
    );
    assert_eq!(
        status("✅ Tool **version_service__version** completed"),
        [end("version_service__version", None, false, false)]
    );
    assert_eq!(status("🔧 Argocd: Calling tool: List Apps\n"), [start("List Apps", Some("Argocd"))]);
    assert_eq!(
        status("✅ Argocd: Tool List Apps completed\n"),
        [end("List Apps", Some("Argocd"), false, false)]
    );
    assert_eq!(status("❌ Argocd: Tool List Apps failed"), [end("List Apps", Some("Argocd"), true, false)]);
    assert_eq!(status("🔧 Supervisor: Calling Agent Github..."), [start("Github", Some("Supervisor"))]);
    assert_eq!(
        status("✅ Supervisor: Agent task Github completed"),
        [end("Github", Some("Supervisor"), false, false)]
    );
    assert_eq!(
        status("🔧 Calling tool: **a.b**\n🔧 Calling tool: **c**"),
        [start("a.b", None), start("c", None)]
    );
    assert_eq!(
        status("📄 Argocd: Tool output:\nline 1\nline 2"),
        [Sign::ToolOutput("line 1\nline 2".into())]
    );
    assert_eq!(status("✅ Deployment completed"), [end("Deployment", None, false, true)]);
}

#[test]
fn other_texts_are_texts() {
    for text in [
        "",
        "🤔 Planning…",
        "🔧 Fixing things",
        "Calling tool: x",
        "✅ All good",
        "✅ completed",
        "❌ upstream 503 from version_service",
        "🔧 Calling tool: **x**\nand then some words",
        "🔍 Querying the cluster",
        "🔧 Calling ...",
    ] {
        assert!(status(text).is_empty(), "{text}");
    }
}

#[test]
fn metadata_says_it_exactly() {
    let metadata = json!({"tool_name": "x", "status": "started", "args": {"n": 1}, "tool_call_id": "c"});
    let signs = Recognisers::default().status_text("looking…", metadata.as_object());
    let expected = ToolStart {
        name: "x".into(),
        call_id: Some("c".into()),
        arguments: r#"{"n":1}"#.into(),
        ..ToolStart::default()
    };
    assert_eq!(signs, [Sign::ToolStarted(expected)]);
    let metadata = json!({"tool_name": "x", "status": "failed"});
    assert_eq!(Recognisers::default().status_text("", metadata.as_object()), [end("x", None, true, false)]);
    let metadata = json!({"status": "started"});
    assert!(Recognisers::default().status_text("x", metadata.as_object()).is_empty());
}

fn artifact(json: &Value) -> Option<Sign> {
    let text = json.to_string();
    let artifact = serde_json::from_str(&text).unwrap();
    Recognisers::default().artifact(&artifact)
}

#[test]
fn caipe_artifacts_are_read_by_name() {
    assert_eq!(
        artifact(&json!({"name": "tool_notification_start", "description": "Tool call started: list_apps",
            "parts": [{"kind": "text", "text": "🔧 Argocd: Calling tool: List Apps\n"}]})),
        Some(start("list_apps", Some("Argocd")))
    );
    assert_eq!(
        artifact(&json!({"name": "tool_notification_end", "description": "Tool call failed: list_apps",
            "parts": [{"kind": "text", "text": "❌ Argocd: Tool List Apps failed\n"}], "metadata": {"sourceAgent": "argocd"}})),
        Some(end("list_apps", Some("argocd"), true, false))
    );
    assert_eq!(
        artifact(&json!({"name": "tool_notification_start", "parts": [{"text": "🔧 Fetching versions..."}]})),
        Some(start("Fetching versions", None))
    );
    assert_eq!(
        artifact(
            &json!({"name": "tool_notification_end", "parts": [{"text": "Agent task Github completed"}]})
        ),
        Some(end("Github", None, false, false))
    );
    assert_eq!(
        artifact(&json!({"name": "tool_notification_end", "parts": [{"text": "✅ Versions there"}]})),
        Some(Sign::ToolEnded(ToolEnd::default()))
    );
    for name in ["complete_result", "final_result", "partial_result"] {
        assert_eq!(artifact(&json!({"name": name, "parts": [{"text": "x"}]})), Some(Sign::Final));
    }
    assert_eq!(
        artifact(&json!({"name": "error_result", "parts": [{"text": "x"}]})),
        Some(Sign::Failure("x".into()))
    );
    assert_eq!(artifact(&json!({"name": "streaming_result", "parts": [{"text": "x"}]})), None);
    assert_eq!(
        artifact(
            &json!({"name": "streaming_result", "parts": [{"text": "x"}], "metadata": {"is_narration": true}})
        ),
        Some(Sign::Intermediate)
    );
}

#[test]
fn plans_are_read_from_data_and_from_lines() {
    assert_eq!(
        artifact(&json!({"name": "execution_plan_status_update", "parts": [{"data": {"steps": [
            {"step_id": "s1", "title": "Look", "agent": "github", "status": "in_progress", "order": 1}]}}]})),
        Some(Sign::Plan(
            json!({"steps": [{"id": "s1", "title": "Look", "agent": "github", "status": "in_progress", "order": 1}]})
        ))
    );
    let text = "⟦⏳ [Github] Look up\n- [x] Write⟧";
    assert_eq!(
        artifact(&json!({"name": "execution_plan_streaming", "parts": [{"text": text}]})),
        Some(Sign::Plan(json!({"steps": [
            {"id": "0", "title": "Look up", "status": "pending", "agent": "Github"},
            {"id": "1", "title": "Write", "status": "completed"}], "text": "⏳ [Github] Look up\n- [x] Write"})))
    );
}

fn part(json: &Value) -> Option<Sign> {
    let text = json.to_string();
    let part = serde_json::from_str(&text).unwrap();
    Recognisers::default().part(&part)
}

#[test]
fn tool_data_parts_are_read() {
    let call = ToolStart {
        name: "search".into(),
        call_id: Some("c1".into()),
        arguments: r#"{"q":"x"}"#.into(),
        ..ToolStart::default()
    };
    for json in [
        json!({"data": {"type": "tool-call", "id": "c1", "name": "search", "arguments": {"q": "x"}}}),
        json!({"kind": "data", "data": {"id": "c1", "name": "search", "args": {"q": "x"}}, "metadata": {"adk_type": "function_call"}}),
    ] {
        assert_eq!(part(&json), Some(Sign::ToolStarted(call.clone())));
    }
    let result = |output, failed| {
        Some(Sign::ToolEnded(ToolEnd {
            call_id: Some("c1".into()),
            failed,
            output: Some(output),
            ..ToolEnd::default()
        }))
    };
    assert_eq!(
        part(&json!({"data": {"type": "tool-result", "toolCallId": "c1", "payload": "found"}})),
        result(ToolOutput::Text("found".into()), false)
    );
    assert_eq!(
        part(
            &json!({"data": {"id": "c1", "response": {"n": 1}}, "metadata": {"adk_type": "function_response"}})
        ),
        result(ToolOutput::Json(json!({"n": 1})), false)
    );
    assert_eq!(
        part(&json!({"data": {"type": "tool_result", "toolCallId": "c1", "error": "boom"}})),
        result(ToolOutput::Text("boom".into()), true)
    );
    for json in [
        json!({"data": {"id": "c1", "name": "tool", "arguments": {}}}),
        json!({"data": [1, "tool"]}),
        json!({"data": {"type": "tool-call"}}),
        json!({"text": "tool-call"}),
    ] {
        assert_eq!(part(&json), None, "{json}");
    }
    assert_eq!(part(&json!({"text": "hm", "metadata": {"adk_thought": true}})), Some(Sign::Thinking));
    assert_eq!(part(&json!({"text": "hm", "metadata": {"thoughtful": true}})), None);
}

#[test]
fn thoughts_of_agno_are_known_by_the_category_of_their_message() {
    let message = |category: &str| {
        let json = json!({"messageId": "m", "parts": [], "metadata": {"agno_content_category": category}})
            .to_string();
        Recognisers::default().message(&serde_json::from_str(&json).unwrap())
    };
    assert_eq!(message("reasoning"), Some(Sign::Thinking));
    assert_eq!(message("content"), None);
}

#[test]
fn questions_of_google_adk_are_no_tool_calls() {
    let call = |name: &str| {
        part(&json!({"data": {"id": "c", "name": name, "args": {}},
        "metadata": {"adk_type": "function_call", "adk_is_long_running": true}}))
    };
    assert!(matches!(call("adk_request_confirmation"), Some(Sign::InputForm(_))));
    assert!(matches!(call("approve_invoice"), Some(Sign::ToolStarted(_))));
}
