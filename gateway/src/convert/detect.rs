//! Detects the dialect of a recorded stream from its first payload that identifies one.
//!
//! | dialect | its payloads have |
//! |---|---|
//! | AG-UI | `type` in capitals (`RUN_STARTED`) |
//! | A2A 0.3 | `kind` (`status-update`), with or without the JSON-RPC envelope; or a message with `content` |
//! | A2A 1.0 | `task`, `message`, `statusUpdate` or `artifactUpdate`, with or without the envelope |
//! | magentic | any other object with `type`, `event_class` or `update`; a line of its recorder (`recorder`) |
//!
//! Malformed payloads are not an error here: the conversion reports place and reason.

use serde_json::{Map, Value};

use crate::cli::FromDialect;
use crate::input::PayloadReader;

/// The number of payloads that are examined: a recorder may write lines of its own first.
pub(super) const LOOKED_AT: usize = 16;

/// Returns the dialect of a whole recording, or `None` if no payload identifies one.
pub(crate) fn detect(recording: &[u8]) -> Option<FromDialect> {
    let mut reader = PayloadReader::default();
    // An error ends the payloads; those before it are available.
    if reader.handle_bytes(recording).is_ok() {
        reader.handle_eof().ok();
    }
    std::iter::from_fn(|| reader.poll_payload()).take(LOOKED_AT).find_map(|payload| of_text(&payload.text))
}

/// Returns the dialect that one payload identifies.
pub(super) fn of_text(payload: &str) -> Option<FromDialect> {
    of_payload(&serde_json::from_str(payload).ok()?)
}

fn of_payload(payload: &Value) -> Option<FromDialect> {
    let object = match payload {
        Value::Object(object) => object,
        Value::Array(list) => return list.iter().find_map(of_payload),
        _ => return None,
    };
    if let Some(kind) = object.get("type").and_then(Value::as_str) {
        let is_capital = kind.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        return Some(if is_capital && !kind.is_empty() { FromDialect::Agui } else { FromDialect::Magentic });
    }
    if object.contains_key("jsonrpc") {
        let result = object.get("result").and_then(Value::as_object);
        // A JSON-RPC error is the same in both versions; the decoder of the newer one reads it.
        return Some(result.and_then(of_a2a).unwrap_or(FromDialect::A2a));
    }
    of_a2a(object).or_else(|| {
        let is_magentic =
            ["event_class", "update", "recorder"].iter().any(|member| object.contains_key(*member));
        is_magentic.then_some(FromDialect::Magentic)
    })
}

fn of_a2a(item: &Map<String, Value>) -> Option<FromDialect> {
    let kinds = ["task", "message", "status-update", "artifact-update"];
    if item.get("kind").and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind)) {
        return Some(FromDialect::A2a03);
    }
    let member = ["task", "message", "statusUpdate", "artifactUpdate"]
        .iter()
        .find_map(|member| item.get(*member).and_then(Value::as_object))?;
    Some(if member.contains_key("content") { FromDialect::A2a03 } else { FromDialect::A2a })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_tell_their_dialect() {
        for (recording, dialect) in [
            ("data: {\"type\":\"RUN_STARTED\"}\n\n", Some(FromDialect::Agui)),
            ("{\"type\":\"TEXT_MESSAGE_CHUNK\"}\n", Some(FromDialect::Agui)),
            ("[{\"type\":\"RUN_STARTED\"}]", Some(FromDialect::Agui)),
            ("data: {\"jsonrpc\":\"2.0\",\"result\":{\"kind\":\"task\"}}\n\n", Some(FromDialect::A2a03)),
            ("data: {\"jsonrpc\":\"2.0\",\"result\":{\"task\":{}}}\n\n", Some(FromDialect::A2a)),
            ("data: {\"statusUpdate\":{}}\n\n", Some(FromDialect::A2a)),
            ("{\"note\":\"mine\"}\n{\"seq\":0,\"type\":\"started\"}\n", Some(FromDialect::Magentic)),
            ("{\"seq\":0,\"event_class\":\"WorkflowStartedEvent\"}\n", Some(FromDialect::Magentic)),
            ("{\"seq\":0,\"update\":{}}\n", Some(FromDialect::Magentic)),
            ("{\"recorder\":\"exception\",\"message\":\"no\"}\n", Some(FromDialect::Magentic)),
            ("hello", None),
            ("", None),
            ("{\"a\":1}\n", None),
        ] {
            assert_eq!(detect(recording.as_bytes()), dialect, "{recording}");
        }
    }

    /// The dialect of every recording in the tree is detected.
    #[test]
    fn fixtures_tell_their_dialect() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures");
        for (folder, end, dialects) in [
            ("agui", ".sse", &[FromDialect::Agui][..]),
            ("a2a", ".sse", &[FromDialect::A2a, FromDialect::A2a03][..]),
            ("magentic", ".events.jsonl", &[FromDialect::Magentic][..]),
            ("magentic", ".agent.jsonl", &[FromDialect::Magentic][..]),
        ] {
            let mut seen = 0;
            for file in std::fs::read_dir(format!("{root}/{folder}")).unwrap() {
                let path = file.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if !name.ends_with(end) {
                    continue;
                }
                seen += 1;
                let found = detect(&std::fs::read(&path).unwrap());
                assert!(found.is_some_and(|found| dialects.contains(&found)), "{name}: {found:?}");
                if folder == "a2a" && name.starts_with("v03-") {
                    assert_eq!(found, Some(FromDialect::A2a03), "{name}");
                }
            }
            assert!(seen > 3, "{folder}");
        }
    }
}
