//! Conversion of primitives: text, JSON, metadata.
//!
//! JSON travels as bytes of text: order of members and numbers of any size stay. Its nesting is checked before it is parsed, so that a small
//! message cannot exhaust the stack.

use std::sync::Arc;

use aqueduct_core::json::is_deeper_than;
use aqueduct_core::{ByteString, Metadata};
use bytes::Bytes;
use serde_json::Value;

use super::ConvertError;

/// The deepest nesting of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonDepth(pub usize);

impl JsonDepth {
    /// The limit of the JSON parser; more would risk a stack overflow.
    pub const MOST: Self = Self(127);
}

/// Returns a text that shares the bytes.
pub(crate) fn text(field: &'static str, bytes: Bytes) -> Result<ByteString, ConvertError> {
    ByteString::try_from(bytes).map_err(|_| ConvertError::NotUtf8 { field })
}

/// Decodes optional UTF-8 text; an error names the field.
pub(crate) fn optional_text(
    field: &'static str,
    bytes: Option<Bytes>,
) -> Result<Option<ByteString>, ConvertError> {
    bytes.map(|bytes| text(field, bytes)).transpose()
}

/// Returns a text in an allocation of its own, for values that outlive the message.
pub(super) fn kept(field: &'static str, bytes: &Bytes) -> Result<ByteString, ConvertError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ConvertError::NotUtf8 { field })?;
    Ok(ByteString::from(text))
}

/// Decodes optional UTF-8 text into memory of its own, so that a long message is not kept alive by a short id.
pub(super) fn optional_kept(
    field: &'static str,
    bytes: Option<&Bytes>,
) -> Result<Option<ByteString>, ConvertError> {
    bytes.map(|bytes| kept(field, bytes)).transpose()
}

/// Returns the shared bytes of a text.
pub(crate) fn to_bytes(text: &ByteString) -> Bytes {
    text.as_bytes().clone()
}

/// Returns a text as bytes, sharing its memory.
pub(super) fn optional_bytes(text: Option<&ByteString>) -> Option<Bytes> {
    text.map(to_bytes)
}

/// Returns the JSON text of a value. `aqueduct.v1` carries JSON as bytes: `google.protobuf.Struct` would lose the order of members
/// and integers above 2^53.
pub(super) fn json_to_bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// Encodes a required value, for which absence means `null`.
pub(super) fn present_json_to_bytes(value: &Value) -> Option<Bytes> {
    (!value.is_null()).then(|| json_to_bytes(value))
}

/// Parses JSON, after a check of its nesting.
pub(super) fn json(field: &'static str, bytes: &Bytes, depth: JsonDepth) -> Result<Value, ConvertError> {
    if is_deeper_than(bytes, depth.0) {
        return Err(ConvertError::TooDeep { field, limit: depth.0 });
    }
    // One check of the whole text is cheaper than the parser's own check of each string.
    let text = std::str::from_utf8(bytes).map_err(|_| ConvertError::NotUtf8 { field })?;
    serde_json::from_str(text).map_err(|source| ConvertError::Json { field, source })
}

/// Decodes optional JSON of at most `depth` levels; an error names the field.
pub(super) fn optional_json(
    field: &'static str,
    bytes: Option<&Bytes>,
    depth: JsonDepth,
) -> Result<Option<Value>, ConvertError> {
    bytes.map(|bytes| json(field, bytes, depth)).transpose()
}

/// Returns the JSON text of metadata.
pub(super) fn metadata_to_bytes(metadata: &Metadata) -> Bytes {
    serde_json::to_vec(metadata).map(Bytes::from).unwrap_or_default()
}

pub(super) fn optional_metadata_to_bytes(metadata: Option<&Arc<Metadata>>) -> Option<Bytes> {
    metadata.map(|metadata| metadata_to_bytes(metadata))
}

/// Decodes optional metadata, which must be a JSON object.
pub(super) fn optional_metadata(
    field: &'static str,
    bytes: Option<&Bytes>,
    depth: JsonDepth,
) -> Result<Option<Arc<Metadata>>, ConvertError> {
    match optional_json(field, bytes, depth)? {
        None => Ok(None),
        Some(Value::Object(metadata)) => Ok(Some(Arc::new(metadata))),
        Some(_) => Err(ConvertError::NotAnObject { field }),
    }
}
