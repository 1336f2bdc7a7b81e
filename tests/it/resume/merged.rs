//! Deltas that wait for a reader that is behind are sent as one: how they are cut into events is not what counts, but
//! what they say, of which block, and in which order.

use aqueduct_core::BlockEvent;
use aqueduct_core::service::NumberedEvent;
use serde_json::Value;

/// Payloads with adjacent deltas of one block as one.
pub(super) fn payloads<'a>(payloads: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for payload in payloads {
        let next: Value = serde_json::from_str(payload).unwrap();
        let key = |event: &Value| {
            ["type", "messageId", "toolCallId", "subagentRunId"].map(|name| event.get(name).cloned())
        };
        match merged.last_mut() {
            Some(last) if next["delta"].is_string() && key(last) == key(&next) => {
                let both = format!("{}{}", last["delta"].as_str().unwrap(), next["delta"].as_str().unwrap());
                last["delta"] = both.into();
            }
            _ => merged.push(next),
        }
    }
    merged
}

/// The same for canonical events; the number is that of the last part.
pub(super) fn events(events: &[NumberedEvent]) -> Vec<NumberedEvent> {
    let mut merged: Vec<NumberedEvent> = Vec::new();
    for next in events {
        if let Some(last) = merged.last_mut()
            && let BlockEvent::BlockDelta { block, delta } = &mut last.event
            && let BlockEvent::BlockDelta { block: other, delta: more } = &next.event
            && block.id == other.id
        {
            *delta = format!("{delta}{more}").into();
            last.number = next.number;
        } else {
            merged.push(next.clone());
        }
    }
    merged
}
