//! Google ADK: metadata with the prefix `adk_`.
//!
//! | metadata | means |
//! |---|---|
//! | part: `adk_is_long_running`, name `adk_request_…` | the interrupt of an `input-required` that follows |
//! | event or artifact: `adk_usage_metadata`, `adk_event_id` | token usage, emitted once per event |
//! | event or artifact: `adk_actions.stateDelta`, `adk_event_id` | members of the state that were set, once per event |
//! | event or artifact: `adk_author`, `adk_app_name` | the speaking agent; the app is the agent itself |
//!
//! Other calls and their responses are recognised as tool calls by [`ToolDataParts`](super::ToolDataParts).

use aqueduct_core::{Metadata, Usage};
use serde_json::Value;

use super::{Recogniser, Sign};
use crate::frontend::StateChange;
use crate::wire::{Content, Part};

/// The prefix of the framework's requests to the user.
const REQUEST: &str = "adk_request_";

/// Recognises the metadata of Google ADK.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdkMarks;

impl Recogniser for AdkMarks {
    fn part(&self, part: &Part<'_>) -> Option<Sign> {
        let Content::Data(raw) = &part.content else { return None };
        if !raw.as_str().contains(REQUEST)
            || !part.metadata.as_ref()?.as_str().contains("adk_is_long_running")
        {
            return None;
        }
        let data = raw.to_value();
        let is_request =
            data.get("name").and_then(Value::as_str).is_some_and(|name| name.starts_with(REQUEST));
        is_request.then(|| Sign::InputForm(part.to_json(crate::wire::Dialect::V1)))
    }

    fn usage(&self, metadata: &Metadata) -> Option<(String, Usage)> {
        let reported = metadata.get("adk_usage_metadata")?;
        let event = metadata.get("adk_event_id").and_then(Value::as_str).unwrap_or_default();
        let count = |key: &str| reported.get(key).and_then(whole_number);
        let usage = Usage {
            input: count("promptTokenCount"),
            output: count("candidatesTokenCount"),
            total: count("totalTokenCount"),
            reasoning: count("thoughtsTokenCount"),
            cached_input: count("cachedContentTokenCount"),
            ..Usage::default()
        };
        (usage != Usage::default()).then(|| (event.to_owned(), usage))
    }

    fn state(&self, metadata: &Metadata) -> Option<(String, StateChange)> {
        let mut changed = metadata.get("adk_actions")?.get("stateDelta")?.as_object()?.clone();
        // `temp:` members are dropped at the end of the invocation.
        changed.retain(|name, _| !name.starts_with("temp:"));
        let event = metadata.get("adk_event_id").and_then(Value::as_str).unwrap_or_default();
        Some((event.to_owned(), StateChange::of_members(&changed)?))
    }

    fn author(&self, metadata: &Metadata) -> Option<(String, Option<String>)> {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        Some((text("adk_author").unwrap_or_default(), text("adk_app_name")))
            .filter(|(author, app)| !author.is_empty() || app.is_some())
    }
}

/// Returns a count of tokens. The Python server sends metadata as a protobuf struct, whose numbers are floating:
/// `12.0` is 12.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of tokens, checked to be in range"
)]
fn whole_number(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|number| (0.0..1e15).contains(number)).map(|number| number as u64);
    value.as_u64().or_else(float)
}
