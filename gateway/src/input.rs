//! Bytes of a recorded or piped stream to payloads, each with its place: server-sent events, or JSON values one after
//! the other (one per line, or spread over several).
//!
//! ```text
//! bytes ──► lines ──► framing told by the first line ──► SSE decoder ──┬──► Payload { text, event, place, is_cut }
//!                                                   └──► JSON brackets ─┘
//! ```
//!
//! Invariants: payloads do not depend on how the bytes were cut; no more than one line and one value are held, each
//! up to [`MAX_BYTES`]; an error names line and column. A value in which the input ends is handed out as cut. Of what
//! `aqueduct record` wrote, the payloads are the recorded frames. What a payload means is not known here.

mod json;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use aqueduct_core::ByteString;
use aqueduct_transport_http::sse;
use bytes::{Bytes, BytesMut};
use thiserror::Error;

use crate::recording::{self, RecordedLine};
use json::Value;

/// Bytes of one line or value. The line of a workflow event can repeat a whole conversation; 16 MiB is a long one with
/// images, and more than any frontend takes.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// One payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The payload.
    pub(crate) text: ByteString,
    /// The SSE event name, where there is one.
    pub(crate) event: Option<ByteString>,
    /// Where it is.
    pub(crate) place: Place,
    /// True if the input ended before the payload was complete, as far as the framing tells.
    pub(crate) is_cut: bool,
}

/// Where a payload begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Bytes before the payload in each of its lines (`data: `).
    pub(crate) indent: usize,
}

impl Place {
    /// An error at the payload's own line and column (from 1; 0 for none, which means its beginning).
    pub(crate) fn error(self, line: usize, column: usize, what: impl Into<String>) -> InputError {
        InputError {
            line: self.line + line.saturating_sub(1),
            column: column.max(1) + self.indent,
            what: what.into(),
        }
    }
}

/// Input that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {what}")]
pub(crate) struct InputError {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
}

/// Cuts an input into payloads.
#[derive(Debug, Default)]
pub(crate) struct PayloadReader {
    /// The beginning of a line whose end has not come yet.
    partial: BytesMut,
    /// Lines that have ended.
    lines: usize,
    /// Bytes before the latest line.
    offset: u64,
    latest: u64,
    framing: Framing,
    ready: VecDeque<Payload>,
    failed: bool,
    has_begun: bool,
    recorded: Option<recording::Dialect>,
}

#[derive(Debug, Default)]
enum Framing {
    /// Nothing but white space so far.
    #[default]
    Unknown,
    Sse {
        decoder: Box<sse::Decoder>,
        /// Where the data of the event under way begins.
        place: Option<Place>,
    },
    Json(Value),
}

impl PayloadReader {
    /// Takes bytes, however they are cut.
    pub(crate) fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), InputError> {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            self.partial.extend_from_slice(line);
            self.check_length()?;
            let line = self.partial.split().freeze();
            self.handle_line(line)?;
        }
        self.partial.extend_from_slice(rest);
        self.check_length()
    }

    /// The input is over.
    pub(crate) fn handle_eof(&mut self) -> Result<(), InputError> {
        if self.failed {
            return Ok(());
        }
        let line = self.partial.split().freeze();
        if !line.is_empty() {
            self.handle_line(line)?;
        }
        let last = self.lines;
        match &mut self.framing {
            Framing::Unknown => Ok(()),
            Framing::Sse { decoder, place } => {
                decoder.handle_eof();
                poll_sse(decoder, place, (last, self.offset), &mut self.ready)
            }
            Framing::Json(value) => value.handle_eof(&mut self.ready),
        }
        .inspect_err(|_| self.failed = true)
    }

    /// The next payload.
    pub(crate) fn poll_payload(&mut self) -> Option<Payload> {
        loop {
            let payload = self.ready.pop_front()?;
            if !std::mem::replace(&mut self.has_begun, true) {
                self.recorded = recording::head_of(&payload.text);
                if self.recorded.is_some() {
                    continue;
                }
            }
            if self.recorded.is_none() {
                return Some(payload);
            }
            match recording::line_of(&payload.text) {
                Some(RecordedLine::Frame((event, data))) => {
                    return Some(Payload { text: data, event, ..payload });
                }
                Some(RecordedLine::End) => {}
                // No line of a recording: whoever reads it finds out, at its place.
                None => return Some(payload),
            }
        }
    }

    /// The dialect of a recording, once its first payload was polled; `None` for any other input.
    pub(crate) fn recorded(&self) -> Option<recording::Dialect> {
        self.recorded
    }

    fn check_length(&mut self) -> Result<(), InputError> {
        if self.partial.len() <= MAX_BYTES {
            return Ok(());
        }
        self.failed = true;
        let place = Place { line: self.lines + 1, indent: 0 };
        Err(place.error(1, 1, format!("the line is longer than {MAX_BYTES} bytes")))
    }

    fn handle_line(&mut self, line: Bytes) -> Result<(), InputError> {
        self.lines += 1;
        self.offset += self.latest;
        self.latest = line.len() as u64;
        let number = self.lines;
        if matches!(self.framing, Framing::Unknown) {
            match detect(&line, number) {
                Ok(Some(framing)) => self.framing = framing,
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            }
        }
        match &mut self.framing {
            Framing::Unknown => Ok(()),
            Framing::Sse { decoder, place } => {
                if place.is_none() {
                    *place = data_place(&line, number);
                }
                decoder.handle_chunk(line);
                poll_sse(decoder, place, (number, self.offset), &mut self.ready)
            }
            Framing::Json(value) => value.handle_line(&line, number, &mut self.ready),
        }
        .inspect_err(|_| self.failed = true)
    }
}

/// Whether a first line begins server-sent events or JSON; none for a line of white space.
pub(crate) fn is_sse(line: &[u8], number: usize) -> Result<Option<bool>, InputError> {
    Ok(detect(line, number)?.map(|framing| matches!(framing, Framing::Sse { .. })))
}

/// The framing that a first line tells; none for a line of white space.
fn detect(line: &[u8], number: usize) -> Result<Option<Framing>, InputError> {
    let text = without_mark(line).trim_ascii();
    let is_field = ["data", "event", "id", "retry", ""]
        .iter()
        .any(|field| text.strip_prefix(field.as_bytes()).is_some_and(|rest| rest.first() == Some(&b':')));
    match text.first() {
        None => Ok(None),
        Some(b'{' | b'[') => Ok(Some(Framing::Json(Value::default()))),
        Some(_) if is_field => {
            let limits = sse::DecodeLimits { line: MAX_BYTES, event: MAX_BYTES };
            Ok(Some(Framing::Sse { decoder: Box::new(sse::Decoder::new(limits)), place: None }))
        }
        Some(_) => {
            let what = "neither server-sent events (`data: …`) nor JSON lines (`{…}`) begin like this";
            Err(Place { line: number, indent: 0 }.error(1, 1, what))
        }
    }
}

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
}

fn data_place(line: &[u8], number: usize) -> Option<Place> {
    let rest = without_mark(line).strip_prefix(b"data:")?;
    let value = rest.strip_prefix(b" ").unwrap_or(rest);
    Some(Place { line: number, indent: line.len() - value.len() })
}

fn poll_sse(
    decoder: &mut sse::Decoder,
    place: &mut Option<Place>,
    (line, offset): (usize, u64),
    ready: &mut VecDeque<Payload>,
) -> Result<(), InputError> {
    while let Some(event) = decoder.poll_event() {
        let here = Place { line, indent: 0 };
        let at = place.take().unwrap_or(here);
        let event = event.map_err(|error| {
            let column = match error {
                sse::DecodeError::InvalidUtf8 { position } => position.saturating_sub(offset) + 1,
                _ => 1,
            };
            here.error(1, usize::try_from(column).unwrap_or(1), error.to_string())
        })?;
        let is_cut = !event.terminated;
        ready.push_back(Payload { text: event.data, event: event.event, place: at, is_cut });
    }
    Ok(())
}
