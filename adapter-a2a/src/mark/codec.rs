//! The values of marks: outcomes, failures, interrupts and usage, to JSON and back.
//!
//! Parsing never fails: a member that is missing or of another type is absent, and a required one gets a placeholder.

use std::sync::Arc;

use aqueduct_core::{ByteString, Interrupt, LaneOutcome, RunFailure, ToolCallId, Usage};
use serde_json::{Map, Value, json};

use crate::error;

fn put<V: Into<Value>>(map: &mut Map<String, Value>, key: &str, value: Option<V>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value.into());
    }
}

fn text(value: &Value, key: &str) -> Option<ByteString> {
    value.get(key).and_then(Value::as_str).map(ByteString::from)
}

pub(crate) fn failure_value(failure: &RunFailure) -> Value {
    let mut map = Map::new();
    put(&mut map, "code", Some(&*failure.code));
    put(&mut map, "message", Some(&*failure.message));
    put(&mut map, "details", failure.details.clone());
    Value::Object(map)
}

pub(crate) fn failure_of(value: &Value) -> RunFailure {
    let code = text(value, "code").unwrap_or_else(|| ByteString::from_static(error::UPSTREAM_ERROR));
    let mut failure = RunFailure::new(code, text(value, "message").unwrap_or_default());
    failure.details = value.get("details").cloned();
    failure
}

pub(crate) fn outcome_value(outcome: &LaneOutcome) -> Value {
    match outcome {
        LaneOutcome::Success(None) => json!({"outcome": "success"}),
        LaneOutcome::Success(Some(result)) => json!({"outcome": "success", "result": result}),
        LaneOutcome::Suspended => json!({"outcome": "interrupted"}),
        LaneOutcome::Failed(failure) => json!({"outcome": "failed", "failure": failure_value(failure)}),
        _ => json!({"outcome": "cancelled"}),
    }
}

pub(crate) fn outcome_of(value: &Value) -> LaneOutcome {
    match value.get("outcome").and_then(Value::as_str) {
        Some("interrupted") => LaneOutcome::Suspended,
        Some("cancelled") => LaneOutcome::Cancelled,
        Some("failed") => LaneOutcome::Failed(failure_of(value.get("failure").unwrap_or(&Value::Null))),
        _ => LaneOutcome::Success(value.get("result").cloned()),
    }
}

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
