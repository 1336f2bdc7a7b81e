//! The two leaves of the wire model: [`Text`] and [`Raw`], both borrowed from the frame where possible.
//!
//! An empty `Text` means "not set": `ProtoJSON` omits default values, and some servers print them all (`"filename":
//! ""`), so both must be parsed alike (client rule 5).

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use aqueduct_core::json::borrowed_text;
use serde::de::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A string of the wire model. Borrowed unless it contained escapes.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Text<'a>(pub Cow<'a, str>);

impl<'a> Text<'a> {
    /// Returns a borrowed text.
    pub const fn new(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text, or `None` if it is empty: empty means "not set" everywhere in the model.
    pub fn set(&self) -> Option<&str> {
        if self.0.is_empty() { None } else { Some(&self.0) }
    }

    /// Returns the text with owned content.
    pub fn into_owned(self) -> Text<'static> {
        Text(Cow::Owned(self.0.into_owned()))
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        borrowed_text(deserializer).map(Self)
    }
}

/// Unparsed JSON as text. Checked to be well-formed when it was parsed.
///
/// Metadata and data are kept in this form, because most of them are only passed on: a tree would cost an
/// allocation per member, and would lose the form of numbers.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw<'a>(Cow<'a, str>);

impl Raw<'_> {
    /// Returns the JSON text of a value.
    pub fn from_value(value: &Value) -> Raw<'static> {
        Raw(Cow::Owned(value.to_string()))
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the value. Nesting beyond the limit of the JSON parser (128 levels) is returned as a string, so that it
    /// is not lost.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_else(|_| Value::String(self.0.clone().into_owned()))
    }

    /// Returns the value if it is a non-empty object.
    pub fn to_object(&self) -> Option<serde_json::Map<String, Value>> {
        if self.is_empty_object() {
            return None;
        }
        match self.to_value() {
            Value::Object(map) if !map.is_empty() => Some(map),
            _ => None,
        }
    }

    /// Returns `true` for `null`.
    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }

    /// Returns `true` for objects. The text has no leading whitespace, so its first byte decides.
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    /// Returns `true` for `{}`, which protobuf-backed servers print for "no metadata".
    pub fn is_empty_object(&self) -> bool {
        let inner = self.0.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        inner.is_some_and(|inner| inner.trim_ascii().is_empty())
    }

    /// Returns the same JSON without a copy.
    pub(crate) fn borrowed(&self) -> Raw<'_> {
        Raw(Cow::Borrowed(&self.0))
    }

    /// Returns the JSON with owned content.
    pub fn into_owned(self) -> Raw<'static> {
        Raw(Cow::Owned(self.0.into_owned()))
    }

    /// Parses this JSON into a type that borrows from the same frame.
    pub(crate) fn parse<'s, T: Deserialize<'s>>(&'s self) -> Option<T> {
        serde_json::from_str(&self.0).ok()
    }
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'de RawValue>::deserialize(deserializer).map(|raw| Raw(Cow::Borrowed(raw.get())))
    }
}

/// Unknown members of an object, in their order. Usually empty, which needs no allocation.
#[derive(Clone, Default, PartialEq)]
pub struct Extra<'a>(pub Vec<(Text<'a>, Raw<'a>)>);

impl<'a> Extra<'a> {
    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a member by name.
    pub fn get(&self, name: &str) -> Option<&Raw<'a>> {
        self.0.iter().find(|(key, _)| key.as_str() == name).map(|(_, raw)| raw)
    }

    /// Returns the names and values.
    pub fn to_values(&self) -> impl Iterator<Item = (String, Value)> {
        self.0.iter().map(|(key, raw)| (key.to_string(), raw.to_value()))
    }

    /// Returns the members with owned content.
    pub fn into_owned(self) -> Extra<'static> {
        Extra(self.0.into_iter().map(|(key, raw)| (key.into_owned(), raw.into_owned())).collect())
    }
}

impl fmt::Debug for Extra<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(key, raw)| (key, raw))).finish()
    }
}
