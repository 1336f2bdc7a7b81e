//! The values of members: texts, numbers, lists, arbitrary JSON, and enumerations.
//!
//! This module implements `FromWire` (how a member is read, and whether it is written) for the
//! types of which the macros of [`declare`](super::declare) compose objects. Rules
//! that hold for all of them:
//!
//! | JSON | read as |
//! |---|---|
//! | member absent | `None` for `Option`, otherwise an error "missing" |
//! | `null` for an optional member | an error in strict mode, `None` in lenient mode |
//! | `1.0` for an integer | `1` |
//! | `1.5` for an integer | an error in strict mode, `1` in lenient mode |
//! | an integer beyond 53 bits | an error in both modes |
//! | an unknown word of an enumeration | an error: only unions have a variant for unknown kinds |

use aqueduct_core::{ByteString, Metadata};
use serde_json::Value;

use super::object::{At, FromWire, Strictness};
use crate::error::WireError;

/// The largest integer that every JSON reader represents exactly (2^53 - 1).
///
/// AG-UI clients are JavaScript programs, which read all numbers as doubles. A larger integer would
/// arrive with another value, so it is rejected on input and omitted on output.
pub const MAX_SAFE_INTEGER: i64 = 9_007_199_254_740_991;

impl FromWire for ByteString {
    const EXPECTED: &'static str = "a string";

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        match value {
            Value::String(text) => Ok(Self::from(text)),
            other => Err(at.wrong(Self::EXPECTED, &other)),
        }
    }
}

impl FromWire for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        value.as_bool().ok_or_else(|| at.wrong(Self::EXPECTED, &value))
    }
}

impl FromWire for i64 {
    const EXPECTED: &'static str = "an integer of at most 53 bits";

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        integer(&value, at.strictness).ok_or_else(|| at.wrong(Self::EXPECTED, &value))
    }
}

impl FromWire for u64 {
    const EXPECTED: &'static str = "a count of at most 53 bits";

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        integer(&value, at.strictness)
            .and_then(|count| Self::try_from(count).ok())
            .ok_or_else(|| at.wrong(Self::EXPECTED, &value))
    }
}

/// Returns an integer, also if it is written as `1.0`; in lenient mode a fraction is rounded down.
///
/// Lenient mode exists for timestamps with a fraction, which 0.0.59 accepts. Returns `None` for
/// anything but a number, for a fraction in strict mode, and for a value beyond
/// [`MAX_SAFE_INTEGER`].
fn integer(value: &Value, strictness: Strictness) -> Option<i64> {
    // A number with a fraction or an exponent is not an `i64` for `serde_json`, even if its value is
    // whole.
    let exact = value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        let whole = number.floor();
        #[expect(clippy::cast_precision_loss, reason = "2^53 - 1 is exact as a double")]
        let in_range = whole.abs() <= MAX_SAFE_INTEGER as f64;
        let allowed = (number - whole).abs() < f64::EPSILON || strictness == Strictness::Forgiving;
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range, checked here")]
        (in_range && allowed).then_some(whole as i64)
    })?;
    (exact.unsigned_abs() <= MAX_SAFE_INTEGER.unsigned_abs()).then_some(exact)
}

impl FromWire for Value {
    const EXPECTED: &'static str = "any JSON value";

    fn from_wire(value: Value, _at: &At<'_>) -> Result<Self, WireError> {
        Ok(value)
    }
}

impl FromWire for Metadata {
    const EXPECTED: &'static str = "an object";

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        super::object::members(value, at)
    }
}

/// An optional member. `null` is not the same as absent: an AG-UI client ends the stream at most of
/// them (the verifier's `null-optional` has the exceptions), so strict mode rejects it.
impl<T: FromWire> FromWire for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        match (value, at.strictness) {
            (Value::Null, Strictness::Strict) => Err(at.null(T::EXPECTED)),
            (Value::Null, Strictness::Forgiving) => Ok(None),
            (value, _) => T::from_wire(value, at).map(Some),
        }
    }

    fn from_absent(_at: &At<'_>) -> Result<Self, WireError> {
        Ok(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// A list. One invalid element makes the whole list invalid; the error contains its index, as
/// `messages[3].role`.
impl<T: FromWire> FromWire for Vec<T> {
    const EXPECTED: &'static str = "an array";

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        let Value::Array(values) = value else { return Err(at.wrong(Self::EXPECTED, &value)) };
        values.into_iter().enumerate().map(|(index, value)| T::from_wire(value, &at.index(index))).collect()
    }
}

impl<T: FromWire> FromWire for Box<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_wire(value: Value, at: &At<'_>) -> Result<Self, WireError> {
        T::from_wire(value, at).map(Self::new)
    }
}

/// Declares enumerations whose values are words on the wire, with the readers and writers of both
/// encodings.
///
/// ```text
/// words! {
///     pub enum ResumeStatus ("\"resolved\" or \"cancelled\"") {
///         #[default]
///         Resolved = "resolved",
///         Cancelled = "cancelled",
///     }
/// }
/// ```
///
/// The literal in parentheses describes the expected value in error messages. One variant needs
/// `#[default]`: reading a protobuf field starts from the default value.
macro_rules! words {
    ($(
        $(#[$doc:meta])*
        pub enum $name:ident ($expected:literal) { $( $(#[$variant_doc:meta])* $variant:ident = $wire:literal ,)+ }
    )+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $name { $( $(#[$variant_doc])* $variant, )+ }

        impl $name {
            /// Returns the word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $wire, )+ }
            }

            /// Returns the value of a word.
            /// The comparison is exact: the protocol defines all words in one spelling.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $( $wire => Some(Self::$variant), )+ _ => None }
            }
        }

        impl crate::wire::object::FromWire for $name {
            const EXPECTED: &'static str = $expected;

            fn from_wire(
                value: serde_json::Value,
                at: &crate::wire::object::At<'_>,
            ) -> Result<Self, crate::error::WireError> {
                value.as_str().and_then(Self::from_word).ok_or_else(|| at.wrong($expected, &value))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        crate::wire::declare::deserialize_strictly!($name);

        #[cfg(feature = "proto")]
        impl crate::proto::ProtoField for $name {
            fn write(&self, tag: u32, out: &mut Vec<u8>) {
                crate::proto::write_text(tag, self.as_str(), out);
            }

            fn read(&mut self, field: &crate::proto::Field) -> Result<(), crate::error::Error> {
                *self = Self::from_word(&field.text()?)
                    .ok_or(crate::error::Error::Proto(concat!("expected ", $expected)))?;
                Ok(())
            }
        }
    )+ };
}

pub(crate) use words;
