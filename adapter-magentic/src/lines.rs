//! [`Lines`]: splits bytes into lines, with a limit.
//!
//! Invariants: the lines do not depend on the boundaries of reads; a line inside one read is a slice of it and costs no
//! copy; no more than one line is held. White space alone is not a line. The module does not parse JSON.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;

use crate::error::Error;

/// Splits bytes into lines at LF (a CR before it is dropped).
#[derive(Debug)]
pub struct Lines {
    max: usize,
    /// The start of a line whose end has not arrived yet.
    partial: BytesMut,
    ready: VecDeque<Result<ByteString, Error>>,
    /// Set by a line that is too long: its end is unknown, so no line can follow.
    stopped: bool,
}

impl Lines {
    /// Returns a splitter for lines of at most `max` bytes ([`Limits::line_bytes`](crate::Limits)).
    pub fn new(max: usize) -> Self {
        Self { max, partial: BytesMut::new(), ready: VecDeque::new(), stopped: false }
    }

    /// Adds bytes.
    pub fn handle_bytes(&mut self, mut bytes: Bytes) {
        while !self.stopped
            && let Some(end) = memchr::memchr(b'\n', &bytes)
        {
            let line = bytes.split_to(end);
            bytes.advance(1);
            let line = self.complete(line);
            self.push(line);
        }
        if !self.stopped {
            self.partial.extend_from_slice(&bytes);
            if self.partial.len() > self.max {
                self.stop();
            }
        }
    }

    /// Handles the end of the input: the rest is a line.
    pub fn handle_eof(&mut self) {
        if !self.stopped {
            let line = self.partial.split().freeze();
            self.push(line);
        }
        self.stopped = true;
    }

    /// Returns the next line. Returns `None` until more bytes arrive.
    ///
    /// # Errors
    ///
    /// Returns [`Error::LineTooLong`] for a line above the limit. No line follows it.
    pub fn poll_line(&mut self) -> Option<Result<ByteString, Error>> {
        self.ready.pop_front()
    }

    /// Adds the rest of a partial line, and returns the bytes after it.
    fn complete(&mut self, rest: Bytes) -> Bytes {
        if self.partial.is_empty() {
            return rest;
        }
        self.partial.extend_from_slice(&rest);
        self.partial.split().freeze()
    }

    /// Queues a complete line. One that is too long stops the reader.
    fn push(&mut self, mut line: Bytes) {
        if line.len() > self.max {
            return self.stop();
        }
        if line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        self.ready.push_back(ByteString::try_from(line).map_err(|_| Error::NotUtf8));
    }

    /// Drops the partial line and queues the error: bytes after a line that is too long cannot be attributed to a line.
    fn stop(&mut self) {
        self.partial = BytesMut::new();
        self.stopped = true;
        self.ready.push_back(Err(Error::LineTooLong { max: self.max }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(max: usize, parts: &[&[u8]]) -> Vec<Result<ByteString, Error>> {
        let mut lines = Lines::new(max);
        for part in parts {
            lines.handle_bytes(Bytes::copy_from_slice(part));
        }
        lines.handle_eof();
        std::iter::from_fn(|| lines.poll_line()).collect()
    }

    #[test]
    fn any_cut_gives_the_same_lines() {
        let input = "{\"a\":1}\r\n\n {\"b\":\"é\"}\n  \n{\"c\":3}".as_bytes();
        let whole = split(100, &[input]);
        assert_eq!(whole.len(), 3);
        for at in 0..=input.len() {
            assert_eq!(split(100, &[&input[..at], &input[at..]]), whole, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(split(100, &bytes), whole);
    }

    #[test]
    fn a_line_in_one_read_is_a_slice_of_it() {
        let input = Bytes::from_static(b"{\"a\":1}\n");
        let mut lines = Lines::new(100);
        lines.handle_bytes(input.clone());
        let line = lines.poll_line().unwrap().unwrap();
        assert_eq!(line.as_bytes().as_ptr(), input.as_ptr());
    }

    #[test]
    fn a_line_that_is_too_long_stops_the_input_whatever_the_cut() {
        let too_long = || [Err(Error::LineTooLong { max: 4 })];
        assert_eq!(split(4, &[b"12345\n1\n"]), too_long());
        assert_eq!(split(4, &[b"123", b"45", b"\n1\n"]), too_long());
        assert_eq!(split(4, &[b"1234\n1"]).len(), 2);
        assert!(!Error::LineTooLong { max: 4 }.can_continue());
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error_of_their_line_only() {
        let lines = split(10, &[b"\xff\n{}\n"]);
        assert_eq!(lines, [Err(Error::NotUtf8), Ok(ByteString::from("{}"))]);
    }
}
