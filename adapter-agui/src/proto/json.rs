//! Arbitrary JSON as `google.protobuf.Value` and `Struct`.
//!
//! If a list or object is split into two fields of one message (which protobuf allows, and no writer does), the later one
//! counts.

use aqueduct_core::Metadata;
use serde_json::{Number, Value};

use super::reader::Reader;
use super::writer::{FIXED64, VARINT, write_key, write_nested, write_text, write_varint};
use crate::error::Error;

// The field numbers of `google.protobuf.Value`.
/// The field numbers of `google.protobuf.Value`.
const NULL: u32 = 1;
const NUMBER: u32 = 2;
const TEXT: u32 = 3;
const BOOL: u32 = 4;
const STRUCT: u32 = 5;
const LIST: u32 = 6;

/// Writes a JSON value as `google.protobuf.Value`. All numbers become doubles: integers above 2^53 lose precision.
pub(super) fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => {
            write_key(NULL, VARINT, out);
            write_varint(0, out);
        }
        Value::Bool(value) => {
            write_key(BOOL, VARINT, out);
            write_varint(u64::from(*value), out);
        }
        Value::Number(number) => {
            write_key(NUMBER, FIXED64, out);
            out.extend_from_slice(&number.as_f64().unwrap_or(f64::NAN).to_le_bytes());
        }
        Value::String(text) => write_text(TEXT, text, out),
        Value::Array(values) => write_nested(LIST, out, |out| {
            for value in values {
                write_nested(1, out, |out| write_value(value, out));
            }
        }),
        Value::Object(members) => write_object(members, out),
    }
}

/// Writes the body of a `Value` that contains an object.
pub(super) fn write_object(members: &Metadata, out: &mut Vec<u8>) {
    write_nested(STRUCT, out, |out| write_struct(members, out));
}

/// Writes the body of a `Struct`: its entries, in the order of a JavaScript object.
pub(super) fn write_struct(members: &Metadata, out: &mut Vec<u8>) {
    let write = |(name, value): (&String, &Value), out: &mut Vec<u8>| {
        write_nested(1, out, |out| {
            if !name.is_empty() {
                write_text(1, name, out);
            }
            write_nested(2, out, |out| write_value(value, out));
        });
    };
    if members.keys().all(|name| array_index(name).is_none()) {
        members.iter().for_each(|member| write(member, out));
        return;
    }
    // JavaScript objects have array indices first, by value; then the rest, in the order of insertion.
    let mut ordered: Vec<_> = members.iter().collect();
    ordered.sort_by_key(|(name, _)| array_index(name).unwrap_or(u64::MAX));
    for member in ordered {
        write(member, out);
    }
}

/// Returns the value of a key that JavaScript treats as an array index (0 to 2^32 - 2, no leading zero).
fn array_index(key: &str) -> Option<u64> {
    let digits = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = key == "0" || !key.starts_with('0');
    (digits && canonical).then(|| key.parse().ok()).flatten().filter(|index| *index < u64::from(u32::MAX))
}

/// Reads a `google.protobuf.Value`. A value without a field is `null`.
pub(super) fn read_value(mut reader: Reader) -> Result<Value, Error> {
    let mut value = Value::Null;
    while let Some((number, field)) = reader.next()? {
        value = match number {
            NULL => Value::Null,
            NUMBER => number_value(field.double()?),
            TEXT => Value::String(String::from(field.text()?)),
            BOOL => Value::Bool(field.varint()? != 0),
            STRUCT => Value::Object(read_struct(field.message()?)?),
            LIST => Value::Array(read_list(field.message()?)?),
            _ => value,
        };
    }
    Ok(value)
}

/// Reads a `google.protobuf.Struct`. Members keep the order of the bytes, which prost's maps would lose.
pub(super) fn read_struct(mut reader: Reader) -> Result<Metadata, Error> {
    let mut members = Metadata::new();
    while let Some((number, field)) = reader.next()? {
        if number != 1 {
            continue;
        }
        let (mut name, mut value) = (String::new(), Value::Null);
        let mut entry = field.message()?;
        while let Some((number, field)) = entry.next()? {
            match number {
                1 => name = String::from(field.text()?),
                2 => value = read_value(field.message()?)?,
                _ => {}
            }
        }
        members.insert(name, value);
    }
    Ok(members)
}

/// Reads a `google.protobuf.ListValue`. Nesting is limited by the reader.
fn read_list(mut reader: Reader) -> Result<Vec<Value>, Error> {
    let mut values = Vec::new();
    while let Some((number, field)) = reader.next()? {
        if number == 1 {
            values.push(read_value(field.message()?)?);
        }
    }
    Ok(values)
}

/// Returns a double as JSON: integers without a fraction, as JavaScript prints them; NaN and infinities as null, as
/// `JSON.stringify` does.
fn number_value(number: f64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "2^53 - 1 is exact as a double")]
    let largest = crate::wire::MAX_SAFE_INTEGER as f64;
    if number.fract() == 0.0 && number.abs() <= largest {
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range, checked above")]
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}
