//! Encodes `text/event-stream` frames into a caller's buffer.
//!
//! Invariants: only LF ends a line; ids and event names with CR, LF or NUL are rejected, since they would forge fields or be
//! ignored by readers; a line break in data starts a new `data` line, so no payload can leave its field. Only the buffer
//! itself allocates.

use memchr::{memchr2, memchr3};
use thiserror::Error;

/// The fields of one event. Absent fields are not written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventFields<'a> {
    /// The name of the event. Readers use `message` if it is absent.
    pub event: Option<&'a str>,
    /// The id under which a reader can resume.
    pub id: Option<&'a str>,
    /// The payload. A frame without one is no event for a reader, but its id counts.
    pub data: Option<&'a str>,
}

/// A field that cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the {field} of an event holds CR, LF or NUL at byte {position}: take it out or escape it")]
pub struct EncodeError {
    /// The field: `id` or `event`.
    pub field: &'static str,
    /// The position of the first such byte.
    pub position: usize,
}

/// Appends one event and the empty line that ends it. After an error nothing is appended.
///
/// # Errors
///
/// Returns an error if an id or a name contains CR, LF or NUL.
pub fn encode_event(fields: &EventFields<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let event = fields.event.map(|name| checked("event", name)).transpose()?;
    let id = fields.id.map(|id| checked("id", id)).transpose()?;
    if let Some(name) = event {
        push_line(out, b"event: ", name.as_bytes());
    }
    if let Some(id) = id {
        push_line(out, b"id: ", id.as_bytes());
    }
    match fields.data {
        Some(data) => encode_data_with(out, |out| out.extend_from_slice(data.as_bytes())),
        None => out.push(b'\n'),
    }
    Ok(())
}

/// Appends a payload that `write` appends to the buffer itself, between `data: ` and the empty line, without a copy. Line
/// breaks in it are found afterwards; without any (JSON on one line) nothing is moved.
pub fn encode_data_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"data: ");
    let start = out.len();
    write(out);
    // `write` must not shorten the buffer; if it does, the rest is still ended as a frame.
    let start = start.min(out.len());
    if out.get(start..).is_some_and(|payload| memchr2(b'\r', b'\n', payload).is_some()) {
        let payload = out.split_off(start);
        push_split(out, &payload);
    }
    out.extend_from_slice(b"\n\n");
}

/// Appends an `id` line without ending the frame: the lines that follow belong to the same event.
///
/// # Errors
///
/// Returns an error if the id contains CR, LF or NUL.
pub fn encode_id(id: &str, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    push_line(out, b"id: ", checked("id", id)?.as_bytes());
    Ok(())
}

/// Appends an `event` line without ending the frame, likewise.
///
/// # Errors
///
/// Returns an error if the name contains CR, LF or NUL.
pub fn encode_name(name: &str, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    push_line(out, b"event: ", checked("event", name)?.as_bytes());
    Ok(())
}

/// Appends a `retry` line without ending the frame: the milliseconds after which a reader reconnects.
pub fn encode_retry(milliseconds: u64, out: &mut Vec<u8>) {
    push_line(out, b"retry: ", milliseconds.to_string().as_bytes());
}

/// Appends a comment and an empty line. Readers skip it; proxies keep the connection open.
pub fn encode_comment(text: &str, out: &mut Vec<u8>) {
    for line in text.split(['\r', '\n']) {
        push_line(out, b": ", line.as_bytes());
    }
    out.push(b'\n');
}

fn push_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Appends data with line breaks as several `data` lines. CRLF is one break.
fn push_split(out: &mut Vec<u8>, payload: &[u8]) {
    let mut rest = payload;
    while let Some(at) = memchr2(b'\r', b'\n', rest) {
        let (line, from_break) = rest.split_at(at);
        out.extend_from_slice(line);
        out.extend_from_slice(b"\ndata: ");
        rest = match from_break {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => from_break,
        };
    }
    out.extend_from_slice(rest);
}

fn checked<'a>(field: &'static str, value: &'a str) -> Result<&'a str, EncodeError> {
    match memchr3(b'\r', b'\n', 0, value.as_bytes()) {
        None => Ok(value),
        Some(position) => Err(EncodeError { field, position }),
    }
}
