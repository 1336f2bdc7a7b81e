//! [`Lines`]: received chunks as lines, without copying a line that arrived in one chunk.
//!
//! Lines end with LF, CR or CRLF, also where CR and LF arrive in different chunks (WHATWG HTML, "parsing an event stream").

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;

use super::decode::DecodeError;

/// Splits chunks into lines. LF, CR and CRLF end a line, whatever the boundaries of the chunks.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Bytes that were not examined yet.
    pub(super) rest: Bytes,
    /// The start of a line whose end has not arrived; already examined.
    pub(super) cut: BytesMut,
    /// The number of bytes of the stream before `rest`.
    pub(super) position: u64,
    /// Set if the last line ended with a CR as the last byte: an LF that follows belongs to it.
    pub(super) skip_lf: bool,
    pub(super) ended: bool,
}

impl Lines {
    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.rest.is_empty() {
            self.rest = chunk;
        } else {
            let mut joined = BytesMut::with_capacity(self.rest.len() + chunk.len());
            joined.extend_from_slice(&self.rest);
            joined.extend_from_slice(&chunk);
            self.rest = joined.freeze();
        }
    }

    /// Skips an empty line that ends with LF, without a search for its end. Returns `false`, without effect, if the next
    /// line is another one.
    pub(super) fn skip_empty_line(&mut self) -> bool {
        let is_empty = self.rest.first() == Some(&b'\n') && self.cut.is_empty() && !self.skip_lf;
        if is_empty {
            self.skip();
        }
        is_empty
    }

    /// Returns the next line without its end, and its position.
    pub(super) fn next(&mut self, limit: usize) -> Result<Option<(Bytes, u64)>, DecodeError> {
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

    /// Stores a partial line until its end arrives, or returns it as the last line if the stream has ended.
    pub(super) fn keep_cut_line(&mut self, limit: usize, start: u64) -> Result<Option<(Bytes, u64)>, ()> {
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

    pub(super) fn take(&mut self, len: usize) -> Bytes {
        self.position += len as u64;
        self.rest.split_to(len)
    }

    /// Skips one byte, which must exist, without creating a slice.
    pub(super) fn skip(&mut self) {
        self.position += 1;
        self.rest.advance(1);
    }
}
