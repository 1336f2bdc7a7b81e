//! Each rule with a stream that breaks it and one that does not, for both dialects; and the recorded streams.

use serde_json::{Value, json};

use super::{Level, Rule, Severity, TextVerifier, Verifier, verify_json_lines, verify_sse};
use crate::config::Dialect;

const DIALECTS: [Dialect; 2] = [Dialect::V1_0, Dialect::V0_0_59];

/// What a dialect thinks of a stream: nothing, or a rule broken in this way.
type Verdict = Option<Severity>;
const OK: Verdict = None;
const REJECTED: Verdict = Some(Severity::Rejected);
const UNNOTICED: Verdict = Some(Severity::Unnoticed);

fn lines(events: &[Value]) -> String {
    events.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// A run around some events.
fn run(inner: Vec<Value>) -> Vec<Value> {
    let mut events = vec![started()];
    events.extend(inner);
    events.push(finished());
    events
}

fn started() -> Value {
    json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
}

fn finished() -> Value {
    json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
}

fn failed() -> Value {
    json!({"type": "RUN_ERROR", "message": "m"})
}

fn event(kind: &str, id: &str) -> Value {
    let id_member = match kind {
        _ if kind.starts_with("TOOL_CALL") => "toolCallId",
        _ if kind.starts_with("STEP") => "stepName",
        _ if kind.starts_with("SUBAGENT") => "subagentRunId",
        _ => "messageId",
    };
    let mut event = json!({"type": kind, id_member: id});
    match kind {
        "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" | "TOOL_CALL_ARGS" => {
            event["delta"] = json!("d");
        }
        "TOOL_CALL_START" => event["toolCallName"] = json!("tool"),
        "REASONING_MESSAGE_START" => event["role"] = json!("reasoning"),
        "SUBAGENT_STARTED" => event["name"] = json!("agent"),
        "SUBAGENT_ERROR" => event["message"] = json!("m"),
        _ => {}
    }
    event
}

fn with(mut event: Value, member: &str, value: Value) -> Value {
    event[member] = value;
    event
}

fn tagged(kind: &str, id: &str, tag: &str) -> Value {
    with(event(kind, id), "subagentRunId", json!(tag))
}

/// A text message, whole.
fn text(id: &str) -> Vec<Value> {
    ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"].map(|kind| event(kind, id)).to_vec()
}

/// A tool call, whole.
fn call(id: &str) -> Vec<Value> {
    ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"].map(|kind| event(kind, id)).to_vec()
}

fn result(id: &str, call: &str) -> Value {
    json!({"type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": call, "content": "x"})
}

fn messages(list: &Value) -> Value {
    json!({"type": "MESSAGES_SNAPSHOT", "messages": list})
}

fn patch(operation: &Value) -> Value {
    json!({"type": "STATE_DELTA", "delta": [operation]})
}

fn outcome(outcome: Value) -> Vec<Value> {
    vec![started(), with(finished(), "outcome", outcome)]
}

struct Case {
    rule: Rule,
    what: &'static str,
    /// For 1.0 and 0.0.59.
    verdicts: [Verdict; 2],
    events: Vec<Value>,
}

fn case(rule: Rule, what: &'static str, verdicts: [Verdict; 2], events: Vec<Value>) -> Case {
    Case { rule, what, verdicts, events }
}

#[rustfmt::skip]
fn lifecycle() -> Vec<Case> {
    use Rule::{AfterError, AfterFinish, FirstEvent, MissingTerminal, OpenAtError, RunActive, RunMismatch};
    let both = [REJECTED, REJECTED];
    let silent = [UNNOTICED, UNNOTICED];
    vec![
        case(FirstEvent, "minimal", [OK, OK], run(vec![])),
        case(FirstEvent, "no start", both, vec![event("STEP_STARTED", "s"), event("STEP_FINISHED", "s"), finished()]),
        case(FirstEvent, "error first", [OK, OK], vec![failed()]),
        case(AfterError, "custom after error", both, vec![started(), failed(), json!({"type": "CUSTOM", "name": "n", "value": 1})]),
        case(AfterError, "finish after error", both, vec![started(), failed(), finished()]),
        case(AfterError, "new run after error", [OK, OK], [vec![started(), failed()], run(vec![])].concat()),
        case(AfterFinish, "event after finish", both, [run(vec![]), vec![event("STEP_STARTED", "s")]].concat()),
        case(AfterFinish, "error after finish", [OK, OK], [run(vec![]), vec![failed()]].concat()),
        case(AfterFinish, "two runs", [OK, OK], [run(text("a")), run(text("b"))].concat()),
        case(RunActive, "nested start", both, run(vec![started()])),
        case(MissingTerminal, "cut off", silent, [vec![started()], text("m")].concat()),
        case(MissingTerminal, "nothing at all", silent, vec![]),
        case(MissingTerminal, "ended by an error", [OK, OK], vec![started(), failed()]),
        case(OpenAtError, "open text", silent, vec![started(), event("TEXT_MESSAGE_START", "m"), event("TEXT_MESSAGE_CONTENT", "m"), failed()]),
        case(OpenAtError, "all closed", [OK, OK], [vec![started()], text("m"), vec![failed()]].concat()),
        case(RunMismatch, "other run", silent, vec![started(), with(finished(), "runId", json!("other"))]),
        case(RunMismatch, "other thread", silent, vec![started(), with(finished(), "threadId", json!("other"))]),
    ]
}

#[rustfmt::skip]
fn blocks() -> Vec<Case> {
    use Rule::{OpenAtFinish, ReasoningNotOpen, ReasoningOpenTwice, TextNotOpen, TextOpenTwice, ToolNotOpen, ToolOpenTwice};
    let both = [REJECTED, REJECTED];
    let new_only = [REJECTED, UNNOTICED];
    let open = |kind: &str, id: &str| run(vec![event(kind, id)]);
    let reasoned = |kinds: &[&str]| run(kinds.iter().map(|kind| event(kind, "q")).collect());
    let interleaved = vec![
        event("TEXT_MESSAGE_START", "a"), event("TEXT_MESSAGE_START", "b"), event("TEXT_MESSAGE_CONTENT", "a"),
        event("TEXT_MESSAGE_CONTENT", "b"), event("TOOL_CALL_START", "c"), event("TEXT_MESSAGE_END", "b"),
        event("TOOL_CALL_END", "c"), event("TEXT_MESSAGE_END", "a"),
    ];
    vec![
        case(TextOpenTwice, "start on open", both, run([vec![event("TEXT_MESSAGE_START", "m")], text("m")].concat())),
        case(TextOpenTwice, "interleaved", [OK, OK], run(interleaved)),
        case(TextNotOpen, "content without start", both, open("TEXT_MESSAGE_CONTENT", "m")),
        case(TextNotOpen, "end without start", both, open("TEXT_MESSAGE_END", "m")),
        case(TextNotOpen, "content after end", both, run([text("m"), vec![event("TEXT_MESSAGE_CONTENT", "m")]].concat())),
        case(ToolOpenTwice, "start on open", both, run([vec![event("TOOL_CALL_START", "c")], call("c")].concat())),
        case(ToolNotOpen, "arguments without start", both, open("TOOL_CALL_ARGS", "c")),
        case(ToolNotOpen, "end without start", both, open("TOOL_CALL_END", "c")),
        case(ToolNotOpen, "whole call", [OK, OK], run(call("c"))),
        case(ReasoningOpenTwice, "message on open", new_only, reasoned(&["REASONING_MESSAGE_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"])),
        case(ReasoningOpenTwice, "span on open", new_only, reasoned(&["REASONING_START", "REASONING_START", "REASONING_END"])),
        case(ReasoningOpenTwice, "span and message share an id", [OK, OK], reasoned(&["REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "REASONING_END"])),
        case(ReasoningNotOpen, "content without start", new_only, reasoned(&["REASONING_MESSAGE_CONTENT"])),
        case(ReasoningNotOpen, "end of span without start", new_only, reasoned(&["REASONING_END"])),
        case(ReasoningNotOpen, "message without span", [OK, OK], reasoned(&["REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"])),
        case(OpenAtFinish, "text", both, open("TEXT_MESSAGE_START", "m")),
        case(OpenAtFinish, "tool", both, open("TOOL_CALL_START", "c")),
        case(OpenAtFinish, "step", both, open("STEP_STARTED", "s")),
        case(OpenAtFinish, "sub-agent", both, open("SUBAGENT_STARTED", "s")),
        case(OpenAtFinish, "reasoning", new_only, reasoned(&["REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"])),
        case(OpenAtFinish, "span", new_only, reasoned(&["REASONING_START"])),
    ]
}

#[rustfmt::skip]
fn steps_and_subagents() -> Vec<Case> {
    use Rule::{StepNotOpen, StepOpenTwice, StepWrongOwner, SubagentNotOpen, SubagentOpenTwice, SubagentReused, SubagentUnknownParent};
    let both = [REJECTED, REJECTED];
    let sub = |id: &str| vec![event("SUBAGENT_STARTED", id), event("SUBAGENT_FINISHED", id)];
    let child = with(event("SUBAGENT_STARTED", "b"), "parentSubagentRunId", json!("a"));
    let step = |kind: &str| event(kind, "s");
    vec![
        case(StepOpenTwice, "twice", both, run(vec![step("STEP_STARTED"), step("STEP_STARTED"), step("STEP_FINISHED")])),
        case(StepOpenTwice, "one name, two agents", [OK, OK], run(vec![step("STEP_STARTED"), tagged("STEP_STARTED", "s", "x"), tagged("STEP_FINISHED", "s", "x"), step("STEP_FINISHED")])),
        case(StepNotOpen, "not started", both, run(vec![step("STEP_FINISHED")])),
        case(StepWrongOwner, "other agent", both, run(vec![step("STEP_STARTED"), tagged("STEP_FINISHED", "s", "x"), step("STEP_FINISHED")])),
        case(SubagentOpenTwice, "twice", both, run([vec![event("SUBAGENT_STARTED", "a")], sub("a")].concat())),
        case(SubagentReused, "after its end", both, run([sub("a"), sub("a")].concat())),
        case(SubagentReused, "in the next run", [OK, OK], [run(sub("a")), run(sub("a"))].concat()),
        case(SubagentUnknownParent, "never started", both, run(vec![child.clone(), event("SUBAGENT_FINISHED", "b")])),
        case(SubagentUnknownParent, "ended parent", [OK, OK], run([sub("a"), vec![child, event("SUBAGENT_ERROR", "b")]].concat())),
        case(SubagentNotOpen, "finish", both, run(vec![event("SUBAGENT_FINISHED", "a")])),
        case(SubagentNotOpen, "error", both, run(vec![event("SUBAGENT_ERROR", "a")])),
    ]
}

#[rustfmt::skip]
fn owners() -> Vec<Case> {
    use Rule::{OwnerMismatch, ParentNotAssistant, ParentOwnerMismatch};
    let both = [REJECTED, REJECTED];
    let parented = |tag: Option<&str>| {
        let start = with(event("TOOL_CALL_START", "c"), "parentMessageId", json!("m"));
        let start = tag.map_or_else(|| start.clone(), |tag| with(start.clone(), "subagentRunId", json!(tag)));
        vec![start, event("TOOL_CALL_END", "c")]
    };
    let said_by = |id: &str, tag: &str| vec![tagged("TEXT_MESSAGE_START", id, tag), event("TEXT_MESSAGE_CONTENT", id), event("TEXT_MESSAGE_END", id)];
    let history = messages(&json!([{"id": "h", "role": "assistant", "content": "x", "subagentRunId": "x"}]));
    let card = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "t", "content": {}, "subagentRunId": "x"});
    let change = json!({"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "t", "patch": [], "subagentRunId": "y"});
    let sealed = json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c", "encryptedValue": "e", "subagentRunId": "y"});
    let thought = ["REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"].map(|kind| event(kind, "m")).to_vec();
    vec![
        case(OwnerMismatch, "tag without life", [OK, OK], run(said_by("m", "x"))),
        case(OwnerMismatch, "end by another", both, run(vec![tagged("TEXT_MESSAGE_START", "m", "x"), event("TEXT_MESSAGE_CONTENT", "m"), tagged("TEXT_MESSAGE_END", "m", "y")])),
        case(OwnerMismatch, "the parent's text", both, run(vec![event("TEXT_MESSAGE_START", "m"), tagged("TEXT_MESSAGE_CONTENT", "m", "x"), event("TEXT_MESSAGE_END", "m")])),
        case(OwnerMismatch, "arguments of another", both, run(vec![tagged("TOOL_CALL_START", "c", "x"), tagged("TOOL_CALL_ARGS", "c", "y"), event("TOOL_CALL_END", "c")])),
        case(OwnerMismatch, "reasoning of another", both, run(vec![tagged("REASONING_MESSAGE_START", "q", "x"), tagged("REASONING_MESSAGE_CONTENT", "q", "y"), event("REASONING_MESSAGE_END", "q")])),
        case(OwnerMismatch, "activity of another", both, run(vec![card, change])),
        case(OwnerMismatch, "sealed value of another", both, run(vec![tagged("TOOL_CALL_START", "c", "x"), event("TOOL_CALL_END", "c"), sealed])),
        case(OwnerMismatch, "restated message of another", both, run([vec![history], said_by("h", "y")].concat())),
        case(ParentOwnerMismatch, "call of another", both, run([said_by("m", "x"), parented(Some("y"))].concat())),
        case(ParentOwnerMismatch, "untagged call", [OK, OK], run([said_by("m", "x"), parented(None)].concat())),
        case(ParentNotAssistant, "call in a reasoning message", [UNNOTICED, UNNOTICED], run([thought, parented(None)].concat())),
        case(ParentNotAssistant, "call without text", [OK, OK], run(parented(None))),
    ]
}

#[rustfmt::skip]
fn shapes() -> Vec<Case> {
    use Rule::{BadPatch, NotInDialect, RetiredEvent, Schema, UnknownEvent, UnknownField, UnknownVariant};
    let both = [REJECTED, REJECTED];
    let old_only = [OK, REJECTED];
    let stripped = [UNNOTICED, REJECTED];
    let image = |source: &Value| messages(&json!([{"id": "u", "role": "user", "content": [{"type": "image", "source": source}]}]));
    let parts = with(result("m", "c"), "content", json!([{"type": "text", "text": "x"}]));
    let echo = json!({"threadId": "t", "runId": "r", "messages": []});
    vec![
        case(Schema, "role of another kind", both, run(vec![with(event("TEXT_MESSAGE_START", "m"), "role", json!("tool"))])),
        case(Schema, "no reasoning role", both, run(vec![json!({"type": "REASONING_MESSAGE_START", "messageId": "m"})])),
        case(Schema, "snake case", both, run(vec![json!({"type": "TEXT_MESSAGE_START", "message_id": "m"})])),
        case(Schema, "result is an object", both, run([call("c"), vec![with(result("m", "c"), "content", json!({}))]].concat())),
        case(Schema, "no error message", both, vec![started(), json!({"type": "RUN_ERROR"})]),
        case(Schema, "count is a text", both, vec![started(), with(failed(), "usage", json!([{"inputTokens": "1"}]))]),
        case(Schema, "no interrupts", both, outcome(json!({"type": "interrupt", "interrupts": []}))),
        case(Schema, "activity is a text", both, run(vec![json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "t", "content": "x"})])),
        case(Schema, "time with a fraction", [REJECTED, UNNOTICED], vec![with(started(), "timestamp", json!(1.5)), finished()]),
        case(Schema, "time is a text", both, vec![with(started(), "timestamp", json!("now")), finished()]),
        case(Schema, "custom without value", [REJECTED, UNNOTICED], run(vec![json!({"type": "CUSTOM", "name": "n"})])),
        case(Schema, "no type", both, run(vec![json!({"name": "n"})])),
        case(Schema, "outcome success", [OK, OK], outcome(json!({"type": "success"}))),
        case(UnknownEvent, "hologram", stripped, run(vec![json!({"type": "HOLOGRAM"})])),
        case(UnknownField, "on an event", [UNNOTICED, OK], vec![with(started(), "foo", json!(1)), finished()]),
        case(UnknownField, "in an outcome", stripped, outcome(json!({"type": "success", "foo": 1}))),
        case(UnknownVariant, "outcome", stripped, outcome(json!({"type": "bored"}))),
        case(UnknownVariant, "message", stripped, run(vec![messages(&json!([{"id": "a", "role": "oracle"}]))])),
        case(UnknownVariant, "source", stripped, run(vec![image(&json!({"type": "dream"}))])),
        case(NotInDialect, "cancelled", old_only, outcome(json!({"type": "cancelled"}))),
        case(NotInDialect, "pending calls", old_only, outcome(json!({"type": "success", "pendingToolCallIds": []}))),
        case(NotInDialect, "parts of a result", old_only, run([call("c"), vec![parts]].concat())),
        case(NotInDialect, "file handle", old_only, run(vec![image(&json!({"type": "file", "value": "f"}))])),
        case(NotInDialect, "address", [OK, OK], run(vec![image(&json!({"type": "url", "value": "u"}))])),
        case(NotInDialect, "echo without tools", old_only, vec![with(started(), "input", echo), finished()]),
        case(RetiredEvent, "thinking", [UNNOTICED, OK], run(vec![json!({"type": "THINKING_START"}), json!({"type": "THINKING_END"})])),
        case(BadPatch, "bad pointer", [REJECTED, UNNOTICED], run(vec![patch(&json!({"op": "add", "path": "a", "value": 1}))])),
        case(BadPatch, "unknown operation", [UNNOTICED, UNNOTICED], run(vec![patch(&json!({"op": "jump", "path": "/a"}))])),
        case(BadPatch, "good", [OK, OK], run(vec![patch(&json!({"op": "add", "path": "/a", "value": null}))])),
    ]
}

#[rustfmt::skip]
fn nulls() -> Vec<Case> {
    let both = [REJECTED, REJECTED];
    let silent = [UNNOTICED, UNNOTICED];
    let rule = Rule::NullOptional;
    let in_text = |member: &str| {
        let mut events = text("m");
        events[0][member] = Value::Null;
        run(events)
    };
    let in_step = |member: &str| run(vec![with(event("STEP_STARTED", "s"), member, Value::Null), event("STEP_FINISHED", "s")]);
    let in_call = run(vec![with(event("TOOL_CALL_START", "c"), "parentMessageId", Value::Null), event("TOOL_CALL_END", "c")]);
    vec![
        case(rule, "name", both, in_text("name")),
        case(rule, "role", both, in_text("role")),
        case(rule, "tag", both, in_text("subagentRunId")),
        case(rule, "time", both, in_step("timestamp")),
        case(rule, "metadata", both, in_step("metadata")),
        case(rule, "raw event", silent, in_step("rawEvent")),
        case(rule, "parent", silent, in_call),
        case(rule, "result", silent, vec![started(), with(finished(), "result", Value::Null)]),
        case(rule, "outcome", silent, outcome(Value::Null)),
        case(rule, "restated content", both, run(vec![messages(&json!([{"id": "a", "role": "assistant", "content": null}]))])),
        case(rule, "custom value may be null", [OK, OK], run(vec![json!({"type": "CUSTOM", "name": "n", "value": null})])),
    ]
}

#[rustfmt::skip]
fn chunks() -> Vec<Case> {
    let both = [REJECTED, REJECTED];
    let chunk = |id: Option<&str>| {
        let chunk = json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "d"});
        id.map_or_else(|| chunk.clone(), |id| with(chunk.clone(), "messageId", json!(id)))
    };
    vec![
        case(Rule::Chunk, "first without id", both, run(vec![chunk(None)])),
        case(Rule::Chunk, "role changes", [REJECTED, OK], run(vec![chunk(Some("a")), with(chunk(Some("a")), "role", json!("user"))])),
        case(Rule::Chunk, "several", [OK, OK], run(vec![chunk(Some("a")), chunk(None), chunk(Some("b"))])),
        case(Rule::TextOpenTwice, "start, then chunk", both, run(vec![event("TEXT_MESSAGE_START", "a"), chunk(Some("a"))])),
        case(Rule::TextNotOpen, "chunk, then end", both, run(vec![chunk(Some("a")), event("TEXT_MESSAGE_END", "a")])),
    ]
}

#[rustfmt::skip]
fn unnoticed() -> Vec<Case> {
    use Rule::{ActivityWithoutSnapshot, IdReused, InterruptReused, LostContent, PendingUnknown, ResultWithoutCall, SnapshotDropsOpen};
    let silent = [UNNOTICED, UNNOTICED];
    let card = |id: &str| json!({"type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": "t", "content": {}});
    let change = json!({"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "t", "patch": []});
    let thought = |inner: Option<&str>| {
        let kinds = ["REASONING_MESSAGE_START"].into_iter().chain(inner).chain(["REASONING_MESSAGE_END"]);
        kinds.map(|kind| event(kind, "q")).collect::<Vec<_>>()
    };
    let said = "REASONING_MESSAGE_CONTENT";
    let seal = json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "q", "encryptedValue": "e"});
    let asked = || outcome(json!({"type": "interrupt", "interrupts": [{"id": "i", "reason": "r"}]}));
    let history = messages(&json!([{"id": "h", "role": "assistant", "toolCalls": [
        {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]}]));
    let restated = messages(&json!([{"id": "m", "role": "assistant", "content": "d"}]));
    let carried = with(event("TOOL_CALL_START", "c"), "parentMessageId", json!("m"));
    let empty = with(event("TEXT_MESSAGE_CONTENT", "m"), "delta", json!(""));
    let (start, end) = (event("TEXT_MESSAGE_START", "m"), event("TEXT_MESSAGE_END", "m"));
    vec![
        case(LostContent, "text", silent, run(vec![start.clone(), end.clone()])),
        case(LostContent, "empty delta", silent, run(vec![start.clone(), empty, end.clone()])),
        case(LostContent, "reasoning", silent, run(thought(None))),
        case(LostContent, "sealed reasoning", [OK, OK], run([thought(None), vec![seal]].concat())),
        case(LostContent, "content", [OK, OK], run(thought(Some(said)))),
        case(IdReused, "text again in a run", silent, run([text("m"), text("m")].concat())),
        case(IdReused, "text again in the next run", silent, [run(text("m")), run(text("m"))].concat()),
        case(IdReused, "text and activity", silent, run([text("m"), vec![card("m")]].concat())),
        case(IdReused, "text and reasoning", silent, run([text("q"), thought(Some(said))].concat())),
        case(IdReused, "text and call", silent, run([text("c"), call("c")].concat())),
        case(IdReused, "result and text", silent, run([call("c"), vec![result("m", "c")], text("m")].concat())),
        case(IdReused, "restated", [OK, OK], run([text("m"), vec![restated]].concat())),
        case(IdReused, "card shown again", [OK, OK], run(vec![card("a"), card("a")])),
        case(IdReused, "text after the call in it", [OK, OK], run([vec![carried, event("TOOL_CALL_END", "c")], text("m")].concat())),
        case(ResultWithoutCall, "orphan", silent, run(vec![result("m", "c")])),
        case(ResultWithoutCall, "answered", [OK, OK], run([call("c"), vec![result("m", "c")]].concat())),
        case(ResultWithoutCall, "call of the history", [OK, OK], run(vec![history, result("m", "c")])),
        case(ActivityWithoutSnapshot, "no card", silent, run(vec![change.clone()])),
        case(ActivityWithoutSnapshot, "card", [OK, OK], run(vec![card("a"), change])),
        case(SnapshotDropsOpen, "open text left out", silent, run(vec![start, event("TEXT_MESSAGE_CONTENT", "m"), messages(&json!([])), end])),
        case(InterruptReused, "asked again", silent, [asked(), asked()].concat()),
        case(InterruptReused, "asked once", [OK, OK], asked()),
        case(PendingUnknown, "never made", [UNNOTICED, REJECTED], outcome(json!({"type": "success", "pendingToolCallIds": ["c"]}))),
    ]
}

fn cases() -> Vec<Case> {
    [lifecycle(), blocks(), steps_and_subagents(), owners(), shapes(), nulls(), chunks(), unnoticed()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn every_case_has_its_verdict() {
    for case in cases() {
        for (dialect, verdict) in DIALECTS.into_iter().zip(case.verdicts) {
            let found = verify_json_lines(&lines(&case.events), dialect, Level::Strict);
            let worst = found.iter().map(|violation| violation.severity).max();
            let name = format!("{:?}: {} ({dialect:?}): {found:?}", case.rule, case.what);
            assert_eq!(worst, verdict, "{name}");
            assert!(verdict.is_none() || found.iter().any(|violation| violation.rule == case.rule), "{name}");
            let client = verify_json_lines(&lines(&case.events), dialect, Level::Client);
            assert_eq!(client.is_empty(), verdict != REJECTED, "{name}");
        }
    }
}

#[test]
fn every_rule_has_a_case() {
    let framing = [Rule::NotJson, Rule::CrlfFraming, Rule::FrameTooLarge];
    let broken = |case: &Case| case.verdicts.iter().any(Option::is_some);
    let covered: Vec<_> =
        cases().iter().filter(|case| broken(case)).map(|case| case.rule).chain(framing).collect();
    for rule in Rule::ALL {
        assert!(covered.contains(rule), "{rule:?}");
        assert!(!rule.id().is_empty() && !rule.fix().is_empty());
    }
}

#[test]
fn a_violation_says_where_what_and_what_to_do() {
    let events = run(vec![event("TEXT_MESSAGE_CONTENT", "m")]);
    let found = verify_json_lines(&lines(&events), Dialect::V1_0, Level::Client);
    assert_eq!(
        found[0].to_string(),
        "event 1 (TEXT_MESSAGE_CONTENT): text message 'm' is not open [text-not-open, rejected]; \
         send TEXT_MESSAGE_START with that id first"
    );
}

#[test]
fn several_nulls_of_one_event_are_all_found() {
    let start = json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "rawEvent": null, "name": null,
        "timestamp": 1.5});
    let rest = text("m").split_off(1);
    let events = run([vec![start], rest].concat());
    let found = verify_json_lines(&lines(&events), Dialect::V1_0, Level::Strict);
    let rules: Vec<_> = found.iter().map(|violation| (violation.rule, violation.severity)).collect();
    let expected = [
        (Rule::Schema, Severity::Rejected),
        (Rule::NullOptional, Severity::Unnoticed),
        (Rule::NullOptional, Severity::Rejected),
    ];
    assert_eq!(rules, expected);
}

fn sse(events: &[Value], newline: &str) -> String {
    let frame = |event: &Value| format!("data: {event}{newline}{newline}");
    events.iter().map(frame).collect::<Vec<_>>().concat()
}

fn rules_of_sse(text: &str) -> Vec<Rule> {
    let whole = verify_sse(text.as_bytes(), Dialect::V1_0, Level::Strict);
    let mut cut = TextVerifier::new(Verifier::new(Dialect::V1_0, Level::Strict));
    text.as_bytes().iter().for_each(|byte| cut.handle_bytes(&[*byte]));
    assert_eq!(cut.handle_end(), whole, "the cuts must not matter");
    whole.into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn framing_is_what_clients_take() {
    let events = run(text("m"));
    assert_eq!(rules_of_sse(&sse(&events, "\n")), []);
    assert_eq!(rules_of_sse(&sse(&events, "\r\n")), [Rule::CrlfFraming]);
    let commented = sse(&events, "\n").replace("data: {", ": keep-alive\n\nid: 7\nevent: x\ndata:{");
    assert_eq!(rules_of_sse(&commented), []);
    assert_eq!(rules_of_sse(&format!("{}data: [DONE]\n\n", sse(&events, "\n"))), [Rule::NotJson]);
    assert_eq!(rules_of_sse(sse(&events, "\n").trim_end()), []);
    let lined = sse(&events, "\n").replace(",\"messageId\"", ",\ndata: \"messageId\"");
    assert_eq!(rules_of_sse(&lined), []);
}

#[test]
fn a_frame_over_the_limit_is_reported_and_passed_over() {
    let large = json!({"type": "CUSTOM", "name": "n", "value": "x".repeat(crate::encode::MAX_FRAME)});
    let text = sse(&run(vec![large]), "\n");
    let found = verify_sse(text.as_bytes(), Dialect::V1_0, Level::Strict);
    let rules: Vec<_> = found.iter().map(|violation| (violation.index, violation.rule)).collect();
    assert_eq!(rules, [(1, Rule::FrameTooLarge)]);
}

#[test]
fn history_is_known() {
    let history: Vec<crate::wire::Message> = serde_json::from_value(json!([
        {"id": "m", "role": "assistant", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
    ]))
    .unwrap();
    let verify = |events: &[Value]| {
        let verifier = Verifier::new(Dialect::V1_0, Level::Strict).with_history(&history);
        let mut verifier = TextVerifier::new(verifier);
        for event in events {
            verifier.handle_payload(&event.to_string());
        }
        verifier.handle_end().into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    assert_eq!(verify(&run(vec![result("x", "c")])), []);
    assert_eq!(verify(&run(text("m"))), [Rule::IdReused]);
}

#[test]
fn the_good_stream_is_good() {
    let text = include_str!("../../../tests/fixtures/agui/good.jsonl");
    for dialect in DIALECTS {
        assert_eq!(verify_json_lines(text, dialect, Level::Strict), []);
    }
}

/// Both clients reject exactly these two of the recorded streams: each sends a status after `RUN_ERROR`.
#[test]
fn recorded_streams_are_legal_but_two() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/agui");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sse") {
            continue;
        }
        seen += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let illegal = ["agui_wf_error_agent", "agui_wf_mag_error"].contains(&&*name);
        for dialect in DIALECTS {
            let found = verify_sse(&std::fs::read(&path).unwrap(), dialect, Level::Client);
            assert_eq!(!found.is_empty(), illegal, "{name}: {found:?}");
            assert!(found.iter().all(|violation| violation.rule == Rule::AfterError), "{name}: {found:?}");
        }
    }
    assert!(seen >= 29);
}
