//! The conventions of CAIPE agents and supervisors, and each thing that broke when they were read naively. The
//! streams are written here, after the shapes that its sub-agent executor and its supervisor send.

use aqueduct_adapter_a2a::DecodeConfig;
use aqueduct_adapter_a2a::recognise::Recognisers;
use aqueduct_core::{Channel, ContentBlock, Source, SourceEvent};
use serde_json::{Value, json};

use crate::support::{assert_golden, balanced, decode_json, traced};

fn rpc(result: &Value) -> Value {
    json!({"id": "1", "jsonrpc": "2.0", "result": result})
}

fn task() -> Value {
    rpc(&json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "submitted"}}))
}

fn status(state: &str, text: Option<&str>) -> Value {
    let mut status = json!({"state": state});
    if let Some(text) = text {
        status["message"] =
            json!({"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": text}]});
    }
    let last = state != "working";
    rpc(&json!({"kind": "status-update", "taskId": "t", "contextId": "c", "final": last, "status": status}))
}

fn artifact(id: &str, name: &str, description: &str, text: &str, append: bool) -> Value {
    rpc(
        &json!({"kind": "artifact-update", "taskId": "t", "contextId": "c", "append": append, "lastChunk": false,
        "artifact": {"artifactId": id, "name": name, "description": description,
            "parts": [{"kind": "text", "text": text}]}}),
    )
}

fn with_agent(mut event: Value, agent: &str) -> Value {
    event["result"]["artifact"]["metadata"] = json!({"sourceAgent": agent, "agentType": "sub-agent"});
    event
}

/// What its sub-agent executor sends for one question.
fn sub_agent() -> Vec<Value> {
    vec![
        task(),
        artifact(
            "n1",
            "tool_notification_start",
            "Tool call started: list_apps",
            "🔧 Argocd: Calling tool: List Apps\n",
            false,
        ),
        artifact(
            "n2",
            "tool_notification_end",
            "Tool call completed: list_apps",
            "✅ Argocd: Tool List Apps completed\n",
            false,
        ),
        artifact("r", "streaming_result", "Streaming result", "Two apps ", false),
        artifact("r", "streaming_result", "Streaming result", "are healthy.", true),
        artifact("r", "streaming_result", "Streaming result", "", true),
        artifact("x", "complete_result", "Complete result", "Two apps are healthy.", false),
        status("completed", None),
    ]
}

fn answer(events: &[SourceEvent]) -> String {
    let events = balanced(events.to_vec());
    events
        .iter()
        .filter_map(|event| match event {
            aqueduct_core::BlockEvent::BlockDelta { block, delta }
                if block.channel == Channel::Answer && block.kind == aqueduct_core::SpanKind::Text =>
            {
                Some(delta.to_string())
            }
            _ => None,
        })
        .collect()
}

#[test]
fn a_sub_agent_reads_as_it_is() {
    assert_golden("caipe-sub-agent", &traced(decode_json(&sub_agent(), DecodeConfig::root())));
}

#[test]
fn a_supervisor_reads_as_it_is() {
    let plan = |name: &str, first: &str, second: &str| {
        rpc(
            &json!({"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": {"artifactId": "plan", "name": name,
            "parts": [{"kind": "data", "data": {"steps": [
                {"step_id": "1", "title": "Look up", "agent": "github", "status": first, "order": 1},
                {"step_id": "2", "title": "Write", "agent": "supervisor", "status": second, "order": 2}]}}]}}),
        )
    };
    let events = [
        task(),
        plan("execution_plan_update", "pending", "pending"),
        artifact("n1", "tool_notification_start", "", "🔧 Supervisor: Calling Agent Github...", false),
        plan("execution_plan_status_update", "in_progress", "pending"),
        with_agent(artifact("s1", "streaming_result", "", "Profile: ", false), "github"),
        with_agent(artifact("s1", "streaming_result", "", "42 repositories.", true), "github"),
        artifact("n2", "tool_notification_end", "", "✅ Supervisor: Agent task Github completed", false),
        plan("execution_plan_status_update", "completed", "completed"),
        artifact("f", "final_result", "", "Profile: 42 repositories.", false),
        status("completed", None),
    ];
    assert_golden("caipe-supervisor", &traced(decode_json(&events, DecodeConfig::root())));
}

#[test]
fn the_answer_is_not_doubled() {
    let mut events = sub_agent();
    events.insert(events.len() - 1, artifact("y", "final_result", "", "Two apps are healthy.\n", false));
    assert_eq!(answer(&decode_json(&events, DecodeConfig::root())).trim_end(), "Two apps are healthy.");
    // The same when a closing status repeats it, and when two agents were streamed and the final text joins them.
    let closing = status("completed", Some("Two apps are healthy."));
    *events.last_mut().unwrap() = closing;
    assert_eq!(answer(&decode_json(&events, DecodeConfig::root())).trim_end(), "Two apps are healthy.");
    let joined = [
        task(),
        with_agent(artifact("a", "streaming_result", "", "One. ", false), "a"),
        with_agent(artifact("b", "streaming_result", "", "Two.", false), "b"),
        artifact("f", "final_result", "", "One.\n\nTwo.", false),
        status("completed", Some("One.\nTwo.")),
    ];
    assert_eq!(answer(&decode_json(&joined, DecodeConfig::root())), "One. Two.");
}

#[test]
fn a_final_text_that_differs_is_shown() {
    let stream = |last: &str| {
        let events = [
            task(),
            artifact("r", "streaming_result", "", "Half an ans", false),
            artifact("f", "final_result", "", last, false),
            status("completed", None),
        ];
        traced(decode_json(&events, DecodeConfig::root()))
    };
    let longer = stream("Half an answer.");
    assert!(longer.contains("\"Half an ans\"\n") && longer.contains("\"wer.\"\n"), "{longer}");
    let other = stream("Something else.");
    assert!(other.contains("replaces=run/2") && other.contains("\"Something else.\"\n"), "{other}");
    let several = [
        task(),
        artifact("a", "streaming_result", "", "One.", false),
        artifact("b", "streaming_result", "", "Two.", false),
        artifact("f", "final_result", "", "A summary.", false),
        status("completed", None),
    ];
    assert_eq!(answer(&decode_json(&several, DecodeConfig::root())), "One.Two.A summary.");
}

#[test]
fn tool_notices_are_not_glued_to_the_answer() {
    let events = decode_json(&sub_agent(), DecodeConfig::root());
    let words = answer(&events);
    assert!(!words.contains("Calling") && !words.contains('✅'), "{words}");
    // Switched off, they are words on the way or artifacts like others: still apart from the answer.
    let config = DecodeConfig { recognisers: Recognisers::none(), ..DecodeConfig::root() };
    let trace = traced(decode_json(&sub_agent(), config));
    assert!(!trace.contains("tool+") && trace.contains("text+ run/2 message=\"n1\" track=\"n1\""), "{trace}");
}

#[test]
fn starts_and_ends_of_tools_find_each_other() {
    let events = [
        task(),
        status("working", Some("🔧 Argocd: Calling tool: List Apps")),
        status("working", Some("🔧 Argocd: Calling tool: Get Version")),
        artifact(
            "n3",
            "tool_notification_end",
            "Tool call failed: get_version",
            "❌ Argocd: Tool Get Version failed\n",
            false,
        ),
        artifact(
            "n4",
            "tool_notification_end",
            "Tool call completed: list_apps",
            "✅ Argocd: Tool List Apps completed\n",
            false,
        ),
        status("completed", None),
    ];
    let trace = traced(decode_json(&events, DecodeConfig::root()));
    assert!(
        trace.contains("result run/2 of status-2 ERROR") && trace.contains("result run/3 of status-1 \"✅"),
        "{trace}"
    );
}

#[test]
fn parallel_agents_stay_apart() {
    let notice = |id: &str, name: &str, text: &str, agent: &str| {
        with_agent(
            artifact(
                id,
                name,
                if name.ends_with("start") {
                    "Tool call started: search"
                } else {
                    "Tool call completed: search"
                },
                text,
                false,
            ),
            agent,
        )
    };
    let events = [
        task(),
        notice("n1", "tool_notification_start", "🔧 Jira: Calling tool: Search\n", "jira"),
        notice("n2", "tool_notification_start", "🔧 Github: Calling tool: Search\n", "github"),
        with_agent(artifact("j", "streaming_result", "", "Jira says ", false), "jira"),
        with_agent(artifact("g", "streaming_result", "", "Github says ", false), "github"),
        with_agent(artifact("j", "streaming_result", "", "yes.", true), "jira"),
        notice("n3", "tool_notification_end", "✅ Github: Tool Search completed\n", "github"),
        with_agent(artifact("g", "streaming_result", "", "no.", true), "github"),
        notice("n4", "tool_notification_end", "✅ Jira: Tool Search completed\n", "jira"),
        status("completed", None),
    ];
    let trace = traced(decode_json(&events, DecodeConfig::root()));
    assert_golden("caipe-parallel", &trace);
    assert!(trace.find("of n2").unwrap() < trace.find("of n1").unwrap(), "{trace}");
}

#[test]
fn the_agent_of_a_text_is_kept() {
    let events = [
        task(),
        with_agent(artifact("j", "streaming_result", "", "x", false), "jira"),
        status("completed", None),
    ];
    let events = decode_json(&events, DecodeConfig::root());
    let metadata = events.iter().find_map(|event| match event {
        SourceEvent::Update(update) => update.metadata(),
        _ => None,
    });
    assert_eq!(metadata.unwrap().get("sourceAgent"), Some(&json!("jira")));
}

#[test]
fn status_texts_are_shown_one_by_one() {
    let events = [
        task(),
        status("working", Some("Looking")),
        status("working", Some("Looking")),
        status("working", Some("Found")),
        artifact("r", "x", "", "Done", false),
        status("completed", None),
    ];
    let trace = traced(decode_json(&events, DecodeConfig::root()));
    assert_eq!(trace.matches("intermediate").count(), 3, "{trace}");
    assert!(trace.contains("\"Found\"\ntext- "), "{trace}");
}

#[test]
fn a_chunk_may_come_before_its_artifact() {
    let events = [
        task(),
        artifact("r", "streaming_result", "", "Two ", true),
        artifact("r", "streaming_result", "", "apps.", true),
        status("completed", None),
    ];
    assert_eq!(answer(&decode_json(&events, DecodeConfig::root())), "Two apps.");
}

#[test]
fn an_error_is_no_success() {
    let events = [
        task(),
        artifact("r", "streaming_result", "", "Half", false),
        artifact("e", "error_result", "", "model quota exceeded", false),
        status("completed", Some("model quota exceeded")),
    ];
    let trace = traced(decode_json(&events, DecodeConfig::root()));
    assert!(trace.ends_with("run failed agent_failed: model quota exceeded\n"), "{trace}");
    assert!(!trace.contains("\"model quota exceeded\""), "{trace}");
}

#[test]
fn a_question_of_a_sub_agent_reaches_the_user() {
    let events = [
        task(),
        rpc(
            &json!({"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": {"artifactId": "form", "name": "UserInputMetaData",
            "parts": [{"kind": "data", "data": {"input_title": "Cluster", "input_fields": [{"field_name": "cluster"}]}}]}}),
        ),
        status("input-required", Some("Which cluster?")),
    ];
    let lane = Source::root().child("argocd");
    let mut decoded = decode_json(&events, DecodeConfig::lane(lane));
    let interrupt = decoded.iter().find_map(|event| match event {
        SourceEvent::InterruptRequested { interrupt, .. } => Some(interrupt),
        _ => None,
    });
    let metadata = interrupt.unwrap().metadata.as_ref().unwrap();
    assert_eq!(metadata["taskId"], "t");
    assert_eq!(metadata["form"]["input_title"], "Cluster");
    // The supervisor's run ends as it likes: it waits all the same.
    decoded.push(SourceEvent::Finished { outcome: aqueduct_core::RunOutcome::Success, result: None });
    let trace = traced(decoded);
    assert!(
        trace.contains("lane- run/2 suspended")
            && trace.contains("run finished interrupted waits=t:input-required:1"),
        "{trace}"
    );
}

#[test]
fn files_are_not_dropped() {
    let file = json!({"kind": "file", "file": {"bytes": "AAEC", "mimeType": "image/png", "name": "a.png"}});
    let mut event = artifact("f", "streaming_result", "", "See: ", false);
    event["result"]["artifact"]["parts"].as_array_mut().unwrap().push(file);
    let trace = traced(decode_json(&[task(), event, status("completed", None)], DecodeConfig::root()));
    assert!(
        trace.contains(r#""aqueduct.file" {"data":"AAEC","mediaType":"image/png","name":"a.png"}"#),
        "{trace}"
    );
}

/// Agents of the first generation: notices and answer are status texts, and the task completes without a word.
#[test]
fn an_answer_that_is_only_a_status_text_is_an_answer() {
    let events = [
        task(),
        status("working", Some("🔧 Calling tool: **version_service__version**")),
        status("working", Some("✅ Tool **version_service__version** completed")),
        status("working", Some("The version is 1.4.2.")),
        status("completed", None),
    ];
    assert_golden("caipe-first-generation", &traced(decode_json(&events, DecodeConfig::root())));
    assert_eq!(answer(&decode_json(&events, DecodeConfig::root())), "The version is 1.4.2.");
    let config = DecodeConfig { promote_last_status: false, ..DecodeConfig::root() };
    assert_eq!(answer(&decode_json(&events, config)), "");
}

#[test]
fn artifacts_without_ids_go_by_their_names() {
    let bare = |mut event: Value| {
        event["result"]["artifact"].as_object_mut().unwrap().remove("artifactId");
        event
    };
    let events = [
        task(),
        bare(artifact("", "tool_notification_start", "Calling", "🔧 Fetching versions...", false)),
        bare(artifact("", "tool_notification_end", "Done", "✅ Versions there", false)),
        bare(artifact("", "tool_notification_start", "Calling", "🔧 Fetching names...", false)),
        bare(artifact("", "tool_notification_end", "Done", "✅ Names there", false)),
        bare(artifact("", "streaming_result", "", "Version ", false)),
        bare(artifact("", "streaming_result", "", "2.", true)),
        bare(artifact("", "final_result", "", "Version 2.", false)),
        rpc(
            &json!({"kind": "status-update", "taskId": "t", "status": {"state": "completed", "message": "Got it"}, "final": false}),
        ),
        status("completed", None),
    ];
    assert_golden("caipe-without-ids", &traced(decode_json(&events, DecodeConfig::root())));
}

#[test]
fn a_block_of_every_kind_has_its_source() {
    let lane = Source::root().child("argocd").named("Argo CD");
    for event in decode_json(&sub_agent(), DecodeConfig::lane(lane.clone())) {
        if let SourceEvent::Update(update) = event {
            assert_eq!(update.source, lane);
            assert!(!matches!(update.block, ContentBlock::Thinking(_)));
        }
    }
}
