//! Requests to a human, and the way back.

use aqueduct_adapter_magentic::{Config, Decoder, Error};
use aqueduct_core::{BlockEvent, Channel, Interrupt, InterruptId, InterruptReply, SourceEvent};
use serde_json::{Value, json};

use crate::support::{
    Run, completed, customs, fixture, invoked, lines, outcome, run_of, runs, status, text, texts, update,
};

fn interrupts(run: &Run) -> Vec<&Interrupt> {
    let asked = run.said.iter().filter_map(|event| match event {
        SourceEvent::InterruptRequested { interrupt, .. } => Some(&**interrupt),
        _ => None,
    });
    asked.collect()
}

fn reply(id: &str, payload: Value) -> InterruptReply {
    InterruptReply { id: InterruptId::from(id), resolved: true, payload: Some(payload) }
}

/// Without the empty objects that the framework writes and does not need.
fn plain(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|key, _| key != "additional_properties");
            fields.iter_mut().for_each(|(_, value)| *value = plain(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = plain(item.take())),
        _ => {}
    }
    value
}

/// Feeds a recording up to the point where replies were given; gives the decoder and the replies.
fn until_replies(name: &str) -> (Decoder, Value) {
    let mut decoder = Decoder::new(Config::default());
    for line in fixture(name) {
        let value: Value = serde_json::from_str(&line).unwrap();
        if let Some(responses) = value.get("responses") {
            return (decoder, plain(responses.clone()));
        }
        decoder.handle_line(&line).unwrap();
    }
    panic!("{name} has no replies");
}

#[test]
fn an_approval_goes_back_as_the_framework_took_it() {
    let (mut decoder, given) = until_replies("tool_approval.events.jsonl");
    let id = given.as_object().unwrap().keys().next().unwrap().clone();
    let answer = decoder.handle_reply(&reply(&id, json!({"approved": true}))).unwrap();
    assert_eq!(answer.to_line(), json!({ "responses": given }));
    let again = decoder.handle_reply(&reply(&id, json!(true))).unwrap_err();
    assert!(matches!(again, Error::UnknownRequest { .. }), "{again}");
}

#[test]
fn a_review_goes_back_as_the_framework_took_it() {
    let (mut decoder, given) = until_replies("seq_request_info.events.jsonl");
    let id = given.as_object().unwrap().keys().next().unwrap().clone();
    let wrong =
        decoder.handle_reply(&InterruptReply { id: InterruptId::from(&*id), resolved: false, payload: None });
    assert!(wrong.is_err_and(|error| error.can_continue()));
    let answer = decoder.handle_reply(&reply(&id, json!({"feedback": "Shorter please."}))).unwrap();
    assert_eq!(answer.to_line(), json!({ "responses": given }));
}

#[test]
fn as_agent_tells_its_requests_as_calls_of_a_tool_that_is_none() {
    let runs = runs(&fixture("seq_request_info.agent.jsonl"));
    let asked = interrupts(&runs[0]);
    assert_eq!((asked.len(), &*asked[0].reason), (1, "confirmation"));
    let tools = runs[0].events.iter().any(|event| matches!(event, BlockEvent::BlockStarted(_)));
    assert!(!tools, "the request is no tool call");
    let Some(BlockEvent::RunFinished(end)) = runs[0].events.last() else { panic!("not finished") };
    assert_eq!(end.interrupts[0].lane.name(), "writer");
}

#[test]
fn an_approval_names_the_call_that_waits() {
    for name in ["tool_approval.events.jsonl", "tool_approval.agent.jsonl"] {
        let run = &runs(&fixture(name))[0];
        let Some(BlockEvent::RunFinished(end)) = run.events.last() else { panic!("not finished") };
        let interrupt = &end.interrupts[0];
        assert_eq!(interrupt.interrupt.tool_call_id.as_ref().unwrap().as_str(), "call_d1", "{name}");
        assert_eq!(interrupt.lane.name(), "janitor", "{name}");
    }
}

#[test]
fn the_result_of_a_call_that_waited_is_no_orphan() {
    for name in
        ["tool_approval.events.jsonl", "tool_approval.events-run.jsonl", "tool_approval.agent-run.json"]
    {
        let runs = runs(&fixture(name));
        let told = |run: &Run| {
            run.events
                .iter()
                .filter(|e| matches!(e, BlockEvent::BlockStarted(block) if !block.tool_name.is_empty()))
                .count()
        };
        assert_eq!((told(&runs[0]), told(&runs[1])), (1, 0), "{name}");
    }
}

#[test]
fn a_plan_under_review_is_shown_and_asked_for() {
    let plan = json!({"type": "message", "role": "assistant", "contents": [text("Here is the plan to follow as best as possible:\n\n- search\n- write\n")]});
    let events = [
        invoked("magentic_orchestrator"),
        json!({"type": "request_info", "request_id": "r1", "source_executor_id": "magentic_orchestrator",
               "request_type": "agent_framework_orchestrations._magentic.MagenticPlanReviewRequest",
               "response_type": "<class 'agent_framework_orchestrations._magentic.MagenticPlanReviewResponse'>",
               "data": {"__class__": "MagenticPlanReviewRequest", "plan": plan, "current_progress": null, "is_stalled": false}}),
        completed("magentic_orchestrator"),
        status("IDLE_WITH_PENDING_REQUESTS"),
    ];
    let run = run_of(&events);
    assert_eq!(outcome(&run), "Interrupted");
    assert_eq!(customs(&run, "aqueduct.plan")[0]["steps"].as_array().unwrap().len(), 2);
    let asked = interrupts(&run)[0];
    assert_eq!(&*asked.reason, "magentic:plan_review");
    assert_eq!(asked.metadata.as_ref().unwrap()["data"]["is_stalled"], false);
    let mut decoder = Decoder::default();
    for line in lines(&events) {
        decoder.handle_line(&line).unwrap();
    }
    let answer = decoder.handle_reply(&reply("r1", json!({"approved": true}))).unwrap();
    assert_eq!(answer.value, json!({"__class__": "MagenticPlanReviewResponse", "review": []}));
}

#[test]
fn the_older_plan_review_is_asked_for_and_answered_in_its_own_words() {
    let events = [
        json!({"event_class": "RequestInfoEvent", "request_id": "r1", "source_executor_id": "magentic_orchestrator",
        "request_type": "<class 'agent_framework._workflows._magentic.MagenticPlanReviewRequest'>",
        "data": {"__class__": "MagenticPlanReviewRequest", "task_text": "t", "facts_text": "f", "plan_text": "- do it", "round_index": 0}}),
        json!({"event_class": "WorkflowStatusEvent", "state": "IDLE_WITH_PENDING_REQUESTS"}),
    ];
    let run = run_of(&events);
    assert_eq!(customs(&run, "aqueduct.plan")[0]["steps"][0]["title"], "do it");
    let mut decoder = Decoder::default();
    for line in lines(&events) {
        decoder.handle_line(&line).unwrap();
    }
    let answer =
        decoder.handle_reply(&reply("r1", json!({"approved": false, "feedback": "add tests"}))).unwrap();
    assert_eq!(
        answer.value,
        json!({"__class__": "MagenticPlanReviewReply", "decision": "revise", "comments": "add tests"})
    );
}

#[test]
fn a_handoff_that_asks_its_user_repeats_nothing() {
    for id in [json!("m1"), Value::Null] {
        let run = run_of(&[
            invoked("refunds"),
            update("output", "refunds", &json!({"contents": [text("Which ")], "message_id": id})),
            update("output", "refunds", &json!({"contents": [text("order?")], "message_id": id})),
            json!({"type": "request_info", "request_id": "r1", "source_executor_id": "refunds",
                   "request_type": "agent_framework_orchestrations._handoff.HandoffAgentUserRequest", "response_type": "list[agent_framework._types.Message]",
                   "data": {"__class__": "HandoffAgentUserRequest", "agent_response": {"type": "agent_response", "messages": [
                       {"type": "message", "role": "assistant", "author_name": "refunds", "message_id": id, "contents": [text("Which order?")]}]}}}),
            completed("refunds"),
            status("IDLE_WITH_PENDING_REQUESTS"),
        ]);
        let said = vec![("refunds".to_owned(), "Which order?".to_owned())];
        assert_eq!(texts(&run.events, Channel::Answer), said);
        assert!(texts(&run.events, Channel::Intermediate).is_empty());
        assert_eq!(interrupts(&run)[0].message.as_deref(), Some("Which order?"));
        assert_eq!(&*interrupts(&run)[0].reason, "input_required");
    }
}

#[test]
fn a_request_of_the_users_own_has_a_schema_where_its_type_tells_one() {
    let run = run_of(&[
        json!({"type": "request_info", "request_id": "r1", "source_executor_id": "gate", "request_type": "app.Gate",
               "response_type": "<class 'bool'>", "data": {"__class__": "Gate", "prompt": "open it?", "door": 3}}),
        json!({"type": "request_info", "request_id": "r2", "source_executor_id": "gate", "request_type": "builtins.str",
               "response_type": "<class 'str'>", "data": "what is the code?"}),
        status("IDLE_WITH_PENDING_REQUESTS"),
    ]);
    let asked = interrupts(&run);
    assert_eq!(&*asked[0].reason, "magentic:Gate");
    assert_eq!(asked[0].message.as_deref(), Some("open it?"));
    assert_eq!(asked[0].response_schema, Some(json!({"type": "boolean"})));
    assert_eq!(asked[1].message.as_deref(), Some("what is the code?"));
    let Some(BlockEvent::RunFinished(end)) = run.events.last() else { panic!("not finished") };
    assert_eq!(end.interrupts.len(), 2);
}

#[test]
fn what_an_earlier_run_asked_is_asked_again_while_the_workflow_waits() {
    let ask = |id: &str| json!({"type": "request_info", "request_id": id, "source_executor_id": "gate", "data": "code?"});
    let events = [
        ask("r1"),
        ask("r2"),
        status("IDLE_WITH_PENDING_REQUESTS"),
        json!({"responses": {"r1": "7"}}),
        json!({"type": "started"}),
        status("IDLE_WITH_PENDING_REQUESTS"),
    ];
    let runs = runs(&lines(&events));
    let ids: Vec<&str> = interrupts(&runs[1]).iter().map(|asked| asked.id.as_str()).collect();
    assert_eq!(ids, ["r2"]);
    assert_eq!(outcome(&runs[1]), "Interrupted");
}

#[test]
fn the_oldest_requests_are_forgotten_past_the_limit() {
    let limits = aqueduct_adapter_magentic::Limits { pending_requests: 2, ..Default::default() };
    let mut decoder = Decoder::new(Config { limits, ..Config::default() });
    let ask = |id: &str| json!({"type": "request_info", "request_id": id, "source_executor_id": "gate", "data": "code?"});
    for line in lines(&[ask("r1"), ask("r2"), ask("r3")]) {
        decoder.handle_line(&line).unwrap();
    }
    assert!(decoder.handle_reply(&reply("r1", json!("7"))).is_err());
    assert_eq!(decoder.handle_reply(&reply("r3", json!("7"))).unwrap().value, "7");
}
