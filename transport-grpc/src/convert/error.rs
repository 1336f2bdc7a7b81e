//! Why a value cannot be converted.

use thiserror::Error;

/// A value that cannot be converted. Fields are named as in the .proto file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A field that must be there is not.
    #[error("`{field}` is missing: set it")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// Text that is no text.
    #[error("`{field}` is not valid UTF-8")]
    NotUtf8 {
        /// The field.
        field: &'static str,
    },
    /// Text that should be JSON.
    #[error("`{field}` is not valid JSON: {source}")]
    Json {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// JSON that should be an object.
    #[error("`{field}` is not a JSON object")]
    NotAnObject {
        /// The field.
        field: &'static str,
    },
    /// JSON that should be an array.
    #[error("`{field}` is not a JSON array")]
    NotAnArray {
        /// The field.
        field: &'static str,
    },
    /// JSON with more levels than the reader wants.
    #[error("`{field}` is nested deeper than {limit} levels: flatten it")]
    TooDeep {
        /// The field.
        field: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A value of an enum that is not known here: the peer is newer, or did not set it.
    #[error("`{field}` has the value {value}, which is not known here")]
    UnknownKind {
        /// The field.
        field: &'static str,
        /// The value.
        value: i32,
    },
    /// A handle that was not declared, or whose lane or block has ended.
    #[error("{what} {handle} was not declared in this stream")]
    Undeclared {
        /// `lane` or `block`.
        what: &'static str,
        /// The handle.
        handle: u64,
    },
    /// A canonical value that `aqueduct.v1` has no form for.
    #[error("aqueduct.v1 has no form for this {what}")]
    NoForm {
        /// What kind of value.
        what: &'static str,
    },
}
