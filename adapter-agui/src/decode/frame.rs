//! Parsing of one payload. Deltas have a fast path on which ids and text are slices of the payload:
//! nothing is copied or allocated.
//!
//! ```text
//! {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hello"}      fast: two slices of the payload
//! {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a\nb"}       fast: the delta is unescaped into a new text
//! {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d","x":1}    slow: an undeclared member
//! {"type":"RUN_STARTED", …}                                            slow: no delta
//! ```
//!
//! The fast path never fails: it returns `None` for anything that it does not know, and the slow
//! path parses the payload again and reports the error. Both yield equal events (property test). A
//! slice keeps its payload alive; what outlives the event is detached by the decoder.

use std::borrow::Cow;
use std::fmt;

use aqueduct_core::ByteString;
use aqueduct_core::json::borrowed_text;
use serde::de::{Error as _, MapAccess, Visitor};

use crate::error::Error;
use crate::wire::{
    Base, Event, MAX_SAFE_INTEGER, ReasoningMessageContent, Strictness, TextMessageContent, ToolCallArgs,
};

/// Parses a payload leniently: `null` counts as absent, and times may have a fraction.
///
/// # Errors
///
/// Returns an error if the payload is not an AG-UI event.
pub fn read_payload(payload: &ByteString) -> Result<Event, Error> {
    match read_delta(payload) {
        Some(event) => Ok(event),
        None => Event::from_json(payload, Strictness::Forgiving),
    }
}

/// The types of delta, as written in a payload.
const DELTAS: [&str; 3] =
    [r#""TEXT_MESSAGE_CONTENT""#, r#""REASONING_MESSAGE_CONTENT""#, r#""TOOL_CALL_ARGS""#];

/// Parses a delta with its usual members. Returns `None` for any other payload. Producers write the type first.
fn read_delta(payload: &ByteString) -> Option<Event> {
    // A look at the first member, without parsing: most other payloads are rejected here.
    let after_brace = payload.trim_start().strip_prefix('{')?;
    let after_name = after_brace.trim_start().strip_prefix(r#""type""#)?;
    let kind = after_name.trim_start().strip_prefix(':')?.trim_start();
    if !DELTAS.iter().any(|delta| kind.starts_with(delta)) {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_str(payload);
    let delta = serde::Deserializer::deserialize_map(&mut reader, DeltaVisitor).ok()?;
    reader.end().ok()?;
    let text = |text: Cow<'_, str>| match text {
        Cow::Borrowed(text) => payload.slice_ref(text),
        Cow::Owned(text) => ByteString::from(text),
    };
    let base = Base { timestamp: delta.timestamp, rare: None };
    let subagent_run_id = delta.tag.map(text);
    let (kind, id, delta) = (delta.kind, text(delta.id?), text(delta.fragment?));
    Some(match kind {
        Kind::Text => {
            Event::TextMessageContent(TextMessageContent { base, message_id: id, delta, subagent_run_id })
        }
        Kind::Reasoning => Event::ReasoningMessageContent(ReasoningMessageContent {
            base,
            subagent_run_id,
            message_id: id,
            delta,
        }),
        Kind::Arguments => {
            Event::ToolCallArgs(ToolCallArgs { base, tool_call_id: id, delta, subagent_run_id })
        }
    })
}

/// The kinds of delta. They differ in the name of the id member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Arguments,
}

/// The members of a delta on the fast path.
struct Delta<'de> {
    kind: Kind,
    id: Option<Cow<'de, str>>,
    fragment: Option<Cow<'de, str>>,
    tag: Option<Cow<'de, str>>,
    timestamp: Option<i64>,
}

/// Reads the members of a delta in any order after `type`. A second occurrence of a member is
/// unusual, too: `serde_json` would take the last one.
struct DeltaVisitor;

impl<'de> Visitor<'de> for DeltaVisitor {
    type Value = Delta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a delta")
    }

    /// Fails at anything unusual: the slow path then parses the payload again and returns the error.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Delta<'de>, A::Error> {
        let unusual = || A::Error::custom("unusual");
        let (mut kind, mut id, mut fragment, mut tag, mut timestamp) = (None, None, None, None, None);
        while let Some(Text(name)) = map.next_key()? {
            let slot = match (&*name, kind) {
                ("type", None) => {
                    kind = Some(match &*map.next_value::<Text<'de>>()?.0 {
                        "TEXT_MESSAGE_CONTENT" => Kind::Text,
                        "REASONING_MESSAGE_CONTENT" => Kind::Reasoning,
                        "TOOL_CALL_ARGS" => Kind::Arguments,
                        _ => return Err(unusual()),
                    });
                    continue;
                }
                ("timestamp", _) if timestamp.is_none() => {
                    let stamp: i64 = map.next_value()?;
                    if stamp.unsigned_abs() > MAX_SAFE_INTEGER.unsigned_abs() {
                        return Err(unusual());
                    }
                    timestamp = Some(stamp);
                    continue;
                }
                ("messageId", Some(Kind::Text | Kind::Reasoning)) | ("toolCallId", Some(Kind::Arguments)) => {
                    &mut id
                }
                ("delta", _) => &mut fragment,
                ("subagentRunId", _) => &mut tag,
                _ => return Err(unusual()),
            };
            if slot.replace(map.next_value::<Text<'de>>()?.0).is_some() {
                return Err(unusual());
            }
        }
        Ok(Delta { kind: kind.ok_or_else(unusual)?, id, fragment, tag, timestamp })
    }
}

/// A text, borrowed if it has no escapes.
struct Text<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Text<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        borrowed_text(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_delta_is_a_slice_of_its_payload() {
        let payload =
            ByteString::from(r#"{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hello"}"#);
        let Event::TextMessageContent(event) = read_payload(&payload).unwrap() else { panic!() };
        let within = payload.as_bytes().as_ptr_range();
        assert!(within.contains(&event.delta.as_ptr()) && within.contains(&event.message_id.as_ptr()));
    }

    #[test]
    fn what_is_unusual_goes_the_long_way() {
        for payload in [
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d","metadata":{"a":1}}"#,
            r#"{"messageId":"m","type":"TEXT_MESSAGE_CONTENT","delta":"d"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d","timestamp":1.5}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d","subagentRunId":null}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"m","delta":"d","messageId":"x"}"#,
        ] {
            let payload = ByteString::from(payload);
            assert!(read_delta(&payload).is_none(), "{payload}");
            assert!(read_payload(&payload).is_ok(), "{payload}");
        }
        let payload = ByteString::from(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}"#);
        let error = read_payload(&payload).unwrap_err().to_string();
        assert_eq!(error, "TEXT_MESSAGE_CONTENT.delta: expected a string, found nothing");
    }

    proptest! {
        #[test]
        fn both_ways_read_the_same(id in ".{0,9}", delta in ".{0,40}", tag in proptest::option::of(".{0,4}"), kind in 0_usize..3) {
            let (kind, name): (&str, &str) = [("TEXT_MESSAGE_CONTENT", "messageId"),
                ("REASONING_MESSAGE_CONTENT", "messageId"), ("TOOL_CALL_ARGS", "toolCallId")][kind];
            let mut value = json!({"type": kind, name: id, "delta": delta});
            if let Some(tag) = tag {
                value["subagentRunId"] = Value::from(tag);
            }
            let payload = ByteString::from(value.to_string());
            let long = Event::from_value(value, Strictness::Strict).unwrap();
            prop_assert_eq!(read_delta(&payload).unwrap(), long);
        }

        #[test]
        fn arbitrary_payloads_never_panic(text in ".{0,80}", tail in "[\\[\\]{}\",:a-z0-9 _]{0,60}") {
            let _read = read_payload(&ByteString::from(format!("{{\"type\":\"{text}_CONTENT\",{tail}")));
            let _read = read_payload(&ByteString::from(text));
        }
    }
}
