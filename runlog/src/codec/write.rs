//! Encoding of the primitives.
//!
//! The counterpart of [`read`](super::read), which lists the forms. Writing to memory cannot fail; only values without a form do.

use super::CodecError;

/// Appends LEB128: seven bits per byte, the lowest first, the high bit set in all but the last byte.
pub(crate) fn write_number(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(low_byte(number) | 0x80);
        number >>= 7;
    }
    to.push(low_byte(number));
}

/// Appends encoded values to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    /// Writes one byte.
    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    /// Writes LEB128: seven bits per byte, the lowest first.
    pub(crate) fn number(&mut self, number: u64) {
        write_number(number, &mut self.bytes);
    }

    /// Writes zigzag LEB128, so that small negative numbers are short.
    pub(crate) fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)).cast_unsigned());
    }

    /// Writes the number of elements that follow.
    pub(crate) fn length(&mut self, length: usize) {
        self.number(crate::limits::count(length));
    }

    /// Writes a length and that many bytes.
    pub(crate) fn slice(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.slice(text.as_bytes());
    }

    /// Writes a flag for presence, then the value.
    pub(crate) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// Like [`optional`](Self::optional), for a `write` that can fail.
    pub(crate) fn try_optional<T>(
        &mut self,
        value: Option<T>,
        write: impl FnOnce(&mut Self, T) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        self.flag(value.is_some());
        value.map_or(Ok(()), |value| write(self, value))
    }

    pub(crate) fn optional_text(&mut self, text: Option<&str>) {
        self.optional(text, Self::text);
    }

    /// Writes the output of `write`, preceded by its length.
    pub(crate) fn nested(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let mut inner = Self::default();
        write(&mut inner)?;
        self.slice(&inner.bytes);
        Ok(())
    }
}

/// Returns the lowest eight bits.
fn low_byte(number: u64) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low
}
