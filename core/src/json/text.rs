//! JSON strings without a copy.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error, Visitor};

/// Deserializes a string, borrowed from the input if it contains no escapes.
///
/// `Cow<str>` of serde copies unless its field has the attribute `borrow`, which neither aliases nor hand-written visitors
/// can have.
///
/// # Errors
///
/// Returns an error if the value is not a string.
///
/// # Examples
///
/// ```
/// use std::borrow::Cow;
/// use aqueduct_core::json::borrowed_text;
///
/// let text = borrowed_text(&mut serde_json::Deserializer::from_str(r#""plain""#))?;
/// assert!(matches!(text, Cow::Borrowed("plain")));
/// let text = borrowed_text(&mut serde_json::Deserializer::from_str(r#""two\nlines""#))?;
/// assert!(matches!(text, Cow::Owned(_)));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn borrowed_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    deserializer.deserialize_str(TextVisitor)
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text))
    }
}
