//! Bytes of a recorded or piped stream to payloads, each with its place: server-sent events, or JSON values one after
//! the other (one per line, or spread over several).
//!
//! ```text
//! bytes ──► lines ──► framing, detected from the first line ──► SSE decoder ──┬──► Payload { text, event, place, is_cut }
//!                                                           └──► JSON brackets ─┘
//! ```
//!
//! Invariants: payloads do not depend on how the bytes are split; at most one line and one value are held, each up to
//! [`MAX_BYTES`]; an error names line and column. A value in which the input ends is returned as cut. For files that
//! `aqueduct record` wrote, the payloads are the recorded frames. This module does not interpret payloads.

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

/// The largest line or value, in bytes. The line of a workflow event can repeat a whole conversation; 16 MiB is a long
/// one with images, and more than any frontend accepts.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// One payload with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The text of the payload.
    pub(crate) text: ByteString,
    /// The SSE event name, if there is one.
    pub(crate) event: Option<ByteString>,
    /// The place where the payload begins.
    pub(crate) place: PayloadPosition,
    /// Set if the input ended before the payload was complete, as far as the framing shows.
    pub(crate) is_cut: bool,
}

/// The place where a payload begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PayloadPosition {
    /// The line, from 1.
    pub(crate) line: usize,
    /// Bytes before the payload in each of its lines (`data: `).
    pub(crate) indent: usize,
}

impl PayloadPosition {
    /// Returns an error at a line and column of the payload, both from 1; 0 stands for the beginning of the payload.
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
    /// Counted from 1, like `column`, as editors do.
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: String,
}

/// Splits an input into payloads.
#[derive(Debug, Default)]
pub(crate) struct PayloadReader {
    /// The beginning of a line whose end has not arrived yet.
    partial: BytesMut,
    /// The number of lines that have ended.
    lines: usize,
    /// The number of bytes before the current line.
    offset: u64,
    /// The length of the current line, to be added to `offset` with the next one.
    latest: u64,
    framing: Framing,
    /// Payloads to be polled: those of the bytes that were handled last, if the caller polls after each chunk.
    ready: VecDeque<Payload>,
    /// Set after an error, so that `handle_eof` adds no payload. Callers pass no more bytes then.
    failed: bool,
    /// Set once the first payload was polled: only that one can be the head of a recording.
    has_begun: bool,
    /// The dialect of the recording, if the first payload was a head.
    recorded: Option<recording::Dialect>,
}

/// How the input is split into payloads. Detected once and never changed.
#[derive(Debug, Default)]
enum Framing {
    /// The input contains only white space so far.
    #[default]
    Unknown,
    Sse {
        decoder: Box<sse::Decoder>,
        /// The place where the data of the current event begins.
        place: Option<PayloadPosition>,
    },
    Json(Value),
}

impl PayloadReader {
    /// Handles bytes, split at any boundary. Payloads of complete lines are ready afterwards, also if an error
    /// is returned.
    ///
    /// # Errors
    ///
    /// The framing is unknown, a line or value is longer than [`MAX_BYTES`], or text is not UTF-8.
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

    /// Handles the end of the input. The last line need not end with a line break. After an error this does
    /// nothing.
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

    /// Returns the next payload, or `None` until more bytes arrive.
    ///
    /// Lines of a recording are unwrapped: the frame's data is returned, with the line of the recording as its
    /// place.
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
                // Not a line of a recording: the decoder reports it with its place.
                None => return Some(payload),
            }
        }
    }

    /// Returns the dialect of a recording, once its first payload was polled, or `None` for any other input.
    pub(crate) fn recorded(&self) -> Option<recording::Dialect> {
        self.recorded
    }

    /// Refuses a line that is too long before it is complete, so that memory stays bounded.
    fn check_length(&mut self) -> Result<(), InputError> {
        if self.partial.len() <= MAX_BYTES {
            return Ok(());
        }
        self.failed = true;
        let place = PayloadPosition { line: self.lines + 1, indent: 0 };
        Err(place.error(1, 1, format!("the line is longer than {MAX_BYTES} bytes")))
    }

    /// Handles one line with its line break. Lines before the first one with content do not decide the framing.
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

/// Returns `true` if a first line begins server-sent events, `false` if it begins JSON, `None` if it is white space.
pub(crate) fn is_sse(line: &[u8], number: usize) -> Result<Option<bool>, InputError> {
    Ok(detect(line, number)?.map(|framing| matches!(framing, Framing::Sse { .. })))
}

/// Detects the framing from a first line. Returns `None` if the line is white space. A field name of
/// server-sent events, or a comment, begins an event stream; a bracket begins JSON.
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
            Err(PayloadPosition { line: number, indent: 0 }.error(1, 1, what))
        }
    }
}

/// Removes a byte order mark, which editors on some systems write.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
}

/// Returns the position of the payload in a `data` line, or `None` for another line.
fn data_place(line: &[u8], number: usize) -> Option<PayloadPosition> {
    let rest = without_mark(line).strip_prefix(b"data:")?;
    let value = rest.strip_prefix(b" ").unwrap_or(rest);
    Some(PayloadPosition { line: number, indent: line.len() - value.len() })
}

/// Moves the complete events of the SSE decoder into the queue.
///
/// # Errors
///
/// The error names the current line, and the column of the first byte that is not UTF-8.
fn poll_sse(
    decoder: &mut sse::Decoder,
    place: &mut Option<PayloadPosition>,
    (line, offset): (usize, u64),
    ready: &mut VecDeque<Payload>,
) -> Result<(), InputError> {
    while let Some(event) = decoder.poll_event() {
        let here = PayloadPosition { line, indent: 0 };
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
