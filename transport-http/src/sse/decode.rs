//! Decodes `text/event-stream` incrementally.
//!
//! ```text
//!                     line without its end              empty line
//! handle_chunk ──► Lines ──────────────────► Pending ──────────────► poll_event
//!                  (partial lines wait)      (fields of one event)
//!
//! handle_eof: a waiting partial line is a line; a pending event is returned with `terminated: false`
//! ```
//!
//! Differences from a browser, all on purpose: an event cut off by the end of the stream is returned with a flag instead of
//! dropped (agents end streams that way); invalid UTF-8 is an error with its position instead of replacement characters (a
//! payload is not altered); lines and events have size limits.
//!
//! After an error the decoder returns no more events.

use super::lines::Lines;
use bytes::{Buf, Bytes};
use bytestring::ByteString;
use memchr::memchr;
use thiserror::Error;

/// Limits of the bytes that the decoder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Bytes of one line. A line without end must not fill the memory. 10 MiB is the most that frontends and other agent
    /// clients accept, so a longer line could not be passed on.
    pub line: usize,
    /// Bytes of the fields of one event: many short lines must not evade the limit above.
    pub event: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { line: 10 * 1024 * 1024, event: 10 * 1024 * 1024 }
    }
}

/// A decoded event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The name of the event, if it is not empty.
    pub event: Option<ByteString>,
    /// The id of the event; an empty id resets the last one. See [`Decoder::last_event_id`].
    pub id: Option<ByteString>,
    /// The `data` lines, joined by LF.
    pub data: ByteString,
    /// `false` if the stream ended before the empty line that ends an event: the payload may be incomplete.
    pub terminated: bool,
}

/// Why a stream cannot be decoded further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A line is too long.
    #[error(
        "the line of the event stream at byte {position} is longer than {limit} bytes (limit `line`): raise the limit"
    )]
    LineTooLong {
        /// The start of the line, counted from the start of the stream.
        position: u64,
        /// The value of the limit.
        limit: usize,
    },
    /// An event is too long.
    #[error(
        "the event before byte {position} of the event stream is longer than {limit} bytes (limit `event`): raise the limit"
    )]
    EventTooLong {
        /// The start of the line that exceeds the limit.
        position: u64,
        /// The value of the limit.
        limit: usize,
    },
    /// A field is not valid UTF-8.
    #[error("the event stream is not UTF-8 at byte {position}: the upstream must encode it as UTF-8")]
    InvalidUtf8 {
        /// The position of the first invalid byte.
        position: u64,
    },
}

/// An incremental decoder. Pass chunks to [`handle_chunk`](Self::handle_chunk), take events from
/// [`poll_event`](Self::poll_event) until it returns `None`, and call [`handle_eof`](Self::handle_eof) at the end.
///
/// # Examples
///
/// ```
/// use aqueduct_transport_http::sse::{DecodeLimits, Decoder};
///
/// let mut decoder = Decoder::new(DecodeLimits::default());
/// decoder.handle_chunk("data: hel".into());
/// decoder.handle_chunk("lo\n\n".into());
/// assert_eq!(decoder.poll_event().unwrap()?.data, "hello");
/// # Ok::<(), aqueduct_transport_http::sse::DecodeError>(())
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    limits: DecodeLimits,
    lines: Lines,
    pending: Pending,
    last_event_id: ByteString,
    retry: Option<u64>,
    ignored_fields: u64,
    seen_first_line: bool,
    done: bool,
}

impl Decoder {
    /// Returns a decoder at the start of a stream.
    pub fn new(limits: DecodeLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds bytes. Events of earlier chunks should have been polled; otherwise the remaining bytes are copied.
    pub fn handle_chunk(&mut self, chunk: Bytes) {
        if !self.done {
            self.lines.push(chunk);
        }
    }

    /// Handles the end of the stream. [`poll_event`](Self::poll_event) then returns a partial line or event.
    pub fn handle_eof(&mut self) {
        self.lines.ended = true;
    }

    /// Returns the next event. Returns `None` if the bytes so far contain none.
    pub fn poll_event(&mut self) -> Option<Result<Event, DecodeError>> {
        if self.done {
            return None;
        }
        let polled = self.poll_lines();
        if let Some(Err(_)) = polled {
            self.done = true;
            self.lines = Lines::default();
            self.pending = Pending::default();
        }
        polled
    }

    /// Returns the id of the last event that was ended by an empty line, including one without data (an initial event): the value
    /// of `Last-Event-ID` for a resume.
    pub fn last_event_id(&self) -> &ByteString {
        &self.last_event_id
    }

    /// Returns the time in milliseconds after which the server wants a reader to reconnect, if it sent one.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Returns the number of fields that were ignored because the format does not define them or their value.
    pub fn ignored_fields(&self) -> u64 {
        self.ignored_fields
    }

    fn poll_lines(&mut self) -> Option<Result<Event, DecodeError>> {
        loop {
            if self.lines.skip_empty_line() {
                self.seen_first_line = true;
                match self.end_event(true) {
                    Some(event) => return Some(Ok(event)),
                    None => continue,
                }
            }
            let (line, position) = match self.lines.next(self.limits.line) {
                Ok(Some(found)) => found,
                Ok(None) if self.lines.ended => return self.take_last().map(Ok),
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            };
            match self.handle_line(line, position) {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Handles a line: an empty one ends the event, any other is a field.
    fn handle_line(&mut self, mut line: Bytes, mut position: u64) -> Result<Option<Event>, DecodeError> {
        if !self.seen_first_line {
            self.seen_first_line = true;
            if line.starts_with(b"\xEF\xBB\xBF") {
                line.advance(3);
                position += 3;
            }
        }
        if line.is_empty() {
            return Ok(self.end_event(true));
        }
        self.handle_field(line, position).map(|()| None)
    }

    /// Adds a field to the pending event, within the limit.
    fn handle_field(&mut self, mut line: Bytes, mut position: u64) -> Result<(), DecodeError> {
        let start_of_line = position;
        let (field, value_at) = split_field(&line);
        line.advance(value_at);
        position += value_at as u64;
        match field {
            Field::Comment => {}
            Field::Data => self.pending.push_data(text(line, position)?),
            Field::Event => self.pending.event = Some(text(line, position)?),
            Field::Id if memchr(0, &line).is_none() => self.pending.id = Some(text(line, position)?),
            Field::Retry if is_number(&line) => self.retry = text(line, position)?.parse().ok(),
            Field::Id | Field::Retry | Field::Unknown => self.ignored_fields += 1,
        }
        if self.pending.size() > self.limits.event {
            return Err(DecodeError::EventTooLong { position: start_of_line, limit: self.limits.event });
        }
        Ok(())
    }

    fn take_last(&mut self) -> Option<Event> {
        self.done = true;
        self.end_event(false)
    }

    /// Ends the pending event. Without data there is no event, but its id counts if the empty line was present.
    fn end_event(&mut self, terminated: bool) -> Option<Event> {
        let Pending { event, id, data } = std::mem::take(&mut self.pending);
        if terminated && let Some(id) = &id {
            // A copy, because it may outlive the read buffer of which the id is a slice.
            self.last_event_id = ByteString::from(&**id);
        }
        let data = data.into_text()?;
        Some(Event { event: event.filter(|name| !name.is_empty()), id, data, terminated })
    }
}

/// The fields of the event that is being decoded.
#[derive(Debug, Default)]
struct Pending {
    event: Option<ByteString>,
    id: Option<ByteString>,
    data: Data,
}

impl Pending {
    fn push_data(&mut self, value: ByteString) {
        self.data = match std::mem::take(&mut self.data) {
            Data::None => Data::Line(value),
            Data::Line(first) => {
                let mut lines = String::with_capacity(first.len() + value.len() + 1);
                lines.push_str(&first);
                Data::Lines(append_line(lines, &value))
            }
            Data::Lines(lines) => Data::Lines(append_line(lines, &value)),
        };
    }

    fn size(&self) -> usize {
        let text = |field: &Option<ByteString>| field.as_ref().map_or(0, |value| value.len());
        let data = match &self.data {
            Data::None => 0,
            Data::Line(line) => line.len(),
            Data::Lines(lines) => lines.len(),
        };
        data + text(&self.event) + text(&self.id)
    }
}

/// Data of one line stays a slice of the input; several lines are joined.
#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    Line(ByteString),
    Lines(String),
}

impl Data {
    fn into_text(self) -> Option<ByteString> {
        match self {
            Self::None => None,
            Self::Line(line) => Some(line),
            Self::Lines(lines) => Some(ByteString::from(lines)),
        }
    }
}

fn append_line(mut lines: String, line: &str) -> String {
    lines.push('\n');
    lines.push_str(line);
    lines
}

/// The fields of the format.
#[derive(Debug, Clone, Copy)]
enum Field {
    Comment,
    Data,
    Event,
    Id,
    Retry,
    Unknown,
}

/// Returns the field of a line and the position of its value. One space after the colon is not part of the value; a line
/// without a colon is a name with an empty value.
fn split_field(line: &[u8]) -> (Field, usize) {
    // Most lines: no search for the colon.
    if let Some(value) = line.strip_prefix(b"data:") {
        return (Field::Data, line.len() - value.strip_prefix(b" ").unwrap_or(value).len());
    }
    let colon = memchr(b':', line).unwrap_or(line.len());
    let (name, rest) = line.split_at(colon);
    let field = match name {
        b"" => Field::Comment,
        b"data" => Field::Data,
        b"event" => Field::Event,
        b"id" => Field::Id,
        b"retry" => Field::Retry,
        _ => Field::Unknown,
    };
    let skipped = match rest {
        [b':', b' ', ..] => 2,
        [b':', ..] => 1,
        _ => 0,
    };
    (field, colon + skipped)
}

fn text(value: Bytes, position: u64) -> Result<ByteString, DecodeError> {
    ByteString::try_from(value)
        .map_err(|error| DecodeError::InvalidUtf8 { position: position + error.valid_up_to() as u64 })
}

/// Returns `true` for a number of the format: only digits, and within the range of `u64`.
fn is_number(value: &[u8]) -> bool {
    (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit)
}
