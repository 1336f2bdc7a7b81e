//! Decoding of the framework's objects: declared fields by name, unknown ones kept, nothing copied.
//!
//! The framework drops `None` and the recorders write `null`, so an absent field, a `null` and a default are equal. A field
//! of a wrong type is an error of the whole object: the caller then passes the line on unchanged.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use aqueduct_core::json::borrowed_text;
use bytestring::ByteString;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON string: a slice of the line if it has no escapes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text<'de>(Cow<'de, str>);

impl Text<'_> {
    /// Returns the text as a shared string: a slice of `line` if possible, otherwise a copy.
    pub fn share(&self, line: &ByteString) -> ByteString {
        share(line, &self.0)
    }
}

/// Returns `part` as a slice of `line` if it lies in it, otherwise as a copy.
pub(crate) fn share(line: &ByteString, part: &str) -> ByteString {
    let (outer, inner) = (line.as_bytes().as_ptr_range(), part.as_bytes().as_ptr_range());
    if outer.start <= inner.start && inner.end <= outer.end {
        line.slice_ref(part)
    } else {
        ByteString::from(part)
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        borrowed_text(deserializer).map(Self)
    }
}

/// The role of a message: a string, or in the older classes `{"type": "role", "value": string}`.
#[derive(Debug, Clone, Default)]
pub struct RoleName<'de>(Text<'de>);

impl Deref for RoleName<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for RoleName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RoleVisitor;
        impl<'de> Visitor<'de> for RoleVisitor {
            type Value = RoleName<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a role")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(RoleName(Text(Cow::Borrowed(text))))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(RoleName(Text(Cow::Owned(text.to_owned()))))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut role = RoleName::default();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    if &*key == "value" {
                        role = RoleName(map.next_value::<Option<Text<'de>>>()?.unwrap_or_default());
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(role)
            }
        }
        deserializer.deserialize_any(RoleVisitor)
    }
}

/// Unparsed JSON of a line.
#[derive(Debug, Clone, Copy)]
pub struct Json<'de>(&'de RawValue);

impl<'de> Json<'de> {
    /// Returns the JSON text.
    pub fn as_str(self) -> &'de str {
        self.0.get()
    }

    /// Parses the JSON as an object of the framework. Returns `None` if it has another form.
    pub fn read<T: Deserialize<'de>>(self) -> Option<T> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// Returns the string, if it is one.
    pub fn text(self) -> Option<Text<'de>> {
        if self.as_str().starts_with('"') { self.read() } else { None }
    }

    /// Returns the elements, if it is a list.
    pub fn list(self) -> Option<Vec<Json<'de>>> {
        if self.as_str().starts_with('[') { self.read() } else { None }
    }

    /// Returns the first field of an object, if its value is a plain string: the framework writes `type` or `__class__` first, so
    /// most payloads are identified without parsing them.
    pub fn first_field(self) -> Option<(&'de str, &'de str)> {
        fn string(text: &str) -> Option<(&str, &str)> {
            let (string, rest) = text.strip_prefix('"')?.split_once('"')?;
            (!string.contains('\\')).then(|| (string, rest.trim_start()))
        }
        let (key, rest) = string(self.as_str().strip_prefix('{')?.trim_start())?;
        let (value, _) = string(rest.strip_prefix(':')?.trim_start())?;
        Some((key, value))
    }

    /// Returns the parsed value.
    pub fn value(self) -> Value {
        self.read().unwrap_or_default()
    }

    /// Returns `true` for `{}` and `[]`.
    pub fn is_empty(self) -> bool {
        let inner = self.as_str().strip_prefix(['{', '[']).and_then(|rest| rest.strip_suffix(['}', ']']));
        inner.is_some_and(|inner| inner.trim().is_empty())
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'de RawValue>::deserialize(deserializer).map(Json)
    }
}

/// Unknown fields, unchanged.
pub type Unknown<'de> = Vec<(Text<'de>, Json<'de>)>;

/// The visitor of the objects that the macro below declares.
pub(crate) struct ObjectVisitor<T>(pub(crate) PhantomData<T>);

/// The handling of one field of a [`wire_object!`].
pub(crate) trait WireObject<'de>: Default {
    fn field<A: MapAccess<'de>>(&mut self, key: Text<'de>, map: &mut A) -> Result<(), A::Error>;
}

impl<'de, T: WireObject<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut object = T::default();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            object.field(key, &mut map)?;
        }
        Ok(object)
    }
}

/// Declares an object of the framework: each field with its name on the wire.
macro_rules! wire_object {
    (
        $(#[$doc:meta])*
        pub struct $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty = $key:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default)]
        pub struct $name<'de> {
            $($(#[$field_doc])* pub $field: $ty,)*
            /// Unknown fields, unchanged.
            pub unknown: $crate::wire::Unknown<'de>,
        }

        impl<'de> $crate::wire::object::WireObject<'de> for $name<'de> {
            fn field<A: serde::de::MapAccess<'de>>(
                &mut self,
                key: $crate::wire::Text<'de>,
                map: &mut A,
            ) -> Result<(), A::Error> {
                match &*key {
                    $($key => self.$field = map.next_value::<Option<$ty>>()?.unwrap_or_default(),)*
                    _ => {
                        let value = map.next_value()?;
                        self.unknown.push((key, value));
                    }
                }
                Ok(())
            }
        }

        impl<'de> serde::de::Deserialize<'de> for $name<'de> {
            fn deserialize<D: serde::de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map($crate::wire::object::ObjectVisitor(std::marker::PhantomData))
            }
        }
    };
}
pub(crate) use wire_object;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_is_told_only_where_it_is_plain() {
        let first = |text: &'static str| serde_json::from_str::<Json<'_>>(text).unwrap().first_field();
        assert_eq!(first(r#"{"type": "message", "x": 1}"#), Some(("type", "message")));
        assert_eq!(first(r#"{ "__class__" : "A" }"#), Some(("__class__", "A")));
        for other in
            ["{}", "[]", "7", r#""x""#, r#"{"type": 7}"#, r#"{"type": "a\"b"}"#, r#"{"ty\u0070e": "a"}"#]
        {
            assert_eq!(first(other), None, "{other}");
        }
    }

    #[test]
    fn text_without_escapes_is_a_slice_of_the_line() {
        let line = ByteString::from(r#"["plain", "with \n escape"]"#);
        let texts: Vec<Text<'_>> = serde_json::from_str(&line).unwrap();
        let range = line.as_bytes().as_ptr_range();
        assert!(range.contains(&texts[0].share(&line).as_bytes().as_ptr()));
        assert!(!range.contains(&texts[1].share(&line).as_bytes().as_ptr()));
        assert_eq!(texts[1].share(&line), "with \n escape");
    }
}
