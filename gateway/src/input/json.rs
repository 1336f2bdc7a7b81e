//! JSON values from lines: one line is one value, unless its brackets are open at the end of the line.
//!
//! Only brackets and quotes are examined, each byte once. The decoder checks whether the value is well-formed. A line
//! that ends inside a string can never become well-formed, so it is returned at once.
//!
//! ```text
//! {"a":1}\n            one line, one value
//! {"a":\n 1}\n         two lines, one value: the bracket is open at the end of the first line
//! {"a":"x\n            a line that ends inside a string: returned as it is, and refused by the decoder
//! {"a":[1             end of the input: returned as cut
//! ```

use std::collections::VecDeque;

use aqueduct_core::ByteString;
use bytes::{Bytes, BytesMut};

use super::{InputError, MAX_BYTES, Payload, PayloadPosition, without_mark};

/// The value that is being collected. A value on one line is never copied; only a value of several lines is
/// collected in `text`.
#[derive(Debug, Default)]
pub(super) struct Value {
    /// The lines of the value so far, each with its line break. At most `MAX_BYTES`.
    text: BytesMut,
    /// The line on which the value begins, from 1.
    line: usize,
    /// Open brackets at the end of the lines so far. Closing brackets without an opening one are not counted.
    depth: usize,
}

impl Value {
    /// Handles one line with its number. Blank lines between values are skipped.
    ///
    /// # Errors
    ///
    /// The value is longer than `MAX_BYTES` (the error names the line on which the value begins) or not UTF-8
    /// (the error names the line and column of the first invalid byte).
    pub(super) fn handle_line(
        &mut self,
        line: &Bytes,
        number: usize,
        ready: &mut VecDeque<Payload>,
    ) -> Result<(), InputError> {
        let content = line.slice_ref(without_mark(line));
        if self.text.is_empty() {
            if content.trim_ascii().is_empty() {
                return Ok(());
            }
            self.line = number;
        }
        let ends_in_string = self.scan(&content);
        let is_whole = self.depth == 0 || ends_in_string;
        // The common case: the line is the value, and its bytes are shared with the input.
        if self.text.is_empty() && is_whole {
            return self.emit(&content, !line.ends_with(b"\n"), ready);
        }
        self.text.extend_from_slice(&content);
        if self.text.len() > MAX_BYTES {
            let place = PayloadPosition { line: self.line, indent: 0 };
            return Err(place.error(1, 1, format!("the value is longer than {MAX_BYTES} bytes")));
        }
        if is_whole {
            let text = self.text.split().freeze();
            return self.emit(&text, !line.ends_with(b"\n"), ready);
        }
        Ok(())
    }

    /// Handles the end of the input: a value whose brackets are open is returned as cut.
    pub(super) fn handle_eof(&mut self, ready: &mut VecDeque<Payload>) -> Result<(), InputError> {
        if self.text.is_empty() {
            return Ok(());
        }
        let text = self.text.split().freeze();
        self.emit(&text, true, ready)
    }

    /// Counts brackets. Returns `true` if the line ends inside a string. A string never continues on the next
    /// line, so the state of strings is not kept between lines.
    fn scan(&mut self, line: &[u8]) -> bool {
        let (mut in_string, mut escaped) = (false, false);
        for byte in line {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        in_string
    }

    /// Appends a payload and resets the state. White space at the end, which contains the line break, is
    /// removed.
    fn emit(&mut self, text: &Bytes, is_last: bool, ready: &mut VecDeque<Payload>) -> Result<(), InputError> {
        let is_cut = is_last && self.depth > 0;
        self.depth = 0;
        let place = PayloadPosition { line: self.line, indent: 0 };
        let trimmed = text.slice_ref(text.trim_ascii_end());
        let text = ByteString::try_from(trimmed).map_err(|_| invalid_utf8(place, text))?;
        ready.push_back(Payload { text, event: None, place, is_cut });
        Ok(())
    }
}

/// Returns an error at the line and column of the first invalid byte. Columns count bytes.
fn invalid_utf8(place: PayloadPosition, text: &[u8]) -> InputError {
    let valid = std::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len);
    let before = text.get(..valid).unwrap_or_default();
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let column = before.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len) + 1;
    place.error(line, column, "the text is not UTF-8")
}
