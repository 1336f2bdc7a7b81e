//! Decoding of the primitives. Texts are slices of the input and are not copied.
//!
//! | primitive | form |
//! |---|---|
//! | number | LEB128, at most ten bytes |
//! | signed | zigzag LEB128 |
//! | flag | one byte, 0 or 1 |
//! | text, slice | a number of bytes, then the bytes |
//! | optional | a flag, then the value |
//!
//! Invariant: no function allocates for a length that the remaining bytes cannot hold.

use bytes::{Buf as _, Bytes};
use bytestring::ByteString;

use super::CodecError;

/// The longest LEB128 form of a 64-bit number.
const NUMBER_BYTES: u32 = 10;

/// Reads LEB128 from the front of `from`. A value of more than 64 bits is an error.
pub(crate) fn read_number(from: &mut &[u8], what: &'static str) -> Result<u64, CodecError> {
    let mut number = 0;
    for place in 0..NUMBER_BYTES {
        let (&byte, rest) = from.split_first().ok_or(CodecError::Truncated(what))?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte holds one bit.
        if place == NUMBER_BYTES - 1 && bits > 1 {
            break;
        }
        number |= bits << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(CodecError::Invalid { what, found: u64::MAX })
}

/// A cursor over the bytes to decode.
#[derive(Debug)]
pub(crate) struct Reader {
    bytes: Bytes,
}

impl Reader {
    /// Returns a cursor at the first byte.
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }

    /// Returns an error if bytes are left.
    pub(crate) fn end(self) -> Result<(), CodecError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(CodecError::Trailing(self.bytes.len())) }
    }

    /// Reads one byte. `what` names the value in errors, here and below.
    pub(crate) fn byte(&mut self, what: &'static str) -> Result<u8, CodecError> {
        if self.bytes.is_empty() {
            return Err(CodecError::Truncated(what));
        }
        Ok(self.bytes.get_u8())
    }

    /// Reads a flag. Any byte but 0 and 1 is an error: it would be lost by encoding the value again.
    pub(crate) fn flag(&mut self, what: &'static str) -> Result<bool, CodecError> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(CodecError::Invalid { what, found: found.into() }),
        }
    }

    /// Reads LEB128. A value of more than 64 bits is an error.
    pub(crate) fn number(&mut self, what: &'static str) -> Result<u64, CodecError> {
        // Most numbers are lengths and kinds below 128.
        if let Some(&byte) = self.bytes.first()
            && byte < 0x80
        {
            self.bytes.advance(1);
            return Ok(u64::from(byte));
        }
        let mut rest = &*self.bytes;
        let number = read_number(&mut rest, what)?;
        let used = self.bytes.len() - rest.len();
        self.bytes.advance(used);
        Ok(number)
    }

    /// Reads zigzag LEB128.
    pub(crate) fn signed(&mut self, what: &'static str) -> Result<i64, CodecError> {
        let number = self.number(what)?;
        Ok((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    /// Reads the number of following elements. Each takes at least one byte, so a number above the remaining length is an
    /// error, and nothing is allocated for it.
    pub(crate) fn length(&mut self, what: &'static str) -> Result<usize, CodecError> {
        let number = self.number(what)?;
        match usize::try_from(number) {
            Ok(length) if length <= self.bytes.len() => Ok(length),
            _ => Err(CodecError::Truncated(what)),
        }
    }

    /// Reads a length and that many bytes, as a slice of the input.
    pub(crate) fn slice(&mut self, what: &'static str) -> Result<Bytes, CodecError> {
        let length = self.length(what)?;
        Ok(self.bytes.split_to(length))
    }

    /// Reads eight bytes, the highest first.
    pub(crate) fn eight(&mut self, what: &'static str) -> Result<u64, CodecError> {
        if self.bytes.len() < 8 {
            return Err(CodecError::Truncated(what));
        }
        Ok(self.bytes.get_u64())
    }

    /// Reads a text as a slice of the input: it keeps the whole input alive until it is copied.
    pub(crate) fn text(&mut self, what: &'static str) -> Result<ByteString, CodecError> {
        ByteString::try_from(self.slice(what)?).map_err(|_| CodecError::NotUtf8(what))
    }

    /// Reads a flag for presence, then the value with `read`.
    pub(crate) fn optional<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError> {
        if self.flag(what)? { read(self).map(Some) } else { Ok(None) }
    }

    /// Reads a flag for presence, then a text.
    pub(crate) fn optional_text(&mut self, what: &'static str) -> Result<Option<ByteString>, CodecError> {
        self.optional(what, |reader| reader.text(what))
    }
}
