//! Reads `text/event-stream` incrementally.
//!
//! ```text
//!                     line without its end              empty line
//! handle_chunk ──► Lines ──────────────────► Pending ──────────────► poll_event
//!                  (cut lines wait here)     (fields of one event)
//!
//! handle_eof: what waits is a line; what is pending is an event with `terminated: false`
//! ```
//!
//! Differences from a browser, all on purpose: an event cut off by the end of the stream is delivered with a flag
//! instead of thrown away (agents end streams that way); invalid UTF-8 is an error with its place instead of
//! replacement characters (a payload is not altered); lines and events have size limits.
//!
//! After an error the decoder is done: nothing more comes out of it.

use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;
use memchr::{memchr, memchr2};
use thiserror::Error;

/// How much a stream may make the decoder hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Bytes in one line. A line that never ends must not fill the memory. 10 MiB is what frontends and other
    /// agent clients take at most, so a longer one could not be passed on.
    pub line: usize,
    /// Bytes of the fields of one event: many short lines must not get around the limit above.
    pub event: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { line: 10 * 1024 * 1024, event: 10 * 1024 * 1024 }
    }
}

/// An event as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name, if it had one that is not empty.
    pub event: Option<ByteString>,
    /// The id that came with it; an empty one takes back what was known. See [`Decoder::last_event_id`].
    pub id: Option<ByteString>,
    /// Its `data` lines, joined by LF.
    pub data: ByteString,
    /// False if the stream ended before the empty line that ends an event: the payload may be cut.
    pub terminated: bool,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A line is too long.
    #[error("the line of the event stream at byte {position} is longer than {limit} bytes (limit `line`)")]
    LineTooLong {
        /// Where the line starts, counted from the start of the stream.
        position: u64,
        /// The limit.
        limit: usize,
    },
    /// An event is too long.
    #[error(
        "the event before byte {position} of the event stream is longer than {limit} bytes (limit `event`)"
    )]
    EventTooLong {
        /// Where the line starts that is too much.
        position: u64,
        /// The limit.
        limit: usize,
    },
    /// A field is not UTF-8.
    #[error("the event stream is not UTF-8 at byte {position}")]
    InvalidUtf8 {
        /// Where the first bad byte is.
        position: u64,
    },
}

/// An incremental reader. Give it chunks with [`handle_chunk`](Self::handle_chunk), take events with
/// [`poll_event`](Self::poll_event) until there is none, and say [`handle_eof`](Self::handle_eof) at the end.
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
    /// A decoder at the start of a stream.
    pub fn new(limits: DecodeLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes bytes. Events of earlier chunks should have been polled; otherwise the rest is copied together.
    pub fn handle_chunk(&mut self, chunk: Bytes) {
        if !self.done {
            self.lines.push(chunk);
        }
    }

    /// The stream has ended. A line or event that was cut comes out of [`poll_event`](Self::poll_event).
    pub fn handle_eof(&mut self) {
        self.lines.ended = true;
    }

    /// The next event, if the bytes so far hold one.
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

    /// The id of the last event that was ended by an empty line, also of one without data (a priming event):
    /// what `Last-Event-ID` says when coming back.
    pub fn last_event_id(&self) -> &ByteString {
        &self.last_event_id
    }

    /// After how many milliseconds the server wants to see a lost reader again.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// How many fields were passed over because the format does not know them or their value.
    pub fn ignored_fields(&self) -> u64 {
        self.ignored_fields
    }

    fn poll_lines(&mut self) -> Option<Result<Event, DecodeError>> {
        loop {
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

    /// Ends the pending event. Without data it is none, but its id counts if the empty line was there.
    fn end_event(&mut self, terminated: bool) -> Option<Event> {
        let Pending { event, id, data } = std::mem::take(&mut self.pending);
        if terminated && let Some(id) = &id {
            // A copy: it may outlive the read buffer of which the id is a slice.
            self.last_event_id = ByteString::from(&**id);
        }
        let data = data.into_text()?;
        Some(Event { event: event.filter(|name| !name.is_empty()), id, data, terminated })
    }
}

/// Cuts chunks into lines. LF, CR and CRLF end a line, wherever the chunks are cut.
#[derive(Debug, Default)]
struct Lines {
    /// Bytes that were not looked at yet.
    rest: Bytes,
    /// The start of a line whose end has not come; looked at already.
    cut: BytesMut,
    /// Bytes of the stream before `rest`.
    position: u64,
    /// The last line ended with a CR that was the last byte: an LF that comes next belongs to it.
    skip_lf: bool,
    ended: bool,
}

impl Lines {
    fn push(&mut self, chunk: Bytes) {
        if self.rest.is_empty() {
            self.rest = chunk;
        } else {
            let mut joined = BytesMut::with_capacity(self.rest.len() + chunk.len());
            joined.extend_from_slice(&self.rest);
            joined.extend_from_slice(&chunk);
            self.rest = joined.freeze();
        }
    }

    /// The next line without its end, and where it starts.
    fn next(&mut self, limit: usize) -> Result<Option<(Bytes, u64)>, DecodeError> {
        if self.skip_lf && !self.rest.is_empty() {
            self.skip_lf = false;
            if self.rest.first() == Some(&b'\n') {
                self.skip();
            }
        }
        let start = self.position - self.cut.len() as u64;
        let too_long = DecodeError::LineTooLong { position: start, limit };
        let Some(at) = memchr2(b'\r', b'\n', &self.rest) else {
            return self.keep_cut_line(limit, start).map_err(|()| too_long);
        };
        if self.cut.len() + at > limit {
            return Err(too_long);
        }
        let line = self.take(at);
        let is_cr = self.rest.first() == Some(&b'\r');
        self.skip();
        if is_cr {
            match self.rest.first() {
                Some(b'\n') => self.skip(),
                Some(_) => {}
                None => self.skip_lf = true,
            }
        }
        if self.cut.is_empty() {
            return Ok(Some((line, start)));
        }
        self.cut.extend_from_slice(&line);
        Ok(Some((std::mem::take(&mut self.cut).freeze(), start)))
    }

    /// No end in sight: the bytes wait for it, or are the last line if the stream has ended.
    fn keep_cut_line(&mut self, limit: usize, start: u64) -> Result<Option<(Bytes, u64)>, ()> {
        if self.cut.len() + self.rest.len() > limit {
            return Err(());
        }
        let rest = self.take(self.rest.len());
        self.cut.extend_from_slice(&rest);
        if self.ended && !self.cut.is_empty() {
            return Ok(Some((std::mem::take(&mut self.cut).freeze(), start)));
        }
        Ok(None)
    }

    fn take(&mut self, len: usize) -> Bytes {
        self.position += len as u64;
        self.rest.split_to(len)
    }

    /// Passes over one byte, which must be there: without a slice of its own, which would be counted.
    fn skip(&mut self) {
        self.position += 1;
        self.rest.advance(1);
    }
}

/// The fields of the event that is being read.
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

/// Data of one line stays a slice of what was read; several lines are put together.
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

#[derive(Debug, Clone, Copy)]
enum Field {
    Comment,
    Data,
    Event,
    Id,
    Retry,
    Unknown,
}

/// The field of a line and where its value starts. One space after the colon is not part of the value; a line without
/// a colon is a name with an empty value.
fn split_field(line: &[u8]) -> (Field, usize) {
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

/// True for what the format takes as a number: digits alone, and not more than there is room for.
fn is_number(value: &[u8]) -> bool {
    (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit)
}
