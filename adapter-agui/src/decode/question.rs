//! The words of a question, wherever a framework puts them.
//!
//! | framework | where |
//! |---|---|
//! | most | `message` |
//! | ag-ui-langgraph | `metadata.langgraph.raw`: a text, or an object with `question`; before 1.0 a `CUSTOM` `on_interrupt` and no outcome |
//! | ag-ui-strands | `metadata.reason.message` |
//! | ag-ui-adk | `metadata.adk.toolConfirmation.hint` |
//!
//! The rule: the first text under a name that stands for words, looked for level by level; the value that the
//! framework was interrupted with as JSON if there is none.

use std::collections::VecDeque;

use aqueduct_core::{ByteString, Interrupt, InterruptId, Metadata};
use serde_json::{Value, json};

/// Names that stand for words, the surest first.
const WORDS: [&str; 10] =
    ["question", "message", "prompt", "hint", "text", "description", "query", "title", "raw", "value"];

/// Names of the value that a framework was interrupted with.
const VALUES: [&str; 2] = ["raw", "value"];

/// How many values are looked at: a question is near the top.
const LOOKED_AT: usize = 256;

/// The name of the event by which `LangGraph` asks before 1.0.
pub(super) const ON_INTERRUPT: &str = "on_interrupt";

/// Sets the words of a question that has none.
pub(super) fn find_words(interrupt: &mut Interrupt) {
    if interrupt.message.as_ref().is_some_and(|message| !message.trim().is_empty()) {
        return;
    }
    let Some(metadata) = interrupt.metadata.as_deref() else { return };
    interrupt.message = words_in(metadata).map(ByteString::from);
}

fn words_in(metadata: &Metadata) -> Option<String> {
    let mut left = VecDeque::from([metadata]);
    let (mut raw, mut looked_at) = (None, 0);
    while let Some(members) = left.pop_front().filter(|_| looked_at < LOOKED_AT) {
        looked_at += 1 + members.len();
        let text =
            |name: &&str| members.get(*name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        if let Some(words) = WORDS.iter().find_map(text) {
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

/// The question of an `on_interrupt` event. `nth` and `run` make its id where the framework sent none.
pub(super) fn of_custom(value: &Value, raw: Option<&Value>, run: &str, nth: usize) -> Interrupt {
    let id = raw.and_then(|raw| raw.get("id")?.as_str()).filter(|id| !id.is_empty());
    let id = id.map_or_else(|| format!("{run}/{ON_INTERRUPT}/{nth}"), str::to_owned);
    // The value is JSON inside a text.
    let inner = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    let mut interrupt = Interrupt::new(ByteString::new(), "langgraph:interrupt");
    interrupt.id = InterruptId::from(id);
    let metadata = json!({ "langgraph": { "raw": inner.unwrap_or_else(|| value.clone()) } });
    if let Value::Object(metadata) = metadata {
        interrupt.metadata = Some(metadata.into());
    }
    find_words(&mut interrupt);
    interrupt
}
