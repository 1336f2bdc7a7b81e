//! The message of an interrupt, wherever a framework puts it.
//!
//! | framework | where |
//! |---|---|
//! | most | `message` |
//! | ag-ui-langgraph | `metadata.langgraph.raw`: a text, or an object with `question`; before 1.0 a `CUSTOM` `on_interrupt` and no outcome |
//! | ag-ui-strands | `metadata.reason.message` |
//! | ag-ui-adk | `metadata.adk.toolConfirmation.hint` |
//!
//! The rule: the first text under a name that denotes a message, searched level by level; otherwise the value of the
//! framework's interrupt as JSON.

use std::collections::VecDeque;

use aqueduct_core::{ByteString, Interrupt, InterruptId, Metadata};
use serde_json::{Value, json};

/// Names that denote a message, the most reliable first.
const MESSAGE_NAMES: [&str; 10] =
    ["question", "message", "prompt", "hint", "text", "description", "query", "title", "raw", "value"];

/// Names of the value of a framework's interrupt.
const VALUES: [&str; 2] = ["raw", "value"];

/// The most values that are searched: a message is near the top.
const MAX_SEARCHED: usize = 256;

/// The name of the event by which `LangGraph` interrupts before 1.0.
pub(super) const ON_INTERRUPT: &str = "on_interrupt";

/// Sets the message of an interrupt without one.
pub(super) fn find_message(interrupt: &mut Interrupt) {
    if interrupt.message.as_ref().is_some_and(|message| !message.trim().is_empty()) {
        return;
    }
    let Some(metadata) = interrupt.metadata.as_deref() else { return };
    interrupt.message = message_in(metadata).map(ByteString::from);
}

fn message_in(metadata: &Metadata) -> Option<String> {
    let mut left = VecDeque::from([metadata]);
    let (mut raw, mut looked_at) = (None, 0);
    while let Some(members) = left.pop_front().filter(|_| looked_at < MAX_SEARCHED) {
        looked_at += 1 + members.len();
        let text =
            |name: &&str| members.get(*name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        if let Some(words) = MESSAGE_NAMES.iter().find_map(text) {
            return Some(words.to_owned());
        }
        let value = || VALUES.iter().find_map(|name| members.get(*name)).filter(|value| !value.is_null());
        raw = raw.or_else(value);
        let inner = members.values().flat_map(|value| match value {
            Value::Array(items) => items.as_slice(),
            value => std::slice::from_ref(value),
        });
        left.extend(inner.filter_map(Value::as_object));
    }
    raw.map(Value::to_string)
}

/// Returns the interrupt of an `on_interrupt` event. `nth` and `run` form its id if the framework sent none.
pub(super) fn of_custom(value: &Value, raw: Option<&Value>, run: &str, nth: usize) -> Interrupt {
    let id = raw.and_then(|raw| raw.get("id")?.as_str()).filter(|id| !id.is_empty());
    let id = id.map_or_else(|| format!("{run}/{ON_INTERRUPT}/{nth}"), str::to_owned);
    // The value is JSON inside a string.
    let inner = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    let mut interrupt = Interrupt::new(ByteString::new(), "langgraph:interrupt");
    interrupt.id = InterruptId::from(id);
    let metadata = json!({ "langgraph": { "raw": inner.unwrap_or_else(|| value.clone()) } });
    if let Value::Object(metadata) = metadata {
        interrupt.metadata = Some(metadata.into());
    }
    find_message(&mut interrupt);
    interrupt
}
