//! The values of marks: outcomes, failures, interrupts and usage, to JSON and back.
//!
//! ```text
//! failure    {"code": "agent_failed", "message": "it broke", "details"?: any}
//! outcome    {"outcome": "success", "result"?: any}, {"outcome": "failed", "failure": failure}
//!            {"outcome": "interrupted"}, {"outcome": "cancelled"}
//! interrupt  {"id", "reason", "message"?, "toolCallId"?, "responseSchema"?, "expiresAt"?, "metadata"?}
//! usage      {"provider"?, "model"?, "input"?, "output"?, "total"?, "reasoning"?, "cachedInput"?, "cacheWriteInput"?}
//! ```
//!
//! Absent members are left out. Parsing never fails, because another version of Aqueduct may have written the value:
//! a member that is missing or of another type is absent, and a required one gets a placeholder. The only exception
//! is an interrupt without an id.

use std::sync::Arc;

use aqueduct_core::{ByteString, Interrupt, LaneOutcome, RunFailure, ToolCallId, Usage};
use serde_json::{Map, Value, json};

use crate::error;

/// Adds a member, unless the value is absent.
fn put<V: Into<Value>>(map: &mut Map<String, Value>, key: &str, value: Option<V>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value.into());
    }
}

/// Returns a member that is a string. Returns `None` if it is missing or of another type.
fn text(value: &Value, key: &str) -> Option<ByteString> {
    value.get(key).and_then(Value::as_str).map(ByteString::from)
}

/// Returns a failure as JSON: the member `failure` of a mark, and of the outcome of a lane.
pub(crate) fn failure_value(failure: &RunFailure) -> Value {
    let mut map = Map::new();
    put(&mut map, "code", Some(&*failure.code));
    put(&mut map, "message", Some(&*failure.message));
    put(&mut map, "details", failure.details.clone());
    Value::Object(map)
}

/// Parses a failure. One without a code is an `upstream_error`; one without a message has an empty message.
pub(crate) fn failure_of(value: &Value) -> RunFailure {
    let code = text(value, "code").unwrap_or_else(|| ByteString::from_static(error::UPSTREAM_ERROR));
    let mut failure = RunFailure::new(code, text(value, "message").unwrap_or_default());
    failure.details = value.get("details").cloned();
    failure
}

/// Returns the outcome of a lane as JSON. `Suspended` has the word of the run's outcome, `interrupted`; an outcome
/// that this version does not know is `cancelled`.
pub(crate) fn outcome_value(outcome: &LaneOutcome) -> Value {
    match outcome {
        LaneOutcome::Success(None) => json!({"outcome": "success"}),
        LaneOutcome::Success(Some(result)) => json!({"outcome": "success", "result": result}),
        LaneOutcome::Suspended => json!({"outcome": "interrupted"}),
        LaneOutcome::Failed(failure) => json!({"outcome": "failed", "failure": failure_value(failure)}),
        _ => json!({"outcome": "cancelled"}),
    }
}

/// Parses the outcome of a lane. An unknown word is a success, so that the lane closes in any case.
pub(crate) fn outcome_of(value: &Value) -> LaneOutcome {
    match value.get("outcome").and_then(Value::as_str) {
        Some("interrupted") => LaneOutcome::Suspended,
        Some("cancelled") => LaneOutcome::Cancelled,
        Some("failed") => LaneOutcome::Failed(failure_of(value.get("failure").unwrap_or(&Value::Null))),
        _ => LaneOutcome::Success(value.get("result").cloned()),
    }
}

/// Returns an interrupt as JSON, with the ids of the original stream.
pub(crate) fn interrupt_value(interrupt: &Interrupt) -> Value {
    let mut map = Map::new();
    put(&mut map, "id", Some(interrupt.id.as_str()));
    put(&mut map, "reason", Some(&*interrupt.reason));
    put(&mut map, "message", interrupt.message.as_deref());
    put(&mut map, "toolCallId", interrupt.tool_call_id.as_ref().map(ToolCallId::as_str));
    put(&mut map, "responseSchema", interrupt.response_schema.clone());
    put(&mut map, "expiresAt", interrupt.expires_at.as_deref());
    put(&mut map, "metadata", interrupt.metadata.as_ref().map(|own| Value::Object((**own).clone())));
    Value::Object(map)
}

/// Parses an interrupt. Returns `None` for one without an id, which could not be answered.
pub(crate) fn interrupt_of(value: &Value) -> Option<Interrupt> {
    let reason = text(value, "reason").unwrap_or_else(|| ByteString::from_static("input_required"));
    let mut interrupt = Interrupt::new(text(value, "id")?, reason);
    interrupt.message = text(value, "message");
    interrupt.tool_call_id = text(value, "toolCallId").map(Into::into);
    interrupt.response_schema = value.get("responseSchema").cloned();
    interrupt.expires_at = text(value, "expiresAt");
    interrupt.metadata = value.get("metadata").and_then(Value::as_object).cloned().map(Arc::new);
    Some(interrupt)
}

/// Returns token usage as JSON. Counts that the source did not report are left out: they are not zero.
pub(crate) fn usage_value(usage: &Usage) -> Value {
    let mut map = Map::new();
    put(&mut map, "provider", usage.provider.as_deref());
    put(&mut map, "model", usage.model.as_deref());
    put(&mut map, "input", usage.input);
    put(&mut map, "output", usage.output);
    put(&mut map, "total", usage.total);
    put(&mut map, "reasoning", usage.reasoning);
    put(&mut map, "cachedInput", usage.cached_input);
    put(&mut map, "cacheWriteInput", usage.cache_write_input);
    Value::Object(map)
}

/// Parses token usage. A count that is not a whole number from 0 is absent.
pub(crate) fn usage_of(value: &Value) -> Usage {
    let count = |key: &str| value.get(key).and_then(Value::as_u64);
    Usage {
        provider: text(value, "provider"),
        model: text(value, "model"),
        input: count("input"),
        output: count("output"),
        total: count("total"),
        reasoning: count("reasoning"),
        cached_input: count("cachedInput"),
        cache_write_input: count("cacheWriteInput"),
    }
}
