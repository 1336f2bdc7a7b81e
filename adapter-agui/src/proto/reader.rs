//! Decoding of the protobuf primitives. Texts are slices of the frame and are not copied.

use aqueduct_core::ByteString;
use bytes::{Buf as _, Bytes};

use super::writer::{FIXED64, LENGTH, VARINT};
use crate::error::Error;

/// The deepest nesting of messages that is decoded. Protobuf readers stop at 100 by default; a deeper frame could exhaust the
/// stack.
const MAX_DEPTH: u32 = 100;

/// A cursor over the fields of one message.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    bytes: Bytes,
    depth: u32,
}

/// One field of a message.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    value: FieldValue,
    depth: u32,
}

/// The value of a field by its wire type.
/// `Other` is a 32-bit value, which the schema does not use: it is skipped.
#[derive(Debug, Clone)]
enum FieldValue {
    Varint(u64),
    Fixed64(u64),
    Bytes(Bytes),
    Other,
}

impl Reader {
    /// Returns a reader of a whole frame, at depth 0.
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self { bytes, depth: 0 }
    }

    /// Returns the next field and its number. Returns `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Field)>, Error> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Error::Proto("a field number is too large"))?;
        if number == 0 {
            return Err(Error::Proto("a field has number 0"));
        }
        let value = match (key & 7) as u32 {
            VARINT => FieldValue::Varint(self.varint()?),
            FIXED64 => {
                let value = self.bytes.try_get_u64_le();
                FieldValue::Fixed64(value.map_err(|_| Error::Proto("a number is cut off"))?)
            }
            LENGTH => FieldValue::Bytes(self.delimited()?),
            5 => {
                self.bytes.try_get_u32_le().map_err(|_| Error::Proto("a number is cut off"))?;
                FieldValue::Other
            }
            _ => return Err(Error::Proto("a field has a wire type that proto3 does not have")),
        };
        Ok(Some((number, Field { value, depth: self.depth })))
    }

    /// Reads a number of at most ten bytes.
    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes.try_get_u8().map_err(|_| Error::Proto("a number is cut off"))?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Proto("a number has more than ten bytes"))
    }

    /// Reads a length and that many bytes. A length above the rest of the message is an error, and nothing is allocated for it.
    fn delimited(&mut self) -> Result<Bytes, Error> {
        let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if length > self.bytes.len() {
            return Err(Error::Proto("a field is longer than its message"));
        }
        Ok(self.bytes.split_to(length))
    }
}

impl Field {
    /// Returns the field as text.
    ///
    /// # Errors
    ///
    /// Returns an error if the wire type is not that of bytes, or the bytes are not UTF-8.
    pub(crate) fn text(&self) -> Result<ByteString, Error> {
        let FieldValue::Bytes(bytes) = &self.value else {
            return Err(Error::Proto("a text field does not hold a text"));
        };
        ByteString::try_from(bytes.clone()).map_err(|_| Error::Proto("a text is not UTF-8"))
    }

    /// Returns a reader of a nested message.
    ///
    /// # Errors
    ///
    /// Returns an error if the wire type is not that of bytes, or messages nest too deep.
    pub(crate) fn message(&self) -> Result<Reader, Error> {
        let FieldValue::Bytes(bytes) = &self.value else {
            return Err(Error::Proto("a message field does not hold a message"));
        };
        if self.depth >= MAX_DEPTH {
            return Err(Error::Proto("messages are nested too deeply"));
        }
        Ok(Reader { bytes: bytes.clone(), depth: self.depth + 1 })
    }

    /// Returns the field as an unsigned number, or an error if it has another wire type.
    pub(crate) fn varint(&self) -> Result<u64, Error> {
        match self.value {
            FieldValue::Varint(value) => Ok(value),
            _ => Err(Error::Proto("a number field does not hold a number")),
        }
    }

    /// Returns the field as a signed number, in two's complement, as protobuf's `int64`.
    pub(crate) fn int64(&self) -> Result<i64, Error> {
        self.varint().map(u64::cast_signed)
    }

    /// Returns the field as a double, or an error if it has another wire type.
    pub(crate) fn double(&self) -> Result<f64, Error> {
        match self.value {
            FieldValue::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(Error::Proto("a double field does not hold a double")),
        }
    }
}
