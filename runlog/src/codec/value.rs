//! The encoding of JSON values: exact, including floating-point numbers and the order of members.
//!
//! ```text
//! value := 0 (null) | 1 (false) | 2 (true) | 3 unsigned | 4 signed | 5 float | 6 text | 7 value* | 8 (text value)*
//!          └ one byte, then: LEB128, zigzag LEB128, the 8 bytes of an IEEE 754 double, or a length and that many elements
//! ```
//!
//! JSON text would have to be parsed with every read, and would not keep `1.0` apart from `1` in every parser.

use serde_json::{Map, Number, Value};

use super::read::Reader;
use super::write::Writer;
use super::{CodecError, MAX_DEPTH};

/// The tags of values. They are part of the format.
const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const UNSIGNED: u8 = 3;
const SIGNED: u8 = 4;
const FLOAT: u8 = 5;
const TEXT: u8 = 6;
const ARRAY: u8 = 7;
const OBJECT: u8 = 8;

/// Writes a value.
///
/// # Errors
///
/// Returns [`CodecError::TooDeep`] if arrays and objects nest deeper than [`MAX_DEPTH`].
pub(super) fn write(to: &mut Writer, value: &Value) -> Result<(), CodecError> {
    write_at(to, value, 0)
}

/// Reads a value.
pub(super) fn read(from: &mut Reader) -> Result<Value, CodecError> {
    read_at(from, 0)
}

/// Writes the members of an object without a tag, for fields that are always objects.
pub(super) fn write_map(to: &mut Writer, map: &Map<String, Value>) -> Result<(), CodecError> {
    write_map_at(to, map, 0)
}

/// Reads the members of an object without a tag.
pub(super) fn read_map(from: &mut Reader) -> Result<Map<String, Value>, CodecError> {
    read_map_at(from, 0)
}

/// Writes a value at a depth of nesting. The limit bounds the recursion of the reader, too.
fn write_at(to: &mut Writer, value: &Value, depth: usize) -> Result<(), CodecError> {
    if depth > MAX_DEPTH {
        return Err(CodecError::TooDeep);
    }
    match value {
        Value::Null => to.byte(NULL),
        Value::Bool(false) => to.byte(FALSE),
        Value::Bool(true) => to.byte(TRUE),
        Value::Number(number) => write_number(to, number),
        Value::String(text) => {
            to.byte(TEXT);
            to.text(text);
        }
        Value::Array(items) => {
            to.byte(ARRAY);
            to.length(items.len());
            for item in items {
                write_at(to, item, depth + 1)?;
            }
        }
        Value::Object(map) => {
            to.byte(OBJECT);
            write_map_at(to, map, depth)?;
        }
    }
    Ok(())
}

/// Writes the number of members, then each name and value.
fn write_map_at(to: &mut Writer, map: &Map<String, Value>, depth: usize) -> Result<(), CodecError> {
    to.length(map.len());
    for (key, value) in map {
        to.text(key);
        write_at(to, value, depth + 1)?;
    }
    Ok(())
}

/// Writes a number in the shortest of three forms that keeps it exactly.
fn write_number(to: &mut Writer, number: &Number) {
    if let Some(number) = number.as_u64() {
        to.byte(UNSIGNED);
        to.number(number);
    } else if let Some(number) = number.as_i64() {
        to.byte(SIGNED);
        to.signed(number);
    } else {
        to.byte(FLOAT);
        let bits = number.as_f64().unwrap_or_default().to_bits();
        to.bytes.extend_from_slice(&bits.to_be_bytes());
    }
}

/// Reads a value at a depth of nesting. Bytes that nest deeper are refused before they are recursed
/// into.
fn read_at(from: &mut Reader, depth: usize) -> Result<Value, CodecError> {
    if depth > MAX_DEPTH {
        return Err(CodecError::TooDeep);
    }
    Ok(match from.byte("a value")? {
        NULL => Value::Null,
        FALSE => Value::Bool(false),
        TRUE => Value::Bool(true),
        UNSIGNED => Value::Number(from.number("a number")?.into()),
        SIGNED => Value::Number(from.signed("a number")?.into()),
        FLOAT => {
            let bits = from.eight("a number")?;
            let number = Number::from_f64(f64::from_bits(bits));
            Value::Number(number.ok_or(CodecError::Invalid { what: "a number", found: bits })?)
        }
        TEXT => Value::String(from.text("a text")?.to_string()),
        ARRAY => {
            let length = from.length("an array")?;
            (0..length).map(|_| read_at(from, depth + 1)).collect::<Result<Vec<_>, _>>().map(Value::Array)?
        }
        OBJECT => Value::Object(read_map_at(from, depth)?),
        found => return Err(CodecError::Invalid { what: "the kind of a value", found: found.into() }),
    })
}

fn read_map_at(from: &mut Reader, depth: usize) -> Result<Map<String, Value>, CodecError> {
    let length = from.length("an object")?;
    let entry = |_| Ok((from.text("a key")?.to_string(), read_at(from, depth + 1)?));
    (0..length).map(entry).collect()
}
