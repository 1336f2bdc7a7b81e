//! [`ConvertError`]: why a value cannot be converted.

use thiserror::Error;

/// Why a value cannot be converted. Fields are named as in the .proto file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A required field is missing.
    #[error("`{field}` is missing: set it")]
    Missing {
        /// The name of the field.
        field: &'static str,
    },
    /// A text is not valid UTF-8.
    #[error("`{field}` is not valid UTF-8: encode it as UTF-8")]
    NotUtf8 {
        /// The name of the field.
        field: &'static str,
    },
    /// A text is not valid JSON.
    #[error("`{field}` is not valid JSON: {source}")]
    Json {
        /// The name of the field.
        field: &'static str,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A JSON value is not an object.
    #[error("`{field}` is not a JSON object: send one")]
    NotAnObject {
        /// The name of the field.
        field: &'static str,
    },
    /// A JSON value is not an array.
    #[error("`{field}` is not a JSON array: send one")]
    NotAnArray {
        /// The name of the field.
        field: &'static str,
    },
    /// A JSON value is nested too deep.
    #[error("`{field}` is nested deeper than {limit} levels: flatten it")]
    TooDeep {
        /// The name of the field.
        field: &'static str,
        /// The value of the limit.
        limit: usize,
    },
    /// An unknown value of an enum: the peer is newer, or did not set it.
    #[error("`{field}` has the unknown value {value}: set it, or upgrade this side")]
    UnknownKind {
        /// The name of the field.
        field: &'static str,
        /// The unknown value.
        value: i32,
    },
    /// A handle was not declared, or its lane or block has ended.
    #[error("{what} {handle} was not declared in this stream: declare it before its first use")]
    Undeclared {
        /// `lane` or `block`.
        what: &'static str,
        /// The undeclared handle.
        handle: u64,
    },
    /// A canonical value without form in `aqueduct.v1`.
    #[error("aqueduct.v1 has no form for this {what}")]
    NoForm {
        /// The kind of value.
        what: &'static str,
    },
}
