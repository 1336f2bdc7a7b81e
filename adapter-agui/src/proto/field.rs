//! The encoding of the types of [`wire`](crate::wire) as protobuf fields.
//!
//! | Rust | wire type |
//! |---|---|
//! | text, nested message, JSON as `google.protobuf.Value` | length-delimited |
//! | numbers, enums, flags | varint |
//! | doubles | 64 bits |
//! | lists | one field per element |
//! | `Option` | absent, or the value |

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::json::{read_struct, read_value, write_struct, write_value};
use super::reader::{Field, Reader};
use super::writer::{VARINT, write_key, write_nested, write_text, write_varint};
use crate::error::Error;
use crate::wire::{MAX_SAFE_INTEGER, MaybeValue, OpenObject};

/// A value that can be a field.
pub(crate) trait ProtoField {
    /// Writes the field, also for the default value. (Only plain texts are omitted if empty.)
    fn write(&self, tag: u32, out: &mut Vec<u8>);

    /// Reads the field: a later one replaces an earlier one, a repeated one is appended.
    fn read(&mut self, field: &Field) -> Result<(), Error>;

    /// Writes the field where its presence has a meaning.
    fn write_present(&self, tag: u32, out: &mut Vec<u8>) {
        self.write(tag, out);
    }
}

/// A message with numbered fields.
pub(crate) trait ProtoMessage: Default {
    /// Appends all fields that are set, in the order of their numbers.
    fn write_fields(&self, out: &mut Vec<u8>);

    /// Reads one field. A field that occurs again replaces or, for lists, extends the value.
    fn read_field(&mut self, number: u32, field: &Field) -> Result<(), Error>;
}

/// Reads all fields into `message`.
pub(crate) fn merge<M: ProtoMessage>(message: &mut M, mut reader: Reader) -> Result<(), Error> {
    while let Some((number, field)) = reader.next()? {
        message.read_field(number, &field)?;
    }
    Ok(())
}

impl ProtoField for ByteString {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        // proto3 does not write the default of a plain field.
        if !self.is_empty() {
            write_text(tag, self, out);
        }
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        *self = field.text()?;
        Ok(())
    }

    fn write_present(&self, tag: u32, out: &mut Vec<u8>) {
        write_text(tag, self, out);
    }
}

impl ProtoField for bool {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        write_key(tag, VARINT, out);
        write_varint(u64::from(*self), out);
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        *self = field.varint()? != 0;
        Ok(())
    }
}

impl ProtoField for i64 {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        write_key(tag, VARINT, out);
        write_varint(self.cast_unsigned(), out);
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        // JavaScript peers cannot represent a larger integer, and the JSON reader rejects it as well.
        let value = field.int64()?;
        if value.unsigned_abs() > MAX_SAFE_INTEGER.unsigned_abs() {
            return Err(Error::Proto("an integer has more than 53 bits"));
        }
        *self = value;
        Ok(())
    }
}

impl ProtoField for u64 {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        write_key(tag, VARINT, out);
        write_varint(*self, out);
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        let mut count = 0_i64;
        count.read(field)?;
        *self = Self::try_from(count).map_err(|_| Error::Proto("a count is negative"))?;
        Ok(())
    }
}

impl ProtoField for Value {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        write_nested(tag, out, |out| write_value(self, out));
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        *self = read_value(field.message()?)?;
        Ok(())
    }
}

impl ProtoField for Metadata {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        write_nested(tag, out, |out| write_struct(self, out));
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        *self = read_struct(field.message()?)?;
        Ok(())
    }
}

/// An object in a field of type `Value`, where `Metadata` is in a field of type `Struct`.
impl ProtoField for OpenObject {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        write_nested(tag, out, |out| super::json::write_object(&self.0, out));
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        match read_value(field.message()?)? {
            Value::Object(members) => self.0 = members,
            _ => return Err(Error::Proto("an object field does not hold an object")),
        }
        Ok(())
    }
}

impl ProtoField for MaybeValue {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        // The reference implementation treats an optional null as absent before it writes.
        if let Some(value) = self.0.as_ref().filter(|value| !value.is_null()) {
            value.write(tag, out);
        }
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        self.0.read(field)
    }
}

/// Absent, or written even if it is the default: `optional` in the schema.
impl<T: ProtoField + Default> ProtoField for Option<T> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write_present(tag, out);
        }
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        self.get_or_insert_default().read(field)
    }
}

/// One field per element. An empty list and an absent one have the same bytes.
impl<T: ProtoField + Default> ProtoField for Vec<T> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        for value in self {
            value.write_present(tag, out);
        }
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        let mut value = T::default();
        value.read(field)?;
        self.push(value);
        Ok(())
    }
}

impl<T: ProtoField> ProtoField for Box<T> {
    fn write(&self, tag: u32, out: &mut Vec<u8>) {
        (**self).write(tag, out);
    }

    fn read(&mut self, field: &Field) -> Result<(), Error> {
        (**self).read(field)
    }
}
