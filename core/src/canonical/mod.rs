//! The JSON form of canonical values: events, one object each, and whole runs. `docs/cli.md` lists the members.
//!
//! Rules: `event` is first and names the event; absent members are omitted, never null; the root lane is omitted; member
//! names are in lower camel case, values of enumerations in lower case. Members may be added, none are renamed.
//!
//! This is not the wire format of a protocol: those live in adapters. Nothing reads this form back.

mod run;

use serde_json::{Map, Value};

use crate::Metadata;
use crate::block::ToolOutput;
use crate::event::{
    BlockEvent, BlockHead, CustomEvent, EndReason, Lane, Origin, PendingInterrupt, RunFailed, RunFinished,
    SpanKind, ToolResultEvent,
};
use crate::id::ToolCallId;
use crate::run::{Interrupt, LaneOutcome, RunFailure, RunOutcome, Usage};
use crate::update::{Channel, Role};

/// Returns an event as one object.
///
/// # Examples
///
/// ```
/// use aqueduct_core::canonical::to_json;
/// use aqueduct_core::{BlockEvent, RunInfo};
///
/// let event = BlockEvent::RunStarted(RunInfo::new("thread", "run").into());
/// assert_eq!(to_json(&event).to_string(), r#"{"event":"run.started","thread":"thread","run":"run"}"#);
/// ```
pub fn to_json(event: &BlockEvent) -> Value {
    let object = match event {
        BlockEvent::RunStarted(run) => Object::new("run.started")
            .text("thread", run.thread_id.as_str())
            .text("run", run.run_id.as_str())
            .maybe("parentRun", run.parent_run_id.as_ref())
            .maybe("agent", run.agent.as_deref()),
        BlockEvent::LaneOpened(lane) => opened(lane),
        BlockEvent::LaneClosed { lane, outcome } => closed(lane, outcome),
        BlockEvent::BlockStarted(block) => started(block),
        BlockEvent::BlockDelta { block, delta } => {
            Object::new("block.delta").text("block", block.id.as_str()).text("delta", delta)
        }
        BlockEvent::ThinkingEncrypted { block, value } => {
            Object::new("block.sealed").text("block", block.id.as_str()).text("value", value)
        }
        BlockEvent::BlockEnded { block, reason } => {
            Object::new("block.ended").text("block", block.id.as_str()).text("reason", reason_word(*reason))
        }
        BlockEvent::ToolResult(result) => tool_result(result),
        BlockEvent::Custom(custom) => custom_block(custom),
        BlockEvent::StepStarted { lane, name } => Object::new("step.started").lane(lane).text("name", name),
        BlockEvent::StepFinished { lane, name } => Object::new("step.finished").lane(lane).text("name", name),
        BlockEvent::StateSnapshot { lane, state } => {
            Object::new("state.snapshot").lane(lane).value("state", state.clone())
        }
        BlockEvent::StateDelta { lane, patch } => {
            Object::new("state.delta").lane(lane).value("patch", Value::from(patch.clone()))
        }
        BlockEvent::Usage { lane, usage } => Object::new("usage").lane(lane).value("usage", usage_of(usage)),
        BlockEvent::InterruptRequested(pending) => {
            Object::new("interrupt.requested").value("interrupt", self::pending(pending))
        }
        BlockEvent::RunFinished(end) => finished(end),
        BlockEvent::RunFailed(failed) => run_failed(failed),
        // A new event kind fails to compile here: it needs a JSON form.
    };
    Value::Object(object.0)
}

/// An object under construction, in the order of its members.
struct Object(Map<String, Value>);

impl Object {
    fn new(event: &str) -> Self {
        Self::empty().text("event", event)
    }

    fn empty() -> Self {
        Self(Map::new())
    }

    fn value(mut self, key: &str, value: Value) -> Self {
        self.0.insert(key.to_owned(), value);
        self
    }

    fn text(self, key: &str, text: &str) -> Self {
        self.value(key, Value::from(text))
    }

    /// Adds a text member if it is present.
    fn maybe(self, key: &str, text: Option<impl AsRef<str>>) -> Self {
        match text {
            Some(text) => self.text(key, text.as_ref()),
            None => self,
        }
    }

    fn maybe_value(self, key: &str, value: Option<Value>) -> Self {
        match value {
            Some(value) => self.value(key, value),
            None => self,
        }
    }

    fn metadata(self, metadata: Option<&Metadata>) -> Self {
        self.maybe_value("metadata", metadata.map(|metadata| Value::Object(metadata.clone())))
    }

    /// Adds the lane, except for the root.
    fn lane(self, lane: &Lane) -> Self {
        if lane.is_root() { self } else { self.text("lane", lane.id.as_str()) }
    }

    fn channel(self, channel: Channel) -> Self {
        self.text(
            "channel",
            match channel {
                Channel::Answer => "answer",
                Channel::Intermediate => "intermediate",
            },
        )
    }

    /// Adds the ids, time and metadata of the source, if there are any.
    fn origin(self, origin: &Origin) -> Self {
        let track = Some(origin.track.as_str()).filter(|track| !track.is_empty());
        let members = Self::empty()
            .maybe("message", origin.message_id.as_ref())
            .maybe("response", origin.response_id.as_ref())
            .maybe("call", origin.tool_call_id.as_ref())
            .maybe("track", track)
            .maybe_value("createdAt", origin.created_at.map(|time| Value::from(time.0)))
            .metadata(origin.metadata.as_deref());
        if members.0.is_empty() { self } else { self.value("origin", Value::Object(members.0)) }
    }
}

fn opened(lane: &Lane) -> Object {
    let parent = lane.parent.as_ref().filter(|parent| !parent.is_root());
    Object::new("lane.opened")
        .text("lane", lane.id.as_str())
        .text("name", lane.name())
        .text("key", lane.source.key())
        .maybe("parent", parent.map(|parent| &parent.id))
        .maybe("parentCall", lane.parent_call.as_ref())
        .maybe("description", lane.source.description().map(|text| &**text))
        .metadata(lane.source.metadata().map(|metadata| &**metadata))
}

fn closed(lane: &Lane, outcome: &LaneOutcome) -> Object {
    let object = Object::new("lane.closed").text("lane", lane.id.as_str());
    match outcome {
        LaneOutcome::Success(result) => {
            object.text("outcome", "success").maybe_value("result", result.clone())
        }
        LaneOutcome::Suspended => object.text("outcome", "suspended"),
        LaneOutcome::Cancelled => object.text("outcome", "cancelled"),
        LaneOutcome::Failed(failure) => object.text("outcome", "failed").value("failure", failed(failure)),
    }
}

fn started(block: &BlockHead) -> Object {
    let kind = match block.kind {
        SpanKind::Text => "text",
        SpanKind::Thinking => "thinking",
        SpanKind::ToolUse => "toolUse",
    };
    let tool = Some(&*block.tool_name).filter(|_| block.kind == SpanKind::ToolUse);
    Object::new("block.started")
        .text("block", block.id.as_str())
        .text("kind", kind)
        .lane(&block.lane)
        .channel(block.channel)
        .text("role", role_word(block.role))
        .maybe("tool", tool)
        .maybe("parent", block.parent.as_ref())
        .maybe("continues", block.continues.as_ref())
        .maybe("replaces", block.replaces.as_ref())
        .origin(&block.origin)
}

fn tool_result(result: &ToolResultEvent) -> Object {
    let output = match &result.output {
        ToolOutput::Text(text) | ToolOutput::Progress(text) => Value::from(&**text),
        ToolOutput::Json(value) => value.clone(),
    };
    let tool = Some(&*result.tool_name).filter(|name| !name.is_empty());
    Object::new("tool.result")
        .text("result", result.id.as_str())
        .lane(&result.lane)
        .text("call", result.call_id.as_str())
        .maybe("tool", tool)
        .value("isError", Value::from(result.is_error))
        .value("output", output)
        .origin(&result.origin)
}

fn custom_block(custom: &CustomEvent) -> Object {
    Object::new("custom")
        .text("block", custom.id.as_str())
        .lane(&custom.lane)
        .text("name", &custom.name)
        .channel(custom.channel)
        .value("value", custom.value.clone())
        .origin(&custom.origin)
}

fn finished(end: &RunFinished) -> Object {
    let outcome = match end.outcome {
        RunOutcome::Success => "success",
        RunOutcome::Interrupted => "interrupted",
        RunOutcome::Cancelled => "cancelled",
    };
    let mut object = Object::new("run.finished")
        .text("run", end.run.run_id.as_str())
        .text("outcome", outcome)
        .maybe("finishReason", end.finish_reason.as_deref())
        .maybe_value("result", end.result.clone());
    if !end.interrupts.is_empty() {
        object = object.value("interrupts", end.interrupts.iter().map(pending).collect());
    }
    if !end.pending_calls.is_empty() {
        object = object.value("pendingCalls", end.pending_calls.iter().map(ToolCallId::as_str).collect());
    }
    with_usage(object, &end.usage)
}

fn run_failed(end: &RunFailed) -> Object {
    let object = Object::new("run.failed").text("run", end.run.run_id.as_str());
    with_usage(object.value("failure", failed(&end.failure)), &end.usage)
}

fn with_usage(object: Object, usage: &[Usage]) -> Object {
    if usage.is_empty() { object } else { object.value("usage", usage.iter().map(usage_of).collect()) }
}

fn failed(failure: &RunFailure) -> Value {
    let object = Object::empty().text("code", &failure.code).text("message", &failure.message);
    Value::Object(object.maybe_value("details", failure.details.clone()).0)
}

fn pending(pending: &PendingInterrupt) -> Value {
    interrupt(&pending.interrupt, Some(&pending.lane))
}

fn interrupt(ask: &Interrupt, lane: Option<&Lane>) -> Value {
    let lane = lane.filter(|lane| !lane.is_root());
    let object = Object::empty()
        .text("id", ask.id.as_str())
        .maybe("lane", lane.map(|lane| lane.id.as_str()))
        .text("reason", &ask.reason)
        .maybe("message", ask.message.as_deref())
        .maybe("call", ask.tool_call_id.as_ref())
        .maybe_value("responseSchema", ask.response_schema.clone())
        .maybe("expiresAt", ask.expires_at.as_deref())
        .metadata(ask.metadata.as_deref());
    Value::Object(object.0)
}

fn usage_of(usage: &Usage) -> Value {
    let count = |count: Option<u64>| count.map(Value::from);
    let object = Object::empty()
        .maybe("provider", usage.provider.as_deref())
        .maybe("model", usage.model.as_deref())
        .maybe_value("input", count(usage.input))
        .maybe_value("output", count(usage.output))
        .maybe_value("total", count(usage.total))
        .maybe_value("reasoning", count(usage.reasoning))
        .maybe_value("cachedInput", count(usage.cached_input))
        .maybe_value("cacheWriteInput", count(usage.cache_write_input));
    Value::Object(object.0)
}

fn reason_word(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Complete => "complete",
        EndReason::Interrupted => "interrupted",
        EndReason::Closed => "closed",
        EndReason::Replaced => "replaced",
    }
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::Assistant => "assistant",
        Role::User => "user",
        Role::System => "system",
        Role::Developer => "developer",
        Role::Tool => "tool",
    }
}
