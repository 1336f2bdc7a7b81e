//! Requests of the page about streams: converts a recording to AG-UI, and verifies a stream.
//!
//! The work is done by the functions of `aqueduct convert` and `aqueduct verify`. No state is kept between requests, so
//! the page sends a live stream again as it grows, at a limited rate.

use std::io::BufReader;

use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::verify::{Level, TextVerifier, Verifier};
use clap::ValueEnum as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::{ConvertArgs, FromDialect, ToDialect};
use crate::convert::{convert, detect};
use crate::input::PayloadReader;
use crate::verify::{judge, to_json};

/// The largest number of findings in the response; further ones are counted. A stream with more is broken from its
/// beginning.
const FINDINGS: usize = 200;

/// The body of `POST /inspector/convert`.
#[derive(Debug, Deserialize)]
pub(super) struct ConvertRequest {
    /// The recording, unchanged.
    trace: String,
    /// The dialect, as for `aqueduct convert --from`; detected if absent.
    from: Option<String>,
    /// `false` to return an AG-UI recording unchanged.
    #[serde(default = "yes")]
    convert: bool,
}

/// The body of `POST /inspector/verify`.
#[derive(Debug, Deserialize)]
pub(super) struct VerifyRequest {
    /// Server-sent events or JSON lines.
    trace: String,
    /// `false` while the stream is open: then a missing end is not a finding.
    #[serde(default = "yes")]
    whole: bool,
}

/// The default of optional switches.
fn yes() -> bool {
    true
}

/// Returns JSON lines: first a line with the detected dialect and the findings, then one AG-UI event per line.
///
/// ```text
/// {"from":"a2a","asRecorded":false,"notes":[],"error":null,"verdict":{"total":0,"violations":[]}}
/// {"type":"RUN_STARTED",…}
/// ```
///
/// A recording that ends with an error is converted up to there, with the error in the first line.
///
/// # Errors
///
/// Returns a message if the dialect is unknown or cannot be detected.
pub(super) fn converted(request: &ConvertRequest) -> Result<Vec<u8>, String> {
    let from = match &request.from {
        Some(word) => FromDialect::from_str(word, false).map_err(|_| format!("unknown dialect {word:?}: leave `from` out to detect it"))?,
        None => detect(request.trace.as_bytes()).ok_or(
            "the recording is in no known dialect: give AG-UI or A2A as server-sent events or JSON, or Microsoft Agent \
             Framework as JSON lines",
        )?,
    };
    // An AG-UI recording shown unchanged has its defects; converted, the stream machine has repaired them.
    let as_recorded = from == FromDialect::Agui && !request.convert;
    let (mut events, mut notes, mut error) = (Vec::new(), Vec::new(), None);
    if as_recorded {
        events = recorded(&request.trace);
    } else if let Err(stopped) = convert(
        &ConvertArgs::plain(from, ToDialect::Agui),
        &mut request.trace.as_bytes(),
        &mut events,
        &mut notes,
    ) {
        error = Some(stopped.to_string());
    }
    let verdict = if as_recorded { verdict(&request.trace, true) } else { verdict_of_lines(&events, true) };
    let name = from.to_possible_value().map(|value| value.get_name().to_owned());
    let notes = String::from_utf8_lossy(&notes);
    let notes: Vec<&str> =
        notes.lines().map(|note| note.strip_prefix("aqueduct convert: ").unwrap_or(note)).collect();
    let found = json!({
        "from": name, "asRecorded": as_recorded, "notes": notes, "error": error, "verdict": verdict,
    });
    let mut lines = found.to_string().into_bytes();
    lines.push(b'\n');
    lines.append(&mut events);
    Ok(lines)
}

/// Returns the findings of the verifier as JSON.
pub(super) fn verified(request: &VerifyRequest) -> Value {
    verdict(&request.trace, request.whole)
}

/// Returns the events of an AG-UI recording unchanged, one per line; payloads that are not JSON keep their position.
fn recorded(trace: &str) -> Vec<u8> {
    let mut reader = PayloadReader::default();
    if reader.handle_bytes(trace.as_bytes()).is_ok() {
        // The verifier reports what is wrong with the end.
        reader.handle_eof().ok();
    }
    let mut lines = Vec::new();
    while let Some(payload) = reader.poll_payload() {
        match serde_json::from_str::<Value>(&payload.text) {
            Ok(Value::Array(events)) => events.iter().for_each(|event| push(event, &mut lines)),
            Ok(event) => push(&event, &mut lines),
            Err(_) => push(&json!({ "type": "(not JSON)", "text": &*payload.text }), &mut lines),
        }
    }
    lines
}

/// Appends one event as a line. Serialized JSON contains no line break.
fn push(event: &Value, lines: &mut Vec<u8>) {
    lines.extend_from_slice(event.to_string().as_bytes());
    lines.push(b'\n');
}

/// Returns the findings of the verifier on server-sent events or JSON lines.
fn verdict(trace: &str, whole: bool) -> Value {
    verdict_of_lines(trace.as_bytes(), whole)
}

/// Returns the findings of the strict AG-UI 1.0 verifier as JSON, at most [`FINDINGS`] of them and their total number.
/// A stream that is not AG-UI at all is an `error` in the response.
fn verdict_of_lines(trace: &[u8], whole: bool) -> Value {
    let verifier = TextVerifier::new(Verifier::new(Dialect::V1_0, Level::Strict));
    let mut found = match judge(verifier, &mut BufReader::new(trace)) {
        Ok(found) => found.found,
        Err(error) => return json!({ "error": format!("{error:#}"), "total": 0, "violations": [] }),
    };
    if !whole {
        // Findings about the end have no event; their position is the number of events.
        let events = trace.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
        found.retain(|violation| !violation.event.is_empty() || violation.index < events);
    }
    let violations: Vec<Value> = found.iter().take(FINDINGS).map(to_json).collect();
    json!({ "total": found.len(), "violations": violations })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: &str = "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\
                       {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\"}\n";

    fn lines(trace: &str, convert: bool) -> Vec<Value> {
        let request = ConvertRequest { trace: trace.to_owned(), from: None, convert };
        let bytes = converted(&request).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_stream_under_way_is_not_blamed_for_having_no_end() {
        assert_eq!(verdict(CUT, false)["total"], 0);
        assert_ne!(verdict(CUT, true)["total"], 0);
        let bad = format!("{CUT}{{\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"other\"}}\n");
        assert_eq!(verdict(&bad, false)["violations"][0]["index"], 2);
    }

    #[test]
    fn a_recording_is_converted_or_left_as_it_is() {
        let repaired = lines(CUT, true);
        assert_eq!((&repaired[0]["from"], &repaired[0]["verdict"]["total"]), (&json!("agui"), &json!(0)));
        assert_eq!(repaired.last().unwrap()["type"], "RUN_ERROR");
        let as_it_is = lines(CUT, false);
        assert_eq!(as_it_is.len(), 3);
        assert_ne!(as_it_is[0]["verdict"]["total"], 0);
        let broken = lines("data: {\"type\":\"RUN_STARTED\"}\n\ndata: {oops\n\n", false);
        assert_eq!(broken[2], json!({ "type": "(not JSON)", "text": "{oops" }));
    }

    #[test]
    fn what_is_no_recording_is_refused_in_words() {
        let request = ConvertRequest { trace: "hello".to_owned(), from: None, convert: true };
        assert!(converted(&request).unwrap_err().contains("no known dialect"));
    }
}
