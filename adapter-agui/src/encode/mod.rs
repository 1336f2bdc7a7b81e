//! Encoding of events: JSON, SSE frames, protobuf frames. All output is appended to a buffer that the caller reuses.
//!
//! Nine of ten events are text, reasoning and argument deltas: they, and the starts and ends around them that have nothing but
//! an id, are written by a template with a fast string escaper (about a third of the instructions of a serializer, and no
//! allocation). All others are serialized by `serde`. Both ways write equal JSON.
//!
//! SSE frames end with LF LF: AG-UI clients do not support CR LF. There is no `[DONE]` frame. Sockets, compression and
//! keep-alives belong to a transport.

mod delta;
mod watcher;

#[cfg(test)]
mod tests;

use aqueduct_core::ByteString;
use aqueduct_core::json::escape_into;

pub use watcher::WatcherEncoder;

use crate::error::Error;
use crate::wire::{Base, Event};

/// The largest frame that AG-UI clients accept (10 MiB, for SSE and protobuf alike).
pub const MAX_FRAME: usize = 10 * 1024 * 1024;

/// Appends the event as one JSON object, without line breaks.
///
/// # Errors
///
/// Returns an error if a value cannot be serialized.
pub fn json(event: &Event, out: &mut Vec<u8>) -> Result<(), Error> {
    if write_parts(event, out) {
        return Ok(());
    }
    let start = out.len();
    let written = write_start(event, out).and_then(|is_written| {
        if is_written { Ok(()) } else { serde_json::to_writer(&mut *out, event).map_err(Error::NotWritten) }
    });
    written.inspect_err(|_| out.truncate(start))
}

/// Appends the event as one SSE frame: `id:` if there is one, `data:`, an empty line.
///
/// # Errors
///
/// Returns an error if a value cannot be serialized, or the id contains a line break or a NUL.
pub fn sse(event: &Event, id: Option<&str>, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    if let Some(id) = id {
        if id.contains(['\n', '\r', '\0']) {
            return Err(Error::SseId);
        }
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    json(event, out).and_then(|()| limited(start, out)).inspect_err(|_| out.truncate(start))?;
    out.extend_from_slice(b"\n\n");
    Ok(())
}

/// Appends the event as one protobuf frame: the length in four bytes, big-endian, and the event.
///
/// # Errors
///
/// Returns an error if the event has no protobuf form, or its frame is too long.
#[cfg(feature = "proto")]
pub fn proto_frame(event: &Event, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    if !crate::proto::encode_event(event, out) {
        out.truncate(start);
        return Err(Error::NoProto(event.kind().to_owned()));
    }
    limited(start, out).inspect_err(|_| out.truncate(start))?;
    // The limit above is far below 2^32.
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(prefix) = out.get_mut(start..start + 4) {
        prefix.copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

fn limited(start: usize, out: &[u8]) -> Result<(), Error> {
    let size = out.len() - start;
    if size > MAX_FRAME { Err(Error::OversizedEvent { size }) } else { Ok(()) }
}

/// The parts of an event that is written by template.
struct Parts<'e> {
    base: &'e Base,
    /// The JSON up to the id.
    head: &'static [u8],
    id: &'e str,
    delta: Option<&'e str>,
    lane: Option<&'e ByteString>,
}

impl<'e> Parts<'e> {
    /// Returns the parts of a delta, or of a start or end that has an id and nothing else. Starts and ends of reasoning name
    /// their sub-agent before the id: with one they are left to `serde`.
    fn of(event: &'e Event) -> Option<Self> {
        let parts = |base, head, id, delta, lane: &'e Option<ByteString>| {
            Some(Self { base, head, id, delta, lane: lane.as_ref() })
        };
        match event {
            Event::TextMessageContent(e) => {
                let head = br#"{"type":"TEXT_MESSAGE_CONTENT","messageId":""#;
                parts(&e.base, head, &e.message_id, Some(&e.delta), &e.subagent_run_id)
            }
            Event::ReasoningMessageContent(e) => {
                let head = br#"{"type":"REASONING_MESSAGE_CONTENT","messageId":""#;
                parts(&e.base, head, &e.message_id, Some(&e.delta), &e.subagent_run_id)
            }
            Event::ToolCallArgs(e) => {
                let head = br#"{"type":"TOOL_CALL_ARGS","toolCallId":""#;
                parts(&e.base, head, &e.tool_call_id, Some(&e.delta), &e.subagent_run_id)
            }
            Event::TextMessageEnd(e) => {
                let head = br#"{"type":"TEXT_MESSAGE_END","messageId":""#;
                parts(&e.base, head, &e.message_id, None, &e.subagent_run_id)
            }
            Event::ReasoningStart(e) if e.subagent_run_id.is_none() => {
                let head = br#"{"type":"REASONING_START","messageId":""#;
                parts(&e.base, head, &e.message_id, None, &e.subagent_run_id)
            }
            Event::ReasoningMessageEnd(e) if e.subagent_run_id.is_none() => {
                let head = br#"{"type":"REASONING_MESSAGE_END","messageId":""#;
                parts(&e.base, head, &e.message_id, None, &e.subagent_run_id)
            }
            Event::ReasoningEnd(e) if e.subagent_run_id.is_none() => {
                let head = br#"{"type":"REASONING_END","messageId":""#;
                parts(&e.base, head, &e.message_id, None, &e.subagent_run_id)
            }
            _ => None,
        }
    }

    /// Writes what stands before the delta; without one, before the rest.
    fn write_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head);
        escape_into(self.id, out);
        if self.delta.is_some() {
            out.extend_from_slice(br#"","delta":""#);
        }
    }

    /// Writes what stands behind the delta.
    fn write_tail(&self, out: &mut Vec<u8>) {
        if let Some(lane) = self.lane {
            out.extend_from_slice(br#"","subagentRunId":""#);
            escape_into(lane, out);
        }
        out.push(b'"');
        write_timestamp(self.base, out);
        out.push(b'}');
    }
}

/// Writes the timestamp as a further member, if there is one.
fn write_timestamp(base: &Base, out: &mut Vec<u8>) {
    if let Some(timestamp) = base.timestamp {
        out.extend_from_slice(br#","timestamp":"#);
        // Writing a number to a vector cannot fail.
        let _written = serde_json::to_writer(out, &timestamp);
    }
}

/// Writes an event by template. Returns `false` for an event that has none, and for one with rare members.
fn write_parts(event: &Event, out: &mut Vec<u8>) -> bool {
    let Some(parts) = Parts::of(event).filter(|parts| parts.base.rare.is_none()) else { return false };
    out.reserve(parts.head.len() + parts.id.len() + parts.delta.map_or(0, str::len) + 64);
    parts.write_head(out);
    escape_into(parts.delta.unwrap_or_default(), out);
    parts.write_tail(out);
    true
}

/// Writes the start of a reasoning message of the parent agent by template. Returns `false` for every other event. Agents
/// that report their progress send one per report.
fn write_start(event: &Event, out: &mut Vec<u8>) -> Result<bool, Error> {
    let Event::ReasoningMessageStart(start) = event else { return Ok(false) };
    let rare = start.base.rare.as_deref();
    let is_plain = rare.is_none_or(|rare| rare.raw_event.is_none() && rare.extra.is_empty());
    if !is_plain || start.subagent_run_id.is_some() {
        return Ok(false);
    }
    out.extend_from_slice(br#"{"type":"REASONING_MESSAGE_START""#);
    write_timestamp(&start.base, out);
    if let Some(metadata) = start.base.metadata() {
        out.extend_from_slice(br#","metadata":"#);
        serde_json::to_writer(&mut *out, metadata).map_err(Error::NotWritten)?;
    }
    out.extend_from_slice(br#","messageId":""#);
    escape_into(&start.message_id, out);
    out.extend_from_slice(br#"","role":"reasoning"}"#);
    Ok(true)
}
