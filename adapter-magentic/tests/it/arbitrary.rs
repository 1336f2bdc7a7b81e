//! Whatever the lines hold, the decoder does not panic, and every run is well-formed.

use aqueduct_adapter_magentic::Config;
use aqueduct_core::ByteString;
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::support::{Driver, fixture, fixture_names};

const KEYS: [&str; 40] = [
    "type",
    "seq",
    "data",
    "executor_id",
    "state",
    "iteration",
    "request_id",
    "source_executor_id",
    "request_type",
    "response_type",
    "details",
    "update",
    "final_response",
    "exception",
    "message",
    "responses",
    "event_class",
    "agent_id",
    "text",
    "function_call_id",
    "function_result",
    "role",
    "contents",
    "messages",
    "author_name",
    "message_id",
    "response_id",
    "merge_mode",
    "finish_reason",
    "call_id",
    "id",
    "name",
    "arguments",
    "result",
    "items",
    "__class__",
    "agent_response",
    "content",
    "event_type",
    "additional_properties",
];

const WORDS: [&str; 40] = [
    "output",
    "intermediate",
    "status",
    "IDLE",
    "FAILED",
    "IDLE_WITH_PENDING_REQUESTS",
    "started",
    "request_info",
    "executor_invoked",
    "executor_completed",
    "executor_failed",
    "superstep_started",
    "superstep_completed",
    "group_chat",
    "handoff_sent",
    "magentic_orchestrator",
    "agent_response_update",
    "agent_response",
    "message",
    "text_reasoning",
    "function_call",
    "function_result",
    "usage",
    "function_approval_request",
    "replace",
    "append",
    "AgentExecutorResponse",
    "AgentExecutorRequest",
    "MagenticPlanReviewRequest",
    "HandoffAgentUserRequest",
    "MagenticAgentDeltaEvent",
    "MagenticAgentMessageEvent",
    "WorkflowOutputEvent",
    "MagenticFinalResultEvent",
    "WorkflowStatusEvent",
    "a",
    "b",
    "m1",
    "assistant",
    "tool",
];

fn word() -> impl Strategy<Value = Value> {
    prop_oneof![4 => prop::sample::select(WORDS.to_vec()).prop_map(Value::from), 1 => "\\PC{0,6}".prop_map(Value::from)]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![5 => word(), 1 => any::<bool>().prop_map(Value::from), 2 => (0_u64..9).prop_map(Value::from), 1 => Just(Value::Null)];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let key =
            prop_oneof![6 => prop::sample::select(KEYS.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,4}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn drive(lines: impl IntoIterator<Item = ByteString>) {
    let mut driver = Driver::new(Config::default());
    for line in lines {
        // A line that cannot be read is an error, and the next one is read.
        let read = driver.decoder.handle_line(&line);
        assert!(read.is_ok() || read.is_err_and(|error| error.can_continue()));
        driver.pump();
    }
    driver.finish();
}

proptest! {
    #[test]
    fn arbitrary_json_never_panics(lines in prop::collection::vec(json(), 0..24)) {
        drive(lines.into_iter().map(|line| ByteString::from(line.to_string())));
    }

    #[test]
    fn arbitrary_text_never_panics(lines in prop::collection::vec("\\PC{0,40}", 0..8)) {
        drive(lines.into_iter().map(ByteString::from));
    }

    #[test]
    fn recorded_lines_with_one_value_changed_never_panic(
        file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), value in json(),
    ) {
        let names = fixture_names();
        let mut lines = fixture(&names[file.index(names.len())]);
        let at = at.index(lines.len());
        let mut line: Value = serde_json::from_str(&lines[at]).unwrap();
        let mut pointers = Vec::new();
        collect("", &line, &mut pointers);
        if let Some(target) = line.pointer_mut(&pointers[place.index(pointers.len())]) {
            *target = value;
        }
        lines[at] = ByteString::from(line.to_string());
        drive(lines);
    }
}

/// The places in a value, as JSON pointers.
fn collect(path: &str, value: &Value, out: &mut Vec<String>) {
    out.push(path.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| collect(&format!("{path}/{key}"), value, out));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| collect(&format!("{path}/{index}"), value, out));
        }
        _ => {}
    }
}
