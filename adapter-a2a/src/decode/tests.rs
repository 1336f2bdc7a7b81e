//! The mapping, row by row; and no input, however odd, leads to an unbalanced run.

use aqueduct_core::testing::{InvariantChecker, run_to_end, trace};
use aqueduct_core::{Interrupt, RunOutcome};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::config::{ClosingRemark, InterruptView};
use crate::recognise::Recognisers;

fn decode(config: DecodeConfig, events: &[Value]) -> (Vec<SourceEvent>, Counts) {
    let (mut decoder, mut out) = (Decoder::new(config), Vec::new());
    for event in events {
        decoder.handle_frame(Frame::data(&event.to_string().into()), &mut out);
    }
    decoder.handle_end(&mut out);
    (out, decoder.counts())
}

fn traced(config: DecodeConfig, events: &[Value]) -> String {
    let events = run_to_end(decode(config, events).0);
    InvariantChecker::check_all(&events).unwrap();
    trace(&events)
}

fn status(state: &str, message: Value) -> Value {
    let mut status = json!({"state": state});
    if !message.is_null() {
        status["message"] = message;
    }
    json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}})
}

fn says(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_AGENT", "parts": [{"text": text}]})
}

fn working(id: &str, text: &str) -> Value {
    status("TASK_STATE_WORKING", says(id, text))
}

fn done() -> Value {
    status("TASK_STATE_COMPLETED", Value::Null)
}

fn artifact(id: &str, parts: &Value, append: bool, last: bool) -> Value {
    json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": append, "lastChunk": last,
        "artifact": {"artifactId": id, "parts": parts}}})
}

fn text(id: &str, text: &str, append: bool) -> Value {
    artifact(id, &json!([{"text": text}]), append, false)
}

fn interrupt(events: &[SourceEvent]) -> &Interrupt {
    let found = events.iter().find_map(|event| match event {
        SourceEvent::InterruptRequested { interrupt, .. } => Some(interrupt),
        _ => None,
    });
    found.expect("an interrupt")
}

#[test]
fn text_deltas_are_slices_of_the_frame() {
    let frame = ByteString::from(text("a", "no escapes here — ✅", false).to_string());
    let mut out = Vec::new();
    Decoder::new(DecodeConfig::root()).handle_frame(Frame::data(&frame), &mut out);
    let [SourceEvent::Update(update)] = &*out else { panic!("{out:?}") };
    let ContentBlock::Text(block) = &update.block else { panic!() };
    let range = frame.as_bytes().as_ptr_range();
    assert!(range.contains(&block.text.as_ptr()));
}

#[test]
fn replaced_artifacts_are_replaced() {
    let trace = traced(
        DecodeConfig::root(),
        &[
            text("a", "First", false),
            text("a", "First, ", false),
            text("a", "Other", false),
            text("a", "!", true),
            done(),
        ],
    );
    assert_eq!(
        trace.lines().skip(1).collect::<Vec<_>>(),
        [
            "text+ run/2 message=\"a\" track=\"a\"",
            "text  run/2 \"First\"",
            "text  run/2 \", \"",
            "text- run/2 replaced",
            "text+ run/3 replaces=run/2 message=\"a\" track=\"a\"",
            "text  run/3 \"Other\"",
            "text  run/3 \"!\"",
            "text- run/3 closed",
            "run finished success",
        ]
    );
}

#[test]
fn the_last_chunk_ends_its_artifact_even_without_words() {
    for parts in [json!([{"text": ""}]), json!([])] {
        let trace =
            traced(DecodeConfig::root(), &[text("a", "x", false), artifact("a", &parts, true, true), done()]);
        assert!(trace.contains("text- run/2 complete"), "{trace}");
    }
}

#[test]
fn a_message_that_grows_shows_what_is_new_and_others_stay_apart() {
    let trace = traced(
        DecodeConfig::root(),
        &[
            working("m", "Loo"),
            working("m", "Looking"),
            working("m", "Looking"),
            working("m", "Found"),
            text("a", "x", false),
            done(),
        ],
    );
    assert_eq!(
        trace.lines().filter(|line| line.contains(" \"")).collect::<Vec<_>>(),
        ["text  run/2 \"Loo\"", "text  run/2 \"king\"", "text  run/3 \"Found\"", "text  run/4 \"x\""]
    );
}

#[test]
fn states_that_no_rule_knows_are_passed_on_and_end_nothing() {
    let mut event = status("TASK_STATE_PAUSED", says("m", "Back soon"));
    event["statusUpdate"]["metadata"] = json!({"until": "noon"});
    event["statusUpdate"]["mood"] = json!("calm");
    let trace = traced(DecodeConfig::root(), &[event, text("a", "x", false), done()]);
    assert!(
        trace.contains(r#""a2a.status" {"state":"TASK_STATE_PAUSED","metadata":{"until":"noon"},"unknown":{"mood":"calm"}}"#),
        "{trace}"
    );
    assert!(trace.contains("Back soon") && trace.ends_with("run finished success\n"), "{trace}");
}

#[test]
fn metadata_of_a_wordless_status_is_not_lost() {
    let mut event = done();
    event["statusUpdate"]["metadata"] = json!({"trace_id": "abc"});
    let trace = traced(DecodeConfig::root(), &[text("a", "x", false), event]);
    assert!(trace.contains(r#""a2a.status" {"state":"completed","metadata":{"trace_id":"abc"}}"#), "{trace}");
}

#[test]
fn what_stands_beside_an_artifact_is_kept() {
    let mut event = text("a", "x", false);
    event["artifactUpdate"]["metadata"] = json!({"seq": 1});
    event["artifactUpdate"]["artifact"]["metadata"] = json!({"k": "v"});
    event["artifactUpdate"]["artifact"]["name"] = json!("report");
    event["artifactUpdate"]["artifact"]["extensions"] = json!(["https://e"]);
    event["artifactUpdate"]["artifact"]["shape"] = json!("round");
    let (events, _) = decode(DecodeConfig::root(), &[event]);
    let SourceEvent::Update(update) = &events[0] else { panic!() };
    let expected = json!({"k": "v", "a2a.artifactName": "report", "a2a.extensions": ["https://e"],
        "a2a.unknown": {"shape": "round"}, "a2a.event": {"seq": 1}});
    assert_eq!(Value::Object(Metadata::clone(update.metadata().unwrap())), expected);
}

#[test]
fn parts_that_no_rule_knows_are_passed_on() {
    let parts = json!([{"kind": "video", "frames": 3}, {"data": [1, 2], "mediaType": "application/x"}]);
    let trace = traced(DecodeConfig::root(), &[artifact("a", &parts, false, true), done()]);
    assert!(
        trace.contains(r#""aqueduct.raw" {"event":{"kind":"video","frames":3},"source":"a2a"}"#),
        "{trace}"
    );
    assert!(trace.contains(r#""aqueduct.data" [1,2]"#), "{trace}");
}

#[test]
fn payloads_that_no_rule_knows_are_passed_on() {
    let trace = traced(DecodeConfig::root(), &[json!({"progress": 3}), text("a", "x", false), done()]);
    assert!(trace.contains(r#""aqueduct.raw" {"event":{"progress":3},"source":"a2a"}"#), "{trace}");
}

#[test]
fn an_unreadable_event_in_the_middle_is_shown_and_counted() {
    let (mut decoder, mut out) = (Decoder::new(DecodeConfig::root()), Vec::new());
    for data in ["{\"statusUpdate\":", "<html>", &done().to_string()] {
        decoder.handle_frame(Frame::data(&data.into()), &mut out);
    }
    assert_eq!(decoder.counts().unreadable, 2);
    let trace = trace(&run_to_end(out));
    assert!(trace.contains(r#""aqueduct.raw" {"event":"<html>","source":"a2a"}"#), "{trace}");
    assert!(trace.ends_with("run finished success\n"), "{trace}");
}

#[test]
fn empty_events_are_signs_of_life() {
    let (mut decoder, mut out) = (Decoder::new(DecodeConfig::root()), Vec::new());
    for data in ["", " \n"] {
        decoder.handle_frame(Frame::data(&data.into()), &mut out);
    }
    decoder.handle_frame(Frame::data(&done().to_string().into()), &mut out);
    assert_eq!((decoder.counts().unreadable, out.len()), (0, 1));
}

#[test]
fn sub_agents_can_have_lanes_of_their_own() {
    let chunk = |id: &str, words: &str, agent: Value, append: bool| {
        let mut event = text(id, words, append);
        event["artifactUpdate"]["artifact"]["name"] = json!("streaming_result");
        event["artifactUpdate"]["artifact"]["metadata"] = agent;
        event
    };
    let of = |agent: &str| json!({"sourceAgent": agent, "agentType": "sub-agent"});
    let mut last = text("f", "Jira. Github.", false);
    last["artifactUpdate"]["artifact"]["name"] = json!("final_result");
    let events = [
        chunk("j", "Ji", of("jira"), false),
        chunk("g", "Git", of("github"), false),
        chunk("j", "ra. ", of("jira"), true),
        chunk("g", "hub.", json!({}), true),
        chunk("s", "Jira. Github.", json!({"sourceAgent": "supervisor"}), false),
        last,
        done(),
    ];
    let config = DecodeConfig { sub_agents: crate::config::SubAgents::Lanes, ..DecodeConfig::root() };
    let lanes = traced(config, &events);
    assert!(lanes.contains("lane+ run/2 \"jira\"") && lanes.contains("lane+ run/4 \"github\""), "{lanes}");
    assert!(lanes.contains("text+ run/3 @run/2") && lanes.contains("text+ run/5 @run/4"), "{lanes}");
    assert_eq!(lanes.matches("Jira. Github.").count(), 1, "{lanes}");
    assert!(!traced(DecodeConfig::root(), &events).contains("lane+"));
}

#[test]
fn tool_data_parts_are_tools_wherever_they_stand() {
    let call = json!({"data": {"type": "tool-call", "id": "c1", "name": "search", "arguments": {"q": 1}}});
    let result = json!({"data": {"type": "tool-result", "toolCallId": "c1", "payload": {"n": 2}}});
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Looking"}, call]});
    let trace = traced(
        DecodeConfig::root(),
        &[
            status("TASK_STATE_WORKING", message),
            artifact("a", &json!([result, {"text": "Two."}]), false, true),
            done(),
        ],
    );
    assert_eq!(
        trace.lines().skip(1).collect::<Vec<_>>(),
        [
            "text+ run/2 intermediate message=\"m\"",
            "text  run/2 \"Looking\"",
            "text- run/2 complete",
            "tool+ c1 \"search\" message=\"m\"",
            "tool  c1 \"{\\\"q\\\":1}\"",
            "tool- c1 complete",
            "result run/3 of c1 \"{\\\"n\\\":2}\"",
            "text+ run/4 message=\"a\" track=\"a\"",
            "text  run/4 \"Two.\"",
            "text- run/4 complete",
            "run finished success",
        ]
    );
}

#[test]
fn surfaces_are_cards_that_grow() {
    let begin = json!({"data": {"beginRendering": {"surfaceId": "s", "root": "r"}}});
    let update = json!({"data": {"surfaceUpdate": {"surfaceId": "s", "components": []}}});
    let several = json!({"data": [begin["data"], update["data"]], "mediaType": "application/json+a2ui"});
    let later = json!({"data": {"paintSurface": {"surfaceId": "s"}}, "mediaType": "application/a2ui+json"});
    for parts in [json!([begin, update]), json!([several]), json!([begin, later])] {
        surfaces(&parts);
    }
}

fn surfaces(parts: &Value) {
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": parts});
    let trace = traced(DecodeConfig::root(), &[status("TASK_STATE_WORKING", message), done()]);
    let lines: Vec<_> = trace.lines().filter(|line| line.starts_with("custom run/2")).collect();
    assert_eq!(lines.len(), 2, "both changes are of one card: {trace}");
    assert!(lines[0].contains(
        r#""aqueduct.activity" {"type":"a2ui-surface","content":{"a2ui_operations":[{"beginRendering""#
    ));
    assert!(lines[1].contains(
        r#""aqueduct.activity.delta" {"type":"a2ui-surface","patch":[{"op":"add","path":"/a2ui_operations/-""#
    ));
}

#[test]
fn thoughts_are_thoughts() {
    let parts = json!([{"text": "hm, ", "metadata": {"adk_thought": true}}, {"text": "Yes."}]);
    let trace = traced(DecodeConfig::root(), &[artifact("a", &parts, false, true), done()]);
    assert!(trace.contains("think run/2 \"hm, \"") && trace.contains("text  run/3 \"Yes.\""), "{trace}");
}

#[test]
fn a_status_text_that_only_looks_like_an_end_stays_a_text() {
    let trace = traced(
        DecodeConfig::root(),
        &[working("m", "✅ Deployment completed"), text("a", "x", false), done()],
    );
    assert!(!trace.contains("result") && trace.contains("Deployment completed"), "{trace}");
    let trace = traced(
        DecodeConfig::root(),
        &[
            working("m1", "🔧 Calling tool: Deployment"),
            working("m2", "✅ Deployment completed"),
            text("a", "x", false),
            done(),
        ],
    );
    assert!(trace.contains("of m1 \"✅ Deployment completed\""), "{trace}");
}

#[test]
fn closing_messages() {
    let close = |config: DecodeConfig, streamed: &str, closing: &str| {
        traced(config, &[text("a", streamed, false), status("TASK_STATE_COMPLETED", says("e", closing))])
    };
    // Repeats: nothing. Continues: the rest. Differs: intermediate text, or part of the answer if configured.
    let trace = close(DecodeConfig::root(), "The answer.", "The answer.\n");
    assert_eq!(trace.matches("The answer.").count(), 1, "{trace}");
    let trace = close(DecodeConfig::root(), "The ans", "The answer.");
    assert!(trace.contains("text  run/2 \"wer.\""), "{trace}");
    let trace = close(DecodeConfig::root(), "The answer.", "Done.");
    assert!(trace.contains("text+ run/3 intermediate"), "{trace}");
    let config = DecodeConfig { closing_remark: ClosingRemark::Answer, ..DecodeConfig::root() };
    let trace = close(config, "The answer.", "Done.");
    assert!(trace.contains("text+ run/3 message=\"e\""), "{trace}");
    // Without any other answer it is the answer, also if a status had the same text before.
    let trace =
        traced(DecodeConfig::root(), &[working("s", "42"), status("TASK_STATE_COMPLETED", says("s", "42"))]);
    assert!(trace.contains("text+ run/2 message=") && trace.matches("42").count() == 1, "{trace}");
}

#[test]
fn interrupts_lead_back_to_the_task() {
    let mut question = says("q", "Which?");
    question["parts"].as_array_mut().unwrap().push(json!({"data": {"schema": {"type": "object"}}}));
    let (events, _) = decode(DecodeConfig::root(), &[status("TASK_STATE_INPUT_REQUIRED", question)]);
    let asked = interrupt(&events);
    assert_eq!(
        (asked.id.as_str(), &*asked.reason, asked.message.as_deref()),
        ("t:q", "input_required", Some("Which?"))
    );
    assert_eq!(asked.response_schema, Some(json!({"type": "object"})));
    let metadata = Value::Object(Metadata::clone(asked.metadata.as_ref().unwrap()));
    assert_eq!(
        metadata,
        json!({"taskId": "t", "contextId": "c", "state": "input-required", "parts": [{"data": {"schema": {"type": "object"}}}]})
    );
    assert!(matches!(events.last(), Some(SourceEvent::Finished { outcome: RunOutcome::Interrupted, .. })));
}

#[test]
fn interrupts_can_be_told_as_text() {
    let config = DecodeConfig { interrupts: InterruptView::Text, ..DecodeConfig::root() };
    let trace = traced(config, &[status("TASK_STATE_INPUT_REQUIRED", says("q", "Which?"))]);
    assert!(trace.contains("text  run/2 \"Which?\"") && trace.ends_with("run finished success\n"), "{trace}");
}

#[test]
fn a_lane_ends_as_its_task_does() {
    let lane = || DecodeConfig::lane(Source::root().child("sub").named("Sub"));
    for (event, outcome) in [
        (done(), "success"),
        (status("TASK_STATE_CANCELED", Value::Null), "cancelled"),
        (status("TASK_STATE_FAILED", says("e", "no")), "failed agent_failed: no"),
        (
            status("TASK_STATE_REJECTED", Value::Null),
            "failed agent_rejected: the agent's task ended as rejected, without saying why",
        ),
        (status("TASK_STATE_INPUT_REQUIRED", says("q", "?")), "suspended"),
        (
            json!({"jsonrpc": "2.0", "error": {"code": -32603, "message": "boom"}}),
            "failed upstream_error: boom",
        ),
        (json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}), "success"),
    ] {
        let (mut events, _) = decode(lane(), &[working("s", "go"), event.clone()]);
        let Some(SourceEvent::LaneOpened(source)) = events.first() else { panic!("{events:?}") };
        assert_eq!(source.metadata().unwrap()["taskId"], "t");
        events.push(SourceEvent::Finished { outcome: RunOutcome::Success, result: None });
        let trace = trace(&run_to_end(events));
        assert!(trace.contains(&format!("lane- run/2 {outcome}\n")), "{event}: {trace}");
    }
}

#[test]
fn failures_say_what_the_agent_said() {
    let message = json!({"messageId": "e", "role": "ROLE_AGENT", "parts": [{"text": "quota"}, {"data": {"limit": 5}}], "metadata": {"k": 1}});
    let (events, _) = decode(DecodeConfig::root(), &[status("TASK_STATE_FAILED", message)]);
    let Some(SourceEvent::Failed(failure)) = events.last() else { panic!() };
    assert_eq!((&*failure.code, &*failure.message), ("agent_failed", "quota"));
    assert_eq!(
        failure.details,
        Some(json!({"taskId": "t", "contextId": "c", "state": "failed", "metadata": {"k": 1}}))
    );
    assert!(
        matches!(&events[0], SourceEvent::Update(update) if matches!(update.block, ContentBlock::Custom(_)))
    );
}

#[test]
fn what_comes_after_the_end_is_counted() {
    let (events, counts) =
        decode(DecodeConfig::root(), &[text("a", "x", false), done(), done(), text("a", "y", true)]);
    assert_eq!((events.len(), counts.late), (2, 1));
}

#[test]
fn a_message_on_the_stream_of_a_task_does_not_end_it() {
    let message = json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "taskId": "t", "parts": [{"text": "Half. "}]}});
    let trace = traced(
        DecodeConfig::root(),
        &[working("s", "go"), message.clone(), text("a", "Whole.", false), done()],
    );
    assert!(trace.contains("Half. ") && trace.contains("Whole.") && trace.ends_with("success\n"), "{trace}");
    let trace = traced(DecodeConfig::root(), &[working("s", "go"), message]);
    assert!(trace.ends_with("run finished success\n"), "{trace}");
}

#[test]
fn a_whole_task_is_told_in_order_and_repeats_nothing() {
    let task = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED", "message": says("e", "Hello world")},
        "history": [{"messageId": "u", "role": "ROLE_USER", "parts": [{"text": "go"}]}, says("s", "Looking")],
        "artifacts": [{"artifactId": "a", "parts": [{"text": "Hello "}, {"text": "world"}]},
            {"artifactId": "f", "parts": [{"url": "https://x", "filename": "x.pdf"}]}]}});
    let alone = traced(DecodeConfig::root(), std::slice::from_ref(&task));
    assert_eq!(
        alone.lines().skip(1).collect::<Vec<_>>(),
        [
            "text+ run/2 intermediate message=\"s\"",
            "text  run/2 \"Looking\"",
            "text- run/2 complete",
            "text+ run/3 message=\"a\" track=\"a\"",
            "text  run/3 \"Hello \"",
            "text  run/3 \"world\"",
            "text- run/3 complete",
            "custom run/4 \"aqueduct.file\" {\"url\":\"https://x\",\"name\":\"x.pdf\"}",
            "run finished success",
        ]
    );
    let file = artifact("f", &json!([{"url": "https://x", "filename": "x.pdf"}]), false, false);
    let after =
        traced(DecodeConfig::root(), &[working("s", "Looking"), text("a", "Hello ", false), file, task]);
    assert_eq!(after.matches("Hello").count(), 1, "{after}");
    assert_eq!(after.matches("aqueduct.file").count(), 1, "{after}");
    assert!(after.contains("\"world\""), "{after}");
}

#[test]
fn chunks_that_restate_their_artifact_add_nothing_unless_wanted() {
    let stream = [
        text("a", "Let me ", false),
        text("a", "look.", true),
        text("a", "Let me look.", true),
        text("a", "ha", true),
        text("a", "ha", true),
        done(),
    ];
    let trace = traced(DecodeConfig::root(), &stream);
    assert_eq!(trace.matches("look.").count(), 1, "{trace}");
    assert_eq!(trace.matches("\"ha\"").count(), 2, "short repetitions may be meant: {trace}");
    let config = DecodeConfig { drop_restated_chunks: false, ..DecodeConfig::root() };
    assert_eq!(traced(config, &stream).matches("look.").count(), 2);
}

#[test]
fn memory_is_bounded() {
    let mut config = DecodeConfig::root();
    config.limits.artifacts = 3;
    config.limits.messages = 3;
    config.limits.open_calls = 3;
    let mut decoder = Decoder::new(config);
    let mut out = Vec::new();
    for n in 0..20 {
        decoder.handle_frame(Frame::data(&text(&format!("a{n}"), "x", false).to_string().into()), &mut out);
        let notice = working(&format!("m{n}"), &format!("🔧 Calling tool: **t{n}**"));
        decoder.handle_frame(Frame::data(&notice.to_string().into()), &mut out);
    }
    assert_eq!(decoder.memory.artifacts.len(), 3);
    assert_eq!(out.len(), 40);
}

/// An agent that creates an artifact for every chunk and ends none of them.
#[test]
fn any_number_of_artifacts_can_be_shown() {
    let mut events: Vec<Value> = (0..1000).map(|n| text(&format!("a{n}"), &format!("{n} "), false)).collect();
    events.push(text("a999", "end", true));
    events.push(done());
    let trace = traced(DecodeConfig::root(), &events);
    assert!(trace.ends_with("run finished success\n"));
    assert_eq!(trace.matches("text+ ").count(), 1000);
    assert_eq!(trace.matches(" closed").count(), 64);
}

#[test]
fn rest_03_is_recognised_by_its_content() {
    let message = |parts: Value| {
        json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING",
        "message": {"messageId": "m", "role": "ROLE_AGENT", "content": parts}}}})
    };
    let data = json!([{"data": {"data": {"n": 1}}}]);
    let trace =
        traced(DecodeConfig::root(), &[message(data.clone()), artifact("a", &data, false, false), done()]);
    assert_eq!(trace.matches(r#""aqueduct.data" {"n":1}"#).count(), 2, "{trace}");
}

#[test]
fn without_recognisers_all_is_as_it_looks() {
    let config = DecodeConfig { recognisers: Recognisers::none(), ..DecodeConfig::root() };
    let call = json!([{"data": {"type": "tool-call", "id": "c1", "name": "search"}}]);
    let trace =
        traced(config, &[working("m", "🔧 Calling tool: **x**"), artifact("a", &call, false, false), done()]);
    assert!(
        trace.contains("aqueduct.data") && trace.contains("Calling tool") && !trace.contains("tool+"),
        "{trace}"
    );
}

fn arb_event() -> impl Strategy<Value = Value> {
    let id = prop_oneof![Just(""), Just("a"), Just("b")];
    let words = prop_oneof![
        Just(""),
        Just("x"),
        Just(" "),
        Just("Hello world, hello"),
        Just("🔧 Calling tool: **t**"),
        Just("✅ Tool **t** completed"),
        Just("❌ x failed")
    ];
    let name = prop_oneof![
        Just("streaming_result"),
        Just("final_result"),
        Just("tool_notification_start"),
        Just("tool_notification_end"),
        Just("error_result"),
        Just("execution_plan_update"),
        Just("")
    ];
    let state = prop_oneof![
        4 => Just("working"), 1 => Just("completed"), 1 => Just("failed"), 1 => Just("input-required"), 1 => Just("auth-required"),
        1 => Just("odd"), 1 => Just("canceled")
    ];
    let part = prop_oneof![
        3 => words.prop_map(|text| json!({"text": text})),
        1 => Just(json!({"data": {"type": "tool-call", "name": "t", "id": "c"}})),
        1 => Just(json!({"data": {"type": "tool-result", "toolCallId": "c", "payload": 1}})),
        1 => Just(json!({"url": "https://x"})),
        1 => Just(json!({"odd": 1})),
    ];
    let parts = proptest::collection::vec(part, 0..3);
    (0_u8..5, id, name, state, parts, any::<bool>(), any::<bool>()).prop_map(|(kind, id, name, state, parts, append, last)| {
        let message = json!({"messageId": id, "role": "agent", "parts": parts});
        let artifact = json!({"artifactId": id, "name": name, "parts": parts});
        match kind {
            0 => json!({"kind": "status-update", "taskId": "t", "status": {"state": state, "message": message}}),
            1 | 2 => json!({"kind": "artifact-update", "taskId": "t", "artifact": artifact, "append": append, "lastChunk": last}),
            3 => json!({"kind": "task", "id": "t", "status": {"state": state}, "history": [message], "artifacts": [artifact]}),
            _ => json!({"kind": "message", "messageId": id, "parts": parts}),
        }
    })
}

proptest! {
    #[test]
    fn any_sequence_of_events_ends_as_a_balanced_run(events in proptest::collection::vec(arb_event(), 0..20)) {
        let run = run_to_end(decode(DecodeConfig::root(), &events).0);
        prop_assert!(InvariantChecker::check_all(&run).is_ok());
    }

    #[test]
    fn any_lane_is_closed(events in proptest::collection::vec(arb_event(), 0..12)) {
        let config = DecodeConfig::lane(Source::root().child("sub"));
        let (events, _) = decode(config, &events);
        let is_close = |event: &SourceEvent| matches!(event, SourceEvent::LaneClosed { .. });
        prop_assert!(events.last().is_some_and(is_close));
        prop_assert_eq!(events.iter().filter(|event| is_close(event)).count(), 1);
    }

    #[test]
    fn no_text_can_make_the_decoder_panic(texts in proptest::collection::vec("\\PC{0,60}", 0..6)) {
        let (mut decoder, mut out) = (Decoder::new(DecodeConfig::root()), Vec::new());
        for text in texts {
            decoder.handle_frame(Frame { event: Some("error"), data: &text.into() }, &mut out);
        }
        decoder.handle_end(&mut out);
        prop_assert!(decoder.settled().is_some());
    }
}

#[test]
fn items_of_another_task_are_neither_shown_nor_the_end() {
    let of_other = |mut event: Value| {
        for kind in ["statusUpdate", "artifactUpdate"] {
            if let Some(item) = event.get_mut(kind) {
                item["taskId"] = json!("other");
            }
        }
        event
    };
    let events = [
        text("a", "One", false),
        of_other(text("a", " alien", true)),
        text("a", " two", true),
        of_other(text("a", " alien", true)),
        of_other(working("m", "Alien notice…")),
        of_other(done()),
        text("a", " three", true),
        done(),
    ];
    let (out, counts) = decode(DecodeConfig::root(), &events);
    assert_eq!(counts.foreign, 4);
    let trace = trace(&run_to_end(out));
    assert!(!trace.to_lowercase().contains("alien") && trace.contains("three"), "{trace}");
    assert!(trace.ends_with("success\n"), "{trace}");
}

#[test]
fn an_agent_may_answer_a_message_in_another_task() {
    let memory = TaskMemory { task_id: "earlier".into(), ..TaskMemory::default() };
    let config = DecodeConfig { follow_up: true, ..DecodeConfig::root() };
    let (mut decoder, mut out) = (Decoder::resuming(config, memory), Vec::new());
    for event in [text("a", "Hello", false), done()] {
        decoder.handle_frame(Frame::data(&event.to_string().into()), &mut out);
    }
    assert_eq!(decoder.settled(), Some(Settled::Completed));
    assert_eq!(decoder.task_ref().unwrap().task_id, "t");
}

#[test]
fn unknown_members_of_a_file_are_kept() {
    let part = json!({"url": "https://x/a.png", "metadata": {"dpi": 300}, "checksum": "abc"});
    let (out, _) = decode(DecodeConfig::root(), &[artifact("a", &json!([part]), false, true), done()]);
    let file = out.iter().find_map(|event| match event {
        SourceEvent::Update(update) if matches!(update.block, ContentBlock::Custom(_)) => Some(update),
        _ => None,
    });
    let own = file.unwrap().details.as_ref().unwrap().metadata.as_ref().unwrap();
    assert_eq!(own.get(metadata::UNKNOWN), Some(&json!({"checksum": "abc"})));
    assert_eq!(own.get(metadata::PART), Some(&json!({"dpi": 300})));
}

/// An artifact of an earlier turn that this turn appends to is an answer of this turn.
#[test]
fn an_artifact_that_a_later_turn_appends_to_is_its_answer() {
    let ask = status("TASK_STATE_INPUT_REQUIRED", says("q", "Go on?"));
    let mut decoder = Decoder::new(DecodeConfig::root());
    for event in [text("a", "One. ", false), ask] {
        decoder.handle_frame(Frame::data(&event.to_string().into()), &mut Vec::new());
    }
    let config = DecodeConfig { follow_up: true, ..DecodeConfig::root() };
    let (mut decoder, mut out) = (Decoder::resuming(config, decoder.into_memory()), Vec::new());
    let end = status("TASK_STATE_COMPLETED", says("m", "One. Two."));
    for event in [status("TASK_STATE_WORKING", Value::Null), text("a", "Two.", true), end] {
        decoder.handle_frame(Frame::data(&event.to_string().into()), &mut out);
    }
    let trace = trace(&run_to_end(out));
    // The run of the second turn does not have "One. ", so the text is replaced, and stands there once.
    let (begun, replaced) = (trace.matches("text+").count(), trace.matches(" replaced").count());
    assert_eq!(begun - replaced, 1, "{trace}");
}

/// The dialect is learned from the first frame; the data of the second has a member of the wrapper's name.
#[test]
fn data_of_a_learned_dialect_is_unwrapped_once() {
    let wrapped = |id: &str, data: Value| {
        let parts = json!([{"data": {"data": data}}]);
        let message = json!({"messageId": id, "role": "ROLE_AGENT", "content": parts});
        status("TASK_STATE_WORKING", message)
    };
    let events = [wrapped("1", json!({"x": 1})), wrapped("2", json!({"data": {"x": 2}})), done()];
    let (out, _) = decode(DecodeConfig::root(), &events);
    let values: Vec<&Value> = out
        .iter()
        .filter_map(|event| match event {
            SourceEvent::Update(update) => match &update.block {
                ContentBlock::Custom(custom) => Some(&custom.value),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(values, [&json!({"x": 1}), &json!({"data": {"x": 2}})]);
}
