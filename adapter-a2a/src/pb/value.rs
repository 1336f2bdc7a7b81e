//! JSON as protobuf's `Struct` and `Value`, and back.
//!
//! Used for metadata and for data parts. Three things do not survive, because `Struct` cannot represent them: the
//! order of members (its map is sorted by key), the difference between `1` and `1.0` (every number is a double),
//! and integers beyond 2^53, which are rounded.
//!
//! ```text
//! {"n": 1, "x": 1.5, "l": [null]}  ►  Struct { l: [Null], n: 1.0, x: 1.5 }  ►  {"l": [null], "n": 1, "x": 1.5}
//! ```
//!
//! Recursion is bounded by the decoders of both sides: prost and `serde_json` refuse messages that are nested
//! deeper than about a hundred levels.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as PbValue};
use serde_json::{Map, Number, Value};

use crate::wire::Raw;

/// 2^53. Whole doubles below this size are exact integers, and are written without a fraction: a client that sent
/// `1` gets `1` back and not `1.0`, which parsers of integers refuse.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Converts a protobuf value. A `Value` without a kind, which a peer must not send, is `null`.
pub(super) fn to_json(value: PbValue) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        Some(Kind::NumberValue(number)) => json_number(number),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(to_json).collect(),
        Some(Kind::StructValue(object)) => Value::Object(object_to_json(object)),
    }
}

/// Converts a `Struct` into a JSON object.
pub(super) fn object_to_json(object: Struct) -> Map<String, Value> {
    object.fields.into_iter().map(|(key, value)| (key, to_json(value))).collect()
}

/// Converts a number. NaN and the infinities, which JSON does not have, become strings (`"NaN"`, `"inf"`), so
/// that they are not lost.
#[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range")]
fn json_number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
}

/// Converts a JSON value. `NullValue` has one value, 0.
pub(super) fn from_json(value: Value) -> PbValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(list) => {
            Kind::ListValue(ListValue { values: list.into_iter().map(from_json).collect() })
        }
        Value::Object(object) => Kind::StructValue(object_from_json(object)),
    };
    PbValue { kind: Some(kind) }
}

/// Converts a JSON object into a `Struct`.
pub(super) fn object_from_json(object: Map<String, Value>) -> Struct {
    Struct { fields: object.into_iter().map(|(key, value)| (key, from_json(value))).collect() }
}

/// Converts metadata into raw JSON. Returns `None` if they are absent or empty: the wire model has no empty
/// metadata.
pub(super) fn raw_metadata(object: Option<Struct>) -> Option<Raw<'static>> {
    let object = object.filter(|object| !object.fields.is_empty())?;
    Some(Raw::from_value(&Value::Object(object_to_json(object))))
}

/// Converts raw JSON into metadata. Returns `None` if it is not an object, or an empty one.
pub(super) fn metadata_struct(raw: Option<&Raw<'_>>) -> Option<Struct> {
    raw.and_then(Raw::to_object).map(object_from_json)
}
